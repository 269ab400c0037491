#pragma once

#include <tendril/tensor/error.h>
#include <tendril/tensor/state_dict.h>

#include <string>

namespace language_model {

/// All parts of a model, wherever they live, under the names that they have in one process: a part of a checkpoint
/// which a model whose parts live elsewhere loads too. Refers to the model.
template <class Model>
class WholeModel {
 public:
  explicit WholeModel(Model& model) : model_(model) {}

  tendril::StateDict state_dict() const {
    tendril::StateDict all;
    for_each_part(model_, [&all](const std::string& name, auto& part) {
      const tendril::StateDict state = part.state_dict();
      name.empty() ? void(all = state) : all.insert(name, state);
    });
    return all;
  }
  tendril::LoadReport load_state_dict(const tendril::StateDict& dict, const tendril::LoadOptions& options = {}) {
    std::size_t known = 0;
    tendril::LoadReport all;
    for_each_part(model_, [&](const std::string& name, auto& part) {
      const tendril::StateDict mine = name.empty() ? dict : dict.section(name);
      known += mine.size();
      tendril::LoadReport report = part.load_state_dict(mine, options);
      for (auto& one : report.missing) all.missing.push_back(std::move(one));
      for (auto& one : report.unexpected) all.unexpected.push_back(std::move(one));
    });
    TENDRIL_CHECK(known == dict.size(), "a model of other parts: it has ", dict.size(), " entries, expected ", known);
    return all;
  }

 private:
  Model& model_;
};

}  // namespace language_model

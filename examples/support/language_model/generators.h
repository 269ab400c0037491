#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "../../language_model/model.h"

namespace language_model {

/// Seed and offset of the generator of each Part at and below a module, one after the other.
std::vector<std::int64_t> generator_states(nn::Module& module);
/// The same number of them.
void set_generator_states(nn::Module& module, const std::vector<std::int64_t>& states);

/// What modules' parts draw from, here or elsewhere: a part of a checkpoint.
class Generators {
 public:
  /// Of a module here, to which it refers.
  explicit Generators(nn::Module& module)
      : of_{{[&module] { return generator_states(module); },
             [&module](const std::vector<std::int64_t>& states) { set_generator_states(module, states); }}} {}
  /// And of another worker's.
  template <class M>
  void add(const tendril::rpc::RRef<M>& module) {
    of_.push_back({[module] { return tendril::rpc::rpc_sync<&states_there<M>>(module.owner(), module); },
                   [module](const std::vector<std::int64_t>& states) {
                     tendril::rpc::rpc_sync<&set_there<M>>(module.owner(), module, states);
                   }});
  }

  tendril::StateDict state_dict() const;
  tendril::LoadReport load_state_dict(const tendril::StateDict& dict, const tendril::LoadOptions& options = {});

 private:
  struct OfModule {
    std::function<std::vector<std::int64_t>()> get;
    std::function<void(const std::vector<std::int64_t>&)> set;
  };
  template <class M>
  static std::vector<std::int64_t> states_there(const tendril::rpc::RRef<M>& module) {
    return generator_states(module.local_value());
  }
  template <class M>
  static void set_there(const tendril::rpc::RRef<M>& module, const std::vector<std::int64_t>& states) {
    set_generator_states(module.local_value(), states);
  }

  std::vector<OfModule> of_;
};

}  // namespace language_model

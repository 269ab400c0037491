#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "../../language_model/model.h"

namespace language_model {

/// Seed and offset of the generator of each Part at and below a module, one after the other. Then sets them to `next`,
/// as many, unless it is empty.
std::vector<std::int64_t> generator_states(nn::Module& module, const std::vector<std::int64_t>& next);

/// What modules' parts draw from, here or elsewhere: a part of a checkpoint.
class Generators {
 public:
  /// Of a module here, to which it refers.
  void add(nn::Module& module) {
    of_.push_back([&module](const States& next) { return generator_states(module, next); });
  }
  /// Of another worker's.
  template <class M>
  void add(const dist::RemoteModule<M>& module) {
    of_.push_back([rref = module.module_rref()](const States& next) {
      return rpc::rpc_sync<&states_there<M>>(rref.owner(), rref, next);
    });
  }

  StateDict state_dict() const;
  void load_state_dict(const StateDict& dict, const LoadOptions& options);

 private:
  using States = std::vector<std::int64_t>;
  template <class M>
  static States states_there(const rpc::RRef<M>& module, const States& next) {
    return generator_states(module.local_value(), next);
  }

  std::vector<std::function<States(const States& next)>> of_;
};

}  // namespace language_model

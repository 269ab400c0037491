#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "model.h"

namespace language_model {

/// Returns seed and offset of the generator of each Part at or below a module, concatenated. Then sets them to `next`,
/// which must have the same length, unless it is empty.
std::vector<std::int64_t> generator_states(nn::Module& module, const std::vector<std::int64_t>& next);

/// The generators of local and remote modules, as one part of a checkpoint.
class Generators {
 public:
  /// Adds the generators of a local module, which must outlive this object.
  void add(nn::Module& module) {
    of_.push_back([&module](const States& next) { return generator_states(module, next); });
  }
  /// Adds the generators of a remote module.
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

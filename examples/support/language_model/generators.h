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

/// What a module's parts draw from, here or elsewhere: a part of a checkpoint.
class Generators {
 public:
  /// Of a module here, to which it refers.
  explicit Generators(nn::Module& module)
      : get_([&module] { return generator_states(module); }),
        set_([&module](const std::vector<std::int64_t>& states) { set_generator_states(module, states); }) {}
  /// Of another worker's.
  template <class M>
  explicit Generators(const tendril::rpc::RRef<M>& module)
      : get_([module] { return tendril::rpc::rpc_sync<&states_there<M>>(module.owner(), module); }),
        set_([module](const std::vector<std::int64_t>& states) {
          tendril::rpc::rpc_sync<&set_there<M>>(module.owner(), module, states);
        }) {}

  tendril::StateDict state_dict() const;
  tendril::LoadReport load_state_dict(const tendril::StateDict& dict, const tendril::LoadOptions& options = {});

 private:
  template <class M>
  static std::vector<std::int64_t> states_there(const tendril::rpc::RRef<M>& module) {
    return generator_states(module.local_value());
  }
  template <class M>
  static void set_there(const tendril::rpc::RRef<M>& module, const std::vector<std::int64_t>& states) {
    set_generator_states(module.local_value(), states);
  }

  std::function<std::vector<std::int64_t>()> get_;
  std::function<void(const std::vector<std::int64_t>&)> set_;
};

}  // namespace language_model

#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tendril/rpc/call_context.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/state_dict.h"

TENDRIL_API_BEGIN

/// What modules and optimizers on other workers are asked with.
namespace tendril::dist::detail {

/// A StateDict as it travels.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

/// Copies: what is sent to oneself would share elements with who goes on changing them.
inline NamedTensors entries_of(const StateDict& dict) {
  const StateDict copy = dict.clone();
  return {copy.begin(), copy.end()};
}
inline StateDict dict_of(const NamedTensors& entries) {
  StateDict dict;
  for (const auto& [name, tensor] : entries) dict.insert(name, tensor);
  return dict;
}

/// Calls made in its scope belong to no autograd context: the workers that they reach have nothing to release.
class Unrecorded {
 public:
  Unrecorded() : scope_(without_autograd()) {}

 private:
  static rpc::CallContext without_autograd() {
    rpc::CallContext context = rpc::CallContext::current();
    context.autograd_context = 0;
    return context;
  }
  rpc::CallContextScope scope_;
};

}  // namespace tendril::dist::detail

TENDRIL_API_END

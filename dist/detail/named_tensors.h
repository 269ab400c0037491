#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tendril/rpc/call_context.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/state_dict.h"

TENDRIL_API_BEGIN

/// Arguments and contexts of calls to modules and optimizers on other workers.
namespace tendril::dist::detail {

/// A StateDict in the form that is sent.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

/// Copies the tensors, because a call to this worker would share elements that the owner continues to change.
inline NamedTensors entries_of(const StateDict& dict) {
  const StateDict copy = dict.clone();
  return {copy.begin(), copy.end()};
}
inline StateDict dict_of(const NamedTensors& entries) {
  StateDict dict;
  for (const auto& [name, tensor] : entries) dict.insert(name, tensor);
  return dict;
}

/// Calls made in its scope do not belong to an autograd context, so the workers that they reach have nothing to
/// release.
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

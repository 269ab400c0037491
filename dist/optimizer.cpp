#include "tendril/dist/optimizer.h"

#include "tendril/tensor/error.h"

namespace tendril::dist {

std::vector<rpc::RRef<Tensor>> parameter_rrefs(rpc::Agent& agent, const nn::Module& module) {
  std::vector<rpc::RRef<Tensor>> rrefs;
  for (Tensor& parameter : module.parameters()) rrefs.emplace_back(agent, std::move(parameter));
  return rrefs;
}

std::vector<rpc::RRef<Tensor>> parameter_rrefs(const nn::Module& module) {
  return parameter_rrefs(*rpc::default_agent(), module);
}

namespace detail {

std::mutex& step_mutex() {
  static std::mutex mutex;
  return mutex;
}

std::vector<Tensor> local_tensors(const std::vector<rpc::RRef<Tensor>>& params) {
  std::vector<Tensor> tensors;
  tensors.reserve(params.size());
  for (const rpc::RRef<Tensor>& param : params) tensors.push_back(param.local_value());
  return tensors;
}

std::vector<Tensor> gradients_of(const autograd::Container& container, autograd::ContextId context,
                                 const std::vector<Tensor>& params) {
  std::vector<Tensor> found;
  if (!container.contains(context)) return found;
  const autograd::Gradients gradients = container.gradients(context);
  if (gradients.empty()) return found;
  found.reserve(params.size());
  for (const Tensor& param : params) found.push_back(gradients.find(param));
  return found;
}

std::map<rpc::WorkerId, std::vector<rpc::RRef<Tensor>>> by_owner(const std::vector<rpc::RRef<Tensor>>& params,
                                                                 const std::string& op) {
  TENDRIL_CHECK(!params.empty(), op, ": params: got an empty list, expected at least one parameter");
  std::map<rpc::WorkerId, std::vector<rpc::RRef<Tensor>>> grouped;
  for (std::size_t i = 0; i < params.size(); ++i) {
    TENDRIL_CHECK(params[i], op, ": params[", i, "] refers to nothing");
    grouped[params[i].owner().id].push_back(params[i]);
  }
  return grouped;
}

std::string reason_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const rpc::RemoteError& remote) {
    return remote.type() + ": " + remote.message();
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

void throw_failures(const std::string& op, std::vector<OptimizerError::Failure> failures, std::size_t owners) {
  std::string message = op + ": " + std::to_string(failures.size()) + " of " + std::to_string(owners) +
                        (owners == 1 ? " owner failed" : " owners failed");
  for (const OptimizerError::Failure& failure : failures) {
    message += "; worker '" + failure.worker.name + "': " + failure.reason;
  }
  throw OptimizerError(message, std::move(failures));
}

void check_known(const autograd::Container& container, autograd::ContextId context, const std::string& op) {
  TENDRIL_CHECK_AS(AutogradError, container.contains(context), op, ": autograd context ", autograd::worker_of(context),
                   ".", autograd::number_of(context), " is unknown on worker '", container.self().name,
                   "', or it was released");
}

}  // namespace detail
}  // namespace tendril::dist

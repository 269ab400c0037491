#include "tendril/dist/optimizer.h"

#include <algorithm>
#include <cmath>

#include "tendril/nn/utils/clip_grad.h"
#include "tendril/rpc/executor.h"
#include "tendril/tensor/error.h"
#include "tendril/tensor/raw.h"

namespace tendril::dist {

std::vector<rpc::RRef<Tensor>> parameter_rrefs(rpc::Agent& agent, const nn::Module& module) {
  std::vector<rpc::RRef<Tensor>> rrefs;
  for (Tensor& parameter : module.parameters()) rrefs.emplace_back(agent, std::move(parameter));
  return rrefs;
}

std::vector<rpc::RRef<Tensor>> parameter_rrefs(const nn::Module& module) {
  return parameter_rrefs(*rpc::default_agent(), module);
}

ReadParameters::ReadParameters()
    : parameters_([] {
        const auto census = autograd::Container::current()->census();
        return std::shared_ptr<rpc::detail::SharedMutex>(census, &census->parameters);
      }()),
      lock_(*parameters_, std::try_to_lock) {
  if (!lock_.owns_lock()) rpc::blocking([&] { lock_.lock(); });
}

namespace detail {

std::unique_lock<rpc::detail::SharedMutex> step_lock(Census& census) {
  std::unique_lock lock(census.parameters, std::try_to_lock);
  if (!lock.owns_lock()) rpc::blocking([&] { lock.lock(); });
  return lock;
}

Tensor unversioned(const Tensor& param) {
  TENDRIL_CHECK(param.device() == kCPU, "DistributedOptimizer: hogwild: a parameter is on ", param.device(),
                ", expected the CPU");
  param.storage()->expose();
  return raw::from_blob(param.raw_data(), param.sizes(), param.strides(), param.dtype(), [param](void*) {});
}

void check_not_moved(const std::vector<Tensor>& params, const std::vector<Tensor>& stepped) {
  for (std::size_t i = 0; i < params.size(); ++i) {
    const bool same = params[i].raw_data() == stepped[i].raw_data() && params[i].dtype() == stepped[i].dtype();
    TENDRIL_CHECK(same, "DistributedOptimizer::step: parameter ", i,
                  " has been moved or cast since the optimizer was made");
  }
}

double norm_of(const std::vector<Tensor>& gradients, double norm_type) {
  std::vector<Tensor> defined;
  for (const Tensor& gradient : gradients) {
    if (gradient.defined()) defined.push_back(gradient.detach());
  }
  if (defined.empty()) return 0;
  const auto norm = nn::utils::get_total_norm(defined, norm_type).item<double>();
  if (std::isfinite(norm)) return norm;
  for (Tensor& gradient : defined) gradient = gradient.to(kFloat64);  // the norm may overflow float32
  return nn::utils::get_total_norm(defined, norm_type).item<double>();
}

double joined_norm(const std::vector<double>& norms, double norm_type) {
  double most = 0;
  for (const double norm : norms) most = std::isnan(norm) || norm > most ? norm : most;
  if (std::isinf(norm_type) || most == 0 || !std::isfinite(most)) return most;
  double total = 0;
  for (const double norm : norms) total += std::pow(norm / most, norm_type);
  return most * std::pow(total, 1 / norm_type);
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
  for (const Tensor& param : params) found.push_back(param.requires_grad() ? gradients.find(param) : Tensor());
  return found;
}

namespace {
/// Returns 12 for "state.12.exp_avg" with prefix "state.", and stores ".exp_avg" in `rest`. Returns -1 for other
/// entries.
int64_t split_name(const std::string& name, const std::string& prefix, std::string& rest) {
  if (!name.starts_with(prefix)) return -1;
  const std::size_t dot = name.find('.', prefix.size());
  const std::string digits = name.substr(prefix.size(), dot == std::string::npos ? dot : dot - prefix.size());
  if (dot == std::string::npos || digits.empty() || digits.size() > 9 ||
      digits.find_first_not_of("0123456789") != std::string::npos) {
    return -1;
  }
  rest = name.substr(dot);
  return std::stoll(digits);
}
}  // namespace

StateDict gathered_state(const std::vector<OwnerState>& owners, const GroupMembers& groups) {
  StateDict dict;
  std::string rest;
  for (const OwnerState& owner : owners) {
    for (const auto& [name, tensor] : owner.entries) {
      const int64_t local = split_name(name, "state.", rest);
      if (local < 0) continue;
      dict.insert("state." + std::to_string(owner.params.at(static_cast<std::size_t>(local))) + rest, tensor);
    }
  }
  for (std::size_t group = 0; group < groups.size(); ++group) {
    const std::string prefix = "param_groups." + std::to_string(group);
    for (const OwnerState& owner : owners) {
      const auto found = std::find(owner.groups.begin(), owner.groups.end(), group);
      if (found == owner.groups.end()) continue;
      for (const auto& [name, tensor] : owner.entries) {
        const int64_t local = split_name(name, "param_groups.", rest);
        if (local != found - owner.groups.begin() || rest == ".params") continue;
        dict.insert(prefix + rest, tensor);
      }
      break;  // all owners of the group have the same options
    }
    dict.insert(prefix + ".params", members(groups[group]));
  }
  return dict;
}

StateDict written_state(const OwnerState& owner, const GroupMembers& groups, const std::vector<std::size_t>& first_of) {
  StateDict written;
  std::string rest;
  for (const auto& [name, tensor] : gathered_state({owner}, groups)) {
    const int64_t group = split_name(name, "param_groups.", rest);
    const auto number = static_cast<std::size_t>(group);
    if (group < 0 || std::find(first_of.begin(), first_of.end(), number) != first_of.end())
      written.insert(name, tensor);
  }
  return written;
}

NamedTensors state_for(const StateDict& dict, const OwnerState& owner) {
  NamedTensors entries;
  std::string rest;
  for (const auto& [name, tensor] : dict) {
    const int64_t param = split_name(name, "state.", rest);
    const auto at = std::find(owner.params.begin(), owner.params.end(), static_cast<std::size_t>(param));
    if (param >= 0 && at != owner.params.end()) {
      entries.emplace_back("state." + std::to_string(at - owner.params.begin()) + rest, tensor);
    }
    const int64_t group = split_name(name, "param_groups.", rest);
    const auto in = std::find(owner.groups.begin(), owner.groups.end(), static_cast<std::size_t>(group));
    if (group >= 0 && in != owner.groups.end() && rest != ".params") {
      entries.emplace_back("param_groups." + std::to_string(in - owner.groups.begin()) + rest, tensor);
    }
  }
  for (std::size_t group = 0; group < owner.members.size(); ++group) {
    entries.emplace_back("param_groups." + std::to_string(group) + ".params", members(owner.members[group]));
  }
  return entries;
}

void check_state(const StateDict& dict, const GroupMembers& groups, const std::string& op) {
  std::size_t params = 0;
  for (const auto& group : groups) params += group.size();
  std::string problems, rest;
  const auto note = [&](const std::string& problem) { problems += (problems.empty() ? ": " : "; ") + problem; };
  for (const auto& [name, tensor] : dict) {
    const int64_t param = split_name(name, "state.", rest), group = split_name(name, "param_groups.", rest);
    if (param < 0 && group < 0) note("unexpected " + name);
    if (param >= static_cast<int64_t>(params))
      note(name + ": the optimizer has " + std::to_string(params) + " parameters");
    if (group >= static_cast<int64_t>(groups.size()))
      note(name + ": the optimizer has " + std::to_string(groups.size()) + " groups");
  }
  for (std::size_t group = 0; group < groups.size(); ++group) {
    const std::string name = "param_groups." + std::to_string(group) + ".params";
    const Tensor* const given = dict.find(name);
    if (given == nullptr) {
      note("missing " + name);
    } else if (!raw::equal(*given, members(groups[group]))) {
      note(name + ": the group has other parameters");
    }
  }
  TENDRIL_CHECK(problems.empty(), op, problems);
}

Tensor members(const std::vector<std::size_t>& of) {
  return raw::from_data(std::vector<int64_t>(of.begin(), of.end()), {std::ssize(of)});
}

std::string reason_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const rpc::RemoteError& remote) {
    return remote.type() + ": " + remote.message();
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "an exception that is not derived from std::exception";
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

#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tendril/dist/checkpoint/detail/part_file.h"
#include "tendril/dist/detail/named_tensors.h"
#include "tendril/dist/optimizer.h"
#include "tendril/nn/module.h"
#include "tendril/rpc/call.h"
#include "tendril/rpc/rref.h"
#include "tendril/tensor/device.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/state_dict.h"

TENDRIL_API_BEGIN

namespace tendril::dist {

namespace detail {

/// Functions that run on a module's owner.
template <class M>
struct RemoteModuleCalls {
  static void train(const rpc::RRef<M>& module, bool mode) { module.local_value().train(mode); }
  static bool is_training(const rpc::RRef<M>& module) { return module.local_value().is_training(); }
  static std::vector<rpc::RRef<Tensor>> parameters(const rpc::RRef<M>& module) {
    const auto agent = rpc::detail::agent_of(*module.state_pointer());
    return parameter_rrefs(*agent, module.local_value());
  }
  static void to(const rpc::RRef<M>& module, const std::string& device, const std::optional<DType>& dtype) {
    M& here = module.local_value();
    if (dtype) TENDRIL_CHECK_AS(DTypeError, is_floating(*dtype), "RemoteModule::to: expected a floating dtype");
    if (!device.empty() && dtype) {
      here.to(parse_device(device), *dtype);
    } else if (dtype) {
      here.to(*dtype);
    } else {
      here.to(parse_device(device));
    }
  }
  static void write_file(const rpc::RRef<M>& module, const PartFile& file) {
    write_part(file, module.local_value().state_dict());
  }
  static void read_file(const rpc::RRef<M>& module, const PartFile& file, bool check_only) {
    module.local_value().load_state_dict(read_part(file), {.check_only = check_only});
  }
  static NamedTensors state(const rpc::RRef<M>& module) { return entries_of(module.local_value().state_dict()); }
  static std::pair<std::vector<std::string>, std::vector<std::string>> load(const rpc::RRef<M>& module,
                                                                            const NamedTensors& entries, bool strict,
                                                                            bool check_only) {
    LoadReport report = module.local_value().load_state_dict(dict_of(entries), {strict, check_only});
    return {std::move(report.missing), std::move(report.unexpected)};
  }
};

}  // namespace detail

/// A module that lives on another worker (or this one), made there from constructor arguments:
///
///     dist::RemoteModule<Encoder> encoder("w1", 100, 32);
///     Tensor h = encoder.forward(x);                          // or co_await encoder.forward_async(x)
///     dist::DistributedOptimizer<optim::SGD> opt(encoder.remote_parameters(), {.lr = 0.1});
///
/// Calls within an autograd context are recorded like other calls. Copies refer to the same module, which lives as long
/// as any of them, or an RRef to it. A RemoteModule can be an argument or a result of a call; the other worker then
/// uses it in the same way. Thread-safe only if the module is: its forward may run several times concurrently, and the
/// caller must order `train`, `to` and `load_state_dict` with it.
///
/// Errors: exceptions of the module arrive as rpc::RemoteError with the worker's name; rpc::PeerLostError,
/// rpc::TimeoutError. An exception of its constructor is thrown at the first use.
template <std::derived_from<nn::Module> M>
class RemoteModule {
 public:
  RemoteModule() = default;  ///< refers to nothing; a variable to receive one
  /// Constructs an M on worker `to` from copies of the arguments, without waiting for it.
  template <class... Args>
  requires rpc::RemotelyConstructible<M, Args...>
  explicit RemoteModule(const rpc::Destination& to, Args&&... arguments)
      : module_(rpc::remote<M>(to, std::forward<Args>(arguments)...)) {}
  /// The same, with the given agent.
  template <class... Args>
  requires rpc::RemotelyConstructible<M, Args...> RemoteModule(rpc::Agent& agent, const rpc::Destination& to,
                                                               Args&&... arguments)
      : module_(rpc::remote<M>(agent, to, std::forward<Args>(arguments)...)) {}
  /// Refers to an existing module.
  explicit RemoteModule(rpc::RRef<M> module) : module_(std::move(module)) {}

  /// Calls M::forward on the owner and waits for its result. `forward<&M::encode>(x)` calls another method.
  template <auto F = &M::forward, class... Args>
  requires rpc::CallableOn<M, F, Args...>
  auto forward(Args&&... arguments) const { return module_.template rpc_sync<F>(std::forward<Args>(arguments)...); }
  /// The same, but returns a Future, for wait() or co_await.
  template <auto F = &M::forward, class... Args>
  requires rpc::CallableOn<M, F, Args...>
  auto forward_async(Args&&... arguments) const {
    return module_.template rpc_async<F>(std::forward<Args>(arguments)...);
  }

  /// Returns references to the parameters, in the module's order, for a DistributedOptimizer.
  std::vector<rpc::RRef<Tensor>> remote_parameters() const { return call<&Calls::parameters>(); }
  /// As nn::Module::train; returns when the owner has done it.
  void train(bool mode = true) const { call<&Calls::train>(mode); }
  void eval() const { train(false); }                               ///< train(false)
  bool is_training() const { return call<&Calls::is_training>(); }  ///< asks the owner
  /// As nn::Module::to, to a device of the owner. RRefs to parameters stay valid; construct optimizers afterwards.
  void to(Device device) const { call<&Calls::to>(text_of(device), std::optional<DType>()); }
  void to(DType dtype) const { call<&Calls::to>(std::string(), std::optional<DType>(dtype)); }  ///< casts
  /// Moves and casts.
  void to(Device device, DType dtype) const { call<&Calls::to>(text_of(device), std::optional<DType>(dtype)); }
  /// Returns copies of parameters and buffers.
  StateDict state_dict() const { return detail::dict_of(call<&Calls::state>()); }
  /// As nn::Module::load_state_dict; its Error arrives as rpc::RemoteError, and nothing has changed then.
  LoadReport load_state_dict(const StateDict& dict, const LoadOptions& options = {}) const {
    auto [missing, unexpected] = call<&Calls::load>(detail::entries_of(dict), options.strict, options.check_only);
    return {std::move(missing), std::move(unexpected)};
  }

  const rpc::RRef<M>& module_rref() const noexcept { return module_; }  ///< for all other uses
  const rpc::WorkerInfo& owner() const { return module_.owner(); }      ///< the module's worker

  /// Sends the reference, not the module.
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& module_;
  }

 private:
  friend class RemotePart;
  using Calls = detail::RemoteModuleCalls<M>;

  void write_file(const detail::PartFile& file) const { call<&Calls::write_file>(file); }
  void read_file(const detail::PartFile& file, bool check_only) const { call<&Calls::read_file>(file, check_only); }

  template <auto F, class... Args>
  auto call(Args&&... arguments) const {
    const detail::Unrecorded scope;
    const auto agent = rpc::detail::agent_of(*module_.state_pointer());
    return rpc::rpc_sync<F>(*agent, module_.owner(), module_, std::forward<Args>(arguments)...);
  }
  static std::string text_of(Device device) {
    std::ostringstream text;
    text << device;
    return text.str();
  }

  rpc::RRef<M> module_;
};

}  // namespace tendril::dist

TENDRIL_API_END

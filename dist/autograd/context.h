#pragma once

#include <cstdint>
#include <memory>

#include "tendril/dist/autograd/gradients.h"
#include "tendril/dist/autograd/ids.h"
#include "tendril/rpc/agent.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

/// Gradients through calls.
///
///     dist::autograd::Context context;                                  // calls made from here on are recorded
///     Tensor loss = rpc::rpc_sync<&forward>("ps", x).sum();
///     dist::autograd::backward(context, {loss});                        // backward.h: on every worker that took part
///     Tensor g = dist::autograd::get_gradients(context).at(w);          // never in w.grad()
///
/// docs/distributed_autograd.md says how it works.
namespace tendril::dist::autograd {

class Container;

namespace detail {
bool enable_before_main();
/// Whoever mentions `value` has every agent of this process take part, from before main on.
template <class>
struct Enabled {
  static inline const bool value = enable_before_main();
};
}  // namespace detail

/// Has every agent that init_rpc makes from now on take part. Any program that mentions a Context has done so before
/// main; this is for one that only serves others' calls and is built apart from them.
void enable();

/// What is recorded of one computation, on all workers that it reaches. While it lives, it is current on the thread
/// that made it: its id travels with every call made there, with the calls that these make in turn, with continuations
/// and with coroutines. Destroyed, it is released on every worker; gradients go with it. What is still running then
/// goes on unrecorded.
///
/// Calls under NoGrad are not recorded. A call to a worker that does not take part (`enable`) fails.
///
/// Thread-safety: made and destroyed by one thread; any number of threads may run calls in it (each with
/// CallContext::current().autograd_context set, as continuations have).
class Context {
 public:
  /// On the process's agent. Throws rpc::UsageError before init_rpc; AutogradError within another context, also within
  /// a call that was made in one.
  Context() : Context(&detail::Enabled<void>::value) {}
  /// On this agent. Throws AutogradError as above.
  explicit Context(rpc::Agent& agent) : Context(agent, &detail::Enabled<void>::value) {}
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  /// The context's number, the same on every worker: what to hand to a call that asks for its gradients.
  ContextId id() const noexcept { return id_; }
  /// The worker's contexts, which hold this one.
  const std::shared_ptr<Container>& container() const noexcept { return container_; }

 private:
  explicit Context(const bool*);
  Context(rpc::Agent& agent, const bool*);

  std::shared_ptr<Container> container_;
  ContextId id_ = 0;
};

/// The gradients that the context holds on this worker.
Gradients get_gradients(const Context& context);
/// ... for functions that are called: a context that was made elsewhere. On the agent that serves this thread, else
/// on the process's. Throws AutogradError for one that is unknown here or released.
Gradients get_gradients(ContextId context);
/// The context that this thread's calls are recorded in, 0 if there is none.
ContextId current_context() noexcept;

}  // namespace tendril::dist::autograd

TENDRIL_API_END

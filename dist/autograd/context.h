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
/// docs/distributed_autograd.md explains the design.
namespace tendril::dist::autograd {

class Container;

namespace detail {
bool enable_before_main();
/// Using `value` makes every agent of this process take part, starting before main.
template <class>
struct Enabled {
  static inline const bool value = enable_before_main();
};
}  // namespace detail

/// Makes every agent that init_rpc creates from now on take part in distributed autograd. A program that uses Context
/// does so before main without this call. Call it in a separately built program that only serves calls.
void enable();

/// A recording of one computation on all workers that it reaches. While it lives, it is current on the thread that made
/// it: its id travels with every call made there, with nested calls, continuations and coroutines. The destructor
/// releases the recording and its gradients on every worker. Calls that are still running then are no longer recorded.
///
/// Calls under NoGrad are not recorded. A call to a worker that does not take part (`enable`) fails.
///
/// Thread-safety: one thread creates and destroys it; any number of threads may make calls in it if each sets
/// CallContext::current().autograd_context. Continuations inherit that value.
class Context {
 public:
  /// Makes a context of the default agent. Throws rpc::UsageError before init_rpc, and AutogradError inside another
  /// context, including in the handler of a call that was made in one.
  Context() : Context(&detail::Enabled<void>::value) {}
  /// Makes a context of this agent. Throws rpc::UsageError if the agent has no container, and AutogradError as above.
  explicit Context(rpc::Agent& agent) : Context(agent, &detail::Enabled<void>::value) {}
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  /// The context's id, the same on every worker. Pass it to remote functions that call `get_gradients`.
  ContextId id() const noexcept { return id_; }
  /// The container of the agent that the context was made on.
  const std::shared_ptr<Container>& container() const noexcept { return container_; }

 private:
  explicit Context(const bool*);
  Context(rpc::Agent& agent, const bool*);

  std::shared_ptr<Container> container_;
  ContextId id_ = 0;
};

/// Returns the gradients that the context holds on this worker.
Gradients get_gradients(const Context& context);
/// As above, for remote functions: the context may have been made on another worker. Uses the agent that serves this
/// thread, otherwise the default agent. Throws AutogradError if the context is unknown here or released.
Gradients get_gradients(ContextId context);
/// Returns the context in which this thread's calls are recorded, or 0.
ContextId current_context() noexcept;

}  // namespace tendril::dist::autograd

TENDRIL_API_END

#include "tendril/dist/autograd/context.h"

#include "tendril/dist/autograd/backward.h"
#include "tendril/dist/autograd/container.h"
#include "tendril/dist/detail/named_tensors.h"
#include "tendril/rpc/call.h"
#include "tendril/rpc/call_context.h"
#include "tendril/rpc/default_agent.h"
#include "tendril/rpc/group.h"

namespace tendril::dist::autograd {

/// Runs on the owner of a root, called by `backward_from`.
void backward_at_owner(ContextId context, const rpc::RRef<Tensor>& root, bool retain_graph, Mode mode,
                       std::chrono::milliseconds timeout);

namespace {
void attach(rpc::Agent& agent) { Container::attach(agent); }

std::shared_ptr<Container> container_of_new(rpc::Agent& agent) {
  const ContextId outer = current_context();
  TENDRIL_CHECK_AS(AutogradError, outer == 0, "Context: this thread's calls are already recorded in context ",
                   worker_of(outer), ".", number_of(outer), "; contexts do not nest");
  return Container::of(agent);
}
}  // namespace

void enable() { rpc::extend_agents(&attach); }

namespace detail {
bool enable_before_main() {
  enable();
  return true;
}
}  // namespace detail

Context::Context(const bool* enabled) : Context(*rpc::default_agent(), enabled) {}

Context::Context(rpc::Agent& agent, const bool*)
    : container_(container_of_new(agent)), id_(container_->make_context()) {
  rpc::CallContext::current().autograd_context = id_;
}

Context::~Context() {
  rpc::CallContext& current = rpc::CallContext::current();
  if (current.autograd_context == id_) current.autograd_context = 0;
  container_->release(id_);
}

Gradients get_gradients(const Context& context) { return context.container()->gradients(context.id()); }
Gradients get_gradients(ContextId context) { return Container::current()->gradients(context); }
ContextId current_context() noexcept { return rpc::CallContext::current().autograd_context; }

void backward(const Context& context, const std::vector<Tensor>& roots, const BackwardOptions& options) {
  context.container()->backward(context.id(), roots, options);
}
void backward(ContextId context, const std::vector<Tensor>& roots, const BackwardOptions& options) {
  Container::current()->backward(context, roots, options);
}

void backward_at_owner(ContextId context, const rpc::RRef<Tensor>& root, bool retain_graph, Mode mode,
                       std::chrono::milliseconds timeout) {
  TENDRIL_CHECK_AS(rpc::MessageError, mode == Mode::smart || mode == Mode::fast, "backward: unknown mode");
  Container::current()->backward(context, {root.local_value()},
                                 {.retain_graph = retain_graph, .mode = mode, .timeout = timeout});
}

void detail::backward_from(const Context& context, const rpc::RRef<Tensor>& root, const BackwardOptions& options) {
  TENDRIL_CHECK_AS(AutogradError, root, "backward: the root refers to nothing");
  if (root.is_owner()) return backward(context, std::vector<Tensor>{root.local_value()}, options);
  TENDRIL_CHECK_AS(
      AutogradError, !options.create_graph,
      "backward: create_graph is not supported across workers, because gradients between workers are not recorded");
  TENDRIL_CHECK_AS(AutogradError, context.container()->contains(context.id()), "backward: the context was released");
  const auto agent = rpc::detail::agent_of(*root.state_pointer());
  const dist::detail::Unrecorded scope;
  rpc::rpc_sync<&backward_at_owner>(*agent, root.owner(), rpc::CallOptions{.timeout = options.timeout}, context.id(),
                                    root, options.retain_graph, options.mode, options.timeout);
}

}  // namespace tendril::dist::autograd

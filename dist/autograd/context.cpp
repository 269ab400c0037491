#include "tendril/dist/autograd/context.h"

#include "tendril/dist/autograd/backward.h"
#include "tendril/dist/autograd/container.h"
#include "tendril/rpc/call_context.h"
#include "tendril/rpc/default_agent.h"
#include "tendril/rpc/group.h"

namespace tendril::dist::autograd {

namespace {
void attach(rpc::Agent& agent) { Container::attach(agent); }

std::shared_ptr<Container> container_of_new(rpc::Agent& agent) {
  const ContextId outer = current_context();
  TENDRIL_CHECK_AS(AutogradError, outer == 0, "Context: this thread's calls are recorded in context ", worker_of(outer),
                   ".", number_of(outer), " already; contexts do not nest");
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

}  // namespace tendril::dist::autograd

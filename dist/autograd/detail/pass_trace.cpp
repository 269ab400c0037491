#include "tendril/dist/autograd/detail/pass_trace.h"

namespace tendril::dist::autograd::detail {

namespace {

std::shared_ptr<rpc::detail::Trace> trace_of(const Transmitter& transmitter) {
  const auto agent = transmitter.agent();
  return agent ? rpc::detail::trace_of(*agent) : nullptr;
}

}  // namespace

PassTrace::PassTrace(const Transmitter& transmitter, PassId pass)
    : trace_(trace_of(transmitter)), pass_(pass), begin_ns_(now()) {}

PassTrace::Slice::Slice(const PassTrace& trace, Span::Kind kind) noexcept
    : trace_(trace), kind_(kind), begin_ns_(trace.now()) {}

int64_t PassTrace::now() const noexcept { return trace_ ? rpc::detail::trace_ns(rpc::Clock::now()) : 0; }

void PassTrace::record(Span::Kind kind, int64_t begin_ns, bool failed) const noexcept {
  if (!trace_) return;
  trace_->record({.kind = kind,
                  .failed = failed,
                  .peer = worker_of(pass_),
                  .function = number_of(pass_),
                  .trace_id = pass_,
                  .span_id = trace_->next_id(),
                  .start_ns = begin_ns,
                  .end_ns = now()});
}

}  // namespace tendril::dist::autograd::detail

#pragma once

#include <cstdint>
#include <memory>

#include "tendril/dist/autograd/detail/transmitter.h"
#include "tendril/dist/autograd/ids.h"
#include "tendril/rpc/threads/trace.h"

namespace tendril::dist::autograd::detail {

/// Records a pass's spans in the worker's trace, if there is one. The trace contains the pass's messages as calls.
/// Thread-safe.
class PassTrace {
 public:
  using Span = rpc::detail::TraceSpan;

  /// Begins the span of the worker's part.
  PassTrace(const Transmitter& transmitter, PassId pass);
  /// Ends it.
  void ended(bool failed) const noexcept { record(Span::Kind::pass, begin_ns_, failed); }

  /// A span of this thread's work, which ends with the scope.
  class Slice {
   public:
    Slice(const PassTrace& trace, Span::Kind kind) noexcept;
    ~Slice() { trace_.record(kind_, begin_ns_, false); }
    Slice(const Slice&) = delete;
    Slice& operator=(const Slice&) = delete;

   private:
    const PassTrace& trace_;
    const Span::Kind kind_;
    const int64_t begin_ns_;
  };
  Slice slice(Span::Kind kind) const noexcept { return {*this, kind}; }

 private:
  int64_t now() const noexcept;  ///< 0 without a trace
  void record(Span::Kind kind, int64_t begin_ns, bool failed) const noexcept;

  const std::shared_ptr<rpc::detail::Trace> trace_;
  const PassId pass_;
  const int64_t begin_ns_;
};

}  // namespace tendril::dist::autograd::detail

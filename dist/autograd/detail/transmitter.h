#pragma once

#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "tendril/rpc/agent.h"
#include "tendril/rpc/call/pending_call.h"
#include "tendril/rpc/system/mutex.h"
#include "tendril/rpc/threads/future_core.h"

namespace tendril::dist::autograd::detail {

/// Sends the requests of dist/ through an agent until `close`. Thread-safe.
class Transmitter {
 public:
  explicit Transmitter(rpc::Agent& agent);

  const rpc::WorkerInfo& self() const noexcept { return self_; }
  rpc::Executor& executor() const noexcept { return *executor_; }
  rpc::detail::RunTime& run_time() noexcept { return run_time_; }  ///< of this worker's parts of passes
  std::vector<rpc::WorkerInfo> peers() const;
  void close() noexcept;
  std::shared_ptr<rpc::Agent> agent() const noexcept;  ///< null after `close`

  /// Sends a request outside any context. `f(reply or null, error or null)` is called once, as an I/O callback: on the
  /// thread that reads the reply, or immediately if the request could not be sent. A `deadline` of max() means none:
  /// the call then waits as long as the peer lives.
  template <class F>
  void call(rpc::WorkerId to, rpc::Message request, rpc::Clock::time_point deadline, F f) {
    send(to, std::move(request), rpc::PendingCallRef(Ref<Call<F>>(new Call<F>(executor(), std::move(f)))), deadline);
  }

 private:
  template <class F>
  class Call final : public rpc::FutureCore, public rpc::PendingCall {
   public:
    Call(rpc::Executor& executor, F f) : FutureCore(&executor), f_(std::move(f)) {}
    void complete(rpc::Message&& reply) noexcept override { f_(&reply, std::exception_ptr()); }
    void fail(std::exception_ptr error) noexcept override { f_(nullptr, std::move(error)); }

   private:
    F f_;
  };

  void send(rpc::WorkerId to, rpc::Message request, rpc::PendingCallRef call, rpc::Clock::time_point deadline);

  const rpc::WorkerInfo self_;
  const Ref<rpc::Executor> executor_;  // outlives the agent
  rpc::detail::RunTime run_time_;
  mutable rpc::detail::Mutex mutex_;
  std::shared_ptr<rpc::Agent> agent_;  // null after `close`; until then they own each other
};

}  // namespace tendril::dist::autograd::detail

#pragma once

#include <atomic>
#include <latch>
#include <memory>

#include "tendril/rpc/message_hook.h"

namespace rpc_test {

/// Blocks the thread that drives its agent's I/O at the first reply: the process stays alive but sends nothing.
class Hang final : public tendril::rpc::MessageHook {
 public:
  bool hangs() const noexcept { return hangs_; }
  void let_go() noexcept {
    if (!end_.try_wait()) end_.count_down();
  }

  void before_send(const tendril::rpc::WorkerInfo&, tendril::rpc::Message&) override {}
  void after_receive(const tendril::rpc::WorkerInfo&, tendril::rpc::Message&) override {}
  void before_reply(const tendril::rpc::WorkerInfo&, tendril::rpc::Message&) override {}
  void after_reply(const tendril::rpc::WorkerInfo&, tendril::rpc::Message&) override {
    hangs_ = true;
    end_.wait();
  }

 private:
  std::atomic<bool> hangs_{false};
  std::latch end_{1};
};

/// Ends the hang when destroyed, even if a check fails.
struct LetGo {
  ~LetGo() { hang->let_go(); }
  std::shared_ptr<Hang> hang;
};

}  // namespace rpc_test

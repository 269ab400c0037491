#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tendril/rpc/call/counters.h"
#include "tendril/rpc/threads/loop.h"
#include "tendril/rpc/threads/short_mutex.h"
#include "tendril/rpc/transport/link.h"
#include "tendril/rpc/wire/lending_message.h"
#include "tendril/rpc/wire/message.h"
#include "tendril/tensor/cuda/runtime.h"
#include "tendril/tensor/cuda/runtime/ipc.h"

namespace tendril::rpc::detail {

/// The receiving half of docs/decisions/0030: opens the segments that the peer offers, copies what is lent out of them
/// into memory of this process's own, and gives it back when the copy is done, or the message gone without one. What
/// the peer says is checked against what the driver says of the memory. Thread-safe; of one session.
class Borrower : public std::enable_shared_from_this<Borrower> {
 public:
  /// Counts in `counters` what is borrowed, while the session lives.
  Borrower(Ref<Loop> loop, std::shared_ptr<Link> link, Counters& counters);

  /// The leader's: has a pool thread open it, which may make a device's context, and answer.
  void offered(const LendingOffer& offer);
  /// A message with lent tensors has come. Throws MessageError where one does not lie within what was opened.
  void received(Message& message);

  /// The session has ended: segments are closed, when the last copy from them is done.
  void end() noexcept;

  /// A received message's. One thread at a time.
  class Borrowed;

 private:
  using Opening = std::pair<uint32_t, int>;  // the peer's segment, this worker's device
  using Opened = std::shared_ptr<cuda::OpenedSegment>;
  /// What is to be given back when its copies are done, which keep the segments open.
  struct Returning {
    std::vector<uint64_t> ids;
    std::vector<cuda::Event> copied;
    std::vector<Opened> from;
  };
  std::optional<std::string> open(const LendingOffer& offer);
  void give_back(Returning&& one) noexcept;
  void give_all_back() noexcept;
  void say(const LendingMessage& said) noexcept;

  const Ref<Loop> loop_;
  const std::shared_ptr<Link> link_;
  Counters& counters_;
  ShortMutex mutex_;
  bool ended_ = false;
  std::map<Opening, Opened> opened_;  // as long as the session lives
  std::deque<Returning> returning_;   // behind each other, as the default streams are
  bool at_work_ = false;              // a job of the pool's gives them back
};

/// What lent tensors of one received message are. Given back when it goes.
class Borrower::Borrowed final : public Lending {
 public:
  Borrowed(std::shared_ptr<Borrower> borrower, std::vector<LentPlace> places, std::vector<Opened> from);
  ~Borrowed() override;

  /// A copy of the message's tensor of that number, on `to`, in order with its default stream. Does not wait.
  Tensor copy(std::size_t index, const Tensor& like, Device to);

 private:
  const std::shared_ptr<Borrower> borrower_;
  const std::vector<LentPlace> places_;
  const std::vector<Opened> from_;  // by tensor; null: not lent
  std::vector<cuda::Event> copied_;
};

}  // namespace tendril::rpc::detail

#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tendril/rpc/system/counters.h"
#include "tendril/rpc/threads/loop.h"
#include "tendril/rpc/threads/short_mutex.h"
#include "tendril/rpc/transport/link.h"
#include "tendril/rpc/wire/lending_message.h"
#include "tendril/rpc/wire/message.h"
#include "tendril/tensor/cuda/runtime.h"
#include "tendril/tensor/cuda/runtime/ipc.h"

namespace tendril::rpc::detail {

/// The receiving half of docs/decisions/0030. Opens the segments that the peer offers and copies lent tensors from them
/// into this process's memory. Returns a tensor to the peer when its copy is done, or when its message is destroyed
/// without a copy. Checks the peer's claims against the driver's information about the memory. Each session has one.
/// Thread-safe.
class Borrower : public std::enable_shared_from_this<Borrower> {
 public:
  /// Counts the borrowed tensors in `counters` while the session lives.
  Borrower(Ref<Loop> loop, std::shared_ptr<Link> link, Counters& counters);

  /// Makes a pool thread open the segment, which may create a device's context, and answer. Leader thread only.
  void offered(const LendingOffer& offer);
  /// Called when a message with lent tensors has arrived. Throws MessageError if one is not within an open segment.
  void received(Message& message);

  /// Called when the session has ended. Each segment is closed when the last copy from it is done.
  void end() noexcept;

  /// The lent tensors of a received message. Used by one thread at a time.
  class Borrowed;

 private:
  using Opening = std::pair<uint32_t, int>;  // the peer's segment, this worker's device
  using Opened = std::shared_ptr<cuda::OpenedSegment>;
  /// Tensors that are returned when their copies are done. Keeps their segments open until then.
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
  std::deque<Returning> returning_;   // in order, because the copies are ordered by the default streams
  bool at_work_ = false;              // a pool job is returning them
};

/// The lent tensors of one received message. The destructor returns them to the peer.
class Borrower::Borrowed final : public Lending {
 public:
  Borrowed(std::shared_ptr<Borrower> borrower, std::vector<LentPlace> places, std::vector<Opened> from);
  ~Borrowed() override;

  /// Returns a copy of the message's tensor `index` on `to`, in order with that device's default stream. Does not wait.
  Tensor copy(std::size_t index, const Tensor& like, Device to);

 private:
  const std::shared_ptr<Borrower> borrower_;
  const std::vector<LentPlace> places_;
  const std::vector<Opened> from_;  // by tensor; null: not lent
  std::vector<cuda::Event> copied_;
};

}  // namespace tendril::rpc::detail

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tendril/rpc/device/lent_table.h"
#include "tendril/rpc/system/counters.h"
#include "tendril/rpc/system/unique_fd.h"
#include "tendril/rpc/threads/short_mutex.h"
#include "tendril/rpc/transport/link.h"
#include "tendril/rpc/wire/lending_message.h"
#include "tendril/rpc/wire/message.h"

namespace tendril::rpc::detail {

/// The sending half of docs/decisions/0030. Sends device tensors to a process of this host as places in device memory
/// that the process has opened, instead of through host memory. Each tensor is first copied into a separate block, so
/// that the peer does not see later changes and none of the program's memory is kept. Tensors that cannot be lent (yet)
/// are staged. Each session has one. Thread-safe.
class Lender : public std::enable_shared_from_this<Lender> {
 public:
  /// `worker` (the lender) and `peer` (the borrower) are for log messages. Counts the lent tensors in `counters` while
  /// the session lives.
  Lender(std::shared_ptr<Link> link, std::string worker, std::string peer, Counters& counters);

  /// Copies `bytes` bytes at `from`, which is on `device`, for the peer's device `to`, on this thread's current stream
  /// of `device`. The caller must wait for the copy before the message leaves. Returns nothing if the tensor must be
  /// staged. `account` belongs to the message and is created for its first lent tensor.
  std::optional<LentPlace> lend(const void* from, Device device, Device to, std::size_t bytes,
                                std::shared_ptr<Lending>& account);

  // Leader thread only. Throw MessageError for messages that an honest peer does not send.
  void answered(const LendingAnswer& answer);
  void returned(const LendingReturn& given_back);

  /// Called when the session has ended. The peer may still be reading, so lent blocks are kept until its process has
  /// exited.
  void end() noexcept;
  std::size_t lent() const;  ///< tensors that the peer has not returned

  /// The process that borrows, and the blocks that it has when its session ends.
  struct Borrower {
    UniqueFd process;
    LentTable::Blocks blocks;
  };

 private:
  class OfMessage;
  bool may_lend();
  void say_once(const std::string& why);
  bool accepted(const cuda::SharedSegment& segment, Device to);
  void forget(const std::vector<uint64_t>& ids) noexcept;

  const std::shared_ptr<Link> link_;
  const std::string worker_, peer_;
  Counters& counters_;
  std::atomic<bool> given_up_{false};  // nothing can be lent to that process
  std::atomic<bool> said_{false};      // a log message has explained why tensors are staged
  mutable ShortMutex mutex_;
  bool ended_ = false;
  std::list<Borrower> borrower_;  // one element, from the first offer on; a list, so that `end` needs no memory
  LentTable table_;
};

}  // namespace tendril::rpc::detail

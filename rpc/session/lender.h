#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tendril/rpc/call/counters.h"
#include "tendril/rpc/session/lent_table.h"
#include "tendril/rpc/threads/short_mutex.h"
#include "tendril/rpc/transport/link.h"
#include "tendril/rpc/transport/unique_fd.h"
#include "tendril/rpc/wire/lending_message.h"
#include "tendril/rpc/wire/message.h"

namespace tendril::rpc::detail {

/// The sending half of docs/decisions/0030: tensors of devices go to a process of this host as places in device memory
/// that it has opened, instead of through host memory. A tensor is copied into a block of its own first, so what its
/// owner does with it afterwards is not seen, and no memory of the program's is kept. Whatever cannot be lent (yet) is
/// staged. Thread-safe; of one session.
class Lender : public std::enable_shared_from_this<Lender> {
 public:
  /// `worker` is who lends, `peer` who borrows: for what is logged. Counts in `counters` what is lent, while the
  /// session lives.
  Lender(std::shared_ptr<Link> link, std::string worker, std::string peer, Counters& counters);

  /// Copies `bytes` that begin at `from`, on `device`, on the thread's current stream there, for the peer's `to`. Who
  /// calls waits for the copy before the message leaves. Nothing: the tensor must be staged. `account` is the
  /// message's, made for its first such tensor.
  std::optional<LentPlace> lend(const void* from, Device device, Device to, std::size_t bytes,
                                std::shared_ptr<Lending>& account);

  // The leader's. Throw MessageError for what an honest peer does not say.
  void answered(const LendingAnswer& answer);
  void returned(const LendingReturn& given_back);

  /// The session has ended, while the peer may still be reading: what is lent is kept until its process has ended.
  void end() noexcept;
  std::size_t lent() const;  ///< tensors that the peer has not given back

  /// Whom it was lent to, and what it had when its session ended.
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
  std::atomic<bool> said_{false};      // that tensors are staged, and why
  mutable ShortMutex mutex_;
  bool ended_ = false;
  std::list<Borrower> borrower_;  // one, from the first offer on: its end must not need memory
  LentTable table_;
};

}  // namespace tendril::rpc::detail

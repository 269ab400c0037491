#include "tendril/rpc/device/lender.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <iterator>
#include <mutex>
#include <utility>

#include "tendril/rpc/system/log.h"
#include "tendril/rpc/system/mutex.h"
#include "tendril/tensor/cuda/runtime.h"
#include "tendril/tensor/cuda/runtime/ipc.h"

namespace tendril::rpc::detail {

namespace {

/// Returns a descriptor that becomes readable when the process has exited. Returns an empty one for this process, for a
/// process that does not exist, and on kernels without such descriptors (before Linux 5.3).
UniqueFd open_process(int pid) noexcept {
#ifdef SYS_pidfd_open
  return UniqueFd(pid > 0 && pid != ::getpid() ? static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)) : -1);
#else
  return UniqueFd();
#endif
}

using Borrowers = std::list<Lender::Borrower>;

bool has_ended(const UniqueFd& process) noexcept {
  pollfd one{process.get(), POLLIN, 0};
  return ::poll(&one, 1, 0) > 0;
}

/// Blocks of sessions that ended while the borrowing process was alive. It may still read them and will not return
/// them, so the blocks are reused only after the process has exited. This is checked whenever a tensor is lent.
class OrphanedBlocks {
 public:
  static OrphanedBlocks& all() {
    static auto& kept = *new OrphanedBlocks;
    return kept;
  }
  void add(Borrowers one) noexcept {
    const std::lock_guard lock(mutex_);
    borrowers_.splice(borrowers_.end(), one);
  }
  void look() noexcept {
    Borrowers gone;  // destroyed after the lock is released
    const std::lock_guard lock(mutex_);
    for (auto it = borrowers_.begin(); it != borrowers_.end();) {
      const auto next = std::next(it);
      if (has_ended(it->process)) gone.splice(gone.end(), borrowers_, it);
      it = next;
    }
  }

 private:
  Mutex mutex_;
  Borrowers borrowers_;
};

}  // namespace

/// The tensors lent with one outgoing message. If the message and its frame are destroyed before they leave, the blocks
/// are reused.
class Lender::OfMessage final : public Lending {
 public:
  explicit OfMessage(std::shared_ptr<Lender> lender) noexcept : lender_(std::move(lender)) {}
  ~OfMessage() override {
    if (!left_.load(std::memory_order_relaxed)) lender_->forget(ids);
  }
  void leaves() noexcept override { left_.store(true, std::memory_order_relaxed); }
  void recalled() noexcept override { left_.store(false, std::memory_order_relaxed); }

  std::vector<uint64_t> ids;  // changes only before the message is sent

 private:
  const std::shared_ptr<Lender> lender_;
  std::atomic<bool> left_{false};
};

Lender::Lender(std::shared_ptr<Link> link, std::string worker, std::string peer, Counters& counters)
    : link_(std::move(link)), worker_(std::move(worker)), peer_(std::move(peer)), counters_(counters) {}

std::optional<LentPlace> Lender::lend(const void* from, Device device, Device to, std::size_t bytes,
                                      std::shared_ptr<Lending>& account) {
  if (to.is_cpu() || bytes == 0 || !may_lend()) return std::nullopt;
  OrphanedBlocks::all().look();
  std::optional<cuda::SharedBlock> block = cuda::SharedBlock::take(bytes, device.index);
  if (!block || !accepted(block->segment(), to)) return std::nullopt;
  LentPlace place{.segment = block->segment().number, .offset = block->offset()};
  if (!account) account = std::make_shared<OfMessage>(shared_from_this());
  std::vector<uint64_t>& ids = static_cast<OfMessage&>(*account).ids;
  ids.reserve(ids.size() + 1);
  const auto held = std::make_shared<cuda::SharedBlock>(*std::move(block));
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return std::nullopt;
    place.id = table_.lend(held);
  }
  ids.push_back(place.id);
  cuda::copy_async(held->data(), device, from, device, bytes);
  Counters::add(counters_.tensors_lent);
  return place;
}

/// Whether tensors can be lent: only to another process of this host, over a Unix-domain socket to which only this user
/// can connect.
bool Lender::may_lend() {
  if (given_up_.load(std::memory_order_relaxed)) return false;
  // There may be no connection yet, or one of another kind. The next message may find a suitable one.
  if (std::strcmp(link_->transport(), "unix") != 0) return false;
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return false;
    if (!borrower_.empty()) return true;
    UniqueFd process = open_process(link_->peer_process());
    if (process) {
      borrower_.push_back({.process = std::move(process), .blocks = {}});
      return true;
    }
  }
  given_up_.store(true, std::memory_order_relaxed);
  say_once("the peer is this process, or its exit cannot be detected (another PID namespace, or an old kernel)");
  return false;
}

void Lender::say_once(const std::string& why) {
  if (said_.exchange(true, std::memory_order_relaxed)) return;
  log(LogLevel::warn, worker_,
      "rpc: tensors on devices are sent from worker '" + worker_ + "' to " + peer_ + " through host memory: " + why);
}

/// Whether the peer has opened the segment for that device. Offers the segment if that has not been done yet.
bool Lender::accepted(const cuda::SharedSegment& segment, Device to) {
  const LentTable::Opening opening{segment.number, to.index};
  {
    const std::lock_guard lock(mutex_);
    const LentTable::Offer offer = table_.offer(opening);
    if (offer != LentTable::Offer::none) return offer == LentTable::Offer::accepted;
    table_.offered(opening);
  }
  const LendingOffer offer{.segment = segment.number,
                           .to = to.index,
                           .home = cuda::device_id(segment.device),
                           .bytes = segment.bytes,
                           .handle = segment.handle};
  link_->send(encode(offer));
  return false;
}

void Lender::answered(const LendingAnswer& answer) {
  {
    const std::lock_guard lock(mutex_);
    table_.answered({answer.segment, answer.to}, answer.accepted);
  }
  if (!answer.accepted) say_once("the peer cannot open device memory of this process: " + answer.why);
}

void Lender::returned(const LendingReturn& given_back) {
  std::vector<LentTable::Block> blocks;  // destroyed after the lock is released
  const std::lock_guard lock(mutex_);
  table_.returned(given_back.ids, blocks);
}

void Lender::forget(const std::vector<uint64_t>& ids) noexcept try {
  std::vector<LentTable::Block> blocks;  // likewise
  const std::lock_guard lock(mutex_);
  table_.forget(ids, blocks);
} catch (...) {  // no memory: they stay lent until the session ends
}

void Lender::end() noexcept {
  Borrowers borrower;
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    if (table_.lent() == 0) return;
    borrower.swap(borrower_);
    borrower.front().blocks = table_.take_all();
  }
  OrphanedBlocks::all().add(std::move(borrower));
}

std::size_t Lender::lent() const {
  const std::lock_guard lock(mutex_);
  return table_.lent();
}

}  // namespace tendril::rpc::detail

#include "tendril/rpc/device/borrower.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "tendril/rpc/error.h"
#include "tendril/rpc/executor.h"
#include "tendril/tensor/raw.h"

namespace tendril::rpc::detail {

namespace {

/// A peer's segments are 32 MiB or larger, and at most 1 GiB in all for each of its devices.
constexpr std::size_t kMostOpened = 256;

/// Every worker accepts payloads of kMinPayloadBytes.
constexpr std::size_t kMostInOneMessage = kMinPayloadBytes / 16;

bool done(const std::vector<cuda::Event>& events) {
  return std::all_of(events.begin(), events.end(), [](const cuda::Event& event) { return event.done(); });
}

void reach(const std::vector<cuda::Event>& events) noexcept try {
  if (done(events)) return;
  // Without a deadline, because copies always end, and the memory must not be written while one is running.
  const BlockedScope blocked("rpc: waiting for a device");
  for (const cuda::Event& event : events) event.reach();
} catch (...) {  // the device has failed, so it no longer reads
}

}  // namespace

Borrower::Borrower(Ref<Loop> loop, std::shared_ptr<Link> link, Counters& counters)
    : loop_(std::move(loop)), link_(std::move(link)), counters_(counters) {}

void Borrower::offered(const LendingOffer& offer) {
  post(*loop_, [self = shared_from_this(), offer] {
    const std::optional<std::string> why_not = self->open(offer);
    self->say(LendingAnswer{
        .segment = offer.segment, .to = offer.to, .accepted = !why_not, .why = why_not.value_or(std::string())});
  });
}

/// Opens the offered segment. Returns why it could not be opened, or nothing on success.
std::optional<std::string> Borrower::open(const LendingOffer& offer) try {
  // Only a Unix-domain socket proves that the peer is a process of this host and user.
  if (std::strcmp(link_->transport(), "unix") != 0) return "the connection is not a Unix-domain socket";
  if (offer.bytes == 0) return "the segment is empty";
  const Opening opening{offer.segment, offer.to};
  {
    const std::lock_guard lock(mutex_);
    if (opened_.count(opening) != 0) return "the segment is already open";
    if (opened_.size() >= kMostOpened) return "too many segments are open";
  }
  auto segment = std::make_shared<cuda::OpenedSegment>(offer.home, offer.handle, offer.bytes, offer.to);
  const std::lock_guard lock(mutex_);
  if (ended_) return "the session has ended";
  opened_.emplace(opening, std::move(segment));
  return std::nullopt;
} catch (const std::exception& error) {
  return error.what();
}

void Borrower::received(Message& message) {
  std::vector<Opened> from(message.lent.size());
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < message.lent.size(); ++i) {
      const LentPlace& place = message.lent[i];
      if (place.id == 0) continue;
      const Device to = message.placements[i].to;
      const auto found = opened_.find({place.segment, to.index});
      TENDRIL_CHECK_AS(MessageError, found != opened_.end(), "bad frame: tensor ", i, " is in segment ", place.segment,
                       ", which is not open for ", to);
      const std::size_t bytes = message.tensors[i].storage()->bytes(), most = found->second->bytes();
      TENDRIL_CHECK_AS(MessageError, bytes <= most && place.offset <= most - bytes, "bad frame: tensor ", i, " of ",
                       bytes, " bytes is at ", place.offset, " of a segment of ", most);
      TENDRIL_CHECK_AS(MessageError, place.offset % size_of(message.tensors[i].dtype()) == 0, "bad frame: tensor ", i,
                       " is at ", place.offset, ", which is not a multiple of the element size");
      from[i] = found->second;
    }
  }
  message.lending = std::make_shared<Borrowed>(shared_from_this(), message.lent, std::move(from));
}

void Borrower::end() noexcept try {
  std::map<Opening, Opened> opened;
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    opened.swap(opened_);
  }
  if (!opened.empty()) post(*loop_, [opened = std::move(opened)] {});  // closing one may wait for the device
} catch (...) {                                                        // no memory: they were closed here
}

/// May be called on any thread and under any lock, because it does not send.
void Borrower::give_back(Returning&& one) noexcept try {
  {
    const std::lock_guard lock(mutex_);
    returning_.push_back(std::move(one));
    if (std::exchange(at_work_, true)) return;
  }
  post(*loop_, [self = shared_from_this()] { self->give_all_back(); });
} catch (...) {  // no memory: without the return, the lender could wait for ever
  link_->close();
}

/// Runs on one thread at a time, so that it never occupies more than one thread of the pool.
void Borrower::give_all_back() noexcept {
  for (;;) {
    std::deque<Returning> all;
    {
      const std::lock_guard lock(mutex_);
      if (returning_.empty()) {
        at_work_ = false;
        return;
      }
      all.swap(returning_);
    }
    LendingReturn given_back;
    try {
      while (!all.empty()) {
        if (!given_back.ids.empty() && !done(all.front().copied)) say(std::exchange(given_back, {}));
        reach(all.front().copied);
        for (const uint64_t id : all.front().ids) {
          given_back.ids.push_back(id);
          if (given_back.ids.size() == kMostInOneMessage) say(std::exchange(given_back, {}));
        }
        all.pop_front();
      }
      if (!given_back.ids.empty()) say(given_back);
    } catch (...) {  // no memory, or the device has failed
      for (const Returning& one : all) reach(one.copied);
      link_->close();
    }
  }
}

/// Closes the connection if even this small message cannot be sent.
void Borrower::say(const LendingMessage& said) noexcept try { link_->send(encode(said)); } catch (...) {
  link_->close();
}

Borrower::Borrowed::Borrowed(std::shared_ptr<Borrower> borrower, std::vector<LentPlace> places,
                             std::vector<Opened> from)
    : borrower_(std::move(borrower)), places_(std::move(places)), from_(std::move(from)) {}

Borrower::Borrowed::~Borrowed() {
  try {
    Returning one;
    for (const LentPlace& place : places_) {
      if (place.id != 0) one.ids.push_back(place.id);
    }
    one.copied = std::move(copied_);
    one.from = from_;
    borrower_->give_back(std::move(one));
  } catch (...) {  // no memory: as in give_back, but the segments must stay open until the copies are done
    reach(copied_);
    borrower_->link_->close();
  }
}

Tensor Borrower::Borrowed::copy(std::size_t index, const Tensor& like, Device to) {
  const cuda::StreamGuard guard(cuda::Stream::default_of(to.index));
  const std::size_t bytes = like.storage()->bytes();
  Ref<Storage> there = Storage::allocate(bytes, to);
  copied_.emplace_back();
  cuda::copy_async(there->data(), to, from_[index]->data() + places_[index].offset, to, bytes);
  copied_.back().record(cuda::Stream::default_of(to.index));
  Counters::add(borrower_->counters_.tensors_borrowed);
  return raw::on_storage(std::move(there), like.sizes(), like.strides(), 0, like.dtype());
}

}  // namespace tendril::rpc::detail

#include "tendril/rpc/transport/memory_network.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <random>

#include "tendril/rpc/error.h"
#include "tendril/rpc/threads/loop.h"
#include "tendril/rpc/threads/mutex.h"
#include "tendril/rpc/wire/wire.h"

namespace tendril::rpc {

namespace {

/// The message as its receiver would get it.
Message travelled(const Frame& frame, const Limits& limits) {
  FrameReader reader(limits);
  std::size_t sent = 0;
  while (sent < frame.size()) {
    std::array<ConstBuffer, 16> from;
    const std::size_t count = frame.gather(sent, from);
    std::size_t part = 0, taken = 0;
    for (const MutableBuffer& to : reader.prepare()) {
      for (std::size_t filled = 0; filled < to.size && part < count;) {
        const std::size_t size = std::min(to.size - filled, from[part].size);
        std::memcpy(static_cast<std::byte*>(to.data) + filled, from[part].data, size);
        from[part].data = static_cast<const std::byte*>(from[part].data) + size;
        from[part].size -= size;
        filled += size;
        taken += size;
        if (from[part].size == 0) ++part;
      }
    }
    reader.commit(taken);
    sent += taken;
    Message message;
    if (reader.next(message)) return message;
  }
  throw MessageError("memory network: the frame holds no message");
}

std::exception_ptr lost(const char* why) {
  return std::make_exception_ptr(PeerLostError(std::string("connection lost: ") + why, true));
}

}  // namespace

namespace detail {

/// One end of a connection. Its inbox is filled by the peer's senders and emptied on its agent's loop.
class MemoryLink final : public Link, public std::enable_shared_from_this<MemoryLink> {
 public:
  MemoryLink(std::shared_ptr<MemoryNetwork> network, Ref<Loop> loop, WorkerId self, WorkerId peer,
             const Limits& peer_limits)
      : network_(std::move(network)), loop_(std::move(loop)), self_(self), peer_(peer), peer_limits_(peer_limits) {}

  void join(const std::shared_ptr<MemoryLink>& other) { other_ = other; }

  void start(std::shared_ptr<LinkEvents> events) override {
    const std::lock_guard lock(mutex_);
    events_ = std::move(events);
    pump_soon_locked();
  }

  bool send(Message&& message) override {
    {
      const std::lock_guard lock(mutex_);
      if (reason_) return false;
    }
    const std::shared_ptr<MemoryLink> other = other_.lock();
    const Frame frame(std::as_const(message), peer_limits_);
    bytes_sent_.fetch_add(frame.size(), std::memory_order_relaxed);
    const MessageFate fate = network_->fate(self_, peer_, message);
    if (fate.cut) {
      network_->cut(self_, peer_);
      return true;
    }
    for (int copy = 0; other && copy < fate.copies; ++copy)
      other->take(travelled(frame, peer_limits_), frame.size(), fate.delay);
    return true;
  }

  const Limits& peer_limits() const noexcept override { return peer_limits_; }

  void close() noexcept override {
    if (!end(std::make_exception_ptr(PeerLostError("connection closed by this worker", true)), true)) return;
    // What has been sent still arrives; then the peer sees the end.
    if (const auto other = other_.lock()) other->end(lost("the peer closed it"), false);
  }

  /// No message is taken any more. What is in the inbox is delivered first, unless `now`. False: it had ended already.
  bool end(std::exception_ptr reason, bool now) noexcept {
    const std::lock_guard lock(mutex_);
    if (now) inbox_.clear();
    if (reason_) return false;
    reason_ = std::move(reason);
    pump_soon_locked();
    return true;
  }

  const char* transport() const noexcept override { return "memory"; }
  Gauges gauges() const noexcept override {
    Gauges gauges;
    gauges.bytes_sent = bytes_sent_.load(std::memory_order_relaxed);
    gauges.bytes_received = bytes_received_.load(std::memory_order_relaxed);
    return gauges;
  }

 private:
  void take(Message message, std::size_t bytes, std::chrono::microseconds delay) {
    if (delay.count() > 0) {
      auto timer = std::make_shared<Timer>(loop_->reactor());
      auto held = std::make_shared<Message>(std::move(message));
      loop_->post_io([weak = weak_from_this(), timer, held, bytes, when = Clock::now() + delay] {
        timer->call_at(when, [weak, timer, held, bytes] {
          if (const auto self = weak.lock()) self->take(std::move(*held), bytes, {});
        });
      });
      return;
    }
    bytes_received_.fetch_add(bytes, std::memory_order_relaxed);
    const std::lock_guard lock(mutex_);
    if (reason_) return;
    inbox_.push_back(std::move(message));
    pump_soon_locked();
  }

  void pump_soon_locked() {
    if (pumping_ || !events_) return;
    pumping_ = true;
    loop_->post_io([self = shared_from_this()] { self->pump(); });
  }

  /// On the loop, one at a time.
  void pump() {
    for (;;) {
      std::shared_ptr<LinkEvents> events;
      std::exception_ptr reason;
      Message message;
      {
        const std::lock_guard lock(mutex_);
        events = events_;
        if (events && !inbox_.empty()) {
          message = std::move(inbox_.front());
          inbox_.pop_front();
        } else if (events && reason_) {
          reason = reason_;
          events_.reset();
          inbox_.clear();
          pumping_ = false;
        } else {
          pumping_ = false;
          return;
        }
      }
      if (reason) return events->closed(*this, reason);
      const Clock::time_point now = Clock::now();
      loop_->message_read(now);
      try {
        events->received(*this, std::move(message), now);
      } catch (...) {
        end(std::current_exception(), true);
        if (const auto other = other_.lock()) other->end(lost("the peer closed it"), false);
      }
    }
  }

  const std::shared_ptr<MemoryNetwork> network_;
  const Ref<Loop> loop_;
  const WorkerId self_, peer_;
  const Limits peer_limits_;
  std::weak_ptr<MemoryLink> other_;
  std::atomic<uint64_t> bytes_sent_{0}, bytes_received_{0};

  mutable detail::Mutex mutex_;
  std::shared_ptr<LinkEvents> events_;  // from start until `closed` was reported
  std::deque<Message> inbox_;
  std::exception_ptr reason_;  // set: ended
  bool pumping_ = false;       // on the loop, or posted to it
};

}  // namespace detail

void MemoryNetwork::connect(Agent& a, Agent& b) {
  const auto loop_of = [](Agent& agent) { return Ref<detail::Loop>(&dynamic_cast<detail::Loop&>(agent.executor())); };
  const WorkerInfo first = a.self(), second = b.self();
  const auto left =
      std::make_shared<detail::MemoryLink>(shared_from_this(), loop_of(a), first.id, second.id, b.options().limits);
  const auto right =
      std::make_shared<detail::MemoryLink>(shared_from_this(), loop_of(b), second.id, first.id, a.options().limits);
  left->join(right);
  right->join(left);
  {
    const std::lock_guard lock(mutex_);
    links_[{first.id, second.id}] = left;
    links_[{second.id, first.id}] = right;
  }
  a.add_peer(second, b.incarnation(), left, b.devices_for(first.name));
  b.add_peer(first, a.incarnation(), right, a.devices_for(second.name));
}

void MemoryNetwork::connect_all(const std::vector<Agent*>& agents) {
  for (std::size_t i = 0; i < agents.size(); ++i) {
    for (std::size_t j = i + 1; j < agents.size(); ++j) connect(*agents[i], *agents[j]);
  }
}

void MemoryNetwork::cut(WorkerId a, WorkerId b) {
  std::vector<std::shared_ptr<detail::MemoryLink>> ends;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& key : {std::pair(a, b), std::pair(b, a)}) {
      if (const auto found = links_.find(key); found != links_.end()) ends.push_back(found->second.lock());
    }
  }
  for (const auto& end : ends) {
    if (end) end->end(lost("it was cut"), true);
  }
}

void MemoryNetwork::set_rule(NetworkRule rule) {
  const std::lock_guard lock(mutex_);
  rule_ = std::move(rule);
  messages_ = 0;
  link_messages_.clear();
}

uint64_t MemoryNetwork::messages() const {
  const std::lock_guard lock(mutex_);
  return messages_;
}

MessageFate MemoryNetwork::fate(WorkerId from, WorkerId to, const Message& message) {
  const std::lock_guard lock(mutex_);
  const uint64_t number = ++messages_, link_number = ++link_messages_[{from, to}];
  return rule_ ? rule_({from, to, message, number, link_number}) : MessageFate{};
}

NetworkRule nth_message(uint64_t n, MessageFate fate, std::optional<MessageKind> kind) {
  return [n, fate, kind, seen = uint64_t{0}](const PassingMessage& passing) mutable {
    if (kind && passing.message.kind != *kind) return MessageFate{};
    return ++seen == n ? fate : MessageFate{};
  };
}

NetworkRule random_faults(uint64_t seed, RandomFaults faults) {
  return [seed, faults = std::move(faults)](const PassingMessage& passing) {
    MessageFate fate;
    const auto& kinds = faults.kinds;
    if (!kinds.empty() && std::find(kinds.begin(), kinds.end(), passing.message.kind) == kinds.end()) return fate;
    std::seed_seq sequence{seed, seed >> 32, static_cast<uint64_t>(passing.from), static_cast<uint64_t>(passing.to),
                           passing.link_number};
    std::minstd_rand random(sequence);
    std::uniform_real_distribution<double> chance(0, 1);
    if (chance(random) < faults.lose) fate.copies = 0;
    if (chance(random) < faults.repeat) ++fate.copies;
    if (chance(random) < faults.delay) {
      fate.delay = std::chrono::microseconds(
          1 + static_cast<int64_t>(chance(random) * static_cast<double>(faults.max_delay.count())));
    }
    return fate;
  };
}

}  // namespace tendril::rpc

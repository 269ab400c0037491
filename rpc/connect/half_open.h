#pragma once

#include <chrono>
#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "tendril/rpc/call_context.h"

namespace tendril::rpc::detail {

/// Limits log lines about refused connections: each text at most once a minute, with how often it recurred meanwhile,
/// and at most kMaxTexts texts a minute, because strangers may cause any number of refusals. Reads no clock; not
/// thread-safe.
class RefusalNotes {
 public:
  /// Returns the line to log now, if any.
  std::optional<std::string> add(const std::string& text, Clock::time_point now);

 private:
  static constexpr std::size_t kMaxTexts = 8;
  static constexpr std::chrono::minutes kInterval{1};

  struct Seen {
    Clock::time_point shown;
    uint64_t since = 0;  // how often the text came without being shown
  };
  std::map<std::string, Seen> seen_;
};

/// How many connections may be half open at once: 64, or fewer if the process has a low limit on descriptors.
std::size_t max_half_open();

/// The connections that one listener has accepted and that have not authenticated yet. If all places are taken, the
/// oldest one is closed if it has had half a second; otherwise the new one is closed, and if it is a worker it retries.
/// Neither silent strangers nor many workers at once can therefore keep others out. Uses no sockets and reads no clock;
/// not thread-safe.
template <class Connection>
class HalfOpen {
 public:
  static constexpr std::chrono::milliseconds kMinHandshakeTime{500};

  explicit HalfOpen(std::size_t most) : most_(most) {}

  /// Returns whether there is room, after closing the oldest connection (`Connection::close`) if necessary and allowed.
  bool make_room(Clock::time_point now) {
    if (open_.size() < most_) return true;
    return close_oldest(now) && open_.size() < most_;
  }
  /// Closes the oldest connection if it has had half a second. Returns whether it did.
  bool close_oldest(Clock::time_point now) {
    if (open_.empty() || now - open_.front().since < kMinHandshakeTime) return false;
    const auto oldest = open_.front().connection.lock();
    if (!oldest) {
      open_.pop_front();
    } else {
      remove(oldest.get());
      oldest->close();
    }
    return true;
  }
  void add(const std::shared_ptr<Connection>& connection, Clock::time_point now) {
    open_.push_back({connection.get(), connection, now});
  }
  void remove(const Connection* connection) {
    open_.remove_if([&](const Entry& entry) { return entry.address == connection; });
  }
  void close_all() {
    const std::list<Entry> all = std::move(open_);
    open_.clear();
    for (const Entry& entry : all) {
      if (const auto connection = entry.connection.lock()) connection->close();
    }
  }
  std::size_t size() const noexcept { return open_.size(); }

 private:
  struct Entry {
    const Connection* address;
    std::weak_ptr<Connection> connection;
    Clock::time_point since;
  };
  const std::size_t most_;
  std::list<Entry> open_;  // oldest first
};

}  // namespace tendril::rpc::detail

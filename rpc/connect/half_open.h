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

/// What is said of connections that were refused: each text once a minute, with how often it came meanwhile, and only
/// so many texts a minute, for anybody may be refused as often as he likes. No clock; not thread-safe.
class RefusalNotes {
 public:
  /// The line to show now, if any.
  std::optional<std::string> add(const std::string& text, Clock::time_point now);

 private:
  static constexpr std::size_t kMaxTexts = 8;
  static constexpr std::chrono::minutes kInterval{1};

  struct Seen {
    Clock::time_point shown;
    uint64_t since = 0;  // of the same text, not shown
  };
  std::map<std::string, Seen> seen_;
};

/// How many connections may be half open at once: 64, and fewer where the process may have few descriptors.
std::size_t max_half_open();

/// The connections that one listener has accepted and that have not proven themselves yet. When there is no room, the
/// oldest one gives way if it has had half a second; else the newcomer is turned away, and tries again if it is a
/// worker. So neither strangers who keep silent nor a crowd of honest workers keep others out. No sockets and no clock;
/// not thread-safe.
template <class Connection>
class HalfOpen {
 public:
  static constexpr std::chrono::milliseconds kGivesWayAfter{500};

  explicit HalfOpen(std::size_t most) : most_(most) {}

  /// False: no room. Closes the one that gives way (`Connection::close`).
  bool make_room(Clock::time_point now) {
    if (open_.size() < most_) return true;
    return close_oldest(now) && open_.size() < most_;
  }
  /// Closes the oldest, if it has had its time.
  bool close_oldest(Clock::time_point now) {
    if (open_.empty() || now - open_.front().since < kGivesWayAfter) return false;
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
  std::list<Entry> open_;  // the oldest first
};

}  // namespace tendril::rpc::detail

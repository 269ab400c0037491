#include "tendril/rpc/group.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <utility>

#include "tendril/rpc/error.h"
#include "tendril/rpc/group/error_prefix.h"
#include "tendril/rpc/group/group_member.h"
#include "tendril/rpc/group/joining.h"
#include "tendril/rpc/group/leaving.h"
#include "tendril/rpc/launch/process_launch.h"
#include "tendril/rpc/system/mutex.h"
#include "tendril/rpc/wire/error_message.h"

namespace tendril::rpc {

using namespace std::chrono_literals;
using detail::with_prefix;
using std::chrono::milliseconds;

/// A membership that joining.h creates and leaving.h ends. Checks which operations are allowed in its current state.
class Group::Impl {
 public:
  Impl(const std::string& name, const InitOptions& options) {
    const detail::Launched launched = with_prefix("init_rpc: ", [] { return detail::process_launch(); });
    const auto settings = with_prefix("init_rpc: ", [&] { return detail::group_settings(name, options, launched); });
    std::string who = "init_rpc ('" + settings.self.name + "', rank " + std::to_string(settings.self.id);
    if (const char* show = std::getenv("TENDRIL_SHOW_LAUNCH"); show != nullptr && std::string_view(show) == "1")
      std::fprintf(stderr, "rpc: worker '%s' is rank %d of %d at %s:%d, %s\n", settings.self.name.c_str(),
                   static_cast<int>(settings.self.id), settings.world_size, settings.master_addr.c_str(),
                   settings.master_port, launched.text().c_str());
    if (!launched.advice.empty()) who += ", " + launched.text();  // a launcher has set its own variables
    with_prefix(who + "): ", [&] {
      InitOptions completed = options;
      completed.transport = detail::given_transport(options.transport, std::getenv("TENDRIL_TRANSPORT"));
      completed.agent.cuda_ipc = detail::given_cuda_ipc(options.agent.cuda_ipc, std::getenv("TENDRIL_CUDA_IPC"));
      completed.agent.encrypt = detail::given_encrypt(options.agent.encrypt, std::getenv("TENDRIL_ENCRYPT"));
      try {
        detail::join(member_, settings, completed, launched.advice);
      } catch (...) {
        // Waits until the other workers have been notified. They may have called this one already, so this shuts the
        // agent down here; otherwise a handler that is still running could be the one that destroys the agent.
        if (member_.agent && !member_.agent->has_shut_down())
          (void)detail::leave(member_, Clock::now() + detail::kMinPhaseTime);
        throw;
      }
    });
    joined_ = true;
  }

  ~Impl() { (void)leave(Clock::time_point::max()); }

  const detail::GroupMember& member() const noexcept { return member_; }

  using Participants = detail::Membership::Participants;

  void barrier(milliseconds timeout, const Participants& who) {
    meet_in("rpc::barrier", phases::kBarrier, {}, timeout, who);
  }

  std::vector<std::string> gather(std::string bytes, milliseconds timeout, const Participants& who) {
    TENDRIL_CHECK_AS(UsageError, bytes.size() <= Group::kMaxGathered, "rpc::all_gather: the value must have at most ",
                     Group::kMaxGathered, " bytes, got ", bytes.size());
    return meet_in("rpc::all_gather", phases::kAllGather, std::move(bytes), timeout, who);
  }

  /// The workers with these names, which must include this one.
  Participants those(const std::vector<std::string>& names, const char* what) const {
    Participants who;
    for (const std::string& name : names) who.ranks.push_back(member_.agent->worker(name).id);
    std::sort(who.ranks.begin(), who.ranks.end());
    who.ranks.erase(std::unique(who.ranks.begin(), who.ranks.end()), who.ranks.end());
    check_participates(who, what);
    return who;
  }
  Participants those(const GroupView& view, const char* what) const {
    Participants who{.attendance = Attendance::unchanged, .ranks = view.alive(), .epoch = view.epoch};
    check_participates(who, what);
    return who;
  }

  GroupView view() const { return member_.membership->view(); }
  GroupView wait_for_change(uint64_t epoch, milliseconds timeout) {
    return with_prefix("rpc::wait_for_change: ", [&] {
      const auto deadline = timeout > 0ms ? deadline_after(timeout) : Clock::time_point::max();
      return member_.membership->wait_for_change(epoch, deadline);
    });
  }

  void shutdown(const ShutdownOptions& options) {
    if (Executor::current() == &member_.agent->executor())
      throw UsageError("rpc::shutdown: called in a handler, which it would wait for");
    const std::lock_guard one_at_a_time(shutdown_);
    const auto deadline = options.timeout > 0ms ? deadline_after(options.timeout) : Clock::time_point::max();
    if (!stop_meeting(options.graceful, deadline)) return;
    std::exception_ptr error;
    if (options.graceful) {
      try {
        detail::leave_together(member_, deadline, options.accept_losses);
      } catch (...) {
        error = std::current_exception();
      }
    }
    const std::exception_ptr unended = leave(detail::with_min_phase_time(deadline));
    with_prefix("rpc::shutdown ('" + member_.agent->self().name + "'): ", [&] {
      if (error && unended) throw TimeoutError(text_of(error) + "; " + text_of(unended));
      if (error || unended) std::rethrow_exception(error ? error : unended);
    });
  }

 private:
  std::vector<std::string> meet_in(const char* what, const char* phase, std::string bytes, milliseconds timeout,
                                   const Participants& who) {
    TENDRIL_CHECK_AS(UsageError, timeout >= 0ms, what, ": timeout: got ", timeout.count(),
                     " ms, expected 0 (none) or more");
    const BlockedScope blocked(what);
    const Meeting meeting(*this, what);
    return with_prefix(std::string(what) + ": ",
                       [&] { return member_.membership->gather(phase, std::move(bytes), timeout, who); });
  }

  /// Keeps this worker in the group during a barrier or gathering. Rejects new ones once shutdown has been called: the
  /// meetings of the shutdown would wait for this one, or a handler in this one would wait for them.
  struct Meeting {
    Meeting(Impl& of, const char* what) : impl(of) {
      const std::lock_guard lock(impl.mutex_);
      if (!impl.joined_) throw UsageError(std::string(what) + ": this worker has left its group");
      if (impl.leaving_)
        throw UsageError(std::string(what) + ": this worker is leaving its group: shutdown was called");
      ++impl.meetings_;
    }
    ~Meeting() {
      const std::lock_guard lock(impl.mutex_);
      --impl.meetings_;
      impl.met_.notify_all();
    }
    Meeting(const Meeting&) = delete;
    Meeting& operator=(const Meeting&) = delete;
    Impl& impl;
  };

  /// Rejects new meetings from now on. If `graceful`, waits for the current ones until the deadline, or, without a
  /// deadline, until they time out or the group ends. Returns false if this worker has already left.
  bool stop_meeting(bool graceful, Clock::time_point deadline) {
    std::unique_lock lock(mutex_);
    if (!joined_) return false;
    leaving_ = true;
    const auto nobody_meets = [this] { return meetings_ == 0; };
    if (graceful) met_.wait_until(lock, deadline, nobody_meets);
    return true;
  }

  void check_participates(Participants& who, const char* what) const {
    const WorkerInfo& self = member_.agent->self();
    TENDRIL_CHECK_AS(UsageError, std::binary_search(who.ranks.begin(), who.ranks.end(), self.id), what,
                     ": this worker, '", self.name, "', is not one of the workers that take part");
    if (who.ranks.size() == member_.workers.size()) who.ranks.clear();  // empty means all
  }

  std::exception_ptr leave(Clock::time_point deadline) noexcept {
    {
      const std::lock_guard lock(mutex_);
      if (!std::exchange(joined_, false)) return nullptr;
    }
    std::exception_ptr error = detail::leave(member_, deadline);
    member_.note(detail::LogLevel::info, "has left its group");
    return error;
  }

  detail::Mutex shutdown_;  // allows one shutdown at a time
  detail::Mutex mutex_;     // guards the members below, except member_
  detail::Condition met_;
  int meetings_ = 0;  // barriers and gatherings in progress on this worker
  bool joined_ = false, leaving_ = false;
  detail::GroupMember member_;
};

Group::Group(const std::string& name, const InitOptions& options) : impl_(std::make_unique<Impl>(name, options)) {}
Group::~Group() = default;
const std::shared_ptr<Agent>& Group::agent() const noexcept { return impl_->member().agent; }
const std::vector<WorkerInfo>& Group::workers() const noexcept { return impl_->member().workers; }
RRefCounters Group::rref_counters() const { return impl_->member().references->counters(); }
std::vector<LiveReference> Group::references() const { return impl_->member().references->table().list(); }
uint16_t Group::metrics_port() const noexcept {
  return impl_->member().metrics ? impl_->member().metrics->port() : uint16_t{0};
}
GroupView Group::view() const { return impl_->view(); }
uint64_t Group::epoch() const { return impl_->view().epoch; }
GroupView Group::wait_for_change(uint64_t epoch, milliseconds timeout) {
  return impl_->wait_for_change(epoch, timeout);
}
void Group::barrier(milliseconds timeout) { impl_->barrier(timeout, {}); }
void Group::barrier(const std::vector<std::string>& names, milliseconds timeout) {
  impl_->barrier(timeout, impl_->those(names, "rpc::barrier"));
}
void Group::barrier(const GroupView& view, milliseconds timeout) {
  impl_->barrier(timeout, impl_->those(view, "rpc::barrier"));
}
std::vector<std::string> Group::gather(std::string bytes, milliseconds timeout) {
  return impl_->gather(std::move(bytes), timeout, {});
}
std::vector<std::string> Group::gather(std::string bytes, const std::vector<std::string>& names, milliseconds timeout) {
  return impl_->gather(std::move(bytes), timeout, impl_->those(names, "rpc::all_gather"));
}
void Group::shutdown(const ShutdownOptions& options) { impl_->shutdown(options); }

}  // namespace tendril::rpc

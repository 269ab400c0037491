#include "tendril/rpc/group/leaving.h"

#include <algorithm>
#include <string>

#include "tendril/rpc/error.h"
#include "tendril/rpc/group/drain.h"
#include "tendril/rpc/system/thread.h"
#include "tendril/rpc/wire/error_message.h"

namespace tendril::rpc::detail {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace {

// Without a deadline: the timeout of those phases of a graceful shutdown that do not wait for user code.
constexpr milliseconds kPhaseTimeout = 60s;

std::string counters_text(const RRefCounters& c) {
  return "owner_rrefs " + std::to_string(c.owner_rrefs) + ", forks " + std::to_string(c.forks) + ", users " +
         std::to_string(c.users) + ", pending_users " + std::to_string(c.pending_users) + ", pending_children " +
         std::to_string(c.pending_children);
}

/// The gatherings of a shutdown.
class Leaving final : public Gathering {
 public:
  Leaving(Membership& membership, bool accept_losses) : membership_(membership), accept_losses_(accept_losses) {}
  std::vector<std::string> gather(const std::string& phase, std::string contribution, milliseconds timeout) override {
    return membership_.gather(phase, std::move(contribution), timeout,
                              {.attendance = accept_losses_ ? Attendance::alive : Attendance::named});
  }
  void check() override { membership_.check(accept_losses_); }
  const std::vector<std::string>& names() const noexcept override { return membership_.names(); }

 private:
  Membership& membership_;
  const bool accept_losses_;
};

/// Waits for the release of references, which takes messages between workers that are otherwise idle.
RRefCounters wait_for_references(const RRefContext& references, Gathering& group, Clock::time_point deadline) {
  auto pause = std::chrono::microseconds(50);
  for (;;) {
    const RRefCounters counters = references.counters();
    if (counters.none() || Clock::now() >= deadline) return counters;
    sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(5000));
    group.check();
  }
}

}  // namespace

Clock::time_point with_min_phase_time(Clock::time_point deadline) {
  return std::max(deadline, Clock::now() + kMinPhaseTime);
}

void leave_together(GroupMember& member, Clock::time_point deadline, bool accept_losses) {
  const auto phase_timeout = [&] {
    return deadline == Clock::time_point::max() ? kPhaseTimeout : left_until(with_min_phase_time(deadline));
  };
  Leaving all(*member.membership, accept_losses);
  try {
    member.trace.measure_again(*member.agent, deadline);
    member.note(LogLevel::info, "shuts down and waits for the other workers");
    all.gather(phases::kShutdown, {}, left_until(deadline));
    member.note(LogLevel::info, "waits for calls that are still open");
    drain(*member.agent, all, deadline);
    member.note(LogLevel::info, "releases its references");
    member.references->table().release_users();
    const RRefCounters left = wait_for_references(*member.references, all, Clock::now() + phase_timeout());
    const auto texts = all.gather(phases::kLast, left.none() ? "" : counters_text(left), phase_timeout());
    std::string leaks;
    for (const WorkerInfo& worker : member.workers) {
      const std::string& text = texts[static_cast<std::size_t>(worker.id)];
      if (!text.empty()) leaks += (leaks.empty() ? "" : "; ") + ("worker '" + worker.name + "': " + text);
    }
    if (!leaks.empty()) throw RRefError("references were not released: " + leaks);
  } catch (...) {
    if (accept_losses && member.membership->has_lost_rank_0()) {
      return member.note(LogLevel::info, "leaves without the others: " + text_of(std::current_exception()));
    }
    member.membership->fail(text_of(std::current_exception()));
    throw;
  }
  if (!member.service) return;
  member.membership->leave();
  member.service->wait_until_left(deadline);  // the last answers may still be in transit
}

std::exception_ptr leave(GroupMember& member, Clock::time_point deadline) noexcept {
  std::exception_ptr error;
  if (member.membership) member.membership->leave();
  if (member.service) member.service->wait_until_told();
  if (member.membership) member.membership->end(std::make_exception_ptr(UsageError("this worker has left its group")));
  try {
    // The other workers may have been told late. Without time to shut down, the agent would leave its port in use
    // for a moment.
    if (member.agent) member.agent->shutdown(with_min_phase_time(deadline));
  } catch (...) {  // it is shut down in any case
    error = std::current_exception();
  }
  // A trace that cannot be written does not fail the shutdown.
  if (const std::string why = member.trace.write(); !why.empty())
    member.note(LogLevel::warn, "could not write its trace: " + why);
  member.metrics.reset();
  member.status_signal.reset();
  return error;
}

}  // namespace tendril::rpc::detail

// Timeout errors name the missing members: a member whose wait timed out asks all others for their status.
#include <algorithm>
#include <chrono>
#include <mutex>

#include "tendril/dist/collectives/detail/channel.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/system/mutex.h"

namespace tendril::dist::detail {

using rpc::Clock;

namespace {
/// Time limit for an answer. A busy machine may not schedule a process for a second.
constexpr std::chrono::milliseconds kStatusTimeout{3000};
}  // namespace

std::vector<std::optional<WhereaboutsMessage>> Channel::request_all_status() const {
  struct Answers {
    rpc::detail::Mutex mutex;
    std::size_t left;
    std::vector<std::optional<WhereaboutsMessage>> of;
    Ref<rpc::FutureState<void>> all;
  };
  const auto answers = std::make_shared<Answers>();
  answers->left = members_.size() - 1;
  answers->of.resize(members_.size());
  answers->all = Ref<rpc::FutureState<void>>(new rpc::FutureState<void>(&transmitter_->executor()));
  const GroupName group{key_, 0};
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (static_cast<int>(i) == rank_) continue;
    transmitter_->call(members_[i].id, write_request(CollectiveRequest::whereabouts, group),
                       Clock::now() + kStatusTimeout, [answers, i](rpc::Message* reply, const std::exception_ptr&) {
                         Ref<rpc::FutureState<void>> all;
                         {
                           const std::lock_guard lock(answers->mutex);
                           try {
                             if (reply) answers->of[i] = read_request<WhereaboutsMessage>(*reply);
                           } catch (const rpc::RpcError&) {  // treated as no answer
                           }
                           if (--answers->left == 0) all = answers->all;
                         }
                         if (all) all->try_set_value();
                       });
  }
  answers->all->wait_until(Clock::now() + kStatusTimeout + std::chrono::seconds(1));
  const std::lock_guard lock(answers->mutex);
  return answers->of;
}

std::string Channel::describe_missing(uint64_t operation) const {
  const auto answers = request_all_status();
  std::string text;
  const auto note = [&](std::size_t i, const std::string& problem) {
    text += (text.empty() ? "worker '" : "; worker '") + members_[i].name + "' " + problem;
  };
  // During joining only the first member knows which members have joined: the others may be about to time out, too.
  const WhereaboutsMessage first = rank_ == 0 ? whereabouts() : answers[0].value_or(WhereaboutsMessage{});
  if (operation == 0 && !first.made && !first.what.empty())
    return "worker '" + members_[0].name + "' reported: " + first.what;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (static_cast<int>(i) == rank_) continue;
    const auto& answer = answers[i];
    if (operation == 0) {
      const bool knows = i == 0 || first.made;
      if (!answer) {
        note(i, "does not answer");
      } else if (knows && std::find(first.joined.begin(), first.joined.end(), members_[i].id) == first.joined.end()) {
        note(i, "has not joined");
      }
    } else if (!answer) {
      note(i, "does not answer");
    } else if (!answer->made) {
      note(i, "has left the group");
    } else if (answer->operations < operation) {
      note(i, "has not called it" + (answer->operations > 0 ? " (its last was " + answer->what + ")" : ""));
    }
  }
  return text.empty() ? "all members take part, but it is still running" : text;
}

void Channel::fail_by_timeout(const std::string& doing) {
  uint64_t operation = 0;
  {
    const std::lock_guard lock(mutex_);
    if (generation_ != 0) operation = operation_;
  }
  fail({Failure::timeout, doing + ": timed out: " + describe_missing(operation)}, true);
  const std::lock_guard lock(mutex_);
  failure_.raise();
}

WhereaboutsMessage Channel::whereabouts() const {
  const std::lock_guard lock(mutex_);
  WhereaboutsMessage here{.made = true, .joined = {members_[0].id}, .operations = operation_, .what = what_};
  for (const auto& [worker, call] : joins_) here.joined.push_back(worker);
  return here;
}

}  // namespace tendril::dist::detail

#include "tendril/dist/collectives/detail/channel.h"

#include <algorithm>
#include <chrono>

#include "tendril/dist/collectives/process_group.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/system/thread.h"

namespace tendril::dist::detail {

using rpc::Clock;

namespace {

/// Time limit for notifying the other members of a failure.
constexpr std::chrono::milliseconds kNotifyTimeout{5000};
/// How long a member waits for members at which no request is pending before it checks that they are alive.
constexpr std::chrono::milliseconds kProbeAfter{1000};
/// Limit on the parts per member that are stored until this member needs them. A ring never gets this far ahead.
constexpr std::size_t kMaxParked = 4096;

std::string name_of_group(const std::vector<rpc::WorkerInfo>& members, const std::string& tag) {
  std::string name = "process group ";
  if (!tag.empty()) name += "'" + tag + "' ";
  name += "of";
  constexpr std::size_t kShown = 8;
  for (std::size_t i = 0; i < std::min(members.size(), kShown); ++i) {
    name += (i == 0 ? " '" : ", '") + members[i].name + "'";
  }
  if (members.size() > kShown) name += " and " + std::to_string(members.size() - kShown) + " more";
  return name;
}

/// FNV-1a, which gives the same value on all members.
uint64_t hash_of(const std::vector<rpc::WorkerInfo>& members, const std::string& tag) {
  uint64_t hash = 14695981039346656037u;
  const auto add = [&](const std::string& text) {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
    hash = (hash ^ 0xffu) * 1099511628211u;
  };
  for (const rpc::WorkerInfo& member : members) add(member.name);
  add(tag);
  return hash;
}

}  // namespace

Channel::Channel(std::shared_ptr<Transmitter> transmitter, std::vector<rpc::WorkerInfo> members, int rank,
                 std::string tag)
    : transmitter_(std::move(transmitter)),
      members_(std::move(members)),
      rank_(rank),
      name_(name_of_group(members_, tag)),
      key_(hash_of(members_, tag)) {
  for (const rpc::WorkerInfo& member : members_) ranks_.emplace(member.id, static_cast<int>(ranks_.size()));
}

rpc::Executor& Channel::executor() const noexcept { return transmitter_->executor(); }

int Channel::rank_of(rpc::WorkerId worker) const noexcept {
  const auto found = ranks_.find(worker);
  return found == ranks_.end() ? -1 : found->second;
}

// ---- Waiting

Channel::Ranks Channel::awaited() const {
  Ranks ranks;
  for (int rank = 0; rank < size(); ++rank) {
    const bool has_joined = generation_ == 0 && joins_.contains(members_[static_cast<std::size_t>(rank)].id);
    if (rank != rank_ && !has_joined) ranks.push_back(rank);
  }
  return ranks;
}

template <class Ready>
bool Channel::wait(Lock& lock, Ready ready, const std::function<Ranks()>& of) {
  for (;;) {
    check_locked();
    if (ready()) return true;
    // A future rather than a condition variable, because waiting for a future drives the agent's I/O.
    wake_ = Ref<rpc::FutureState<void>>(new rpc::FutureState<void>(&transmitter_->executor()));
    const Ref<rpc::FutureState<void>> wake = wake_;
    const Deadline deadline = deadline_, until = of ? std::min(deadline, Clock::now() + kProbeAfter) : deadline;
    lock.unlock();
    const bool woken = wake->wait_until(until);
    lock.lock();
    if (woken) continue;
    check_locked();
    if (until == deadline || ready()) return ready();
    ask_whether_they_live(lock, of());
  }
}

/// Sends each member a request. A session notices that its peer is silent, stopped or cut off only while a request is
/// pending, and then reports the peer as lost. The answers matter only if they show that a member has left while this
/// one still waits for a part from it.
void Channel::ask_whether_they_live(Lock& lock, const Ranks& ranks) {
  if (probes_pending_ > 0) return;
  probes_pending_ = ranks.size();
  const Deadline deadline = deadline_;
  const uint64_t operation = operation_;
  lock.unlock();
  for (const int rank : ranks) {
    transmitter_->call(members_[static_cast<std::size_t>(rank)].id,
                       write_request(CollectiveRequest::whereabouts, GroupName{key_, 0}), deadline,
                       [self = shared_from_this(), rank, operation](rpc::Message* reply, const std::exception_ptr&) {
                         bool left = false;
                         try {
                           left = reply && !read_request<WhereaboutsMessage>(*reply).made;
                         } catch (const rpc::RpcError&) {  // treated as no answer
                         }
                         self->status_received(rank, operation, left);
                       });
  }
  lock.lock();
}

void Channel::status_received(int rank, uint64_t operation, bool left) {
  {
    const std::lock_guard lock(mutex_);
    --probes_pending_;
    if (!left || operation_ != operation || waits_for_ != rank) return;
  }
  fail({Failure::other, name_ + ": worker '" + members_[static_cast<std::size_t>(rank)].name + "' has left the group"},
       true);
}

void Channel::wake(Lock& lock) {
  const Ref<rpc::FutureState<void>> wake = std::move(wake_);
  lock.unlock();
  if (wake) wake->try_set_value();
}

void Channel::check_locked() const {
  if (failure_) failure_.raise();
}

void Channel::check() const {
  const std::lock_guard lock(mutex_);
  check_locked();
}

Failure Channel::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

// ---- Failing

void Channel::fail(Failure failure, bool tell) {
  std::map<Place, Parked> parked;
  std::map<rpc::WorkerId, rpc::InboundCall> joins;
  GroupName group{key_, 0};
  {
    Lock lock(mutex_);
    if (failure_) return;
    failure_ = failure;
    parked.swap(parked_);
    joins.swap(joins_);
    group.generation = generation_;
    wake(lock);
  }
  for (auto& [place, one] : parked) one.call.reply(write_answer(failure));
  for (auto& [worker, call] : joins) call.reply(write_answer(failure));
  if (!tell || group.generation == 0) return;  // until all have joined, members find out by their deadlines
  for (const rpc::WorkerInfo& member : members_) {
    if (member.id == members_[static_cast<std::size_t>(rank_)].id) continue;
    transmitter_->call(member.id, write_request(CollectiveRequest::failure, FailureMessage{group, failure}),
                       Clock::now() + kNotifyTimeout, [](rpc::Message*, const std::exception_ptr&) {});
  }
}

void Channel::told(const rpc::WorkerInfo& by, const FailureMessage& message) {
  {
    const std::lock_guard lock(mutex_);
    if (rank_of(by.id) < 0) return;
    if (generation_ == 0) {  // of this generation, which may have begun without this member knowing yet, or of another
      early_failure_ = message;
      return;
    }
    if (message.group.generation != generation_) return;
  }
  fail(message.failure, false);
}

void Channel::peer_lost(const rpc::WorkerInfo& peer, const std::exception_ptr& reason) {
  if (rank_of(peer.id) < 0) return;
  std::string text;
  {
    const std::lock_guard lock(mutex_);
    text = doing_locked();
  }
  fail({Failure::lost, text + ": worker '" + peer.name + "' is lost: " + Failure::of(reason).text}, true);
}

void Channel::answered(rpc::WorkerId from, rpc::Message* reply, const std::exception_ptr& error) {
  Failure failure;
  try {
    if (error) std::rethrow_exception(error);
    failure = read_answer(*reply);
  } catch (...) {
    failure = Failure::of(std::current_exception());
    const std::string request = called(CollectiveRequest::part);
    const std::string worker = ": worker '" + members_[static_cast<std::size_t>(rank_of(from))].name + "': ";
    const std::lock_guard lock(mutex_);
    failure.text = doing_locked() +
                   (failure.text.starts_with(request) ? failure.text.substr(request.size()) : worker + failure.text);
  }
  // The request has the operation's deadline. It stays counted as unanswered, so that the waiting thread times out as
  // well and determines which members are missing.
  if (error && failure.kind == Failure::timeout) return;
  if (failure) fail(failure, true);
  Lock lock(mutex_);
  --unanswered_;
  wake(lock);
}

void Channel::close() {
  fail({Failure::other, name_ + ": worker '" + members_[static_cast<std::size_t>(rank_)].name + "' has left the group"},
       false);
  if (when_closed_) when_closed_(*this);
}

// ---- Joining: all other members send a request to the first, which answers when it has all of them

void Channel::join(Deadline deadline) {
  const std::string doing = name_ + ": joining";
  {
    const std::lock_guard lock(mutex_);
    deadline_ = deadline;
  }
  if (rank_ != 0) {
    Lock lock(mutex_);
    lock.unlock();
    transmitter_->call(members_[0].id, write_request(CollectiveRequest::join, GroupName{key_, 0}), deadline,
                       [self = shared_from_this()](rpc::Message* reply, const std::exception_ptr& error) {
                         uint64_t generation = 0;
                         Failure failure;
                         try {
                           if (error) std::rethrow_exception(error);
                           failure = read_answer(*reply, &generation);
                           if (!failure && generation == 0)
                             failure = {Failure::other, self->name_ + ": joining: invalid answer"};
                         } catch (...) {
                           failure = Failure::of(std::current_exception());
                           if (failure.kind == Failure::timeout) return;  // the waiting thread names missing members
                           const std::string request = called(CollectiveRequest::join);
                           failure.text = self->name_ + ": joining" +
                                          (failure.text.starts_with(request) ? failure.text.substr(request.size())
                                                                             : ": " + failure.text);
                         }
                         if (failure) return self->fail(failure, false);
                         Lock locked(self->mutex_);
                         self->begin_generation(locked, generation);
                       });
  } else {
    Lock lock(mutex_);
    complete_join(lock);
  }
  Lock lock(mutex_);
  const auto all_are_in = [&] { return generation_ != 0; };
  // The others have requests pending at the first member, but it has none at them: only a check notices their loss.
  if (rank_ == 0 ? wait(lock, all_are_in, [&] { return awaited(); }) : wait(lock, all_are_in)) return;
  lock.unlock();
  fail_by_timeout(doing);
}

void Channel::begin_generation(Lock& lock, uint64_t generation) {
  generation_ = generation;
  std::vector<rpc::InboundCall> others;  // of another generation
  for (auto at = parked_.begin(); at != parked_.end();) {
    const bool other = std::get<0>(at->first) != generation;
    if (other) others.push_back(std::move(at->second.call));
    at = other ? parked_.erase(at) : std::next(at);
  }
  const bool has_failed = early_failure_.group.generation == generation;
  wake(lock);
  if (has_failed) fail(early_failure_.failure, false);
  for (rpc::InboundCall& call : others)
    call.reply(write_answer({Failure::other, name_ + ": the part belongs to an earlier group of the same members"}));
}

void Channel::complete_join(Lock& lock) {
  std::vector<rpc::InboundCall> abandoned;
  for (auto at = joins_.begin(); at != joins_.end();) {
    const rpc::CallContext& context = at->second.context();
    const bool over = context.stop.stop_requested() || context.deadline < Clock::now();
    if (over) abandoned.push_back(std::move(at->second));
    at = over ? joins_.erase(at) : std::next(at);
  }
  std::map<rpc::WorkerId, rpc::InboundCall> joins;
  uint64_t generation = 0;
  if (generation_ == 0 && !failure_ && joins_.size() + 1 == members_.size()) {
    while (generation == 0) generation = rpc::detail::random_bits();
    joins.swap(joins_);
    begin_generation(lock, generation);
  } else {
    lock.unlock();
  }
  for (auto& [worker, call] : joins) call.reply(write_answer({}, generation));
  for (rpc::InboundCall& call : abandoned)
    call.reply(write_answer({Failure::other, name_ + ": the request to join has expired"}));
}

void Channel::joined(rpc::InboundCall call) {
  Lock lock(mutex_);
  const rpc::WorkerId from = call.from().id;
  const int rank = rank_of(from);
  Failure failure = failure_;
  if (!failure && (rank <= 0 || rank_ != 0))
    failure = {Failure::other, name_ + ": worker '" + call.from().name + "' sent an invalid request to join"};
  if (!failure && generation_ != 0)
    failure = {Failure::other, name_ + ": worker '" + members_[static_cast<std::size_t>(rank_)].name +
                                   "' still has an earlier group; all members must destroy theirs first"};
  if (failure) {
    lock.unlock();
    return call.reply(write_answer(failure));
  }
  const auto earlier = joins_.find(from);  // the member abandoned that request
  std::optional<rpc::InboundCall> abandoned;
  if (earlier != joins_.end()) {
    abandoned.emplace(std::move(earlier->second));
    joins_.erase(earlier);
  }
  joins_.emplace(from, std::move(call));
  complete_join(lock);
  if (abandoned) abandoned->reply(write_answer({Failure::other, name_ + ": replaced by a later request to join"}));
}

// ---- Operations

Failure Channel::mismatch(const rpc::WorkerInfo& other, const std::string& theirs) const {
  return {Failure::other, name_ + ", operation " + std::to_string(operation_) + ": worker '" +
                              members_[static_cast<std::size_t>(rank_)].name + "' calls " + what_ + ", worker '" +
                              other.name + "' calls " + theirs};
}

std::string Channel::doing_locked() const {
  return in_operation_ ? name_ + ", operation " + std::to_string(operation_) + ", " + what_ : name_;
}

void Channel::begin(std::string what, Deadline deadline) {
  Failure failure;
  {
    const std::lock_guard lock(mutex_);
    check_locked();
    ++operation_;
    what_ = std::move(what);
    deadline_ = deadline;
    next_probe_ = Clock::now() + kProbeAfter;
    in_operation_ = true;
    for (const auto& [place, one] : parked_) {
      if (std::get<1>(place) != operation_ || one.what == what_) continue;
      failure = mismatch(one.call.from(), one.what);
      break;
    }
  }
  if (!failure) return;
  fail(failure, true);
  check();
}

void Channel::end() {
  const std::lock_guard lock(mutex_);
  in_operation_ = false;
}

void Channel::send(int to, uint32_t stage, uint32_t chunk, Tensor part) {
  PartMessage message;
  Deadline deadline;
  {
    const std::lock_guard lock(mutex_);
    check_locked();
    ++unanswered_;
    message = {{key_, generation_}, operation_, stage, chunk, what_, std::move(part)};
    deadline = deadline_;
  }
  const rpc::WorkerId worker = members_[static_cast<std::size_t>(to)].id;
  transmitter_->call(worker, write_request(CollectiveRequest::part, message), deadline,
                     [self = shared_from_this(), worker](rpc::Message* reply, const std::exception_ptr& error) {
                       self->answered(worker, reply, error);
                     });
}

Tensor Channel::receive(int from, uint32_t stage, uint32_t chunk, int64_t numel, DType dtype) {
  const rpc::WorkerInfo& sender = members_[static_cast<std::size_t>(from)];
  Lock lock(mutex_);
  const Place place{generation_, operation_, stage, chunk, sender.id};
  waits_for_ = from;
  const bool came = wait(
      lock, [&] { return parked_.contains(place); }, [&] { return Ranks{from}; });
  waits_for_ = -1;
  if (!came) {
    const std::string doing = doing_locked();
    lock.unlock();
    fail_by_timeout(doing);
  }
  Parked taken = std::move(parked_.at(place));
  parked_.erase(place);
  lock.unlock();
  const Tensor& part = taken.part;
  if (!part.defined() || part.numel() != numel || part.dtype() != dtype || !part.is_contiguous() ||
      part.device() != kCPU) {
    const Failure failure{Failure::other,
                          name_ + ": worker '" + sender.name + "' sent a part of the wrong size, dtype or layout"};
    fail(failure, true);
    taken.call.reply(write_answer(failure));
    failure.raise();
  }
  taken.call.reply(write_answer({}));
  return part;
}

void Channel::flush(std::size_t at_most) {
  Lock lock(mutex_);
  if (wait(lock, [&] { return unanswered_ <= at_most; })) return;
  const std::string doing = doing_locked();
  lock.unlock();
  fail_by_timeout(doing);
}

void Channel::check_time() {
  Lock lock(mutex_);
  check_locked();
  const auto now = Clock::now();
  if (now < deadline_) {
    if (now < next_probe_) return;
    next_probe_ = now + kProbeAfter;
    return ask_whether_they_live(lock, awaited());
  }
  const std::string doing = doing_locked();
  lock.unlock();
  fail_by_timeout(doing);
}

void Channel::deliver(rpc::InboundCall call, PartMessage part) {
  Failure failure;
  bool tell = false;
  {
    Lock lock(mutex_);
    const rpc::WorkerInfo from = call.from();
    const Place place{part.group.generation, part.operation, part.stage, part.chunk, from.id};
    if (failure_) {
      failure = failure_;
    } else if (rank_of(from.id) < 0 || (generation_ != 0 && part.group.generation != generation_) ||
               part.operation < operation_ || (part.operation == operation_ && !in_operation_)) {
      failure = {Failure::other, name_ + ": worker '" + from.name +
                                     "' sent a part of another group or of an ended operation: " + part.what +
                                     ", operation " + std::to_string(part.operation)};
    } else if (part.operation == operation_ && part.what != what_) {
      failure = mismatch(from, part.what);
      tell = true;
    } else if (parked_.size() >= kMaxParked * members_.size() || parked_.contains(place)) {
      failure = {Failure::other, name_ + ": worker '" + from.name + "' sent a part twice, or too many parts"};
    } else {
      parked_.emplace(place, Parked{std::move(call), std::move(part.what), std::move(part.part)});
      return wake(lock);
    }
  }
  call.reply(write_answer(failure));
  if (tell) fail(failure, true);
}

}  // namespace tendril::dist::detail

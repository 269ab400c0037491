#include "tendril/rpc/launch/rendezvous.h"

#include <algorithm>
#include <utility>

#include "tendril/rpc/archive.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/wire/byte_order.h"

namespace tendril::rpc {
namespace {

constexpr std::size_t kMaxRefusals = 8;            // that are remembered: anybody may be refused, as often as he likes
constexpr uint32_t kRendezvousMagic = 0x5a524454;  // "TDRZ"

std::string seconds(std::chrono::milliseconds time) {
  const auto ms = time.count();
  return ms % 1000 == 0 ? std::to_string(ms / 1000) + " s" : std::to_string(ms) + " ms";
}

/// A name as it may be shown: it comes from an unknown process.
std::string quoted(const std::string& name) {
  std::string result = "'";
  for (const char c : name.substr(0, 64)) result += c >= ' ' && c <= '~' ? c : '?';
  return result + (name.size() > 64 ? "...'" : "'");
}

}  // namespace

Bytes encode(const RendezvousMessage& message) {
  Message out;
  OutputArchive archive(out);
  archive << message.kind << message.text;  // these two never move: other versions read them
  archive << message.failure << message.worker << message.world_size << message.round << message.timeout_ms
          << message.parts;
  Bytes bytes(kRendezvousPrefixBytes + out.payload.size());
  std::byte* at = put(bytes.data(), static_cast<uint32_t>(out.payload.size()));
  at = put(at, kRendezvousMagic);
  at = put(at, message.version);
  std::copy(out.payload.begin(), out.payload.end(), at);
  return bytes;
}

std::size_t rendezvous_body_size(std::span<const std::byte> prefix, std::size_t limit) {
  if (get<uint32_t>(prefix.data() + 4) != kRendezvousMagic)
    throw MessageError("rendezvous: not a message of this protocol");
  const auto size = get<uint32_t>(prefix.data());
  TENDRIL_CHECK_AS(MessageError, size <= limit, "rendezvous: a message of ", size, " bytes; at most ", limit,
                   " are read here");
  return size;
}

RendezvousMessage decode_rendezvous(std::span<const std::byte> bytes) {
  RendezvousMessage message;
  message.version = get<uint16_t>(bytes.data() + 8);
  Message in;
  in.payload.assign(bytes.begin() + kRendezvousPrefixBytes, bytes.end());
  InputArchive archive(in, "rendezvous");
  archive >> message.kind >> message.text;
  if (message.version != kRendezvousVersion) return message;
  archive >> message.failure >> message.worker >> message.world_size >> message.round >> message.timeout_ms >>
      message.parts;
  archive.finish();
  return message;
}

void throw_group_failure(GroupFailure failure, const std::string& text) {
  switch (failure) {
    case GroupFailure::timeout:
      throw TimeoutError(text);
    case GroupFailure::lost:
      throw PeerLostError(text, true);
    default:
      throw UsageError(text);
  }
}

std::string name_problem(const std::string& name) {
  const bool fits = !name.empty() && name.size() <= 127 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == ':';
  });
  if (fits) return {};
  return "the name " + quoted(name) + " is not 1 to 127 characters of A-Z a-z 0-9 - _ :";
}

RendezvousServer::RendezvousServer(int world_size, std::string group)
    : world_size_(world_size), group_(std::move(group)), members_(static_cast<std::size_t>(world_size)) {}

std::vector<RendezvousServer::Action> RendezvousServer::take_actions() { return std::exchange(actions_, {}); }

bool RendezvousServer::all_told() const noexcept {
  return std::all_of(members_.begin(), members_.end(), [](const Member& member) { return member.told; });
}

void RendezvousServer::received(Connection from, const RendezvousMessage& message, Clock::time_point now) {
  const auto known = ranks_.find(from);
  if (known == ranks_.end()) {
    if (message.kind == RendezvousKind::join) return join(from, message, now);
    actions_.push_back({from, {}, true});
    return;
  }
  const WorkerId rank = known->second;
  switch (message.kind) {
    case RendezvousKind::contribute:
      return contribute(rank, message, now);
    case RendezvousKind::fail:
      members_[rank].told = true;
      return fail(GroupFailure::lost, describe(rank) + " failed: " + message.text);
    case RendezvousKind::leave:
      members_[rank].left = true;
      return;
    default:
      return fail(GroupFailure::usage, describe(rank) + " sent a message that does not belong here");
  }
}

void RendezvousServer::note_refused(const std::string& why) {
  if (complete_ || failed()) return;
  if (std::find(refusals_.begin(), refusals_.end(), why) != refusals_.end()) return;
  if (refusals_.size() < kMaxRefusals) refusals_.push_back(why);
}

void RendezvousServer::join(Connection from, const RendezvousMessage& message, Clock::time_point now) {
  const WorkerId rank = message.worker.id;
  const std::string who = "rank " + std::to_string(rank) + " (" + quoted(message.worker.name) + ")";
  const bool in_range = rank >= 0 && rank < world_size_;
  // It learns why and is forgotten: who cannot belong to this group cannot end it either. If it was meant to, it is
  // missing in the end, and named then.
  auto refuse = [&](const std::string& text) {
    send(from, {.kind = RendezvousKind::refused, .text = text, .failure = GroupFailure::usage}, true);
    note_refused(text);
  };
  if (message.version != kRendezvousVersion)
    return refuse("a worker speaks version " + std::to_string(message.version) + " of the rendezvous, rank 0 version " +
                  std::to_string(kRendezvousVersion) + ": build all workers from the same release");
  if (complete_ || (failed() && in_range && members_[rank].told)) {
    const std::string text =
        "there is a group of " + std::to_string(world_size_) + " workers already" +
        (in_range && complete_ ? ", whose rank " + std::to_string(rank) + " is " + quoted(members_[rank].name) : "");
    return send(from, {.kind = RendezvousKind::busy, .text = text}, true);
  }
  if (failed()) {
    if (in_range) members_[rank].told = true;
    return send(from, {.kind = RendezvousKind::refused, .text = failure_->text, .failure = failure_->kind}, true);
  }
  if (message.world_size != world_size_)
    return refuse("world sizes differ: rank 0 says " + std::to_string(world_size_) + ", " + who + " says " +
                  std::to_string(message.world_size));
  if (!in_range) return refuse(who + " is out of range: the world size is " + std::to_string(world_size_));
  if (const std::string problem = name_problem(message.worker.name); !problem.empty())
    return refuse("rank " + std::to_string(rank) + ": " + problem);
  Member& member = members_[rank];
  if (rank == 0 && message.text != group_)  // rank 0 is the process that made the id
    return refuse("two workers have rank 0: " + (member.joined ? quoted(member.name) : "the one that listens") +
                  " and " + quoted(message.worker.name));
  if (member.joined)
    return refuse("two workers have rank " + std::to_string(rank) + ": " + quoted(member.name) + " and " +
                  quoted(message.worker.name));
  for (WorkerId other = 0; other < world_size_; ++other)
    if (members_[other].joined && members_[other].name == message.worker.name)
      return refuse("the name " + quoted(message.worker.name) + " is not unique: ranks " + std::to_string(other) +
                    " and " + std::to_string(rank) + " have it");

  member.name = message.worker.name;
  member.connection = from;
  member.joined = true;
  ranks_[from] = rank;
  wait_for_others(member, message.timeout_ms, now);
  if (!std::all_of(members_.begin(), members_.end(), [](const Member& m) { return m.joined; })) return;

  complete_ = true;
  deadline_ = Clock::time_point::max();
  RendezvousMessage welcome{.kind = RendezvousKind::welcome, .text = group_};
  for (const Member& one : members_) welcome.parts.push_back(one.name);
  for (const Member& one : members_) send(one.connection, welcome);
}

void RendezvousServer::contribute(WorkerId rank, const RendezvousMessage& message, Clock::time_point now) {
  Member& member = members_[rank];
  if (failed()) {  // what it heard of the failure was on its way
    if (!member.told)
      send(member.connection, {.kind = RendezvousKind::refused, .text = failure_->text, .failure = failure_->kind});
    member.told = true;
    return;
  }
  if (!complete_ || message.round != round_ || member.contribution || message.parts.size() != 1)
    return fail(GroupFailure::usage, describe(rank) + " is out of step with its group");
  const auto earlier =
      std::find_if(members_.begin(), members_.end(), [](const Member& m) { return m.contribution.has_value(); });
  if (earlier == members_.end()) {
    phase_ = message.text;
  } else if (phase_ != message.text) {
    return fail(GroupFailure::usage, describe(rank) + " is at '" + message.text + "' while " +
                                         describe(static_cast<WorkerId>(earlier - members_.begin())) + " is at '" +
                                         phase_ + "': all workers must do the same in the same order");
  }
  member.contribution = message.parts[0];
  wait_for_others(member, message.timeout_ms, now);
  finish_round();
}

void RendezvousServer::finish_round() {
  for (WorkerId rank = 0; rank < world_size_; ++rank) {
    if (members_[rank].contribution || members_[rank].connection != 0) continue;
    return fail(GroupFailure::lost, describe(rank) + (members_[rank].left ? " has left the group" : " is gone") +
                                        " while others are at '" + phase_ + "'");
  }
  if (!std::all_of(members_.begin(), members_.end(), [](const Member& m) { return m.contribution.has_value(); }))
    return;
  RendezvousMessage gathered{.kind = RendezvousKind::gathered, .round = round_};
  for (Member& member : members_) {
    gathered.parts.push_back(std::move(*member.contribution));
    member.contribution.reset();
  }
  for (const Member& member : members_)
    if (member.connection != 0) send(member.connection, gathered);
  ++round_;
  deadline_ = Clock::time_point::max();
}

void RendezvousServer::closed(Connection connection) {
  const auto known = ranks_.find(connection);
  if (known == ranks_.end()) return;
  const WorkerId rank = known->second;
  ranks_.erase(known);
  Member& member = members_[rank];
  member.connection = 0;
  if (failed()) {
    member.told = true;  // there is nobody left to tell
    return;
  }
  if (!complete_) {  // it may be started again
    member = {};
    find_deadline();  // nobody waits by its deadline any more
    return;
  }
  const bool others_wait =
      std::any_of(members_.begin(), members_.end(), [](const Member& m) { return m.contribution.has_value(); });
  if (others_wait && !member.contribution) finish_round();
}

void RendezvousServer::on_timer(Clock::time_point now) {
  if (now < deadline_ || failed()) return;
  if (!complete_) {
    return fail(GroupFailure::timeout,
                "after " + seconds(patience_) + " these workers have not joined: " + describe_missing());
  }
  const std::string missing = list_ranks([](const Member& m) { return !m.contribution.has_value(); });
  fail(GroupFailure::timeout,
       "after " + seconds(patience_) + " these workers have not reached '" + phase_ + "': " + missing);
}

void RendezvousServer::fail(GroupFailure kind, std::string text) {
  if (failed()) return;
  failure_ = Failure{kind, std::move(text)};
  deadline_ = Clock::time_point::max();
  for (Member& member : members_) {
    if (member.connection == 0) {
      if (complete_) member.told = true;
      continue;
    }
    if (!member.told)
      send(member.connection, {.kind = RendezvousKind::refused, .text = failure_->text, .failure = kind});
    member.told = true;
  }
}

void RendezvousServer::send(Connection to, const RendezvousMessage& message, bool close) {
  actions_.push_back({to, encode(message), close});
}

void RendezvousServer::wait_for_others(Member& member, uint64_t timeout_ms, Clock::time_point now) {
  member.patience = std::chrono::milliseconds(std::min<uint64_t>(timeout_ms, uint64_t{1} << 40));
  member.deadline = timeout_ms == 0 ? Clock::time_point::max() : now + member.patience;
  find_deadline();
}

/// The first of those who wait.
void RendezvousServer::find_deadline() {
  deadline_ = Clock::time_point::max();
  for (const Member& member : members_) {
    const bool waits = complete_ ? member.contribution.has_value() : member.joined;
    if (!waits || member.deadline >= deadline_) continue;
    deadline_ = member.deadline;
    patience_ = member.patience;
  }
}

std::string RendezvousServer::describe_missing() const {
  std::string text = list_ranks([](const Member& m) { return !m.joined; });
  text += " (of world size " + std::to_string(world_size_) + ")";
  for (std::size_t i = 0; i < refusals_.size(); ++i) text += (i == 0 ? "; refused: " : "; ") + refusals_[i];
  return text;
}

std::string RendezvousServer::describe(WorkerId rank) const {
  const Member& member = members_[rank];
  return member.name.empty() ? "rank " + std::to_string(rank)
                             : "worker " + quoted(member.name) + " (rank " + std::to_string(rank) + ")";
}

std::string RendezvousServer::list_ranks(bool (*missing)(const Member&)) const {
  std::string result;
  int listed = 0;
  for (WorkerId rank = 0; rank < world_size_; ++rank) {
    if (!missing(members_[rank])) continue;
    if (++listed > 16) return result + ", ...";
    result += (result.empty() ? "" : ", ") + describe(rank);
  }
  return result;
}

}  // namespace tendril::rpc

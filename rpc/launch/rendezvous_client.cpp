#include "tendril/rpc/launch/rendezvous_client.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <thread>
#include <utility>

#include "tendril/rpc/error.h"
#include "tendril/rpc/observe/log.h"

namespace tendril::rpc::detail {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using namespace std::chrono_literals;

namespace {

// The rendezvous itself ends what takes too long, and knows who is missing. A worker that hears nothing waits this much
// longer before it concludes that rank 0 is stuck.
constexpr auto kSlack = 3s;
constexpr std::size_t kMaxIncoming = std::size_t{256} << 20;

std::string address_text(const tcp::endpoint& address) {
  return address.address().to_string() + ":" + std::to_string(address.port());
}

}  // namespace

RendezvousClient::RendezvousClient(const Options& options) {
  const auto deadline = deadline_after(options.timeout);
  std::string problem = "nothing was tried";
  auto pause = 1ms;
  const auto start = Clock::now();
  auto next_note = kFirstNote;
  while (try_to_join(options, deadline, problem) == JoinResult::try_again) {
    if (Clock::now() + pause >= deadline)
      throw TimeoutError("no group could be joined at " + address_text(options.address) + " within " +
                         std::to_string(options.timeout.count()) + " ms: " + problem);
    if (Clock::now() - start >= next_note) {
      log(LogLevel::warn, options.self.name,
          "rpc: " + name_of(options.self) + " has tried to join a group at " + address_text(options.address) + " for " +
              std::to_string(next_note.count()) + " s: " + problem);
      next_note *= 2;
    }
    std::this_thread::sleep_for(pause);
    pause = std::min<std::chrono::milliseconds>(pause * 2, 100ms);
  }
}

RendezvousClient::JoinResult RendezvousClient::try_to_join(const Options& options, Clock::time_point deadline,
                                                           std::string& problem) {
  error_code error;
  socket_.close(error);
  io_.restart();
  io_.poll();  // the handlers of an earlier try
  socket_ = tcp::socket(io_);
  inbox_.clear();
  outgoing_.clear();
  end_.clear();

  std::optional<error_code> connected;
  socket_.open(options.address.protocol());
  ::fcntl(socket_.native_handle(), F_SETFD, FD_CLOEXEC);
  socket_.async_connect(options.address, [&](const error_code& result) { connected = result; });
  const auto connect_deadline = std::min(deadline, Clock::now() + 5s);
  while (!connected && run_until(connect_deadline)) {
  }
  if (!connected) {
    socket_.close();
    while (!connected) run_until(Clock::time_point::max());  // cancelled: its handler comes at once
    problem = "no connection came about; is rank 0 running?";
    return JoinResult::try_again;
  }
  if (*connected) {
    problem = connected->message() + "; is rank 0 running?";
    return JoinResult::try_again;
  }
  // Where nobody listens, TCP on one host may connect a socket with itself, which would keep rank 0 off its port.
  if (socket_.local_endpoint(error) == socket_.remote_endpoint(error)) {
    socket_.set_option(asio::socket_base::linger(true, 0), error);
    problem = "nobody listens there; is rank 0 running?";
    return JoinResult::try_again;
  }
  local_address_ = socket_.local_endpoint(error).address();
  rank_0_address_ = socket_.remote_endpoint(error).address();
  socket_.set_option(tcp::no_delay(true), error);

  std::optional<Proof> proof = prove(options, std::min(deadline, Clock::now() + 5s), problem);
  if (!proof) return JoinResult::try_again;

  read_prefix();
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  Bytes join = encode({.kind = RendezvousKind::join,
                       .text = options.group,
                       .worker = options.self,
                       .world_size = options.world_size,
                       .timeout_ms = static_cast<uint64_t>(std::max<int64_t>(left.count(), 1))});
  const Proof::Tag tag = proof->seal(join);
  join.insert(join.end(), tag.begin(), tag.end());
  send(std::move(join));
  const std::optional<RendezvousMessage> answer = receive(deadline + kSlack);
  if (!answer) {
    problem = end_.empty() ? "something accepts connections there but does not answer" : end_;
    return JoinResult::try_again;
  }
  switch (answer->kind) {
    case RendezvousKind::welcome:
      group_ = answer->text;
      names_ = answer->parts;
      if (static_cast<int>(names_.size()) != options.world_size) throw MessageError("rendezvous: a malformed welcome");
      return JoinResult::joined;
    case RendezvousKind::refused:
      throw_group_failure(answer->failure, answer->text);
    default:
      problem = answer->text;
      return JoinResult::try_again;
  }
}

/// The proof of the key as far as this side has to wait for the other. Nothing: who answers there is no rendezvous,
/// `problem` says why. Throws ProofError where the keys differ.
std::optional<Proof> RendezvousClient::prove(const Options& options, Clock::time_point deadline, std::string& problem) {
  Proof proof(options.key, ProofPurpose::rendezvous, Proof::Role::dialler);
  send(proof.challenge());
  Bytes answer(kProofPrefixBytes);
  if (!read_exactly(answer, deadline, problem)) return std::nullopt;
  try {
    answer.resize(proof_size(answer).value_or(kProofPrefixBytes));
    if (!read_exactly(std::span(answer).subspan(kProofPrefixBytes), deadline, problem)) return std::nullopt;
    proof.check_answer(answer);
    return proof;
  } catch (const ProofError& e) {
    if (!proof_refusal(answer)) {
      send(encode_proof_refusal("the keys differ"));
      flush(Clock::now() + 1s);
    }
    throw ProofError("rank 0 at " + address_text(options.address) + ": " + e.what());
  } catch (const MessageError& e) {
    problem = e.what();
    return std::nullopt;
  }
}

bool RendezvousClient::read_exactly(std::span<std::byte> to, Clock::time_point deadline, std::string& problem) {
  std::optional<error_code> done;
  asio::async_read(socket_, asio::buffer(to.data(), to.size()),
                   [&](const error_code& error, std::size_t) { done = error; });
  while (!done && run_until(deadline)) {
  }
  if (!done) {
    socket_.close();
    while (!done) run_until(Clock::time_point::max());  // cancelled: its handler comes at once
    problem = "something accepts connections there but does not answer";
    return false;
  }
  if (*done) problem = *done == asio::error::eof ? "it closed the connection" : done->message();
  return !*done;
}

std::vector<std::string> RendezvousClient::gather(const std::string& phase, std::string contribution,
                                                  std::chrono::milliseconds timeout) {
  check();
  RendezvousMessage message{.kind = RendezvousKind::contribute, .text = phase, .round = round_};
  message.timeout_ms = static_cast<uint64_t>(timeout.count());
  message.parts.push_back(std::move(contribution));
  send(message);
  try {
    RendezvousMessage answer = await_answer(phase, timeout);
    ++round_;
    return std::move(answer.parts);
  } catch (...) {
    failure_ = std::current_exception();
    throw;
  }
}

RendezvousMessage RendezvousClient::await_answer(const std::string& phase, std::chrono::milliseconds timeout) {
  const bool bounded = timeout > 0ms;
  std::optional<RendezvousMessage> answer =
      receive(bounded ? deadline_after(timeout) + kSlack : Clock::time_point::max());
  if (!answer) {
    if (!end_.empty()) throw PeerLostError("rank 0 is gone while this worker is at '" + phase + "': " + end_, true);
    throw TimeoutError("rank 0 did not answer at '" + phase + "' within " + std::to_string((timeout + kSlack).count()) +
                       " ms");
  }
  if (answer->kind == RendezvousKind::refused) throw_group_failure(answer->failure, answer->text);
  if (answer->kind != RendezvousKind::gathered || answer->round != round_ || answer->parts.size() != names_.size())
    throw MessageError("rendezvous: an answer that does not belong to '" + phase + "'");
  return std::move(*answer);
}

void RendezvousClient::check() {
  if (failure_) std::rethrow_exception(failure_);
  io_.restart();
  io_.poll();
  try {
    if (!inbox_.empty() && inbox_.front().kind == RendezvousKind::refused)
      throw_group_failure(inbox_.front().failure, inbox_.front().text);
    if (inbox_.empty() && !end_.empty()) throw PeerLostError("rank 0 is gone: " + end_, true);
  } catch (...) {
    failure_ = std::current_exception();
    throw;
  }
}

void RendezvousClient::fail(const std::string& text) noexcept {
  try {
    send({.kind = RendezvousKind::fail, .text = text.substr(0, kMaxJoinBytes / 2)});
    flush(Clock::now() + 1s);
  } catch (...) {  // then the end of the connection tells the others
  }
}

void RendezvousClient::leave() noexcept {
  try {
    send({.kind = RendezvousKind::leave});
    flush(Clock::now() + 1s);
    socket_.close();
  } catch (...) {
  }
}

/// Runs one handler; false if the deadline passed first.
bool RendezvousClient::run_until(Clock::time_point deadline) {
  io_.restart();
  if (deadline == Clock::time_point::max()) return io_.run_one() > 0;
  return io_.run_one_until(deadline) > 0;
}

std::optional<RendezvousMessage> RendezvousClient::receive(Clock::time_point deadline) {
  while (inbox_.empty() && end_.empty() && run_until(deadline)) {
  }
  if (inbox_.empty()) return std::nullopt;
  RendezvousMessage message = std::move(inbox_.front());
  inbox_.pop_front();
  return message;
}

void RendezvousClient::flush(Clock::time_point deadline) {
  while (!outgoing_.empty() && end_.empty() && run_until(deadline)) {
  }
}

void RendezvousClient::send(Bytes bytes) {
  outgoing_.push_back(std::move(bytes));
  asio::async_write(socket_, asio::buffer(outgoing_.back()), [this](const error_code& error, std::size_t) {
    if (error == asio::error::operation_aborted) return;
    if (!outgoing_.empty()) outgoing_.pop_front();  // reading tells of errors, after what there is left to read
  });
}

void RendezvousClient::read_prefix() {
  incoming_.resize(kRendezvousPrefixBytes);
  asio::async_read(socket_, asio::buffer(incoming_), [this](const error_code& error, std::size_t) {
    if (error == asio::error::operation_aborted) return;
    try {
      if (error) throw MessageError(error == asio::error::eof ? "it closed the connection" : error.message());
      read_body(rendezvous_body_size(incoming_, kMaxIncoming));
    } catch (const MessageError& e) {
      if (end_.empty()) end_ = e.what();
    }
  });
}

void RendezvousClient::read_body(std::size_t size) {
  incoming_.resize(kRendezvousPrefixBytes + size);
  const auto body = asio::buffer(incoming_) + kRendezvousPrefixBytes;
  asio::async_read(socket_, body, [this](const error_code& error, std::size_t) {
    if (error == asio::error::operation_aborted) return;
    try {
      if (error) throw MessageError(error.message());
      inbox_.push_back(decode_rendezvous(incoming_));
      read_prefix();
    } catch (const MessageError& e) {
      if (end_.empty()) end_ = e.what();
    }
  });
}

}  // namespace tendril::rpc::detail

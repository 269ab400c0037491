#include "tendril/rpc/launch/enquiry.h"

#include <algorithm>
#include <cerrno>
#include <functional>
#include <optional>

#include "tendril/rpc/error.h"
#include "tendril/rpc/launch/rendezvous.h"
#include "tendril/rpc/observe/log.h"
#include "tendril/rpc/session/handshake_stream.h"
#include "tendril/rpc/session/proof.h"
#include "tendril/rpc/threads/thread.h"
#include "tendril/rpc/transport/network.h"
#include "tendril/rpc/wire/hello.h"

namespace tendril::rpc::detail {

namespace asio = boost::asio;
using asio::ip::tcp;
using namespace std::chrono_literals;

namespace {

constexpr auto kAttemptTime = 5s;

/// Why an attempt was in vain; another may not be.
struct TryAgain {
  std::string why;
  bool late = false;  ///< its time was up
};

/// One connection to where rank 0 should listen. Everything ends by the attempt's deadline.
class Attempt {
 public:
  Attempt(const tcp::endpoint& address, Clock::time_point deadline) : address_(address), deadline_(deadline) {}

  /// `failure`: not empty where this worker asks no more, but says why it cannot join.
  Found ask(const Enquirer& enquirer, const std::string& failure = {}) {
    connect();
    std::optional<Proof> proof;
    if (enquirer.tls) {
      secure(enquirer.tls);
    } else {
      prove(proof.emplace(enquirer.key, Proof::Role::dialler));
    }
    Hello mine;
    mine.worker = enquirer.self;
    mine.world_size = enquirer.world_size;
    mine.enquiry = true;
    mine.refusal = failure;
    Bytes said = encode(mine);
    if (proof) {
      const Proof::Tag tag = proof->seal(said);
      said.insert(said.end(), tag.begin(), tag.end());
    }
    write(said);

    Bytes answer = read(kHelloPrefixBytes);
    if (proof && is_proof(answer)) {
      const std::size_t proof_bytes = proof_size(answer).value_or(kProofPrefixBytes);
      answer = read_rest(std::move(answer), proof_bytes);
      throw TryAgain{"it refused the connection: " + proof_refusal(answer).value_or("no reason given")};
    }
    const std::size_t size = hello_size(answer).value_or(kHelloPrefixBytes);
    answer = read_rest(std::move(answer), size + (proof ? kTagBytes : 0));
    const auto hello = std::span(answer).first(size);
    if (proof) proof->check(hello, std::span(answer).subspan(size));
    return read_answer(mine, decode_hello(hello));
  }

 private:
  Found read_answer(const Hello& mine, const Hello& theirs) {
    if (!theirs.refusal.empty()) {
      switch (theirs.refusal_kind) {
        case RefusalKind::usage:
        case RefusalKind::ended:  // only sessions end, and an enquiry is not part of one
          throw UsageError(theirs.refusal);
        case RefusalKind::timeout:
          throw TimeoutError(theirs.refusal);
        case RefusalKind::lost:
          throw PeerLostError(theirs.refusal, false);
        case RefusalKind::try_later:
          throw TryAgain{theirs.refusal};
      }
    }
    agree_on_version(mine, theirs);
    TENDRIL_CHECK_AS(UsageError, theirs.worker.id == 0 && theirs.world_size == mine.world_size, "rank ",
                     theirs.worker.id, " of ", theirs.world_size, " listens there, expected rank 0 of ",
                     mine.world_size);
    return {.group = theirs.group,
            .rank_0 = theirs.worker,
            .endpoint = Agent::Endpoint::parse(theirs.resumption.endpoint),
            .local_address = local_address_,
            .rank_0_address = rank_0_address_};
  }

  /// Passes a completion handler to `begin`, and runs the reactor until it is called. Throws TryAgain on an error of
  /// the connection, and with the text `late` at the deadline.
  template <class Begin>
  void run(Begin&& begin, const char* late) {
    std::optional<std::exception_ptr> done;
    begin([&done](const std::exception_ptr& result) { done = result; });
    while (!done && (reactor_.run_one(deadline_) || Clock::now() < deadline_)) {
    }
    if (!done) {
      stream_.close();
      throw TryAgain{late, true};
    }
    if (!*done) return;
    try {
      std::rethrow_exception(*done);
    } catch (const ConnectionClosed&) {
      throw TryAgain{"it closed the connection"};
    } catch (const ConnectionFailed& e) {
      throw TryAgain{e.code().message()};
    }
  }

  void connect() try {
    Network::Begun begun = network().connect_tcp(address_);
    if (!begun.stream) throw TryAgain{std::system_category().message(begun.error)};
    stream_.open(std::move(begun.stream));
    run([&](auto done) { stream_.wait_connected(done); }, "the connection timed out");
    const auto ends = stream_.stream().ends();
    if (!ends) throw TryAgain{"the connection was lost"};
    // Where nobody listens, TCP on one host may connect a socket with itself, which would keep rank 0 off its port.
    if (ends->same) {
      stream_.stream().reset_at_end();
      throw TryAgain{"nothing is listening there"};
    }
    local_address_ = ends->local;
    rank_0_address_ = ends->remote;
  } catch (const TryAgain& e) {
    throw TryAgain{e.why + "; is rank 0 running?", e.late};
  }

  void secure(const TlsCredentials& credentials) try {
    run([&](auto done) { stream_.secure(credentials, TlsStream::Side::dialler, done); }, kSilent);
  } catch (const ProofError& e) {
    throw ProofError(where() + e.what());
  }

  std::string where() const {
    return "rank 0 at " + address_.address().to_string() + ":" + std::to_string(address_.port()) + ": ";
  }

  void prove(Proof& proof) {
    write(proof.challenge());
    Bytes answer = read(kProofPrefixBytes);
    try {
      const std::size_t proof_bytes = proof_size(answer).value_or(kProofPrefixBytes);
      answer = read_rest(std::move(answer), proof_bytes);
      proof.check_answer(answer);
    } catch (const ProofError& e) {
      if (!proof_refusal(answer)) write(encode_proof_refusal("the keys differ"));
      throw ProofError(where() + e.what());
    } catch (const MessageError& e) {
      throw TryAgain{e.what()};
    }
  }

  void write(const Bytes& bytes) {
    (void)stream_.send(bytes);  // where it cannot be said no answer comes either, but perhaps why
  }

  Bytes read(std::size_t size) { return read_rest({}, size); }

  Bytes read_rest(Bytes start, std::size_t size) {
    const std::size_t have = start.size();
    start.resize(size);
    try {
      run([&](auto done) { stream_.read(std::span(start).subspan(have), done); }, kSilent);
    } catch (const ProofError& e) {  // of this side's certificate
      throw ProofError(where() + e.what());
    }
    return start;
  }

  static constexpr const char* kSilent = "something accepts connections there but does not answer";

  const tcp::endpoint address_;
  const Clock::time_point deadline_;
  Reactor reactor_;
  HandshakeStream stream_{reactor_};
  asio::ip::address local_address_, rank_0_address_;
};

}  // namespace

Found find_group(const tcp::endpoint& address, const Enquirer& enquirer, Clock::time_point deadline,
                 std::chrono::milliseconds timeout) {
  const std::string where = address.address().to_string() + ":" + std::to_string(address.port());
  auto pause = 1ms;
  const auto start = Clock::now();
  auto next_note = kFirstNote;
  std::string problem;
  for (;;) {
    const Clock::time_point full_time = Clock::now() + kAttemptTime;
    try {
      return Attempt(address, std::min(deadline, full_time)).ask(enquirer);
    } catch (const TryAgain& e) {
      // The deadline may have cut the last attempt to a few milliseconds: then what an earlier one was told says more.
      if (!e.late || full_time <= deadline || problem.empty()) problem = e.why;
    } catch (const MessageError& e) {
      problem = e.what();
    }
    if (Clock::now() + pause >= deadline)
      throw TimeoutError("no group could be joined at " + where + " within " + std::to_string(timeout.count()) +
                         " ms: " + problem);
    if (Clock::now() - start >= next_note) {
      log(LogLevel::warn, enquirer.self.name,
          "rpc: " + name_of(enquirer.self) + " has tried to join a group at " + where + " for " +
              std::to_string(next_note.count()) + " s: " + problem);
      next_note *= 2;
    }
    sleep_for(pause);
    pause = std::min<std::chrono::milliseconds>(pause * 2, 100ms);
  }
}

void tell_that_it_cannot_join(const tcp::endpoint& address, const Enquirer& enquirer, const std::string& why) noexcept {
  constexpr auto kTime = 2s;
  constexpr std::size_t kLongest = 1024;
  try {
    Attempt(address, Clock::now() + kTime).ask(enquirer, why.substr(0, kLongest));
  } catch (...) {  // its answer is a refusal; and without one it is missing at the deadline
  }
}

}  // namespace tendril::rpc::detail

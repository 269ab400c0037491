#include "tendril/rpc/group/enquiry.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "tendril/rpc/connect/dial.h"
#include "tendril/rpc/connect/security.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/group/rendezvous.h"
#include "tendril/rpc/system/log.h"
#include "tendril/rpc/system/thread.h"
#include "tendril/rpc/transport/tls_stream.h"
#include "tendril/rpc/wire/hello.h"

namespace tendril::rpc::detail {

using boost::asio::ip::tcp;
using namespace std::chrono_literals;

namespace {

constexpr auto kAttemptTime = 5s;
constexpr const char* kIsItRunning = "; is rank 0 running?";

/// Why an attempt failed, if another one may succeed.
struct TryAgain {
  std::string why;
  bool late = false;  ///< it timed out
};

/// Interprets `theirs`, rank 0's answer to the enquiry `mine`.
Found found(const Hello& mine, const Hello& theirs, Stream& stream) {
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
  TENDRIL_CHECK_AS(UsageError, theirs.worker.id == 0 && theirs.world_size == mine.world_size, "rank ", theirs.worker.id,
                   " of ", theirs.world_size, " listens there, expected rank 0 of ", mine.world_size);
  const auto ends = stream.ends();
  if (!ends) throw TryAgain{"the connection was lost"};
  return {.group = theirs.group,
          .rank_0 = theirs.worker,
          .endpoint = Agent::Endpoint::parse(theirs.resumption.endpoint),
          .local_address = ends->local,
          .rank_0_address = ends->remote};
}

/// Sends one enquiry and waits for the answer until the deadline. If `failure` is not empty, the enquiry does not ask
/// to join, but reports why this worker cannot.
Found ask(const tcp::endpoint& address, const Enquirer& enquirer, const std::shared_ptr<const TlsContext>& security,
          Clock::time_point deadline, const std::string& failure = {}) {
  Hello mine;
  mine.worker = enquirer.self;
  mine.world_size = enquirer.world_size;
  mine.enquiry = true;
  mine.refusal = failure;
  std::optional<Found> answer;
  std::exception_ptr error;
  const auto outcome_is = [&](Dial::Outcome&& outcome) {
    try {
      if (const auto* const answered = std::get_if<Dial::Answered>(&outcome)) {
        answer = found(mine, answered->hello, answered->stream.stream());
      } else if (const auto* const failed = std::get_if<Dial::Failed>(&outcome)) {
        std::rethrow_exception(failed->error);
      } else if (const auto* const unreached = std::get_if<Dial::Unreached>(&outcome)) {
        throw TryAgain{unreached->why + kIsItRunning};
      } else {
        throw TryAgain{std::get<Dial::Interrupted>(outcome).why};
      }
    } catch (...) {
      error = std::current_exception();
    }
  };
  Reactor reactor;
  const auto dial = std::make_shared<Dial>(reactor, Dial::Addresses{.tcp = address},
                                           Dial::Owner{.on_connected = [] { return true; },
                                                       .security = [&] { return security; },
                                                       .introduce = [&] { return mine; },
                                                       .done = outcome_is});
  dial->start();
  while (!answer && !error && (reactor.run_one(deadline) || Clock::now() < deadline)) {
  }
  dial->cancel();
  if (answer) return *std::move(answer);
  if (!error) {
    throw TryAgain{dial->is_connecting() ? std::string("the connection timed out") + kIsItRunning
                                         : "something accepts connections there but does not answer",
                   true};
  }
  try {
    std::rethrow_exception(error);
  } catch (const AuthenticationError& e) {
    throw AuthenticationError("rank 0 at " + address.address().to_string() + ":" + std::to_string(address.port()) +
                              ": " + e.what());
  }
}

}  // namespace

Found find_group(const tcp::endpoint& address, const Enquirer& enquirer, Clock::time_point deadline,
                 std::chrono::milliseconds timeout) {
  const std::string where = address.address().to_string() + ":" + std::to_string(address.port());
  const auto security = tls_context(enquirer.tls, enquirer.key);  // first, so that a missing key is reported at once
  auto pause = 1ms;
  const auto start = Clock::now();
  auto next_note = kFirstNote;
  std::string problem;
  for (;;) {
    const Clock::time_point full_time = Clock::now() + kAttemptTime;
    try {
      return ask(address, enquirer, security, std::min(deadline, full_time));
    } catch (const TryAgain& e) {
      // The deadline may have cut the last attempt short. The reason of an earlier attempt is then more useful.
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

void report_cannot_join(const tcp::endpoint& address, const Enquirer& enquirer, const std::string& why) noexcept {
  constexpr auto kTime = 2s;
  constexpr std::size_t kLongest = 1024;
  try {
    ask(address, enquirer, tls_context(enquirer.tls, enquirer.key), Clock::now() + kTime, why.substr(0, kLongest));
  } catch (...) {  // rank 0 answers with a refusal; without an answer, its error lists this rank as missing
  }
}

}  // namespace tendril::rpc::detail

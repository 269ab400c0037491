// References that are passed along chains of workers, kept, used and dropped.
#include <algorithm>
#include <chrono>
#include <exception>
#include <map>
#include <mutex>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "tendril/rpc/call.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/group.h"
#include "tendril/rpc/launch.h"
#include "tendril/rpc/reference/rref_context.h"
#include "tendril/rpc/rref.h"
#include "tendril/rpc/system/mutex.h"
#include "tendril/rpc/system/thread.h"
#include "tendril/tensor/detail/switched_variable.h"
#include "tests/simulation/workload.h"

namespace simulated::references {

using namespace std::chrono_literals;
namespace rpc = tendril::rpc;

// Shared by all workers, for `check`.
struct Known {
  int64_t owner = 0;        // number of the process that made it
  int alive = 0;            // 1 while the object exists, 0 afterwards
  bool may_not_be = false;  // its creation may be cancelled, or may time out
};
std::map<int64_t, Known> objects;           // by number
std::map<WorkerId, std::string> leftovers;  // leftovers of each worker, when no worker used its objects any more
int64_t last_number = 0, last_process = 0;

class Object;

/// The state of one worker.
struct Own {
  tendril::rpc::detail::Mutex mutex;
  std::vector<std::pair<int64_t, rpc::RRef<Object>>> shelf;  // references that it keeps
  int64_t process = 0;                                       // its number; a restarted worker gets a new one
};
Own& own() {
  static Own own;
  return own;
}
const auto own_switched = tendril::detail::of_each_process([]() -> auto& { return own(); });

int64_t nothing() { return 0; }

/// Makes a call, as a destructor of a user's object may.
void call_at_end(int64_t number) noexcept {
  try {
    const auto to = static_cast<WorkerId>(number % rpc::launch_info().world_size);
    (void)rpc::rpc_sync<&nothing>(to, rpc::CallOptions{.timeout = 1s});
  } catch (const rpc::RpcError& e) {  // a worker is lost, or this one shuts down
    if (std::string(e.what()).find("would block in an I/O callback") != std::string::npos)
      problem("object " + std::to_string(number) + " was freed on a thread that drives I/O");
  } catch (const std::bad_alloc&) {
  }
}

class Object {
 public:
  explicit Object(int64_t sealed) : number_(unseal(sealed).value_or(-1)) {
    const int64_t number = number_;
    if (number < 0) throw tendril::Error("Object: a corrupted number");
    ++objects[number].alive;
    objects[number].owner = own().process;
  }
  ~Object() {
    if (number_ % 4 == 0) call_at_end(number_);
    --objects[static_cast<int64_t>(number_)].alive;
    number_ = -1;
  }
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  int64_t number() const {
    const int64_t number = number_;
    const auto found = objects.find(number);
    if (found == objects.end() || found->second.alive != 1)
      problem("a method ran on an object that had been freed; its number is " + std::to_string(number));
    return number;
  }

 private:
  volatile int64_t number_;  // volatile, so that the destructor's write is not removed
};

/// Calls the object, which must exist unless a worker is lost.
void use(const rpc::RRef<Object>& reference, int64_t number) {
  const auto missing = [number](const std::exception& e) {
    if (harmless(faults_now()) && !objects[number].may_not_be)
      problem("object " + std::to_string(number) + " is not there, although it is referred to: " + e.what());
  };
  try {
    const int64_t got = reference.rpc_sync<&Object::number>(rpc::CallOptions{.timeout = 5s});
    if (got != number) value_problem("object " + std::to_string(number) + " reports the number " + std::to_string(got));
  } catch (const rpc::RRefError& e) {
    missing(e);
    throw;
  } catch (const rpc::RemoteError& e) {
    missing(e);
    throw;
  }
}

int64_t pass_on(rpc::RRef<Object> reference, int64_t number, int64_t hops, int64_t seed) {
  const AtWork here;
  Random random(static_cast<uint64_t>(seed));
  hops = std::clamp<int64_t>(hops, 0, 4);
  if (random.chance(0.2)) rpc::sleep_for(std::chrono::microseconds(random.below(5000)));
  if (random.chance(0.5)) {
    const std::lock_guard lock(own().mutex);
    own().shelf.emplace_back(number, reference);
  }
  if (random.chance(0.5)) use(reference, number);
  if (hops == 0) return number;
  const auto to = static_cast<WorkerId>(random.below(static_cast<uint64_t>(rpc::launch_info().world_size)));
  if (random.chance(0.5))
    return rpc::rpc_sync<&pass_on>(to, rpc::CallOptions{.timeout = 5s}, reference, number, hops - 1,
                                   static_cast<int64_t>(random.bits() >> 1));
  (void)rpc::rpc_async<&pass_on>(to, rpc::CallOptions{.timeout = 5s}, std::move(reference), number, hops - 1,
                                 static_cast<int64_t>(random.bits() >> 1));
  return number;
}

/// Options of a call that may end at any moment: its timeout is short, or another thread cancels it.
class Options {
 public:
  explicit Options(Random& random) {
    const bool is_short = random.chance(0.2), is_cancelled = random.chance(0.3);
    options_.timeout = std::chrono::microseconds(is_short ? random.between(20, 1500) : 5'000'000);
    may_end_early_ = is_short || is_cancelled;
    if (!is_cancelled) return;
    options_.stop = stop_.get_token();
    canceller_ = rpc::detail::Thread("canceller", [this, after = std::chrono::microseconds(random.below(400))] {
      rpc::sleep_for(after);
      stop_.request_stop();
    });
  }
  ~Options() {
    if (canceller_.joinable()) canceller_.join();
  }
  Options(const Options&) = delete;
  Options& operator=(const Options&) = delete;
  const rpc::CallOptions& get() const noexcept { return options_; }
  bool may_end_early() const noexcept { return may_end_early_; }

 private:
  std::stop_source stop_;
  rpc::CallOptions options_;
  rpc::detail::Thread canceller_;
  bool may_end_early_ = false;
};

void make_and_pass(Random& random) {
  const auto anybody = [&] {
    return static_cast<WorkerId>(random.below(static_cast<uint64_t>(rpc::launch_info().world_size)));
  };
  rpc::sleep_for(std::chrono::milliseconds(random.below(100)));
  const int64_t number = ++last_number;
  const Options creation(random), call(random);
  const bool here = random.chance(0.3);
  objects[number].may_not_be = !here && creation.may_end_early();
  const rpc::RRef<Object> reference =
      here ? rpc::make_rref<Object>(seal(number)) : rpc::remote<Object>(anybody(), creation.get(), seal(number));
  for (uint64_t more = random.below(3); more > 0; --more)
    (void)rpc::rpc_async<&pass_on>(anybody(), call.get(), reference, number, int64_t{0},
                                   static_cast<int64_t>(random.bits() >> 1));
  rpc::rpc_sync<&pass_on>(anybody(), call.get(), reference, number, static_cast<int64_t>(random.below(4)),
                          static_cast<int64_t>(random.bits() >> 1));
  if (random.chance(0.5)) use(reference, number);
  const std::lock_guard lock(own().mutex);
  auto& kept = own().shelf;
  if (!kept.empty() && random.chance(0.6))
    kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(random.below(kept.size())));
}

/// Uses every reference on the shelf once more, and empties the shelf.
void empty_shelf() {
  decltype(Own::shelf) last;
  {
    const std::lock_guard lock(own().mutex);
    last.swap(own().shelf);
  }
  for (const auto& [number, reference] : last) try {
      use(reference, number);
    } catch (const rpc::RpcError&) {
    }
}

/// Describes the objects and references that are left on this worker. Empty if rank 0 has lost it.
std::string left_here() {
  try {
    (void)rpc::rpc_sync<&nothing>(0, rpc::CallOptions{.timeout = 5s});
  } catch (const rpc::RpcError&) {
    return {};
  }
  std::string text;
  for (const auto& [number, object] : objects)
    if (object.alive == 1 && object.owner == own().process) text += " object " + std::to_string(number) + ",";
  const rpc::RRefCounters counters = rpc::rref_counters();
  if (text.empty() && counters.none()) return {};
  return text + " owner_rrefs " + std::to_string(counters.owner_rrefs) + ", forks " + std::to_string(counters.forks) +
         ", users " + std::to_string(counters.users) + ", pending_users " + std::to_string(counters.pending_users) +
         ", pending_children " + std::to_string(counters.pending_children);
}

void run(WorkerId rank) {
  leftovers.erase(rank);
  own().process = ++last_process;
  Random random = random_of(rank);
  {
    const AtWork here;
    rpc::init_rpc("w" + std::to_string(rank), options_of_seed());
    for (int i = 0; i < 20; ++i) try {
        make_and_pass(random);
      } catch (const rpc::RpcError&) {  // a worker is lost, or too late
      }
    empty_shelf();
  }
  wait_for_others();
  rpc::sleep_for(30s);  // up to 5 calls of 5 s each may be on their way, one after the other
  empty_shelf();
  rpc::sleep_for(20s);
  leftovers[rank] = left_here();
  rpc::sleep_for(10s);  // others may be late
  rpc::shutdown({.timeout = 30s, .accept_losses = !harmless(faults_now())});
}

/// Once no references are used, no objects and no references are left, not even those of lost workers.
void check_leftovers(const SimulationReport& report, const Faults& faults) {
  if (clocks_are_wrong(faults) || faults.include_rank_0 || corrupts(faults)) return;
  for (const auto& [rank, left] : leftovers)
    if (!left.empty() && !report.ranks[static_cast<std::size_t>(rank)].killed)
      problem("rank " + std::to_string(rank) + " still has:" + left);
}

void check(const SimulationReport& report, const Faults& faults) {
  check_all_returned(report, faults);
  check_leftovers(report, faults);
  for (const auto& [number, object] : objects) {
    if (object.alive < 0 || object.alive > 1) problem("object " + std::to_string(number) + " was made or freed twice");
    if (object.alive == 1 && harmless(faults)) problem("object " + std::to_string(number) + " was not freed");
  }
}

void begin(uint64_t) {
  objects.clear();
  leftovers.clear();
  last_number = last_process = 0;
}

const bool added = add({.name = "references", .world_size = 4, .begin = begin, .run = run, .check = check});

}  // namespace simulated::references

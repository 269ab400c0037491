#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <condition_variable>
#include <fstream>
#include <mutex>

#include "tests/rpc/cluster.h"

// An idle worker returns to the system the memory that a burst of calls left in the allocator's arenas.

BOOST_AUTO_TEST_SUITE(memory)

using namespace rpc_test;

constexpr int kTogether = 20;
/// Lets threads pass in groups of kTogether.
class Meeting {
 public:
  void meet() {
    std::unique_lock lock(mutex_);
    const int group = arrived_++ / kTogether;
    if (arrived_ % kTogether == 0) complete_.notify_all();
    complete_.wait(lock, [&] { return arrived_ / kTogether > group; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable complete_;
  int arrived_ = 0;
} meeting;

/// Returns its argument once kTogether calls have begun, so that they use that many arenas.
std::vector<std::string> same(std::vector<std::string> lines) {
  blocking([] { meeting.meet(); });
  return lines;
}

std::size_t resident_mib() {
  std::ifstream statm("/proc/self/statm");
  std::size_t all = 0, resident = 0;
  statm >> all >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) >> 20;  // arm64 has pages of up to 64 KiB
}

/// Waits until the resident memory has fallen by an eighth of its growth since `before`.
void check_given_back(std::size_t before) {
  const std::size_t after = resident_mib();
  BOOST_TEST_MESSAGE("resident memory: " << before << " MiB before, " << after << " MiB after the burst");
  if (after < before + 32) return;  // this allocator retains nothing
  const auto has_fallen = [&] { return resident_mib() < after - (after - before) / 8; };
  BOOST_TEST(Cluster::eventually(has_fallen, 60s), resident_mib() << " MiB are still resident");
  BOOST_TEST_MESSAGE("and " << resident_mib() << " MiB when idle");
}

/// Makes a burst of calls, and waits until the idle worker has returned its memory to the system.
void make_burst(Cluster& cluster) {
  const std::vector<std::string> lines(2000, std::string(200, 'x'));
  std::vector<std::string> kept;  // one line of each result, so that the freed memory is fragmented
  const std::size_t before = resident_mib();
  for (int round = 0; round < 3; ++round) {
    std::vector<Future<std::vector<std::string> > > calls;
    for (int i = 0; i < 10 * kTogether; ++i) calls.push_back(rpc_async<&same>(cluster[0], 1, lines));
    for (const auto& call : calls) kept.push_back(call.wait().back());
  }
  check_given_back(before);
}

BOOST_AUTO_TEST_CASE(idle_worker_returns_memory_after_a_burst) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  BOOST_TEST_MESSAGE("skipped: sanitizers use their own allocator");
#else
  Cluster cluster(2);
  make_burst(cluster);
#endif
}

int number() { return 7; }

BOOST_AUTO_TEST_CASE(released_references_return_memory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  BOOST_TEST_MESSAGE("skipped: sanitizers use their own allocator");
#else
  Cluster cluster(2);
  const std::size_t before = resident_mib();
  std::vector<RRef<int> > references;
  for (int i = 0; i < 70'000; ++i) references.push_back(remote<&number>(cluster[0], 1));
  for (const auto& reference : references) reference.to_here();
  make_burst(cluster);  // also returns the memory of the calls above
  references.clear();
  check_given_back(before);
#endif
}

BOOST_AUTO_TEST_SUITE_END()

// The order in which jobs of several sources run.
#include "tendril/rpc/threads/job_queue.h"

#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <map>
#include <memory>
#include <string>

BOOST_AUTO_TEST_SUITE(job_queue)

using namespace tendril::rpc;
using namespace tendril::rpc::detail;

namespace {

/// A job with a one-letter name.
struct Named final : Job {
  Named(char given, JobSource* from, int at) : name(given), from_(from), level_(at) {}
  void run(std::unique_ptr<Job>) noexcept override {}
  int level() const noexcept override { return level_; }
  JobSource* source() const noexcept override { return from_; }

  const char name;

 private:
  JobSource* const from_;
  const int level_;
};

void push(JobQueue& queue, const std::string& names, JobSource* source, int level = 0) {
  for (const char name : names) queue.push(std::make_unique<Named>(name, source, level));
}

std::string popped(JobQueue& queue, std::size_t count = 1000, int lowest = 0) {
  std::string names;
  while (names.size() < count && queue.any(lowest)) {
    names += static_cast<const Named&>(*queue.pop(lowest)).name;
  }
  return names;
}

}  // namespace

BOOST_AUTO_TEST_CASE(jobs_of_one_source_run_in_order) {
  JobQueue queue;
  JobSource one;
  push(queue, "abc", &one);
  push(queue, "xyz", nullptr);
  BOOST_TEST(queue.size() == 6u);
  BOOST_TEST(popped(queue) == "axbycz");
  BOOST_TEST(queue.empty());
}

BOOST_AUTO_TEST_CASE(continuations_wait_for_one_job_per_source) {
  std::array<JobSource, 8> sources;
  JobQueue queue;
  for (JobSource& source : sources) push(queue, std::string(100, 'r'), &source);
  for (int round = 0; round < 50; ++round) {  // each request has one continuation
    push(queue, std::string(sources.size(), 'c'), nullptr, Job::kContinuation);
    const std::string names = popped(queue, 2 * sources.size());
    BOOST_TEST(std::count(names.begin(), names.end(), 'c') == std::ssize(sources), "round " << round << ": " << names);
  }
}

BOOST_AUTO_TEST_CASE(busy_source_does_not_starve_others) {
  JobSource many, few;
  JobQueue queue;
  push(queue, std::string(100'000, 'm'), &many);
  push(queue, "f", &few);
  BOOST_TEST(popped(queue, 3) == "mfm");
  push(queue, "f", &few);
  BOOST_TEST(popped(queue, 2) == "mf");
  BOOST_TEST(popped(queue, 2) == "mm");
}

BOOST_AUTO_TEST_CASE(levels_take_turns) {
  JobQueue queue;
  JobSource one;
  push(queue, "0000", &one, 0);
  push(queue, "55", &one, 5);
  push(queue, "c", nullptr, Job::kContinuation);
  BOOST_TEST(popped(queue) == "05c0500");
}

BOOST_AUTO_TEST_CASE(jobs_below_the_level_keep_their_turns) {
  JobQueue queue;
  JobSource one, other;
  push(queue, "ab", &one, 0);
  push(queue, "12", &other, 3);
  push(queue, "3", &one, 4);
  BOOST_TEST(!queue.any(5));
  BOOST_TEST(popped(queue, 1000, 2) == "132");
  BOOST_TEST(queue.size() == 2u);
  push(queue, "z", &other, 0);
  BOOST_TEST(popped(queue) == "azb");
}

BOOST_AUTO_TEST_CASE(queue_lists_and_destroys_all_jobs) {
  JobSource one, other;  // must outlive the queue
  JobQueue queue;
  push(queue, "abc", &one, 0);
  push(queue, "d", &other, 0);
  push(queue, "e", nullptr, Job::kContinuation);
  std::map<char, int> listed;
  queue.for_each([&](const Job& job) { ++listed[static_cast<const Named&>(job).name]; });
  BOOST_TEST((listed == std::map<char, int>{{'a', 1}, {'b', 1}, {'c', 1}, {'d', 1}, {'e', 1}}));
}

BOOST_AUTO_TEST_SUITE_END()

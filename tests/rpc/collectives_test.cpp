#include "tendril/rpc/collectives.h"

#include <boost/test/unit_test.hpp>
#include <functional>
#include <latch>
#include <thread>
#include <utility>

#include "tendril/tensor/creation.h"
#include "tests/rpc/error_text.h"
#include "tests/rpc/reserved_port.h"

// Workers are threads of this process, as in group_test.

BOOST_AUTO_TEST_SUITE(collectives)

using namespace tendril::rpc;
using namespace std::chrono_literals;
using tendril::test::contains;
using tendril::test::text_of_error;

namespace collectives_test {

struct Reading {
  std::string host;
  double seconds = 0;

  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& host& seconds;
  }
  friend bool operator==(const Reading&, const Reading&) = default;
};

}  // namespace collectives_test

namespace {

using collectives_test::Reading;

std::string name_of(int rank) {
  std::string name("w");
  return name.append(std::to_string(rank));
}

/// Runs `body` on each rank and returns the error of each as text, "" without an error.
std::vector<std::string> errors_of(int size, const std::function<void(Group&, int)>& body) {
  const tendril::test::ReservedPort port;
  std::vector<std::string> errors(static_cast<std::size_t>(size));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      errors[static_cast<std::size_t>(rank)] = text_of_error([&] {
        Group group(name_of(rank), {.rank = rank, .world_size = size, .master_port = port.number()});
        body(group, rank);
      });
    });
  }
  threads.clear();
  return errors;
}

void expect(bool condition, const char* what) {
  if (!condition) throw std::logic_error(what);
}

}  // namespace

BOOST_AUTO_TEST_CASE(all_gather_returns_values_by_rank) {
  for (const int size : {1, 4}) {
    const auto errors = errors_of(size, [&](Group& group, int rank) {
      for (int round = 0; round < 3; ++round) {
        const auto ranks = all_gather(group, 10 * round + rank);
        expect(ranks.size() == static_cast<std::size_t>(size), "size");
        for (int i = 0; i < size; ++i) expect(ranks[static_cast<std::size_t>(i)] == 10 * round + i, "value");
      }
      const auto readings = all_gather(group, Reading{name_of(rank), rank / 4.});
      for (int i = 0; i < size; ++i)
        expect((readings[static_cast<std::size_t>(i)] == Reading{name_of(i), i / 4.}), "reading");
      const auto odd = all_gather(group, rank % 2 == 1);
      for (int i = 0; i < size; ++i) expect(odd[static_cast<std::size_t>(i)] == (i % 2 == 1), "bool");
      group.barrier();
      group.shutdown();
    });
    for (const std::string& error : errors) BOOST_TEST(error == "");
  }
}

BOOST_AUTO_TEST_CASE(invalid_values_are_rejected_before_waiting) {
  const auto errors = errors_of(1, [](Group& group, int) {
    expect(contains(text_of_error([&] { all_gather(group, tendril::ones({2})); }),
                    "UsageError: rpc::all_gather: the value contains tensors or RRefs; send those by calls"),
           "tensor");
    expect(contains(text_of_error([&] { all_gather(group, std::string(Group::kMaxGathered, 'x')); }),
                    "UsageError: rpc::all_gather: the value must have at most 32768 bytes, got 327"),
           "too large");
    expect(all_gather(group, std::string(Group::kMaxGathered - 16, 'x')).front().size() == Group::kMaxGathered - 16,
           "large");
  });
  BOOST_TEST(errors.front() == "");
  BOOST_TEST(contains(text_of_error([] { all_gather(1); }), "RPC has not been initialised"));
}

BOOST_AUTO_TEST_CASE(mismatched_types_are_an_error) {
  const auto errors = errors_of(2, [](Group& group, int rank) {
    if (rank == 0) all_gather(group, std::int64_t{1});
    if (rank == 1) all_gather(group, std::int32_t{1});
  });
  for (const std::string& error : errors) BOOST_TEST(contains(error, "rpc::all_gather"), error);
}

BOOST_AUTO_TEST_CASE(mismatched_or_missing_workers_are_named) {
  const auto errors =
      errors_of(2, [](Group& group, int rank) { rank == 0 ? (void)all_gather(group, 1) : group.barrier(); });
  for (const std::string& error : errors)
    BOOST_TEST(contains(error, "all workers must do the same in the same order"), error);
  std::string text;
  std::latch over(1);
  errors_of(2, [&](Group& group, int rank) {
    if (rank == 0) {
      text = text_of_error([&] { all_gather(group, 1, 200ms); });
      over.count_down();
    }
    over.wait();
  });
  BOOST_TEST(contains(text, "TimeoutError: rpc::all_gather: "), text);
  BOOST_TEST(contains(text, "these workers have not reached 'all_gather': worker 'w1' (rank 1)"), text);
}

BOOST_AUTO_TEST_SUITE_END()

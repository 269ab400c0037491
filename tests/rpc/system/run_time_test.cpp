// The average run time, which decides whether other jobs wait for a running one.
#include "tendril/rpc/system/run_time.h"

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(run_time)

using tendril::rpc::detail::RunTime;
using namespace std::chrono_literals;

namespace {

void note(RunTime& time, int runs, std::chrono::nanoseconds took) {
  for (int i = 0; i < runs; ++i) time.note(took);
}

}  // namespace

BOOST_AUTO_TEST_CASE(average_is_unknown_before_first_run) {
  BOOST_TEST((RunTime().average() == std::chrono::nanoseconds::max()));
}

BOOST_AUTO_TEST_CASE(average_is_known_after_first_run) {
  RunTime time;
  time.note(19us);
  BOOST_TEST((time.average() == 19us));
  note(time, 1000, 19us);
  BOOST_TEST((time.average() == 19us));
}

BOOST_AUTO_TEST_CASE(rare_interruptions_keep_the_average_short) {
  RunTime time;
  note(time, 300, 5us);
  for (int i = 0; i < 100; ++i) {
    time.note(30ms);
    BOOST_TEST((time.average() < 40us));
    note(time, 100, 5us);
    BOOST_TEST((time.average() < 20us));
    note(time, 900, 5us);
  }
}

BOOST_AUTO_TEST_CASE(occasional_sleeps_make_the_average_long) {
  for (const auto sleep : {std::chrono::nanoseconds(200us), std::chrono::nanoseconds(5ms)}) {
    RunTime time;
    note(time, 2, 5us);
    for (int i = 0; i < 20; ++i) {
      time.note(sleep);
      note(time, 99, 5us);
    }
    for (int i = 0; i < 100; ++i) {
      BOOST_TEST((time.average() > 40us));
      time.note(i == 0 ? sleep : 5us);
    }
  }
}

BOOST_AUTO_TEST_CASE(second_run_replaces_the_cold_first) {
  RunTime time;
  time.note(1h);
  BOOST_TEST((time.average() == 5ms));
  time.note(7us);
  BOOST_TEST((time.average() == 7us));
  time.note(9us);
  BOOST_TEST((time.average() == 8us));
}

BOOST_AUTO_TEST_CASE(average_grows_after_few_long_runs) {
  RunTime time;
  note(time, 10000, 1us);
  note(time, 3, 5ms);
  BOOST_TEST((time.average() > 40us));
}

BOOST_AUTO_TEST_SUITE_END()

// What something takes on average, which decides whether others wait for it.
#include "tendril/rpc/call/run_time.h"

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(run_time)

using tendril::rpc::detail::RunTime;
using namespace std::chrono_literals;

namespace {

void note(RunTime& time, int runs, std::chrono::nanoseconds took) {
  for (int i = 0; i < runs; ++i) time.note(took);
}

}  // namespace

BOOST_AUTO_TEST_CASE(of_what_has_not_run_nothing_is_known) {
  BOOST_TEST((RunTime().average() == std::chrono::nanoseconds::max()));
}

BOOST_AUTO_TEST_CASE(it_is_known_from_the_first_run_on) {
  RunTime time;
  time.note(19us);
  BOOST_TEST((time.average() == 19us));
  note(time, 1000, 19us);
  BOOST_TEST((time.average() == 19us));
}

BOOST_AUTO_TEST_CASE(it_stays_short_although_another_process_had_the_processor_once_in_a_thousand_runs) {
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

BOOST_AUTO_TEST_CASE(one_run_in_a_hundred_that_sleeps_makes_it_long_however_short_the_sleep) {
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

BOOST_AUTO_TEST_CASE(a_cold_first_run_counts_until_there_is_a_second) {
  RunTime time;
  time.note(1h);
  BOOST_TEST((time.average() == 5ms));
  time.note(7us);
  BOOST_TEST((time.average() == 7us));
  time.note(9us);
  BOOST_TEST((time.average() == 8us));
}

BOOST_AUTO_TEST_CASE(what_becomes_long_is_so_after_a_few_runs) {
  RunTime time;
  note(time, 10000, 1us);
  note(time, 3, 5ms);
  BOOST_TEST((time.average() > 40us));
}

BOOST_AUTO_TEST_SUITE_END()

// Pipeline schedules, simulated without a pipeline.
#include "tendril/dist/pipeline/schedule.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <string>
#include <utility>

#include "tendril/tensor/error.h"
#include "tests/errors.h"

BOOST_AUTO_TEST_SUITE(schedule)

using namespace tendril;
using namespace tendril::dist::pipeline;
using testing::says;

BOOST_AUTO_TEST_CASE(schedules_match_their_formulas) {
  for (int p = 1; p <= 6; ++p) {
    for (int m = 1; m <= 13; ++m) {
      for (const double b : {1.0, 2.0, 3.0}) {
        const Timeline all_forward = simulate(gpipe(p, m), {1, b});
        const Timeline alternating = simulate(one_forward_one_backward(p, m), {1, b});
        BOOST_TEST(all_forward.duration == (m + p - 1) * (1 + b));
        BOOST_TEST(alternating.duration == (m + p - 1) * (1 + b));
        BOOST_TEST(all_forward.idle_share() == (p - 1.0) / (m + p - 1), boost::test_tools::tolerance(1e-12));
        for (int w = 0; w < p; ++w) {
          const auto at = static_cast<std::size_t>(w);
          BOOST_TEST(all_forward.peak[at] == m);
          BOOST_TEST(alternating.peak[at] == std::min(m, p - w));
          BOOST_TEST(alternating.busy[at] == m * (1 + b));
        }
      }
      if (m % p != 0) continue;
      for (int v = 1; v <= 4; ++v) {
        const Timeline timeline = simulate(interleaved(p, m, v), {1, 2});
        BOOST_TEST(timeline.duration == 3 * (m * v + p - 1), p << " workers, " << m << ", " << v);
        for (int w = 0; w < p; ++w) {
          const int warm_up = 2 * (p - w - 1) + (v - 1) * p;
          BOOST_TEST(timeline.peak[static_cast<std::size_t>(w)] == std::min(m * v, warm_up + 1));
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(actions_wait_for_dependencies_and_never_overlap) {
  for (const Schedule& one : {gpipe(4, 6), one_forward_one_backward(4, 6), interleaved(3, 6, 2)}) {
    const Timeline timeline = simulate(one, {1.5, 2.5});
    const auto end_of = [&](Action wanted) {
      for (const auto& spans : timeline.spans) {
        for (const Span& span : spans) {
          if (span.action == wanted) return span.end;
        }
      }
      return 1e300;
    };
    for (const auto& spans : timeline.spans) {
      double free = 0;
      for (const Span& span : spans) {
        BOOST_TEST(span.begin >= free);
        free = span.end;
        const auto [work, stage, micro_batch] = span.action;
        if (work == Work::forward) {
          if (stage > 0) BOOST_TEST(span.begin >= end_of({Work::forward, stage - 1, micro_batch}));
        } else {
          BOOST_TEST(span.begin >= end_of({Work::forward, stage, micro_batch}));
          if (stage + 1 < one.stages) BOOST_TEST(span.begin >= end_of({Work::backward, stage + 1, micro_batch}));
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(endless_schedule_names_the_waiting_workers) {
  Schedule bad = one_forward_one_backward(2, 2);
  std::swap(bad.of[0][0], bad.of[0][3]);  // the first worker begins with a backward
  BOOST_CHECK_EXCEPTION(simulate(bad), Error,
                        says("never ends", "worker 0 is to do backward of micro-batch 1 at stage 0",
                             "worker 1 is to do forward of micro-batch 0 at stage 1 and waits for forward of "
                             "micro-batch 0 at stage 0 (worker 0)"));
}

BOOST_AUTO_TEST_CASE(invalid_schedules_are_rejected_by_name) {
  const auto refused = [](auto change, const auto&... parts) {
    Schedule schedule = gpipe(2, 3);
    change(schedule);
    BOOST_CHECK_EXCEPTION(simulate(schedule), Error, says("'gpipe'", parts...));
  };
  refused([](Schedule& s) { s.of[1].pop_back(); }, "worker 1", "backward of micro-batch 2 at stage 1 is missing");
  refused([](Schedule& s) { s.of[0].push_back(s.of[0][0]); }, "worker 0", "forward of micro-batch 0 at stage 0",
          "twice");
  refused([](Schedule& s) { s.of[0].push_back({Work::forward, 1, 0}); }, "worker 0", "at stage 1 is worker 1's");
  refused([](Schedule& s) { s.of[0].push_back({Work::forward, 0, 3}); }, "micro-batch 3", "out of range");
  refused([](Schedule& s) { s.of.pop_back(); }, "got 1 lists of actions for 2 workers");
  BOOST_CHECK_EXCEPTION(gpipe(0, 3), Error, says("gpipe", "workers: got 0"));
  BOOST_CHECK_EXCEPTION(one_forward_one_backward(2, 0), Error, says("micro_batches: got 0"));
  BOOST_CHECK_EXCEPTION(interleaved(2, 3, 2), Error, says("interleaved", "got 3", "multiple", "2"));
  BOOST_CHECK_EXCEPTION(simulate(gpipe(1, 1), {0, 1}), Error, says("costs"));
}

BOOST_AUTO_TEST_CASE(schedules_can_be_drawn) {
  BOOST_TEST(draw(one_forward_one_backward(2, 3), {1, 1}) ==
             "w0 | F0 F1    B0 F2 B1    B2\n"
             "w1 |    F0 B0 F1 B1 F2 B2\n");
  BOOST_TEST(draw(gpipe(2, 2), {1, 2}) ==
             "w0 | F0 F1          B0 -- B1 --\n"
             "w1 |    F0 F1 B0 -- B1 --\n");
}

BOOST_AUTO_TEST_SUITE_END()

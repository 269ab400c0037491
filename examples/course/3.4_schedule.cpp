// Task 3.4: the order of actions in a pipeline. schedule.cpp, alternate; docs/pipeline.md.
#include <tendril/dist/pipeline/schedule.h>

#include <string>
#include <vector>

#include "course.h"

using course::all;
using course::check;
using course::same;
using namespace tendril::dist::pipeline;

namespace {

std::string text(const Schedule& schedule, std::size_t worker) {
  std::string line;
  for (const Action& action : schedule.of[worker])
    line += (action.work == Work::forward ? "F" : "B") + std::to_string(action.micro_batch) + " ";
  return line;
}

}  // namespace

int main() {
  check("gpipe, first worker of two: all three forwards, then all backwards",
        [] { return same(text(gpipe(2, 3), 0), std::string("F0 F1 F2 B0 B1 B2 ")); });
  check("1f1b, first worker of two: one warm-up forward, then alternating",
        [] { return same(text(one_forward_one_backward(2, 3), 0), std::string("F0 F1 B0 F2 B1 B2 ")); });
  check("1f1b, last worker: no warm-up",
        [] { return same(text(one_forward_one_backward(2, 3), 1), std::string("F0 B0 F1 B1 F2 B2 ")); });
  check("1f1b with more workers than micro-batches",
        [] { return same(text(one_forward_one_backward(4, 2), 0), std::string("F0 F1 B0 B1 ")); });
  check("takes (micro-batches + workers - 1) forwards and backwards", [] {
    return all({same(simulate(one_forward_one_backward(4, 8)).duration, 33.0, "one forward, one backward"),
                same(simulate(gpipe(4, 8)).duration, 33.0, "gpipe")});
  });
  check("worker w keeps at most (workers - w) micro-batches", [] {
    const Timeline timeline = simulate(one_forward_one_backward(4, 8));
    std::vector<std::string> problems;
    for (int w = 0; w < 4; ++w) {
      problems.push_back(same(timeline.peak[static_cast<std::size_t>(w)], 4 - w, "worker " + std::to_string(w)));
    }
    return all(problems);
  });
  check("with two stages per worker, workers idle half as long", [] {
    const double one = simulate(one_forward_one_backward(4, 8)).duration, work = 8 * 3;
    // Stages of half the size: the same work in twice as many actions.
    const double two = simulate(interleaved(4, 8, 2), {.forward = 0.5, .backward = 1}).duration;
    return same(two - work, (one - work) / 2);
  });
  return course::result();
}

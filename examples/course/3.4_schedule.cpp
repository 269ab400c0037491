// Task 3.4: who does what when in a pipeline. schedule.cpp, alternate; docs/pipeline.md.
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
  check("all forwards first: gpipe's first worker of two, three micro-batches",
        [] { return same(text(gpipe(2, 3), 0), std::string("F0 F1 F2 B0 B1 B2 ")); });
  check("one forward of warm-up, then one and one: the first of two",
        [] { return same(text(one_forward_one_backward(2, 3), 0), std::string("F0 F1 B0 F2 B1 B2 ")); });
  check("no warm-up: the last worker",
        [] { return same(text(one_forward_one_backward(2, 3), 1), std::string("F0 B0 F1 B1 F2 B2 ")); });
  check("more workers than micro-batches",
        [] { return same(text(one_forward_one_backward(4, 2), 0), std::string("F0 F1 B0 B1 ")); });
  check("it ends, and takes (micro-batches + workers - 1) times a forward and a backward", [] {
    return all({same(simulate(one_forward_one_backward(4, 8)).duration, 33.0, "one forward, one backward"),
                same(simulate(gpipe(4, 8)).duration, 33.0, "gpipe")});
  });
  check("worker w keeps at most workers - w micro-batches", [] {
    const Timeline timeline = simulate(one_forward_one_backward(4, 8));
    std::vector<std::string> problems;
    for (int w = 0; w < 4; ++w) {
      problems.push_back(same(timeline.peak[static_cast<std::size_t>(w)], 4 - w, "worker " + std::to_string(w)));
    }
    return all(problems);
  });
  check("two stages a worker idle half as long", [] {
    const double one = simulate(one_forward_one_backward(4, 8)).duration, work = 8 * 3;
    // Stages of half the size: the same work in twice as many actions.
    const double two = simulate(interleaved(4, 8, 2), {.forward = 0.5, .backward = 1}).duration;
    return same(two - work, (one - work) / 2);
  });
  return course::result();
}

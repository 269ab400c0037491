// Draws one box per action, with the duration of the library's own simulation as its width.
#include <tendril/tendril.h>

#include <algorithm>
#include <sstream>
#include <vector>

#include "pictures.h"
#include "svg.h"

namespace pp = tendril::dist::pipeline;

std::string schedules() {
  constexpr int kWorkers = 4, kMicroBatches = 8;
  constexpr double kUnit = 22, kLeft = 34, kLane = 20;
  struct Shown {
    pp::Schedule schedule;
    pp::Costs costs;
  };
  const std::vector<Shown> all = {{pp::gpipe(kWorkers, kMicroBatches), {}},
                                  {pp::one_forward_one_backward(kWorkers, kMicroBatches), {}},
                                  // Stages of half the size.
                                  {pp::interleaved(kWorkers, kMicroBatches, 2), {.forward = 0.5, .backward = 1}}};
  Svg svg;
  double y = 18, longest = 0;
  for (const auto& [schedule, costs] : all) {
    const pp::Timeline timeline = pp::simulate(schedule, costs);
    longest = std::max(longest, timeline.duration);
    std::ostringstream title;
    title.precision(2);
    title << schedule.name << ": idle " << timeline.idle_share() * 100 << "%, done after " << std::fixed
          << timeline.duration << "; micro-batches kept at most:";
    for (const int peak : timeline.peak) title << ' ' << peak;
    svg.text(6, y, title.str(), "font-weight=\"bold\"");
    y += 8;
    for (std::size_t w = 0; w < timeline.spans.size(); ++w, y += kLane) {
      svg.text(6, y + 14, "w" + std::to_string(w));
      for (const auto& [action, begin, end] : timeline.spans[w]) {
        const bool first = action.stage < schedule.workers, forward = action.work == pp::Work::forward;
        svg.box(kLeft + begin * kUnit, y, (end - begin) * kUnit, kLane - 2,
                forward ? (first ? "#8fb7e3" : "#c6dbf2") : (first ? "#f0b267" : "#f8d9b0"),
                std::to_string(action.micro_batch));
      }
    }
    y += 26;
  }
  svg.text(6, y - 4, "numbers: micro-batches; blue: forward; orange: backward, which takes twice as long");
  svg.text(6, y + 12, "pale: a worker's second stage; the four workers of interleaved have two each, half as large");
  return svg.picture(kLeft + longest * kUnit + 8, y + 22);
}

#include "cut.h"

#include <cstdio>
#include <numeric>

#include "options.h"

namespace pipeline {

void print_cut(const tendril::dist::pipeline::Schedule& schedule, const std::vector<std::size_t>& cut,
               const std::vector<double>& costs) {
  for (std::size_t s = 0; s + 1 < cut.size(); ++s) {
    const auto at = [&](std::size_t layer) { return costs.begin() + static_cast<std::ptrdiff_t>(layer); };
    std::printf("stage %zu on %s: layers %zu to %zu, %.1f ms measured for a few images\n", s,
                name_of(1 + schedule.worker_of(static_cast<int>(s))).c_str(), cut[s], cut[s + 1] - 1,
                1e3 * std::accumulate(at(cut[s]), at(cut[s + 1]), 0.0));
  }
}

}  // namespace pipeline

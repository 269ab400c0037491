#pragma once

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "tendril/tensor/cuda/runtime.h"

/// Timing on a device by events, and the lines that bench/cuda.sh makes tables of.
namespace tendril::bench {

/// Milliseconds of one `work`: the median of `samples` runs of `repeats` of it, after a warm-up that fills the caches
/// of blocks and of chosen algorithms.
inline double median_ms(const std::function<void()>& work, int repeats = 10, int samples = 11) {
  for (int i = 0; i < 3; ++i) work();
  tendril::cuda::synchronize();
  std::vector<double> times;
  for (int sample = 0; sample < samples; ++sample) {
    tendril::cuda::Event start(true), end(true);
    start.record();
    for (int i = 0; i < repeats; ++i) work();
    end.record();
    end.synchronize();
    times.push_back(end.milliseconds_since(start) / repeats);
  }
  std::nth_element(times.begin(), times.begin() + samples / 2, times.end());
  return times[static_cast<std::size_t>(samples / 2)];
}

/// kind (bandwidth, matmul, host, training) <tab> case <tab> value <tab> the fewest bytes (or flops) the work needs.
inline void report(const char* kind, const std::string& name, double value, double work) {
  std::printf("%s\t%s\t%.6g\t%.6g\n", kind, name.c_str(), value, work);
  std::fflush(stdout);
}

}  // namespace tendril::bench

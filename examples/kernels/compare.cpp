// Measures the machine's limits and compares the versions with them.
#include <tendril/tensor/tensor.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "kernels.h"

namespace kernels {
namespace {

/// CPU time of this process, in seconds, which excludes other programs.
double processor_time() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Returns the time of the fastest of several runs, in seconds.
double seconds(const std::function<void()>& run) {
  const auto once = [&] {
    const double start = processor_time();
    run();
    return processor_time() - start;
  };
  double best = once(), all = best;
  for (int i = 0; i < 200 && (i < 3 || all < 0.2) && all < 2; ++i) {
    const double time = once();
    best = std::min(best, time);
    all += time;
  }
  return best;
}

using Wide [[gnu::vector_size(64)]] = float;    // a register of AVX-512
using Narrow [[gnu::vector_size(32)]] = float;  // of AVX2, where wide vectors would spill to memory

/// Computes `kChains` independent chains of multiply-adds on vectors. Returns one element of their sum.
template <class Vector, int kChains>
[[gnu::always_inline]] inline float chains(std::int64_t times) {
  Vector sums[kChains];
  for (int i = 0; i < kChains; ++i)
    sums[i] = Vector{} + static_cast<float>(i);  // all different, or only one is computed
  for (std::int64_t t = 0; t < times; ++t) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sums[i] = sums[i] * 0.999f + 0.001f;
  }
  Vector all = {};
  for (const Vector& sum : sums) all += sum;
  return all[0];
}
// More chains hide more latency, as long as they fit the registers.
KERNELS_FOR_EACH_PROCESSOR float wide_chains(std::int64_t times) { return chains<Wide, 12>(times); }
KERNELS_FOR_EACH_PROCESSOR float narrow_chains(std::int64_t times) { return chains<Narrow, 12>(times); }
KERNELS_FOR_EACH_PROCESSOR float few_chains(std::int64_t times) { return chains<Narrow, 6>(times); }

/// Peak rate of multiply-adds in registers: the best of several shapes, because processors differ in register width and
/// number.
double limit_flops() {
  constexpr std::int64_t kTimes = 100000;
  volatile float kept = 0;  // so that the compiler removes nothing
  const double wide = 16 * 12 / seconds([&] { kept = wide_chains(kTimes); });
  const double narrow = 8 * 12 / seconds([&] { kept = narrow_chains(kTimes); });
  const double few = 8 * 6 / seconds([&] { kept = few_chains(kTimes); });
  return 2.0 * kTimes * std::max({wide, narrow, few});
}

/// Rate of bytes read and written, for blocks larger than any cache.
double limit_bytes() {
  const std::vector<char> from(std::size_t{64} << 20, 1);
  std::vector<char> to(from.size());
  return 2.0 * static_cast<double>(from.size()) / seconds([&] { std::memcpy(to.data(), from.data(), from.size()); });
}

}  // namespace

bool compare(const Machine& machine, const std::string& title, const Work& work, const tendril::Tensor& result,
             double tolerance, const std::vector<Version>& versions) {
  std::printf("%s\n  limit of %s: %.0f GFLOP/s, %.1f GB/s\n", title.c_str(), machine.name.c_str(), machine.flops / 1e9,
              machine.bytes / 1e9);
  versions.back().run();
  const std::vector<float> expected = result.to_vector<float>();
  float largest = 0;
  for (const float value : expected) largest = std::max(largest, std::abs(value));
  bool all = true;
  double first = 0;
  for (std::size_t i = 0; i < versions.size(); ++i) {
    tendril::Tensor(result).fill_(std::nan(""));
    const double time = machine.seconds(versions[i].run);
    const std::vector<float> got = result.to_vector<float>();
    double off = 0;
    for (std::size_t k = 0; k < expected.size(); ++k) {
      const double difference = std::abs(got[k] - expected[k]) / largest;
      off = difference <= off ? off : difference;  // so that a NaN stays
    }
    const bool agrees = off <= tolerance;
    all = all && agrees;
    if (i == 0) first = time;
    const double part = work.compute ? work.flops / time / machine.flops : work.bytes / time / machine.bytes;
    std::printf("  %zu  %-44s %9.3f ms %7.1f GFLOP/s %6.1f GB/s  %4.0f %% of the limit  %5.1f times the first  %s\n",
                i + 1, versions[i].name.c_str(), time * 1e3, work.flops / time / 1e9, work.bytes / time / 1e9,
                100 * part, first / time, agrees ? "" : "WRONG");
  }
  return all;
}

bool compare(const std::string& title, const Work& work, const tendril::Tensor& result, double tolerance,
             const std::vector<Version>& versions) {
  static const Machine core{"one core", limit_flops(), limit_bytes(), seconds};
  return compare(core, title, work, result, tolerance, versions);
}

}  // namespace kernels

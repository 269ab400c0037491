#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tendril {
class Tensor;
}

/// Shared by the lessons. Each lesson implements one operation in several versions, from plain loops to the library's
/// kernel, on one thread.
namespace kernels {

/// Compiles a function for several processor generations and selects the best one at run time, so that its loops use
/// the machine's vector registers. With Clang, sanitizers or on Arm, compiles only for the compiler's default target.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__) && \
    !defined(__SANITIZE_ADDRESS__)
#define KERNELS_FOR_EACH_PROCESSOR [[gnu::target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")]]
#else
#define KERNELS_FOR_EACH_PROCESSOR
#endif

/// One implementation of the operation; writes the whole result.
struct Version {
  std::string name;
  std::function<void()> run;
};

/// The minimum work of the operation, with which the machine's limits are compared.
struct Work {
  double flops = 0;
  double bytes = 0;      ///< with every operand read once and every result written once
  bool compute = false;  ///< whether arithmetic is the limit, not memory
};

/// The device that runs the versions: its measured limits, and a function that times a run in seconds.
struct Machine {
  std::string name;
  double flops = 0, bytes = 0;  ///< per second
  std::function<double(const std::function<void()>&)> seconds;
};

/// Runs every version and compares its result with that of the last version, the library's. The error of each element
/// must not exceed `tolerance` times the largest absolute value. Prints ms, GFLOP/s, GB/s and the percentage of the
/// machine's limit. Returns whether all versions agree.
bool compare(const Machine& machine, const std::string& title, const Work& work, const tendril::Tensor& result,
             double tolerance, const std::vector<Version>& versions);
/// As above, on one core of the processor.
bool compare(const std::string& title, const Work& work, const tendril::Tensor& result, double tolerance,
             const std::vector<Version>& versions);

// The lessons. `quick` selects small sizes, for tests.
bool matmul(bool quick);
bool softmax(bool quick);
bool layer_norm(bool quick);
bool convolution(bool quick);

}  // namespace kernels

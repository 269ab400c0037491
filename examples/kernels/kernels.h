#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tendril {
class Tensor;
}

/// What the lessons share: each has one operation in several versions, from plain loops to the library's kernel, on one
/// thread.
namespace kernels {

/// Compiles a function once for each of these processors, and takes the best at run time: the loops in it then use the
/// vectors that the machine has. Elsewhere (Clang, Arm) for the least that the compiler's target promises.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__) && \
    !defined(__SANITIZE_ADDRESS__)
#define KERNELS_FOR_EACH_PROCESSOR [[gnu::target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")]]
#else
#define KERNELS_FOR_EACH_PROCESSOR
#endif

/// One way to compute the operation; writes all of the result.
struct Version {
  std::string name;
  std::function<void()> run;
};

/// What the operation is at least: limits of the machine are compared with that.
struct Work {
  double flops = 0;
  double bytes = 0;      ///< read and written once
  bool compute = false;  ///< whether arithmetic, not memory, is the limit
};

/// Where versions run: what it can do at most, measured, and how a run is timed, in seconds.
struct Machine {
  std::string name;
  double flops = 0, bytes = 0;  ///< a second
  std::function<double(const std::function<void()>&)> seconds;
};

/// Runs every version, the last of which is the library's and makes the result that all are compared with: no element
/// may be further off than `tolerance` times the largest. Prints ms, GFLOP/s, GB/s and the part of the machine's limit.
/// Returns whether all agree.
bool compare(const Machine& machine, const std::string& title, const Work& work, const tendril::Tensor& result,
             double tolerance, const std::vector<Version>& versions);
/// On one core of the processor.
bool compare(const std::string& title, const Work& work, const tendril::Tensor& result, double tolerance,
             const std::vector<Version>& versions);

// The lessons. `quick`: sizes that are done at once.
bool matmul(bool quick);
bool softmax(bool quick);
bool layer_norm(bool quick);
bool convolution(bool quick);

}  // namespace kernels

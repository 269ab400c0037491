#include "cuda_emulator/failures.h"

#include <atomic>

namespace cuda_emulator {
namespace {

std::atomic<int>& next(Planning what) {
  static std::atomic<int> all[4];
  return all[static_cast<int>(what)];
}

}  // namespace

void fail_next_planning(Planning what, int status) { next(what) = status; }
int planned_failure(Planning what) { return next(what).exchange(0); }

}  // namespace cuda_emulator

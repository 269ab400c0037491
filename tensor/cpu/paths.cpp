#include "tendril/tensor/cpu/paths.h"

#include <array>
#include <atomic>

namespace tendril::cpu {
namespace {

struct alignas(64) Count {  // a cache line each: threads that go different ways do not meet
  std::atomic<uint64_t> calls{0};
};
constinit std::array<Count, static_cast<std::size_t>(Path::count_)> counts;

}  // namespace

void took(Path path) noexcept { counts[static_cast<std::size_t>(path)].calls.fetch_add(1, std::memory_order_relaxed); }
uint64_t taken(Path path) noexcept {
  return counts[static_cast<std::size_t>(path)].calls.load(std::memory_order_relaxed);
}

}  // namespace tendril::cpu

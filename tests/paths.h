#pragma once

#include <array>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <functional>
#include <vector>

#include "tendril/tensor/cpu/paths.h"

/// Which paths kernels take (tensor/cpu/paths.h), for tests.
namespace tendril::testing {

inline constexpr std::size_t kPaths = static_cast<std::size_t>(cpu::Path::count_);
inline std::array<uint64_t, kPaths> paths_taken() {
  std::array<uint64_t, kPaths> all;
  for (std::size_t i = 0; i < kPaths; ++i) all[i] = cpu::taken(static_cast<cpu::Path>(i));
  return all;
}

/// An operation with sizes of about `side`, and how often a large one takes the path.
struct Fast {
  const char* name;
  cpu::Path path;
  uint64_t times;
  std::function<void(int64_t side)> run;
};

/// That each takes its path when its sides are 256, and pays for no count when they are 4.
inline void check_paths(const std::vector<Fast>& all) {
  for (const Fast& one : all) {
    const uint64_t before = cpu::taken(one.path);
    one.run(256);
    BOOST_TEST(cpu::taken(one.path) - before == one.times, one.name);
    const auto counts = paths_taken();
    one.run(4);
    BOOST_TEST((paths_taken() == counts), one.name << ", a small one");
  }
}

}  // namespace tendril::testing

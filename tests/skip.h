#pragma once

#include <iostream>
#include <string_view>

namespace tendril::testing {

/// Whether a test of this program has called skip_suite().
inline bool suite_skipped = false;

/// For a test that lacks something that it needs on this machine. If no test of the program fails, CTest reports the
/// suite as skipped (tests/main.cpp).
inline void skip_suite(std::string_view why) {
  std::cout << "suite skipped: " << why << '\n';
  suite_skipped = true;
}

}  // namespace tendril::testing

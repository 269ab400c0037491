#pragma once

#include <cstdlib>

namespace tendril::mutants {

/// Whether this process runs the mutant of this number: TENDRIL_MUTANT says which, none without it.
inline bool on(int number) noexcept {
  static const int chosen = [] {
    const char* text = std::getenv("TENDRIL_MUTANT");
    return text ? std::atoi(text) : 0;
  }();
  return number == chosen;
}

}  // namespace tendril::mutants

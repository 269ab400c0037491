#include "cuda_emulator/settings.h"

#include <cstdio>
#include <cstdlib>

namespace cuda_emulator {

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  if (text == nullptr || *text == '\0') return otherwise;
  char* end = nullptr;
  const unsigned long long number = std::strtoull(text, &end, 10);
  if (*end != '\0') {
    std::fprintf(stderr, "cuda_emulator: %s is '%s'; expected a number\n", name, text);
    std::abort();
  }
  return number;
}

Shuffler::Shuffler() : state_(from_environment("TENDRIL_EMULATED_SEED", 1)) {}

std::uint64_t Shuffler::below(std::uint64_t bound) {
  state_ += 0x9E3779B97F4A7C15u;
  std::uint64_t z = state_;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  z ^= z >> 31;
  return z % bound;
}

}  // namespace cuda_emulator

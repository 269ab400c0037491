#pragma once

#include <atomic>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <initializer_list>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Seeds of random tests. All of them derive from the environment variable TENDRIL_TEST_SEED (default 1), which CI
/// derives from the commit. tests/main.cpp prints its value when a test case that drew a seed fails. Does not need
/// Boost.Test: a program without it calls print_seed() when it fails.
namespace tendril::testing {

namespace seeds_detail {

/// The output function of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
constexpr std::uint64_t mix(std::uint64_t x) noexcept {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}
/// FNV-1a, the same on every platform.
constexpr std::uint64_t hash(std::string_view text) noexcept {
  std::uint64_t result = 0xcbf29ce484222325;
  for (const char c : text) result = (result ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return result;
}

inline std::atomic<std::uint64_t> current_case{hash("")};  ///< hash of its full name
inline std::atomic<std::uint64_t> case_count{0};           ///< how many test cases have started
inline std::atomic<bool> drawn{false};                     ///< whether the current case has called test_seed()
inline std::atomic<std::uint64_t> loop_seed{0};            ///< at which a loop over seeds() is
inline std::atomic<bool> in_loop{false};                   ///< whether such a loop runs

}  // namespace seeds_detail

/// The value of TENDRIL_TEST_SEED. Exits with status 2 if it is not an unsigned 64-bit decimal integer.
inline std::uint64_t seed_variable() {
  static const std::uint64_t parsed = [] {
    const char* const variable = std::getenv("TENDRIL_TEST_SEED");
    if (!variable) return std::uint64_t{1};
    const std::string_view text = variable;
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) {
      std::cerr << "TENDRIL_TEST_SEED: got '" << text << "', expected an unsigned integer\n";
      std::exit(2);
    }
    return value;
  }();
  return parsed;
}

namespace seeds_detail {
inline std::uint64_t seed_of_case(std::uint64_t salt) { return mix(mix(mix(seed_variable()) ^ current_case) ^ salt); }
}  // namespace seeds_detail

/// Seed of the current test case, the same whether the case runs alone or after others. Each `salt` gives a different
/// seed, for a case that needs several streams. Thread-safe.
inline std::uint64_t test_seed(std::uint64_t salt = 0) {
  seeds_detail::drawn = true;
  return seeds_detail::seed_of_case(salt);
}

/// What seeds() returns. Records the seed that the loop is at, so that a failure can print it.
class SeedLoop {
 public:
  explicit SeedLoop(std::vector<std::uint64_t> all) : all_(std::move(all)) {}
  SeedLoop(const SeedLoop&) = delete;
  SeedLoop& operator=(const SeedLoop&) = delete;
  ~SeedLoop() {
    if (std::uncaught_exceptions() == 0) seeds_detail::in_loop = false;  // after `break`
  }

  class Iterator {
   public:
    explicit Iterator(std::vector<std::uint64_t>::const_iterator at) : at_(at) {}
    std::uint64_t operator*() const {
      seeds_detail::loop_seed = *at_;
      seeds_detail::in_loop = true;
      return *at_;
    }
    Iterator& operator++() {
      ++at_;
      seeds_detail::in_loop = false;
      return *this;
    }
    friend bool operator==(const Iterator&, const Iterator&) = default;

   private:
    std::vector<std::uint64_t>::const_iterator at_;
  };
  Iterator begin() const { return Iterator(all_.begin()); }
  Iterator end() const { return Iterator(all_.end()); }

 private:
  std::vector<std::uint64_t> all_;
};

/// Seeds for a loop over random inputs: the `fixed` ones, then `count` consecutive ones that start at test_seed().
/// A failed case prints the first seed at which it failed; add it to `fixed` to test it from then on:
///   for (const std::uint64_t seed : seeds({17, 99})) check_all(seed);
/// One loop at a time, on the thread of the test case.
inline SeedLoop seeds(std::initializer_list<std::uint64_t> fixed, std::size_t count = 1) {
  std::vector<std::uint64_t> all(fixed);
  const std::uint64_t first = test_seed();
  for (std::size_t i = 0; i < count; ++i) all.push_back(first + i);
  return SeedLoop(std::move(all));
}

/// The engine (e.g. a Generator or a std::mt19937) that the helpers of one test case share. Every test case starts with
/// a newly seeded engine. Not thread-safe.
template <class Engine>
Engine& case_engine() {
  static std::optional<Engine> engine;
  static std::uint64_t made_for = 0;
  if (const std::uint64_t now = seeds_detail::case_count; !engine || made_for != now) {
    engine.emplace(test_seed());
    made_for = now;
  }
  return *engine;
}

/// A line with the variable that reproduces a failed test.
inline std::string seed_line() {
  return "seed: TENDRIL_TEST_SEED=" + std::to_string(seed_variable()) + " reproduces this case\n";
}
inline void print_seed() { std::cerr << seed_line() << std::flush; }

}  // namespace tendril::testing

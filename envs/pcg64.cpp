#include "tendril/envs/pcg64.h"

#include <bit>
#include <vector>

namespace tendril::envs {
namespace {

constexpr int kHalfWord = 16;

// One step of the sequence's hash: the constant it multiplies by changes at each call.
std::uint32_t hash(std::uint32_t value, std::uint32_t& constant, std::uint32_t multiplier) {
  value ^= constant;
  constant *= multiplier;
  value *= constant;
  return value ^ (value >> kHalfWord);
}

std::uint32_t hash_in(std::uint32_t value, std::uint32_t& constant) { return hash(value, constant, 0x931e8875U); }

std::uint32_t mix(std::uint32_t x, std::uint32_t y) {
  const std::uint32_t result = 0xca01f9ddU * x - 0x4973f715U * y;
  return result ^ (result >> kHalfWord);
}

// 128-bit arithmetic is a compiler extension; __extension__ keeps -Wpedantic quiet about it.
__extension__ using Uint128 = unsigned __int128;

constexpr Uint128 join(std::uint64_t high, std::uint64_t low) { return (Uint128{high} << 64) | low; }

constexpr Uint128 kMultiplier = join(0x2360ed051fc65da4U, 0x4385df649fccf645U);

}  // namespace

SeedSequence::SeedSequence(std::uint64_t entropy) {
  // The integer's 32-bit words, low first; absent words count as zero.
  const std::array<std::uint32_t, 4> words = {static_cast<std::uint32_t>(entropy),
                                              static_cast<std::uint32_t>(entropy >> 32), 0, 0};
  std::uint32_t constant = 0x43b0d7e5U;
  for (std::size_t i = 0; i < pool_.size(); ++i) pool_[i] = hash_in(words[i], constant);
  for (std::size_t source = 0; source < pool_.size(); ++source)
    for (std::size_t target = 0; target < pool_.size(); ++target)
      if (source != target) pool_[target] = mix(pool_[target], hash_in(pool_[source], constant));
}

void SeedSequence::generate(std::span<std::uint32_t> out) const {
  std::uint32_t constant = 0x8b51f9ddU;
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = hash(pool_[i % pool_.size()], constant, 0x58f38dedU);
}

void SeedSequence::generate(std::span<std::uint64_t> out) const {
  std::vector<std::uint32_t> words(2 * out.size());
  generate(std::span<std::uint32_t>(words));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = (std::uint64_t{words[2 * i + 1]} << 32) | words[2 * i];
}

Pcg64::Pcg64(std::uint64_t seed) {
  std::array<std::uint64_t, 4> words;
  SeedSequence(seed).generate(words);
  const Uint128 start = join(words[0], words[1]);
  const Uint128 increment = (join(words[2], words[3]) << 1) | 1;
  increment_ = {static_cast<std::uint64_t>(increment >> 64), static_cast<std::uint64_t>(increment)};
  advance();
  const Uint128 state = join(state_.high, state_.low) + start;
  state_ = {static_cast<std::uint64_t>(state >> 64), static_cast<std::uint64_t>(state)};
  advance();
}

void Pcg64::advance() {
  const Uint128 state = join(state_.high, state_.low) * kMultiplier + join(increment_.high, increment_.low);
  state_ = {static_cast<std::uint64_t>(state >> 64), static_cast<std::uint64_t>(state)};
}

Pcg64::result_type Pcg64::operator()() {
  advance();
  return std::rotr(state_.high ^ state_.low, static_cast<int>(state_.high >> 58));
}

double Pcg64::uniform() { return static_cast<double>((*this)() >> 11) * 0x1p-53; }

double Pcg64::uniform(double low, double high) { return low + (high - low) * uniform(); }

}  // namespace tendril::envs

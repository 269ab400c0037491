#pragma once

#include <tendril/rpc/rref.h>

#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace examples {

/// Durations in nanoseconds, counted in buckets 1/32 of their value wide: fixed size, quantiles exact to about 3 %.
class LatencyHistogram {
 public:
  void record(std::uint64_t nanoseconds) {
    ++buckets_[bucket_of(nanoseconds)];
    ++count_;
  }

  void merge(const LatencyHistogram& other) {
    for (std::size_t i = 0; i < buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
    count_ += other.count_;
  }

  std::uint64_t count() const { return count_; }

  /// The value (ns) that the fraction q, 0 <= q <= 1, of the records does not exceed: its bucket's middle; 0 without
  /// records.
  double quantile(double q) const {
    double rest = q * static_cast<double>(count_);
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      if (buckets_[i] == 0) continue;
      rest -= static_cast<double>(buckets_[i]);
      if (rest <= 0) return middle_of(i);
    }
    return 0;
  }

  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& count_;
    for (std::uint64_t& bucket : buckets_) archive& bucket;
  }

 private:
  static constexpr int kBits = 5;
  static constexpr std::uint64_t kPerOctave = std::uint64_t{1} << kBits;
  static constexpr int kOctaves = 40 - kBits;  // the last bucket takes all above 2^40 ns, 18 minutes

  // Values below kPerOctave have a bucket each; then every octave has kPerOctave buckets.
  static std::size_t bucket_of(std::uint64_t value) {
    const int octave = std::bit_width(value >> kBits);
    if (octave == 0) return value;
    if (octave > kOctaves) return kPerOctave * (kOctaves + 1) - 1;
    return kPerOctave * static_cast<std::size_t>(octave) + ((value >> (octave - 1)) - kPerOctave);
  }

  static double middle_of(std::size_t bucket) {
    const std::size_t octave = bucket / kPerOctave;
    if (octave == 0) return static_cast<double>(bucket);
    const double width = static_cast<double>(std::uint64_t{1} << (octave - 1));
    return width * (static_cast<double>(kPerOctave + bucket % kPerOctave) + 0.5);
  }

  std::uint64_t count_ = 0;
  std::array<std::uint64_t, kPerOctave*(kOctaves + 1)> buckets_{};
};

namespace detail {
void record_call(std::chrono::steady_clock::duration duration);
}
/// What `call` returns; how long it took is among this process's `call_latencies`, also where it throws. Thread-safe.
template <class Call>
auto timed(Call call) {
  struct Stopwatch {
    std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
    ~Stopwatch() { detail::record_call(std::chrono::steady_clock::now() - begin); }
  } const stopwatch;
  return call();
}
/// rref.rpc_sync<method>(arguments...), timed; where the object is in this process, a plain call.
template <auto method, class T, class... Arguments>
auto rpc_sync(const tendril::rpc::RRef<T>& rref, const Arguments&... arguments) {
  if (rref.is_owner()) return (rref.local_value().*method)(arguments...);
  return timed([&] { return rref.template rpc_sync<method>(arguments...); });
}
/// Of this process: one record for each call that was `timed` so far. Thread-safe; may be called remotely.
LatencyHistogram call_latencies();

}  // namespace examples

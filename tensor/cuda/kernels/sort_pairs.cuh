#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>

#include "tendril/tensor/cuda/kernels/kernel.cuh"
#include "tendril/tensor/cuda/runtime/capture.h"
#include "tendril/tensor/cuda/runtime/workspace.h"

#ifdef __CUDACC__
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_segmented_radix_sort.cuh>
#else
#include <cuda_emulator/emulator.h>

#include <numeric>
#include <vector>
#endif

namespace tendril::cuda {

/// Keys and what goes with them, on the device: in one order, and where they are to be in another.
template <class K>
struct Pairs {
  const K* keys;
  K* sorted_keys;
  const int64_t* values;
  int64_t* sorted_values;
};

/// Puts each of `lines` lines of `length` pairs, which lie one behind the other, in ascending order of the keys; equal
/// ones keep theirs. Does not wait.
template <class K>
void sort_pairs(const char* op, const Pairs<K>& pairs, int64_t lines, int64_t length);

#ifdef __CUDACC__

namespace detail {

/// Runs one of CUB's functions: it is asked first how much scratch memory it wants.
template <class F>
void with_scratch(const char* op, F f) {
  std::size_t bytes = 0;
  check(f(nullptr, bytes), op, "cub");
  const Workspace scratch(bytes > 0 ? bytes : 1);  // null would be asking again
  check(f(scratch.data(), bytes), op, "cub");
}

/// Where lines begin, as CUB reads it.
struct Beginnings {
  using iterator_category = std::random_access_iterator_tag;
  using value_type = int;
  using difference_type = int;
  using pointer = const int*;
  using reference = int;

  int length, first;

  __host__ __device__ int operator[](int line) const { return (first + line) * length; }
  __host__ __device__ int operator*() const { return first * length; }
  __host__ __device__ Beginnings operator+(int lines) const { return {length, first + lines}; }
};

}  // namespace detail

template <class K>
void sort_pairs(const char* op, const Pairs<K>& pairs, int64_t lines, int64_t length) {
  constexpr int kBits = 8 * sizeof(K);
  constexpr int64_t kFew = 8;  // of more lines, a block for each keeps a device busy
  const cudaStream_t stream = current_stream();
  refuse_when_renewed(op);
  const int64_t at_once = std::numeric_limits<int>::max() / length;  // CUB counts those of several lines in int
  if (lines <= kFew || at_once <= kFew) {
    for (int64_t from = 0; from < lines * length; from += length) {
      detail::with_scratch(op, [&](void* scratch, std::size_t& bytes) {
        return cub::DeviceRadixSort::SortPairs(scratch, bytes, pairs.keys + from, pairs.sorted_keys + from,
                                               pairs.values + from, pairs.sorted_values + from, length, 0, kBits,
                                               stream);
      });
    }
    return;
  }
  for (int64_t line = 0; line < lines; line += at_once) {
    const int64_t from = line * length;
    const int count = static_cast<int>(std::min(at_once, lines - line)), each = static_cast<int>(length);
    detail::with_scratch(op, [&](void* scratch, std::size_t& bytes) {
      return cub::DeviceSegmentedRadixSort::SortPairs(
          scratch, bytes, pairs.keys + from, pairs.sorted_keys + from, pairs.values + from, pairs.sorted_values + from,
          count * each, count, detail::Beginnings{each, 0}, detail::Beginnings{each, 1}, 0, kBits, stream);
    });
  }
}

#else

template <class K>
void sort_pairs(const char* op, const Pairs<K>& pairs, int64_t lines, int64_t length) {
  const auto sort_lines = [pairs, lines, length] {
    std::vector<int64_t> order(static_cast<std::size_t>(length));
    for (int64_t from = 0; from < lines * length; from += length) {
      std::iota(order.begin(), order.end(), from);
      std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) { return pairs.keys[i] < pairs.keys[j]; });
      for (int64_t i = 0; i < length; ++i) {
        pairs.sorted_keys[from + i] = pairs.keys[order[static_cast<std::size_t>(i)]];
        pairs.sorted_values[from + i] = pairs.values[order[static_cast<std::size_t>(i)]];
      }
    }
  };
  check(cuda_emulator::enqueue(current_stream(), sort_lines), op, "cub");
  check(cudaPeekAtLastError(), op, "cub");  // as CUB does, whoever's error it is
}

#endif

}  // namespace tendril::cuda

#pragma once

#include "tendril/tensor/cuda/kernels/lanes.cuh"
#include "tendril/tensor/cuda/kernels/places.h"

/// What kernels that look for the largest or smallest of a line share (extremum.cu).
namespace tendril::cuda {

inline constexpr int kFindThreads = 256;

/// What a C travels as between the threads of a warp.
template <class C>
using Shuffled = std::conditional_t<sizeof(C) < sizeof(int), int, C>;

/// An element and its place; place -1 is none.
template <class C, class Place = int64_t>
struct Found {
  C value = C(0);
  Place at = -1;

  /// Joins an element behind all others so far: cheaper, as of equals the first stays.
  __device__ void take(C next, Place place, bool largest) {
    const bool better = (largest ? next > value : next < value) || (next != next && value == value);
    if (at >= 0 && !better) return;
    value = next;
    at = place;
  }

  /// A NaN wins over numbers; of equals, NaNs among them, the first in the dimension wins. So the order of joining
  /// does not matter.
  __device__ void join(const Found& other, bool largest) {
    if (other.at < 0) return;
    const bool nan = value != value, other_nan = other.value != other.value;
    const bool better = nan ? false : other_nan ? true : largest ? other.value > value : other.value < value;
    const bool equal = nan ? other_nan : other.value == value;
    if (at < 0 || better || (equal && other.at < at)) *this = other;
  }

  /// That of the thread `distance` further on in the warp.
  __device__ Found from_lane(int distance) const {
    return {static_cast<C>(__shfl_down_sync(kAllLanes, static_cast<Shuffled<C>>(value), distance)),
            __shfl_down_sync(kAllLanes, at, distance)};
  }
};

/// The lines and how threads share them.
struct LinesOf {
  Places<3> lines;  ///< x, values, indices
  int64_t length, step;
  int across;     ///< lines of a block
  int sharing;    ///< threads of a line
  bool by_row;    ///< neighbouring threads have neighbouring elements of one line, not neighbouring lines
  int64_t share;  ///< elements of a line that a block takes; blockIdx.y says which

  __device__ int64_t share_start() const { return static_cast<int64_t>(blockIdx.y) * share; }
  __device__ int64_t share_end() const {
    const int64_t end = share_start() + share;
    return end < length ? end : length;
  }
};

/// Where what is found goes: to the result, or, where a line is cut into shares, to [shares][lines].
template <class T>
struct FoundTarget {
  T* values;  ///< may be null, and so may be indices
  int64_t* indices;
  Compute<T>* partial_values;
  int64_t* partial_places;

  __device__ void write(const Found<Compute<T>>& found, const int64_t (&place)[3]) const {
    if (values) values[place[1]] = from_compute<T>(found.value);
    if (indices) indices[place[2]] = found.at;
  }
  /// That of this block's share of a line.
  __device__ void write_share(const Found<Compute<T>>& found, const int64_t (&place)[3], int64_t line,
                              int64_t lines) const {
    if (!partial_places) return write(found, place);
    const int64_t slot = static_cast<int64_t>(blockIdx.y) * lines + line;
    partial_values[slot] = found.value;
    partial_places[slot] = found.at;
  }
};

}  // namespace tendril::cuda

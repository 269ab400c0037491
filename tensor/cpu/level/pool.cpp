#include <cmath>

#include "tendril/tensor/cpu/level/level.h"

namespace tendril::cpu::TENDRIL_CPU_LEVEL {
namespace {

/// A pixel of each window at a time, for many windows beside each other. `stride` 0: any. `Place` is as wide as T, so
/// that both are chosen by one mask.
template <class T, class Place, int64_t stride>
void largest_of_windows(const WindowRow& row) {
  constexpr int64_t kBlock = 128;
  const int64_t step = stride > 0 ? stride : row.stride;
  const T* plane = static_cast<const T*>(row.plane);
  for (int64_t first = 0; first < row.count; first += kBlock) {
    const int64_t count = row.count - first < kBlock ? row.count - first : kBlock;
    const int64_t corner = row.top * row.width + row.left + first * step;
    T best[kBlock];
    Place at[kBlock];
    for (int64_t l = 0; l < count; ++l) {
      best[l] = -static_cast<T>(INFINITY);
      at[l] = static_cast<Place>(corner + l * step);
    }
    for (int64_t a = 0; a < row.rows; ++a) {
      for (int64_t b = 0; b < row.columns; ++b) {
        const int64_t place = corner + a * row.row_step * row.width + b * row.column_step;
        const T* const x = plane + place;
        for (int64_t l = 0; l < count; ++l) {
          const T value = x[l * step];
          const bool better = (value > best[l]) | (value != value);  // NaN wins
          best[l] = better ? value : best[l];
          at[l] = better ? static_cast<Place>(place + l * step) : at[l];
        }
      }
    }
    T* const values = static_cast<T*>(row.values) + first;
    for (int64_t l = 0; l < count; ++l) values[l] = best[l];
    for (int64_t l = 0; l < count; ++l) row.indices[first + l] = static_cast<int64_t>(at[l]);
  }
}

template <class T, class Place>
void largest_of(const WindowRow& row) {
  if (row.stride == 1) return largest_of_windows<T, Place, 1>(row);
  if (row.stride == 2) return largest_of_windows<T, Place, 2>(row);
  largest_of_windows<T, Place, 0>(row);
}

}  // namespace

extern const ByDType<void (*)(const WindowRow&)> max_pool_rows;
const ByDType<void (*)(const WindowRow&)> max_pool_rows = {largest_of<float, int32_t>, largest_of<double, int64_t>};

}  // namespace tendril::cpu::TENDRIL_CPU_LEVEL

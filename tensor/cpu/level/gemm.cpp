#include <algorithm>

#include "tendril/tensor/cpu/level/lanes.h"
#include "tendril/tensor/cpu/level/level.h"
#include "tendril/tensor/cpu/level/tile.h"
#include "tendril/tensor/cpu/level/transpose.h"
#include "tendril/tensor/cpu/panels.h"

/// Matrix products. Small ones read their operands in place; large ones are cut into panels that fit the caches, packed
/// so that the innermost kernel reads memory in order (Goto and van de Geijn, "Anatomy of high-performance matrix
/// multiplication", 2008).
namespace tendril::cpu::TENDRIL_CPU_LEVEL {
namespace {

template <class T>
void put(const Gemm& g, T& out, T value) {
  out = g.accumulate ? out + value : value;
}

/// out row i = sum over p of a[i, p] * row p of b: every inner loop runs along rows that lie together.
template <class T>
void by_rows(const Gemm& g) {
  const T* a = static_cast<const T*>(g.a);
  const T* b = static_cast<const T*>(g.b);
  T* out = static_cast<T*>(g.out);
  for (int64_t i = 0; i < g.m; ++i) {
    T* o = out + i * g.out_row;
    if (!g.accumulate) {
      for (int64_t j = 0; j < g.n; ++j) o[j] = 0;
    }
    int64_t p = 0;
    for (; p + 4 <= g.k; p += 4) {  // four rows a pass: a quarter of the loads and stores of o
      const T* a0 = a + i * g.a_row + p * g.a_column;
      const T x0 = a0[0], x1 = a0[g.a_column], x2 = a0[2 * g.a_column], x3 = a0[3 * g.a_column];
      const T* b0 = b + p * g.b_row;
      const T *b1 = b0 + g.b_row, *b2 = b1 + g.b_row, *b3 = b2 + g.b_row;
#pragma GCC ivdep
      for (int64_t j = 0; j < g.n; ++j) o[j] += (x0 * b0[j] + x1 * b1[j]) + (x2 * b2[j] + x3 * b3[j]);
    }
    for (; p < g.k; ++p) {
      const T x = a[i * g.a_row + p * g.a_column];
      const T* row = b + p * g.b_row;
#pragma GCC ivdep
      for (int64_t j = 0; j < g.n; ++j) o[j] += x * row[j];
    }
  }
}

/// out[i, j] = row i of a times column j of b, where both lie together.
template <class T>
void by_dots(const Gemm& g) {
  using Vector = typename Lanes<T>::Vector;
  constexpr int64_t L = Lanes<T>::count;
  const T* a = static_cast<const T*>(g.a);
  const T* b = static_cast<const T*>(g.b);
  T* out = static_cast<T*>(g.out);
  for (int64_t i = 0; i < g.m; ++i) {
    const T* x = a + i * g.a_row;
    int64_t j = 0;
    for (; j + 4 <= g.n; j += 4) {  // four columns a pass share the loads of x
      const T* y[4];
      for (int c = 0; c < 4; ++c) y[c] = b + (j + c) * g.b_column;
      Vector sums[4] = {};
      int64_t p = 0;
      for (; p + L <= g.k; p += L) {
        const Vector v = *reinterpret_cast<const Vector*>(x + p);
        for (int c = 0; c < 4; ++c) sums[c] += v * *reinterpret_cast<const Vector*>(y[c] + p);
      }
      T totals[4] = {};
      if (g.k >= L) {
        for (int c = 0; c < 4; ++c) {
          for (int64_t l = 0; l < L; ++l) totals[c] += sums[c][l];
        }
      }
      for (; p < g.k; ++p) {
        for (int c = 0; c < 4; ++c) totals[c] += x[p] * y[c][p];
      }
      for (int c = 0; c < 4; ++c) put(g, out[i * g.out_row + (j + c) * g.out_column], totals[c]);
    }
    for (; j < g.n; ++j) {
      const T* y = b + j * g.b_column;
      Vector sum = {};
      int64_t p = 0;
      for (; p + L <= g.k; p += L)
        sum += *reinterpret_cast<const Vector*>(x + p) * *reinterpret_cast<const Vector*>(y + p);
      T total = 0;
      for (int64_t l = 0; l < L; ++l) total += sum[l];
      for (; p < g.k; ++p) total += x[p] * y[p];
      put(g, out[i * g.out_row + j * g.out_column], total);
    }
  }
}

/// One sum after another, wherever its numbers lie.
template <class T>
void by_elements(const Gemm& g) {
  const T* a = static_cast<const T*>(g.a);
  const T* b = static_cast<const T*>(g.b);
  T* out = static_cast<T*>(g.out);
  for (int64_t i = 0; i < g.m; ++i) {
    for (int64_t j = 0; j < g.n; ++j) {
      T total = 0;
      for (int64_t p = 0; p < g.k; ++p) total += a[i * g.a_row + p * g.a_column] * b[p * g.b_row + j * g.b_column];
      put(g, out[i * g.out_row + j * g.out_column], total);
    }
  }
}

/// A b of few columns, copied into one or two registers a row: what is left is one multiplication and addition of whole
/// registers for each element of a, whatever the strides were.
template <class T>
struct Narrow {
  using Vector = typename Lanes<T>::Vector;
  static constexpr int64_t L = Lanes<T>::count;
  static constexpr int64_t kDepth = 64;

  /// More work is better done in tiles, which have more sums under way at a time.
  static bool fits(const Gemm& g) {
    return g.n <= 2 * L && g.k <= kDepth && g.m > 2 && g.out_column == 1 && g.m * g.n * g.k <= 16 * 16 * 16;
  }
  static void run(const Gemm& g) { g.n <= L ? run_with<1>(g) : run_with<2>(g); }

 private:
  template <int registers>
  static void run_with(const Gemm& g) {
    constexpr int64_t width = registers * L;
    T packed[kDepth * width];
    const T* b = static_cast<const T*>(g.b);
    for (int64_t p = 0; p < g.k; ++p) {
      T* to = packed + p * width;
      for (int64_t j = 0; j < width; ++j) to[j] = j < g.n ? b[p * g.b_row + j * g.b_column] : T(0);
    }
    const T* a = static_cast<const T*>(g.a);
    T* out = static_cast<T*>(g.out);
    for (int64_t i = 0; i < g.m; ++i, a += g.a_row, out += g.out_row) {
      Vector sums[registers] = {};
      for (int64_t p = 0; p < g.k; ++p) {
        const T x = a[p * g.a_column];
        for (int64_t r = 0; r < registers; ++r) {
          sums[r] += x * *reinterpret_cast<const Vector*>(packed + p * width + r * L);
        }
      }
      for (int64_t j = 0; j < g.n; ++j) put(g, out[j], static_cast<T>(sums[j / L][j % L]));
    }
  }
};

template <class T>
struct Blocked {
  using Vector = typename Lanes<T>::Vector;
  static constexpr int64_t L = Lanes<T>::count;
  static constexpr int64_t kRows = 6;  // of the register tile
  static constexpr int64_t kColumns = 2 * L;
  static constexpr int64_t kDepth = 256;  // a tile's panel of b stays in the first cache,
  static constexpr int64_t kHeight = 96;  // a block of a in the second,
  static constexpr int64_t kWidth = 512;  // a block of b there or in the third

  /// [rows, depth] as panels of kRows rows, each panel column by column, padded with zeros.
  static void pack_a(const T* a, int64_t row, int64_t column, int64_t rows, int64_t depth, T* to) {
    for (int64_t p = 0; p < depth; ++p, a += column) {
      T* panel = to + p * kRows;
      int64_t i = 0;
      for (; i + kRows <= rows; i += kRows, panel += depth * kRows) {
        if (row == 1) {
          __builtin_memcpy(panel, a + i, kRows * sizeof(T));
        } else {
          for (int64_t r = 0; r < kRows; ++r) panel[r] = a[(i + r) * row];
        }
      }
      for (int64_t r = 0; i < rows && r < kRows; ++r) panel[r] = i + r < rows ? a[(i + r) * row] : T(0);
    }
  }
  /// [depth, columns] as panels of kColumns columns, each panel row by row, padded with zeros.
  static void pack_b(const T* b, int64_t row, int64_t column, int64_t depth, int64_t columns, T* to) {
    for (int64_t j = 0; j < columns; j += kColumns, b += kColumns * column, to += kColumns * depth) {
      const int64_t width = std::min(kColumns, columns - j);
      int64_t p = 0;
      if (width == kColumns && column == 1) {
        for (; p < depth; ++p) {
          for (int64_t c = 0; c < kColumns; c += L) {
            *reinterpret_cast<Vector*>(to + p * kColumns + c) = *reinterpret_cast<const Vector*>(b + p * row + c);
          }
        }
      } else if (width == kColumns && row == 1) {
        for (; p + 4 <= depth; p += 4) {
          for (int64_t c = 0; c < kColumns; c += 4) {
            transpose_4x4<T>(reinterpret_cast<char*>(to + p * kColumns + c), kColumns * sizeof(T),
                             reinterpret_cast<const char*>(b + c * column + p),
                             column * static_cast<int64_t>(sizeof(T)));
          }
        }
      }
      for (; p < depth; ++p) {
        for (int64_t c = 0; c < width; ++c) to[p * kColumns + c] = b[p * row + c * column];
        for (int64_t c = width; c < kColumns; ++c) to[p * kColumns + c] = 0;
      }
    }
  }

  static int64_t padded(int64_t count, int64_t step) { return (count + step - 1) / step * step; }

  /// False if there is no memory to pack in; then nothing was written.
  static bool run(const Gemm& g) {
    const int64_t most_depth = std::min(kDepth, g.k);
    const int64_t size_of_a = most_depth * padded(std::min(kHeight, g.m), kRows);
    const int64_t size_of_b = most_depth * padded(std::min(kWidth, g.n), kColumns);
    const std::size_t bytes = static_cast<std::size_t>(size_of_a + size_of_b) * sizeof(T);
    void* const panels = borrow_panels(bytes);
    if (!panels) return false;
    run_in(g, static_cast<T*>(panels) + size_of_b, static_cast<T*>(panels));  // each begins on a cache line
    return_panels(panels, bytes);
    return true;
  }

  static void run_in(const Gemm& g, T* packed_a, T* packed_b) {
    T* const out = static_cast<T*>(g.out);
    for (int64_t j0 = 0; j0 < g.n; j0 += kWidth) {
      const int64_t width = std::min(kWidth, g.n - j0);
      for (int64_t p0 = 0; p0 < g.k; p0 += kDepth) {
        const int64_t depth = std::min(kDepth, g.k - p0);
        pack_b(static_cast<const T*>(g.b) + p0 * g.b_row + j0 * g.b_column, g.b_row, g.b_column, depth, width,
               packed_b);
        for (int64_t i0 = 0; i0 < g.m; i0 += kHeight) {
          const int64_t height = std::min(kHeight, g.m - i0);
          const T* const a = static_cast<const T*>(g.a) + i0 * g.a_row + p0 * g.a_column;
          // Rows that lie together are read where they are, but for the last ones.
          const int64_t in_place = g.a_column == 1 ? height / kRows * kRows : 0;
          pack_a(a + in_place * g.a_row, g.a_row, g.a_column, height - in_place, depth, packed_a);
          for (int64_t j = 0; j < width; j += kColumns) {
            const bool all_columns = j + kColumns <= width && g.out_column == 1;
            for (int64_t i = 0; i < height; i += kRows) {
              const bool packed = i >= in_place;
              const T* const rows = packed ? packed_a + (i - in_place) * depth : a + i * g.a_row;
              T* const to = out + (i0 + i) * g.out_row + (j0 + j) * g.out_column;
              const bool add = g.accumulate || p0 > 0;
              if (all_columns && i + kRows <= height) {
                multiply_tile<kRows, L>(rows, packed ? 1 : g.a_row, packed ? kRows : 1, packed_b + j * depth, depth, to,
                                        g.out_row, add);
              } else {
                T tile[kRows * kColumns];
                multiply_tile<kRows, L>(rows, packed ? 1 : g.a_row, packed ? kRows : 1, packed_b + j * depth, depth,
                                        tile, kColumns, false);
                store(tile, to, g.out_row, g.out_column, std::min(kRows, height - i), std::min(kColumns, width - j),
                      add);
              }
            }
          }
        }
      }
    }
  }

  static int64_t packed_bytes(int64_t k, int64_t n) {
    return k * padded(n, kColumns) * static_cast<int64_t>(sizeof(T));
  }

  /// All of b: blocks of kDepth rows one after another, panels of all columns in each.
  static void pack_whole_b(const Gemm& g, void* packed) {
    T* to = static_cast<T*>(packed);
    for (int64_t p0 = 0; p0 < g.k; p0 += kDepth) {
      const int64_t depth = std::min(kDepth, g.k - p0);
      pack_b(static_cast<const T*>(g.b) + p0 * g.b_row, g.b_row, g.b_column, depth, g.n, to);
      to += depth * padded(g.n, kColumns);
    }
  }

  /// With a b that is packed. Rows are shared out evenly: 8 are two tiles of 4, not one of 6 and a third of another.
  static void run_packed(const Gemm& g, const void* packed) {
    const T* b = static_cast<const T*>(packed);
    const int64_t tiles = (g.m + kRows - 1) / kRows;
    for (int64_t p0 = 0; p0 < g.k; p0 += kDepth) {
      const int64_t depth = std::min(kDepth, g.k - p0);
      const bool add = g.accumulate || p0 > 0;
      for (int64_t j = 0; j < g.n; j += kColumns, b += kColumns * depth) {
        for (int64_t t = 0; t < tiles; ++t) {
          const int64_t i = g.m * t / tiles, rows = g.m * (t + 1) / tiles - i;
          const T* const a = static_cast<const T*>(g.a) + i * g.a_row + p0;
          T* const out = static_cast<T*>(g.out) + i * g.out_row + j;
          if (j + kColumns <= g.n) {
            tile_of(rows, a, g.a_row, b, depth, out, g.out_row, add);
          } else {
            T tile[kRows * kColumns];
            tile_of(rows, a, g.a_row, b, depth, tile, kColumns, false);
            store(tile, out, g.out_row, 1, rows, g.n - j, add);
          }
        }
      }
    }
  }

  static void tile_of(int64_t rows, const T* a, int64_t row, const T* b, int64_t depth, T* out, int64_t out_row,
                      bool add) {
    static_assert(kRows == 6);
    switch (rows) {
      case 1:
        return multiply_tile<1, L>(a, row, 1, b, depth, out, out_row, add);
      case 2:
        return multiply_tile<2, L>(a, row, 1, b, depth, out, out_row, add);
      case 3:
        return multiply_tile<3, L>(a, row, 1, b, depth, out, out_row, add);
      case 4:
        return multiply_tile<4, L>(a, row, 1, b, depth, out, out_row, add);
      case 5:
        return multiply_tile<5, L>(a, row, 1, b, depth, out, out_row, add);
      default:
        return multiply_tile<6, L>(a, row, 1, b, depth, out, out_row, add);
    }
  }

  static void store(const T* tile, T* out, int64_t row, int64_t column, int64_t rows, int64_t columns, bool add) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        T& o = out[r * row + c * column];
        o = add ? o + tile[r * kColumns + c] : tile[r * kColumns + c];
      }
    }
  }
};

template <class T>
void gemm(const Gemm& g) {
  if (g.m == 0 || g.n == 0) return;
  if (Narrow<T>::fits(g)) return Narrow<T>::run(g);
  if (g.k == 0 || g.m * g.n * g.k <= 32 * 32 * 32 || g.m <= 2) {
    if (g.b_column == 1 && g.out_column == 1) return by_rows<T>(g);
    if (g.a_column == 1 && g.b_row == 1) return by_dots<T>(g);
  }
  const bool small = g.k == 0 || g.m * g.n * g.k <= 16 * 16 * 16;
  if (small || !Blocked<T>::run(g)) by_elements<T>(g);
}

/// Integers, which need no speed yet.
template <class T>
void plain_gemm(const Gemm& g) {
  const T* a = static_cast<const T*>(g.a);
  const T* b = static_cast<const T*>(g.b);
  T* out = static_cast<T*>(g.out);
  for (int64_t i = 0; i < g.m; ++i) {
    for (int64_t j = 0; j < g.n; ++j) {
      T& o = out[i * g.out_row + j * g.out_column];
      uint64_t total = g.accumulate ? static_cast<uint64_t>(o) : 0;
      for (int64_t p = 0; p < g.k; ++p) {
        total += static_cast<uint64_t>(a[i * g.a_row + p * g.a_column]) *
                 static_cast<uint64_t>(b[p * g.b_row + j * g.b_column]);
      }
      o = static_cast<T>(total);
    }
  }
}

template <class T>
constexpr PackedProduct packed = {Blocked<T>::packed_bytes, Blocked<T>::pack_whole_b, Blocked<T>::run_packed};

}  // namespace

extern const ByDType<PackedProduct> packed_products;
const ByDType<PackedProduct> packed_products = {packed<float>, packed<double>};

extern const ByDType<void (*)(const Gemm&)> gemms;
const ByDType<void (*)(const Gemm&)> gemms = {gemm<float>, gemm<double>, plain_gemm<int64_t>, plain_gemm<int32_t>,
                                              plain_gemm<uint8_t>};

}  // namespace tendril::cpu::TENDRIL_CPU_LEVEL

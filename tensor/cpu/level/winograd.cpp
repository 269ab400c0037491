#include "tendril/tensor/cpu/level/tile.h"

/// Winograd's form of 3x3 convolutions in tiles of 4x4 results (Lavin and Gray 2016, "Fast Algorithms for Convolutional
/// Neural Networks", F(4x4, 3x3)):
///     results = A^T [(G kernel G^T) * (B^T patch B)] A
/// with * element by element: 36 products where the definition has 144. A, B and G are Toom and Cook's for polynomials
/// that are known at 0, a, -a, b, -b and infinity. The gradient of the kernel is the transpose of the same map,
///     G^T [(A gradient A^T) * (B^T patch B)] G.
namespace tendril::cpu::TENDRIL_CPU_LEVEL {
namespace {

// Of ten pairs of points tried, one of the three that err least, and exact in binary: 8e-7 of the results' size over 64
// channels, where 1 and 2, the usual ones, err by 1.7e-6 (Barabasz et al. 2018, "Error Analysis and Improving the
// Accuracy of Winograd Convolution", on why such are better).
constexpr float a = 0.625F, b = 1.5F, a2 = a * a, b2 = b * b;
constexpr float n0 = 1 / (a2 * b2), na = 1 / (2 * a2 * (a2 - b2)), nb = 1 / (2 * b2 * (b2 - a2));

constexpr int64_t kLanes = kWinogradLanes;
typedef float Vector __attribute__((vector_size(kLanes * sizeof(float)), aligned(alignof(float)), may_alias));

// One dimension of the five maps. Sums and differences of the points a and -a share their halves.
struct Patch {  // B^T
  static constexpr int kIn = 6, kOut = 6;
  [[gnu::always_inline]] static void map(const Vector* d, Vector* r) {
    const Vector even_a = d[4] - b2 * d[2], odd_a = a * (d[3] - b2 * d[1]);
    const Vector even_b = d[4] - a2 * d[2], odd_b = b * (d[3] - a2 * d[1]);
    r[0] = a2 * b2 * d[0] - (a2 + b2) * d[2] + d[4];
    r[1] = even_a + odd_a, r[2] = even_a - odd_a;
    r[3] = even_b + odd_b, r[4] = even_b - odd_b;
    r[5] = a2 * b2 * d[1] - (a2 + b2) * d[3] + d[5];
  }
};
struct Result {  // A^T
  static constexpr int kIn = 6, kOut = 4;
  [[gnu::always_inline]] static void map(const Vector* m, Vector* r) {
    const Vector sum_a = m[1] + m[2], difference_a = a * (m[1] - m[2]);
    const Vector sum_b = m[3] + m[4], difference_b = b * (m[3] - m[4]);
    r[0] = m[0] + sum_a + sum_b;
    r[1] = difference_a + difference_b;
    r[2] = a2 * sum_a + b2 * sum_b;
    r[3] = a2 * difference_a + b2 * difference_b + m[5];
  }
};
struct ResultGradient {  // A
  static constexpr int kIn = 4, kOut = 6;
  [[gnu::always_inline]] static void map(const Vector* y, Vector* r) {
    const Vector even_a = y[0] + a2 * y[2], odd_a = a * (y[1] + a2 * y[3]);
    const Vector even_b = y[0] + b2 * y[2], odd_b = b * (y[1] + b2 * y[3]);
    r[0] = y[0];
    r[1] = even_a + odd_a, r[2] = even_a - odd_a;
    r[3] = even_b + odd_b, r[4] = even_b - odd_b;
    r[5] = y[3];
  }
};
struct Kernel {  // G
  static constexpr int kIn = 3, kOut = 6;
  [[gnu::always_inline]] static void map(const Vector* g, Vector* r) {
    const Vector even_a = na * (g[0] + a2 * g[2]), odd_a = na * a * g[1];
    const Vector even_b = nb * (g[0] + b2 * g[2]), odd_b = nb * b * g[1];
    r[0] = n0 * g[0];
    r[1] = even_a + odd_a, r[2] = even_a - odd_a;
    r[3] = even_b + odd_b, r[4] = even_b - odd_b;
    r[5] = g[2];
  }
};
struct KernelGradient {  // G^T
  static constexpr int kIn = 6, kOut = 3;
  [[gnu::always_inline]] static void map(const Vector* m, Vector* r) {
    const Vector sum_a = na * (m[1] + m[2]), sum_b = nb * (m[3] + m[4]);
    r[0] = n0 * m[0] + sum_a + sum_b;
    r[1] = na * a * (m[1] - m[2]) + nb * b * (m[3] - m[4]);
    r[2] = a2 * sum_a + b2 * sum_b + m[5];
  }
};

/// A map of the columns and then of the rows of a square; load(vector, i, j) and store(vector, i, j).
template <class Map, class Load, class Store>
[[gnu::always_inline]] inline void map_square(const Load& load, const Store& store) {
  // Clang assumes the natural alignment of a vector for elements of these arrays; Vector declares a smaller one.
  constexpr std::size_t kAligned = sizeof(Vector);
  alignas(kAligned) Vector half[Map::kOut][Map::kIn];
#pragma GCC unroll 6
  for (int j = 0; j < Map::kIn; ++j) {
    alignas(kAligned) Vector column[Map::kIn];
    alignas(kAligned) Vector mapped[Map::kOut];
    for (int i = 0; i < Map::kIn; ++i) load(column[i], i, j);
    Map::map(column, mapped);
    for (int i = 0; i < Map::kOut; ++i) half[i][j] = mapped[i];
  }
#pragma GCC unroll 6
  for (int i = 0; i < Map::kOut; ++i) {
    alignas(kAligned) Vector mapped[Map::kOut];
    Map::map(half[i], mapped);
    for (int j = 0; j < Map::kOut; ++j) store(mapped[j], i, j);
  }
}

/// Squares of pixels of a strip, 4 apart, to elements of tiles.
template <class Map>
void from_strip(const float* strip, int64_t columns, int64_t tiles, float* out, int64_t step, int64_t tile_step) {
  for (int64_t t = 0; t < tiles; ++t) {
    const float* const corner = strip + t * 4 * kLanes;
    float* const to = out + t * tile_step;
    map_square<Map>(
        [&](Vector& v, int i, int j) { v = *reinterpret_cast<const Vector*>(corner + (i * columns + j) * kLanes); },
        [&](const Vector& v, int i, int j) { *reinterpret_cast<Vector*>(to + (i * 6 + j) * step) = v; });
  }
}

template <bool relu>
void to_strip(const float* m, int64_t step, int64_t tile_step, int64_t tiles, const float* bias, float* strip,
              int64_t columns) {
  Vector shift = {};
  if (bias) shift = *reinterpret_cast<const Vector*>(bias);
  for (int64_t t = 0; t < tiles; ++t) {
    const float* const from = m + t * tile_step;
    float* const corner = strip + t * 4 * kLanes;
    map_square<Result>(
        [&](Vector& v, int i, int j) { v = *reinterpret_cast<const Vector*>(from + (i * 6 + j) * step); },
        [&](const Vector& v, int i, int j) {
          const Vector y = v + shift;
          *reinterpret_cast<Vector*>(corner + (i * columns + j) * kLanes) = relu ? (y < 0 ? Vector{} : y) : y;
        });
  }
}

void results(const float* m, int64_t step, int64_t tile_step, int64_t tiles, const float* bias, bool relu, float* strip,
             int64_t columns) {
  return relu ? to_strip<true>(m, step, tile_step, tiles, bias, strip, columns)
              : to_strip<false>(m, step, tile_step, tiles, bias, strip, columns);
}

void kernels(const WinogradKernels& w, int64_t count, float* out, int64_t step) {
  for (int64_t n = 0; n < count; ++n) {
    const float* const first = w.data + n * w.other_step;
    map_square<Kernel>(
        [&](Vector& v, int i, int j) {
          const float* const from = first + i * w.row_step + j * w.column_step;
          const int64_t l = w.lane_step;
          v = Vector{from[0], from[l], from[2 * l], from[3 * l], from[4 * l], from[5 * l], from[6 * l], from[7 * l]};
        },
        [&](const Vector& v, int i, int j) {
          *reinterpret_cast<Vector*>(out + (i * 6 + j) * step + n * kWinogradPanel) = v;
        });
  }
}

void kernel_gradients(const float* m, int64_t step, int64_t count, const WinogradKernels& w) {
  for (int64_t n = 0; n < count; ++n) {
    float* const first = w.data + n * w.other_step;
    map_square<KernelGradient>(
        [&](Vector& v, int i, int j) {
          v = *reinterpret_cast<const Vector*>(m + (i * 6 + j) * step + n * kWinogradPanel);
        },
        [&](const Vector& v, int i, int j) {
          float* const to = first + i * w.row_step + j * w.column_step;
          for (int64_t l = 0; l < kLanes; ++l) to[l * w.lane_step] = v[l];
        });
  }
}

static_assert(kWinogradPanel == 2 * kLanes);

template <int rows>
void multiply_rows(const float* x, int64_t row, int64_t column, const float* y, int64_t depth, float* out, bool add) {
  multiply_tile<rows, kLanes>(x, row, column, y, depth, out, kWinogradPanel, add);
}

void multiply(const float* x, int64_t row, int64_t column, const float* y, int64_t depth, float* out, int64_t rows,
              bool add) {
  constexpr int64_t kRows = 6;
  using Rows = void (*)(const float*, int64_t, int64_t, const float*, int64_t, float*, bool);
  constexpr Rows some[kRows] = {nullptr,          multiply_rows<1>, multiply_rows<2>,
                                multiply_rows<3>, multiply_rows<4>, multiply_rows<5>};
  int64_t r = 0;
  for (; r + kRows <= rows; r += kRows) {
    multiply_rows<kRows>(x + r * row, row, column, y, depth, out + r * kWinogradPanel, add);
  }
  if (r < rows) some[rows - r](x + r * row, row, column, y, depth, out + r * kWinogradPanel, add);
}

}  // namespace

extern const WinogradLoops winograd_loops;
const WinogradLoops winograd_loops = {from_strip<Patch>, from_strip<ResultGradient>, results,
                                      kernels,           kernel_gradients,           multiply};

}  // namespace tendril::cpu::TENDRIL_CPU_LEVEL

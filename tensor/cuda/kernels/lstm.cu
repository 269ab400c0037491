#include <algorithm>
#include <span>

#include "tendril/tensor/cuda/cuda.h"
#include "tendril/tensor/cuda/kernels/element.cuh"
#include "tendril/tensor/cuda/kernels/lstm.h"
#include "tendril/tensor/scalar_math.h"

/// One step of an LSTM: a thread a cell. (kernels.h has the formulas; values that are stored in a narrow dtype are
/// rounded before they are used, so that backward sees what forward used.)
namespace tendril::cuda {
namespace {

template <class T>
__device__ inline Compute<T> load(const T* p) {
  return to_compute(*p);
}
template <class T>
__device__ inline Compute<T> store(T* p, Compute<T> value) {
  *p = from_compute<T>(value);
  return to_compute(*p);
}

constexpr int kCellThreads = 128;

/// f(row of the gates, index of the cell in [N, H]) for every cell.
template <class F>
__device__ inline void for_each_cell(int64_t cells, int64_t count, F f) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const bool narrow = count < (int64_t{1} << 31);  // a 32-bit division is several times faster
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const int64_t n =
        narrow ? static_cast<int64_t>(static_cast<uint32_t>(i) / static_cast<uint32_t>(cells)) : i / cells;
    f(3 * n * cells + i, i);
  }
}

template <class T>
__global__ void __launch_bounds__(kCellThreads)
    forward(T* gates, const T* x_gates, const T* c, T* next_c, T* tanh_c, T* h, int64_t cells, int64_t count) {
  using C = Compute<T>;
  for_each_cell(cells, count, [&](int64_t gate, int64_t i) {
    C sums[4];
    for (int k = 0; k < 4; ++k) sums[k] = load(gates + gate + k * cells) + load(x_gates + gate + k * cells);
    const C in = store(gates + gate, scalar_math::logistic(sums[0]));
    const C forget = store(gates + gate + cells, scalar_math::logistic(sums[1]));
    const C cell = store(gates + gate + 2 * cells, scalar_math::hyperbolic_tangent(sums[2]));
    const C out = store(gates + gate + 3 * cells, scalar_math::logistic(sums[3]));
    const C next = store(next_c + i, forget * load(c + i) + in * cell);
    store(h + i, out * store(tanh_c + i, scalar_math::hyperbolic_tangent(next)));
  });
}

template <class T>
__global__ void __launch_bounds__(kCellThreads)
    backward(T* d_gates, T* d_c, const T* d_h, const T* d_out, const T* gates, const T* c, const T* tanh_c,
             int64_t cells, int64_t count) {
  using C = Compute<T>;
  for_each_cell(cells, count, [&](int64_t gate, int64_t i) {
    const C in = load(gates + gate), forget = load(gates + gate + cells), cell = load(gates + gate + 2 * cells),
            out = load(gates + gate + 3 * cells), t = load(tanh_c + i);
    const C dh = d_out ? load(d_h + i) + load(d_out + i) : load(d_h + i);
    const C dc = load(d_c + i) + dh * out * (C(1) - t * t);
    store(d_gates + gate, dc * cell * in * (C(1) - in));
    store(d_gates + gate + cells, dc * load(c + i) * forget * (C(1) - forget));
    store(d_gates + gate + 2 * cells, dc * in * (C(1) - cell * cell));
    store(d_gates + gate + 3 * cells, dh * t * out * (C(1) - out));
    store(d_c + i, dc * forget);
  });
}

/// Of elements that are as wide as Word.
template <class Word>
__global__ void __launch_bounds__(kGridThreads) flip(Word* to, const Word* from, int64_t steps, int64_t words) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x, count = steps * words;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const int64_t t = i / words;
    to[i] = from[(steps - 1 - t) * words + (i - t * words)];
  }
}

struct Batch {
  static constexpr int kMost = 16;
  BytesCopy copies[kMost];
};
/// Copy y of the grid.
template <class Word>
__global__ void __launch_bounds__(kGridThreads) copy_batch(Batch batch) {
  const BytesCopy copy = batch.copies[blockIdx.y];
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t words = copy.bytes / static_cast<int64_t>(sizeof(Word));
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < words; i += step) {
    static_cast<Word*>(copy.to)[i] = static_cast<const Word*>(copy.from)[i];
  }
}

/// f(Word) for the widest word that `together`, an "or" of addresses and sizes, is a multiple of.
template <class F>
void widest(uintptr_t together, F f) {
  if (together % sizeof(uint4) == 0) return f(uint4{});
  if (together % sizeof(uint32_t) == 0) return f(uint32_t{});
  f(uint16_t{});
}

}  // namespace

void lstm_cell(const View& gates, const View& x_gates, const View& c, const View& next_c, const View& tanh_c,
               const View& h) {
  if (h.numel == 0) return;
  visit_floating("lstm_cell", gates.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch("lstm_cell", forward<T>, grid_for(h.numel, kCellThreads), gates.as<T>(), x_gates.as<const T>(),
           c.as<const T>(), next_c.as<T>(), tanh_c.as<T>(), h.as<T>(), h.sizes[1], h.numel);
  });
}

void lstm_cell_backward(const View& d_gates, const View& d_c, const View& d_h, const View* d_out, const View& gates,
                        const View& c, const View& tanh_c) {
  if (d_h.numel == 0) return;
  visit_floating("lstm_cell_backward", gates.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch("lstm_cell_backward", backward<T>, grid_for(d_h.numel, kCellThreads), d_gates.as<T>(), d_c.as<T>(),
           d_h.as<const T>(), d_out ? d_out->as<const T>() : nullptr, gates.as<const T>(), c.as<const T>(),
           tanh_c.as<const T>(), d_h.sizes[1], d_h.numel);
  });
}

void reverse_steps(const char* op, void* to, const void* from, int64_t steps, int64_t step_bytes) {
  const auto together =
      reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from) | static_cast<uintptr_t>(step_bytes);
  widest(together, [&](auto word) {
    using Word = decltype(word);
    const auto words = step_bytes / static_cast<int64_t>(sizeof(Word));
    launch(op, flip<Word>, grid_for(steps * words), static_cast<Word*>(to), static_cast<const Word*>(from), steps,
           words);
  });
}

void copy_all(const char* op, std::span<const BytesCopy> copies) {
  while (!copies.empty()) {
    const auto part = copies.first(std::min<std::size_t>(copies.size(), Batch::kMost));
    copies = copies.subspan(part.size());
    Batch batch{};
    uintptr_t together = 0;
    int64_t most = 0;
    for (std::size_t i = 0; i < part.size(); ++i) {
      batch.copies[i] = part[i];
      together |= reinterpret_cast<uintptr_t>(part[i].to) | reinterpret_cast<uintptr_t>(part[i].from) |
                  static_cast<uintptr_t>(part[i].bytes);
      most = std::max(most, part[i].bytes);
    }
    if (most == 0) continue;
    widest(together, [&](auto word) {
      using Word = decltype(word);
      Grid grid = grid_for(most / static_cast<int64_t>(sizeof(Word)), 256, 1024);
      grid.blocks.y = static_cast<unsigned>(part.size());
      launch(op, copy_batch<Word>, grid, batch);
    });
  }
}

}  // namespace tendril::cuda

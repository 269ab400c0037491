#include <algorithm>

#include "tendril/tensor/cpu/cpu.h"
#include "tendril/tensor/cpu/level/level.h"
#include "tendril/tensor/cpu/panels.h"
#include "tendril/tensor/cpu/parallel.h"
#include "tendril/tensor/cpu/paths.h"

namespace tendril::cpu {
namespace {

const LstmLoops& lstm_loops(DType dtype) {
  const LstmLoops& found = loops().lstm[static_cast<std::size_t>(dtype)];
  TENDRIL_CHECK_AS(DTypeError, found.forward, "lstm_cell: no cpu kernel for ", dtype);
  return found;
}

/// What a cell costs in elements of a plain loop.
constexpr int64_t kCostOfCell = 8;
constexpr int64_t kFewCells = 2 * kParallelGrain / kCostOfCell;  // not worth a second thread

/// Element `first` of a contiguous x.
void* row_of(const View& x, int64_t first) { return x.as<char>() + first * static_cast<int64_t>(size_of(x.dtype)); }

}  // namespace

void lstm_cell(const View& gates, const View& x_gates, const View& c, const View& next_c, const View& tanh_c,
               const View& h) {
  const auto forward = lstm_loops(gates.dtype).forward;
  const int64_t cells = h.sizes[1];
  if (h.numel < kFewCells) [[likely]]
    return forward({gates.data, x_gates.data, c.data, next_c.data, tanh_c.data, h.data, h.sizes[0], cells});
  took(Path::lstm_cell);
  parallel_for(h.sizes[0], grain_of(kCostOfCell * cells), [&](int64_t begin, int64_t end) {
    const auto row = [&](const View& x, int64_t width) { return row_of(x, begin * width); };
    forward({row(gates, 4 * cells), row(x_gates, 4 * cells), row(c, cells), row(next_c, cells), row(tanh_c, cells),
             row(h, cells), end - begin, cells});
  });
}

void lstm_cell_backward(const View& d_gates, const View& d_c, const View& d_h, const View* d_out, const View& gates,
                        const View& c, const View& tanh_c) {
  const auto backward = lstm_loops(gates.dtype).backward;
  const int64_t cells = d_h.sizes[1];
  if (d_h.numel < kFewCells) [[likely]] {
    return backward({d_gates.data, d_c.data, d_h.data, d_out ? d_out->data : nullptr, gates.data, c.data, tanh_c.data,
                     d_h.sizes[0], cells});
  }
  took(Path::lstm_cell);
  parallel_for(d_h.sizes[0], grain_of(kCostOfCell * cells), [&](int64_t begin, int64_t end) {
    const auto row = [&](const View& x, int64_t width) { return row_of(x, begin * width); };
    backward({row(d_gates, 4 * cells), row(d_c, cells), row(d_h, cells), d_out ? row(*d_out, cells) : nullptr,
              row(gates, 4 * cells), row(c, cells), row(tanh_c, cells), end - begin, cells});
  });
}

namespace {

/// Below this many multiplications a step, or this many rows, packing the weight and sharing out rows do not pay.
constexpr int64_t kFewProducts = 24 * 1024, kRowsOfPart = 4;

/// A weight packed for all steps, or its transpose.
class PackedWeight {
 public:
  /// `weight` is [k, n].
  PackedWeight(DType dtype, int64_t k, int64_t n, const View& weight, bool transposed)
      : product_(loops().packed_product[static_cast<std::size_t>(dtype)]),
        bytes_(static_cast<std::size_t>(product_.bytes(k, n))),
        packed_(borrow_panels(bytes_)) {
    if (!packed_) return;
    shape_.k = k, shape_.n = n, shape_.b = weight.data;
    shape_.b_row = weight.strides[transposed ? 1 : 0], shape_.b_column = weight.strides[transposed ? 0 : 1];
    product_.pack(shape_, packed_);
  }
  ~PackedWeight() {
    if (packed_) return_panels(packed_, bytes_);
  }
  PackedWeight(const PackedWeight&) = delete;
  PackedWeight& operator=(const PackedWeight&) = delete;

  explicit operator bool() const noexcept { return packed_ != nullptr; }

  /// out [rows, n] = a [rows, k], both contiguous, times the weight.
  void multiply(void* out, const void* a, int64_t rows) const {
    Gemm g = shape_;
    g.m = rows, g.a = a, g.a_row = g.k, g.a_column = 1, g.out = out, g.out_row = g.n, g.out_column = 1;
    product_.run(g, packed_);
  }

 private:
  const PackedProduct& product_;
  std::size_t bytes_;
  void* packed_;
  Gemm shape_{};
};

/// Whether steps are worth it, of a dtype that has packed products. One step alone is not: packing costs as much again.
bool shared_out(const LstmSteps& steps) {
  const int64_t batch = steps.h0.sizes[0], cells = steps.h0.sizes[1];
  return loops().packed_product[static_cast<std::size_t>(steps.h0.dtype)].run && steps.x_gates.sizes[0] > 1 &&
         batch >= kRowsOfPart && batch * cells * 4 * cells >= kFewProducts;
}

/// f(first, rows) for parts of a batch, on several threads.
template <class F>
void share_batch(int64_t batch, const F& f) {
  const int64_t parts = std::min<int64_t>(num_threads(), batch / kRowsOfPart);
  for_each_part(parts, [&](int64_t i) {
    const int64_t first = batch * i / parts;
    f(first, batch * (i + 1) / parts - first);
  });
}

/// Row `first` of step t of a contiguous [T, N, width].
char* rows_of(const View& x, int64_t t, int64_t first) {
  return x.as<char>() + (t * x.sizes[1] + first) * x.sizes[2] * static_cast<int64_t>(size_of(x.dtype));
}

}  // namespace

bool lstm_steps(const LstmSteps& steps, const View& gates, const View& cells, const View& tanh_c, const View& output) {
  if (!shared_out(steps)) return false;
  const DType dtype = gates.dtype;
  const int64_t count = gates.sizes[0], batch = gates.sizes[1], width = output.sizes[2];
  const PackedWeight weight(dtype, width, 4 * width, steps.weight, true);
  if (!weight) return false;
  took(Path::lstm_steps, gates.numel);
  const auto forward = lstm_loops(dtype).forward;
  share_batch(batch, [&](int64_t first, int64_t rows) {
    const void *h = row_of(steps.h0, first * width), *c = row_of(steps.c0, first * width);
    for (int64_t s = 0; s < count; ++s) {
      const int64_t t = steps.reverse ? count - 1 - s : s;
      const auto at = [&](const View& x) { return rows_of(x, t, first); };
      weight.multiply(at(gates), h, rows);
      forward({at(gates), at(steps.x_gates), c, at(cells), at(tanh_c), at(output), rows, width});
      h = at(output), c = at(cells);
    }
  });
  return true;
}

bool lstm_steps_backward(const LstmSteps& steps, const View& d_gates, const View& d_c, const View& d_h,
                         const View* d_output, const View& gates, const View& cells, const View& tanh_c, bool to_h0) {
  if (!shared_out(steps)) return false;
  const DType dtype = gates.dtype;
  const int64_t count = gates.sizes[0], batch = gates.sizes[1], width = cells.sizes[2];
  const PackedWeight weight(dtype, 4 * width, width, steps.weight, false);
  if (!weight) return false;
  took(Path::lstm_steps, gates.numel);
  const auto backward = lstm_loops(dtype).backward;
  share_batch(batch, [&](int64_t first, int64_t rows) {
    void *dc = row_of(d_c, first * width), *dh = row_of(d_h, first * width);
    for (int64_t s = count - 1; s >= 0; --s) {
      const auto step = [&](int64_t n) { return steps.reverse ? count - 1 - n : n; };
      const auto at = [&](const View& x) { return rows_of(x, step(s), first); };
      const void* const before = s > 0 ? rows_of(cells, step(s - 1), first) : row_of(steps.c0, first * width);
      backward({at(d_gates), dc, dh, d_output ? at(*d_output) : nullptr, at(gates), before, at(tanh_c), rows, width});
      if (s > 0 || to_h0) weight.multiply(dh, at(d_gates), rows);
    }
  });
  return true;
}

}  // namespace tendril::cpu

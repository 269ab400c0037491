#include "tendril/tensor/cpu/cpu.h"
#include "tendril/tensor/cpu/level/level.h"
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

}  // namespace tendril::cpu

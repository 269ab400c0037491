#include "tendril/tensor/cpu/cpu.h"
#include "tendril/tensor/cpu/level/level.h"

namespace tendril::cpu {
namespace {

const LstmLoops& lstm_loops(DType dtype) {
  const LstmLoops& found = loops().lstm[static_cast<std::size_t>(dtype)];
  TENDRIL_CHECK_AS(DTypeError, found.forward, "lstm_cell: no cpu kernel for ", dtype);
  return found;
}

}  // namespace

void lstm_cell(const View& gates, const View& x_gates, const View& c, const View& next_c, const View& tanh_c,
               const View& h) {
  lstm_loops(gates.dtype)
      .forward({gates.data, x_gates.data, c.data, next_c.data, tanh_c.data, h.data, h.sizes[0], h.sizes[1]});
}

void lstm_cell_backward(const View& d_gates, const View& d_c, const View& d_h, const View* d_out, const View& gates,
                        const View& c, const View& tanh_c) {
  lstm_loops(gates.dtype)
      .backward({d_gates.data, d_c.data, d_h.data, d_out ? d_out->data : nullptr, gates.data, c.data, tanh_c.data,
                 d_h.sizes[0], d_h.sizes[1]});
}

}  // namespace tendril::cpu

// A step of an LSTM on a device does what it does on the CPU.
#include <boost/test/unit_test.hpp>

#include "tests/cuda/slots.h"

using namespace tendril;
using namespace tendril::testing;

namespace {

double tolerance(DType dtype) {
  return dtype == kFloat64 ? 1e-13 : dtype == kFloat32 ? 2e-6 : dtype == kFloat16 ? 4e-3 : 3e-2;
}

void check_forward(int64_t batch, int64_t cells, DType dtype) {
  const Dims wide = {batch, 4 * cells}, narrow = {batch, cells};
  const Pair gates(random(wide, dtype, 1)), x_gates(random(wide, dtype, 2)), c(random(narrow, dtype, 3));
  const Pair next_c(narrow, dtype), tanh_c(narrow, dtype), h(narrow, dtype);
  on_both([&](const Kernels& table, Device on) {
    table.lstm_cell(gates.view(on), x_gates.view(on), c.view(on), next_c.view(on), tanh_c.view(on), h.view(on));
  });
  const double near = tolerance(dtype);
  for (const Pair* pair : {&gates, &next_c, &tanh_c, &h}) {
    BOOST_TEST(pair->difference(near, near) == "", narrow << " in " << name_of(dtype));
  }
}

void check_backward(int64_t batch, int64_t cells, DType dtype, bool with_output) {
  const Dims wide = {batch, 4 * cells}, narrow = {batch, cells};
  const Pair d_gates(wide, dtype), d_c(random(narrow, dtype, 1)), d_h(random(narrow, dtype, 2)),
      d_out(random(narrow, dtype, 3)), gates(raw::unary(Unary::sigmoid, random(wide, dtype, 4))),
      c(random(narrow, dtype, 5)), tanh_c(raw::unary(Unary::tanh, random(narrow, dtype, 6)));
  on_both([&](const Kernels& table, Device on) {
    const View given = d_out.view(on);
    table.lstm_cell_backward(d_gates.view(on), d_c.view(on), d_h.view(on), with_output ? &given : nullptr,
                             gates.view(on), c.view(on), tanh_c.view(on));
  });
  const double near = tolerance(dtype);
  for (const Pair* pair : {&d_gates, &d_c}) {
    BOOST_TEST(pair->difference(near, near) == "", narrow << " in " << name_of(dtype));
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(lstm)

BOOST_AUTO_TEST_CASE(a_step_is_the_cpus) {
  for (const DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
    for (const auto& [batch, cells] : {std::pair{1, 1}, {3, 5}, {2, 200}, {130, 3}, {0, 4}}) {
      check_forward(batch, cells, dtype);
      check_backward(batch, cells, dtype, true);
      check_backward(batch, cells, dtype, false);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

// Normalisation of lines on a device does what it does on the CPU.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>

#include "tendril/autograd/ops/layer_norm.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tests/cuda/slots.h"

using namespace tendril;
using namespace tendril::testing;

namespace {

/// The same, on the device one element behind a multiple of 16 bytes.
Pair misaligned(const Tensor& x) {
  Pair pair(x);
  const Tensor longer = raw::to(raw::zeros({x.numel() + 1}, x.dtype()), kGPU);
  pair.gpu = raw::view(raw::narrow(longer, 0, 1, x.numel()), x.sizes());
  raw::copy_(pair.gpu, x);
  return pair;
}
Pair pair_of(const Tensor& x, bool aligned) { return aligned ? Pair(x) : misaligned(x); }

struct Case {
  Dims sizes;
  double centre = 0;
  bool aligned = true;
  bool centred = true;  ///< else a root mean square
  bool affine = true;
};

double exact_in(DType dtype) { return dtype == kFloat64 ? 1e-12 : 3e-6; }
double rounded_to(DType dtype) { return size_of(dtype) == 2 ? tolerance(dtype) : 0; }

/// `wide`: parameters beside a half type are float32.
void check(const Case& c, DType dtype, bool wide) {
  const DType statistics = computed_in(dtype), parameters = wide ? statistics : dtype;
  const int64_t lines = c.sizes[0], length = c.sizes[1];
  const Pair x = pair_of(random(c.sizes, dtype, 1, c.centre), c.aligned),
             out = pair_of(raw::full(c.sizes, NAN, dtype), c.aligned);
  const Pair weight(random({length}, parameters, 2)), bias(random({length}, parameters, 3));
  const Pair mean(raw::full({lines}, NAN, statistics)), rstd(raw::full({lines}, NAN, statistics));
  on_both([&](const Kernels& table, Device device) {
    const View w = weight.view(device), b = bias.view(device), m = mean.view(device);
    table.layer_norm(out.view(device), c.centred ? &m : nullptr, rstd.view(device), x.view(device),
                     c.affine ? &w : nullptr, c.affine ? &b : nullptr, 1e-5);
  });
  // The distance from a mean far away is known to the last bits of the mean only.
  const double exact = exact_in(dtype), loss = exact * (1 + std::abs(c.centre)), last = rounded_to(dtype);
  BOOST_TEST_CONTEXT(c.sizes << " " << dtype << " around " << c.centre) {
    if (c.centred) BOOST_TEST(mean.difference(exact, exact) == "");
    BOOST_TEST(rstd.difference(loss, 0) == "");
    BOOST_TEST(out.difference(10 * exact + last, 10 * loss) == "");
  }

  raw::copy_(mean.gpu, mean.cpu);  // so that both differentiate at the same place
  raw::copy_(rstd.gpu, rstd.cpu);
  const Pair g = pair_of(random(c.sizes, dtype, 4), c.aligned);
  for (const int wanted : {1, 2, 4, 7}) {
    const Pair dx = pair_of(raw::zeros(c.sizes, dtype), c.aligned), dweight(raw::zeros({length}, parameters)),
               dbias(raw::zeros({length}, parameters));
    on_both([&](const Kernels& table, Device device) {
      const View w = weight.view(device), m = mean.view(device), of_x = dx.view(device), of_w = dweight.view(device),
                 of_b = dbias.view(device);
      table.layer_norm_backward(wanted & 1 ? &of_x : nullptr, wanted & 2 ? &of_w : nullptr,
                                wanted & 4 ? &of_b : nullptr, g.view(device), x.view(device), c.centred ? &m : nullptr,
                                rstd.view(device), c.affine ? &w : nullptr);
    });
    const double kept = rounded_to(parameters), count = std::sqrt(static_cast<double>(lines));
    BOOST_TEST_CONTEXT(c.sizes << " " << dtype << " around " << c.centre << ", wanted " << wanted) {
      BOOST_TEST(dx.difference(10 * exact + last, 30 * loss) == "");
      BOOST_TEST(dweight.difference(10 * exact + kept, 10 * loss * count) == "");
      BOOST_TEST(dbias.difference(exact + kept, exact * count) == "");
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(layer_norm)

BOOST_AUTO_TEST_CASE(lines_of_every_length_agree_with_the_cpus) {
  const std::vector<Case> cases = {{{1, 1}},
                                   {{1, 7}},
                                   {{3, 8}},
                                   {{5, 30}, 0, false},
                                   {{70, 64}},
                                   {{2, 128}, 10},
                                   {{9, 129}},
                                   {{33, 300}, 0, true, false},
                                   {{40, 768}, 0, true, true, false},
                                   {{2, 1000}, 100},
                                   {{3, 1024}, 0, false, false},
                                   {{1100, 260}, 1},
                                   {{2, 9000}, 0, true, true},
                                   {{1500, 3}, 0, true, false, false}};
  for (const DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
    for (const Case& c : cases) {
      if (c.centre > 1 && size_of(dtype) == 2) continue;  // elements of half types are too far apart there
      check(c, dtype, true);
      if (size_of(dtype) == 2) check(c, dtype, false);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_mean_far_from_0_costs_no_digits_however_long_the_line) {
  const Tensor x = raw::full({1, 300'000}, 3.3, kFloat32, kGPU), out = raw::empty_like(x);
  const Tensor mean = raw::empty({1}, kFloat32, kGPU), rstd = raw::empty_like(mean);
  const View of_mean = raw::view_of(mean);
  kernels(kGPU)->layer_norm(raw::view_of(out), &of_mean, raw::view_of(rstd), raw::view_of(x), nullptr, nullptr, 1e-5);
  BOOST_TEST(raw::to(mean, kCPU).item<float>() == 3.3F);
  check_close(out, raw::zeros(x.sizes(), kFloat32), 0, 0);
}

BOOST_AUTO_TEST_CASE(few_long_lines_are_shared_out_by_other_operations_and_give_the_same) {
  Tensor outs[2], gradients[2];
  for (const Device device : {kCPU, kGPU}) {
    const Tensor x = raw::to(random({2, 70'000}, kFloat32, 6), device).requires_grad_();
    const Tensor out = tendril::layer_norm(x, {70'000}, {}, {}, 1e-5);
    out.backward(raw::to(random({2, 70'000}, kFloat32, 7), device));
    outs[device.is_cpu()] = out.detach();
    gradients[device.is_cpu()] = x.grad();
  }
  check_close(outs[0], outs[1], 1e-5, 1e-5);
  check_close(gradients[0], gradients[1], 1e-5, 1e-5);
}

BOOST_AUTO_TEST_CASE(a_nan_or_an_infinity_spoils_its_own_line_alone) {
  const Tensor x = random({20, 96}, kFloat32, 5);
  x.mutable_data<float>()[3 * 96 + 11] = std::numeric_limits<float>::quiet_NaN();
  x.mutable_data<float>()[17 * 96] = std::numeric_limits<float>::infinity();
  const Pair in(x), out(x.sizes(), kFloat32), mean({20}, kFloat32), rstd({20}, kFloat32);
  on_both([&](const Kernels& table, Device device) {
    const View m = mean.view(device);
    table.layer_norm(out.view(device), &m, rstd.view(device), in.view(device), nullptr, nullptr, 1e-5);
  });
  BOOST_TEST(out.difference(3e-5, 3e-5) == "");
}

BOOST_AUTO_TEST_SUITE_END()

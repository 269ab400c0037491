// Batch normalisation on a device does what it does on the CPU.
#include <boost/test/unit_test.hpp>
#include <limits>

#include "tests/cuda/slots.h"

using namespace tendril;
using namespace tendril::testing;

namespace {

struct Case {
  Dims sizes;  // [n, c, s]
  double centre = 0;
  bool misaligned = false;  // elements do not start at a multiple of 16 bytes
  bool last = false;        // channels-last
};

/// On the device, the elements may start one place into a storage.
Pair pair_of(const Tensor& x, const Case& c) {
  const Tensor lying = c.last ? raw::contiguous(raw::transpose(x, 1, 2)) : x;
  Pair pair(lying);
  if (c.misaligned) {
    const Tensor longer = raw::to(raw::zeros({x.numel() + 1}, x.dtype()), kGPU);
    pair.gpu = raw::view(raw::narrow(longer, 0, 1, x.numel()), lying.sizes());
    raw::copy_(pair.gpu, lying);
  }
  if (c.last) {
    pair.cpu = raw::transpose(pair.cpu, 1, 2);
    pair.gpu = raw::transpose(pair.gpu, 1, 2);
  }
  return pair;
}

/// What is computed from other numbers in other orders, and then rounded to `dtype`.
double exact_in(DType dtype) { return dtype == kFloat64 ? 1e-12 : 3e-6; }
double rounded_to(DType dtype) { return size_of(dtype) == 2 ? tolerance(dtype) : 0; }

/// `wide`: parameters beside a half type are float32.
void check_forward(const Case& c, DType dtype, bool batch, bool affine, bool wide = true) {
  const Dims channels = {c.sizes[1]};
  const DType statistics = computed_in(dtype), parameters = wide ? statistics : dtype;
  const Tensor x = random(c.sizes, dtype, 1, c.centre);
  const Pair in = pair_of(x, c), out = pair_of(raw::empty(c.sizes, dtype), c);
  const Pair mean(random(channels, statistics, 2, c.centre)),
      var(raw::binary(Binary::mul, random(channels, statistics, 3), random(channels, statistics, 3)));
  const Pair weight(random(channels, parameters, 4)), bias(random(channels, parameters, 5));
  const Pair running_mean(random(channels, parameters, 8)), running_var(random(channels, parameters, 9));
  on_both([&](const Kernels& table, Device device) {
    const View w = weight.view(device), b = bias.view(device), m = running_mean.view(device),
               v = running_var.view(device);
    table.batch_norm(out.view(device), mean.view(device), var.view(device), in.view(device), affine ? &w : nullptr,
                     affine ? &b : nullptr, 1e-5, batch, {affine ? &m : nullptr, &v, 0.25});
  });
  // The mean of float32 numbers around `centre` is known to its last bits only.
  const double exact = exact_in(dtype), loss = exact * (1 + std::abs(c.centre)), last = rounded_to(dtype);
  const double kept = rounded_to(parameters);
  BOOST_TEST(mean.difference(exact, exact) == "", "mean of " << c.sizes);
  BOOST_TEST(var.difference(10 * exact, loss) == "", "variance of " << c.sizes);
  BOOST_TEST(out.difference(20 * exact + last, 10 * loss) == "", "result for " << c.sizes);
  BOOST_TEST(running_mean.difference(exact + kept, exact + kept) == "", "running mean of " << c.sizes);
  BOOST_TEST(running_var.difference(10 * exact + kept, loss + kept) == "", "running variance of " << c.sizes);
}

void check_backward(const Case& c, DType dtype, bool batch, bool affine, int wanted, bool wide = true) {
  const Dims channels = {c.sizes[1]};
  const DType statistics = computed_in(dtype), parameters = wide ? statistics : dtype;
  const Pair x = pair_of(random(c.sizes, dtype, 1), c), g = pair_of(random(c.sizes, dtype, 6), c);
  const Pair mean(random(channels, statistics, 2)), var(raw::unary(Unary::exp, random(channels, statistics, 3)));
  const Pair weight(random(channels, parameters, 4));
  const Pair dx = pair_of(raw::zeros(c.sizes, dtype), c), dweight(raw::zeros(channels, parameters)),
             dbias(raw::zeros(channels, parameters));
  on_both([&](const Kernels& table, Device device) {
    const View w = weight.view(device), of_x = dx.view(device), of_w = dweight.view(device), of_b = dbias.view(device);
    table.batch_norm_backward(wanted & 1 ? &of_x : nullptr, wanted & 2 ? &of_w : nullptr, wanted & 4 ? &of_b : nullptr,
                              g.view(device), x.view(device), mean.view(device), var.view(device),
                              affine ? &w : nullptr, 1e-5, batch);
  });
  // Sums of n random numbers.
  const double exact = exact_in(dtype), count = static_cast<double>(c.sizes[0] * c.sizes[2]), last = rounded_to(dtype);
  const double kept = rounded_to(parameters);
  BOOST_TEST(dx.difference(10 * exact + last, 10 * exact) == "", "dx of " << c.sizes << ", wanted " << wanted);
  BOOST_TEST(dweight.difference(exact + kept, exact * std::sqrt(count)) == "", "dweight of " << c.sizes);
  BOOST_TEST(dbias.difference(exact + kept, exact * std::sqrt(count)) == "", "dbias of " << c.sizes);
}

/// batch_norm_relu forward, then its gradients from what it gave. `wanted`: bits of dx, dweight, dbias, dresidual.
void check_relu(const Case& c, DType dtype, bool batch, bool with_residual, int wanted) {
  const Dims channels = {c.sizes[1]};
  const DType statistics = computed_in(dtype);
  const Pair x = pair_of(random(c.sizes, dtype, 1), c), g = pair_of(random(c.sizes, dtype, 6), c);
  const Pair residual = pair_of(random(c.sizes, dtype, 7), c);
  const Pair out = pair_of(raw::empty(c.sizes, dtype), c), weight(random(channels, statistics, 4)),
             bias(random(channels, statistics, 5));
  const Pair mean(random(channels, statistics, 2)), var(raw::unary(Unary::exp, random(channels, statistics, 3)));
  const Pair running_mean(raw::zeros(channels, statistics)), running_var(raw::ones(channels, statistics));
  on_both([&](const Kernels& table, Device device) {
    const View w = weight.view(device), b = bias.view(device), more = residual.view(device),
               m = running_mean.view(device), v = running_var.view(device);
    table.batch_norm_relu(out.view(device), mean.view(device), var.view(device), x.view(device), &w, &b,
                          with_residual ? &more : nullptr, 1e-5, batch, {&m, &v, 0.1});
  });
  const double exact = exact_in(dtype), count = static_cast<double>(c.sizes[0] * c.sizes[2]), last = rounded_to(dtype);
  BOOST_TEST(out.difference(20 * exact + last, 20 * exact) == "", "result for " << c.sizes);
  BOOST_TEST(mean.difference(exact, exact) == "", "mean of " << c.sizes);
  BOOST_TEST(var.difference(10 * exact, exact) == "", "variance of " << c.sizes);
  BOOST_TEST(running_mean.difference(exact, exact) == "", "running mean of " << c.sizes);
  BOOST_TEST(running_var.difference(10 * exact, exact) == "", "running variance of " << c.sizes);

  // Where rounding decides on which side of 0 a number lies, both sides must be given the same.
  raw::copy_(out.gpu, out.cpu);
  const Pair dx = pair_of(raw::zeros(c.sizes, dtype), c), dweight(raw::zeros(channels, statistics)),
             dbias(raw::zeros(channels, statistics)), dresidual = pair_of(raw::zeros(c.sizes, dtype), c);
  on_both([&](const Kernels& table, Device device) {
    const View w = weight.view(device), of_x = dx.view(device), of_w = dweight.view(device), of_b = dbias.view(device),
               of_residual = dresidual.view(device);
    table.batch_norm_relu_backward(wanted & 1 ? &of_x : nullptr, wanted & 2 ? &of_w : nullptr,
                                   wanted & 4 ? &of_b : nullptr, wanted & 8 ? &of_residual : nullptr, g.view(device),
                                   out.view(device), x.view(device), mean.view(device), var.view(device), &w, 1e-5,
                                   batch);
  });
  BOOST_TEST(dx.difference(10 * exact + last, 10 * exact) == "", "dx of " << c.sizes << ", wanted " << wanted);
  BOOST_TEST(dweight.difference(10 * exact, exact * std::sqrt(count)) == "", "dweight of " << c.sizes);
  BOOST_TEST(dbias.difference(exact, exact * std::sqrt(count)) == "", "dbias of " << c.sizes);
  BOOST_TEST(dresidual.difference(0, 0) == "", "dresidual of " << c.sizes << ", wanted " << wanted);
}

const std::vector<Case> kCases = {{{4, 3, 20}},
                                  {{2, 5, 7}},
                                  {{1, 1, 2}},
                                  {{2, 1, 1}},
                                  {{3, 40, 1}},
                                  {{1000, 3, 1}},
                                  {{2, 70, 16}},
                                  {{2, 2, 9000}},
                                  {{3, 1, 1001}},
                                  {{64, 33, 1}, 10},
                                  {{8, 2, 400}, 100},
                                  {{4, 3, 20}, 0, true},
                                  {{2, 4, 64}, 0, true},
                                  {{2, 5, 24}, 0, false, true},
                                  {{3, 40, 9}, 0, true, true},
                                  {{3, 40, 9}, 0, false, true},
                                  // channels that fill a part of a block, one, several, and no multiple of 16 bytes
                                  {{2, 8, 5}, 0, false, true},
                                  {{3, 24, 50}, 100, false, true},
                                  {{2, 64, 700}, 0, false, true},
                                  {{2, 100, 9}, 0, false, true},
                                  {{1, 1000, 3}, 0, false, true},
                                  {{4, 2056, 1}, 10},
                                  {{1, 16, 33000}, 0, false, true}};  // 128 slices
constexpr DType kDTypes[] = {kFloat32, kFloat64, kFloat16, kBFloat16};

}  // namespace

BOOST_AUTO_TEST_SUITE(norm)

BOOST_AUTO_TEST_CASE(statistics_and_results_are_the_cpus) {
  for (const DType dtype : kDTypes) {
    for (const Case& c : kCases) {
      check_forward(c, dtype, true, true);
      check_forward(c, dtype, true, false);
      if (size_of(dtype) == 2) check_forward(c, dtype, true, true, false);
    }
  }
}

BOOST_AUTO_TEST_CASE(given_statistics_are_used_as_they_are) {
  for (const DType dtype : kDTypes) {
    for (const Case& c : kCases) {
      check_forward({c.sizes, 0, c.misaligned, c.last}, dtype, false, c.sizes[1] % 2 == 1, c.sizes[0] % 2 == 1);
    }
    check_forward({{0, 3, 4}}, dtype, false, true);
    check_forward({{1, 16, 1}}, dtype, false, true);
  }
}

BOOST_AUTO_TEST_CASE(gradients_are_the_cpus_whichever_are_wanted) {
  for (const DType dtype : kDTypes) {
    for (const Case& c : kCases) {
      check_backward(c, dtype, true, true, 7);
      check_backward(c, dtype, false, false, 7, false);
    }
    for (int wanted = 0; wanted < 7; ++wanted) {
      check_backward({{3, 6, 8}}, dtype, true, true, wanted);
      check_backward({{3, 6, 8}}, dtype, false, true, wanted, false);
      check_backward({{30, 6, 1}}, dtype, true, false, wanted);
      check_backward({{30, 8, 1}}, dtype, true, false, wanted);
    }
    check_backward({{0, 3, 4}}, dtype, false, true, 7);
    check_backward({{1, 16, 1}}, dtype, true, true, 7);
  }
}

BOOST_AUTO_TEST_CASE(a_sum_and_a_relu_behind_it_are_the_cpus_with_all_their_gradients) {
  for (const DType dtype : kDTypes) {
    for (const Case& c : kCases) {
      if (c.centre != 0) continue;
      check_relu(c, dtype, true, true, 15);
      check_relu(c, dtype, false, false, 7);
    }
    for (int wanted = 0; wanted < 15; ++wanted) {
      check_relu({{3, 6, 8}}, dtype, true, true, wanted);
      check_relu({{3, 6, 8}}, dtype, false, true, wanted);
      check_relu({{3, 16, 5}, 0, false, true}, dtype, wanted % 2 == 0, true, wanted);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_nan_stays_in_its_channel) {
  for (const DType dtype : {kFloat32, kFloat64}) {
    for (const Dims& sizes : {Dims{3, 2, 40}, Dims{50, 2, 1}, Dims{50, 8, 1}}) {
      const Tensor x = random(sizes, dtype, 1);
      raw::fill_(raw::select(raw::select(raw::select(x, 0, 1), 0, 1), 0, 0), std::numeric_limits<double>::quiet_NaN());
      const Pair in(x), out(sizes, dtype), mean({sizes[1]}, dtype), var({sizes[1]}, dtype);
      on_both([&](const Kernels& table, Device device) {
        table.batch_norm(out.view(device), mean.view(device), var.view(device), in.view(device), nullptr, nullptr, 1e-5,
                         true, {});
      });
      BOOST_TEST(mean.difference(1e-5, 1e-6) == "");
      BOOST_TEST(var.difference(1e-5, 1e-6) == "");
      BOOST_TEST(out.difference(1e-4, 1e-5) == "");
      BOOST_TEST(std::isnan(raw::to(mean.gpu, kCPU).to_vector<double>()[1]));
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

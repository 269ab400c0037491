// Batch normalisation of the half types in row-major order against float64; channels_last_test has the other order.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <random>
#include <vector>

#include "tendril/tensor/kernels.h"
#include "tendril/tensor/raw.h"
#include "tendril/tensor/threads.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(half_norm)

using namespace tendril;
using raw::view_of;
using tendril::testing::case_engine;

namespace {

int64_t roll(int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(case_engine<std::mt19937>());
}

Tensor noise(const Dims& sizes, DType dtype, double low, double high) {
  Generator generator(static_cast<uint64_t>(roll(0, 1 << 30)));
  const Tensor x = raw::empty(sizes, kFloat64);
  raw::uniform_(x, low, high, generator);
  return raw::cast(x, dtype);
}

Tensor unwritten(const Dims& sizes, DType dtype) { return raw::full(sizes, NAN, dtype); }

/// The largest difference, in parts of the exact ones' size (but at least of 1).
double apart(const Tensor& got, const Tensor& exact) {
  const std::vector<double> a = got.to_vector<double>(), b = exact.to_vector<double>();
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(a[i] - b[i]) / std::max(1.0, std::abs(b[i]));
    worst = std::isnan(difference) ? INFINITY : std::max(worst, difference);
  }
  return worst;
}

struct Results {
  Tensor out, mean, var, dx, dweight, dbias, dresidual;
};

/// One problem, of which only the dtypes differ.
struct Problem {
  Tensor x, g, residual, weight, bias, mean, var;
  bool batch, affine, relu;

  /// `out`, where given, is what the relu's gradient looks at: roundings cross its edge.
  Results run(DType dtype, const Tensor& out_of_relu = {}) const {
    const DType statistics = computed_in(dtype);
    const Dims &sizes = x.sizes(), channels{sizes[1]};
    const Tensor image = raw::cast(x, dtype), gradient = raw::cast(g, dtype), added = raw::cast(residual, dtype),
                 w = raw::cast(weight, statistics), b = raw::cast(bias, statistics);
    Results r{unwritten(sizes, dtype),
              batch ? unwritten(channels, statistics) : raw::clone(raw::cast(mean, statistics)),
              batch ? unwritten(channels, statistics) : raw::clone(raw::cast(var, statistics)),
              unwritten(sizes, dtype),
              unwritten(channels, statistics),
              unwritten(channels, statistics),
              unwritten(sizes, dtype)};
    const View vw = view_of(w), vb = view_of(b), vr = view_of(added), dx = view_of(r.dx), dw = view_of(r.dweight),
               db = view_of(r.dbias), dr = view_of(r.dresidual);
    const View *const pw = affine ? &vw : nullptr, *const pb = affine ? &vb : nullptr;
    const Kernels& table = *kernels(kCPU);
    if (relu) {
      table.batch_norm_relu(view_of(r.out), view_of(r.mean), view_of(r.var), view_of(image), pw, pb, &vr, 1e-3, batch,
                            {});
      const Tensor seen = out_of_relu.defined() ? raw::cast(out_of_relu, dtype) : r.out;
      table.batch_norm_relu_backward(&dx, &dw, &db, &dr, view_of(gradient), view_of(seen), view_of(image),
                                     view_of(r.mean), view_of(r.var), pw, 1e-3, batch);
    } else {
      table.batch_norm(view_of(r.out), view_of(r.mean), view_of(r.var), view_of(image), pw, pb, 1e-3, batch, {});
      table.batch_norm_backward(&dx, &dw, &db, view_of(gradient), view_of(image), view_of(r.mean), view_of(r.var), pw,
                                1e-3, batch);
    }
    return r;
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(batch_norm_in_row_major_order_agrees_with_float64) {
  for (int round = 0; round < 30; ++round) {
    const DType dtype = round % 2 == 0 ? kFloat16 : kBFloat16;
    const Dims sizes{roll(1, 4), roll(1, 40), roll(2, 800)}, channels{sizes[1]};
    // Some far from 0 beside their spread.
    const double middle = roll(0, 1) ? 0 : 3;
    const Problem problem{noise(sizes, dtype, middle - 1, middle + 1),
                          noise(sizes, dtype, -1, 1),
                          noise(sizes, dtype, -1, 1),
                          noise(channels, kFloat32, 0.5, 1.5),
                          noise(channels, kFloat32, -1, 1),
                          noise(channels, kFloat32, -1, 1),
                          noise(channels, kFloat32, 0.5, 1.5),
                          roll(0, 1) == 1,
                          roll(0, 2) > 0,
                          roll(0, 1) == 1};
    for (const int threads : {1, 2}) {
      const ThreadLimit limit(threads);
      const Results got = problem.run(dtype), exact = problem.run(kFloat64, problem.relu ? got.out : Tensor());
      // The rounding of what is of the half type; sums in double of what float32 makes.
      const double half = dtype == kFloat16 ? 0x1p-11 : 0x1p-8, fine = 2e-5;
      const auto near = [&](const char* name, const Tensor& a, const Tensor& b, double most) {
        BOOST_TEST(apart(a, b) <= most, name << " in round " << round << " of " << sizes << ", " << dtype << ": "
                                             << apart(a, b) << " above " << most);
      };
      near("mean", got.mean, exact.mean, fine);
      near("var", got.var, exact.var, fine);
      near("out", got.out, exact.out, 1.001 * half + fine);
      near("dbias", got.dbias, exact.dbias, fine);
      near("dweight", got.dweight, exact.dweight, 1e-4);
      near("dx", got.dx, exact.dx, 1.001 * half + 1e-4);
      if (problem.relu) near("dresidual", got.dresidual, exact.dresidual, 1e-12);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

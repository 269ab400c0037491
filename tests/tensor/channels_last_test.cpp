// Images in channels-last order: what is so, what stays so, and the kernels that take them against those of float64
// that take them row-major.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <functional>
#include <random>

#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/creation.h"
#include "tendril/tensor/kernels.h"
#include "tendril/tensor/layout.h"
#include "tendril/tensor/raw.h"
#include "tendril/tensor/threads.h"
#include "tests/errors.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(channels_last)

using namespace tendril;
using tendril::testing::case_engine;
constexpr MemoryFormat kLast = MemoryFormat::channels_last, kRows = MemoryFormat::contiguous;

namespace {

int64_t roll(int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(case_engine<std::mt19937>());
}

Tensor noise(const Dims& sizes, DType dtype = kFloat32, double from = -1) {
  Generator generator(static_cast<uint64_t>(roll(0, 1 << 30)));
  const Tensor x = raw::empty(sizes);
  raw::uniform_(x, from, from + 2, generator);
  return raw::cast(x, dtype);
}
Tensor last(const Tensor& x) { return raw::contiguous(x, kLast); }
Tensor exact(const Tensor& x) { return raw::contiguous(raw::cast(x, kFloat64)); }
/// Like x in its order, full of NaN.
Tensor unwritten(const Tensor& x) {
  Tensor result = raw::empty_in_format_of(x);
  raw::fill_(result, std::nan(""));
  return result;
}
/// The largest difference; NaN is one from everything.
double apart(const Tensor& x, const Tensor& y) {
  if (x.numel() == 0) return 0;
  const Tensor difference = raw::unary(Unary::abs, raw::binary(Binary::sub, raw::cast(x, kFloat64), exact(y)));
  const double most = difference.max().item<double>();
  return std::isnan(most) ? INFINITY : most;
}
/// [n, c, h, w] as [n, c, h w], as the kernels of batch normalisation take it.
View plane_of(const Tensor& x, std::vector<Tensor>& keep) {
  keep.push_back(raw::view(x, {x.size(0), x.size(1), x.size(2) * x.size(3)}));
  return raw::view_of(keep.back());
}

}  // namespace

BOOST_AUTO_TEST_CASE(it_is_strides_and_nothing_else) {
  const Tensor x = noise({2, 3, 4, 5}), y = x.to(kLast);
  BOOST_TEST(y.strides() == (Dims{60, 1, 15, 3}));
  BOOST_TEST((y.is_contiguous(kLast) && !y.is_contiguous() && !x.is_contiguous(kLast) && x.is_contiguous(kRows)));
  BOOST_TEST((y.suggest_memory_format() == kLast && x.suggest_memory_format() == kRows));
  BOOST_TEST((raw::equal(x, y) && y.to(kLast).is_same(y) && raw::equal(y.contiguous(), x)));
  BOOST_TEST(y.permute({0, 2, 3, 1}).is_contiguous());
  BOOST_TEST(x.permute({0, 2, 3, 1}).contiguous().permute({0, 3, 1, 2}).is_contiguous(kLast));
  BOOST_TEST(!y.slice(1, 0, 2).is_contiguous(kLast));  // a view with gaps
  BOOST_TEST(y.slice(0, 1).is_contiguous(kLast));
  for (const Dims& both : {Dims{2, 1, 4, 5}, Dims{2, 3, 1, 1}}) {  // one channel, or one pixel: taken as row-major
    const Tensor z = noise(both);
    BOOST_TEST((z.is_contiguous(kLast) && z.is_contiguous() && z.suggest_memory_format() == kRows));
  }
  BOOST_TEST(!noise({2, 3, 4}).is_contiguous(kLast));
  BOOST_CHECK_EXCEPTION(noise({2, 3, 4}).to(kLast), ShapeError,
                        testing::says("contiguous: the memory format "
                                      "channels_last is of 4 dimensions"));
  BOOST_CHECK_THROW(Tensor().to(kLast), Error);
  BOOST_TEST(noise({0, 3, 4, 5}).to(kLast).is_contiguous(kLast));
}

BOOST_AUTO_TEST_CASE(results_of_pointwise_operations_lie_as_the_first_operand_of_their_size_does) {
  const Tensor rows = noise({3, 70, 9, 11}), x = last(rows), number = raw::scalar(2, kFloat32),
               by_channel = noise({70, 1, 1});
  const auto stays = [&](const Tensor& got, const Tensor& expected) {
    BOOST_TEST((got.suggest_memory_format() == kLast && raw::equal(got, expected)));
  };
  stays(x.exp(), rows.exp());
  stays(x.leaky_relu(0.1), rows.leaky_relu(0.1));
  stays(x * 2, rows * 2);
  stays(2 - x, 2 - rows);
  stays(x + number, rows + number);
  stays(x * by_channel, rows * by_channel);
  stays(by_channel - x, by_channel - rows);
  stays(x + rows, rows + rows);
  stays(x.gt(0), rows.gt(0));
  stays(x.gt(by_channel), rows.gt(by_channel));
  stays(x.isnan(), rows.isnan());
  stays(x.clamp(-0.5, 0.5), rows.clamp(-0.5, 0.5));
  stays(where(x.gt(0), x, number), where(rows.gt(0), rows, number));
  stays(x.to(kFloat64), rows.to(kFloat64));
  stays(x.clone(), rows);
  stays(zeros_like(x), zeros_like(rows));
  BOOST_TEST((rows + x).is_contiguous());
  const Tensor changed = x.clone();
  changed += rows;
  stays(changed, rows + rows);
  const Tensor leaf = rows.detach().requires_grad_();
  leaf.to(kLast).relu().mul(x).sum().backward();
  BOOST_TEST(raw::equal(leaf.grad(), rows.gt(0).to(kFloat32) * rows));
}

BOOST_AUTO_TEST_CASE(batch_normalisation_agrees_with_that_of_rows_in_float64) {
  const Kernels& table = *kernels(kCPU);
  for (int round = 0; round < 60; ++round) {
    const DType dtype = round % 6 == 0 ? kBFloat16 : round % 3 == 0 ? kFloat64 : kFloat32, wide = computed_in(dtype);
    const Dims sizes{roll(1, 3), roll(2, 100), roll(1, 40), roll(2, 30)}, channels{sizes[1]};
    const bool batch = roll(0, 1), affine = roll(0, 2), relu = roll(0, 1), residual = relu && roll(0, 1);
    // Far from 0 beside their spread, where sums of squares would have lost it.
    const Tensor x = last(noise(sizes, dtype,
                                roll(0, 1)           ? -1
                                : dtype == kBFloat16 ? 3
                                                     : 100)),
                 added = last(noise(sizes, dtype)), g = last(noise(sizes, dtype));
    const Tensor weight = noise(channels, wide), bias = noise(channels, wide);
    const std::vector<Tensor> given{noise(channels, wide), noise(channels, wide, 0.5)};
    struct Results {
      Tensor out, mean, var, dx, dweight, dbias, dresidual;
    };
    const auto run = [&](const std::function<Tensor(const Tensor&)>& as, DType statistics) {
      const Tensor image = as(x), gradient = as(g), sum = as(added), w = raw::cast(weight, statistics),
                   b = raw::cast(bias, statistics);
      Results r;
      for (Tensor* t : {&r.out, &r.dx, &r.dresidual}) *t = unwritten(image);
      for (Tensor* t : {&r.dweight, &r.dbias}) *t = unwritten(w);
      r.mean = batch ? unwritten(w) : raw::cast(given[0], statistics);
      r.var = batch ? unwritten(w) : raw::cast(given[1], statistics);
      std::vector<Tensor> keep;
      keep.reserve(16);
      const auto view = [&](const Tensor& t) { return plane_of(t, keep); };
      const View vw = raw::view_of(w), vb = raw::view_of(b), vr = view(sum), vdx = view(r.dx), vdr = view(r.dresidual),
                 vdw = raw::view_of(r.dweight), vdb = raw::view_of(r.dbias);
      const View *const pw = affine ? &vw : nullptr, *const pb = affine ? &vb : nullptr;
      if (relu) {
        table.batch_norm_relu(view(r.out), raw::view_of(r.mean), raw::view_of(r.var), view(image), pw, pb,
                              residual ? &vr : nullptr, 1e-3, batch, {});
        table.batch_norm_relu_backward(&vdx, &vdw, &vdb, residual ? &vdr : nullptr, view(gradient), view(r.out),
                                       view(image), raw::view_of(r.mean), raw::view_of(r.var), pw, 1e-3, batch);
      } else {
        table.batch_norm(view(r.out), raw::view_of(r.mean), raw::view_of(r.var), view(image), pw, pb, 1e-3, batch, {});
        table.batch_norm_backward(&vdx, &vdw, &vdb, view(gradient), view(image), raw::view_of(r.mean),
                                  raw::view_of(r.var), pw, 1e-3, batch);
      }
      return r;
    };
    BOOST_TEST_REQUIRE(!x.is_contiguous());
    const Results reference = run(exact, kFloat64);
    const auto in_its_order = [](const Tensor& t) { return t; };
    std::vector<Results> of_threads;
    for (const int threads : {1, 2}) {
      const ThreadLimit limit(threads);
      of_threads.push_back(run(in_its_order, wide));
    }
    const Results& got = of_threads[0];
    const double unit = dtype == kBFloat16 ? 0.02 : dtype == kFloat32 ? 1e-5 : 1e-13;
    const auto near = [&](const char* name, const Tensor& a, const Tensor& b, const Tensor& again, double scale) {
      BOOST_TEST(apart(a, b) <= unit * scale,
                 name << " in round " << round << " of " << sizes << ", " << dtype << ": " << apart(a, b));
      BOOST_TEST(raw::equal(a, again), name);  // whatever the number of threads
    };
    // A relu's edge may be crossed by a rounding: differences there are as large as g is.
    const bool edge = relu && dtype != kFloat64;
    const double pixels = static_cast<double>(sizes[0] * sizes[2] * sizes[3]);
    near("mean", got.mean, reference.mean, of_threads[1].mean, 200);
    near("var", got.var, reference.var, of_threads[1].var, 2);
    near("out", got.out, reference.out, of_threads[1].out, 200);
    if (edge) continue;
    near("dbias", got.dbias, reference.dbias, of_threads[1].dbias, pixels);
    near("dweight", got.dweight, reference.dweight, of_threads[1].dweight, 200 * pixels);
    near("dx", got.dx, reference.dx, of_threads[1].dx, 1000);
    if (residual) near("dresidual", got.dresidual, reference.dresidual, of_threads[1].dresidual, 1);
  }
}

BOOST_AUTO_TEST_CASE(pooling_agrees_with_that_of_rows) {
  const Kernels& table = *kernels(kCPU);
  for (int round = 0; round < 60; ++round) {
    const DType dtype = round % 6 == 0 ? kFloat16 : round % 3 == 0 ? kFloat64 : kFloat32;
    PoolGeometry g;
    g.kernel = {roll(1, 4), roll(1, 4)};
    g.stride = {roll(1, 3), roll(1, 3)};
    g.padding = {roll(0, g.kernel.h / 2), roll(0, g.kernel.w / 2)};
    const Dims in{roll(1, 3), roll(2, 150), roll(4, 20), roll(4, 20)};
    const Dims out{in[0], in[1], window_count(in[2], g.kernel.h, g.stride.h, g.padding.h, 1),
                   window_count(in[3], g.kernel.w, g.stride.w, g.padding.w, 1)};
    const Tensor x = last(noise(in, dtype));
    for (int i = 0; i < 5; ++i) {
      raw::fill_(raw::as_strided(x, {}, {}, roll(0, x.numel() - 1)), i < 3 ? std::nan("") : -INFINITY);
    }
    const Tensor places = raw::cast(raw::full(out, -7), kInt64);
    const auto max_of = [&](const Tensor& image) {
      const MemoryFormat format = image.suggest_memory_format();
      std::vector<Tensor> r{unwritten(raw::empty(out, image.dtype(), kCPU, format)), raw::contiguous(places, format),
                            unwritten(image)};
      table.max_pool2d(raw::view_of(r[0]), raw::view_of(r[1]), raw::view_of(image), g);
      const Tensor gradient =
          raw::contiguous(raw::cast(raw::view(raw::arange(0, r[0].numel()), out), image.dtype()), format);
      table.max_pool2d_backward(raw::view_of(r[2]), raw::view_of(raw::binary(Binary::remainder, gradient, 7)),
                                raw::view_of(r[1]), g);
      return r;
    };
    std::vector<int64_t> begin[2], end[2];
    std::vector<double> scale[2];
    for (int axis = 0; axis < 2; ++axis) {
      const int64_t size = in[axis + 2], kernel = axis ? g.kernel.w : g.kernel.h,
                    stride = axis ? g.stride.w : g.stride.h;
      for (int64_t i = 0; i < out[axis + 2]; ++i) {
        begin[axis].push_back(std::min(i * stride, size));
        end[axis].push_back(std::min(i * stride + kernel, size));
        scale[axis].push_back(1 / static_cast<double>(kernel));
      }
    }
    const PoolAxis h{begin[0].data(), end[0].data(), scale[0].data()},
        w{begin[1].data(), end[1].data(), scale[1].data()};
    const Tensor numbers = last(noise(in, dtype)), smaller = last(noise(out, dtype));
    const auto mean_of = [&](const Tensor& image, const Tensor& result) {
      std::vector<Tensor> r{unwritten(result), unwritten(image)};
      table.mean_pool2d(raw::view_of(r[0]), raw::view_of(image), h, w);
      table.mean_pool2d_transpose(raw::view_of(r[1]), raw::view_of(result), h, w);
      return r;
    };
    const auto rows = [](const Tensor& t) { return raw::contiguous(t); };
    const auto expected = max_of(rows(x)), expected_mean = mean_of(rows(numbers), rows(smaller));
    for (const int threads : {1, 2}) {
      const ThreadLimit limit(threads);
      const auto got = max_of(x), got_mean = mean_of(numbers, smaller);
      for (std::size_t i = 0; i < got.size(); ++i) {
        BOOST_TEST((raw::equal(got[i], expected[i], true) && got[i].is_contiguous(kLast)), "max " << i << " " << in);
      }
      for (std::size_t i = 0; i < got_mean.size(); ++i) {
        BOOST_TEST(raw::equal(got_mean[i], expected_mean[i]), "mean " << i << " of " << in);
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

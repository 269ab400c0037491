// Kernels of layers in float32 against themselves in float64 (against_float64.h). Products and convolutions, which have
// another path to take, are in matmul_test and conv_test.
#include <string>
#include <vector>

#include "tests/tensor/against_float64.h"

BOOST_AUTO_TEST_SUITE(float32_kernels)

using namespace tendril;
using namespace tendril::testing;

namespace {

using raw::view_of;

const Kernels& table = *kernels(kCPU);

struct Axis {
  std::vector<int64_t> begin, end;
  std::vector<double> scale;

  /// `outputs` windows over `inputs` places, as adaptive pooling has them.
  Axis(int64_t inputs, int64_t outputs) {
    for (int64_t i = 0; i < outputs; ++i) {
      begin.push_back(i * inputs / outputs);
      end.push_back(((i + 1) * inputs + outputs - 1) / outputs);
      scale.push_back(1.0 / static_cast<double>(end.back() - begin.back()));
    }
  }
  operator PoolAxis() const { return {begin.data(), end.data(), scale.data()}; }
};

}  // namespace

BOOST_AUTO_TEST_CASE(batch_normalisation_agrees_with_itself_in_float64) {
  for (int round = 0; round < 16; ++round) {
    const int64_t n = roll(1, 5), c = roll(1, 40), s = roll(2, round % 4 ? 300 : 9000);
    const Dims all{n, c, s}, channels{c};
    const bool batch = round % 2 == 0, with_residual = round % 3 == 0, affine = round % 5 != 0;
    const double eps = 1e-3;
    const Tensors in{noise(all), noise(channels), noise(channels),
                     noise(all), noise(channels), noise(channels, 0.5, 2)};
    // Statistics are written with `batch`, else read.
    const auto statistics = [&](const Tensors& out, const Tensors& given) {
      if (!batch) raw::copy_(out[0], given[4]), raw::copy_(out[1], given[5]);
    };
    check("batch_norm", in, {channels, channels, all, all}, 1e-5, [&](const Tensors& out, const Tensors& given) {
      statistics(out, given);
      const View weight = view_of(given[1]), bias = view_of(given[2]), residual = view_of(given[3]);
      table.batch_norm(view_of(out[2]), view_of(out[0]), view_of(out[1]), view_of(given[0]), affine ? &weight : nullptr,
                       affine ? &bias : nullptr, eps, batch, {});
      table.batch_norm_relu(view_of(out[3]), view_of(out[0]), view_of(out[1]), view_of(given[0]),
                            affine ? &weight : nullptr, affine ? &bias : nullptr, with_residual ? &residual : nullptr,
                            eps, batch, {});
    });
    check("batch_norm_backward", in, {channels, channels, all, channels, channels}, 1e-5,
          [&](const Tensors& out, const Tensors& given) {
            statistics(out, given);
            const View weight = view_of(given[1]), bias = view_of(given[2]);
            table.batch_norm(view_of(out[2]), view_of(out[0]), view_of(out[1]), view_of(given[0]), &weight, &bias, eps,
                             batch, {});
            raw::fill_(out[2], std::nan(""));
            const View dx = view_of(out[2]), dweight = view_of(out[3]), dbias = view_of(out[4]);
            table.batch_norm_backward(&dx, &dweight, &dbias, view_of(given[3]), view_of(given[0]), view_of(out[0]),
                                      view_of(out[1]), affine ? &weight : nullptr, eps, batch);
          });
  }
}

BOOST_AUTO_TEST_CASE(layer_normalisation_does) {
  for (int round = 0; round < 12; ++round) {
    const int64_t n = roll(1, 200), m = roll(1, round % 3 ? 300 : 3000);
    const Dims all{n, m}, lines{n}, features{m};
    const Tensors in{noise(all), noise(features), noise(features), noise(all)};
    check("layer_norm", in, {lines, lines, all, all, features, features}, 3e-5,
          [&](const Tensors& out, const Tensors& given) {
            const View mean = view_of(out[0]), weight = view_of(given[1]), bias = view_of(given[2]);
            const View *const centred = round % 2 ? &mean : nullptr, *const scaled = round % 5 ? &weight : nullptr;
            if (!centred) raw::fill_(out[0], 0);
            table.layer_norm(view_of(out[2]), centred, view_of(out[1]), view_of(given[0]), scaled, &bias, 1e-2);
            const View dx = view_of(out[3]), dweight = view_of(out[4]), dbias = view_of(out[5]);
            table.layer_norm_backward(&dx, &dweight, &dbias, view_of(given[3]), view_of(given[0]), centred,
                                      view_of(out[1]), scaled);
          });
  }
}

BOOST_AUTO_TEST_CASE(pooling_does) {
  for (int round = 0; round < 16; ++round) {
    PoolGeometry g{.kernel = {roll(1, 4), roll(1, 4)}, .stride = {roll(1, 3), roll(1, 3)}};
    g.padding = {roll(0, g.kernel.h / 2), roll(0, g.kernel.w / 2)};
    const int64_t n = roll(1, 3), c = roll(1, 8), h = roll(8, 40), w = roll(8, 40);
    const int64_t p = window_count(h, g.kernel.h, g.stride.h, g.padding.h, g.dilation.h),
                  q = window_count(w, g.kernel.w, g.stride.w, g.padding.w, g.dilation.w);
    const Tensors in{noise({n, c, h, w}), noise({n, c, p, q})};
    check("max_pool2d", in, {{n, c, p, q}, {n, c, h, w}}, 1e-6, [&](const Tensors& out, const Tensors& given) {
      const Tensor places = raw::full({n, c, p, q}, -1, kInt64);
      table.max_pool2d(view_of(out[0]), view_of(places), view_of(given[0]), g);
      table.max_pool2d_backward(view_of(out[1]), view_of(given[1]), view_of(places), g);
    });
    const Axis rows(h, p), columns(w, q);
    check("mean_pool2d", in, {{n, c, p, q}, {n, c, h, w}}, 1e-6, [&](const Tensors& out, const Tensors& given) {
      table.mean_pool2d(view_of(out[0]), view_of(given[0]), rows, columns);
      table.mean_pool2d_transpose(view_of(out[1]), view_of(given[1]), rows, columns);
    });
  }
}

BOOST_AUTO_TEST_CASE(attention_does) {
  for (int round = 0; round < 12; ++round) {
    const int64_t b = roll(1, 3), l = roll(1, 150), s = roll(1, 150), e = roll(1, 40), v = roll(1, 40);
    AttentionMask mask{.scale = 0.3, .causal = round % 2 == 0};
    const Tensors in{noise({b, 2, l, e}), noise({b, 2, s, e}), noise({b, 2, s, v}), noise({b, 2, l, v})};
    check("attention", in, {{b, 2, l, v}, {b, 2, l}, {b, 2, l, e}, {b, 2, s, e}, {b, 2, s, v}}, 1e-5,
          [&](const Tensors& out, const Tensors& given) {
            const View q = view_of(given[0]), k = view_of(given[1]), x = view_of(given[2]);
            table.attention(view_of(out[0]), view_of(out[1]), q, k, x, mask);
            table.attention_backward(view_of(out[2]), view_of(out[3]), view_of(out[4]), view_of(given[3]),
                                     view_of(out[0]), view_of(out[1]), q, k, x, mask);
          });
  }
}

BOOST_AUTO_TEST_CASE(cross_entropy_does_along_any_dimension) {
  for (int round = 0; round < 12; ++round) {
    Dims sizes{roll(1, 9), roll(1, round % 3 ? 90 : 9000), roll(1, 9)};
    const int dim = round % 2 ? 1 : 2;
    if (dim == 2) std::swap(sizes[1], sizes[2]);
    Dims lines = sizes;
    lines[dim] = 1;
    const Tensor index = raw::empty(lines, kInt64);
    raw::randint_(index, 0, sizes[dim], default_generator());
    check("cross_entropy", {noise(sizes, -9, 9), noise(lines)}, {lines, lines, sizes}, 2e-6,
          [&](const Tensors& out, const Tensors& given) {
            table.log_sum_exp(view_of(out[0]), view_of(out[1]), view_of(given[0]), dim);
            table.cross_entropy_backward(view_of(out[2]), view_of(given[0]), dim, view_of(out[0]), view_of(out[1]),
                                         view_of(index), view_of(given[1]));
          });
  }
}

BOOST_AUTO_TEST_CASE(a_step_of_an_lstm_does) {
  for (int round = 0; round < 12; ++round) {
    const int64_t n = roll(1, 40), h = roll(1, round % 3 ? 40 : 400);
    const Dims gates{n, 4 * h}, cells{n, h};
    const Tensors in{noise(gates, -3, 3), noise(gates, -3, 3), noise(cells), noise(cells), noise(cells), noise(cells)};
    check("lstm_cell", in, {gates, cells, cells, cells, gates, cells}, 3e-6,
          [&](const Tensors& out, const Tensors& given) {
            raw::copy_(out[0], given[0]);
            table.lstm_cell(view_of(out[0]), view_of(given[1]), view_of(given[2]), view_of(out[1]), view_of(out[2]),
                            view_of(out[3]));
            raw::copy_(out[5], given[5]);
            const View d_out = view_of(given[4]);
            table.lstm_cell_backward(view_of(out[4]), view_of(out[5]), view_of(given[3]), round % 2 ? &d_out : nullptr,
                                     view_of(out[0]), view_of(given[2]), view_of(out[2]));
          });
  }
}

BOOST_AUTO_TEST_CASE(all_steps_of_an_lstm_do) {
  for (int round = 0; round < 16; ++round) {
    const int64_t t = roll(2, 5), n = roll(4, round % 3 ? 30 : 70), h = roll(40, round % 4 ? 120 : 290);
    const Dims gates{t, n, 4 * h}, cells{t, n, h}, state{n, h};
    const bool reverse = round % 2 == 1, turned = round % 5 == 0;
    const Tensors in{noise(gates, -3, 3), noise(turned ? Dims{h, 4 * h} : Dims{4 * h, h}, -0.3, 0.3), noise(state),
                     noise(state), noise(cells)};
    check("lstm_steps", in, {gates, cells, cells, cells, gates, state, state}, 2e-5,
          [&](const Tensors& out, const Tensors& given) {
            const Tensor weight = turned ? raw::transpose(given[1], 0, 1) : given[1];
            const LstmSteps steps{view_of(given[0]), view_of(weight), view_of(given[2]), view_of(given[3]), reverse};
            BOOST_REQUIRE(table.lstm_steps(steps, view_of(out[0]), view_of(out[1]), view_of(out[2]), view_of(out[3])));
            raw::copy_(out[5], given[2]);
            raw::copy_(out[6], given[3]);
            const View d_output = view_of(given[4]);
            BOOST_REQUIRE(table.lstm_steps_backward(steps, view_of(out[4]), view_of(out[5]), view_of(out[6]),
                                                    round % 3 ? &d_output : nullptr, view_of(out[0]), view_of(out[1]),
                                                    view_of(out[2]), true));
          });
  }
}

BOOST_AUTO_TEST_CASE(all_steps_of_an_lstm_are_what_its_steps_are_one_by_one) {
  for (const bool reverse : {false, true}) {
    const int64_t T = 4, n = 21, h = 67;
    const Tensor x = noise({T, n, 4 * h}, -3, 3), weight = noise({4 * h, h}, -0.3, 0.3), h0 = noise({n, h}),
                 c0 = noise({n, h}), d_output = noise({T, n, h});
    Tensors all, each;  // gates, cells, tanh_c, output, d_gates, d_c, d_h
    for (Tensors* of : {&all, &each}) {
      of->push_back(raw::empty_like(x));
      for (int i = 0; i < 3; ++i) of->push_back(raw::empty_like(d_output));
      of->push_back(raw::empty_like(x));
      of->push_back(raw::clone(c0)), of->push_back(raw::clone(h0));
    }
    const View d_out = view_of(d_output);
    const LstmSteps steps{view_of(x), view_of(weight), view_of(h0), view_of(c0), reverse};
    BOOST_REQUIRE(table.lstm_steps(steps, view_of(all[0]), view_of(all[1]), view_of(all[2]), view_of(all[3])));
    BOOST_REQUIRE(table.lstm_steps_backward(steps, view_of(all[4]), view_of(all[5]), view_of(all[6]), &d_out,
                                            view_of(all[0]), view_of(all[1]), view_of(all[2]), true));
    const auto at = [&](const Tensor& of, int64_t s) { return raw::select(of, 0, reverse ? T - 1 - s : s); };
    for (int64_t s = 0; s < T; ++s) {
      const Tensor before = s ? at(each[3], s - 1) : h0, c = s ? at(each[1], s - 1) : c0;
      table.matmul(view_of(at(each[0], s)), view_of(before), view_of(raw::transpose(weight, 0, 1)));
      table.lstm_cell(view_of(at(each[0], s)), view_of(at(x, s)), view_of(c), view_of(at(each[1], s)),
                      view_of(at(each[2], s)), view_of(at(each[3], s)));
    }
    for (int64_t s = T - 1; s >= 0; --s) {
      const Tensor c = s ? at(each[1], s - 1) : c0;
      const View d = view_of(at(d_output, s));
      table.lstm_cell_backward(view_of(at(each[4], s)), view_of(each[5]), view_of(each[6]), &d, view_of(at(each[0], s)),
                               view_of(c), view_of(at(each[2], s)));
      table.matmul(view_of(each[6]), view_of(at(each[4], s)), view_of(weight));
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      agree(all[i], raw::cast(each[i], kFloat64), 2e-5, "result " + std::to_string(i) + (reverse ? ", reverse" : ""));
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

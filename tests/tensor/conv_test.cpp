// Convolutions of float32, which oneDNN makes where the build has it, against our own of float64.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <random>
#if __has_include(<dnnl_version.h>)
#include <dnnl_version.h>
#endif

#include "tendril/autograd/ops/pointwise.h"
#include "tendril/autograd/ops/reduce.h"
#include "tendril/tensor/cpu/conv_parts.h"
#include "tendril/tensor/cpu/level/level.h"
#include "tendril/tensor/cpu/onednn.h"
#include "tendril/tensor/cpu/paths.h"
#include "tendril/tensor/cpu/scratch.h"
#include "tendril/tensor/cpu/winograd.h"
#include "tendril/tensor/detail/prepared_weight.h"
#include "tendril/tensor/kernels.h"
#include "tendril/tensor/memory.h"
#include "tendril/tensor/raw.h"
#include "tendril/tensor/threads.h"
#include "tests/errors.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(conv)

using namespace tendril;
using cpu::Path;
using tendril::testing::case_engine;
using tendril::testing::says;

int64_t roll(int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(case_engine<std::mt19937>());
}

Tensor noise(const Dims& sizes) {
  Generator generator(static_cast<uint64_t>(roll(0, 1 << 30)));
  Tensor x = raw::empty(sizes);
  raw::uniform_(x, -1, 1, generator);
  return x;
}

/// The largest difference, by what is summed up.
double difference(const Tensor& narrow, const Tensor& wide) {
  const Tensor apart = raw::binary(Binary::sub, raw::cast(narrow, kFloat64), wide);
  return raw::unary(Unary::abs, apart).max().item<double>();
}
/// Kernels::conv2d_data with nothing prepared.
void data_of(const View& x, const View& out, const View& weight, const ConvGeometry& g) {
  kernels(kCPU)->conv2d_data(x, out, weight, g, nullptr);
}

/// By our own or by oneDNN's.
uint64_t winograd_count() { return cpu::taken(Path::own_winograd) + cpu::taken(Path::onednn_winograd); }

/// Whether oneDNN would write beyond its memory if it made the gradient of this weight from images in channels-last
/// order (https://github.com/uxlfoundation/oneDNN/issues/6035).
bool onednn_overruns(const ConvGeometry& g, const Tensor& weight) {
  return weight.size(1) < 16 && weight.size(2) == 1 && weight.size(3) == 1 && (g.stride.h > 1 || g.stride.w > 1);
}

BOOST_AUTO_TEST_CASE(all_three_maps_of_any_geometry_agree_with_those_in_float64) {
  const Kernels& table = *kernels(kCPU);
  for (int round = 0; round < 60; ++round) {
    ConvGeometry g;
    g.groups = round % 5 == 0 ? roll(2, 4) : 1;
    const bool blocks = round % 4 == 1;  // channels that may be shared out among threads
    const int64_t in = g.groups * (blocks ? 16 * roll(1, 3) : roll(1, 20)),
                  out = g.groups * (blocks ? 16 * roll(1, 3) : roll(1, 20)), kernel_h = roll(1, 4),
                  kernel_w = roll(1, 4);
    g.stride = {roll(1, 3), roll(1, 3)};
    g.dilation = round % 3 == 0 ? Size2(roll(1, 3), roll(1, 2)) : Size2(1);
    g.padding = {roll(0, kernel_h - 1), roll(0, kernel_w)};
    const int64_t h = roll(10, 30), w = roll(10, 30), n = roll(1, 4);
    const int64_t p = window_count(h, kernel_h, g.stride.h, g.padding.h, g.dilation.h);
    const int64_t q = window_count(w, kernel_w, g.stride.w, g.padding.w, g.dilation.w);
    // Images lie in either order, and so does the weight.
    const auto either = [](int64_t number) {
      return number == 0 ? MemoryFormat::contiguous : MemoryFormat::channels_last;
    };
    const MemoryFormat images = either(roll(0, 1)), weights = either(roll(0, 1));
    const Tensor x = raw::contiguous(noise({n, in, h, w}), images),
                 weight = raw::contiguous(noise({out, in / g.groups, kernel_h, kernel_w}), weights),
                 y = raw::contiguous(noise({n, out, p, q}), images);
    const auto wide = [](const Tensor& t) { return raw::contiguous(raw::cast(t, kFloat64)); };
    const auto own = [](const Tensor& t) { return raw::cast(t, kFloat64); };  // in its order
    const auto run = [&](const Tensor& like, auto kernel, const Tensor& a, const Tensor& b) {
      const uint64_t before = cpu::taken(Path::onednn_convolution), turned = cpu::taken(Path::turned_image),
                     winograd = winograd_count(), own_winograd = cpu::taken(Path::own_winograd);
      const Tensor result = raw::empty_in_format_of(like), exact = raw::full(like.sizes(), 0, kFloat64);
      raw::fill_(result, std::nan(""));
      kernel(raw::view_of(result), raw::view_of(a), raw::view_of(b), g);
      const bool direct = winograd_count() == winograd;
      if ((!x.is_contiguous() || !y.is_contiguous()) && direct && !onednn_overruns(g, weight)) {
        BOOST_TEST(cpu::taken(Path::turned_image) == turned);
      }
      const bool few = g.groups == 1 && x.is_contiguous() && y.is_contiguous() && weight.is_contiguous() &&
                       y.numel() * (weight.numel() / out) < cpu::kFewMultiplications;
      const bool by_onednn = cpu::onednn::available() && !few && cpu::taken(Path::own_winograd) == own_winograd;
      BOOST_TEST((cpu::taken(Path::onednn_convolution) > before) == by_onednn);
      const uint64_t taken = cpu::taken(Path::onednn_convolution);
      kernel(raw::view_of(exact), raw::view_of(wide(a)), raw::view_of(wide(b)), g);
      const Tensor packed = raw::empty_in_format_of(own(like));
      raw::fill_(packed, std::nan(""));
      kernel(raw::view_of(packed), raw::view_of(own(a)), raw::view_of(own(b)), g);
      BOOST_TEST(raw::equal(packed, exact));                      // ours, by way of the row-major order
      BOOST_TEST(cpu::taken(Path::onednn_convolution) == taken);  // float64 is ours
      const double most = raw::unary(Unary::abs, exact).max().item<double>();
      BOOST_TEST(difference(result, exact) <= 2e-6 * (most + 1) * std::sqrt(static_cast<double>(n * p * q)),
                 "round " << round << ", image " << x.sizes() << ", weight " << weight.sizes());
    };
    for (const int threads : {1, 2, 3}) {
      const ThreadLimit limit(threads);
      run(y, table.conv2d, x, weight);
      run(x, data_of, y, weight);
      run(weight, table.conv2d_filter, x, y);
      const Tensor bias = noise({out});
      for (const bool relu : {false, true}) {
        const auto with_bias = [&](const View& to, const View& a, const View& b, const ConvGeometry& geometry) {
          const Tensor shift = raw::cast(bias, to.dtype);
          const View view = raw::view_of(shift);
          table.conv2d_relu(to, a, b, &view, relu, geometry, nullptr);
        };
        run(y, with_bias, x, weight);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(filter_gradient_of_strided_1x1_convolution_of_few_channels_stays_in_its_memory) {
  const Kernels& table = *kernels(kCPU);
  const ThreadLimit limit(1);
  for (const Size2 stride : {Size2(1, 2), Size2(2, 1), Size2(3, 3)}) {
    for (int64_t in = 1; in <= 17; ++in) {
      ConvGeometry g;
      g.stride = stride;
      const int64_t n = 2, out = roll(1, 40), h = roll(12, 30), w = roll(12, 30);
      const auto images = [](const Tensor& t) { return raw::contiguous(t, MemoryFormat::channels_last); };
      const Tensor x = images(noise({n, in, h, w})),
                   y = images(noise({n, out, (h - 1) / stride.h + 1, (w - 1) / stride.w + 1}));
      const Tensor result = raw::empty({out, in, 1, 1}), exact = raw::empty({out, in, 1, 1}, kFloat64);
      const auto wide = [](const Tensor& t) { return raw::contiguous(raw::cast(t, kFloat64)); };
      const uint64_t turned = cpu::taken(Path::turned_image);
      table.conv2d_filter(raw::view_of(result), raw::view_of(x), raw::view_of(y), g);
      // A write beyond the memory may not have done harm yet, so check how the gradient is computed.
      BOOST_TEST((!cpu::onednn::available() || !onednn_overruns(g, result) || in == 1 ||
                  cpu::taken(Path::turned_image) > turned));
      table.conv2d_filter(raw::view_of(exact), raw::view_of(wide(x)), raw::view_of(wide(y)), g);
      const double most = raw::unary(Unary::abs, exact).max().item<double>();
      const int64_t terms = y.numel() / out;  // of each sum
      BOOST_TEST(difference(result, exact) <= 2e-6 * (most + 1) * std::sqrt(static_cast<double>(terms)));
    }
  }
}

BOOST_AUTO_TEST_CASE(large_ones_are_shared_out_by_images_by_channels_or_by_rows) {
  if (!cpu::onednn::available()) return;
  const int before = num_threads();
  set_num_threads(2);
  const Kernels& table = *kernels(kCPU);
  const ConvGeometry g{.padding = 2};
  const auto parts = [&](int64_t images, int64_t channels, MemoryFormat format) {
    const Tensor x = raw::contiguous(noise({images, channels, 20, 20}), format),
                 weight = noise({channels, channels, 5, 5}), out = raw::empty_in_format_of(x);
    const uint64_t made = cpu::taken(Path::onednn_convolution);
    table.conv2d(raw::view_of(out), raw::view_of(x), raw::view_of(weight), g);
    table.conv2d_data(raw::view_of(x), raw::view_of(out), raw::view_of(weight), g, nullptr);
    table.conv2d_filter(raw::view_of(weight), raw::view_of(x), raw::view_of(out), g);
    return cpu::taken(Path::onednn_convolution) - made;
  };
  BOOST_TEST(parts(2, 24, MemoryFormat::contiguous) == 6);
  BOOST_TEST(parts(1, 32, MemoryFormat::contiguous) == 6);     // by channels
  BOOST_TEST(parts(2, 32, MemoryFormat::channels_last) == 6);  // by images
  BOOST_TEST(parts(1, 24, MemoryFormat::contiguous) == 6);     // by rows
  BOOST_TEST(parts(1, 32, MemoryFormat::channels_last) == 6);
  set_num_threads(before);
}

BOOST_AUTO_TEST_CASE(filters_gradients_on_different_numbers_of_threads_are_within_the_bound_that_is_stated) {
  const int before = num_threads();
  set_num_threads(3);
  for (const auto& [images, channels] : std::vector<std::pair<int64_t, int64_t>>{{1, 20}, {1, 32}, {5, 20}}) {
    for (const MemoryFormat order : {MemoryFormat::contiguous, MemoryFormat::channels_last}) {
      const ConvGeometry g{.padding = 2};
      const Tensor x = raw::contiguous(noise({images, channels, 40, 40}), order),
                   y = raw::contiguous(noise({images, channels, 40, 40}), order);
      const auto gradient = [&](const Tensor& of_x, const Tensor& of_y) {
        Tensor weight = raw::empty({channels, channels, 5, 5});
        kernels(kCPU)->conv2d_filter(raw::view_of(weight), raw::view_of(of_x), raw::view_of(of_y), g);
        return weight;
      };
      const auto magnitude = [](const Tensor& t) { return raw::unary(Unary::abs, t); };
      const double products = static_cast<double>(images) * 40 * 40;
      const Tensor bound = raw::binary(Binary::mul, gradient(magnitude(x), magnitude(y)), 2 * products * 0x1p-24);
      Tensor one;
      for (const int threads : {1, 2, 3}) {
        const ThreadLimit limit(threads);
        const Tensor now = gradient(x, y);
        if (threads == 1) one = now;
        const Tensor apart = magnitude(raw::binary(Binary::sub, now, one));
        BOOST_TEST(raw::binary(Binary::sub, apart, bound).max().item<double>() <= 0,
                   images << " images, " << channels << " channels, " << threads << " threads");
      }
    }
  }
  set_num_threads(before);
}

BOOST_AUTO_TEST_CASE(one_image_by_rows_agrees_with_float64_for_any_geometry) {
  const int before = num_threads();
  set_num_threads(5);
  const Kernels& table = *kernels(kCPU);
  int in_parts = 0;
  for (int round = 0; round < 60; ++round) {
    ConvGeometry g;
    g.groups = round % 4 == 0 ? 3 : 1;
    const int64_t kernel_h = roll(1, 5), kernel_w = roll(1, 5), h = roll(5, 40), w = roll(60, 90);
    g.stride = {roll(1, 4), roll(1, 2)};
    g.dilation = {roll(1, 3), 1};
    g.padding = {roll(0, kernel_h + 1), roll(0, kernel_w - 1)};
    const int64_t in = 24 * g.groups, out = 24 * g.groups,
                  p = window_count(h, kernel_h, g.stride.h, g.padding.h, g.dilation.h),
                  q = window_count(w, kernel_w, g.stride.w, g.padding.w, g.dilation.w);
    if (p == 0) continue;
    const MemoryFormat order = round % 2 == 0 ? MemoryFormat::channels_last : MemoryFormat::contiguous;
    const Tensor x = raw::contiguous(noise({1, in, h, w}), order), y = raw::contiguous(noise({1, out, p, q}), order),
                 weight = noise({out, in / g.groups, kernel_h, kernel_w});
    const auto wide = [](const Tensor& t) { return raw::contiguous(raw::cast(t, kFloat64)); };
    const auto run = [&](const Tensor& like, auto kernel, const Tensor& a, const Tensor& b) {
      const uint64_t made = cpu::taken(Path::onednn_convolution);
      const Tensor result = raw::empty_in_format_of(like), exact = raw::full(like.sizes(), 0, kFloat64);
      raw::fill_(result, std::nan(""));
      kernel(raw::view_of(result), raw::view_of(a), raw::view_of(b), g);
      in_parts += cpu::taken(Path::onednn_convolution) - made == 5;
      kernel(raw::view_of(exact), raw::view_of(wide(a)), raw::view_of(wide(b)), g);
      const double most = raw::unary(Unary::abs, exact).max().item<double>();
      BOOST_TEST(difference(result, exact) <= 2e-6 * (most + 1) * std::sqrt(static_cast<double>(p * q)),
                 "round " << round << ", image " << x.sizes() << ", weight " << weight.sizes());
    };
    run(y, table.conv2d, x, weight);
    run(x, data_of, y, weight);
    run(weight, table.conv2d_filter, x, y);
  }
  if (cpu::onednn::available()) BOOST_TEST(in_parts >= 10);  // 20 and more were seen
  set_num_threads(before);
}

BOOST_AUTO_TEST_CASE(winograds_form_agrees_with_float64_for_images_of_any_size_in_either_order) {
  const Kernels& table = *kernels(kCPU);
  int in_form = 0;
  for (int round = 0; round < 12; ++round) {
    const int64_t n = roll(1, 3), in = 16 * roll(4, 6), out = 16 * roll(4, 6), h = roll(30, 37), w = roll(30, 37);
    const ConvGeometry g{.padding = roll(0, 1)};
    const int64_t p = h + 2 * g.padding.h - 2, q = w + 2 * g.padding.w - 2;
    const MemoryFormat order = round % 3 == 0 ? MemoryFormat::channels_last : MemoryFormat::contiguous;
    const Tensor x = raw::contiguous(noise({n, in, h, w}), order), weight = noise({out, in, 3, 3}),
                 y = raw::contiguous(noise({n, out, p, q}), order), bias = noise({out});
    const auto wide = [](const Tensor& t) { return raw::contiguous(raw::cast(t, kFloat64)); };
    const auto run = [&](const Tensor& like, auto kernel, const Tensor& a, const Tensor& b) {
      const uint64_t before = winograd_count();
      const Tensor result = raw::empty_in_format_of(like), exact = raw::full(like.sizes(), 0, kFloat64);
      raw::fill_(result, std::nan(""));
      kernel(raw::view_of(result), raw::view_of(a), raw::view_of(b), g);
      const bool taken = winograd_count() > before;
      in_form += taken;
      // oneDNN's own form, which AVX-512 has, refuses a few shapes, by the size of its caches.
      BOOST_TEST((taken || cpu::onednn::has_winograd()),
                 "padding " << g.padding.h << ", image " << x.sizes() << ", weight " << weight.sizes());
      kernel(raw::view_of(exact), raw::view_of(wide(a)), raw::view_of(wide(b)), g);
      const double size = std::sqrt((raw::binary(Binary::mul, exact, exact).sum() / exact.numel()).item<double>());
      BOOST_TEST(difference(result, exact) <= 3e-5 * size,  // measured: 4e-6 to 1.1e-5
                 "round " << round << ", image " << x.sizes() << ", weight " << weight.sizes());
    };
    const ThreadLimit limit(1 + round % 2);
    run(y, table.conv2d, x, weight);
    run(x, data_of, y, weight);
    run(weight, table.conv2d_filter, x, y);
    const auto with_bias = [&](const View& to, const View& a, const View& b, const ConvGeometry& geometry) {
      const Tensor shift = raw::cast(bias, to.dtype);
      const View view = raw::view_of(shift);
      table.conv2d_relu(to, a, b, &view, false, geometry, nullptr);
    };
    run(y, with_bias, x, weight);
  }
  BOOST_TEST(in_form >= 40);  // of 48
}

/// Our own, also where oneDNN's would be taken.
struct OwnWinograd {
  static void conv2d(const View& out, const View& x, const View& weight, const ConvGeometry& g) {
    BOOST_TEST(cpu::winograd::conv2d(out, x, weight, nullptr, false, g));
  }
  static void conv2d_data(const View& x, const View& out, const View& weight, const ConvGeometry& g) {
    BOOST_TEST(cpu::winograd::conv2d_data(x, out, weight, g));
  }
  static void conv2d_filter(const View& weight, const View& x, const View& out, const ConvGeometry& g) {
    BOOST_TEST(cpu::winograd::conv2d_filter(weight, x, out, g));
  }
};

/// While it lives kernels run the loops of one level (level.h).
class Level {
 public:
  explicit Level(const cpu::Loops* level) : best_(cpu::best_loops) { cpu::best_loops = level; }
  ~Level() { cpu::best_loops = best_; }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

 private:
  const cpu::Loops* best_;
};

BOOST_AUTO_TEST_CASE(winograds_form_of_our_own_gives_the_same_bits_on_any_number_of_threads) {
  const int budget = num_threads();
  set_num_threads(7);
  const Kernels& table = *kernels(kCPU);
  const auto levels = cpu::all_loops();
  int checked = 0;
  for (int round = 0; round < 20; ++round) {
    // Two kinds: images of many tiles and few channels, and the other way round.
    const bool deep = round % 4 == 0;
    const int64_t n = deep ? 1 : roll(3, 5), in = 16 * roll(1, 3), out = 16 * (deep ? 7 : roll(1, 3)),
                  h = roll(deep ? 12 : 6, 21), w = deep ? 12 : roll(6, round % 5 == 1 ? 70 : 25);
    const ConvGeometry g{.padding = {roll(0, 1), roll(0, 1)}};
    const int64_t p = h + 2 * g.padding.h - 2, q = w + 2 * g.padding.w - 2;
    if (p * q * 2 < (p + 3) / 4 * 4 * ((q + 3) / 4 * 4) || n * p * q < 96) continue;
    ++checked;
    const auto either = [&] { return roll(0, 1) ? MemoryFormat::channels_last : MemoryFormat::contiguous; };
    const Tensor x = raw::contiguous(noise({n, in, h, w}), either()), bias = noise({out}),
                 weight = raw::contiguous(noise({out, in, 3, 3}), either()),
                 y = raw::contiguous(noise({n, out, p, q}), either());
    const auto wide = [](const Tensor& t) { return raw::contiguous(raw::cast(t, kFloat64)); };
    const auto run = [&](const Tensor& like, auto kernel, auto reference, const Tensor& a, const Tensor& b) {
      const Tensor exact = raw::full(like.sizes(), 0, kFloat64);
      reference(raw::view_of(exact), raw::view_of(wide(a)), raw::view_of(wide(b)), g);
      const double size = std::sqrt((raw::binary(Binary::mul, exact, exact).sum() / exact.numel()).item<double>());
      const Level level(levels[static_cast<std::size_t>(round) % levels.size()]);
      Tensor first;
      for (const int threads : {1, 2, 7}) {
        const ThreadLimit limit(threads);
        const Tensor result = raw::empty_in_format_of(like);
        raw::fill_(result, std::nan(""));
        kernel(raw::view_of(result), raw::view_of(a), raw::view_of(b), g);
        if (threads == 1) {
          BOOST_TEST(difference(result, exact) <= 3e-5 * size,
                     "round " << round << ", image " << x.sizes() << ", weight " << weight.sizes());
          first = result;
        }
        BOOST_TEST(raw::equal(result, first), "round " << round << ", " << threads << " threads");
      }
    };
    run(y, OwnWinograd::conv2d, table.conv2d, x, weight);
    run(x, OwnWinograd::conv2d_data, data_of, y, weight);
    run(weight, OwnWinograd::conv2d_filter, table.conv2d_filter, x, y);
    const bool relu = round % 2 == 0;
    const auto with_bias = [&](const View& to, const View& a, const View& b, const ConvGeometry& geometry) {
      const View shift = raw::view_of(bias);
      BOOST_TEST(cpu::winograd::conv2d(to, a, b, &shift, relu, geometry));
    };
    const auto reference = [&](const View& to, const View& a, const View& b, const ConvGeometry& geometry) {
      const Tensor shift = raw::cast(bias, kFloat64);
      const View view = raw::view_of(shift);
      table.conv2d_relu(to, a, b, &view, relu, geometry, nullptr);
    };
    run(y, with_bias, reference, x, weight);
  }
  BOOST_TEST(checked >= 10);
  set_num_threads(budget);
}

BOOST_AUTO_TEST_CASE(a_nan_stays_within_the_tiles_whose_patches_have_it_also_behind_a_relu) {
  const Tensor x = noise({1, 16, 12, 12}), weight = noise({16, 16, 3, 3}), out = raw::empty({1, 16, 12, 12});
  x.mutable_data<float>()[5 * 12 + 5] = std::nanf("");  // read by results 4 to 6, of tiles from 4 to 8
  for (const bool relu : {false, true}) {
    BOOST_TEST(
        cpu::winograd::conv2d(raw::view_of(out), raw::view_of(x), raw::view_of(weight), nullptr, relu, {.padding = 1}));
    for (int64_t i = 0; i < out.numel(); ++i) {
      const int64_t row = i / 12 % 12, column = i % 12;
      const float value = out.data<float>()[i];
      const bool reads = row >= 4 && row <= 6 && column >= 4 && column <= 6;
      const bool tile = row / 4 == 1 && column / 4 == 1;
      if (reads) BOOST_TEST_REQUIRE(std::isnan(value));
      if (!tile) BOOST_TEST_REQUIRE((std::isfinite(value) && (!relu || value >= 0)));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_relu_behind_a_convolution_keeps_nan_and_needs_no_bias) {
  const Tensor x = raw::full({1, 16, 6, 6}, -1), weight = raw::ones({16, 16, 1, 1}), out = raw::empty({1, 16, 6, 6});
  x.mutable_data<float>()[7] = std::nanf("");
  kernels(kCPU)->conv2d_relu(raw::view_of(out), raw::view_of(x), raw::view_of(weight), nullptr, true, {}, nullptr);
  for (int64_t i = 0; i < out.numel(); ++i) {
    const float value = out.data<float>()[i];
    BOOST_TEST_REQUIRE((i % 36 == 7 ? std::isnan(value) : value == 0));
  }
}

BOOST_AUTO_TEST_CASE(a_weight_is_put_in_order_once_where_its_forms_are_kept_and_results_are_the_same_bits) {
  const auto changes = [] { return cpu::taken(Path::turned_weight) + cpu::taken(Path::mapped_weight); };
  struct Case {
    int64_t in, out, kernel, side;
    ConvGeometry geometry;
  };
  constexpr std::size_t kAny = 1 << 30;
  // Winograd's form, one that is oneDNN's, and one in groups.
  const Case cases[] = {{32, 32, 3, 16, {.padding = 1}}, {32, 48, 1, 20, {}}, {32, 32, 5, 20, {.groups = 2}}};
  for (const Case& c : cases) {
    for (const MemoryFormat format : {MemoryFormat::contiguous, MemoryFormat::channels_last}) {
      const Tensor weight = noise({c.out, c.in / c.geometry.groups, c.kernel, c.kernel}), bias = noise({c.out});
      const View shift = raw::view_of(bias);
      detail::PreparedForms forms(kAny);
      for (const int threads : {1, 2}) {
        const ThreadLimit limit(threads);
        const auto run = [&](const Tensor& x, const View* add, bool relu, detail::PreparedForms* prepared) {
          const int64_t side = c.side + 2 * c.geometry.padding.h - c.kernel + 1;
          Tensor out = raw::empty({x.sizes()[0], c.out, side, side}, kFloat32, kCPU, format);
          raw::fill_(out, std::nan(""));
          kernels(kCPU)->conv2d_relu(raw::view_of(out), raw::view_of(x), raw::view_of(weight), add, relu, c.geometry,
                                     prepared);
          return out;
        };
        const Tensor x = raw::contiguous(noise({2, c.in, c.side, c.side}), format),
                     one = raw::contiguous(noise({1, c.in, c.side, c.side}), format);
        const uint64_t before = changes();
        run(x, &shift, true, &forms);
        run(one, nullptr, false, &forms);
        uint64_t once = changes();
        if (cpu::onednn::available() && threads == 1) BOOST_TEST(once > before);  // else there may be nothing to keep
        for (int round = 0; round < 3; ++round) {
          const bool relu = round % 2 == 1;
          const View* const add = round > 0 ? &shift : nullptr;
          for (const Tensor& image : {x, one}) {
            const Tensor kept = run(image, add, relu, &forms);
            BOOST_TEST(changes() == once, c.kernel << "x" << c.kernel << " on " << threads << " threads");
            detail::PreparedForms nothing(kAny);
            BOOST_TEST(raw::equal(kept, run(image, add, relu, nullptr)));
            BOOST_TEST(raw::equal(kept, run(image, add, relu, &nothing)));
            once = changes();
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(threads_that_make_one_form_at_a_time_keep_one_of_them) {
  const Tensor x = noise({2, 32, 20, 20}), weight = noise({48, 32, 1, 1}), out = raw::empty({2, 48, 20, 20});
  const auto kept_by = [&](int threads) {
    const ThreadLimit limit(threads);
    detail::PreparedForms forms(1 << 30);
    const std::size_t before = memory::stats().live_bytes;
    kernels(kCPU)->conv2d_relu(raw::view_of(out), raw::view_of(x), raw::view_of(weight), nullptr, false, {}, &forms);
    return memory::stats().live_bytes - before;
  };
  const int budget = num_threads();
  set_num_threads(2);
  const std::size_t one = kept_by(1);
  for (int round = 0; round < 20; ++round) BOOST_TEST(kept_by(2) == one);
  set_num_threads(budget);
}

BOOST_AUTO_TEST_CASE(forms_beyond_the_limit_push_out_the_oldest) {
  struct Number final : detail::PreparedForms::Form {
    explicit Number(int n) : Form(40), number(n) {}
    int number;
  };
  detail::PreparedForms forms(100);
  const auto is = [](int n) { return [n](const Number& form) { return form.number == n; }; };
  for (int n = 0; n < 3; ++n) BOOST_TEST(forms.keep<Number>(std::make_shared<const Number>(n), is(n))->number == n);
  BOOST_TEST(!forms.find<Number>(is(0)));
  BOOST_TEST(forms.find<Number>(is(1)) != nullptr);
  const auto kept = forms.find<Number>(is(2));
  BOOST_TEST(forms.keep<Number>(std::make_shared<const Number>(2), is(2)) == kept);
}

BOOST_AUTO_TEST_CASE(what_a_kernel_needs_for_itself_and_cannot_have_is_said_with_what_is_in_use) {
  BOOST_CHECK_EXCEPTION(cpu::Scratch<char>(int64_t{1} << 50), Error, says("out of memory", "1125899906842624 bytes"));
}

BOOST_AUTO_TEST_SUITE_END()

// Convolutions on a device by cuDNN and by products, against the CPU's.
#include <boost/test/unit_test.hpp>

#include "tendril/autograd/ops/conv.h"
#include "tendril/tensor/cuda/kernels/conv.h"
#include "tendril/tensor/cuda/runtime.h"
#include "tendril/tensor/kernels.h"
#include "tests/cuda/compare.h"
#include "tests/errors.h"
#include "tests/seed.h"

using namespace tendril;
using namespace tendril::testing;

namespace {

/// Convolutions with float32 arithmetic for as long as it lives, by cuDNN or without, by any algorithm or those only
/// that are deterministic.
struct Exact {
  explicit Exact(bool cudnn, bool deterministic = false)
      : cudnn_before(cuda::cudnn_enabled()),
        tf32_before(cuda::convolution_tf32()),
        deterministic_before(cuda::deterministic()) {
    cuda::set_cudnn(cudnn);
    cuda::set_convolution_tf32(false);
    cuda::set_deterministic(deterministic);
  }
  ~Exact() {
    cuda::set_cudnn(cudnn_before);
    cuda::set_convolution_tf32(tf32_before);
    cuda::set_deterministic(deterministic_before);
  }
  bool cudnn_before, tf32_before, deterministic_before;
};

struct Case {
  const char* name;
  Dims x, weight;
  ConvGeometry geometry;

  Dims out() const {
    const ConvGeometry& g = geometry;
    return {x[0], weight[0], window_count(x[2], weight[2], g.stride.h, g.padding.h, g.dilation.h),
            window_count(x[3], weight[3], g.stride.w, g.padding.w, g.dilation.w)};
  }
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"a single element", {1, 1, 1, 1}, {1, 1, 1, 1}, {}},
      {"a kernel of one place", {2, 3, 4, 5}, {4, 3, 1, 1}, {}},
      {"a kernel of one place that steps", {2, 3, 5, 4}, {4, 3, 1, 1}, {.stride = 2}},
      {"three by three", {2, 3, 6, 5}, {4, 3, 3, 3}, {.padding = 1}},
      {"five by five", {1, 2, 9, 8}, {3, 2, 5, 5}, {.stride = 2, .padding = 2}},
      {"a kernel of the image's size", {3, 2, 4, 3}, {5, 2, 4, 3}, {}},
      {"all differs in height and width",
       {2, 2, 9, 7},
       {3, 2, 2, 3},
       {.stride = {3, 2}, .padding = {1, 2}, .dilation = {2, 1}}},
      {"dilated", {1, 2, 8, 8}, {2, 2, 3, 3}, {.padding = 2, .dilation = 2}},
      {"groups", {2, 4, 5, 5}, {6, 2, 3, 3}, {.padding = 1, .groups = 2}},
      {"a channel a group", {2, 3, 5, 5}, {6, 1, 3, 3}, {.stride = 2, .groups = 3}},
      {"padding beyond the kernel", {1, 1, 2, 2}, {1, 1, 2, 2}, {.padding = 3}},
      {"what no window reaches", {1, 2, 8, 8}, {2, 2, 2, 2}, {.stride = 3}},
      {"many small images", {40, 2, 3, 3}, {2, 2, 3, 3}, {.padding = 1}},
      {"no images", {0, 2, 5, 5}, {3, 2, 3, 3}, {}},
      {"no channels of the image", {2, 0, 5, 5}, {3, 0, 3, 3}, {}},
      {"no channels of the result", {2, 2, 5, 5}, {0, 2, 3, 3}, {}},
  };
  return all;
}

/// out, x and weight are written by the three maps; the other two are `operands`.
auto map_of(int which, const ConvGeometry& geometry) {
  return [which, geometry](const Tensor& result, const std::vector<Tensor>& operands) {
    const DeviceKernels table = kernels(result.device());
    const View out = raw::view_of(result), a = raw::view_of(operands[0]), b = raw::view_of(operands[1]);
    if (which == 0) table->conv2d(out, a, b, geometry);
    if (which == 1) table->conv2d_data(out, a, b, geometry, nullptr);
    if (which == 2) table->conv2d_filter(out, a, b, geometry);
  };
}

void compare_all_maps(const Case& c, DType dtype, Generator& generator) {
  const double atol = dtype == kFloat32 ? 2e-5 : 1e-13;
  const Tensor x = noise(c.x, dtype, generator), weight = noise(c.weight, dtype, generator),
               out = noise(c.out(), dtype, generator);
  BOOST_TEST_CONTEXT(c.name << ", " << dtype) {
    compare_into(map_of(0, c.geometry), unwritten(c.out(), dtype), {x, weight}, 0, atol);
    compare_into(map_of(1, c.geometry), unwritten(c.x, dtype), {out, weight}, 0, atol);
    compare_into(map_of(2, c.geometry), unwritten(c.weight, dtype), {x, out}, 0, atol);
  }
}

int64_t non_empty() {
  int64_t count = 0;
  for (const Case& c : cases()) {
    if (numel_of(c.x) > 0 && numel_of(c.weight) > 0) ++count;
  }
  return count;
}

/// Half types against float32's results for the same numbers.
void compare_half(const Case& c, DType dtype, Generator& generator) {
  if (numel_of(c.x) == 0 || numel_of(c.weight) == 0) return;
  const Tensor x = noise(c.x, dtype, generator), weight = noise(c.weight, dtype, generator),
               out = noise(c.out(), dtype, generator);
  const Dims results[] = {c.out(), c.x, c.weight};
  const std::vector<Tensor> operands[] = {{x, weight}, {out, weight}, {x, out}};
  for (int which = 0; which < 3; ++which) {
    const std::vector<Tensor>& given = operands[which];
    const Tensor want = raw::empty(results[which], kFloat32), got = twin(unwritten(results[which], dtype));
    map_of(which, c.geometry)(want, {raw::cast(given[0], kFloat32), raw::cast(given[1], kFloat32)});
    map_of(which, c.geometry)(got, twins(given));
    const double unit = dtype == kFloat16 ? 1.0 / 1024 : 1.0 / 128;
    BOOST_TEST_CONTEXT(c.name << ", " << dtype << ", map " << which)
    check_close(raw::cast(raw::to(got, kCPU), kFloat32), want, unit, 4 * unit);
  }
}

/// What cuDNN serves on a device depends on its version; what the emulated one does, we know.
bool is_emulated() { return cuda::device_name() == "emulated"; }

cuda::ConvolutionPaths paths_since(const cuda::ConvolutionPaths& before) {
  const cuda::ConvolutionPaths now = cuda::convolution_paths();
  return {now.cudnn - before.cudnn, now.products - before.products};
}

/// Whether this library was built with cuDNN: then it takes this.
bool has_cudnn() {
  const Exact exact(true);
  Generator generator(test_seed());
  const auto before = cuda::convolution_paths();
  map_of(0, {})(twin(unwritten({1, 1, 1, 1}, kFloat32)),
                twins({noise({1, 1, 1, 1}, kFloat32, generator), noise({1, 1, 1, 1}, kFloat32, generator)}));
  return paths_since(before).cudnn == 1;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(conv)

BOOST_AUTO_TEST_CASE(products_give_what_the_cpu_gives) {
  const Exact exact(false);
  Generator generator(test_seed());
  const auto before = cuda::convolution_paths();
  for (const DType dtype : {kFloat32, kFloat64}) {
    for (const Case& c : cases()) compare_all_maps(c, dtype, generator);
  }
  for (const DType dtype : {kFloat16, kBFloat16}) {
    for (const Case& c : cases()) compare_half(c, dtype, generator);
  }
  BOOST_TEST(paths_since(before).cudnn == 0);
  BOOST_TEST(paths_since(before).products == 3 * 4 * non_empty());
}

BOOST_AUTO_TEST_CASE(cudnn_gives_what_the_cpu_gives) {
  const Exact exact(true);
  const bool built_with_it = has_cudnn();
  Generator generator(test_seed());
  const auto before = cuda::convolution_paths();
  for (const DType dtype : {kFloat32, kFloat64}) {
    for (const Case& c : cases()) compare_all_maps(c, dtype, generator);
  }
  const auto taken = paths_since(before);
  BOOST_TEST(taken.cudnn + taken.products == 3 * 2 * non_empty());
  if (built_with_it) BOOST_TEST(taken.cudnn > taken.products);
  if (built_with_it && is_emulated()) BOOST_TEST(taken.products == 0);
}

BOOST_AUTO_TEST_CASE(images_in_channels_last_order_are_convolved_as_they_lie_with_weights_in_either) {
  const auto last = [](const Tensor& x) { return raw::contiguous(x, MemoryFormat::channels_last); };
  for (const bool cudnn : {true, false}) {
    const Exact exact(cudnn);
    Generator generator(test_seed());
    const auto before = cuda::convolution_paths();
    for (const DType dtype : {kFloat32, kFloat64}) {  // float64 is more than the emulated cuDNN does in this order
      const double atol = dtype == kFloat32 ? 2e-5 : 1e-13;
      for (const Case& c : cases()) {
        if (numel_of(c.x) == 0 || numel_of(c.weight) == 0) continue;
        const Tensor x = last(noise(c.x, dtype, generator)), out = last(noise(c.out(), dtype, generator));
        for (const bool as_images : {true, false}) {
          const auto laid = [&](const Tensor& t) { return as_images ? last(t) : t; };
          const Tensor weight = laid(noise(c.weight, dtype, generator));
          BOOST_TEST_CONTEXT(c.name << ", " << dtype << (cudnn ? ", cuDNN" : ", products")) {
            compare_into(map_of(0, c.geometry), last(unwritten(c.out(), dtype)), {x, weight}, 0, atol);
            compare_into(map_of(1, c.geometry), last(unwritten(c.x, dtype)), {out, weight}, 0, atol);
            compare_into(map_of(2, c.geometry), laid(unwritten(c.weight, dtype)), {x, out}, 0, atol);
          }
        }
      }
    }
    const auto taken = paths_since(before);
    BOOST_TEST(taken.cudnn + taken.products == 3 * 2 * 2 * non_empty());
    if (!cudnn) BOOST_TEST(taken.cudnn == 0);
    if (cudnn && is_emulated() && has_cudnn()) BOOST_TEST(taken.products == 0);
  }
}

BOOST_AUTO_TEST_CASE(what_cudnn_refuses_is_computed_all_the_same) {
  const Exact exact(true);
  Generator generator(test_seed());
  const auto before = cuda::convolution_paths();
  for (const DType dtype : {kFloat16, kBFloat16}) {
    for (const Case& c : cases()) compare_half(c, dtype, generator);
  }
  const auto taken = paths_since(before);
  BOOST_TEST(taken.cudnn + taken.products == 3 * 2 * non_empty());
  if (has_cudnn()) BOOST_TEST(taken.cudnn > 0);
  if (is_emulated() && has_cudnn()) BOOST_TEST(taken.products == 3 * 2);  // dilated bfloat16
}

BOOST_AUTO_TEST_CASE(images_are_done_a_part_at_a_time_where_scratch_memory_is_short) {
  const Exact exact(false);
  Generator generator(test_seed());
  const Case c{"parts", {5, 4, 6, 6}, {6, 2, 3, 3}, {.padding = 1, .groups = 2}};
  const Tensor x = noise(c.x, kFloat32, generator), weight = noise(c.weight, kFloat32, generator),
               out = noise(c.out(), kFloat32, generator);
  constexpr int64_t kColumns = 18 * 36 * 4;  // bytes of one group of one image
  const auto by_products = [&](cuda::ConvMap map, int64_t scratch) {
    return [=, &c](const Tensor& result, const std::vector<Tensor>& operands) {
      if (result.device().is_cpu()) return map_of(static_cast<int>(map), c.geometry)(result, operands);
      const DeviceKernels here = kernels(result.device());  // makes the device current
      cuda::Conv conv{map, raw::view_of(operands[0]), raw::view_of(operands[1]), raw::view_of(result), c.geometry};
      if (map == cuda::ConvMap::data) conv.x = raw::view_of(result), conv.out = raw::view_of(operands[0]);
      if (map == cuda::ConvMap::filter) conv.weight = raw::view_of(result), conv.out = raw::view_of(operands[1]);
      cuda::convolve_by_products(conv, scratch);
    };
  };
  for (const int64_t scratch : {int64_t(1), 2 * kColumns, 3 * kColumns + 100, 5 * kColumns}) {
    compare_into(by_products(cuda::ConvMap::out, scratch), unwritten(c.out(), kFloat32), {x, weight}, 0, 2e-5);
    compare_into(by_products(cuda::ConvMap::data, scratch), unwritten(c.x, kFloat32), {out, weight}, 0, 2e-5);
    compare_into(by_products(cuda::ConvMap::filter, scratch), unwritten(c.weight, kFloat32), {x, out}, 0, 2e-5);
  }
}

BOOST_AUTO_TEST_CASE(tf32_is_used_unless_it_is_refused) {
  const bool at_first = cuda::convolution_tf32();
  cuda::set_convolution_tf32(true);
  const Tensor x = raw::full({1, 4, 3, 3}, 1 + 1.0 / 8192, kFloat32), weight = raw::full({2, 4, 1, 1}, 1, kFloat32);
  const auto result = [&] {
    const Tensor out = twin(unwritten({1, 2, 3, 3}, kFloat32));
    map_of(0, {})(out, twins({x, weight}));
    return raw::to(out, kCPU).to_vector<float>().front();
  };
  for (const bool cudnn : {true, false}) {
    const bool before = cuda::cudnn_enabled();
    cuda::set_cudnn(cudnn);
    const float loose = result();
    BOOST_TEST(std::abs(loose - 4) <= 4 * 2e-3F);
    if (is_emulated()) BOOST_TEST(loose == 4);
    cuda::set_convolution_tf32(false);
    BOOST_TEST(result() == 4 + 4.0F / 8192);
    cuda::set_convolution_tf32(true);
    cuda::set_cudnn(before);
  }
  cuda::set_convolution_tf32(at_first);
}

BOOST_AUTO_TEST_CASE(deterministic_convolutions_give_the_same_bits_every_time) {
  Generator generator(test_seed());
  const Case c{"", {7, 3, 6, 6}, {9, 3, 3, 3}, {.padding = 1}};
  const Tensor x = noise(c.x, kFloat32, generator), weight = noise(c.weight, kFloat32, generator),
               out = noise(c.out(), kFloat32, generator);
  for (const bool cudnn : {true, false}) {
    const Exact exact(cudnn, true);
    const auto same_bits = [&](int which, const Dims& sizes, const std::vector<Tensor>& operands) {
      std::vector<float> first;
      for (int run = 0; run < 4; ++run) {
        const Tensor result = twin(unwritten(sizes, kFloat32));
        map_of(which, c.geometry)(result, twins(operands));
        const std::vector<float> values = raw::to(result, kCPU).to_vector<float>();
        if (run == 0) first = values;
        BOOST_TEST((values == first), "run " << run << " of map " << which << (cudnn ? " by cuDNN" : " by products"));
      }
    };
    same_bits(0, c.out(), {x, weight});
    same_bits(1, c.x, {out, weight});
    same_bits(2, c.weight, {x, out});
  }
}

BOOST_AUTO_TEST_CASE(operands_at_any_address_reach_cudnn_where_it_can_have_them) {
  const Exact exact(true);
  Generator generator(test_seed());
  const Case& c = cases()[3];
  const Dims sizes[] = {c.out(), c.x, c.weight};
  /// A tensor of a device that starts one element after a multiple of 16 bytes.
  const auto shifted = [](const Tensor& x) {
    const Tensor all = raw::empty({x.numel() + 1}, x.dtype(), kGPU), view = raw::narrow(all, 0, 1, x.numel());
    raw::copy_(view, raw::view(x, {x.numel()}));
    return raw::view(view, x.sizes());
  };
  for (const DType dtype : {kFloat32, kFloat16}) {
    const Tensor x = noise(c.x, dtype, generator), weight = noise(c.weight, dtype, generator),
                 out = noise(c.out(), dtype, generator);
    const std::vector<Tensor> operands[] = {{x, weight}, {out, weight}, {x, out}};
    for (int which = 0; which < 3; ++which) {
      BOOST_TEST_CONTEXT(dtype << ", map " << which) {
        const std::vector<Tensor>& given = operands[which];
        const Tensor want = twin(unwritten(sizes[which], dtype)), got = shifted(unwritten(sizes[which], dtype));
        const int64_t by_cudnn = cuda::convolution_paths().cudnn;
        cuda::set_deterministic(true);
        map_of(which, c.geometry)(want, twins(given));
        map_of(which, c.geometry)(got, {shifted(given[0]), shifted(given[1])});
        cuda::set_deterministic(false);
        BOOST_TEST(cuda::convolution_paths().cudnn == by_cudnn + 2);
        check_close(raw::contiguous(got), want, 0, 0);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(integers_have_no_convolution) {
  const Tensor x = twin(raw::full({1, 1, 2, 2}, 1, kInt64));
  BOOST_CHECK_EXCEPTION(map_of(0, {})(x, {x, x}), DTypeError, says("conv2d", "no cuda kernel", "int64"));
}

BOOST_AUTO_TEST_CASE(gradients_of_a_layer_come_out_as_on_the_cpu) {
  Generator generator(test_seed());
  for (const bool cudnn : {true, false}) {
    const Exact exact(cudnn);
    const std::vector<Tensor> inputs = {noise({2, 4, 5, 5}, kFloat64, generator),
                                        noise({6, 2, 3, 3}, kFloat64, generator), noise({6}, kFloat64, generator)};
    for (const int wanted : {0, 1, 2}) {
      compare(
          [wanted](const std::vector<Tensor>& given) {
            const Tensor x = given[0].detach().requires_grad_(), weight = given[1].detach().requires_grad_(),
                         bias = given[2].detach().requires_grad_();
            const Tensor y = conv2d(x, weight, bias, {.stride = 2, .padding = 1, .groups = 2});
            y.backward(raw::full(y.sizes(), 0.5, kFloat64, y.device()));
            return wanted == 0 ? x.grad() : wanted == 1 ? weight.grad() : bias.grad();
          },
          inputs, 0, 1e-12);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

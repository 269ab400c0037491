// labels: cuda
// What the real cuDNN says of our graphs for a device of Hopper's, which need not be there: whether it would have a
// plan. It wants the driver's library, of which the toolkit has one that can be loaded anywhere and does nothing.
#include <dlfcn.h>

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "tendril/tensor/cuda/cudnn/graph.h"
#include "tendril/tensor/cuda/math_mode.h"
#include "tendril/tensor/cuda/runtime.h"
#include "tendril/tensor/dims.h"

using namespace tendril;
using namespace tendril::cuda;

namespace {

struct NeedsDriver {
  NeedsDriver() {
    if (::dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) || ::dlopen(TENDRIL_CUDA_STUB, RTLD_NOW | RTLD_GLOBAL)) return;
    std::cout << "suite skipped: neither a driver nor the toolkit's stub of it\n";
    std::exit(77);
  }
};
BOOST_TEST_GLOBAL_FIXTURE(NeedsDriver);

const AbsentDevice& h100() {
  static const AbsentDevice device = [] {
    std::ifstream file(TENDRIL_TEST_DATA "/h100.json");
    return AbsentDevice{{std::istreambuf_iterator<char>(file), {}}, 90};
  }();
  return device;
}

/// What is told of it: there are no elements.
struct Convolution {
  DType dtype;
  bool channels_last;
  Dims image, kernel;
  ConvGeometry geometry;

  std::string refusal(bool with_bias, bool relu) const {
    const ConvGeometry& g = geometry;
    const Dims result{image[0], kernel[0], window_count(image[2], kernel[2], g.stride.h, g.padding.h, g.dilation.h),
                      window_count(image[3], kernel[3], g.stride.w, g.padding.w, g.dilation.w)};
    const int64_t channels[] = {kernel[0]}, step[] = {1};
    const View bias{nullptr, channels, step, kernel[0], 1, dtype, true};
    const auto view = [&](const Dims& sizes) {
      return View{nullptr, sizes.data(), nullptr, numel_of(sizes), 4, dtype, !channels_last};
    };
    return why_not(Conv{ConvMap::out, view(image), view(kernel), view(result), g, channels_last},
                   with_bias ? &bias : nullptr, relu, h100());
  }
};

/// Layers of the examples' networks.
std::vector<Convolution> convolutions(DType dtype, bool channels_last) {
  return {{dtype, channels_last, {32, 64, 56, 56}, {64, 64, 3, 3}, {.padding = 1}},
          {dtype, channels_last, {32, 64, 56, 56}, {256, 64, 1, 1}, {}},
          {dtype, channels_last, {32, 128, 56, 56}, {128, 128, 3, 3}, {.stride = 2, .padding = 1}},
          {dtype, channels_last, {8, 16, 20, 20}, {32, 16, 5, 5}, {.padding = 4, .dilation = 2}}};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(graphs)

BOOST_AUTO_TEST_CASE(attention_has_a_plan_both_ways) {
  for (const DType dtype : {kFloat16, kBFloat16}) {
    for (const bool causal : {false, true}) {
      for (const int64_t width : {8, 32, 40, 64, 128, 256}) {
        for (const int64_t length : {1, 100, 512}) {
          for (const bool backward : {false, true}) {
            const AttentionGraph graph{{dtype, 24, length, 200, width, width}, causal, 0.125, backward};
            BOOST_TEST(why_not(graph, h100()) == "", dtype << (causal ? ", causal" : "")
                                                           << (backward ? ", backward" : "") << ", width " << width
                                                           << ", length " << length << ": " << why_not(graph, h100()));
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(attention_has_plans_that_are_deterministic) {
  set_deterministic(true);
  for (const bool backward : {false, true}) {
    for (const int64_t width : {16, 64, 128}) {
      const AttentionGraph graph{{kBFloat16, 24, 100, 100, width, width}, true, 0.125, backward};
      BOOST_TEST(why_not(graph, h100()) == "", why_not(graph, h100()));
    }
  }
  set_deterministic(false);
}

BOOST_AUTO_TEST_CASE(what_cudnn_does_not_serve_it_says) {
  BOOST_TEST(why_not(AttentionGraph{{kFloat16, 4, 64, 64, 12, 12}, false, 1, false}, h100()) != "");
  BOOST_TEST(why_not(AttentionGraph{{kFloat16, 4, 64, 64, 64, 64}, false, 1, false}, {"{}", 90}) != "");
}

BOOST_AUTO_TEST_CASE(convolutions_take_their_bias_and_their_relu_along) {
  for (const bool channels_last : {false, true}) {
    for (const DType dtype : {kFloat32, kFloat16, kBFloat16}) {
      for (const Convolution& convolution : convolutions(dtype, channels_last)) {
        for (const auto& [bias, relu] : {std::pair(false, false), std::pair(true, false), std::pair(true, true)}) {
          const std::string refusal = convolution.refusal(bias, relu);
          BOOST_TEST(refusal == "", dtype << ", " << convolution.image << " by " << convolution.kernel
                                          << (bias ? ", bias" : "") << (relu ? ", relu" : "") << ": " << refusal);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(without_tensor_cores_a_float32_convolution_alone_has_a_plan) {
  set_convolution_tf32(false);
  for (const Convolution& convolution : convolutions(kFloat32, false)) {
    const std::string refusal = convolution.refusal(false, false);
    BOOST_TEST(refusal == "", convolution.image << ": " << refusal);
  }
  set_convolution_tf32(true);
}

BOOST_AUTO_TEST_SUITE_END()

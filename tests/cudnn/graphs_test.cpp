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
    std::cout << "skipped: neither a driver nor the toolkit's stub of it\n";
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

/// How an operand's elements lie: each head's rows together; or as a linear layer gives them, [b, rows, h, columns]; or
/// as a part of query, key and value in one, [b, rows, 3, h, columns].
enum class Heads { outside, inside, of_three };

AttentionGraph::Strides strides_of(Heads order, int64_t heads, int64_t rows, int64_t columns) {
  if (order == Heads::outside) return {heads * rows * columns, rows * columns, columns};
  const int64_t row = (order == Heads::of_three ? 3 : 1) * heads * columns;
  return {rows * row, columns, row};
}

struct Attention {
  int64_t batch = 6, heads = 4, queries, keys, width;
  Heads order = Heads::outside;

  AttentionGraph graph(DType dtype, bool causal, bool backward) const {
    const Heads result = order == Heads::of_three ? Heads::inside : order;
    const auto of_queries = strides_of(order, heads, queries, width), of_keys = strides_of(order, heads, keys, width),
               of_result = strides_of(result, heads, queries, width);
    AttentionGraph made{dtype,  batch, heads,    queries,    keys,    width,   width,
                        causal, 0.125, backward, of_queries, of_keys, of_keys, of_result};
    if (!backward) return made;
    made.g = of_result;
    made.dquery = of_queries;
    made.dkey = made.dvalue = of_keys;
    return made;
  }
};

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
            const AttentionGraph graph =
                Attention{.queries = length, .keys = 200, .width = width}.graph(dtype, causal, backward);
            BOOST_TEST(why_not(graph, h100()) == "", dtype << (causal ? ", causal" : "")
                                                           << (backward ? ", backward" : "") << ", width " << width
                                                           << ", length " << length << ": " << why_not(graph, h100()));
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(attention_has_plans_for_heads_that_lie_as_a_linear_layer_gives_them) {
  for (const Heads order : {Heads::inside, Heads::of_three}) {
    for (const DType dtype : {kFloat16, kBFloat16}) {
      for (const bool causal : {false, true}) {
        for (const int64_t width : {8, 40, 64, 128}) {
          for (const int64_t keys : {100, 1024}) {
            for (const bool backward : {false, true}) {
              const Attention attention{.queries = 100, .keys = keys, .width = width, .order = order};
              const AttentionGraph graph = attention.graph(dtype, causal, backward);
              BOOST_TEST(why_not(graph, h100()) == "", dtype << (causal ? ", causal" : "")
                                                             << (backward ? ", backward" : "") << ", width " << width
                                                             << ", keys " << keys << ": " << why_not(graph, h100()));
            }
          }
        }
      }
    }
  }
  for (const bool backward : {false, true}) {  // a GPT's: 12 heads of 64, 8 of 1024 words
    const Attention gpt{.batch = 8, .heads = 12, .queries = 1024, .keys = 1024, .width = 64, .order = Heads::of_three};
    BOOST_TEST(why_not(gpt.graph(kBFloat16, true, backward), h100()) == "");
  }
}

BOOST_AUTO_TEST_CASE(attention_has_plans_that_are_deterministic) {
  set_deterministic(true);
  for (const Heads order : {Heads::outside, Heads::of_three}) {
    for (const bool backward : {false, true}) {
      for (const int64_t width : {16, 64, 128}) {
        const Attention attention{.queries = 100, .keys = 100, .width = width, .order = order};
        const AttentionGraph graph = attention.graph(kBFloat16, true, backward);
        BOOST_TEST(why_not(graph, h100()) == "", why_not(graph, h100()));
      }
    }
  }
  set_deterministic(false);
}

BOOST_AUTO_TEST_CASE(what_cudnn_does_not_serve_it_says) {
  const Attention narrow{.queries = 64, .keys = 64, .width = 12}, usual{.queries = 64, .keys = 64, .width = 64};
  BOOST_TEST(why_not(narrow.graph(kFloat16, false, false), h100()) != "");
  BOOST_TEST(why_not(usual.graph(kFloat16, false, false), {"{}", 90}) != "");
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

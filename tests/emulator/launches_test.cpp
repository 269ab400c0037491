// What operations ask of a device: as many launches as bench/cuda/roofline.tsv says for its rows, here of smaller
// shapes that go the same ways.
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <string>

#include "cuda_emulator/emulator.h"
#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/ops/attention.h"
#include "tendril/autograd/ops/conv.h"
#include "tendril/autograd/ops/embedding.h"
#include "tendril/autograd/ops/loss.h"
#include "tendril/autograd/ops/norm.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/autograd/ops/pool.h"
#include "tendril/autograd/ops/softmax.h"
#include "tendril/nn/lstm.h"
#include "tendril/tensor/creation.h"
#include "tendril/tensor/cuda/math_mode.h"
#include "tendril/tensor/cuda/runtime.h"
#include "tendril/tensor/raw.h"

BOOST_AUTO_TEST_SUITE(launches)

using namespace tendril;

namespace {

constexpr Device kThere{DeviceType::cuda, 0};

Tensor ones_of(const Dims& sizes, DType dtype = kFloat32) { return raw::ones(sizes, dtype, kThere); }
Tensor learning(const Dims& sizes) { return ones_of(sizes).requires_grad_(); }

/// Kernels, calls of libraries, fills and copies.
std::uint64_t asked() {
  const cuda_emulator::Counters now = cuda_emulator::counters();
  return now.launches + now.enqueued + now.fills + now.copies;
}

/// Of the second run: the first may make tables and gradients.
std::uint64_t launches_of(const std::function<void()>& work) {
  work();
  cuda::synchronize();
  const std::uint64_t before = asked();
  work();
  const std::uint64_t after = asked();
  cuda::synchronize();
  return after - before;
}

void train(const Tensor& out, const Tensor& g, const std::vector<Tensor>& inputs) {
  g.defined() ? out.backward(g) : out.backward();
  for (Tensor input : inputs) input.set_grad({});
}

std::map<std::string, std::uint64_t> expected() {
  const std::filesystem::path here = TENDRIL_TEST_DATA;  // (which need not be there)
  std::ifstream file((here / "../../../bench/cuda/roofline.tsv").lexically_normal());
  std::map<std::string, std::uint64_t> rows;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    rows[line.substr(0, line.find('\t'))] = std::stoull(line.substr(line.rfind('\t') + 1));
  }
  return rows;
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_row_of_the_roofline_launches_what_it_says) {
  std::map<std::string, std::function<void()>> rows;
  const Tensor a = ones_of({64 << 10}), b = ones_of({64 << 10});
  rows["copy of 64 MiB (memcpy, the limit)"] = [&] {
    cuda::copy_async(b.raw_data(), kThere, a.raw_data(), kThere, 4 * (64 << 10));
  };
  for (const char* size : {"16M", "64K", "256K"}) {
    rows[std::string("add ") + size] = [&] { (void)(a + b); };
    rows[std::string("exp ") + size] = [&] { (void)a.exp(); };
    rows[std::string("sum ") + size] = [&] { (void)a.sum(); };
  }
  const Tensor x = ones_of({4096, 16}), y = ones_of({16, 4096}), bias = ones_of({16}), tall = ones_of({4096, 32});
  rows["bias add 4096x1024"] = [&] { (void)(x + bias); };
  rows["add transposed 4096x1024"] = [&] { (void)(x + y.t()); };
  rows["transposed copy 4096x1024"] = [&] { (void)x.t().contiguous(); };
  rows["column sums 4096x1024"] = [&] { (void)tall.sum(Dims{0}); };
  rows["row sums 4096x1024"] = [&] { (void)x.sum(Dims{1}); };
  rows["argmax of rows 4096x1024"] = [&] { (void)x.argmax(1); };
  rows["row maxima 4096x1024"] = [&] { (void)x.max(1); };
  const Tensor long_rows = ones_of({2, 10000});
  rows["softmax 1024x10000"] = [&] { (void)long_rows.softmax(1); };
  const Tensor logits = ones_of({7, 10000}).requires_grad_(), target = raw::zeros({7}, kInt64, kThere);
  rows["cross entropy 700x10000 fwd+bwd"] = [&] { train(cross_entropy(logits, target), {}, {logits}); };
  const Tensor image = learning({2, 4, 8, 8}), g = ones_of({2, 4, 8, 8});
  rows["ReLU 8x256x56x56 fwd+bwd"] = [&] { train(image.relu(), g, {image}); };
  const Tensor weight = learning({4}), shift = learning({4}), mean = ones_of({4}), var = ones_of({4});
  rows["batch norm 8x256x56x56 fwd+bwd"] = [&] {
    train(batch_norm(image, mean, var, weight, shift, true), g, {image, weight, shift});
  };
  const Tensor pooled = ones_of({2, 4, 4, 4});
  rows["max pool 8x64x112x112 fwd+bwd"] = [&] {
    train(max_pool2d(image, 3, {.stride = 2, .padding = 1}), pooled, {image});
  };
  const Tensor filter = learning({4, 4, 3, 3});
  rows["3x3 convolution 8x64x56x56 fwd+bwd"] = [&] {
    train(conv2d(image, filter, {}, {.padding = 1}), g, {image, filter});
  };
  const Tensor table = learning({100, 20}), index = raw::zeros({7}, kInt64, kThere), of_rows = ones_of({7, 20});
  rows["embedding 10000x200 of 700 fwd+bwd"] = [&] { train(embedding(index, table), of_rows, {table}); };
  nn::LSTM lstm(8, 8, {.num_layers = 2, .device = kThere});
  const Tensor steps = ones_of({3, 2, 8}), of_steps = ones_of({3, 2, 8});
  rows["LSTM 200x2, 35 steps of 20, fwd+bwd"] = [&] { train(lstm(steps).output, of_steps, lstm.parameters()); };
  const Tensor left = ones_of({4, 8, 16}), right = ones_of({4, 16, 8}), square = ones_of({32, 32});
  rows["bmm 64x128x64x128"] = [&] { (void)left.matmul(right); };
  rows["matmul 1024"] = [&] { (void)square.matmul(square); };
  const Tensor half = a.to(kBFloat16), whole = a.to(kFloat16), half_square = square.to(kBFloat16),
               whole_square = square.to(kFloat16);
  rows["add 16M bfloat16"] = [&] { (void)(half + half); };
  rows["add 16M float16"] = [&] { (void)(whole + whole); };
  rows["sum 16M bfloat16"] = [&] { (void)half.sum(); };
  rows["sum 16M float16"] = [&] { (void)whole.sum(); };
  rows["matmul 1024 bfloat16"] = [&] { (void)half_square.matmul(half_square); };
  rows["matmul 1024 float16"] = [&] { (void)whole_square.matmul(whole_square); };
  const Tensor q = learning({1, 2, 16, 8}), k = learning({1, 2, 16, 8}), v = learning({1, 2, 16, 8}),
               of_attention = ones_of({1, 2, 16, 8});
  for (const bool causal : {false, true}) {
    const std::string name = std::string(causal ? "causal " : "") + "attention 8x1024x64 fwd";
    const auto forward = [&, causal] { return scaled_dot_product_attention(q, k, v, {.is_causal = causal}); };
    rows[name] = [forward] { (void)forward(); };
    rows[name + "+bwd"] = [&, forward] { train(forward(), of_attention, {q, k, v}); };
  }

  auto wanted = expected();
  rows["3x3 convolution 8x64x56x56 fwd+bwd"]();
  if (cuda::convolution_paths().cudnn == 0) {  // a build without cuDNN goes another way
    for (const char* name : {"3x3 convolution 8x64x56x56 fwd+bwd", "LSTM 200x2, 35 steps of 20, fwd+bwd"}) {
      rows.erase(name);
      wanted.erase(name);
    }
  }
  BOOST_TEST_REQUIRE(wanted.size() > 30);
  for (const auto& [name, launches] : wanted) BOOST_TEST(rows.count(name) == 1, "no case here for the row " << name);
  for (const auto& [name, work] : rows) {
    BOOST_TEST_CONTEXT(name) {
      BOOST_TEST_REQUIRE(wanted.count(name) == 1);
      BOOST_TEST(launches_of(work) == wanted.at(name));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_batch_norm_with_a_sum_and_a_relu_is_two_launches_each_way) {
  const Tensor x = learning({2, 4, 8, 8}), residual = learning({2, 4, 8, 8}), g = ones_of({2, 4, 8, 8});
  const Tensor weight = learning({4}), bias = learning({4}), mean = ones_of({4}), var = ones_of({4});
  const auto forward = [&] {
    return batch_norm_relu(x, {}, {}, weight, bias, {.residual = residual, .training = true});
  };
  BOOST_TEST(launches_of([&] { (void)forward(); }) == 2U);
  BOOST_TEST(launches_of([&] { train(forward(), g, {x, residual, weight, bias}); }) == 4U);
  // what the running statistics learn is in them
  BOOST_TEST(launches_of([&] {
               (void)batch_norm_relu(x, mean, var, weight, bias, {.residual = residual, .training = true});
             }) == 2U);

  // and in channels-last order, where threads have several channels
  const auto last = [] { return raw::permute(ones_of({2, 8, 8, 16}), {0, 3, 1, 2}).requires_grad_(); };
  const Tensor pixels = last(), more = last(), of_pixels = raw::permute(ones_of({2, 8, 8, 16}), {0, 3, 1, 2});
  const Tensor scale = learning({16}), shift = learning({16});
  BOOST_TEST(launches_of([&] {
               train(batch_norm_relu(pixels, {}, {}, scale, shift, {.residual = more, .training = true}), of_pixels,
                     {pixels, more, scale, shift});
             }) == 4U);
}

BOOST_AUTO_TEST_SUITE_END()

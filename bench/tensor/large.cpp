// Operations on large operands: one line a case, "case <tab> milliseconds <tab> MiB that it must read and write", the
// median of several runs, or the least, for a machine that others use.
// bench_tensor [--threads N, else 1] [--only TEXT] [--deterministic 1] [--least 1] [--device cuda]; bench/tensor.sh
// puts PyTorch beside it. On a device, times are between events, of ten runs at once.
#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "bench/cuda/timing.h"
#include "bench/flags.h"
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
#include "tendril/tensor/deterministic.h"
#include "tendril/tensor/tensor.h"
#include "tendril/tensor/threads.h"

using namespace tendril;

namespace {

using Clock = std::chrono::steady_clock;

bench::Only only;
bool least = false;

/// `mib`: what must be read and written at least, or 0 where arithmetic decides.
void measure(const char* name, double mib, const std::function<void()>& f) {
  if (!only.is_part_of(name)) return;
  if (default_device() != kCPU) {
    std::printf("%s\t%.4f\t%.1f\n", name, bench::median_ms(f), mib);
    std::fflush(stdout);
    return;
  }
  std::vector<double> times;
  const auto end = Clock::now() + std::chrono::milliseconds(400);
  for (int run = 0; run < 3 || Clock::now() < end; ++run) {
    const auto start = Clock::now();
    f();
    if (run > 0) times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
  }
  const std::size_t chosen = least ? 0 : times.size() / 2;
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(chosen), times.end());
  std::printf("%s\t%.4f\t%.1f\n", name, times[chosen], mib);
  std::fflush(stdout);
}

#if defined(__x86_64__)
/// `count` multiply-adds of 96 numbers in registers. As many as products have under way: what the cores can do at that
/// moment, two of which may be one core's two threads.
[[gnu::target("avx2,fma")]] float multiply_add(int64_t count) {
  typedef float Vector __attribute__((vector_size(32)));
  Vector sums[12] = {};
  Vector scale = {1, 1, 1, 1, 1, 1, 1, 1};
  asm("" : "+x"(scale));  // not known to be 1: a multiplication would be left out
  for (Vector& sum : sums) sum += scale;
  for (int64_t i = 0; i < count; ++i) {
#pragma GCC unroll 12
    for (Vector& sum : sums) sum = sum * scale + scale;
  }
  float total = 0;
  for (const Vector& sum : sums) total += sum[0];
  return total;
}
#endif

/// The limits: plain loops over memory, each thread its part; the calling thread is one of them.
class Loops {
 public:
  explicit Loops(int threads) : start_(threads), end_(threads) {
    for (int i = 1; i < threads; ++i) {
      others_.emplace_back([this, i] {
        for (;;) {
          start_.arrive_and_wait();
          if (!part_) return;
          part_(static_cast<std::size_t>(i));
          end_.arrive_and_wait();
        }
      });
    }
  }
  ~Loops() {
    part_ = nullptr;
    start_.arrive_and_wait();
    for (std::thread& other : others_) other.join();
  }
  void copy(std::vector<float>& to, const std::vector<float>& from) {
    const std::size_t share = from.size() / (others_.size() + 1);
    run([&](std::size_t i) { std::memcpy(&to[i * share], &from[i * share], share * sizeof(float)); });
  }
  /// At eight places at once: one has too few lines on their way from memory.
  void read(const std::vector<float>& from, std::size_t bytes) {
    constexpr std::size_t kPlaces = 8, kLine = 8;
    const std::size_t apart = bytes / sizeof(uint64_t) / (others_.size() + 1) / kPlaces;
    run([&, data = reinterpret_cast<const uint64_t*>(from.data())](std::size_t i) {
      const uint64_t* const part = data + i * kPlaces * apart;
      uint64_t sums[kLine] = {};
      for (std::size_t at = 0; at + kLine <= apart; at += kLine) {
        for (std::size_t place = 0; place < kPlaces; ++place) {
          for (std::size_t k = 0; k < kLine; ++k) sums[k] += part[place * apart + at + k];
        }
      }
      for (const uint64_t sum : sums) seen_ += sum;
    });
  }
  /// 2 GFLOP of multiply-adds, each thread its part.
  void multiply() {
#if defined(__x86_64__)
    const int64_t count = 2'000'000'000 / (2 * 96) / static_cast<int64_t>(others_.size() + 1);
    run([&](std::size_t) { seen_ += static_cast<uint64_t>(multiply_add(count) > 0); });
#endif
  }

 private:
  void run(std::function<void(std::size_t)> part) {
    part_ = std::move(part);
    start_.arrive_and_wait();
    part_(0);
    end_.arrive_and_wait();
  }

  std::barrier<> start_, end_;
  std::function<void(std::size_t)> part_;
  std::atomic<uint64_t> seen_{0};  // so that the loop is not left out
  std::vector<std::thread> others_;
};

/// Forward and backward, with gradients for `inputs`.
void train(const std::function<Tensor()>& forward, const Tensor& g, const std::vector<Tensor>& inputs) {
  const Tensor out = forward();
  if (g.defined()) {
    out.backward(g);
  } else {
    out.backward();
  }
  for (const Tensor& input : inputs) input.set_grad({});
}

void measure_loops() {
  std::vector<float> from(16 << 20, 1), to(16 << 20, 2);
  Loops loops(num_threads());
  measure("copy of 64 MiB (memcpy, the limit)", 128, [&] { loops.copy(to, from); });
  measure("read of 64 MiB (a plain loop, the limit)", 64, [&] { loops.read(from, 64 << 20); });
  measure("read of 16 MiB (a plain loop, the limit)", 16, [&] { loops.read(from, 16 << 20); });
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    measure("2 GFLOP of multiply-adds (a plain loop, the limit)", 0, [&] { loops.multiply(); });
#endif
}

void measure_all() {
  const TensorOptions learns{.requires_grad = true};
  {
    const Tensor a = randn({16 << 20}), b = randn({16 << 20});
    default_device() == kCPU ? measure_loops() : measure("copy of 64 MiB (memcpy, the limit)", 128, [&] {
      cuda::copy_async(b.raw_data(), b.device(), a.raw_data(), a.device(), 64 << 20);
    });
    measure("add 16M", 192, [&] { (void)(a + b); });
    measure("exp 16M", 128, [&] { (void)a.exp(); });
    measure("sum 16M", 64, [&] { (void)a.sum(); });
  }
  for (const int64_t kilo : {64, 256}) {  // about where a second thread begins to pay
    const Tensor a = randn({kilo << 10}), b = randn({kilo << 10});
    const auto name = [&](const char* op) { return std::string(op) + " " + std::to_string(kilo) + "K"; };
    const double mib = static_cast<double>(kilo) / 256;
    measure(name("add").c_str(), 3 * mib, [&] { (void)(a + b); });
    measure(name("exp").c_str(), 2 * mib, [&] { (void)a.exp(); });
    measure(name("sum").c_str(), mib, [&] { (void)a.sum(); });
  }
  {
    const Tensor x = randn({4096, 1024}), bias = randn({1024}), y = randn({1024, 4096});
    measure("bias add 4096x1024", 32, [&] { (void)(x + bias); });
    measure("add transposed 4096x1024", 48, [&] { (void)(x + y.t()); });
    measure("transposed copy 4096x1024", 32, [&] { (void)x.t().contiguous(); });
    measure("column sums 4096x1024", 16, [&] { (void)x.sum(Dims{0}); });
    measure("row sums 4096x1024", 16, [&] { (void)x.sum(Dims{1}); });
    measure("argmax of rows 4096x1024", 16, [&] { (void)x.argmax(1); });
    measure("row maxima 4096x1024", 16, [&] { (void)x.max(1); });
  }
  {
    const Tensor x = randn({1024, 10000});
    measure("softmax 1024x10000", 78.1, [&] { (void)x.softmax(1); });
  }
  {
    const Tensor logits = randn({700, 10000}, learns), target = randint(0, 10000, {700});
    measure("cross entropy 700x10000 fwd+bwd", 80.1,
            [&] { train([&] { return cross_entropy(logits, target); }, {}, {logits}); });
  }
  {
    const Tensor x = randn({8, 256, 56, 56}, learns), g = randn({8, 256, 56, 56});
    measure("ReLU 8x256x56x56 fwd+bwd", 122.5, [&] { train([&] { return x.relu(); }, g, {x}); });
    const Tensor weight = ones({256}, learns), bias = zeros({256}, learns), mean = zeros({256}), var = ones({256});
    measure("batch norm 8x256x56x56 fwd+bwd", 196, [&] {
      train([&] { return batch_norm(x, mean, var, weight, bias, true); }, g, {x, weight, bias});
    });
  }
  {
    const Tensor x = randn({8, 64, 112, 112}, learns), g = randn({8, 64, 56, 56});
    measure("max pool 8x64x112x112 fwd+bwd", 79,
            [&] { train([&] { return max_pool2d(x, 3, {.stride = 2, .padding = 1}); }, g, {x}); });
  }
  {
    const Tensor x = randn({8, 64, 56, 56}, learns), w = randn({64, 64, 3, 3}, learns), g = randn({8, 64, 56, 56});
    measure("3x3 convolution 8x64x56x56 fwd+bwd", 0, [&] {
      train([&] { return conv2d(x, w, {}, {.padding = 1}); }, g, {x, w});
    });
  }
  {
    const Tensor weight = randn({10000, 200}, learns), index = randint(0, 10000, {700}), g = randn({700, 200});
    measure("embedding 10000x200 of 700 fwd+bwd", 9.7,
            [&] { train([&] { return embedding(index, weight); }, g, {weight}); });
  }
  {
    nn::LSTM lstm(200, 200, {.num_layers = 2});
    const Tensor x = randn({35, 20, 200}), g = randn({35, 20, 200});
    measure("LSTM 200x2, 35 steps of 20, fwd+bwd", 0,
            [&] { train([&] { return lstm(x).output; }, g, lstm.parameters()); });
  }
  {
    const Tensor a = randn({64, 128, 64}), b = randn({64, 64, 128});
    measure("bmm 64x128x64x128", 0, [&] { (void)a.matmul(b); });
  }
  {
    const Tensor a = randn({1024, 1024}), b = randn({1024, 1024});
    measure("matmul 1024", 0, [&] { (void)a.matmul(b); });
  }
  for (const DType half : {kBFloat16, kFloat16}) {
    const auto name = [&](const char* op) { return std::string(op) + " " + name_of(half); };
    const Tensor x = randn({16 << 20}).to(half), a = randn({1024, 1024}).to(half), b = randn({1024, 1024}).to(half);
    measure(name("add 16M").c_str(), 64, [&] { (void)(x + x); });
    measure(name("sum 16M").c_str(), 32, [&] { (void)x.sum(); });
    measure(name("matmul 1024").c_str(), 0, [&] { (void)a.matmul(b); });
  }
  {
    const Tensor q = randn({1, 8, 1024, 64}, learns), k = randn({1, 8, 1024, 64}, learns),
                 v = randn({1, 8, 1024, 64}, learns), g = randn({1, 8, 1024, 64});
    for (const bool causal : {false, true}) {
      const AttentionOptions options{.is_causal = causal};
      const auto forward = [&] { return scaled_dot_product_attention(q, k, v, options); };
      measure(causal ? "causal attention 8x1024x64 fwd" : "attention 8x1024x64 fwd", 0, [&] { (void)forward(); });
      measure(causal ? "causal attention 8x1024x64 fwd+bwd" : "attention 8x1024x64 fwd+bwd", 0, [&] {
        train(forward, g, {q, k, v});
      });
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::string device = "cpu";
  bool deterministic = false;
  CLI::App app("Operations on large operands");
  bench::add_threads(app);
  only.add_to(app, "cases whose names have this in them");
  app.add_option("--least", least, "The least time instead of the median");
  app.add_option("--device", device, "cpu, cuda or cuda:N");
  app.add_option("--deterministic", deterministic, "set_deterministic");
  CLI11_PARSE(app, argc, argv);
  set_default_device(parse_device(device));
  set_deterministic(deterministic);
  measure_all();
  return only.status();
}

#include "tendril/tensor/cuda/math_mode.h"

#include <atomic>
#include <cstdlib>
#include <string_view>

namespace tendril::cuda {
namespace {

std::atomic<bool> tf32_products{false}, tf32_convolutions{true}, use_cudnn{true}, time_all{false};
std::atomic<int64_t> by_cudnn{0}, by_products{0}, lstm_layers{0}, fused_linear{0}, separate_linear{0},
    activated_linear{0}, attentions{0}, graphs{0};

std::atomic<bool>& strictly() noexcept {
  static std::atomic<bool> flag{[] {
    const char* const wanted = std::getenv("TENDRIL_CUDA_STRICT");
    return wanted && std::string_view(wanted) == "1";
  }()};
  return flag;
}

constexpr auto kRelaxed = std::memory_order_relaxed;  // a setting orders nothing but itself

}  // namespace

void set_matmul_tf32(bool allow) noexcept { tf32_products.store(allow, kRelaxed); }
bool matmul_tf32() noexcept { return tf32_products.load(kRelaxed); }
void set_convolution_tf32(bool allow) noexcept { tf32_convolutions.store(allow, kRelaxed); }
bool convolution_tf32() noexcept { return tf32_convolutions.load(kRelaxed); }
void set_cudnn(bool use) noexcept { use_cudnn.store(use, kRelaxed); }
bool cudnn_enabled() noexcept { return use_cudnn.load(kRelaxed); }

void set_time_plans(bool on) noexcept { time_all.store(on, kRelaxed); }
bool time_plans() noexcept { return time_all.load(kRelaxed); }

void set_strict(bool on) noexcept { strictly().store(on, kRelaxed); }
bool strict() noexcept { return strictly().load(kRelaxed); }

ConvolutionPaths convolution_paths() noexcept {
  return {by_cudnn.load(kRelaxed), by_products.load(kRelaxed), graphs.load(kRelaxed)};
}
void detail::count_convolution(bool cudnn, bool graph) noexcept {
  (cudnn ? by_cudnn : by_products).fetch_add(1, kRelaxed);
  if (graph) graphs.fetch_add(1, kRelaxed);
}

LinearPaths linear_paths() noexcept {
  return {fused_linear.load(kRelaxed), separate_linear.load(kRelaxed), activated_linear.load(kRelaxed)};
}
void detail::count_linear(bool fused, bool activated) noexcept {
  (fused ? fused_linear : separate_linear).fetch_add(1, kRelaxed);
  if (activated) activated_linear.fetch_add(1, kRelaxed);
}

int64_t attentions_by_cudnn() noexcept { return attentions.load(kRelaxed); }
void detail::count_attention() noexcept { attentions.fetch_add(1, kRelaxed); }

int64_t lstm_layers_by_cudnn() noexcept { return lstm_layers.load(kRelaxed); }
void detail::count_lstm_layer() noexcept { lstm_layers.fetch_add(1, kRelaxed); }

}  // namespace tendril::cuda

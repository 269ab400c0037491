#pragma once

#include <cstdint>

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

/// How CUDA devices compute products and convolutions: settings of the process, readable and writable from any thread,
/// that hold for what is issued from then on. They may be set in any build and on any machine.
namespace tendril::cuda {

/// Whether float32 products may round their operands to TF32 (8 bits of exponent, 10 of fraction) for the sake of
/// tensor cores, which are several times faster; sums stay float32. Devices before Ampere do not know it.
/// As in PyTorch, off for matrix products and on for convolutions (and LSTM layers, where cuDNN does them) at first.
void set_matmul_tf32(bool allow) noexcept;
bool matmul_tf32() noexcept;
void set_convolution_tf32(bool allow) noexcept;
bool convolution_tf32() noexcept;

/// Off: convolutions are arranged as matrix products by kernels of our own and LSTM layers go step by step, as they do
/// where cuDNN was not found when the library was built, and for what cuDNN refuses. On at first.
void set_cudnn(bool use) noexcept;
bool cudnn_enabled() noexcept;

/// On: the first convolution of each shape that goes to cuDNN as a graph (forward, of one group, of float32 and the
/// half types) tries up to eight plans, waits for them, and keeps the fastest, in place of cuDNN's own estimate; so a
/// program need not do the same arithmetic whenever it runs. Off at first. Needs a build with NVIDIA's cudnn-frontend.
void set_time_plans(bool on) noexcept;
bool time_plans() noexcept;

/// What cuDNN says it does not support goes another way in silence. Anything else that it refuses is a mistake in how
/// it was called, or a device that fails: it is said on the error output, once a call and status, and the other way is
/// taken; on, it is thrown as an Error. Off at first, unless the environment variable TENDRIL_CUDA_STRICT is 1; tests
/// and scripts/gpu_check.sh turn it on.
void set_strict(bool on) noexcept;
bool strict() noexcept;

/// How many convolutions (forward and backward maps) went which way since the start of the process.
struct ConvolutionPaths {
  int64_t cudnn = 0;
  int64_t products = 0;  ///< our own
  int64_t graphs = 0;    ///< of cudnn: as graphs
};
ConvolutionPaths convolution_paths() noexcept;

/// How many attentions (forward) cuDNN has done since the start of the process.
int64_t attentions_by_cudnn() noexcept;

/// How many LSTM layers (forward) cuDNN has done since the start of the process.
int64_t lstm_layers_by_cudnn() noexcept;

/// How many linear layers (forward, with a bias or an activation, floating) went which way since the start of the
/// process.
struct LinearPaths {
  int64_t fused = 0;      ///< one call of cuBLASLt, which adds the bias to its sums
  int64_t separate = 0;   ///< a product, then kernels of ours
  int64_t activated = 0;  ///< of fused: with the activation in that call
};
LinearPaths linear_paths() noexcept;

namespace detail {
void count_linear(bool fused, bool activated) noexcept;
void count_attention() noexcept;
void count_convolution(bool cudnn, bool graph = false) noexcept;
void count_lstm_layer() noexcept;
}  // namespace detail

}  // namespace tendril::cuda

TENDRIL_API_END

#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "tendril/autograd/ops/loss.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

namespace tendril {

struct CtcLossOptions {
  int64_t blank = 0;  ///< the class that stands for nothing
  LossReduction reduction = LossReduction::mean;
  bool zero_infinity = false;  ///< 0 in place of the infinite loss of a target that does not fit its input
};

/// Connectionist temporal classification (Graves et al., "Connectionist Temporal Classification: Labelling
/// Unsegmented Sequence Data with Recurrent Neural Networks", 2006): -log of the probability that the classes of
/// input_lengths[n] steps, of which repetitions and then blanks are taken away, are target n. Computed in logarithms,
/// by the paper's forward and backward variables.
///
/// log_probs is [T, N, C] (or [T, C], without a batch), logarithms of probabilities, floating; targets are int64 or
/// int32, [N, S] with what is behind each length unread, or [sum of target_lengths] one after the other (without a
/// batch [S]). `mean` divides each loss by its target's length (at least 1) and takes the batch's mean, as PyTorch's;
/// `none` gives [N]. A target that cannot fit has an infinite loss, of which no gradient comes.
///
/// Twice differentiable in log_probs, on every device. On the CPU one pass forward, which keeps [N, T, 2 S + 1]
/// numbers, and one back, a sequence on a thread; made of other operations, some ten for each step, on other devices
/// and under create_graph. The gradient is the derivative itself: PyTorch's has e^log_probs added, which the gradient
/// of log_softmax takes away again.
///
/// Throws ShapeError, DTypeError, Error for lengths that are negative or exceed what there is, IndexError for a blank
/// or a target that is no class, or a target that is the blank.
Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const std::vector<int64_t>& input_lengths,
                const std::vector<int64_t>& target_lengths, const CtcLossOptions& options = {});
/// ... with lengths int64 or int32 [N], or [] without a batch.
Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, const CtcLossOptions& options = {});

/// ... with lengths in braces, of which {0} alone could be either.
inline Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, std::initializer_list<int64_t> input_lengths,
                       std::initializer_list<int64_t> target_lengths, const CtcLossOptions& options = {}) {
  return ctc_loss(log_probs, targets, std::vector(input_lengths), std::vector(target_lengths), options);
}

}  // namespace tendril

TENDRIL_API_END

#pragma once

#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

/// Batches of sequences of different lengths, as torch.nn.utils.rnn's: packed, they hold no padding, and a recurrent
/// layer computes each to its own end.
///
///     const auto packed = nn::utils::pack_padded_sequence(x, {5, 3, 2});
///     const auto [output, state] = lstm(packed);
///     const auto [padded, lengths] = nn::utils::pad_packed_sequence(output);
namespace tendril::nn::utils {

/// Sequences step by step: first the elements of step 0 of all of them, the longest first, then those of step 1, ...
/// Made by the functions below.
struct PackedSequence {
  Tensor data = {};  ///< [sum of the lengths, ...]
  std::vector<int64_t> batch_sizes =
      {};                        ///< how many sequences have a step 0, a step 1, ...: none above the one before
  Tensor sorted_indices = {};    ///< int64 [batch]: which sequence is first, second, ...; undefined: as they were given
  Tensor unsorted_indices = {};  ///< int64 [batch]: where each of them is

  /// Throws Error unless the parts fit each other: batch sizes that are positive, do not grow and make up data's rows,
  /// and indices that are both undefined or of as many.
  void check(const char* op) const;

  template <class Self, class F>
  static void for_each_tensor(Self& self, const F& f) {
    f(self.data);
  }
};

struct PackOptions {
  bool batch_first = false;    ///< the input is [batch, steps, ...]
  bool enforce_sorted = true;  ///< lengths must not grow; without, they are sorted here
};

/// Packs input [steps, batch, ...], of which `lengths` says how many steps of each sequence count. Differentiable.
/// Throws Error for lengths that are not positive, exceed the steps or grow under enforce_sorted, ShapeError unless
/// there is one for each sequence.
PackedSequence pack_padded_sequence(const Tensor& input, const std::vector<int64_t>& lengths,
                                    const PackOptions& options = {});
/// ... with lengths int64 [batch].
PackedSequence pack_padded_sequence(const Tensor& input, const Tensor& lengths, const PackOptions& options = {});

struct PadOptions {
  bool batch_first = false;                  ///< the result is [batch, steps, ...]
  Scalar padding_value = 0;                  ///< what fills up the shorter ones
  std::optional<int64_t> total_length = {};  ///< steps of the result; default the longest's (of pad_packed_sequence)
};

/// The inverse: [steps, batch, ...] in the order in which the sequences were given, and their lengths (int64 [batch],
/// on the CPU). Differentiable. Throws Error where total_length is below the longest's, and as PackedSequence::check.
std::tuple<Tensor, Tensor> pad_packed_sequence(const PackedSequence& sequence, const PadOptions& options = {});

/// Sequences [length, ...] beside each other, [longest, batch, ...]. ShapeError for sizes that differ otherwise, Error
/// for none.
Tensor pad_sequence(const std::vector<Tensor>& sequences, const PadOptions& options = {});
/// pack_padded_sequence of pad_sequence.
PackedSequence pack_sequence(const std::vector<Tensor>& sequences, bool enforce_sorted = true);
/// The sequences [length, ...] of a packed one, in the order in which they were given.
std::vector<Tensor> unpack_sequence(const PackedSequence& sequence);

}  // namespace tendril::nn::utils

TENDRIL_API_END

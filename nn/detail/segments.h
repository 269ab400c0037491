#pragma once

#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "tendril/nn/utils/rnn.h"
#include "tendril/tensor/tensor.h"

/// How recurrent layers walk over sequences of different lengths: in segments, runs of steps that all the same
/// sequences have. Within one a layer is what it is for a batch of one length.
namespace tendril::nn::detail {

/// [steps, sequences, ...] each, of fewer and fewer sequences.
using Segments = std::vector<Tensor>;
/// What a layer carries from step to step, [sequences, ...] each (an LSTM's h and c); undefined: zeros.
using States = std::vector<Tensor>;

Segments segments_of(const utils::PackedSequence& sequence);
/// The packed elements of segments.
Tensor packed(const Segments& segments);

/// One direction of a layer over all segments. `layer(x, states)` gives the outputs of a segment and the states after
/// it. Gives the outputs, and the states after each sequence's own last step.
template <class Layer>
std::pair<Segments, States> walk(const Segments& segments, const States& start, bool reverse, const Layer& layer);

// ---- the parts of a walk that do not depend on the layer

/// Of each state the rows of the first `count` sequences.
States first_rows(const States& states, int64_t count);
/// In reverse: the states of the sequences so far, and below them the first ones of those that begin now.
States joined_by(const States& states, const States& start, int64_t count, const Tensor& like);
/// The rows from `from` on.
States later_rows(const States& states, int64_t from);
/// Each state's parts, the last of which is of the first sequences.
States together(const std::vector<States>& parts);

template <class Layer>
std::pair<Segments, States> walk(const Segments& segments, const States& start, bool reverse, const Layer& layer) {
  Segments outputs(segments.size());
  States states = start;
  std::vector<States> ended;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const std::size_t at = reverse ? segments.size() - 1 - i : i;
    const int64_t count = segments[at].size(1);
    if (reverse) {
      states = i == 0 ? first_rows(start, count) : joined_by(states, start, count, segments[at]);
    } else {
      states = first_rows(states, count);
    }
    std::tie(outputs[at], states) = layer(segments[at], states);
    const int64_t going_on = at + 1 < segments.size() ? segments[at + 1].size(1) : 0;
    if (!reverse) ended.push_back(later_rows(states, going_on));
  }
  return {std::move(outputs), reverse ? states : together(ended)};
}

}  // namespace tendril::nn::detail

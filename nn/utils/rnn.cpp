#include "tendril/nn/utils/rnn.h"

#include <algorithm>
#include <numeric>

#include "tendril/autograd/ops/join.h"
#include "tendril/autograd/ops/rearrange.h"
#include "tendril/nn/detail/segments.h"
#include "tendril/tensor/raw.h"

namespace tendril::nn::utils {

namespace {

/// Calls f(first step, steps, sequences) for each run of equal batch sizes.
template <class F>
void for_each_segment(const std::vector<int64_t>& batch_sizes, const F& f) {
  for (std::size_t begin = 0, end = 0; begin < batch_sizes.size(); begin = end) {
    while (end < batch_sizes.size() && batch_sizes[end] == batch_sizes[begin]) ++end;
    f(static_cast<int64_t>(begin), static_cast<int64_t>(end - begin), batch_sizes[begin]);
  }
}

Tensor indices(const std::vector<int64_t>& values, Device device) {
  return raw::to(raw::from_data(values, {static_cast<int64_t>(values.size())}), device);
}

/// `f` of the largest to the smallest size: the sizes of one dimension of x after the first `skip`.
Dims sizes_after(const Tensor& x, int skip, std::initializer_list<int64_t> before) {
  Dims sizes;
  for (const int64_t size : before) sizes.push_back(size);
  for (int d = skip; d < x.dim(); ++d) sizes.push_back(x.sizes()[d]);
  return sizes;
}

/// x with `more` elements of `value` after those it has along dimension `dim`.
Tensor padded(const Tensor& x, int dim, int64_t more, Scalar value) {
  if (more == 0) return x;
  std::vector<int64_t> sizes(static_cast<std::size_t>(2 * (x.dim() - dim)), 0);
  sizes.back() = more;
  return pad(x, sizes, PadMode::constant, value);
}

/// How many steps each packed sequence has, the longest first.
std::vector<int64_t> lengths_of(const PackedSequence& sequence) {
  std::vector<int64_t> lengths(static_cast<std::size_t>(sequence.batch_sizes[0]), 0);
  for (const int64_t size : sequence.batch_sizes) {
    for (int64_t i = 0; i < size; ++i) ++lengths[static_cast<std::size_t>(i)];
  }
  return lengths;
}

}  // namespace

void PackedSequence::check(const char* op) const {
  TENDRIL_CHECK(data.defined() && data.dim() >= 1, op, ": the packed sequence's data is ",
                data.defined() ? "one number" : "undefined", ", expected [elements, ...]");
  TENDRIL_CHECK(!batch_sizes.empty(), op, ": the packed sequence has no batch_sizes, expected at least one step");
  int64_t before = batch_sizes[0], sum = 0;
  for (std::size_t i = 0; i < batch_sizes.size(); ++i) {
    TENDRIL_CHECK(batch_sizes[i] > 0 && batch_sizes[i] <= before, op, ": batch_sizes[", i, "]: got ", batch_sizes[i],
                  ", expected a positive number, at most the one before, ", before);
    before = batch_sizes[i];
    sum += before;
  }
  TENDRIL_CHECK_AS(ShapeError, data.size(0) == sum, op, ": the packed sequence's data has shape ", data.sizes(),
                   ", expected ", sum, " rows, the sum of its batch_sizes");
  TENDRIL_CHECK(sorted_indices.defined() == unsorted_indices.defined(), op, ": the packed sequence has ",
                sorted_indices.defined() ? "sorted_indices" : "unsorted_indices", " only, expected both or neither");
  if (!sorted_indices.defined()) return;
  for (const Tensor& each : {sorted_indices, unsorted_indices}) {
    TENDRIL_CHECK_AS(ShapeError, each.dim() == 1 && each.numel() == batch_sizes[0], op,
                     ": the packed sequence's indices have shape ", each.sizes(), ", expected [", batch_sizes[0], "]");
  }
}

PackedSequence pack_padded_sequence(const Tensor& input, const std::vector<int64_t>& lengths,
                                    const PackOptions& options) {
  constexpr const char* op = "pack_padded_sequence";
  TENDRIL_CHECK(input.defined(), op, ": input is an undefined tensor");
  TENDRIL_CHECK_AS(ShapeError, input.dim() >= 2, op, ": input has shape ", input.sizes(), ", expected ",
                   options.batch_first ? "[batch, steps, ...]" : "[steps, batch, ...]");
  const int64_t steps = input.size(options.batch_first ? 1 : 0), batch = input.size(options.batch_first ? 0 : 1);
  TENDRIL_CHECK_AS(ShapeError, batch > 0 && static_cast<int64_t>(lengths.size()) == batch, op, ": got ", lengths.size(),
                   " lengths, expected ", batch, ", one for each sequence (at least one) of input ", input.sizes());
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    TENDRIL_CHECK(lengths[i] > 0 && lengths[i] <= steps, op, ": lengths[", i, "]: got ", lengths[i],
                  ", expected a positive number, at most the steps, ", steps);
    TENDRIL_CHECK(!options.enforce_sorted || i == 0 || lengths[i] <= lengths[i - 1], op, ": lengths[", i, "]: got ",
                  lengths[i], ", expected at most the one before, ", lengths[i - 1], ", or enforce_sorted = false");
  }
  std::vector<int64_t> order(lengths.size());
  std::iota(order.begin(), order.end(), 0);
  const auto length = [&](int64_t i) { return lengths[static_cast<std::size_t>(i)]; };
  Tensor x = options.batch_first ? input.transpose(0, 1) : input;
  PackedSequence result;
  if (!options.enforce_sorted) {
    std::ranges::stable_sort(order, [&](int64_t a, int64_t b) { return length(a) > length(b); });
    std::vector<int64_t> places(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) places[static_cast<std::size_t>(order[i])] = static_cast<int64_t>(i);
    result.sorted_indices = indices(order, x.device());
    result.unsorted_indices = indices(places, x.device());
    x = x.index_select(1, result.sorted_indices);
  }
  int64_t going_on = batch;
  for (int64_t step = 0; step < length(order[0]); ++step) {
    while (length(order[static_cast<std::size_t>(going_on - 1)]) <= step) --going_on;
    result.batch_sizes.push_back(going_on);
  }
  detail::Segments segments;
  for_each_segment(result.batch_sizes, [&](int64_t begin, int64_t count, int64_t sequences) {
    segments.push_back(x.narrow(0, begin, count).narrow(1, 0, sequences));
  });
  result.data = detail::packed(segments);
  return result;
}

PackedSequence pack_padded_sequence(const Tensor& input, const Tensor& lengths, const PackOptions& options) {
  constexpr const char* op = "pack_padded_sequence";
  TENDRIL_CHECK(lengths.defined(), op, ": lengths is an undefined tensor");
  TENDRIL_CHECK_AS(DTypeError, lengths.dtype() == kInt64, op, ": lengths is ", lengths.dtype(), ", expected int64");
  TENDRIL_CHECK_AS(ShapeError, lengths.dim() == 1, op, ": lengths has shape ", lengths.sizes(), ", expected [batch]");
  return pack_padded_sequence(input, lengths.to_vector<int64_t>(), options);
}

std::tuple<Tensor, Tensor> pad_packed_sequence(const PackedSequence& sequence, const PadOptions& options) {
  constexpr const char* op = "pad_packed_sequence";
  sequence.check(op);
  const auto steps = static_cast<int64_t>(sequence.batch_sizes.size());
  const int64_t batch = sequence.batch_sizes[0], total = options.total_length.value_or(steps);
  TENDRIL_CHECK(total >= steps, op, ": total_length: got ", total, ", expected at least the longest sequence's, ",
                steps);
  std::vector<Tensor> parts;
  for (const Tensor& segment : detail::segments_of(sequence)) {
    parts.push_back(padded(segment, 1, batch - segment.size(1), options.padding_value));
  }
  Tensor x = padded(cat(parts), 0, total - steps, options.padding_value);
  Tensor lengths = indices(lengths_of(sequence), kCPU);
  if (sequence.unsorted_indices.defined()) {
    x = x.index_select(1, sequence.unsorted_indices);
    lengths = lengths.index_select(0, sequence.unsorted_indices.to(kCPU));
  }
  return {options.batch_first ? x.transpose(0, 1) : x, lengths};
}

Tensor pad_sequence(const std::vector<Tensor>& sequences, const PadOptions& options) {
  constexpr const char* op = "pad_sequence";
  TENDRIL_CHECK(!sequences.empty(), op, ": sequences: got none, expected at least one");
  int64_t longest = 0;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const Tensor& x = sequences[i];
    TENDRIL_CHECK(x.defined(), op, ": sequences[", i, "] is an undefined tensor");
    TENDRIL_CHECK_AS(ShapeError, x.dim() >= 1 && sizes_after(x, 1, {0}) == sizes_after(sequences[0], 1, {0}), op,
                     ": sequences[", i, "] has shape ", x.sizes(), ", expected [length, ...] with all sizes but the ",
                     "first those of ", sequences[0].sizes());
    longest = std::max(longest, x.size(0));
  }
  longest = std::max(longest, options.total_length.value_or(longest));
  std::vector<Tensor> rows;
  for (const Tensor& x : sequences) rows.push_back(padded(x, 0, longest - x.size(0), options.padding_value));
  return stack(rows, options.batch_first ? 0 : 1);
}

PackedSequence pack_sequence(const std::vector<Tensor>& sequences, bool enforce_sorted) {
  const Tensor padded = pad_sequence(sequences);
  std::vector<int64_t> lengths;
  for (const Tensor& x : sequences) lengths.push_back(x.size(0));
  return pack_padded_sequence(padded, lengths, {.enforce_sorted = enforce_sorted});
}

std::vector<Tensor> unpack_sequence(const PackedSequence& sequence) {
  const auto [padded, lengths] = pad_packed_sequence(sequence);
  std::vector<Tensor> sequences;
  for (const int64_t length : lengths.to_vector<int64_t>()) {
    sequences.push_back(padded.select(1, static_cast<int64_t>(sequences.size())).narrow(0, 0, length));
  }
  return sequences;
}

}  // namespace tendril::nn::utils

namespace tendril::nn::detail {

Segments segments_of(const utils::PackedSequence& sequence) {
  Segments segments;
  int64_t row = 0;
  utils::for_each_segment(sequence.batch_sizes, [&](int64_t, int64_t count, int64_t sequences) {
    const Tensor rows = sequence.data.narrow(0, row, count * sequences);
    segments.push_back(rows.reshape(utils::sizes_after(rows, 1, {count, sequences})));
    row += count * sequences;
  });
  return segments;
}

Tensor packed(const Segments& segments) {
  std::vector<Tensor> rows;
  for (const Tensor& x : segments) rows.push_back(x.reshape(utils::sizes_after(x, 2, {x.size(0) * x.size(1)})));
  return rows.size() == 1 ? rows[0] : cat(rows);
}

States first_rows(const States& states, int64_t count) {
  States result;
  for (const Tensor& x : states) result.push_back(x.defined() && x.size(0) != count ? x.narrow(0, 0, count) : x);
  return result;
}

States later_rows(const States& states, int64_t from) {
  States result;
  for (const Tensor& x : states) result.push_back(from > 0 ? x.narrow(0, from, x.size(0) - from) : x);
  return result;
}

States joined_by(const States& states, const States& start, int64_t count, const Tensor& like) {
  States result;
  for (std::size_t i = 0; i < states.size(); ++i) {
    const int64_t rows = states[i].size(0);
    const Tensor beginning = start[i].defined()
                                 ? start[i].narrow(0, rows, count - rows)
                                 : raw::zeros({count - rows, states[i].size(1)}, states[i].dtype(), like.device());
    result.push_back(cat({states[i], beginning}));
  }
  return result;
}

States together(const std::vector<States>& parts) {
  if (parts.size() == 1) return parts[0];
  States result;
  for (std::size_t i = 0; i < parts[0].size(); ++i) {
    std::vector<Tensor> rows;
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) rows.push_back((*part)[i]);
    result.push_back(cat(rows));
  }
  return result;
}

}  // namespace tendril::nn::detail

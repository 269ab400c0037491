#include "tendril/tensor/cpu/conv_parts.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <vector>

#include "tendril/tensor/cpu/parallel.h"
#include "tendril/tensor/cpu/paths.h"
#include "tendril/tensor/cpu/scratch.h"
#include "tendril/tensor/threads.h"

namespace tendril::cpu {
namespace {

using onednn::Map;

constexpr int64_t kConvolutionShare = int64_t{1} << 20;  // multiplications worth a thread: tens of microseconds
constexpr int64_t kChannelBlock = 16;                    // channels that oneDNN's layouts keep together

/// Some of the indices of one dimension of an operand.
class Slice {
 public:
  Slice(const View& whole, int dim, int64_t begin, int64_t end) : view_(whole) {
    std::copy_n(whole.sizes, sizes_.size(), sizes_.begin());
    const auto d = static_cast<std::size_t>(dim);
    view_.numel = whole.numel / sizes_[d] * (end - begin);
    sizes_[d] = end - begin;
    view_.sizes = sizes_.data();
    view_.data = whole.as<float>() + begin * whole.strides[d];
    view_.contiguous = whole.contiguous && dim == 0;
  }
  Slice(const Slice&) = delete;
  Slice& operator=(const Slice&) = delete;
  operator const View&() const noexcept { return view_; }

 private:
  std::array<int64_t, 4> sizes_;
  View view_;
};

/// Some rows of the result (or of x for its own gradient), the rows of the other that they meet, and the padding there.
struct Rows {
  int64_t x_begin, x_end, out_begin, out_end;
  onednn::PartGeometry geometry;
};

/// One convolution, and how it is cut.
struct Parts {
  Map map;
  const View &x, &weight, &out;
  const ConvGeometry& geometry;
  const View* bias;
  detail::PreparedForms* prepared;
  onednn::ChannelsLast order{!x.contiguous || !out.contiguous, !weight.contiguous};

  bool whole() const { return onednn::convolve(map, x, weight, out, geometry, order, bias, prepared); }

  bool images(int64_t begin, int64_t end, float* filter) const {
    View gradient = weight;
    if (filter) gradient.data = filter;
    return onednn::convolve(map, Slice(x, 0, begin, end), gradient, Slice(out, 0, begin, end), geometry, order, bias,
                            prepared);
  }

  /// Of x for its own gradient, otherwise of the result.
  bool channels(int64_t begin, int64_t end) const {
    if (map == Map::data) {
      return onednn::convolve(map, Slice(x, 1, begin, end), Slice(weight, 1, begin, end), out, geometry, order, bias,
                              prepared);
    }
    View shift;
    if (bias) {
      shift = *bias;
      shift.data = bias->as<float>() + begin;
    }
    return onednn::convolve(map, x, Slice(weight, 0, begin, end), Slice(out, 1, begin, end), geometry, order,
                            bias ? &shift : nullptr, prepared);
  }

  /// Nothing: they meet no row of the other, or the first window that they meet begins below them.
  std::optional<Rows> rows_at(int64_t begin, int64_t end) const {
    const int64_t step = geometry.stride.h, padding = geometry.padding.h,
                  below = (weight.sizes[2] - 1) * geometry.dilation.h + 1;
    // An output row `i` sees x's from i step - padding on, before that plus `below`.
    Rows part{begin, end, begin, end, geometry};
    if (map == Map::data) {
      part.out_begin = std::max<int64_t>(0, begin + padding - below + step) / step;
      part.out_end = std::min(out.sizes[2], (end - 1 + padding) / step + 1);
    }
    const int64_t first = part.out_begin * step - padding, last = (part.out_end - 1) * step - padding + below;
    if (map != Map::data) {
      part.x_begin = std::max<int64_t>(0, first);
      part.x_end = std::min(x.sizes[2], last);
    }
    part.geometry.padding.h = part.x_begin - first;
    part.geometry.below = std::max<int64_t>(0, last - part.x_end);
    if (part.x_begin >= part.x_end || part.out_begin >= part.out_end || part.geometry.padding.h < 0) return {};
    return part;
  }

  bool rows(const Rows& part, float* filter) const {
    View gradient = weight;
    if (filter) gradient.data = filter;
    return onednn::convolve(map, Slice(x, 2, part.x_begin, part.x_end), gradient,
                            Slice(out, 2, part.out_begin, part.out_end), part.geometry, order, bias, prepared);
  }
};

/// body(i, begin, end) for each of `parts` parts of `count` items; whether it was true of all.
template <class Body>
bool all_parts(int64_t parts, int64_t count, const Body& body) {
  std::atomic<bool> all = true;
  for_each_part(parts, [&](int64_t i) {
    if (!body(i, count * i / parts, count * (i + 1) / parts)) all = false;
  });
  return all;
}

/// part(i, begin, end, memory) for parts of `items`, images or rows. The gradient of the weight is each part's own, in
/// `memory` if that is not null, and added up in the order of the parts.
template <class Part>
bool by_parts(const Parts& parts, int64_t count, int64_t items, const Part& part) {
  const int64_t numel = parts.map == Map::filter ? parts.weight.numel : 0;
  const Scratch<float> others((count - 1) * numel);
  const bool all = all_parts(count, items, [&](int64_t i, int64_t begin, int64_t end) {
    return part(i, begin, end, i > 0 && numel > 0 ? others.data() + (i - 1) * numel : nullptr);
  });
  if (!all) return false;
  auto* const sum = parts.weight.as<float>();
  parallel_for(numel, grain_of(1), [&](int64_t begin, int64_t end) {
    for (int64_t other = 0; other < count - 1; ++other) {
      const float* const share = others.data() + other * numel;
      for (int64_t i = begin; i < end; ++i) sum[i] += share[i];
    }
  });
  return true;
}

/// One image whose channels cannot be shared out.
bool by_rows(const Parts& parts, int64_t threads) {
  const int64_t rows = (parts.map == Map::data ? parts.x : parts.out).sizes[2], count = std::min(rows, threads);
  std::vector<Rows> cut;
  for (int64_t i = 0; i < count; ++i) {
    const auto part = parts.rows_at(rows * i / count, rows * (i + 1) / count);
    if (!part) break;
    cut.push_back(*part);
  }
  if (count < 2 || std::ssize(cut) < count) return parts.whole();
  return by_parts(parts, count, rows, [&](int64_t i, int64_t, int64_t, float* memory) {
    return parts.rows(cut[static_cast<std::size_t>(i)], memory);
  });
}

}  // namespace

bool convolve_in_parts(Map map, const View& x, const View& weight, const View& out, const ConvGeometry& geometry,
                       const View* bias, detail::PreparedForms* prepared) {
  if (x.dtype != kFloat32 || x.numel == 0 || weight.numel == 0 || out.numel == 0) return false;
  const Parts parts{map, x, weight, out, geometry, bias, prepared};
  const int64_t multiplications = out.numel * (weight.numel / weight.sizes[0]);
  const bool ours = !parts.order.images && !parts.order.weight && geometry.groups == 1;
  if (ours && multiplications < kFewMultiplications) {
    took(Path::few_multiplications, multiplications);
    return false;
  }
  const int64_t threads = std::min<int64_t>(num_threads(), multiplications / kConvolutionShare);
  if (threads < 2) return parts.whole();
  const View &cut = map == Map::data ? x : out, &shared = map == Map::data ? out : x;
  const int64_t images = x.sizes[0], channels = cut.sizes[1];
  const bool can_cut_channels = geometry.groups == 1 && !parts.order.images &&
                                (map != Map::data || !parts.order.weight) && channels % kChannelBlock == 0;
  const int64_t blocks = can_cut_channels ? channels / kChannelBlock : 1;
  // The largest part's share of the work.
  const auto largest = [&](int64_t count) {
    const int64_t pieces = std::min(count, threads), most = (count + pieces - 1) / pieces;
    return static_cast<double>(most) / static_cast<double>(count);
  };
  const double of_images = largest(images), of_blocks = largest(blocks);
  if (of_images >= 1 && of_blocks >= 1) return by_rows(parts, threads);
  if (of_blocks < of_images || (of_blocks == of_images && weight.numel > shared.numel)) {
    return all_parts(std::min(blocks, threads), blocks, [&](int64_t, int64_t begin, int64_t end) {
      return parts.channels(begin * kChannelBlock, end * kChannelBlock);
    });
  }
  return by_parts(parts, std::min(images, threads), images,
                  [&](int64_t, int64_t begin, int64_t end, float* memory) { return parts.images(begin, end, memory); });
}

}  // namespace tendril::cpu

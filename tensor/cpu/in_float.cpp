#include "tendril/tensor/cpu/in_float.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "tendril/tensor/cpu/cpu.h"

namespace tendril::cpu {
namespace {

/// Those of the same elements without gaps: what lay together does so again. What was repeated is written out.
Dims dense_strides(const View& v) {
  int order[Dims::kMaxDims];
  for (int d = 0; d < v.ndim; ++d) order[d] = d;
  const auto distance = [&](int d) {
    return v.strides[d] == 0 ? std::numeric_limits<int64_t>::max() : std::abs(v.strides[d]);
  };
  std::stable_sort(order, order + v.ndim, [&](int a, int b) { return distance(a) > distance(b); });
  Dims strides = Dims::filled(v.ndim, 1);
  int64_t step = 1;
  for (int i = v.ndim - 1; i >= 0; --i) {
    strides[order[i]] = step;
    step *= v.sizes[order[i]];
  }
  return strides;
}

}  // namespace

InFloat::InFloat(const View& given, Use use)
    : given_(given), elements_(is_half(given.dtype) ? given.numel : 0), view_(given) {
  if (!is_half(given.dtype)) return;
  view_.data = elements_.data();
  view_.dtype = kFloat32;
  if (!given.contiguous) {
    strides_ = dense_strides(given);
    view_.strides = strides_.data();
  }
  if (use == Use::read) copy(view_, given);
}

void InFloat::write_back() const {
  if (is_half(given_.dtype)) copy(given_, view_);
}

}  // namespace tendril::cpu

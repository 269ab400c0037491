#pragma once

#include <optional>

#include "tendril/tensor/raw.h"

namespace tendril::autograd::detail {

/// A tensor that may be undefined, without gaps, as a kernel takes it: null if it is.
struct MaybeView {
  explicit MaybeView(const Tensor& x) : tensor(x.defined() ? raw::contiguous(x) : x) {
    if (tensor.defined()) view = raw::view_of(tensor);
  }
  /// ... with the strides that it has.
  static MaybeView as_it_lies(const Tensor& x) { return MaybeView(x, 0); }
  operator const View*() const noexcept { return view ? &*view : nullptr; }
  Tensor tensor;
  std::optional<View> view;

 private:
  MaybeView(const Tensor& x, int) : tensor(x) {
    if (tensor.defined()) view = raw::view_of(tensor);
  }
};

}  // namespace tendril::autograd::detail

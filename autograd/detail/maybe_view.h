#pragma once

#include <optional>

#include "tendril/tensor/raw.h"

namespace tendril::autograd::detail {

/// A tensor that may be undefined, without gaps, as a kernel takes it: null if it is.
struct MaybeView {
  explicit MaybeView(const Tensor& x) : tensor(x.defined() ? raw::contiguous(x) : x) {
    if (tensor.defined()) view = raw::view_of(tensor);
  }
  operator const View*() const noexcept { return view ? &*view : nullptr; }
  Tensor tensor;
  std::optional<View> view;
};

}  // namespace tendril::autograd::detail

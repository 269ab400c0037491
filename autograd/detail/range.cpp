#include "tendril/autograd/detail/range.h"

#include <limits>

#include "tendril/tensor/raw.h"

namespace tendril::autograd::detail {

namespace {

template <class T>
bool all_within(const View& x, double least, double most) {
  const T low = static_cast<T>(least), high = static_cast<T>(most);
  const T* const values = x.as<const T>();
  bool all = true;
  for (int64_t i = 0; i < x.numel; ++i) all &= values[i] >= low && values[i] <= high;
  return all;
}

double largest(DType dtype) {
  return dtype == kFloat64 ? std::numeric_limits<double>::max()
                           : static_cast<double>(std::numeric_limits<float>::max());
}

}  // namespace

bool within(const Tensor& x, double least, double most) {
  if (!x.device().is_cpu()) return true;
  const Tensor whole = raw::contiguous(x);
  const View view = raw::view_of(whole);
  return x.dtype() == kFloat64 ? all_within<double>(view, least, most) : all_within<float>(view, least, most);
}

bool all_finite(const Tensor& x) { return within(x, -largest(x.dtype()), largest(x.dtype())); }

// A square below the smallest normal number (1e-38, 2e-308) is not exact: 1e10 of them do not matter beside these.
bool squares_in_range(const Tensor& sums) {
  return within(sums, sums.dtype() == kFloat64 ? 1e-290 : 1e-28, largest(sums.dtype()));
}

}  // namespace tendril::autograd::detail

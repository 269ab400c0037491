#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tendril/tensor/raw.h"

/// Tensors of one content in different layouts, for tests of kernels.
namespace tendril::testing {

/// `x` and copies of it that lie differently in memory, with a name for each.
inline std::vector<std::pair<std::string, Tensor>> in_every_layout(const Tensor& x) {
  std::vector<std::pair<std::string, Tensor>> all = {{"contiguous", raw::clone(x)}};
  const int n = x.dim();
  if (n == 0) return all;
  Dims backwards, sizes;
  for (int d = n - 1; d >= 0; --d) {
    backwards.push_back(d);
    sizes.push_back(x.sizes()[d]);
  }
  const Tensor permuted = raw::permute(raw::full(sizes, 77, x.dtype(), x.device()), backwards);
  raw::copy_(permuted, x);
  all.emplace_back("permuted", permuted);

  Dims wide = x.sizes();
  wide[n - 1] = 2 * wide[n - 1] + 1;
  const Tensor gaps = raw::full(wide, 77, x.dtype(), x.device()).slice(n - 1, 1, INT64_MAX, 2);
  raw::copy_(gaps, x);
  all.emplace_back("with gaps", gaps);

  Dims tall = x.sizes();
  tall[0] = tall[0] + 3;
  const Tensor inside = raw::narrow(raw::full(tall, 77, x.dtype(), x.device()), 0, 2, x.sizes()[0]);
  raw::copy_(inside, x);
  all.emplace_back("inside a larger one", inside);
  return all;
}

/// Calls `f` with every index of `sizes`, in row-major order.
inline void for_each_index(const Dims& sizes, const std::function<void(const Dims&)>& f) {
  if (numel_of(sizes) == 0) return;
  Dims index = Dims::filled(sizes.size(), 0);
  while (true) {
    f(index);
    int d = sizes.size() - 1;
    for (; d >= 0; --d) {
      if (++index[d] < sizes[d]) break;
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

/// One element, found without any kernel.
template <class T>
T at(const Tensor& x, const Dims& index) {
  int64_t place = 0;
  for (int d = 0; d < x.dim(); ++d) place += index[d] * x.strides()[d];
  return x.data<T>()[place];
}

}  // namespace tendril::testing

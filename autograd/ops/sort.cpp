#include "tendril/autograd/ops/sort.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/cpu/parallel.h"
#include "tendril/tensor/drivers/along.h"
#include "tendril/tensor/drivers/by_index.h"
#include "tendril/tensor/drivers/reduction.h"
#include "tendril/tensor/raw.h"

// Values are gathered from where they were: gather knows their gradient.
namespace tendril {

namespace {

std::tuple<Tensor, Tensor> at_place(const Tensor& x, int dim, const Tensor& place, bool keepdim) {
  const Tensor value = x.gather(dim, place);
  if (keepdim) return {value, place};
  return {value.squeeze(dim), raw::squeeze(place, dim)};
}

}  // namespace

Tensor argsort(const Tensor& x, int64_t given_dim, bool descending) {
  detail::check_defined(x, "sort", "x");
  const int dim = wrap_dim(given_dim, x.dim(), "sort");
  return x.dim() == 0 ? raw::zeros({}, kInt64, x.device()) : drivers::sort_places(x, dim, descending);
}

std::tuple<Tensor, Tensor> sort(const Tensor& x, int64_t dim, bool descending) {
  const Tensor places = argsort(x, dim, descending);
  return {x.gather(dim, places), places};
}

std::tuple<Tensor, Tensor> topk(const Tensor& x, int64_t k, int64_t given_dim, bool largest) {
  detail::check_defined(x, "topk", "x");
  const int dim = wrap_dim(given_dim, x.dim(), "topk");
  const int64_t size = x.dim() == 0 ? 1 : x.sizes()[dim];
  TENDRIL_CHECK(k >= 0 && k <= size, "topk: k: got ", k, ", expected 0 to ", size, ", the size of dim ", dim);
  const Tensor order = argsort(x, dim, largest);
  const Tensor places = x.dim() == 0 ? order : raw::contiguous(raw::narrow(order, dim, 0, k));
  return {x.gather(dim, places), places};
}

std::tuple<Tensor, Tensor> kthvalue(const Tensor& x, int64_t k, int64_t given_dim, Flag keepdim) {
  detail::check_defined(x, "kthvalue", "x");
  const int dim = wrap_dim(given_dim, x.dim(), "kthvalue");
  const int64_t size = x.dim() == 0 ? 1 : x.sizes()[dim];
  TENDRIL_CHECK(k >= 1 && k <= size, "kthvalue: k: got ", k, ", expected 1 to ", size, ", the size of dim ", dim);
  const Tensor order = argsort(x, dim);
  if (x.dim() == 0) return {x.gather(0, order), order};
  return at_place(x, dim, raw::contiguous(raw::narrow(order, dim, k - 1, 1)), keepdim);
}

std::tuple<Tensor, Tensor> median(const Tensor& x, int64_t given_dim, Flag keepdim) {
  detail::check_defined(x, "median", "x");
  const int dim = wrap_dim(given_dim, x.dim(), "median");
  const int64_t size = x.dim() == 0 ? 1 : x.sizes()[dim];
  TENDRIL_CHECK_AS(IndexError, size > 0, "median: dim ", dim, " of shape ", x.sizes(), " has no elements");
  if (x.dim() == 0 || !is_floating(x.dtype())) return kthvalue(x, (size + 1) / 2, dim, keepdim);
  const Tensor middle = raw::narrow(argsort(x, dim), dim, (size - 1) / 2, 1);
  const Tensor largest = x.argmax(dim, true);  // the first NaN, if there is one
  const Tensor is_nan = x.detach().gather(dim, largest).isnan();
  return at_place(x, dim, raw::where(is_nan, largest, middle), keepdim);
}

Tensor median(const Tensor& x) {
  detail::check_defined(x, "median", "x");
  if (x.numel() == 0 && is_floating(x.dtype())) return x.sum() / 0.0;  // NaN, as in PyTorch
  if (!autograd::grad_enabled() || !x.requires_grad()) return std::get<0>(median(x.reshape({-1}), 0));
  // Those that tie share the gradient, as those of a maximum do: all are made 0 or more, and the others -1.
  const Tensor value = std::get<0>(median(x.detach().reshape({-1}), 0));
  const Tensor ties = x.detach().eq(value).logical_or(x.detach().isnan().logical_and(value.isnan()));
  const Tensor sign = value.gt(0).to(value.dtype()) * 2.0 - 1.0;
  return (x * sign).masked_fill(ties.logical_not(), -1).max() * sign;
}

Tensor bincount(const Tensor& given, int64_t minlength) {
  detail::check_defined(given, "bincount", "x");
  TENDRIL_CHECK_AS(DTypeError, !is_floating(given.dtype()) && given.dtype() != kBool, "bincount: got a tensor of ",
                   given.dtype(), ", expected integers");
  const Tensor x = raw::cast(given, kInt64);
  TENDRIL_CHECK_AS(ShapeError, x.dim() == 1, "bincount: got a tensor of shape ", x.sizes(), ", expected a vector");
  TENDRIL_CHECK(minlength >= 0, "bincount: minlength: got ", minlength, ", expected a number of 0 or more");
  int64_t length = minlength;
  if (x.numel() > 0) {
    const auto smallest = drivers::reduce(Reduction::min, x).item<int64_t>();
    TENDRIL_CHECK(smallest >= 0, "bincount: got ", smallest, " among the elements, expected numbers of 0 or more");
    const auto largest = drivers::reduce(Reduction::max, x).item<int64_t>();
    TENDRIL_CHECK(largest < INT64_MAX, "bincount: got ", largest, " among the elements, expected fewer bins");
    length = std::max(length, largest + 1);
  }
  Tensor counts = raw::zeros({length}, kInt64, x.device());
  drivers::index_add_(counts, 0, x, raw::ones(x.sizes(), kInt64, x.device()));
  return counts;
}

Tensor histc(const Tensor& x, int64_t bins, std::optional<double> given_low, std::optional<double> given_high) {
  detail::check_floating(x, "histc");
  TENDRIL_CHECK(bins > 0, "histc: bins: got ", bins, ", expected a positive number");
  const Tensor flat = raw::cast(raw::reshape(x, {-1}), computed_in(x.dtype()));
  double low = given_low.value_or(0), high = given_high.value_or(0);
  if (!given_low && flat.numel() > 0) low = drivers::reduce(Reduction::min, flat).item<double>();
  if (!given_high && flat.numel() > 0) high = drivers::reduce(Reduction::max, flat).item<double>();
  if (low == high) {  // as PyTorch: all elements in the middle
    low -= 1;
    high += 1;
  }
  TENDRIL_CHECK(std::isfinite(low) && std::isfinite(high) && low < high, "histc: got bounds ", low, " and ", high,
                ", expected finite numbers, the lower one first");
  // In x's dtype and PyTorch's order: float32's 0.7 is the seventh of ten bounds from 0 to 1, though it is below 0.7.
  const auto number = static_cast<double>(bins);
  const bool single = flat.dtype() == kFloat32 && (high - low) * number <= std::numeric_limits<float>::max();
  const double width = single ? static_cast<double>(static_cast<float>(high) - static_cast<float>(low)) : high - low;
  const Tensor above = raw::binary(Binary::sub, raw::cast(flat, single ? kFloat32 : kFloat64), low);
  const Tensor scaled = raw::binary(Binary::div, raw::binary(Binary::mul, above, number), width);
  const Tensor inside = raw::binary(Binary::mul, raw::cast(raw::compare(Compare::ge, flat, low), kInt64),
                                    raw::cast(raw::compare(Compare::le, flat, high), kInt64));
  // What is outside (or NaN) counts nothing, in the first bin.
  const Tensor kept =
      raw::where(raw::compare(Compare::ne, inside, 0), scaled, raw::scalar(0.0, scaled.dtype(), x.device()));
  const Tensor bin = raw::clamp(raw::cast(raw::unary(Unary::floor, kept), kInt64), 0, bins - 1);
  const Tensor counts = raw::zeros({bins}, kInt64, x.device());
  drivers::index_add_(counts, 0, bin, inside);
  return raw::cast(counts, x.dtype());
}

Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right) {
  detail::check_defined(sorted, "searchsorted", "sorted");
  detail::check_defined(values, "searchsorted", "values");
  TENDRIL_CHECK_AS(ShapeError, sorted.dim() == 1, "searchsorted: sorted has shape ", sorted.sizes(),
                   ", expected a vector");
  const DType dtype = is_floating(sorted.dtype()) || is_floating(values.dtype()) ? kFloat64 : kInt64;
  const auto find = [&](auto tag) {
    using T = decltype(tag);
    const std::vector<T> line = raw::cast(sorted, dtype).to_vector<T>(),
                         wanted = raw::cast(values, dtype).to_vector<T>();
    const auto less = [](T a, T b) { return a < b || (b != b && a == a); };  // NaN is larger than all, as in sort
    const Tensor places = raw::empty(values.sizes(), kInt64);
    auto* const found = places.mutable_data<int64_t>();
    constexpr int64_t kShare = 1024;  // a search is tens of steps
    cpu::parallel_for(places.numel(), kShare, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const T value = wanted[static_cast<std::size_t>(i)];
        const auto at = right ? std::upper_bound(line.begin(), line.end(), value, less)
                              : std::lower_bound(line.begin(), line.end(), value, less);
        found[i] = at - line.begin();
      }
    });
    return raw::to(places, values.device());
  };
  return dtype == kFloat64 ? find(double{}) : find(int64_t{});
}

std::tuple<Tensor, Tensor> Tensor::sort(int64_t dim, bool descending) const {
  return tendril::sort(*this, dim, descending);
}
Tensor Tensor::argsort(int64_t dim, bool descending) const { return tendril::argsort(*this, dim, descending); }
std::tuple<Tensor, Tensor> Tensor::topk(int64_t k, int64_t dim, bool largest) const {
  return tendril::topk(*this, k, dim, largest);
}
std::tuple<Tensor, Tensor> Tensor::median(int64_t dim, Flag keepdim) const {
  return tendril::median(*this, dim, keepdim);
}
Tensor Tensor::median() const { return tendril::median(*this); }

}  // namespace tendril

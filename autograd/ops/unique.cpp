#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "tendril/autograd/ops/sort.h"
#include "tendril/tensor/drivers/along.h"
#include "tendril/tensor/drivers/by_index.h"
#include "tendril/tensor/drivers/reduction.h"
#include "tendril/tensor/kernels.h"
#include "tendril/tensor/raw.h"

// What values there are, and how many fall where: found on the host.
namespace tendril {

namespace {

/// Lines of places along `dim` that begin at `firsts` in `order` are equal. Each is shown by its first.
Unique of_lines(const Tensor& x, int dim, const std::vector<int64_t>& order, const std::vector<std::size_t>& firsts,
                const Dims& inverse_sizes) {
  std::vector<int64_t> shown, counts, inverse(order.size());
  for (std::size_t k = 0; k < firsts.size(); ++k) {
    const std::size_t end = k + 1 < firsts.size() ? firsts[k + 1] : order.size();
    shown.push_back(order[firsts[k]]);
    counts.push_back(static_cast<int64_t>(end - firsts[k]));
    for (std::size_t i = firsts[k]; i < end; ++i) inverse[static_cast<std::size_t>(order[i])] = static_cast<int64_t>(k);
  }
  const auto number = static_cast<int64_t>(shown.size());
  const Device device = x.device();
  return {drivers::index_select(x, dim, raw::to(raw::from_data(shown, {number}), device)),
          raw::to(raw::from_data(inverse, inverse_sizes), device), raw::to(raw::from_data(counts, {number}), device)};
}

/// Each place along `dim` is a line of all that is there, in row-major order.
template <class T>
Unique lines(const Tensor& x, int dim, DType computed, bool in_order, const Dims& inverse_sizes) {
  std::vector<int64_t> dims{dim};
  for (int d = 0; d < x.dim(); ++d) {
    if (d != dim) dims.push_back(d);
  }
  const auto count = static_cast<std::size_t>(x.size(dim));
  const std::vector<T> all = raw::cast(raw::permute(x, dims), computed).to_vector<T>();
  const std::size_t length = count ? all.size() / count : 0;
  const auto line = [&](int64_t i) { return std::span(all).subspan(static_cast<std::size_t>(i) * length, length); };
  const auto less = [](T a, T b) { return a < b || (b != b && a == a); };  // NaN is larger than all, as in sort
  std::vector<int64_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  if (in_order) {
    std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
      return std::lexicographical_compare(line(i).begin(), line(i).end(), line(j).begin(), line(j).end(), less);
    });
  }
  std::vector<std::size_t> firsts;
  for (std::size_t i = 0; i < count; ++i) {
    if (i == 0 || !std::ranges::equal(line(order[i - 1]), line(order[i]))) firsts.push_back(i);
  }
  return of_lines(x, dim, order, firsts, inverse_sizes);
}

Unique lines(const Tensor& x, int64_t given_dim, const char* op, bool in_order) {
  TENDRIL_CHECK_AS(IndexError, x.dim() > 0, op, ": dim: got ", given_dim, " for a tensor of no dimensions");
  const int dim = wrap_dim(given_dim, x.dim(), op);
  TENDRIL_CHECK_AS(ShapeError, x.numel() > 0 || x.size(dim) == 0, op, ": shape ", x.sizes(),
                   " has no elements, expected some beside dim ", dim);
  const Dims inverse_sizes{x.size(dim)};
  return is_floating(x.dtype()) ? lines<double>(x, dim, kFloat64, in_order, inverse_sizes)
                                : lines<int64_t>(x, dim, kInt64, in_order, inverse_sizes);
}

}  // namespace

Unique unique(const Tensor& x, std::optional<int64_t> dim) {
  detail::check_defined(x, "unique", "x");
  if (dim) return lines(x, *dim, "unique", true);
  const Tensor flat = raw::to(raw::reshape(x, {-1}), kCPU);
  const int64_t count = flat.numel();
  if (count == 0) {
    const Tensor none = raw::zeros({0}, kInt64, x.device());
    return {raw::empty({0}, x.dtype(), x.device()), raw::zeros(x.sizes(), kInt64, x.device()), none};
  }
  const Tensor places = drivers::sort_places(flat, 0, false);
  const Tensor ordered = drivers::index_select(flat, 0, places);
  // A value begins where it differs from the one before.
  std::vector<int64_t> starts{0}, inverse(static_cast<std::size_t>(count)), counts;
  const Tensor differs =
      raw::compare(Compare::ne, raw::narrow(ordered, 0, 1, count - 1), raw::narrow(ordered, 0, 0, count - 1));
  const bool* changes = differs.numel() ? differs.data<bool>() : nullptr;
  const int64_t* from = places.data<int64_t>();
  for (int64_t i = 0; i < count; ++i) {
    if (i > 0 && changes[i - 1]) starts.push_back(i);
    inverse[static_cast<std::size_t>(from[i])] = static_cast<int64_t>(starts.size()) - 1;
  }
  for (std::size_t i = 0; i < starts.size(); ++i)
    counts.push_back((i + 1 < starts.size() ? starts[i + 1] : count) - starts[i]);
  const auto number = static_cast<int64_t>(starts.size());
  const Device device = x.device();
  return {raw::to(drivers::index_select(ordered, 0, raw::from_data(starts, {number})), device),
          raw::to(raw::reshape(raw::from_data(inverse, {count}), x.sizes()), device),
          raw::to(raw::from_data(counts, {number}), device)};
}

Unique unique_consecutive(const Tensor& x, std::optional<int64_t> dim) {
  detail::check_defined(x, "unique_consecutive", "x");
  if (dim) return lines(x, *dim, "unique_consecutive", false);
  Unique found = lines(raw::reshape(x, {-1}), 0, "unique_consecutive", false);
  found.inverse = raw::reshape(found.inverse, x.sizes());
  return found;
}

namespace {

Histogram count_between(const Tensor& x, const std::vector<double>& edges, const HistogramOptions& options) {
  if (options.weight.defined()) {
    TENDRIL_CHECK_AS(ShapeError, options.weight.sizes() == x.sizes(), "histogram: weight has shape ",
                     options.weight.sizes(), ", expected x's, ", x.sizes());
    TENDRIL_CHECK_AS(DTypeError, options.weight.dtype() == x.dtype(), "histogram: weight is ", options.weight.dtype(),
                     ", expected x's dtype, ", x.dtype());
  }
  const std::vector<double> values = x.to_vector<double>();
  const std::vector<double> weights = options.weight.defined() ? options.weight.to_vector<double>() : values;
  std::vector<double> counts(edges.size() - 1, 0.0);
  double all = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!(values[i] >= edges.front() && values[i] <= edges.back())) continue;  // NaN too
    const auto after = std::upper_bound(edges.begin(), edges.end(), values[i]) - edges.begin();
    const std::size_t bin = std::min(static_cast<std::size_t>(after), counts.size()) - 1;  // the last has its upper end
    const double weight = options.weight.defined() ? weights[i] : 1.0;
    counts[bin] += weight;
    all += weight;
  }
  if (options.density) {
    for (std::size_t k = 0; k < counts.size(); ++k) counts[k] /= all * (edges[k + 1] - edges[k]);
  }
  const auto put = [&](const std::vector<double>& numbers) {
    return raw::to(raw::cast(raw::from_data(numbers, {static_cast<int64_t>(numbers.size())}), x.dtype()), x.device());
  };
  return {put(counts), put(edges)};
}

}  // namespace

Histogram histogram(const Tensor& x, int64_t bins, const HistogramOptions& options) {
  detail::check_floating(x, "histogram");
  TENDRIL_CHECK(bins > 0 && bins < (int64_t{1} << 40), "histogram: bins: got ", bins,
                ", expected a positive number that fits memory");
  double low = 0, high = x.numel() ? 0 : 1;
  if (options.range) {
    std::tie(low, high) = *options.range;
  } else if (x.numel() > 0) {
    low = drivers::reduce(Reduction::min, x).item<double>();
    high = drivers::reduce(Reduction::max, x).item<double>();
  }
  TENDRIL_CHECK(std::isfinite(low) && std::isfinite(high) && low <= high, "histogram: got bounds ", low, " and ", high,
                ", expected finite numbers, the lower one first");
  if (low == high) {  // as NumPy and PyTorch
    low -= 0.5;
    high += 0.5;
  }
  // Rounded to x's dtype, so that what is counted agrees with the edges that are given back.
  std::vector<double> edges;
  for (int64_t i = 0; i <= bins; ++i) {
    const double share = static_cast<double>(i) / static_cast<double>(bins);
    edges.push_back(i == bins ? high : low + (high - low) * share);
  }
  return count_between(x, raw::cast(raw::from_data(edges, {bins + 1}), x.dtype()).to_vector<double>(), options);
}

Histogram histogram(const Tensor& x, const Tensor& bins, const HistogramOptions& options) {
  detail::check_floating(x, "histogram");
  detail::check_defined(bins, "histogram", "bins");
  TENDRIL_CHECK_AS(ShapeError, bins.dim() == 1 && bins.numel() >= 2, "histogram: bins has shape ", bins.sizes(),
                   ", expected a vector of two edges or more");
  TENDRIL_CHECK_AS(DTypeError, bins.dtype() == x.dtype(), "histogram: bins is ", bins.dtype(), ", expected x's dtype, ",
                   x.dtype());
  TENDRIL_CHECK(!options.range, "histogram: range: got one beside edges, expected none");
  const std::vector<double> edges = bins.to_vector<double>();
  for (std::size_t i = 0; i + 1 < edges.size(); ++i) {
    TENDRIL_CHECK(edges[i] < edges[i + 1], "histogram: bins: got ", edges[i], " before ", edges[i + 1],
                  ", expected edges that increase");
  }
  return count_between(x, edges, options);
}

}  // namespace tendril

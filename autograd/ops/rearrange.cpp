#include "tendril/autograd/ops/rearrange.h"

#include <algorithm>
#include <numeric>

#include "tendril/autograd/ops/join.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/raw.h"

// All are made of operations that know their gradients.
namespace tendril {

namespace {

/// x with the slices along `dim` that `places` names.
Tensor chosen(const Tensor& x, int dim, const std::vector<int64_t>& places) {
  return x.index_select(dim, raw::to(raw::from_data(places, {static_cast<int64_t>(places.size())}), x.device()));
}

int64_t multiplied(const char* op, int64_t size, int64_t times) {
  int64_t product = 0;
  TENDRIL_CHECK_AS(ShapeError, !__builtin_mul_overflow(size, times, &product), op, ": got ", times,
                   " times for a dimension of size ", size, ", expected a size below 2^63");
  return product;
}

/// j - i of the last two dimensions of x, [rows, columns].
Tensor above_diagonal(const Tensor& x, const char* op) {
  detail::check_defined(x, op);
  TENDRIL_CHECK_AS(ShapeError, x.dim() >= 2, op, ": got a tensor of shape ", x.sizes(),
                   ", expected two or more dimensions");
  const Tensor rows = raw::arange(0, x.size(-2), 1, kInt64, x.device());
  const Tensor columns = raw::arange(0, x.size(-1), 1, kInt64, x.device());
  return raw::binary(Binary::sub, columns, raw::unsqueeze(rows, 1));
}

/// Where element `i` of a dimension of `size` that was padded comes from; i may be negative.
int64_t source_of(int64_t i, int64_t size, PadMode mode) {
  switch (mode) {
    case PadMode::reflect:
      return i < 0 ? -i : i >= size ? 2 * (size - 1) - i : i;
    case PadMode::circular:
      return i < 0 ? i + size : i >= size ? i - size : i;
    case PadMode::replicate:
    case PadMode::constant:
      break;
  }
  return std::clamp<int64_t>(i, 0, size - 1);
}

void check_padding(const Tensor& x, int dim, int64_t before, int64_t after, PadMode mode) {
  const int64_t size = x.sizes()[dim], larger = std::max(before, after);
  int64_t with_before = 0, with_after = 0, with_both = 0;
  const bool countable = !__builtin_add_overflow(size, before, &with_before) &&
                         !__builtin_add_overflow(size, after, &with_after) &&
                         !__builtin_add_overflow(with_before, after, &with_both);
  TENDRIL_CHECK_AS(ShapeError, countable, "pad: got ", before, " and ", after, " along dim ", dim, " of shape ",
                   x.sizes(), ", expected sizes below 2^63");
  TENDRIL_CHECK_AS(ShapeError, with_both >= 0 && with_before >= 0 && with_after >= 0, "pad: ", before, " and ", after,
                   " take more than there is along dim ", dim, " of shape ", x.sizes());
  if (mode == PadMode::constant) return;
  const int64_t most = mode == PadMode::reflect ? size - 1 : mode == PadMode::circular ? size : INT64_MAX;
  TENDRIL_CHECK_AS(ShapeError, larger <= std::max<int64_t>(most, 0) && (size > 0 || larger == 0), "pad: got ", larger,
                   " along dim ", dim, " of shape ", x.sizes(), ", expected at most ", size > 0 ? most : 0);
}

Tensor pad_with_value(Tensor x, int dim, int64_t before, int64_t after, Scalar value) {
  if (before < 0) x = x.narrow(dim, -before, x.size(dim) + before);
  if (after < 0) x = x.narrow(dim, 0, x.size(dim) + after);
  std::vector<Tensor> parts;
  const auto add_filled = [&](int64_t count) {
    if (count <= 0) return;
    Dims sizes = x.sizes();
    sizes[dim] = count;
    parts.push_back(raw::full(sizes, value, x.dtype(), x.device()));
  };
  add_filled(before);
  parts.push_back(x);
  add_filled(after);
  return parts.size() == 1 ? x : cat(parts, dim);
}

}  // namespace

Tensor flip(const Tensor& x, const Dims& dims) {
  detail::check_defined(x, "flip", "x");
  Tensor out = x;
  std::vector<bool> turned(static_cast<std::size_t>(std::max(x.dim(), 1)));  // a 0-d tensor has a dim 0 to name
  for (int64_t given : dims) {
    const int dim = wrap_dim(given, x.dim(), "flip");
    TENDRIL_CHECK(!turned[static_cast<std::size_t>(dim)], "flip: dim ", dim, " appears multiple times in the list");
    turned[static_cast<std::size_t>(dim)] = true;
  }
  for (int dim = 0; dim < x.dim(); ++dim) {
    if (!turned[static_cast<std::size_t>(dim)]) continue;
    std::vector<int64_t> places(static_cast<std::size_t>(x.sizes()[dim]));
    std::iota(places.rbegin(), places.rend(), int64_t{0});
    out = chosen(out, dim, places);
  }
  return out.is_same(x) ? x.clone() : out;
}

Tensor roll(const Tensor& x, int64_t shift, int64_t given_dim) {
  detail::check_defined(x, "roll", "x");
  const int dim = wrap_dim(given_dim, x.dim(), "roll");
  const int64_t size = x.dim() == 0 ? 1 : x.sizes()[dim];
  const int64_t first = size == 0 ? 0 : ((shift % size) + size) % size;  // how many come in again
  if (first == 0) return x.clone();
  return cat({x.narrow(dim, size - first, first), x.narrow(dim, 0, size - first)}, dim);
}

Tensor roll(const Tensor& x, int64_t shift) {
  detail::check_defined(x, "roll", "x");
  return roll(x.reshape({-1}), shift, 0).reshape(x.sizes());
}

Tensor repeat(const Tensor& x, const Dims& times) {
  detail::check_defined(x, "repeat", "x");
  TENDRIL_CHECK_AS(ShapeError, times.size() >= x.dim(), "repeat: got ", times.size(), " times for a tensor of shape ",
                   x.sizes(), ", expected one for each dimension");
  // A dimension of size 1 is broadcast; another becomes two, of which the first is, while there is room for more.
  Dims apart, wide, sizes;
  std::vector<int> left;
  int room = Dims::kMaxDims - times.size();
  for (int d = 0; d < times.size(); ++d) {
    const int shift = times.size() - x.dim();
    const int64_t size = d < shift ? 1 : x.sizes()[d - shift];
    TENDRIL_CHECK_AS(ShapeError, times[d] >= 0, "repeat: got ", times[d], " times, expected a number of 0 or more");
    const bool broadcast = size == 1, now = times[d] == 1 || broadcast || room > 0;
    sizes.push_back(multiplied("repeat", size, now ? times[d] : 1));
    if (!now) left.push_back(d);
    if (times[d] != 1 && !broadcast && now) {
      --room;
      apart.push_back(1);
      wide.push_back(times[d]);
    }
    apart.push_back(size);
    wide.push_back(broadcast ? times[d] : size);
  }
  Tensor out = x.reshape(apart).expand(wide).clone().reshape(sizes);
  for (int d : left) {
    const int64_t size = out.sizes()[d];
    std::vector<int64_t> places(static_cast<std::size_t>(multiplied("repeat", size, times[d])));
    for (std::size_t i = 0; i < places.size(); ++i) places[i] = static_cast<int64_t>(i) % size;
    out = chosen(out, d, places);
  }
  return out;
}

Tensor roll(const Tensor& x, const Dims& shifts, const Dims& dims) {
  detail::check_defined(x, "roll", "x");
  TENDRIL_CHECK_AS(ShapeError, shifts.size() == dims.size() && !dims.empty(), "roll: got shifts ", shifts, " and dims ",
                   dims, ", expected as many of each, one or more");
  for (int64_t dim : dims) wrap_dim(dim, x.dim(), "roll");
  Tensor out = x;
  for (int i = 0; i < dims.size(); ++i) out = roll(out, shifts[i], dims[i]);
  return out;
}

Tensor tile(const Tensor& x, const Dims& times) {
  detail::check_defined(x, "tile", "x");
  Dims all;
  for (int d = times.size(); d < x.dim(); ++d) all.push_back(1);
  for (int64_t each : times) all.push_back(each);
  return repeat(x, all);
}

Tensor repeat_interleave(const Tensor& x, int64_t times, int64_t given_dim) {
  detail::check_defined(x, "repeat_interleave", "x");
  TENDRIL_CHECK_AS(ShapeError, times >= 0, "repeat_interleave: got ", times, " times, expected a number of 0 or more");
  const int dim = wrap_dim(given_dim, x.dim(), "repeat_interleave");
  const Tensor line = x.dim() == 0 ? x.reshape({1}) : x;
  Dims wide = line.sizes(), sizes = line.sizes();
  sizes[dim] = multiplied("repeat_interleave", sizes[dim], times);
  if (line.dim() == Dims::kMaxDims) {  // no room for one more
    std::vector<int64_t> places(static_cast<std::size_t>(sizes[dim]));
    for (std::size_t i = 0; i < places.size(); ++i) places[i] = static_cast<int64_t>(i) / times;
    return chosen(line, dim, places);
  }
  wide.insert(dim + 1, times);
  return line.unsqueeze(dim + 1).expand(wide).clone().reshape(sizes);
}

Tensor repeat_interleave(const Tensor& x, int64_t times) {
  detail::check_defined(x, "repeat_interleave", "x");
  return repeat_interleave(x.reshape({-1}), times, 0);
}

Tensor pad(const Tensor& x, const std::vector<int64_t>& sizes, PadMode mode, Scalar value) {
  detail::check_defined(x, "pad", "x");
  const auto count = static_cast<int64_t>(sizes.size());
  TENDRIL_CHECK_AS(ShapeError, count % 2 == 0 && count / 2 <= x.dim(), "pad: got ", count,
                   " sizes for a tensor of shape ", x.sizes(),
                   ", expected two a dimension, the last dimension's first");
  if (mode == PadMode::constant) detail::check_fits(value, x.dtype(), "pad");
  for (int64_t i = 0; i < count / 2; ++i) {
    const auto at = static_cast<std::size_t>(2 * i);
    check_padding(x, x.dim() - 1 - static_cast<int>(i), sizes[at], sizes[at + 1], mode);
  }
  Tensor out = x;
  for (int64_t i = 0; i < count / 2; ++i) {
    const auto at = static_cast<std::size_t>(2 * i);
    const int dim = x.dim() - 1 - static_cast<int>(i);
    const int64_t before = sizes[at], after = sizes[at + 1], size = x.sizes()[dim];
    if (before == 0 && after == 0) continue;
    if (mode == PadMode::constant) {
      out = pad_with_value(out, dim, before, after, value);
      continue;
    }
    std::vector<int64_t> places;
    for (int64_t place = -before; place < size + after; ++place) places.push_back(source_of(place, size, mode));
    out = chosen(out, dim, places);
  }
  return out.storage() == x.storage() ? out.clone() : out;  // elements were taken away at most
}

Tensor tril(const Tensor& x, int64_t diagonal) {
  return x.masked_fill(raw::compare(Compare::gt, above_diagonal(x, "tril"), diagonal), 0);
}

Tensor triu(const Tensor& x, int64_t diagonal) {
  return x.masked_fill(raw::compare(Compare::lt, above_diagonal(x, "triu"), diagonal), 0);
}

Tensor diag(const Tensor& x, int64_t offset) {
  detail::check_defined(x, "diag", "x");
  TENDRIL_CHECK_AS(ShapeError, x.dim() == 1 || x.dim() == 2, "diag: got a tensor of shape ", x.sizes(),
                   ", expected a vector or a matrix");
  if (x.dim() == 2) return x.diagonal(offset).clone();
  TENDRIL_CHECK_AS(ShapeError, offset > -INT32_MAX && offset < INT32_MAX, "diag: diagonal: got ", offset,
                   ", expected a matrix with fewer than 2^31 rows");
  const int64_t size = x.numel() + std::abs(offset);
  const Tensor rows = raw::arange(0, size, 1, kInt64, x.device());
  const Tensor on = raw::compare(Compare::eq, raw::binary(Binary::sub, rows, raw::unsqueeze(rows, 1)), offset);
  const Tensor line = pad(x, offset < 0 ? std::vector<int64_t>{0, -offset} : std::vector<int64_t>{offset, 0});
  return line.expand({size, size}).masked_fill(on.logical_not(), 0);
}

std::vector<Tensor> meshgrid(const std::vector<Tensor>& vectors) {
  TENDRIL_CHECK(!vectors.empty(), "meshgrid: got no vectors, expected one or more");
  Dims sizes;
  for (const Tensor& v : vectors) {
    detail::check_defined(v, "meshgrid", "a vector");
    TENDRIL_CHECK_AS(ShapeError, v.dim() <= 1, "meshgrid: got a tensor of shape ", v.sizes(), ", expected vectors");
    sizes.push_back(v.numel());
  }
  std::vector<Tensor> grids;
  for (std::size_t i = 0; i < vectors.size(); ++i) {
    Dims line = Dims::filled(sizes.size(), 1);
    line[static_cast<int>(i)] = vectors[i].numel();
    grids.push_back(vectors[i].reshape(line).expand(sizes));
  }
  return grids;
}

Tensor movedim(const Tensor& x, int64_t given_from, int64_t given_to) {
  detail::check_defined(x, "movedim", "x");
  const int from = wrap_dim(given_from, x.dim(), "movedim"), to = wrap_dim(given_to, x.dim(), "movedim");
  if (x.dim() == 0) return x;
  Dims order;
  for (int d = 0; d < x.dim(); ++d) {
    if (d != from) order.push_back(d);
  }
  order.insert(to, from);
  return x.permute(order);
}

Tensor trace(const Tensor& x) {
  detail::check_defined(x, "trace", "x");
  TENDRIL_CHECK_AS(ShapeError, x.dim() == 2, "trace: got a tensor of shape ", x.sizes(), ", expected a matrix");
  return x.diagonal().sum();
}

Tensor Tensor::flip(const Dims& dims) const { return tendril::flip(*this, dims); }
Tensor Tensor::roll(int64_t shift) const { return tendril::roll(*this, shift); }
Tensor Tensor::roll(const Dims& shifts, const Dims& dims) const { return tendril::roll(*this, shifts, dims); }
Tensor Tensor::tile(const Dims& times) const { return tendril::tile(*this, times); }
Tensor Tensor::repeat_interleave(int64_t times, std::optional<int64_t> dim) const {
  return dim ? tendril::repeat_interleave(*this, times, *dim) : tendril::repeat_interleave(*this, times);
}
Tensor Tensor::diag(int64_t diagonal) const { return tendril::diag(*this, diagonal); }
Tensor Tensor::trace() const { return tendril::trace(*this); }
Tensor Tensor::movedim(int64_t from, int64_t to) const { return tendril::movedim(*this, from, to); }
Tensor Tensor::repeat(const Dims& times) const { return tendril::repeat(*this, times); }
Tensor Tensor::tril(int64_t diagonal) const { return tendril::tril(*this, diagonal); }
Tensor Tensor::triu(int64_t diagonal) const { return tendril::triu(*this, diagonal); }

}  // namespace tendril

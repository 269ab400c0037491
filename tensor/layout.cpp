#include "tendril/tensor/layout.h"

#include <algorithm>
#include <ostream>

namespace tendril {

std::ostream& operator<<(std::ostream& out, MemoryFormat format) {
  return out << (format == MemoryFormat::channels_last ? "channels_last" : "contiguous");
}

}  // namespace tendril

namespace tendril::layout {

namespace {

// Of strides, by unsigned arithmetic: in a tensor without elements they may be absurd (dims.h).
int64_t product(int64_t a, int64_t b) noexcept {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
int64_t sum(int64_t a, int64_t b) noexcept {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

/// How far the first element moves for `steps` along dimension d; there is none in a tensor without elements.
int64_t way(const Layout& x, int d, int64_t steps) noexcept {
  return std::ranges::find(x.sizes, 0) == x.sizes.end() ? steps * x.strides[d] : 0;
}

}  // namespace

bool is_contiguous(const Dims& sizes, const Dims& strides) noexcept {
  int64_t expected = 1;  // beside a size of 0 that is yet to come others may be absurd
  bool contiguous = true;
  for (int d = sizes.size() - 1; d >= 0; --d) {
    if (sizes[d] == 0) return true;
    if (sizes[d] == 1) continue;
    contiguous = contiguous && strides[d] == expected;
    if (contiguous) expected = product(expected, sizes[d]);
  }
  return contiguous;
}

bool is_channels_last(const Dims& sizes, const Dims& strides) noexcept {
  if (sizes.size() != 4) return false;
  return is_contiguous({sizes[0], sizes[2], sizes[3], sizes[1]}, {strides[0], strides[2], strides[3], strides[1]});
}

Dims strides_of(const Dims& sizes, MemoryFormat format, const char* op) {
  if (format == MemoryFormat::contiguous) return contiguous_strides(sizes);
  TENDRIL_CHECK_AS(ShapeError, sizes.size() == 4, op, ": the memory format channels_last is of 4 dimensions, got ",
                   sizes);
  const Dims inner = contiguous_strides({sizes[0], sizes[2], sizes[3], sizes[1]});
  return {inner[0], inner[3], inner[1], inner[2]};
}

Dims infer_size(const Dims& sizes, int64_t numel, const char* op) {
  int unknown = -1;
  Dims known = sizes;
  for (int d = 0; d < sizes.size(); ++d) {
    if (sizes[d] != -1) continue;
    TENDRIL_CHECK_AS(ShapeError, unknown < 0, op, ": only one size can be -1, got ", sizes);
    unknown = d;
    known[d] = 1;
  }
  const int64_t others = numel_of(known);
  if (unknown >= 0) {
    TENDRIL_CHECK_AS(ShapeError, others != 0, op, ": the -1 in ", sizes, " is ambiguous beside a size of 0");
    known[unknown] = numel / others;
  }
  TENDRIL_CHECK_AS(ShapeError, unknown >= 0 ? numel % others == 0 : others == numel, op, ": shape ", sizes,
                   " does not fit ", numel, " elements");
  return known;
}

std::optional<Layout> view(const Layout& x, const Dims& sizes) {
  const int64_t numel = numel_of(x.sizes);
  Layout result{sizes, sizes, x.offset};
  if (numel == 0) {
    result.strides = contiguous_strides(sizes);
    return result;
  }
  // Walk from the back through chunks of x that have no gaps inside; every chunk is cut into sizes of its own.
  int v = sizes.size() - 1;
  int64_t chunk_stride = x.sizes.empty() ? 1 : x.strides.back();
  int64_t chunk_numel = 1;
  int64_t filled = 1;
  for (int d = x.sizes.size() - 1; d >= 0; --d) {
    chunk_numel *= x.sizes[d];
    const bool chunk_ends = d == 0 || (x.sizes[d - 1] != 1 && x.strides[d - 1] != chunk_numel * chunk_stride);
    if (!chunk_ends) continue;
    while (v >= 0 && (filled < chunk_numel || sizes[v] == 1)) {
      result.strides[v] = filled * chunk_stride;
      filled *= sizes[v--];
    }
    if (filled != chunk_numel) return std::nullopt;
    if (d > 0) {
      chunk_stride = x.strides[d - 1];
      chunk_numel = filled = 1;
    }
  }
  for (; v >= 0; --v) result.strides[v] = chunk_stride;  // only sizes of 1 are left, where x has no dimensions
  return result;
}

Dims flatten_sizes(const Dims& sizes, int64_t start_dim, int64_t end_dim) {
  const int start = wrap_dim(start_dim, sizes.size(), "flatten");
  const int end = wrap_dim(end_dim, sizes.size(), "flatten");
  TENDRIL_CHECK_AS(ShapeError, start <= end, "flatten: start_dim ", start_dim, " comes after end_dim ", end_dim);
  if (sizes.empty()) return {1};
  Dims result, merged;
  for (int d = start; d <= end; ++d) merged.push_back(sizes[d]);
  for (int d = 0; d < sizes.size(); ++d) {
    if (d == start) {
      result.push_back(numel_of(merged));  // refuses a product that overflows
    } else if (d < start || d > end) {
      result.push_back(sizes[d]);
    }
  }
  return result;
}

Layout expand(const Layout& x, const Dims& sizes) {
  const int added = sizes.size() - x.sizes.size();
  TENDRIL_CHECK_AS(ShapeError, added >= 0, "expand: cannot expand ", x.sizes, " to fewer dimensions, ", sizes);
  Layout result{sizes, Dims::filled(sizes.size(), 0), x.offset};
  for (int d = 0; d < sizes.size(); ++d) {
    if (d < added) {
      TENDRIL_CHECK_AS(ShapeError, sizes[d] >= 0, "expand: a new dimension needs a size, got ", sizes, " for ",
                       x.sizes);
      continue;
    }
    const int64_t have = x.sizes[d - added];
    if (sizes[d] == -1 || sizes[d] == have) {
      result.sizes[d] = have;
      result.strides[d] = x.strides[d - added];
    } else {
      TENDRIL_CHECK_AS(ShapeError, have == 1 && sizes[d] >= 0, "expand: ", x.sizes, " does not expand to ", sizes,
                       ": size ", have, " in dimension ", d - added, " is neither 1 nor ", sizes[d]);
    }
  }
  numel_of(result.sizes);  // refuses a product that overflows
  return result;
}

Layout permute(const Layout& x, const Dims& dims) {
  TENDRIL_CHECK_AS(ShapeError, dims.size() == x.sizes.size(), "permute: ", dims, " does not name every dimension of ",
                   x.sizes);
  Layout result = x;
  unsigned seen = 0;
  for (int d = 0; d < dims.size(); ++d) {
    const int from = wrap_dim(dims[d], dims.size(), "permute");
    TENDRIL_CHECK_AS(ShapeError, !(seen >> from & 1), "permute: dimension ", from, " appears twice in ", dims);
    seen |= 1u << from;
    result.sizes[d] = x.sizes[from];
    result.strides[d] = x.strides[from];
  }
  return result;
}

Layout transpose(const Layout& x, int64_t dim0, int64_t dim1) {
  const int a = wrap_dim(dim0, x.sizes.size(), "transpose");
  const int b = wrap_dim(dim1, x.sizes.size(), "transpose");
  Layout result = x;
  if (a == b) return result;
  std::swap(result.sizes[a], result.sizes[b]);
  std::swap(result.strides[a], result.strides[b]);
  return result;
}

Layout select(const Layout& x, int64_t dim, int64_t index) {
  TENDRIL_CHECK_AS(IndexError, !x.sizes.empty(), "select: a tensor of 0 dimensions has no elements to select");
  const int d = wrap_dim(dim, x.sizes.size(), "select");
  const int64_t size = x.sizes[d];
  TENDRIL_CHECK_AS(IndexError, index >= -size && index < size, "select: index ", index,
                   " is out of range for dimension ", d, " of size ", size, " in ", x.sizes);
  Layout result = x;
  result.offset += way(x, d, index < 0 ? index + size : index);
  result.sizes.erase(d);
  result.strides.erase(d);
  return result;
}

Layout slice(const Layout& x, int64_t dim, int64_t start, int64_t end, int64_t step) {
  TENDRIL_CHECK_AS(IndexError, !x.sizes.empty(), "slice: a tensor of 0 dimensions cannot be sliced");
  TENDRIL_CHECK_AS(IndexError, step > 0, "slice: step must be positive, got ", step);
  const int d = wrap_dim(dim, x.sizes.size(), "slice");
  const int64_t size = x.sizes[d];
  const auto clip = [size](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + size : i, 0, size); };
  const int64_t first = clip(start);
  const int64_t last = std::max(clip(end), first);
  Layout result = x;
  const int64_t span = last - first;
  result.sizes[d] = span == 0 ? 0 : (span - 1) / step + 1;
  result.offset += way(x, d, first);
  // A huge step must not overflow.
  result.strides[d] = result.sizes[d] > 1 ? product(x.strides[d], step) : x.strides[d];
  return result;
}

Layout narrow(const Layout& x, int64_t dim, int64_t start, int64_t length) {
  TENDRIL_CHECK_AS(IndexError, !x.sizes.empty(), "narrow: a tensor of 0 dimensions cannot be narrowed");
  const int d = wrap_dim(dim, x.sizes.size(), "narrow");
  const int64_t size = x.sizes[d];
  const int64_t first = start < 0 ? start + size : start;
  TENDRIL_CHECK_AS(IndexError, length >= 0 && first >= 0 && first <= size && length <= size - first, "narrow: start ",
                   start, " and length ", length, " are out of range for dimension ", d, " of size ", size, " in ",
                   x.sizes);
  Layout result = x;
  result.sizes[d] = length;
  result.offset += way(x, d, first);
  return result;
}

Layout diagonal(const Layout& x, int64_t offset, int64_t given_dim0, int64_t given_dim1) {
  TENDRIL_CHECK_AS(ShapeError, x.sizes.size() >= 2, "diagonal: got a tensor of shape ", x.sizes,
                   ", expected two or more dimensions");
  const int dim0 = wrap_dim(given_dim0, x.sizes.size(), "diagonal");
  const int dim1 = wrap_dim(given_dim1, x.sizes.size(), "diagonal");
  TENDRIL_CHECK(dim0 != dim1, "diagonal: got dim ", dim0, " twice, expected two dimensions");
  offset = std::max(offset, -INT64_MAX);  // -INT64_MIN would be no number
  const int64_t row = std::max<int64_t>(0, -offset), column = std::max<int64_t>(0, offset);
  const int64_t rows = x.sizes[dim0], columns = x.sizes[dim1];
  const int64_t count = row < rows && column < columns ? std::min(rows - row, columns - column) : 0;
  Layout result = x;
  for (const int d : {std::max(dim0, dim1), std::min(dim0, dim1)}) {
    result.sizes.erase(d);
    result.strides.erase(d);
  }
  result.sizes.push_back(count);
  result.strides.push_back(sum(x.strides[dim0], x.strides[dim1]));
  if (count > 0) result.offset += way(x, dim0, row) + way(x, dim1, column);
  return result;
}

Layout squeeze(const Layout& x) {
  Layout result = x;
  for (int d = x.sizes.size() - 1; d >= 0; --d) {
    if (x.sizes[d] != 1) continue;
    result.sizes.erase(d);
    result.strides.erase(d);
  }
  return result;
}

Layout squeeze(const Layout& x, int64_t dim) {
  const int d = wrap_dim(dim, x.sizes.size(), "squeeze");
  Layout result = x;
  if (!x.sizes.empty() && x.sizes[d] == 1) {
    result.sizes.erase(d);
    result.strides.erase(d);
  }
  return result;
}

Layout unsqueeze(const Layout& x, int64_t dim) {
  const int ndim = x.sizes.size();
  const int d = wrap_dim(dim, ndim + 1, "unsqueeze");
  Layout result = x;
  result.strides.insert(d, d < ndim ? product(x.sizes[d], x.strides[d]) : 1);
  result.sizes.insert(d, 1);
  return result;
}

}  // namespace tendril::layout

#include <cstring>

#include "tendril/tensor/cpu/cpu.h"
#include "tendril/tensor/cpu/loops.h"
#include "tendril/tensor/cpu/paths.h"
#include "tendril/tensor/detail/dispatch.h"
#include "tendril/tensor/scalar_math.h"

namespace tendril::cpu {
namespace {

void check_indices(const View& index, int64_t size, int dim, IndexUse use) {
  if (index.numel == 0) return;
  for_each_row<1>(nest_of<1>({&index}), [&](char* const* p, const int64_t* s, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t value = *reinterpret_cast<const int64_t*>(p[0] + i * s[0]);
      TENDRIL_CHECK_AS(IndexError, value >= 0 && value < size, index_error_text(use, value, dim, size));
    }
  });
}

/// A 1-d index seen along `dim` of something with `like`'s other dimensions.
struct Spread {
  Spread(const View& index, const View& like, int dim) : strides(Dims::filled(like.ndim, 0)) {
    strides[dim] = index.ndim == 0 ? 0 : index.strides[0];
    view = {index.data, like.sizes, strides.data(), like.numel, like.ndim, kInt64, false};
  }
  Spread(const Spread&) = delete;
  Dims strides;
  View view;
};

template <class Bits>
void gather_as(const View& out, const View& x, int dim, const View& index) {
  const int64_t count = out.sizes[dim], to = out.strides[dim], from = x.strides[dim], step = index.strides[dim];
  share_lines<3>({&out, &x, &index}, dim, count, [&](char* const* at) {
    Bits* o = reinterpret_cast<Bits*>(at[0]);
    const Bits* source = reinterpret_cast<const Bits*>(at[1]);
    const int64_t* chosen = reinterpret_cast<const int64_t*>(at[2]);
    for (int64_t i = 0; i < count; ++i) o[i * to] = source[chosen[i * step] * from];
  });
}

void gather_checked(const View& out, const View& x, int dim, const View& index) {
  tendril::detail::visit_bits(out.dtype,
                              [&](auto tag) { gather_as<typename decltype(tag)::type>(out, x, dim, index); });
}

/// Whether an element is at several indices, so that lines that are not one another's may meet in it.
bool is_repeated_anywhere(const View& x) noexcept {
  for (int d = 0; d < x.ndim; ++d) {
    if (x.strides[d] == 0 && x.sizes[d] > 1) return true;
  }
  return false;
}

void scatter_add_checked(const View& out, int dim, const View& index, const View& source) {
  detail::visit(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const int64_t count = index.sizes[dim], to = out.strides[dim], from = source.strides[dim],
                  step = index.strides[dim];
    const auto add_line = [&](char* const* at) {
      const int64_t* chosen = reinterpret_cast<const int64_t*>(at[0]);
      T* o = reinterpret_cast<T*>(at[1]);
      const T* s = reinterpret_cast<const T*>(at[2]);
      for (int64_t i = 0; i < count; ++i) {
        T& sum = o[chosen[i * step] * to];
        sum = static_cast<T>(scalar_math::added(load(&sum), load(s + i * from)));
      }
    };
    // Of a line, in order: threads share lines, so that results do not depend on them.
    if (is_repeated_anywhere(out)) return for_each_line<3>({&index, &out, &source}, dim, add_line);
    share_lines<3>({&index, &out, &source}, dim, count, add_line);
  });
}

template <class Bits>
void scatter_as(const View& out, int dim, const View& index, const View& source) {
  const int64_t count = index.sizes[dim], to = out.strides[dim], from = source.strides[dim], step = index.strides[dim];
  share_lines<3>({&index, &out, &source}, dim, count, [&](char* const* at) {  // in order: the last is kept
    const int64_t* chosen = reinterpret_cast<const int64_t*>(at[0]);
    Bits* o = reinterpret_cast<Bits*>(at[1]);
    const Bits* s = reinterpret_cast<const Bits*>(at[2]);
    for (int64_t i = 0; i < count; ++i) o[chosen[i * step] * to] = s[i * from];
  });
}

/// Slices that are blocks of memory. Each thread adds, in order, to columns or rows of `out` that are its own.
template <class T>
void add_slices(const View& out, const View& index, const View& source) {
  const int64_t count = source.sizes[0], width = source.numel / count, rows = out.sizes[0];
  const int64_t step = index.ndim == 0 ? 0 : index.strides[0];
  const auto add = [&](int64_t first_row, int64_t past_row, int64_t begin, int64_t end) {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t row = index.as<const int64_t>()[i * step];
      if (row < first_row || row >= past_row) continue;
      T* o = out.as<T>() + row * out.strides[0];
      const T* s = source.as<const T>() + i * source.strides[0];
      for (int64_t j = begin; j < end; ++j) o[j] = static_cast<T>(scalar_math::added(load(o + j), load(s + j)));
    }
  };
  constexpr int64_t kShareOfColumns = 64, kNarrow = 8;  // below that looking for one's own rows takes as long as adding
  if (source.numel < 2 * kParallelGrain || width < kNarrow || is_repeated_anywhere(out)) return add(0, rows, 0, width);
  if (width >= 2 * kShareOfColumns) {
    return parallel_for(width, std::max(kShareOfColumns, grain_of(count)),
                        [&](int64_t begin, int64_t end) { add(0, rows, begin, end); });
  }
  parallel_for(rows, std::max<int64_t>(1, rows / num_threads()),  // one part each: all look at all indices
               [&](int64_t begin, int64_t end) { add(begin, end, 0, width); });
}

/// All dimensions behind `dim` lie together: a slice at one index is one block of memory.
bool slices_lie_together(const View& x, int dim) {
  int64_t expected = 1;
  for (int d = x.ndim - 1; d > dim; --d) {
    if (x.sizes[d] != 1 && x.strides[d] != expected) return false;
    expected *= x.sizes[d];
  }
  return true;
}

}  // namespace

void gather(const View& out, const View& x, int dim, const View& index, IndexUse use) {
  check_indices(index, x.sizes[dim], dim, use);
  if (out.numel > 0) gather_checked(out, x, dim, index);
}

void scatter_add(const View& out, int dim, const View& index, const View& source, IndexUse use) {
  TENDRIL_CHECK_AS(DTypeError, out.dtype != kBool, "scatter_add: no cpu kernel for bool");
  check_indices(index, out.sizes[dim], dim, use);
  if (index.numel > 0) scatter_add_checked(out, dim, index, source);
}

void scatter(const View& out, int dim, const View& index, const View& source, IndexUse use) {
  check_indices(index, out.sizes[dim], dim, use);
  if (index.numel == 0) return;
  tendril::detail::visit_bits(out.dtype,
                              [&](auto tag) { scatter_as<typename decltype(tag)::type>(out, dim, index, source); });
}

void index_select(const View& out, const View& x, int dim, const View& index, IndexUse use) {
  check_indices(index, x.sizes[dim], dim, use);
  if (out.numel == 0) return;
  if (dim == 0 && slices_lie_together(x, 0) && slices_lie_together(out, 0)) {
    took(Path::index_rows, out.numel);
    const auto element = static_cast<int64_t>(size_of(x.dtype));
    const auto bytes = static_cast<std::size_t>(out.numel / out.sizes[0] * element);
    const int64_t step = index.ndim == 0 ? 0 : index.strides[0];
    return parallel_for(out.sizes[0], grain_of(out.numel / out.sizes[0]), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t chosen = index.as<const int64_t>()[i * step];
        std::memcpy(out.as<char>() + i * out.strides[0] * element, x.as<const char>() + chosen * x.strides[0] * element,
                    bytes);
      }
    });
  }
  gather_checked(out, x, dim, Spread(index, out, dim).view);
}

void index_add(const View& out, int dim, const View& index, const View& source, IndexUse use) {
  TENDRIL_CHECK_AS(DTypeError, out.dtype != kBool, "index_add: no cpu kernel for bool");
  check_indices(index, out.sizes[dim], dim, use);
  if (source.numel == 0) return;
  if (dim == 0 && slices_lie_together(out, 0) && slices_lie_together(source, 0)) {
    took(Path::index_rows, source.numel);
    return detail::visit(out.dtype, [&](auto tag) { add_slices<typename decltype(tag)::type>(out, index, source); });
  }
  scatter_add_checked(out, dim, Spread(index, source, dim).view, source);
}

}  // namespace tendril::cpu

#include <cstring>

#include "tendril/tensor/cpu/cpu.h"
#include "tendril/tensor/cpu/loops.h"
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
  for_each_line<3>({&out, &x, &index}, dim, [&](char* const* at) {
    Bits* o = reinterpret_cast<Bits*>(at[0]);
    const Bits* source = reinterpret_cast<const Bits*>(at[1]);
    const int64_t* chosen = reinterpret_cast<const int64_t*>(at[2]);
    for (int64_t i = 0; i < count; ++i) o[i * to] = source[chosen[i * step] * from];
  });
}

void gather_checked(const View& out, const View& x, int dim, const View& index) {
  switch (size_of(out.dtype)) {  // elements are only moved: their size is all that matters
    case 1:
      return gather_as<uint8_t>(out, x, dim, index);
    case 2:
      return gather_as<uint16_t>(out, x, dim, index);
    case 4:
      return gather_as<uint32_t>(out, x, dim, index);
    default:
      return gather_as<uint64_t>(out, x, dim, index);
  }
}

void scatter_add_checked(const View& out, int dim, const View& index, const View& source) {
  detail::visit(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const int64_t count = index.sizes[dim], to = out.strides[dim], from = source.strides[dim],
                  step = index.strides[dim];
    for_each_line<3>({&index, &out, &source}, dim, [&](char* const* at) {
      const int64_t* chosen = reinterpret_cast<const int64_t*>(at[0]);
      T* o = reinterpret_cast<T*>(at[1]);
      const T* s = reinterpret_cast<const T*>(at[2]);
      for (int64_t i = 0; i < count; ++i) {
        T& sum = o[chosen[i * step] * to];
        sum = static_cast<T>(scalar_math::added(load(&sum), load(s + i * from)));
      }
    });
  });
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

void index_select(const View& out, const View& x, int dim, const View& index, IndexUse use) {
  check_indices(index, x.sizes[dim], dim, use);
  if (out.numel == 0) return;
  if (dim == 0 && slices_lie_together(x, 0) && slices_lie_together(out, 0)) {
    const auto element = static_cast<int64_t>(size_of(x.dtype));
    const auto bytes = static_cast<std::size_t>(out.numel / out.sizes[0] * element);
    const int64_t step = index.ndim == 0 ? 0 : index.strides[0];
    for (int64_t i = 0; i < out.sizes[0]; ++i) {
      const int64_t chosen = index.as<const int64_t>()[i * step];
      std::memcpy(out.as<char>() + i * out.strides[0] * element, x.as<const char>() + chosen * x.strides[0] * element,
                  bytes);
    }
    return;
  }
  gather_checked(out, x, dim, Spread(index, out, dim).view);
}

void index_add(const View& out, int dim, const View& index, const View& source, IndexUse use) {
  TENDRIL_CHECK_AS(DTypeError, out.dtype != kBool, "index_add: no cpu kernel for bool");
  check_indices(index, out.sizes[dim], dim, use);
  if (source.numel == 0) return;
  if (dim == 0 && slices_lie_together(out, 0) && slices_lie_together(source, 0)) {
    detail::visit(out.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      const int64_t width = source.numel / source.sizes[0];
      const int64_t step = index.ndim == 0 ? 0 : index.strides[0];
      for (int64_t i = 0; i < source.sizes[0]; ++i) {
        T* o = out.as<T>() + index.as<const int64_t>()[i * step] * out.strides[0];
        const T* s = source.as<const T>() + i * source.strides[0];
        for (int64_t j = 0; j < width; ++j) o[j] = static_cast<T>(scalar_math::added(load(o + j), load(s + j)));
      }
    });
    return;
  }
  scatter_add_checked(out, dim, Spread(index, source, dim).view, source);
}

}  // namespace tendril::cpu

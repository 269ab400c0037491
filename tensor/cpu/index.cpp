#include "tendril/tensor/cpu/index.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <span>
#include <type_traits>

#include "tendril/tensor/cpu/cpu.h"
#include "tendril/tensor/cpu/loops.h"
#include "tendril/tensor/cpu/paths.h"
#include "tendril/tensor/detail/dispatch.h"

namespace tendril::cpu {
namespace {

int64_t index_at(const char* p) { return *reinterpret_cast<const int64_t*>(p); }

/// Whether one is not in [0, size). Without a branch for each.
bool any_outside(const char* p, int64_t given_step, int64_t count, int64_t size) {
  const auto last = static_cast<uint64_t>(size - 1);
  const auto look = [&](auto step) {
    uint64_t signs = 0;
    for (int64_t i = 0; i < count; ++i) {
      const auto value = static_cast<uint64_t>(index_at(p + i * step));
      signs |= value | (last - value);
    }
    return signs >> 63 != 0;
  };
  constexpr std::integral_constant<int64_t, sizeof(int64_t)> kTogether;
  return given_step == kTogether ? look(kTogether) : look(given_step);
}

/// Elements of lines, of which each begins `next` bytes behind the one before. `far`: lines are longer than a near
/// cache.
template <class Bits, class Next>
void read_lines(char* out, int64_t to, const char* line, Next next, int64_t from, bool far, const char* index,
                int64_t step, int64_t count) {
  const auto place = [=](int64_t i) {
    return reinterpret_cast<const Bits*>(line + i * next) + index_at(index + i * step) * from;
  };
  constexpr int64_t kAhead = 32;
  int64_t i = 0;
  for (const int64_t past = far ? count - kAhead : 0; i < past; ++i) {
    __builtin_prefetch(place(i + kAhead));
    *reinterpret_cast<Bits*>(out + i * to) = *place(i);
  }
  for (; i < count; ++i) *reinterpret_cast<Bits*>(out + i * to) = *place(i);
}

template <class Bits>
void gather_as(const View& out, const View& x, int dim, const View& index) {
  // Along `dim` x stands still: its element is where the index says.
  Dims x_steps(std::span<const int64_t>(x.strides, static_cast<std::size_t>(x.ndim)));
  x_steps[dim] = 0;
  const View lines{x.data, out.sizes, x_steps.data(), out.numel, out.ndim, x.dtype, false};
  const int64_t from = x.strides[dim];
  const bool far = x.sizes[dim] * std::abs(from) * static_cast<int64_t>(sizeof(Bits)) > 256 * 1024;
  share_rows<3>(nest_of<3>({&out, &lines, &index}), [=](char* const* at, const int64_t* steps, int64_t count) {
    if (steps[1] == 0) {  // of one line
      constexpr std::integral_constant<int64_t, 0> kNone;
      read_lines<Bits>(at[0], steps[0], at[1], kNone, from, far, at[2], steps[2], count);
    } else {
      read_lines<Bits>(at[0], steps[0], at[1], steps[1], from, far, at[2], steps[2], count);
    }
  });
}

void gather_checked(const View& out, const View& x, int dim, const View& index) {
  tendril::detail::visit_bits(out.dtype,
                              [&](auto tag) { gather_as<typename decltype(tag)::type>(out, x, dim, index); });
}

}  // namespace

void check_indices(const View& index, int64_t size, int dim, IndexUse use) {
  if (index.numel == 0) return;
  const Nest<1> nest = nest_of<1>({&index});
  std::atomic<bool> outside = false;
  share_rows<1>(nest, [&](char* const* p, const int64_t* s, int64_t count) {
    if (any_outside(p[0], s[0], count, size)) outside.store(true, std::memory_order_relaxed);
  });
  if (!outside.load(std::memory_order_relaxed)) [[likely]]
    return;
  for_each_row<1>(nest, [&](char* const* p, const int64_t* s, int64_t count) {  // the first
    for (int64_t i = 0; i < count; ++i) {
      const int64_t value = index_at(p[0] + i * s[0]);
      TENDRIL_CHECK_AS(IndexError, value >= 0 && value < size, index_error_text(use, value, dim, size));
    }
  });
}

void gather(const View& out, const View& x, int dim, const View& index, IndexUse use) {
  check_indices(index, x.sizes[dim], dim, use);
  if (out.numel > 0) gather_checked(out, x, dim, index);
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

}  // namespace tendril::cpu

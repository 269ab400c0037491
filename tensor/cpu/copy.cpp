#include <algorithm>
#include <array>
#include <cstring>

#include "tendril/tensor/cpu/convert.h"
#include "tendril/tensor/cpu/cpu.h"
#include "tendril/tensor/cpu/loops.h"
#include "tendril/tensor/cpu/paths.h"
#include "tendril/tensor/detail/dispatch.h"

namespace tendril::cpu {
namespace {

template <class To, class From>
void copy_loop(char* const* pointers, const int64_t* steps, int64_t count) {
  if (steps[0] == sizeof(To) && steps[1] == sizeof(From)) {
    if constexpr (std::is_same_v<To, From>) {
      std::memmove(pointers[0], pointers[1], static_cast<std::size_t>(count) * sizeof(To));
    } else {
      To* out = reinterpret_cast<To*>(pointers[0]);
      const From* x = reinterpret_cast<const From*>(pointers[1]);
      for (int64_t i = 0; i < count; ++i) out[i] = convert<To>(x[i]);
    }
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    const From& x = *reinterpret_cast<const From*>(pointers[1] + i * steps[1]);
    if constexpr (std::is_same_v<To, From>) {
      *reinterpret_cast<To*>(pointers[0] + i * steps[0]) = x;
    } else {
      *reinterpret_cast<To*>(pointers[0] + i * steps[0]) = convert<To>(x);
    }
  }
}

/// Both lie together, but along different dimensions: by tiles, so that each cache line is fetched once.
void transpose(Nest<2> nest, int crossing, TransposeTile transpose_tile, int64_t unit) {
  const auto across = static_cast<std::size_t>(crossing);
  const int64_t width = nest.inner(), height = nest.sizes[across];
  const int64_t out_step = nest.strides[0][across], x_step = nest.strides[1][0];
  const int64_t columns = (width + kTileAlong - 1) / kTileAlong, lines = (height + kTileAcross - 1) / kTileAcross;
  nest.sizes[0] = nest.sizes[across] = 1;
  parallel_for(nest.rows() * lines * columns, grain_of(kTileAlong * kTileAcross), [&](int64_t begin, int64_t end) {
    for (int64_t tile = begin; tile < end; ++tile) {
      const int64_t column = tile % columns * kTileAlong, line = tile / columns % lines * kTileAcross;
      for_rows<2>(nest, tile / (columns * lines), 1, [&](char* const* at, const int64_t*, int64_t) {
        transpose_tile(at[0] + line * out_step + column * unit, out_step, at[1] + column * x_step + line * unit, x_step,
                       std::min(kTileAlong, width - column), std::min(kTileAcross, height - line));
      });
    }
  });
}

/// Up to about the second cache lines that are written to in pieces stay where they are.
constexpr int64_t kNearBytes = int64_t{256} << 10;
/// From here on a result is more than what a core has of the last cache.
constexpr int64_t kStreamedBytes = int64_t{8} << 20;

/// True: it has been done.
bool copy_transposed(const View& out, const View& x) {
  if (out.dtype != x.dtype || out.numel < 4096 || (out.contiguous && x.contiguous)) return false;
  const auto unit = static_cast<int64_t>(size_of(out.dtype));
  const Nest<2> nest = nest_of<2>({&out, &x});
  if (nest.strides[0][0] != unit) return false;
  const int crossing = crossing_dim<2>(nest, {unit, unit});
  if (crossing < 0) return false;
  const int64_t bytes = out.numel * unit;
  const TransposeLoops& loops_of = loops().transpose;
  const bool streamed = bytes >= kStreamedBytes;
  const auto& tiles = bytes <= kNearBytes ? loops_of.near : streamed ? loops_of.streamed : loops_of.far;
  took(streamed ? Path::streamed_tiles : Path::tiles, out.numel);
  transpose(nest, crossing, transpose_tile_of(tiles, unit), unit);
  return true;
}

}  // namespace

void copy(const View& out, const View& x) {
  if (copy_transposed(out, x)) return;
  // By the processor's instructions, which the compiler does not find by itself.
  if (out.dtype == kFloat32 && x.dtype == kFloat16) return run<2>(loops().half_casts.widen, {&out, &x});
  if (out.dtype == kFloat16 && x.dtype == kFloat32) return run<2>(loops().half_casts.narrow, {&out, &x});
  detail::visit(out.dtype, [&](auto to) {
    detail::visit(x.dtype, [&](auto from) {
      run<2>(copy_loop<typename decltype(to)::type, typename decltype(from)::type>, {&out, &x});
    });
  });
}

void fill(const View& out, Scalar value) {
  if (out.numel == 0) return;
  detail::visit(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T element = element_of<T>(value);
    unsigned char bytes[sizeof(T)];
    std::memcpy(bytes, &element, sizeof(T));
    const bool zeros =
        out.numel >= 4096 && std::all_of(bytes, bytes + sizeof(T), [](unsigned char byte) { return byte == 0; });
    share_rows<1>(nest_of<1>({&out}), [&](char* const* pointers, const int64_t* steps, int64_t count) {
      if (steps[0] == sizeof(T)) {
        T* data = reinterpret_cast<T*>(pointers[0]);
        if (zeros) {  // the processor knows how to write much without reading it first
          std::memset(pointers[0], 0, static_cast<std::size_t>(count) * sizeof(T));
        } else {
          for (int64_t i = 0; i < count; ++i) data[i] = element;
        }
      } else {
        for (int64_t i = 0; i < count; ++i) *reinterpret_cast<T*>(pointers[0] + i * steps[0]) = element;
      }
    });
  });
}

void arange(const View& out, Scalar start, Scalar step) {
  detail::visit(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using scalar_math::added, scalar_math::multiplied;
    T* data = out.as<T>();
    const int64_t stride = out.strides[0];
    parallel_for(out.numel, kParallelGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        if (start.is_floating() || step.is_floating()) {
          data[i * stride] = convert<T>(start.to<double>() + static_cast<double>(i) * step.to<double>());
        } else {
          data[i * stride] = convert<T>(added(start.to<int64_t>(), multiplied(i, step.to<int64_t>())));
        }
      }
    });
  });
}

}  // namespace tendril::cpu

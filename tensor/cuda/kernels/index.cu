#include <algorithm>

#include "tendril/tensor/cuda/cuda.h"
#include "tendril/tensor/cuda/kernels/index_check.cuh"
#include "tendril/tensor/cuda/kernels/kernel.cuh"
#include "tendril/tensor/cuda/kernels/lanes.cuh"
#include "tendril/tensor/cuda/kernels/places.h"
#include "tendril/tensor/cuda/kernels/reduction_plan.h"
#include "tendril/tensor/cuda/runtime.h"

/// Reading and adding by index (kernels.h). What an index out of range does is in index_errors.h.
namespace tendril::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    look_at_indices(const int64_t* index, Places<1> places, IndexReport report) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < places.count; i += stride) {
    int64_t at[1];
    places.of(i, at);
    refused(index[at[0]], report);
  }
}

/// `places` are of out, x (which stays where it is along the indexed dimension, and goes `along` from index to index)
/// and index. Bits: something of an element's size, or of several elements'.
template <class Bits>
__global__ void __launch_bounds__(kThreads) gather_elements(Bits* out, const Bits* x, const int64_t* index,
                                                            Places<3> places, int64_t along, IndexReport report) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < places.count; i += stride) {
    int64_t at[3];
    places.of(i, at);
    const int64_t chosen = index[at[2]];
    out[at[0]] = refused(chosen, report) ? Bits{} : x[at[1] + chosen * along];
  }
}

template <class T>
__device__ T sum_of(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
  } else {
    return from_compute<T>(to_compute(a) + to_compute(b));
  }
}

template <class T>
__device__ void add_atomically(T* to, T x) {
  if constexpr (sizeof(T) == 8 && std::is_integral_v<T>) {
    atomicAdd(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(x));
  } else if constexpr (sizeof(T) == 1) {  // by way of the word that it lies in
    const auto address = reinterpret_cast<uintptr_t>(to);
    auto* word = reinterpret_cast<unsigned*>(address & ~uintptr_t{3});
    const unsigned shift = static_cast<unsigned>(address & 3) * 8;
    unsigned seen = *word, before;
    do {
      before = seen;
      const unsigned byte = ((before >> shift) + x) & 0xffU;
      seen = atomicCAS(word, before, (before & ~(0xffU << shift)) | byte << shift);
    } while (seen != before);
  } else {
    atomicAdd(to, x);
  }
}

/// `places` are of source, out (as x above) and index.
template <class T>
__global__ void __launch_bounds__(kThreads)
    add_elements(T* out, const T* source, const int64_t* index, Places<3> places, int64_t along, IndexReport report) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < places.count; i += stride) {
    int64_t at[3];
    places.of(i, at);
    const int64_t chosen = index[at[2]];
    if (!refused(chosen, report)) add_atomically(out + at[1] + chosen * along, source[at[0]]);
  }
}

/// `places` are of source, out (as x above) and index.
template <class Bits>
__global__ void __launch_bounds__(kThreads) set_elements(Bits* out, const Bits* source, const int64_t* index,
                                                         Places<3> places, int64_t along, IndexReport report) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < places.count; i += stride) {
    int64_t at[3];
    places.of(i, at);
    const int64_t chosen = index[at[2]];
    if (!refused(chosen, report)) out[at[1] + chosen * along] = source[at[0]];
  }
}

/// How far it is from one to the next in the indexed dimension.
struct Steps {
  int64_t count;  ///< of indices in a line
  int64_t source, index, out;
  int64_t share;  ///< of the indices' range [0, size) that one thread takes
};

/// A thread walks along a line of indices in order, and adds those that fall into its share of the range: nobody else
/// writes there. blockIdx.y says which share.
template <class T>
__global__ void __launch_bounds__(kThreads)
    add_in_order(T* out, const T* source, const int64_t* index, Places<3> lines, Steps steps, IndexReport report) {
  const int64_t line = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (line >= lines.count) return;
  int64_t at[3];
  lines.of(line, at);
  source += at[0];
  out += at[1];
  index += at[2];
  const int64_t first = static_cast<int64_t>(blockIdx.y) * steps.share, end = first + steps.share;
  for (int64_t i = 0; i < steps.count; ++i) {
    const int64_t chosen = index[i * steps.index];
    if (chosen >= first && chosen < end && chosen < report.size) {
      T& sum = out[chosen * steps.out];
      sum = sum_of(sum, source[i * steps.source]);
    } else if (blockIdx.y == 0) {
      refused(chosen, report);
    }
  }
}

/// An index as gather and scatter_add have it: it steps by `strides` along the dimensions of `like`.
struct Spread {
  const View& index;
  int64_t strides[Dims::kMaxDims] = {};

  /// 1-d (or 0-d) along `dim`, the same for all others; or with a value for every element.
  Spread(const View& given, int dim, bool line) : index(given) {
    if (line) {
      strides[dim] = given.ndim == 0 ? 0 : given.strides[0];
    } else {
      std::copy_n(given.strides, given.ndim, strides);
    }
  }
};

/// Several elements as one, where all of them lie together in `out` and `x`: makes `places` and `along` count in units
/// of `width` elements.
bool widen(Places<3>& places, int64_t& along, int64_t width, const void* out, const void* x) {
  const auto together = [&](int operand) {
    for (int d = 1; d < places.ndim; ++d) {
      if (places.strides[d][operand] % width != 0) return false;
    }
    return places.strides[0][operand] == 1;
  };
  if (places.ndim == 0 || places.sizes[0] % width != 0 || along % width != 0 || places.strides[0][2] != 0 ||
      !together(0) || !together(1) || (reinterpret_cast<uintptr_t>(out) | reinterpret_cast<uintptr_t>(x)) % 16 != 0) {
    return false;
  }
  Places<3> wide;
  wide.insert(places.sizes[0] / width, {1, 1, 0});
  for (int d = 1; d < places.ndim; ++d) {
    wide.insert(places.sizes[d], {places.strides[d][0] / width, places.strides[d][1] / width, places.strides[d][2]});
  }
  wide.finish();
  places = wide;
  along /= width;
  return true;
}

void gather_with(const char* op, const View& out, const View& x, int dim, const Spread& spread, IndexUse use) {
  const IndexReport report = index_report(use, dim, x.sizes[dim]);
  if (checked() || out.numel == 0) check_indices(spread.index, report);
  if (out.numel == 0) return;
  Places<3> places;
  for (int d = out.ndim - 1; d >= 0; --d) {
    places.insert(out.sizes[d], {out.strides[d], d == dim ? 0 : x.strides[d], spread.strides[d]});
  }
  places.finish();
  int64_t along = x.strides[dim];
  const auto* index = spread.index.as<const int64_t>();
  const auto run = [&](auto bits) {
    using Bits = decltype(bits);
    launch(op, gather_elements<Bits>, grid_for(places.count, kThreads), out.as<Bits>(), x.as<const Bits>(), index,
           places, along, report);
  };
  const auto bytes = static_cast<int64_t>(size_of(out.dtype));
  if (widen(places, along, 16 / bytes, out.data, x.data)) return run(Pack<uint64_t, 2>{});
  visit_bits(out.dtype, [&](auto tag) { run(typename decltype(tag)::type{}); });
}

void add_with(const char* op, const View& out, int dim, const Spread& spread, const View& source, IndexUse use) {
  if (out.dtype == kBool) refuse(op, kBool);
  const IndexReport report = index_report(use, dim, out.sizes[dim]);
  if (checked() || source.numel == 0) check_indices(spread.index, report);
  if (source.numel == 0) return;
  const int64_t count = source.sizes[dim];
  // With one index a line nothing is added twice.
  const bool in_order = deterministic() || count == 1;
  Places<3> places;
  for (int d = source.ndim - 1; d >= 0; --d) {
    if (in_order && d == dim) continue;
    places.insert(source.sizes[d], {source.strides[d], d == dim ? 0 : out.strides[d], spread.strides[d]});
  }
  places.finish();
  visit(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!std::is_same_v<T, bool>) {
      T* const to = out.as<T>();
      const T* const from = source.as<const T>();
      const auto* index = spread.index.as<const int64_t>();
      if (!in_order) {
        return launch(op, add_elements<T>, grid_for(places.count, kThreads), to, from, index, places, out.strides[dim],
                      report);
      }
      // Few lines do not fill a device: then several threads walk along each.
      constexpr int64_t kEnoughThreads = int64_t{1} << 17;
      const int64_t wanted = count == 1 ? 1 : std::min(kEnoughThreads / places.count, std::min(count, report.size));
      Steps steps{count, source.strides[dim], spread.strides[dim], out.strides[dim], 0};
      steps.share = std::max<int64_t>(1, detail::ceil_div(report.size, std::clamp<int64_t>(wanted, 1, 4096)));
      const int threads = power_of_two_from(places.count, kThreads);
      const Grid grid{dim3(static_cast<unsigned>(detail::ceil_div(places.count, threads)),
                           static_cast<unsigned>(std::max<int64_t>(1, detail::ceil_div(report.size, steps.share)))),
                      dim3(static_cast<unsigned>(threads))};
      launch(op, add_in_order<T>, grid, to, from, index, places, steps, report);
    }
  });
}

}  // namespace

void note_bad_indices(const View& index, const IndexReport& report) {
  if (index.numel == 0) return;
  Places<1> places;
  for (int d = index.ndim - 1; d >= 0; --d) places.insert(index.sizes[d], {index.strides[d]});
  places.finish();
  launch("index checks", look_at_indices, grid_for(places.count, kThreads), index.as<const int64_t>(), places, report);
}

void gather(const View& out, const View& x, int dim, const View& index, IndexUse use) {
  gather_with("gather", out, x, dim, Spread(index, dim, false), use);
}
void index_select(const View& out, const View& x, int dim, const View& index, IndexUse use) {
  gather_with("index_select", out, x, dim, Spread(index, dim, true), use);
}
void scatter_add(const View& out, int dim, const View& index, const View& source, IndexUse use) {
  add_with("scatter_add", out, dim, Spread(index, dim, false), source, use);
}
void scatter(const View& out, int dim, const View& index, const View& source, IndexUse use) {
  const IndexReport report = index_report(use, dim, out.sizes[dim]);
  if (checked() || source.numel == 0) check_indices(index, report);
  if (source.numel == 0) return;
  Places<3> places;
  for (int d = source.ndim - 1; d >= 0; --d) {
    places.insert(source.sizes[d], {source.strides[d], d == dim ? 0 : out.strides[d], index.strides[d]});
  }
  places.finish();
  visit_bits(out.dtype, [&](auto tag) {
    using Bits = typename decltype(tag)::type;
    launch("scatter", set_elements<Bits>, grid_for(places.count, kThreads), out.as<Bits>(), source.as<const Bits>(),
           index.as<const int64_t>(), places, out.strides[dim], report);
  });
}
void index_add(const View& out, int dim, const View& index, const View& source, IndexUse use) {
  add_with("index_add", out, dim, Spread(index, dim, true), source, use);
}

}  // namespace tendril::cuda

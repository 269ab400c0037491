#include "tendril/tensor/cuda/cuda.h"
#include "tendril/tensor/cuda/kernels/element.cuh"
#include "tendril/tensor/cuda/kernels/kernel.cuh"
#include "tendril/tensor/cuda/kernels/sort_pairs.cuh"
#include "tendril/tensor/cuda/runtime/workspace.h"

/// The order of each line (kernels.h): elements become whole numbers that are in order as they are, which CUB's radix
/// sort puts in order together with their places.
namespace tendril::cuda {
namespace {

/// 0 and -0 are one number, all NaN are the largest. Whole numbers of 64 bits where T has them.
template <class T>
using Key = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
template <class T>
__device__ Key<T> key_of(T element) {
  constexpr int kBits = 8 * sizeof(Key<T>);
  constexpr Key<T> kSign = Key<T>{1} << (kBits - 1);
  using C = Compute<T>;
  const C x = to_compute(element);
  if constexpr (std::is_floating_point_v<C>) {
    if (x != x) return ~Key<T>{0};
    Key<T> bits;
    if constexpr (sizeof(C) == 8) {
      bits = static_cast<Key<T>>(__double_as_longlong(x == 0 ? C(0) : x));
    } else {
      bits = static_cast<Key<T>>(__float_as_uint(x == 0 ? C(0) : x));
    }
    return bits & kSign ? ~bits : bits | kSign;  // negative numbers are in order from behind
  } else if constexpr (std::is_signed_v<C>) {
    return static_cast<Key<T>>(x) ^ kSign;
  } else {
    return static_cast<Key<T>>(x);
  }
}

/// Descending: in ascending order of what is left of the largest key, so that equal elements keep their places.
template <class T>
__global__ void __launch_bounds__(kGridThreads)
    make_keys(Key<T>* keys, int64_t* places, const T* x, int64_t count, int64_t length, bool descending) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    const Key<T> key = key_of(x[i]);
    keys[i] = descending ? ~key : key;
    places[i] = i % length;
  }
}

template <class T>
void sort(const View& places, const View& x, bool descending) {
  constexpr const char* op = "sort";
  using K = Key<T>;
  const int64_t count = x.numel, length = x.sizes[x.ndim - 1];
  const auto bytes = [count](std::size_t of_one) { return static_cast<std::size_t>(count) * of_one; };
  const Workspace keys(bytes(sizeof(K))), sorted(bytes(sizeof(K))), unsorted(bytes(sizeof(int64_t)));
  launch(op, make_keys<T>, grid_for(count), keys.as<K>(), unsorted.as<int64_t>(), x.as<const T>(), count, length,
         descending);
  const Pairs<K> pairs{keys.as<const K>(), sorted.as<K>(), unsorted.as<const int64_t>(), places.as<int64_t>()};
  sort_pairs(op, pairs, count / length, length);
}

}  // namespace

void sort_places(const View& places, const View& x, bool descending) {
  if (x.numel == 0) return;
  visit(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (x.contiguous) return sort<T>(places, x, descending);
    const Workspace copy(static_cast<std::size_t>(x.numel) * sizeof(T));  // lines side by side
    const View lines{copy.data(), places.sizes, places.strides, x.numel, x.ndim, x.dtype, true};
    require(table.copy, "copy", table)(lines, x);
    sort<T>(places, lines, descending);
  });
}

}  // namespace tendril::cuda

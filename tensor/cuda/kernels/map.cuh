#pragma once

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

#include "tendril/tensor/cuda/kernels/element.cuh"
#include "tendril/tensor/cuda/kernels/pack.cuh"
#include "tendril/tensor/cuda/kernels/strided.h"

/// out[i] = f(x[i], ...) over operands of one shape: what all pointwise kernels are.
///
/// One kernel serves every layout. It handles V elements of a row at a time, K times a thread: all loads before the
/// first store, so that enough of them are under way. V is 16 bytes of the widest operand where `in_vectors` permits
/// (contiguous operands, rows, numbers and broadcast columns beside them), and 1 otherwise. A function F is
///
///     template <int V> static __device__ void apply(Param param, Lanes<Out, V>& out, const Lanes<X, V>& x, ...)
///
/// with `Param` of the family, so that kernels of a family have one type and can stand in a table.
namespace tendril::cuda {

inline constexpr int kMapThreads = 256;

// Left to itself, the compiler keeps loops over long functions, and with them lanes in memory.
#define TENDRIL_UNROLL _Pragma("unroll")

template <class T, int V>
struct Lanes {
  T at[V];
};

template <class T, int V>
__device__ Lanes<T, V> load_lanes(const T* data, bool steps, uint32_t rest) {
  Lanes<T, V> lanes;
  if (!steps) {
    const T x = *data;
    TENDRIL_UNROLL
    for (int j = 0; j < V; ++j) lanes.at[j] = x;
  } else if (rest >= V) {
    const auto pack = *reinterpret_cast<const Pack<T, V>*>(data);
    TENDRIL_UNROLL
    for (int j = 0; j < V; ++j) lanes.at[j] = pack.at[j];
  } else {  // beyond the end, the first again
    TENDRIL_UNROLL
    for (uint32_t j = 0; j < V; ++j) lanes.at[j] = data[j < rest ? j : 0];
  }
  return lanes;
}

/// The number that `x` is, in the type that arithmetic on T happens in: of a half type, float32 as well as T.
template <class T>
Compute<T> number_of(const View& x) {
  Compute<T> number;
  if constexpr (is_half<T>) {
    if (x.dtype == kFloat16 || x.dtype == kBFloat16) {
      uint16_t bits;
      std::memcpy(&bits, x.data, sizeof bits);
      Half half;
      BFloat16 brain;
      half.bits = brain.bits = bits;
      return x.dtype == kFloat16 ? static_cast<float>(half) : static_cast<float>(brain);
    }
  }
  std::memcpy(static_cast<void*>(&number), x.data, sizeof number);
  return number;
}

/// An operand of elements T, or, with null `data`, one number for all.
template <class T>
struct Input {
  using Lane = Compute<T>;
  const T* data;
  Compute<T> number;

  explicit Input(const View& x) : data(x.host ? nullptr : x.as<T>()), number() {
    if (x.host) number = number_of<T>(x);
  }
  std::size_t bytes() const { return sizeof(T); }  ///< of an element
  uintptr_t address() const { return reinterpret_cast<uintptr_t>(data); }
  Input moved(int64_t elements) const {
    Input result = *this;
    if (data) result.data += elements;
    return result;
  }
  template <int V>
  __device__ Lanes<Lane, V> load(uint32_t at, bool steps, uint32_t rest) const {
    Lanes<Lane, V> lanes;
    if (!data) {
      TENDRIL_UNROLL
      for (int j = 0; j < V; ++j) lanes.at[j] = number;
    } else {
      const auto elements = load_lanes<T, V>(data + at, steps, rest);
      TENDRIL_UNROLL
      for (int j = 0; j < V; ++j) lanes.at[j] = to_compute(elements.at[j]);
    }
    return lanes;
  }
};

template <class Out, int V>
__device__ void store_lanes(Out* data, const Lanes<Compute<Out>, V>& lanes, uint32_t rest) {
  if (rest >= V) {
    Pack<Out, V> pack;
    TENDRIL_UNROLL
    for (int j = 0; j < V; ++j) pack.at[j] = from_compute<Out>(lanes.at[j]);
    *reinterpret_cast<Pack<Out, V>*>(data) = pack;
  } else {
    TENDRIL_UNROLL
    for (uint32_t j = 0; j < V; ++j) {
      if (j < rest) data[j] = from_compute<Out>(lanes.at[j]);
    }
  }
}

template <int V, class... In, std::size_t... k>
__device__ std::tuple<Lanes<typename In::Lane, V>...> load_all(std::index_sequence<k...>,
                                                               const uint32_t (&at)[1 + sizeof...(In)],
                                                               const uint32_t (&steps)[1 + sizeof...(In)],
                                                               uint32_t rest, const In&... in) {
  return {in.template load<V>(at[1 + k], steps[1 + k] != 0, rest)...};
}
template <class F, int V, class Param, class Out, class Loaded, std::size_t... k>
__device__ void apply_to(std::index_sequence<k...>, Param param, Lanes<Out, V>& out, const Loaded& x) {
  F::template apply<V>(param, out, std::get<k>(x)...);
}

/// Over `numel` elements, in vectors of V from element 0 on. Offsets count vectors.
template <class F, int V, int K, class Param, class Out, class... In>
__global__ void __launch_bounds__(kMapThreads)
    map_kernel(Param param, Offsets<1 + sizeof...(In)> offsets, uint32_t numel, Out* out, In... in) {
  constexpr auto each = std::index_sequence_for<In...>();
  const uint32_t vectors = (numel + V - 1) / V;
  const uint32_t step = gridDim.x * (K * blockDim.x);
  for (uint32_t first = blockIdx.x * (K * blockDim.x) + threadIdx.x; first < vectors; first += step) {
    uint32_t to[K];
    std::tuple<Lanes<typename In::Lane, V>...> x[K];
    TENDRIL_UNROLL
    for (int k = 0; k < K; ++k) {
      const uint32_t i = first + static_cast<uint32_t>(k) * blockDim.x;
      if (i >= vectors) break;
      uint32_t at[1 + sizeof...(In)];
      offsets.of(i, at);
      to[k] = at[0];
      x[k] = load_all<V, In...>(each, at, offsets.strides[0], numel - i * V, in...);
    }
    TENDRIL_UNROLL
    for (int k = 0; k < K; ++k) {
      const uint32_t i = first + static_cast<uint32_t>(k) * blockDim.x;
      if (i >= vectors) break;
      Lanes<Compute<Out>, V> result{};  // (an operation that a dtype has not leaves it)
      apply_to<F, V>(each, param, result, x[k]);
      store_lanes<Out, V>(out + to[k], result, numel - i * V);
    }
  }
}

/// The kernels of one function and dtype: for vectors of `width`, `batch` a thread, and for single elements.
template <class Param, class Out, class... In>
struct Map {
  using Kernel = void (*)(Param, Offsets<1 + sizeof...(In)>, uint32_t, Out*, In...);
  static constexpr int kElementBatch = 2;

  Kernel vectors;
  int width;
  int batch;
  Kernel elements;

  /// Runs on the thread's current stream; nothing for 0 elements.
  void operator()(const char* op, Param param, const View& out, const std::array<const View*, sizeof...(In)>& views,
                  In... in) const {
    if (out.numel == 0) return;
    constexpr int N = 1 + sizeof...(In);
    std::array<const View*, N> all{&out};
    std::copy(views.begin(), views.end(), all.begin() + 1);
    for_each_piece<N>(collapse<N>(all), [&](const Strided<N>& piece, const std::array<int64_t, N>& start) {
      on_piece(std::index_sequence_for<In...>(), op, param, piece, start, out.as<Out>(), in...);
    });
  }

  /// For one of the pieces: operand k starts at element start[k].
  template <std::size_t... k>
  void on_piece(std::index_sequence<k...>, const char* op, Param param, const Strided<1 + sizeof...(In)>& piece,
                const std::array<int64_t, 1 + sizeof...(In)>& start, Out* out, const In&... in) const {
    constexpr int N = 1 + sizeof...(In);
    out += start[0];
    const bool wide =
        in_vectors<N>(piece, width, {reinterpret_cast<uintptr_t>(out), in.moved(start[1 + k]).address()...},
                      {sizeof(Out), in.bytes()...});
    int64_t numel = 1;
    for (int d = 0; d < piece.ndim; ++d) numel *= piece.sizes[static_cast<std::size_t>(d)];
    const int a_thread = wide ? width * batch : kElementBatch;
    launch(op, wide ? vectors : elements, grid_for((numel + a_thread - 1) / a_thread, kMapThreads), param,
           Offsets<N>(piece, wide ? width : 1), static_cast<uint32_t>(numel), out, in.moved(start[1 + k])...);
  }
};

/// As many elements as 16 bytes hold of the widest type, at most 8: more would not fit the registers.
template <class... T>
inline constexpr int kWidth = static_cast<int>(std::min({std::size_t{8}, 16 / sizeof(T)...}));

/// Fast is F of vectors, Slow that of elements.
template <class Fast, class Slow, int V, int K, class Param, class Out, class... In>
constexpr Map<Param, Out, In...> map_of() {
  return {map_kernel<Fast, V, K, Param, Out, In...>, V, K,
          map_kernel<Slow, 1, Map<Param, Out, In...>::kElementBatch, Param, Out, In...>};
}

}  // namespace tendril::cuda

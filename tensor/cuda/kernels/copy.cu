#include "tendril/tensor/cuda/cuda.h"
#include "tendril/tensor/cuda/kernels/kernel.cuh"
#include "tendril/tensor/cuda/kernels/map.cuh"
#include "tendril/tensor/cuda/kernels/transpose.cuh"
#include "tendril/tensor/cuda/runtime/capture.h"

namespace tendril::cuda {
namespace {

struct Nothing {};

struct Identity {
  template <int V, class T>
  static __device__ void apply(Nothing, Lanes<T, V>& out, const Lanes<T, V>& x) {
    out = x;
  }
};

/// An operand of whatever dtype, converted as it is loaded: one kernel for each dtype of the output instead of eight.
/// The branch is the same for all threads.
template <class To>
struct Converted {
  using Lane = Compute<To>;
  const char* data;
  DType dtype;
  uint32_t unit;

  explicit Converted(const View& x)
      : data(x.as<char>()), dtype(x.dtype), unit(static_cast<uint32_t>(size_of(x.dtype))) {}
  std::size_t bytes() const { return unit; }
  uintptr_t address() const { return reinterpret_cast<uintptr_t>(data); }
  Converted moved(int64_t elements) const {
    Converted result = *this;
    result.data += elements * static_cast<int64_t>(unit);
    return result;
  }
  template <int V>
  __device__ Lanes<Lane, V> load(uint32_t at, bool steps, uint32_t rest) const {
    switch (dtype) {
      case DType::float32:
        return load_as<V, float>(at, steps, rest);
      case DType::float64:
        return load_as<V, double>(at, steps, rest);
      case DType::int64:
        return load_as<V, int64_t>(at, steps, rest);
      case DType::int32:
        return load_as<V, int32_t>(at, steps, rest);
      case DType::uint8:
        return load_as<V, uint8_t>(at, steps, rest);
      case DType::boolean:
        return load_as<V, bool>(at, steps, rest);
      case DType::float16:
        return load_as<V, __half>(at, steps, rest);
      case DType::bfloat16:
        return load_as<V, __nv_bfloat16>(at, steps, rest);
    }
    return {};
  }

 private:
  template <int V, class From>
  __device__ Lanes<Lane, V> load_as(uint32_t at, bool steps, uint32_t rest) const {
    const auto elements = load_lanes<From, V>(reinterpret_cast<const From*>(data) + at, steps, rest);
    Lanes<Lane, V> lanes;
    TENDRIL_UNROLL
    for (int j = 0; j < V; ++j) lanes.at[j] = to_compute(convert<To>(elements.at[j]));
    return lanes;
  }
};

/// `x` seen as In, stored as Out.
template <class Out, int V, int K, class In>
void copy_as(const char* op, const View& out, const View& x, const In& in) {
  constexpr auto map = map_of<Identity, Identity, V, K, Nothing, Out, In>();
  for_each_piece<2>(collapse<2>({&out, &x}), [&](const Strided<2>& piece, const std::array<int64_t, 2>& start) {
    if (const auto tiles = transposition(piece)) {
      transpose(op, *tiles, out.as<Out>() + start[0], in.moved(start[1]));
    } else {
      map.on_piece(std::index_sequence<0>(), op, Nothing{}, piece, start, out.as<Out>(), in);
    }
  });
}

void copy_bits(const char* op, const View& out, const View& x) {
  visit_bits(out.dtype, [&](auto tag) {
    using Bits = typename decltype(tag)::type;
    copy_as<Bits, kWidth<Bits>, 2>(op, out, x, Input<Bits>(x));
  });
}

template <class T>
__global__ void __launch_bounds__(kGridThreads) arange_kernel(T* out, int64_t stride, int64_t numel, bool floating,
                                                              double start, double step, int64_t first, int64_t by) {
  const int64_t threads = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < numel; i += threads) {
    out[i * stride] = floating ? convert<T>(start + static_cast<double>(i) * step)
                               : convert<T>(scalar_math::added(first, scalar_math::multiplied(i, by)));
  }
}

}  // namespace

void copy(const View& out, const View& x) {
  if (out.numel == 0) return;
  if (out.dtype != x.dtype) {
    return visit(out.dtype, [&](auto tag) {
      using To = typename decltype(tag)::type;
      copy_as<To, 4, 1>("copy", out, x, Converted<To>(x));
    });
  }
  if (out.contiguous && x.contiguous) {
    if (out.data == x.data) return;
    refuse_when_renewed("copy");
    TENDRIL_CUDA("copy", cudaMemcpyAsync, out.data, x.data, static_cast<std::size_t>(out.numel) * size_of(out.dtype),
                 cudaMemcpyDeviceToDevice, current_stream());
    return;
  }
  copy_bits("copy", out, x);
}

void arange(const View& out, Scalar start, Scalar step) {
  if (out.numel == 0) return;
  visit(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const bool floating = start.is_floating() || step.is_floating();
    launch("arange", arange_kernel<T>, grid_for(out.numel), out.as<T>(), out.strides[0], out.numel, floating,
           start.to<double>(), step.to<double>(), floating ? 0 : start.to<int64_t>(),
           floating ? 0 : step.to<int64_t>());
  });
}

void fill(const View& out, Scalar value) {
  if (out.numel == 0) return;
  alignas(8) std::byte element[8];
  tendril::detail::visit(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    // (in the host's types, which have the same bits)
    T converted;
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
      converted = T(argument<float>(value));
    else
      converted = argument<T>(value);
    std::memcpy(element, &converted, sizeof(T));
  });
  const Dims nowhere = Dims::filled(out.ndim, 0);
  copy_bits("fill", out, {element, out.sizes, nowhere.data(), out.numel, out.ndim, out.dtype, false, true});
}

}  // namespace tendril::cuda

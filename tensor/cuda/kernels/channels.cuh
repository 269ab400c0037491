#pragma once

#include <algorithm>
#include <cstring>

#include "tendril/tensor/cuda/kernels/element.cuh"
#include "tendril/tensor/cuda/kernels/pack.cuh"

/// Sums over each channel of [images, channels, length] and passes over its elements: which of them a thread works on,
/// and how what threads and blocks have summed up is joined, always in the same order.
///
/// A block works on one channel (Lanes is 1; a pack is V neighbours in it), or on neighbouring channels, where a
/// channel has one element an image, as all have in channels-last order: then thread t works on lane t % Lanes, V
/// channels, and a pack is one element of each. blockIdx.y says which slice of its channels' elements is the block's.
namespace tendril::cuda {

struct ChannelShape {
  int64_t images, channels, length;
};

template <int N>
struct Number {
  static constexpr int value = N;
};

template <int V, int Lanes>
inline constexpr int kChannelsOfThread = Lanes > 1 ? V : 1;
template <int V, int Lanes>
inline constexpr int kChannelsOfBlock = Lanes > 1 ? V* Lanes : 1;
/// Threads of a block: more where there are to be few blocks (grid_of), which shall keep memory busy.
template <int V, int Lanes>
inline constexpr int kChannelThreads = kChannelsOfThread<V, Lanes> > 1 ? 512 : 256;

/// Blocks for the channels, times slices so that there are enough of them and each has enough to do.
template <int V, int Lanes>
Grid grid_of(const ChannelShape& shape) {
  constexpr int kThreads = kChannelThreads<V, Lanes>, kEach = kChannelsOfThread<V, Lanes>;
  constexpr int64_t kMostSlices = 256, kPacksOfThread = 4, kOfBlock = kChannelsOfBlock<V, Lanes>;
  const int64_t blocks = (shape.channels + kOfBlock - 1) / kOfBlock;
  const int64_t of_slice = kThreads / Lanes * kPacksOfThread, packs = shape.images * shape.length / (V / kEach);
  const int64_t most = std::clamp<int64_t>((packs + of_slice - 1) / of_slice, 1, kMostSlices);
  // Each block of the second launch reads what all slices of its channels have left: where its channels are many, that
  // would take longer than the elements if the slices were many, too. One block a multiprocessor is enough then, and
  // two for a few of them would take twice as long.
  const int64_t enough = kEach > 1 ? std::max<int64_t>(128 / blocks, 1) : (1024 + blocks - 1) / blocks;
  return {dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(std::min(enough, most))), dim3(kThreads)};
}

/// The first of this thread's channels. V divides the number of channels where a thread has several.
template <int V, int Lanes>
__device__ inline int64_t first_channel() {
  return (static_cast<int64_t>(blockIdx.x) * Lanes + threadIdx.x % Lanes) * kChannelsOfThread<V, Lanes>;
}

/// f(offsets of packs, their number) for all of this thread's elements: AtOnce packs at a time, as long as there are so
/// many, to have several loads under way.
template <int V, int Lanes, int AtOnce, class F>
__device__ inline void for_each_pack(const ChannelShape& s, F f) {
  const int64_t channel = first_channel<V, Lanes>();
  if (channel >= s.channels) return;
  constexpr int kRows = kChannelThreads<V, Lanes> / Lanes;
  const int64_t step = static_cast<int64_t>(gridDim.y) * kRows;
  int64_t i = static_cast<int64_t>(blockIdx.y) * kRows + threadIdx.x / Lanes;
  const auto go = [&](int64_t count, const auto& next) {
    for (; i + (AtOnce - 1) * step < count; i += AtOnce * step) {
      int64_t offsets[AtOnce];
      for (int k = 0; k < AtOnce; ++k) offsets[k] = next();
      f(offsets, Number<AtOnce>{});
    }
    for (; i < count; i += step) {
      const int64_t offsets[1] = {next()};
      f(offsets, Number<1>{});
    }
  };
  if constexpr (Lanes > 1) {
    int64_t at = i * s.channels + channel;
    const int64_t more = step * s.channels;
    go(s.images, [&] {
      const int64_t offset = at;
      at += more;
      return offset;
    });
  } else {
    const int64_t row = s.length / V;
    int64_t image = i / row, at = i - image * row;
    const int64_t more_images = step / row, more_at = step - more_images * row;
    go(s.images * row, [&] {
      const int64_t offset = (image * s.channels + channel) * s.length + at * V;
      image += more_images;
      at += more_at;
      if (at >= row) {
        at -= row;
        ++image;
      }
      return offset;
    });
  }
}

/// N packs as they lie in memory: what is to be under way at once is loaded before any of it is looked at.
template <class T, int V, int N>
struct Packs {
  Pack<T, V> at[N];

  __device__ void load(const T* from, const int64_t (&offsets)[N]) {
    for (int k = 0; k < N; ++k) at[k] = *reinterpret_cast<const Pack<T, V>*>(from + offsets[k]);
  }
  __device__ Compute<T> get(int k, int v) const { return to_compute(at[k].at[v]); }
};

template <class T, int V>
__device__ inline void store_pack(T* to, const Compute<T> (&values)[V]) {
  Pack<T, V> pack;
  for (int v = 0; v < V; ++v) pack.at[v] = from_compute<T>(values[v]);
#ifdef __CUDACC__
  // Of several packs in a row the compiler stores each element alone, unless it is told.
  if constexpr (sizeof(pack) == sizeof(uint4)) {
    uint4 bits;
    std::memcpy(&bits, &pack, sizeof bits);
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)), "r"(bits.x),
                 "r"(bits.y), "r"(bits.z), "r"(bits.w)
                 : "memory");
    return;
  }
#endif
  *reinterpret_cast<Pack<T, V>*>(to) = pack;
}

// ---- sums: structs of doubles with join(), of one channel (S) or of a thread's, each of which is of(c); S{} is
// nothing.

/// Joins `mine` of all threads t with the same t % Lanes: the result is that of the threads below Lanes.
template <int Threads, int Lanes, class S>
__device__ void join_block(S& mine) {
  constexpr unsigned kSlots = Threads / 2;
  constexpr unsigned kStride = static_cast<unsigned>(sizeof(S) / sizeof(double)) | 1U;  // odd: no bank conflicts
  __shared__ double all[kSlots * kStride];
  const unsigned t = threadIdx.x;
  const auto slot = [&](unsigned of) { return reinterpret_cast<S*>(all + of % kSlots * kStride); };
  for (unsigned half = kSlots; half >= Lanes; half /= 2) {
    if (t >= half && t < 2 * half) *slot(t) = mine;  // (which no other thread has read)
    __syncthreads();
    if (t < half) mine.join(*slot(t + half));
  }
}

/// What the blocks of one launch leave for those of the next: an S for each slice and channel.
template <class S>
struct Slices {
  double* numbers;  ///< null: there is nothing
  int count;

  static std::size_t bytes(int64_t channels, int count) {
    return static_cast<std::size_t>(channels * count) * sizeof(S);
  }
};

/// Neighbouring threads, of other channels or else of other slices, have neighbours.
template <int Lanes, class S>
__device__ inline double& number_of(const Slices<S>& slices, int64_t channels, int64_t channel, int slice, int k) {
  constexpr int kNumbers = static_cast<int>(sizeof(S) / sizeof(double));
  if constexpr (Lanes > 1) return slices.numbers[(static_cast<int64_t>(slice) * kNumbers + k) * channels + channel];
  return slices.numbers[(channel * slices.count + slice) * kNumbers + k];
}

template <int V, int Lanes, class S, class Mine>
__device__ void leave_slice(const Slices<S>& slices, Mine mine, int64_t channels) {
  join_block<kChannelThreads<V, Lanes>, Lanes>(mine);
  const int64_t channel = first_channel<V, Lanes>();
  if (threadIdx.x >= Lanes || channel >= channels) return;
  for (int c = 0; c < kChannelsOfThread<V, Lanes>; ++c) {
    const S one = mine.of(c);
    for (int k = 0; k < static_cast<int>(sizeof(S) / sizeof(double)); ++k) {
      number_of<Lanes>(slices, channels, channel + c, static_cast<int>(blockIdx.y), k) =
          reinterpret_cast<const double*>(&one)[k];
    }
  }
}

/// Joins what the blocks of this block's channels have left: for its first threads, a channel each.
template <int V, int Lanes, class S>
__device__ S join_slices(const Slices<S>& slices, int64_t channels) {
  constexpr int kOfBlock = kChannelsOfBlock<V, Lanes>, kThreads = kChannelThreads<V, Lanes>;
  const int64_t channel = static_cast<int64_t>(blockIdx.x) * kOfBlock + threadIdx.x % kOfBlock;
  S mine{};
  if (channel < channels) {
    for (int slice = static_cast<int>(threadIdx.x) / kOfBlock; slice < slices.count; slice += kThreads / kOfBlock) {
      S other;
      for (int k = 0; k < static_cast<int>(sizeof(S) / sizeof(double)); ++k) {
        reinterpret_cast<double*>(&other)[k] = number_of<Lanes>(slices, channels, channel, slice, k);
      }
      mine.join(other);
    }
  }
  join_block<kThreads, kOfBlock>(mine);
  return mine;
}

}  // namespace tendril::cuda

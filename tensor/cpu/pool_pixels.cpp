#include "tendril/tensor/cpu/pool_pixels.h"

#include <algorithm>
#include <limits>

#include "tendril/tensor/cpu/loops.h"
#include "tendril/tensor/cpu/parallel.h"
#include "tendril/tensor/cpu/paths.h"
#include "tendril/tensor/cpu/scratch.h"
#include "tendril/tensor/cpu/visit.h"

namespace tendril::cpu {
namespace {

/// Channels that are done at a time where results of one image are added up from many places.
constexpr int64_t kChannels = 64;

/// body(image, first channel, channels) for all images and groups of channels.
template <class Body>
void share_channels(const View& x, int64_t elements, const Body& body) {
  const int64_t channels = x.sizes[1], groups = (channels + kChannels - 1) / kChannels;
  parallel_for(x.sizes[0] * groups, grain_of(elements * std::min(channels, kChannels)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   const int64_t first = i % groups * kChannels;
                   body(i / groups, first, std::min(kChannels, channels - first));
                 }
               });
}

}  // namespace

void max_pool2d_pixels(const View& out, const View& indices, const View& x, const PoolGeometry& g) {
  took(Path::pixels, x.numel);
  const int64_t channels = x.sizes[1], h = x.sizes[2], w = x.sizes[3], rows = out.sizes[2], columns = out.sizes[3];
  TENDRIL_CHECK(h * w <= std::numeric_limits<int32_t>::max(), "max_pool2d: an image of ", h, " x ", w,
                " pixels in channels-last order, expected fewer than 2^31; make it contiguous");
  visit_float_or_double(x.dtype, "max_pool2d", [&](auto t) {
    using T = decltype(t);
    const auto largest = loops().pixel[static_cast<std::size_t>(x.dtype)].largest;
    const int64_t lines = x.sizes[0] * rows, taps = g.kernel.h * g.kernel.w;
    const int64_t parts = std::clamp<int64_t>(lines / grain_of(columns * channels * taps), 1, num_threads());
    for_each_part(parts, [&](int64_t part) {  // which may throw, unlike parallel_for: there may be no room
      const Scratch<int64_t> places(taps);
      for (int64_t row = lines * part / parts; row < lines * (part + 1) / parts; ++row) {
        const T* const image = x.as<const T>() + row / rows * h * w * channels;
        const int64_t top = row % rows * g.stride.h - g.padding.h;
        const int64_t bottom = std::min(top + (g.kernel.h - 1) * g.dilation.h + 1, h);
        for (int64_t j = 0; j < columns; ++j) {
          const int64_t left = j * g.stride.w - g.padding.w;
          const int64_t right = std::min(left + (g.kernel.w - 1) * g.dilation.w + 1, w);
          int64_t count = 0;
          for (int64_t a = first_inside(top, g.dilation.h); a < bottom; a += g.dilation.h) {
            for (int64_t b = first_inside(left, g.dilation.w); b < right; b += g.dilation.w) {
              places.data()[count++] = a * w + b;
            }
          }
          const int64_t to = (row * columns + j) * channels;
          largest(image, places.data(), count, channels, out.as<T>() + to, indices.as<int64_t>() + to);
        }
      }
    });
  });
}

void max_pool2d_backward_pixels(const View& dx, const View& g, const View& indices) {
  took(Path::pixels, dx.numel);
  const int64_t channels = dx.sizes[1], plane = dx.sizes[2] * dx.sizes[3], places = g.sizes[2] * g.sizes[3];
  visit_float_or_double(dx.dtype, "max_pool2d_backward", [&](auto t) {
    using T = decltype(t);
    share_channels(dx, plane + places, [&](int64_t image, int64_t first, int64_t count) {
      T* const to = dx.as<T>() + image * plane * channels + first;
      for (int64_t i = 0; i < plane; ++i) std::fill_n(to + i * channels, count, T(0));
      for (int64_t i = 0; i < places; ++i) {
        const int64_t at = (image * places + i) * channels + first;
        const T* const from = g.as<const T>() + at;
        const int64_t* const place = indices.as<const int64_t>() + at;
        for (int64_t c = 0; c < count; ++c) to[place[c] * channels + c] += from[c];
      }
    });
  });
}

void mean_pool2d_pixels(const View& out, const View& x, const PoolAxis& h, const PoolAxis& w) {
  took(Path::pixels, x.numel);
  const int64_t channels = x.sizes[1], plane = x.sizes[2] * x.sizes[3], row = x.sizes[3];
  const int64_t columns = out.sizes[3], places = out.sizes[2] * columns;
  visit_float_or_double(x.dtype, "mean_pool2d", [&](auto t) {
    using T = decltype(t);
    share_channels(x, plane + places, [&](int64_t image, int64_t first, int64_t count) {
      const T* const from = x.as<const T>() + image * plane * channels + first;
      for (int64_t i = 0; i < places; ++i) {
        const int64_t p = i / columns, q = i % columns;
        double sums[kChannels] = {};
        for (int64_t a = h.begin[p]; a < h.end[p]; ++a) {
          for (int64_t b = w.begin[q]; b < w.end[q]; ++b) {
            const T* const pixel = from + (a * row + b) * channels;
            for (int64_t c = 0; c < count; ++c) sums[c] += static_cast<double>(pixel[c]);
          }
        }
        T* const to = out.as<T>() + (image * places + i) * channels + first;
        for (int64_t c = 0; c < count; ++c) to[c] = static_cast<T>(sums[c] * (h.scale[p] * w.scale[q]));
      }
    });
  });
}

void mean_pool2d_transpose_pixels(const View& x, const View& out, const PoolAxis& h, const PoolAxis& w) {
  took(Path::pixels, x.numel);
  const int64_t channels = x.sizes[1], plane = x.sizes[2] * x.sizes[3], row = x.sizes[3];
  const int64_t columns = out.sizes[3], places = out.sizes[2] * columns;
  visit_float_or_double(x.dtype, "mean_pool2d_transpose", [&](auto t) {
    using T = decltype(t);
    share_channels(x, plane + places, [&](int64_t image, int64_t first, int64_t count) {
      T* const to = x.as<T>() + image * plane * channels + first;
      for (int64_t i = 0; i < plane; ++i) std::fill_n(to + i * channels, count, T(0));
      for (int64_t i = 0; i < places; ++i) {
        const int64_t p = i / columns, q = i % columns;
        const T* const from = out.as<const T>() + (image * places + i) * channels + first;
        const double share = h.scale[p] * w.scale[q];
        for (int64_t a = h.begin[p]; a < h.end[p]; ++a) {
          for (int64_t b = w.begin[q]; b < w.end[q]; ++b) {
            T* const pixel = to + (a * row + b) * channels;
            for (int64_t c = 0; c < count; ++c) pixel[c] += static_cast<T>(static_cast<double>(from[c]) * share);
          }
        }
      }
    });
  });
}

}  // namespace tendril::cpu

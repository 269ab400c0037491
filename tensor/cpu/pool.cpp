#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <type_traits>

#include "tendril/tensor/cpu/cpu.h"
#include "tendril/tensor/cpu/in_float.h"
#include "tendril/tensor/cpu/loops.h"
#include "tendril/tensor/cpu/parallel.h"
#include "tendril/tensor/cpu/pool_pixels.h"
#include "tendril/tensor/cpu/visit.h"

namespace tendril::cpu {
namespace {

/// Of operands that lie alike: some may do in both ways, which one channel or pixel does.
bool is_row_major(std::initializer_list<const View*> views) {
  return std::all_of(views.begin(), views.end(), [](const View* v) { return v->contiguous; });
}

/// The largest pixel of one window, row by row, and its place.
template <class T>
void max_of_window(const View& x, const PoolGeometry& g, const T* plane, int64_t top, int64_t left, T* value,
                   int64_t* index) {
  const int64_t h = x.sizes[2], w = x.sizes[3];
  const int64_t bottom = std::min(top + (g.kernel.h - 1) * g.dilation.h + 1, h);
  const int64_t right = std::min(left + (g.kernel.w - 1) * g.dilation.w + 1, w);
  const int64_t a0 = first_inside(top, g.dilation.h), b0 = first_inside(left, g.dilation.w);
  int64_t best = a0 * w + b0;
  T largest = std::is_integral_v<T> ? std::numeric_limits<T>::lowest() : -std::numeric_limits<T>::infinity();
  for (int64_t a = a0; a < bottom; a += g.dilation.h) {
    for (int64_t b = b0; b < right; b += g.dilation.w) {
      const T pixel = plane[a * w + b];
      if (pixel > largest || pixel != pixel) {
        largest = pixel;
        best = a * w + b;
      }
    }
  }
  *value = largest;
  *index = best;
}

/// Windows that hang over an edge at the left or the right one by one, the others together.
template <class T>
void max_of_plane(const View& x, const View& out, const PoolGeometry& g, const T* plane, T* values, int64_t* indices) {
  const int64_t h = x.sizes[2], w = x.sizes[3], columns = out.sizes[3];
  const int64_t reach = (g.kernel.w - 1) * g.dilation.w + 1, room = w - reach + g.padding.w;
  int64_t first = std::min((g.padding.w + g.stride.w - 1) / g.stride.w, columns);
  int64_t past = room < 0 ? first : std::clamp(room / g.stride.w + 1, first, columns);
  if (h * w > std::numeric_limits<int32_t>::max()) past = first;  // places of level.h are narrow
  if constexpr (std::is_integral_v<T>) past = first;              // which has loops for floating types
  const auto inner = loops().max_pool[static_cast<std::size_t>(x.dtype)];
  for (int64_t i = 0; i < out.sizes[2]; ++i, values += columns, indices += columns) {
    const int64_t top = i * g.stride.h - g.padding.h, bottom = std::min(top + (g.kernel.h - 1) * g.dilation.h + 1, h);
    const int64_t inside = first_inside(top, g.dilation.h);
    const auto one = [&](int64_t j) {
      max_of_window(x, g, plane, top, j * g.stride.w - g.padding.w, values + j, indices + j);
    };
    for (int64_t j = 0; j < first; ++j) one(j);
    if (past > first) {
      inner({plane, w, inside, (bottom - inside + g.dilation.h - 1) / g.dilation.h, g.dilation.h,
             first * g.stride.w - g.padding.w, g.kernel.w, g.dilation.w, g.stride.w, past - first, values + first,
             indices + first});
    }
    for (int64_t j = past; j < columns; ++j) one(j);
  }
}

}  // namespace

void max_pool2d(const View& out, const View& indices, const View& x, const PoolGeometry& geometry) {
  if (is_half(x.dtype)) {
    const InFloat result(out, InFloat::Use::write);
    max_pool2d(result, indices, InFloat(x), geometry);
    return result.write_back();
  }
  if (!is_row_major({&out, &indices, &x})) return max_pool2d_pixels(out, indices, x, geometry);
  visit_number(x.dtype, "max_pool2d", [&](auto t) {
    using T = decltype(t);
    const int64_t plane = x.sizes[2] * x.sizes[3], places = out.sizes[2] * out.sizes[3];
    parallel_for(x.sizes[0] * x.sizes[1], grain_of(places * geometry.kernel.h * geometry.kernel.w),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t p = begin; p < end; ++p) {
                     max_of_plane<T>(x, out, geometry, x.as<const T>() + p * plane, out.as<T>() + p * places,
                                     indices.as<int64_t>() + p * places);
                   }
                 });
  });
}

void max_pool2d_backward(const View& dx, const View& g, const View& indices, const PoolGeometry& geometry) {
  if (is_half(dx.dtype)) {
    const InFloat result(dx, InFloat::Use::write);
    max_pool2d_backward(result, InFloat(g), indices, geometry);
    return result.write_back();
  }
  if (!is_row_major({&dx, &g, &indices})) return max_pool2d_backward_pixels(dx, g, indices);
  visit_float_or_double(dx.dtype, "max_pool2d_backward", [&](auto t) {
    using T = decltype(t);
    const int64_t plane = dx.sizes[2] * dx.sizes[3], places = g.sizes[2] * g.sizes[3];
    parallel_for(dx.sizes[0] * dx.sizes[1], grain_of(plane + places), [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {  // a plane is still in the cache when the gradients come
        T* const to = dx.as<T>() + p * plane;
        const T* const from = g.as<const T>() + p * places;
        const int64_t* const at = indices.as<const int64_t>() + p * places;
        std::fill_n(to, plane, T(0));
        for (int64_t i = 0; i < places; ++i) to[at[i]] += from[i];
      }
    });
  });
}

void mean_pool2d(const View& out, const View& x, const PoolAxis& h, const PoolAxis& w) {
  if (is_half(x.dtype)) {
    const InFloat result(out, InFloat::Use::write);
    mean_pool2d(result, InFloat(x), h, w);
    return result.write_back();
  }
  if (!is_row_major({&out, &x})) return mean_pool2d_pixels(out, x, h, w);
  visit_number(x.dtype, "mean_pool2d", [&](auto t) {
    using T = decltype(t);
    using Sum = std::conditional_t<std::is_integral_v<T>, int64_t, double>;
    const int64_t plane = x.sizes[2] * x.sizes[3], places = out.sizes[2] * out.sizes[3], row = x.sizes[3];
    parallel_for(x.sizes[0] * x.sizes[1], grain_of(plane + places), [&](int64_t begin, int64_t end) {
      T* to = out.as<T>() + begin * places;
      for (int64_t p = begin; p < end; ++p) {
        const T* from = x.as<const T>() + p * plane;
        for (int64_t i = 0; i < out.sizes[2]; ++i) {
          for (int64_t j = 0; j < out.sizes[3]; ++j) {
            Sum sum = 0;
            for (int64_t a = h.begin[i]; a < h.end[i]; ++a) {
              for (int64_t b = w.begin[j]; b < w.end[j]; ++b) sum += static_cast<Sum>(from[a * row + b]);
            }
            if constexpr (std::is_integral_v<T>) {
              *to++ = static_cast<T>(sum / (std::llround(1 / h.scale[i]) * std::llround(1 / w.scale[j])));
            } else {
              *to++ = static_cast<T>(sum * (h.scale[i] * w.scale[j]));
            }
          }
        }
      }
    });
  });
}

void mean_pool2d_transpose(const View& x, const View& out, const PoolAxis& h, const PoolAxis& w) {
  if (is_half(x.dtype)) {
    const InFloat result(x, InFloat::Use::write);
    mean_pool2d_transpose(result, InFloat(out), h, w);
    return result.write_back();
  }
  if (!is_row_major({&x, &out})) return mean_pool2d_transpose_pixels(x, out, h, w);
  visit_float_or_double(x.dtype, "mean_pool2d_transpose", [&](auto t) {
    using T = decltype(t);
    const int64_t plane = x.sizes[2] * x.sizes[3], places = out.sizes[2] * out.sizes[3], row = x.sizes[3];
    parallel_for(x.sizes[0] * x.sizes[1], grain_of(plane + places), [&](int64_t begin, int64_t end) {
      const T* from = out.as<const T>() + begin * places;
      for (int64_t p = begin; p < end; ++p) {
        T* to = x.as<T>() + p * plane;
        std::fill_n(to, plane, T(0));
        for (int64_t i = 0; i < out.sizes[2]; ++i) {
          for (int64_t j = 0; j < out.sizes[3]; ++j) {
            const T part = static_cast<T>(static_cast<double>(*from++) * (h.scale[i] * w.scale[j]));
            for (int64_t a = h.begin[i]; a < h.end[i]; ++a) {
              for (int64_t b = w.begin[j]; b < w.end[j]; ++b) to[a * row + b] += part;
            }
          }
        }
      }
    });
  });
}

}  // namespace tendril::cpu

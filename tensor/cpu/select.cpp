#include <limits>

#include "tendril/tensor/cpu/convert.h"
#include "tendril/tensor/cpu/cpu.h"
#include "tendril/tensor/cpu/half_blocks.h"
#include "tendril/tensor/cpu/loops.h"
#include "tendril/tensor/detail/dispatch.h"

/// Pointwise kernels with more than two operands or with parameters.
namespace tendril::cpu {

void where(const View& out, const View& mask, const View& x, const View& y) {
  if (out.numel == 0) return;
  detail::visit(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    share_rows<4>(nest_of<4>({&out, &mask, &x, &y}), [](char* const* p, const int64_t* s, int64_t count) {
      constexpr int64_t unit = sizeof(T);
      if (s[0] == unit && s[1] == 1 && s[2] == unit && s[3] == unit) {
        T* o = reinterpret_cast<T*>(p[0]);
        const bool* m = reinterpret_cast<const bool*>(p[1]);
        const T* a = reinterpret_cast<const T*>(p[2]);
        const T* b = reinterpret_cast<const T*>(p[3]);
#pragma GCC ivdep
        for (int64_t i = 0; i < count; ++i) o[i] = m[i] ? a[i] : b[i];
        return;
      }
      for (int64_t i = 0; i < count; ++i) {
        const bool m = *reinterpret_cast<const bool*>(p[1] + i * s[1]);
        const char* from = m ? p[2] + i * s[2] : p[3] + i * s[3];
        *reinterpret_cast<T*>(p[0] + i * s[0]) = *reinterpret_cast<const T*>(from);
      }
    });
  });
}

void clamp(const View& out, const View& x, const Scalar* low, const Scalar* high) {
  TENDRIL_CHECK_AS(DTypeError, x.dtype != kBool, "clamp: no cpu kernel for bool");
  if (out.numel == 0) return;
  detail::visit(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = Compute<T>;
    const C a = low ? element_of<C>(*low) : std::numeric_limits<C>::lowest();
    const C b = high ? element_of<C>(*high) : std::numeric_limits<C>::max();
    const auto within = [&](C value) {
      if (low && value < a) value = a;  // NaN passes; where the bounds cross the upper one wins, as in PyTorch
      if (high && value > b) value = b;
      return value;
    };
    share_rows<2>(nest_of<2>({&out, &x}), [&](char* const* p, const int64_t* s, int64_t count) {
      if constexpr (is_half_type<T>) {
        in_blocks_of_float<T, 1>(p, s, count, [&](float(*blocks)[kHalfBlock], int64_t length) {
          for (int64_t i = 0; i < length; ++i) blocks[0][i] = within(blocks[0][i]);
        });
      } else {
        for (int64_t i = 0; i < count; ++i) {
          *reinterpret_cast<T*>(p[0] + i * s[0]) = within(*reinterpret_cast<const T*>(p[1] + i * s[1]));
        }
      }
    });
  });
}

void add_scaled(const View& out, const View& x, const View& y, Scalar alpha) {
  TENDRIL_CHECK_AS(DTypeError, x.dtype != kBool, "add_scaled: no cpu kernel for bool");
  if (out.numel == 0) return;
  detail::visit(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!std::is_same_v<T, bool>) {
      using C = Compute<T>;
      using scalar_math::added, scalar_math::multiplied;
      const C factor = element_of<C>(alpha);
      share_rows<3>(nest_of<3>({&out, &x, &y}), [&](char* const* p, const int64_t* s, int64_t count) {
        constexpr int64_t unit = sizeof(T);
        if constexpr (std::is_same_v<T, Half>) {  // bfloat16 becomes vector code by itself
          in_blocks_of_float<T, 2>(p, s, count, [&](float(*blocks)[kHalfBlock], int64_t length) {
            for (int64_t i = 0; i < length; ++i) {
              blocks[0][i] = added(blocks[0][i], multiplied(factor, blocks[1][i]));
            }
          });
        } else if (s[0] == unit && s[1] == unit && s[2] == unit) {
          T* o = reinterpret_cast<T*>(p[0]);
          const T* a = reinterpret_cast<const T*>(p[1]);
          const T* b = reinterpret_cast<const T*>(p[2]);
#pragma GCC ivdep
          for (int64_t i = 0; i < count; ++i) {
            o[i] = static_cast<T>(added(static_cast<C>(a[i]), multiplied(factor, static_cast<C>(b[i]))));
          }
        } else {
          for (int64_t i = 0; i < count; ++i) {
            const C a = load(reinterpret_cast<const T*>(p[1] + i * s[1]));
            const C b = load(reinterpret_cast<const T*>(p[2] + i * s[2]));
            *reinterpret_cast<T*>(p[0] + i * s[0]) = static_cast<T>(added(a, multiplied(factor, b)));
          }
        }
      });
    }
  });
}

}  // namespace tendril::cpu

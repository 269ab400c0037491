#include <cstring>

#include "tendril/tensor/cpu/convert.h"
#include "tendril/tensor/cpu/cpu.h"
#include "tendril/tensor/cpu/loops.h"
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

}  // namespace

void copy(const View& out, const View& x) {
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
    for_each_row<1>(nest_of<1>({&out}), [&](char* const* pointers, const int64_t* steps, int64_t count) {
      if (steps[0] == sizeof(T)) {
        T* data = reinterpret_cast<T*>(pointers[0]);
        for (int64_t i = 0; i < count; ++i) data[i] = element;
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
    for (int64_t i = 0; i < out.numel; ++i) {
      if (start.is_floating() || step.is_floating()) {
        data[i * stride] = convert<T>(start.to<double>() + static_cast<double>(i) * step.to<double>());
      } else {
        data[i * stride] = convert<T>(added(start.to<int64_t>(), multiplied(i, step.to<int64_t>())));
      }
    }
  });
}

}  // namespace tendril::cpu

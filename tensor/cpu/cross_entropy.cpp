#include <cmath>

#include "tendril/tensor/cpu/cpu.h"
#include "tendril/tensor/cpu/loops.h"
#include "tendril/tensor/cpu/paths.h"
#include "tendril/tensor/cpu/pieces.h"
#include "tendril/tensor/cpu/visit.h"

namespace tendril::cpu {

void log_sum_exp(const View& largest, const View& log_sum, const View& x, int dim) {
  took(Path::cross_entropy, x.numel);
  visit_float_or_double(x.dtype, "cross_entropy", [&](auto zero) {
    using T = decltype(zero);
    const CrossEntropyLoops& loop = loops().cross_entropy[static_cast<std::size_t>(x.dtype)];
    const int64_t length = x.sizes[dim], step = x.strides[dim];
    const Pieces pieces(length, kExponentialCost);
    if (pieces.count() < 2) {
      return share_lines<3>(
          {&largest, &log_sum, &x}, dim, kExponentialCost * length,
          [line = loop.log_sum_exp, length, step](char* const* at) { line(at[2], step, length, at[0], at[1]); });
    }
    share_lines<3>({&largest, &log_sum, &x}, dim, kExponentialCost * length, [&](char* const* at) {
      const T* const line = reinterpret_cast<const T*>(at[2]);
      const double most =
          pieces.largest([&](int64_t begin, int64_t count) { return loop.largest(line + begin * step, step, count); });
      const double sum = pieces.sum(
          [&](int64_t begin, int64_t count) { return loop.exponentials(line + begin * step, step, count, most); });
      *reinterpret_cast<T*>(at[0]) = static_cast<T>(most);
      *reinterpret_cast<T*>(at[1]) = static_cast<T>(std::log(sum));
    });
  });
}

void cross_entropy_backward(const View& dx, const View& x, int dim, const View& largest, const View& log_sum,
                            const View& index, const View& share) {
  took(Path::cross_entropy, x.numel);
  visit_float_or_double(x.dtype, "cross_entropy", [&](auto zero) {
    using T = decltype(zero);
    const auto line = loops().cross_entropy[static_cast<std::size_t>(x.dtype)].backward;
    const int64_t length = x.sizes[dim], from = x.strides[dim], to = dx.strides[dim];
    const Pieces pieces(length, kExponentialCost);
    share_lines<6>({&dx, &x, &largest, &log_sum, &index, &share}, dim, kExponentialCost * length, [&](char* const* at) {
      if (*reinterpret_cast<const T*>(at[5]) == 0) {  // does not count: x may be NaN
        for (int64_t i = 0; i < length; ++i) reinterpret_cast<T*>(at[0])[i * to] = 0;
        return;
      }
      pieces.run([&](int64_t begin, int64_t count) {
        line(reinterpret_cast<T*>(at[0]) + begin * to, to, reinterpret_cast<const T*>(at[1]) + begin * from, from,
             count, at[2], at[3], at[5]);
      });
      const int64_t target = *reinterpret_cast<const int64_t*>(at[4]);
      if (target < 0 || target >= length) return;
      reinterpret_cast<T*>(at[0])[target * to] += *reinterpret_cast<const T*>(at[5]);
    });
  });
}

}  // namespace tendril::cpu

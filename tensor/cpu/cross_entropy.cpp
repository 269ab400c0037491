#include "tendril/tensor/cpu/cpu.h"
#include "tendril/tensor/cpu/loops.h"
#include "tendril/tensor/cpu/paths.h"
#include "tendril/tensor/cpu/visit.h"

namespace tendril::cpu {

void log_sum_exp(const View& largest, const View& log_sum, const View& x, int dim) {
  took(Path::cross_entropy, x.numel);
  visit_float_or_double(x.dtype, "cross_entropy", [&](auto) {
    const auto line = loops().cross_entropy[static_cast<std::size_t>(x.dtype)].log_sum_exp;
    const int64_t length = x.sizes[dim], step = x.strides[dim];
    share_lines<3>({&largest, &log_sum, &x}, dim, 4 * length,
                   [&](char* const* at) { line(at[2], step, length, at[0], at[1]); });
  });
}

void cross_entropy_backward(const View& dx, const View& x, int dim, const View& largest, const View& log_sum,
                            const View& index, const View& share) {
  took(Path::cross_entropy, x.numel);
  visit_float_or_double(x.dtype, "cross_entropy", [&](auto zero) {
    using T = decltype(zero);
    const auto line = loops().cross_entropy[static_cast<std::size_t>(x.dtype)].backward;
    const int64_t length = x.sizes[dim], from = x.strides[dim], to = dx.strides[dim];
    share_lines<6>({&dx, &x, &largest, &log_sum, &index, &share}, dim, 4 * length, [&](char* const* at) {
      line(at[0], to, at[1], from, length, at[2], at[3], at[5]);
      const int64_t target = *reinterpret_cast<const int64_t*>(at[4]);
      if (target < 0 || target >= length) return;
      reinterpret_cast<T*>(at[0])[target * to] += *reinterpret_cast<const T*>(at[5]);
    });
  });
}

}  // namespace tendril::cpu

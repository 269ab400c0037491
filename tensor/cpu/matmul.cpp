#include "tendril/tensor/cpu/cpu.h"
#include "tendril/tensor/cpu/loops.h"
#include "tendril/tensor/cpu/onednn.h"

namespace tendril::cpu {
namespace {

/// Above this many multiplications oneDNN is ahead of our own kernels (bench/ops).
constexpr int64_t kLarge = 24 * 1024;

}  // namespace

void matmul(const View& out, const View& a, const View& b) {
  const auto gemm = loops().gemm[static_cast<std::size_t>(out.dtype)];
  TENDRIL_CHECK_AS(DTypeError, gemm, "matmul: no cpu kernel for ", out.dtype);
  const bool batched = out.ndim == 3;
  const int64_t batch = batched ? out.sizes[0] : 1;
  const int r = batched ? 1 : 0, c = r + 1;
  const auto element = static_cast<int64_t>(size_of(out.dtype));
  Gemm g{out.sizes[r], out.sizes[c], a.sizes[c],   a.data,   a.strides[r],   a.strides[c],
         b.data,       b.strides[r], b.strides[c], out.data, out.strides[r], out.strides[c]};
  const bool large = out.dtype == kFloat32 && g.m > 2 && g.n > 2 && g.m * g.n * g.k >= kLarge;
  for (int64_t i = 0; i < batch; ++i) {
    if (!(large && onednn::sgemm(g))) gemm(g);
    if (!batched) return;
    g.a = static_cast<const char*>(g.a) + a.strides[0] * element;
    g.b = static_cast<const char*>(g.b) + b.strides[0] * element;
    g.out = static_cast<char*>(g.out) + out.strides[0] * element;
  }
}

}  // namespace tendril::cpu

#include <algorithm>
#include <atomic>

#include "tendril/tensor/cpu/cpu.h"
#include "tendril/tensor/cpu/gemm.h"
#include "tendril/tensor/cpu/in_float.h"
#include "tendril/tensor/cpu/loops.h"
#include "tendril/tensor/cpu/onednn.h"
#include "tendril/tensor/cpu/parallel.h"
#include "tendril/tensor/cpu/paths.h"
#include "tendril/tensor/deterministic.h"
#include "tendril/tensor/threads.h"

namespace tendril::cpu {
namespace {

/// Above this many multiplications oneDNN is ahead of our own kernels (bench/ops).
constexpr int64_t kLarge = 24 * 1024;
/// A thread's least share of the multiplications of our own kernels: what one needs tens of microseconds for.
constexpr int64_t kShare = 512 * 1024;
constexpr int64_t kBFloat16Share = 2 * kShare;  // they take half as long
/// Lines of a part of a product are a multiple of so many.
constexpr int64_t kLineBlock = 16;

/// Rows of b, or columns of a, that lie a multiple of 2 KiB apart share a few places of the cache. oneDNN 2.6, which
/// reads smaller operands where they are, takes up to twice as long then on AVX2 (docs/benchmarks/tensor.md); our own
/// kernels copy them first, which the other operand's lines must pay for.
bool crowded(const Gemm& g) noexcept {
  constexpr int64_t kStep = 2048 / sizeof(float), kFewLines = 32, kFewRows = 8;
  const bool b = g.b_column == 1 && g.b_row % kStep == 0 && g.m >= kFewLines;
  const bool a = g.a_row == 1 && g.a_column % kStep == 0 && g.n >= kFewLines;
  return (a || b) && g.k > kFewRows && onednn::dislikes_crowded_rows();
}

/// Rows `begin` to `end` of the product, or its columns; bytes of an element of the operands, and of the result.
Gemm part_of(const Gemm& g, bool rows, int64_t begin, int64_t end, int64_t element, int64_t out_element) {
  Gemm part = g;
  (rows ? part.m : part.n) = end - begin;
  if (rows) {
    part.a = static_cast<const char*>(g.a) + begin * g.a_row * element;
  } else {
    part.b = static_cast<const char*>(g.b) + begin * g.b_column * element;
  }
  part.out = static_cast<char*>(g.out) + begin * (rows ? g.out_row : g.out_column) * out_element;
  return part;
}

/// body(rows, begin, end) for parts of a large product, its rows or columns, which share no element of the result.
/// `share`: multiplications worth a thread. Deterministic: the sizes alone decide the parts, so that the bits are the
/// same for any number of threads; otherwise the sizes and num_threads().
template <class Body>
void for_large_parts(const Gemm& g, int64_t share, const Body& body) {
  const bool rows = g.m >= g.n;
  const int64_t lines = rows ? g.m : g.n;
  const int64_t threads = deterministic() ? 8 : std::min<int64_t>(num_threads(), g.m * g.n * g.k / share);
  // Each part packs the other operand anew: few and large ones, of whole blocks of oneDNN's.
  const int64_t least = deterministic() ? 128 : kLineBlock;
  const int64_t height =
      std::max(least, (lines / std::max<int64_t>(1, threads) + kLineBlock - 1) / kLineBlock * kLineBlock);
  for_each_part((lines + height - 1) / height,
                [&](int64_t i) { body(rows, i * height, std::min(lines, (i + 1) * height)); });
}

/// A large float32 product, each part by oneDNN, or by our own kernel where rows crowd. False: oneDNN cannot take its
/// strides, and nothing was written.
bool in_large_parts(const Gemm& g) {
  const bool ours = crowded(g);
  if (!ours && !onednn::takes(g)) return false;
  if (ours) took(Path::own_product);
  for_large_parts(g, kShare, [&](bool rows, int64_t begin, int64_t end) {
    const Gemm part = part_of(g, rows, begin, end, sizeof(float), sizeof(float));
    if (ours) return loops().gemm[static_cast<std::size_t>(kFloat32)](part);
    TENDRIL_CHECK(onednn::sgemm(part), "matmul: oneDNN takes a product and refused a part of it");
  });
  return true;
}

}  // namespace

void multiply(DType dtype, const Gemm& g, const char* op) {
  const auto gemm = loops().gemm[static_cast<std::size_t>(dtype)];
  TENDRIL_CHECK_AS(DTypeError, gemm, op, ": no cpu kernel for ", dtype);
  const int64_t multiplications = g.m * g.n * g.k;
  if (multiplications >= kLarge) [[unlikely]] {
    if (dtype == kFloat32 && g.m > 2 && g.n > 2 && in_large_parts(g)) return;
    took(Path::own_product, multiplications);
  }
  // Parts share no element of the result, so the cuts change no bit of it.
  const bool rows = g.m >= g.n;
  const int64_t lines = rows ? g.m : g.n, across = rows ? g.n : g.m;
  constexpr int64_t kLeast = 32;
  if (lines < 2 * kLeast) return gemm(g);  // most small products: nothing is divided
  // Each part packs the other operand anew: few and large ones.
  const int64_t grain =
      std::max<int64_t>({kLeast, kShare / std::max<int64_t>(1, across * g.k), lines / (4 * int64_t{num_threads()})});
  const auto element = static_cast<int64_t>(size_of(dtype));
  if (lines < 2 * grain) return gemm(g);
  parallel_for(lines, grain, [&](int64_t begin, int64_t end) { gemm(part_of(g, rows, begin, end, element, element)); });
}

void multiply_alone(DType dtype, const Gemm& g) {
  if (dtype == kFloat32 && !crowded(g) && onednn::sgemm(g)) return;
  loops().gemm[static_cast<std::size_t>(dtype)](g);
}

namespace {

int64_t batch_of(const View& out) noexcept { return out.ndim == 3 ? out.sizes[0] : 1; }

/// f(product) for those of the batch from `begin` to `end`, until one gives false.
template <class F>
bool for_batch(const View& out, const View& a, const View& b, int64_t begin, int64_t end, F f) {
  const bool batched = out.ndim == 3;
  const int r = batched ? 1 : 0, c = r + 1;
  Gemm g{out.sizes[r], out.sizes[c], a.sizes[c],   a.data,   a.strides[r],   a.strides[c],
         b.data,       b.strides[r], b.strides[c], out.data, out.strides[r], out.strides[c]};
  const auto place = [batched](const View& v, int64_t i) {
    return v.as<char>() + (batched ? i * v.strides[0] * static_cast<int64_t>(size_of(v.dtype)) : 0);
  };
  for (int64_t i = begin; i < end; ++i) {
    g.a = place(a, i);
    g.b = place(b, i);
    g.out = place(out, i);
    if (!f(g)) return false;
  }
  return true;
}

/// multiply(product) for all of the batch, as long as it gives true.
template <class Multiply>
bool for_whole_batch(const View& out, const View& a, const View& b, const Multiply& multiply) {
  const int64_t products = batch_of(out);
  if (products < 4) return for_batch(out, a, b, 0, products, multiply);
  // Many products are shared out whole: then none waits for the parts of another.
  const int64_t threads = num_threads(), share = out.numel * a.sizes[2] / kShare;
  if (threads < 2 || products < 2 * threads || share < 2) return for_batch(out, a, b, 0, products, multiply);
  const int64_t parts = std::min({products, share, 4 * threads});
  std::atomic<bool> all = true;
  for_each_part(parts, [&](int64_t i) {
    if (!for_batch(out, a, b, products * i / parts, products * (i + 1) / parts, multiply)) all = false;
  });
  return all;
}

/// By the processor's instructions for bfloat16, in parts as those of float32. False: not done, and what was written
/// means nothing.
bool in_bfloat16(const View& out, const View& a, const View& b) {
  if (a.dtype != kBFloat16 || deterministic()) return false;
  const auto element = static_cast<int64_t>(size_of(a.dtype)), out_element = static_cast<int64_t>(size_of(out.dtype));
  return for_whole_batch(out, a, b, [&](const Gemm& g) {
    if (g.m <= 2 || g.n <= 2 || g.m * g.n * g.k < kLarge) return false;
    std::atomic<bool> all = true;
    for_large_parts(g, kBFloat16Share, [&](bool rows, int64_t begin, int64_t end) {
      const Gemm part = part_of(g, rows, begin, end, element, out_element);
      if (!onednn::bfloat16_gemm(part, out.dtype == kFloat32)) all = false;
    });
    return all.load();
  });
}

}  // namespace

void matmul(const View& out, const View& a, const View& b) {
  if (is_half(a.dtype)) {
    if (out.numel > 0 && in_bfloat16(out, a, b)) return;
    const InFloat result(out, InFloat::Use::write);
    matmul(result, InFloat(a), InFloat(b));
    return result.write_back();
  }
  for_whole_batch(out, a, b, [&](const Gemm& g) {
    multiply(out.dtype, g, "matmul");
    return true;
  });
}

}  // namespace tendril::cpu

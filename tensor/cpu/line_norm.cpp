#include <algorithm>
#include <cmath>
#include <utility>

#include "tendril/tensor/cpu/cpu.h"
#include "tendril/tensor/cpu/in_float.h"
#include "tendril/tensor/cpu/level/level.h"
#include "tendril/tensor/cpu/numbers.h"
#include "tendril/tensor/cpu/parallel.h"
#include "tendril/tensor/cpu/paths.h"
#include "tendril/tensor/cpu/scratch.h"

/// Layer normalisation, a line at a time. Forward reads x once from memory (its mean and variance, then the result,
/// from the nearest cache) and writes once; backward reads x and g once and writes once. Gradients of weight and bias
/// are sums over lines: of blocks of them in double, then of the blocks in order, whatever the number of threads.
namespace tendril::cpu {
namespace {

const LineLoops& line_loops(const View& x, const char* op) {
  const LineLoops& line = loops().line[static_cast<std::size_t>(x.dtype)];
  TENDRIL_CHECK_AS(DTypeError, line.squares, op, ": no cpu kernel for ", x.dtype);
  return line;
}

/// Memory for the time of a kernel that begins as zeros.
template <class T>
struct Zeros : Scratch<T> {
  explicit Zeros(int64_t count) : Scratch<T>(count) { std::fill_n(this->data(), count, T(0)); }
};

void* data_of(const View* v) { return v ? v->data : nullptr; }

}  // namespace

void layer_norm(const View& out, const View* mean, const View& rstd, const View& x, const View* weight,
                const View* bias, double eps) {
  took(Path::layer_norm, x.numel);
  const LineLoops& line = line_loops(x, "layer_norm");
  const auto moments = loops().channel[static_cast<std::size_t>(x.dtype)].moments;
  const int64_t length = x.sizes[1], bytes = length * static_cast<int64_t>(size_of(x.dtype));
  const MaybeInFloat factor(weight), shift(bias);
  parallel_for(x.sizes[0], grain_of(length), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const char* from = x.as<const char>() + i * bytes;
      double squares = 0, about = 0;
      if (mean) {
        Moments all;
        moments(from, length, &all);
        put(*mean, i, all.mean);
        about = get(*mean, i);  // as it is kept, the same for forward and backward
        const double off = all.mean - about;
        squares = all.squares / static_cast<double>(length) + off * off;
      } else {
        squares = line.squares(from, length) / static_cast<double>(length);
      }
      put(rstd, i, 1 / std::sqrt(squares + eps));
      line.normalise(out.as<char>() + i * bytes, from, about, get(rstd, i), data_of(factor.view()),
                     data_of(shift.view()), length);
    }
  });
}

// With xhat = (x - mean) rstd, h = g weight, and averages over the line:
//   dx = rstd (h - mean(h) - xhat mean(h xhat)), without mean(h) where the mean is not taken out;
//   dweight = sum of g xhat over the lines, dbias = sum of g.
void layer_norm_backward(const View* dx, const View* dweight, const View* dbias, const View& g, const View& x,
                         const View* mean, const View& rstd, const View* weight) {
  took(Path::layer_norm, x.numel);
  const LineLoops& line = line_loops(x, "layer_norm_backward");
  const int64_t lines = x.sizes[0], length = x.sizes[1];
  const int64_t bytes = length * static_cast<int64_t>(size_of(x.dtype));
  const int64_t bytes_of_sums = length * static_cast<int64_t>(size_of(computed_in(x.dtype)));
  const MaybeInFloat factor(weight);
  const auto number = static_cast<double>(length);
  // Few blocks, so that their sums are small beside x; they do not depend on the threads.
  const int64_t height = std::max<int64_t>(std::max<int64_t>(1, kParallelGrain / length), (lines + 63) / 64);
  const int64_t blocks = (lines + height - 1) / height;
  const Zeros<double> weights(dweight ? blocks * length : 0), biases(dbias ? blocks * length : 0);
  constexpr int64_t kFew = 16;  // so many lines are added up in the elements' own type, then in double
  const Zeros<char> few_weights(dweight ? blocks * bytes_of_sums : 0), few_biases(dbias ? blocks * bytes_of_sums : 0);
  parallel_for(blocks, 1, [&](int64_t first, int64_t last) {
    for (int64_t block = first; block < last; ++block) {
      double* const to_weight = dweight ? weights.data() + block * length : nullptr;
      double* const to_bias = dbias ? biases.data() + block * length : nullptr;
      void* const few_weight = dweight ? few_weights.data() + block * bytes_of_sums : nullptr;
      void* const few_bias = dbias ? few_biases.data() + block * bytes_of_sums : nullptr;
      const int64_t end = std::min(lines, (block + 1) * height);
      for (int64_t i = block * height; i < end; ++i) {
        const char *gs = g.as<const char>() + i * bytes, *xs = x.as<const char>() + i * bytes;
        const double m = mean ? get(*mean, i) : 0, r = get(rstd, i);
        if (to_weight || to_bias) line.parameters(few_weight, few_bias, gs, xs, m, r, length);
        if (i + 1 == end || (i + 1) % kFew == 0) {
          if (to_weight) line.drain(to_weight, few_weight, length);
          if (to_bias) line.drain(to_bias, few_bias, length);
        }
        if (!dx) continue;
        double sums[2] = {0, 0};
        line.products(gs, xs, m, data_of(factor.view()), length, sums);
        line.combine(dx->as<char>() + i * bytes, gs, xs, m, data_of(factor.view()), r, -r * r * r * sums[1] / number,
                     mean ? -r * sums[0] / number : 0, length);
      }
    }
  });
  for (const auto& [out, parts] : {std::pair{dweight, &weights}, std::pair{dbias, &biases}}) {
    if (!out) continue;
    for (int64_t j = 0; j < length; ++j) {
      double sum = 0;
      for (int64_t block = 0; block < blocks; ++block) sum += parts->data()[block * length + j];
      put(*out, j, sum);
    }
  }
}

}  // namespace tendril::cpu

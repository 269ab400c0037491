#include <cmath>

#include "tendril/tensor/cpu/cpu.h"
#include "tendril/tensor/cpu/loops.h"
#include "tendril/tensor/cpu/numbers.h"

/// Batch normalisation, a channel at a time. Forward reads x twice (mean and variance together, then the result) and
/// writes once, backward reads x and g twice (sums, then dx) and writes once: the fewest. A channel that fits into the
/// caches is read from memory once each way.
namespace tendril::cpu {
namespace {

const ChannelLoops& channel_loops(const View& x, const char* op) {
  const ChannelLoops& channel = loops().channel[static_cast<std::size_t>(x.dtype)];
  TENDRIL_CHECK_AS(DTypeError, channel.moments, op, ": no cpu kernel for ", x.dtype);
  return channel;
}

/// The rows of channel `c`.
template <class Row>
void for_each_image(const View& x, int64_t c, Row row) {
  const int64_t bytes = x.sizes[2] * static_cast<int64_t>(size_of(x.dtype));
  for (int64_t n = 0; n < x.sizes[0]; ++n) row((n * x.sizes[1] + c) * bytes);
}

}  // namespace

void batch_norm(const View& out, const View& mean, const View& var, const View& x, const View* weight, const View* bias,
                double eps, bool batch) {
  const ChannelLoops& channel = channel_loops(x, "batch_norm");
  const int64_t length = x.sizes[2], count = x.sizes[0] * length;
  const char* from = x.as<const char>();
  parallel_for(x.sizes[1], grain_of(count), [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      if (batch) {
        Moments all;
        for_each_image(x, c, [&](int64_t at) { channel.moments(from + at, length, &all); });
        put(mean, c, all.mean);
        const double off = all.mean - get(mean, c);  // about the mean as it is kept, the same for forward and backward
        put(var, c, all.squares / static_cast<double>(count) + off * off);
      }
      const double scale = get_or(weight, c, 1) / std::sqrt(get(var, c) + eps), shift = get_or(bias, c, 0);
      for_each_image(x, c, [&](int64_t at) {
        channel.affine(out.as<char>() + at, from + at, get(mean, c), scale, shift, length);
      });
    }
  });
}

// With xhat = (x - mean) r, r = 1 / sqrt(var + eps), and averages over the channel:
//   dbias = sum(g), dweight = sum(g xhat), dx = weight r (g - mean(g) - xhat mean(g xhat)) for statistics of the batch,
//   dx = weight r g for given ones.
void batch_norm_backward(const View* dx, const View* dweight, const View* dbias, const View& g, const View& x,
                         const View& mean, const View& var, const View* weight, double eps, bool batch) {
  const ChannelLoops& channel = channel_loops(x, "batch_norm_backward");
  const int64_t length = x.sizes[2], count = x.sizes[0] * length;
  const auto number = static_cast<double>(count);
  parallel_for(x.sizes[1], grain_of(count), [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      const double m = get(mean, c), r = 1 / std::sqrt(get(var, c) + eps);
      double sums[2] = {0, 0};
      if (batch || dweight || dbias) {
        for_each_image(x, c, [&](int64_t at) {
          channel.products(g.as<const char>() + at, x.as<const char>() + at, m, length, sums);
        });
      }
      if (dweight) put(*dweight, c, sums[1] * r);
      if (dbias) put(*dbias, c, sums[0]);
      if (!dx) continue;
      const double scale = get_or(weight, c, 1) * r;
      const double of_x = batch ? -scale * r * r * sums[1] / number : 0;
      const double constant = batch ? -scale * sums[0] / number : 0;
      for_each_image(x, c, [&](int64_t at) {
        channel.combine(dx->as<char>() + at, g.as<const char>() + at, x.as<const char>() + at, m, scale, of_x, constant,
                        length);
      });
    }
  });
}

}  // namespace tendril::cpu

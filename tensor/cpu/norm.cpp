#include <algorithm>
#include <cmath>

#include "tendril/tensor/cpu/cpu.h"
#include "tendril/tensor/cpu/loops.h"
#include "tendril/tensor/cpu/norm_pixels.h"
#include "tendril/tensor/cpu/numbers.h"
#include "tendril/tensor/cpu/paths.h"

/// Batch normalisation, a channel at a time, alone or with what follows it in residual networks: a sum and a relu.
/// Forward reads x twice (mean and variance together, then the result) and writes once, backward reads x and g twice
/// (sums, then dx) and writes once: the fewest. With a relu forward reads the residual too, and backward what forward
/// gave, both times. A channel that fits into the caches is read from memory once each way.
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

/// apply(mean, scale, shift, offset of a row) for each row of x.
template <class Apply>
void forward(const ChannelLoops& channel, const View& mean, const View& var, const View& x, const View* weight,
             const View* bias, double eps, bool batch, const Apply& apply) {
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
      for_each_image(x, c, [&](int64_t at) { apply(get(mean, c), scale, shift, at); });
    }
  });
}

const void* at_offset(const View* v, int64_t at) { return v ? v->as<const char>() + at : nullptr; }

/// Channels whose mean or variance is not finite are left to the caller (autograd/ops/norm.cpp).
void learn(const RunningStatistics& running, const View& mean, const View& var, const View& x) {
  const auto count = static_cast<double>(x.sizes[0] * x.sizes[2]), momentum = running.momentum;
  const auto move = [&](const View* to, const View& value, double factor) {
    if (!to) return;
    for (int64_t c = 0; c < x.sizes[1]; ++c) {
      if (!std::isfinite(get(mean, c)) || !std::isfinite(get(var, c))) continue;
      put(*to, c, (1 - momentum) * get(*to, c) + momentum * factor * get(value, c));
    }
  };
  move(running.mean, mean, 1);
  move(running.var, var, count / (count - 1));  // the unbiased variance
}

}  // namespace

void batch_norm(const View& out, const View& mean, const View& var, const View& x, const View* weight, const View* bias,
                double eps, bool batch, const RunningStatistics& running) {
  if (!x.contiguous) {
    batch_norm_pixels(out, mean, var, x, weight, bias, nullptr, false, eps, batch);
  } else {
    const ChannelLoops& channel = channel_loops(x, "batch_norm");
    forward(channel, mean, var, x, weight, bias, eps, batch, [&](double m, double scale, double shift, int64_t at) {
      channel.affine(out.as<char>() + at, x.as<const char>() + at, m, scale, shift, x.sizes[2]);
    });
  }
  if (batch) learn(running, mean, var, x);
}

void batch_norm_relu(const View& out, const View& mean, const View& var, const View& x, const View* weight,
                     const View* bias, const View* residual, double eps, bool batch, const RunningStatistics& running) {
  took(Path::batch_norm_relu, x.numel);
  if (!x.contiguous) {
    batch_norm_pixels(out, mean, var, x, weight, bias, residual, true, eps, batch);
  } else {
    const ChannelLoops& channel = channel_loops(x, "batch_norm_relu");
    forward(channel, mean, var, x, weight, bias, eps, batch, [&](double m, double scale, double shift, int64_t at) {
      channel.affine_relu(out.as<char>() + at, x.as<const char>() + at, at_offset(residual, at), m, scale, shift,
                          x.sizes[2]);
    });
  }
  if (batch) learn(running, mean, var, x);
}

namespace {

// With xhat = (x - mean) r, r = 1 / sqrt(var + eps), and averages over the channel:
//   dbias = sum(g), dweight = sum(g xhat), dx = weight r (g - mean(g) - xhat mean(g xhat)) for statistics of the batch,
//   dx = weight r g for given ones.
// rows(at, length, use) calls use(g, at, length) with the gradient of the sum, row by row or piece by piece; `again` is
// for the second reading.
template <class Rows, class Again>
void backward(const ChannelLoops& channel, const View* dx, const View* dweight, const View* dbias, const View& x,
              const View& mean, const View& var, const View* weight, double eps, bool batch, bool always_read,
              const Rows& rows, const Again& again) {
  const int64_t length = x.sizes[2], count = x.sizes[0] * length;
  const auto number = static_cast<double>(count);
  const char* from = x.as<const char>();
  parallel_for(x.sizes[1], grain_of(count), [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      const double m = get(mean, c), r = 1 / std::sqrt(get(var, c) + eps);
      double sums[2] = {0, 0};
      if (always_read || batch || dweight || dbias) {
        for_each_image(x, c, [&](int64_t row) {
          rows(row, [&](const void* g, int64_t at, int64_t n) { channel.products(g, from + at, m, n, sums); });
        });
      }
      if (dweight) put(*dweight, c, sums[1] * r);
      if (dbias) put(*dbias, c, sums[0]);
      if (!dx) continue;
      const double scale = get_or(weight, c, 1) * r;
      const double of_x = batch ? -scale * r * r * sums[1] / number : 0;
      const double constant = batch ? -scale * sums[0] / number : 0;
      for_each_image(x, c, [&](int64_t row) {
        again(row, [&](const void* g, int64_t at, int64_t n) {
          channel.combine(dx->as<char>() + at, g, from + at, m, scale, of_x, constant, n);
        });
      });
    }
  });
}

}  // namespace

void batch_norm_backward(const View* dx, const View* dweight, const View* dbias, const View& g, const View& x,
                         const View& mean, const View& var, const View* weight, double eps, bool batch) {
  if (!x.contiguous) {
    return batch_norm_pixels_backward(dx, dweight, dbias, nullptr, g, nullptr, x, mean, var, weight, eps, batch);
  }
  const auto whole = [&](int64_t row, const auto& use) { use(g.as<const char>() + row, row, x.sizes[2]); };
  backward(channel_loops(x, "batch_norm_backward"), dx, dweight, dbias, x, mean, var, weight, eps, batch, false, whole,
           whole);
}

void batch_norm_relu_backward(const View* dx, const View* dweight, const View* dbias, const View* dresidual,
                              const View& g, const View& out, const View& x, const View& mean, const View& var,
                              const View* weight, double eps, bool batch) {
  took(Path::batch_norm_relu, x.numel);
  if (!x.contiguous) {
    return batch_norm_pixels_backward(dx, dweight, dbias, dresidual, g, &out, x, mean, var, weight, eps, batch);
  }
  const ChannelLoops& channel = channel_loops(x, "batch_norm_relu_backward");
  const auto element = static_cast<int64_t>(size_of(x.dtype));
  const auto masked = [&](void* to, int64_t at, int64_t count) {
    channel.relu_gradient(to, g.as<const char>() + at, out.as<const char>() + at, count);
  };
  // A piece of what is behind the relu lies in the nearest cache while it is read.
  const auto pieces = [&](int64_t row, const auto& use) {
    constexpr int64_t kPiece = 1024;
    alignas(64) char piece[kPiece * sizeof(double)];
    for (int64_t first = 0; first < x.sizes[2]; first += kPiece) {
      const int64_t count = std::min(kPiece, x.sizes[2] - first), at = row + first * element;
      masked(piece, at, count);
      use(piece, at, count);
    }
  };
  const auto kept = [&](int64_t row, const auto& use) { use(dresidual->as<const char>() + row, row, x.sizes[2]); };
  const auto keeping = [&](int64_t row, const auto& use) {
    masked(dresidual->as<char>() + row, row, x.sizes[2]);
    kept(row, use);
  };
  if (dresidual) {
    backward(channel, dx, dweight, dbias, x, mean, var, weight, eps, batch, true, keeping, kept);
  } else {
    backward(channel, dx, dweight, dbias, x, mean, var, weight, eps, batch, false, pieces, pieces);
  }
}

}  // namespace tendril::cpu

#include "tendril/autograd/ops/pool.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "tendril/autograd/detail/image_format.h"
#include "tendril/autograd/history.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/detail/named_error.h"
#include "tendril/tensor/raw.h"

namespace tendril {

namespace {

using autograd::NodeOf;
using autograd::track;
using autograd::detail::image_format;

// ---- what is asked of every window

void check_image(const Tensor& x, const char* op, bool takes_integers = false) {
  TENDRIL_CHECK(x.defined(), op, ": x is undefined");
  TENDRIL_CHECK_AS(ShapeError, x.dim() == 4 || x.dim() == 3, op, ": x has shape ", x.sizes(),
                   ", expected [batch, channels, height, width] or [channels, height, width]");
  TENDRIL_CHECK_AS(DTypeError, is_floating(x.dtype()) || (takes_integers && x.dtype() != kBool), op, ": x has dtype ",
                   x.dtype(), ", expected ", takes_integers ? "numbers" : "a floating one");
}

/// How many windows there are; checks the geometry.
Size2 windows(const Tensor& x, const PoolGeometry& g, bool ceil_mode, const char* op) {
  const auto positive = [&](Size2 size, const char* name) {
    TENDRIL_CHECK(size.h > 0 && size.w > 0, op, ": ", name, ": got ", size, ", expected positive numbers");
  };
  positive(g.kernel, "kernel");
  positive(g.stride, "stride");
  positive(g.dilation, "dilation");
  TENDRIL_CHECK(g.padding.h >= 0 && g.padding.w >= 0 && 2 * g.padding.h <= g.kernel.h && 2 * g.padding.w <= g.kernel.w,
                op, ": padding: got ", g.padding, ", expected at most half of the kernel ", g.kernel);
  const Size2 count(window_count(x.size(-2), g.kernel.h, g.stride.h, g.padding.h, g.dilation.h, ceil_mode),
                    window_count(x.size(-1), g.kernel.w, g.stride.w, g.padding.w, g.dilation.w, ceil_mode));
  TENDRIL_CHECK_AS(ShapeError, count.h > 0 && count.w > 0, op, ": a window of ", g.kernel, ", dilated by ", g.dilation,
                   ", does not fit x of ", x.sizes(), " padded by ", g.padding);
  return count;
}

Size2 stride_of(Size2 given, Size2 kernel) { return given == Size2(0) ? kernel : given; }

/// Shared elements, in four dimensions, without gaps.
Tensor four(const Tensor& x, MemoryFormat format) {
  const Tensor whole = raw::contiguous(x, format);
  return x.dim() == 4 ? whole : raw::unsqueeze(whole, 0);
}

/// Integers are pooled in row-major order only.
MemoryFormat format_for(const Tensor& x) { return is_floating(x.dtype()) ? image_format(x) : MemoryFormat::contiguous; }

Dims with_image(const Dims& sizes, Size2 image) {
  const bool batched = sizes.size() == 4;
  Dims result = sizes;
  result[batched ? 2 : 1] = image.h;
  result[batched ? 3 : 2] = image.w;
  return result;
}

// ---- max

/// Whether each window has a pixel. A dilated one may step from the padding before a small image to that behind it.
bool all_see_pixels(int64_t count, int64_t size, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation) {
  for (int64_t i = 0; i < count; ++i) {
    const int64_t start = i * stride - padding;
    const int64_t skipped = start < 0 ? (-start + dilation - 1) / dilation : 0;  // places before the image
    if (skipped >= kernel || start + skipped * dilation >= size) return false;
  }
  return true;
}

/// The largest element alone has the gradient. Unrecorded, one pass reads g and the places and writes it, plane by
/// plane in a cache; recorded, scatter_add is differentiable.
struct MaxPool2dBackward : NodeOf<MaxPool2dBackward, 1, 1> {
  static constexpr const char* kName = "MaxPool2dBackward";
  Dims sizes;
  MemoryFormat format = MemoryFormat::contiguous;
  PoolGeometry geometry;

  void backward(const Tensor& g, std::span<Tensor> dx) {
    const Tensor indices = saved(0);
    if (!autograd::grad_enabled()) {
      dx[0] = raw::empty(sizes, g.dtype(), g.device(), format);
      const DeviceKernels table = kernels(g.device());
      return require(table->max_pool2d_backward, "max_pool2d_backward", *table)(
          raw::view_of(four(dx[0], format)), raw::view_of(four(g, format)), raw::view_of(four(indices, format)),
          geometry);
    }
    const Tensor zeros = raw::zeros(sizes, g.dtype(), g.device());
    dx[0] = zeros.flatten(-2).scatter_add(-1, indices.flatten(-2), g.flatten(-2)).reshape(sizes);
  }
};

// ---- mean

struct Axis {
  std::vector<int64_t> begin, end;
  std::vector<double> scale;

  void add(int64_t from, int64_t to, double factor) {
    begin.push_back(from);
    end.push_back(to);
    scale.push_back(factor);
  }
  PoolAxis view() const noexcept { return {begin.data(), end.data(), scale.data()}; }
};

/// A mean over windows, as a linear map from images to smaller ones.
struct MeanPool {
  Dims in, out;
  Axis h, w;
  MemoryFormat format = MemoryFormat::contiguous;
};
using MeanPoolPtr = std::shared_ptr<const MeanPool>;

// The map and its transpose are each other's gradients.
Tensor mean_pool(const Tensor& x, const MeanPoolPtr& pool);
Tensor mean_pool_transpose(const Tensor& g, const MeanPoolPtr& pool);

struct AvgPool2dBackward : NodeOf<AvgPool2dBackward, 1> {
  static constexpr const char* kName = "AvgPool2dBackward";
  MeanPoolPtr pool;

  void backward(const Tensor& g, std::span<Tensor> dx) { dx[0] = mean_pool_transpose(g, pool); }
};

struct AvgPool2dTransposeBackward : NodeOf<AvgPool2dTransposeBackward, 1> {
  static constexpr const char* kName = "AvgPool2dTransposeBackward";
  MeanPoolPtr pool;

  void backward(const Tensor& g, std::span<Tensor> dx) { dx[0] = mean_pool(g, pool); }
};

Tensor mean_pool(const Tensor& x, const MeanPoolPtr& pool) {
  const DeviceKernels table = kernels(x.device());
  Tensor out = raw::empty(pool->out, x.dtype(), x.device(), pool->format);
  require(table->mean_pool2d, "mean_pool2d", *table)(
      raw::view_of(four(out, pool->format)), raw::view_of(four(x, pool->format)), pool->h.view(), pool->w.view());
  if (auto* n = track<AvgPool2dBackward>(out, x)) n->pool = pool;
  return out;
}

Tensor mean_pool_transpose(const Tensor& g, const MeanPoolPtr& pool) {
  const DeviceKernels table = kernels(g.device());
  Tensor x = raw::empty(pool->in, g.dtype(), g.device(), pool->format);
  require(table->mean_pool2d_transpose, "mean_pool2d_transpose", *table)(
      raw::view_of(four(x, pool->format)), raw::view_of(four(g, pool->format)), pool->h.view(), pool->w.view());
  if (auto* n = track<AvgPool2dTransposeBackward>(x, g)) n->pool = pool;
  return x;
}

Axis sliding(int64_t count, int64_t size, int64_t kernel, int64_t stride, int64_t padding, bool include_pad,
             bool divided) {
  Axis axis;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t start = i * stride - padding, stop = std::min(start + kernel, size + padding);
    const int64_t begin = std::max<int64_t>(start, 0), end = std::max(begin, std::min(stop, size));
    const int64_t number = include_pad ? stop - start : end - begin;
    axis.add(begin, end, divided ? 1 / static_cast<double>(std::max<int64_t>(number, 1)) : 1.0);
  }
  return axis;
}

constexpr int64_t kMostWindows = 1'000'000'000;  // along a dimension, of an adaptive pooling

Axis adaptive(int64_t count, int64_t size) {
  Axis axis;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t begin = i * size / count, end = ((i + 1) * size + count - 1) / count;
    axis.add(begin, end, 1 / static_cast<double>(end - begin));
  }
  return axis;
}

}  // namespace

std::tuple<Tensor, Tensor> max_pool2d_with_indices(const Tensor& x, Size2 kernel, const MaxPoolOptions& options) {
  check_image(x, "max_pool2d", true);
  const PoolGeometry geometry{kernel, stride_of(options.stride, kernel), options.padding, options.dilation};
  const Size2 count = windows(x, geometry, options.ceil_mode, "max_pool2d");
  TENDRIL_CHECK_AS(
      ShapeError,
      all_see_pixels(count.h, x.size(-2), kernel.h, geometry.stride.h, geometry.padding.h, geometry.dilation.h) &&
          all_see_pixels(count.w, x.size(-1), kernel.w, geometry.stride.w, geometry.padding.w, geometry.dilation.w),
      "max_pool2d: a window of ", kernel, ", dilated by ", geometry.dilation, ", sees nothing but the padding of x ",
      x.sizes());
  const Dims sizes = with_image(x.sizes(), count);
  const MemoryFormat format = format_for(x);
  const Tensor out = raw::empty(sizes, x.dtype(), x.device(), format),
               indices = raw::empty(sizes, kInt64, x.device(), format);
  const DeviceKernels table = kernels(x.device());
  require(table->max_pool2d, "max_pool2d", *table)(raw::view_of(four(out, format)), raw::view_of(four(indices, format)),
                                                   raw::view_of(four(x, format)), geometry);
  if (auto* n = track<MaxPool2dBackward>(out, x)) {
    n->save(0, indices);
    n->sizes = x.sizes();
    n->format = format;
    n->geometry = geometry;
  }
  return {out, indices};
}

Tensor max_pool2d(const Tensor& x, Size2 kernel, const MaxPoolOptions& options) {
  return std::get<0>(max_pool2d_with_indices(x, kernel, options));
}

Tensor avg_pool2d(const Tensor& x, Size2 kernel, const AvgPoolOptions& options) {
  check_image(x, "avg_pool2d", true);
  const PoolGeometry g{kernel, stride_of(options.stride, kernel), options.padding, 1};
  const Size2 count = windows(x, g, options.ceil_mode, "avg_pool2d");
  const bool divided = !options.divisor_override;
  TENDRIL_CHECK(divided || *options.divisor_override != 0, "avg_pool2d: divisor_override: got 0");
  auto pool = std::make_shared<MeanPool>();
  pool->in = x.sizes();
  pool->format = format_for(x);
  pool->out = with_image(x.sizes(), count);
  pool->h = sliding(count.h, x.size(-2), g.kernel.h, g.stride.h, g.padding.h, options.count_include_pad, divided);
  pool->w = sliding(count.w, x.size(-1), g.kernel.w, g.stride.w, g.padding.w, options.count_include_pad, divided);
  if (!divided) pool->h.scale.assign(pool->h.scale.size(), 1 / static_cast<double>(*options.divisor_override));
  return mean_pool(x, pool);
}

Tensor adaptive_avg_pool2d(const Tensor& x, Size2 output) {
  check_image(x, "adaptive_avg_pool2d");
  TENDRIL_CHECK(output.h >= 0 && output.w >= 0 && std::max(output.h, output.w) < kMostWindows,
                "adaptive_avg_pool2d: output: got ", output, ", expected numbers of 0 or more that fit memory");
  TENDRIL_CHECK_AS(ShapeError, x.size(-2) > 0 && x.size(-1) > 0, "adaptive_avg_pool2d: x has shape ", x.sizes(),
                   ", expected at least one pixel");
  auto pool = std::make_shared<MeanPool>();
  pool->in = x.sizes();
  pool->format = image_format(x);
  pool->out = with_image(x.sizes(), output);
  pool->h = adaptive(output.h, x.size(-2));
  pool->w = adaptive(output.w, x.size(-1));
  return mean_pool(x, pool);
}

namespace {

/// Where the windows of an adaptive pooling lie, [count, length of the longest]: a shorter one has its last place
/// again.
Tensor adaptive_places(int64_t count, int64_t size, Device device) {
  const Axis axis = adaptive(count, size);
  int64_t longest = 0;
  for (std::size_t i = 0; i < axis.begin.size(); ++i) longest = std::max(longest, axis.end[i] - axis.begin[i]);
  std::vector<int64_t> places;
  for (std::size_t i = 0; i < axis.begin.size(); ++i) {
    for (int64_t k = 0; k < longest; ++k) places.push_back(std::min(axis.begin[i] + k, axis.end[i] - 1));
  }
  return raw::to(raw::from_data(places, {count, longest}), device);
}

/// As images of height 1. The checks of images name the two dimensions, so what is no sequence is refused here.
Tensor as_images(const Tensor& x, const char* op) {
  TENDRIL_CHECK(x.defined(), op, ": x is undefined");
  TENDRIL_CHECK_AS(ShapeError, x.dim() == 3 || x.dim() == 2, op, ": x has shape ", x.sizes(),
                   ", expected [batch, channels, length] or [channels, length]");
  return x.unsqueeze(-2);
}

}  // namespace

std::tuple<Tensor, Tensor> adaptive_max_pool2d_with_indices(const Tensor& x, Size2 output) {
  check_image(x, "adaptive_max_pool2d", true);
  TENDRIL_CHECK(output.h > 0 && output.w > 0 && std::max(output.h, output.w) < kMostWindows,
                "adaptive_max_pool2d: output: got ", output, ", expected positive numbers that fit memory");
  TENDRIL_CHECK_AS(ShapeError, x.size(-2) > 0 && x.size(-1) > 0, "adaptive_max_pool2d: x has shape ", x.sizes(),
                   ", expected at least one pixel");
  // The elements of each window side by side, [..., rows of windows, height, columns of windows, width].
  const Tensor rows = adaptive_places(output.h, x.size(-2), x.device()),
               columns = adaptive_places(output.w, x.size(-1), x.device());
  Dims sizes;
  for (int d = 0; d < x.dim() - 2; ++d) sizes.push_back(x.sizes()[d]);
  for (const int64_t size : {rows.size(0), rows.size(1), columns.size(0), columns.size(1)}) sizes.push_back(size);
  const Tensor windows = x.index_select(-2, rows.flatten()).index_select(-1, columns.flatten()).reshape(sizes);
  const auto [values, within] = windows.transpose(-3, -2).flatten(-2).max(-1);
  // Of each window, [rows of windows, columns of windows, height * width], where its elements come from.
  const Tensor places = (rows.unsqueeze(1).unsqueeze(-1) * x.size(-1) + columns.unsqueeze(1)).flatten(-2);
  Dims all = within.sizes();
  all.push_back(places.size(-1));
  return {values, places.expand(all).gather(-1, within.unsqueeze(-1)).squeeze(-1)};
}

Tensor adaptive_max_pool2d(const Tensor& x, Size2 output) {
  return std::get<0>(adaptive_max_pool2d_with_indices(x, output));
}

std::tuple<Tensor, Tensor> max_pool1d_with_indices(const Tensor& x, int64_t kernel, const MaxPool1dOptions& options) {
  return detail::named_errors("max_pool1d", {"max_pool2d"}, [&]() -> std::tuple<Tensor, Tensor> {
    const auto [values, indices] = max_pool2d_with_indices(as_images(x, "max_pool1d"), {1, kernel},
                                                           {.stride = {1, options.stride ? options.stride : kernel},
                                                            .padding = {0, options.padding},
                                                            .dilation = {1, options.dilation},
                                                            .ceil_mode = options.ceil_mode});
    return {values.squeeze(-2), indices.squeeze(-2)};
  });
}

Tensor max_pool1d(const Tensor& x, int64_t kernel, const MaxPool1dOptions& options) {
  return std::get<0>(max_pool1d_with_indices(x, kernel, options));
}

Tensor avg_pool1d(const Tensor& x, int64_t kernel, const AvgPool1dOptions& options) {
  return detail::named_errors("avg_pool1d", {"avg_pool2d", "mean_pool2d"}, [&] {
    return avg_pool2d(as_images(x, "avg_pool1d"), {1, kernel},
                      {.stride = {1, options.stride ? options.stride : kernel},
                       .padding = {0, options.padding},
                       .ceil_mode = options.ceil_mode,
                       .count_include_pad = options.count_include_pad})
        .squeeze(-2);
  });
}

Tensor adaptive_avg_pool1d(const Tensor& x, int64_t output) {
  return detail::named_errors("adaptive_avg_pool1d", {"adaptive_avg_pool2d", "mean_pool2d"}, [&] {
    return adaptive_avg_pool2d(as_images(x, "adaptive_avg_pool1d"), {1, output}).squeeze(-2);
  });
}

std::tuple<Tensor, Tensor> adaptive_max_pool1d_with_indices(const Tensor& x, int64_t output) {
  return detail::named_errors("adaptive_max_pool1d", {"adaptive_max_pool2d"}, [&]() -> std::tuple<Tensor, Tensor> {
    const auto [values, indices] = adaptive_max_pool2d_with_indices(as_images(x, "adaptive_max_pool1d"), {1, output});
    return {values.squeeze(-2), indices.squeeze(-2)};
  });
}

Tensor adaptive_max_pool1d(const Tensor& x, int64_t output) {
  return std::get<0>(adaptive_max_pool1d_with_indices(x, output));
}

}  // namespace tendril

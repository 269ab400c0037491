#include "tendril/autograd/ops/interpolate.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/raw.h"

namespace tendril {

namespace {

Tensor indices(const std::vector<int64_t>& places, Device device) {
  return raw::from_data(places, {static_cast<int64_t>(places.size())}).to(device);
}

/// Along one dimension: the pixel that each of `count` places falls on. In float32, as PyTorch does it.
Tensor nearest(const Tensor& x, int64_t dim, int64_t count, double step, bool exact) {
  std::vector<int64_t> places;
  for (int64_t i = 0; i < count; ++i) {
    const float place = static_cast<float>(i) + (exact ? 0.5F : 0.0F);  // of its centre, or of its edge
    const auto at = static_cast<int64_t>(std::floor(place * static_cast<float>(step)));
    places.push_back(std::min(at, x.size(dim) - 1));
  }
  return x.index_select(dim, indices(places, x.device()));
}

/// Along one dimension: between the two pixels that each of `count` places lies between.
Tensor linear_between(const Tensor& x, int64_t dim, int64_t count, double step, bool align_corners) {
  const int64_t last = x.size(dim) - 1;
  std::vector<int64_t> below, above;
  std::vector<double> share;
  if (align_corners) step = count > 1 ? static_cast<double>(last) / static_cast<double>(count - 1) : 0;
  for (int64_t i = 0; i < count; ++i) {
    const auto place = static_cast<double>(i);
    const double at = align_corners ? place * step : std::max(0.0, (place + 0.5) * step - 0.5);
    const int64_t first = std::min(static_cast<int64_t>(at), last);
    below.push_back(first);
    above.push_back(std::min(first + 1, last));
    share.push_back(std::min(1.0, std::max(0.0, at - static_cast<double>(first))));
  }
  Dims along = Dims::filled(x.dim(), 1);
  along[static_cast<int>(dim)] = count;
  const Tensor weight = raw::reshape(raw::cast(raw::from_data(share, {count}), x.dtype()).to(x.device()), along);
  const Tensor low = x.index_select(dim, indices(below, x.device()));
  const Tensor high = x.index_select(dim, indices(above, x.device()));
  return low * (1.0 - weight) + high * weight;
}

/// Along one dimension: of the four pixels around each of `count` places, those beyond the border being its pixels.
Tensor cubic_between(const Tensor& x, int64_t dim, int64_t count, double step, bool align_corners) {
  constexpr double a = -0.75;
  const int64_t last = x.size(dim) - 1;
  std::vector<int64_t> taps[4];
  std::vector<double> weights[4];
  if (align_corners) step = count > 1 ? static_cast<double>(last) / static_cast<double>(count - 1) : 0;
  for (int64_t i = 0; i < count; ++i) {
    const auto place = static_cast<double>(i);
    const double at = align_corners ? place * step : (place + 0.5) * step - 0.5;
    const double t = at - std::floor(at);
    const auto within = [](double d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };  // |d| <= 1
    const auto beyond = [](double d) { return ((d - 5) * d + 8) * d * a - 4 * a; };    // 1 < |d| < 2
    const double weight[4] = {beyond(t + 1), within(t), within(1 - t), beyond(2 - t)};
    for (int k = 0; k < 4; ++k) {
      taps[k].push_back(std::clamp(static_cast<int64_t>(std::floor(at)) + k - 1, int64_t{0}, last));
      weights[k].push_back(weight[k]);
    }
  }
  Dims along = Dims::filled(x.dim(), 1);
  along[static_cast<int>(dim)] = count;
  Tensor y;
  for (int k = 0; k < 4; ++k) {
    const Tensor weight = raw::reshape(raw::cast(raw::from_data(weights[k], {count}), x.dtype()).to(x.device()), along);
    const Tensor part = x.index_select(dim, indices(taps[k], x.device())) * weight;
    y = k == 0 ? part : y + part;
  }
  return y;
}

/// How many dimensions behind the channels a mode is for; 0: one to three.
int dimensions_of(InterpolateMode mode) {
  switch (mode) {
    case InterpolateMode::linear:
      return 1;
    case InterpolateMode::bilinear:
    case InterpolateMode::bicubic:
      return 2;
    case InterpolateMode::trilinear:
      return 3;
    default:
      return 0;
  }
}

void check_counts(std::size_t given, int space, const char* name) {
  TENDRIL_CHECK_AS(ShapeError, given == 1 || given == static_cast<std::size_t>(space), "interpolate: ", name, ": got ",
                   given, " numbers, expected one, or one for each of ", space, " dimensions");
}

}  // namespace

const char* name_of(InterpolateMode mode) noexcept {
  static constexpr const char* names[] = {"nearest", "bilinear", "bicubic", "nearest_exact", "linear", "trilinear"};
  return names[static_cast<int>(mode)];
}

Tensor interpolate(const Tensor& x, const InterpolateOptions& options) {
  detail::check_defined(x, "interpolate");
  const char* mode = name_of(options.mode);
  const bool by_nearest = options.mode == InterpolateMode::nearest || options.mode == InterpolateMode::nearest_exact;
  TENDRIL_CHECK_AS(DTypeError, by_nearest || is_floating(x.dtype()) || x.dtype() == kUInt8, "interpolate: x has dtype ",
                   x.dtype(), ", expected a floating one or uint8 for mode ", mode);
  if (!by_nearest && x.dtype() == kUInt8) {  // bicubic goes beyond the values
    return interpolate(x.to(kFloat32), options).round().clamp(0, UINT8_MAX).to(kUInt8);
  }
  const int space = x.dim() - 2, wanted = dimensions_of(options.mode);
  TENDRIL_CHECK_AS(ShapeError, wanted == 0 ? space >= 1 && space <= 3 : space == wanted, "interpolate: x has shape ",
                   x.sizes(), ", expected [batch, channels, ",
                   wanted == 0   ? "one to three"
                   : wanted == 1 ? "one"
                   : wanted == 2 ? "two"
                                 : "three",
                   " more dimensions] for mode ", mode);
  for (int d = 2; d < x.dim(); ++d) {
    TENDRIL_CHECK_AS(ShapeError, x.sizes()[d] > 0, "interpolate: x has shape ", x.sizes(), ", expected pixels");
  }
  TENDRIL_CHECK(options.size.has_value() != options.scale_factor.has_value(), "interpolate: got ",
                options.size ? "both size and scale_factor" : "neither size nor scale_factor",
                ", expected exactly one of them");
  TENDRIL_CHECK(!options.align_corners || !by_nearest, "interpolate: align_corners: got true with mode ", mode,
                ", expected linear, bilinear, trilinear or bicubic");
  int64_t sizes[3];
  double steps[3];
  if (options.size) {
    check_counts(static_cast<std::size_t>(options.size->size()), space, "size");
  } else {
    check_counts(options.scale_factor->size(), space, "scale_factor");
  }
  for (int d = 0; d < space; ++d) {
    const int64_t size = x.size(2 + d);
    if (options.size) {
      sizes[d] = (*options.size)[options.size->size() == 1 ? 0 : d];
      TENDRIL_CHECK(sizes[d] > 0 && sizes[d] < 1'000'000'000, "interpolate: size: got ", *options.size,
                    ", expected positive numbers that fit memory");
      steps[d] = static_cast<double>(size) / static_cast<double>(sizes[d]);
    } else {
      const std::vector<double>& factors = *options.scale_factor;
      const double factor = factors[factors.size() == 1 ? 0 : static_cast<std::size_t>(d)];
      const double counted = std::floor(static_cast<double>(size) * factor);
      TENDRIL_CHECK(factor > 0 && counted >= 1 && counted < 1e9, "interpolate: scale_factor: got ", factor, " for ",
                    size, " pixels, expected one that leaves a pixel and fits memory");
      sizes[d] = static_cast<int64_t>(counted);
      steps[d] = 1 / factor;
    }
  }
  Tensor y = x;
  for (int d = 0; d < space; ++d) {
    // As in PyTorch two modes resample by a factor that changes no size, and the others do not.
    const bool resamples = options.mode == InterpolateMode::nearest_exact || options.mode == InterpolateMode::bicubic;
    if (sizes[d] == x.size(2 + d) && (!resamples || steps[d] == 1 || options.align_corners)) continue;
    y = by_nearest ? nearest(y, 2 + d, sizes[d], steps[d], options.mode == InterpolateMode::nearest_exact)
        : options.mode == InterpolateMode::bicubic
            ? cubic_between(y, 2 + d, sizes[d], steps[d], options.align_corners)
            : linear_between(y, 2 + d, sizes[d], steps[d], options.align_corners);
  }
  return y.is_same(x) ? x.clone() : y;
}

}  // namespace tendril

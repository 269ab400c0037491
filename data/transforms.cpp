#include "tendril/data/transforms.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "tendril/tensor/drivers/by_index.h"
#include "tendril/tensor/error.h"
#include "tendril/tensor/raw.h"

namespace tendril::data {
namespace {

void check_image(const char* op, const Tensor& image) {
  tendril::detail::check_defined(image, op, "image");
  TENDRIL_CHECK_AS(ShapeError, image.dim() == 3, op, ": image: got shape ", image.sizes(),
                   ", expected [channels, height, width]");
}

void check_colours(const char* op, const Tensor& image, double factor, bool any_channels = false) {
  check_image(op, image);
  TENDRIL_CHECK_AS(DTypeError, image.dtype() == kFloat32 && image.device().is_cpu(), op, ": image: got ", image.dtype(),
                   " on ", image.device(), ", expected float32 on the CPU: to_float first");
  TENDRIL_CHECK_AS(ShapeError, any_channels || image.size(0) == 3, op, ": image: got shape ", image.sizes(),
                   ", expected 3 channels");
  TENDRIL_CHECK(factor >= 0 && std::isfinite(factor), op, ": factor: got ", factor, ", expected 0 or more");
}

float within(float value) { return std::clamp(value, 0.0f, 1.0f); }

float gray_of(const float* image, int64_t count, int64_t i) {
  return 0.2989f * image[i] + 0.587f * image[count + i] + 0.114f * image[2 * count + i];
}

/// factor x + (1 - factor) other(i), where i counts pixels.
template <class Other>
Tensor blend(const Tensor& image, double factor, const Other& other) {
  const Tensor x = raw::contiguous(image);
  Tensor out = raw::empty_like(x);
  const int64_t count = x.size(1) * x.size(2);
  const float* const from = x.data<float>();
  float* const to = out.mutable_data<float>();
  const auto ratio = static_cast<float>(factor);
  for (int64_t i = 0; i < count; ++i) {
    const float base = (1 - ratio) * other(from, count, i);
    for (int64_t c = 0; c < x.size(0); ++c) to[c * count + i] = within(ratio * from[c * count + i] + base);
  }
  return out;
}

/// For each place of the result: where its pixels begin, and their weights (a triangle over all that it stands for, as
/// Pillow's Resample.c).
struct Weights {
  std::vector<int64_t> begin;
  std::vector<std::vector<float>> of;
};
Weights weights_of(int64_t in, int64_t out) {
  Weights weights;
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  const double support = std::max(scale, 1.0);
  for (int64_t i = 0; i < out; ++i) {
    const double centre = scale * (static_cast<double>(i) + 0.5);
    const auto first = std::max<int64_t>(static_cast<int64_t>(std::floor(centre - support + 0.5)), 0);
    const auto last = std::min<int64_t>(static_cast<int64_t>(std::floor(centre + support + 0.5)), in);
    std::vector<double> triangle;
    for (int64_t at = first; at < last; ++at) {
      triangle.push_back(std::max(0.0, 1 - std::abs(static_cast<double>(at) - centre + 0.5) / support));
    }
    const double sum = std::accumulate(triangle.begin(), triangle.end(), 0.0);
    weights.begin.push_back(first);
    weights.of.emplace_back();
    for (const double weight : triangle) weights.of.back().push_back(static_cast<float>(weight / sum));
  }
  return weights;
}

/// Rows of `width` numbers, and one sum of rows for each place of `weights`.
void resize_rows(const float* in, float* out, int64_t width, const Weights& weights) {
  for (std::size_t y = 0; y < weights.of.size(); ++y, out += width) {
    std::fill(out, out + width, 0.0f);
    const float* row = in + weights.begin[y] * width;
    for (const float weight : weights.of[y]) {
      for (int64_t x = 0; x < width; ++x) out[x] += weight * row[x];
      row += width;
    }
  }
}

void resize_columns(const float* in, float* out, int64_t rows, int64_t width, const Weights& weights) {
  const std::size_t places = weights.of.size();
  for (int64_t y = 0; y < rows; ++y, in += width, out += places) {
    for (std::size_t x = 0; x < places; ++x) {
      const float* const from = in + weights.begin[x];
      float sum = 0;
      for (std::size_t i = 0; i < weights.of[x].size(); ++i) sum += weights.of[x][i] * from[i];
      out[x] = sum;
    }
  }
}

void check_size(const char* op, int64_t height, int64_t width) {
  TENDRIL_CHECK(height >= 1 && width >= 1, op, ": size: got ", height, " x ", width, ", expected 1 or more");
}

double between(Generator& random, double low, double high) { return low + (high - low) * random.uniform(); }

}  // namespace

Tensor to_float(const Tensor& image) {
  tendril::detail::check_defined(image, "to_float", "image");
  const Tensor floating = raw::cast(image, kFloat32);
  return image.dtype() == kUInt8 ? raw::binary(Binary::div, floating, 255.0) : floating;
}

Tensor normalize(const Tensor& image, const std::vector<double>& mean, const std::vector<double>& stddev) {
  check_image("normalize", image);
  tendril::detail::check_floating(image, "normalize");
  const auto column = [&](const char* name, const std::vector<double>& values) {
    const auto count = static_cast<int64_t>(values.size());
    TENDRIL_CHECK(count == 1 || count == image.size(0), "normalize: ", name, ": got ", count, " numbers, expected ",
                  image.size(0), " or 1");
    return raw::to(raw::view(raw::cast(raw::from_data(values, {count}), image.dtype()), {count, 1, 1}), image.device());
  };
  for (const double value : stddev) {
    TENDRIL_CHECK(value > 0 && std::isfinite(value), "normalize: stddev: got ", value, ", expected more than 0");
  }
  const Tensor centred = raw::binary(Binary::sub, image, column("mean", mean));
  return raw::binary(Binary::div, centred, column("stddev", stddev));
}

Tensor crop(const Tensor& image, int64_t top, int64_t left, int64_t height, int64_t width) {
  check_image("crop", image);
  TENDRIL_CHECK_AS(ShapeError,
                   top >= 0 && left >= 0 && height >= 1 && width >= 1 && height <= image.size(1) - top &&
                       width <= image.size(2) - left,
                   "crop: got ", height, " x ", width, " from row ", top, ", column ", left, ", which is not within ",
                   image.size(1), " x ", image.size(2));
  return raw::narrow(raw::narrow(image, 1, top, height), 2, left, width);
}

Tensor pad_image(const Tensor& image, int64_t padding, double value) {
  check_image("pad_image", image);
  TENDRIL_CHECK(padding >= 0 && padding <= int64_t{1} << 30, "pad_image: padding: got ", padding,
                ", expected 0 or more");
  const int64_t height = image.size(1), width = image.size(2);
  Tensor padded =
      raw::full({image.size(0), height + 2 * padding, width + 2 * padding}, value, image.dtype(), image.device());
  raw::copy_(raw::narrow(raw::narrow(padded, 1, padding, height), 2, padding, width), image);
  return padded;
}

Tensor center_crop(const Tensor& image, int64_t height, int64_t width) {
  check_image("center_crop", image);
  check_size("center_crop", height, width);
  // Where one is odd and the other even: torchvision rounds half to even.
  const auto half = [](int64_t room) { return static_cast<int64_t>(std::nearbyint(static_cast<double>(room) / 2)); };
  if (height <= image.size(1) && width <= image.size(2)) {
    return crop(image, half(image.size(1) - height), half(image.size(2) - width), height, width);
  }
  const int64_t kept_height = std::min(height, image.size(1)), kept_width = std::min(width, image.size(2));
  const Tensor middle = center_crop(image, kept_height, kept_width);
  Tensor padded = raw::zeros({image.size(0), height, width}, image.dtype(), image.device());
  const int64_t top = (height - kept_height) / 2, left = (width - kept_width) / 2;
  raw::copy_(raw::narrow(raw::narrow(padded, 1, top, kept_height), 2, left, kept_width), middle);
  return padded;
}

Tensor horizontal_flip(const Tensor& image) {
  check_image("horizontal_flip", image);
  const int64_t width = image.size(2);
  return drivers::index_select(image, 2, raw::arange(width - 1, -1, -1, kInt64, image.device()));
}

Tensor resize(const Tensor& image, int64_t height, int64_t width) {
  check_image("resize", image);
  TENDRIL_CHECK_AS(DTypeError, (image.dtype() == kFloat32 || image.dtype() == kUInt8) && image.device().is_cpu(),
                   "resize: image: got ", image.dtype(), " on ", image.device(),
                   ", expected float32 or uint8 on the CPU");
  TENDRIL_CHECK_AS(ShapeError, image.numel() > 0 && height >= 1 && width >= 1, "resize: got shape ", image.sizes(),
                   " to ", height, " x ", width, ", expected sizes of 1 or more");
  const Tensor x = raw::contiguous(raw::cast(image, kFloat32));
  const int64_t channels = x.size(0), from_height = x.size(1), from_width = x.size(2);
  const Weights columns = weights_of(from_width, width), rows = weights_of(from_height, height);
  const Tensor narrowed = raw::empty({channels, from_height, width});
  Tensor out = raw::empty({channels, height, width});
  resize_columns(x.data<float>(), narrowed.mutable_data<float>(), channels * from_height, from_width, columns);
  for (int64_t c = 0; c < channels; ++c) {
    resize_rows(narrowed.data<float>() + c * from_height * width, out.mutable_data<float>() + c * height * width, width,
                rows);
  }
  if (image.dtype() == kFloat32) return out;
  float* const values = out.mutable_data<float>();
  for (int64_t i = 0; i < out.numel(); ++i) values[i] = std::nearbyint(std::clamp(values[i], 0.0f, 255.0f));
  return raw::cast(out, kUInt8);
}

Tensor resize(const Tensor& image, int64_t size) {
  check_image("resize", image);
  const int64_t height = image.size(1), width = image.size(2);
  TENDRIL_CHECK_AS(ShapeError, height >= 1 && width >= 1 && size >= 1, "resize: got shape ", image.sizes(), " to ",
                   size, ", expected sizes of 1 or more");
  const int64_t shorter = std::min(height, width), longer = std::max(height, width);
  int64_t product = 0;
  TENDRIL_CHECK_AS(ShapeError, !__builtin_mul_overflow(size, longer, &product), "resize: size: got ", size,
                   ", which is too large");
  return height <= width ? resize(image, size, product / shorter) : resize(image, product / shorter, size);
}

Tensor adjust_brightness(const Tensor& image, double factor) {
  check_colours("adjust_brightness", image, factor, true);
  return blend(image, factor, [](const float*, int64_t, int64_t) { return 0.0f; });
}

Tensor adjust_contrast(const Tensor& image, double factor) {
  check_colours("adjust_contrast", image, factor);
  const Tensor x = raw::contiguous(image);
  const int64_t count = x.size(1) * x.size(2);
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(gray_of(x.data<float>(), count, i));
  const auto mean = static_cast<float>(sum / static_cast<double>(std::max<int64_t>(count, 1)));
  return blend(x, factor, [mean](const float*, int64_t, int64_t) { return mean; });
}

Tensor adjust_saturation(const Tensor& image, double factor) {
  check_colours("adjust_saturation", image, factor);
  return blend(image, factor, gray_of);
}

Tensor adjust_hue(const Tensor& image, double turn) {
  check_colours("adjust_hue", image, 1);
  TENDRIL_CHECK(turn >= -0.5 && turn <= 0.5, "adjust_hue: turn: got ", turn, ", expected -0.5 to 0.5");
  const Tensor x = raw::contiguous(image);
  Tensor out = raw::empty_like(x);
  const int64_t count = x.size(1) * x.size(2);
  const float* const from = x.data<float>();
  float* const to = out.mutable_data<float>();
  for (int64_t i = 0; i < count; ++i) {
    const float r = from[i], g = from[count + i], b = from[2 * count + i];
    const float high = std::max({r, g, b}), range = high - std::min({r, g, b});
    if (range == 0) {
      for (int64_t c = 0; c < 3; ++c) to[c * count + i] = high;
      continue;
    }
    // RGB to hue, saturation and value, and back (https://en.wikipedia.org/wiki/HSL_and_HSV)
    float hue = high == r ? (g - b) / range : high == g ? 2 + (b - r) / range : 4 + (r - g) / range;
    hue = hue / 6 + static_cast<float>(turn);
    hue = 6 * (hue - std::floor(hue));
    for (int64_t c = 0; c < 3; ++c) {
      const float k = std::fmod(static_cast<float>(5 - 2 * c) + hue, 6.0f);
      to[c * count + i] = within(high - range * std::max(0.0f, std::min({k, 4 - k, 1.0f})));
    }
  }
  return out;
}

CenterCrop::CenterCrop(int64_t h, int64_t w) : height(h), width(w) { check_size("CenterCrop", h, w); }

Resize::Resize(int64_t size) : shorter(size) {
  TENDRIL_CHECK(size >= 1, "Resize: size: got ", size, ", expected 1 or more");
}
Resize::Resize(int64_t h, int64_t w) : height(h), width(w) { check_size("Resize", h, w); }

RandomCrop::RandomCrop(int64_t h, int64_t w, const RandomCropOptions& with) : height(h), width(w), options(with) {
  check_size("RandomCrop", h, w);
}

RandomResizedCrop::RandomResizedCrop(int64_t h, int64_t w, const RandomResizedCropOptions& with)
    : height(h), width(w), options(with) {
  check_size("RandomResizedCrop", h, w);
}

Tensor RandomCrop::operator()(const Tensor& image, Generator& random) const {
  check_image("RandomCrop", image);
  const Tensor padded = options.padding > 0 ? pad_image(image, options.padding, options.value) : image;
  const int64_t down = padded.size(1) - height, right = padded.size(2) - width;
  TENDRIL_CHECK_AS(ShapeError, height >= 1 && width >= 1 && down >= 0 && right >= 0, "RandomCrop: got ", height, " x ",
                   width, " of an image of ", padded.size(1), " x ", padded.size(2), " with its padding");
  const auto top = static_cast<int64_t>(random.below(static_cast<uint64_t>(down) + 1));
  const auto left = static_cast<int64_t>(random.below(static_cast<uint64_t>(right) + 1));
  return crop(padded, top, left, height, width);
}

Tensor RandomHorizontalFlip::operator()(const Tensor& image, Generator& random) const {
  TENDRIL_CHECK(p >= 0 && p <= 1, "RandomHorizontalFlip: p: got ", p, ", expected 0 to 1");
  return random.uniform() < p ? horizontal_flip(image) : image;
}

Tensor RandomResizedCrop::operator()(const Tensor& image, Generator& random) const {
  check_image("RandomResizedCrop", image);
  const auto [smallest, largest] = options.scale;
  const auto [narrowest, widest] = options.ratio;
  TENDRIL_CHECK(smallest > 0 && smallest <= largest && largest <= 1, "RandomResizedCrop: scale: got ", smallest, " to ",
                largest, ", expected 0 < low <= high <= 1");
  TENDRIL_CHECK(narrowest > 0 && narrowest <= widest && std::isfinite(widest), "RandomResizedCrop: ratio: got ",
                narrowest, " to ", widest, ", expected 0 < low <= high");
  const int64_t full_height = image.size(1), full_width = image.size(2);
  const double area = static_cast<double>(full_height * full_width);
  const auto rounded = [](double value) { return static_cast<int64_t>(std::nearbyint(value)); };
  for (int tries = 0; tries < 10; ++tries) {
    const double wanted = area * between(random, smallest, largest);
    const double ratio = std::exp(between(random, std::log(narrowest), std::log(widest)));
    const int64_t w = rounded(std::sqrt(wanted * ratio)), h = rounded(std::sqrt(wanted / ratio));
    if (w < 1 || h < 1 || w > full_width || h > full_height) continue;
    const auto top = static_cast<int64_t>(random.below(static_cast<uint64_t>(full_height - h) + 1));
    const auto left = static_cast<int64_t>(random.below(static_cast<uint64_t>(full_width - w) + 1));
    return resize(crop(image, top, left, h, w), height, width);
  }
  const double whole = static_cast<double>(full_width) / static_cast<double>(std::max<int64_t>(full_height, 1));
  int64_t w = full_width, h = full_height;
  if (whole < narrowest) h = std::max<int64_t>(1, rounded(static_cast<double>(w) / narrowest));
  if (whole > widest) w = std::max<int64_t>(1, rounded(static_cast<double>(h) * widest));
  return resize(crop(image, (full_height - h) / 2, (full_width - w) / 2, h, w), height, width);
}

Tensor ColorJitter::operator()(const Tensor& image, Generator& random) const {
  for (const double strength : {brightness, contrast, saturation}) {
    TENDRIL_CHECK(strength >= 0 && std::isfinite(strength), "ColorJitter: got ", strength, ", expected 0 or more");
  }
  TENDRIL_CHECK(hue >= 0 && hue <= 0.5, "ColorJitter: hue: got ", hue, ", expected 0 to 0.5");
  std::array<int, 4> order = {0, 1, 2, 3};
  for (std::size_t i = order.size(); i-- > 1;) std::swap(order[i], order[random.below(i + 1)]);
  const auto factor = [&](double strength) { return between(random, std::max(0.0, 1 - strength), 1 + strength); };
  Tensor x = image;
  for (const int which : order) {
    if (which == 0 && brightness > 0) x = adjust_brightness(x, factor(brightness));
    if (which == 1 && contrast > 0) x = adjust_contrast(x, factor(contrast));
    if (which == 2 && saturation > 0) x = adjust_saturation(x, factor(saturation));
    if (which == 3 && hue > 0) x = adjust_hue(x, between(random, -hue, hue));
  }
  return x;
}

Transform compose(std::vector<Transform> transforms) {
  return [transforms = std::move(transforms)](const Tensor& image, Generator& random) {
    Tensor x = image;
    for (const Transform& transform : transforms) x = transform(x, random);
    return x;
  };
}

}  // namespace tendril::data

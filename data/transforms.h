#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <functional>
#include <tuple>
#include <utility>
#include <vector>

#include "tendril/tensor/export.h"
#include "tendril/tensor/random.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

/// What is done to images before they are learnt from; names, formulas and ranges are torchvision's. Images are CPU
/// tensors [channels, height, width]; where nothing else is said, of any dtype. Random ones draw from the Generator
/// that they are given, which a DataLoader makes for each example (loader.h).
///
///     const data::Transform augment = data::compose({data::RandomCrop{32, 32, {.padding = 4}},
///                                                    data::RandomHorizontalFlip{}, data::ToFloat{}});
///     auto augmented = data::map(images, data::on_image(augment));
///
/// Errors: ShapeError, DTypeError and Error that name the function and what was expected. Thread-safety: any thread.
namespace tendril::data {

// ---- functions of one image

/// uint8 to float32 in [0, 1]: divided by 255. Other dtypes are converted.
Tensor to_float(const Tensor& image);
/// (x - mean) / stddev for each channel; floating. As many means and deviations as channels, or one for all.
Tensor normalize(const Tensor& image, const std::vector<double>& mean, const std::vector<double>& stddev);
/// A view of what lies within; ShapeError where that is not inside.
Tensor crop(const Tensor& image, int64_t top, int64_t left, int64_t height, int64_t width);
/// The middle of it, padded with 0 where it is smaller.
Tensor center_crop(const Tensor& image, int64_t height, int64_t width);
inline Tensor center_crop(const Tensor& image, int64_t size) { return center_crop(image, size, size); }
/// `padding` pixels of `value` on each side.
Tensor pad_image(const Tensor& image, int64_t padding, double value = 0);
/// Left and right swapped.
Tensor horizontal_flip(const Tensor& image);
/// Bilinear; where it makes images smaller each pixel is a weighted mean of all that it stands for (antialias, as
/// Pillow's and torchvision's). uint8 (rounded) or float32.
Tensor resize(const Tensor& image, int64_t height, int64_t width);
/// The shorter side becomes `size` pixels, the longer one keeps the ratio (rounded down).
Tensor resize(const Tensor& image, int64_t size);

// ---- colours: float32 in [0, 1], 3 channels; results too. `factor` is 0 or more, 1 changes nothing.
Tensor adjust_brightness(const Tensor& image, double factor);  ///< also of other numbers of channels
Tensor adjust_contrast(const Tensor& image, double factor);    ///< about the mean of the gray image
Tensor adjust_saturation(const Tensor& image, double factor);  ///< about the gray image
Tensor adjust_hue(const Tensor& image, double turn);           ///< -0.5 to 0.5 of a turn of the colour wheel

// ---- the same as objects, for `compose`
/// To float32 in [0, 1].
struct ToFloat {
  Tensor operator()(const Tensor& image) const { return to_float(image); }
};
/// (x - mean) / stddev of each channel.
struct Normalize {
  std::vector<double> mean, stddev;  ///< of each channel, or one for all
  Normalize(std::vector<double> means, std::vector<double> stddevs)
      : mean(std::move(means)), stddev(std::move(stddevs)) {}
  Tensor operator()(const Tensor& image) const { return normalize(image, mean, stddev); }
};

// Sizes are pixels; the constructors throw Error unless they are 1 or more. A single one is that of a square, except
// for Resize.

/// The middle of an image, padded with 0 where it is smaller.
struct CenterCrop {
  int64_t height, width;
  explicit CenterCrop(int64_t size) : CenterCrop(size, size) {}
  CenterCrop(int64_t height, int64_t width);
  Tensor operator()(const Tensor& image) const { return center_crop(image, height, width); }
};
/// To another size. With a single number the shorter side becomes that, and the longer one keeps the ratio.
struct Resize {
  int64_t height = 0, width = 0;  ///< both 0 if `shorter` is not
  int64_t shorter = 0;            ///< the new length of the shorter side; 0 if height and width are given
  explicit Resize(int64_t size);
  Resize(int64_t height, int64_t width);
  /// `image`, [channels, height, width], resized.
  Tensor operator()(const Tensor& image) const {
    return shorter > 0 ? resize(image, shorter) : resize(image, height, width);
  }
};

struct RandomCropOptions {
  int64_t padding = 0;  ///< pixels of `value` on each side, before
  double value = 0;     ///< of the padding
};
/// A part of that size, anywhere.
struct RandomCrop {
  int64_t height, width;
  RandomCropOptions options;
  explicit RandomCrop(int64_t size, const RandomCropOptions& with = {}) : RandomCrop(size, size, with) {}
  RandomCrop(int64_t height, int64_t width, const RandomCropOptions& options = {});
  /// Of one image, [channels, height, width]; `random` decides.
  Tensor operator()(const Tensor& image, Generator& random) const;
};
/// Flipped with a probability.
struct RandomHorizontalFlip {
  double p = 0.5;  ///< the probability
  /// Of one image, [channels, height, width]; `random` decides.
  Tensor operator()(const Tensor& image, Generator& random) const;
};
struct RandomResizedCropOptions {
  std::array<double, 2> scale = {0.08, 1.0};           ///< of the part's area
  std::array<double, 2> ratio = {3.0 / 4.0, 4.0 / 3};  ///< of its width to its height
};
/// A part of any size and shape within bounds, resized (Szegedy et al., "Going deeper with convolutions", 2015). Where
/// ten tries find none that fits, the largest one in the middle.
struct RandomResizedCrop {
  int64_t height, width;
  RandomResizedCropOptions options;
  explicit RandomResizedCrop(int64_t size, const RandomResizedCropOptions& with = {})
      : RandomResizedCrop(size, size, with) {}
  RandomResizedCrop(int64_t height, int64_t width, const RandomResizedCropOptions& options = {});
  /// Of one image, [channels, height, width]; `random` decides.
  Tensor operator()(const Tensor& image, Generator& random) const;
};
/// Brightness, contrast, saturation and hue in random order; factors from 1 - v (not below 0) to 1 + v, hue from -v to
/// v. 0 leaves it as it is.
struct ColorJitter {
  double brightness = 0, contrast = 0, saturation = 0, hue = 0;  ///< how far each may go; not negative, hue at most 0.5
  /// Of one image, [channels, height, width]; `random` decides.
  Tensor operator()(const Tensor& image, Generator& random) const;
};

/// Any of them, or any function of an image, or of an image and a Generator.
class Transform {
 public:
  template <class F>
  requires(!std::same_as<F, Transform> && (std::is_invocable_r_v<Tensor, const F&, const Tensor&, Generator&> ||
                                           std::is_invocable_r_v<Tensor, const F&, const Tensor&>))  //
      Transform(F f) {                                                                               // NOLINT
    if constexpr (std::is_invocable_v<const F&, const Tensor&, Generator&>) {
      call_ = std::move(f);
    } else {
      call_ = [f = std::move(f)](const Tensor& image, Generator&) { return f(image); };
    }
  }
  /// Of one image; those that ask for no random numbers leave `random` alone.
  Tensor operator()(const Tensor& image, Generator& random) const { return call_(image, random); }

 private:
  std::function<Tensor(const Tensor&, Generator&)> call_;
};

/// One after the other.
Transform compose(std::vector<Transform> transforms);

/// For Dataset::map: does it to the first element of each example (an image and its label), or to the example itself if
/// that is a tensor.
inline auto on_image(Transform transform) {
  return [transform = std::move(transform)]<class Example>(Example example, Generator& random) {
    if constexpr (std::same_as<Example, Tensor>) {
      return transform(example, random);
    } else {
      std::get<0>(example) = transform(std::get<0>(example), random);
      return example;
    }
  };
}

}  // namespace tendril::data

TENDRIL_API_END

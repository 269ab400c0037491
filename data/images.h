#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

/// PNG files by libpng and JPEG files by libjpeg-turbo, where the library was built with them; without, these functions
/// throw Error and say so. Images are uint8 [channels, height, width], as torchvision's.
///
/// Thread-safety: any thread.
namespace tendril::data {

/// What channels an image is read to.
enum class ImageMode : uint8_t {
  rgb,        ///< 3 channels; alpha is left out
  gray,       ///< 1 channel; of colours (19595 R + 38470 G + 7471 B + 2^15) / 2^16, as Pillow's convert("L")
  unchanged,  ///< as many as the file has: gray, gray and alpha, RGB, RGBA. Palettes are RGB, transparency is alpha
};

struct ImageReadOptions {
  ImageMode mode = ImageMode::rgb;   ///< which channels the result has
  int64_t max_pixels = 178'956'970;  ///< of larger images, none is read (the number is Pillow's)
};

bool has_png() noexcept;   ///< whether the library was built with libpng
bool has_jpeg() noexcept;  ///< ... with libjpeg-turbo

/// The image of a PNG file: uint8 [channels, height, width]. Throws Error for what is no such file, is cut short or
/// damaged, or is larger than the limit. Of 16 bits a channel the upper eight are read. JPEGs in CMYK are refused.
Tensor load_png(const std::filesystem::path& file, const ImageReadOptions& options = {});
/// As load_png, of a JPEG file.
Tensor load_jpeg(const std::filesystem::path& file, const ImageReadOptions& options = {});
/// Either of them, by how the file begins.
Tensor load_image(const std::filesystem::path& file, const ImageReadOptions& options = {});

/// A PNG file in memory, of uint8 [1 to 4, height, width] in any layout and on any device. Throws ShapeError and
/// DTypeError for other tensors, and Error where the library was built without libpng.
std::vector<std::byte> encode_png(const Tensor& image);
/// uint8 [1 to 4, height, width], any layout and device. Atomic: the file is there as a whole or not at all. Throws
/// ShapeError and DTypeError for other tensors, and Error where it cannot be written.
void save_png(const Tensor& image, const std::filesystem::path& file);

/// Images of one size side by side, row by row: uint8 or float [count, channels, height, width] to one image with
/// `columns` to a row and `padding` pixels of 0 around each.
Tensor image_grid(const Tensor& images, int64_t columns = 8, int64_t padding = 2);

}  // namespace tendril::data

TENDRIL_API_END

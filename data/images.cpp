#include "tendril/data/images.h"

#include <algorithm>
#include <cstring>

#include "tendril/data/detail/parse.h"
#include "tendril/tensor/error.h"
#include "tendril/tensor/files/detail/atomic_file.h"
#include "tendril/tensor/raw.h"

namespace tendril::data {

using files::detail::Bytes;
using files::detail::label_of;
namespace fs = std::filesystem;

namespace detail {

void check_image_size(uint64_t width, uint64_t height, const ImageReadOptions& options, const std::string& what) {
  TENDRIL_CHECK(width > 0 && height > 0, what, ": its image is ", width, " x ", height, " pixels");
  const auto most = static_cast<uint64_t>(std::max<int64_t>(options.max_pixels, 0));
  TENDRIL_CHECK(width <= most / height, what, ": its image is ", width, " x ", height,
                " pixels, expected at most max_pixels = ", options.max_pixels);
}

Tensor tensor_of(const Pixels& pixels, ImageMode mode) {
  const int64_t from = pixels.channels, count = pixels.height * pixels.width;
  const int64_t to = mode == ImageMode::rgb ? 3 : mode == ImageMode::gray ? 1 : from;
  const bool is_gray = from < 3;
  Tensor image = raw::empty({to, pixels.height, pixels.width}, kUInt8);
  auto* const out = image.mutable_data<uint8_t>();
  const unsigned char* at = pixels.bytes.data();
  for (int64_t i = 0; i < count; ++i, at += from) {
    if (mode == ImageMode::gray && !is_gray) {
      out[i] = static_cast<uint8_t>((19595u * at[0] + 38470u * at[1] + 7471u * at[2] + 0x8000u) >> 16);
    } else {
      for (int64_t c = 0; c < to; ++c) out[c * count + i] = at[is_gray && mode == ImageMode::rgb ? 0 : c];
    }
  }
  return image;
}

}  // namespace detail

namespace {

std::span<const std::byte> bytes_in(const std::shared_ptr<Bytes>& file) { return file->all(); }

bool begins_with(std::span<const std::byte> bytes, std::string_view magic) {
  return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

constexpr std::string_view kPngMagic = "\x89PNG\r\n\x1a\n", kJpegMagic = "\xff\xd8\xff";

Tensor read_png(std::span<const std::byte> bytes, const ImageReadOptions& options, const std::string& what) {
  TENDRIL_CHECK(begins_with(bytes, kPngMagic), what, ": is no PNG file: it does not begin as one");
  return detail::tensor_of(detail::decode_png(bytes, options, what), options.mode);
}

Tensor read_jpeg(std::span<const std::byte> bytes, const ImageReadOptions& options, const std::string& what) {
  TENDRIL_CHECK(begins_with(bytes, kJpegMagic), what, ": is no JPEG file: it does not begin as one");
  return detail::tensor_of(detail::decode_jpeg(bytes, options, what), options.mode);
}

void check_encodable(const Tensor& image, const char* op) {
  tendril::detail::check_defined(image, op, "image");
  TENDRIL_CHECK_AS(DTypeError, image.dtype() == kUInt8, op, ": image: got ", image.dtype(), ", expected uint8");
  TENDRIL_CHECK_AS(ShapeError,
                   image.dim() == 3 && image.size(0) >= 1 && image.size(0) <= 4 && image.size(1) >= 1 &&
                       image.size(2) >= 1 && image.size(1) <= 1'000'000 && image.size(2) <= 1'000'000,
                   op, ": image: got shape ", image.sizes(),
                   ", expected [1 to 4, height, width], neither 0 nor above 1000000");
}

detail::Pixels pixels_of(const Tensor& image) {
  const Tensor rows = raw::contiguous(raw::permute(raw::to(image, kCPU), {1, 2, 0}));
  const auto* const data = rows.data<uint8_t>();
  return {image.size(1), image.size(2), image.size(0), {data, data + rows.numel()}};
}

}  // namespace

Tensor load_png(const fs::path& file, const ImageReadOptions& options) {
  return read_png(bytes_in(Bytes::of_file("load_png", file)), options, label_of("load_png", file));
}

Tensor load_jpeg(const fs::path& file, const ImageReadOptions& options) {
  return read_jpeg(bytes_in(Bytes::of_file("load_jpeg", file)), options, label_of("load_jpeg", file));
}

Tensor load_image(const fs::path& file, const ImageReadOptions& options) {
  const auto bytes = Bytes::of_file("load_image", file);
  const std::string what = label_of("load_image", file);
  if (begins_with(bytes->all(), kPngMagic)) return read_png(bytes->all(), options, what);
  TENDRIL_CHECK(begins_with(bytes->all(), kJpegMagic), what, ": is neither a PNG nor a JPEG file");
  return read_jpeg(bytes->all(), options, what);
}

std::vector<std::byte> encode_png(const Tensor& image) {
  check_encodable(image, "encode_png");
  return detail::encode_png(pixels_of(image), "encode_png");
}

void save_png(const Tensor& image, const fs::path& file) {
  check_encodable(image, "save_png");
  const std::vector<std::byte> bytes = detail::encode_png(pixels_of(image), label_of("save_png", file));
  files::detail::AtomicFile out("save_png", file, bytes.size());
  out.write(bytes);
  out.commit();
}

Tensor image_grid(const Tensor& images, int64_t columns, int64_t padding) {
  tendril::detail::check_defined(images, "image_grid", "images");
  TENDRIL_CHECK_AS(ShapeError, images.dim() == 4, "image_grid: images: got shape ", images.sizes(),
                   ", expected [count, channels, height, width]");
  TENDRIL_CHECK(columns >= 1 && padding >= 0, "image_grid: columns, padding: got ", columns, " and ", padding,
                ", expected at least 1 and 0");
  const int64_t count = images.size(0), height = images.size(2), width = images.size(3);
  columns = std::min(columns, std::max<int64_t>(count, 1));
  const int64_t rows = std::max<int64_t>(1, (count + columns - 1) / columns);
  Tensor grid = raw::zeros({images.size(1), rows * (height + padding) + padding, columns * (width + padding) + padding},
                           images.dtype(), images.device());
  for (int64_t i = 0; i < count; ++i) {
    const Tensor row = raw::narrow(grid, 1, padding + i / columns * (height + padding), height);
    raw::copy_(raw::narrow(row, 2, padding + i % columns * (width + padding), width), raw::select(images, 0, i));
  }
  return grid;
}

}  // namespace tendril::data

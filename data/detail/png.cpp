// libpng's errors are long jumps: each function that calls it has one setjmp, and nothing that needs a destructor
// between that and the calls.
#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>

#include "tendril/data/detail/parse.h"
#include "tendril/tensor/error.h"

namespace tendril::data {

bool has_png() noexcept { return true; }

namespace detail {
namespace {

/// Reads one file; owns libpng's structures.
class PngReader {
 public:
  explicit PngReader(std::span<const std::byte> file) : rest_(file) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, on_warning);
    if (png_) info_ = png_create_info_struct(png_);
  }
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  /// Up to the first pixel. False if something is wrong: `message`.
  bool read_head(uint32_t width, uint32_t height) {
    if (!png_ || !info_) return false;
    if (setjmp(png_jmpbuf(png_))) return false;
    png_set_user_limits(png_, width, height);
    png_set_read_fn(png_, this, on_read);
    png_read_info(png_, info_);
    png_set_strip_16(png_);
    png_set_palette_to_rgb(png_);
    png_set_expand_gray_1_2_4_to_8(png_);
    passes_ = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    return true;
  }
  int channels() const { return png_get_channels(png_, info_); }
  std::size_t row_bytes() const { return png_get_rowbytes(png_, info_); }
  /// All rows, and what follows them.
  bool read_rows(unsigned char* out, uint32_t height, std::size_t row) {
    if (setjmp(png_jmpbuf(png_))) return false;
    for (int pass = 0; pass < passes_; ++pass) {
      for (uint32_t y = 0; y < height; ++y) png_read_row(png_, out + y * row, nullptr);
    }
    png_read_end(png_, nullptr);
    return true;
  }
  const char* message() const { return message_; }

 private:
  static void on_error(png_structp png, png_const_charp text) {
    auto* const self = static_cast<PngReader*>(png_get_error_ptr(png));
    std::strncpy(self->message_, text, sizeof self->message_ - 1);
    png_longjmp(png, 1);
  }
  static void on_warning(png_structp, png_const_charp) {}
  static void on_read(png_structp png, png_bytep out, std::size_t size) {
    auto* const self = static_cast<PngReader*>(png_get_io_ptr(png));
    if (size > self->rest_.size()) png_error(png, "it is cut short");
    std::memcpy(out, self->rest_.data(), size);
    self->rest_ = self->rest_.subspan(size);
  }

  std::span<const std::byte> rest_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  int passes_ = 1;
  char message_[160] = "libpng has no memory";
};

uint32_t big_endian(std::span<const std::byte> bytes) {
  uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<uint32_t>(bytes[i]);
  return value;
}

}  // namespace

Pixels decode_png(std::span<const std::byte> file, const ImageReadOptions& options, const std::string& what) {
  TENDRIL_CHECK(file.size() >= 33, what, ": is cut short");
  const uint32_t width = big_endian(file.subspan(16)), height = big_endian(file.subspan(20));
  check_image_size(width, height, options, what);
  PngReader reader(file);
  TENDRIL_CHECK(reader.read_head(width, height), what, ": is damaged: ", reader.message());
  const auto depth = static_cast<uint64_t>(file[24]);
  const std::size_t row = reader.row_bytes();
  TENDRIL_CHECK(row == static_cast<std::size_t>(reader.channels()) * width, what, ": is damaged: its rows");
  // Deflate cannot do better than 1032 to 1: what claims more would only take memory.
  TENDRIL_CHECK(uint64_t{width} * height / 8 * depth / 1032 <= file.size(), what, ": its image is ", width, " x ",
                height, " pixels, which ", file.size(), " bytes cannot hold");
  Pixels pixels{height, width, reader.channels(), {}};
  pixels.bytes.resize(height * row);
  TENDRIL_CHECK(reader.read_rows(pixels.bytes.data(), height, row), what, ": is damaged: ", reader.message());
  return pixels;
}

std::vector<std::byte> encode_png(const Pixels& pixels, const std::string& what) {
  constexpr png_uint_32 kFormats[] = {PNG_FORMAT_GRAY, PNG_FORMAT_GA, PNG_FORMAT_RGB, PNG_FORMAT_RGBA};
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(pixels.width);
  image.height = static_cast<png_uint_32>(pixels.height);
  image.format = kFormats[pixels.channels - 1];
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::vector<std::byte> bytes(size);
  const int written = png_image_write_to_memory(&image, bytes.data(), &size, 0, pixels.bytes.data(), 0, nullptr);
  TENDRIL_CHECK(written != 0, what, ": libpng: ", static_cast<const char*>(image.message));
  bytes.resize(size);
  return bytes;
}

}  // namespace detail
}  // namespace tendril::data

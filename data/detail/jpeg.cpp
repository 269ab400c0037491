// libjpeg's errors are long jumps: each function that calls it has one setjmp, and nothing that needs a destructor
// between that and the calls.
#include <csetjmp>
#include <cstddef>
#include <cstdio>
// jpeglib.h wants to have read cstdio
#include <jpeglib.h>
// and jerror.h jpeglib.h
#include <jerror.h>

#include "tendril/data/detail/parse.h"
#include "tendril/tensor/error.h"

namespace tendril::data {

bool has_jpeg() noexcept { return true; }

namespace detail {
namespace {

constexpr int kMostScans = 500;  // each goes through the whole image: a small file could keep a reader busy for hours

/// Reads one file; owns libjpeg's structures.
class JpegReader {
 public:
  JpegReader() {
    info_.err = jpeg_std_error(&errors_);
    errors_.error_exit = on_error;
    errors_.emit_message = on_message;
    progress_.progress_monitor = on_progress;
    info_.client_data = this;
  }
  ~JpegReader() { jpeg_destroy_decompress(&info_); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  /// Up to the first pixel. False if something is wrong: `message`.
  bool read_head(std::span<const std::byte> file) {
    if (setjmp(jump_)) return false;
    jpeg_create_decompress(&info_);
    info_.progress = &progress_;
    jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(file.data()), static_cast<unsigned long>(file.size()));
    jpeg_read_header(&info_, TRUE);
    return true;
  }
  bool start() {
    if (setjmp(jump_)) return false;
    info_.out_color_space = info_.jpeg_color_space == JCS_GRAYSCALE ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_start_decompress(&info_);
    return true;
  }
  bool read_rows(unsigned char* out, std::size_t row) {
    if (setjmp(jump_)) return false;
    while (info_.output_scanline < info_.output_height) {
      JSAMPROW rows[1] = {out + info_.output_scanline * row};
      jpeg_read_scanlines(&info_, rows, 1);
    }
    jpeg_finish_decompress(&info_);
    return true;
  }
  const jpeg_decompress_struct& info() const { return info_; }
  const char* message() const { return message_; }

 private:
  [[noreturn]] static void fail(j_common_ptr info) {
    auto* const self = static_cast<JpegReader*>(info->client_data);
    info->err->format_message(info, self->message_);
    std::longjmp(self->jump_, 1);
  }
  static void on_error(j_common_ptr info) { fail(info); }
  /// Warnings after which libjpeg would make pixels up are errors.
  static void on_message(j_common_ptr info, int level) {
    if (level >= 0) return;
    switch (info->err->msg_code) {
      case JWRN_HIT_MARKER:
      case JWRN_HUFF_BAD_CODE:
      case JWRN_JPEG_EOF:
      case JWRN_MUST_RESYNC:
      case JWRN_ARITH_BAD_CODE:
        fail(info);
      default:
        return;
    }
  }
  static void on_progress(j_common_ptr info) {
    if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMostScans) return;
    auto* const self = static_cast<JpegReader*>(info->client_data);
    std::snprintf(self->message_, sizeof self->message_, "it has more than %d scans", kMostScans);
    std::longjmp(self->jump_, 1);
  }

  jpeg_decompress_struct info_{};
  jpeg_error_mgr errors_{};
  jpeg_progress_mgr progress_{};
  std::jmp_buf jump_{};
  char message_[JMSG_LENGTH_MAX] = "";
};

}  // namespace

Pixels decode_jpeg(std::span<const std::byte> file, const ImageReadOptions& options, const std::string& what) {
  JpegReader reader;
  TENDRIL_CHECK(reader.read_head(file), what, ": is damaged: ", reader.message());
  const jpeg_decompress_struct& info = reader.info();
  check_image_size(info.image_width, info.image_height, options, what);
  const uint64_t count = uint64_t{info.image_width} * info.image_height;
  TENDRIL_CHECK(info.jpeg_color_space != JCS_CMYK && info.jpeg_color_space != JCS_YCCK, what,
                ": is in CMYK, expected RGB or gray");
  // Of 8 x 8 pixels, a Huffman code takes a bit at least: what claims more would only take memory.
  TENDRIL_CHECK(info.arith_code || count / 1024 <= file.size(), what, ": its image is ", info.image_width, " x ",
                info.image_height, " pixels, which ", file.size(), " bytes cannot hold");
  TENDRIL_CHECK(reader.start(), what, ": is damaged: ", reader.message());
  Pixels pixels{info.output_height, info.output_width, info.output_components, {}};
  const std::size_t row = std::size_t{info.output_width} * static_cast<std::size_t>(info.output_components);
  pixels.bytes.resize(row * info.output_height);
  TENDRIL_CHECK(reader.read_rows(pixels.bytes.data(), row), what, ": is damaged: ", reader.message());
  return pixels;
}

}  // namespace detail
}  // namespace tendril::data

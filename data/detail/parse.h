#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tendril/data/csv.h"
#include "tendril/data/images.h"
#include "tendril/tensor/files/detail/bytes.h"
#include "tendril/tensor/tensor.h"

/// The parts of the formats that do no I/O. Bytes may be anybody's: sizes are checked before memory is taken for them.
/// Errors begin with `what`.
namespace tendril::data::detail {

using files::detail::Bytes;

/// An IDX file's tensor, on `file`'s memory where its elements are bytes.
Tensor parse_idx(const std::shared_ptr<Bytes>& file, const std::string& what);

/// Records of `label_bytes` labels and 3 x 32 x 32 pixels: uint8 [n, 3, 32, 32] and [n, label_bytes], on the memory of
/// `file`.
struct CifarRecords {
  Tensor images, labels;
};
CifarRecords parse_cifar(const std::shared_ptr<Bytes>& file, int64_t label_bytes, const std::string& what);

CsvTable parse_csv(const std::shared_ptr<Bytes>& file, const CsvOptions& options, const std::string& what);

/// Rows of pixels of 1 to 4 bytes (gray, gray and alpha, RGB, RGBA), from the top.
struct Pixels {
  int64_t height = 0, width = 0;
  int64_t channels = 0;
  std::vector<unsigned char> bytes;
};
/// The size that a file says its image has. Throws Error for none and for one above the limit.
void check_image_size(uint64_t width, uint64_t height, const ImageReadOptions& options, const std::string& what);
Pixels decode_png(std::span<const std::byte> file, const ImageReadOptions& options, const std::string& what);
Pixels decode_jpeg(std::span<const std::byte> file, const ImageReadOptions& options, const std::string& what);
std::vector<std::byte> encode_png(const Pixels& pixels, const std::string& what);
/// uint8 [channels, height, width].
Tensor tensor_of(const Pixels& pixels, ImageMode mode);

}  // namespace tendril::data::detail

#include "tendril/data/datasets.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <sstream>
#include <string>
#include <system_error>

#include "tendril/data/detail/parse.h"
#include "tendril/data/text.h"
#include "tendril/tensor/error.h"
#include "tendril/tensor/files/detail/atomic_file.h"
#include "tendril/tensor/raw.h"

namespace tendril::data {

using files::detail::Bytes;
using files::detail::label_of;
namespace fs = std::filesystem;

namespace {

struct IdxType {
  unsigned char code;
  DType dtype;
};
constexpr std::array<IdxType, 4> kIdxTypes = {{{0x08, kUInt8}, {0x0c, kInt32}, {0x0d, kFloat32}, {0x0e, kFloat64}}};

void swap_elements(std::byte* data, int64_t count, std::size_t size) {
  for (int64_t i = 0; i < count; ++i, data += size) std::reverse(data, data + size);
}

std::vector<std::string> numbered(int64_t count) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < count; ++i) names.push_back(std::to_string(i));
  return names;
}

/// Labels, uint8 [n] of any stride, as int64.
Tensor labels_of(const Tensor& bytes, int64_t classes, const std::string& what) {
  Tensor labels = raw::contiguous(raw::cast(bytes, kInt64));
  const int64_t* const values = labels.data<int64_t>();
  for (int64_t i = 0; i < labels.numel(); ++i) {
    TENDRIL_CHECK(values[i] < classes, what, ": label ", i, " is ", values[i], ", expected 0 to ", classes - 1);
  }
  return labels;
}

/// False too where nobody can tell: who opens it says why.
bool is_there(const fs::path& file) {
  std::error_code unknown;
  return fs::exists(file, unknown);
}

/// One name a line; `count` of them, or numbers where the file is missing.
std::vector<std::string> names_in(const fs::path& file, int64_t count) {
  if (!is_there(file)) return numbered(count);
  std::vector<std::string> names;
  std::istringstream text(load_text(file));
  for (std::string line; std::getline(text, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (!line.empty()) names.push_back(line);
  }
  TENDRIL_CHECK(static_cast<int64_t>(names.size()) == count, "CIFAR: ", file, " has ", names.size(),
                " names, expected ", count);
  return names;
}

/// Several files of records, one after the other; `label` is which of the labels counts.
LabelledImages load_cifar(const std::vector<fs::path>& files, int64_t label_bytes, int64_t label, int64_t classes) {
  std::vector<detail::CifarRecords> parts;
  int64_t count = 0;
  for (const fs::path& file : files) {
    parts.push_back(detail::parse_cifar(Bytes::of_file("CIFAR", file), label_bytes, label_of("CIFAR", file)));
    count += parts.back().images.size(0);
  }
  LabelledImages all;
  all.images = raw::empty({count, 3, 32, 32}, kUInt8);
  all.labels = raw::empty({count}, kInt64);
  int64_t at = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const int64_t length = parts[i].images.size(0);
    raw::copy_(raw::narrow(all.images, 0, at, length), parts[i].images);
    raw::copy_(raw::narrow(all.labels, 0, at, length),
               labels_of(raw::select(parts[i].labels, 1, label), classes, label_of("CIFAR", files[i])));
    at += length;
  }
  return all;
}

}  // namespace

namespace detail {

Tensor parse_idx(const std::shared_ptr<Bytes>& file, const std::string& what) {
  const std::span<std::byte> bytes = file->all();
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  TENDRIL_CHECK(bytes.size() < 2 || at(0) != 0x1f || at(1) != 0x8b, what, ": is compressed: gunzip it first");
  TENDRIL_CHECK(bytes.size() >= 4 && at(0) == 0 && at(1) == 0, what,
                ": is no IDX file: it does not begin with two bytes of 0");
  const auto* const type = std::ranges::find(kIdxTypes, at(2), &IdxType::code);
  TENDRIL_CHECK(type != kIdxTypes.end(), what, ": has elements of type ", int{at(2)},
                ", expected 8 (uint8), 12 (int32), 13 (float32) or 14 (float64)");
  const std::size_t dims = at(3);
  TENDRIL_CHECK(bytes.size() >= 4 + 4 * dims, what, ": is cut short within its header");
  std::vector<int64_t> sizes;
  for (std::size_t d = 0; d < dims; ++d) {
    int64_t size = 0;
    for (std::size_t i = 0; i < 4; ++i) size = size << 8 | at(4 + 4 * d + i);
    sizes.push_back(size);
  }
  const Dims shape = files::detail::sizes_of(sizes, what);
  const uint64_t needed = files::detail::bytes_of(shape, type->dtype, what);
  const std::span<std::byte> elements = bytes.subspan(4 + 4 * dims);
  TENDRIL_CHECK(elements.size() == needed, what, ": has ", elements.size(), " bytes of elements, expected ", needed,
                " for shape ", shape, " of ", type->dtype);
  Tensor tensor = files::detail::tensor_on(file, elements, shape, type->dtype, what);
  if (size_of(type->dtype) == 1) return tensor;
  tensor = raw::clone(tensor);
  swap_elements(static_cast<std::byte*>(tensor.raw_data()), tensor.numel(), size_of(type->dtype));
  return tensor;
}

CifarRecords parse_cifar(const std::shared_ptr<Bytes>& file, int64_t label_bytes, const std::string& what) {
  const int64_t pixels = 3 * 32 * 32, record = label_bytes + pixels;
  const auto size = static_cast<int64_t>(file->size());
  TENDRIL_CHECK(size > 0 && size % record == 0, what, ": has ", size, " bytes, expected a multiple of ", record,
                ", the size of a record");
  const int64_t count = size / record;
  const Ref<Storage> storage = files::detail::storage_on(file, file->all(), kUInt8, what);
  return {raw::on_storage(storage, {count, 3, 32, 32}, {record, 1024, 32, 1}, label_bytes, kUInt8),
          raw::on_storage(storage, {count, label_bytes}, {record, 1}, 0, kUInt8)};
}

}  // namespace detail

Tensor load_idx(const fs::path& file) {
  return detail::parse_idx(Bytes::of_file("load_idx", file), label_of("load_idx", file));
}

void save_idx(const Tensor& tensor, const fs::path& file) {
  tendril::detail::check_defined(tensor, "save_idx");
  const auto* const type = std::ranges::find(kIdxTypes, tensor.dtype(), &IdxType::dtype);
  TENDRIL_CHECK_AS(DTypeError, type != kIdxTypes.end(), "save_idx: tensor: got ", tensor.dtype(),
                   ", expected uint8, int32, float32 or float64");
  std::string head = {0, 0, static_cast<char>(type->code), static_cast<char>(tensor.dim())};
  for (const int64_t size : tensor.sizes()) {
    TENDRIL_CHECK_AS(ShapeError, size <= std::numeric_limits<uint32_t>::max(), "save_idx: tensor: got shape ",
                     tensor.sizes(), ", expected sizes below 2^32");
    for (int shift = 24; shift >= 0; shift -= 8) head += static_cast<char>(size >> shift & 0xff);
  }
  const Tensor elements = raw::clone(raw::to(tensor, kCPU));
  auto* const data = static_cast<std::byte*>(elements.raw_data());
  const std::size_t size = size_of(tensor.dtype());
  if (size > 1) swap_elements(data, elements.numel(), size);
  files::detail::AtomicFile out("save_idx", file);
  out.write(head);
  out.write(std::span<const std::byte>(data, static_cast<std::size_t>(elements.numel()) * size));
  out.commit();
}

std::tuple<Tensor, int64_t> LabelledImages::get(int64_t index) const {
  return {raw::select(images, 0, index), raw::select(labels, 0, index).item<int64_t>()};
}

LabelledImages load_idx_images(const fs::path& images, const fs::path& labels, int64_t classes) {
  LabelledImages all;
  const char* const op = "load_idx_images";
  all.images = load_idx(images);
  const Tensor bytes = load_idx(labels);
  TENDRIL_CHECK(all.images.dim() == 3 && all.images.dtype() == kUInt8, op, ": ", images, " has shape ",
                all.images.sizes(), " of ", all.images.dtype(), ", expected [count, height, width] of uint8");
  TENDRIL_CHECK(bytes.dim() == 1 && bytes.dtype() == kUInt8 && bytes.size(0) == all.images.size(0), op, ": ", labels,
                " has shape ", bytes.sizes(), " of ", bytes.dtype(), ", expected [", all.images.size(0), "] of uint8");
  TENDRIL_CHECK(bytes.size(0) > 0, op, ": ", images, " has no images");
  TENDRIL_CHECK(classes >= 1, op, ": classes: got ", classes, ", expected 1 or more");
  all.images = raw::unsqueeze(all.images, 1);
  all.labels = labels_of(bytes, classes, label_of(op, labels));
  all.classes = numbered(classes);
  return all;
}

LabelledImages load_mnist(const fs::path& folder, Split split) {
  const std::string prefix = split == Split::train ? "train" : "t10k";
  const auto file = [&](const std::string& kind, char ndim) {
    const fs::path hyphen = folder / (prefix + "-" + kind + "-idx" + ndim + "-ubyte");
    const fs::path dot = folder / (prefix + "-" + kind + ".idx" + ndim + "-ubyte");
    return is_there(dot) && !is_there(hyphen) ? dot : hyphen;
  };
  return load_idx_images(file("images", '3'), file("labels", '1'));
}

LabelledImages load_cifar10(const fs::path& folder, Split split) {
  std::vector<fs::path> files = {folder / "test_batch.bin"};
  if (split == Split::train) {
    files.clear();
    for (int i = 1; i <= 5; ++i) files.push_back(folder / ("data_batch_" + std::to_string(i) + ".bin"));
  }
  LabelledImages all = load_cifar(files, 1, 0, 10);
  all.classes = names_in(folder / "batches.meta.txt", 10);
  return all;
}

LabelledImages load_cifar10_file(const fs::path& file) {
  LabelledImages all = load_cifar({file}, 1, 0, 10);
  all.classes = numbered(10);
  return all;
}

LabelledImages load_cifar100(const fs::path& folder, Split split) {
  LabelledImages all = load_cifar({folder / (split == Split::train ? "train.bin" : "test.bin")}, 2, 1, 100);
  all.classes = names_in(folder / "fine_label_names.txt", 100);
  return all;
}

}  // namespace tendril::data

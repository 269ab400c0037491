#include "tendril/tensor/files/detail/bytes.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <sstream>

#include "tendril/tensor/error.h"
#include "tendril/tensor/layout.h"
#include "tendril/tensor/raw.h"

namespace tendril::files::detail {

static_assert(std::endian::native == std::endian::little, "the formats are little-endian");

std::shared_ptr<Bytes> Bytes::of_file(const std::string& op, const std::filesystem::path& file) {
  // Not blocking: a pipe would wait for a writer.
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  TENDRIL_CHECK(descriptor >= 0, op, ": cannot open ", file, ": ", std::strerror(errno));
  std::shared_ptr<Bytes> bytes(new Bytes);
  struct stat status {};
  const bool regular = ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
  int reason = 0;
  if (regular && status.st_size > 0) {
    // NORESERVE: pages that nobody writes to need no memory of their own.
    void* const data = ::mmap(nullptr, static_cast<std::size_t>(status.st_size), PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_NORESERVE, descriptor, 0);
    reason = data == MAP_FAILED ? errno : 0;
    if (reason == 0) {
      bytes->data_ = static_cast<std::byte*>(data);
      bytes->size_ = static_cast<std::size_t>(status.st_size);
      bytes->mapped_ = true;
    }
  }
  ::close(descriptor);
  TENDRIL_CHECK(regular, op, ": ", file, " is no regular file");
  TENDRIL_CHECK(reason == 0, op, ": cannot map ", file, ": ", std::strerror(reason));
  return bytes;
}

std::shared_ptr<Bytes> Bytes::of(std::vector<std::byte> buffer) {
  std::shared_ptr<Bytes> bytes(new Bytes);
  bytes->buffer_ = std::move(buffer);
  bytes->data_ = bytes->buffer_.data();
  bytes->size_ = bytes->buffer_.size();
  return bytes;
}

Bytes::~Bytes() {
  if (mapped_) ::munmap(data_, size_);
}

Ref<Storage> storage_on(const std::shared_ptr<Bytes>& owner, std::span<std::byte> part, DType dtype,
                        const std::string& what) {
  if (dtype == kBool) {
    for (const std::byte element : part) {
      TENDRIL_CHECK(element <= std::byte{1}, what, ": a bool is ", static_cast<int>(element), ", expected 0 or 1");
    }
  }
  if (part.empty() || reinterpret_cast<std::uintptr_t>(part.data()) % size_of(dtype) != 0) {
    Ref<Storage> copy = Storage::allocate(part.size());
    if (!part.empty()) std::memcpy(copy->data(), part.data(), part.size());
    return copy;
  }
  using Owner = std::shared_ptr<Bytes>;
  auto kept = std::make_unique<Owner>(owner);
  const Storage::Deleter end = [](void* context) noexcept { delete static_cast<Owner*>(context); };
  return Storage::wrap(part.data(), part.size(), kCPU, end, kept.release());
}

Tensor tensor_on(const std::shared_ptr<Bytes>& owner, std::span<std::byte> part, const Dims& sizes, DType dtype,
                 const std::string& what) {
  return raw::on_storage(storage_on(owner, part, dtype, what), sizes, contiguous_strides(sizes), 0, dtype);
}

std::string label_of(const char* op, const std::filesystem::path& file) {
  return std::string(op) + ": " + file.string();
}

Dims sizes_of(std::span<const int64_t> sizes, const std::string& what) {
  TENDRIL_CHECK(sizes.size() <= Dims::kMaxDims, what, ": has ", sizes.size(), " dimensions, expected at most ",
                int{Dims::kMaxDims});
  const Dims dims(sizes);
  int64_t product = 1;
  for (const int64_t size : sizes) {
    TENDRIL_CHECK(size >= 0, what, ": got shape ", dims, ", expected sizes of 0 or more");
    // Also beside a size of 0: strides are products of the others.
    TENDRIL_CHECK(size == 0 || !__builtin_mul_overflow(product, size, &product), what, ": got shape ", dims,
                  ", which has too many elements");
  }
  return dims;
}

uint64_t bytes_of(const Dims& sizes, DType dtype, const std::string& what) {
  int64_t bytes = 0;
  TENDRIL_CHECK(!__builtin_mul_overflow(numel_of(sizes), static_cast<int64_t>(size_of(dtype)), &bytes), what,
                ": got shape ", sizes, ", which has too many elements");
  return static_cast<uint64_t>(bytes);
}

std::span<const std::byte> elements_of(const Tensor& tensor, Tensor& holder) {
  holder = raw::contiguous(raw::to(tensor, kCPU));
  return {static_cast<const std::byte*>(holder.raw_data()),
          static_cast<std::size_t>(holder.numel()) * size_of(holder.dtype())};
}

}  // namespace tendril::files::detail

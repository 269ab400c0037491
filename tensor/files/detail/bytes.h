#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tendril/tensor/dims.h"
#include "tendril/tensor/dtype.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

namespace tendril::files::detail {

/// Memory that a file's readers and the tensors on it share: a mapped file, or a buffer. It may be written to; that of
/// a file is this process's own then (a private mapping: copied page by page on the first write), the file stays.
class Bytes {
 public:
  /// Throws Error that begins with `op` for what is no readable regular file. A file that another program cuts short
  /// while it is mapped ends a process that reads beyond the new end (SIGBUS), as every mapping's does; files that are
  /// replaced by a rename, as ours are, stay whole.
  static std::shared_ptr<Bytes> of_file(const std::string& op, const std::filesystem::path& file);
  static std::shared_ptr<Bytes> of(std::vector<std::byte> buffer);
  ~Bytes();
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;

  std::span<std::byte> all() const noexcept { return {data_, size_}; }
  std::size_t size() const noexcept { return size_; }

 private:
  Bytes() = default;

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  bool mapped_ = false;
  std::vector<std::byte> buffer_;
};

/// A storage on `part` of `owner`, which it keeps alive; on a copy where the part does not lie as elements of `dtype`
/// must. Throws Error that begins with `what` for bools that are neither 0 nor 1.
Ref<Storage> storage_on(const std::shared_ptr<Bytes>& owner, std::span<std::byte> part, DType dtype,
                        const std::string& what);
/// Row-major elements; `part` has as many bytes as they need.
Tensor tensor_on(const std::shared_ptr<Bytes>& owner, std::span<std::byte> part, const Dims& sizes, DType dtype,
                 const std::string& what);

/// How errors begin: "op: file".
std::string label_of(const char* op, const std::filesystem::path& file);

/// Dimensions as they stand in a file, which need not be possible: throws Error that begins with `what` unless they
/// are.
Dims sizes_of(std::span<const int64_t> sizes, const std::string& what);
/// Elements times their size, of sizes that are possible. Throws Error that begins with `what` where that is over 2^63.
uint64_t bytes_of(const Dims& sizes, DType dtype, const std::string& what);

/// The bytes of a tensor's elements, row by row; `holder` keeps them.
std::span<const std::byte> elements_of(const Tensor& tensor, Tensor& holder);

}  // namespace tendril::files::detail

TENDRIL_API_END

#pragma once

#include <memory>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include "tendril/rpc/error.h"
#include "tendril/rpc/wire/archive/fwd.h"
#include "tendril/rpc/wire/byte_order.h"
#include "tendril/rpc/wire/message.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc {

/// Reads values from a received message, which is not trusted: every failure is a MessageError that names the function,
/// the argument and the byte position. Has Boost.Serialization's interface: `archive >> x`, `archive & x`. Not
/// thread-safe.
class InputArchive {
 public:
  using is_saving = std::false_type;
  using is_loading = std::true_type;

  /// Reads from the start of the message's payload, and moves tensors and references out of the message. `function` is
  /// for errors, and must outlive the archive.
  explicit InputArchive(Message& message, const char* function = nullptr) noexcept
      : message_(message),
        at_(message.payload.data()),
        end_(message.payload.data() + message.payload.size()),
        function_(function) {}
  InputArchive(const InputArchive&) = delete;
  InputArchive& operator=(const InputArchive&) = delete;

  template <class T>
  InputArchive& operator>>(T&& value) {
    Serializer<std::remove_cv_t<std::remove_reference_t<T>>>::load(*this, value);
    return *this;
  }
  template <class T>
  InputArchive& operator&(T&& value) {
    return *this >> value;
  }

  /// Sets the value that is read next, for errors: argument `index` counted from 1, or 0 for the result.
  void expect(int index, const std::type_info& type) noexcept {
    index_ = index;
    type_ = &type;
  }
  /// Throws MessageError unless everything has been read.
  void finish();

  // ---- building blocks for Serializers
  template <class T>
  T number() {
    require(sizeof(T));
    const T value = get<T>(at_);
    at_ += sizeof(T);
    return value;
  }
  void bytes(void* to, std::size_t size) {
    require(size);
    if (size > 0) std::memcpy(to, at_, size);
    at_ += size;
  }
  /// Reads a number of elements that take at least `bytes_each` bytes each. Fails if they would exceed the bytes left.
  std::size_t count(std::size_t bytes_each = 1) {
    const auto value = number<uint64_t>();
    if (value > left() / bytes_each) throw_count(value);
    return static_cast<std::size_t>(value);
  }
  std::size_t left() const noexcept { return static_cast<std::size_t>(end_ - at_); }
  std::size_t position() const noexcept { return static_cast<std::size_t>(at_ - message_.payload.data()); }
  Tensor tensor();
  std::shared_ptr<RRefState> reference();
  [[noreturn]] void fail(const std::string& what) const;

  /// Exists while a container or a class is being read.
  class Nested {
   public:
    explicit Nested(InputArchive& archive) : archive_(archive) {
      if (++archive_.depth_ > kMaxNesting) archive_.fail("values are nested too deeply");
    }
    ~Nested() { --archive_.depth_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

   private:
    InputArchive& archive_;
  };

  // ---- parts of Boost's interface that have no meaning here
  void load_binary(void* to, std::size_t size) { bytes(to, size); }
  static constexpr unsigned get_library_version() noexcept { return 0; }
  void reset_object_address(const void*, const void*) noexcept {}

 private:
  void require(std::size_t size) const {
    if (size > left()) throw_truncated(size);
  }
  [[noreturn]] void throw_truncated(std::size_t size) const;
  [[noreturn]] void throw_count(uint64_t value) const;

  Message& message_;
  const std::byte* at_;
  const std::byte* end_;
  std::size_t next_tensor_ = 0, next_reference_ = 0;
  int depth_ = 0;
  const char* function_;
  int index_ = -1;
  const std::type_info* type_ = nullptr;
};

}  // namespace tendril::rpc

TENDRIL_API_END

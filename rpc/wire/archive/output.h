#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "tendril/rpc/error.h"
#include "tendril/rpc/wire/archive/fwd.h"
#include "tendril/rpc/wire/byte_order.h"
#include "tendril/rpc/wire/message.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc {

/// Writes values into a message: bytes into its payload, tensors and references out of band. Has Boost.Serialization's
/// interface: `archive << x`, `archive & x`. Not thread-safe.
class OutputArchive {
 public:
  using is_saving = std::true_type;
  using is_loading = std::false_type;

  /// Appends to the message.
  explicit OutputArchive(Message& message) noexcept : message_(message) {}
  OutputArchive(const OutputArchive&) = delete;
  OutputArchive& operator=(const OutputArchive&) = delete;

  template <class T>
  OutputArchive& operator<<(const T& value) {
    Serializer<std::remove_const_t<T>>::save(*this, value);
    return *this;
  }
  template <class T>
  OutputArchive& operator&(const T& value) {
    return *this << value;
  }

  // ---- building blocks for Serializers
  template <class T>
  void number(T value) {
    bytes(&value, sizeof value);
  }
  void bytes(const void* data, std::size_t size) {
    if (size == 0) return;
    const std::size_t at = message_.payload.size();
    message_.payload.resize(at + size);  // not insert(): GCC 12 warns of an impossible overflow
    std::memcpy(message_.payload.data() + at, data, size);
  }
  void count(std::size_t value) { number(static_cast<uint64_t>(value)); }
  std::size_t position() const noexcept { return message_.payload.size(); }
  void tensor(const Tensor& value);
  void reference(std::shared_ptr<RRefState> state);

  /// Exists while a container or a class is being written.
  class Nested {
   public:
    explicit Nested(OutputArchive& archive) : archive_(archive) {
      if (++archive_.depth_ > kMaxNesting) archive_.throw_too_deep();
    }
    ~Nested() { --archive_.depth_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

   private:
    OutputArchive& archive_;
  };

  // ---- parts of Boost's interface that have no meaning here
  void save_binary(const void* data, std::size_t size) { bytes(data, size); }
  static constexpr unsigned get_library_version() noexcept { return 0; }

 private:
  [[noreturn]] void throw_too_deep();

  Message& message_;
  int depth_ = 0;
};

}  // namespace tendril::rpc

TENDRIL_API_END

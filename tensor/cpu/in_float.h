#pragma once

#include <cstdint>
#include <optional>

#include "tendril/tensor/cpu/scratch.h"
#include "tendril/tensor/dims.h"
#include "tendril/tensor/view.h"

namespace tendril::cpu {

constexpr bool is_half(DType dtype) noexcept { return computed_in(dtype) != dtype; }

/// A half operand in float32 for the time of one kernel, so that arithmetic is in float and a result is rounded once.
/// What is no half is seen as it is. Elements keep their order in memory.
class InFloat {
 public:
  enum class Use : uint8_t { read, write };
  /// `given` must outlive this. Throws Error where there is no memory left.
  explicit InFloat(const View& given, Use use = Use::read);
  InFloat(const InFloat&) = delete;
  InFloat& operator=(const InFloat&) = delete;

  const View& view() const noexcept { return view_; }
  operator const View&() const noexcept { return view_; }
  /// Rounds the elements to what was given.
  void write_back() const;

 private:
  const View& given_;
  Dims strides_;
  Scratch<float> elements_;
  View view_;
};

/// InFloat of an operand that may be missing.
class MaybeInFloat {
 public:
  explicit MaybeInFloat(const View* given) {
    if (given) value_.emplace(*given);
  }
  const View* view() const noexcept { return value_ ? &value_->view() : nullptr; }

 private:
  std::optional<InFloat> value_;
};

}  // namespace tendril::cpu

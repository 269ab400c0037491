#pragma once

#include "tendril/tensor/cpu/cpu.h"
#include "tendril/tensor/cpu/in_float.h"
#include "tendril/tensor/cpu/scratch.h"
#include "tendril/tensor/dims.h"

namespace tendril::cpu {

/// An operand without gaps in row-major order for the time of one kernel, as InFloat is in float32; itself if it is so.
class RowMajor {
 public:
  /// `given` must outlive this. Throws Error where there is no memory left.
  explicit RowMajor(const View& given, InFloat::Use use = InFloat::Use::read)
      : given_(given),
        bytes_(given.contiguous ? 0 : given.numel * static_cast<int64_t>(size_of(given.dtype))),
        view_(given) {
    if (given.contiguous) return;
    strides_ = contiguous_strides(Dims(std::span(given.sizes, static_cast<std::size_t>(given.ndim))));
    view_.data = bytes_.data();
    view_.strides = strides_.data();
    view_.contiguous = true;
    if (use == InFloat::Use::read) copy(view_, given_);
  }
  RowMajor(const RowMajor&) = delete;
  RowMajor& operator=(const RowMajor&) = delete;

  operator const View&() const noexcept { return view_; }
  void write_back() const {
    if (!given_.contiguous) copy(given_, view_);
  }

 private:
  const View& given_;
  Dims strides_;
  Scratch<char> bytes_;
  View view_;
};

}  // namespace tendril::cpu

#pragma once

#include <cstdint>
#include <functional>

#include "tendril/tensor/device.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/view.h"

TENDRIL_API_BEGIN

/// What of a recorded step (cuda::Graph) is another each time: numbers that the host computes and that kernels take as
/// arguments, such as a learning rate, a step count, or where random numbers begin.
namespace tendril::detail {

/// Records what a thread gives a device, to be issued again as a whole.
class Recorder {
 public:
  explicit Recorder(Device device) noexcept;
  virtual ~Recorder() = default;
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// Whose work it records; what else is done happens at once.
  Device device() const noexcept { return device_; }
  /// No other recorder's of this process, past or to come; not 0. For caches: what a recorded kernel writes is nothing
  /// outside of the record, and what was there before may be gone when it is replayed.
  uint64_t number() const noexcept { return number_; }

  /// Calls `launches(false)`, whose kernels are recorded, and before each replay `launches(true)`, in the order of
  /// these calls, with the recorder's device current. The new arguments replace those of the recorded kernels. It must
  /// launch the same kernels each time and ask nothing else of the device; it changes the host only before a replay.
  ///
  /// It lives as long as the record. Tensors that it holds keep their memory from the rest of the step: memory that a
  /// recorded kernel uses stays the record's anyway, so that a FlatView does.
  virtual void renew(std::function<void(bool replaying)> launches) = 0;

 private:
  Device device_;
  uint64_t number_;
};

/// By whom the calling thread's work on `device` is recorded; null when it is not.
Recorder* recorder(Device device) noexcept;
/// By whom any of its work is.
Recorder* recorder() noexcept;
/// Null ends it.
void set_recorder(Recorder* recorder) noexcept;

/// A contiguous tensor's elements in one dimension, borrowed.
class FlatView {
 public:
  explicit FlatView(const View& contiguous) noexcept
      : data_(contiguous.data), numel_(contiguous.numel), dtype_(contiguous.dtype) {}
  /// Borrowed from this object.
  View view() const noexcept { return {data_, &numel_, &kStep, numel_, 1, dtype_, true}; }

 private:
  static constexpr int64_t kStep = 1;
  void* data_;
  int64_t numel_;
  DType dtype_;
};

}  // namespace tendril::detail

TENDRIL_API_END

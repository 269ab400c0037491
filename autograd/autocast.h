#pragma once

#include <cstdint>

#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

/// Mixed precision: within an `Autocast`, operations choose the dtypes that they compute in, as in PyTorch's
/// torch.autocast:
///
///     Tensor loss;
///     {
///       const Autocast mixed(kBFloat16);
///       loss = cross_entropy(model(x), target);
///     }
///     loss.backward();
///
/// - In the given half type: matmul, mm, bmm, addmm, baddbmm, linear (with an activation, too), einsum, convolutions,
///   LSTMs, attention and prelu.
/// - With float32 results: losses and prod.
/// - All others in the dtypes of their operands, which promote; softmax, normalisations and sums of a half type are
///   computed in float32 and rounded once in any case.
///
/// These are PyTorch's lists for the CPU, here on every device.
///
/// float64 and integers stay as they are. A parameter (a float32 leaf that requires a gradient) is cast once for all
/// its uses until the outermost Autocast of the thread ends, or until it is changed. Its gradient is float32.
///
/// The state is the thread's own: it is not that of a handler at another worker, nor of a thread that is started
/// within. Backward computes in the dtypes that forward had, on whatever thread and within whatever Autocast it runs;
/// the backward of a user's Function has the Autocast that its forward had (PyTorch's custom_fwd and custom_bwd).
namespace tendril::autograd {

/// What an Autocast is told beside its dtype.
struct AutocastOptions {
  DType dtype = kBFloat16;  ///< kBFloat16 or kFloat16
  bool enabled = true;      ///< false: operations are as without, within another Autocast too
  bool cache = true;        ///< whether casts of parameters are kept
};

/// Sets the calling thread's state for the guard's lifetime, then restores what it was. Guards nest. Error for a dtype
/// that is no half type.
class Autocast {
 public:
  explicit Autocast(const AutocastOptions& options = {});
  explicit Autocast(DType dtype) : Autocast(AutocastOptions{.dtype = dtype}) {}
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  AutocastOptions before_;
};

/// What holds on this thread: for an Autocast of another thread that is to be like it. Not enabled outside of any.
AutocastOptions autocast_state() noexcept;

namespace detail {
struct AutocastThread {
  AutocastOptions state{.enabled = false};
  int depth = 0;  ///< of guards
};
extern constinit thread_local AutocastThread autocast_thread;

/// Operations are as without Autocast while it lives.
class AutocastOff {
 public:
  AutocastOff() noexcept : before_(autocast_thread.state.enabled) { autocast_thread.state.enabled = false; }
  ~AutocastOff() { autocast_thread.state.enabled = before_; }
  AutocastOff(const AutocastOff&) = delete;
  AutocastOff& operator=(const AutocastOff&) = delete;

 private:
  bool before_;
};

/// For operations: whether there is anything to do.
inline bool autocast_on() noexcept { return autocast_thread.state.enabled; }
/// x in the half type, if it is floating and no float64; x undefined: undefined.
Tensor lowered(const Tensor& x);
/// x in float32, if it is of a half type; x undefined: undefined.
Tensor raised(const Tensor& x);
inline bool is_raised(const Tensor& x) noexcept { return x.defined() && computed_in(x.dtype()) != x.dtype(); }
}  // namespace detail

}  // namespace tendril::autograd

namespace tendril {
using autograd::Autocast;
}

TENDRIL_API_END

#pragma once

#include <any>
#include <functional>
#include <memory>

#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

/// Functions that decide how tensors are kept from the forward operation until its backward: elsewhere, smaller, or not
/// at all (autograd/checkpoint.h).
namespace tendril::autograd {

namespace detail {
struct SavedTensorFunctions;
}

/// While it lives, whatever operations of the calling thread save for backward goes through `pack`, whose result is
/// kept in its place, and comes back through `unpack` when a formula reads it. Guards nest: the innermost one counts.
///
///   const SavedTensorHooks in_half([](const Tensor& x) { return std::any(x.to(kBFloat16)); },
///                                  [](const std::any& kept) { return std::any_cast<Tensor>(kept).to(kFloat32); });
///
/// `pack` gets the tensor without history, and must not change it (AutogradError). `unpack` gives one of the same
/// sizes, dtype and device (AutogradError otherwise); its history is put back, so that double backward works. Both run
/// with recording off: `pack` on the thread that records, `unpack` on the one that runs backward, perhaps several times
/// and after this guard is gone. What they throw leaves through the operation, or through backward.
///
/// Where `pack` hands the tensor through (a std::any that holds it, or a view of it), a change in place before backward
/// is found as without hooks; in what a hook keeps in another form it is not looked for.
/// Numbers and what an operation does not save as a tensor (indices, the members of a Function's Context) stay as they
/// are.
class SavedTensorHooks {
 public:
  using Pack = std::function<std::any(const Tensor&)>;    ///< makes of a saved tensor what is kept
  using Unpack = std::function<Tensor(const std::any&)>;  ///< makes the tensor of it again

  /// Throws AutogradError if either is empty.
  SavedTensorHooks(Pack pack, Unpack unpack);
  explicit SavedTensorHooks(std::shared_ptr<const detail::SavedTensorFunctions> functions) noexcept;
  ~SavedTensorHooks();
  SavedTensorHooks(const SavedTensorHooks&) = delete;
  SavedTensorHooks& operator=(const SavedTensorHooks&) = delete;

 private:
  friend class SavedTensor;

  std::shared_ptr<const detail::SavedTensorFunctions> functions_;
  const SavedTensorHooks* before_;
};

/// Keeps what is saved on the CPU, and copies it back to its device when backward wants it: a device's memory for time.
/// CPU tensors stay as they are.
class SaveOnCpu : public SavedTensorHooks {
 public:
  SaveOnCpu();
};

namespace detail {
struct SavedTensorFunctions {
  SavedTensorHooks::Pack pack;
  SavedTensorHooks::Unpack unpack;
  /// May be empty. The node that kept this has run, and keeps it for another run (retain_graph).
  std::function<void(const std::any&)> ran = {};
};
/// The calling thread's innermost guard, or null.
extern constinit thread_local const SavedTensorHooks* saved_tensor_hooks;
}  // namespace detail

}  // namespace tendril::autograd

TENDRIL_API_END

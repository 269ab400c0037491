#pragma once

/// What a checkpoint computes again for backward (autograd/checkpoint.h).
namespace tendril::autograd::detail {

/// Whether this thread does.
bool is_running_again() noexcept;

}  // namespace tendril::autograd::detail

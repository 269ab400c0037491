#pragma once

#include <string>
#include <string_view>

namespace tendril::cuda {

/// For what a library refuses with another `status` than that it does not support it: a mistake in how it was called,
/// or a device that fails. Throws Error with `text` under `strict()`; else says `text` on the error output, once an
/// operation, call and status, and the caller goes another way. Any thread.
void refused(const char* op, const char* call, int status, const std::string& text);

/// Of a text of cudnn-frontend's, which keeps cuDNN's statuses in words alone: whether all that it names, if any, are
/// NOT_SUPPORTED.
bool names_no_failure(std::string_view text) noexcept;

}  // namespace tendril::cuda

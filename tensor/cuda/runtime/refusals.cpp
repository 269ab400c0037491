#include "tendril/tensor/cuda/runtime/refusals.h"

#include <cstdio>
#include <mutex>
#include <set>
#include <tuple>

#include "tendril/tensor/cuda/math_mode.h"
#include "tendril/tensor/error.h"

namespace tendril::cuda {
namespace {

/// True for the first of its kind.
bool is_news(const char* op, const char* call, int status) {
  static std::mutex mutex;
  static std::set<std::tuple<std::string, std::string, int>> said;
  const std::lock_guard lock(mutex);
  return said.emplace(op, call, status).second;
}

}  // namespace

void refused(const char* op, const char* call, int status, const std::string& text) {
  if (strict()) tendril::detail::raise<Error>(text);
  if (is_news(op, call, status)) {
    std::fprintf(stderr, "tendril: %s (done another way; said once; TENDRIL_CUDA_STRICT=1 makes it an error)\n",
                 text.c_str());
  }
}

bool names_no_failure(std::string_view text) noexcept {
  constexpr std::string_view status = "CUDNN_STATUS_";
  for (std::size_t at = text.find(status); at != std::string_view::npos; at = text.find(status, at)) {
    at += status.size();
    const std::string_view name = text.substr(at);
    if (!name.starts_with("NOT_SUPPORTED") && !name.starts_with("SUCCESS")) return false;
  }
  return true;
}

}  // namespace tendril::cuda

#include "tendril/rpc/connect/half_open.h"

#include <sys/resource.h>

#include <algorithm>

namespace tendril::rpc::detail {

std::optional<std::string> RefusalNotes::add(const std::string& text, Clock::time_point now) {
  std::erase_if(seen_, [&](const auto& one) { return one.second.since == 0 && now - one.second.shown >= kInterval; });
  const auto found = seen_.find(text);
  if (found == seen_.end()) {
    if (seen_.size() >= kMaxTexts) {
      std::erase_if(seen_, [&](const auto& one) { return now - one.second.shown >= kInterval; });
      if (seen_.size() >= kMaxTexts) return std::nullopt;
    }
    seen_.emplace(text, Seen{.shown = now});
    return text;
  }
  Seen& seen = found->second;
  if (now - seen.shown < kInterval) {
    ++seen.since;
    return std::nullopt;
  }
  std::string line = text + " (and " + std::to_string(seen.since) + " times more since this was last logged)";
  seen = {.shown = now};
  return line;
}

std::size_t max_half_open() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 64;
  return static_cast<std::size_t>(std::clamp<rlim_t>(limit.rlim_cur / 4, 4, 64));
}

}  // namespace tendril::rpc::detail

#include "tendril/rpc/simulation/transcript.h"

#include <array>
#include <cstdio>

namespace tendril::rpc::detail {

uint64_t fnv1a(std::string_view bytes, uint64_t digest) noexcept {
  for (const char c : bytes) digest = (digest ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return digest;
}

void Transcript::note(Clock::duration since_start, int rank, std::string_view what) {
  std::array<char, 64> head;
  const long long ns = std::chrono::nanoseconds(since_start).count();
  const int size = std::snprintf(head.data(), head.size(), "%lld.%06lld ms %d ", ns / 1'000'000, ns % 1'000'000, rank);
  const std::string_view start(head.data(), static_cast<std::size_t>(size));
  digest_ = fnv1a("\n", fnv1a(what, fnv1a(start, digest_)));
  ++lines_;
  if (keep_) text_.append(start).append(what).append("\n");
}

}  // namespace tendril::rpc::detail

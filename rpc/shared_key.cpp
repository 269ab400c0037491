#include "tendril/rpc/shared_key.h"

#include <openssl/crypto.h>
#include <unistd.h>

#include <array>
#include <utility>
#include <vector>

#include "tendril/rpc/error.h"

namespace tendril::rpc {

struct SharedKey::Held {
  Held(std::span<const std::byte> given, std::string from)
      : bytes(given.begin(), given.end()), origin(std::move(from)) {}
  ~Held() { OPENSSL_cleanse(bytes.data(), bytes.size()); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

  std::vector<std::byte> bytes;
  const std::string origin;
};

SharedKey::SharedKey(std::span<const std::byte> bytes, std::string origin) {
  TENDRIL_CHECK_AS(UsageError, bytes.size() >= kMinBytes && bytes.size() <= kMaxBytes, origin, " has ", bytes.size(),
                   " bytes, expected ", kMinBytes, " to ", kMaxBytes);
  held_ = std::make_shared<const Held>(bytes, std::move(origin));
}

SharedKey SharedKey::random(std::string origin) {
  std::array<std::byte, 32> bytes;
  TENDRIL_CHECK_AS(RpcError, ::getentropy(bytes.data(), bytes.size()) == 0,
                   "the system provides no random bytes for a key");
  SharedKey key(bytes, std::move(origin));
  OPENSSL_cleanse(bytes.data(), bytes.size());
  return key;
}

std::span<const std::byte> SharedKey::bytes() const noexcept {
  return held_ ? std::span<const std::byte>(held_->bytes) : std::span<const std::byte>();
}

const std::string& SharedKey::origin() const noexcept {
  static const std::string none = "no key";
  return held_ ? held_->origin : none;
}

}  // namespace tendril::rpc

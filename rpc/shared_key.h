#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc {

/// The secret that the workers of a group share: with it they prove to each other over TCP that they belong together
/// (docs/THREAT_MODEL.md). It is never printed or sent, and its bytes are overwritten when the last copy of this object
/// goes. Copies share the bytes; safe to read from any thread.
class SharedKey {
 public:
  static constexpr std::size_t kMinBytes = 16, kMaxBytes = 1024;  ///< how long a key may be

  SharedKey() = default;  ///< none
  /// `origin` says in errors where it comes from ("the key that the program states"). Throws UsageError for a length
  /// out of range. The caller's bytes stay as they are.
  explicit SharedKey(std::span<const std::byte> bytes, std::string origin = "the key that the program states");
  /// 32 random bytes.
  static SharedKey random(std::string origin = "a random key");
  /// The whole content of a file. It must be a regular file that belongs to this user or to root, no one else may read
  /// or write it (chmod 600), and it has 16 to 1024 bytes. Throws UsageError saying what is wrong.
  static SharedKey from_file(const std::string& path);
  /// The key of this user on this host: made at the first need, and then kept in a folder that nobody else can enter,
  /// /run/user/UID/tendril or, where there is no such, /tmp/tendril-uid-UID. Good for connections over loopback only.
  /// Throws UsageError where it can neither be read nor made.
  static SharedKey of_this_user();

  explicit operator bool() const noexcept { return held_ != nullptr; }  ///< whether there is one
  /// The key itself: not to be printed.
  std::span<const std::byte> bytes() const noexcept;
  /// Where it came from, for messages.
  const std::string& origin() const noexcept;

 private:
  struct Held;
  std::shared_ptr<const Held> held_;
};

/// For errors about a key that is missing.
inline constexpr const char* kHowToMakeAKey =
    "Make one with `head -c 32 /dev/urandom > key; chmod 600 key`, copy the file to every host, and name it by "
    "TENDRIL_KEY_FILE or InitOptions::key_file; or use certificates (TENDRIL_TLS_*_FILE, InitOptions::tls)";

}  // namespace tendril::rpc

TENDRIL_API_END

#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc {

/// The secret that the workers of a group share and with which they authenticate each other over TCP
/// (docs/THREAT_MODEL.md). It is never printed or sent, and its bytes are overwritten when the last copy of this object
/// is destroyed. Copies share the bytes; safe to read from any thread.
class SharedKey {
 public:
  static constexpr std::size_t kMinBytes = 16, kMaxBytes = 1024;  ///< limits of the length

  SharedKey() = default;  ///< no key
  /// Copies the bytes. `origin` describes the key in errors. Throws UsageError if the length is out of range. Does not
  /// overwrite the caller's bytes.
  explicit SharedKey(std::span<const std::byte> bytes, std::string origin = "the key that the program states");
  /// Returns a key of 32 random bytes.
  static SharedKey random(std::string origin = "a random key");
  /// Returns the whole content of a file as a key. The file must be a regular file of 16 to 1024 bytes that belongs to
  /// this user or to root, and no one else may read or write it (chmod 600). Throws UsageError stating the problem.
  static SharedKey from_file(const std::string& path);
  /// Returns the key of this user on this host. It is created when it is first needed and stored in a directory that
  /// other users cannot enter: /run/user/UID/tendril or, if /run/user/UID is not usable, /tmp/tendril-uid-UID. Valid
  /// for loopback connections only. Throws UsageError if it can be neither read nor created.
  static SharedKey of_this_user();

  explicit operator bool() const noexcept { return held_ != nullptr; }  ///< whether there is a key
  /// The key itself. Never print it.
  std::span<const std::byte> bytes() const noexcept;
  /// The source of the key, for messages.
  const std::string& origin() const noexcept;

 private:
  struct Held;
  std::shared_ptr<const Held> held_;
};

/// Instructions for errors about a missing key.
inline constexpr const char* kHowToMakeAKey =
    "Make one with `head -c 32 /dev/urandom > key; chmod 600 key`, copy the file to every host, and name it by "
    "TENDRIL_KEY_FILE or InitOptions::key_file; or use certificates (TENDRIL_TLS_*_FILE, InitOptions::tls)";

}  // namespace tendril::rpc

TENDRIL_API_END

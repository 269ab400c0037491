#pragma once

#include <string>

#include "tendril/rpc/system/unique_fd.h"

namespace tendril::rpc::detail {

/// A folder for one socket that only this user can enter. It is locked (flock) as long as its owner lives, and removed
/// by the destructor.
class PrivateFolder {
 public:
  /// Creates it in the folder `base`. Throws UsageError.
  explicit PrivateFolder(const std::string& base = default_base());
  ~PrivateFolder();  ///< also removes the socket
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;

  std::string socket_path() const { return path_ + "/socket"; }

  /// XDG_RUNTIME_DIR if it can be used, else TMPDIR, else /tmp.
  static std::string default_base();

 private:
  std::string path_;
  UniqueFd lock_;
};

/// Removes this user's folders whose owners were killed before they could remove them. Keeps a folder while its owner
/// lives, and one without a socket for its first ten minutes: its owner may be about to lock it.
void sweep_dead_folders(const std::string& base) noexcept;

}  // namespace tendril::rpc::detail

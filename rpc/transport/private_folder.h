#pragma once

#include <string>

#include "tendril/rpc/transport/unique_fd.h"

namespace tendril::rpc::detail {

/// A folder for one socket that only this user can enter, locked (flock) for as long as its owner lives; gone at the
/// end.
class PrivateFolder {
 public:
  /// In `base`, a folder. Throws UsageError.
  explicit PrivateFolder(const std::string& base = default_base());
  ~PrivateFolder();  ///< removes the socket, too
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;

  std::string socket_path() const { return path_ + "/socket"; }

  /// XDG_RUNTIME_DIR if it can be used, else TMPDIR, else /tmp.
  static std::string default_base();

 private:
  std::string path_;
  UniqueFd lock_;
};

/// Removes the folders of this user whose owners were killed before they could. A folder is left alone while its owner
/// lives, and without a socket in its first ten minutes: its owner may be about to lock it.
void sweep_dead_folders(const std::string& base) noexcept;

}  // namespace tendril::rpc::detail

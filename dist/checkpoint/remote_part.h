#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tendril/dist/checkpoint/detail/part_file.h"
#include "tendril/dist/nn/remote_module.h"
#include "tendril/dist/optimizer.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::dist {

/// A part of a checkpoint that lives on other workers, members of the process group or not: each of its owners writes
/// a file of its own and reads its share itself, so that no element of it travels. The owners see the folder under the
/// same name as the members. The part refers to the optimizer, and holds the module.
class RemotePart {
 public:
  template <class M>
  RemotePart(std::string name, const RemoteModule<M>& module)
      : name_(std::move(name)),
        files_(1),
        write_([module](const detail::PartFile& first) { module.write_file(first); }),
        read_([module](const detail::PartFile& file, bool check_only) { module.read_file(file, check_only); }) {}
  template <class O>
  RemotePart(std::string name, DistributedOptimizer<O>& optimizer)
      : name_(std::move(name)),
        files_(optimizer.owners().size()),
        write_([&optimizer](const detail::PartFile& first) { optimizer.write_files(first); }),
        read_([&optimizer](const detail::PartFile& file, bool check_only) { optimizer.read_files(file, check_only); }) {
  }

  /// Under which its entries are.
  const std::string& name() const noexcept { return name_; }
  /// How many owners, each with a file.
  std::size_t files() const noexcept { return files_; }

  /// Has the owners write their files, of which this is the first; returns when all have. Throws what the owners threw.
  void write(const detail::PartFile& first) const { write_(first); }
  /// Has the owners load what is theirs, or only ask whether it fits.
  void read(const detail::PartFile& file, bool check_only) const { read_(file, check_only); }

 private:
  std::string name_;
  std::size_t files_;
  std::function<void(const detail::PartFile&)> write_;
  std::function<void(const detail::PartFile&, bool)> read_;
};

/// As WorkerParts has them.
using RemoteParts = std::vector<RemotePart>;

}  // namespace tendril::dist

TENDRIL_API_END

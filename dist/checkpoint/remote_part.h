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

/// A part of a checkpoint that other workers own, whether or not they are members of the process group. Each owner
/// writes a separate file and reads its share from the files, so that no elements are sent. The owners must see the
/// folder under the same path as the members. Refers to the optimizer, which must outlive it; keeps the module alive.
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

  /// The name of the part, which its entries begin with.
  const std::string& name() const noexcept { return name_; }
  /// Number of owners, each of which writes one file.
  std::size_t files() const noexcept { return files_; }

  /// Makes the owners write their files, of which `first` is the first; returns when all have. Throws the owners'
  /// errors.
  void write(const detail::PartFile& first) const { write_(first); }
  /// Makes the owners load their shares or, if `check_only`, only check that these fit.
  void read(const detail::PartFile& file, bool check_only) const { read_(file, check_only); }

 private:
  std::string name_;
  std::size_t files_;
  std::function<void(const detail::PartFile&)> write_;
  std::function<void(const detail::PartFile&, bool)> read_;
};

/// The type of WorkerParts::remote.
using RemoteParts = std::vector<RemotePart>;

}  // namespace tendril::dist

TENDRIL_API_END

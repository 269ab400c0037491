#pragma once

#include <cstdint>
#include <string>

#include "tendril/tensor/export.h"
#include "tendril/tensor/state_dict.h"

TENDRIL_API_BEGIN

/// What the owner of a part of a checkpoint is asked for that it writes and reads itself.
namespace tendril::dist::detail {

/// Which part, in which file of which save (Shard).
struct PartFile {
  std::string folder, part;
  uint64_t save = 0;
  int rank = 0, workers = 1, members = 1;

  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& folder& part& save& rank& workers& members;
  }
};

/// Writes and syncs the file: these entries, under the part's name.
void write_part(const PartFile& file, const StateDict& entries);
/// The part's entries from all files of the checkpoint, on mapped memory. Throws Error if the folder's checkpoint is
/// not of this save.
StateDict read_part(const PartFile& file);

}  // namespace tendril::dist::detail

TENDRIL_API_END

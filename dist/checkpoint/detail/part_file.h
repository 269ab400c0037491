#pragma once

#include <cstdint>
#include <string>

#include "tendril/tensor/export.h"
#include "tendril/tensor/state_dict.h"

TENDRIL_API_BEGIN

/// Files of checkpoint parts that are written and read by the owner of the part.
namespace tendril::dist::detail {

/// Identifies a part, and its file in a save (Shard).
struct PartFile {
  std::string folder, part;
  uint64_t save = 0;
  int rank = 0, workers = 1, members = 1;

  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& folder& part& save& rank& workers& members;
  }
};

/// Writes the entries to the file, under the part's name, and syncs it.
void write_part(const PartFile& file, const StateDict& entries);
/// Returns the part's entries from all files of the checkpoint, in mapped memory. Throws Error if the folder's
/// checkpoint is not of this save.
StateDict read_part(const PartFile& file);

}  // namespace tendril::dist::detail

TENDRIL_API_END

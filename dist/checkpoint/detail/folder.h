#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "tendril/tensor/state_dict.h"

/// The names and contents of a checkpoint's files. Nothing here uses the network.
///
/// The name of each file contains the number of its save: "checkpoint-SAVE-RANK-of-WORKERS.safetensors". In addition to
/// a worker's tensors, each file holds two numbers, "shard.RANK.save" and "shard.RANK.workers", from which readers know
/// that all files are present and belong to one save. If there are remote parts, whose owners' files follow those of
/// the members, each file also holds "shard.RANK.members". The index, "checkpoint.index.json", has the format of a
/// safetensors index of several files. A save does not exist until its index is renamed into place.
namespace tendril::dist::detail {

/// Identifies a file of a save.
struct Shard {
  uint64_t save = 0;
  int rank = 0, workers = 1;
  int members = workers;  ///< of the process group that saved; they have the first ranks

  std::string file() const;
  std::string marks() const;  ///< "shard.RANK", the prefix of these numbers
  std::string each() const;   ///< "each.RANK", the prefix of the rank's `each` parts
};

/// Writes and syncs one file.
void write_shard(const std::filesystem::path& folder, const Shard& shard, const StateDict& entries);
/// Makes the save the folder's checkpoint, by writing the index of its files. Throws Error for a file that this worker
/// does not see or that belongs to another save.
void commit_shards(const std::filesystem::path& folder, uint64_t save, int workers);
/// Removes the files of all other saves, complete or not, and temporary files of indices. Files that cannot be removed
/// stay.
void remove_stale_shards(const std::filesystem::path& folder, uint64_t save);

/// The checkpoint that a folder's index refers to.
struct ReadCheckpoint {
  StateDict entries;  ///< of all workers, in mapped memory
  uint64_t save = 0;
  int workers = 0, members = 0;
};
/// Throws Error for a folder without a checkpoint, and for files that are missing, damaged or of another save.
ReadCheckpoint read_checkpoint(const std::filesystem::path& folder);
std::filesystem::path index_of(const std::filesystem::path& folder);

}  // namespace tendril::dist::detail

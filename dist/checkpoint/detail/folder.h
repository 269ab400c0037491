#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "tendril/tensor/state_dict.h"

/// The files of a checkpoint: what they are called and hold, without any network.
///
/// A save has a number, which is in the name of each of its files, "checkpoint-SAVE-RANK-of-WORKERS.safetensors".
/// Beside a worker's tensors each file has two numbers, "shard.RANK.save" and "shard.RANK.workers", by which readers
/// know that all files are there and of one save; with remote parts, whose owners' files come after the members', also
/// "shard.RANK.members". The index, "checkpoint.index.json", is that of a safetensors in
/// several files; until it is renamed into its place a save does not exist.
namespace tendril::dist::detail {

/// Which file of which save.
struct Shard {
  uint64_t save = 0;
  int rank = 0, workers = 1;
  int members = workers;  ///< of the process group that saved; the first ranks

  std::string file() const;
  std::string marks() const;  ///< "shard.RANK", under which the two numbers are
  std::string each() const;   ///< "each.RANK", under which entries are that each worker has
};

/// Writes and syncs one file.
void write_shard(const std::filesystem::path& folder, const Shard& shard, const StateDict& entries);
/// Makes the save of all these files the folder's checkpoint. Throws Error for one that this worker does not see or
/// that is of another save.
void commit_shards(const std::filesystem::path& folder, uint64_t save, int workers);
/// Removes the files of all other saves, ended or not, and what is left of indices that were not. One that cannot be
/// removed stays.
void remove_stale_shards(const std::filesystem::path& folder, uint64_t save);

/// What a folder's index leads to.
struct ReadCheckpoint {
  StateDict entries;  ///< of all workers, on mapped memory
  uint64_t save = 0;
  int workers = 0, members = 0;
};
/// Throws Error for a folder without a checkpoint, and for files that are missing, of another save or damaged.
ReadCheckpoint read_checkpoint(const std::filesystem::path& folder);
std::filesystem::path index_of(const std::filesystem::path& folder);

}  // namespace tendril::dist::detail

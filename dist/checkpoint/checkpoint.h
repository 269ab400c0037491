#pragma once

#include <chrono>
#include <filesystem>

#include "tendril/dist/checkpoint/remote_part.h"
#include "tendril/dist/collectives/process_group.h"
#include "tendril/nn/checkpoint.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

/// Checkpoints of a training run on several workers: one safetensors file per worker, and an index of them.
///
///     dist::WorkerParts parts{.shared = {{"model", model}, {"optimizer", sgd}, {"step", step}},
///                             .each = {{"generator", default_generator()}}};
///     if (dist::has_checkpoint(folder)) dist::load_checkpoint(group, folder, parts);
///     while (step < steps) {
///       ...                                         // the same at all workers, on different parts of a batch
///       dist::save_checkpoint(group, folder, parts);
///     }
///
/// docs/files.md describes the contents of the folder.
namespace tendril::dist {

/// The parts that one worker saves and loads: modules, optimizers, generators, numbers (nn::CheckpointPart). Refers to
/// them. Parts that another worker owns (RemoteModule, DistributedOptimizer) may be in any list. Their state is sent
/// through this worker, unless they are in `remote`.
struct WorkerParts {
  /// The same on all workers, like model and optimizer in data-parallel training. The first worker's parts are saved;
  /// all workers load them.
  nn::CheckpointParts shared = {};
  /// Parts of this worker only, such as a pipeline stage, under names that no other worker uses. When loading, any
  /// worker may list any of the names.
  nn::CheckpointParts own = {};
  /// Parts that each worker has under the same names, such as generators and positions in the data. Rank r loads the
  /// parts that rank r saved. For another number of workers than saved, see CheckpointOptions::each_may_stay.
  nn::CheckpointParts each = {};
  /// Parts that other workers own, including workers outside the group, under names that no other part has. The worker
  /// that lists a part and its number of owners may differ between save and load.
  RemoteParts remote = {};
};

struct CheckpointOptions {
  /// For each time that the workers wait for one another or for an owner of remote parts; allow for the slowest disk.
  /// 0: no limit while the workers live.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  /// For loads; must be the same on all workers. If another number of workers saved, the `each` parts stay unchanged
  /// and all others are loaded; without this option, that is an error.
  bool each_may_stay = false;
};

/// Collective. Writes the current state of all workers' parts into `folder`. All workers must see the folder under this
/// path (one machine, or a shared file system), and no other group may save in it. Atomic as a whole: if a worker is
/// killed at any moment, or a disk is full, the previous checkpoint remains. On return, the new checkpoint is on disk,
/// and the files of older checkpoints and of incomplete saves are removed. The parts must not change meanwhile. Throws
/// on all workers: Error, before anything is written, for names that conflict (the reserved names "each" and "shard", a
/// name used twice, `shared` or `each` names that differ between workers); Error that names a worker that cannot write;
/// PeerLostError and TimeoutError as collectives do, after which the checkpoint is the old or the new one.
void save_checkpoint(ProcessGroup& group, const std::filesystem::path& folder, const WorkerParts& parts,
                     const CheckpointOptions& options = {});

/// Collective. Loads every part from the state that was saved under its name, by any worker. The number of workers may
/// differ from that of the save, unless there are `each` parts and not `each_may_stay`. Throws on all workers an Error
/// that lists all problems by worker: no checkpoint, files of different saves, a missing file, parts of the checkpoint
/// that no worker lists or the reverse, `each` parts of another number of workers, errors of a part's load_state_dict.
/// Nothing has changed on any worker then. If loading itself fails, for example because an owner of remote parts is
/// lost, all workers throw, and parts that were loaded by then keep the new state. Errors of collectives as in
/// save_checkpoint.
void load_checkpoint(ProcessGroup& group, const std::filesystem::path& folder, const WorkerParts& parts,
                     const CheckpointOptions& options = {});

/// Returns whether a save into the folder has ever completed. Thread-safe. All workers get the same answer only if no
/// save runs meanwhile.
bool has_checkpoint(const std::filesystem::path& folder);

}  // namespace tendril::dist

TENDRIL_API_END

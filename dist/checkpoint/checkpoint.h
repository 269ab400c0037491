#pragma once

#include <chrono>
#include <filesystem>

#include "tendril/dist/checkpoint/remote_part.h"
#include "tendril/dist/collectives/process_group.h"
#include "tendril/nn/checkpoint.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

/// All that a training run on several workers goes on from: one safetensors file a worker, and an index of them.
///
///     dist::WorkerParts parts{.shared = {{"model", model}, {"optimizer", sgd}, {"step", step}},
///                             .each = {{"generator", default_generator()}}};
///     if (dist::has_checkpoint(folder)) dist::load_checkpoint(group, folder, parts);
///     while (step < steps) {
///       ...                                         // the same at all workers, on different parts of a batch
///       dist::save_checkpoint(group, folder, parts);
///     }
///
/// docs/files.md says what is in the folder.
namespace tendril::dist {

/// What one worker has to save and to load: modules, optimizers, generators, numbers (nn::CheckpointPart). It refers to
/// them. A part of another worker's (a RemoteModule, a DistributedOptimizer) may stand among them: its state then
/// travels through this worker; among the `remote` it does not.
struct WorkerParts {
  /// The same at all workers, as data-parallel training keeps model and optimizer: the first worker's are saved, all
  /// load them.
  nn::CheckpointParts shared = {};
  /// Of this worker alone, under names that no other has: a stage of a pipeline. Whoever asks for a name loads it.
  nn::CheckpointParts own = {};
  /// Of each worker, under the same names: generators, places in the data. They load for as many workers as saved, and
  /// rank r gets what rank r saved; for others CheckpointOptions::each_may_stay says what happens.
  nn::CheckpointParts each = {};
  /// What other workers own, who may be no members, under names that no other has. Which worker names it, and on how
  /// many owners it is, may differ between save and load.
  RemoteParts remote = {};
};

struct CheckpointOptions {
  /// For each of the times that the workers wait for one another or for an owner of remote parts: the slowest disk's.
  /// 0: as long as the workers live.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  /// Of a load, the same at all workers: where another number of workers saved, the parts `each` stay as they are, and
  /// all others load. Without it that is an error.
  bool each_may_stay = false;
};

/// Collective. Writes all workers' parts, as they are now, into `folder`, which all of them see under this name (one
/// machine, or a shared file system) and in which nobody else saves. Atomic as a whole: a worker that is killed at any
/// moment, or a disk that is full, leaves the checkpoint that was there before; on return the new one is on the disk,
/// and files of older ones and of saves that did not end are gone. Nobody may change the parts meanwhile.
/// Throws, at all workers, Error for names of parts that do not fit each other ("each" and "shard", which are taken; a
/// name twice; `shared` or `each` that differ), before anything is written, and for a worker that cannot write, which
/// it names; PeerLostError, TimeoutError as collectives do, when the checkpoint is the old or the new one.
void save_checkpoint(ProcessGroup& group, const std::filesystem::path& folder, const WorkerParts& parts,
                     const CheckpointOptions& options = {});

/// Collective. Gives every part what was saved under its name, by whichever worker. The number of workers may be
/// another one than at the save unless there are parts `each` that may not stay. Throws Error at all workers, for all
/// that does not fit anywhere, by worker: no checkpoint, files of different saves, a file that is missing, parts that
/// the checkpoint has and nobody asks for, or the other way round, `each` of another number of workers, what a part's
/// load_state_dict says. Nothing has changed at any worker then. Where loading itself fails, an owner of remote parts
/// is lost say, all workers throw, and what had been loaded by then stays. Errors of the collectives as in
/// save_checkpoint.
void load_checkpoint(ProcessGroup& group, const std::filesystem::path& folder, const WorkerParts& parts,
                     const CheckpointOptions& options = {});

/// Whether a save into the folder has ever ended. Any thread; for all workers to come to the same answer nobody saves
/// meanwhile.
bool has_checkpoint(const std::filesystem::path& folder);

}  // namespace tendril::dist

TENDRIL_API_END

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

/// Who does what when in a pipeline of stages through which a batch goes in micro-batches: data, which is checked and
/// simulated without a worker.
///
/// A model is cut into stages 0, 1, ...; stage s lives on worker s % workers. Forward of a micro-batch at a stage needs
/// its forward at the stage before; backward needs its own forward, and its backward at the stage after.
namespace tendril::dist::pipeline {

/// What is done with a micro-batch at a stage.
enum class Work : uint8_t {
  forward,   ///< computes a micro-batch, and keeps what its backward reads
  backward,  ///< frees what the forward kept
};

/// One thing that a worker does.
struct Action {
  Work work = Work::forward;  ///< forward or backward
  int stage = 0;              ///< its number
  int micro_batch = 0;        ///< its number

  friend bool operator==(const Action&, const Action&) = default;
};

/// For each worker what it does, in this order and one after the other. A value.
struct Schedule {
  std::string name = {};                     ///< "gpipe", "1f1b", ...
  int workers = 0;                           ///< numbered from 0
  int stages = 0;                            ///< a multiple of workers
  int micro_batches = 0;                     ///< of a batch
  std::vector<std::vector<Action>> of = {};  ///< by worker

  int worker_of(int stage) const noexcept { return stage % workers; }  ///< where a stage lives
};

/// All forwards, then all backwards. (Huang et al., "GPipe", 2019.) Each worker keeps every micro-batch at its peak.
/// These throw Error for fewer than one worker or micro-batch.
Schedule gpipe(int workers, int micro_batches);
/// Each worker goes forward until the first backward can come, then alternates: as fast as gpipe, and worker w keeps at
/// most workers - w micro-batches. (PipeDream-Flush: Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN
/// Training", 2021.)
Schedule one_forward_one_backward(int workers, int micro_batches);
/// The same with several stages a worker: the pipeline fills with smaller pieces, so that its idle time
/// is 1/stages_per_worker of the other's, for more messages and memory. (Narayanan et al., "Efficient Large-Scale
/// Language Model Training on GPU Clusters Using Megatron-LM", 2021.) Throws Error unless micro_batches is a multiple
/// of workers.
Schedule interleaved(int workers, int micro_batches, int stages_per_worker);

/// What the stages' work takes, in any unit, all stages alike; what is sent arrives at once.
struct Costs {
  double forward = 1;   ///< of a micro-batch at a stage
  double backward = 2;  ///< likewise
};

/// One action and its time.
struct Span {
  Action action;              ///< what was done
  double begin = 0, end = 0;  ///< in the costs' unit
};

/// What a schedule comes to.
struct Timeline {
  double duration = 0;                        ///< until the last action ends
  std::vector<double> busy = {};              ///< by worker
  std::vector<int> peak = {};                 ///< by worker: micro-batches (of all its stages) that it keeps at once
  std::vector<std::vector<Span>> spans = {};  ///< by worker, in order

  double idle_share() const;  ///< of all workers' time: the bubble
};

/// Computes when each action of a schedule runs. Throws Error that names worker and action for one that is not there or
/// twice, at another worker's stage, out of range, and for a schedule in which workers wait for each other for ever:
/// what each waits for.
Timeline simulate(const Schedule& schedule, const Costs& costs = {});

/// A line a worker: "w0 | F0 F1 B0 ...", a column a unit of the cheapest action's time; for lessons and logs.
std::string draw(const Schedule& schedule, const Costs& costs = {});

}  // namespace tendril::dist::pipeline

TENDRIL_API_END

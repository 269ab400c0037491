#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

/// Schedules of pipelines: the order in which each worker processes the micro-batches of a batch. A schedule is plain
/// data, which can be checked and simulated without workers.
///
/// A model is split into stages 0, 1, ...; stage s lives on worker s % workers. The forward of a micro-batch at a stage
/// needs its forward at the previous stage. Its backward needs its forward at the same stage and its backward at the
/// next stage.
namespace tendril::dist::pipeline {

/// The work on a micro-batch at a stage.
enum class Work : uint8_t {
  forward,   ///< computes the output, and keeps the tensors that backward reads
  backward,  ///< computes the gradients, and frees the tensors that forward kept
};

/// One action of a worker.
struct Action {
  Work work = Work::forward;  ///< forward or backward
  int stage = 0;              ///< number of the stage
  int micro_batch = 0;        ///< number of the micro-batch

  friend bool operator==(const Action&, const Action&) = default;
};

/// The actions of each worker, in the order in which it runs them one after the other.
struct Schedule {
  std::string name = {};                     ///< "gpipe", "one_forward_one_backward", ...
  int workers = 0;                           ///< numbered from 0
  int stages = 0;                            ///< a multiple of workers
  int micro_batches = 0;                     ///< number of micro-batches of a batch
  std::vector<std::vector<Action>> of = {};  ///< by worker

  int worker_of(int stage) const noexcept { return stage % workers; }  ///< the worker of a stage
};

/// All forwards, then all backwards. (Huang et al., "GPipe", 2019.) At its peak, each worker keeps all micro-batches.
/// This function and those below throw Error for fewer than one worker or micro-batch.
Schedule gpipe(int workers, int micro_batches);
/// Each worker runs forwards until its first backward is ready, then alternates. As fast as gpipe, but worker w keeps
/// at most workers - w micro-batches. (PipeDream-Flush: Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN
/// Training", 2021.)
Schedule one_forward_one_backward(int workers, int micro_batches);
/// one_forward_one_backward with several stages per worker. The pipeline fills in smaller steps, so its idle time is
/// 1/stages_per_worker as long, at the price of more messages and memory. (Narayanan et al., "Efficient Large-Scale
/// Language Model Training on GPU Clusters Using Megatron-LM", 2021.) Throws Error unless micro_batches is a multiple
/// of workers.
Schedule interleaved(int workers, int micro_batches, int stages_per_worker);

/// Times of forward and backward, in any unit, equal for all stages. Messages take no time.
struct Costs {
  double forward = 1;   ///< of a micro-batch at a stage
  double backward = 2;  ///< of a micro-batch at a stage
};

/// An action, and when it runs.
struct Span {
  Action action;              ///< the action
  double begin = 0, end = 0;  ///< in the unit of the costs
};

/// The timing of a schedule.
struct Timeline {
  double duration = 0;            ///< until the last action ends
  std::vector<double> busy = {};  ///< by worker
  std::vector<int> peak = {};     ///< by worker: most micro-batches, over all its stages, that it keeps at once
  std::vector<std::vector<Span>> spans = {};  ///< by worker, in order

  double idle_share() const;  ///< share of all workers' time: the bubble
};

/// Computes when each action of a schedule runs. Throws Error that names the worker and the action if an action is
/// missing, duplicated, out of range, or on a worker without its stage. If the schedule deadlocks, the Error lists
/// what each worker waits for.
Timeline simulate(const Schedule& schedule, const Costs& costs = {});

/// Draws a schedule, for lessons and logs: one line per worker, "w0 | F0 F1 B0 ...", and one column per unit of the
/// cheapest action's time.
std::string draw(const Schedule& schedule, const Costs& costs = {});

}  // namespace tendril::dist::pipeline

TENDRIL_API_END

#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tendril/autograd/checkpoint.h"
#include "tendril/dist/autograd/context.h"
#include "tendril/dist/optimizer.h"
#include "tendril/dist/pipeline/schedule.h"
#include "tendril/nn/module.h"
#include "tendril/rpc/call.h"
#include "tendril/rpc/default_agent.h"
#include "tendril/rpc/rref.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

/// Trains a model that is split into stages on several workers, according to a schedule.
///
///     std::vector<rpc::RRef<Stage>> stages{make_stage<First>("w1", 64), make_loss_stage<Last, &mse>("w2", 10)};
///     Pipeline pipeline(stages, one_forward_one_backward(2, 8));
///     DistributedOptimizer<optim::SGD> opt(pipeline.parameter_rrefs(), {.lr = 0.05});
///     for (...) {
///       autograd::Context context;
///       double loss = pipeline.train(context, inputs, targets);
///       opt.step(context);
///     }
namespace tendril::dist::pipeline {

namespace detail {
struct StageWork;
struct StageResult;
}  // namespace detail

/// Identifies a batch. The driver is the worker whose Pipeline runs the batch; it numbers its batches in order.
struct BatchId {
  rpc::WorkerId driver = -1;  ///< rank of the worker whose Pipeline runs the batch
  uint64_t generation = 0;    ///< the driver's (Agent::generation), which rises when the driver is restarted
  uint64_t number = 0;        ///< counts the driver's batches

  /// Batches of one driver compare in the order in which they were made.
  auto operator<=>(const BatchId&) const = default;
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& driver& generation& number;
  }
};

/// One stage, on its worker: a module from Tensor to Tensor, for the last stage also a loss, and the tensors that have
/// arrived and not been used yet. Made by make_stage. Thread-safe, but only one batch at a time uses it.
class Stage {
 public:
  using Forward = std::function<Tensor(const Tensor&)>;                            ///< the computation of a stage
  using Loss = std::function<Tensor(const Tensor& output, const Tensor& target)>;  ///< of the last stage
  /// Returns the weight of a micro-batch's loss in the loss of the batch. If empty, the weight is the number of rows.
  using Weight = std::function<double(const Tensor& target)>;

  Stage(std::shared_ptr<nn::Module> module, Forward forward, Loss loss, Weight weight = {});
  ~Stage();
  const std::shared_ptr<nn::Module>& module() const noexcept { return module_; }  ///< the user's module

  /// Delivers an input, a target or a gradient of the output for a micro-batch of a batch. Called by the neighbouring
  /// stages and by the driver.
  void put(const BatchId& batch, uint8_t what, int micro_batch, const Tensor& tensor);
  /// Cancels `batch`: everything that waits for its tensors fails with an error.
  void cancel(const BatchId& batch, const std::string& why);

 private:
  friend detail::StageResult run_stages(const detail::StageWork& work);
  struct State;

  const std::shared_ptr<nn::Module> module_;
  const Forward forward_;
  const Loss loss_;
  const Weight weight_;
  const std::unique_ptr<State> state_;
};

namespace detail {
template <class M, class... Args>
std::shared_ptr<Stage> stage_of(Args... arguments) {
  auto module = std::make_shared<M>(std::move(arguments)...);
  return std::make_shared<Stage>(
      module, [m = module.get()](const Tensor& x) { return m->forward(x); }, Stage::Loss());
}
template <class M, Tensor (*loss)(const Tensor&, const Tensor&), double (*weight)(const Tensor&), class... Args>
std::shared_ptr<Stage> loss_stage_of(Args... arguments) {
  auto module = std::make_shared<M>(std::move(arguments)...);
  return std::make_shared<Stage>(
      module, [m = module.get()](const Tensor& x) { return m->forward(x); }, loss, weight);
}
}  // namespace detail

/// Makes a stage whose module is an M, constructed on worker `to` from copies of the arguments as by rpc::remote.
template <std::derived_from<nn::Module> M, class... Args>
rpc::RRef<Stage> make_stage(rpc::Agent& agent, const rpc::Destination& to, Args&&... arguments) {
  return rpc::remote<&detail::stage_of<M, std::decay_t<Args>...>>(agent, to, std::forward<Args>(arguments)...);
}
/// The same, with the default agent.
template <std::derived_from<nn::Module> M, class... Args>
rpc::RRef<Stage> make_stage(const rpc::Destination& to, Args&&... arguments) {
  return make_stage<M>(*rpc::default_agent(), to, std::forward<Args>(arguments)...);
}
/// Makes the last stage. `loss` returns the mean loss of a micro-batch, one number, from output and targets. If not all
/// targets count alike, `weight` returns the sum of the weights of a micro-batch's targets, so that the losses and
/// gradients of the micro-batches add up to those of the whole batch. If classes of -100 are ignored, it returns
/// `target.ne(-100).sum().item<double>()`. It is called once for each micro-batch, on the stage's worker.
template <std::derived_from<nn::Module> M, Tensor (*loss)(const Tensor&, const Tensor&),
          double (*weight)(const Tensor&) = nullptr, class... Args>
rpc::RRef<Stage> make_loss_stage(rpc::Agent& agent, const rpc::Destination& to, Args&&... arguments) {
  return rpc::remote<&detail::loss_stage_of<M, loss, weight, std::decay_t<Args>...>>(agent, to,
                                                                                     std::forward<Args>(arguments)...);
}
/// The same, with the default agent.
template <std::derived_from<nn::Module> M, Tensor (*loss)(const Tensor&, const Tensor&),
          double (*weight)(const Tensor&) = nullptr, class... Args>
rpc::RRef<Stage> make_loss_stage(const rpc::Destination& to, Args&&... arguments) {
  return make_loss_stage<M, loss, weight>(*rpc::default_agent(), to, std::forward<Args>(arguments)...);
}

struct PipelineOptions {
  bool checkpoint = false;  ///< keep only each stage's input, and recompute the rest in backward
  std::chrono::milliseconds timeout = std::chrono::minutes(10);  ///< per batch; 0: no limit while the workers live
};

/// How a stage spent the time of a batch, in seconds. The times of all stages of a worker, including `idle`, add up to
/// the duration of the batch.
struct StageTime {
  int stage = 0;                     ///< number of the stage
  std::string worker = {};           ///< name of its worker
  double forward = 0, backward = 0;  ///< busy; on a CUDA device, the time of the launches
  double receiving = 0;              ///< waiting for tensors from its neighbours
  double sending = 0;                ///< waiting until it can send, and for its last sends
  double idle = 0;  ///< the rest of the worker's time; in the entry of the worker's first stage, 0 in others

  double busy() const noexcept { return forward + backward; }  ///< the sum of both
};

/// The times of a batch.
struct Report {
  double duration = 0;                 ///< of `train`, in seconds on the calling worker
  int workers = 0;                     ///< number of workers that have stages
  std::vector<StageTime> stages = {};  ///< by stage
  /// The idle share that `simulate` computes for the schedule if all stages take the mean of the measured times and
  /// messages take no time.
  double ideal_idle_share = 0;

  double idle_share() const noexcept;  ///< share of all workers' time in which they were not busy
  std::string text() const;            ///< one line per stage, and the two idle shares
};
/// Prints text().
std::ostream& operator<<(std::ostream& out, const Report& report);

/// Runs batches through stages. Only one thread at a time may use it.
class Pipeline {
 public:
  /// Stage s must live on the worker of stage s % schedule.workers. Throws Error for a schedule that simulate rejects,
  /// and for stages that do not match it.
  Pipeline(rpc::Agent& agent, std::vector<rpc::RRef<Stage>> stages, Schedule schedule,
           const PipelineOptions& options = {});
  /// The same, with the default agent.
  Pipeline(std::vector<rpc::RRef<Stage>> stages, Schedule schedule, const PipelineOptions& options = {})
      : Pipeline(*rpc::default_agent(), std::move(stages), std::move(schedule), options) {}

  /// Runs forward and backward of a batch. The batch is split along dim 0 into the schedule's number of micro-batches,
  /// whose sizes differ by at most one, or into micro-batches of the given `sizes`, which must add up to the batch.
  /// Adds the gradients of the mean loss to the context, on each stage's worker; the first stages may be frozen.
  /// Returns the loss: the mean of the micro-batches' losses, weighted by their sizes or by the weight function (NaN if
  /// all weights are 0). Throws Error, before anything is sent, for a batch smaller than the number of micro-batches,
  /// for `sizes` that do not fit, and if the numbers of inputs and targets differ. Throws rpc::RemoteError,
  /// PeerLostError or TimeoutError that names the worker that failed; all other workers have then stopped working on
  /// the batch, and the next batch may begin.
  double train(const autograd::Context& context, const Tensor& inputs, const Tensor& targets,
               const std::vector<int64_t>& sizes = {});
  const Report& report() const noexcept { return report_; }  ///< of the last successful batch
  /// Returns references to the parameters of all stages, in the order of the stages.
  std::vector<rpc::RRef<Tensor>> parameter_rrefs() const;

 private:
  const std::shared_ptr<rpc::Agent> agent_;
  const std::vector<rpc::RRef<Stage>> stages_;
  const Schedule schedule_;
  const PipelineOptions options_;
  Report report_;
};

}  // namespace tendril::dist::pipeline

TENDRIL_API_END

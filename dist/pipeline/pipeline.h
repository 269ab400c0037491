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

/// Training a model that is cut into stages on several workers, by a schedule.
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

/// One stage, where it lives: a module from Tensor to Tensor and, of the last, a loss; with what has come for it and
/// waits its turn. Made by make_stage. Thread-safe; a batch at a time uses it.
class Stage {
 public:
  using Forward = std::function<Tensor(const Tensor&)>;                            ///< what a stage computes
  using Loss = std::function<Tensor(const Tensor& output, const Tensor& target)>;  ///< of the last stage
  /// The weight of a micro-batch's loss in the batch's, from its targets. Empty: the number of rows.
  using Weight = std::function<double(const Tensor& target)>;

  Stage(std::shared_ptr<nn::Module> module, Forward forward, Loss loss, Weight weight = {});
  ~Stage();
  const std::shared_ptr<nn::Module>& module() const noexcept { return module_; }  ///< the user's

  /// What comes for a batch: an input (or a target, or a gradient of the output) of a micro-batch. Called by the
  /// neighbours.
  void put(const BatchId& batch, uint8_t what, int micro_batch, const Tensor& tensor);
  /// Ends what waits for `batch`, with an error.
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

/// Makes an M on worker `to` from copies of the arguments, as rpc::remote does: a stage.
template <std::derived_from<nn::Module> M, class... Args>
rpc::RRef<Stage> make_stage(rpc::Agent& agent, const rpc::Destination& to, Args&&... arguments) {
  return rpc::remote<&detail::stage_of<M, std::decay_t<Args>...>>(agent, to, std::forward<Args>(arguments)...);
}
/// ... the same, by the default agent.
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
/// ... the same, by the default agent.
template <std::derived_from<nn::Module> M, Tensor (*loss)(const Tensor&, const Tensor&),
          double (*weight)(const Tensor&) = nullptr, class... Args>
rpc::RRef<Stage> make_loss_stage(const rpc::Destination& to, Args&&... arguments) {
  return make_loss_stage<M, loss, weight>(*rpc::default_agent(), to, std::forward<Args>(arguments)...);
}

struct PipelineOptions {
  bool checkpoint = false;  ///< keep each stage's input only, and compute the rest again in backward
  std::chrono::milliseconds timeout = std::chrono::minutes(10);  ///< of a batch; 0: as long as the workers live
};

/// How a stage spent a batch, in seconds of its worker. The four and `idle` of all stages of a worker add up to the
/// batch's duration.
struct StageTime {
  int stage = 0;                     ///< its number
  std::string worker = {};           ///< where it lives
  double forward = 0, backward = 0;  ///< busy; on a CUDA device the launches
  double receiving = 0;              ///< waited for what its neighbours send
  double sending = 0;                ///< waited to get rid of what it sends
  double idle = 0;  ///< before its worker's first action and after the last; at the worker's first stage, 0 at others

  double busy() const noexcept { return forward + backward; }  ///< the sum of both
};

/// What became of a schedule.
struct Report {
  double duration = 0;                 ///< seconds, of `train` where it was called
  int workers = 0;                     ///< that have stages
  std::vector<StageTime> stages = {};  ///< by stage
  /// What `simulate` says of the schedule where all stages take the mean of what they took and messages take no time.
  double ideal_idle_share = 0;

  double idle_share() const noexcept;  ///< the part of all workers' time in which none of their stages was busy
  std::string text() const;            ///< a line a stage, and the two shares
};
/// Prints text().
std::ostream& operator<<(std::ostream& out, const Report& report);

/// Runs batches through stages. One thread at a time.
class Pipeline {
 public:
  /// Stage s must live on the worker of stage s % schedule.workers. Throws Error for a schedule that simulate refuses,
  /// and for stages that do not fit it.
  Pipeline(rpc::Agent& agent, std::vector<rpc::RRef<Stage>> stages, Schedule schedule,
           const PipelineOptions& options = {});
  /// Of the agent that rpc::init_rpc has made.
  Pipeline(std::vector<rpc::RRef<Stage>> stages, Schedule schedule, const PipelineOptions& options = {})
      : Pipeline(*rpc::default_agent(), std::move(stages), std::move(schedule), options) {}

  /// Forward and backward of a batch, cut along dim 0 in as many micro-batches as the schedule has (their sizes differ
  /// by one at most), or cut in micro-batches of these sizes, which add up to it. Gradients of the mean loss go to the
  /// context, on each stage's worker; the first stages may be frozen. Returns the loss: the mean of the micro-batches'
  /// losses by their sizes or, with a weight function, by their weights (NaN if nothing counts). Throws Error for a
  /// batch that is smaller than the number of micro-batches, for sizes that do not fit, and for targets that are not as
  /// many as inputs, before anything is sent; rpc::RemoteError, PeerLostError, TimeoutError naming the worker at which
  /// it failed, once all others have cancelled the batch; the next batch may begin.
  double train(const autograd::Context& context, const Tensor& inputs, const Tensor& targets,
               const std::vector<int64_t>& sizes = {});
  const Report& report() const noexcept { return report_; }  ///< of the last batch that went well
  /// Of all stages, in their order.
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

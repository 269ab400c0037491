#include "tendril/dist/pipeline/pipeline.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <iomanip>
#include <iterator>
#include <limits>
#include <locale>
#include <map>
#include <mutex>
#include <new>
#include <numeric>
#include <optional>
#include <set>
#include <sstream>
#include <stop_token>
#include <tuple>

#include "tendril/autograd/history.h"
#include "tendril/autograd/ops/join.h"
#include "tendril/dist/autograd/container.h"
#include "tendril/dist/detail/named_tensors.h"
#include "tendril/rpc/future_scope.h"
#include "tendril/rpc/system/mutex.h"
#include "tendril/tensor/detail/switched_variable.h"
#include "tendril/tensor/raw.h"

namespace tendril::dist::pipeline {

using rpc::Clock;

namespace {
enum What : uint8_t { kInput = 0, kTarget = 1, kGradient = 2 };

double seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }
}  // namespace

namespace detail {

/// One worker's share of a batch.
struct StageWork {
  autograd::ContextId context = 0;
  BatchId batch = {};
  bool checkpoint = false;
  std::vector<int32_t> actions = {};                // work, stage, micro-batch of each
  std::vector<int64_t> sizes = {};                  // of the micro-batches
  std::map<int32_t, rpc::RRef<Stage>> stages = {};  // this worker's stages and their neighbours

  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& context& batch& checkpoint& actions& sizes& stages;
  }
};

struct StageResult {
  double loss = 0;
  std::vector<double> seconds = {};  // of each of the worker's stages: forward, backward, receiving, sending

  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& loss& seconds;
  }
};

}  // namespace detail

/// Remote functions, which the driver calls on the workers of the stages.
detail::StageResult run_stages(const detail::StageWork& work);
std::vector<rpc::RRef<Tensor>> stage_parameters(const rpc::RRef<Stage>& stage);

struct Stage::State {
  using Place = std::tuple<BatchId, uint8_t, int>;  // batch, what, micro-batch

  /// Waits for the tensor of a place and returns it. Throws if the batch is cancelled or the deadline passes.
  Tensor take(const Place& place, Clock::time_point deadline, const std::stop_token& stop) {
    const std::stop_callback stopped(stop, [this] { change([] {}); });  // before `lock`, which `change` takes
    std::unique_lock lock(mutex);
    for (;;) {
      if (stop.stop_requested()) throw rpc::CancelledError("pipeline: the driver no longer waits for the batch");
      if (const auto why = cancelled_by(std::get<0>(place))) throw rpc::CancelledError("pipeline: " + *why);
      const auto found = came.find(place);
      if (found != came.end()) {
        Tensor tensor = found->second;
        came.erase(found);
        return tensor;
      }
      // Shared, because a cancelled batch may still wait here while the next one runs.
      if (!wake) wake = Ref<rpc::FutureState<void>>(new rpc::FutureState<void>(rpc::Executor::current()));
      const Ref<rpc::FutureState<void>> mine = wake;
      lock.unlock();
      if (!mine->wait_until(deadline)) throw rpc::TimeoutError("pipeline: a tensor for a stage did not arrive in time");
      lock.lock();
    }
  }
  template <class F>
  void change(F f) {
    Ref<rpc::FutureState<void>> woken;
    {
      const std::lock_guard lock(mutex);
      f();
      woken = std::move(wake);
    }
    if (woken) woken->try_set_value();
  }
  std::optional<std::string> cancelled_by(const BatchId& batch) const {
    const auto found = cancelled.find(batch);
    if (found != cancelled.end()) return found->second;
    if (batch == cancelled_without_memory) return "the batch was cancelled";
    return std::nullopt;
  }
  /// Forgets the driver's earlier batches, and all batches of the driver's earlier incarnations.
  void forget_before(const BatchId& batch) {
    const auto is_earlier = [&](const BatchId& one) { return one.driver == batch.driver && one < batch; };
    std::erase_if(came, [&](const auto& one) { return is_earlier(std::get<0>(one.first)); });
    std::erase_if(cancelled, [&](const auto& one) { return is_earlier(one.first); });
  }

  rpc::detail::Mutex mutex;
  std::map<Place, Tensor> came;
  std::map<BatchId, std::string> cancelled;
  BatchId cancelled_without_memory;  // the last batch whose reason could not be stored
  Ref<rpc::FutureState<void>> wake;
};

Stage::Stage(std::shared_ptr<nn::Module> module, Forward forward, Loss loss, Weight weight)
    : module_(std::move(module)),
      forward_(std::move(forward)),
      loss_(std::move(loss)),
      weight_(std::move(weight)),
      state_(std::make_unique<State>()) {}
Stage::~Stage() = default;

void Stage::put(const BatchId& batch, uint8_t what, int micro_batch, const Tensor& tensor) {
  state_->change([&] {
    if (!state_->cancelled_by(batch)) state_->came.insert_or_assign({batch, what, micro_batch}, tensor);
  });
}

void Stage::cancel(const BatchId& batch, const std::string& why) {
  state_->change([&] {
    state_->forget_before(batch);
    std::erase_if(state_->came, [&](const auto& one) { return std::get<0>(one.first) == batch; });
    try {
      state_->cancelled.insert_or_assign(batch, why);
    } catch (const std::bad_alloc&) {  // otherwise its stages would wait forever
      state_->cancelled_without_memory = batch;
    }
  });
}

detail::StageResult run_stages(const detail::StageWork& work) {
  const auto container = autograd::Container::current();
  const Clock::time_point deadline = rpc::CallContext::current().deadline;
  const std::stop_token stop = rpc::CallContext::current().stop;
  detail::StageResult result;
  enum : std::size_t { kForward, kBackward, kReceiving, kSending, kKinds };
  double* times = nullptr;  // of the stage that is running
  const auto take = [&](Stage& stage, What what, int micro_batch) {
    const auto before = Clock::now();
    Tensor tensor = stage.state_->take({work.batch, what, micro_batch}, deadline, stop);
    times[kReceiving] += seconds(Clock::now() - before);
    return tensor;
  };
  std::set<int> mine;
  for (std::size_t i = 0; i + 2 < work.actions.size(); i += 3) mine.insert(work.actions[i + 1]);
  for (const int number : mine) {
    Stage::State& state = *work.stages.at(number).local_value().state_;
    const std::lock_guard lock(state.mutex);
    state.forget_before({.driver = work.batch.driver, .generation = work.batch.generation});
  }
  // A tensor that cannot be delivered ends the batch here at once: otherwise its receiver would wait for it, and this
  // worker for the receiver's result.
  rpc::detail::Mutex mutex;
  std::string undelivered;
  const auto note = [&](int stage, const rpc::Future<void>& sending) {
    try {
      sending.wait();
    } catch (const std::exception& error) {
      std::string why;
      try {
        why = "the tensor for stage " + std::to_string(stage) + " did not arrive: " + error.what();
      } catch (const std::bad_alloc&) {
        why = "out of memory";
      }
      for (const int number : mine) work.stages.at(number).local_value().cancel(work.batch, why);
      const std::lock_guard lock(mutex);
      if (undelivered.empty()) undelivered = std::move(why);
    }
  };
  rpc::CallOptions put;
  if (deadline == Clock::time_point::max()) put.timeout = std::chrono::microseconds(0);
  rpc::FutureScope sent;
  const auto send = [&](int stage, What what, int micro_batch, const Tensor& tensor) {
    const dist::detail::Unrecorded scope;
    const auto before = Clock::now();
    sent.add(work.stages.at(stage)
                 .rpc_async<&Stage::put>(put, work.batch, static_cast<uint8_t>(what), micro_batch, tensor)
                 .then([&note, stage](const rpc::Future<void>& done) { note(stage, done); }));
    times[kSending] += seconds(Clock::now() - before);
  };
  // A frozen first stage is not trained: none of its parameters requires a gradient, and it has no predecessor.
  const auto is_trained = [](int number, const Stage& stage) {
    return number > 0 || std::ranges::any_of(stage.module()->parameters(), &Tensor::requires_grad);
  };
  std::vector<Tensor> targets;  // of all micro-batches, at the last stage
  std::vector<double> shares;   // the weight of each micro-batch in the loss
  // With a weight function, all targets must have arrived before the first loss.
  const auto find_shares = [&](Stage& stage) {
    targets.resize(work.sizes.size());
    for (std::size_t i = 0; i < work.sizes.size(); ++i) {
      if (stage.weight_) targets[i] = take(stage, kTarget, static_cast<int>(i));
      shares.push_back(stage.weight_ ? stage.weight_(targets[i]) : static_cast<double>(work.sizes[i]));
      TENDRIL_CHECK(shares.back() >= 0 && std::isfinite(shares.back()), "Pipeline: the weight of micro-batch ", i,
                    " is ", shares.back(), ", expected a finite number of 0 or more");
    }
    const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
    for (double& share : shares) share = sum > 0 ? share / sum : 0;
    if (sum == 0) result.loss = std::numeric_limits<double>::quiet_NaN();
  };
  // Tensors kept between forward and backward, by stage and micro-batch. They are not stored in the stage, because a
  // cancelled batch may still be in a forward there while the next one runs.
  struct Kept {
    Tensor input, output;
  };
  std::map<std::pair<int, int>, Kept> under_way;
  for (const int number : mine) {
    const bool last = !work.stages.contains(number + 1),
               has_loss = static_cast<bool>(work.stages.at(number).local_value().loss_);
    TENDRIL_CHECK(last == has_loss, "Pipeline: stage ", number, has_loss ? " has a loss" : " has no loss",
                  ", expected one at the last stage only (make_loss_stage)");
  }
  result.seconds.resize(kKinds * mine.size());
  for (std::size_t i = 0; i + 2 < work.actions.size(); i += 3) {
    const int number = work.actions[i + 1], micro_batch = work.actions[i + 2];
    Stage& stage = work.stages.at(number).local_value();
    times = result.seconds.data() + kKinds * static_cast<std::size_t>(std::distance(mine.begin(), mine.find(number)));
    const double waited = times[kReceiving] + times[kSending];
    const auto start = Clock::now();
    if (static_cast<Work>(work.actions[i]) == Work::forward) {
      Tensor input = take(stage, kInput, micro_batch).detach();
      if (number > 0 && is_floating(input.dtype())) input.requires_grad_();
      const auto f = [&stage](const Tensor& x) { return stage.forward_(x); };
      Tensor output = work.checkpoint && is_trained(number, stage) ? tendril::autograd::checkpoint(f, input) : f(input);
      TENDRIL_CHECK(output.defined(), "Pipeline: the output of stage ", number, " is undefined");
      if (stage.loss_) {
        if (shares.empty()) find_shares(stage);
        const auto place = static_cast<std::size_t>(micro_batch);
        const Tensor target = stage.weight_ ? std::exchange(targets.at(place), {}) : take(stage, kTarget, micro_batch);
        output = stage.loss_(output, target);
        TENDRIL_CHECK(output.defined(), "Pipeline: the loss of the last stage is undefined");
        TENDRIL_CHECK_AS(ShapeError, output.numel() == 1, "Pipeline: the loss of the last stage has shape ",
                         output.sizes(), ", expected one number");
        if (shares[place] > 0) result.loss += shares[place] * output.item<double>();
      } else {
        send(number + 1, kInput, micro_batch, output.detach());
      }
      under_way[{number, micro_batch}] = {input, output};
    } else {
      const auto node = under_way.extract({number, micro_batch});
      TENDRIL_CHECK_AS(rpc::MessageError, node, "pipeline: a backward of micro-batch ", micro_batch, " of stage ",
                       number, " without its forward");
      const Kept& kept = node.mapped();
      const bool trains = kept.output.requires_grad();
      TENDRIL_CHECK_AS(AutogradError, trains || (!stage.loss_ && !is_trained(number, stage)),
                       "Pipeline: the output of stage ", number,
                       " has no history: nothing in it requires a gradient, or it was detached");
      Tensor gradient;
      if (stage.loss_) {
        const double share = shares.at(static_cast<std::size_t>(micro_batch));
        if (share > 0) gradient = raw::full(kept.output.sizes(), share, kept.output.dtype(), kept.output.device());
      } else {
        gradient = take(stage, kGradient, micro_batch);
      }
      Tensor back;  // undefined if the output does not depend on the input
      if (trains && gradient.defined()) {
        back = container->backward_here(work.context, kept.output, gradient, number > 0 ? kept.input : Tensor());
      }
      if (number > 0) send(number - 1, kGradient, micro_batch, back);
    }
    times[static_cast<Work>(work.actions[i]) == Work::forward ? kForward : kBackward] +=
        seconds(Clock::now() - start) - (times[kReceiving] + times[kSending] - waited);
  }
  const auto before = Clock::now();
  sent.wait();
  if (!undelivered.empty()) throw rpc::RpcError("pipeline: " + undelivered);
  if (times != nullptr) times[kSending] += seconds(Clock::now() - before);
  return result;
}

namespace {
std::atomic<uint64_t> last_batch{0};
const auto last_batch_switched = tendril::detail::of_each_process([]() -> auto& { return last_batch; });

/// Returns the id of a new batch. A cancelled batch makes its stages forget the driver's batches with smaller numbers;
/// the cancellation may arrive after the driver's next batch has begun. Thread-safe.
BatchId next_batch(const rpc::Agent& agent) {
  return {.driver = agent.self().id, .generation = agent.generation(), .number = ++last_batch};
}

std::vector<rpc::RRef<Tensor>> parameters_of(const rpc::RRef<Stage>& stage) {
  const auto agent = rpc::detail::agent_of(*stage.state_pointer());
  return parameter_rrefs(*agent, *stage.local_value().module());
}
}  // namespace

std::vector<rpc::RRef<Tensor>> stage_parameters(const rpc::RRef<Stage>& stage) { return parameters_of(stage); }

Pipeline::Pipeline(rpc::Agent& agent, std::vector<rpc::RRef<Stage>> stages, Schedule schedule,
                   const PipelineOptions& options)
    : agent_(agent.share()), stages_(std::move(stages)), schedule_(std::move(schedule)), options_(options) {
  simulate(schedule_);
  TENDRIL_CHECK(stages_.size() == static_cast<std::size_t>(schedule_.stages), "Pipeline: got ", stages_.size(),
                " stages, the schedule '", schedule_.name, "' has ", schedule_.stages);
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    const auto& first = stages_[static_cast<std::size_t>(schedule_.worker_of(static_cast<int>(i)))];
    TENDRIL_CHECK(stages_[i].owner() == first.owner(), "Pipeline: stage ", i, " lives on worker '",
                  stages_[i].owner_name(), "', expected '", first.owner_name(), "', where stage ",
                  schedule_.worker_of(static_cast<int>(i)), " is");
  }
}

std::vector<rpc::RRef<Tensor>> Pipeline::parameter_rrefs() const {
  const dist::detail::Unrecorded scope;
  std::vector<rpc::RRef<Tensor>> all;
  for (const auto& stage : stages_) {
    for (auto& rref : rpc::rpc_sync<&stage_parameters>(*agent_, stage.owner(), stage)) all.push_back(std::move(rref));
  }
  return all;
}

double Pipeline::train(const autograd::Context& context, const Tensor& inputs, const Tensor& targets,
                       const std::vector<int64_t>& sizes) {
  const auto start = Clock::now();
  const int64_t batch = inputs.defined() && inputs.dim() > 0 ? inputs.size(0) : 0;
  const int64_t parts = schedule_.micro_batches;
  TENDRIL_CHECK(batch >= parts, "Pipeline::train: a batch of ", batch, " cannot be split into ", parts,
                " micro-batches");
  TENDRIL_CHECK(targets.defined() && targets.dim() > 0 && targets.size(0) == batch,
                "Pipeline::train: targets: expected the batch size of the inputs, ", batch);
  if (!sizes.empty()) {
    TENDRIL_CHECK(static_cast<int64_t>(sizes.size()) == parts, "Pipeline::train: sizes: got ", sizes.size(),
                  ", expected one for each of the ", parts, " micro-batches");
    int64_t left = batch;
    for (const int64_t size : sizes) {
      TENDRIL_CHECK(size >= 1 && size <= left, "Pipeline::train: sizes: got a micro-batch of ", size, " where ", left,
                    " of the batch of ", batch, " are left");
      left -= size;
    }
    TENDRIL_CHECK(left == 0, "Pipeline::train: sizes: they leave ", left, " of the batch of ", batch);
  }
  const BatchId batch_id = next_batch(*agent_);
  detail::StageWork work{.context = context.id(), .batch = batch_id, .checkpoint = options_.checkpoint, .sizes = sizes};
  for (int64_t i = 0; sizes.empty() && i < parts; ++i)
    work.sizes.push_back(batch / parts + (i < batch % parts ? 1 : 0));
  const rpc::CallOptions call{.timeout = options_.timeout};
  // By worker: each cancels its call of run_stages if a stage there could not be notified of the cancellation.
  std::vector<std::stop_source> stops(static_cast<std::size_t>(schedule_.workers));
  const std::stop_callback inherited(std::stop_token(rpc::CallContext::current().stop), [stops]() mutable {
    for (std::stop_source& one : stops) one.request_stop();
  });
  std::vector<rpc::Future<detail::StageResult>> running;
  std::vector<detail::StageResult> results;
  // Fails with the first error of any of these calls, or completes with the last of them.
  rpc::Promise<void> all_ended;
  std::atomic<std::size_t> unended{static_cast<std::size_t>(schedule_.workers + 2 * parts)};
  const auto note = [&](const auto& ended) {
    try {
      ended.wait();
      if (--unended == 0) all_ended.set_value();
    } catch (...) {
      all_ended.try_set_error(std::current_exception());
    }
  };
  rpc::FutureScope calls;  // waits for all calls before this returns, also after an error
  try {
    for (int w = 0; w < schedule_.workers; ++w) {
      detail::StageWork mine = work;
      for (const Action& action : schedule_.of[static_cast<std::size_t>(w)]) {
        for (const int32_t number : {static_cast<int>(action.work), action.stage, action.micro_batch}) {
          mine.actions.push_back(number);
        }
      }
      for (int s = w; s < schedule_.stages; s += schedule_.workers) {
        for (const int near : {s - 1, s, s + 1}) {
          if (near >= 0 && near < schedule_.stages) mine.stages[near] = stages_[static_cast<std::size_t>(near)];
        }
      }
      rpc::CallContext in_context = rpc::CallContext::current();
      in_context.autograd_context = context.id();
      const rpc::CallContextScope scope(std::move(in_context));
      rpc::CallOptions stoppable = call;
      stoppable.stop = stops[static_cast<std::size_t>(w)].get_token();
      running.push_back(
          rpc::rpc_async<&run_stages>(*agent_, stages_[static_cast<std::size_t>(w)].owner(), stoppable, mine));
      calls.add(running.back().then([&note](const rpc::Future<detail::StageResult>& done) { note(done); }));
    }
    const dist::detail::Unrecorded scope;
    int64_t begin = 0;
    for (int i = 0; i < parts; ++i) {
      const int64_t size = work.sizes[static_cast<std::size_t>(i)];
      const auto put = [&](const rpc::RRef<Stage>& to, What what, const Tensor& all) {
        calls.add(
            to.rpc_async<&Stage::put>(call, batch_id, static_cast<uint8_t>(what), i, raw::narrow(all, 0, begin, size))
                .then([&note](const rpc::Future<void>& done) { note(done); }));
      };
      put(stages_.front(), kInput, inputs);
      put(stages_.back(), kTarget, targets);
      begin += size;
    }
    all_ended.future().wait();
    results = rpc::wait_all(running);
  } catch (const std::exception& error) {
    const dist::detail::Unrecorded scope;
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      const auto& stage = stages_[s];
      std::stop_source& stop = stops[s % stops.size()];
      try {
        // Not waited for: a worker whose threads are all computing handles it only when one of them waits.
        stage.rpc_async<&Stage::cancel>(call, batch_id, std::string("the batch was cancelled: ") + error.what())
            .then([stop](const rpc::Future<void>& done) mutable {
              if (done.has_error()) stop.request_stop();  // the stage may be gone or out of memory
            });
      } catch (const std::exception&) {  // likewise
        stop.request_stop();
      }
    }
    throw;
  }
  double loss = 0;
  report_ = {.duration = seconds(Clock::now() - start), .workers = schedule_.workers};
  report_.stages.resize(stages_.size());
  double forward = 0, backward = 0;
  for (std::size_t w = 0; w < results.size(); ++w) {
    loss += results[w].loss;
    double left = report_.duration;
    for (std::size_t s = w, at = 0; s < stages_.size(); s += results.size(), at += 4) {
      const std::vector<double>& got = results[w].seconds;
      TENDRIL_CHECK_AS(rpc::RpcError, at + 4 <= got.size(), "Pipeline::train: worker '", stages_[w].owner_name(),
                       "' returned no times of stage ", s);
      report_.stages[s] = {static_cast<int>(s), stages_[s].owner_name(), got[at], got[at + 1], got[at + 2],
                           got[at + 3]};
      left -= got[at] + got[at + 1] + got[at + 2] + got[at + 3];
      forward += got[at];
      backward += got[at + 1];
    }
    report_.stages[w].idle = std::max(left, 0.0);
  }
  if (forward > 0 && backward > 0) report_.ideal_idle_share = simulate(schedule_, {forward, backward}).idle_share();
  return loss;
}

double Report::idle_share() const noexcept {
  double busy = 0;
  for (const StageTime& stage : stages) busy += stage.busy();
  return duration > 0 && workers > 0 ? 1 - busy / (duration * workers) : 0;
}

std::string Report::text() const {
  std::ostringstream out;
  out.imbue(std::locale::classic());
  out << std::fixed << std::setprecision(3);
  for (const StageTime& one : stages) {
    out << "stage " << one.stage << " on " << one.worker << ": busy " << one.busy() << " s (forward " << one.forward
        << ", backward " << one.backward << "), waiting to receive " << one.receiving << ", to send " << one.sending
        << ", idle " << one.idle << "\n";
  }
  out << "idle " << std::setprecision(1) << 100 * idle_share() << "% of " << std::setprecision(3) << duration
      << " s, the schedule alone " << std::setprecision(1) << 100 * ideal_idle_share << "%\n";
  return out.str();
}

std::ostream& operator<<(std::ostream& out, const Report& report) { return out << report.text(); }

}  // namespace tendril::dist::pipeline

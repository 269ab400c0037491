#include "tendril/dist/pipeline/pipeline.h"

#include <chrono>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <tuple>

#include "tendril/autograd/history.h"
#include "tendril/autograd/ops/join.h"
#include "tendril/dist/autograd/container.h"
#include "tendril/dist/detail/named_tensors.h"
#include "tendril/rpc/future_scope.h"
#include "tendril/tensor/raw.h"

namespace tendril::dist::pipeline {

using rpc::Clock;

namespace {
enum What : uint8_t { kInput = 0, kTarget = 1, kGradient = 2 };
}

namespace detail {

/// What a worker is to do of a batch.
struct StageWork {
  autograd::ContextId context = 0;
  uint64_t batch = 0;
  bool checkpoint = false;
  std::vector<int32_t> actions = {};                // work, stage, micro-batch of each
  std::vector<int64_t> sizes = {};                  // of the micro-batches
  std::map<int32_t, rpc::RRef<Stage>> stages = {};  // this worker's, and their neighbours

  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& context& batch& checkpoint& actions& sizes& stages;
  }
};

struct StageResult {
  double loss = 0, busy = 0, waiting = 0;

  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& loss& busy& waiting;
  }
};

}  // namespace detail

/// For workers, as remote functions.
detail::StageResult run_stages(const detail::StageWork& work);
std::vector<rpc::RRef<Tensor>> stage_parameters(const rpc::RRef<Stage>& stage);

struct Stage::State {
  using Place = std::tuple<uint64_t, uint8_t, int>;  // batch, what, micro-batch
  struct Kept {
    Tensor input, output;
  };

  /// What has come, or an error; waits for it.
  Tensor take(const Place& place, Clock::time_point deadline) {
    std::unique_lock lock(mutex);
    for (;;) {
      const auto failed = given_up.find(std::get<0>(place));
      if (failed != given_up.end()) throw rpc::CancelledError("pipeline: " + failed->second);
      const auto found = came.find(place);
      if (found != came.end()) {
        Tensor tensor = found->second;
        came.erase(found);
        return tensor;
      }
      wake = Ref<rpc::FutureState<void>>(new rpc::FutureState<void>(rpc::Executor::current()));
      const Ref<rpc::FutureState<void>> mine = wake;
      lock.unlock();
      if (!mine->wait_until(deadline)) throw rpc::TimeoutError("pipeline: what a stage waits for did not come in time");
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
  void forget_before(uint64_t batch) {
    std::erase_if(came, [&](const auto& one) { return std::get<0>(one.first) < batch; });
    std::erase_if(given_up, [&](const auto& one) { return one.first < batch; });
  }

  std::mutex mutex;
  std::map<Place, Tensor> came;
  std::map<uint64_t, std::string> given_up;
  std::map<int, Kept> kept;  // of the batch that is running
  Ref<rpc::FutureState<void>> wake;
};

Stage::Stage(std::shared_ptr<nn::Module> module, Forward forward, Loss loss)
    : module_(std::move(module)),
      forward_(std::move(forward)),
      loss_(std::move(loss)),
      state_(std::make_unique<State>()) {}
Stage::~Stage() = default;

void Stage::put(uint64_t batch, uint8_t what, int micro_batch, const Tensor& tensor) {
  state_->change([&] {
    if (!state_->given_up.contains(batch)) state_->came[{batch, what, micro_batch}] = tensor;
  });
}

void Stage::give_up(uint64_t batch, const std::string& why) {
  state_->change([&] {
    state_->forget_before(batch);
    state_->given_up[batch] = why;
    std::erase_if(state_->came, [&](const auto& one) { return std::get<0>(one.first) == batch; });
  });
}

detail::StageResult run_stages(const detail::StageWork& work) {
  const auto container = autograd::Container::current();
  const Clock::time_point deadline = rpc::CallContext::current().deadline;
  const int64_t all = std::accumulate(work.sizes.begin(), work.sizes.end(), int64_t{0});
  detail::StageResult result;
  const auto start = Clock::now();
  const auto seconds = [](Clock::duration time) { return std::chrono::duration<double>(time).count(); };
  const auto take = [&](Stage& stage, What what, int micro_batch) {
    const auto before = Clock::now();
    Tensor tensor = stage.state_->take({work.batch, what, micro_batch}, deadline);
    result.waiting += seconds(Clock::now() - before);
    return tensor;
  };
  rpc::FutureScope sent;
  const auto send = [&](int stage, What what, int micro_batch, const Tensor& tensor) {
    const dist::detail::Unrecorded scope;
    sent.add(work.stages.at(stage).rpc_async<&Stage::put>(work.batch, static_cast<uint8_t>(what), micro_batch, tensor));
  };
  std::set<int> mine;
  for (std::size_t i = 0; i + 2 < work.actions.size(); i += 3) mine.insert(work.actions[i + 1]);
  for (const int number : mine) work.stages.at(number).local_value().state_->kept.clear();
  for (std::size_t i = 0; i + 2 < work.actions.size(); i += 3) {
    const int number = work.actions[i + 1], micro_batch = work.actions[i + 2];
    Stage& stage = work.stages.at(number).local_value();
    if (static_cast<Work>(work.actions[i]) == Work::forward) {
      Tensor input = take(stage, kInput, micro_batch).detach();
      if (number > 0 && is_floating(input.dtype())) input.requires_grad_();
      const auto f = [&stage](const Tensor& x) { return stage.forward_(x); };
      Tensor output = work.checkpoint ? tendril::autograd::checkpoint(f, input) : f(input);
      if (stage.loss_) {
        output = stage.loss_(output, take(stage, kTarget, micro_batch));
        const double share = static_cast<double>(work.sizes.at(static_cast<std::size_t>(micro_batch))) / all;
        result.loss += share * output.item<double>();
      } else {
        send(number + 1, kInput, micro_batch, output.detach());
      }
      stage.state_->kept[micro_batch] = {input, output};
    } else {
      const Stage::State::Kept kept = stage.state_->kept.at(micro_batch);
      stage.state_->kept.erase(micro_batch);
      Tensor gradient;
      if (stage.loss_) {
        const double share = static_cast<double>(work.sizes.at(static_cast<std::size_t>(micro_batch))) / all;
        gradient = raw::full(kept.output.sizes(), share, kept.output.dtype(), kept.output.device());
      } else {
        gradient = take(stage, kGradient, micro_batch);
      }
      const Tensor back =
          container->backward_here(work.context, kept.output, gradient, number > 0 ? kept.input : Tensor());
      if (number > 0) send(number - 1, kGradient, micro_batch, back);
    }
  }
  sent.wait();
  result.busy = seconds(Clock::now() - start) - result.waiting;
  return result;
}

namespace {
std::vector<rpc::RRef<Tensor>> parameters_of(const rpc::RRef<Stage>& stage) {
  const auto agent = rpc::detail::context_of(*stage.state_pointer())->agent();
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
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  batch_ = static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(now).count());
}

std::vector<rpc::RRef<Tensor>> Pipeline::parameter_rrefs() const {
  const dist::detail::Unrecorded scope;
  std::vector<rpc::RRef<Tensor>> all;
  for (const auto& stage : stages_) {
    for (auto& rref : rpc::rpc_sync<&stage_parameters>(*agent_, stage.owner(), stage)) all.push_back(std::move(rref));
  }
  return all;
}

double Pipeline::train(const autograd::Context& context, const Tensor& inputs, const Tensor& targets) {
  const int64_t batch = inputs.defined() && inputs.dim() > 0 ? inputs.size(0) : 0;
  const int64_t parts = schedule_.micro_batches;
  TENDRIL_CHECK(batch >= parts, "Pipeline::train: a batch of ", batch, " cannot be cut in ", parts, " micro-batches");
  TENDRIL_CHECK(targets.defined() && targets.dim() > 0 && targets.size(0) == batch,
                "Pipeline::train: targets must be as many as inputs, ", batch);
  ++batch_;
  detail::StageWork work{.context = context.id(), .batch = batch_, .checkpoint = options_.checkpoint};
  for (int64_t i = 0; i < parts; ++i) work.sizes.push_back(batch / parts + (i < batch % parts ? 1 : 0));
  const rpc::CallOptions call{.timeout = options_.timeout};
  std::vector<rpc::Future<detail::StageResult>> running;
  rpc::FutureScope sent;
  std::vector<detail::StageResult> results;
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
      running.push_back(rpc::rpc_async<&run_stages>(*agent_, stages_[static_cast<std::size_t>(w)].owner(), call, mine));
    }
    const dist::detail::Unrecorded scope;
    int64_t begin = 0;
    for (int i = 0; i < parts; ++i) {
      const int64_t size = work.sizes[static_cast<std::size_t>(i)];
      const auto put = [&](const rpc::RRef<Stage>& to, What what, const Tensor& all) {
        sent.add(
            to.rpc_async<&Stage::put>(call, batch_, static_cast<uint8_t>(what), i, raw::narrow(all, 0, begin, size)));
      };
      put(stages_.front(), kInput, inputs);
      put(stages_.back(), kTarget, targets);
      begin += size;
    }
    results = rpc::wait_all(running);
    sent.wait();
  } catch (const std::exception& error) {
    const dist::detail::Unrecorded scope;
    std::vector<rpc::Future<void>> told;
    for (const auto& stage : stages_) {
      try {
        told.push_back(stage.rpc_async<&Stage::give_up>(rpc::CallOptions{.timeout = std::chrono::seconds(10)}, batch_,
                                                        std::string("the batch was given up: ") + error.what()));
      } catch (const rpc::RpcError&) {  // it is gone
      }
    }
    for (const auto& future : told) {
      try {
        future.wait();
      } catch (const rpc::RpcError&) {  // likewise
      }
    }
    for (const auto& future : running) {
      try {
        future.wait();
      } catch (const std::exception&) {  // it is not the first error
      }
    }
    throw;
  }
  double loss = 0;
  times_.clear();
  for (std::size_t w = 0; w < results.size(); ++w) {
    loss += results[w].loss;
    times_.push_back({stages_[w].owner_name(), results[w].busy, results[w].waiting});
  }
  return loss;
}

}  // namespace tendril::dist::pipeline

// ResNet-50 cut over workers that a master feeds with micro-batches, which go through all at the same time. After
// PyTorch's tutorial "Distributed pipeline parallelism using RPC", whose form is --schedule by-hand.
#include <tendril/autograd/ops/loss.h>
#include <tendril/dist/autograd/backward.h>
#include <tendril/dist/autograd/context.h>
#include <tendril/dist/optimizer.h>
#include <tendril/dist/pipeline/pipeline.h>
#include <tendril/nn/optim/sgd.h>
#include <tendril/rpc/default_agent.h>
#include <tendril/rpc/group.h>
#include <tendril/rpc/launch.h>
#include <tendril/tensor/creation.h>
#include <tendril/tensor/threads.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <thread>

#include "../support/device.h"
#include "options.h"
#include "pipeline.h"
#include "stages.h"

namespace dist = tendril::dist;
namespace optim = tendril::optim;
namespace rpc = tendril::rpc;
using pipeline::Options;
using tendril::Tensor;

namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// `step(context, inputs, labels)` is forward, backward and the optimizer's step of a batch.
template <class Step>
void train(const Options& options, Step step) {
  const std::int64_t batch = options.batch_size, classes = options.network.classes;
  tendril::Generator generator(options.network.seed);
  const Tensor one_hot_indices = tendril::randint(0, classes, {batch, 1}, generator);
  const Tensor ones = tendril::ones({batch, 1});
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t i = 0; i < options.batches; ++i) {
    std::printf("Processing batch %lld\n", static_cast<long long>(i));
    std::fflush(stdout);
    const Tensor inputs = tendril::randn({batch, 3, options.image, options.image}, generator);
    const Tensor labels = tendril::zeros({batch, classes}).scatter_add(1, one_hot_indices, ones);
    const dist::autograd::Context context;
    step(context, inputs, labels);
  }
  const double seconds = seconds_since(start);
  std::printf("trained on %lld images in %.2f s, %.1f images/s\n", static_cast<long long>(batch * options.batches),
              seconds, static_cast<double>(batch * options.batches) / seconds);
  std::fflush(stdout);  // before the launcher's line
}

/// The tutorial's: two shards, a call for each micro-batch, one backward through them all.
void run_by_hand(const Options& options, const std::vector<std::int64_t>& micro_batches) {
  const pipeline::DistResNet50 model(options.network, micro_batches);
  dist::DistributedOptimizer<optim::SGD> opt(model.parameter_rrefs(), {.lr = 0.05});
  train(options, [&](const dist::autograd::Context& context, const Tensor& inputs, const Tensor& labels) {
    const Tensor outputs = model.forward(inputs);
    dist::autograd::backward(context, {mse_loss(outputs, labels)});
    opt.step(context);
  });
}

/// Any number of stages, each of which does its list of a schedule.
void run_by_schedule(const Options& options, const std::vector<std::int64_t>& micro_batches) {
  const auto schedule = pipeline::schedule_of(options, options.workers, static_cast<int>(micro_batches.size()));
  const auto stages = pipeline::make_stages(options, schedule, micro_batches.front());
  dist::pipeline::Pipeline model(*rpc::default_agent(), stages, schedule);
  dist::DistributedOptimizer<optim::SGD> opt(model.parameter_rrefs(), {.lr = 0.05});
  train(options, [&](const dist::autograd::Context& context, const Tensor& inputs, const Tensor& labels) {
    model.train(context, inputs, labels, micro_batches);
    opt.step(context);
  });
  if (options.report) std::fputs(model.report().text().c_str(), stdout);
}

}  // namespace

namespace pipeline {

std::string name_of(int rank) { return rank == 0 ? "master" : "worker" + std::to_string(rank); }

/// With --device cuda and more than one GPU, workers have GPUs of their own as far as there are.
tendril::Device device_of(int rank, const Options& options) {
  const int last = tendril::device_count(tendril::DeviceType::cuda) - 1;
  return examples::device_of(options.device, rank > 1 ? std::min(rank - 1, last) : 0);
}

/// What each process of the group does, whoever started it. Workers wait in shutdown() and serve the master until it is
/// done.
void run_worker(int rank, const Options& options, const std::vector<std::int64_t>& micro_batches) {
  rpc::InitOptions init;
  init.rpc_timeout = std::chrono::minutes(10);  // a call is a forward pass, and waits for those before it
  // The master only waits, so the workers share the cores.
  const int part = std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / options.workers);
  if (rank > 0) tendril::set_num_threads(options.threads > 0 ? options.threads : part);
  const tendril::Device mine = device_of(rank, options);
  tendril::set_default_device(mine);
  for (int peer = 0; peer <= options.workers; ++peer) {  // whatever one of the others gets is to be where it computes
    if (peer != rank) init.device_maps[name_of(peer)] = {{mine, device_of(peer, options)}};
  }
  rpc::init_rpc(name_of(rank), init);
  if (rank == 0) (options.schedule == "by-hand" ? run_by_hand : run_by_schedule)(options, micro_batches);
  rpc::shutdown();
}

}  // namespace pipeline

int main(int argc, char** argv) {
  int status = 0;
  const auto options = pipeline::parse_options(argc, argv, status);
  if (!options) return status;
  try {
    for (const auto& micro_batches : options->runs) {
      const auto start = std::chrono::steady_clock::now();
      const auto rank = rpc::launch<&pipeline::run_worker>(argc, argv, options->launch, *options, micro_batches);
      if (rank == 0)
        std::printf("number of splits = %zu, execution time = %.2f\n", micro_batches.size(), seconds_since(start));
      std::fflush(stdout);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
  return 0;
}

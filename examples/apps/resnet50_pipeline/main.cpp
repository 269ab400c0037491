// ResNet-50 cut into parts on several workers, which process a master's micro-batches concurrently. Follows PyTorch's
// tutorial "Distributed pipeline parallelism using RPC"; --schedule by-hand is the tutorial's version. Read pipeline.h
// first; the other files handle flags, data and printing.
#include "pipeline.h"
#include "support.h"

namespace pipeline {

namespace pp = tendril::dist::pipeline;

/// Returns the loss for class numbers or, as in the tutorial, one-hot rows. Called by name on the last stage's worker.
Tensor loss_of(const Tensor& scores, const Tensor& labels) {
  return labels.dtype() == kInt64 ? cross_entropy(scores, labels) : mse_loss(scores, labels);
}

/// `step(context, inputs, labels)` runs forward, backward and the optimizer's step for one batch and returns the loss.
template <class Step>
void train(Batches& batches, Step step) {
  while (batches.next()) {
    const dist::autograd::Context context;
    batches.learnt(step(context, batches.inputs, batches.labels));
  }
}

/// The tutorial's version: two shards, one call per micro-batch, one backward through all of them.
void run_by_hand(const Options& options, Batches& batches, const std::vector<std::int64_t>& micro_batches) {
  const DistResNet50 model(options.network, micro_batches);
  dist::DistributedOptimizer<optim::SGD> opt(model.parameter_rrefs(), {.lr = 0.05});
  train(batches, [&](const dist::autograd::Context& context, const Tensor& inputs, const Tensor& labels) {
    const Tensor loss = loss_of(model.forward(inputs), labels);
    batches.draw(context, loss);
    dist::autograd::backward(context, {loss});
    opt.step(context);
    return loss.item<double>();
  });
}

/// Returns the schedule of --schedule.
pp::Schedule schedule_of(const Options& options, int micro_batches) {
  if (options.schedule == "gpipe") return pp::gpipe(options.workers, micro_batches);
  if (options.schedule == "1f1b") return pp::one_forward_one_backward(options.workers, micro_batches);
  return pp::interleaved(options.workers, micro_batches, options.stages_per_worker);
}

/// Measures the layers in this process on a few images and creates the schedule's stages on the workers. The cut
/// minimises the cost of the most expensive stage.
std::vector<rpc::RRef<pp::Stage>> make_stages(const Options& options, const pp::Schedule& schedule,
                                              std::int64_t images) {
  const Network& network = options.network;
  std::vector<double> costs;
  ResNetPart whole(network, 0, network.layers());
  for (const auto& cost : pp::measure_layers(whole.layers, few_images(options, images), 1))
    costs.push_back(cost.both());
  const std::vector<std::size_t> cut = pp::partition(costs, schedule.stages);
  if (options.report) print_cut(schedule, cut, costs);

  std::vector<rpc::RRef<pp::Stage>> stages;
  for (int s = 0; s < schedule.stages; ++s) {
    const std::string worker = name_of(1 + schedule.worker_of(s));
    const std::size_t begin = cut.at(stages.size()), end = cut.at(stages.size() + 1);
    stages.push_back(s + 1 < schedule.stages ? pp::make_stage<ResNetPart>(worker, network, begin, end)
                                             : pp::make_loss_stage<ResNetPart, &loss_of>(worker, network, begin, end));
  }
  return stages;
}

/// Runs any number of stages, each with its own list of actions from the schedule.
void run_by_schedule(const Options& options, Batches& batches, const std::vector<std::int64_t>& micro_batches) {
  const pp::Schedule schedule = schedule_of(options, static_cast<int>(micro_batches.size()));
  pp::Pipeline model(make_stages(options, schedule, micro_batches.front()), schedule,
                     {.checkpoint = options.recompute});
  dist::DistributedOptimizer<optim::SGD> opt(model.parameter_rrefs(), {.lr = 0.05});
  train(batches, [&](const dist::autograd::Context& context, const Tensor& inputs, const Tensor& labels) {
    const double loss = model.train(context, inputs, labels, micro_batches);
    opt.step(context);
    return loss;
  });
  if (options.report) std::fputs(model.report().text().c_str(), stdout);
}

/// With --device cuda, returns a different GPU for each worker as far as the machine has enough.
Device device_of(int rank, const Options& options) {
  const int last = device_count(DeviceType::cuda) - 1;
  return examples::device_of(options.device, rank > 1 ? std::min(rank - 1, last) : 0);
}

/// Runs in each process of the group. Workers serve the master inside shutdown() until it has finished.
void run_worker(int rank, Options options, const std::vector<std::int64_t>& micro_batches) {
  rpc::InitOptions init;
  init.rpc_timeout = std::chrono::minutes(10);  // a call runs a forward pass after waiting for earlier ones
  if (options.threads > 0) set_num_threads(options.threads);
  const Device mine = device_of(rank, options);
  set_default_device(mine);
  for (int peer = 0; peer <= options.workers; ++peer) {  // tensors arrive on the device where the peer computes
    if (peer != rank) init.device_maps[name_of(peer)] = {{mine, device_of(peer, options)}};
  }
  std::optional<Batches> batches;
  if (rank == 0) options.network.classes = batches.emplace(options).classes();
  rpc::init_rpc(name_of(rank), init);
  if (batches) (options.schedule == "by-hand" ? run_by_hand : run_by_schedule)(options, *batches, micro_batches);
  rpc::shutdown();
}

}  // namespace pipeline

int main(int argc, char** argv) {
  return examples::run_main(argc, argv, pipeline::parse_options, [&](const pipeline::Options& options) {
    for (const auto& micro_batches : options.runs) {
      const auto start = std::chrono::steady_clock::now();
      const int rank = tendril::rpc::launch<&pipeline::run_worker>(argc, argv, options.launch, options, micro_batches);
      if (rank == 0) pipeline::print_run(micro_batches.size(), start);
    }
  });
}

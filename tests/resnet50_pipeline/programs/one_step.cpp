// One training step of the pipeline, in three processes, beside the same step of the two halves in this one process,
// fed with the same micro-batches (batch normalisation sees them, not the batch). Prints what differs and fails; for
// several ways to cut the batch.
#include <tendril/autograd/ops/join.h>
#include <tendril/autograd/ops/loss.h>
#include <tendril/autograd/ops/pointwise.h>
#include <tendril/dist/autograd/backward.h>
#include <tendril/dist/autograd/context.h>
#include <tendril/dist/optimizer.h>
#include <tendril/nn/optim/sgd.h>
#include <tendril/rpc/call.h>
#include <tendril/rpc/group.h>
#include <tendril/rpc/spawn.h>
#include <tendril/tensor/creation.h>

#include <cstdio>
#include <exception>
#include <stdexcept>

#include "options.h"
#include "pipeline.h"
#include "tests/seed.h"

namespace dist = tendril::dist;
namespace optim = tendril::optim;
namespace rpc = tendril::rpc;
using tendril::Tensor;
using tendril::testing::test_seed;

namespace one_step {

constexpr std::int64_t kBatch = 7;

/// On the owner: the context's gradients of its parameters.
std::vector<Tensor> gradients(const std::vector<rpc::RRef<Tensor>>& parameters, dist::autograd::ContextId context) {
  const auto all = dist::autograd::get_gradients(context);
  std::vector<Tensor> found;
  for (const auto& parameter : parameters) found.push_back(all.at(parameter.local_value()));
  return found;
}

/// Relative to the largest of `expected`: sums are taken in different orders.
void require_equal(const Tensor& actual, const Tensor& expected, const std::string& what) {
  const double off = (actual.detach() - expected.detach()).abs().max().item<double>();
  const double largest = expected.detach().abs().max().item<double>();
  if (!(actual.sizes() == expected.sizes()) || !(off <= 1e-9 * largest + 1e-13))
    throw std::runtime_error(what + " differs by " + std::to_string(off) + " of " + std::to_string(largest));
}

void compare(const std::vector<std::int64_t>& micro_batches) {
  const pipeline::Network network{.base = 4,
                                  .blocks = {1, 2, 1, 1},
                                  .classes = 5,
                                  .seed = static_cast<decltype(pipeline::Network::seed)>(test_seed(1) >> 40),
                                  .dtype = tendril::kFloat64};
  tendril::Generator generator(test_seed());
  const Tensor images = tendril::randn({kBatch, 3, 33, 40}, generator, {.dtype = tendril::kFloat64});
  const Tensor labels = tendril::randn({kBatch, 5}, generator, {.dtype = tendril::kFloat64});

  // Here.
  pipeline::ResNetShard half1(network, 0, network.middle());
  pipeline::ResNetShard half2(network, network.middle(), network.layers());
  std::vector<Tensor> outputs, parameters = half1.parameters();
  for (const Tensor& p : half2.parameters()) parameters.push_back(p);
  for (const Tensor& x : images.split(micro_batches)) {
    const Tensor y = half1.forward_of(rpc::RRef<Tensor>(x));
    outputs.push_back(half2.forward_of(rpc::RRef<Tensor>(y)));
  }
  const Tensor expected = tendril::cat(outputs);
  mse_loss(expected, labels).backward();
  optim::SGD sgd(parameters, {.lr = 0.05});

  // There.
  const pipeline::DistResNet50 model(network, micro_batches);
  const auto rrefs = model.parameter_rrefs();
  if (rrefs.size() != parameters.size()) throw std::runtime_error("the numbers of parameters differ");
  dist::DistributedOptimizer<optim::SGD> opt(rrefs, {.lr = 0.05});
  for (std::size_t i = 0; i < rrefs.size(); ++i)
    require_equal(rrefs[i].to_here(), parameters[i], "initial parameter " + std::to_string(i));

  dist::autograd::Context context;
  const Tensor actual = model.forward(images);
  require_equal(actual, expected, "the output");
  dist::autograd::backward(context, {mse_loss(actual, labels)});
  std::size_t first = 0;
  for (const char* worker : {"worker1", "worker2"}) {
    std::vector<rpc::RRef<Tensor>> owned;
    for (const auto& rref : rrefs)
      if (rref.owner_name() == worker) owned.push_back(rref);
    const auto found = rpc::rpc_sync<&gradients>(worker, owned, context.id());
    for (std::size_t i = 0; i < found.size(); ++i)
      require_equal(found[i], parameters[first + i].grad(), "gradient " + std::to_string(first + i));
    first += found.size();
  }
  if (first != parameters.size()) throw std::runtime_error("a parameter has no owner");

  opt.step(context);
  sgd.step();
  for (std::size_t i = 0; i < rrefs.size(); ++i)
    require_equal(rrefs[i].to_here(), parameters[i], "stepped parameter " + std::to_string(i));
}

void run_worker(int rank) {
  rpc::init_rpc(rank == 0 ? "master" : "worker" + std::to_string(rank));
  if (rank == 0) {
    for (const auto& micro_batches : {pipeline::split_into(kBatch, 1), pipeline::split_into(kBatch, 3),
                                      pipeline::split_by(kBatch, 2), pipeline::split_by(kBatch, 1)})
      compare(micro_batches);
    std::printf("equal\n");
    std::fflush(stdout);
  }
  rpc::shutdown();
}

}  // namespace one_step

int main(int argc, char** argv) {
  rpc::worker_main(argc, argv);
  try {
    rpc::spawn<&one_step::run_worker>(3);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
  return 0;
}

// Designated initialisers in user code compile without warnings, even with -Wextra.
#pragma GCC diagnostic error "-Wmissing-field-initializers"

#include <boost/test/unit_test.hpp>

#include "tendril/autograd/gradcheck.h"
#include "tendril/autograd/ops/loss.h"
#include "tendril/autograd/ops/pool.h"
#include "tendril/dist/autograd/backward.h"
#include "tendril/dist/optimizer.h"
#include "tendril/nn/batch_norm.h"
#include "tendril/nn/conv.h"
#include "tendril/nn/distributions/categorical.h"
#include "tendril/nn/embedding.h"
#include "tendril/nn/init.h"
#include "tendril/nn/linear.h"
#include "tendril/nn/lstm.h"
#include "tendril/nn/optim/adam.h"
#include "tendril/nn/optim/sgd.h"
#include "tendril/rpc/group.h"
#include "tendril/rpc/spawn.h"
#include "tendril/tensor/creation.h"
#include "tendril/tensor/tensor.h"

BOOST_AUTO_TEST_SUITE(designated_initialisers)

using namespace tendril;
using namespace std::chrono_literals;

// Each pair names the first member, then only the last, so that all members between and after them need defaults.
BOOST_AUTO_TEST_CASE(single_rpc_option_may_be_named) {
  const rpc::InitOptions init{.rank = 0, .world_size = 2}, threads{.num_worker_threads = 4}, agent{.agent = {}};
  const rpc::AgentOptions named{.name = "w"}, maps{.device_maps = {}};
  const rpc::CallOptions timeout{.timeout = 5s}, stop{.stop = {}};
  const rpc::ShutdownOptions shutdown{.timeout = 5s}, graceful{.graceful = false};
  const rpc::SpawnOptions spawn{.world_size = 2}, patience{.timeout = 5s};
  const rpc::Agent::ListenOptions listen{.unix_socket = true}, port{.tcp_port = 1};
  const rpc::WorkerInfo worker{.name = "w"};
  const rpc::CallContext context{.deadline = rpc::Clock::time_point::max()};
  const rpc::Limits limits{};
  const dist::autograd::BackwardOptions backward{.retain_graph = true}, late{.timeout = 1s};
  BOOST_TEST(init.master_addr.empty());
  BOOST_TEST(named.limits.max_payload_bytes == limits.max_payload_bytes);
  BOOST_TEST(!stop.timeout);
  BOOST_TEST((shutdown.graceful && !graceful.graceful));
  BOOST_TEST((threads.rank == -1 && agent.rank == -1 && spawn.timeout == 0ms && patience.world_size == 1));
  BOOST_TEST((listen.tcp && port.tcp && worker.id == rpc::WorkerInfo{}.id && context.trace_id == 0));
  BOOST_TEST((maps.name.empty() && backward.timeout == 0ms && !late.retain_graph && timeout.timeout == 5s));
}

BOOST_AUTO_TEST_CASE(single_model_option_may_be_named) {
  const distributions::Categorical from_logits({.logits = zeros({3})}), from_probs({.probs = ones({3})});
  const nn::LinearOptions linear{.bias = false};
  const nn::Conv2dOptions conv{.stride = 2};
  const nn::EmbeddingOptions embedding{.padding_idx = 0};
  const nn::BatchNormOptions norm{.eps = 1e-3};
  const nn::LSTMOptions lstm{.num_layers = 2};
  const nn::LSTMState state{.h = zeros({1})};
  const optim::SGDOptions sgd{.lr = 0.1};
  const optim::AdamOptions adam{.lr = 0.1};
  const NllLossOptions nll{.reduction = LossReduction::sum};
  const CrossEntropyOptions entropy{.label_smoothing = 0.1};
  const TensorOptions options{.requires_grad = true};
  BOOST_TEST(from_logits.num_classes() == from_probs.num_classes());
  BOOST_TEST(
      (!linear.bias && conv.bias && embedding.padding_idx == 0 && norm.affine && lstm.bias && !state.c.defined()));
  BOOST_TEST((sgd.lr == adam.lr && !nll.weight.defined() && !entropy.weight.defined() && options.dtype == kFloat32));
}

BOOST_AUTO_TEST_SUITE_END()

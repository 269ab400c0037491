// Distributed optimizer with bfloat16 parameters.
#include <memory>
#include <string>
#include <vector>

#include "tendril/nn/optim/adam.h"
#include "tendril/tensor/raw.h"
#include "tests/dist/three_layers.h"

BOOST_AUTO_TEST_SUITE(half_optimizer)

using namespace three_layers;
using dist::DistributedOptimizer;

namespace dist_half_optimizer {

/// Like Layer, but in bfloat16.
class HalfLayer {
 public:
  explicit HalfLayer(int rank) : rank_(rank), weight_(raw::cast(from_vector(kStart[rank], {3}), kBFloat16)) {
    weight_.requires_grad_();
  }
  Tensor forward(const Tensor& x) const { return (x * weight_).tanh(); }
  RRef<Tensor> parameter() const { return RRef<Tensor>(Cluster::agent(rank_), weight_); }
  std::vector<double> values() const { return weight_.to_vector<double>(); }
  Tensor& weight() { return weight_; }

 private:
  int rank_;
  Tensor weight_;
};

}  // namespace dist_half_optimizer
using namespace dist_half_optimizer;

BOOST_AUTO_TEST_CASE(masters_and_float32_state_stay_on_owners) {
  const Group group(2);
  const optim::AdamOptions options{.lr = 1e-3, .master_weights = true};
  std::vector<RRef<HalfLayer>> layers;
  std::vector<RRef<Tensor>> params;
  std::vector<std::unique_ptr<HalfLayer>> here;
  std::vector<Tensor> own;
  for (int rank = 0; rank < 2; ++rank) {
    layers.push_back(rpc::remote<HalfLayer>(group[0], rank, rank));
    params.push_back(layers.back().rpc_sync<&HalfLayer::parameter>());
    here.push_back(std::make_unique<HalfLayer>(rank));
    own.push_back(here.back()->weight());
  }
  DistributedOptimizer<optim::Adam> distributed(group[0], params, options);
  optim::Adam local(own, options);
  for (int step = 0; step < 10; ++step) {
    const Tensor x = raw::cast(input(step), kBFloat16);
    {
      const Context context(group[0]);
      Tensor y = x;
      for (const auto& layer : layers) y = layer.rpc_sync<&HalfLayer::forward>(y);
      backward(context, {y.square().sum()});
      distributed.step(context);
    }
    local.zero_grad();
    here[1]->forward(here[0]->forward(x)).square().sum().backward();
    local.step();
  }
  const StateDict gathered = distributed.state_dict();
  for (std::size_t i = 0; i < 2; ++i) {
    BOOST_TEST(layers[i].rpc_sync<&HalfLayer::values>() == values(own[i]), boost::test_tools::per_element());
    BOOST_TEST((distributed.state(params[i]).exp_avg.dtype() == kFloat32));
    BOOST_TEST(raw::equal(gathered.at("state." + std::to_string(i) + ".master_weight"), local.master_weight(own[i])));
  }
  DistributedOptimizer<optim::Adam> resumed(group[0], params);
  resumed.load_state_dict(gathered);
  BOOST_TEST(resumed.state_dict().at("param_groups.0.master_weights").item<bool>());
  BOOST_TEST(raw::equal(resumed.state_dict().at("state.1.master_weight"), local.master_weight(own[1])));
}

BOOST_AUTO_TEST_SUITE_END()

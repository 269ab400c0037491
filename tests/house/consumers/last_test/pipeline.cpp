// A pipeline of three stages, each on a worker of its own; written from the README and docs/ alone.
#include <tendril/tendril.h>

#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

using namespace tendril;
namespace pp = dist::pipeline;

struct Part : nn::Module {
  Part(int64_t in, int64_t out) : linear(in, out) { register_module("linear", linear); }
  Tensor forward(const Tensor& x) const { return linear(x).tanh(); }
  nn::Linear linear;
};
struct Last : nn::Module {
  explicit Last(int64_t in) : linear(in, 1) { register_module("linear", linear); }
  Tensor forward(const Tensor& x) const { return linear(x); }
  nn::Linear linear;
};
Tensor mean_square(const Tensor& output, const Tensor& target) { return mse_loss(output, target); }

void run(int rank) {
  rpc::init_rpc("w" + std::to_string(rank));
  if (rank == 0) {
    std::vector<rpc::RRef<pp::Stage>> stages{pp::make_stage<Part>("w1", 1, 16), pp::make_stage<Part>("w2", 16, 16),
                                             pp::make_loss_stage<Last, &mean_square>("w3", 16)};
    pp::Pipeline pipeline(stages, pp::one_forward_one_backward(3, 4));
    dist::DistributedOptimizer<optim::Adam> optimizer(pipeline.parameter_rrefs(), {.lr = 0.01});
    double loss = 0;
    for (int i = 0; i < 300; ++i) {
      const Tensor x = rand({32, 1}) * 6 - 3;
      dist::autograd::Context context;
      loss = pipeline.train(context, x, x.sin());
      optimizer.step(context);
    }
    std::cout << "loss " << loss << "\n" << pipeline.report().text() << "\n";
    if (!(loss < 0.1)) throw std::runtime_error("it has not learnt");
  }
  rpc::shutdown();
}

int main(int argc, char** argv) { return rpc::launch<&run>(argc, argv, {.world_size = 4}); }

// A parameter server with two trainers that keep copies of its model; written from the README and docs/ alone.
#include <tendril/tendril.h>

#include <iostream>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

using namespace tendril;

struct Net : nn::Module {
  Net() { register_module("first", first), register_module("second", second); }
  Tensor forward(const Tensor& x) const { return second(first(x).tanh()); }
  nn::Linear first{1, 16}, second{16, 1};
};

class Server {
 public:
  std::vector<Tensor> parameters() {
    const std::lock_guard lock(mutex_);
    return copies();
  }
  /// Steps by a trainer's gradients and answers with the parameters after it.
  std::vector<Tensor> step(const std::vector<Tensor>& gradients) {
    const std::lock_guard lock(mutex_);
    auto parameters = net_.parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].set_grad(gradients[i]);
    optimizer_.step();
    return copies();
  }

 private:
  std::vector<Tensor> copies() const {
    std::vector<Tensor> result;
    for (const Tensor& p : net_.parameters()) result.push_back(p.detach().clone());
    return result;
  }

  std::mutex mutex_;
  Net net_;
  optim::Adam optimizer_{net_.parameters(), {.lr = 0.01}};
};

void take(const Net& net, const std::vector<Tensor>& values) {
  const autograd::NoGrad guard;
  auto parameters = net.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].copy_(values[i]);
}

double train(const rpc::RRef<Server>& server, int steps) {
  Net net;
  take(net, server.rpc_sync<&Server::parameters>());
  Tensor loss;
  for (int i = 0; i < steps; ++i) {
    const Tensor x = rand({32, 1}) * 6 - 3;
    loss = mse_loss(net.forward(x), x.sin());
    take(net, server.rpc_sync<&Server::step>(autograd::grad({loss}, net.parameters())));
  }
  return loss.item<float>();
}

void run(int rank) {
  rpc::init_rpc(rank == 0 ? "server" : "trainer" + std::to_string(rank));
  if (rank == 0) {
    const auto server = rpc::remote<Server>("server");
    auto first = rpc::rpc_async<&train>("trainer1", server, 1500);
    auto second = rpc::rpc_async<&train>("trainer2", server, 1500);
    const double a = first.wait(), b = second.wait();
    std::cout << "losses in the end: " << a << " and " << b << "\n";
    if (!(a < 0.1 && b < 0.1)) throw std::runtime_error("it has not learnt");
  }
  rpc::shutdown();
}

int main(int argc, char** argv) { return rpc::launch<&run>(argc, argv, {.world_size = 3}); }

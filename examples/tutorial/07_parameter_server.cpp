// Chapter 7: a parameter server. One worker holds the parameters; two trainers fetch them, compute gradients from their
// own data, and send the gradients to the server.
#include <tendril/tendril.h>

#include <cstdio>
#include <mutex>
#include <string>

using namespace tendril;

class Net : public nn::Module {
 public:
  Tensor forward(const Tensor& x) const { return out_(tanh(hidden_(x))); }

 private:
  nn::Linear hidden_{2, 16}, out_{16, 1};
  TENDRIL_MEMBERS(hidden_, out_)
};

// The methods run on the server's thread pool, possibly concurrently: hence the mutex.
class Server {
 public:
  std::vector<Tensor> pull() {
    const std::lock_guard lock(mutex_);
    std::vector<Tensor> copies;
    for (const Tensor& p : net_.parameters()) copies.push_back(p.detach().clone());
    return copies;
  }
  std::int64_t push(const std::vector<Tensor>& gradients) {
    const std::lock_guard lock(mutex_);
    auto parameters = net_.parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].set_grad(gradients[i]);
    adam_.step();
    return ++steps_;
  }

 private:
  std::mutex mutex_;
  Net net_;
  optim::Adam adam_{net_.parameters(), {.lr = 5e-3}};
  std::int64_t steps_ = 0;
};

// Returns a reference to the only server.
rpc::RRef<Server> the_server() {
  static const rpc::RRef<Server> server(std::make_shared<Server>());
  return server;
}

double train(int rank) {
  manual_seed(static_cast<std::uint64_t>(rank));
  const auto server = rpc::rpc_sync<&the_server>("server");
  Net net;
  const auto mine = net.parameters();
  double loss = 1;
  for (int step = 0; step < 1000; ++step) {
    const auto fresh = server.rpc_sync<&Server::pull>();
    for (std::size_t i = 0; i < mine.size(); ++i) mine[i].detach().copy_(fresh[i]);  // detached: not recorded
    const Tensor x = rand({64, 2}) * 2 - 1;  // the network learns the product of two numbers
    const Tensor y = (x.select(1, 0) * x.select(1, 1)).unsqueeze(1);
    const Tensor error = mse_loss(net.forward(x), y);
    server.rpc_sync<&Server::push>(autograd::grad({error}, mine));
    loss += 0.05 * (error.item<double>() - loss);  // smoothed, because stale gradients make it noisy
  }
  return loss;
}

void run(int rank) {
  rpc::init_rpc(rank == 0 ? "server" : "trainer" + std::to_string(rank));
  if (rank > 0) std::printf("trainer%d ends with a loss %s 0.01\n", rank, train(rank) < 0.01 ? "below" : "above");
  rpc::shutdown();  // the server runs here until both trainers have finished
}

int main(int argc, char** argv) { rpc::launch<&run>(argc, argv, {.world_size = 3}); }

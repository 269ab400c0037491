#include <tendril/tendril.h>

#include <cstdio>

int twice(int x) { return 2 * x; }

void worker(int rank) {
  namespace rpc = tendril::rpc;
  rpc::init_rpc(rank == 0 ? "caller" : "callee");
  if (rank == 0 && rpc::rpc_sync<&twice>("callee", 21) != 42) throw tendril::Error("a wrong answer");
  rpc::shutdown();
}

int main(int argc, char** argv) {
  tendril::rpc::worker_main(argc, argv);

  tendril::Tensor x = tendril::ones({2, 3}, {.requires_grad = true});
  (x * x).sum().backward();
  if (x.grad().sum().item<float>() != 12) return 1;

  tendril::nn::Linear layer(3, 1);
  if (layer.forward(x).size(0) != 2) return 1;

  tendril::rpc::spawn<&worker>(2);
  std::puts("tendril " TENDRIL_VERSION " works from outside");
  return 0;
}

// Chapter 6: distributed autograd. Both sides of a call record the tensors sent; backward returns their gradients.
#include <tendril/tendril.h>

#include <cstdio>
#include <iostream>

using namespace tendril;

// Bob's parameter. Its gradient stays on bob.
const Tensor& weight() {
  static const Tensor w = full({3}, 5.0, TensorOptions{.requires_grad = true});
  return w;
}
Tensor scale(const Tensor& x) { return x * weight(); }
Tensor gradient_of_weight(std::int64_t context) { return dist::autograd::get_gradients(context).at(weight()); }

void run(int rank) {
  rpc::init_rpc(rank == 0 ? "alice" : "bob");
  if (rank == 0) {
    const Tensor x = tensor({1.0f, 2.0f, 3.0f}, {.requires_grad = true});

    // A context holds the gradients of one pass, so those of two passes or two trainers never mix.
    dist::autograd::Context context;
    const Tensor y = rpc::rpc_sync<&scale>("bob", x.exp());  // alice -> bob -> alice
    const Tensor loss = (y * x).sum();
    dist::autograd::backward(context, {loss});

    std::cout << "alice's gradient of x:  " << dist::autograd::get_gradients(context).at(x) << "\n";
    std::cout << "bob's gradient of w:    " << rpc::rpc_sync<&gradient_of_weight>("bob", context.id()) << "\n";

    // The same computation in one process.
    const Tensor w = full({3}, 5.0, TensorOptions{.requires_grad = true});
    (x.exp() * w * x).sum().backward();
    std::cout << "in one process, x and w: " << x.grad() << " " << w.grad() << "\n";
  }
  rpc::shutdown();
}

int main(int argc, char** argv) { rpc::launch<&run>(argc, argv, {.world_size = 2}); }

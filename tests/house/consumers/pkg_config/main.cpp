// A program that is built without CMake, and needs something of the libraries at both ends of the line.
#include <cstdio>

#include <tendril/autograd/ops/pointwise.h>
#include <tendril/data/images.h>
#include <tendril/dist/autograd/backward.h>
#include <tendril/nn/linear.h>
#include <tendril/rpc/group.h>
#include <tendril/tensor/creation.h>
#include <tendril/version.h>

int main() {
  namespace rpc = tendril::rpc;
  namespace autograd = tendril::dist::autograd;
  rpc::init_rpc("alone", {.rank = 0, .world_size = 1});
  bool right = false;
  {
    const tendril::Tensor x = tendril::ones({2, 3}, {.requires_grad = true});
    autograd::Context context;
    autograd::backward(context, {(x * x).sum()});
    right = autograd::get_gradients(context).at(x).sum().item<float>() == 12 &&
            tendril::nn::Linear(3, 1).forward(x).size(0) == 2;
  }
  rpc::shutdown();
  try {
    tendril::data::load_png("no such image");
    right = false;
  } catch (const tendril::Error&) {
  }
  std::puts(right ? "tendril " TENDRIL_VERSION " works by pkg-config" : "wrong");
  return right ? 0 : 1;
}

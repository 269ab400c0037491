// Chapter 2: autograd. Operations on tensors that require a gradient are recorded; backward() uses the record.
#include <tendril/tendril.h>

#include <iostream>

using namespace tendril;

// A custom operation: softplus, whose gradient is the sigmoid.
struct Softplus : autograd::Function<Softplus> {
  static Tensor forward(autograd::FunctionContext& context, const Tensor& x) {
    context.save_for_backward({x});
    return log1p(exp(x));
  }
  static std::vector<Tensor> backward(autograd::FunctionContext& context, const std::vector<Tensor>& grads) {
    return {grads[0] * sigmoid(context.saved_tensors()[0])};
  }
};

int main() {
  // x is a leaf: backward() accumulates its gradient in x.grad().
  const Tensor x = tensor({1.0, 2.0, 3.0}, {.dtype = kFloat64, .requires_grad = true});
  const Tensor y = (x * x * x).sum();
  y.backward();
  std::cout << "d(sum x^3)/dx = 3 x^2 = " << x.grad() << "\n";

  // For second derivatives, record the backward pass as well.
  const Tensor first = autograd::grad({(x * x * x).sum()}, {x}, {}, {.create_graph = true})[0];
  const Tensor second = autograd::grad({first.sum()}, {x})[0];
  std::cout << "and again: 6 x = " << second << "\n";

  // Gradients of several passes add up in grad(), which is why optimizers have zero_grad().
  (2 * x).sum().backward();
  std::cout << "after another backward: " << x.grad() << "\n";

  // NoGrad disables recording in this scope.
  {
    const autograd::NoGrad guard;
    std::cout << "recorded: " << std::boolalpha << (x * 2).requires_grad() << "\n";
  }

  // A gradient is right if it agrees with finite differences. Every operation of this library is tested this way.
  const auto check =
      autograd::gradcheck([](const auto& in) { return std::vector<Tensor>{Softplus::apply(in[0])}; }, {x});
  std::cout << "softplus passes gradcheck: " << check.ok << "\n";

  // The error names the cause: a value that backward needs was changed in place.
  Tensor z = x * 1.0;
  const Tensor product = z * z;
  z.add_(1);
  try {
    product.sum().backward();
  } catch (const Error& error) {
    std::cout << "error: " << error.what() << "\n";
  }
}

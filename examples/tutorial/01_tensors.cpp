// Chapter 1: tensors. A tensor is an n-dimensional array with a dtype and a device; views share memory.
#include <tendril/tendril.h>

#include <iostream>

using namespace tendril;

int main() {
  // Tensors are made from values, by a rule, or at random. The seed determines all random numbers.
  manual_seed(1);
  const Tensor a = tensor({{1.0f, 2.0f, 3.0f}, {4.0f, 5.0f, 6.0f}});
  const Tensor r = randn({2, 3});
  std::cout << "a is " << a.sizes() << " of " << a.dtype() << "\n" << a << "\n";
  std::cout << "zeros, arange, random: " << zeros({2, 2}).sizes() << " " << arange(4).sizes() << " " << r.sizes()
            << "\n";

  // Arithmetic is elementwise; dimensions that are missing or of size one are repeated (broadcasting).
  const Tensor row = tensor({10.0f, 20.0f, 30.0f});
  std::cout << "a + row:\n" << a + row << "\n";
  std::cout << "a * a.sum(1, keepdim):\n" << a * a.sum(1, true) << "\n";

  // A view shares its tensor's elements: nothing is copied, and a change is visible through every view.
  Tensor b = a.clone();
  Tensor column = b.select(1, 0);
  column.mul_(100);  // a method whose name ends with _ works in place
  std::cout << "b, after its first column was multiplied by 100 through a view:\n" << b << "\n";
  std::cout << "b.t() is " << b.t().sizes() << " with strides " << b.t().strides() << "\n";

  // Indexing: numbers, ranges, masks.
  b[{0, slice(1, 3)}] = -1.0f;
  std::cout << "b, after b[0, 1:3] = -1:\n" << b << "\n";
  std::cout << "elements above 50: " << b[{b > 50}] << "\n";

  // Matrix products, and sums over shared indices.
  std::cout << "a @ a.t():\n" << a.matmul(a.t()) << "\n";
  std::cout << "the same by einsum: " << einsum("ik,jk->ij", {a, a}).sizes() << "\n";

  // An error names the operation and its arguments.
  try {
    a.matmul(a);
  } catch (const Error& error) {
    std::cout << "error: " << error.what() << "\n";
  }
  // item() returns the value of a tensor with one element.
  std::cout << "mean of a: " << a.mean().item<float>() << "\n";
}

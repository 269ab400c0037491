// Chapter 0: reverse-mode differentiation in one file of plain C++, without Tendril.
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <valarray>
#include <vector>

// ---- Numbers: a matrix in row-major order. A valarray has the elementwise arithmetic.
struct Matrix {
  std::size_t rows, cols;
  std::valarray<double> at = std::valarray<double>(rows * cols);
  double& operator()(std::size_t i, std::size_t j) { return at[i * cols + j]; }
  double operator()(std::size_t i, std::size_t j) const { return at[i * cols + j]; }
};
Matrix product(const Matrix& a, const Matrix& b) {
  Matrix out{a.rows, b.cols};
  for (std::size_t i = 0; i < a.rows; ++i)
    for (std::size_t j = 0; j < b.cols; ++j)
      for (std::size_t k = 0; k < a.cols; ++k) out(i, j) += a(i, k) * b(k, j);
  return out;
}
Matrix transposed(const Matrix& a) {
  Matrix out{a.cols, a.rows};
  for (std::size_t i = 0; i < a.rows; ++i)
    for (std::size_t j = 0; j < a.cols; ++j) out(j, i) = a(i, j);
  return out;
}

// ---- The record: one node per result, with its inputs and the function from its gradient to theirs.
struct Node {
  Matrix value, gradient;
  long number;  // a result is created after its inputs, so its number is larger
  std::vector<std::shared_ptr<Node>> inputs;
  std::function<std::vector<Matrix>(const Matrix& g)> backward;  // d(loss)/d(this) to d(loss)/d(each input)
};
using Value = std::shared_ptr<Node>;
Value record(Matrix value, std::vector<Value> inputs = {}, decltype(Node::backward) backward = {}) {
  static long made = 0;
  const Matrix zero{value.rows, value.cols};
  return std::make_shared<Node>(Node{std::move(value), zero, ++made, std::move(inputs), std::move(backward)});
}

// ---- The engine: newest node first, so that a node runs after every node that used it. A loop, not a recursion.
void backward(const Value& loss) {
  loss->gradient(0, 0) = 1;
  std::map<long, Node*, std::greater<>> waiting{{loss->number, loss.get()}};
  while (!waiting.empty()) {
    Node& node = *waiting.extract(waiting.begin()).mapped();
    if (!node.backward) continue;  // a leaf
    const std::vector<Matrix> gradients = node.backward(node.gradient);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      node.inputs[i]->gradient.at += gradients[i].at;  // an input that is used twice receives the sum
      waiting.emplace(node.inputs[i]->number, node.inputs[i].get());
    }
  }
}

// ---- Operations: compute a value now, and record how to differentiate it later.
Value matmul(const Value& a, const Value& b) {
  return record(product(a->value, b->value), {a, b}, [a, b](const Matrix& g) {
    return std::vector{product(g, transposed(b->value)), product(transposed(a->value), g)};
  });
}

Value add(const Value& a,
          const Value& b) {  // b may have one row, which is repeated (broadcast), so its gradients are summed
  const bool repeats = b->value.rows < a->value.rows;
  const Matrix ones{a->value.rows, 1, std::valarray(1.0, a->value.rows)};
  const Matrix out{ones.rows, b->value.cols, a->value.at + (repeats ? product(ones, b->value) : b->value).at};
  return record(out, {a, b}, [ones, repeats](const Matrix& g) {
    return std::vector{g, repeats ? product(transposed(ones), g) : g};
  });
}

Value tanh(const Value& a) {
  const Matrix out{a->value.rows, a->value.cols, std::tanh(a->value.at)};
  return record(out, {a}, [y = out.at](const Matrix& g) {
    return std::vector{Matrix{g.rows, g.cols, g.at * (1.0 - y * y)}};
  });
}

Value mean_square(const Value& a, const Matrix& target) {
  const Matrix off{target.rows, target.cols, a->value.at - target.at};
  return record(Matrix{1, 1, {(off.at * off.at).sum() / static_cast<double>(off.rows)}}, {a}, [off](const Matrix& g) {
    return std::vector{Matrix{off.rows, off.cols, off.at * (2 * g(0, 0) / static_cast<double>(off.rows))}};
  });
}

int main() {
  // A network with one hidden layer learns a sine from 100 points.
  std::mt19937 random(1);
  Matrix x{100, 1}, y{100, 1}, w1{1, 16}, b1{1, 16}, w2{16, 1}, b2{1, 1};
  for (std::size_t i = 0; i < 100; ++i) y(i, 0) = std::sin(2 * (x(i, 0) = 0.04 * (static_cast<double>(i) - 50)));
  for (Matrix* m : {&w1, &b1, &w2})
    for (double& w : m->at) w = std::normal_distribution<double>(0, 0.5)(random);
  const std::vector<Value> parameters{record(w1), record(b1), record(w2), record(b2)};
  const auto loss = [&] {
    const Value hidden = tanh(add(matmul(record(x), parameters[0]), parameters[1]));
    const Value more = add(hidden, tanh(add(hidden, parameters[1])));  // hidden receives both gradients
    return mean_square(add(matmul(more, parameters[2]), parameters[3]), y);
  };
  backward(loss());
  double worst = 0;  // a gradient is right if it agrees with finite differences
  for (const Value& p : parameters)
    for (std::size_t i = 0; i < p->value.at.size(); ++i) {
      const auto moved = [&](double by) { return p->value.at[i] += by, loss()->value(0, 0); };
      worst = std::max(worst, std::abs((moved(1e-6) - moved(-1e-6)) / 1e-6 - p->gradient.at[i]));
    }
  std::printf("gradients agree with differences: %s\n", worst < 1e-5 ? "yes" : "no");
  for (int epoch = 0; epoch <= 2000; ++epoch) {
    for (const Value& p : parameters) p->gradient.at = 0;
    const Value now = loss();
    backward(now);
    for (const Value& p : parameters) p->value.at -= 0.03 * p->gradient.at;
    if (epoch % 500 == 0) std::printf("epoch %4d: loss %.4f\n", epoch, now->value(0, 0));
  }
}

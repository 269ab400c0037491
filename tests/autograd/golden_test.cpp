// devices: cpu cuda
// Composite expressions against PyTorch's values, first and second derivatives (tests/autograd/golden.py).
#include "tests/golden.h"

#include <boost/test/unit_test.hpp>

#include "tendril/autograd/backward.h"
#include "tendril/autograd/ops/join.h"
#include "tendril/autograd/ops/matmul.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/autograd/ops/softmax.h"
#include "tendril/tensor/creation.h"

BOOST_AUTO_TEST_SUITE(golden)

using namespace tendril;

namespace {

using Tensors = std::vector<Tensor>;

void check(const std::string& name, const std::function<Tensor(const Tensors&)>& f) {
  static const testing::Golden golden(TENDRIL_TEST_DATA "/expressions.txt");
  Tensors x;
  for (int i = 0; golden.has(name + ".x" + std::to_string(i)); ++i) {
    x.push_back(golden.get(name + ".x" + std::to_string(i)).requires_grad_());
  }
  BOOST_REQUIRE(!x.empty());
  const Tensor y = f(x);
  BOOST_TEST(testing::difference(y, golden.get(name + ".y"), 1e-12, 1e-13) == "");
  const Tensors first = autograd::grad({y}, x, {golden.get(name + ".g")}, true, true);
  Tensor squares = zeros({}, {.dtype = kFloat64});
  for (std::size_t i = 0; i < x.size(); ++i) {
    BOOST_TEST(testing::difference(first[i], golden.get(name + ".dx" + std::to_string(i)), 1e-11, 1e-12) == "",
               "first " << i);
    squares = squares + (first[i] * first[i]).sum();
  }
  const Tensors second = autograd::grad({squares}, x, {}, false, false, true);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const Tensor got = second[i].defined() ? second[i] : zeros_like(x[i]);
    BOOST_TEST(testing::difference(got, golden.get(name + ".ddx" + std::to_string(i)), 1e-10, 1e-11) == "",
               "second " << i);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_perceptron) {
  check("mlp", [](const Tensors& x) { return (x[0].matmul(x[1].t()) + x[2]).tanh().matmul(x[3]); });
  check("mlp", [](const Tensors& x) { return linear(x[0], x[1], x[2]).tanh().matmul(x[3]); });
}

BOOST_AUTO_TEST_CASE(attention) {
  check("attention",
        [](const Tensors& x) { return softmax(x[0].matmul(x[1].transpose(-2, -1)) / 2.0, -1).matmul(x[2]); });
}

BOOST_AUTO_TEST_CASE(layer_norm) {
  check("layer_norm", [](const Tensors& x) {
    return (x[0] - x[0].mean({-1}, true)) / (x[0].var({-1}, false, true) + 1e-5).sqrt() * x[1] + x[2];
  });
}

BOOST_AUTO_TEST_CASE(cross_entropy) {
  check("cross_entropy", [](const Tensors& x) {
    return -log_softmax(x[0], 1).gather(1, tensor({{2}, {0}, {1}})).mean();
  });
}

BOOST_AUTO_TEST_CASE(sums_along_dimensions) {
  check("logsumexp", [](const Tensors& x) { return logsumexp(x[0] * x[0], 0) - cumsum(x[0], 0)[1]; });
}

BOOST_AUTO_TEST_CASE(pieces_put_together) {
  check("pieces", [](const Tensors& x) {
    const Tensor rows = x[0].slice(0, 0, 1) * x[0].slice(0, 1, 2);
    const Tensor block = stack(x[0].unbind(1), 0).slice(0, 0, 2).slice(1, 1).exp().reshape({1, -1}).slice(1, 0, 3);
    return cat({rows, block});
  });
}

BOOST_AUTO_TEST_CASE(changes_in_place) {
  check("in_place", [](const Tensors& x) {
    Tensor y = x[0] * 2;
    Tensor row = y[0], column = y.select(1, 1);
    row.mul_(x[1]);
    column.add_(y.select(1, 0).exp(), 0.5);
    y.clamp_(-1.5, 6.0);
    return y.t() * x[1].sum();
  });
}

BOOST_AUTO_TEST_CASE(powers_and_angles) {
  check("powers",
        [](const Tensors& x) { return x[0].pow(x[1]) + x[1].atan2(x[0]) - x[0].log1p() * x[1].abs().sqrt(); });
}

BOOST_AUTO_TEST_CASE(activations) {
  check("activations", [](const Tensors& x) {
    return x[0].gelu() * x[0].silu() + x[0].softplus() / (1 + x[0].sigmoid()) - x[0].erf();
  });
}

BOOST_AUTO_TEST_CASE(selection) {
  check("selection", [](const Tensors& x) {
    const Tensor largest = std::get<0>(x[0].max(1, true));
    return where(x[0] > x[1], x[0] * x[1], x[1].masked_fill(x[1] > 1, 0.5) * largest);
  });
}

BOOST_AUTO_TEST_CASE(rows_by_index) {
  check("embedding", [](const Tensors& x) {
    const Tensor picked = x[0].index_select(0, tensor({2, 0, 2, 1})).square().sum({1});
    const Tensor added = zeros({4}, {.dtype = kFloat64}).index_add(0, tensor({1, 1, 3}), x[0].select(1, 0).pow(3));
    return picked + added;
  });
}

BOOST_AUTO_TEST_SUITE_END()

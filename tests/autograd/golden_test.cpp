// Composite expressions against PyTorch's values, first and second derivatives (tests/autograd/golden.py).
#include "tests/golden.h"

#include <boost/test/unit_test.hpp>

#include "tendril/autograd/backward.h"
#include "tendril/autograd/ops/einsum.h"
#include "tendril/autograd/ops/indexing.h"
#include "tendril/autograd/ops/join.h"
#include "tendril/autograd/ops/matmul.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/autograd/ops/rearrange.h"
#include "tendril/autograd/ops/scan.h"
#include "tendril/autograd/ops/softmax.h"
#include "tendril/autograd/ops/sort.h"
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
  const Tensors first = autograd::grad({y}, x, {golden.get(name + ".g")}, {.create_graph = true});
  Tensor squares = zeros({}, {.dtype = kFloat64});
  for (std::size_t i = 0; i < x.size(); ++i) {
    BOOST_TEST(testing::difference(first[i], golden.get(name + ".dx" + std::to_string(i)), 1e-11, 1e-12) == "",
               "first " << i);
    squares = squares + (first[i] * first[i]).sum();
  }
  const Tensors second = autograd::grad({squares}, x, {}, {.allow_unused = true});
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

namespace {

/// What only moves elements has no second derivative to compare.
Tensors squares(const Tensors& all) {
  Tensors result;
  for (const Tensor& x : all) result.push_back(x * x);
  return result;
}

/// One behind the other.
Tensor joined(const Tensors& parts) {
  Tensors flat;
  for (const Tensor& part : parts) flat.push_back(part.reshape({-1}));
  return cat(flat);
}

}  // namespace

BOOST_AUTO_TEST_CASE(several_dimensions_at_once) {
  const Tensor mask = tensor({true, false, true});
  check("indexing", [&](const Tensors& given) {
    const Tensors x = squares(given);
    return joined({x[0][{tensor({{1}, {-1}}), tensor({0, 2})}], x[0][{slice(1, {}), None, mask}],
                   x[0][{tensor({2, 2, 0}), slice(), tensor({1, 0, 1})}]});
  });
  check("writing", [&](const Tensors& given) {
    const Tensors x = squares(given);
    Tensor z = x[0] * 1;
    z[{tensor({2, 0}), slice(1, {})}] = x[1];
    z[{mask}] *= 2;
    z[{Ellipsis, 0}] = x[1][0][0];
    return z.scatter(0, tensor({{1, 0, 2}}), x[1][{slice(0, 1), slice(0, 1)}].expand({1, 3}).square());
  });
}

BOOST_AUTO_TEST_CASE(by_index_and_along_a_dimension_in_place) {
  check("written_by_index", [](const Tensors& given) {
    const Tensors both = squares(given);
    const Tensor &x = both[0], &y = both[1];
    Tensor z = x * 1;
    z.scatter_(1, tensor({{3, 0}, {1, 2}}), y);
    z.scatter_(0, tensor({{2, 0, 1, 0}}), 0.5);
    z.scatter_add_(1, tensor({{3, 3}, {1, 1}}), y);
    z.index_add_(1, tensor({0, 0}), cat({y, y.slice(0, 0, 1)}));
    const Tensor w = z.index_fill(0, tensor({1, 1}), 2.5) * z.index_copy(0, tensor({2, 0}), cat({y, y * y}, 1));
    z.index_fill_(1, tensor({2}), -1.5).index_copy_(1, tensor({3, 1}), cat({y, y.slice(0, 1)}));
    z.cumsum_(1).mul_(w).cumprod_(0);
    return stack({z.clone().tril_(), z.clone().triu_(1), z});
  });
}

BOOST_AUTO_TEST_CASE(elements_in_other_places) {
  check("rearranging", [](const Tensors& given) {
    const Tensor x = squares(given)[0];
    const auto grids = meshgrid({x[0][0], x[1].select(1, 0)});
    return joined({flip(x, {0, 2}), roll(x, 2, 1), roll(x, 5), repeat(x, {2, 1, 1, 2}), tile(x, {3}),
                   repeat_interleave(x, 2, 1), pad(x, {1, -1, 0, 2}, PadMode::constant, 2.0),
                   pad(x, {2, 1}, PadMode::reflect), pad(x, {3, 1}, PadMode::replicate),
                   pad(x, {1, 2}, PadMode::circular), tril(x, 1), triu(x, -1), diag(x[0][0], -2), diag(x[1], 1),
                   diagonal(x, -1, 2, 0), movedim(x, 0, -1), grids[0], grids[1]});
  });
  check("ordering", [](const Tensors& given) {
    const Tensors x = squares(given);
    return joined({std::get<0>(sort(x[0], 1, true)), std::get<0>(topk(x[0], 2, 0)), std::get<0>(kthvalue(x[0], 3, 1)),
                   std::get<0>(median(x[0], 0)), median(x[0])});
  });
}

BOOST_AUTO_TEST_CASE(products_and_norms) {
  check("products", [](const Tensors& x) { return joined({x[0].prod(1), x[0].cumprod(0), x[0].prod()}); });
  check("running", [](const Tensors& in) {
    const Tensor& x = in[0];
    const Tensor mask = tensor({{1., 1., 0., 1.}, {1., 1., 1., 0.}, {0., 1., 0., 1.}}, {.dtype = kFloat64});
    const Tensor with_zeros = x * mask;
    return cat({with_zeros.cumprod(0), with_zeros.cumprod(1), std::get<0>(x.cummax(1)), std::get<0>(x.cummin(0)),
                x.logcumsumexp(1), with_zeros.prod(1, true).expand({3, 4}),
                with_zeros.narrow(0, 1, 2).prod(0).expand({1, 4})});
  });
  check("norms", [](const Tensors& x) {
    return stack({x[0].norm(), x[0].norm(1), x[0].norm(3), x[0].norm(INFINITY), x[0].norm(2, {0}).sum(),
                  x[0].norm(0.5, {1}).prod()});
  });
  check("einsum", [](const Tensors& x) {
    return einsum("...ij,...jk,k->...ki", x) + einsum("bii->b", {x[0][{Ellipsis, slice({}, 2)}]}).sum() +
           baddbmm(x[2], x[0], x[1], 0.5, 2).sum() + einsum("i,j", {x[2], x[2]}).sum();
  });
}

BOOST_AUTO_TEST_SUITE_END()

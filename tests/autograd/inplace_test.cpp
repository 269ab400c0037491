// The matrix of in-place operations and views: each case equals its out-of-place form. inplace_refused_test.cpp has
// what is refused.
#include "tendril/autograd/backward.h"
#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/history.h"
#include "tendril/autograd/ops/join.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/creation.h"
#include "tests/autograd/inplace_cases.h"
#include "tests/autograd/raises.h"
#include "tests/golden.h"

BOOST_AUTO_TEST_SUITE(inplace)

using namespace tendril;
using namespace inplace_cases;

namespace {

/// Value and both gradients of some function of a leaf and another.
std::vector<Tensor> outcome(const std::function<Tensor(const Tensor&, const Tensor&)>& f) {
  const Tensor x = leaf(), w = other_leaf();
  const Tensor y = f(x, w);
  const Tensor loss = (y * y * 0.5).sum() + (x * 0).sum() + (w * 0).sum();
  auto gradients = autograd::grad({loss}, {x, w});
  return {y.detach(), gradients[0], gradients[1]};
}

void check_same(const std::string& what, const std::function<Tensor(const Tensor&, const Tensor&)>& in_place,
                const std::function<Tensor(const Tensor&, const Tensor&)>& out_of_place) {
  const auto got = outcome(in_place), expected = outcome(out_of_place);
  for (std::size_t i = 0; i < got.size(); ++i) {
    BOOST_TEST_CONTEXT(what << ", result " << i) {
      BOOST_TEST(testing::difference(got[i], expected[i], 1e-12, 1e-12) == "");
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(on_an_intermediate_result_each_equals_its_out_of_place_form) {
  for (const Change& change : changes()) {
    check_same(
        change.name,
        [&](const Tensor& x, const Tensor& w) {
          Tensor y = x * 3;
          change.in_place(y, w);
          return y;
        },
        [&](const Tensor& x, const Tensor& w) { return change.out_of_place(x * 3, w); });
  }
}

BOOST_AUTO_TEST_CASE(on_a_plain_tensor_it_makes_the_tensor_part_of_the_graph) {
  for (const Change& change : changes()) {
    check_same(
        change.name,
        [&](const Tensor& x, const Tensor& w) {
          Tensor y = x.detach() * 3;
          BOOST_TEST(!y.requires_grad());
          change.in_place(y, w);
          return y;
        },
        [&](const Tensor& x, const Tensor& w) { return change.out_of_place(x.detach() * 3, w); });
  }
}

BOOST_AUTO_TEST_CASE(through_a_view_the_base_changes_as_if_it_were_put_together_anew) {
  for (const Part& part : parts()) {
    for (const Change& change : changes()) {
      check_same(
          std::string(change.name) + " on " + part.name,
          [&](const Tensor& x, const Tensor& w) {
            Tensor base = x * 3;
            Tensor view = part.see(base);
            change.in_place(view, part.see(w));
            return base;
          },
          [&](const Tensor& x, const Tensor& w) {
            const Tensor base = x * 3;
            return part.replace(base, change.out_of_place(part.see(base), part.see(w)));
          });
    }
  }
}

BOOST_AUTO_TEST_CASE(the_changed_view_itself_has_the_new_history) {
  for (const Part& part : parts()) {
    for (const Change& change : changes()) {
      check_same(
          std::string(change.name) + " on " + part.name,
          [&](const Tensor& x, const Tensor& w) {
            Tensor view = part.see(x * 3);
            change.in_place(view, part.see(w));
            return view;
          },
          [&](const Tensor& x, const Tensor& w) { return change.out_of_place(part.see(x * 3), part.see(w)); });
    }
  }
}

BOOST_AUTO_TEST_CASE(older_views_see_changes_of_the_base_and_of_their_siblings) {
  for (const Part& part : parts()) {
    check_same(
        std::string("base, seen by ") + part.name,
        [&](const Tensor& x, const Tensor& w) {
          Tensor base = x * 3;
          Tensor view = part.see(base);
          base.mul_(w);
          return view;
        },
        [&](const Tensor& x, const Tensor& w) { return part.see(x * 3 * w); });
    check_same(
        std::string("sibling, seen by ") + part.name,
        [&](const Tensor& x, const Tensor& w) {
          Tensor base = x * 3;
          Tensor view = part.see(base);
          Tensor row = base[0];
          row.mul_(w[1]);
          return view;
        },
        [&](const Tensor& x, const Tensor& w) {
          return part.see(stack({(x * 3)[0] * w[1], (x * 3)[1]}));
        });
  }
}

BOOST_AUTO_TEST_CASE(changes_follow_one_another) {
  check_same(
      "a chain",
      [](const Tensor& x, const Tensor& w) {
        Tensor base = x * 3;
        Tensor row = base[0], column = base.select(1, 2);
        row.mul_(w[0]);
        column.add_(w.select(1, 1));
        base.relu_();
        row.sub_(1);
        return base + row;
      },
      [](const Tensor& x, const Tensor& w) {
        Tensor base = x * 3;
        base = stack({base[0] * w[0], base[1]});
        base = cat({base.slice(1, 0, 2), (base.select(1, 2) + w.select(1, 1)).unsqueeze(1)}, 1);
        base = base.relu();
        base = stack({base[0] - 1, base[1]});
        return base + base[0];
      });
}

BOOST_AUTO_TEST_CASE(an_expanded_view_of_a_changed_base_sums_its_gradient) {
  check_same(
      "expand",
      [](const Tensor& x, const Tensor& w) {
        Tensor base = x[0] * 3;
        const Tensor wide = base.expand({2, 3});
        base.mul_(w[0]);
        return wide * w;
      },
      [](const Tensor& x, const Tensor& w) {
        return (x[0] * 3 * w[0]).expand({2, 3}) * w;
      });
}

BOOST_AUTO_TEST_CASE(an_expanded_view_of_a_changed_base_has_a_gradient_of_its_own_shape) {
  const auto stale = [](const Tensor& x) {
    Tensor base = x[0] * 1;
    Tensor wide = base.expand({4, 3});
    base.mul_(2);
    return wide;
  };
  Tensor x = leaf();
  autograd::backward({stale(x)}, {ones({4, 3}, {.dtype = kFloat64})});  // itself a root
  BOOST_TEST(x.grad().to_vector<double>() == std::vector<double>({8, 8, 8, 0, 0, 0}));

  const Tensor asked = stale(x), kept = stale(x);
  BOOST_TEST(autograd::grad({(asked * 3).sum()}, {asked})[0].sizes() == Dims({4, 3}));
  kept.retain_grad();
  kept.sum().backward();
  BOOST_TEST(kept.grad().sizes() == Dims({4, 3}));
}

BOOST_AUTO_TEST_CASE(what_a_constant_overwrites_stays_in_the_graph_with_a_gradient_of_zero) {
  const std::vector<std::pair<const char*, std::function<void(Tensor&)>>> overwrites = {
      {"zero_", [](Tensor& y) { y.zero_(); }},
      {"fill_", [](Tensor& y) { y.fill_(3); }},
      {"copy_", [](Tensor& y) { y.copy_(ones({3}, {.dtype = kFloat64})); }},
      {"zero_ of a view of all", [](Tensor& y) { y.view({6}).zero_(); }},
      {"masked_fill_", [](Tensor& y) { y.masked_fill_(ones({3}, {.dtype = kBool}), 3); }}};
  for (const auto& [name, overwrite] : overwrites) {
    BOOST_TEST_CONTEXT(name) {
      const Tensor x = leaf();
      Tensor y = x * 2;
      overwrite(y);
      BOOST_TEST(y.requires_grad());
      BOOST_TEST(!y.is_leaf());
      y.sum().backward();
      BOOST_REQUIRE(x.grad().defined());
      BOOST_TEST(x.grad().to_vector<double>() == std::vector<double>(6, 0.0));
    }
  }
}

BOOST_AUTO_TEST_CASE(what_another_tensor_overwrites_has_a_gradient_of_zero) {
  const Tensor x = leaf(), w = other_leaf();
  Tensor y = x * 2;
  y.copy_(w);
  y.sum().backward();
  BOOST_REQUIRE(x.grad().defined());
  BOOST_TEST(x.grad().to_vector<double>() == std::vector<double>(6, 0.0));
  BOOST_TEST(w.grad().to_vector<double>() == std::vector<double>(6, 1.0));
}

BOOST_AUTO_TEST_CASE(empty_views_anywhere_are_differentiated_twice) {
  const std::vector<std::pair<const char*, std::function<Tensor(const Tensor&)>>> views = {
      {"the end of the rows", [](const Tensor& x) { return x.slice(0, 2); }},
      {"the end of the columns", [](const Tensor& x) { return x.slice(1, 3); }},
      {"the end of the transpose", [](const Tensor& x) { return x.t().slice(0, 3); }},
      {"the end of a part", [](const Tensor& x) { return x.slice(0, 1).slice(1, 3); }},
      {"the end of an end", [](const Tensor& x) { return x.slice(0, 2).slice(1, 3); }},
      {"a part of nothing", [](const Tensor& x) { return x.slice(0, 2).slice(1, 1, 2); }},
      {"a column of nothing", [](const Tensor& x) { return x.slice(0, 2).select(1, 2); }},
      {"a narrow one", [](const Tensor& x) { return x.narrow(1, 3, 0); }}};
  for (const auto& [name, see] : views) {
    for (const bool changed : {false, true}) {
      BOOST_TEST_CONTEXT(name << (changed ? ", of a changed base" : "")) {
        const Tensor x = leaf();
        Tensor base = x * 3;
        const Tensor view = see(base);
        if (changed) base.mul_(2);
        const Tensor loss = (view * view * view).sum() + (base * base).sum() * 0.5;
        const Tensor g = autograd::grad({loss}, {x}, {}, {.create_graph = true})[0];
        const double scale = changed ? 36 : 9;
        BOOST_TEST(testing::difference(g, x * scale, 1e-12, 1e-12) == "");
        const Tensor gg = autograd::grad({(g * g).sum() * 0.5}, {x}, {}, {.create_graph = true})[0];
        BOOST_TEST(testing::difference(gg, x * (scale * scale), 1e-12, 1e-12) == "");
        if (changed) continue;
        Tensor part = see(base);
        part.mul_(2);
        const Tensor after = autograd::grad({(part * part).sum() + base.sum()}, {x}, {}, {.create_graph = true})[0];
        BOOST_TEST(testing::difference(after, full({2, 3}, 3, {.dtype = kFloat64}), 1e-12) == "");
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(gradients_that_are_empty_parts_of_empty_tensors_are_differentiated_twice) {
  // The gradient of a part of a stack is a view: here one that begins behind the end of a storage of nothing.
  for (const bool changed : {false, true}) {
    const Tensor x = leaf();
    Tensor part = x.slice(0, 2) * 2;
    if (changed) part.select(1, 1).mul_(3);
    const Tensor joined = stack({x.slice(0, 2), part}, 0);
    const Tensor loss = (joined * joined).sum() + (x * x).sum() * 0.5;
    const Tensor g = autograd::grad({loss}, {x}, {}, {.create_graph = true})[0];
    const Tensor gg = autograd::grad({(g * g).sum() * 0.5}, {x})[0];
    BOOST_TEST(testing::difference(gg, x, 1e-12) == "");
  }
}

BOOST_AUTO_TEST_CASE(a_plain_base_joins_the_graph_through_its_view) {
  Tensor buffer = zeros({2, 3}, {.dtype = kFloat64});
  const Tensor older = buffer[0];
  const Tensor x = leaf();
  Tensor row = buffer[0];
  row.copy_(x[1]);
  BOOST_TEST(buffer.requires_grad());
  BOOST_TEST(older.requires_grad());
  BOOST_TEST(autograd::grad_fn(buffer)->name() == std::string("CopySlices"));
  (older * 2).sum().backward();
  BOOST_TEST(x.grad().to_vector<double>() == std::vector<double>({0, 0, 0, 2, 2, 2}));
}

BOOST_AUTO_TEST_SUITE_END()

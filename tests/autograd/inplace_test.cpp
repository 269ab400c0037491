// devices: cpu cuda
// The matrix of in-place operations and views: each legal case equals its out-of-place form, each illegal one says why.
#include <fstream>
#include <regex>
#include <sstream>

#include "tendril/autograd/backward.h"
#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/history.h"
#include "tendril/autograd/ops/join.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/creation.h"
#include "tests/autograd/raises.h"
#include "tests/golden.h"

BOOST_AUTO_TEST_SUITE(inplace)

using namespace tendril;

namespace {

Tensor leaf() { return tensor({{0.5, -1.5, 2.}, {1., 3., -0.5}}, {.dtype = kFloat64, .requires_grad = true}); }
Tensor other_leaf() { return tensor({{1.5, 0.5, -2.}, {2., -1., 4.}}, {.dtype = kFloat64, .requires_grad = true}); }

struct Change {
  const char* name;
  std::function<void(Tensor&, const Tensor&)> in_place;
  std::function<Tensor(const Tensor&, const Tensor&)> out_of_place;
};

const std::vector<Change>& changes() {
  static const std::vector<Change> all = {
      {"add_", [](Tensor& x, const Tensor& w) { x.add_(w); }, [](const Tensor& x, const Tensor& w) { return x + w; }},
      {"add_ alpha", [](Tensor& x, const Tensor& w) { x.add_(w, 0.5); },
       [](const Tensor& x, const Tensor& w) { return x + w * 0.5; }},
      {"sub_", [](Tensor& x, const Tensor& w) { x.sub_(w); }, [](const Tensor& x, const Tensor& w) { return x - w; }},
      {"mul_", [](Tensor& x, const Tensor& w) { x.mul_(w); }, [](const Tensor& x, const Tensor& w) { return x * w; }},
      {"div_", [](Tensor& x, const Tensor& w) { x.div_(w); }, [](const Tensor& x, const Tensor& w) { return x / w; }},
      {"+=", [](Tensor& x, const Tensor& w) { x += w; }, [](const Tensor& x, const Tensor& w) { return x + w; }},
      {"-=", [](Tensor& x, const Tensor& w) { x -= w; }, [](const Tensor& x, const Tensor& w) { return x - w; }},
      {"*=", [](Tensor& x, const Tensor& w) { x *= w; }, [](const Tensor& x, const Tensor& w) { return x * w; }},
      {"/=", [](Tensor& x, const Tensor& w) { x /= w; }, [](const Tensor& x, const Tensor& w) { return x / w; }},
      {"copy_", [](Tensor& x, const Tensor& w) { x.copy_(w); },
       [](const Tensor& x, const Tensor& w) { return x * 0 + w; }},
      {"add_ number", [](Tensor& x, const Tensor&) { x.add_(2); },
       [](const Tensor& x, const Tensor&) { return x + 2; }},
      {"sub_ number", [](Tensor& x, const Tensor&) { x.sub_(2); },
       [](const Tensor& x, const Tensor&) { return x - 2; }},
      {"mul_ number", [](Tensor& x, const Tensor&) { x.mul_(2); },
       [](const Tensor& x, const Tensor&) { return x * 2; }},
      {"div_ number", [](Tensor& x, const Tensor&) { x.div_(2); },
       [](const Tensor& x, const Tensor&) { return x / 2; }},
      {"relu_", [](Tensor& x, const Tensor&) { x.relu_(); }, [](const Tensor& x, const Tensor&) { return x.relu(); }},
      {"clamp_", [](Tensor& x, const Tensor&) { x.clamp_(-1, 2); },
       [](const Tensor& x, const Tensor&) { return x.clamp(-1, 2); }},
      {"masked_fill_", [](Tensor& x, const Tensor& w) { x.masked_fill_(w.detach() > 0, 3); },
       [](const Tensor& x, const Tensor& w) { return x.masked_fill(w.detach() > 0, 3); }},
      {"fill_", [](Tensor& x, const Tensor&) { x.fill_(3); }, [](const Tensor& x, const Tensor&) { return x * 0 + 3; }},
      {"zero_", [](Tensor& x, const Tensor&) { x.zero_(); }, [](const Tensor& x, const Tensor&) { return x * 0; }},
  };
  return all;
}

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

/// Ways to see a part of a [2, 3] tensor, and the tensor with that part replaced, without writing.
struct Part {
  const char* name;
  std::function<Tensor(const Tensor&)> see;
  std::function<Tensor(const Tensor& base, const Tensor& part)> replace;
};

const std::vector<Part>& parts() {
  static const std::vector<Part> all = {
      {"all by view",
       [](const Tensor& x) {
         return x.view({3, 2});
       },
       [](const Tensor&, const Tensor& part) {
         return part.reshape({2, 3});
       }},
      {"a row", [](const Tensor& x) { return x[1]; },
       [](const Tensor& base, const Tensor& part) {
         return stack({base[0], part});
       }},
      {"a column", [](const Tensor& x) { return x.select(1, 0); },
       [](const Tensor& base, const Tensor& part) {
         return cat({part.unsqueeze(1), base.slice(1, 1)}, 1);
       }},
      {"a slice", [](const Tensor& x) { return x.slice(1, 1); },
       [](const Tensor& base, const Tensor& part) {
         return cat({base.slice(1, 0, 1), part}, 1);
       }},
      {"every other column", [](const Tensor& x) { return x.slice(1, 0, INT64_MAX, 2); },
       [](const Tensor& base, const Tensor& part) {
         return cat({part.slice(1, 0, 1), base.slice(1, 1, 2), part.slice(1, 1)}, 1);
       }},
      {"the transpose", [](const Tensor& x) { return x.t(); },
       [](const Tensor&, const Tensor& part) { return part.t(); }},
      {"a view of a view", [](const Tensor& x) { return x.t().slice(0, 1, 2).squeeze(0).unsqueeze(1); },
       [](const Tensor& base, const Tensor& part) {
         return cat({base.slice(1, 0, 1), part, base.slice(1, 2)}, 1);
       }},
  };
  return all;
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
          const Tensor view = part.see(base);
          base.mul_(w);
          return view;
        },
        [&](const Tensor& x, const Tensor& w) { return part.see(x * 3 * w); });
    check_same(
        std::string("sibling, seen by ") + part.name,
        [&](const Tensor& x, const Tensor& w) {
          Tensor base = x * 3;
          const Tensor view = part.see(base);
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
    const Tensor wide = base.expand({4, 3});
    base.mul_(2);
    return wide;
  };
  Tensor x = leaf();
  autograd::backward({stale(x)}, {ones({4, 3}, {.dtype = kFloat64})});  // itself a root
  BOOST_TEST(x.grad().to_vector<double>() == std::vector<double>({8, 8, 8, 0, 0, 0}));

  const Tensor asked = stale(x), kept = stale(x);
  BOOST_TEST(autograd::grad({(asked * 3).sum()}, {asked})[0].sizes() == Dims({4, 3}));
  Tensor retaining = kept;
  retaining.retain_grad();
  retaining.sum().backward();
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

BOOST_AUTO_TEST_CASE(a_leaf_that_requires_a_gradient_is_not_changed) {
  for (const Change& change : changes()) {
    Tensor x = leaf();
    BOOST_TEST_CONTEXT(change.name) {
      CHECK_RAISES(AutogradError, "a leaf Variable that requires grad is being used in an in-place operation.",
                   change.in_place(x, other_leaf()));
      BOOST_TEST(x.version() == 0);
      BOOST_TEST(testing::difference(x, leaf(), 0) == "");
    }
  }
}

BOOST_AUTO_TEST_CASE(nor_is_a_view_of_one) {
  for (const Part& part : parts()) {
    for (const Change& change : changes()) {
      const Tensor x = leaf();
      Tensor view = part.see(x);
      BOOST_TEST_CONTEXT(change.name << " on " << part.name) {
        CHECK_RAISES(AutogradError,
                     "a view of a leaf Variable that requires grad is being used in an in-place operation.",
                     change.in_place(view, part.see(other_leaf())));
        BOOST_TEST(x.version() == 0);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(under_no_grad_leaves_may_be_changed) {
  for (const Change& change : changes()) {
    Tensor x = leaf();
    const NoGrad no_grad;
    change.in_place(x, other_leaf());
    BOOST_TEST(x.version() == 1);
    BOOST_TEST(x.is_leaf());
    BOOST_TEST(x.requires_grad());
    BOOST_TEST(testing::difference(x, change.out_of_place(leaf(), other_leaf()), 1e-15) == "");
    Tensor row = x[0];
    row.zero_();
  }
}

BOOST_AUTO_TEST_CASE(one_of_several_views_is_not_changed) {
  const Tensor w = other_leaf();
  for (const Change& change : changes()) {
    const Tensor x = leaf() * 2;
    Tensor part = x.unbind()[1];
    CHECK_RAISES(AutogradError,
                 "Output 1 of UnbindBackward is a view and is being modified inplace. This view is the output of a "
                 "function that returns multiple views. Such functions do not allow the output views to be modified "
                 "inplace. You should replace the inplace operation by an out-of-place one.",
                 change.in_place(part, w[0]));
    Tensor half = x.split(1)[0];
    CHECK_RAISES(AutogradError, "Output 0 of SplitBackward is a view", change.in_place(half, w.slice(0, 0, 1)));
    Tensor inner = x.chunk(2)[1][0];
    CHECK_RAISES(AutogradError, "returns multiple views", change.in_place(inner, w[0]));
    BOOST_TEST(x.version() == 0);
  }
}

BOOST_AUTO_TEST_CASE(a_view_made_without_recording_is_not_changed_while_recording) {
  const Tensor x = leaf() * 2;
  Tensor view;
  {
    const NoGrad no_grad;
    view = x[0];
    view.add_(1);
  }
  CHECK_RAISES(AutogradError,
               "A view was created in no_grad mode and is being modified inplace with grad mode enabled.",
               view.mul_(other_leaf()[0]));
}

BOOST_AUTO_TEST_CASE(an_expanded_tensor_is_not_written_to) {
  Tensor wide = ones({1, 3}).expand({2, 3});
  CHECK_RAISES(Error, "more than one element of the written-to tensor refers to a single memory location",
               wide.add_(1));
  CHECK_RAISES(Error, "Please clone() the tensor", wide.zero_());
}

BOOST_AUTO_TEST_CASE(shapes_and_dtypes_must_fit_the_target) {
  Tensor x = ones({3});
  CHECK_RAISES(ShapeError, "output with shape [3] doesn't match the broadcast shape [2, 3]", x.add_(ones({2, 3})));
  CHECK_RAISES(ShapeError, "output with shape [3] doesn't match the broadcast shape [2, 3]",
               x.requires_grad_().clone().mul_(ones({2, 3})));
  Tensor n = arange(3);
  CHECK_RAISES(DTypeError, "result type float32 can't be cast to the desired output type int64", n.add_(ones({3})));
  CHECK_RAISES(DTypeError, "int64", n.mul_(tensor({1.5, 2., 3.}, {.requires_grad = true})));
  BOOST_TEST(n.version() == 0);
}

BOOST_AUTO_TEST_CASE(multiples_of_integers_are_added_and_subtracted) {
  for (const DType dtype : {kInt64, kInt32, kUInt8}) {
    Tensor x = tensor({10, 20}).to(dtype);
    const Tensor y = tensor({3, 4}).to(dtype);
    x.add_(y, 2);
    BOOST_TEST((x.to_vector<int64_t>() == std::vector<int64_t>{16, 28}));
    x.sub_(y, 3);
    BOOST_TEST((x.to_vector<int64_t>() == std::vector<int64_t>{7, 16}));
    CHECK_RAISES(DTypeError, "add_: alpha is 0.5, expected an integer", x.add_(y, 0.5));
    CHECK_RAISES(DTypeError, "sub_: alpha is -1", x.sub_(y, 1.0));
    BOOST_TEST((x.to_vector<int64_t>() == std::vector<int64_t>{7, 16}));
  }
  Tensor large = tensor({0});
  large.add_(tensor({1}), (int64_t{1} << 62) + 1);  // a double would not hold it
  BOOST_TEST(large.item<int64_t>() == (int64_t{1} << 62) + 1);
  Tensor mixed = ones({2});
  mixed.add_(tensor({3, 4}), 2);
  BOOST_TEST(mixed.to_vector<float>() == std::vector<float>({7, 9}));
}

BOOST_AUTO_TEST_CASE(an_operand_of_higher_precision_keeps_the_dtype_of_the_target) {
  const Tensor x = tensor({1., 2.}, {.requires_grad = true});
  const Tensor w = tensor({3., 4.}, {.dtype = kFloat64, .requires_grad = true});
  Tensor y = x * 1;
  y.mul_(w);
  BOOST_TEST((y.dtype() == kFloat32));
  y.sum().backward();
  BOOST_TEST(x.grad().to_vector<float>() == std::vector<float>({3, 4}));
  BOOST_TEST(w.grad().to_vector<double>() == std::vector<double>({1, 2}));
}

// Each row of the table, so that none can be without: the value is the operation's, converted.
BOOST_AUTO_TEST_CASE(every_row_of_the_table_has_its_form_in_place) {
  int rows = 0;
  const auto same = [&](const char* name, const Tensor& changed, const Tensor& version, const Tensor& expected) {
    ++rows;
    BOOST_TEST_CONTEXT(name) {
      BOOST_TEST(changed.is_same(version));
      BOOST_TEST(testing::difference(changed, expected.to(changed.dtype()), 1e-15, 1e-15) == "");
    }
  };
  const Tensor x = tensor({0.25, 0.0, 0.75}, {.dtype = kFloat64}), y = tensor({0.5, 0.25, -0.5}, {.dtype = kFloat64});
  const Tensor bits = tensor({5, 0, -3}), other = tensor({3, 2, 1});
#define TENDRIL_UNARY(op, ...)       \
  {                                  \
    const Tensor z = x.clone();      \
    same(#op, z.op##_(), z, x.op()); \
  }
#define TENDRIL_PREDICATE(op, ...) TENDRIL_UNARY(op)
#define ROW_OF_TWO(op, x, y)                       \
  {                                                \
    const Tensor z = x.clone(), w = x.clone();     \
    same(#op, z.op##_(y), z, x.op(y));             \
    same(#op " a number", w.op##_(1), w, x.op(1)); \
  }
#define TENDRIL_BINARY(op, ...) ROW_OF_TWO(op, x, y)
#define TENDRIL_COMPARE(op, ...) ROW_OF_TWO(op, x, y)
#define TENDRIL_INTEGRAL(op, ...) ROW_OF_TWO(op, bits, other)
#include "tendril/tensor/pointwise.def"
  BOOST_TEST(rows > 80);
}

// And the pointwise methods that are no rows: they stand before the products in tensor.h.
BOOST_AUTO_TEST_CASE(every_other_pointwise_method_has_its_form_in_place) {
  std::ifstream file(TENDRIL_TEST_DATA "/../../../tensor/tensor.h");
  std::ostringstream stream;
  stream << file.rdbuf();
  const std::string text = stream.str();
  const std::size_t begin = text.find("#include \"tendril/tensor/pointwise.def\""), end = text.find("Tensor matmul(");
  BOOST_REQUIRE((begin < end && end != std::string::npos));
  const std::string part = text.substr(begin, end - begin);
  const std::regex method("Tensor (\\w+)\\(");
  int count = 0;
  for (std::sregex_iterator match(part.begin(), part.end(), method), none; match != none; ++match, ++count) {
    const std::string name = (*match)[1];
    if (name == "where" || name == "isclose") continue;  // PyTorch has none either
    BOOST_TEST(text.find("const Tensor& " + name + "_(") != std::string::npos, name << " has no form in place");
  }
  BOOST_TEST(count >= 3);
}

BOOST_AUTO_TEST_CASE(questions_in_place_write_0_and_1_and_pass_no_gradient) {
  const Tensor x = leaf();
  const Tensor y = x * 0;
  y.logical_not_();
  BOOST_TEST(y.to_vector<double>() == std::vector<double>(6, 1));
  (y * x).sum().backward();
  BOOST_TEST(x.grad().to_vector<double>() == std::vector<double>(6, 1));
  BOOST_TEST(tensor({6, 0, -1}).bitwise_not_().to_vector<int64_t>() == std::vector<int64_t>({-7, -1, 0}));
  BOOST_TEST(tensor({true, false}).bitwise_not_().to_vector<bool>() == std::vector<bool>({false, true}));
}

BOOST_AUTO_TEST_SUITE_END()

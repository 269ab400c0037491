#include "tendril/autograd/engine.h"

#include <cmath>

#include "tendril/autograd/anomaly.h"
#include "tendril/autograd/backward.h"
#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/history.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/creation.h"
#include "tests/autograd/leaves.h"
#include "tests/autograd/raises.h"

BOOST_AUTO_TEST_SUITE(engine)

using namespace tendril;
using autograd::Edge;
using autograd::gradient_edge;
using autograd::GraphTask;
using testing::leaf;
using testing::Values;
using testing::values;

namespace {

/// Keeps what arrives, in order.
struct Recorder : autograd::GradientSink {
  std::vector<std::pair<Edge, Tensor>> received;
  void accumulate(const Edge& target, Tensor gradient) override { received.emplace_back(target, std::move(gradient)); }
};

}  // namespace

BOOST_AUTO_TEST_CASE(gradients_add_up_over_uses_and_over_runs) {
  const Tensor x = leaf({1, 2});
  (x * x + x).sum().backward();
  BOOST_TEST(values(x.grad()) == Values({3, 5}));
  (x * 2).sum().backward();
  BOOST_TEST(values(x.grad()) == Values({5, 7}));
}

BOOST_AUTO_TEST_CASE(whoever_holds_the_gradient_sees_the_sum) {
  const Tensor x = leaf({1, 2});
  (x * 2).sum().backward();
  const Tensor held = x.grad();
  (x * 3).sum().backward();
  BOOST_TEST(values(held) == Values({5, 5}));
}

BOOST_AUTO_TEST_CASE(the_given_gradient_is_not_written_to) {
  const Tensor x = leaf({1, 2});
  const Tensor g = tensor({1., 1.}, {.dtype = kFloat64});
  const Tensor y = x.clone();
  y.backward(g, {.retain_graph = true});
  y.backward(g);
  BOOST_TEST(values(g) == Values({1, 1}));
  BOOST_TEST(values(x.grad()) == Values({2, 2}));
}

BOOST_AUTO_TEST_CASE(a_second_backward_needs_retain_graph) {
  const Tensor x = leaf({3});
  const Tensor y = (x * x).sum();
  y.backward({.retain_graph = true});
  y.backward();
  BOOST_TEST(values(x.grad()) == Values({12}));
  CHECK_RAISES(AutogradError, "Trying to backward through the graph a second time", y.backward());
  CHECK_RAISES(AutogradError, "MulBackward", y.backward());
}

BOOST_AUTO_TEST_CASE(what_saved_nothing_can_run_again) {
  const Tensor x = leaf({3});
  const Tensor y = (x + 1).sum();
  y.backward();
  y.backward();
  BOOST_TEST(values(x.grad()) == Values({2}));
}

BOOST_AUTO_TEST_CASE(options_have_names) {
  Tensor x = leaf({3});
  const Tensor y = x * x;
  autograd::backward({y}, {}, {.retain_graph = true});
  y.backward(leaf({2}), {.retain_graph = true});
  y.backward({}, {.retain_graph = true});
  BOOST_TEST(values(x.grad()) == Values({24}));
  x.set_grad({});
  y.backward({.create_graph = true});
  BOOST_TEST(x.grad().requires_grad());
  x.set_grad({});  // which held the graph
}

BOOST_AUTO_TEST_CASE(create_graph_lets_gradients_be_differentiated) {
  const Tensor x = leaf({2});
  const Tensor y = x * x * x;
  const Tensor first = autograd::grad({y}, {x}, {}, {.create_graph = true})[0];
  BOOST_TEST(values(first) == Values({12}));
  const Tensor second = autograd::grad({first}, {x}, {}, {.create_graph = true})[0];
  BOOST_TEST(values(second) == Values({12}));
  BOOST_TEST(values(autograd::grad({second}, {x})[0]) == Values({6}));
}

BOOST_AUTO_TEST_CASE(without_create_graph_gradients_have_no_history) {
  const Tensor x = leaf({2});
  (x * x).backward();
  BOOST_TEST(!x.grad().requires_grad());
}

BOOST_AUTO_TEST_CASE(grad_leaves_the_leaves_alone) {
  const Tensor x = leaf({2}), w = leaf({5});
  const auto gradients = autograd::grad({x * w}, {x});
  BOOST_TEST(values(gradients[0]) == Values({5}));
  BOOST_TEST(!x.grad().defined());
  BOOST_TEST(!w.grad().defined());
}

BOOST_AUTO_TEST_CASE(grad_may_be_asked_for_an_intermediate_result) {
  const Tensor x = leaf({2});
  const Tensor y = x * 3, z = y * y;
  const auto gradients = autograd::grad({z}, {y, x, y});
  BOOST_TEST(values(gradients[0]) == Values({12}));
  BOOST_TEST(values(gradients[1]) == Values({36}));
  BOOST_TEST(values(gradients[2]) == Values({12}));
}

BOOST_AUTO_TEST_CASE(grad_of_a_tensor_by_itself_is_one) {
  const Tensor x = leaf({2});
  BOOST_TEST(values(autograd::grad({x}, {x})[0]) == Values({1}));
  const Tensor y = x * 2;
  BOOST_TEST(values(autograd::grad({y}, {y})[0]) == Values({1}));
}

BOOST_AUTO_TEST_CASE(grad_runs_only_what_leads_to_its_inputs) {
  const Tensor x = leaf({2}), w = leaf({1});
  const Tensor side = w.sqrt();
  const Tensor y = x * 2 + side;
  autograd::grad({y}, {x});
  side.backward();  // still has what it saved
  BOOST_TEST(values(w.grad()) == Values({0.5}));
}

BOOST_AUTO_TEST_CASE(an_unused_input_is_an_error_unless_allowed) {
  const Tensor x = leaf({2}), w = leaf({5});
  CHECK_RAISES(AutogradError, "appears to not have been used in the graph", autograd::grad({x * 2}, {x, w}));
  const auto gradients = autograd::grad({x * 2}, {x, w}, {}, {.allow_unused = true});
  BOOST_TEST(values(autograd::grad({x * 2}, {x, w}, {}, {.materialize_grads = true})[1]) == Values({0}));
  BOOST_TEST(values(gradients[0]) == Values({2}));
  BOOST_TEST(!gradients[1].defined());
}

BOOST_AUTO_TEST_CASE(bad_requests_are_refused) {
  const Tensor x = leaf({1, 2});
  const Tensor constant = tensor({1., 2.}, {.dtype = kFloat64});
  CHECK_RAISES(AutogradError, "element 0 of tensors does not require grad and does not have a grad_fn",
               constant.sum().backward());
  CHECK_RAISES(AutogradError, "grad can be implicitly created only for scalar outputs", (x * 2).backward());
  CHECK_RAISES(ShapeError, "Mismatch in shape: grad_output[0] has a shape of [3] and output[0] has a shape of [2]",
               (x * 2).backward(tensor({1., 1., 1.}, {.dtype = kFloat64})));
  CHECK_RAISES(DTypeError, "Mismatch in dtype", (x * 2).backward(ones({2})));
  CHECK_RAISES(AutogradError, "One of the differentiated Tensors does not require grad",
               autograd::grad({x.sum()}, {constant}));
  CHECK_RAISES(AutogradError, "grad requires non-empty inputs", autograd::grad({x.sum()}, {}));
  CHECK_RAISES(AutogradError, "got 1 tensors and 2 gradients", autograd::backward({x.sum()}, {{}, {}}));
  BOOST_TEST(!x.grad().defined());
}

BOOST_AUTO_TEST_CASE(several_roots_run_as_one) {
  const Tensor x = leaf({1, 2});
  const Tensor y = x * x;
  autograd::backward({y.sum(), (y * 2).sum()});
  BOOST_TEST(values(x.grad()) == Values({6, 12}));
}

BOOST_AUTO_TEST_CASE(one_tensor_may_be_a_root_twice) {
  const Tensor x = leaf({1});
  const Tensor y = x * 3;
  autograd::backward({y, y, x});
  BOOST_TEST(values(x.grad()) == Values({7}));
}

BOOST_AUTO_TEST_CASE(broadcasting_is_undone) {
  const Tensor x = leaf({1, 2, 3});
  const Tensor scale = leaf({2});
  const Tensor y = x.reshape({3, 1}) * ones({1, 4}, {.dtype = kFloat64}) * scale;
  y.sum().backward();
  BOOST_TEST(values(x.grad()) == Values({8, 8, 8}));
  BOOST_TEST(values(scale.grad()) == Values({24}));
}

BOOST_AUTO_TEST_CASE(gradients_get_the_dtype_of_their_tensor) {
  const Tensor x = tensor({1., 2.}, {.dtype = kFloat32, .requires_grad = true});
  const Tensor w = leaf({3, 4});
  (x * w).sum().backward();
  BOOST_TEST((x.grad().dtype() == kFloat32));
  BOOST_TEST((w.grad().dtype() == kFloat64));
  BOOST_TEST(x.grad().to_vector<float>() == std::vector<float>({3, 4}));
}

BOOST_AUTO_TEST_CASE(integer_operands_have_no_gradient_and_are_no_error) {
  const Tensor x = leaf({1, 2});
  const Tensor n = tensor({3, 4});
  (x * n).sum().backward();
  BOOST_TEST(values(x.grad()) == Values({3, 4}));
  BOOST_TEST(!(n + n).requires_grad());
  BOOST_TEST(!(x.to(kInt64)).requires_grad());
}

BOOST_AUTO_TEST_CASE(unused_parts_of_a_split_count_as_zero) {
  const Tensor x = leaf({1, 2, 3});
  const auto parts = x.unbind();
  (parts[1] * 5).backward();
  BOOST_TEST(values(x.grad()) == Values({0, 5, 0}));
}

BOOST_AUTO_TEST_CASE(nothing_is_recorded_under_no_grad) {
  const Tensor x = leaf({1});
  {
    const NoGrad no_grad;
    BOOST_TEST(!(x * 2).requires_grad());
    {
      const EnableGrad again;
      BOOST_TEST((x * 2).requires_grad());
    }
    BOOST_TEST(!(x * 2).requires_grad());
  }
  BOOST_TEST((x * 2).requires_grad());
}

BOOST_AUTO_TEST_CASE(a_nan_gradient_is_reported_with_the_name_of_the_operation) {
  const Tensor x = leaf({0});
  const autograd::DetectAnomaly detect;
  CHECK_RAISES(AutogradError, "Function 'SqrtBackward' returned nan values in its 0th output.",
               (x.sqrt() * 0).backward());
}

BOOST_AUTO_TEST_CASE(a_sink_gets_each_leaf_once_with_its_whole_gradient) {
  const Tensor x = leaf({1, 2}), w = leaf({3, 4});
  const Tensor y = (x * w + x * 2).sum();
  Recorder sink;
  GraphTask task({gradient_edge(y)}, sink);
  task.add_root(gradient_edge(y), ones({}, {.dtype = kFloat64}));
  BOOST_TEST(task.run());
  BOOST_TEST(sink.received.size() == 2);
  for (const auto& [target, gradient] : sink.received) {
    BOOST_TEST(target.node->is_leaf());
    const bool is_x = target == gradient_edge(x);
    BOOST_TEST(values(gradient) == (is_x ? Values({5, 6}) : Values({1, 2})));
  }
  BOOST_TEST(!x.grad().defined());
}

BOOST_AUTO_TEST_CASE(roots_may_be_fed_one_after_the_other) {
  const Tensor x = leaf({3});
  const Tensor shared = x * x, a = shared * 2, b = shared * 5;
  Recorder sink;
  GraphTask task({gradient_edge(a), gradient_edge(b)}, sink);
  BOOST_TEST(!task.run());
  const Tensor one = tensor({1.}, {.dtype = kFloat64});
  task.add_root(gradient_edge(b), one);
  BOOST_TEST(!task.run());
  BOOST_TEST(sink.received.empty());  // `shared` waits for a
  task.add_root(gradient_edge(a), one);
  BOOST_TEST(!task.finished());
  BOOST_TEST(task.run());
  BOOST_TEST(task.finished());
  BOOST_TEST(values(sink.received.at(0).second) == Values({42}));
}

BOOST_AUTO_TEST_CASE(an_undefined_root_gradient_counts_as_zero) {
  const Tensor x = leaf({3}), w = leaf({1});
  const Tensor a = x * 2, b = w * 5;
  Recorder sink;
  GraphTask task({gradient_edge(a), gradient_edge(b)}, sink);
  task.add_root(gradient_edge(a), {});
  task.add_root(gradient_edge(b), tensor({1.}, {.dtype = kFloat64}));
  BOOST_TEST(task.run());
  BOOST_TEST(sink.received.size() == 1);
  BOOST_TEST((sink.received[0].first == gradient_edge(w)));
}

BOOST_AUTO_TEST_CASE(roots_that_were_not_declared_or_do_not_fit_are_refused) {
  const Tensor x = leaf({3});
  const Tensor a = x * 2, b = x * 5;
  Recorder sink;
  GraphTask task({gradient_edge(a)}, sink);
  const Tensor one = tensor({1.}, {.dtype = kFloat64});
  CHECK_RAISES(AutogradError, "not declared", task.add_root(gradient_edge(b), one));
  CHECK_RAISES(ShapeError, "the gradient of a root has shape [1, 1]",
               task.add_root(gradient_edge(a), one.reshape({1, 1})));
  CHECK_RAISES(DTypeError, "the gradient of a root is float32", task.add_root(gradient_edge(a), ones({1})));
  task.add_root(gradient_edge(a), one);
  CHECK_RAISES(AutogradError, "fed before", task.add_root(gradient_edge(a), one));
  BOOST_TEST(task.run());
}

BOOST_AUTO_TEST_CASE(a_second_run_through_the_same_nodes_is_refused_while_the_first_goes_on) {
  const Tensor x = leaf({3});
  const Tensor shared = x * x, a = shared * 2, b = shared * 5;
  Recorder sink;
  {
    const GraphTask first({gradient_edge(a)}, sink);
    CHECK_RAISES(AutogradError, "is part of another backward run", GraphTask({gradient_edge(b)}, sink));
    CHECK_RAISES(AutogradError, "MulBackward", b.backward());
  }
  b.backward();  // the first one is gone
  BOOST_TEST(values(x.grad()) == Values({30}));
}

BOOST_AUTO_TEST_CASE(tasks_may_share_leaves) {
  const Tensor x = leaf({3});
  const Tensor a = x * 2, b = x * 5;
  Recorder sink;
  GraphTask first({gradient_edge(a)}, sink);
  b.backward();
  first.add_root(gradient_edge(a), tensor({1.}, {.dtype = kFloat64}));
  BOOST_TEST(first.run());
  BOOST_TEST(values(x.grad()) == Values({5}));
  BOOST_TEST(values(sink.received.at(0).second) == Values({2}));
}

BOOST_AUTO_TEST_CASE(an_error_ends_the_task_and_frees_the_graph_for_others) {
  const Tensor x = leaf({3});
  Tensor y = x * x;
  const Tensor z = y.exp();
  y.add_(1);  // z does not need y, but...
  Tensor e = z * 1;
  const Tensor out = e * e;
  e.add_(1);  // ...out needs e
  Recorder sink;
  GraphTask task({gradient_edge(out)}, sink);
  task.add_root(gradient_edge(out), tensor({1.}, {.dtype = kFloat64}));
  CHECK_RAISES(AutogradError, "modified by an inplace operation", task.run());
  CHECK_RAISES(AutogradError, "run after an error", task.run());
  z.backward();
  BOOST_TEST(values(x.grad())[0] == 6 * std::exp(9.0), boost::test_tools::tolerance(1e-12));
}

BOOST_AUTO_TEST_CASE(the_node_recorded_last_runs_first) {
  const Tensor x = leaf({1});
  const Tensor a = x * 2, b = a * 3, c = b * 4;
  std::vector<std::string> order;
  Recorder sink;
  GraphTask task({gradient_edge(a), gradient_edge(b), gradient_edge(c)}, sink);
  BOOST_TEST(autograd::grad_fn(a)->sequence_number() < autograd::grad_fn(b)->sequence_number());
  const Tensor one = tensor({1.}, {.dtype = kFloat64});
  for (const Tensor& root : {a, b, c}) task.add_root(gradient_edge(root), one);
  BOOST_TEST(task.run());
  BOOST_TEST(values(sink.received.at(0).second) == Values({2 + 6 + 24}));
}

BOOST_AUTO_TEST_CASE(a_graph_without_elements_runs) {
  const Tensor x = zeros({0, 3}, {.dtype = kFloat64, .requires_grad = true});
  (x * 2).sum().backward();
  BOOST_TEST((x.grad().sizes() == Dims{0, 3}));
}

BOOST_AUTO_TEST_CASE(a_dropped_root_is_not_waited_for_and_what_only_it_reaches_stays_as_it_was) {
  const Tensor x = leaf({1, 2}), y = leaf({3, 4});
  const Tensor shared = x * x;
  const Tensor only = y * y;
  const Tensor used = shared.sum(), dropped = (shared * only).sum();
  Recorder sink;
  {
    GraphTask task({gradient_edge(used), gradient_edge(dropped)}, sink);
    task.add_root(std::size_t{0}, tensor(1., {.dtype = kFloat64}));
    BOOST_TEST(!task.run());
    BOOST_TEST(sink.received.empty());  // x's gradient waits for both
    task.drop_root(1);
    BOOST_TEST(task.run());
    BOOST_CHECK_THROW(task.drop_root(1), AutogradError);
    BOOST_CHECK_THROW(task.add_root(std::size_t{1}, Tensor()), AutogradError);
    BOOST_CHECK_THROW(task.drop_root(2), AutogradError);
  }
  BOOST_REQUIRE(sink.received.size() == 1);
  BOOST_TEST(values(sink.received[0].second) == Values({2, 4}));
  // Its saved tensors are there still.
  only.sum().backward();
  BOOST_TEST(values(y.grad()) == Values({6, 8}));
}

BOOST_AUTO_TEST_SUITE_END()

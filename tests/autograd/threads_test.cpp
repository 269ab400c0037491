#include <atomic>
#include <barrier>
#include <cmath>
#include <thread>

#include "tendril/autograd/backward.h"
#include "tendril/autograd/engine.h"
#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/history.h"
#include "tendril/autograd/ops/matmul.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/creation.h"
#include "tests/autograd/raises.h"

BOOST_AUTO_TEST_SUITE(threads)

using namespace tendril;

namespace {

/// Runs f(thread) on n threads at once.
template <class F>
void together(int n, F f) {
  std::barrier start(n);
  std::vector<std::thread> threads;
  for (int t = 0; t < n; ++t) {
    threads.emplace_back([&, t] {
      start.arrive_and_wait();
      f(t);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

BOOST_AUTO_TEST_CASE(threads_record_and_run_over_shared_parameters) {
  const Tensor w = ones({4, 4}, {.dtype = kFloat64, .requires_grad = true});
  const Tensor b = ones({4}, {.dtype = kFloat64, .requires_grad = true});
  constexpr int kThreads = 4, kSteps = 50;
  together(kThreads, [&](int t) {
    const Tensor x = full({2, 4}, t + 1, {.dtype = kFloat64});
    for (int i = 0; i < kSteps; ++i) linear(x, w, b).sum().backward();
  });
  BOOST_TEST(b.grad().to_vector<double>() == std::vector<double>(4, 2.0 * kThreads * kSteps));
  BOOST_TEST(w.grad().to_vector<double>() == std::vector<double>(16, 2.0 * (1 + 2 + 3 + 4) * kSteps));
}

BOOST_AUTO_TEST_CASE(views_of_changed_bases_are_read_by_several_threads_at_once) {
  constexpr int kThreads = 6, kViews = 200;
  const Tensor w = ones({4, 4}, {.dtype = kFloat64, .requires_grad = true});
  std::vector<Tensor> views, constants;
  for (int i = 0; i < kViews; ++i) {
    Tensor base = w * 2, plain = ones({4});
    views.push_back(i % 2 == 0 ? base[1] : base.t().slice(0, 1, 2).expand({3, 4}));
    constants.push_back(plain.view({2, 2}));
    base.mul_(3);
    plain.mul_(3);
  }
  std::atomic<int> right = 0;
  std::barrier next(kThreads);
  together(kThreads, [&](int t) {
    for (int i = 0; i < kViews; ++i) {
      next.arrive_and_wait();  // all at the same view, which none has seen since its base was changed
      const Tensor& view = views[static_cast<std::size_t>(i)];
      const Tensor& constant = constants[static_cast<std::size_t>(i)];
      bool good = !constant.requires_grad() && !(constant + 1).requires_grad();
      switch (t % 3) {
        case 0:
          good &= view.requires_grad() && !view.is_leaf();
          break;
        case 1:
          good &= (view * 2).requires_grad();
          break;
        default:
          good &= view.to_string().find("requires_grad=True") != std::string::npos;
      }
      good &= autograd::grad_fn(view)->name() == std::string("AsStridedBackward");
      right += good;
    }
  });
  BOOST_TEST(right == kThreads * kViews);
  for (const Tensor& view : views) view.sum().backward();
  BOOST_TEST(w.grad().sum().item<double>() == 6.0 * kViews / 2 * (4 + 12));
}

BOOST_AUTO_TEST_CASE(a_step_in_place_and_a_run_that_frees_what_lies_behind_it_may_meet) {
  const Tensor w = ones({4}, {.dtype = kFloat64, .requires_grad = true});
  for (int i = 0; i < 200; ++i) {
    Tensor trunk = w * 2;
    for (int j = 0; j < 10; ++j) trunk = trunk * w;
    Tensor own = trunk + 1;
    const Tensor product = own * trunk, owner = own;
    together(2, [&](int t) {
      if (t == 0) {
        trunk.sum().backward();
      } else {
        own.add_(product);  // looks for nodes that saved `own`
      }
    });
    BOOST_TEST(own.to_vector<double>()[0] == 9);
  }
}

BOOST_AUTO_TEST_CASE(captured_gradients_of_threads_do_not_mix) {
  const Tensor w = ones({3}, {.requires_grad = true});
  std::atomic<int> right = 0;
  together(4, [&](int t) {
    for (int i = 0; i < 50; ++i) {
      const auto gradients = autograd::grad({(w * static_cast<float>(t)).sum()}, {w});
      right += gradients[0].to_vector<float>() == std::vector<float>(3, static_cast<float>(t));
    }
  });
  BOOST_TEST(right == 200);
  BOOST_TEST(!w.grad().defined());
}

BOOST_AUTO_TEST_CASE(views_of_shared_parameters_may_be_taken_by_threads) {
  const Tensor w = ones({4, 2}, {.requires_grad = true});
  together(4, [&](int t) {
    for (int i = 0; i < 50; ++i) w.t().select(1, t).sum().backward();
  });
  BOOST_TEST(w.grad().to_vector<float>() == std::vector<float>(8, 50));
}

BOOST_AUTO_TEST_CASE(one_of_two_runs_through_the_same_nodes_is_refused_or_comes_later) {
  const Tensor x = ones({2}, {.requires_grad = true});
  const Tensor y = (x * x).exp().sum();
  std::atomic<int> done = 0, refused = 0;
  together(2, [&](int) {
    for (int i = 0; i < 200; ++i) {
      try {
        y.backward({.retain_graph = true});
        ++done;
      } catch (const AutogradError&) {
        ++refused;
      }
    }
  });
  BOOST_TEST(done + refused == 400);
  BOOST_TEST(done > 0);
  const double each = 2 * std::exp(1.0);
  BOOST_TEST(x.grad().to_vector<double>()[0] == each * done, boost::test_tools::tolerance(1e-4));
}

BOOST_AUTO_TEST_CASE(roots_come_from_any_thread_and_one_thread_runs_at_a_time) {
  const Tensor x = ones({1}, {.dtype = kFloat64, .requires_grad = true});
  constexpr int kRoots = 8;
  std::vector<Tensor> roots;
  std::vector<autograd::Edge> entries;
  const Tensor shared = x * 2;
  for (int i = 0; i < kRoots; ++i) {
    roots.push_back(shared * static_cast<double>(i));
    entries.push_back(autograd::gradient_edge(roots.back()));
  }
  autograd::GradSink sink;
  autograd::GraphTask task(entries, sink);
  std::atomic<int> finishers = 0;
  together(kRoots, [&](int t) {
    task.add_root(entries[static_cast<std::size_t>(t)], ones({1}, {.dtype = kFloat64}));
    if (task.run()) ++finishers;
  });
  BOOST_TEST(task.finished());
  BOOST_TEST(finishers >= 1);
  BOOST_TEST(x.grad().item<double>() == 2.0 * (kRoots - 1) * kRoots / 2);
}

BOOST_AUTO_TEST_CASE(a_graph_may_be_freed_by_another_thread) {
  Tensor y = ones({1}, {.requires_grad = true});
  for (int i = 0; i < 10000; ++i) y = y * 1.0;
  std::thread([mine = std::move(y)]() mutable { mine = {}; }).join();
}

BOOST_AUTO_TEST_CASE(recording_is_off_for_the_thread_that_said_so) {
  const NoGrad no_grad;
  bool other = false;
  std::thread([&] { other = autograd::grad_enabled(); }).join();
  BOOST_TEST(other);
  BOOST_TEST(!autograd::grad_enabled());
}

BOOST_AUTO_TEST_SUITE_END()

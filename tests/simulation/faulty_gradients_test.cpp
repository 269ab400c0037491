// Distributed backward passes with one fault at any moment of an iteration: each ends with the right gradients or an
// error, and no context is left.
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tendril/dist/autograd/backward.h"
#include "tendril/dist/autograd/container.h"
#include "tendril/dist/autograd/context.h"
#include "tendril/rpc/call.h"
#include "tendril/rpc/default_agent.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/group.h"
#include "tendril/tendril.h"
#include "tests/seed.h"
#include "tests/simulation/directed_fault.h"

BOOST_AUTO_TEST_SUITE(faulty_gradients)

namespace rpc = tendril::rpc;
using namespace std::chrono_literals;
using simulated::DirectedFault;
using tendril::Tensor;
using tendril::dist::autograd::Container;
using tendril::dist::autograd::Context;
using tendril::dist::autograd::Counters;

constexpr int kWorkers = 3;

// Shared by all workers.
bool over = false;
int late_calls = 0;
std::size_t contexts_of_late_call = 0;

Tensor times_itself(const Tensor& x) { return x * x; }
Tensor through_2(const Tensor& x) { return rpc::rpc_sync<&times_itself>(2, x * 2); }
Tensor late(const Tensor& x) {
  ++late_calls;
  contexts_of_late_call = static_cast<std::size_t>(Container::of(*rpc::default_agent())->counters().contexts);
  return x;
}
/// Does not wait for the call that it makes.
void call_and_forget(const Tensor& x) { rpc::rpc_async<&late>(2, x * 1); }

Tensor leaf() { return tendril::tensor({1.0, 2.0}, {.dtype = tendril::kFloat64, .requires_grad = true}); }

/// The outcome of one iteration of worker 0.
struct Outcome {
  bool right = false;
  std::string error, wrong;
  uint64_t segments = 0;
};

/// One iteration over three workers, in which worker 2's second result is not used.
void iterate(Outcome& outcome, std::chrono::milliseconds timeout) {
  const Tensor x = leaf();
  const rpc::CallOptions options{.timeout = timeout};
  const rpc::Clock::time_point start = rpc::Clock::now();
  try {
    const Context context;
    const Tensor y = rpc::rpc_sync<&through_2>(1, options, x);
    rpc::rpc_sync<&times_itself>(2, options, y);
    tendril::dist::autograd::backward(context, {y.sum()}, {.timeout = timeout});
    const Tensor gradient = tendril::dist::autograd::get_gradients(context).at(x);
    outcome.right = gradient.to_vector<double>() == std::vector<double>{8, 16};
    if (!outcome.right) outcome.wrong = "wrong gradients";
  } catch (const rpc::RpcError& e) {
    outcome.error = e.what();
  } catch (const tendril::AutogradError& e) {
    outcome.error = e.what();
  }
  // After a timeout, worker 0 waits until the others have left the pass, which the fault delays as well.
  if (rpc::Clock::now() - start > 3 * timeout + 600ms) outcome.wrong = "it took too long; ";
}

std::string left_here() {
  Counters left;
  for (int i = 0; i < 300; ++i) {
    left = Container::of(*rpc::default_agent())->counters();
    if (left.none()) return {};
    rpc::sleep_for(100ms);
  }
  return std::to_string(left.contexts) + " contexts, " + std::to_string(left.send_nodes) + " send nodes, " +
         std::to_string(left.recv_nodes) + " recv nodes, " + std::to_string(left.passes) + " passes";
}

/// Runs `program` on worker 0 while the others serve. Requires that nothing is left on workers other than `gone`.
template <class F>
void simulate(F program, int gone = -1) {
  over = false;
  std::map<int, std::string> left;
  const auto report =
      rpc::detail::simulate({.world_size = kWorkers, .seed = tendril::testing::test_seed()}, [&](rpc::WorkerId self) {
        rpc::InitOptions options;
        options.agent.ping_interval = 100ms;
        options.agent.liveness_timeout = options.agent.grace_period = 1000ms;
        rpc::init_rpc("w" + std::to_string(self), options);
        rpc::barrier(60s);
        if (self == 0) {
          program();
          over = true;
        }
        while (!over) rpc::sleep_for(10ms);
        left[self] = left_here();
        rpc::shutdown({.timeout = 20s, .accept_losses = true});
      });
  BOOST_TEST((report.end == rpc::SimulationReport::End::done), report.text());
  for (const auto& [self, what] : left)
    if (self != gone) BOOST_TEST(what == "", "w" << self << " ends with " << what);
}

struct Totals {
  int right = 0, errors = 0;
};

/// Repeats the iteration with the fault after 0, 1, 2, ... segments, until a run ends before the fault happens.
Totals visit_every_segment(DirectedFault fault, std::chrono::milliseconds timeout = 60s) {
  Totals totals;
  for (fault.segment = 0;; ++fault.segment) {
    BOOST_TEST_CONTEXT("segment " << fault.segment << ", " << fault.from << " to " << fault.to) {
      Outcome outcome;
      simulate(
          [&] {
            const simulated::ArmedFault armed(fault);
            iterate(outcome, timeout);
            outcome.segments = armed.segments();
          },
          fault.kind == DirectedFault::isolated ? fault.to : -1);
      BOOST_TEST(outcome.wrong == "", outcome.wrong << outcome.error);
      totals.right += outcome.right;
      totals.errors += !outcome.error.empty();
      if (outcome.segments < fault.segment) return totals;
    }
    BOOST_REQUIRE(fault.segment < 2000);
  }
}

constexpr std::pair<int, int> kPairs[] = {{0, 1}, {0, 2}, {1, 2}};

BOOST_AUTO_TEST_CASE(reset_at_any_segment_changes_nothing) {
  for (const auto& [a, b] : kPairs)
    BOOST_TEST(visit_every_segment({.kind = DirectedFault::reset, .from = a, .to = b}).errors == 0);
}

BOOST_AUTO_TEST_CASE(delay_at_any_segment_changes_nothing) {
  for (const auto& [a, b] : kPairs)
    for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)})
      BOOST_TEST(visit_every_segment({.kind = DirectedFault::late, .from = from, .to = to}).errors == 0);
}

BOOST_AUTO_TEST_CASE(segment_may_arrive_too_late) {
  Totals totals;
  for (const auto& [a, b] : kPairs)
    for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
      const Totals some = visit_every_segment({.kind = DirectedFault::late, .from = from, .to = to}, 100ms);
      totals.right += some.right;
      totals.errors += some.errors;
    }
  BOOST_TEST(totals.right > 0);
  BOOST_TEST(totals.errors > 0);
}

BOOST_AUTO_TEST_CASE(session_may_be_lost_at_any_segment) {
  for (const auto& [a, b] : kPairs)
    BOOST_TEST(visit_every_segment({.kind = DirectedFault::lost, .from = a, .to = b}).errors > 0);
}

BOOST_AUTO_TEST_CASE(host_may_be_lost_at_any_segment) {
  for (const int gone : {1, 2})
    BOOST_TEST(visit_every_segment({.kind = DirectedFault::isolated, .to = gone}).errors > 0);
}

BOOST_AUTO_TEST_CASE(late_request_does_not_restore_the_context) {
  late_calls = 0;
  int before_release = -1;
  simulate([&] {
    {
      const Context context;
      // The release overtakes this request, because large frames are sent in parts.
      rpc::rpc_sync<&call_and_forget>(1, tendril::ones({1 << 20}, {.dtype = tendril::kFloat64, .requires_grad = true}));
    }
    before_release = late_calls;
    rpc::sleep_for(10s);
  });
  BOOST_TEST(before_release == 0);
  BOOST_TEST(late_calls == 1);
  BOOST_TEST(contexts_of_late_call == 0);
}

BOOST_AUTO_TEST_SUITE_END()

// Spans of a backward in each worker's trace.
#include <array>
#include <fstream>
#include <map>

#include "tendril/rpc/threads/trace.h"
#include "tests/contains.h"
#include "tests/dist/group.h"
#include "tests/temporary_folder.h"

BOOST_AUTO_TEST_SUITE(pass_trace)

using namespace dist_test;
using rpc::detail::Trace;
using rpc::detail::TraceSpan;

Tensor twice(const Tensor& x) { return x * 2; }
Tensor summed(const Tensor& x) { return x.sum(); }

namespace {

/// Two workers, each with a trace in the test's folder.
struct Traced {
  tendril::testing::TemporaryFolder folder;
  std::array<std::shared_ptr<Trace>, 2> traces;
  Cluster cluster{2, {}, rpc::served_functions(), [this](Agent& agent) {
                    Container::attach(agent);
                    auto& trace = traces.at(static_cast<std::size_t>(agent.self().id));
                    trace =
                        std::make_shared<Trace>((folder / "trace.json").string(), agent.self(), agent.incarnation());
                    agent.set_trace(trace);
                  }};

  std::vector<TraceSpan> spans(int rank, TraceSpan::Kind kind) const {
    std::vector<TraceSpan> found;
    for (const auto& thread : traces.at(static_cast<std::size_t>(rank))->threads()) {
      for (const TraceSpan& span : thread.spans) {
        if (span.kind == kind) found.push_back(span);
      }
    }
    return found;
  }
  void settle() const {
    for (const int rank : {0, 1})
      BOOST_TEST(Cluster::eventually([&] { return Container::of(cluster[rank])->counters().none(); }));
  }
  std::string written() const {
    for (const auto& trace : traces) trace->write("pass_trace", {});
    std::ifstream in(folder / "trace.json");
    return {std::istreambuf_iterator<char>(in), {}};
  }
};

using tendril::test::contains;

}  // namespace

BOOST_AUTO_TEST_CASE(backward_is_traced_on_every_worker) {
  const Traced traced;
  {
    const Context context(traced.cluster[0]);
    const Tensor h = rpc::rpc_sync<&twice>(traced.cluster[0], 1, leaf({1, 2}));
    rpc::rpc_sync<&summed>(traced.cluster[0], 1, h);  // unused, so the pass must mark
    backward(context, {rpc::rpc_sync<&summed>(traced.cluster[0], 1, h * 3)}, {.timeout = 60s});
  }
  traced.settle();
  uint64_t pass = 0;
  for (const int rank : {0, 1}) {
    const auto parts = traced.spans(rank, TraceSpan::Kind::pass);
    BOOST_REQUIRE(parts.size() == 1U);
    BOOST_TEST(!parts[0].failed);
    BOOST_TEST(parts[0].peer == 0);
    BOOST_TEST((pass == 0 || parts[0].function == pass));
    pass = parts[0].function;
    for (const auto kind : {TraceSpan::Kind::graph, TraceSpan::Kind::walk}) {
      const auto slices = traced.spans(rank, kind);
      BOOST_TEST(!slices.empty());
      for (const TraceSpan& slice : slices) {
        BOOST_TEST(slice.function == pass);
        BOOST_TEST(slice.start_ns >= parts[0].start_ns);
        BOOST_TEST(slice.end_ns >= slice.start_ns);
      }
    }
  }
  const std::string text = traced.written();
  const std::string name = "backward " + std::to_string(pass) + " of rank 0\"";
  for (const std::string& part : {"{\"name\":\"" + name + ",\"ph\":\"b\"", "\"run the graph of " + name,
                                  "\"mark for " + name, std::string("ContextGradient"), std::string("ContextMark")})
    BOOST_TEST(contains(text, part), part);
}

BOOST_AUTO_TEST_CASE(failed_pass_is_traced_as_failed) {
  const Traced traced;
  {
    const Context context(traced.cluster[0]);
    const Tensor h = rpc::rpc_sync<&twice>(traced.cluster[0], 1, leaf({1, 2}));
    rpc::rpc_sync<&summed>(traced.cluster[0], 1, h);
    const Tensor loss = rpc::rpc_sync<&summed>(traced.cluster[0], 1, h * 3);
    // FAST never ends here. By the deadline, the pass has reached both workers.
    BOOST_CHECK_THROW(backward(context, {loss}, {.mode = Mode::fast, .timeout = 2s}), rpc::TimeoutError);
  }
  traced.settle();
  for (const int rank : {0, 1}) {
    const auto parts = traced.spans(rank, TraceSpan::Kind::pass);
    BOOST_REQUIRE(parts.size() == 1U);
    BOOST_TEST(parts[0].failed);
    BOOST_TEST(parts[0].peer == 0);
  }
}

BOOST_AUTO_TEST_SUITE_END()

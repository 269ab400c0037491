// Graphviz can parse the pictures of recorded graphs. Skipped if `dot` is not installed.
#include <cstdlib>
#include <fstream>

#include "examples/apps/graphs/graph_picture.h"
#include "tests/contains.h"
#include "tests/dist/group.h"
#include "tests/skip.h"
#include "tests/temporary_folder.h"

namespace dist_test {

Tensor of_a_thing(const Tensor& x) { return (x * 2).sum(); }

}  // namespace dist_test

namespace {

boost::test_tools::assertion_result has_dot(boost::unit_test::test_unit_id) {
  static const bool has = std::system("command -v dot >/dev/null") == 0;
  if (!has) tendril::testing::skip_suite("dot (Graphviz) is not installed");
  return has;
}

}  // namespace

BOOST_TEST_DECORATOR(*boost::unit_test::precondition(has_dot))
BOOST_AUTO_TEST_SUITE(graphviz)

using namespace dist_test;

BOOST_AUTO_TEST_CASE(dot_parses_the_graph_and_each_step) {
  const Group group(2);
  const Context context(group[0]);
  const Tensor x = leaf({0.5, 0.25});
  rpc::rpc_sync<&of_a_thing>(group[0], 1, x);  // unused, so SMART must mark and all kinds of steps occur
  const Tensor loss = rpc::rpc_sync<&of_a_thing>(group[0], 1, x * 3);
  const auto graph = dist::autograd::graph(context, {loss});
  const tendril::testing::TemporaryFolder folder;
  const std::string file = (folder / "out.dot").string(), canonical = (folder / "canonical.dot").string();
  const std::string drawn = examples::dot(graph) + examples::dot_steps(graph, Mode::smart);
  std::ofstream(file) << drawn;
  BOOST_TEST(std::system(("timeout 60 dot -Tcanon '" + file + "' >'" + canonical + "'").c_str()) == 0);
  std::ifstream in(canonical);
  const std::string read{std::istreambuf_iterator<char>(in), {}};
  const auto graphs = [](const std::string& text) {
    int count = 0;
    for (auto at = text.find("digraph {"); at != std::string::npos; at = text.find("digraph {", at + 1)) ++count;
    return count;
  };
  BOOST_TEST(graphs(drawn) > 3);
  BOOST_TEST(graphs(read) == graphs(drawn));
}

BOOST_AUTO_TEST_SUITE_END()

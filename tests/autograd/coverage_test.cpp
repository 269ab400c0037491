// No operation without samples: the nodes are read off the sources, the samples' graphs say which of them were
// recorded.
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "tests/autograd/samples/samples.h"

BOOST_AUTO_TEST_SUITE(coverage)

namespace {

const std::filesystem::path kSources = TENDRIL_TEST_DATA "/../../../autograd";

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Every "...Backward" (and CopySlices) that a source of autograd/ gives as a node's name.
std::set<std::string> declared_nodes() {
  std::set<std::string> names;
  const std::regex literal("\"([A-Z][A-Za-z0-9]*Backward|CopySlices)\"");
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kSources)) {
    if (!entry.is_regular_file()) continue;
    const std::string text = contents(entry.path());
    for (std::sregex_iterator match(text.begin(), text.end(), literal), end; match != end; ++match) {
      names.insert((*match)[1]);
    }
  }
  const auto add_from_table = [&](std::string op) {
    op[0] = static_cast<char>(std::toupper(op[0]));
    names.insert(op + "Backward");
  };
#define TENDRIL_UNARY(op, ...) add_from_table(#op);
#define TENDRIL_BINARY(op, ...) add_from_table(#op);
#define TENDRIL_INTEGRAL(...)
#include "tendril/tensor/pointwise.def"
#define TENDRIL_REDUCTION(op, ...) add_from_table(#op);
#include "tendril/tensor/reductions.def"
  return names;
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_node_is_recorded_by_some_sample) {
  std::set<std::string> seen;
  for (const auto& family : tendril::samples::families()) {
    for (const auto& sample : family.samples()) {
      for (const std::string& name : nodes_of(sample)) seen.insert(name);
    }
  }
  const std::set<std::string> declared = declared_nodes();
  BOOST_TEST(declared.size() > 60);
  for (const std::string& name : declared) {
    if (name == "ToDeviceBackward" && tendril::device_count(tendril::DeviceType::cuda) == 0) continue;
    BOOST_TEST(seen.contains(name), name << " has no sample in tests/autograd/samples");
  }
  for (const std::string& name : seen) {
    BOOST_TEST(declared.contains(name), name << " is recorded, but not found in the sources");
  }
}

BOOST_AUTO_TEST_CASE(every_node_type_has_a_name_that_the_first_test_sees) {
  int types = 0;  // in the sources, where each expansion of a table is one
  for (const auto& entry : std::filesystem::directory_iterator(kSources / "ops")) {
    const std::string text = contents(entry.path());
    const std::regex type(
        "(struct|class) (\\w+) (final )?: (public )?(autograd::)?(\\w*Node(Of)?<(?!Derived)|Node\\s*\\{)");
    for (std::sregex_iterator match(text.begin(), text.end(), type), end; match != end; ++match) {
      ++types;
      const std::string rest = text.substr(static_cast<std::size_t>(match->position()), 700);
      BOOST_TEST((rest.find("kName") != std::string::npos || rest.find("name() const") != std::string::npos),
                 (*match)[2] << " in " << entry.path() << " has no name");
    }
  }
  BOOST_TEST(types >= 45);
}

BOOST_AUTO_TEST_CASE(every_family_has_its_file_and_every_sample_three_shapes) {
  for (const auto& family : tendril::samples::families()) {
    BOOST_TEST(std::filesystem::exists(kSources / "ops" / (std::string(family.name) + ".cpp")));
    for (const auto& sample : family.samples()) BOOST_TEST(sample.shapes.size() >= 3, sample.name);
  }
}

BOOST_AUTO_TEST_SUITE_END()

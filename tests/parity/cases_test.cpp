// Programs over tensors beside PyTorch's results: the files of tests/parity/data, or of the folder that the environment
// variable TENDRIL_PARITY_CASES names (scripts/parity.sh fills one with fresh cases).
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

#include <unistd.h>

#include "tests/parity/check.h"

BOOST_AUTO_TEST_SUITE(cases)

using namespace tendril;
using parity::Case;

namespace {

std::vector<std::string> case_files() {
  const char* const folder = std::getenv("TENDRIL_PARITY_CASES");
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder ? folder : TENDRIL_TEST_DATA)) {
    if (entry.path().extension() == ".txt") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

const Case& simple_case() {
  static const std::vector<Case> cases = [] {
    const auto path = std::filesystem::temp_directory_path() / ("parity_" + std::to_string(::getpid()) + ".txt");
    std::ofstream(path) << "case of its own\n"
                           "%0 float32 [2] grad = 1 2\n"
                           "%1 = mul %0 3\n"
                           "%2 float32 [2] = 1 1\n"
                           "%3 = grad (%1) (%0) (%2)\n"
                           "? %1 float32 [2] grad = 3 6\n"
                           "? %3 float32 [2] any = 3 3\n";
    std::vector<Case> read = parity::read_cases(path.string());
    std::filesystem::remove(path);
    return read;
  }();
  return cases.at(0);
}

}  // namespace

BOOST_AUTO_TEST_CASE(agree_with_pytorch) {
  const std::vector<std::string> files = case_files();
  BOOST_TEST_REQUIRE(!files.empty());
  for (const std::string& file : files) {
    const std::vector<Case> cases = parity::read_cases(file);
    int wrong = 0;
    for (const Case& one : cases) {
      const std::string difference = parity::disagreement(one);
      wrong += !difference.empty();
      BOOST_TEST(difference == "", one.place << ": " << one.name << ": " << difference);
    }
    std::cout << std::filesystem::path(file).filename().string() << ": " << cases.size() << " cases, " << wrong
              << " disagree\n";
  }
}

BOOST_AUTO_TEST_CASE(a_wrong_value_is_found) {
  Case changed = simple_case();
  BOOST_TEST(parity::disagreement(changed) == "");
  changed.expected[1].values[1] = "3.0001";
  BOOST_TEST(parity::disagreement(changed) != "");
}

BOOST_AUTO_TEST_CASE(a_wrong_dtype_shape_or_requires_grad_is_found) {
  Case changed = simple_case();
  changed.expected[0].dtype = kFloat64;
  BOOST_TEST(parity::disagreement(changed) != "");
  changed = simple_case();
  changed.expected[0].sizes = {2, 1};
  BOOST_TEST(parity::disagreement(changed) != "");
  changed = simple_case();
  changed.expected[0].requires_grad = parity::RequiresGrad::no;
  BOOST_TEST(parity::disagreement(changed) != "");
}

BOOST_AUTO_TEST_CASE(a_missing_error_and_a_vanished_difference_are_found) {
  Case changed = simple_case();
  changed.raises = true;
  BOOST_TEST(parity::disagreement(changed) != "");
  changed = simple_case();
  changed.differs = "no reason";
  BOOST_TEST(parity::disagreement(changed) != "");
}

BOOST_AUTO_TEST_SUITE_END()

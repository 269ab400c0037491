#pragma once

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/example_program.h"

namespace tendril::test {

struct LanguageModel : ExampleProgram {
  /// The loss of every iteration.
  std::vector<double> losses(const std::string& flags) const {
    const Result result = run(flags + " --losses losses");
    BOOST_TEST(result.status == 0, result.err);
    std::ifstream in(folder / "losses");
    return {std::istream_iterator<double>(in), {}};
  }
};

}  // namespace tendril::test

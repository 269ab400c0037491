#pragma once

#include <boost/test/unit_test.hpp>
#include <clocale>
#include <cstdlib>
#include <string>

#include "tests/temporary_folder.h"

namespace tendril::testing {

/// While it lives, the process has a locale in which numbers have a decimal comma and dots between thousands, as German
/// ones. It is made for the test: machines often have none.
class DecimalComma {
 public:
  DecimalComma() : before_(std::setlocale(LC_NUMERIC, nullptr)) {
    write_bytes(folder_ / "source",
                "LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \".\"\ngrouping 3;3\nEND LC_NUMERIC\n");
    // -c: it lacks all other categories, which is a warning of each.
    const std::string make = "cd " + folder_.path().string() + " && localedef -c -i source ./comma 2> /dev/null";
    [[maybe_unused]] const int warned = std::system(make.c_str());
    ::setenv("LOCPATH", folder_.path().c_str(), 1);
    made_ = std::setlocale(LC_NUMERIC, "comma") != nullptr;
    ::unsetenv("LOCPATH");
  }
  ~DecimalComma() { std::setlocale(LC_NUMERIC, before_.c_str()); }
  DecimalComma(const DecimalComma&) = delete;
  DecimalComma& operator=(const DecimalComma&) = delete;

  bool made() const { return made_; }
  /// For tests: skipped without glibc's localedef.
  static boost::test_tools::assertion_result possible(boost::unit_test::test_unit_id) {
    boost::test_tools::assertion_result result(DecimalComma().made());
    if (!result) result.message() << "no localedef that makes a locale";
    return result;
  }

 private:
  TemporaryFolder folder_;
  std::string before_;
  bool made_ = false;
};

}  // namespace tendril::testing

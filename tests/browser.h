#pragma once

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/skip.h"

/// Opens pages in Chromium, without a window.
namespace tendril::test {

/// A precondition: skips the suite if there is no Chromium.
inline boost::test_tools::assertion_result has_chromium(boost::unit_test::test_unit_id) {
  static const bool has = std::system("command -v chromium >/dev/null") == 0;
  if (!has) tendril::testing::skip_suite("there is no chromium");
  return has;
}

/// Returns the page as HTML after its own script and then `script` have finished. Appends `hash` to its address.
/// Writes files to `folder`.
inline std::string shown(const std::filesystem::path& folder, const std::string& page, const std::string& script,
                         const std::string& hash = "") {
  std::ofstream(folder / "used.html", std::ios::binary) << page << "<script>" << script << "</script>";
  const std::string command = "cd '" + folder.string() +
                              "' && timeout 150 chromium --headless --no-sandbox --disable-gpu --user-data-dir=profile "
                              "--virtual-time-budget=60000 " +
                              "--dump-dom \"file://$PWD/used.html" + hash + "\" >dom 2>chromium_errors </dev/null";
  const int status = std::system(command.c_str());
  std::ifstream dom(folder / "dom", std::ios::binary), errors(folder / "chromium_errors", std::ios::binary);
  BOOST_TEST(status == 0, std::string(std::istreambuf_iterator<char>(errors), {}));
  return {std::istreambuf_iterator<char>(dom), {}};
}

}  // namespace tendril::test

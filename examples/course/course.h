#pragma once

// Checks for the tests of the course. Each prints its name and, if it fails, the expected and the actual value.

#include <cstdio>
#include <exception>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

namespace course {

inline int failed = 0;

/// Runs a check, which fails by throwing an exception or by returning a non-empty text. Prints the name first, so that
/// it is visible if the check crashes or hangs.
inline void check(const std::string& name, const std::function<std::string()>& what) {
  std::printf("%s ... ", name.c_str());
  std::fflush(stdout);
  std::string problem;
  try {
    problem = what();
  } catch (const std::exception& error) {
    problem = error.what();
  }
  if (!problem.empty()) ++failed;
  std::printf("%s%s\n", problem.empty() ? "ok" : "FAIL\n      ", problem.c_str());
  std::fflush(stdout);
}

/// Returns an empty text if the two are equal. `what` names the compared value if a check compares several.
template <class A, class B>
std::string same(const A& got, const B& expected, const std::string& what = "") {
  std::ostringstream text;
  if (!(got == expected)) text << what << (what.empty() ? "" : ": ") << "expected " << expected << ", got " << got;
  return text.str();
}
/// Joins the non-empty problems, one per line.
inline std::string all(const std::vector<std::string>& problems) {
  std::string text;
  for (const std::string& problem : problems) {
    if (!problem.empty()) text += (text.empty() ? "" : "\n      ") + problem;
  }
  return text;
}

inline int result() { return failed == 0 ? 0 : 1; }

}  // namespace course

#pragma once

// What the tests of the course say: each check by name, what was expected and what came.

#include <cstdio>
#include <exception>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

namespace course {

inline int failed = 0;

/// Runs `what`; it fails with an exception, or by returning a text. The name comes first and at once: so it is seen
/// which check crashed, or hangs.
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

/// Empty where the two are equal. `what` says which of several numbers of a check it is.
template <class A, class B>
std::string same(const A& got, const B& expected, const std::string& what = "") {
  std::ostringstream text;
  if (!(got == expected)) text << what << (what.empty() ? "" : ": ") << "expected " << expected << ", got " << got;
  return text.str();
}
/// Of several, on lines of their own.
inline std::string all(const std::vector<std::string>& problems) {
  std::string text;
  for (const std::string& problem : problems) {
    if (!problem.empty()) text += (text.empty() ? "" : "\n      ") + problem;
  }
  return text;
}

inline int result() { return failed == 0 ? 0 : 1; }

}  // namespace course

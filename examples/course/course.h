#pragma once

// What the tests of the course say: each check by name, what was expected and what came.

#include <cstdio>
#include <exception>
#include <functional>
#include <sstream>
#include <string>

namespace course {

inline int failed = 0;

/// Runs `what`; it fails with an exception, or by returning a text.
inline void check(const std::string& name, const std::function<std::string()>& what) {
  std::string problem;
  try {
    problem = what();
  } catch (const std::exception& error) {
    problem = error.what();
  }
  if (!problem.empty()) ++failed;
  std::printf("%s  %s%s%s\n", problem.empty() ? "ok  " : "FAIL", name.c_str(), problem.empty() ? "" : "\n      ",
              problem.c_str());
}

template <class A, class B>
std::string same(const A& got, const B& expected) {
  std::ostringstream text;
  if (!(got == expected)) text << "expected " << expected << ", got " << got;
  return text.str();
}

inline int result() { return failed == 0 ? 0 : 1; }

}  // namespace course

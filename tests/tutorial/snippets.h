#pragma once

#include <vector>

/// A snippet of a page that runs, and where it stands.
struct Snippet {
  const char* place;
  void (*run)();
};

extern const std::vector<Snippet> kSnippets;
extern const int kCompiled;  ///< those that do not run among them

#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tendril/rpc/group.h"

/// A snippet of a page that runs, and where it stands.
struct Snippet {
  const char* place;
  void (*run)();
};

extern const std::vector<Snippet> kSnippets;
extern const int kPrograms;  ///< those with a main, which run elsewhere

/// What snippets need of the world.
/// A group in this process: the first worker is init_rpc's, the others serve. They leave together.
struct Workers {
  explicit Workers(const std::vector<std::string>& names);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  std::vector<std::unique_ptr<tendril::rpc::Group>> others;
};

/// Waits for a thread at the end of a snippet.
struct Joined {
  explicit Joined(std::thread& which) : thread(which) {}
  ~Joined() { thread.join(); }
  Joined(const Joined&) = delete;
  Joined& operator=(const Joined&) = delete;

  std::thread& thread;
};

/// Copies one of tests/nn/data/files, which PyTorch wrote, into the current folder.
void golden_file(const std::string& name, const std::string& as);
/// Makes a folder with CIFAR-10's training files, of two images each.
void cifar10(const std::string& folder);

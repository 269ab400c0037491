#pragma once

#include <boost/test/unit_test.hpp>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tendril/rpc/group.h"
#include "tests/rpc/error_text.h"
#include "tests/rpc/reserved_port.h"

/// Groups whose workers are threads of one process. Each has its own agent, and they use real sockets.
namespace group_party {

using namespace tendril::rpc;
using namespace std::chrono_literals;
using tendril::test::ReservedPort;
using tendril::test::text_of_error;

struct Results {
  std::vector<std::string> errors;  ///< by rank; empty if the worker succeeded
  void expect_none() const {
    for (const std::string& error : errors) BOOST_TEST(error == "");
  }
};

inline std::string name_of(int rank) {
  std::string name("w");
  return name.append(std::to_string(rank));
}

/// Like BOOST_TEST, for use in worker threads, where Boost.Test's checks are not safe. The worker fails with the text.
#define EXPECT(condition)                                                                           \
  do {                                                                                              \
    if (!(condition)) throw std::logic_error("line " + std::to_string(__LINE__) + ": " #condition); \
  } while (false)

/// A group of `world_size` threads with its own port.
struct Party {
  explicit Party(int size, InitOptions with = {}) : world_size(size), options(std::move(with)) {
    if (options.init_timeout == InitOptions{}.init_timeout) options.init_timeout = 30s;
  }
  InitOptions options_of(int rank) const {
    InitOptions own = options;
    own.rank = rank;
    own.world_size = world_size;
    own.master_port = port.number();
    return own;
  }
  Results run(const std::function<void(int)>& worker) const {
    Results results;
    results.errors.resize(static_cast<std::size_t>(world_size));
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < world_size; ++rank)
      threads.emplace_back(
          [&, rank] { results.errors[static_cast<std::size_t>(rank)] = text_of_error([&] { worker(rank); }); });
    return results;
  }
  /// Joins, runs `body` and leaves gracefully on each rank.
  Results run_joined(const std::function<void(Group&, int)>& body, const ShutdownOptions& leaving = {}) const {
    return run([&](int rank) {
      Group group(name_of(rank), options_of(rank));
      body(group, rank);
      group.shutdown(leaving);
      EXPECT(group.agent()->metrics().pending_calls == 0u);
    });
  }

  int world_size;
  InitOptions options;
  ReservedPort port;
};

}  // namespace group_party

#pragma once

#include <exception>
#include <source_location>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tendril/dist/collectives/process_group.h"
#include "tests/dist/group.h"

/// Helpers that run all members of a process group at once, each in its own thread.
namespace dist_test {

using dist::CollectiveError;
using dist::ProcessGroup;
using dist::ReduceOp;

inline std::vector<std::string> names(int size) {
  std::vector<std::string> all;
  for (int rank = 0; rank < size; ++rank) all.push_back(std::string("w").append(std::to_string(rank)));
  return all;
}

/// For use in threads, where Boost.Test's macros are not safe.
inline void check(bool good, std::source_location where = std::source_location::current()) {
  if (!good) throw std::logic_error("check failed at line " + std::to_string(where.line()));
}
/// Checks that f throws an E whose text contains all parts.
template <class E, class F, class... Parts>
void check_throws(F f, const Parts&... parts) {
  try {
    f();
  } catch (const E& error) {
    if (testing::says(parts...)(error)) return;
    throw std::logic_error(std::string("unexpected error text: ") + error.what());
  }
  throw std::logic_error("no error was thrown");
}

/// Runs f(rank) in one thread per rank. Returns the error of each as text ("PeerLostError: ..."), "" if it did not
/// throw.
template <class F>
std::vector<std::string> outcomes(int size, F f) {
  std::vector<std::string> said(static_cast<std::size_t>(size));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      std::string& mine = said[static_cast<std::size_t>(rank)];
      try {
        f(rank);
      } catch (const rpc::PeerLostError& e) {
        mine = std::string("PeerLostError: ") + e.what();
      } catch (const rpc::TimeoutError& e) {
        mine = std::string("TimeoutError: ") + e.what();
      } catch (const CollectiveError& e) {
        mine = std::string("CollectiveError: ") + e.what();
      } catch (const std::exception& e) {
        mine = std::string("another error: ") + e.what();
      }
    });
  }
  threads.clear();
  return said;
}

/// Like `outcomes`, but no call may throw.
template <class F>
void at_all(int size, F f) {
  const std::vector<std::string> said = outcomes(size, f);
  for (std::size_t rank = 0; rank < said.size(); ++rank)
    BOOST_TEST(said[rank] == "", "w" << rank << ": " << said[rank]);
}

inline bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace dist_test

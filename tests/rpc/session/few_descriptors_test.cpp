// Agents in a process that can open few file descriptors, or none.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "tests/rpc/agent_pair.h"
#include "tests/rpc/error_text.h"

BOOST_AUTO_TEST_SUITE(few_descriptors)

using namespace rpc_test;

/// Limits this process to `left` more descriptors while it exists.
class FewDescriptors {
 public:
  explicit FewDescriptors(int left) {
    BOOST_REQUIRE(::getrlimit(RLIMIT_NOFILE, &usual_) == 0);
    rlimit few = usual_;
    few.rlim_cur = 128;
    BOOST_REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
    for (int one = 0; (one = ::open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) taken_.push_back(one);
    for (int i = 0; i < left && !taken_.empty(); ++i) give_back();
  }
  ~FewDescriptors() {
    while (!taken_.empty()) give_back();
    ::setrlimit(RLIMIT_NOFILE, &usual_);
  }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;

 private:
  void give_back() {
    ::close(taken_.back());
    taken_.pop_back();
  }
  rlimit usual_{};
  std::vector<int> taken_;
};

const Functions& functions() {
  static const Functions table([](Functions& f) {
    f.add(1, "echo", [](InboundCall& inbound) { inbound.reply(reply(text(inbound.request()))); });
  });
  return table;
}

AgentOptions options_of(const char* name, int rank) {
  AgentOptions options;
  options.name = name;
  options.rank = rank;
  options.world_size = 2;
  return options;
}

BOOST_AUTO_TEST_CASE(agent_reports_missing_descriptors) {
#ifdef __SANITIZE_ADDRESS__  // UBSan, which runs with it, checks objects through a pipe and fails without descriptors
  BOOST_TEST_MESSAGE("skipped: the undefined-behaviour sanitizer needs descriptors");
  return;
#endif
  int left = 0, refused = 0;
  for (bool made = false; !made && left < 40; ++left) {
    std::string why;
    {
      const FewDescriptors few(left);
      try {
        Agent agent(options_of("a", 0), functions());
        agent.listen({.unix_socket = true, .tcp = true});
      } catch (const RpcError& e) {
        why = e.what();
      }
    }
    made = why.empty();
    refused += !made;
    if (!made) BOOST_TEST(tendril::test::contains(why, "Too many open files"), left << " left: " << why);
  }
  BOOST_TEST(left < 40);
  BOOST_TEST(refused > 3);
}

BOOST_AUTO_TEST_CASE(handshake_needs_no_descriptor_for_the_key) {
#ifdef __SANITIZE_ADDRESS__
  BOOST_TEST_MESSAGE("skipped: the undefined-behaviour sanitizer needs descriptors");
  return;
#endif
  Agent a(options_of("a", 0), functions()), b(options_of("b", 1), functions());
  const Agent::Endpoint endpoint = b.listen({.unix_socket = false, .tcp = true});
  const FewDescriptors few(2);  // one for each end of the connection
  a.connect(b.self(), endpoint, Clock::now() + 60s);
  BOOST_TEST(b.wait_connected(0, Clock::now() + 60s));
}

BOOST_AUTO_TEST_SUITE_END()

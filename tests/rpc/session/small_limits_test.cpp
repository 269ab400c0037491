// Peers that accept only small messages.
#include <boost/test/unit_test.hpp>

#include "tests/rpc/agent_pair.h"
#include "tests/rpc/cluster.h"
#include "tests/rpc/raw_client.h"

BOOST_AUTO_TEST_SUITE(small_limits)

using namespace rpc_test;

const Functions& functions() {
  static const Functions table([](Functions& f) {
    f.add(1, "echo", [](InboundCall& inbound) { inbound.reply(reply(text(inbound.request()))); });
    f.add(2, "explain", [](InboundCall&) { throw std::runtime_error("it began: " + std::string(100'000, 'x')); });
    f.add(3, "explain_in_greek", [](InboundCall&) {
      std::string why;
      while (why.size() < 100'000) why += "α";
      throw std::runtime_error(why);
    });
    f.add(4, "nothing_at_all", [](InboundCall& inbound) {
      Message answer;
      answer.tensors.emplace_back();
      inbound.reply(std::move(answer));
    });
  });
  return table;
}

int keep(std::vector<RRef<int>> references) { return static_cast<int>(references.size()); }
int pass_on(std::vector<RRef<int>> references) { return rpc_sync<&keep>(Cluster::agent(1), 2, references); }

AgentOptions taking(uint64_t bytes) {
  AgentOptions options = one_thread();
  options.limits.max_payload_bytes = bytes;
  return options;
}

BOOST_AUTO_TEST_CASE(limits_below_the_minimum_are_refused) {
  Agent agent({.name = std::string("server"), .rank = 0, .world_size = 3}, functions());
  const Agent::Endpoint endpoint = agent.listen();
  const auto refusal = [&](const Hello& hello) {
    RawClient client(endpoint);
    client.say(encode(hello));
    return client.receive_hello().refusal;
  };
  for (const uint64_t bytes : {0, 1, 4095}) {
    Hello hello = raw_hello("evil", 2, 3);
    hello.limits.max_payload_bytes = bytes;
    BOOST_TEST(contains(refusal(hello), "expected at least 4096"));
  }
  Hello hello = raw_hello("evil", 2, 3);
  hello.request_window = 65535;
  BOOST_TEST(contains(refusal(hello), "expected at least 65536"));
  BOOST_TEST(agent.peers().empty());

  AgentOptions options = taking(4095);
  options.name = std::string("server");
  BOOST_CHECK_THROW(Agent(options, functions()), UsageError);
  options.limits = {};
  options.receive_limit = 65535;
  BOOST_CHECK_THROW(Agent(options, functions()), UsageError);
}

BOOST_AUTO_TEST_CASE(smallest_limits_admit_errors) {
  Agent agent({.name = std::string("server"), .rank = 0, .world_size = 3}, functions());
  const Agent::Endpoint endpoint = agent.listen();
  Hello hello = raw_hello("meagre", 2, 3);
  hello.limits = {.max_extension_bytes = 0,
                  .max_payload_bytes = kMinPayloadBytes,
                  .max_tensor_bytes = 0,
                  .max_tensors = 0,
                  .max_references = 0};
  RawClient client(endpoint, hello);
  for (const uint64_t function : {2, 99}) {
    Message message = request(function);
    message.call_id = function;
    client.say(std::move(message));
    const std::optional<Message> answer = client.receive();
    BOOST_REQUIRE(answer.has_value());
    BOOST_TEST((answer->kind == MessageKind::error));
    BOOST_TEST(answer->payload.size() <= kMinPayloadBytes);
  }
  BOOST_TEST(agent.is_connected(2));
}

BOOST_AUTO_TEST_CASE(long_error_is_truncated) {
  AgentPair pair(functions(), taking(4096));
  BOOST_CHECK_EXCEPTION(call(*pair.a, 1, request(2)).wait(), RemoteError, [](const RemoteError& error) {
    const std::string what = error.what();
    return contains(what, "it began: xxx") && contains(what, "100010 bytes") && what.size() > 3000;
  });
  BOOST_CHECK_EXCEPTION(call(*pair.a, 1, request(3)).wait(), RemoteError, [](const RemoteError& error) {
    const std::string what = error.what();
    const auto cut = what.find("... (cut");
    return cut != what.npos && what.substr(cut - 2, 2) == "α";  // between two letters
  });
  BOOST_TEST(text(call(*pair.a, 1, request(1, "still here")).wait()) == "still here");
  check_at_rest(*pair.a);
  check_at_rest(*pair.b);
}

BOOST_AUTO_TEST_CASE(unencodable_reply_fails_its_call) {
  AgentPair pair(functions(), one_thread());
  BOOST_CHECK_THROW(call(*pair.a, 0, request(4), {.timeout = 30s}).wait(), MessageError);
  BOOST_CHECK_THROW(call(*pair.a, 1, request(4), {.timeout = 30s}).wait(), MessageError);
  check_at_rest(*pair.a);
  check_at_rest(*pair.b);
}

BOOST_AUTO_TEST_CASE(messages_about_many_references_are_split) {
  Cluster cluster(3, taking(4096));
  std::vector<RRef<int>> references;
  references.reserve(500);
  for (int i = 0; i < 500; ++i) references.push_back(make_rref<int>(cluster[0], i));
  // The last worker notifies the owner of 500 new users at once.
  BOOST_TEST(rpc_sync<&pass_on>(cluster[0], 1, references) == 500);
  references.clear();  // the cluster's end checks that all have settled
}

BOOST_AUTO_TEST_SUITE_END()

// A session survives the loss of its connection: missing messages are sent again, no call runs twice, and the session
// ends when it must.
#include <array>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <functional>
#include <future>
#include <numeric>
#include <thread>
#include <vector>

#include "tendril/rpc/session/agent_impl.h"
#include "tendril/rpc/transport/socket_link.h"
#include "tendril/tensor/raw.h"
#include "tests/rpc/agent_pair.h"
#include "tests/rpc/certificates.h"
#include "tests/rpc/session/cutting_proxy.h"
#include "tests/wait_until.h"

BOOST_AUTO_TEST_SUITE(lost_connection)

using namespace rpc_test;

namespace {

constexpr std::size_t kMostCalls = 4000;
std::array<std::atomic<int>, kMostCalls> runs;
tendril::Tensor kept;

const Functions& functions() {
  static const Functions table([](Functions& f) {
    f.add(1, "count", [](InboundCall& inbound) {
      const std::string said = text(inbound.request());
      ++runs[static_cast<std::size_t>(std::stoi(said))];
      Message answer = reply(said + "!");
      answer.tensors = inbound.request().tensors;
      inbound.reply(std::move(answer));
    });
    f.add(2, "give_kept", [](InboundCall& inbound) {
      Message answer = reply("kept");
      answer.tensors = {kept};
      inbound.reply(std::move(answer));
    });
    f.add(3, "nothing", [](InboundCall& inbound) { inbound.reply(reply("")); });
  });
  return table;
}

tendril::Tensor counted(int64_t n) {
  tendril::Tensor tensor = tendril::raw::zeros({n});
  auto* const elements = static_cast<float*>(tensor.raw_data());
  std::iota(elements, elements + n, 0.0f);
  return tensor;
}

/// Rank 0 has connected to rank 1 through the proxy. Without certificates, the link does not use TLS.
struct ThroughProxy {
  explicit ThroughProxy(std::chrono::milliseconds grace = 60s, const TlsCredentials& tls = {},
                        std::chrono::milliseconds liveness = AgentOptions{}.liveness_timeout) {
    const auto options = [&](const char* name, int rank) {
      return AgentOptions{.name = std::string(name),
                          .rank = rank,
                          .world_size = 2,
                          .num_worker_threads = 2,
                          .liveness_timeout = liveness,
                          .grace_period = grace,
                          .tls = tls,
                          .encrypt = static_cast<bool>(tls)};
    };
    a = std::make_unique<Agent>(options("a", 0), functions());
    b = std::make_unique<Agent>(options("b", 1), functions());
    a->listen({.unix_socket = false});
    proxy = std::make_unique<CuttingProxy>(b->listen({.unix_socket = false}));
    a->connect(b->self(), proxy->endpoint(), Clock::now() + 30s);
    BOOST_REQUIRE(b->wait_connected(0, Clock::now() + 30s));
    for (auto& count : runs) count = 0;
  }

  std::unique_ptr<Agent> a, b;
  std::unique_ptr<CuttingProxy> proxy;
};

Message numbered(std::size_t number, int64_t elements = 3) {
  Message message = request(1, std::to_string(number));
  message.tensors = {counted(elements)};
  return message;
}

bool is_answer(const Message& answer, std::size_t number, int64_t elements) {
  if (text(answer) != std::to_string(number) + "!" || answer.tensors.size() != 1) return false;
  if (answer.tensors[0].numel() != elements) return false;
  const auto* const got = static_cast<const float*>(answer.tensors[0].raw_data());
  for (int64_t i = 0; i < elements; ++i) {
    if (got[i] != static_cast<float>(i)) return false;
  }
  return true;
}

/// Makes calls in both directions at the same time. Each runs once and is answered.
void run_program(ThroughProxy& net, std::size_t first) {
  std::vector<Future<Message>> there, back;
  for (std::size_t i = first; i < first + 8; ++i) {
    there.push_back(call(*net.a, 1, numbered(i), {.timeout = 0us}));
    back.push_back(call(*net.b, 0, numbered(1000 + i), {.timeout = 0us}));
  }
  for (std::size_t i = 0; i < 8; ++i) {
    BOOST_TEST(is_answer(there[i].wait(), first + i, 3));
    BOOST_TEST(is_answer(back[i].wait(), 1000 + first + i, 3));
    BOOST_TEST(runs[first + i] == 1);
    BOOST_TEST(runs[1000 + first + i] == 1);
  }
}

TlsCredentials new_credentials() {
  const Certificates folder;
  const Certificates::Authority authority(folder, "authority");
  return TlsCredentials::from_files(authority.issue("both", {.names = "DNS:a,DNS:b"}));
}

void check_answer(const Message& answer, std::size_t number, int64_t elements = 3) {
  BOOST_TEST(is_answer(answer, number, elements));
}

void call_from_many_threads_while_it_breaks(ThroughProxy& net) {
  std::atomic<bool> done{false};
  std::atomic<int> wrong{0}, answered{0};
  std::jthread breaking([&] {
    // Each round breaks the connection and then waits until another call has been answered.
    for (uint64_t n = 1; !done; ++n) {
      const int cuts = net.proxy->cuts();
      net.proxy->cut_after(n * 7919 % 100'000);
      (void)tendril::test::holds_within(60s, [&] { return done || net.proxy->cuts() > cuts; });
      const int before = answered;
      (void)tendril::test::holds_within(60s, [&] { return done || answered > before; });
    }
  });
  std::vector<std::jthread> callers;
  for (std::size_t t = 0; t < 4; ++t) {
    callers.emplace_back([&net, &wrong, &answered, t] {
      Agent& from = t % 2 == 0 ? *net.a : *net.b;
      for (std::size_t i = 0; i < 200; ++i) {
        const std::size_t number = 200 * t + i;
        const int64_t elements = i % 10 == 0 ? 20'000 : 10;
        const Message answer = call(from, t % 2 == 0 ? 1 : 0, numbered(number, elements), {.timeout = 0us}).wait();
        if (!is_answer(answer, number, elements)) ++wrong;
        ++answered;
      }
    });
  }
  callers.clear();
  done = true;
  breaking.join();
  BOOST_TEST(wrong == 0);
  for (std::size_t i = 0; i < 800; ++i) BOOST_TEST(runs[i] == 1);
  check_at_rest(*net.a);
  check_at_rest(*net.b);
}

void break_among_large_calls(ThroughProxy& net) {
  constexpr int64_t kLarge = 200'000;  // elements: a few parts (wire.h)
  const int before = net.proxy->connections();
  for (std::size_t n = 1; n <= 30; ++n) {
    net.proxy->cut_after(n * 97'003);  // a round sends about 3,200,000 bytes
    const Future<Message> there = call(*net.a, 1, numbered(n, kLarge), {.timeout = 0us});
    const Future<Message> back = call(*net.b, 0, numbered(1000 + n, kLarge), {.timeout = 0us});
    run_program(net, 100 + 8 * n);
    BOOST_TEST(is_answer(there.wait(), n, kLarge));
    BOOST_TEST(is_answer(back.wait(), 1000 + n, kLarge));
    BOOST_TEST(runs[n] == 1);
    BOOST_TEST(runs[1000 + n] == 1);
  }
  BOOST_TEST(net.proxy->connections() > before + 10);
  check_at_rest(*net.a);
  check_at_rest(*net.b);
}

}  // namespace

BOOST_AUTO_TEST_CASE(calls_run_once_wherever_connections_break) {
  ThroughProxy net;
  run_program(net, 0);
  const int before = net.proxy->connections();
  for (std::size_t n = 1; n <= 100; ++n) {
    net.proxy->cut_after(n * 61);  // run_program sends about 6,000 bytes
    run_program(net, 8 * n);
  }
  BOOST_TEST(net.proxy->connections() > before + 50);
  check_at_rest(*net.a);
  check_at_rest(*net.b);
  BOOST_TEST(net.a->metrics().requests_sent == net.b->metrics().requests_received);
  BOOST_TEST(net.b->metrics().requests_sent == net.a->metrics().requests_received);
}

BOOST_AUTO_TEST_CASE(tls_session_survives_breaks_and_changed_bytes) {
  ThroughProxy net(60s, new_credentials());
  run_program(net, 0);
  BOOST_TEST(net.a->connections().at(1).transport == "tls");
  const int before = net.proxy->connections();
  for (std::size_t n = 1; n <= 100; ++n) {
    if (n % 2 == 0) {
      net.proxy->cut_after(n * 61);
    } else {
      net.proxy->change_a_byte();
    }
    run_program(net, 8 * n);
  }
  BOOST_TEST(net.proxy->connections() > before + 50);
  check_at_rest(*net.a);
  check_at_rest(*net.b);
  BOOST_TEST(net.a->metrics().requests_sent == net.b->metrics().requests_received);
  BOOST_TEST(net.b->metrics().requests_sent == net.a->metrics().requests_received);
}

BOOST_AUTO_TEST_CASE(large_calls_run_once_despite_breaks) {
  ThroughProxy net;
  break_among_large_calls(net);
}

BOOST_AUTO_TEST_CASE(large_tls_calls_run_once_despite_breaks) {
  ThroughProxy net(60s, new_credentials());
  break_among_large_calls(net);
}

BOOST_AUTO_TEST_CASE(concurrent_calls_survive_repeated_breaks) {
  ThroughProxy net;
  call_from_many_threads_while_it_breaks(net);
}

BOOST_AUTO_TEST_CASE(concurrent_tls_calls_survive_repeated_breaks) {
  ThroughProxy net(60s, new_credentials());
  call_from_many_threads_while_it_breaks(net);
}

BOOST_AUTO_TEST_CASE(calls_wait_for_the_next_connection) {
  ThroughProxy net;
  net.proxy->refuse(true);
  net.proxy->cut();
  std::vector<Future<Message>> calls;
  for (std::size_t i = 0; i < 20; ++i) calls.push_back(call(i % 2 == 0 ? *net.a : *net.b, i % 2 == 0, numbered(i)));
  BOOST_CHECK_THROW(call(*net.a, 1, request(3), {.timeout = 50ms}).wait(), TimeoutError);
  net.proxy->refuse(false);
  for (std::size_t i = 0; i < 20; ++i) check_answer(calls[i].wait(), i);
  BOOST_TEST(net.a->is_connected(1));
}

BOOST_AUTO_TEST_CASE(session_ends_after_the_grace_period) {
  ThroughProxy net(300ms);
  net.proxy->refuse(true);
  const Future<Message> there = call(*net.a, 1, request(3), {.timeout = 0us});
  there.wait();
  net.a->stop_listening();  // otherwise b would connect after a while
  net.proxy->cut();
  const Future<Message> here = call(*net.a, 1, request(3), {.timeout = 0us});
  BOOST_CHECK_THROW(here.wait(), PeerLostError);
  BOOST_CHECK_THROW(call(*net.b, 0, request(3), {.timeout = 0us}).wait(), PeerLostError);
  tendril::test::wait_until("both sides are disconnected",
                            [&] { return !net.a->is_connected(1) && !net.b->is_connected(0); });
  // Afterwards a new session can be made.
  net.proxy->refuse(false);
  net.a->connect(net.b->self(), net.proxy->endpoint(), Clock::now() + 30s);
  check_answer(call(*net.a, 1, numbered(7)).wait(), 7);
}

BOOST_AUTO_TEST_CASE(one_side_redials_if_both_wait) {
  ThroughProxy net(8s);
  check_answer(call(*net.a, 1, numbered(0)).wait(), 0);
  // As after crossed dials, when each side has accepted the connection of the peer.
  std::promise<void> done;
  net.a->impl().loop->post_io([&] {
    const auto link = net.a->impl().session(1)->link();
    std::dynamic_pointer_cast<tendril::rpc::detail::SocketLink>(link)->state().took();
    done.set_value();
  });
  done.get_future().wait();
  net.proxy->cut();
  check_answer(call(*net.a, 1, numbered(1), {.timeout = 0us}).wait(), 1);
  check_answer(call(*net.b, 0, numbered(2), {.timeout = 0us}).wait(), 2);
}

BOOST_AUTO_TEST_CASE(restarted_peer_ends_the_old_session) {
  ThroughProxy net;
  net.proxy->hold(true);
  const Future<Message> pending = call(*net.a, 1, request(3), {.timeout = 0us});
  net.b.reset();  // its goodbye is held
  Agent second({.name = std::string("b"), .rank = 1, .world_size = 2}, functions());
  second.listen({.unix_socket = false, .tcp_port = net.proxy->target()});
  net.proxy->cut();
  net.proxy->hold(false);
  BOOST_CHECK_EXCEPTION(pending.wait(), PeerLostError, [](const PeerLostError& e) {
    return std::string(e.what()).find("has ended") != std::string::npos && e.may_have_run();
  });
  net.a->connect(second.self(), net.proxy->endpoint(), Clock::now() + 30s);
  check_answer(call(*net.a, 1, numbered(7)).wait(), 7);
}

BOOST_AUTO_TEST_CASE(restarted_peer_replaces_the_lost_one) {
  ThroughProxy net;
  net.proxy->refuse(true);
  net.proxy->cut();
  const Future<Message> pending = call(*net.b, 0, request(3), {.timeout = 0us});
  Agent second({.name = std::string("a"), .rank = 0, .world_size = 2}, functions());
  const Agent::Endpoint direct = Agent::Endpoint::parse("tcp:127.0.0.1:" + std::to_string(net.proxy->target()));
  while (net.b->is_connected(0) && !pending.done()) {
    try {
      second.connect(net.b->self(), direct, Clock::now() + 30s);
      break;
    } catch (const UsageError&) {  // the loss has not been noticed yet
      std::this_thread::yield();
    }
  }
  BOOST_CHECK_EXCEPTION(pending.wait(), PeerLostError, [](const PeerLostError& e) {
    return std::string(e.what()).find("was restarted") != std::string::npos;
  });
  check_answer(call(second, 1, numbered(7)).wait(), 7);
}

BOOST_AUTO_TEST_CASE(stranger_at_peers_port_is_ignored) {
  ThroughProxy net;
  const int before = net.proxy->connections();
  net.proxy->answer("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
  net.proxy->cut();
  const Future<Message> pending = call(*net.a, 1, numbered(5), {.timeout = 0us});
  tendril::test::wait_until("three more connections, or none",
                            [&] { return net.proxy->connections() >= before + 3 || !net.a->is_connected(1); });
  BOOST_TEST(net.a->is_connected(1));
  net.proxy->answer("");
  check_answer(pending.wait(), 5);
}

BOOST_AUTO_TEST_CASE(goodbye_ends_the_session_at_once) {
  ThroughProxy net;
  net.b->shutdown();
  BOOST_CHECK_THROW(call(*net.a, 1, request(3), {.timeout = 0us}).wait(), PeerLostError);
}

/// So few elements that the socket accepts all of them at once: a message that it has not accepted in whole counts as
/// unsent.
constexpr int64_t kNotInParts = 50'000;

/// Breaks the connection in the middle of the message that `send` sends, and keeps it broken.
void break_in_the_middle(ThroughProxy& net, const std::function<void()>& send) {
  const int before = net.proxy->cuts();
  net.proxy->refuse(true);
  net.proxy->cut_after(4'000);
  send();
  tendril::test::wait_until("the proxy cuts", [&] { return net.proxy->cuts() != before; });
}

BOOST_AUTO_TEST_CASE(result_changed_before_resending_is_an_error) {
  kept = counted(kNotInParts);
  ThroughProxy net;
  Future<Message> pending;
  break_in_the_middle(net, [&] { pending = call(*net.a, 1, request(2), {.timeout = 0us}); });
  kept.storage()->bump_version();  // as an in-place operation does
  net.proxy->refuse(false);
  BOOST_CHECK_EXCEPTION(pending.wait(), RemoteError, [](const RemoteError& e) {
    return std::string(e.what()).find("changed since") != std::string::npos;
  });
  check_answer(call(*net.a, 1, numbered(7)).wait(), 7);
  check_at_rest(*net.b);
  kept = {};
}

BOOST_AUTO_TEST_CASE(request_changed_before_resending_never_runs) {
  ThroughProxy net;
  Message message = numbered(8, kNotInParts);
  const tendril::Tensor argument = message.tensors[0];
  Future<Message> pending;
  break_in_the_middle(net, [&] { pending = call(*net.a, 1, std::move(message), {.timeout = 0us}); });
  argument.storage()->bump_version();
  net.proxy->refuse(false);
  BOOST_CHECK_EXCEPTION(pending.wait(), PeerLostError, [](const PeerLostError& e) {
    return std::string(e.what()).find("changed since") != std::string::npos && !e.may_have_run();
  });
  BOOST_TEST(runs[8] == 0);
  check_answer(call(*net.a, 1, numbered(9)).wait(), 9);
  BOOST_TEST(net.a->metrics().requests_sent == net.b->metrics().requests_received);
}

BOOST_AUTO_TEST_CASE(without_grace_session_ends_with_connection) {
  ThroughProxy net(0ms);
  net.proxy->hold(true);
  const Future<Message> pending = call(*net.a, 1, request(3), {.timeout = 0us});
  net.proxy->cut();
  BOOST_CHECK_THROW(pending.wait(), PeerLostError);
  BOOST_TEST(net.proxy->connections() == 1);
}

BOOST_AUTO_TEST_CASE(stalled_connection_is_replaced_before_loss) {
  for (const bool by_dialler : {true, false}) {
    ThroughProxy net(60s, {}, 3s);
    run_program(net, 0);
    net.proxy->stall();
    Agent& from = by_dialler ? *net.a : *net.b;
    check_answer(call(from, by_dialler ? 1 : 0, numbered(100), {.timeout = 60s}).wait(), 100);
    BOOST_TEST(runs[100] == 1);
    run_program(net, 16);
  }
}

BOOST_AUTO_TEST_CASE(silent_peer_is_lost_after_liveness_timeout) {
  ThroughProxy net(60s, {}, 2s);
  run_program(net, 0);
  net.proxy->hold(true);
  BOOST_CHECK_EXCEPTION(call(*net.a, 1, numbered(100), {.timeout = 60s}).wait(), PeerLostError, [](const auto& e) {
    return e.may_have_run() && std::string(e.what()).find("has given no sign of life for ") != std::string::npos;
  });
  net.proxy->hold(false);
}

BOOST_AUTO_TEST_SUITE_END()

// timeout: 120
// The rendezvous behind real sockets: rank 0's host and the workers' clients.
#include <boost/asio/io_context.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <boost/test/unit_test.hpp>
#include <functional>
#include <memory>
#include <thread>

#include "tendril/rpc/error.h"
#include "tendril/rpc/launch/rendezvous_client.h"
#include "tendril/rpc/launch/rendezvous_host.h"

using namespace tendril::rpc;
using namespace std::chrono_literals;
using boost::asio::ip::tcp;
using detail::RendezvousClient;
using detail::RendezvousHost;

namespace {

using Kind = RendezvousKind;

/// The text of the exception that `run` throws.
template <class E>
std::string error_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const E& e) {
    return e.what();
  } catch (const std::exception& e) {
    return std::string("another exception: ") + e.what();
  }
  return "no exception";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

const SharedKey kKey = SharedKey::random();

RendezvousHost local_host(int world_size) {
  return RendezvousHost(tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0), world_size, "the-group", kKey);
}

RendezvousClient::Options member(const RendezvousHost& host, WorkerId rank, int world_size,
                                 std::chrono::milliseconds timeout = 30s) {
  RendezvousClient::Options options{
      .address = host.address(), .world_size = world_size, .timeout = timeout, .key = kKey};
  options.self.name.append("w").append(std::to_string(rank));
  options.self.id = rank;
  if (rank == 0) options.group = std::string("the-group");
  return options;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(rendezvous_sockets)

BOOST_AUTO_TEST_CASE(twenty_four_workers_meet) {
  constexpr int n = 24;
  const RendezvousHost host = local_host(n);
  std::vector<int> good(n);
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < n; ++rank)
      threads.emplace_back([&, rank] {
        RendezvousClient client(member(host, rank, n));
        if (client.group() != "the-group" || client.names().at(n - 1) != "w23") return;
        for (int round = 0; round < 10; ++round) {
          const std::string mine = std::to_string(rank * 100 + round);
          const auto all = client.gather("round", mine, 30s);
          for (int other = 0; other < n; ++other)
            if (all.at(other) != std::to_string(other * 100 + round)) return;
        }
        client.leave();
        good[rank] = 1;
      });
  }
  for (const int one : good) BOOST_TEST(one == 1);
}

BOOST_AUTO_TEST_CASE(the_missing_are_named) {
  const RendezvousHost host = local_host(3);
  std::string at_2;
  std::jthread other(
      [&] { at_2 = error_of<tendril::rpc::TimeoutError>([&] { RendezvousClient client(member(host, 2, 3)); }); });
  const std::string text =
      error_of<tendril::rpc::TimeoutError>([&] { RendezvousClient client(member(host, 0, 3, 300ms)); });
  other.join();
  BOOST_TEST(contains(text, "these workers have not joined: rank 1 (of world size 3)"));
  BOOST_TEST(at_2 == text);
}

BOOST_AUTO_TEST_CASE(where_nobody_listens_the_worker_says_so) {
  tcp::endpoint address;
  {
    const RendezvousHost host = local_host(1);
    address = host.address();
  }
  const std::string text = error_of<tendril::rpc::TimeoutError>([&] {
    RendezvousClient client({.address = address, .self = {"w1", 1}, .world_size = 2, .timeout = 100ms, .key = kKey});
  });
  BOOST_TEST(contains(text, "no group could be joined at 127.0.0.1:"));
  BOOST_TEST(contains(text, "is rank 0 running?"));
}

BOOST_AUTO_TEST_CASE(a_worker_that_comes_before_rank_0_waits_for_it) {
  tcp::endpoint address;
  {
    const RendezvousHost host = local_host(1);
    address = host.address();
  }
  std::string error;
  std::jthread early([&] {
    error = error_of<RpcError>([&] {
      RendezvousClient client({.address = address, .self = {"w1", 1}, .world_size = 2, .timeout = 30s, .key = kKey});
      client.leave();
    });
  });
  const RendezvousHost host(address, 2, "the-group", kKey);
  RendezvousClient client(member(host, 0, 2));
  early.join();
  BOOST_TEST(error == "no exception");
}

BOOST_AUTO_TEST_CASE(a_port_in_use_is_refused_with_the_way_out) {
  const RendezvousHost host = local_host(1);
  const std::string text = error_of<UsageError>([&] { RendezvousHost second(host.address(), 1, "x", kKey); });
  BOOST_TEST(contains(text, "rank 0 cannot listen on 127.0.0.1:"));
  BOOST_TEST(contains(text, "Address already in use; choose another master_port (MASTER_PORT)"));
}

BOOST_AUTO_TEST_CASE(garbage_on_the_port_is_shut_out_and_disturbs_nobody) {
  const RendezvousHost host = local_host(2);
  boost::asio::io_context io;
  std::vector<tcp::socket> strangers;
  auto send = [&](const std::string& bytes) {
    strangers.emplace_back(io).connect(host.address());
    boost::system::error_code closed_meanwhile;
    boost::asio::write(strangers.back(), boost::asio::buffer(bytes), closed_meanwhile);
  };
  send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  send(std::string(100'000, '\xff'));
  const Bytes join = encode({.kind = Kind::join, .worker = {"x", 0}, .world_size = 2});
  std::string bytes(reinterpret_cast<const char*>(join.data()), join.size());
  send(bytes.substr(0, bytes.size() - 1));  // never completed
  bytes[0] = '\xff', bytes[1] = '\xff', bytes[2] = '\xff', bytes[3] = '\x7f';
  send(bytes);
  send({});
  for (const int i : {0, 1, 3}) {  // closed by the host: it read enough to know
    std::string answer(4096, '\0');
    boost::system::error_code error;
    answer.resize(boost::asio::read(strangers[i], boost::asio::buffer(answer), error));
    BOOST_TEST(error.failed());
    BOOST_TEST(!contains(answer, "the-group"));
  }
  std::string error;
  std::jthread other([&] {
    error = error_of<RpcError>([&] {
      RendezvousClient client(member(host, 1, 2));
      client.gather("round", "", 30s);
    });
  });
  RendezvousClient client(member(host, 0, 2));
  client.gather("round", "", 30s);
  other.join();
  BOOST_TEST(error == "no exception");
}

BOOST_AUTO_TEST_CASE(hundreds_that_keep_silent_shut_no_worker_out) {
  const RendezvousHost host = local_host(2);
  boost::asio::io_context io;
  std::vector<tcp::socket> silent;
  for (int i = 0; i < 400; ++i) {
    silent.emplace_back(io).connect(host.address());
    if (i % 2 == 0) boost::asio::write(silent.back(), boost::asio::buffer("TENDRILK", 8));
  }
  std::string error;
  std::jthread other([&] { error = error_of<RpcError>([&] { RendezvousClient client(member(host, 1, 2)); }); });
  RendezvousClient client(member(host, 0, 2));
  other.join();
  BOOST_TEST(error == "no exception");
}

BOOST_AUTO_TEST_CASE(a_worker_with_another_key_is_told_at_once_and_named_at_the_deadline) {
  const RendezvousHost host = local_host(2);
  auto stranger = member(host, 1, 2);
  stranger.key = SharedKey::random("the stranger's key");
  const std::string text = error_of<ProofError>([&] { RendezvousClient client(stranger); });
  BOOST_TEST(contains(text, "does not hold this worker's key (the stranger's key)"));
  const std::string missing = error_of<TimeoutError>([&] { RendezvousClient client(member(host, 0, 2, 100ms)); });
  BOOST_TEST(contains(missing, "refused: a connection from 127.0.0.1: it says that the keys differ"));
}

BOOST_AUTO_TEST_CASE(a_recorded_join_joins_nobody) {
  // What rank 1 sent, sent again: the connection has another nonce.
  const RendezvousHost host = local_host(2);
  Proof proof(kKey, ProofPurpose::rendezvous, Proof::Role::dialler);
  const Bytes challenge = proof.challenge();
  const Bytes join = encode({.kind = Kind::join, .worker = {"w1", 1}, .world_size = 2, .timeout_ms = 60'000});
  Bytes recorded, refusal(kProofPrefixBytes);
  const auto talk = [&](const Bytes& first, bool again) {
    boost::asio::io_context io;
    tcp::socket socket(io);
    socket.connect(host.address());
    boost::asio::write(socket, boost::asio::buffer(first));
    Bytes answer(kProofPrefixBytes + kNonceBytes + kTagBytes);
    boost::asio::read(socket, boost::asio::buffer(answer));
    if (!again) {
      proof.check_answer(answer);
      const Proof::Tag tag = proof.seal(join);
      recorded = join;
      recorded.insert(recorded.end(), tag.begin(), tag.end());
      return;  // and never says it
    }
    boost::asio::write(socket, boost::asio::buffer(recorded));
    boost::asio::read(socket, boost::asio::buffer(refusal));
  };
  talk(challenge, false);
  talk(challenge, true);
  BOOST_TEST(is_proof(refusal));  // a refusal, not a welcome
  const std::string missing = error_of<TimeoutError>([&] { RendezvousClient client(member(host, 0, 2, 100ms)); });
  BOOST_TEST(contains(missing,
                      "have not joined: rank 1 (of world size 2); refused: a connection from 127.0.0.1: the "
                      "other side does not hold this worker's key"));
}

BOOST_AUTO_TEST_CASE(the_end_of_rank_0_ends_a_gathering) {
  auto host =
      std::make_unique<RendezvousHost>(tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0), 2, "the-group", kKey);
  auto zero = std::make_unique<std::jthread>([&, options = member(*host, 0, 2)] {
    RendezvousClient client(options);
    client.leave();
  });
  RendezvousClient client(member(*host, 1, 2));
  zero.reset();
  host.reset();
  const std::string text = error_of<PeerLostError>([&] { client.gather("leaving", "", 0s); });
  BOOST_TEST(contains(text, "rank 0 is gone"));
}

BOOST_AUTO_TEST_CASE(a_late_worker_still_learns_why_the_group_failed) {
  auto host =
      std::make_unique<RendezvousHost>(tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0), 2, "the-group", kKey);
  auto late = member(*host, 1, 2);
  const std::string text = error_of<UsageError>([&] {
    RendezvousClient client({.address = host->address(),
                             .self = {"bad name", 0},
                             .world_size = 2,
                             .timeout = 10s,
                             .group = "the-group",
                             .key = kKey});
  });
  BOOST_TEST(contains(text, "the name 'bad name' is not"));
  host->fail(text);
  std::string error;
  std::jthread other([&] { error = error_of<UsageError>([&] { RendezvousClient client(late); }); });
  host.reset();  // waits until rank 1 has heard of it
  other.join();
  BOOST_TEST(contains(error, "rank 0: the name 'bad name' is not"));
}

BOOST_AUTO_TEST_SUITE_END()

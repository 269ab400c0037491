// How workers join a group: rank 0's agent is the rendezvous, and connections are made on demand.
#include <barrier>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <boost/test/unit_test.hpp>
#include <functional>
#include <memory>
#include <thread>

#include "tendril/rpc/call.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/group.h"
#include "tendril/rpc/group/enquiry.h"
#include "tendril/rpc/wire/hello.h"
#include "tests/contains.h"
#include "tests/rpc/certificates.h"
#include "tests/rpc/raw_tls.h"
#include "tests/rpc/reserved_port.h"
#include "tests/wait_until.h"

BOOST_AUTO_TEST_SUITE(joining)

using namespace tendril::rpc;
using namespace std::chrono_literals;
using boost::asio::ip::tcp;
using rpc_test::Certificates;
using tendril::test::ReservedPort;

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

using tendril::test::contains;

int add(int a, int b) { return a + b; }

const SharedKey kKey = SharedKey::random();

InitOptions member_of(const ReservedPort& port, int rank, int world_size, std::chrono::milliseconds timeout = 60s) {
  InitOptions options;
  options.rank = rank;
  options.world_size = world_size;
  options.master_port = port.number();
  options.init_timeout = timeout;
  options.key = kKey;
  options.status_signal = false;
  options.num_worker_threads = 2;
  return options;
}

std::string name_of(int rank) { return std::string("w").append(std::to_string(rank)); }

tcp::endpoint address_of(const ReservedPort& port) {
  return {boost::asio::ip::address_v4::loopback(), static_cast<uint16_t>(port.number())};
}

void wait_until_somebody_listens(const ReservedPort& port) {
  boost::asio::io_context io;
  tendril::test::wait_until("a worker listens", [&] {
    boost::system::error_code error;
    tcp::socket(io).connect(address_of(port), error);
    return !error;
  });
}

/// Runs `work` as each worker of a group, in one thread each. Returns the errors that they throw.
std::vector<std::string> as_group(int world_size, const std::function<void(Group&, int)>& work,
                                  const std::function<void(InitOptions&)>& change = {}) {
  const ReservedPort port;
  std::vector<std::string> errors(static_cast<std::size_t>(world_size));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&, rank] {
      errors[static_cast<std::size_t>(rank)] = error_of<RpcError>([&] {
        InitOptions options = member_of(port, rank, world_size);
        if (change) change(options);
        Group group(name_of(rank), options);
        work(group, rank);
        group.shutdown();
      });
    });
  }
  threads.clear();
  return errors;
}

void expect_good(const std::vector<std::string>& errors) {
  for (const std::string& error : errors) BOOST_TEST(error == "no exception");
}

/// Returns the number of connections to other workers.
std::size_t connections(const Group& group) { return group.agent()->connections().size() - 1; }

BOOST_AUTO_TEST_CASE(twenty_four_workers_meet) {
  constexpr int n = 24;
  expect_good(as_group(n, [](Group& group, int rank) {
    if (group.workers().at(n - 1).name != "w23") throw UsageError("other workers");
    for (int round = 0; round < 10; ++round) {
      const auto all = group.gather(std::to_string(rank * 100 + round), 60s);
      for (int other = 0; other < n; ++other)
        if (all.at(static_cast<std::size_t>(other)) != std::to_string(other * 100 + round))
          throw UsageError("mixed up");
    }
  }));
}

BOOST_AUTO_TEST_CASE(certificates_protect_calls_with_tls) {
  const Certificates folder;
  const Certificates::Authority authority(folder, "authority");
  const TlsFiles files = authority.issue("member", {.names = "DNS:w0,DNS:w1,DNS:w2"});
  expect_good(as_group(
      3,
      [](Group& group, int rank) {
        for (int other = 0; other < 3; ++other)
          if (rpc_sync<&add>(*group.agent(), other, rank, other) != rank + other) throw UsageError("a wrong sum");
        group.barrier();
        for (const Connection& one : group.agent()->connections())
          if (one.transport != (one.peer.id == rank ? "self" : "tls")) throw UsageError("over " + one.transport);
      },
      [&](InitOptions& options) {
        options.key = {};
        options.tls = files;
        options.transport = Transport::tcp;
      }));
}

BOOST_AUTO_TEST_CASE(certificate_group_refuses_other_credentials) {
  const Certificates folder;
  const TlsFiles member = Certificates::Authority(folder, "authority").issue("w0");
  const TlsFiles stranger = Certificates::Authority(folder, "elsewhere").issue("stranger");
  const ReservedPort port;
  const auto run = [&](int rank, const TlsFiles& files, std::chrono::milliseconds timeout) {
    InitOptions options = member_of(port, rank, 3, timeout);
    options.tls = files;
    if (!files.empty()) options.key = {};
    return error_of<RpcError>([&] { Group(name_of(rank), options); });
  };
  std::string error;
  std::jthread rank_0([&] { error = run(0, member, 8s); });
  wait_until_somebody_listens(port);
  const std::string other = run(1, stranger, 60s), plain = run(2, {}, 60s);
  const std::string where = ": rank 0 at 127.0.0.1:" + std::to_string(port.number()) + ": ";
  BOOST_TEST(contains(other, where + "the other side's certificate is refused: unable to get local issuer"), other);
  BOOST_TEST(contains(plain, where + "the other side does not use a shared key, but this worker does"), plain);
  rank_0.join();
  BOOST_TEST(contains(error, "these workers have not joined: rank 1, rank 2"), error);
  BOOST_TEST(contains(error, "the other side refused this worker's certificate: tlsv1 alert unknown ca"), error);
}

BOOST_AUTO_TEST_CASE(key_group_refuses_certificates) {
  const Certificates folder;
  const TlsFiles files = Certificates::Authority(folder, "authority").issue("member");
  const ReservedPort port;
  std::string error;
  std::jthread rank_0(
      [&] { error = error_of<RpcError>([&] { Group(name_of(0), member_of(port, 0, 2, std::chrono::seconds(6))); }); });
  wait_until_somebody_listens(port);
  InitOptions options = member_of(port, 1, 2);
  options.tls = files;
  BOOST_TEST(contains(error_of<RpcError>([&] { Group(name_of(1), options); }), "both a key and certificates"));
  options.key = {};
  const std::string told = error_of<RpcError>([&] { Group(name_of(1), options); });
  BOOST_TEST(contains(told, "it may use a shared key in place of certificates"), told);
  rank_0.join();
  BOOST_TEST(contains(error, "the other side does not use a shared key, but this worker does"), error);
}

BOOST_AUTO_TEST_CASE(small_payload_limits_allow_gatherings) {
  expect_good(as_group(
      8,
      [](Group& group, int) {
        for (const std::string& one : group.gather(std::string(20'000, 'x'), 60s))
          if (one.size() != 20'000) throw UsageError("cut off");
      },
      [](InitOptions& options) { options.agent.limits.max_payload_bytes = 4096; }));
}

BOOST_AUTO_TEST_CASE(connections_are_made_on_demand) {
  expect_good(as_group(4, [](Group& group, int rank) {
    if (connections(group) != (rank == 0 ? 3u : 1u)) throw UsageError("connected with more than rank 0");
    group.barrier();
    if (rank == 2 && rpc_sync<&add>(*group.agent(), 3, 1, 2) != 3) throw UsageError("a wrong sum");
    group.barrier();
    const std::size_t expected = rank == 0 ? 3 : rank == 1 ? 1 : 2;
    if (connections(group) != expected) throw UsageError("unexpected connections");
  }));
}

BOOST_AUTO_TEST_CASE(simultaneous_first_calls_succeed) {
  constexpr int n = 6;
  for (const auto grace : {10'000ms, 0ms}) {
    for (int again = 0; again < 10; ++again) {
      std::barrier start(n);
      expect_good(as_group(
          n,
          [&](Group& group, int rank) {
            start.arrive_and_wait();
            std::vector<Future<int>> sums;
            for (int round = 0; round < 3; ++round)
              for (int other = 0; other < n; ++other)
                sums.push_back(rpc_async<&add>(*group.agent(), other, rank, other));
            for (std::size_t i = 0; i < sums.size(); ++i)
              if (sums[i].wait() != rank + static_cast<int>(i) % n) throw UsageError("a wrong sum");
            const Metrics metrics = group.agent()->metrics();
            if (metrics.calls_failed != 0) throw UsageError("a call has failed");
          },
          [&](InitOptions& options) { options.agent.grace_period = grace; }));
    }
  }
}

BOOST_AUTO_TEST_CASE(first_call_to_departed_worker_never_runs) {
  const ReservedPort port;
  std::barrier gone(2);
  bool may_have_run = true;
  std::string error;
  {
    std::vector<std::jthread> threads;
    threads.emplace_back([&] { Group(name_of(0), member_of(port, 0, 3)).shutdown({.graceful = false}); });
    threads.emplace_back([&] {
      Group group(name_of(1), member_of(port, 1, 3));
      gone.arrive_and_wait();
      try {
        rpc_sync<&add>(*group.agent(), 2, 1, 2);
      } catch (const PeerLostError& e) {
        error = e.what();
        may_have_run = e.may_have_run();
      }
      group.shutdown({.graceful = false});
    });
    threads.emplace_back([&] {
      Group(name_of(2), member_of(port, 2, 3)).shutdown({.graceful = false});
      gone.arrive_and_wait();
    });
  }
  // The connection attempt failed, or the worker had said goodbye, or rank 0 had reported its end. The text differs.
  BOOST_TEST(contains(error, "worker 'w2' (rank 2)"), error);
  BOOST_TEST(!may_have_run);
}

BOOST_AUTO_TEST_CASE(timeout_names_missing_workers) {
  const ReservedPort port;
  std::string at_0, at_2;
  {
    std::jthread zero(
        [&] { at_0 = error_of<tendril::rpc::TimeoutError>([&] { Group group("w0", member_of(port, 0, 3, 500ms)); }); });
    std::jthread two(
        [&] { at_2 = error_of<tendril::rpc::TimeoutError>([&] { Group group("w2", member_of(port, 2, 3)); }); });
  }
  BOOST_TEST(contains(at_0, "after 500 ms these workers have not joined: rank 1 (of world size 3)"), at_0);
  BOOST_TEST(contains(at_2, "after 500 ms these workers have not joined: rank 1"), at_2);
}

BOOST_AUTO_TEST_CASE(unreachable_rank_0_is_reported) {
  const ReservedPort port;
  const std::string text =
      error_of<tendril::rpc::TimeoutError>([&] { Group group("w1", member_of(port, 1, 2, 100ms)); });
  BOOST_TEST(contains(text, "no group could be joined at 127.0.0.1:"));
  BOOST_TEST(contains(text, "within 100 ms"));
  BOOST_TEST(contains(text, "is rank 0 running?"));
}

/// Answers one enquiry with `try_later`.
void turn_away(tcp::socket& socket) {
  detail::TlsContext context(kKey);
  const rpc_test::RawTls tls(socket.native_handle(), false, context);
  Bytes said(kMaxHelloBytes);
  if (SSL_read(tls.ssl(), said.data(), static_cast<int>(said.size())) <= 0) throw std::runtime_error("no enquiry");
  Hello answer;
  answer.world_size = 2;
  answer.refusal = "there is another group";
  answer.refusal_kind = RefusalKind::try_later;
  const Bytes bytes = encode(answer);
  if (SSL_write(tls.ssl(), bytes.data(), static_cast<int>(bytes.size())) <= 0) throw std::runtime_error("not answered");
}

BOOST_AUTO_TEST_CASE(truncated_enquiry_keeps_earlier_reason) {
  boost::asio::io_context io;
  tcp::acceptor acceptor(io, {boost::asio::ip::address_v4::loopback(), 0});
  // After the first connection, the system accepts further ones, but nothing answers them.
  std::jthread rank_0([&] {
    tcp::socket first = acceptor.accept();
    turn_away(first);
  });
  const detail::Enquirer worker{.self = {.name = "w1", .id = 1}, .world_size = 2, .key = kKey};
  const auto timeout = 3s;  // less than an attempt may take
  const std::string text = error_of<tendril::rpc::TimeoutError>(
      [&] { detail::find_group(acceptor.local_endpoint(), worker, Clock::now() + timeout, timeout); });
  BOOST_TEST(contains(text, "within 3000 ms: there is another group"), text);
}

BOOST_AUTO_TEST_CASE(port_in_use_error_suggests_another_port) {
  const ReservedPort port;
  Group first("w0", member_of(port, 0, 1));
  const std::string text = error_of<UsageError>([&] { Group second("w0", member_of(port, 0, 1)); });
  BOOST_TEST(contains(text, "cannot listen on 127.0.0.1 port"), text);
  BOOST_TEST(contains(text, "Address already in use; choose another master_port (MASTER_PORT)"), text);
}

BOOST_AUTO_TEST_CASE(garbage_does_not_disturb_the_group) {
  const ReservedPort port;
  std::vector<std::string> errors(2);
  std::jthread zero([&] { errors[0] = error_of<RpcError>([&] { Group("w0", member_of(port, 0, 2)).shutdown(); }); });
  wait_until_somebody_listens(port);
  boost::asio::io_context io;
  std::vector<tcp::socket> strangers;
  const auto send = [&](const std::string& bytes) {
    strangers.emplace_back(io).connect(address_of(port));
    boost::system::error_code closed_meanwhile;
    boost::asio::write(strangers.back(), boost::asio::buffer(bytes), closed_meanwhile);
  };
  send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  send(std::string(100'000, '\xff'));
  for (tcp::socket& stranger : strangers) {  // rank 0 closes the connection as soon as it recognizes garbage
    std::string answer(4096, '\0');
    boost::system::error_code error;
    answer.resize(boost::asio::read(stranger, boost::asio::buffer(answer), error));
    BOOST_TEST(error.failed());
    BOOST_TEST(!contains(answer, "w0"));
  }
  for (int i = 0; i < 200; ++i) send(i % 2 == 0 ? std::string("\x16\x03\x01", 3) : "");  // and nothing more
  errors[1] = error_of<RpcError>([&] { Group("w1", member_of(port, 1, 2)).shutdown(); });
  zero.join();
  expect_good(errors);
}

BOOST_AUTO_TEST_CASE(worker_with_another_key_is_refused) {
  const ReservedPort port;
  std::string missing;
  std::jthread zero(
      [&] { missing = error_of<tendril::rpc::TimeoutError>([&] { Group group("w0", member_of(port, 0, 2, 3s)); }); });
  InitOptions stranger = member_of(port, 1, 2);
  stranger.key = SharedKey::random("the stranger's key");
  const std::string text = error_of<UsageError>([&] { Group group("w1", stranger); });
  zero.join();
  BOOST_TEST(contains(text, "does not hold this worker's key (the stranger's key)"), text);
  BOOST_TEST(contains(missing, "refused: a connection from 127.0.0.1: the other side does not hold this worker's key"),
             missing);
}

BOOST_AUTO_TEST_CASE(loss_of_rank_0_ends_gathering) {
  const ReservedPort port;
  std::string text;
  std::jthread one([&] {
    text = error_of<PeerLostError>([&] {
      Group group("w1", member_of(port, 1, 2));
      group.barrier(0ms);
    });
  });
  Group("w0", member_of(port, 0, 2)).shutdown({.graceful = false});
  one.join();
  BOOST_TEST(contains(text, "rank 0 is gone"), text);
}

BOOST_AUTO_TEST_CASE(late_worker_learns_why_group_failed) {
  const ReservedPort port;  // rank 2 never joins; rank 1 retries at least every 100 ms
  std::string at_0, late;
  std::jthread one(
      [&] { late = error_of<tendril::rpc::TimeoutError>([&] { Group group("w1", member_of(port, 1, 3, 60s)); }); });
  at_0 = error_of<tendril::rpc::TimeoutError>([&] { Group group("w0", member_of(port, 0, 3, 1ms)); });
  one.join();
  BOOST_TEST(contains(at_0, "after 1 ms these workers have not joined: "), at_0);
  BOOST_TEST(contains(late, "after 1 ms these workers have not joined: "), late);
}

BOOST_AUTO_TEST_SUITE_END()

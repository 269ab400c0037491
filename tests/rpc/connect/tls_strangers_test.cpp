// Tests groups whose TCP connections use TLS: their members, and processes outside the group.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "tendril/tensor/raw.h"
#include "tests/contains.h"
#include "tests/rpc/agent_pair.h"
#include "tests/rpc/certificates.h"
#include "tests/rpc/messages.h"
#include "tests/rpc/raw_client.h"
#include "tests/rpc/raw_tls.h"
#include "tests/wait_until.h"

BOOST_AUTO_TEST_SUITE(tls_strangers)

using namespace rpc_test;
using tendril::rpc::testing::bytes_of;
using Authority = Certificates::Authority;

const Functions& functions() {
  static const Functions table([](Functions& f) {
    f.add(1, "echo", [](InboundCall& inbound) {
      Message answer = reply(text(inbound.request()));
      answer.tensors = inbound.request().tensors;
      inbound.reply(std::move(answer));
    });
  });
  return table;
}

AgentOptions options_of(const char* name, int rank, const TlsCredentials& tls) {
  AgentOptions options;
  options.name = name;
  options.rank = rank;
  options.world_size = 3;
  options.num_worker_threads = 1;
  options.group = "a group that strangers must not hear of";
  options.tls = tls;
  return options;
}

using tendril::test::contains;

/// Captures the standard error of this process.
class ErrorOutput {
 public:
  ErrorOutput() : before_(::fcntl(2, F_DUPFD_CLOEXEC, 0)) {
    const int file = ::mkstemp(path_);
    ::dup2(file, 2);
    ::close(file);
  }
  ~ErrorOutput() {
    ::dup2(before_, 2);
    ::close(before_);
    ::unlink(path_);
  }
  ErrorOutput(const ErrorOutput&) = delete;
  ErrorOutput& operator=(const ErrorOutput&) = delete;

  std::string text() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  /// Waits until the output contains `part`. Returns false after a minute.
  bool says(const std::string& part) const {
    return tendril::test::holds_within(60s, [&]() -> bool { return contains(text(), part); });
  }

 private:
  char path_[40] = "/tmp/tendril_said_test_XXXXXX";
  const int before_;
};

/// A worker of the group that listens with TLS.
struct Server {
  Server() : agent(options_of("server", 0, authority.member("server")), functions()) {
    endpoint = agent.listen({.unix_socket = false});
  }
  void check_alive() {
    Agent friendly(options_of("friend", 1, authority.member("friend")), functions());
    friendly.connect(agent.self(), endpoint, Clock::now() + 60s);
    BOOST_TEST(rpc_test::text(call(friendly, 0, request(1, "fine")).wait()) == "fine");
    BOOST_TEST(friendly.connections().at(0).transport == "tls");
  }

  const Certificates folder;
  const Authority authority{folder, "authority"};
  Agent agent;
  Agent::Endpoint endpoint;
};

std::string error_of_connecting(Agent& agent, const Agent::Endpoint& endpoint) {
  try {
    agent.connect({std::string("server"), 0}, endpoint, Clock::now() + 30s);
  } catch (const RpcError& e) {
    return e.what();
  }
  return "";
}

BOOST_AUTO_TEST_CASE(members_exchange_large_tensors) {
  Server server;
  Agent other(options_of("other", 2, server.authority.member("other")), functions());
  other.connect(server.agent.self(), server.endpoint, Clock::now() + 60s);
  BOOST_REQUIRE(server.agent.wait_connected(2, Clock::now() + 60s));
  std::vector<Future<Message>> answers;
  constexpr int64_t sizes[] = {0, 1, 4000, 5000, 20'000, 3'000'000};
  for (const int64_t size : sizes) {
    for (Agent* const from : {&other, &server.agent}) {
      Message message = request(1, "large");
      message.tensors = {tendril::raw::full({size}, tendril::Scalar(3.0f))};
      answers.push_back(call(*from, from == &other ? 0 : 2, std::move(message), {.timeout = 0us}));
    }
  }
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const Message answer = answers[i].wait();
    BOOST_REQUIRE(answer.tensors.size() == 1);
    const auto* const got = static_cast<const float*>(answer.tensors[0].raw_data());
    BOOST_TEST(answer.tensors[0].numel() == sizes[i / 2]);
    BOOST_TEST(std::all_of(got, got + answer.tensors[0].numel(), [](float x) { return x == 3.0f; }));
  }
  check_at_rest(other);
  check_at_rest(server.agent);
  BOOST_TEST(other.connections().at(0).transport == "tls");
}

BOOST_AUTO_TEST_CASE(certificate_of_another_authority_is_refused) {
  Server server;
  const ErrorOutput said;
  const Authority elsewhere(server.folder, "elsewhere");
  Agent other(options_of("other", 1, elsewhere.member("other")), functions());
  const std::string error = error_of_connecting(other, server.endpoint);
  BOOST_TEST(contains(error,
                      "connect to worker 'server' (rank 0): the other side's certificate is refused: unable to "
                      "get local issuer certificate"),
             error);
  BOOST_TEST(
      said.says("worker 'server' refused a connection from 127.0.0.1: the other side refused this worker's "
                "certificate: tlsv1 alert unknown ca"));
  server.check_alive();
}

BOOST_AUTO_TEST_CASE(stranger_that_trusts_the_group_is_refused) {
  Server server;
  const ErrorOutput said;
  // It trusts its own authority and the group's, so it accepts the server's certificate, but the server refuses its.
  const Authority elsewhere(server.folder, "elsewhere");
  const TlsFiles files = elsewhere.issue("other");
  std::ofstream(files.authority, std::ios::app) << std::ifstream(server.folder.path() + "/authority.pem").rdbuf();
  Agent other(options_of("other", 1, TlsCredentials::from_files(files)), functions());
  const std::string error = error_of_connecting(other, server.endpoint);
  BOOST_TEST(contains(error, "the other side refused this worker's certificate: tlsv1 alert unknown ca"), error);
  BOOST_TEST(
      said.says("refused a connection from 127.0.0.1: the other side's certificate is refused: unable to get "
                "local issuer certificate"));
  BOOST_TEST(server.agent.peers().empty());
  server.check_alive();
}

BOOST_AUTO_TEST_CASE(expired_missing_and_old_credentials_are_refused) {
  Server server;
  const ErrorOutput said;
  const TlsFiles expired = server.authority.issue("expired", {.valid_for_s = -60});
  const TlsFiles good = server.authority.issue("good");
  {
    const RawClient stranger(server.endpoint);
    BOOST_TEST(contains(RawTls(stranger.socket(), true, &expired).why_it_ends(), "alert certificate expired"));
    BOOST_TEST(said.says("the other side's certificate is refused: certificate has expired"));
  }
  {
    const RawClient stranger(server.endpoint);
    BOOST_TEST(contains(RawTls(stranger.socket(), true, nullptr).why_it_ends(), "alert certificate required"));
    BOOST_TEST(said.says("the other side sent no certificate"));
  }
  {
    const RawClient stranger(server.endpoint);
    BOOST_TEST(!RawTls(stranger.socket(), true, &good, TLS1_2_VERSION).connected());
    BOOST_TEST(said.says("unsupported protocol"));
  }
  BOOST_TEST(!contains(said.text(), "secret"));
  BOOST_TEST(server.agent.peers().empty());
  server.check_alive();
}

BOOST_AUTO_TEST_CASE(expired_listener_does_not_learn_who_dials) {
  const Certificates folder;
  const Authority authority(folder, "authority");
  boost::asio::io_context io;
  boost::asio::ip::tcp::acceptor listener(io, {boost::asio::ip::address_v4::loopback(), 0});
  const TlsFiles expired = authority.issue("expired", {.valid_for_s = -60});
  std::string heard = "nothing";
  std::jthread listening([&] {
    auto socket = listener.accept();
    RawTls tls(socket.native_handle(), false, &expired);
    heard = tls.connected() ? tls.why_it_ends() : "no connection";
  });
  Agent agent(options_of("dialler", 1, authority.member("dialler")), functions());
  const std::string error =
      error_of_connecting(agent, {.tcp_host = std::string("127.0.0.1"), .tcp_port = listener.local_endpoint().port()});
  BOOST_TEST(contains(error, "the other side's certificate is refused: certificate has expired"), error);
  listening.join();
  BOOST_TEST((heard == "no connection" || contains(heard, "certificate expired")), heard);
}

BOOST_AUTO_TEST_CASE(key_and_certificates_refuse_each_other) {
  Server server;
  const ErrorOutput said;
  Agent keyed(options_of("keyed", 1, {}), functions());
  const std::string error = error_of_connecting(keyed, server.endpoint);
  BOOST_TEST(contains(error,
                      "the other side does not use a shared key, but this worker does: give all workers "
                      "certificates, or none"),
             error);
  BOOST_TEST(said.says("refused a connection from 127.0.0.1: the other side refused this worker's certificate"));
  server.check_alive();

  Agent listening(options_of("server", 0, {}), functions());
  const Agent::Endpoint endpoint = listening.listen({.unix_socket = false});
  Agent certified(options_of("certified", 1, server.authority.member("certified")), functions());
  const std::string other = error_of_connecting(certified, endpoint);
  BOOST_TEST(contains(other, "it may use a shared key in place of certificates: give all workers"), other);
  BOOST_TEST(said.says("the other side does not use a shared key, but this worker does"));
  Agent friendly(options_of("friend", 2, {}), functions());
  friendly.connect(listening.self(), endpoint, Clock::now() + 60s);
  BOOST_TEST(rpc_test::text(call(friendly, 0, request(1, "fine")).wait()) == "fine");
}

BOOST_AUTO_TEST_CASE(certificate_must_contain_the_workers_name) {
  Server server;
  const ErrorOutput said;
  {
    const TlsCredentials of_another = server.authority.member("another");
    Agent dialler(options_of("dialler", 1, of_another), functions());
    BOOST_TEST(contains(error_of_connecting(dialler, server.endpoint),
                        "the connecting worker's certificate does not contain its name, 'dialler'"));
    BOOST_TEST(said.says("the connecting worker's certificate does not contain its name, 'dialler'"));
  }
  {
    Agent impostor(options_of("server", 0, server.authority.member("another")), functions());
    const Agent::Endpoint endpoint = impostor.listen({.unix_socket = false});
    Agent dialler(options_of("dialler", 1, server.authority.member("dialler")), functions());
    BOOST_TEST(contains(error_of_connecting(dialler, endpoint),
                        "the other side's certificate does not contain its name, 'server'"));
  }
  Agent shouting(options_of("FRIEND", 1, server.authority.member("friend")), functions());
  BOOST_TEST(contains(error_of_connecting(shouting, server.endpoint), "does not contain its name"));
  const TlsFiles several = server.authority.issue("several", {.names = "DNS:first,DNS:friend:1"});
  Agent named(options_of("friend:1", 1, TlsCredentials::from_files(several)), functions());
  named.connect(server.agent.self(), server.endpoint, Clock::now() + 60s);
  BOOST_TEST(named.connections().at(0).transport == "tls");
}

BOOST_AUTO_TEST_CASE(certificate_does_not_open_another_workers_session) {
  Server server;
  Agent victim(options_of("victim", 1, server.authority.member("victim")), functions());
  victim.listen({.unix_socket = false});
  victim.connect(server.agent.self(), server.endpoint, Clock::now() + 60s);
  const TlsFiles files = server.authority.issue("thief");
  for (const bool continues : {true, false}) {
    const RawClient peer(server.endpoint);
    const RawTls tls(peer.socket(), true, &files);
    Hello said = raw_hello("thief", 1, 3, "a group that strangers must not hear of");
    if (continues) {
      said.incarnation = victim.incarnation();
      said.resumption.peer_incarnation = server.agent.incarnation();
      said.resumption.attempt = 1;
    }
    const Bytes bytes = encode(said);
    BOOST_TEST(SSL_write(tls.ssl(), bytes.data(), static_cast<int>(bytes.size())) == static_cast<int>(bytes.size()));
    Bytes answer(kMaxHelloBytes);
    const int n = SSL_read(tls.ssl(), answer.data(), static_cast<int>(answer.size()));
    BOOST_REQUIRE(n > 0);
    answer.resize(static_cast<std::size_t>(n));
    const std::string refusal = decode_hello(answer).refusal;
    BOOST_TEST(contains(refusal, continues ? "rank 1 is worker 'victim', not 'thief'"
                                           : "rank 1 is already connected to worker 'server'"),
               refusal);
  }
  BOOST_TEST(rpc_test::text(call(victim, 0, request(1, "mine")).wait()) == "mine");
}

BOOST_AUTO_TEST_CASE(next_connection_uses_replaced_certificates) {
  Server server;
  const ErrorOutput said;
  const TlsFiles files = server.authority.issue("friend", {.valid_for_s = 1});
  Agent renewed(options_of("friend", 1, TlsCredentials::from_files(files)), functions());
  tendril::test::wait_until("the certificate has expired", [&] {
    const RawClient peer(server.endpoint);
    return contains(RawTls(peer.socket(), true, &files).why_it_ends(), "certificate expired");
  });
  std::ofstream(files.certificate, std::ios::trunc) << "not a certificate";
  tendril::test::wait_until("the changed file has been read", [&] {
    BOOST_TEST(contains(error_of_connecting(renewed, server.endpoint), "certificate expired"));
    return contains(said.text(), "changed TLS files are invalid, the previous content stays in use: the certificate");
  });
  (void)server.authority.issue("friend");
  tendril::test::wait_until("the new certificate is used",
                            [&] { return error_of_connecting(renewed, server.endpoint).empty(); });
  BOOST_TEST(rpc_test::text(call(renewed, 0, request(1, "fine")).wait()) == "fine");
}

BOOST_AUTO_TEST_CASE(scanners_learn_nothing) {
  Server server;
  Bytes huge = bytes_of("\x16\x03\x01");
  huge.resize(100'000, std::byte{0x3f});
  for (const Bytes& said : {bytes_of("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), huge,
                            bytes_of("\x16\x03\x01\x02\x01 a client hello of TLS"), Bytes(100'000, std::byte{0xff}),
                            bytes_of("\x15\x03\x03"), encode(raw_hello("x", 1, 3))}) {
    RawClient stranger(server.endpoint);
    stranger.try_say(said);
    stranger.hang_up();
    const Bytes answer = stranger.receive_until_closed();
    const std::string heard(reinterpret_cast<const char*>(answer.data()), answer.size());
    for (const char* secret : {"group", "server", "friend"}) BOOST_TEST(!contains(heard, secret));
  }
  BOOST_TEST(server.agent.peers().empty());
  server.check_alive();
}

BOOST_AUTO_TEST_CASE(silent_connections_are_closed) {
  Server server;
  // Presents a valid certificate, but sends no hello.
  const TlsFiles good = server.authority.issue("good");
  const RawClient member(server.endpoint);
  RawTls silent(member.socket(), true, &good);
  BOOST_TEST(silent.connected());
  std::vector<std::unique_ptr<RawClient>> crowd;
  const std::string begun("\x16\x03\x01\x02\x01\x01", 6);
  for (std::size_t i = 0; i < 200; ++i) {
    crowd.push_back(std::make_unique<RawClient>(server.endpoint));
    crowd.back()->try_say(std::as_bytes(std::span(begun)).first(i % 7));
  }
  server.check_alive();
  const auto before = Clock::now();
  silent.why_it_ends();
  BOOST_TEST((Clock::now() - before < 50s));
  BOOST_TEST(crowd.front()->closed_within(60s));
}

BOOST_AUTO_TEST_CASE(members_messages_are_checked) {
  Server server;
  const TlsFiles good = server.authority.issue("x");
  const auto say_hello = [&](SSL* ssl, const Hello& hello) {
    const Bytes bytes = encode(hello);
    return SSL_write(ssl, bytes.data(), static_cast<int>(bytes.size())) == static_cast<int>(bytes.size());
  };
  {
    const RawClient member(server.endpoint);
    RawTls tls(member.socket(), true, &good);
    BOOST_TEST(say_hello(tls.ssl(), raw_hello("x", 1, 3, "another group")));
    Bytes answer(kMaxHelloBytes);
    const int n = SSL_read(tls.ssl(), answer.data(), static_cast<int>(answer.size()));
    BOOST_REQUIRE(n > 0);
    answer.resize(static_cast<std::size_t>(n));
    BOOST_TEST(contains(decode_hello(answer).refusal, "belongs to the group 'another group', not to"));
  }
  {
    const RawClient member(server.endpoint);
    RawTls tls(member.socket(), true, &good);
    BOOST_TEST(say_hello(tls.ssl(), raw_hello("x", 1, 3, "a group that strangers must not hear of")));
    BOOST_REQUIRE(server.agent.wait_connected(1, Clock::now() + 60s));
    const std::string noise(300, '\xff');
    BOOST_TEST(SSL_write(tls.ssl(), noise.data(), 300) == 300);
    tls.why_it_ends();  // at once
    tendril::test::wait_until("the stranger is disconnected", [&] { return !server.agent.is_connected(1); });
  }
  server.check_alive();
}

BOOST_AUTO_TEST_CASE(certificates_allow_routable_addresses) {
  Server server;
  Agent agent(options_of("routable", 0, server.authority.member("routable")), functions());
  const Agent::Endpoint endpoint = agent.listen(
      {.unix_socket = false, .tcp_host = std::string("0.0.0.0"), .advertised_host = std::string("localhost")});
  Agent other(options_of("other", 1, server.authority.member("other")), functions());
  other.connect(agent.self(), endpoint, Clock::now() + 60s);
  BOOST_TEST(other.connections().at(0).transport == "tls");
}

BOOST_AUTO_TEST_SUITE_END()

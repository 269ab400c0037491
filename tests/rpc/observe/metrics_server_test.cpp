// Metrics over HTTP, for clients that behave and clients that do not.
#include "tendril/rpc/observe/metrics_server.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <future>
#include <map>
#include <thread>

#include "tendril/rpc/group.h"
#include "tests/rpc/cluster.h"
#include "tests/rpc/error_text.h"
#include "tests/rpc/reserved_port.h"

BOOST_AUTO_TEST_SUITE(metrics_server)

using namespace rpc_test;
using tendril::rpc::detail::MetricsServer;
using tendril::test::text_of_error;

int add(int a, int b) { return a + b; }
std::shared_future<void> opened;
std::atomic<int> inside{0};
void hold() {
  ++inside;
  opened.wait();
}

/// One connection to a port of 127.0.0.1.
class Client {
 public:
  explicit Client(uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    connected = ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~Client() { ::close(socket_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void send(const std::string& text) const { (void)!::send(socket_, text.data(), text.size(), MSG_NOSIGNAL); }
  /// Returns all bytes until the server closes, after "(nothing)" if it does not send or close within a minute.
  std::string rest() const {
    std::string text;
    char buffer[4096];
    for (;;) {
      pollfd fd{socket_, POLLIN, 0};
      if (::poll(&fd, 1, 60'000) <= 0) return "(nothing)" + text;
      const ssize_t n = ::recv(socket_, buffer, sizeof buffer, 0);
      if (n <= 0) return text;
      text.append(buffer, static_cast<std::size_t>(n));
    }
  }
  bool connected = false;

 private:
  int socket_;
};

std::string ask(uint16_t port, const std::string& request) {
  const Client client(port);
  client.send(request);
  return client.rest();
}
std::string get(uint16_t port, const std::string& path) {
  return ask(port, "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
}

/// An agent and its server.
struct Served {
  Agent agent{{.name = std::string("solo")}, served_functions()};
  MetricsServer server{agent.share(), 0};
};

BOOST_AUTO_TEST_CASE(metrics_and_status_have_length_and_type) {
  const Served served;
  const std::string metrics = get(served.server.port(), "/metrics");
  BOOST_TEST(metrics.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"),
             metrics);
  BOOST_TEST(contains(metrics, "\r\nConnection: close\r\n"));
  const std::size_t body = metrics.find("\r\n\r\n") + 4;
  BOOST_TEST(contains(metrics, "\r\nContent-Length: " + std::to_string(metrics.size() - body) + "\r\n"));
  BOOST_TEST(contains(metrics, "\ntendril_rpc_calls_made_total{worker=\"solo\",rank=\"0\"} 0\n"));
  BOOST_TEST(contains(get(served.server.port(), "/metrics?x=1"), "200 OK"));
  const std::string status = get(served.server.port(), "/status");
  BOOST_TEST(contains(status, "\r\n\r\n== worker 'solo' (rank 0) of 1, process "), status);
  const std::string head = ask(served.server.port(), "HEAD /metrics HTTP/1.0\r\n\r\n");
  BOOST_TEST((head.starts_with("HTTP/1.1 200 OK\r\n") && head.ends_with("\r\n\r\n")), head);
}

BOOST_AUTO_TEST_CASE(invalid_requests_are_refused) {
  const Served served;
  const std::map<std::string, std::string> cases = {
      {"GET / HTTP/1.1\r\n\r\n", "404 Not Found"},
      {"POST /metrics HTTP/1.1\r\nContent-Length: 0\r\n\r\n", "405 Method Not Allowed"},
      {"GET /metrics\r\n\r\n", "400 Bad Request"},
      {"\r\n\r\n", "400 Bad Request"},
      {std::string("\x16\x03\x01\x00\xff", 5) + "\r\n\r\n", "400 Bad Request"},
      {"GET /metrics HTTP/1.1\r\nX: " + std::string(5000, 'x'), "431 Request Header Fields Too Large"},
  };
  for (const auto& [request, code] : cases) {
    const std::string answer = ask(served.server.port(), request);
    BOOST_TEST(answer.starts_with("HTTP/1.1 " + code + "\r\n"), answer);
  }
  BOOST_TEST(contains(get(served.server.port(), "/metrics"), "200 OK"));
}

BOOST_AUTO_TEST_CASE(silent_clients_do_not_block_others) {
  const Served served;
  std::vector<std::unique_ptr<Client>> silent;
  for (int i = 0; i < 40; ++i) {
    silent.push_back(std::make_unique<Client>(served.server.port()));
    silent.back()->send("GET /metr");
  }
  BOOST_TEST(contains(get(served.server.port(), "/metrics"), "200 OK"));
  for (const auto& client : silent) BOOST_TEST(client->rest() == "");  // at once or after 5 s
}

BOOST_AUTO_TEST_CASE(server_answers_while_all_threads_are_stuck) {
  inside = 0;
  std::promise<void> gate;
  opened = gate.get_future();
  Cluster cluster(2, {.num_worker_threads = 2, .max_threads = 3});
  const MetricsServer server(cluster[1].share(), 0);
  std::vector<Future<void>> calls;
  for (int i = 0; i < 5; ++i) calls.push_back(rpc_async<&hold>(cluster[0], 1));
  BOOST_TEST(Cluster::eventually([] { return inside > 0; }, 60s));
  BOOST_TEST(contains(get(server.port(), "/metrics"),
                      "tendril_rpc_calls_received{worker=\"w1\",rank=\"1\",function=\"metrics_server::hold\","));
  gate.set_value();
  for (const Future<void>& call : calls) call.wait();
}

BOOST_AUTO_TEST_CASE(several_clients_scrape_while_calls_run) {
  Cluster cluster(2);
  const MetricsServer server(cluster[0].share(), 0);
  std::atomic<int> good{0};
  {
    std::vector<std::jthread> scrapers;
    for (int i = 0; i < 4; ++i) {
      scrapers.emplace_back([&] {
        for (int round = 0; round < 10; ++round) {
          if (contains(get(server.port(), "/metrics"), "200 OK")) ++good;
        }
      });
    }
    for (int i = 0; i < 500; ++i) BOOST_TEST(rpc_sync<&add>(cluster[0], 1, i, 1) == i + 1);
  }
  BOOST_TEST(good == 40);
}

BOOST_AUTO_TEST_CASE(port_is_exclusive_until_the_server_ends) {
  Agent agent({.name = std::string("solo")}, served_functions());
  const tendril::test::ReservedPort port;
  for (int round = 0; round < 3; ++round) {
    const MetricsServer server(agent.share(), port.number());
    BOOST_TEST(server.port() == port.number());
    BOOST_TEST(contains(get(server.port(), "/metrics"), "200 OK"));
    const std::string error = text_of_error([&] { MetricsServer(agent.share(), port.number()); });
    BOOST_TEST(error == "UsageError: metrics_port (TENDRIL_METRICS_PORT) " + std::to_string(port.number()) +
                            ": cannot listen at 127.0.0.1: Address already in use");
  }
  BOOST_TEST(!Client(static_cast<uint16_t>(port.number())).connected);
}

BOOST_AUTO_TEST_CASE(port_comes_from_option_or_environment) {
  const auto port = [](int option, WorkerId rank, const char* variable) {
    return tendril::rpc::detail::metrics_port(option, rank, [&](const char*) { return variable; });
  };
  BOOST_TEST(port(-1, 3, nullptr) == -1);
  BOOST_TEST(port(-1, 3, "") == -1);
  BOOST_TEST(port(-1, 3, "9100") == 9103);
  BOOST_TEST(port(9500, 3, "9100") == 9500);
  BOOST_TEST(port(0, 3, "9100") == 0);
  for (const char* bad : {"x", "0", "-1", "65535", "9100x"})
    BOOST_TEST(contains(text_of_error([&] { port(-1, 1, bad); }),
                        "UsageError: the environment variable TENDRIL_METRICS_PORT must be a port, 1 to 65535 with the "
                        "rank (1) added, got '" +
                            std::string(bad) + "'"));
  BOOST_TEST(contains(text_of_error([&] { port(70000, 1, nullptr); }), "metrics_port must be -1 to 65535, got 70000"));
}

BOOST_AUTO_TEST_CASE(group_serves_metrics_if_requested) {
  Group quiet("quiet", {.rank = 0, .world_size = 1});
  BOOST_TEST(quiet.metrics_port() == 0);
  Group group("talkative", {.rank = 0, .world_size = 1, .metrics_port = 0});
  const uint16_t port = group.metrics_port();
  BOOST_TEST(contains(get(port, "/metrics"), "tendril_rpc_world_size{worker=\"talkative\",rank=\"0\"} 1\n"));
  BOOST_TEST(!contains(get(port, "/metrics"), "quiet"));
  group.shutdown();
  BOOST_TEST(!Client(port).connected);
  quiet.shutdown();
}

BOOST_AUTO_TEST_SUITE_END()

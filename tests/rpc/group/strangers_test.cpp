// Packets from strangers do not disturb a group. Any process of the host can send them to rank 0's rendezvous.
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <boost/test/unit_test.hpp>
#include <thread>

#include "tendril/rpc/call.h"
#include "tendril/rpc/group.h"
#include "tendril/rpc/group/rendezvous.h"
#include "tendril/rpc/wire/hello.h"
#include "tests/rpc/error_text.h"
#include "tests/rpc/reserved_port.h"
#include "tests/wait_until.h"

BOOST_AUTO_TEST_SUITE(strangers)

using namespace tendril::rpc;
using namespace std::chrono_literals;
using boost::asio::ip::tcp;
using tendril::test::contains;
using tendril::test::ReservedPort;
using tendril::test::text_of_error;

int add(int a, int b) { return a + b; }

/// Packets that a process outside the group might send.
std::vector<Bytes> packets() {
  std::vector<Bytes> all;
  const auto with = [&](auto change) {
    Hello hello;
    hello.worker = {"stranger", 1};
    hello.world_size = 3;
    hello.enquiry = true;
    change(hello);
    all.push_back(encode(hello));
  };
  with([](Hello& h) { h.max_version = h.min_version = 7; });
  with([](Hello& h) { h.world_size = 4; });
  with([](Hello& h) { h.worker.id = 99; });
  with([](Hello& h) { h.enquiry = false; });
  for (const RendezvousKind kind : {RendezvousKind::join, RendezvousKind::fail, static_cast<RendezvousKind>(200)})
    all.push_back(encode(RendezvousMessage{.kind = kind, .text = "stranger"}));
  all.push_back(Bytes(5000, std::byte{0xff}));
  all.push_back(Bytes(1, std::byte{0}));
  return all;
}

constexpr std::size_t kRecordHeaderBytes = 5;  // of a TLS record; after fewer bytes, rank 0 waits for more

/// Sends each packet on a separate connection and waits until rank 0 has read it: rank 0 answers or closes the
/// connection, except after the incomplete packet.
void send_packets(int port) {
  boost::asio::io_context io;
  for (const Bytes& packet : packets()) {
    tcp::socket socket(io);
    boost::system::error_code error;
    socket.connect({boost::asio::ip::address_v4::loopback(), static_cast<uint16_t>(port)}, error);
    if (error) throw std::runtime_error("no process listens: " + error.message());
    boost::asio::write(socket, boost::asio::buffer(packet), error);
    if (packet.size() < kRecordHeaderBytes) continue;
    Bytes answer(4096);
    boost::asio::read(socket, boost::asio::buffer(answer), error);  // until rank 0 closes
  }
}

InitOptions options_of(int rank, int port) {
  InitOptions options;
  options.rank = rank;
  options.world_size = 3;
  options.master_port = port;
  return options;
}

std::string name_of(int rank) { return std::string("w").append(std::to_string(rank)); }

BOOST_AUTO_TEST_CASE(strangers_do_not_disturb_a_group) {
  const ReservedPort port;
  std::vector<std::string> errors(3);
  {
    std::vector<std::jthread> threads;
    const auto start = [&](int rank, bool with_strangers) {
      threads.emplace_back([&, rank, with_strangers] {
        errors[static_cast<std::size_t>(rank)] = text_of_error([&] {
          const auto disturb = [&] {
            if (with_strangers) send_packets(port.number());
          };
          disturb();  // while rank 0 waits
          Group group(name_of(rank), options_of(rank, port.number()));
          for (int round = 0; round < 2; ++round) {
            disturb();  // while the others are at the barrier
            group.barrier();
          }
          if (rpc_sync<&add>(*group.agent(), (rank + 1) % 3, 1, 2) != 3) throw std::logic_error("a wrong sum");
          disturb();  // while the others shut down
          group.shutdown();
        });
      });
    };
    start(0, false);
    start(1, false);
    boost::asio::io_context io;
    tendril::test::wait_until("rank 0 listens", [&] {
      boost::system::error_code error;
      tcp::socket(io).connect({boost::asio::ip::address_v4::loopback(), static_cast<uint16_t>(port.number())}, error);
      return !error;
    });
    start(2, true);
  }
  for (const std::string& error : errors) BOOST_TEST(error == "");
}

BOOST_AUTO_TEST_SUITE_END()

// Scenarios of lending_test: lending_scenarios NAME. Two or three worker processes exchange tensors on devices.

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tendril/rpc/call.h"
#include "tendril/rpc/default_agent.h"
#include "tendril/rpc/device/borrower.h"
#include "tendril/rpc/group.h"
#include "tendril/rpc/session/agent_impl.h"
#include "tendril/rpc/spawn.h"
#include "tendril/tensor/cuda/runtime.h"
#include "tendril/tensor/cuda/runtime/ipc.h"
#include "tendril/tensor/raw.h"
#include "tests/rpc/process.h"
#include "tests/rpc/soak/cut.h"
#include "tests/wait_until.h"

namespace rpc = tendril::rpc;
namespace cuda = tendril::cuda;
namespace raw = tendril::raw;
using namespace std::chrono_literals;
using tendril::Device;
using tendril::DeviceType;
using tendril::Tensor;

namespace lending_scenarios {

constexpr Device kFirst{DeviceType::cuda, 0};
constexpr Device kSecond{DeviceType::cuda, 1};

// ---- served functions

Tensor same(const Tensor& x) { return x; }
std::vector<Tensor> all_of(const std::vector<Tensor>& all) { return all; }
std::vector<double> values_of(const Tensor& x) { return x.to_vector<double>(); }
int pid() { return ::getpid(); }
std::pair<uint64_t, uint64_t> lent_and_borrowed() {
  const rpc::Metrics metrics = rpc::default_agent()->metrics();
  return {metrics.tensors_lent, metrics.tensors_borrowed};
}
/// A parameter that changes in place right after it has been returned.
Tensor& parameter() {
  static Tensor it = raw::to(raw::zeros({100'000}), kFirst);
  return it;
}
Tensor read_parameter() { return parameter(); }
void step() { raw::add_scaled_(parameter(), raw::full({100'000}, 1, tendril::kFloat32, kFirst), 1); }

std::pair<std::vector<uint8_t>, uint64_t> shared_handle() {
  static const auto block = cuda::SharedBlock::take(512, 0);
  const cuda::SharedSegment& segment = block->segment();
  const auto* const begin = reinterpret_cast<const uint8_t*>(segment.handle.data());
  return {{begin, begin + segment.handle.size()}, segment.bytes};
}

// ---- helpers

void require(bool holds, const std::string& what) {
  if (!holds) throw std::logic_error("check failed: " + what);
}

Tensor on(Device device, const Tensor& x) { return raw::to(raw::to(x, tendril::kCPU), device); }
Tensor numbers(int64_t count, Device device = kFirst) {
  return on(device, raw::arange(0, static_cast<double>(count), 1, tendril::kFloat32));
}

void eventually(const std::string& what, const std::function<bool()>& holds) {
  tendril::test::wait_until(what, holds, 30s);
}

rpc::Metrics metrics() { return rpc::default_agent()->metrics(); }

/// Calls until both sides lend. The first tensors go through host memory while segments are on offer.
void until_lending(int peer, Device device = kFirst) {
  const Tensor x = numbers(1000, device);
  const auto both = [&] {
    const auto before = std::pair(metrics().tensors_lent, metrics().tensors_borrowed);
    require(raw::equal(rpc::rpc_sync<&same>(peer, x), x), "the tensor comes back unchanged");
    return metrics().tensors_lent > before.first && metrics().tensors_borrowed > before.second;
  };
  eventually("both sides lend", both);
}

void all_given_back() {
  eventually("all tensors are returned", [] { return metrics().tensors_out == 0; });
}

/// Where the next block would begin in the first segment.
std::size_t next_offset() {
  const auto block = cuda::SharedBlock::take(512, 0);
  require(block && block->segment().number == 1, "there is room in the first segment");
  return block->offset();
}

// ---- workers

void run_pair(int rank, const rpc::InitOptions& options, const std::function<void()>& first) {
  rpc::init_rpc("w" + std::to_string(rank), options);
  if (rank == 0) first();
  rpc::shutdown({.timeout = 60s});
}

rpc::InitOptions lending() {
  rpc::InitOptions options;
  options.agent.cuda_ipc = true;
  return options;
}

void tensors(int rank) {
  run_pair(rank, lending(), [] {
    until_lending(1);
    const rpc::Metrics before = metrics();
    const Tensor block = raw::view(numbers(120), {4, 5, 6});
    const std::vector<Tensor> sent = {block,
                                      raw::transpose(block, 0, 2),
                                      raw::narrow(block, 1, 1, 3),
                                      raw::select(block, 2, 3),
                                      raw::expand(raw::narrow(block, 2, 0, 1), {4, 5, 6}),
                                      raw::narrow(block, 1, 2, 0),
                                      raw::select(raw::select(raw::select(block, 0, 1), 0, 1), 0, 1),
                                      on(kFirst, raw::full({3}, 1, tendril::kBool)),
                                      on(kFirst, raw::full({5}, 7, tendril::kInt64)),
                                      raw::full({2}, 3.0)};
    const std::vector<Tensor> back = rpc::rpc_sync<&all_of>(1, sent);
    for (std::size_t i = 0; i < sent.size(); ++i) {
      require(raw::equal(back.at(i), sent[i]), "tensor " + std::to_string(i) + " comes back unchanged");
      require(back[i].device() == sent[i].device(), "on its device");
      require(back[i].strides() == rpc::rpc_sync<&same>(0, sent[i]).strides(), "laid out as by a self-call");
    }
    // All except the empty one, the one of dtype bool and the one on the CPU.
    require(metrics().tensors_lent == before.tensors_lent + 7, "arguments were lent");
    require(metrics().tensors_borrowed == before.tensors_borrowed + 7, "results were borrowed");
    const auto there = rpc::rpc_sync<&lent_and_borrowed>(1);
    require(there.second == metrics().tensors_lent && there.first == metrics().tensors_borrowed, "both count the same");
    all_given_back();
    require(next_offset() == 0, "nothing is left in the segment");
    // Tens of calls at once.
    std::vector<Tensor> many;
    std::vector<rpc::Future<Tensor>> results;
    for (int i = 0; i < 60; ++i) {
      many.push_back(on(kFirst, raw::full({1000 + 10 * i}, i)));
      results.push_back(rpc::rpc_async<&same>(1, many.back()));
    }
    for (std::size_t i = 0; i < many.size(); ++i) require(raw::equal(results[i].wait(), many[i]), "calls do not mix");
    all_given_back();
    require(next_offset() == 0, "nothing is left in the segment");
  });
}

/// Tensors arrive with the values that they had when the call was made or the handler returned.
void in_place(int rank) {
  run_pair(rank, lending(), [] {
    until_lending(1);
    Tensor x = raw::to(raw::zeros({100'000}), kFirst);
    const Tensor one = raw::full({100'000}, 1, tendril::kFloat32, kFirst);
    std::vector<rpc::Future<Tensor>> results;
    for (int i = 0; i < 20; ++i) {
      results.push_back(rpc::rpc_async<&same>(1, x));
      raw::add_scaled_(x, one, 1);
    }
    for (int i = 0; i < 20; ++i) {
      require(
          raw::equal(results[static_cast<std::size_t>(i)].wait(), raw::full({100'000}, i, tendril::kFloat32, kFirst)),
          "argument " + std::to_string(i) + " has the value that it had at its call");
    }
    for (int i = 0; i < 20; ++i) {
      auto read = rpc::rpc_async<&read_parameter>(1);
      const Tensor& seen = read.wait();
      rpc::rpc_sync<&step>(1);
      require(raw::equal(seen, raw::full({100'000}, i, tendril::kFloat32, kFirst)),
              "a result has the value that it had when it was returned");
    }
    require(metrics().tensors_lent >= 20 && metrics().tensors_borrowed >= 20, "they were lent");
    all_given_back();
  });
}

/// A device map that swaps two devices.
void devices(int rank) {
  rpc::InitOptions options = lending();
  if (rank == 0) options.device_maps = {{"w1", {{0, 1}, {1, 0}}}};
  run_pair(rank, options, [] {
    until_lending(1);
    const Tensor x = numbers(1000), y = numbers(500, kSecond);
    for (int i = 0; i < 5; ++i) {
      require(raw::equal(rpc::rpc_sync<&same>(1, x), x), "it comes back");
      require(raw::equal(rpc::rpc_sync<&same>(1, y), y), "and from the second device");
    }
    all_given_back();
  });
}

/// Cuts the connection again and again. Frames are resent, nothing is lost, and all tensors are returned.
void cut(int rank) {
  std::set<int> others;  // the connection to the parent process
  for (const soak::Socket& socket : soak::connected_sockets()) others.insert(socket.fd);
  run_pair(rank, lending(), [&] {
    until_lending(1);
    const rpc::Metrics before = metrics();
    for (int round = 0; round < 20; ++round) {
      std::vector<Tensor> sent;
      std::vector<rpc::Future<Tensor>> results;
      for (int i = 0; i < 10; ++i) {
        sent.push_back(on(kFirst, raw::full({20'000}, 10 * round + i)));
        results.push_back(rpc::rpc_async<&same>(1, sent.back()));
        if (i != 3 && i != 9) continue;
        for (const soak::Socket& socket : soak::connected_sockets()) {
          if (others.count(socket.fd) == 0) soak::cut(socket);
        }
      }
      for (std::size_t i = 0; i < sent.size(); ++i) require(raw::equal(results[i].wait(), sent[i]), "it comes back");
    }
    require(metrics().tensors_lent > before.tensors_lent + 20, "tensors were lent");
    all_given_back();
    require(next_offset() == 0, "nothing is left in the segment");
  });
}

/// Nothing is lent, and all tensors arrive.
void through_host_memory(int rank, bool first_wants, bool second_wants, bool other_devices) {
  if (rank == 1 && other_devices) ::setenv("TENDRIL_EMULATED_HOST", "7", 1);
  rpc::InitOptions options;
  if (rank == 0 ? first_wants : second_wants) options.agent.cuda_ipc = true;
  run_pair(rank, options, [] {
    const Tensor x = numbers(100'000);
    for (int i = 0; i < 10; ++i) require(raw::equal(rpc::rpc_sync<&same>(1, x), x), "it comes back");
    require(metrics().tensors_lent == 0 && metrics().tensors_borrowed == 0, "nothing is lent");
    require(rpc::rpc_sync<&lent_and_borrowed>(1) == std::pair<uint64_t, uint64_t>(0, 0), "nothing is lent by w1");
  });
}

/// w1 stops while it holds lent tensors, its session ends, and it is killed. Only then is their memory reused.
void killed(int rank) {
  rpc::InitOptions options = lending();
  options.agent.ping_interval = 100ms;
  options.agent.liveness_timeout = 2s;
  options.agent.grace_period = 0ms;
  if (rank != 0) options.agent.liveness_timeout = 60s;  // w1 and w2 must not lose w0
  rpc::init_rpc("w" + std::to_string(rank), options);
  if (rank == 0) {
    until_lending(1);
    until_lending(2);
    all_given_back();
    const pid_t receiver = rpc::rpc_sync<&pid>(1);
    tendril::test::stop(receiver);
    const rpc::Future<Tensor> lost = rpc::rpc_async<&same>(1, numbers(100'000));
    require(metrics().tensors_out == 1, "the tensor is lent");
    require(next_offset() > 0, "its memory is in use");
    try {
      lost.wait();
      require(false, "the call fails");
    } catch (const rpc::PeerLostError&) {
    }
    eventually("the session has ended", [] { return metrics().tensors_out == 0; });
    until_lending(2);
    all_given_back();
    require(next_offset() > 0, "the memory is in use while w1 can read it");
    ::kill(receiver, SIGKILL);
    eventually("the memory is reused", [] {
      until_lending(2);
      all_given_back();
      return next_offset() == 0;
    });
    const pid_t other = rpc::rpc_sync<&pid>(2);
    std::cout << "no error" << std::endl;
    ::kill(other, SIGKILL);
    std::_Exit(0);
  }
  for (;;) ::pause();  // until worker 0, or the test, kills it
}

rpc::Message forged(uint32_t segment, uint64_t offset, uint64_t function) {
  rpc::Message message;
  message.kind = rpc::MessageKind::request;
  message.call_id = 1'000'000;
  message.function = function;
  const Tensor like = raw::zeros({1000});
  message.tensors = {rpc::without_memory(like.sizes(), rpc::dense_layout(like.sizes(), like.strides()), like.dtype())};
  message.placements = {{.from = kFirst, .to = kFirst}};
  message.lent = {{.segment = segment, .offset = offset, .id = 1}};
  return message;
}

/// Each forged message ends the session, and w1 reports the reason.
void forge(int rank, const std::string& what) {
  rpc::InitOptions options = lending();
  options.agent.grace_period = 0ms;
  rpc::init_rpc("w" + std::to_string(rank), options);
  if (rank == 0) {
    until_lending(1);
    const auto session = rpc::default_agent()->impl().session(1);
    if (what == "segment") session->link()->send(forged(77, 0, 1));
    if (what == "offset") session->link()->send(forged(1, (uint64_t{32} << 20) - 3999, 1));
    if (what == "overflow") session->link()->send(forged(1, UINT64_MAX - 8, 1));
    if (what == "place") session->link()->send(forged(1, 2, 1));
    if (what == "return") session->link()->send(encode(rpc::LendingReturn{{12345}}));
    if (what == "answer") session->link()->send(encode(rpc::LendingAnswer{.segment = 3, .accepted = true}));
    eventually("the session ends", [] { return !rpc::default_agent()->is_connected(1); });
    std::cout << "ended" << std::endl;
  } else {
    eventually("the session ends", [] { return !rpc::default_agent()->is_connected(0); });
  }
  rpc::shutdown({.graceful = false});
}

/// Receives the borrower's answers.
struct Answers final : rpc::Link {
  void start(std::shared_ptr<rpc::LinkEvents>) override {}
  bool send(rpc::Message&& message) override {
    const std::lock_guard lock(mutex);
    said.push_back(std::get<rpc::LendingAnswer>(rpc::decode_lending(message.payload)));
    return true;
  }
  void close() noexcept override {}
  const char* transport() const noexcept override { return "unix"; }
  rpc::LendingAnswer next() {
    eventually("an answer", [this] {
      const std::lock_guard lock(mutex);
      return !said.empty();
    });
    const std::lock_guard lock(mutex);
    rpc::LendingAnswer answer = said.back();
    said.clear();
    return answer;
  }
  std::mutex mutex;
  std::vector<rpc::LendingAnswer> said;
};

/// Wrong handles are rejected, and the right one is accepted.
void handles(int rank) {
  run_pair(rank, {}, [] {
    rpc::detail::Counters counters;
    const auto answers = std::make_shared<Answers>();
    const tendril::Ref<rpc::detail::Loop> loop = rpc::default_agent()->impl().loop;
    const auto borrower = std::make_shared<rpc::detail::Borrower>(loop, answers, counters);
    const auto refused = [&](const rpc::LendingOffer& offer, const std::string& why) {
      borrower->offered(offer);
      const rpc::LendingAnswer answer = answers->next();
      require(!answer.accepted && answer.why.find(why) != std::string::npos, why + ", got: " + answer.why);
    };
    const auto [handle, bytes] = rpc::rpc_sync<&shared_handle>(1);
    rpc::LendingOffer good{.segment = 1, .home = cuda::device_id(0), .bytes = bytes};
    std::memcpy(good.handle.data(), handle.data(), handle.size());
    rpc::LendingOffer bad = good;
    bad.handle = {};
    refused(bad, "cudaIpcOpenMemHandle");
    bad = good;
    bad.bytes = uint64_t{1} << 40;
    refused(bad, "less than the 1099511627776 bytes");
    bad.bytes = 0;
    refused(bad, "empty");
    bad = good;
    bad.home[3] ^= std::byte{1};
    refused(bad, "does not see that device");
    bad = good;
    bad.to = 100;
    refused(bad, "this process sees");
    const auto own = cuda::SharedBlock::take(512, 0);
    bad = good;
    bad.handle = own->segment().handle;
    refused(bad, "cudaIpcOpenMemHandle");  // a handle of this process
    borrower->offered(good);
    const rpc::LendingAnswer answer = answers->next();
    require(answer.accepted, "the right one is opened: " + answer.why);
    refused(good, "already open");
    borrower->end();
    good.segment = 2;
    refused(good, "the session has ended");
  });
}

int run(const std::string& name, const std::string& argument) {
  try {
    if (name == "tensors") rpc::spawn<&tensors>(2);
    if (name == "in_place") rpc::spawn<&in_place>(2);
    if (name == "cut") rpc::spawn<&cut>(2);
    if (name == "devices") rpc::spawn<&devices>(2);
    if (name == "killed") killed(std::atoi(std::getenv("RANK")));  // not by spawn, which would end the others
    if (name == "handles") rpc::spawn<&handles>(2);
    if (name == "neither") rpc::spawn<&through_host_memory>(2, false, false, false);
    if (name == "first") rpc::spawn<&through_host_memory>(2, true, false, false);
    if (name == "both") rpc::spawn<&through_host_memory>(2, true, true, false);
    if (name == "other_devices") rpc::spawn<&through_host_memory>(2, true, true, true);
    if (name == "forge") rpc::spawn<&forge>(2, argument);
    std::cout << "no error" << std::endl;
  } catch (const std::exception& error) {
    std::cout << "error: " << error.what() << std::endl;
  }
  return 0;
}

}  // namespace lending_scenarios

int main(int argc, char** argv) {
  rpc::worker_main(argc, argv);
  return lending_scenarios::run(argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : "");
}

// Placement of tensors on devices, and placements that are rejected before sending. No device is needed.
#include "tendril/rpc/device_map.h"

#include <boost/test/unit_test.hpp>
#include <mutex>

#include "tendril/rpc/device/device_routes.h"
#include "tendril/rpc/group.h"
#include "tendril/tensor/raw.h"
#include "tests/rpc/agent_pair.h"
#include "tests/rpc/cluster.h"

BOOST_AUTO_TEST_SUITE(device_map)

using namespace rpc_test;
using tendril::rpc::detail::DeviceRoutes;

namespace {

Device cuda(int8_t index) { return {DeviceType::cuda, index}; }

/// A tensor that claims to be on a device, for messages that must be rejected before the device is used.
Tensor claims_to_be_on(Device device) {
  static float element = 0;
  return raw::on_storage(Storage::wrap(&element, sizeof element, device, nullptr, nullptr), {1}, {1}, 0, kFloat32);
}

Message message_on(MessageKind kind, std::initializer_list<Device> devices) {
  Message message;
  message.kind = kind;
  for (const Device device : devices) message.tensors.push_back(claims_to_be_on(device));
  return message;
}

const WorkerInfo peer{"ps", 1};

std::vector<Device> targets(const DeviceRoutes& routes, MessageKind kind, std::initializer_list<Device> from) {
  Message message = message_on(kind, from);
  routes.place(message);
  std::vector<Device> to;
  for (const Placement& placement : message.placements) to.push_back(placement.to);
  return to;
}

std::string complaint(const DeviceReport& mine, const DeviceReport& theirs, MessageKind kind, Device device) {
  return message_of<UsageError>([&] { targets({peer, mine, theirs}, kind, {kCPU, device}); });
}

constexpr MessageKind kRequest = MessageKind::request, kReply = MessageKind::reply;

/// One end of a connection whose other end is the test.
class HandLink final : public Link {
 public:
  void start(std::shared_ptr<LinkEvents> events) override { events_ = std::move(events); }
  bool send(Message&& message) override {
    const std::lock_guard lock(mutex_);
    sent_.push_back(std::move(message));
    return true;
  }
  void close() noexcept override {}
  const char* transport() const noexcept override { return "hand"; }

  void deliver(Message message) { events_->received(*this, std::move(message), Clock::now()); }
  /// Closes the link. Until then, link and agent keep each other alive.
  void end() {
    std::exchange(events_, nullptr)->closed(*this, std::make_exception_ptr(PeerLostError("the test is over", true)));
  }
  std::size_t sent() const {
    const std::lock_guard lock(mutex_);
    return sent_.size();
  }

 private:
  std::shared_ptr<LinkEvents> events_;
  mutable std::mutex mutex_;
  std::vector<Message> sent_;
};

const Functions& functions() {
  static const Functions table(
      [](Functions& f) { f.add(1, "echo", [](InboundCall& in) { in.reply(reply(text(in.request()))); }); });
  return table;
}

AgentOptions options_of(const char* name, int rank) {
  return {.name = std::string(name), .rank = rank, .world_size = 2, .num_worker_threads = 1};
}

}  // namespace

BOOST_AUTO_TEST_CASE(invalid_maps_are_rejected) {
  BOOST_TEST(contains(message_of<UsageError>([] { DeviceMap{{0, 1}, {0, 0}}; }), "maps cuda:0 twice"));
  BOOST_TEST(contains(message_of<UsageError>([] { DeviceMap{{0, 1}, {1, 1}}; }), "maps two devices to cuda:1"));
  BOOST_TEST(contains(message_of<UsageError>([] { DeviceMap{{-1, 0}}; }), "cuda:-1"));
  BOOST_TEST(contains(message_of<UsageError>([] { DeviceMap{{0, 128}}; }), "cuda:128"));
  BOOST_TEST(contains(message_of<UsageError>([] { DeviceMap{{cuda(-3), kCPU}}; }), "cuda:-3"));
  BOOST_TEST((DeviceMap{{0, 1}, {1, 0}}.to_string()) == "{cuda:0 -> cuda:1, cuda:1 -> cuda:0}");
}

BOOST_AUTO_TEST_CASE(arguments_follow_map_and_results_its_inverse) {
  const DeviceReport two{.cuda_devices = 2, .map = {}}, swapped{.cuda_devices = 2, .map = {{0, 1}, {1, 0}}};
  const std::initializer_list<Device> all = {cuda(0), kCPU, cuda(1)};
  const std::vector<Device> same(all), other = {cuda(1), kCPU, cuda(0)};
  BOOST_TEST((targets({peer, two, two}, kRequest, all) == same));
  BOOST_TEST((targets({peer, two, two}, kReply, all) == same));
  BOOST_TEST((targets({peer, swapped, two}, kRequest, all) == other));
  BOOST_TEST((targets({peer, swapped, two}, kReply, all) == same));  // the caller's map applies, not the callee's
  BOOST_TEST((targets({peer, two, swapped}, kReply, all) == other));
  const DeviceReport to_cpu{.cuda_devices = 1, .map = {{cuda(0), kCPU}}}, none;
  BOOST_TEST((targets({peer, to_cpu, none}, kRequest, {cuda(0)}) == std::vector<Device>{kCPU}));
  BOOST_TEST((targets({peer, none, to_cpu}, kReply, {kCPU}) == std::vector<Device>{cuda(0)}));
}

BOOST_AUTO_TEST_CASE(senders_placement_overrides_the_map) {
  Message gradient = message_on(kRequest, {cuda(1), kCPU});
  gradient.placements = {{.from = kCPU, .to = cuda(0)}, {.from = kCPU, .to = kCPU}};
  DeviceRoutes({peer, {.cuda_devices = 2, .map = {{0, 1}}}, {.cuda_devices = 1, .map = {}}}).place(gradient);
  BOOST_TEST(
      (gradient.placements == std::vector<Placement>{{.from = cuda(1), .to = cuda(0)}, {.from = kCPU, .to = kCPU}}));
}

BOOST_AUTO_TEST_CASE(cpu_messages_have_no_placements) {
  const DeviceReport none, map{.cuda_devices = 2, .map = {{0, 1}}};
  BOOST_TEST(targets({peer, none, none}, kRequest, {kCPU, kCPU}).empty());
  BOOST_TEST(targets({peer, map, map}, kRequest, {kCPU}).empty());
  BOOST_TEST(targets({peer, map, map}, kReply, {}).empty());
}

BOOST_AUTO_TEST_CASE(placement_error_names_worker_device_and_map) {
  const DeviceReport none, one{.cuda_devices = 1, .map = {}}, map{.cuda_devices = 2, .map = {{0, 1}}};
  std::string error = complaint(map, {.cuda_devices = 2, .map = {}}, kRequest, cuda(1));
  BOOST_TEST(contains(error,
                      "call to worker 'ps' (rank 1): tensor 1, on cuda:1, has no target device there: the device map "
                      "is {cuda:0 -> cuda:1}"),
             error);
  error = complaint(one, map, kReply, cuda(0));
  BOOST_TEST(contains(error, "reply to worker 'ps' (rank 1): tensor 1, on cuda:0"), error);
  BOOST_TEST(contains(error, "that worker's device map {cuda:0 -> cuda:1} maps no device to cuda:0"), error);
  error = complaint({.cuda_devices = 4, .map = {}}, one, kRequest, cuda(3));
  BOOST_TEST(contains(error,
                      "tensor 1, on cuda:3, would arrive on cuda:3, but that worker has 1 CUDA device; the "
                      "device map is {same index}"),
             error);
  BOOST_TEST(contains(complaint(one, none, kRequest, cuda(0)), "has no CUDA device"));
}

BOOST_AUTO_TEST_CASE(unplaceable_call_fails_before_sending) {
  Agent agent(options_of("a", 0), functions());
  const auto link = std::make_shared<HandLink>();
  agent.add_peer({"b", 1}, 7, link);
  for (int i = 0; i < 40; ++i) {  // more calls than threads
    Message message = request(1);
    message.tensors = {claims_to_be_on(cuda(0))};
    BOOST_TEST(contains(message_of<UsageError>([&] { call(agent, 1, message).wait(); }), "worker 'b' (rank 1)"));
  }
  BOOST_TEST(link->sent() == 0u);
  BOOST_TEST(agent.metrics().pending_calls == 0u);
  const Future<Message> good = call(agent, 1, request(1));
  Message answer = reply("fine");
  answer.kind = MessageKind::reply;
  answer.call_id = 1;
  link->deliver(std::move(answer));
  BOOST_TEST(text(good.wait()) == "fine");
  link->end();
}

BOOST_AUTO_TEST_CASE(result_for_missing_device_fails_its_call) {
  Agent agent(options_of("a", 0), functions());
  const auto link = std::make_shared<HandLink>();
  agent.add_peer({"b", 1}, 7, link);
  const Future<Message> hostile = call(agent, 1, request(1)), good = call(agent, 1, request(1));
  for (const uint64_t id : {1, 2}) {
    Message answer = reply("fine");
    answer.kind = MessageKind::reply;
    answer.call_id = id;
    answer.tensors = {raw::zeros({2})};
    answer.requires_grad = {false};
    answer.placements = {{.from = kCPU, .to = id == 1 ? cuda(99) : kCPU}};
    link->deliver(std::move(answer));
  }
  BOOST_TEST(contains(message_of<MessageError>([&] { hostile.wait(); }), "is to be on cuda:99, but this process has"));
  BOOST_TEST(text(good.wait()) == "fine");
  link->end();
}

BOOST_AUTO_TEST_CASE(maps_are_checked_at_start_and_connection) {
  AgentOptions options = options_of("a", 0);
  options.device_maps = {{"b", {{127, 0}}}};
  const std::string early = message_of<UsageError>([&] { Agent(options, functions()); });
  BOOST_TEST(contains(early, "the device map {cuda:127 -> cuda:0} for 'b' names cuda:127 here"), early);

  options.device_maps = {{"b", {{kCPU, cuda(127)}}}};
  Agent a(options, functions()), b(options_of("b", 1), functions());
  const std::string late = message_of<UsageError>([&] { a.connect(b.self(), b.listen(), Clock::now() + 30s); });
  BOOST_TEST(contains(late,
                      "the device map {cpu -> cuda:127} of worker 'a' (rank 0) for worker 'b' (rank 1) names "
                      "cuda:127 there"),
             late);
  BOOST_TEST(b.peers().empty());
  BOOST_CHECK_THROW(a.add_peer(b.self(), b.incarnation(), std::make_shared<HandLink>(), b.devices_for("a")),
                    UsageError);
}

BOOST_AUTO_TEST_CASE(map_for_an_unknown_worker_is_rejected) {
  const std::string error = message_of<UsageError>([] {
    Group("only", {.rank = 0, .world_size = 1, .device_maps = {{"nobody", {{kCPU, kCPU}}}}});
  });
  BOOST_TEST(contains(error, "there is a device map for 'nobody', but no such worker"), error);
}

BOOST_AUTO_TEST_SUITE_END()

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "tendril/rpc/call/rref_state.h"
#include "tendril/rpc/reference/rref_table.h"

BOOST_AUTO_TEST_SUITE(rref_threads)

using namespace tendril::rpc;
using namespace std::chrono_literals;

namespace {

using Handle = std::shared_ptr<RRefState>;

std::atomic<int> objects{0};
struct Object {
  Object() { ++objects; }
  ~Object() { --objects; }
};

/// A table with one receiving thread, like the leader of an agent. User code on other threads sends and drops.
class Worker final : public RRefTable::Host, public RRefHome, public std::enable_shared_from_this<Worker> {
 public:
  static std::shared_ptr<Worker> make(WorkerId id) {
    auto worker = std::make_shared<Worker>(id);
    worker->table = std::make_shared<RRefTable>(worker->info, 100 + static_cast<uint64_t>(id), worker);
    return worker;
  }
  explicit Worker(WorkerId id) : info{"worker" + std::to_string(id), id} {}

  void start(std::vector<std::shared_ptr<Worker>> everybody) {
    workers = std::move(everybody);
    for (const auto& peer : workers) {
      if (peer.get() != this) table->peer_joined(peer->info, 100 + static_cast<uint64_t>(peer->info.id));
    }
    thread = std::thread([this] { receive(); });
  }
  void stop() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    arrived.notify_one();
    thread.join();
    table->close();
    workers.clear();
  }

  /// Sends the references in a request that makes the receiver keep them.
  void send(WorkerId to, std::vector<Handle> references, bool creates = false) {
    Packet packet{info, Message{}, {}};
    packet.message.kind = MessageKind::request;
    packet.message.flags = creates ? kCreatesReference : 0;
    packet.message.call_id = ++last_call;
    packet.message.references = std::move(references);
    Worker& receiver = *workers[static_cast<std::size_t>(to)];
    table->on_send(receiver.info, packet.message);
    receiver.put(std::move(packet));
  }
  Handle take(std::size_t n) {
    const std::lock_guard lock(mutex);
    if (kept.empty()) return nullptr;
    const auto at = kept.begin() + static_cast<std::ptrdiff_t>(n % kept.size());
    Handle handle = std::move(*at);
    kept.erase(at);
    return handle;
  }
  void keep(Handle handle) {
    const std::lock_guard lock(mutex);
    kept.push_back(std::move(handle));
  }

  void send_control(WorkerId to, Bytes payload) noexcept override {
    workers[static_cast<std::size_t>(to)]->put({info, {}, std::move(payload)});
  }
  RequestStatus withdraw_request(WorkerId, uint64_t) noexcept override { return RequestStatus::answered; }
  std::shared_ptr<RRefState> new_owner_state(const RRefId& id) override {
    return std::make_shared<RRefState>(id, info, weak_from_this(), nullptr);
  }
  std::shared_ptr<RRefState> new_user_state(const RRefId& id, const WorkerInfo& owner, const ForkId& fork) override {
    return std::make_shared<RRefState>(id, owner, fork, weak_from_this(), nullptr);
  }
  void user_dropped(const ForkId& fork) noexcept override { table->released(fork); }

  WorkerInfo info;
  std::shared_ptr<RRefTable> table;
  std::atomic<int> refused{0};

 private:
  struct Packet {
    WorkerInfo from;
    Message message;
    Bytes control;
  };
  class Parked final : public ParkedMessage {
   public:
    Parked(Worker& at, Message received) : ParkedMessage(std::move(received)), at_(at) {}
    void resume(Message&& confirmed) noexcept override {
      if (confirmed.flags & kCreatesReference) {
        confirmed.references.back()->set_value(std::make_shared<Object>(), typeid(Object));
        confirmed.references.pop_back();
      }
      for (Handle& handle : confirmed.references) at_.keep(std::move(handle));
    }
    void refuse(std::exception_ptr) noexcept override { ++at_.refused; }

   private:
    Worker& at_;
  };

  void put(Packet packet) {
    {
      const std::lock_guard lock(mutex);
      inbox.push_back(std::move(packet));
    }
    arrived.notify_one();
  }
  void receive() {
    for (;;) {
      std::unique_lock lock(mutex);
      arrived.wait_for(lock, 2ms, [this] { return stopping || !inbox.empty(); });
      if (stopping) return;
      std::deque<Packet> packets = std::exchange(inbox, {});
      lock.unlock();
      for (Packet& packet : packets) {
        if (!packet.control.empty()) {
          table->control_received(packet.from, packet.control);
        } else {
          table->message_arrived(packet.from, std::make_unique<Parked>(*this, std::move(packet.message)));
        }
      }
      table->on_timer(Clock::now());
    }
  }

  std::vector<std::shared_ptr<Worker>> workers;
  std::atomic<uint64_t> last_call{0};
  std::thread thread;
  std::mutex mutex;
  std::condition_variable arrived;
  bool stopping = false;
  std::deque<Packet> inbox;
  std::vector<Handle> kept;
};

}  // namespace

BOOST_AUTO_TEST_CASE(many_threads_create_send_and_drop) {
  std::vector<std::shared_ptr<Worker>> workers;
  for (WorkerId id = 0; id < 3; ++id) workers.push_back(Worker::make(id));
  for (const auto& worker : workers) worker->start(workers);

  std::vector<std::thread> users;
  for (std::size_t thread = 0; thread < 6; ++thread) {
    users.emplace_back([&, thread] {
      Worker& worker = *workers[thread % 3];
      for (std::size_t i = 0; i < 300; ++i) {
        const auto to = static_cast<WorkerId>((thread + 1 + i % 2) % 3);
        Handle handle;
        if (i % 3 == 0) {
          handle = worker.table->make_owner();
          handle->set_value(std::make_shared<Object>(), typeid(Object));
        } else if (i % 3 == 1) {
          handle = worker.table->make_user(to);
          worker.send(to, {handle}, true);
        } else {
          handle = worker.take(i);
        }
        if (!handle) continue;
        if (i % 4 == 0) worker.send(static_cast<WorkerId>((thread + 2) % 3), {handle, handle});
        if (i % 5 == 0) worker.keep(std::move(handle));
      }
    });
  }
  for (std::thread& user : users) user.join();

  bool empty = false;
  for (const auto deadline = Clock::now() + 60s; !empty && Clock::now() < deadline;) {
    empty = objects == 0;
    for (const auto& worker : workers) {
      while (worker->take(0)) {
      }
      empty = empty && worker->table->counters().none();
    }
    std::this_thread::yield();
  }
  BOOST_TEST(empty);
  for (const auto& worker : workers) {
    BOOST_TEST(worker->refused.load() == 0);
    worker->stop();
  }
}

BOOST_AUTO_TEST_SUITE_END()

// A handler that has waited goes on, though handlers that wait for what it holds fill every slot.
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <mutex>
#include <semaphore>
#include <thread>

#include "tests/rpc/agent_pair.h"

BOOST_AUTO_TEST_SUITE(resuming)

using namespace rpc_test;

namespace {

enum Function : uint64_t { kHold = 1, kWant, kAnswerOnceAllWant };

std::timed_mutex mutex;  // timed, so that a failure of this test ends too
std::atomic<int> wanting{0}, wanted{0};
std::binary_semaphore all_want{0};

const Functions& functions() {
  static const Functions table([](Functions& f) {
    f.add(kHold, "hold", [](InboundCall& inbound) {
      const std::lock_guard lock(mutex);
      const Message inner = call(inbound.agent(), inbound.from().id, request(kAnswerOnceAllWant)).wait();
      inbound.reply(reply("held while " + text(inner)));
    });
    f.add(kWant, "want", [](InboundCall& inbound) {
      if (++wanting == wanted) all_want.release();
      // By the system's clock: ThreadSanitizer does not know locking until a time of the steady one.
      const std::unique_lock lock(mutex, std::chrono::system_clock::now() + 20s);
      inbound.reply(reply(lock.owns_lock() ? "had it" : "did not get it"));
    });
    f.add(kAnswerOnceAllWant, "answer_once_all_want", [](InboundCall& inbound) {
      inbound.reply(reply(all_want.try_acquire_for(20s) ? "all wanted it" : "not all wanted it"));
    });
  });
  return table;
}

}  // namespace

BOOST_AUTO_TEST_CASE(mutex_held_across_a_call_is_released) {
  for (const int threads : {1, 16}) {
    wanting = 0;
    wanted = threads;
    AgentPair pair(functions(), {.num_worker_threads = threads});
    std::vector<Future<Message>> futures;
    const Future<Message> held = call(*pair.a, 1, request(kHold));
    for (int i = 0; i < 2 * threads; ++i) futures.push_back(call(*pair.a, 1, request(kWant)));
    for (const Future<Message>& future : futures) BOOST_TEST(text(future.wait()) == "had it");
    BOOST_TEST(text(held.wait()) == "held while all wanted it");
    check_at_rest(*pair.b);
  }
}

BOOST_AUTO_TEST_SUITE_END()

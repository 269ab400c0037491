#include <boost/test/unit_test.hpp>

#include "tests/rpc/reference/rref_simulation.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(rref_table)

namespace {

using tendril::rpc::MessageKind;
using tendril::rpc::RRefCounters;
using tendril::rpc::WorkerId;
using tendril::rpc::test::Simulation;
using tendril::testing::seeds;
using Handle = Simulation::Handle;

/// Performs a random action of a user program: create, send, return, drop, fetch, or call.
void random_step(Simulation& s) {
  const auto count = static_cast<std::size_t>(s.size());
  const auto from = static_cast<WorkerId>(s.pick(count));
  const auto to = static_cast<WorkerId>((static_cast<std::size_t>(from) + 1 + s.pick(count - 1)) % count);
  auto& handles = s.handles(from);
  const auto some = [&] {
    std::vector<Handle> chosen;
    for (std::size_t n = handles.empty() ? 0 : 1 + s.pick(3); n > 0; --n)
      chosen.push_back(handles[s.pick(handles.size())]);
    return chosen;
  };
  switch (s.pick(10)) {
    case 0:
      s.remote(from, to, s.chance(0.3) ? some() : std::vector<Handle>{},
               s.chance(0.1) ? Simulation::create_fail : Simulation::create);
      break;
    case 1:
      s.make_local(from);
      break;
    case 2:
    case 3:
      s.call(from, to, Simulation::keep, some());
      break;
    case 4:
      s.call(from, to, Simulation::give_back, some());
      break;
    case 5:
      s.call(from, to, Simulation::make, {});
      break;
    case 6:
      s.call(from, to, Simulation::relay, some(), s.pick(9));
      break;
    case 7:
      if (!handles.empty()) {
        const Handle handle = handles[s.pick(handles.size())];
        if (handle->is_owner()) break;
        std::vector<Handle> arguments = s.chance(0.5) ? some() : std::vector<Handle>{};
        arguments.insert(arguments.begin(), handle);
        s.call(from, handle->owner().id, s.chance(0.5) ? Simulation::fetch : Simulation::method, std::move(arguments));
      }
      break;
    default:
      for (std::size_t n = 1 + s.pick(4); n > 0 && !handles.empty(); --n) {
        handles.erase(handles.begin() + static_cast<std::ptrdiff_t>(s.pick(handles.size())));
      }
  }
}

struct Mischief {
  double cancel = 0, cut = 0, kill = 0;
};

void random_program(uint64_t seed, int workers, int steps, Simulation::Faults faults, Mischief mischief) {
  try {
    Simulation s(workers, seed, faults);
    for (int i = 0; i < steps; ++i) {
      random_step(s);
      for (std::size_t n = s.pick(6); n > 0; --n) {
        if (!(s.chance(0.7) ? s.deliver() : s.serve())) break;
        s.check();
      }
      if (s.chance(0.2)) s.on_timer(std::chrono::milliseconds(s.pick(300)));
      if (s.chance(mischief.cancel)) s.cancel_any();
      const auto a = static_cast<WorkerId>(s.pick(static_cast<std::size_t>(workers)));
      const auto b = static_cast<WorkerId>(s.pick(static_cast<std::size_t>(workers)));
      if (a != b && s.chance(mischief.cut)) s.cut(a, b);
      if (a != b && s.chance(5 * mischief.cut)) s.connect(a, b);
      if (s.chance(mischief.kill) && s.is_alive(a)) s.kill(a);
      if (s.chance(5 * mischief.kill) && !s.is_alive(b)) s.restart(b);
      s.check();
    }
    s.finish();
    // If no worker dies and no call is cancelled, no parent may be deleted before its child is known.
    if (faults.drop + mischief.cancel + mischief.cut + mischief.kill == 0) {
      BOOST_TEST(s.lost_references == 0, "seed " << seed << ": " << s.last_refusal);
    }
  } catch (const std::exception& error) {
    BOOST_ERROR("seed " << seed << ": " << error.what());
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(random_programs_leave_no_references) {
  for (const uint64_t seed : seeds({}, 150)) random_program(seed, 2 + static_cast<int>(seed % 4), 60, {}, {});
}

BOOST_AUTO_TEST_CASE(random_programs_survive_reordering) {
  for (const uint64_t seed : seeds({}, 250)) {
    random_program(seed, 2 + static_cast<int>(seed % 4), 60, {.reorder = true}, {});
  }
}

BOOST_AUTO_TEST_CASE(random_programs_survive_loss_and_repetition) {
  for (const uint64_t seed : seeds({}, 250)) {
    random_program(seed, 2 + static_cast<int>(seed % 4), 60, {.drop = 0.15, .duplicate = 0.15, .reorder = true},
                   {.cancel = 0.1});
  }
}

BOOST_AUTO_TEST_CASE(random_programs_survive_broken_connections) {
  for (const uint64_t seed : seeds({}, 250)) {
    random_program(seed, 3 + static_cast<int>(seed % 3), 60, {.drop = 0.05, .duplicate = 0.05, .reorder = true},
                   {.cancel = 0.05, .cut = 0.04});
  }
}

BOOST_AUTO_TEST_CASE(random_programs_survive_worker_restarts) {
  for (const uint64_t seed : seeds({}, 250)) {
    random_program(seed, 3 + static_cast<int>(seed % 3), 60, {.drop = 0.05, .duplicate = 0.05, .reorder = true},
                   {.cancel = 0.05, .cut = 0.01, .kill = 0.03});
  }
}

BOOST_AUTO_TEST_SUITE_END()

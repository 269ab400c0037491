#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "tendril/rpc/simulation.h"
#include "tendril/rpc/simulation/network.h"
#include "tendril/rpc/simulation/world.h"

/// One fault at a chosen segment of a simulation, for tests that repeat a program with the fault at every segment.
namespace simulated {

using tendril::rpc::WorkerId;
using namespace std::chrono_literals;

/// One fault between two workers.
struct DirectedFault {
  enum Kind {
    none,
    reset,    ///< their connections are reset, and may be replaced
    late,     ///< bytes from the first to the second arrive up to half a second late
    lost,     ///< they are cut off from each other until both have ended their session
    isolated  ///< the second is cut off from all workers for good, as a lost host is
  };
  Kind kind = none;
  WorkerId from = 0, to = 1;
  uint64_t segment = 0;  ///< number of segments sent before it happens, counted since the fault was armed
  int world_size = 3;
};

inline tendril::rpc::detail::World& world() {
  return static_cast<tendril::rpc::detail::World&>(*tendril::rpc::detail::simulator);
}
inline tendril::rpc::detail::SimulatedNetwork& simulated_network() {
  return static_cast<tendril::rpc::detail::SimulatedNetwork&>(world().network());
}

/// Cuts the workers off from each other, in one or both directions, for `time`.
inline void cut_for(WorkerId from, WorkerId to, bool both, std::chrono::milliseconds time) {
  simulated_network().cut(from, to);
  if (both) simulated_network().cut(to, from);
  world().after(time, [from, to, both] {
    simulated_network().mend(from, to);
    if (both) simulated_network().mend(to, from);
  });
}

inline void happens(const DirectedFault& fault) {
  switch (fault.kind) {
    case DirectedFault::none:
      return;
    case DirectedFault::reset:
      for (auto* const connection : simulated_network().connections()) {
        const std::pair hosts(connection->hosts[0], connection->hosts[1]);
        if (hosts == std::pair(fault.from, fault.to) || hosts == std::pair(fault.to, fault.from))
          simulated_network().reset(*connection);
      }
      return;
    case DirectedFault::late:
      return cut_for(fault.from, fault.to, false, 300ms);  // resending takes up to 200 ms more
    case DirectedFault::lost:
      return cut_for(fault.from, fault.to, true, 5000ms);
    case DirectedFault::isolated:
      for (WorkerId other = 0; other < fault.world_size; ++other) {
        if (other == fault.to) continue;
        simulated_network().cut(fault.to, other);
        simulated_network().cut(other, fault.to);
      }
  }
}

/// Arms one fault. Called by a worker of a running simulation.
class ArmedFault {
 public:
  explicit ArmedFault(const DirectedFault& fault) : first_(simulated_network().segments()) {
    if (fault.kind != DirectedFault::none) watch(fault, first_ + fault.segment, armed_);
  }
  ~ArmedFault() { *armed_ = false; }
  ArmedFault(const ArmedFault&) = delete;
  ArmedFault& operator=(const ArmedFault&) = delete;

  uint64_t segments() const { return simulated_network().segments() - first_; }  ///< sent since it was armed

 private:
  static void watch(const DirectedFault& fault, uint64_t segment, const std::shared_ptr<bool>& armed) {
    world().in_background(10us, [fault, segment, armed] {
      if (!*armed) return;
      if (simulated_network().segments() < segment) return watch(fault, segment, armed);
      happens(fault);
    });
  }

  const uint64_t first_;
  const std::shared_ptr<bool> armed_ = std::make_shared<bool>(true);
};

}  // namespace simulated

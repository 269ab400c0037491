#pragma once

#include <boost/test/unit_test.hpp>
#include <exception>
#include <string>
#include <utility>

#include "tendril/rpc/error.h"
#include "tests/contains.h"
#include "tests/rpc/reference/rref_simulation.h"

/// Steps of the simulation that the protocol tests share.
namespace rref_steps {

using namespace tendril::rpc;
using tendril::rpc::test::Object;
using tendril::rpc::test::Simulation;
using tendril::test::contains;
using Handle = Simulation::Handle;
using Packet = Simulation::Packet;

inline std::string text(const std::exception_ptr& error) {
  if (!error) return "";
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  }
}

/// Delivers the next packet from `from` to `to`, ahead of all others. Returns false if no such packet is in transit.
inline bool deliver(Simulation& s, WorkerId from, WorkerId to) {
  for (auto packet = s.network.begin(); packet != s.network.end(); ++packet) {
    if (packet->from != from || packet->to != to) continue;
    Packet next = std::move(*packet);
    s.network.erase(packet);
    s.network.push_front(std::move(next));
    return s.deliver();
  }
  return false;
}

inline void drop(Simulation& s, WorkerId worker) { std::exchange(s.handles(worker), {}).clear(); }

/// Ends a test: checks that nothing is left.
inline void finish(Simulation& s) { BOOST_CHECK_NO_THROW(s.finish()); }

}  // namespace rref_steps

#pragma once

#include <exception>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tendril/rpc/call/call_filter.h"
#include "tendril/rpc/error.h"
#include "tests/rpc/reference/rref_simulation.h"

/// The parts of a simulated worker.
namespace tendril::rpc::test {

inline std::exception_ptr error(const std::string& text) { return std::make_exception_ptr(RRefError(text)); }

/// One side of a connection.
struct Simulation::Connection {
  uint64_t epoch = 0;
  uint64_t last_call = 0;
  std::map<uint64_t, Pending> pending;
  CallFilter filter;
  std::set<uint64_t> serving;
};

struct Simulation::Host final : RRefTable::Host, RRefHome, std::enable_shared_from_this<Host> {
  explicit Host(Simulation& s, WorkerId w) : simulation(s), worker(w) {}
  void send_control(WorkerId to, Bytes payload) noexcept override;
  RequestStatus withdraw_request(WorkerId from, uint64_t call_id) noexcept override;
  std::shared_ptr<RRefState> new_owner_state(const RRefId& id) override;
  std::shared_ptr<RRefState> new_user_state(const RRefId& id, const WorkerInfo& owner, const ForkId& fork) override {
    return std::make_shared<RRefState>(id, owner, fork, weak_from_this(), nullptr);
  }
  void user_dropped(const ForkId& fork) noexcept override {
    if (const auto alive = table.lock()) alive->released(fork);
  }

  Simulation& simulation;
  WorkerId worker;
  std::weak_ptr<RRefTable> table;
};

struct Simulation::Worker {
  struct Job {
    WorkerId from;
    uint64_t epoch;
    Message request;
  };
  WorkerInfo info;
  uint64_t incarnation = 0;
  bool alive = true;
  std::shared_ptr<Host> host;
  std::shared_ptr<RRefTable> table;
  std::map<WorkerId, Connection> connections;
  std::vector<Job> jobs;
  std::vector<Handle> handles;  // held by user code on this worker
};

}  // namespace tendril::rpc::test

// The faults of the simulation: cancelled calls, cut connections, killed and restarted workers.
#include <algorithm>
#include <utility>

#include "tests/rpc/reference/rref_simulation_worker.h"

namespace tendril::rpc::test {

void Simulation::fail_pending(Pending pending, const std::string& why) {
  ++calls_ended;
  if (pending.function == fetch) ++fetch_failed;
  if (pending.created) pending.created->fail(error("the creating call failed: " + why));
}

void Simulation::cancel(WorkerId id, WorkerId callee, uint64_t call_id) {
  Worker& worker = this->worker(id);
  const auto connection = worker.connections.find(callee);
  if (connection == worker.connections.end()) return;
  auto pending = connection->second.pending.extract(call_id);
  if (!pending) return;
  fail_pending(std::move(pending.mapped()), "timed out");
  worker.table->call_cancelled(this->worker(callee).info, call_id);
}

void Simulation::cancel_all(WorkerId id) {
  for (auto& [peer, connection] : worker(id).connections) {
    while (!connection.pending.empty()) cancel(id, peer, connection.pending.begin()->first);
  }
}

void Simulation::cancel_any() {
  Worker& worker = *workers_[pick(workers_.size())];
  if (!worker.alive || worker.connections.empty()) return;
  const auto connection =
      std::next(worker.connections.begin(), static_cast<std::ptrdiff_t>(pick(worker.connections.size())));
  const auto& calls = connection->second.pending;
  if (calls.empty()) return;
  cancel(worker.info.id, connection->first,
         std::next(calls.begin(), static_cast<std::ptrdiff_t>(pick(calls.size())))->first);
}

void Simulation::cut(WorkerId a, WorkerId b) {
  uint64_t& epoch = epochs_[std::minmax(a, b)];
  if (epoch == 0) return;
  for (const auto& [at, peer] : {std::pair(a, b), std::pair(b, a)}) {
    Packet packet;
    packet.kind = Packet::lost;
    packet.from = peer;
    packet.to = at;
    packet.epoch = epoch;
    network.push_back(std::move(packet));
  }
  epoch = 0;
}

void Simulation::connect(WorkerId a, WorkerId b) {
  Worker &left = this->worker(a), &right = this->worker(b);
  if (!left.alive || !right.alive || left.connections.contains(b) || right.connections.contains(a)) return;
  const uint64_t epoch = ++last_epoch_;
  epochs_[std::minmax(a, b)] = epoch;
  left.connections[b].epoch = epoch;
  right.connections[a].epoch = epoch;
  left.table->peer_joined(right.info, right.incarnation);
  right.table->peer_joined(left.info, left.incarnation);
}

void Simulation::end_connection(WorkerId at, WorkerId peer) {
  Worker& worker = this->worker(at);
  auto connection = worker.connections.extract(peer);
  if (!connection) return;
  std::erase_if(worker.jobs, [&](const Worker::Job& job) {
    return job.from == peer && (job.request.function == fetch || job.request.function == method);
  });
  for (auto& [call_id, pending] : connection.mapped().pending) fail_pending(std::move(pending), "peer lost");
  worker.table->peer_lost(this->worker(peer).info, error("connection lost"));
}

void Simulation::kill(WorkerId id) {
  Worker& worker = this->worker(id);
  worker.alive = false;
  for (const auto& other : workers_) cut(id, other->info.id);
  for (auto& [peer, connection] : std::exchange(worker.connections, {})) {
    for (auto& [call_id, pending] : connection.pending) fail_pending(std::move(pending), "died");
  }
  // A dead worker must not act any more, so its table releases everything without sending records.
  const auto table = std::move(worker.table);
  worker.host->table.reset();
  table->close();
  worker.jobs.clear();
  worker.handles.clear();
}

void Simulation::restart(WorkerId id) {
  Worker& worker = this->worker(id);
  if (worker.alive) return;
  worker.alive = true;
  worker.incarnation = ++last_incarnation_;
  worker.host = std::make_shared<Host>(*this, id);
  worker.table = std::make_shared<RRefTable>(worker.info, worker.incarnation, worker.host,
                                             RRefTable::Options{.clock = [this] { return now; }});
  worker.host->table = worker.table;
  for (const auto& other : workers_) {
    if (other->info.id != id) connect(id, other->info.id);
  }
}

}  // namespace tendril::rpc::test

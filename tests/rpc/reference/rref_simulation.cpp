#include "tests/rpc/reference/rref_simulation_worker.h"

#include <algorithm>
#include <stdexcept>

#include "tendril/rpc/error.h"

namespace tendril::rpc::test {

void Simulation::Host::send_control(WorkerId to, Bytes payload) noexcept {
  Packet packet;
  packet.kind = Packet::control;
  packet.from = worker;
  packet.to = to;
  packet.bytes = std::move(payload);
  simulation.send(std::move(packet));
}

RequestStatus Simulation::Host::withdraw_request(WorkerId from, uint64_t call_id) noexcept {
  auto& connections = simulation.worker(worker).connections;
  const auto found = connections.find(from);
  if (found == connections.end()) return RequestStatus::answered;
  if (!found->second.filter.withdraw(call_id)) return RequestStatus::unseen;
  return found->second.serving.contains(call_id) ? RequestStatus::serving : RequestStatus::answered;
}

std::shared_ptr<RRefState> Simulation::Host::new_owner_state(const RRefId& id) {
  const auto& info = simulation.worker(worker).info;
  return std::make_shared<RRefState>(id, info, weak_from_this(), nullptr);
}

/// A parked request or reply. Either `resume` or `refuse` is called exactly once, unless the worker dies first.
class Simulation::ParkedCall final : public ParkedMessage {
 public:
  ParkedCall(Simulation& simulation, Worker& at, WorkerId from, Message received)
      : ParkedMessage(std::move(received)),
        simulation_(simulation),
        at_(at.info.id),
        incarnation_(at.incarnation),
        from_(from),
        epoch_(at.connections.at(from).epoch),
        kind_(message.kind),
        call_id_(message.call_id) {
    ++simulation_.parked;
  }
  ~ParkedCall() override { --simulation_.parked; }
  void resume(Message&& confirmed) noexcept override {
    Worker* at = here();
    if (!at) return;
    for (const Handle& handle : confirmed.references) {
      if (!handle->is_owner() && !handle->settled().done()) simulation_.broken_ = "resumed with an undecided reference";
    }
    if (kind_ == MessageKind::request) {
      at->jobs.push_back({from_, epoch_, std::move(confirmed)});
    } else {
      simulation_.complete(*at, from_, std::move(confirmed));
    }
  }
  void refuse(std::exception_ptr reason) noexcept override {
    Worker* at = here();
    if (!at) return;
    Message failed;
    failed.kind = MessageKind::error;
    failed.call_id = call_id_;
    try {
      std::rethrow_exception(reason);
    } catch (const std::exception& e) {
      const std::string text = e.what();
      simulation_.last_refusal = text;
      if (text.find("reference_lost") != std::string::npos && waited_for()) ++simulation_.lost_references;
      failed.payload.resize(text.size());
      std::transform(text.begin(), text.end(), failed.payload.begin(), [](char c) { return std::byte(c); });
    }
    if (kind_ == MessageKind::request) {
      simulation_.answer(*at, from_, epoch_, std::move(failed));
    } else {
      simulation_.complete(*at, from_, std::move(failed));
    }
  }

 private:
  /// Whether the caller still waits. A caller that cancels a call releases the call's object, which may then be gone
  /// when the request arrives.
  bool waited_for() const {
    if (kind_ != MessageKind::request) return true;
    const auto& connections = simulation_.worker(from_).connections;
    const auto connection = connections.find(at_);
    return connection != connections.end() && connection->second.epoch == epoch_ &&
           connection->second.pending.contains(call_id_);
  }
  Worker* here() {
    Worker& at = simulation_.worker(at_);
    if (!at.alive || at.incarnation != incarnation_) return nullptr;
    if (kind_ == MessageKind::request) return &at;  // served even if its caller is gone
    const auto connection = at.connections.find(from_);
    return connection != at.connections.end() && connection->second.epoch == epoch_ ? &at : nullptr;
  }
  Simulation& simulation_;
  const WorkerId at_;
  const uint64_t incarnation_;
  const WorkerId from_;
  const uint64_t epoch_;
  const MessageKind kind_;
  const uint64_t call_id_;
};

Simulation::Simulation(int count, uint64_t seed, Faults f) : random(seed), faults(f) {
  for (WorkerId id = 0; id < count; ++id) {
    workers_.push_back(std::make_unique<Worker>());
    workers_.back()->info = {"worker" + std::to_string(id), id};
    workers_.back()->alive = false;
    restart(id);
  }
}

Simulation::~Simulation() {
  on_send = [](uint64_t, const Packet&) { return false; };
  for (const auto& worker : workers_) {
    if (worker->alive) kill(worker->info.id);
  }
}

void Simulation::send(Packet packet) {
  Worker& from = this->worker(packet.from);
  const auto connection = from.connections.find(packet.to);
  if (connection == from.connections.end()) return;
  packet.epoch = connection->second.epoch;
  ++packets;
  if (on_send && !on_send(packets, packet)) return;
  if (epochs_[std::minmax(packet.from, packet.to)] != packet.epoch) return;  // cut, but not yet noticed by either side
  if (chance(faults.drop)) return;
  if (chance(faults.duplicate)) network.push_back(packet);
  network.push_back(std::move(packet));
}

bool Simulation::can_reach(WorkerId a, WorkerId b) const {
  const Worker& worker = this->worker(a);
  return worker.alive && worker.connections.contains(b);
}

Simulation::Handle Simulation::remote(WorkerId from, WorkerId to, std::vector<Handle> arguments, Function function) {
  if (!can_reach(from, to)) return nullptr;
  Worker& worker = this->worker(from);
  Handle created = worker.table->make_user(to);
  worker.handles.push_back(created);
  arguments.push_back(created);
  call(from, to, function, std::move(arguments));
  return created;
}

Simulation::Handle Simulation::make_local(WorkerId id) {
  Worker& worker = this->worker(id);
  if (!worker.alive) return nullptr;
  Handle handle = worker.table->make_owner();
  set_object(handle);
  worker.handles.push_back(handle);
  return handle;
}

void Simulation::set_object(const Handle& state) {
  auto object = std::make_shared<Object>();
  objects[state->id()] = object;
  state->set_value(std::move(object), typeid(Object));
}

bool Simulation::call(WorkerId from, WorkerId to, Function function, std::vector<Handle> arguments, uint64_t hops) {
  if (!can_reach(from, to)) return false;
  Worker& worker = this->worker(from);
  Connection& connection = worker.connections.at(to);
  Pending pending{function, nullptr, nullptr};
  Packet packet;
  packet.from = from;
  packet.to = to;
  Message& message = packet.message;
  message.kind = MessageKind::request;
  message.function = function;
  message.trace_id = hops;
  if (function == create || function == create_fail) {
    message.flags = kCreatesReference;
    pending.created = arguments.back();
  }
  if ((function == fetch || function == method) && !arguments.front()->is_owner()) {
    message.has_receiver = true;
    pending.receiver = arguments.front();
  }
  message.references = std::move(arguments);
  message.call_id = ++connection.last_call;
  connection.pending.emplace(message.call_id, pending);
  try {
    if (!message.references.empty()) worker.table->on_send(this->worker(to).info, message);
  } catch (const RpcError& e) {
    const uint64_t call_id = message.call_id;
    connection.pending.erase(call_id);
    fail_pending(std::move(pending), e.what());
    return false;
  }
  send(std::move(packet));
  return true;
}

bool Simulation::deliver() {
  if (next_action) std::exchange(next_action, nullptr)();
  if (network.empty()) return false;
  const auto next = network.begin() + (faults.reorder ? static_cast<std::ptrdiff_t>(pick(network.size())) : 0);
  Packet packet = std::move(*next);
  network.erase(next);
  Worker& at = this->worker(packet.to);
  const auto connection = at.connections.find(packet.from);
  if (!at.alive || connection == at.connections.end() || connection->second.epoch != packet.epoch) return true;
  switch (packet.kind) {
    case Packet::lost:
      end_connection(packet.to, packet.from);
      break;
    case Packet::control:
      at.table->control_received(this->worker(packet.from).info, packet.bytes);
      break;
    case Packet::call:
      if (packet.message.kind == MessageKind::request) {
        receive_request(at, packet.from, std::move(packet.message));
      } else {
        receive_reply(at, packet.from, std::move(packet.message));
      }
  }
  return true;
}

void Simulation::receive_request(Worker& at, WorkerId from, Message request) {
  Connection& connection = at.connections.at(from);
  if (!connection.filter.admit(request.call_id)) return;
  connection.serving.insert(request.call_id);
  auto call = std::make_unique<ParkedCall>(*this, at, from, std::move(request));
  if (!call->message.forks.empty()) {
    at.table->message_arrived(this->worker(from).info, std::move(call));
  } else {
    call->resume(std::move(call->message));
  }
}

void Simulation::receive_reply(Worker& at, WorkerId from, Message reply) {
  if (!at.connections.at(from).pending.contains(reply.call_id)) return;  // late
  if (reply.forks.empty()) return complete(at, from, std::move(reply));
  at.table->message_arrived(this->worker(from).info, std::make_unique<ParkedCall>(*this, at, from, std::move(reply)));
}

void Simulation::complete(Worker& at, WorkerId from, Message reply) {
  const auto connection = at.connections.find(from);
  if (connection == at.connections.end()) return;
  auto pending = connection->second.pending.extract(reply.call_id);
  if (!pending) return;
  if (reply.kind == MessageKind::error) {
    std::string text;
    for (const std::byte byte : reply.payload) text += static_cast<char>(byte);
    return fail_pending(std::move(pending.mapped()), text);
  }
  ++calls_ended;
  if (pending.mapped().function == fetch) ++fetched;
  if (pending.mapped().created) pending.mapped().created->confirm();
  for (Handle& handle : reply.references) at.handles.push_back(std::move(handle));
}

void Simulation::answer(Worker& at, WorkerId to, uint64_t epoch, Message reply) {
  const auto connection = at.connections.find(to);
  if (connection == at.connections.end() || connection->second.epoch != epoch) return;
  if (!connection->second.serving.contains(reply.call_id)) return;
  Packet packet;
  packet.from = at.info.id;
  packet.to = to;
  packet.message = std::move(reply);
  try {
    if (!packet.message.references.empty()) {
      at.table->on_send(this->worker(to).info, packet.message);
    }
  } catch (const RpcError&) {
    packet.message.references.clear();
    packet.message.kind = MessageKind::error;
  }
  connection->second.serving.erase(packet.message.call_id);
  send(std::move(packet));
}

bool Simulation::serve() {
  std::vector<std::pair<Worker*, std::size_t>> ready;
  for (const auto& worker : workers_) {
    for (std::size_t i = 0; i < worker->jobs.size(); ++i) {
      const Message& request = worker->jobs[i].request;
      if ((request.function == fetch || request.function == method) && !request.references.front()->settled().done())
        continue;
      ready.emplace_back(worker.get(), i);
    }
  }
  if (ready.empty()) return false;
  const auto [worker, index] = ready[faults.reorder ? pick(ready.size()) : 0];
  return run(*worker, index);
}

bool Simulation::run(Worker& at, std::size_t index) {
  Worker::Job job = std::move(at.jobs[index]);
  at.jobs.erase(at.jobs.begin() + static_cast<std::ptrdiff_t>(index));
  ++served;
  Message& request = job.request;
  Message reply;
  reply.kind = MessageKind::reply;
  reply.call_id = request.call_id;
  switch (request.function) {
    case create:
      set_object(request.references.back());
      break;
    case create_fail:
      request.references.back()->set_error(error("the constructor threw"));
      reply.kind = MessageKind::error;
      break;
    case keep:
      for (const Handle& handle : request.references) at.handles.push_back(handle);
      break;
    case give_back:
      reply.references = request.references;
      break;
    case make: {
      Handle made = at.table->make_owner();
      set_object(made);
      reply.references.push_back(std::move(made));
      break;
    }
    case method:
      for (std::size_t i = 1; i < request.references.size(); ++i) at.handles.push_back(request.references[i]);
      [[fallthrough]];
    case fetch:
      if (request.references.front()->settled().has_error()) reply.kind = MessageKind::error;
      break;
    case relay: {
      const WorkerId next = static_cast<WorkerId>((static_cast<std::size_t>(at.info.id) + 1) % workers_.size());
      if (request.trace_id > 0) {
        call(at.info.id, next, relay, request.references, request.trace_id - 1);
      } else {
        for (const Handle& handle : request.references) at.handles.push_back(handle);
      }
      break;
    }
    default:
      break;
  }
  request.references.clear();
  answer(at, job.from, job.epoch, std::move(reply));
  return true;
}

void Simulation::on_timer(std::chrono::milliseconds time) {
  now += time;
  for (const auto& worker : workers_) {
    if (worker->alive) worker->table->on_timer(now);
  }
}

void Simulation::settle(bool cancel) {
  int quiet = 0;
  for (int round = 0; quiet < 30; ++round) {
    if (round > 100'000) throw std::logic_error("the simulation does not settle");
    const uint64_t before = packets;
    bool busy = false;
    while (deliver() || serve()) busy = true;
    on_timer(std::chrono::milliseconds(250));
    quiet = busy || packets != before || !network.empty() ? 0 : quiet + 1;
    if (cancel && quiet >= 30 && pending_calls() > 0) {
      for (const auto& worker : workers_) {
        if (worker->alive) cancel_all(worker->info.id);
      }
      quiet = 0;
    }
    check();
  }
}

void Simulation::finish() {
  settle();
  for (const auto& worker : workers_) std::exchange(worker->handles, {}).clear();
  settle();
  if (pending_calls() != 0) throw std::logic_error("calls have not ended");
  if (parked != 0) throw std::logic_error("messages are still parked");
  if (alive_objects() != 0) throw std::logic_error("objects have leaked");
  for (const auto& worker : workers_) {
    const RRefCounters c = counters(worker->info.id);
    if (!c.none()) {
      throw std::logic_error("worker " + std::to_string(worker->info.id) + " still counts: owner_rrefs " +
                             std::to_string(c.owner_rrefs) + ", forks " + std::to_string(c.forks) + ", users " +
                             std::to_string(c.users) + ", pending_users " + std::to_string(c.pending_users) +
                             ", pending_children " + std::to_string(c.pending_children));
    }
  }
}

void Simulation::check() const {
  if (!broken_.empty()) throw std::logic_error(broken_);
  for (const auto& worker : workers_) {
    for (const Handle& handle : worker->handles) {
      const WorkerId owner = handle->owner().id;
      if (handle->failure() ||
          (owner != worker->info.id && (!can_reach(worker->info.id, owner) || !can_reach(owner, worker->info.id)))) {
        continue;  // unusable, or about to become so
      }
      const auto object = objects.find(handle->id());
      if (object != objects.end() && object->second.expired()) {
        throw std::logic_error("worker " + std::to_string(worker->info.id) +
                               " holds a reference to an object of worker " + std::to_string(owner) +
                               " that has been released");
      }
    }
  }
}

std::vector<Simulation::Handle>& Simulation::handles(WorkerId id) { return worker(id).handles; }
bool Simulation::is_alive(WorkerId id) const { return worker(id).alive; }
RRefTable& Simulation::table(WorkerId id) { return *worker(id).table; }

RRefCounters Simulation::counters(WorkerId id) const {
  const Worker& worker = this->worker(id);
  return worker.alive ? worker.table->counters() : RRefCounters{};
}

RRefCounters Simulation::sum() const {
  RRefCounters all;
  for (const auto& worker : workers_) {
    const RRefCounters c = counters(worker->info.id);
    all.owner_rrefs += c.owner_rrefs;
    all.forks += c.forks;
    all.users += c.users;
    all.pending_users += c.pending_users;
    all.pending_children += c.pending_children;
  }
  return all;
}

std::size_t Simulation::pending_calls() const {
  std::size_t count = 0;
  for (const auto& worker : workers_) {
    for (const auto& [peer, connection] : worker->connections) count += connection.pending.size();
  }
  return count;
}

int Simulation::alive_objects() const {
  return static_cast<int>(
      std::count_if(objects.begin(), objects.end(), [](const auto& o) { return !o.second.expired(); }));
}

}  // namespace tendril::rpc::test

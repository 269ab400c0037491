#include "tendril/rpc/group.h"

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <random>
#include <string_view>
#include <thread>
#include <utility>

#include "tendril/rpc/archive.h"
#include "tendril/rpc/call/function.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/launch/addresses.h"
#include "tendril/rpc/launch/drain.h"
#include "tendril/rpc/launch/group_key.h"
#include "tendril/rpc/launch/group_settings.h"
#include "tendril/rpc/launch/process_launch.h"
#include "tendril/rpc/launch/rendezvous_client.h"
#include "tendril/rpc/launch/rendezvous_host.h"
#include "tendril/rpc/launch/resolve.h"
#include "tendril/rpc/observe/log.h"
#include "tendril/rpc/observe/metrics_server.h"
#include "tendril/rpc/observe/status_signal.h"
#include "tendril/rpc/observe/trace.h"
#include "tendril/rpc/reference/rref_context.h"
#include "tendril/rpc/spawn.h"
#include "tendril/rpc/wire/error_message.h"

namespace tendril::rpc {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace {

// Of the phases of a graceful shutdown in which nobody's work is waited for.
constexpr milliseconds kPhaseTimeout = 60s;
// What a phase has at least, however late it begins: its work takes some messages, and handlers some time to notice
// that they are to end.
constexpr milliseconds kLeastPhase = 1s;

struct Extensions {
  std::mutex mutex;
  std::vector<void (*)(Agent&)> functions;
};

Extensions& extensions() {
  static auto* instance = new Extensions();  // filled before main, in whatever order
  return *instance;
}

std::vector<void (*)(Agent&)> agent_extensions() {
  const std::lock_guard lock(extensions().mutex);
  return extensions().functions;
}

/// 128 random bits: tells this group from all others, so that a worker of another one is recognised.
std::string new_group_id() {
  std::random_device device;
  std::string id;
  for (int i = 0; i < 32; ++i) id += "0123456789abcdef"[device() % 16];
  return id;
}

/// Runs `f`; its failures say what was being done.
template <class F>
decltype(auto) with_prefix(const std::string& prefix, F&& f) {
  try {
    return f();
  } catch (const TimeoutError& e) {
    throw TimeoutError(prefix + e.what());
  } catch (const PeerLostError& e) {
    throw PeerLostError(prefix + e.what(), e.may_have_run());
  } catch (const UsageError& e) {
    throw UsageError(prefix + e.what());
  } catch (const RRefError& e) {
    throw RRefError(prefix + e.what());
  } catch (const RpcError& e) {
    throw RpcError(prefix + e.what());
  }
}

/// What is left until a deadline, for those who take a duration and read 0 as "no end".
milliseconds left_until(Clock::time_point deadline) {
  if (deadline == Clock::time_point::max()) return 0ms;
  return std::max(1ms, std::chrono::ceil<milliseconds>(deadline - Clock::now()));
}

std::string text_of(const RRefCounters& c) {
  return "owner_rrefs " + std::to_string(c.owner_rrefs) + ", forks " + std::to_string(c.forks) + ", users " +
         std::to_string(c.users) + ", pending_users " + std::to_string(c.pending_users) + ", pending_children " +
         std::to_string(c.pending_children);
}

}  // namespace

bool extend_agents(void (*extend)(Agent&)) {
  const std::lock_guard lock(extensions().mutex);
  auto& functions = extensions().functions;
  if (std::find(functions.begin(), functions.end(), extend) == functions.end()) functions.push_back(extend);
  return true;
}

class Group::Impl {
 public:
  Impl(const std::string& name, const InitOptions& options) {
    const detail::Launched launched = with_prefix("init_rpc: ", [] { return detail::process_launch(); });
    const auto settings = with_prefix("init_rpc: ", [&] { return detail::group_settings(name, options, launched); });
    std::string who = "init_rpc ('" + settings.self.name + "', rank " + std::to_string(settings.self.id);
    if (const char* show = std::getenv("TENDRIL_SHOW_LAUNCH"); show != nullptr && std::string_view(show) == "1")
      std::fprintf(stderr, "rpc: worker '%s' is rank %d of %d at %s:%d, %s\n", settings.self.name.c_str(),
                   static_cast<int>(settings.self.id), settings.world_size, settings.master_addr.c_str(),
                   settings.master_port, launched.text().c_str());
    if (!launched.advice.empty()) who += ", " + launched.text();  // by a launcher that has variables of its own
    with_prefix(who + "): ", [&] { join(settings, options, launched.advice); });
  }

  ~Impl() { (void)stop(Clock::time_point::max()); }

  void barrier(milliseconds timeout) {
    const BlockedScope blocked("rpc::barrier");
    const std::lock_guard lock(mutex_);
    if (!client_) throw UsageError("rpc::barrier: this worker has left its group");
    with_prefix("rpc::barrier: ", [&] { client_->gather("barrier", {}, std::max(timeout, 0ms)); });
  }

  std::vector<std::string> gather(std::string bytes, milliseconds timeout) {
    TENDRIL_CHECK_AS(UsageError, bytes.size() <= Group::kMaxGathered, "rpc::all_gather: the value must have at most ",
                     Group::kMaxGathered, " bytes, got ", bytes.size());
    const BlockedScope blocked("rpc::all_gather");
    const std::lock_guard lock(mutex_);
    if (!client_) throw UsageError("rpc::all_gather: this worker has left its group");
    return with_prefix("rpc::all_gather: ",
                       [&] { return client_->gather("all_gather", std::move(bytes), std::max(timeout, 0ms)); });
  }

  void shutdown(const ShutdownOptions& options) {
    if (Executor::current() == &agent_->executor())
      throw UsageError("rpc::shutdown: called in a handler, which it would wait for");
    const std::lock_guard lock(mutex_);
    if (!client_) return;
    const auto deadline = options.timeout > 0ms ? deadline_after(options.timeout) : Clock::time_point::max();
    std::exception_ptr error;
    if (options.graceful) {
      try {
        leave_together(deadline);
      } catch (...) {
        error = std::current_exception();
      }
    }
    const std::exception_ptr unended = stop(at_least(deadline));
    with_prefix("rpc::shutdown ('" + agent_->self().name + "'): ", [&] {
      if (error && unended) throw TimeoutError(text_of(error) + "; " + text_of(unended));
      if (error || unended) std::rethrow_exception(error ? error : unended);
    });
  }

  std::shared_ptr<Agent> agent_;
  std::shared_ptr<RRefContext> references_;
  std::vector<WorkerInfo> workers_;
  std::optional<detail::MetricsServer> metrics_;

 private:
  void join(const detail::GroupSettings& settings, const InitOptions& options, const std::string& advice) {
    const auto deadline = deadline_after(options.init_timeout);
    const SharedKey given = detail::given_key(options, settings.master_port);
    const detail::MeetingPoint point{.name = settings.master_addr,
                                     .address = detail::resolve(settings.master_addr, deadline, advice),
                                     .key_given = static_cast<bool>(given)};
    detail::check_meeting_point(point);
    boost::asio::ip::tcp::endpoint address(point.address, settings.master_port);
    // Less what it took to look a name up.
    const auto timeout =
        point.address.to_string() == settings.master_addr ? options.init_timeout : left_until(deadline);
    const SharedKey key = given ? given : SharedKey::of_this_user();
    std::string id;
    if (settings.self.id == 0) {
      id = new_group_id();
      const SpawnContext* spawned = SpawnContext::current();
      if (spawned != nullptr && spawned->listener >= 0 && spawned->master_port == settings.master_port) {
        host_.emplace(spawned->listener, settings.world_size, id, key);
      } else {
        host_.emplace(boost::asio::ip::tcp::endpoint(detail::rendezvous_address(point), settings.master_port),
                      settings.world_size, id, key);
      }
      address = detail::from_this_host(host_->address());
    }
    try {
      client_.emplace(detail::RendezvousClient::Options{.address = address,
                                                        .self = settings.self,
                                                        .world_size = settings.world_size,
                                                        .timeout = timeout,
                                                        .group = id,
                                                        .key = key});
    } catch (const std::exception& e) {
      if (host_) host_->fail(e.what());  // the others would wait for a rank 0 that never comes
      throw;
    }
    for (WorkerId rank = 0; rank < settings.world_size; ++rank)
      workers_.push_back({client_->names()[static_cast<std::size_t>(rank)], rank});
    try {
      start_agent(settings, options, given);
      connect_all(point, options, deadline);
    } catch (const std::exception& e) {
      client_->fail(e.what());
      throw;
    }
  }

  void start_agent(const detail::GroupSettings& settings, const InitOptions& options, const SharedKey& key) {
    AgentOptions agent = options.agent;
    agent.name = settings.self.name;
    agent.rank = settings.self.id;
    agent.world_size = settings.world_size;
    agent.group = client_->group();
    trace_group_ = client_->group();
    agent.key = key;
    agent.num_worker_threads = options.num_worker_threads;
    agent.rpc_timeout = options.rpc_timeout;
    agent.device_maps = options.device_maps;
    for (const auto& [peer, map] : agent.device_maps) {
      const auto named = [&name = peer](const WorkerInfo& worker) { return worker.name == name; };
      TENDRIL_CHECK_AS(UsageError, std::any_of(workers_.begin(), workers_.end(), named), "there is a device map for '",
                       peer, "', but no such worker in the group");
    }
    agent_ = std::make_shared<Agent>(std::move(agent), served_functions());
    references_ = RRefContext::attach(*agent_);
    if (options.status_signal) status_signal_.emplace();
    std::string trace_path = options.trace;
    if (const char* path = std::getenv("TENDRIL_TRACE"); trace_path.empty() && path) trace_path = path;
    if (!trace_path.empty()) {
      trace_ = std::make_shared<detail::Trace>(trace_path, agent_->self(), agent_->incarnation());
      agent_->set_trace(trace_);
    }
    const int metrics_port = detail::metrics_port(options.metrics_port, settings.self.id, std::getenv);
    if (metrics_port >= 0) metrics_.emplace(agent_->share(), metrics_port);
    for (const auto extend : agent_extensions()) extend(*agent_);
    if (options.prepare) options.prepare(agent_);
  }

  void connect_all(const detail::MeetingPoint& point, const InitOptions& options, Clock::time_point deadline) {
    const char* named = options.interface.empty() ? std::getenv("TENDRIL_SOCKET_IFNAME") : options.interface.c_str();
    Agent::ListenOptions listen =
        detail::listen_options(point, client_->local_address(), named == nullptr ? std::string() : named);
    listen.unix_socket = options.transport != Transport::tcp;
    listen.tcp = options.transport != Transport::unix_socket;
    const Agent::Endpoint mine = agent_->listen(listen);
    note(detail::LogLevel::debug, "listens at " + mine.to_string() + " and waits for the others to");
    const auto endpoints = client_->gather("listening", mine.to_string(), left_until(deadline));
    const WorkerId self = agent_->self().id;
    for (const WorkerInfo& peer : workers_) {
      if (peer.id >= self) break;
      const auto said = Agent::Endpoint::parse(endpoints[static_cast<std::size_t>(peer.id)]);
      agent_->connect(peer, detail::dialled_endpoint(said, client_->rank_0_address()), deadline);
    }
    for (const WorkerInfo& peer : workers_) {
      while (peer.id > self && !agent_->wait_connected(peer.id, std::min(deadline, Clock::now() + 100ms))) {
        client_->check();  // it may have failed
        if (Clock::now() >= deadline)
          throw TimeoutError("worker '" + peer.name + "' (rank " + std::to_string(peer.id) + ") has not connected");
      }
    }
    note(detail::LogLevel::debug, "is connected with all and waits for the others to be");
    client_->gather("connected", {}, left_until(deadline));
    note(detail::LogLevel::info,
         "has joined its group as rank " + std::to_string(self) + " of " + std::to_string(workers_.size()));
    if (trace_) clock_.first = clock_.last = detail::measure_clock(*agent_, deadline);
    // A worker that is killed from here on leaves no socket behind. Who loses its connection comes over TCP.
    agent_->remove_socket_file();
  }

  /// The deadline of a phase that begins now.
  static Clock::time_point at_least(Clock::time_point deadline) {
    return std::max(deadline, Clock::now() + kLeastPhase);
  }

  void leave_together(Clock::time_point deadline) {
    const auto phase_timeout = [&] {
      return deadline == Clock::time_point::max() ? kPhaseTimeout : left_until(at_least(deadline));
    };
    using detail::LogLevel;
    try {
      if (trace_) measure_again(deadline);
      note(LogLevel::info, "shuts down and waits for all to do so");
      client_->gather("shutdown", {}, left_until(deadline));
      note(LogLevel::info, "waits for calls that are still open");
      detail::drain(*agent_, *client_, deadline);
      note(LogLevel::info, "gives up its references");
      references_->table().release_users();
      const RRefCounters left = wait_for_references(Clock::now() + phase_timeout());
      const auto all = client_->gather("references released", left.none() ? "" : text_of(left), phase_timeout());
      std::string leaks;
      for (const WorkerInfo& worker : workers_) {
        const std::string& text = all[static_cast<std::size_t>(worker.id)];
        if (!text.empty()) leaks += (leaks.empty() ? "" : "; ") + ("worker '" + worker.name + "': " + text);
      }
      if (!leaks.empty()) throw RRefError("references are left: " + leaks);
    } catch (const std::exception& e) {
      client_->fail(e.what());
      throw;
    }
  }

  /// "rpc: worker 'ps' TEXT"
  void note(detail::LogLevel level, const std::string& text) const noexcept {
    if (!detail::logs(level)) return;
    const std::string& name = agent_->self().name;
    detail::log(level, name, "rpc: worker '" + name + "' " + text);
  }

  void measure_again(Clock::time_point deadline) {
    try {
      clock_.last = detail::measure_clock(*agent_, std::min(deadline, Clock::now() + 5s));
    } catch (const std::exception&) {  // then there is one measurement, and the others say who is gone
    }
  }

  /// What the trace cannot do is said, and no reason to fail.
  void write_trace() noexcept {
    const auto trace = std::exchange(trace_, nullptr);
    if (!trace) return;
    try {
      trace->write(trace_group_, clock_);
    } catch (const std::exception& e) {
      note(detail::LogLevel::warn, std::string("could not write its trace: ") + e.what());
    }
  }

  /// They go by messages between workers that are idle otherwise.
  RRefCounters wait_for_references(Clock::time_point deadline) {
    auto pause = std::chrono::microseconds(50);
    for (;;) {
      const RRefCounters counters = references_->counters();
      if (counters.none() || Clock::now() >= deadline) return counters;
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, std::chrono::microseconds(5000));
      client_->check();
    }
  }

  /// What the agent's shutdown throws.
  std::exception_ptr stop(Clock::time_point deadline) noexcept {
    std::exception_ptr error;
    try {
      if (agent_) agent_->shutdown(deadline);
    } catch (...) {  // it is shut down in any case
      error = std::current_exception();
    }
    write_trace();
    metrics_.reset();
    status_signal_.reset();
    if (client_) {
      note(detail::LogLevel::info, "has left its group");
      client_->leave();
    }
    client_.reset();
    host_.reset();
    return error;
  }

  std::mutex mutex_;  // one barrier or shutdown at a time
  std::optional<detail::StatusSignal> status_signal_;
  std::shared_ptr<detail::Trace> trace_;
  detail::ClockFit clock_;
  std::string trace_group_;
  std::optional<detail::RendezvousHost> host_;
  std::optional<detail::RendezvousClient> client_;
};

Group::Group(const std::string& name, const InitOptions& options) : impl_(std::make_unique<Impl>(name, options)) {}
Group::~Group() = default;
const std::shared_ptr<Agent>& Group::agent() const noexcept { return impl_->agent_; }
const std::vector<WorkerInfo>& Group::workers() const noexcept { return impl_->workers_; }
RRefCounters Group::rref_counters() const { return impl_->references_->counters(); }
std::vector<LiveReference> Group::references() const { return impl_->references_->table().list(); }
uint16_t Group::metrics_port() const noexcept { return impl_->metrics_ ? impl_->metrics_->port() : 0; }
void Group::barrier(milliseconds timeout) { impl_->barrier(timeout); }
std::vector<std::string> Group::gather(std::string bytes, milliseconds timeout) {
  return impl_->gather(std::move(bytes), timeout);
}
void Group::shutdown(const ShutdownOptions& options) { impl_->shutdown(options); }

}  // namespace tendril::rpc

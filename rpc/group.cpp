#include "tendril/rpc/group.h"

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <random>
#include <shared_mutex>
#include <string_view>
#include <thread>
#include <utility>

#include "tendril/rpc/archive.h"
#include "tendril/rpc/call/function.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/launch/addresses.h"
#include "tendril/rpc/launch/drain.h"
#include "tendril/rpc/launch/enquiry.h"
#include "tendril/rpc/launch/group_key.h"
#include "tendril/rpc/launch/group_settings.h"
#include "tendril/rpc/launch/member_sessions.h"
#include "tendril/rpc/launch/membership.h"
#include "tendril/rpc/launch/process_launch.h"
#include "tendril/rpc/launch/rendezvous_service.h"
#include "tendril/rpc/launch/resolve.h"
#include "tendril/rpc/observe/log.h"
#include "tendril/rpc/observe/metrics_server.h"
#include "tendril/rpc/observe/status_signal.h"
#include "tendril/rpc/observe/trace.h"
#include "tendril/rpc/reference/rref_context.h"
#include "tendril/rpc/session/agent_impl.h"
#include "tendril/rpc/session/introduction.h"
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
    with_prefix(who + "): ", [&] {
      InitOptions completed = options;
      completed.transport = detail::given_transport(options.transport, std::getenv("TENDRIL_TRANSPORT"));
      join(settings, completed, launched.advice);
    });
  }

  ~Impl() { (void)stop(Clock::time_point::max()); }

  using Who = detail::Membership::Who;

  void barrier(milliseconds timeout, const Who& who) { meet_in("rpc::barrier", phases::kBarrier, {}, timeout, who); }

  std::vector<std::string> gather(std::string bytes, milliseconds timeout, const Who& who) {
    TENDRIL_CHECK_AS(UsageError, bytes.size() <= Group::kMaxGathered, "rpc::all_gather: the value must have at most ",
                     Group::kMaxGathered, " bytes, got ", bytes.size());
    return meet_in("rpc::all_gather", phases::kAllGather, std::move(bytes), timeout, who);
  }

  /// The workers of these names; this one must be among them.
  Who those(const std::vector<std::string>& names, const char* what) const {
    Who who;
    for (const std::string& name : names) who.ranks.push_back(agent_->worker(name).id);
    std::sort(who.ranks.begin(), who.ranks.end());
    who.ranks.erase(std::unique(who.ranks.begin(), who.ranks.end()), who.ranks.end());
    check_among(who, what);
    return who;
  }
  Who those(const GroupView& view, const char* what) const {
    Who who{.attendance = Attendance::unchanged, .ranks = view.alive(), .epoch = view.epoch};
    check_among(who, what);
    return who;
  }

  GroupView view() const { return membership_->view(); }
  GroupView wait_for_change(uint64_t epoch, milliseconds timeout) {
    return with_prefix("rpc::wait_for_change: ", [&] {
      return membership_->wait_for_change(epoch, timeout > 0ms ? deadline_after(timeout) : Clock::time_point::max());
    });
  }

  void shutdown(const ShutdownOptions& options) {
    if (Executor::current() == &agent_->executor())
      throw UsageError("rpc::shutdown: called in a handler, which it would wait for");
    const std::unique_lock lock(mutex_);
    if (!joined_) return;
    const auto deadline = options.timeout > 0ms ? deadline_after(options.timeout) : Clock::time_point::max();
    std::exception_ptr error;
    if (options.graceful) {
      try {
        leave_together(deadline, options.accept_losses);
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
  /// The gatherings of a shutdown.
  class Leaving final : public detail::Gathering {
   public:
    Leaving(detail::Membership& membership, bool accept_losses)
        : membership_(membership), accept_losses_(accept_losses) {}
    std::vector<std::string> gather(const std::string& phase, std::string contribution, milliseconds timeout) override {
      return membership_.gather(phase, std::move(contribution), timeout,
                                {.attendance = accept_losses_ ? Attendance::alive : Attendance::named});
    }
    void check() override { membership_.check(accept_losses_); }
    const std::vector<std::string>& names() const noexcept override { return membership_.names(); }

   private:
    detail::Membership& membership_;
    const bool accept_losses_;
  };

  std::vector<std::string> meet_in(const char* what, const char* phase, std::string bytes, milliseconds timeout,
                                   const Who& who) {
    const BlockedScope blocked(what);
    const std::shared_lock lock(mutex_);
    if (!joined_) throw UsageError(std::string(what) + ": this worker has left its group");
    return with_prefix(std::string(what) + ": ",
                       [&] { return membership_->gather(phase, std::move(bytes), std::max(timeout, 0ms), who); });
  }

  void check_among(Who& who, const char* what) const {
    TENDRIL_CHECK_AS(UsageError, std::binary_search(who.ranks.begin(), who.ranks.end(), agent_->self().id), what,
                     ": this worker, '", agent_->self().name, "', is not among those that are to meet");
    if (who.ranks.size() == workers_.size()) who.ranks.clear();  // that is all
  }

  void join(const detail::GroupSettings& settings, const InitOptions& options, const std::string& advice) {
    const auto deadline = deadline_after(options.init_timeout);
    const detail::GivenProof given = detail::given_proof(options, settings.master_port);
    const detail::MeetingPoint point{.name = settings.master_addr,
                                     .address = detail::resolve(settings.master_addr, deadline, advice),
                                     .proof_given = static_cast<bool>(given)};
    detail::check_meeting_point(point);
    if (settings.self.id == 0) {
      try {
        open_rendezvous(settings, options, given, point);
      } catch (const std::exception& e) {
        tell_others(settings, options, given, point, e.what());
        throw;
      }
    } else {
      find_rendezvous(settings, options, given, point, deadline);
    }
    try {
      // Of those that started together rank 0 loses patience first, and says so in round numbers.
      meet(deadline, settings.self.id == 0 ? options.init_timeout : left_until(deadline) + kLeastPhase);
      if (trace_) clock_.first = clock_.last = detail::measure_clock(*agent_, deadline);
    } catch (const std::exception& e) {
      membership_->fail(e.what());
      if (service_) service_->wait_until_told();
      throw;
    }
    joined_ = true;
    note(detail::LogLevel::info,
         "has joined its group as rank " + std::to_string(settings.self.id) + " of " + std::to_string(workers_.size()));
  }

  /// Rank 0's agent listens where all others look for it.
  void open_rendezvous(const detail::GroupSettings& settings, const InitOptions& options,
                       const detail::GivenProof& given, const detail::MeetingPoint& point) {
    start_agent(settings, options, given, new_group_id());
    service_ = std::make_shared<detail::RendezvousService>(agent_->impl().shared_from_this());
    service_->start();
    membership_ = service_->membership();
    agent_->impl().set_group_events(service_);
    rank_0_address_ = point.address;
    try {
      const Agent::Endpoint mine = agent_->listen(rank_0_listen(settings, options, point));
      TENDRIL_CHECK_AS(UsageError, options.transport != Transport::unix_socket || !mine.unix_path.empty(),
                       "no Unix-domain socket can be made, and no other is to be used");
      note(detail::LogLevel::debug, "listens at " + mine.to_string() + " and waits for the others to join");
    } catch (const UsageError& e) {
      throw UsageError(std::string("rank 0: ") + e.what() + "; choose another master_port (MASTER_PORT)");
    }
  }

  /// Rank 0 cannot open the rendezvous: the others would look for it until their deadlines. Tries to listen for 2 s
  /// with an agent that does nothing else.
  void tell_others(const detail::GroupSettings& settings, const InitOptions& options, const detail::GivenProof& given,
                   const detail::MeetingPoint& point, const std::string& why) noexcept try {
    if (agent_) agent_->shutdown(Clock::now() + kLeastPhase);
    AgentOptions bare;
    bare.name = name_problem(settings.self.name).empty() ? settings.self.name : "rank-0";
    bare.world_size = settings.world_size;
    bare.group = new_group_id();
    bare.key = given.key;
    bare.tls = given.tls;
    Agent agent(std::move(bare), served_functions());
    const auto service = std::make_shared<detail::RendezvousService>(agent.impl().shared_from_this());
    service->start();
    agent.impl().set_group_events(service);
    agent.listen(rank_0_listen(settings, options, point));
    service->membership()->fail(why);
    service->wait_until_told();
  } catch (const std::exception&) {  // the port is taken, say: then somebody else answers there
  }

  static Agent::ListenOptions rank_0_listen(const detail::GroupSettings& settings, const InitOptions& options,
                                            const detail::MeetingPoint& point) {
    Agent::ListenOptions listen = detail::rank_0_listen_options(point, settings.master_port);
    listen.unix_socket = options.transport != Transport::tcp;
    const SpawnContext* spawned = SpawnContext::current();
    if (spawned != nullptr && spawned->master_port == settings.master_port) listen.tcp_socket = spawned->listener;
    return listen;
  }

  /// The other ranks find rank 0's agent, and begin a session with it.
  void find_rendezvous(const detail::GroupSettings& settings, const InitOptions& options,
                       const detail::GivenProof& given, const detail::MeetingPoint& point, Clock::time_point deadline) {
    const detail::Enquirer enquirer{.self = settings.self,
                                    .world_size = settings.world_size,
                                    .key = given ? given.key : SharedKey::of_this_user(),
                                    .tls = given.tls};
    const boost::asio::ip::tcp::endpoint address(point.address, settings.master_port);
    const detail::Found found = detail::find_group(address, enquirer, deadline, options.init_timeout);
    try {
      begin_session(settings, options, given, point, found, deadline);
    } catch (const std::exception& e) {
      detail::tell_that_it_cannot_join(address, enquirer, e.what());
      throw;
    }
  }

  void begin_session(const detail::GroupSettings& settings, const InitOptions& options, const detail::GivenProof& given,
                     const detail::MeetingPoint& point, const detail::Found& found, Clock::time_point deadline) {
    start_agent(settings, options, given, found.group);
    const std::weak_ptr<Agent::Impl> agent = agent_->impl().shared_from_this();
    membership_ = std::make_shared<detail::Membership>(agent_->impl().loop, [agent](const RendezvousMessage& message) {
      const auto alive = agent.lock();
      const auto session = alive ? alive->open_session(0) : nullptr;
      if (session) session->send_group(encode(message));
    });
    agent_->impl().set_group_events(std::make_shared<detail::WorkerEvents>(membership_));
    const char* named = options.interface.empty() ? std::getenv("TENDRIL_SOCKET_IFNAME") : options.interface.c_str();
    Agent::ListenOptions listen =
        detail::listen_options(point, found.local_address, named == nullptr ? std::string() : named);
    listen.unix_socket = options.transport != Transport::tcp;
    listen.tcp = options.transport != Transport::unix_socket;
    rank_0_address_ = found.rank_0_address;
    const Agent::Endpoint mine = agent_->listen(listen);
    note(detail::LogLevel::debug, "listens at " + mine.to_string() + " and joins " + name_of(found.rank_0));
    Agent::Endpoint rank_0 = detail::dialled_endpoint(found.endpoint, rank_0_address_);
    if (options.transport == Transport::unix_socket) rank_0.tcp_port = 0;
    agent_->connect(found.rank_0, rank_0, deadline);
  }

  /// Waits for all workers. From here on each can call every other; connections are made when there is something to
  /// send.
  void meet(Clock::time_point deadline, milliseconds timeout) {
    Agent::Impl& agent = agent_->impl();
    const auto welcome = membership_->join(detail::introduction_of(agent), timeout);
    TENDRIL_CHECK_AS(MessageError, welcome.members.size() == static_cast<std::size_t>(agent.options.world_size),
                     "rendezvous: a malformed welcome");
    for (const MemberRecord& member : welcome.members) workers_.push_back({member.name, member.rank});
    const std::vector<std::string>& names = membership_->names();
    for (const auto& [peer, map] : agent.options.device_maps)
      TENDRIL_CHECK_AS(UsageError, std::find(names.begin(), names.end(), peer) != names.end(),
                       "there is a device map for '", peer, "', but no such worker in the group");
    const auto sessions = std::make_shared<detail::MemberSessions>(
        agent.shared_from_this(), rank_0_address_, [weak = std::weak_ptr(membership_)](const MemberRecord& change) {
          if (const auto membership = weak.lock()) membership->applied(change);
        });
    sessions->meet(welcome.members);
    agent.members_known();
    agent.loop->post_io([weak = std::weak_ptr(membership_), sessions] {
      if (const auto membership = weak.lock())
        membership->on_changes([sessions](const auto& changes) { sessions->add(changes); });
    });
    if (!welcome.is_again()) membership_->gather(phases::kJoined, {}, left_until(deadline));
  }

  void start_agent(const detail::GroupSettings& settings, const InitOptions& options, const detail::GivenProof& given,
                   const std::string& group) {
    AgentOptions agent = options.agent;
    agent.name = settings.self.name;
    agent.rank = settings.self.id;
    agent.world_size = settings.world_size;
    agent.group = trace_group_ = group;
    agent.key = given.key;
    agent.tls = given.tls;
    agent.num_worker_threads = options.num_worker_threads;
    agent.rpc_timeout = options.rpc_timeout;
    agent.device_maps = options.device_maps;
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

  /// The deadline of a phase that begins now.
  static Clock::time_point at_least(Clock::time_point deadline) {
    return std::max(deadline, Clock::now() + kLeastPhase);
  }

  void leave_together(Clock::time_point deadline, bool accept_losses) {
    const auto phase_timeout = [&] {
      return deadline == Clock::time_point::max() ? kPhaseTimeout : left_until(at_least(deadline));
    };
    using detail::LogLevel;
    Leaving all(*membership_, accept_losses);
    try {
      if (trace_) measure_again(deadline);
      note(LogLevel::info, "shuts down and waits for all to do so");
      all.gather(phases::kShutdown, {}, left_until(deadline));
      note(LogLevel::info, "waits for calls that are still open");
      detail::drain(*agent_, all, deadline);
      note(LogLevel::info, "gives up its references");
      references_->table().release_users();
      const RRefCounters left = wait_for_references(all, Clock::now() + phase_timeout());
      const auto texts = all.gather(phases::kLast, left.none() ? "" : text_of(left), phase_timeout());
      std::string leaks;
      for (const WorkerInfo& worker : workers_) {
        const std::string& text = texts[static_cast<std::size_t>(worker.id)];
        if (!text.empty()) leaks += (leaks.empty() ? "" : "; ") + ("worker '" + worker.name + "': " + text);
      }
      if (!leaks.empty()) throw RRefError("references are left: " + leaks);
    } catch (const std::exception& e) {
      membership_->fail(e.what());
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
  RRefCounters wait_for_references(detail::Gathering& group, Clock::time_point deadline) {
    auto pause = std::chrono::microseconds(50);
    for (;;) {
      const RRefCounters counters = references_->counters();
      if (counters.none() || Clock::now() >= deadline) return counters;
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, std::chrono::microseconds(5000));
      group.check();
    }
  }

  /// What the agent's shutdown throws.
  std::exception_ptr stop(Clock::time_point deadline) noexcept {
    if (std::exchange(stopped_, true)) return nullptr;
    std::exception_ptr error;
    if (membership_) membership_->leave();
    if (service_) service_->wait_until_told();
    if (membership_) membership_->end(std::make_exception_ptr(UsageError("this worker has left its group")));
    try {
      if (agent_) agent_->shutdown(deadline);
    } catch (...) {  // it is shut down in any case
      error = std::current_exception();
    }
    write_trace();
    metrics_.reset();
    status_signal_.reset();
    if (std::exchange(joined_, false)) note(detail::LogLevel::info, "has left its group");
    return error;
  }

  std::shared_mutex mutex_;  // no shutdown while there are barriers
  std::optional<detail::StatusSignal> status_signal_;
  std::shared_ptr<detail::Trace> trace_;
  detail::ClockFit clock_;
  std::string trace_group_;
  std::shared_ptr<detail::RendezvousService> service_;  // rank 0's
  std::shared_ptr<detail::Membership> membership_;
  boost::asio::ip::address rank_0_address_;  // as seen from here
  bool joined_ = false, stopped_ = false;
};

Group::Group(const std::string& name, const InitOptions& options) : impl_(std::make_unique<Impl>(name, options)) {}
Group::~Group() = default;
const std::shared_ptr<Agent>& Group::agent() const noexcept { return impl_->agent_; }
const std::vector<WorkerInfo>& Group::workers() const noexcept { return impl_->workers_; }
RRefCounters Group::rref_counters() const { return impl_->references_->counters(); }
std::vector<LiveReference> Group::references() const { return impl_->references_->table().list(); }
uint16_t Group::metrics_port() const noexcept { return impl_->metrics_ ? impl_->metrics_->port() : 0; }
GroupView Group::view() const { return impl_->view(); }
uint64_t Group::epoch() const { return impl_->view().epoch; }
GroupView Group::wait_for_change(uint64_t epoch, milliseconds timeout) {
  return impl_->wait_for_change(epoch, timeout);
}
void Group::barrier(milliseconds timeout) { impl_->barrier(timeout, {}); }
void Group::barrier(const std::vector<std::string>& names, milliseconds timeout) {
  impl_->barrier(timeout, impl_->those(names, "rpc::barrier"));
}
void Group::barrier(const GroupView& view, milliseconds timeout) {
  impl_->barrier(timeout, impl_->those(view, "rpc::barrier"));
}
std::vector<std::string> Group::gather(std::string bytes, milliseconds timeout) {
  return impl_->gather(std::move(bytes), timeout, {});
}
std::vector<std::string> Group::gather(std::string bytes, const std::vector<std::string>& names, milliseconds timeout) {
  return impl_->gather(std::move(bytes), timeout, impl_->those(names, "rpc::all_gather"));
}
void Group::shutdown(const ShutdownOptions& options) { impl_->shutdown(options); }

}  // namespace tendril::rpc

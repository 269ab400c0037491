#include "tendril/rpc/group/joining.h"

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <cstdlib>
#include <utility>

#include "tendril/rpc/call/function.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/group/addresses.h"
#include "tendril/rpc/group/enquiry.h"
#include "tendril/rpc/group/member_sessions.h"
#include "tendril/rpc/group/resolve.h"
#include "tendril/rpc/session/agent_impl.h"
#include "tendril/rpc/session/introduction.h"
#include "tendril/rpc/spawn.h"
#include "tendril/rpc/system/thread.h"
#include "tendril/rpc/wire/error_message.h"

namespace tendril::rpc::detail {

using std::chrono::milliseconds;

namespace {

/// Returns 128 random bits, which identify this group, so that a worker of another group is recognized.
std::string new_group_id() {
  std::string id;
  for (const uint64_t half : {random_bits(), random_bits()})
    for (int shift = 0; shift < 64; shift += 4) id += "0123456789abcdef"[half >> shift & 15];
  return id;
}

/// One attempt to join.
class Joining {
 public:
  Joining(GroupMember& member, const GroupSettings& settings, const InitOptions& options, const std::string& advice)
      : member_(member),
        settings_(settings),
        options_(options),
        deadline_(deadline_after(options.init_timeout)),
        given_(select_credentials(options, settings.master_port)),
        point_{.name = settings.master_addr,
               .address = resolve(settings.master_addr, deadline_, advice),
               .has_credentials = static_cast<bool>(given_)} {}

  void run() {
    check_meeting_point(point_);
    if (settings_.self.id == 0) {
      try {
        open_rendezvous();
      } catch (...) {
        report_failure(text_of(std::current_exception()));
        throw;
      }
    } else {
      find_rendezvous();
    }
    try {
      // Among workers that started together, rank 0 times out first, so that the error gives the full timeout.
      meet(settings_.self.id == 0 ? options_.init_timeout : left_until(deadline_) + kMinPhaseTime);
      member_.trace.measure(*member_.agent, deadline_);
    } catch (...) {
      member_.membership->fail(text_of(std::current_exception()));
      throw;
    }
    member_.note(LogLevel::info, "has joined its group as rank " + std::to_string(settings_.self.id) + " of " +
                                     std::to_string(member_.workers.size()));
  }

 private:
  /// Starts rank 0's agent, which listens where the other ranks look for it.
  void open_rendezvous() {
    start_agent(member_, settings_, options_, given_, new_group_id());
    Agent::Impl& agent = member_.agent->impl();
    member_.service = std::make_shared<RendezvousService>(agent.shared_from_this());
    member_.service->start();
    member_.membership = member_.service->membership();
    agent.set_group_events(member_.service);
    rank_0_address_ = point_.address;
    Agent::Endpoint mine;
    try {
      mine = member_.agent->listen(rank_0_listen());
    } catch (const UsageError& e) {
      throw UsageError(std::string("rank 0: ") + e.what() + "; choose another master_port (MASTER_PORT)");
    }
    TENDRIL_CHECK_AS(UsageError, options_.transport != Transport::unix_socket || !mine.unix_path.empty(),
                     "rank 0: cannot create a Unix-domain socket, and the transport is unix_socket");
    member_.note(LogLevel::debug, "listens at " + mine.to_string() + " and waits for the others to join");
  }

  /// Tells the other ranks that rank 0 cannot open the rendezvous; otherwise they would look for it until their
  /// deadlines. Listens for at most 2 s, if it can, with an agent that does nothing else.
  void report_failure(const std::string& why) noexcept try {
    if (member_.agent) member_.agent->shutdown(Clock::now() + kMinPhaseTime);
    AgentOptions bare;
    bare.name = name_problem(settings_.self.name).empty() ? settings_.self.name : "rank-0";
    bare.world_size = settings_.world_size;
    bare.group = new_group_id();
    bare.key = given_.key;
    bare.tls = given_.tls;
    Agent agent(std::move(bare), served_functions());
    const auto service = std::make_shared<RendezvousService>(agent.impl().shared_from_this());
    service->start();
    agent.impl().set_group_events(service);
    agent.listen(rank_0_listen());
    service->membership()->fail(why);
    service->wait_until_told();
  } catch (const std::exception&) {  // for example, because another process uses the port and answers there
  }

  Agent::ListenOptions rank_0_listen() const {
    Agent::ListenOptions listen = rank_0_listen_options(point_, settings_.master_port);
    listen.unix_socket = options_.transport != Transport::tcp;
    const SpawnContext* spawned = SpawnContext::current();
    if (spawned != nullptr && spawned->master_port == settings_.master_port) listen.tcp_socket = spawned->listener;
    return listen;
  }

  /// Finds rank 0's agent and begins a session with it.
  void find_rendezvous() {
    const Enquirer enquirer{
        .self = settings_.self, .world_size = settings_.world_size, .key = given_.key, .tls = given_.tls};
    const boost::asio::ip::tcp::endpoint address(point_.address, settings_.master_port);
    const Found found = find_group(address, enquirer, deadline_, options_.init_timeout);
    try {
      begin_session(found);
    } catch (...) {
      report_cannot_join(address, enquirer, text_of(std::current_exception()));
      throw;
    }
  }

  void begin_session(const Found& found) {
    start_agent(member_, settings_, options_, given_, found.group);
    const std::weak_ptr<Agent::Impl> agent = member_.agent->impl().shared_from_this();
    member_.membership =
        std::make_shared<Membership>(member_.agent->impl().loop, [agent](const RendezvousMessage& message) {
          const auto alive = agent.lock();
          const auto session = alive ? alive->open_session(0) : nullptr;
          if (session) session->send_group(encode(message));
        });
    member_.agent->impl().set_group_events(std::make_shared<WorkerEvents>(member_.membership));
    const char* named = options_.interface.empty() ? std::getenv("TENDRIL_SOCKET_IFNAME") : options_.interface.c_str();
    Agent::ListenOptions listen = listen_options(point_, found.local_address, named == nullptr ? std::string() : named);
    listen.unix_socket = options_.transport != Transport::tcp;
    listen.tcp = options_.transport != Transport::unix_socket;
    rank_0_address_ = found.rank_0_address;
    const Agent::Endpoint mine = member_.agent->listen(listen);
    member_.note(LogLevel::debug, "listens at " + mine.to_string() + " and joins " + name_of(found.rank_0));
    Agent::Endpoint rank_0 = dialled_endpoint(found.endpoint, rank_0_address_);
    if (options_.transport == Transport::unix_socket) rank_0.tcp_port = 0;
    member_.agent->connect(found.rank_0, rank_0, deadline_);
  }

  /// Waits for all workers. After that, each worker can call every other; connections are made when there is something
  /// to send.
  void meet(milliseconds timeout) {
    Agent::Impl& agent = member_.agent->impl();
    const std::shared_ptr<Membership>& membership = member_.membership;
    const auto welcome = membership->join(introduction_of(agent), timeout);
    TENDRIL_CHECK_AS(MessageError, welcome.members.size() == static_cast<std::size_t>(agent.options.world_size),
                     "rendezvous: a malformed welcome");
    for (const MemberRecord& one : welcome.members) member_.workers.push_back({one.name, one.rank});
    agent.generation = welcome.members[static_cast<std::size_t>(agent.self.id)].epoch;
    agent.epoch = welcome.epoch;
    const std::vector<std::string>& names = membership->names();
    for (const auto& [peer, map] : agent.options.device_maps)
      TENDRIL_CHECK_AS(UsageError, std::find(names.begin(), names.end(), peer) != names.end(),
                       "there is a device map for '", peer, "', but no such worker in the group");
    const auto sessions = std::make_shared<MemberSessions>(
        agent.shared_from_this(), rank_0_address_,
        [weak = std::weak_ptr(membership), of = agent.weak_from_this()](const MemberRecord& change) {
          if (const auto alive = of.lock()) alive->epoch = std::max<uint64_t>(alive->epoch, change.epoch);
          if (const auto alive = weak.lock()) alive->applied(change);
        });
    sessions->meet(welcome.members);
    agent.members_known();
    agent.loop->post_io([weak = std::weak_ptr(membership), sessions] {
      if (const auto alive = weak.lock()) {
        alive->on_changes([sessions](const auto& changes) { sessions->add(changes); });
        alive->on_losses([sessions](WorkerId peer) { sessions->restore(peer); });
      }
    });
    if (!welcome.is_rejoin()) membership->gather(phases::kJoined, {}, left_until(deadline_));
  }

  GroupMember& member_;
  const GroupSettings& settings_;
  const InitOptions& options_;
  const Clock::time_point deadline_;
  const Credentials given_;
  const MeetingPoint point_;
  boost::asio::ip::address rank_0_address_;  // as seen from here
};

}  // namespace

void join(GroupMember& member, const GroupSettings& settings, const InitOptions& options, const std::string& advice) {
  Joining(member, settings, options, advice).run();
}

}  // namespace tendril::rpc::detail

// The group that this process has joined: init_rpc, shutdown, and the free functions that use the group.

#include <unistd.h>

#include <mutex>
#include <optional>
#include <utility>

#include "tendril/rpc/call/uncaught.h"
#include "tendril/rpc/collectives.h"
#include "tendril/rpc/default_agent.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/group.h"
#include "tendril/rpc/group/simulated_launch.h"
#include "tendril/rpc/reference/rref_context.h"
#include "tendril/rpc/system/mutex.h"
#include "tendril/tensor/detail/switched_variable.h"

namespace tendril::rpc {
namespace {

/// The default group. If the program ends without a shutdown, the destructor leaves the group alone and at once, before
/// other static objects are destroyed.
struct Default {
  detail::Mutex mutex;
  std::shared_ptr<Group> group;
  bool busy = false;  // a thread is joining or leaving
  pid_t process = 0;  // the process that has joined it

  ~Default() {
    set_default_agent(nullptr);
    // Leaks the group if a handler calls exit, because the handler would wait for itself, and in a forked child,
    // because the group belongs to its parent.
    if (group && (process != ::getpid() || Executor::current() != nullptr)) {
      [[maybe_unused]] static const auto* const kept = new std::shared_ptr<Group>(std::move(group));
    }
  }
};

Default& the_default() {
  static Default instance;
  return instance;
}
const auto default_group_switched = tendril::detail::of_each_process([]() -> auto& { return the_default(); });

std::shared_ptr<Group> joined() {
  Default& d = the_default();
  const std::lock_guard lock(d.mutex);
  if (!d.group) throw UsageError("RPC has not been initialised: call rpc::init_rpc first (or it has been shut down)");
  return d.group;
}

}  // namespace

void detail::leave_default_group() noexcept {
  set_default_agent(nullptr);
  std::shared_ptr<Group> group;
  {
    const std::lock_guard lock(the_default().mutex);
    group.swap(the_default().group);
  }
}

namespace {

/// Keeps other threads from joining or leaving meanwhile.
class Busy {
 public:
  explicit Busy(Default& d) : default_(d) { d.busy = true; }
  ~Busy() {
    const std::lock_guard lock(default_.mutex);
    default_.busy = false;
  }

 private:
  Default& default_;
};

}  // namespace

void init_rpc(const std::string& name, const InitOptions& options) {
  Default& d = the_default();
  std::optional<Busy> busy;
  {
    const std::lock_guard lock(d.mutex);
    if (d.group)
      throw UsageError("init_rpc ('" + name + "'): RPC is initialised already, as '" + d.group->agent()->self().name +
                       "'; shut it down first");
    if (d.busy) throw UsageError("init_rpc ('" + name + "'): another thread is initialising or shutting down RPC");
    busy.emplace(d);
  }
  detail::report_uncaught_as(name);  // even if joining fails
  // Other workers may call this one before init_rpc returns, and the handlers of those calls need the default agent.
  InitOptions with_default = options;
  with_default.prepare = [&](const std::shared_ptr<Agent>& agent) {
    if (options.prepare) options.prepare(agent);
    set_default_agent(agent);
  };
  try {
    auto group = std::make_shared<Group>(name, with_default);
    const std::lock_guard lock(d.mutex);
    d.group = std::move(group);
    d.process = ::getpid();
  } catch (...) {
    set_default_agent(nullptr);
    throw;
  }
}

void shutdown(const ShutdownOptions& options) {
  Default& d = the_default();
  std::optional<Busy> busy;
  std::shared_ptr<Group> group;
  {
    const std::lock_guard lock(d.mutex);
    if (!d.group || d.busy) throw UsageError("rpc::shutdown: RPC has not been initialised (or it has been shut down)");
    if (Executor::current() != nullptr) throw UsageError("rpc::shutdown: called in a handler, which it would wait for");
    busy.emplace(d);
    group = d.group;  // not moved: handlers that still run may need it
  }
  std::exception_ptr error;
  try {
    group->shutdown(options);
  } catch (...) {
    error = std::current_exception();
  }
  set_default_agent(nullptr);
  {
    const std::lock_guard lock(d.mutex);
    d.group.reset();
  }
  if (error) std::rethrow_exception(error);
}

bool is_initialized() noexcept { return default_agent_or_null() != nullptr; }

WorkerInfo get_worker_info() { return default_agent()->self(); }
WorkerInfo get_worker_info(std::string_view name) { return default_agent()->worker(name); }
WorkerInfo get_worker_info(WorkerId rank) { return default_agent()->worker(rank); }
std::vector<WorkerInfo> get_worker_infos() {
  const auto agent = default_agent();
  std::vector<WorkerInfo> workers;
  for (WorkerId rank = 0; rank < agent->options().world_size; ++rank) workers.push_back(agent->worker(rank));
  return workers;
}
void barrier(std::chrono::milliseconds timeout) { joined()->barrier(timeout); }
void barrier(const std::vector<std::string>& names, std::chrono::milliseconds timeout) {
  joined()->barrier(names, timeout);
}
void barrier(const GroupView& view, std::chrono::milliseconds timeout) { joined()->barrier(view, timeout); }
GroupView group_view() { return joined()->view(); }
GroupView wait_for_change(uint64_t epoch, std::chrono::milliseconds timeout) {
  return joined()->wait_for_change(epoch, timeout);
}
std::vector<std::string> detail::all_gather(std::string bytes, std::chrono::milliseconds timeout) {
  return joined()->gather(std::move(bytes), timeout);
}
std::vector<std::string> detail::all_gather(std::string bytes, const std::vector<std::string>& names,
                                            std::chrono::milliseconds timeout) {
  return joined()->gather(std::move(bytes), names, timeout);
}
std::chrono::microseconds get_rpc_timeout() { return default_agent()->rpc_timeout(); }
void set_rpc_timeout(std::chrono::microseconds timeout) { default_agent()->set_rpc_timeout(timeout); }
RRefCounters rref_counters() { return RRefContext::of(*default_agent())->counters(); }
std::vector<LiveReference> references() { return RRefContext::of(*default_agent())->table().list(); }

}  // namespace tendril::rpc

#include "tendril/rpc/observe/group_trace.h"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <utility>

#include "tendril/rpc/system/log.h"

namespace tendril::rpc::detail {

void GroupTrace::start(Agent& agent, std::string path, const std::string& group) {
  if (const char* variable = std::getenv("TENDRIL_TRACE"); path.empty() && variable) path = variable;
  if (path.empty()) return;
  try {
    check_trace_path(path);
  } catch (const std::exception& e) {
    const std::string& name = agent.self().name;
    return log(LogLevel::warn, name, "rpc: worker '" + name + "' records no trace: " + e.what());
  }
  group_ = group;
  trace_ = std::make_shared<Trace>(path, agent.self(), agent.incarnation());
  agent.set_trace(trace_);
}

void GroupTrace::measure(Agent& agent, Clock::time_point deadline) {
  if (trace_) clock_.first = clock_.last = measure_clock(agent, deadline);
}

void GroupTrace::measure_again(Agent& agent, Clock::time_point deadline) noexcept {
  if (!trace_) return;
  try {
    clock_.last = measure_clock(agent, std::min(deadline, Clock::now() + std::chrono::seconds(5)));
  } catch (const std::exception&) {  // one measurement must do; other calls report the lost worker
  }
}

std::string GroupTrace::write() noexcept try {
  const auto trace = std::exchange(trace_, nullptr);
  if (trace) trace->write(group_, clock_);
  return {};
} catch (const std::exception& e) {
  return e.what();
}

}  // namespace tendril::rpc::detail

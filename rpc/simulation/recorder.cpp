#include "tendril/rpc/simulation/recorder.h"

#include <algorithm>
#include <iterator>

#include "tendril/rpc/call/function.h"
#include "tendril/rpc/simulation/network.h"

namespace tendril::rpc::detail {

namespace {
constexpr std::size_t kMostFunctions = 1 << 16;
constexpr std::size_t kMostTextBytes = 2000;  // per event
}  // namespace

Recorder::Recorder(std::size_t limit, std::function<std::chrono::nanoseconds()> elapsed)
    : first_(limit / 2), last_(limit - limit / 2), elapsed_(std::move(elapsed)) {}

uint64_t Recorder::add(SimulationEvent event) {
  if (taken_) return added_;
  event.time = elapsed_();
  if (event.text.size() > kMostTextBytes) event.text.resize(kMostTextBytes);
  if (beginning_.size() < first_) {
    beginning_.push_back(std::move(event));
  } else {
    ending_.push_back(std::move(event));
    if (ending_.size() > last_) ending_.pop_front();
  }
  return added_++;
}

/// Returns null if the event was left out.
SimulationEvent* Recorder::find(uint64_t event) {
  if (event < beginning_.size()) return &beginning_[event];
  const uint64_t first_of_ending = added_ - ending_.size();
  return event >= first_of_ending && event < added_ ? &ending_[event - first_of_ending] : nullptr;
}

uint64_t Recorder::left_out() const noexcept { return added_ - beginning_.size() - ending_.size(); }

std::vector<SimulationEvent> Recorder::take() {
  taken_ = true;
  std::vector<SimulationEvent> all = std::move(beginning_);
  std::ranges::move(ending_, std::back_inserter(all));
  return all;
}

void Recorder::happens(const char* kind, int rank, std::string_view text) {
  add({.from = rank, .kind = kind, .text = std::string(text)});
}

void Recorder::connection(const Connection& connection, int end, const char* kind, std::string_view text) {
  add({.from = connection.hosts[end],
       .kind = kind,
       .text = std::string(text) + " rank " + std::to_string(connection.hosts[1 - end]),
       .connection = connection.number});
}

Recorder::Direction& Recorder::direction(const Connection& connection, int end) {
  return directions_[{connection.number, end}];
}

/// Sets the event's text. It names the function of a request, or of the request that a message answers or cancels.
void Recorder::name_function(SimulationEvent& event, const SentMessage& message) {
  std::string name;
  if (message.kind == "request") {
    if (functions_.size() >= kMostFunctions) functions_.clear();
    functions_[{event.from, event.to, message.call_id}] = message.function;
    name = name_of_function(message.function);
  } else if (message.kind == "reply" || message.kind == "error" || message.kind == "cancel") {
    const bool is_caller = message.kind == "cancel";
    const auto found =
        functions_.find({is_caller ? event.from : event.to, is_caller ? event.to : event.from, message.call_id});
    if (found != functions_.end()) name = name_of_function(found->second);
  }
  event.text = name + (name.empty() || message.text.empty() ? "" : ": ") + message.text;
  if (event.text.size() > kMostTextBytes) event.text.resize(kMostTextBytes);
}

void Recorder::sent(const Connection& connection, int end, const Segment& segment) {
  if (taken_ || segment.kind == Segment::Kind::window) return;
  Direction& flow = direction(connection, end);
  const SimulationEvent made{.from = connection.hosts[end],
                             .to = connection.hosts[1 - end],
                             .kind = "connection",
                             .connection = connection.number};
  if (segment.kind != Segment::Kind::bytes) {
    SimulationEvent event = made;
    event.text = segment.kind == Segment::Kind::end ? "ends" : "reset";
    flow.ends.emplace_back(segment.kind == Segment::Kind::reset, add(std::move(event)));
    return;
  }
  flow.messages.add(segment.bytes, [&](const SentMessage& message) {
    auto known = std::ranges::find(flow.on_the_way, message.number, &OnTheWay::message);
    if (known == flow.on_the_way.end()) {
      flow.on_the_way.push_back({message.number, add(made), message.begin, 0});
      known = std::prev(flow.on_the_way.end());
    }
    known->end = message.end;
    SimulationEvent* const event = find(known->event);
    if (event == nullptr) return;
    event->kind = message.kind;
    event->bytes = message.bytes;
    event->call_id = message.call_id;
    name_function(*event, message);
  });
}

void Recorder::corrupted(const Connection& connection, int end, std::size_t from_end) {
  if (taken_) return;
  Direction& flow = direction(connection, end);
  const uint64_t at = flow.messages.sent() - from_end;
  const OnTheWay* last = nullptr;  // the last to begin before it: other frames may come between the parts of one
  for (const OnTheWay& message : flow.on_the_way)
    if (message.begin <= at && (message.end == 0 || at < message.end)) last = &message;
  SimulationEvent* const event = last != nullptr ? find(last->event) : nullptr;
  if (event != nullptr) event->corrupted = true;
  this->connection(connection, end, "fault", "fault: corrupt byte sent to");
}

void Recorder::received(const Connection& connection, int end, const Segment& segment) {
  if (taken_) return;
  Direction& flow = direction(connection, end);
  flow.received += segment.bytes.size();
  const auto arrives = [&](uint64_t number) {
    if (SimulationEvent* const event = find(number)) event->arrival = elapsed_();
  };
  if (segment.kind != Segment::Kind::bytes) {
    const bool is_reset = segment.kind == Segment::Kind::reset;
    const auto event = std::ranges::find(flow.ends, is_reset, &std::pair<bool, uint64_t>::first);
    if (event == flow.ends.end()) return;  // a reset by a fault
    arrives(event->second);
    flow.ends.erase(event);
    return;
  }
  std::erase_if(flow.on_the_way, [&](const OnTheWay& message) {
    const bool whole = message.end != 0 && message.end <= flow.received;
    if (whole) arrives(message.event);
    return whole;
  });
}

}  // namespace tendril::rpc::detail

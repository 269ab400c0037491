#include "tendril/rpc/observe/message_page.h"
#include "tendril/rpc/simulation.h"

namespace tendril::rpc {

std::string SimulationReport::page() const {
  detail::MessagePage page;
  page.title = "Simulation with seed " + std::to_string(seed);
  page.summary = text();
  page.end = end == End::done ? "all have ended" : end == End::stuck ? "deadlock" : "limit reached";
  page.ranks = static_cast<int>(ranks.size());
  page.has_times = true;
  if (events.empty())
    page.add({.kind = "left out", .text = "no events were recorded: set SimulationOptions::keep_events"});
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (events_left_out > 0 && i == events.size() / 2)
      page.add({.time = events[i].time,
                .kind = "left out",
                .text = std::to_string(events_left_out) + " events are left out here"});
    page.add(events[i]);
  }
  return page.html();
}

}  // namespace tendril::rpc

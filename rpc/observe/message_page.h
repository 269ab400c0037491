#pragma once

#include <string>
#include <string_view>

#include "tendril/rpc/simulation_event.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc::detail {

/// Returns a JSON string literal. Also escapes `<`, so that the literal may be part of a script element.
std::string json_literal(std::string_view text);

/// Makes an HTML page to step through the messages between ranks: a lifeline for each rank, an arrow for each message,
/// and the details of the current event. The page needs no other file and no network. Escapes all texts, but not the
/// HTML, JavaScript and JSON that the caller supplies.
class MessagePage {
 public:
  std::string title;
  std::string summary;  ///< shown under the title, with its line breaks
  std::string end;      ///< shown at the last step
  int ranks = 0;
  bool has_times = false;  ///< whether the events have times; otherwise only their order is shown
  std::string figure;      ///< HTML shown above the messages
  /// JavaScript. It may define `draw(event)`, which is called with the current event to update the figure. `data` has
  /// the members `ranks` and `events`, and those of `members`.
  std::string script;
  std::string members;  ///< further members of `data` in JSON, each preceded by a comma

  /// Adds an event. `members`: further members of the event in JSON, each preceded by a comma. The page shows two of
  /// them, which are arrays of strings: `lines`, the effects of the event, and `transit`, the messages in transit.
  /// Without `transit`, the page derives these messages from the times.
  void add(const SimulationEvent& event, std::string_view members = {});
  std::string html() const;

 private:
  std::string events_;
};

}  // namespace tendril::rpc::detail

TENDRIL_API_END

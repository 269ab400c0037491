#pragma once

#include <string>
#include <string_view>

#include "tendril/rpc/simulation.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc::detail {

/// Returns a JSON string literal. Escapes `<` too, so that it may stand in a script.
std::string json_literal(std::string_view text);

/// Makes an HTML page that steps through messages between ranks: a lifeline for each rank, an arrow for each message,
/// and the details of the current one. It needs no other file and no network. All texts are escaped.
class MessagePage {
 public:
  std::string title;
  std::string summary;  ///< shown under the title, with its line breaks
  std::string end;      ///< shown at the last step
  int ranks = 0;
  bool has_times = false;  ///< whether the events have times; otherwise they have an order only
  std::string figure;      ///< HTML above the messages
  /// JavaScript, which may define `draw(event)`: it is called with the current event to update the figure. `data` has
  /// the members `ranks`, `events` and those of `members`.
  std::string script;
  std::string members;  ///< further members of the data in JSON, each after a comma

  /// `members`: further members of the event in JSON, each after a comma. The page shows `lines` and `transit`, arrays
  /// of strings: the effects of the event, and the messages on the way. Without `transit`, it derives them from the
  /// times.
  void add(const SimulationEvent& event, std::string_view members = {});
  std::string html() const;

 private:
  std::string events_;
};

}  // namespace tendril::rpc::detail

TENDRIL_API_END

#include "page.h"

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "tendril/rpc/observe/message_page.h"

namespace step_through {

using namespace tendril::dist::autograd;
using ::examples::PassSimulation;
using ::examples::SimulatedGraph;
using ::examples::SimulatedMessage;
using tendril::rpc::SimulationEvent;
using tendril::rpc::detail::json_literal;
using tendril::rpc::detail::MessagePage;

namespace {

/// Above the messages: the graph, with the state of each node.
constexpr const char* kFigure = R"html(
<style>
  #picture { overflow-x: auto; }
  #picture svg { display: block; min-width: 40rem; width: 100%; max-height: 19rem; border: 1px solid var(--rule); }
  #picture text { fill: var(--ink); } #picture .lane { fill: var(--panel); }
  #picture .sent { stroke: var(--accent); stroke-width: 2; } #picture .used { fill: none; stroke: var(--dim); }
  .waiting { fill: var(--paper); stroke: var(--dim); } .marked { fill: var(--marked); stroke: var(--hand); }
  .had { fill: var(--had); stroke: var(--reply); } .dropped { fill: none; stroke: var(--rule); stroke-dasharray: 3; }
  :root { --marked: #ffe28a; --had: #9fdfa0; }
  @media (prefers-color-scheme: dark) { :root { --marked: #6b5312; --had: #1f5a2c; } }
  .key span { display: inline-block; padding: 0 .6em; margin: 0 .5em .3em 0; border: 1px solid var(--dim); }
</style>
<div id="picture"></div>
<p class="key"><span>waits</span><span style="background:var(--marked)">marked</span>
<span style="background:var(--had)">has its gradient, has run</span>
<span style="border-style:dashed">will get no gradient</span>S: where a message was sent, R: where it was received;
gradients travel from R to S, then through the worker's graph to its other R</p>
)html";

constexpr const char* kScript = R"js(
const columns = data.messages.length, fullWidth = 110 * columns + 90, lane = 90, fullHeight = lane * data.ranks + 20;
const column = i => 110 * i + 130, height = rank => lane * rank + 55;
const indices = new Map(data.messages.map((m, i) => [m.name, i]));
function picture(state) {
  let out = `<svg viewBox="0 0 ${fullWidth} ${fullHeight}" font-size="13" text-anchor="middle">`;
  for (let r = 0; r < data.ranks; ++r)
    out += `<rect x="5" y="${height(r) - 40}" width="${fullWidth - 10}" height="80" class="lane"/>` +
           `<text x="40" y="${height(r) + 5}">rank ${r}</text>`;
  const place = (m, send) => [column(indices.get(m.name)) + (send ? -22 : 22), height(send ? m.sender : m.receiver)];
  for (const m of data.messages) {
    const s = place(m, true), r = place(m, false);
    out += `<line x1="${r[0]}" y1="${r[1]}" x2="${s[0]}" y2="${s[1]}" class="sent"/>`;
    for (const user of m.users) {  // curved, to avoid other nodes
      const u = place(data.messages[indices.get(user)], true), bow = m.receiver === 0 ? -70 : 70;
      out += `<path d="M ${u[0]} ${u[1]} Q ${(u[0] + r[0]) / 2} ${u[1] + bow} ${r[0]} ${r[1]}" class="used"/>`;
    }
  }
  data.messages.forEach((m, i) => {
    const s = place(m, true), r = place(m, false);
    out += `<circle cx="${s[0]}" cy="${s[1]}" r="20" class="${state[i][0]}"/><text x="${s[0]}" y="${s[1] + 4}">S ${m.name}</text>`;
    out += `<rect x="${r[0] - 20}" y="${r[1] - 14}" width="40" height="28" class="${state[i][1]}"/>` +
           `<text x="${r[0]}" y="${r[1] + 4}">R ${m.name}</text>`;
  });
  return out + '</svg>';
}
const draw = event => { document.getElementById('picture').innerHTML = picture(event.state); };
)js";

template <class Range, class F>
std::string array(const Range& range, F item) {
  std::string out = "[";
  for (const auto& one : range) {
    if (out.size() > 1) out += ',';
    out += item(one);
  }
  return out + ']';
}

std::string name(MessageId message) {
  return std::to_string(worker_of(message)) + '.' + std::to_string(number_of(message));
}

/// Returns the style sheet's class names for [send node, recv node].
std::string state(const PassSimulation& simulation, MessageId message) {
  const PassSimulation::SendState send = simulation.send_state(message);
  const char* const of_send = send.fed ? "had" : send.dropped ? "dropped" : send.marked ? "marked" : "waiting";
  return array(std::vector<std::string>{of_send, simulation.has_run(message) ? "had" : "waiting"}, json_literal);
}

/// Returns the messages in topological order: each before the messages computed from it.
std::vector<MessageId> as_recorded(const SimulatedGraph& graph) {
  const std::function<int(MessageId)> depth = [&](MessageId id) {
    int deepest = 0;
    for (const MessageId user : graph.at(id).users) deepest = std::max(deepest, depth(user));
    return deepest + 1;
  };
  std::vector<MessageId> order;
  for (const auto& [id, message] : graph) order.push_back(id);
  std::stable_sort(order.begin(), order.end(), [&](MessageId a, MessageId b) { return depth(a) > depth(b); });
  return order;
}

/// Returns a step's members in JSON: the transcript from line `from` on, the state of each node, and the messages in
/// transit.
std::string members(const PassSimulation& simulation, const std::vector<MessageId>& order, std::size_t from) {
  const std::vector<std::string> lines(simulation.transcript().begin() + static_cast<std::ptrdiff_t>(from),
                                       simulation.transcript().end());
  return ",\"lines\":" + array(lines, json_literal) +
         ",\"state\":" + array(order, [&](MessageId id) { return state(simulation, id); }) + ",\"transit\":" +
         array(simulation.events(), [](const auto& one) { return json_literal(PassSimulation::to_string(one)); });
}

/// Converts an event for the page: a message, or the run of a worker's graph.
SimulationEvent shown(const PassSimulation::Event& event) {
  using Kind = PassSimulation::Event::Kind;
  if (event.kind == Kind::run) return {.from = event.to, .kind = "run", .text = "runs its graph"};
  std::string messages;
  for (const MessageId message : event.messages) messages += (messages.empty() ? "" : ", ") + name(message);
  const char* const kind = event.kind == Kind::gradient  ? "gradient"
                           : event.kind == Kind::mark    ? "mark"
                           : event.kind == Kind::resolve ? "resolve"
                           : event.kind == Kind::over    ? "over"
                                                         : "answer";
  return {.from = event.from, .to = event.to, .kind = kind, .text = messages};
}

}  // namespace

std::string page(const Example& example, PassSimulation simulation) {
  const std::vector<MessageId> order = as_recorded(example.graph);
  MessagePage page;
  page.title = "A backward over " + std::to_string(example.workers) + " workers, step by step";
  page.summary = example.program;
  page.ranks = example.workers;
  page.figure = kFigure;
  page.script = kScript;
  page.members = ",\"messages\":" + array(order, [&](MessageId id) {
                   const SimulatedMessage& message = example.graph.at(id);
                   return "{\"name\":" + json_literal(name(id)) + ",\"sender\":" + std::to_string(message.sender) +
                          ",\"receiver\":" + std::to_string(message.receiver) + ",\"users\":" +
                          array(message.users, [](MessageId user) { return json_literal(name(user)); }) + "}";
                 });
  simulation.start();
  page.add({.from = 0, .kind = "start", .text = "calls backward"}, members(simulation, order, 0));
  while (!simulation.events().empty()) {
    const std::size_t from = simulation.transcript().size();
    const SimulationEvent event = shown(simulation.events().front());
    simulation.happen(0);
    page.add(event, members(simulation, order, from));
  }
  page.end = simulation.finished() ? "backward returns" : "FAST waits for ever";
  return page.html();
}

}  // namespace step_through

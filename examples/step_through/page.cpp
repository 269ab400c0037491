#include "page.h"

#include <algorithm>
#include <functional>
#include <sstream>
#include <vector>

namespace step_through {

using namespace tendril::dist::autograd;

namespace {

constexpr const char* kHead = R"html(<!doctype html>
<html lang="en"><meta charset="utf-8"><title>A backward, step by step</title>
<style>
  body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 62em; padding: 0 1em; }
  button { font: inherit; padding: .2em 1em; margin-right: .5em; }
  pre { background: #8882; padding: .8em; min-height: 7em; white-space: pre-wrap; }
  svg { width: 100%; height: auto; background: #fff; border: 1px solid #ccc; }
  .waiting { fill: #eee; stroke: #888; } .marked { fill: #ffe28a; stroke: #a70; }
  .had { fill: #9fdfa0; stroke: #272; } .dropped { fill: #fff; stroke: #bbb; stroke-dasharray: 3; }
  .key span { display: inline-block; padding: 0 .6em; margin-right: .5em; border: 1px solid #888; color: #000; }
</style>
)html";

constexpr const char* kScript = R"html(
<p><button id="back">back</button><button id="next">next</button><button id="run">run</button>
<b id="where"></b></p>
<div id="picture"></div>
<p class="key"><span style="background:#eee">waits</span><span style="background:#ffe28a">marked</span>
<span style="background:#9fdfa0">has its gradient, has run</span>
<span style="border-style:dashed">will get no gradient</span>S: where a message was sent, R: where it was received;
gradients travel from R to S, then through the worker's graph to its other R</p>
<pre id="lines"></pre><p>In transit:</p><pre id="events"></pre>
<script>
const columns = data.messages.length, width = 110 * columns + 90, lane = 90, height = lane * data.workers + 20;
const x = i => 110 * i + 130, y = rank => lane * rank + 55;
const at = new Map(data.messages.map((m, i) => [m.name, i]));
const line = (x1, y1, x2, y2, more) => `<line x1="${x1}" y1="${y1}" x2="${x2}" y2="${y2}" ${more}/>`;
function picture(state) {
  let out = `<svg viewBox="0 0 ${width} ${height}" font-size="13" text-anchor="middle">`;
  for (let r = 0; r < data.workers; ++r)
    out += `<rect x="5" y="${y(r) - 40}" width="${width - 10}" height="80" fill="#f6f8fb"/>` +
           `<text x="40" y="${y(r) + 5}">rank ${r}</text>`;
  const place = (m, send) => [x(at.get(m.name)) + (send ? -22 : 22), y(send ? m.sender : m.receiver)];
  for (const m of data.messages) {
    const s = place(m, true), r = place(m, false);
    out += line(...r, ...s, 'stroke="#36c" stroke-width="2"');
    for (const user of m.users) {  // curved, to avoid other nodes
      const u = place(data.messages[at.get(user)], true), bow = m.receiver === 0 ? -70 : 70;
      out += `<path d="M ${u[0]} ${u[1]} Q ${(u[0] + r[0]) / 2} ${u[1] + bow} ${r[0]} ${r[1]}" fill="none" stroke="#999"/>`;
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
const last = data.steps.length - 1;
let step = location.hash === '#last' ? last : Math.min(last, Math.max(0, parseInt(location.hash.slice(1)) || 0));
const show = () => {
  const one = data.steps[step];
  document.getElementById('where').textContent = `step ${step} of ${last}` + (step === last ? ': ' + data.end : '');
  document.getElementById('picture').innerHTML = picture(one.state);
  document.getElementById('lines').textContent = one.lines.join('\n');
  document.getElementById('events').textContent = one.events.join('\n') || 'nothing';
  document.getElementById('back').disabled = step === 0;
  document.getElementById('next').disabled = document.getElementById('run').disabled = step === last;
};
const go = to => { step = Math.min(last, Math.max(0, to)); show(); };
document.getElementById('back').onclick = () => go(step - 1);
document.getElementById('next').onclick = () => go(step + 1);
document.getElementById('run').onclick = function walk() { go(step + 1); if (step < last) setTimeout(walk, 700); };
document.onkeydown = e => { if (e.key === 'ArrowRight') go(step + 1); if (e.key === 'ArrowLeft') go(step - 1); };
show();
</script></html>
)html";

/// Returns a JSON string literal. Escapes `<` too, which could end the script.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '<') {
      out += "\\u003c";
    } else if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out + '"';
}

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
  return array(std::vector<std::string>{of_send, simulation.has_run(message) ? "had" : "waiting"}, quoted);
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

/// Returns one step as JSON: the transcript from line `from` on, the state of each node, and the messages in transit.
std::string step(const PassSimulation& simulation, const std::vector<MessageId>& order, std::size_t from) {
  const std::vector<std::string> lines(simulation.transcript().begin() + static_cast<std::ptrdiff_t>(from),
                                       simulation.transcript().end());
  return "{\"lines\":" + array(lines, quoted) +
         ",\"state\":" + array(order, [&](MessageId id) { return state(simulation, id); }) + ",\"events\":" +
         array(simulation.events(), [](const auto& one) { return quoted(PassSimulation::to_string(one)); }) + "}";
}

}  // namespace

std::string page(const Example& example, PassSimulation simulation) {
  std::ostringstream out;
  const std::vector<MessageId> order = as_recorded(example.graph);
  out << kHead << "<h1>A backward over " << example.workers << " workers, step by step</h1>\n<p>" << example.program
      << "</p>\n<script>const data = {\"workers\":" << example.workers << ",\"messages\":"
      << array(order,
               [&](MessageId id) {
                 const SimulatedMessage& message = example.graph.at(id);
                 return "{\"name\":" + quoted(name(id)) + ",\"sender\":" + std::to_string(message.sender) +
                        ",\"receiver\":" + std::to_string(message.receiver) +
                        ",\"users\":" + array(message.users, [](MessageId user) { return quoted(name(user)); }) + "}";
               })
      << ",\n\"steps\":[";
  simulation.start();
  out << step(simulation, order, 0);
  while (!simulation.events().empty()) {
    const std::size_t from = simulation.transcript().size();
    simulation.happen(0);
    out << ",\n" << step(simulation, order, from);
  }
  out << "],\n\"end\":" << quoted(simulation.finished() ? "backward returns" : "FAST waits for ever") << "};</script>"
      << kScript;
  return out.str();
}

}  // namespace step_through

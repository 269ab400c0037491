#include "tendril/rpc/observe/message_page_parts.h"

namespace tendril::rpc::detail {

const char* const kMessagePageStyle = R"css(
:root {
  color-scheme: light dark;
  --paper: #fff; --panel: #f3f5f8; --ink: #1b1f24; --dim: #5b6570; --rule: #c9d0d8;
  --accent: #1558d6; --mark: #dbe7ff; --reply: #157a3c; --bad: #c0271d; --group: #7a3fb5; --hand: #94620b; --stop: #b9c0c9;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14171b; --panel: #1e2329; --ink: #e4e8ec; --dim: #9aa5b1; --rule: #3a424c;
    --accent: #79aaff; --mark: #22345a; --reply: #5fcf88; --bad: #ff7a70; --group: #c79bff; --hand: #e0b060; --stop: #4b545f;
  }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 0 1rem 1rem; max-width: 90rem; background: var(--paper); color: var(--ink);
       font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.35rem; margin: .8rem 0 .3rem; }
h2 { font-size: .95rem; margin: .8rem 0 .2rem; }
header p, header details { margin: .3rem 0; overflow-wrap: anywhere; }
summary { cursor: pointer; }
pre { margin: .3rem 0; padding: .5rem .7rem; background: var(--panel); white-space: pre-wrap; overflow-wrap: anywhere;
      font-size: 13px; }
#controls { position: sticky; top: 0; z-index: 2; padding: .4rem 0; background: var(--paper);
            border-bottom: 1px solid var(--rule); }
.buttons { display: flex; flex-wrap: wrap; gap: .35rem; align-items: center; }
button, select { font: inherit; color: inherit; background: var(--panel); border: 1px solid var(--rule);
                 border-radius: 5px; padding: .25rem .7rem; min-height: 2.1rem; }
button:enabled { cursor: pointer; }
button:disabled { opacity: .45; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 1px; }
#where { margin-left: .3rem; font-variant-numeric: tabular-nums; }
#when { color: var(--dim); font-variant-numeric: tabular-nums; }
#slider { display: block; width: 100%; margin: .5rem 0 .1rem; accent-color: var(--accent); }
#filter { margin: .4rem 0; }
#filter fieldset { border: 0; margin: .3rem 0; padding: 0; display: flex; flex-wrap: wrap; gap: .2rem .9rem; align-items: center; }
#filter label { display: inline-flex; gap: .3rem; align-items: center; min-height: 1.8rem; }
main { display: grid; grid-template-columns: minmax(0, 1fr) 22rem; gap: 1rem; align-items: start; }
#chart { position: relative; height: min(72vh, 60rem); overflow: auto; border: 1px solid var(--rule); border-radius: 5px; }
#lanes { position: sticky; top: 0; z-index: 1; height: 28px; background: var(--panel); border-bottom: 1px solid var(--rule); }
#lanes span { position: absolute; top: 4px; transform: translateX(-50%); font-size: 13px; font-weight: 600; white-space: nowrap; }
#rows { position: relative; cursor: pointer; }
#rows svg { position: absolute; left: 0; display: block; }
#rows text { font: 11.5px system-ui, sans-serif; fill: currentColor; paint-order: stroke; stroke: var(--paper);
             stroke-width: 3px; stroke-linejoin: round; }
#rows .time { fill: var(--dim); stroke: none; font-variant-numeric: tabular-nums; }
#rows .gone { stroke: var(--stop); stroke-dasharray: 2 5; }
#rows .life { stroke: var(--dim); stroke-width: 1.5; }
#rows .pause { stroke: var(--stop); stroke-width: 9; }
#rows .row { fill: var(--mark); }
#rows .event { color: var(--ink); stroke: currentColor; fill: currentColor; stroke-width: 1.2; }
#rows .call { color: var(--accent); } #rows .reply { color: var(--reply); } #rows .bad, #rows .fault { color: var(--bad); }
#rows .group { color: var(--group); } #rows .hand { color: var(--hand); } #rows .quiet { color: var(--dim); }
#rows .now { stroke-width: 3; }
#rows .now text { font-weight: 700; }
#rows .across { stroke-dasharray: 4 4; stroke-width: 1; opacity: .6; }
aside h2:first-child { margin-top: 0; }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .15rem .8rem; margin: 0; }
dt { color: var(--dim); }
dd { margin: 0; overflow-wrap: anywhere; font-variant-numeric: tabular-nums; }
[hidden] { display: none !important; }
@media (max-width: 56rem) {
  body { padding: 0 .6rem .6rem; }
  main { grid-template-columns: minmax(0, 1fr); gap: .6rem; }
  #chart { height: 46vh; min-height: 15rem; }
}
)css";

const char* const kMessagePageBody = R"html(
<nav id="controls" aria-label="Steps">
<div class="buttons"><button id="back">back</button><button id="next">next</button><button id="run">run</button>
<button id="fault">next fault</button><button id="error">next error</button>
<b id="where"></b><span id="when"></span></div>
<input type="range" id="slider" min="0" value="0" aria-label="Event">
</nav>
<details id="filter"><summary>Filter<span id="filtered"></span></summary>
<fieldset><label>between <select id="one"></select></label><label>and <select id="other"></select></label></fieldset>
<fieldset id="kinds"></fieldset></details>
<main>
<section id="chart" tabindex="0" aria-label="Messages between ranks"><div id="lanes"></div><div id="rows"></div></section>
<aside aria-live="polite"><h2>This event</h2><dl id="details"></dl>
<pre id="lines"></pre><h2>In transit</h2><pre id="events"></pre></aside>
</main>
)html";

const char* const kMessagePageScript = R"js(
const at = id => document.getElementById(id);
const events = data.events, last = events.length - 1, rowHeight = 24, timeWidth = data.timed ? 90 : 34;
const isMessage = e => e.to !== undefined;
const isFault = e => e.kind === 'fault', isError = e => e.kind === 'error' || e.kind === 'throw';
const escaped = text => String(text).replace(/[&<>"']/g, c => '&#' + c.charCodeAt(0) + ';');
const milliseconds = ns => (ns / 1e6).toFixed(3) + ' ms';
const looks = {request: 'call', gradient: 'call', reply: 'reply', answer: 'reply', error: 'bad', throw: 'bad', fault: 'fault',
  ping: 'quiet', pong: 'quiet', acknowledge: 'quiet', credit: 'quiet', log: 'quiet', hello: 'hand', connection: 'hand',
  group: 'group', control: 'group', mark: 'group'};
const look = e => Object.hasOwn(looks, e.kind) ? looks[e.kind] : 'other';
const label = e => !isMessage(e) || e.kind === 'request' || e.kind === 'hello' ? e.text || e.kind : e.kind + (e.text ? ' ' + e.text : '');

// ---- the filter

let shown = [];   // indices of the events that pass the filter
let arrivals = [];  // for each of them: the row above which its message arrives, or -1
const kinds = new Map();
for (const e of events) kinds.set(e.kind, (kinds.get(e.kind) || 0) + 1);
const hiddenKinds = new Set();
const passes = e => {
  if (hiddenKinds.has(e.kind)) return false;
  const ranks = [at('one').value, at('other').value].filter(value => value !== '').map(Number);
  const has = rank => e.from === rank || e.to === rank;
  return e.from < 0 || (isMessage(e) ? ranks.every(has) : ranks.length === 0 || ranks.some(has));
};
/// Returns the first row whose event is at or after `time`; if `after` is set, after it.
const rowAt = (time, after) => {
  let low = 0, high = shown.length;
  while (low < high) {
    const middle = (low + high) >> 1, t = events[shown[middle]].time;
    if (t < time || (after && t === time)) low = middle + 1; else high = middle;
  }
  return low;
};
/// Returns the row of the last shown event up to `index`, or -1.
const rowOf = index => {
  let low = 0, high = shown.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (shown[middle] <= index) low = middle + 1; else high = middle;
  }
  return low - 1;
};
function filter() {
  shown = [];
  events.forEach((e, i) => { if (passes(e)) shown.push(i); });
  arrivals = shown.map((i, row) => events[i].arrival === undefined ? -1 : Math.max(row + 1, rowAt(events[i].arrival, true)));
  at('filtered').textContent = shown.length <= last ? `: ${shown.length} of ${last + 1} events` : '';
}

// ---- the lifelines

/// Returns the spans of time of each rank. A span that has not ended has no `end`.
function spans(begins, ends) {
  const all = Array.from({length: data.ranks}, () => []), ranks = [...all.keys()];
  for (const e of events) {
    for (const rank of e.text === 'faults end' ? ranks : e.from >= 0 && !isMessage(e) ? [e.from] : []) {
      const open = all[rank].at(-1);
      if (ends(e, rank) && open && open.end === undefined) open.end = e.time;
      if (begins(e, rank)) all[rank].push({begin: e.time});
    }
  }
  return all;
}
const dies = (e, rank) => e.from === rank && (e.kind === 'return' || e.kind === 'throw' ||
  (isFault(e) && (e.text === 'fault: kill' || e.text === 'fault: host lost')));
const hasStarts = kinds.has('start') && data.timed;
const lives = hasStarts ? spans((e, rank) => e.kind === 'start' && e.from === rank, dies) : [];
const pauses = hasStarts ? spans((e, rank) => isFault(e) && e.from === rank && e.text === 'fault: pause',
  (e, rank) => dies(e, rank) || (e.kind === 'recovery' && (e.text === 'faults end' || (e.from === rank && e.text === 'resumes')))) : [];

// ---- the picture

let spacing = 100, width = 0, step = 0;
const x = rank => timeWidth + spacing * (rank + .5);
const middle = row => row * rowHeight + 15;
const line = (x1, y1, x2, y2, name) => `<line x1="${x1}" y1="${y1}" x2="${x2}" y2="${y2}" class="${name}"/>`;
function text(content, left, y, anchor, room, name = '') {
  const most = Math.max(3, Math.floor(room / 6));
  if (content.length > most) content = content.replace(/\b\w+::/g, '');  // drop namespaces first
  const cut = content.length > most ? content.slice(0, most - 1) + '\u2026' : content;
  return `<text x="${left}" y="${y}" text-anchor="${anchor}" class="${name}">${escaped(cut)}</text>`;
}
/// Returns the label of an event at one rank, on the side that has more room.
function beside(e, y) {
  const from = e.from < 0 ? timeWidth + 6 : x(e.from);
  return width - from >= from - timeWidth ? text(label(e), from + 9, y + 4, 'start', width - from - 14)
                                          : text(label(e), from - 9, y + 4, 'end', from - timeWidth - 14);
}
/// Returns the shape and the label. Labels are drawn over the shapes of all events.
function message(e, row) {
  const x1 = x(e.from), y1 = middle(row), lost = data.timed && arrivals[row] < 0;
  if (e.from === e.to) return [`<path d="M ${x1} ${y1 - 5} h 14 v 10 h -12" fill="none"/>`, beside(e, y1)];
  let x2 = x(e.to), y2 = data.timed ? lost ? y1 + 6 : arrivals[row] * rowHeight : y1;
  if (lost) x2 = x1 + (x2 - x1) * .6;
  const way = Math.sign(x2 - x1), angle = Math.atan2(y2 - y1, x2 - x1) * 180 / Math.PI;
  const head = lost ? 'M -5 -5 L 5 5 M -5 5 L 5 -5' : 'M 0 0 L -9 -4 L -9 4 Z';
  return [line(x1, y1, x2, y2, '') + `<path d="${head}" transform="translate(${x2} ${y2}) rotate(${lost ? 0 : angle})"/>`,
    text(label(e), x1 + 7 * way, y1 - 4, way > 0 ? 'start' : 'end', Math.abs(x(e.to) - x1) - 12)];
}
function local(e, row) {
  const y = middle(row), from = e.from < 0 ? timeWidth + 6 : x(e.from);
  const mark = isFault(e) ? `<path d="M ${from} ${y - 6} l 6 6 l -6 6 l -6 -6 Z"/>` : `<circle cx="${from}" cy="${y}" r="4"/>`;
  return [(isFault(e) ? line(timeWidth, y, width, y, 'across') : '') + mark, beside(e, y)];
}
/// Draws the events of these rows, the current one last.
function drawEvents(rows, current) {
  let shapes = '', labels = '';
  for (const row of rows) {
    const e = events[shown[row]], group = `<g class="event ${look(e)}${row === current ? ' now' : ''}">`;
    const [shape, name] = isMessage(e) ? message(e, row) : local(e, row);
    shapes += group + shape + '</g>';
    labels += group + name + '</g>';
  }
  return shapes + labels;
}
function lifelines(top, bottom) {
  let out = '';
  const vertical = (rank, span, name) => {
    const y1 = middle(rowAt(span.begin)), y2 = span.end === undefined ? bottom : middle(rowAt(span.end));
    return y2 < top || y1 > bottom ? '' : line(x(rank), Math.max(y1, top), x(rank), Math.min(y2, bottom), name);
  };
  for (let rank = 0; rank < data.ranks; ++rank) {
    out += line(x(rank), top, x(rank), bottom, hasStarts ? 'gone' : 'life');
    for (const span of lives[rank] || []) out += vertical(rank, span, 'life');
    for (const span of pauses[rank] || []) out += vertical(rank, span, 'pause');
  }
  return out;
}
/// Draws the rows that are in view.
function render() {
  const chart = at('chart'), first = Math.max(0, Math.floor(chart.scrollTop / rowHeight) - 3);
  const end = Math.min(shown.length, first + Math.ceil(chart.clientHeight / rowHeight) + 6);
  const top = first * rowHeight, bottom = end * rowHeight, current = rowOf(step);
  let out = `<svg width="${width}" height="${bottom - top}" viewBox="0 ${top} ${width} ${bottom - top}" style="top:${top}px">`;
  if (current >= first && current < end) out += `<rect x="0" y="${current * rowHeight}" width="${width}" height="${rowHeight}" class="row"/>`;
  out += lifelines(top, bottom);
  const rows = [];
  for (let row = 0; row < end; ++row)
    if (row !== current && (row >= first || arrivals[row] >= first)) rows.push(row);
  if (current >= 0) rows.push(current);
  out += drawEvents(rows, current);
  for (let row = first; row < end; ++row)
    out += text(data.timed ? milliseconds(events[shown[row]].time) : String(shown[row]), 5, middle(row) + 2, 'start', 99, 'time');
  at('rows').innerHTML = shown.length > 0 ? out + '</svg>' : '<p>No events match the filter.</p>';
}
function layOut() {
  const chart = at('chart');
  spacing = Math.max(70, (chart.clientWidth - timeWidth) / data.ranks);
  width = Math.floor(timeWidth + spacing * data.ranks);
  at('rows').style.width = at('lanes').style.width = width + 'px';
  at('rows').style.height = Math.max(1, shown.length) * rowHeight + 'px';
  at('lanes').innerHTML = '';
  for (let rank = 0; rank < data.ranks; ++rank) {
    const name = at('lanes').appendChild(document.createElement('span'));
    name.textContent = 'rank ' + rank;
    name.style.left = x(rank) + 'px';
  }
  render();
}

// ---- the current event

function inTransit(now) {
  const way = events.filter((e, i) => isMessage(e) && i <= step && e.arrival > now);
  const names = way.slice(-12).map(e => `rank ${e.from} to rank ${e.to}: ${e.kind}${e.text ? ' ' + e.text : ''}`);
  return way.length > 12 ? [`${way.length - 12} earlier messages`, ...names] : names;
}
function showDetails(e) {
  const list = at('details'), add = (name, value) => {
    if (value === undefined || value === '') return;
    list.appendChild(document.createElement('dt')).textContent = name;
    list.appendChild(document.createElement('dd')).textContent = value;
  };
  list.textContent = '';
  add('kind', e.kind);
  add(e.kind === 'request' || e.kind === 'reply' ? 'function' : 'text', e.text);
  if (e.from >= 0) add(isMessage(e) ? 'from' : 'at', 'rank ' + e.from);
  if (isMessage(e)) add('to', 'rank ' + e.to);
  if (data.timed) add(isMessage(e) ? 'sent' : 'time', milliseconds(e.time));
  if (data.timed && isMessage(e))
    add('arrived', e.arrival === undefined ? 'did not arrive' : `${milliseconds(e.arrival)}, ${milliseconds(e.arrival - e.time)} later`);
  add('bytes', e.bytes);
  add('connection', e.connection);
  add('call', e.call);
  if (e.corrupted) add('fault', 'a byte was changed in transit');
}
const later = wanted => shown.find(i => i > step && wanted(events[i]));
function show() {
  const e = events[step], row = rowOf(step), chart = at('chart');
  at('where').textContent = `step ${step} of ${last}` + (step === last ? ': ' + data.end : '');
  at('when').textContent = data.timed ? milliseconds(e.time) : '';
  at('slider').value = step;
  at('slider').setAttribute('aria-valuetext', `step ${step}` + (data.timed ? ', ' + milliseconds(e.time) : ''));
  at('back').disabled = row <= 0;
  at('next').disabled = at('run').disabled = row >= shown.length - 1;
  at('fault').disabled = later(isFault) === undefined;
  at('error').disabled = later(isError) === undefined;
  showDetails(e);
  at('lines').hidden = !e.lines;
  at('lines').textContent = (e.lines || []).join('\n');
  at('events').textContent = (e.transit || inTransit(e.time)).join('\n') || 'nothing';
  if (typeof draw === 'function') draw(e);
  const y = row * rowHeight, room = chart.clientHeight - at('lanes').offsetHeight;
  if (y < chart.scrollTop + rowHeight) chart.scrollTop = Math.max(0, y - room / 3);
  if (y + 2 * rowHeight > chart.scrollTop + room) chart.scrollTop = y - room * 2 / 3;
  render();
}
/// Selects the nearest event that passes the filter.
function go(to) {
  const row = rowOf(Math.min(last, Math.max(0, to)));
  step = shown.length === 0 ? step : shown[Math.max(0, row)];
  show();
}
const goRows = by => { if (shown.length > 0) go(shown[Math.min(shown.length - 1, Math.max(0, rowOf(step) + by))]); };
const goTo = wanted => { const found = later(wanted); if (found !== undefined) go(found); };
function fromAddress() {
  const hash = location.hash.slice(1);
  go(hash === 'last' ? last : parseInt(hash) || 0);
}
let timer = 0;
function stop() {
  clearTimeout(timer);
  timer = 0;
  at('run').textContent = 'run';
}
function walk() {
  goRows(1);
  if (at('next').disabled) return stop();
  timer = setTimeout(walk, 700);
  at('run').textContent = 'stop';
}

at('back').onclick = () => goRows(-1);
at('next').onclick = () => goRows(1);
at('run').onclick = () => timer ? stop() : walk();
at('fault').onclick = () => goTo(isFault);
at('error').onclick = () => goTo(isError);
at('fault').hidden = !events.some(isFault);
at('error').hidden = !events.some(isError);
at('slider').max = last;
at('slider').oninput = () => go(Number(at('slider').value));
document.onkeydown = e => {
  if (e.altKey || e.ctrlKey || e.metaKey || /^(INPUT|SELECT)$/.test(e.target.tagName)) return;
  const keys = {ArrowRight: () => goRows(1), ArrowLeft: () => goRows(-1), Home: () => go(0), End: () => go(last),
    f: () => goTo(isFault), e: () => goTo(isError)};
  if (!Object.hasOwn(keys, e.key)) return;
  e.preventDefault();
  keys[e.key]();
};
at('rows').onclick = e => {
  const row = Math.floor((e.clientY - at('rows').getBoundingClientRect().top) / rowHeight);
  if (row < shown.length) go(shown[row]);
};
for (const id of ['one', 'other']) {
  at(id).add(new Option('any rank', ''));
  for (let rank = 0; rank < data.ranks; ++rank) at(id).add(new Option('rank ' + rank, rank));
}
for (const [kind, count] of [...kinds].sort()) {
  const name = at('kinds').appendChild(document.createElement('label'));
  const box = name.appendChild(document.createElement('input'));
  box.type = 'checkbox';
  box.checked = true;
  box.value = kind;
  box.onchange = () => box.checked ? hiddenKinds.delete(kind) : hiddenKinds.add(kind);
  name.append(`${kind} (${count})`);
}
at('filter').onchange = () => { filter(); layOut(); go(step); };
at('chart').onscroll = render;
window.onresize = layOut;
window.onhashchange = fromAddress;
filter();
layOut();
fromAddress();
)js";

}  // namespace tendril::rpc::detail

"use strict";
// Shows the data of `live/stream`, once a second. Rates are differences of two consecutive counts,
// by the daemon's clock.
// External data is inserted as text, never as markup.

const PIPES_SHOWN = 50;
const EVENTS_SHOWN = 60;
const SVG = "http://www.w3.org/2000/svg";
const byId = (id) => document.getElementById(id);
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const sum = (causes) => Object.values(causes || {}).reduce((total, count) => total + count, 0);

function number(value) { return Number.isFinite(value) ? compact.format(value) : "–"; }
function percent(value) { return Number.isFinite(value) ? value.toFixed(1) + " %" : "–"; }
function duration(ns) {
  if (ns < 1e3) return ns + " ns";
  if (ns < 1e6) return (ns / 1e3).toFixed(1) + " µs";
  if (ns < 1e9) return (ns / 1e6).toFixed(1) + " ms";
  const s = Math.floor(ns / 1e9), d = Math.floor(s / 86400), h = Math.floor(s / 3600) % 24, m = Math.floor(s / 60) % 60;
  return d ? `${d} d ${h} h` : h ? `${h} h ${m} min` : m ? `${m} min ${s % 60} s` : `${s} s`;
}
function causes(counts) {
  const shown = Object.entries(counts || {}).filter(([, count]) => count > 0);
  return shown.map(([cause, count]) => `${cause} ${number(count)}`).join(", ") || "none";
}
function stateClass(state) { return state === "up" ? "good" : state === "init" ? "wait" : "bad"; }

// Increase of a count per second. What was not in the previous status has counted from 0 since.
function rate(now, before = 0, seconds) {
  return seconds > 0 && now >= before ? (now - before) / seconds : NaN;
}

function element(name, text, cls) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (cls) made.className = cls;
  return made;
}

// Draws a table. Columns are [title, whether numeric, text of a row, class of a row].
function table(id, caption, columns, rows) {
  const head = element("thead"), line = head.appendChild(element("tr"));
  for (const [title, isNumber] of columns) {
    line.append(Object.assign(element("th", title, isNumber ? "number" : ""), { scope: "col" }));
  }
  const body = element("tbody");
  for (const row of rows) {
    const shown = body.appendChild(element("tr"));
    columns.forEach(([, isNumber, text, cls], at) => {
      const cell = element(at === 0 ? "th" : "td", text(row), [isNumber ? "number" : "", cls ? cls(row) : ""].join(" ").trim());
      if (at === 0) cell.scope = "row";
      shown.append(cell);
    });
  }
  byId(id).replaceChildren(Object.assign(element("caption", caption), { hidden: true }), head, body);
}

// Widths of text, also while the drawing is not displayed.
const ruler = document.createElement("canvas").getContext("2d");
const NAME_PX = 15, QUIET_PX = 13;
const FAR_SHOWN = 24;
// Distance of parallel links, which is more than the height of their labels.
const LINK_SPACING = 22;
const MARGIN = 10;

// A label: `x` is its middle, `y` its baseline.
function label(x, y, text, cls = "") {
  const px = cls === "quiet" ? QUIET_PX : NAME_PX;
  ruler.font = `${cls === "own" ? 700 : 400} ${px}px ${getComputedStyle(document.body).fontFamily}`;
  const half = ruler.measureText(text).width / 2 + 3;
  const box = { left: x - half, right: x + half, top: y - 0.8 * px, bottom: y + 0.3 * px };
  return { kind: "text", attributes: { x, y, class: cls }, text, box };
}
function circle(x, y, r, cls = "") {
  const box = { left: x - r, right: x + r, top: y - r, bottom: y + r };
  return { kind: "circle", attributes: { cx: x, cy: y, r, class: cls }, box };
}
function line(x1, y1, x2, y2, cls) {
  return { kind: "line", attributes: { x1, y1, x2, y2, class: cls } };
}
function overlap(parts) {
  const boxes = parts.filter((part) => part.box).map((part) => part.box);
  return boxes.some((a, at) => boxes.slice(0, at).some((b) =>
    a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom));
}
// Enlarges a ring until nothing overlaps. `place` returns the parts for the radii.
function spread(rx, ry, place) {
  let parts = place(rx, ry);
  for (let step = 0; step < 60 && overlap(parts); step += 1) {
    rx *= 1.08;
    ry *= 1.08;
    parts = place(rx, ry);
  }
  return { rx, ry, parts };
}
function angle(at, count, turn) { return turn + (2 * Math.PI * at) / Math.max(count, 1); }
function radius(links) { return Math.max(16, 2 + (LINK_SPACING * (links - 1)) / 2); }

function neighbor({ name, links }, x, y) {
  const length = Math.hypot(x, y) || 1, c = x / length, s = y / length;
  const r = radius(links.length), parts = [];
  links.forEach((link, which) => {
    const from = which - (links.length - 1) / 2, shift = LINK_SPACING * from;
    const ox = s * shift, oy = -c * shift;
    parts.push(line(ox, oy, x + ox, y + oy, stateClass(link.state)));
    // Labels of steep parallel links are staggered, so that they are not side by side.
    const along = 0.5 - (Math.sign(c * s || 1) * Math.abs(s) * 0.5 * from) / links.length;
    parts.push(label(along * x + ox, along * y + oy - 7, `${link.port} ${link.state}`, "quiet"));
  });
  parts.push(circle(x, y, r), label(x, y + r + 18, name));
  return parts;
}

// The parts of the drawing, with this node at 0, 0.
function layout(status, neighbors, far) {
  const most = Math.max(1, ...neighbors.map(({ links }) => links.length));
  const r = Math.max(20, radius(most));
  const own = [circle(0, 0, r, "own"), label(0, r + 20, status.node, "own")];
  const count = neighbors.length;
  // No neighbor stands exactly below this node's name.
  const turn = count % 4 === 0 ? Math.PI / Math.max(count, 1) : 0;
  const near = spread(110, 90, (rx, ry) => [
    ...neighbors.flatMap((entry, at) => {
      const turned = angle(at, count, turn);
      return neighbor(entry, rx * Math.cos(turned), ry * Math.sin(turned));
    }),
    ...own,
  ]);
  const outer = count > 2 ? near.ry + radius(most) : r;
  return spread(near.rx + radius(most) + 50, outer + 50, (rx, ry) => {
    const lines = [], marks = [];
    far.forEach((node, at) => {
      const turned = angle(at, far.length, -Math.PI / 2);
      const x = rx * Math.cos(turned), y = ry * Math.sin(turned);
      const shown = (node.name || node.guid) + (node.hops ? `, ${node.hops} hops` : ", " + node.standing);
      lines.push(line(0, 0, x, y, "far"));
      marks.push(circle(x, y, 6), label(x, y + (y > 0 ? 22 : -12), shown, "quiet"));
    });
    return [...lines, ...near.parts, ...marks];
  }).parts;
}

// Draws the topology, as large as its content.
function draw(status) {
  const svg = byId("topology");
  const shape = ({ kind, attributes, text }) => {
    const made = document.createElementNS(SVG, kind);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const neighbors = new Map();
  for (const link of status.links) {
    const key = link.peer || "no peer at " + link.port;
    const entry = neighbors.get(key) || { name: link.peer_name || "?", links: [] };
    entry.links.push(link);
    neighbors.set(key, entry);
  }
  const others = (status.nodes || []).filter((node) => !neighbors.has(node.guid));
  const far = others.slice(0, FAR_SHOWN);
  const parts = layout(status, [...neighbors.values()], far);
  const edge = (side, pick) => pick(...parts.filter((part) => part.box).map((part) => part.box[side]));
  if (others.length > far.length) {
    const more = `${others.length - far.length} more nodes: covalent status --nodes`;
    parts.push(label(0, edge("bottom", Math.max) + 24, more, "quiet"));
  }
  const left = edge("left", Math.min) - MARGIN, top = edge("top", Math.min) - MARGIN;
  const width = Math.ceil(edge("right", Math.max) + MARGIN - left);
  const height = Math.ceil(edge("bottom", Math.max) + MARGIN - top);
  for (const [key, value] of Object.entries({ viewBox: `${left} ${top} ${width} ${height}`, width, height })) {
    svg.setAttribute(key, value);
  }
  // The drawing shrinks with the window to this width, and then scrolls.
  svg.style.minWidth = `${Math.min(0.7 * width, 544)}px`;
  const shown = status.links.map((link) => `${link.port} is ${link.state}${link.peer_name ? " to " + link.peer_name : ""}`);
  byId("topology-text").textContent = `${status.node}: ${shown.join("; ") || "no links"}. ${others.length} more nodes are known.`;
  svg.replaceChildren(byId("topology-name"), byId("topology-text"), ...parts.map(shape));
  return neighbors.size + others.length;
}

// Sections in their order, and the line that names those with nothing to show.
const order = [...document.querySelectorAll("main > section, main > details")];
const empty = new Set(order.filter((part) => part.matches("section")));

// Moves each section to its place in the page, or behind the line. Only a section that changes its
// place is moved, so that others keep the focus and where they are scrolled to.
function arrange() {
  const fold = byId("empty"), main = fold.parentNode, next = new Map([[main, null], [byId("folded"), null]]);
  for (const part of [...order].reverse()) {
    const home = empty.has(part) ? byId("folded") : main;
    if (part.parentNode !== home || part.nextElementSibling !== next.get(home)) home.insertBefore(part, next.get(home));
    next.set(home, part);
  }
  const names = order.filter((part) => empty.has(part)).map((part) => part.querySelector("h2").textContent.toLowerCase());
  fold.hidden = names.length === 0;
  fold.querySelector("summary").textContent = "Nothing to show: " + names.join(", ");
}
function fill(section, content) {
  if (content) empty.delete(byId(section));
  else empty.add(byId(section));
}

// The last status of this incarnation of the daemon. The first one is not shown: it has no rates.
let before = null;

function show(status) {
  const was = before && before.pid === status.pid && before.uptime_ns <= status.uptime_ns ? before : null;
  const seconds = was ? (status.uptime_ns - was.uptime_ns) / 1e9 : NaN;
  const old = (list, same) => ((was && was[list]) || []).find(same) || {};
  byId("node").textContent = status.node;
  document.title = `${status.node} – Covalent`;
  const up = status.links.filter((link) => link.state === "up").length;
  byId("standing").textContent = `${up} of ${status.links.length} links up; ${status.fabric ? status.fabric.reached + " nodes reached; " : ""}` +
    `daemon up for ${duration(status.uptime_ns)}; ${status.verbs.in_doubt} verbs in doubt`;
  fill("topology-section", draw(status));
  table("links-table", "Links", [
    ["port", false, (link) => link.port],
    ["state", false, (link) => link.state, (link) => stateClass(link.state)],
    ["peer", false, (link) => link.peer_name || "–"],
    ["received /s", true, (link) => number(rate(link.rx_frames, old("links", (o) => o.port === link.port).rx_frames, seconds))],
    ["sent /s", true, (link) => number(rate(link.tx_frames, old("links", (o) => o.port === link.port).tx_frames, seconds))],
    ["committed /s", true, (link) => number(rate(link.committed, old("links", (o) => o.port === link.port).committed, seconds))],
    ["round trip", true, (link) => {
      const o = old("links", (other) => other.port === link.port).round_trips || { count: 0, sum_ns: 0 };
      const now = link.round_trips || o, grew = now.count > o.count && now.sum_ns >= o.sum_ns;
      const mean = grew ? (now.sum_ns - o.sum_ns) / (now.count - o.count) : now.sum_ns / now.count;
      return Number.isFinite(mean) ? duration(Math.round(mean)) : "–";
    }],
    ["open", true, (link) => number(link.open_transactions)],
    ["reversed", true, (link) => number(link.reversed)],
    ["failures", false, (link) => causes(link.failures), (link) => (sum(link.failures) ? "wait" : "")],
    ["why not up", false, (link) => (link.refusal ? `${link.refusal.reason}: ${link.refusal.cure}` : "–")],
  ], status.links);
  table("lanes-table", "Lanes", [
    ["lane", false, (lane) => String(lane.lane)],
    ["core", true, (lane) => (lane.core === null ? "floats" : String(lane.core))],
    ["idle", false, (lane) => lane.idle],
    ["busy rounds", true, (lane) => {
      const o = old("lanes", (other) => other.lane === lane.lane);
      const rounds = rate(lane.loops, o.loops, seconds);
      return percent(rounds === 0 ? 0 : (100 * rate(lane.busy_loops, o.busy_loops, seconds)) / rounds);
    }],
    ["core taken", true, (lane) => percent(rate(lane.cpu_ns, old("lanes", (o) => o.lane === lane.lane).cpu_ns, seconds) / 1e7)],
    ["longest round", true, (lane) => duration(lane.longest_round_ns)],
  ], status.lanes);
  table("ports-table", "Ports", [
    ["port", false, (port) => port.name],
    ["kind", false, (port) => port.kind + (port.mode.xdp === "none" ? "" : `, ${port.mode.xdp} XDP, ${port.mode.zero_copy ? "zero-copy" : "copy"}`)],
    ["carrier", false, (port) => (port.absent ? "absent: " + port.absent : port.carrier ? "yes" : "no"), (port) => (port.carrier ? "good" : "bad")],
    ["received /s", true, (port) => number(rate(port.rx_packets, old("ports", (o) => o.name === port.name).rx_packets, seconds))],
    ["bit/s", true, (port) => number(8 * rate(port.rx_bytes, old("ports", (o) => o.name === port.name).rx_bytes, seconds))],
    ["sent /s", true, (port) => number(rate(port.tx_packets, old("ports", (o) => o.name === port.name).tx_packets, seconds))],
    ["bit/s", true, (port) => number(8 * rate(port.tx_bytes, old("ports", (o) => o.name === port.name).tx_bytes, seconds))],
    ["drops", false, (port) => causes(port.drops), (port) => (sum(port.drops) ? "wait" : "")],
  ], status.ports);
  table("verbs-table", "Verbs", [
    ["submitted /s", true, (verbs) => number(rate(verbs.submitted, was ? was.verbs.submitted : undefined, seconds))],
    ["completed /s", true, (verbs) => number(rate(verbs.completed, was ? was.verbs.completed : undefined, seconds))],
    ["executed /s", true, (verbs) => number(rate(sum(verbs.executed), was ? sum(was.verbs.executed) : undefined, seconds))],
    ["in flight", true, (verbs) => number(verbs.submitted - verbs.completed)],
    ["in doubt", true, (verbs) => number(verbs.in_doubt), (verbs) => (verbs.in_doubt ? "bad" : "good")],
    ["refused", false, (verbs) => causes(verbs.refused)],
  ], [status.verbs]);
  const names = new Map([[status.guid, status.node]]);
  for (const link of status.links) if (link.peer_name) names.set(link.peer, link.peer_name);
  for (const node of status.nodes || []) if (node.name) names.set(node.guid, node.name);
  const groups = status.groups || [];
  byId("groups-note").textContent = groups.length ? "As reported by this node's members." : "No application on this node is in a group.";
  table("groups-table", "Groups", [
    ["group", false, (stay) => stay.group],
    ["session", true, (stay) => String(stay.session)],
    ["standing", false, (stay) => stay.standing, (stay) => ({ member: "good", minority: "bad", stopped: "bad" })[stay.standing] || "wait"],
    ["view", true, (stay) => number(stay.view)],
    ["members, the oldest first", false, (stay) => stay.members.map((guid) => names.get(guid) || guid).join(", ") || "–"],
    ["voters", true, (stay) => number(stay.voters)],
    ["multicast /s", true, (stay) => number(rate(stay.multicasts, old("groups", (o) => o.stay === stay.stay).multicasts, seconds))],
    ["delivered /s", true, (stay) => number(rate(stay.deliveries, old("groups", (o) => o.stay === stay.stay).deliveries, seconds))],
  ], groups);
  const moved = (pipe) => {
    const o = old("pipes", (other) => other.session === pipe.session && other.pipe === pipe.pipe);
    return [rate(pipe.rx_packets, o.rx_packets, seconds), rate(pipe.tx_packets, o.tx_packets, seconds), o];
  };
  const pipes = status.pipes.map((pipe) => ({ pipe, moved: moved(pipe) }))
    .sort((a, b) => (b.moved[0] + b.moved[1] || 0) - (a.moved[0] + a.moved[1] || 0)).slice(0, PIPES_SHOWN);
  byId("pipes-note").textContent = status.pipes.length > PIPES_SHOWN
    ? `The ${PIPES_SHOWN} busiest of ${status.pipes.length}.` : `${status.pipes.length} ${status.pipes.length === 1 ? "pipe" : "pipes"}.`;
  table("pipes-table", "Pipes", [
    ["session/pipe", false, ({ pipe }) => `${pipe.session}/${pipe.pipe}`],
    ["kind", false, ({ pipe }) => pipe.kind],
    ["to the application /s", true, ({ moved }) => number(moved[0])],
    ["from it /s", true, ({ moved }) => number(moved[1])],
    ["notified", true, ({ pipe }) => number(pipe.notifications_sent)],
    ["suppressed", true, ({ pipe }) => number(pipe.notifications_suppressed)],
    ["drops", false, ({ pipe }) => causes(pipe.drops), ({ pipe }) => (sum(pipe.drops) ? "wait" : "")],
  ], pipes);
  for (const list of ["links", "lanes", "ports", "groups", "pipes"]) fill(list, (status[list] || []).length);
  const { submitted, in_doubt, executed, refused } = status.verbs;
  fill("verbs", submitted + in_doubt + sum(executed) + sum(refused));
  arrange();
  byId("main").hidden = false;
  before = status;
}

function note(events) {
  const list = byId("events");
  for (const { event, realtime_ns, sequence, ...rest } of events) {
    const item = element("li");
    const when = new Date(realtime_ns / 1e6);
    item.append(Object.assign(element("time", when.toLocaleTimeString()), { dateTime: when.toISOString() }));
    const what = Object.entries(rest).map(([key, value]) => `${key} ${typeof value === "object" ? JSON.stringify(value) : value}`).join(", ");
    item.append(`${event.replaceAll("_", " ")}${what ? ": " + what : ""}`);
    list.prepend(item);
  }
  while (list.childElementCount > EVENTS_SHOWN) list.lastElementChild.remove();
  fill("events-section", list.childElementCount);
  arrange();
}

const stream = new EventSource("live/stream");
// Each stream begins with the events that control has kept.
stream.onopen = () => byId("events").replaceChildren();
stream.addEventListener("baseline", (message) => { before = JSON.parse(message.data); });
stream.addEventListener("status", (message) => show(JSON.parse(message.data)));
stream.addEventListener("events", (message) => note(JSON.parse(message.data)));
stream.addEventListener("gone", (message) => { byId("standing").textContent = message.data; before = null; arrange(); byId("main").hidden = false; });
stream.onerror = () => { byId("standing").textContent = "control does not answer; trying again"; before = null; };

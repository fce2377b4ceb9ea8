"use strict";
// Shows the data of `live/stream`, once a second. Rates are differences of two consecutive counts.
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

// Increase of a count per second. A smaller count belongs to another incarnation of the daemon.
function rate(now, before, seconds) {
  if (before === undefined || !(seconds > 0) || now < before) return NaN;
  return (now - before) / seconds;
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

function draw(status) {
  const svg = byId("topology");
  const shape = (name, attributes, text) => {
    const made = document.createElementNS(SVG, name);
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
  const far = (status.nodes || []).filter((node) => !neighbors.has(node.guid)).slice(0, 24);
  const middle = { x: 360, y: 210 }, parts = [];
  const around = (at, count, rx, ry, turn) => {
    const angle = turn + (2 * Math.PI * at) / Math.max(count, 1);
    return { x: middle.x + rx * Math.cos(angle), y: middle.y + ry * Math.sin(angle) };
  };
  far.forEach((node, at) => {
    const place = around(at, far.length, 315, 180, Math.PI / 7);
    parts.push(shape("line", { x1: middle.x, y1: middle.y, x2: place.x, y2: place.y, class: "far" }));
    parts.push(shape("circle", { cx: place.x, cy: place.y, r: 6 }));
    const shown = (node.name || node.guid) + (node.hops ? `, ${node.hops} hops` : ", " + node.standing);
    parts.push(shape("text", { x: place.x, y: place.y + (place.y > middle.y ? 22 : -12), class: "quiet" }, shown));
  });
  [...neighbors.values()].forEach((neighbor, at) => {
    const place = around(at, neighbors.size, 200, 120, 0);
    neighbor.links.forEach((link, which) => {
      const shift = 18 * (which - (neighbor.links.length - 1) / 2);
      const dx = place.y - middle.y, dy = middle.x - place.x, length = Math.hypot(dx, dy) || 1;
      const ox = (dx / length) * shift, oy = (dy / length) * shift;
      parts.push(shape("line", { x1: middle.x + ox, y1: middle.y + oy, x2: place.x + ox, y2: place.y + oy, class: stateClass(link.state) }));
      const x = (middle.x + place.x) / 2 + ox * 1.6, y = (middle.y + place.y) / 2 + oy * 1.6 - 8;
      parts.push(shape("text", { x, y, class: "quiet" }, `${link.port} ${link.state}`));
    });
    parts.push(shape("circle", { cx: place.x, cy: place.y, r: 16 }));
    parts.push(shape("text", { x: place.x, y: place.y + 36 }, neighbor.name));
  });
  parts.push(shape("circle", { cx: middle.x, cy: middle.y, r: 20, class: "own" }));
  parts.push(shape("text", { x: middle.x, y: middle.y + 42, "font-weight": 700 }, status.node));
  const shown = status.links.map((link) => `${link.port} is ${link.state}${link.peer_name ? " to " + link.peer_name : ""}`);
  byId("topology-text").textContent = `${status.node}: ${shown.join("; ") || "no links"}. ${far.length} more nodes are known.`;
  svg.replaceChildren(byId("topology-name"), byId("topology-text"), ...parts);
}

let before = null;

function show(shown) {
  const { status, at_ms } = shown;
  const seconds = before ? (at_ms - before.at_ms) / 1000 : NaN;
  const was = before && before.status.pid === status.pid ? before.status : null;
  const old = (list, same) => ((was && was[list]) || []).find(same) || {};
  byId("node").textContent = status.node;
  document.title = `${status.node} – Covalent`;
  const up = status.links.filter((link) => link.state === "up").length;
  byId("standing").textContent = `${up} of ${status.links.length} links up; ${status.fabric ? status.fabric.reached + " nodes reached; " : ""}` +
    `daemon up for ${duration(status.uptime_ns)}; ${status.verbs.in_doubt} verbs in doubt`;
  draw(status);
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
      return percent((100 * rate(lane.busy_loops, o.busy_loops, seconds)) / rate(lane.loops, o.loops, seconds));
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
  before = shown;
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
}

const stream = new EventSource("live/stream");
stream.addEventListener("status", (message) => show(JSON.parse(message.data)));
stream.addEventListener("events", (message) => note(JSON.parse(message.data)));
stream.addEventListener("gone", (message) => { byId("standing").textContent = message.data; before = null; });
stream.onerror = () => { byId("standing").textContent = "control does not answer; trying again"; before = null; };

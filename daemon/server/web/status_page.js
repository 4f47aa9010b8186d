// Everything that the daemon sends is shown as text, because node names and
// reasons come from other machines.
const POLL_MS = 2000;
const ROWS_MAX = 200;
const GRID_FROM = 25;
const PINGS_NODES_MAX = 64;
const MATRIX_MAX = 24;
const NAMES_MAX = 20;
const EVENTS_MAX = 200;
const TONES = {
  gathering: "wait", forming: "work", running: "good", isolated: "warn",
  finished: "done", failed: "bad", lingering: "bad", attending: "wait",
  preparing: "work", suspect: "warn", lost: "bad", spare: "rest",
  quarantined: "bad", draining: "leave", setting_up: "work",
};
const WORST_FIRST = ["lost", "quarantined", "suspect", "draining", "preparing",
  "setting_up", "attending", "running", "finished", "spare"];

const $ = (id) => document.getElementById(id);
const tone = (state) => TONES[state] || "rest";
let token = "";
let job = "";
let status = null;
let told = 0;       // When the daemon last answered.
let showAll = false;
let showEvents = false;
let events = [];      // The newest ones of the job, the oldest first.
let eventsOf = "";    // Their job.
let lastEvent = 0;    // The id of its last event.
let timer = 0;

function h(tag, kind, ...children) {
  const made = document.createElement(tag);
  if (kind) made.className = kind;
  for (const child of children) {
    if (child !== null && child !== undefined) made.append(child);
  }
  return made;
}
function fill(id, ...children) {
  $(id).replaceChildren(...children.filter((c) => c !== null));
}
const dot = (state) => h("span", "dot " + tone(state));
const plural = (n, what) => n + " " + what + (n === 1 ? "" : "s");

function duration(seconds) {
  const s = Math.max(0, seconds);
  if (s < 10) return s.toFixed(1) + " s";
  if (s < 120) return Math.round(s) + " s";
  if (s < 7200) return Math.floor(s / 60) + " min " + Math.round(s % 60) + " s";
  if (s < 172800) {
    return Math.floor(s / 3600) + " h " + Math.floor(s % 3600 / 60) + " min";
  }
  return Math.floor(s / 86400) + " days " + Math.floor(s % 86400 / 3600) + " h";
}
function clock(unix) {
  const at = new Date(unix * 1000);
  const time = at.toLocaleTimeString([], {hour12: false});
  return at.toDateString() === new Date().toDateString() ? time
    : at.toLocaleDateString() + " " + time;
}
const present = (s) => s.nodes.filter((n) => n.state !== "lost" &&
  n.state !== "quarantined").length;
const needed = (s) => s.nodes_min === s.nodes_max ? String(s.nodes_min)
  : s.nodes_min + " to " + s.nodes_max;

function fact(label, value, small) {
  return h("div", "", h("div", "label", label),
    h("div", "value", value, small ? h("small", "", " " + small) : null));
}
function facts(s) {
  const list = [
    fact("nodes", String(present(s)), "of " + needed(s)),
    fact("world", s.world_size ? String(s.world_size) : "none",
      s.world_size ? (s.world_size === 1 ? "rank" : "ranks") : ""),
    fact("generation", String(s.generation))];
  if (s.state === "gathering") list.push(fact("waited", duration(s.waited_s)));
  if (s.step) {
    list.push(fact("step", s.step.toLocaleString(),
                   s.steps && "of " + s.steps.toLocaleString()));
  }
  if (s.loss !== null) list.push(fact("loss", s.loss.toPrecision(5)));
  // Unknown to an older daemon.
  if (typeof s.validation_loss === "number") {
    list.push(fact("validation loss", s.validation_loss.toPrecision(5)));
  }
  if (typeof s.gradient_norm === "number") {
    list.push(fact("gradient norm", s.gradient_norm.toPrecision(3)));
  }
  if (s.tokens_per_second !== null) {
    list.push(fact("tokens/s",
      Math.round(s.tokens_per_second).toLocaleString()));
  }
  const history = s.history;
  if (history && history.commits > 0) {
    list.push(fact("last formation", duration(history.commit_s)));
  }
  return list;
}

function note(kind, title, text) {
  return h("div", "note " + kind, h("b", "", title), text ? " " + text : "");
}
function someOf(names) {
  return names.slice(0, NAMES_MAX).join(", ") + (names.length > NAMES_MAX
    ? " and " + (names.length - NAMES_MAX) + " more" : "");
}
function notes(s) {
  const list = [];
  if (s.state === "gathering") {
    const lack = Math.max(0, s.nodes_min - present(s));
    const names = someOf(s.missing);
    if (lack > 0 || names) {
      list.push(note("wait", "Waiting for " +
        plural(Math.max(lack, s.missing.length), "node") +
        (names ? ":" : "."), names));
    }
  }
  if (s.state === "forming") {
    const names = s.nodes.filter((n) => n.prepared === false)
      .map((n) => n.node);
    if (names.length > 0) {
      list.push(note("wait", "Forming generation " + s.generation +
        "; not prepared yet:", someOf(names)));
    }
  }
  if (s.state === "running") {
    const finished = s.nodes.filter((n) => n.state === "finished").length;
    const names = s.nodes.filter((n) => n.state === "running" ||
      n.state === "suspect").map((n) => n.node);
    if (finished > 0 && names.length > 0) {
      list.push(note("wait", plural(finished, "node") +
        " finished; still running:", someOf(names)));
    }
  }
  if (s.fence_s !== undefined) {
    list.push(note("warn", "The next world waits " + duration(s.fence_s) +
      " at most:", s.fence_reason));
  }
  if (s.state === "isolated") {
    list.push(note("warn", "Most of the world is silent.", "The daemon takes " +
      "itself to be cut off; it ends no rank and forms no world."));
  }
  if (s.end && s.state !== "finished") {
    list.push(note("bad", "Ended with exit code " + s.end.exit_code + ":",
      s.end.reason));
  }
  const cause = s.root_cause;
  if (cause && s.state !== "finished") {
    const who = cause.rank >= 0 ? "rank " + cause.rank + " on " + cause.node
      : cause.node ? "node " + cause.node : "";
    list.push(note(s.end ? "bad" : "warn", "Root cause" +
      (who ? ", " + who : "") + ":", cause.code + " \u2014 " + cause.detail));
  }
  if (s.lingers_s !== undefined) {
    list.push(note("bad", "Ranks that still live are left running",
      "for " + duration(s.lingers_s) + " more."));
  }
  for (const one of s.differences.slice(0, 8)) {
    list.push(note("warn", "Nodes differ in " + one.fact + ":",
      one.sides.map((side) => side.value + " (" + side.nodes.join(", ") +
        (side.node_count > side.nodes.length ? ", ..." : "") + ")")
        .join(" \u2194 ") + (one.advice ? "; " + one.advice : "")));
  }
  return list;
}

function table(heads, rows, numbers, wide) {
  const head = h("tr", "", ...heads.map((name, i) =>
    h("th", (numbers[i] ? "num" : "") + (wide.includes(i) ? " wide" : ""),
      name)));
  return h("div", "scroll", h("table", "", h("thead", "", head),
    h("tbody", "", ...rows)));
}

function ordered(nodes) {
  const place = (n) => n.node_rank >= 0 ? n.node_rank : 1e9;
  return [...nodes].sort((a, b) => place(a) - place(b) ||
    WORST_FIRST.indexOf(a.state) - WORST_FIRST.indexOf(b.state) ||
    a.node.localeCompare(b.node, undefined, {numeric: true}));
}
function legend(nodes) {
  const counts = new Map();
  for (const n of nodes) counts.set(n.state, (counts.get(n.state) || 0) + 1);
  return h("div", "legend", ...WORST_FIRST.filter((s) => counts.has(s)).map(
    (s) => h("span", "", dot(s), counts.get(s) + " " + s)));
}
function nodeRow(n) {
  const lease = n.lease_ms ? (n.lease_ms / 1000).toFixed(1) + " s" : "";
  return h("tr", "",
    h("td", "num", n.node_rank >= 0 ? String(n.node_rank) : "\u2013"),
    h("td", "name", n.node),
    h("td", "", dot(n.state), n.state),
    h("td", "num", String(n.ranks)),
    h("td", "num", n.step ? n.step.toLocaleString() : ""),
    h("td", "mono wide", n.address),
    h("td", "num wide" + (n.lease_ms < 0 ? " tone bad" : ""), lease),
    h("td", "why", n.reason));
}
function nodes(s) {
  const all = ordered(s.nodes);
  $("nodes_title").textContent = plural(all.length, "node");
  const asked = $("find").value.trim().toLowerCase();
  const found = all.filter((n) => !asked ||
    n.node.toLowerCase().includes(asked) || n.state.includes(asked));
  $("find").hidden = all.length < 8;
  const parts = [legend(all)];
  if (all.length >= GRID_FROM) {
    parts.push(h("div", "grid", ...all.map((n) => {
      const square = h("i", tone(n.state));
      square.title = n.node + ": " + n.state;
      return square;
    })));
  }
  const most = showAll ? found.length : ROWS_MAX;
  parts.push(table(
    ["rank", "node", "state", "ranks", "step", "address", "lease", "note"],
    found.slice(0, most).map(nodeRow),
    [true, false, false, true, true, false, true, false], [5, 6]));
  if (found.length > most) {
    const button = h("button", "", "show all " + found.length);
    button.onclick = () => { showAll = true; draw(); };
    parts.push(button);
  }
  if (all.length === 0) return [h("div", "soft", "no node has attended yet")];
  return parts;
}

function pingTable(s) {
  const p = s.pings;
  if (!p || p.pairs === 0) return null;
  const names = new Map();
  for (const n of s.nodes) if (n.node_rank >= 0) names.set(n.node_rank, n.node);
  const title = h("h2", "", "Time to connect, in ms: " + p.pairs + " pairs, " +
    p.unreached + " not reached, probed " + duration(p.age_s) + " ago");
  if (names.size > MATRIX_MAX) {
    const rows = p.pings.slice(0, 20).map((one) => h("tr", "",
      h("td", "name", names.get(one.from) || String(one.from)),
      h("td", "name", names.get(one.to) || String(one.to)),
      h("td", "num", one.reached ? (one.ms === null ? "?" : one.ms.toFixed(2))
        : "none"),
      h("td", "why", one.error)));
    return [title, table(["from", "to", "ms", "error"], rows,
      [false, false, true, false], [])];
  }
  const ranks = [...names.keys()].sort((a, b) => a - b);
  const by = new Map(p.pings.map((one) => [one.from + " " + one.to, one]));
  const slowest = Math.max(0.001, ...p.pings.map((one) => one.ms || 0));
  const head = h("tr", "", h("th", "", "from \\ to"),
    ...ranks.map((r) => h("th", "", String(r))));
  const rows = ranks.map((from) => h("tr", "",
    h("th", "", from + " " + names.get(from)),
    ...ranks.map((to) => {
      const one = by.get(from + " " + to);
      if (!one) return h("td", "soft", from === to ? "\u00b7" : "");
      if (!one.reached) {
        const cut = h("td", "cut", "none");
        cut.title = one.error;
        return cut;
      }
      const cell = h("td", "num cell", one.ms === null ? "?"
        : one.ms.toFixed(2));
      cell.style.setProperty("--heat",
        Math.round(8 + 52 * (one.ms || 0) / slowest) + "%");
      return cell;
    })));
  return [title, h("div", "scroll", h("table", "matrix", h("thead", "", head),
    h("tbody", "", ...rows)))];
}

function jobList(jobs) {
  return jobs.map((one) => {
    const link = h("a", "", one.job);
    link.href = "#job=" + encodeURIComponent(one.job);
    return h("tr", "", h("td", "name", link),
      h("td", "", dot(one.state), one.state),
      h("td", "num", String(one.generation)),
      h("td", "num", String(one.world_size)),
      h("td", "num", one.step ? one.step.toLocaleString() : ""));
  });
}
function drawList(list) {
  $("job").textContent = "rollcall";
  document.title = "rollcall";
  fill("state");
  $("where").textContent = plural(list.length, "job");
  for (const id of ["facts", "line", "nodes", "pings", "events"]) {
    $(id).hidden = true;
  }
  fill("notes");
  $("jobs").hidden = false;
  fill("jobs", list.length === 0 ? h("div", "soft", "no job yet")
    : table(["job", "state", "generation", "ranks", "step"], jobList(list),
      [false, false, true, true, true], []));
}

function draw() {
  $("all").hidden = status === null;
  if (status === null) return;
  if (status.jobs) return drawList(status.jobs);
  const s = status;
  $("job").textContent = s.job;
  document.title = s.state + " \u2013 " + s.job + " \u2013 rollcall";
  fill("state", h("span", "pill " + tone(s.state), dot(s.state), s.state));
  $("where").textContent = "run " + s.run;
  for (const id of ["facts", "line", "nodes"]) $(id).hidden = false;
  $("jobs").hidden = true;
  fill("notes", ...notes(s));
  fill("facts", ...facts(s));
  fill("line", ...timeLine(s));
  fill("nodes_body", ...nodes(s));
  const pings = pingTable(s);
  $("pings").hidden = pings === null;
  if (pings !== null) fill("pings", ...pings);
  $("events").hidden = events.length === 0;
  if (events.length > 0) fill("events", ...eventTable(s));
}
function drawAge() {
  $("age").textContent = told === 0 ? "" : "updated " +
    duration((Date.now() - told) / 1000) + " ago";
}
function lost(text) {
  $("lost").hidden = text === "";
  $("lost").textContent = text;
}

function ask(path, query) {
  const asked = query.toString();
  return fetch(path + (asked ? "?" + asked : ""), {
    cache: "no-store",
    headers: token ? {Authorization: "Bearer " + token} : {},
    signal: AbortSignal.timeout(15000),
  });
}
// Asks for the events since the last time, if there are any; returns whether
// the list has changed. `last`: the id of the job's last event. If the answer is
// an error, the next call asks again.
async function pollEvents(last) {
  const of = status && status.job || "";
  // Another daemon that has no file of events counts from 1 again.
  if (of !== eventsOf || last < lastEvent) {
    events = [];
    eventsOf = of;
    lastEvent = 0;
  }
  if (!of || last === lastEvent) return false;
  const answer = await ask("/events.json",
    new URLSearchParams({job: of, after: String(lastEvent)}));
  if (!answer.ok || of !== eventsOf) return false;
  const given = await answer.json();
  for (const one of given.events) {
    one.at = Date.parse(one.time) / 1000;
    if (one.id > lastEvent) events.push(one);
  }
  events = events.slice(-EVENTS_MAX);
  lastEvent = given.last;
  return true;
}

async function poll() {
  clearTimeout(timer);
  try {
    const query = new URLSearchParams();
    if (job) query.set("job", job);
    if (status && status.nodes && status.nodes.length <= PINGS_NODES_MAX) {
      query.set("pings", "1");
    }
    const answer = await ask("/status.json", query);
    if (answer.status === 401 || answer.status === 403) {
      $("ask").hidden = false;
      $("refused").textContent = token ? (await answer.text()).trim() : "";
      status = null;
      events = [];
      lastEvent = 0;
      lost("");
      return draw();
    }
    if (!answer.ok) throw new Error((await answer.text()).trim());
    const first = status === null;
    status = await answer.json();
    told = Date.now();
    $("ask").hidden = true;
    lost("");
    draw();
    if (await pollEvents(Number(answer.headers.get("Rollcall-Last-Event")))) {
      draw();
    }
    timer = setTimeout(poll, first && status.nodes ? 50 : POLL_MS);
  } catch (error) {
    const ended = status && status.end;
    lost(ended ? "The daemon has ended; this is its last status."
      : "No answer from the daemon: " + error.message + ". Trying again.");
    timer = setTimeout(poll, POLL_MS);
  }
}

// Removes the token from the address, so that no history entry and no copied
// link contains it.
function takeFragment() {
  const given = new URLSearchParams(location.hash.slice(1));
  if (given.has("token")) {
    token = given.get("token");
    given.delete("token");
    const rest = given.toString();
    history.replaceState(null, "", location.pathname +
      (rest ? "#" + rest : ""));
  }
  job = given.get("job") || "";
  status = null;
  showAll = false;
  showEvents = false;
  poll();
}
function takeTyped() {
  token = $("token").value.trim();
  $("token").value = "";
  poll();
}
$("show").onclick = takeTyped;
$("token").onkeydown = (event) => { if (event.key === "Enter") takeTyped(); };
$("find").oninput = draw;
addEventListener("hashchange", takeFragment);
document.addEventListener("visibilitychange", () => {
  if (document.hidden) clearTimeout(timer); else poll();
});
setInterval(drawAge, 500);
takeFragment();

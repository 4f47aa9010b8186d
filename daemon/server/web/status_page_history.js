"use strict";
// The time line of a job, and its events. Part of the script of the page, before
// status_page.js, which has the functions that it calls.
const EVENT_ROWS = 25;
// How each event is shown; others are those of nodes that come.
const EVENT_TONES = {
  form: "work", run: "good", adopt: "good", abort: "warn", end: "done",
  isolated: "warn", fenced: "warn", resumed_below: "warn", reached: "good",
  checkpoint: "good",
  lost: "bad", suspect: "warn", stalled: "bad", quarantined: "bad",
  evict: "bad", setup_failed: "bad", refused: "warn", warning: "warn", differs: "warn",
  unreached: "warn", fact_changed: "warn", notice: "leave", slow: "warn",
};
// The marks below the states, by the events that make them.
const LANES = [
  ["losses", ["lost", "stalled", "quarantined", "evict", "setup_failed",
    "abort", "end"]],
  ["facts", ["fact_changed"]],
  ["notices", ["notice"]],
  ["slow", ["slow"]],
  ["steps", ["reached", "checkpoint", "resumed_below"]],
];
// A world ends without a loss as well, by growing for example.
const FAILURE = /RANK_|HANG|GPU_|MEMORY|NOT_STARTED|RESTART_BUDGET/;
const isShown = (one) => !["abort", "end"].includes(one.event) ||
  FAILURE.test(one.code || "");
// What ends a period that an event begins; the end of a world ends all.
const PERIODS = {notice: "form", slow: "slow_ended"};

// What `status --events` knows of the states before the history begins, because
// another daemon led or ran then.
function earlier(s, until) {
  const list = [];
  for (const one of events) {
    if (one.run !== s.run || !(one.at < until)) continue;
    const state = one.event === "form" ? "forming"
      : one.event === "run" || one.event === "adopt" ? "running"
      : one.event === "abort" ? "gathering"
      : one.event === "start" || one.event === "isolated"
        ? one.state || one.event : "";
    if (state) {
      list.push({at: one.at, state, generation: one.generation || 0,
        reason: one.reason || "", code: ""});
    }
  }
  return list;
}
// Returns the part of the time from `from` to `to` in a track of this range.
function part(range, kind, from, to, title) {
  const [begin, end] = range;
  const whole = Math.max(end - begin, 0.001);
  const at = Math.min(Math.max(from, begin), end);
  const made = h("i", kind);
  made.style.left = "min(" + (at - begin) / whole * 100 + "%, 100% - 3px)";
  made.style.width = Math.max(Math.min(to, end) - at, 0) / whole * 100 + "%";
  made.title = title;
  return made;
}
function lane(name, kind, parts) {
  return h("div", "lane", h("div", "label", name),
    h("div", "track" + kind, ...parts));
}
function lanes(s, range) {
  const list = [];
  const own = events.filter((one) => one.run === s.run);
  for (const [name, kinds] of LANES) {
    const parts = [];
    own.forEach((one, i) => {
      if (!kinds.includes(one.event) || !isShown(one) || one.at > range[1]) {
        return;
      }
      const last = PERIODS[one.event];
      const over = last && own.slice(i + 1).find((next) =>
        [last, "abort", "end"].includes(next.event));
      const until = !last ? one.at : over ? over.at : range[1];
      if (until < range[0]) return;
      parts.push(part(range, eventTone(one), one.at, until,
        clock(one.at) + " " + eventName(one) + " " + eventText(one)));
    });
    if (parts.length > 0) list.push(lane(name, "", parts));
  }
  return list;
}
function timeLine(s) {
  const known = s.history ? s.history.changes : [];
  const changes = [
    ...earlier(s, known.length > 0 ? known[0].at : Infinity), ...known];
  if (changes.length === 0) return [h("h2", "", "Time line"),
    h("div", "soft", "nothing yet")];
  const over = s.end ? changes[changes.length - 1].at : Date.now() / 1000;
  const range = [changes[0].at, over];
  const bar = lane("states", " bar", changes.map((change, i) => {
    const until = i + 1 < changes.length ? changes[i + 1].at : over;
    return part(range, tone(change.state), change.at, until,
      change.state + ", generation " + change.generation + ", " +
      duration(until - change.at));
  }));
  const rows = changes.map((change, i) => {
    const until = i + 1 < changes.length ? changes[i + 1].at : over;
    const first = change.code === "first" || change.code === "unspecified";
    const why = change.reason || (first ? "" : change.code);
    return h("tr", "", h("td", "num", clock(change.at)),
      h("td", "", dot(change.state), change.state),
      h("td", "num", String(change.generation)),
      h("td", "num wide", s.end && i + 1 === changes.length ? ""
        : duration(until - change.at)),
      h("td", "why", change.code === "first" && change.generation > 0
        ? "the first world" : why));
  });
  rows.reverse();
  return [h("h2", "", "Time line"), bar, ...lanes(s, range),
    h("div", "ends", h("span", "", clock(changes[0].at)),
      h("span", "", s.end ? clock(over) : "now")),
    table(["time", "state", "generation", "for", "why"], rows.slice(0, 12),
      [true, false, true, true, false], [3])];
}

const eventTone = (one) => one.level === "error" ? "bad"
  : EVENT_TONES[one.event] || "rest";
const eventName = (one) => String(one.event || "").replaceAll("_", " ");
// What the event says, without what has a column of its own.
function eventText(one) {
  const words = [];
  for (const [key, value] of Object.entries(one)) {
    if (typeof value !== "string" || value === "" || ["time", "level", "job",
      "run", "event", "generation", "node", "reason", "text"].includes(key)) {
      continue;
    }
    words.push(key.replaceAll("_", " ") + " " + value.replace(
      /^(?:REASON_CODE|NOTICE_KIND)_(\w+)$/, (_, word) => word.toLowerCase()));
  }
  return [one.reason, one.text, ...words].filter((word) =>
    typeof word === "string" && word !== "").join("; ");
}
function eventRow(s, one) {
  const former = one.run === s.run ? "" : " former";
  return h("tr", "",
    h("td", "num" + former, clock(one.at)),
    h("td", former.trim(), h("span", "dot " + eventTone(one)),
      eventName(one)),
    h("td", "num wide" + former, one.generation || ""),
    h("td", "name" + former, one.node || ""),
    h("td", "why", eventText(one)));
}
function eventTable(s) {
  const most = showEvents ? EVENTS_MAX : EVENT_ROWS;
  const rows = events.slice(-most).reverse().map((one) => eventRow(s, one));
  const parts = [h("h2", "", "Events"),
    table(["time", "event", "generation", "node", "what"], rows,
      [true, false, true, false, false], [2])];
  if (events.length > most) {
    const button = h("button", "", "show " + events.length);
    button.onclick = () => { showEvents = true; draw(); };
    parts.push(button);
  }
  return parts;
}

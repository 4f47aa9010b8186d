"""Tests the script of the status page, which Node.js runs."""
import json
import os
import shutil
import time

import harness
from harness import E2E

WEB = os.path.join(harness.PROJECT, "daemon", "server", "web")
# In the order in which the page has them.
SCRIPT = [os.path.join(WEB, name)
          for name in ("status_page_history.js", "status_page.js")]

# Runs the script of the page without a browser; elements are plain objects. The
# status, the answer of /events.json, the id of an element and the files of the
# script are in argv.
# Prints each child of that element, and each row of a table, on a line: the
# texts of its parts, and the titles of marks.
PARTS = """
const element = () => ({children: [], style: {setProperty() {}},
  append(...more) { this.children.push(...more); },
  replaceChildren(...all) { this.children = all; }});
const byId = new Map();
globalThis.document = {
  createElement: element, addEventListener() {}, hidden: true,
  getElementById(id) {
    if (!byId.has(id)) byId.set(id, Object.assign(element(), {value: ""}));
    return byId.get(id);
  }};
globalThis.location = {hash: "", pathname: "/"};
globalThis.addEventListener = () => {};
globalThis.setInterval = () => {};
globalThis.setTimeout = () => {};
const asked = [];
globalThis.fetch = async (path) => {
  asked.push(path);
  const events = path.startsWith("/events.json");
  const given = JSON.parse(process.argv[events ? 2 : 1]);
  return {ok: true, status: 200, json: async () => given,
    headers: {get: () => JSON.parse(process.argv[2]).last}};
};
require("vm").runInThisContext(
  process.argv.slice(4).map((path) => require("fs").readFileSync(path, "utf8"))
    .join(""));
const text = (node) => typeof node === "string" ? node
  : [node.title || "", ...node.children.map(text)].filter((s) => s).join("|");
const rows = (node) => typeof node === "string" ? []
  : node.children.some((one) => /^num/.test(one.className)) ? [node]
  : node.children.flatMap(rows);
setImmediate(() => setImmediate(() => setImmediate(() => {
  const named = byId.get(process.argv[3]);
  for (const part of named.children) {
    const found = rows(part);
    for (const one of found.length > 0 ? found : [part]) console.log(text(one));
  }
  console.log("asked", ...asked);
})));
"""


class Page(E2E):
    def setUp(self):
        super().setUp()
        self.node = shutil.which("node") or shutil.which("nodejs")
        if self.node is None:
            self.skipTest("NOT TESTED: no Node.js, which runs the page's "
                          "script")

    def test_the_page_names_who_is_waited_for(self):
        base = {
            "job": "j", "run": "r", "generation": 2, "world_size": 3,
            "nodes_min": 3, "nodes_max": 3, "missing": [], "differences": [],
            "root_cause": None, "waited_s": 1.0, "step": 0, "steps": None,
            "loss": None, "tokens_per_second": None}

        def row(name, state, **more):
            return {"node": name, "state": state, "node_rank": 0, "ranks": 1,
                    "step": 0, "address": "", "lease_ms": 0, "reason": "",
                    **more}
        rows = [
            ("gathering", [row("a", "attending")], ["b", "<c>"],
             ["Waiting for 2 nodes: b, <c>"]),
            ("forming", [row("a", "preparing", prepared=True),
                         row("b", "preparing", prepared=False),
                         row("c", "preparing", prepared=False),
                         row("s", "spare")], [],
             ["Forming generation 2; not prepared yet: b, c"]),
            ("forming", [row("a", "preparing", prepared=True)], [], []),
            # An older daemon does not send `prepared`.
            ("forming", [row("a", "preparing")], [], []),
            ("forming", [row(f"n{i}", "preparing", prepared=False)
                         for i in range(25)], [],
             ["Forming generation 2; not prepared yet: " +
              ", ".join(f"n{i}" for i in range(20)) + " and 5 more"]),
            ("running", [row("a", "running"), row("b", "running")], [], []),
            ("running", [row("a", "finished"), row("b", "running"),
                         row("c", "suspect"), row("s", "spare")], [],
             ["1 node finished; still running: b, c"]),
        ]
        for state, nodes, missing, notes in rows:
            status = dict(base, state=state, nodes=nodes, missing=missing)
            ran = self.stage.run([self.node, "-e", PARTS,
                                  json.dumps(status),
                                  '{"last":null}', "notes", *SCRIPT])
            self.assert_code(ran, 0)
            self.assertEqual([line.replace("|", "") for line in ran.out()],
                             [*notes, "asked /status.json"],
                             self.stage.transcript())

    def test_the_page_shows_what_a_training_reports(self):
        status = {
            "job": "j", "run": "r", "state": "running", "generation": 2,
            "world_size": 3, "nodes_min": 3, "nodes_max": 3, "missing": [],
            "differences": [], "root_cause": None, "waited_s": 1.0,
            "step": 40, "steps": 100, "loss": 3.25, "tokens_per_second": 1e6,
            "nodes": []}

        def shown(**more):
            ran = self.stage.run([self.node, "-e", PARTS,
                                  json.dumps(dict(status, **more)),
                                  '{"last":null}', "facts", *SCRIPT])
            self.assert_code(ran, 0)
            return " ".join(ran.out())
        self.assertNotIn("norm", shown())
        self.assertNotIn("norm", shown(gradient_norm=None))
        text = shown(gradient_norm=0.5, validation_loss=3.5)
        self.assertIn("gradient norm|0.500", text)
        self.assertIn("validation loss|3.5000", text)

    def test_the_page_draws_the_events(self):
        for path in SCRIPT:
            with open(path, encoding="utf-8") as f:
                self.assertNotIn("innerHTML", f.read())
        begin = 1_700_000_000
        status = {
            "job": "j", "run": "r", "state": "running", "generation": 2,
            "world_size": 1, "nodes_min": 1, "nodes_max": 2, "missing": [],
            "differences": [], "root_cause": None, "waited_s": 1.0, "step": 0,
            "steps": None, "loss": None, "tokens_per_second": None,
            "nodes": [], "end": {"exit_code": 0, "reason": ""},
            # The daemon was started again when the second world ran.
            "history": {"commits": 0, "changes": [
                {"at": begin + at, "state": state, "generation": 2,
                 "code": "unspecified", "reason": ""}
                for at, state in ((60, "running"), (100, "finished"))]}}
        given = [
            (-50, "r0", "lost", {"node": "old"}),
            (0, "r", "start", {"state": "gathering", "generation": "0"}),
            (10, "r", "form", {"generation": "1", "reason": "first"}),
            (20, "r", "run", {"generation": "1", "world_size": "2"}),
            (25, "r", "fact_changed", {"node": "<b>", "text": "</td> down"}),
            (30, "r", "slow", {"generation": "1", "step_s": "2"}),
            (40, "r", "lost", {"node": "<b>", "reason": "its lease ended"}),
            (40, "r", "abort", {"generation": "1", "reason": "lost"}),
            (45, "r", "form", {"generation": "2"}),
            (50, "r", "run", {"generation": "2"}),
            (70, "r", "abort", {"generation": "2", "reason": "it failed",
                                "code": "REASON_CODE_RANK_EXIT"}),
            (90, "r", "notice", {"generation": "2", "kind": "NOTICE_KIND_GROW"}),
            (100, "r", "end", {"exit_code": "0"})]
        events = [{"id": number, "level": "info", "job": "j", "run": run,
                   "time": time.strftime("%Y-%m-%dT%H:%M:%S.000Z",
                                         time.gmtime(begin + at)),
                   "event": event, **more}
                  for number, (at, run, event, more) in enumerate(given, 7)]
        answer = {"last": 19, "more": False, "lost": 0, "events": events}

        def shown(element):
            ran = self.stage.run([self.node, "-e", PARTS,
                                  json.dumps(status), json.dumps(answer),
                                  element, *SCRIPT],
                                 {"TZ": "UTC"})
            self.assert_code(ran, 0)
            *lines, asked = ran.out()
            self.assertEqual(asked, "asked /status.json "
                             "/events.json?job=j&after=0")
            return [line.split("|") for line in lines]
        lanes = {name: marks for name, *marks in shown("line")}
        self.assertEqual(
            [mark.split(",")[0] for mark in lanes["states"]],
            ["gathering", "forming", "running", "gathering", "forming",
             "running", "running", "finished"])
        self.assertEqual(
            {name: [mark.split(" ", 2)[-1] for mark in marks]
             for name, marks in lanes.items()
             if name in ("losses", "facts", "notices", "slow", "steps")},
            {"losses": ["lost its lease ended",
                        "abort it failed; code rank_exit"],
             "facts": ["fact changed </td> down"],
             "notices": ["notice kind grow"], "slow": ["slow step s 2"]})
        table = shown("events")
        self.assertEqual(table[0], ["Events"])
        rows = [row[1:] for row in table[2:]]
        self.assertEqual(len(rows), len(given))
        self.assertEqual(rows[0], ["end", "exit code 0"])
        self.assertEqual(rows[6], ["lost", "<b>", "its lease ended"])
        self.assertEqual(rows[8], ["fact changed", "<b>", "</td> down"])
        self.assertEqual(rows[-1], ["lost", "old"])

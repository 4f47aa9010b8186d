// Tests the file of `launch --spec`.
#include "client/launch/run_spec/run_spec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/launch/run_spec/exclusive_flags.h"
#include "client/launch/run_spec/spec_environment.h"

namespace rollcall {
namespace {

absl::Status Check(const std::string& flag, const std::string& value) {
  if (value != "wrong" && value != "A=wrong") return absl::OkStatus();
  return absl::InvalidArgumentError(flag + " takes no wrong value");
}

// Returns `flags | command | environment`, or the error messages.
std::string Describe(absl::string_view text) {
  const auto spec = ParseRunSpec(text, "f", "/d", Check);
  if (!spec.ok()) return std::string(spec.status().message());
  return absl::StrCat(absl::StrJoin(spec->flags, " ",
                                    [](std::string* to, const SpecFlag& flag) {
                                      absl::StrAppend(to, flag.name, "=",
                                                      flag.value);
                                    }),
                      " | ", absl::StrJoin(spec->command, ","), " | ",
                      absl::StrJoin(spec->environment, ","));
}

TEST(RunSpec, WhatItSays) {
  const struct {
    const char* text;
    const char* expect;
  } rows[] = {
      {"job: a\nnodes: 2:4\ncommand: [python3, t.py]",
       "--job=a --nodes=2:4 | python3,t.py | "},
      // Numbers and booleans stay as they are written.
      {"nodes: 4\nmax-restarts: 010\ncommand: [run, 1.10, yes, \"\", '~']",
       "--nodes=4 --max-restarts=010 | run,1.10,yes,,~ | "},
      {"command: |\n  . ./env.sh\n  exec python3 t.py\n",
       " | /bin/sh,-c,. ./env.sh\nexec python3 t.py\n | "},
      {"once: true\nno-hosts: false", "--once=true |  | "},
      {"node-check: true", "--node-check=true |  | "},
      {"environment: {A: 1.10, B: \"x: y\", C: '', D: on}",
       " |  | A=1.10,B=x: y,C=,D=on"},
      // Relative paths start at the file's folder.
      {"log-dir: logs\nstate: /s\nfolder: [a, ../b]\nsecret-file: '-'",
       "--log-dir=/d/logs --state=/s --folder=/d/a --folder=/d/../b "
       "--secret-file=- |  | "},
      {"hosts-names: [a, b.lan]", "--hosts-names=a,b.lan |  | "},
      {"same: [t.json, /c]\nshared: [ckpt]",
       "--same=/d/t.json --same=/c --shared=/d/ckpt |  | "},
      // A name without a value is for the launcher's own.
      {"env: {NCCL_ALGO: Ring, OMP_NUM_THREADS: 010, NCCL_PROTO: }",
       "--env=NCCL_ALGO=Ring --env=OMP_NUM_THREADS=010 --env=NCCL_PROTO |  | "},
      // Workers of a template get these from the daemon.
      {"spawn: {template: {file: w, submit: s}}\nenv: {A: 1}",
       "--worker-template=/d/w --submit=s --env=A=1 |  | "},
      {"spawn: {local: 3}", "--local-workers=3 |  | "},
      {"spawn:\n  ssh:\n    hostfile: hosts\n    command: ssh -p 2\n    push: "
       "true",
       "--hostfile=/d/hosts --ssh=ssh -p 2 --push=true |  | "},
      {"spawn: {ssh: {hosts: [a slots=8, me@b name=n]}}",
       "--host=a slots=8 --host=me@b name=n |  | "},
      {"spawn: {template: {file: w.tpl, submit: vessl run create -f}}",
       "--worker-template=/d/w.tpl --submit=vessl run create -f |  | "},
      {"\xEF\xBB\xBFjob: a\r\nnodes: 2\r\n", "--job=a --nodes=2 |  | "},
      {"job: caf\xC3\xA9", "--job=caf\xC3\xA9 |  | "},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(Describe(row.text), row.expect) << row.text;
  }
}

TEST(RunSpec, AMistakeIsNamedWithItsPlace) {
  const struct {
    const char* text;
    const char* expect;
  } rows[] = {
      {"", "f:1:1: expected a map of settings, found nothing"},
      {"- a", "f:1:1: expected a map of settings, found a list"},
      {"job: a\n\njbo: b",
       "f:3:1: expected a key of a run spec, found 'jbo'; did you mean job?"},
      {"job: a\njob: b",
       "f:2:1: expected each key once, found 'job' again; it is in line 1"},
      {"? [a]\n: b", "f:1:3: expected a key, found a list"},
      {"nodes: wrong", "f:1:8: nodes takes no wrong value"},
      {"spawn:\n  local: wrong", "f:2:10: spawn.local takes no wrong value"},
      {"nodes: [1]", "f:1:8: nodes: expected a value, found a list"},
      {"nodes:\njob: a", "f:1:1: nodes: expected a value, found nothing"},
      {"job: ''", "f:1:6: job: expected a value, found ''"},
      {"once: yes", "f:1:7: once: expected true or false, found 'yes'"},
      {"once: 'true'", "f:1:7: once: expected true or false, found 'true'"},
      {"folder: a", "f:1:9: folder: expected a list of paths, found 'a'"},
      {"hosts-names: ['a,b']",
       "f:1:15: hosts-names: expected a host name, found 'a,b'"},
      {"command: []",
       "f:1:10: command: expected a list of words, or a text for /bin/sh, "
       "found a list"},
      {"command: [a, {b: c}]", "f:1:14: command: expected a word, found a map"},
      {"command: ['', a]", "f:1:11: command: expected a program, found ''"},
      {"environment: [A=1]",
       "f:1:14: environment: expected a map of names and values, found a list"},
      {"environment: {A: 1, A: 2}",
       "f:1:21: environment: expected each key once, found 'A' again; it is in "
       "line 1"},
      {"environment:\n  A:\n  B: 1",
       "f:2:3: environment: A: expected a value (\"\" is an empty one), found "
       "nothing"},
      {"same: a", "f:1:7: same: expected a list of paths, found 'a'"},
      {"shared: ['~/c']",
       "f:1:10: shared: expected a path of this machine, from / or from this "
       "file's folder, found '~/c'"},
      {"env: [A=1]",
       "f:1:6: env: expected a map of names and values, found a list"},
      {"env:\n  A: [1]",
       "f:2:6: env: A: expected a value (none: the launcher's own), found a "
       "list"},
      {"env:\n  A: 1\n  A: 2",
       "f:3:3: env: expected each key once, found 'A' again; it is in line 2"},
      {"env:\n  A: wrong", "f:2:6: env takes no wrong value"},
      {"spawn: ssh",
       "f:1:8: spawn: expected one of local, ssh and template, found 'ssh'"},
      {"spawn: {ssh: {push: true}}",
       "f:1:14: spawn.ssh: expected hosts or hostfile, found neither"},
      {"spawn: {ssh: {hosts: [a slots=0]}}",
       "f:1:23: spawn.ssh.hosts: expected slots=1 to slots=64, got 'slots=0'"},
      {"spawn: {ssh: {hosts: [a, x@a]}}",
       "f:1:26: spawn.ssh.hosts: expected each host once, found a again; it is "
       "in line 1"},
      {"spawn: {ssh: {hosts: [a], hostfile: b}}",
       "f:1:37: expected either spawn.ssh.hosts or spawn.ssh.hostfile, found "
       "both; the other is in line 1"},
      {"spawn: {template: {file: a}}",
       "f:1:19: spawn.template: expected the key submit, found none"},
      {"no-hosts: true\nhosts-file: /h",
       "f:2:13: expected either no-hosts or hosts-file, found both; the other "
       "is in line 1"},
      {"spawn: {template: {file: a, submit: b}}\nenvironment: {A: 1}",
       "f:2:14: environment: expected none with spawn.template, found one; "
       "workers get the environment of their template, so put it there"},
      {"a: b: c", "f:1:5: expected YAML, found: illegal map value"},
      {"job: !!python/object:os.system a",
       "f:1:6: expected a value, found the tag "
       "tag:yaml.org,2002:python/object:os.system; a run spec has none"},
      {"job: a\n--- \njob: b", "f:2:1: expected one document, found another"},
      {"job: \"a\x01\"",
       "f:1:8: expected text, found the byte 0x01; is this another kind of "
       "file?"},
      // YAML's escape gives a NUL byte.
      {"job: a\ncommand: [run, \"a\\0b\"]",
       "f:2:16: expected a text, found one with a NUL byte (\"\\0\"), which no "
       "name, word or variable can hold"},
      {"command: \"a\\x00\"",
       "f:1:10: expected a text, found one with a NUL byte (\"\\0\"), which no "
       "name, word or variable can hold"},
      {"environment: {A: \"\\u0000\"}",
       "f:1:18: expected a text, found one with a NUL byte (\"\\0\"), which no "
       "name, word or variable can hold"},
      {"environment: {\"A\\0\": 1}",
       "f:1:15: expected a text, found one with a NUL byte (\"\\0\"), which no "
       "name, word or variable can hold"},
      {"job: a\nx: \xFF", "f:2:4: expected UTF-8, found the byte 0xff"},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(Describe(row.text), row.expect) << row.text;
  }
}

TEST(RunSpec, SeveralMistakesAreAllNamedInTheirOrder) {
  EXPECT_EQ(Describe("spawn: {local: wrong}\nonce: 1\nxyzzy: 2\nnodes: wrong"),
            "f:1:16: spawn.local takes no wrong value\n"
            "f:2:7: once: expected true or false, found '1'\n"
            "f:3:1: expected a key of a run spec, found 'xyzzy'; "
            "client/README.md lists them\n"
            "f:4:8: nodes takes no wrong value");
  std::string many;
  for (int i = 0; i < 30; ++i) absl::StrAppend(&many, "unknown", i, ": 1\n");
  const std::string told = Describe(many);
  EXPECT_EQ(std::count(told.begin(), told.end(), '\n'), 20);
  EXPECT_TRUE(absl::EndsWith(told, "f: and 10 more")) << told;
}

std::string Repeated(absl::string_view text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) absl::StrAppend(&all, text);
  return all;
}

TEST(RunSpec, WhatWouldGrowIsRefused) {
  std::string bomb = "a: &a [x, x]\n";
  for (char c = 'b'; c < 'z'; ++c) {
    absl::StrAppend(&bomb, std::string(1, c), ": &", std::string(1, c), " [*",
                    std::string(1, c - 1), ", *", std::string(1, c - 1), "]\n");
  }
  const struct {
    std::string text;
    const char* expect;
  } rows[] = {
      {bomb, "f:1:4: expected a value, found an anchor"},
      {"a: &x 1\n<<: *x", "f:2:5: expected a value, found an alias"},
      {Repeated("x", 1 << 20) + "x", "expected at most 1048576 bytes"},
      {Repeated("[", 100'000), "expected at most 8 values within each other"},
      {Repeated("- ", 100'000), "expected at most 8 values within each other"},
      {Repeated("? ", 100'000), "expected at most 8 values within each other"},
      {"[" + Repeated("a,", 100'001) + "]", "expected at most 100000 values"},
      {std::string("\x7f") + "ELF\x02\x01", "found the byte 0x7f"},
      {std::string("job: a\0", 7), "found the byte 0x00"},
  };
  for (const auto& row : rows) {
    EXPECT_TRUE(absl::StrContains(Describe(row.text), row.expect))
        << row.text.substr(0, 60) << "\n"
        << Describe(row.text);
  }
}

TEST(RunSpec, VariablesThatItMayNotSet) {
  for (const char* name : {"A", "_x9", "PATH", "NCCL_DEBUG", "PYTHONPATH"}) {
    EXPECT_TRUE(CheckSpecVariable(name).ok()) << name;
  }
  for (const char* name :
       {"", "9A", "A-B", "A B", "A=B", "LD_PRELOAD", "LD_AUDIT",
        "LD_LIBRARY_PATH", "GCONV_PATH", "OPENSSL_CONF", "RANK",
        "ROLLCALL_JOIN", "TORCHELASTIC_RUN_ID", "MASTER_ADDR"}) {
    EXPECT_FALSE(CheckSpecVariable(name).ok()) << name;
  }
}

TEST(RunSpec, WhichFlagReplacesWhich) {
  const struct {
    const char* one;
    const char* other;
    bool expect;
  } rows[] = {
      {"--hostfile", "--local-workers", true},
      {"--local-workers", "--submit", true},
      {"--rdzv-id", "--job", true},
      {"--insecure", "--tls-ca", true},
      {"--hostfile", "--host", true},
      {"--tls-ca", "--tls-key", false},
      {"--hosts-file", "--hosts-names", false},
      {"--job", "--nodes", false},
      {"--hostfile", "--push", false},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(ExcludesFlag(row.one, row.other), row.expect)
        << row.one << " " << row.other;
    EXPECT_EQ(ExcludesFlag(row.other, row.one), row.expect);
  }
}

}  // namespace
}  // namespace rollcall

"""What must not be there, held by reading the tree and the binaries.

Each rule takes files (a path and its text) and returns the places that break
it as "file:line: why". Each is also fed a sample that breaks it: a rule that
cannot fail holds nothing.

Two absences are not held here, since no text search could: that nothing calls
out while it holds a lock rests on clang's thread-safety analysis and on
review; that no state only grows rests on the checks of daemon/core/limits.h,
their tests, and review.
"""
import glob
import os
import re
import subprocess
import sys
import unittest
import unittest.mock

PROJECT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
BIN = os.path.abspath(os.environ.get(
    "ROLLCALL_BIN", os.path.join(PROJECT, "build", "dev", "bin")))

TOP_LEVEL = {
    "CMakeLists.txt", "proto", "daemon", "client", "trainer", "tests",
    "specs", "scripts", "README.md", "CMakePresets.json", "LICENSE",
    ".clang-format", ".clang-tidy", ".gitignore", ".ci",
    # Never committed: .gitignore names build, git itself .git.
    "build", ".git", ".cache",
}

# Each floor and those below it.
FLOORS = ["proto", "daemon", "client", "trainer"]

# (folder, folders that it may use): with their subfolders, itself always. Each
# row names rows above it alone. A subfolder with a row of its own is bound by
# that one.
USES = [
    ("daemon/base", []),
    ("daemon/core", ["daemon/base"]),
    ("daemon/security", ["daemon/base", "daemon/core"]),
    ("daemon/journal", ["daemon/base", "daemon/core", "daemon/security"]),
    ("daemon/server", ["daemon/base", "daemon/core", "daemon/journal",
                       "daemon/security"]),
    ("daemon", ["daemon/base", "daemon/core", "daemon/journal",
                "daemon/security", "daemon/server"]),
    ("client/facts", ["daemon/base", "daemon/core"]),
    ("client/doctor", ["client/facts", "daemon/base", "daemon/core"]),
    ("client/rank", ["daemon/base", "daemon/core"]),
    ("client/agent/core", ["daemon/base", "daemon/core"]),
    ("client/agent", ["client/agent/core", "client/doctor", "client/facts",
                      "client/rank", "daemon/base", "daemon/core",
                      "daemon/security", "daemon/server"]),
    ("client/admin", ["client/agent", "daemon/base", "daemon/core",
                      "daemon/security"]),
    ("client/launch", ["client/admin", "client/agent", "client/facts",
                       "daemon/base", "daemon/core", "daemon/journal",
                       "daemon/security"]),
    ("client/cli", ["client/admin", "client/agent", "client/doctor",
                    "client/facts", "client/launch", "daemon/base",
                    "daemon/core", "daemon/journal", "daemon/security",
                    "daemon/server"]),
    ("trainer", ["client/rank", "client/agent/nccl", "daemon/base",
                 "daemon/core"]),
]

# What the pure cores may not include, not even through another header of ours.
# <csignal> names signals and <arpa/inet.h> parses addresses: both are allowed,
# and CALLS keeps out what else they declare.
IMPURE = re.compile(
    r"^(grpc|grpcpp|grpc\+\+|absl/synchronization|absl/time/clock|sys/|netinet/"
    r"|net/|linux/)|^(thread|mutex|shared_mutex|condition_variable|future"
    r"|semaphore|stop_token|latch|barrier|chrono|ctime|time\.h|fstream|iostream"
    r"|filesystem|random|unistd\.h|fcntl\.h|poll\.h|dlfcn\.h|netdb\.h"
    r"|ifaddrs\.h|pthread\.h)$|\.grpc\.pb\.h$")

# Calls that read a clock, draw chance or reach the system, wherever their
# header came from.
CALLS = re.compile(
    r"(?<![\w.>])(socket|kill|raise|sigaction|getenv)\("
    r"|(?<!\w)::(open|connect)\("
    r"|\babsl::Now\(|\bMonotonicNow\(|_clock::now\(|\bclock_gettime\(|"
    r"\bgettimeofday\(|\btime\((NULL|nullptr|0)\)|\brandom_device\b|\brand\(")

SLEEPS = re.compile(
    r"\bsleep_for\(|\bsleep_until\(|\busleep\(|\bnanosleep\(|"
    r"\babsl::SleepFor\(|(?<![\w.:])sleep\(|\btime\.sleep\(")

# A file may sleep where there is no event to await: path -> why.
SLEEPS_JUSTIFIED = {
    "trainer/checkpointing.cc":
        "another process saves in a folder, maybe on another machine",
    "client/agent/node_files/run_folder.cc":
        "another agent's lock has no end that could be awaited with a bound",
}

# C functions that start a shell on a string.
SHELLS = re.compile(r"(?<![\w.:>])(system|popen)\(|std::system\(|"
                    r"\bos\.system\(|shell=True")

# Channels and servers that do not begin with the shared arguments.
BARE_CHANNEL = re.compile(
    r"grpc::ChannelArguments(\(\)| \w+;)|grpc::CreateChannel\(")
BARE_SERVER = re.compile(r"grpc::ServerBuilder \w+;(?!\s*(SetDefaults|"
                         r"Configure)\()")
DEFAULTS = "daemon/base/grpc/grpc_defaults.h"

# A literal port where something listens or dials. 0 asks for a free one.
FIXED_PORT = re.compile(
    r"(?:localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1?\]):(?!0\b)\d{2,5}\b|"
    r"\bbind\(\(['\"][^'\"]*['\"], *(?!0\b)\d+|--listen[ =]\S*:(?!0\b)\d{2,5}")

# (file, text) -> why it is no port that anybody takes.
PORTS_JUSTIFIED = {
    ("tests/unit/cli/cli_test.cc", "[::1]:80"): "parsed, never dialled",
    ("tests/unit/journal/etcd_records_test.cc", "[::1]:2379"): "parsed, never dialled",
    ("tests/unit/agent/nccl_test.cc", "127.0.0.1:23456"):
        "a NCCL_COMM_ID that must be cleared",
    ("tests/unit/server/server_test.cc", "127.0.0.1:65536"): "no port at all",
    ("tests/unit/server/listener_test.cc", "127.0.0.1:65536"): "no port at all",
    ("tests/unit/security/join_string_test.cc", "127.0.0.1:29400"):
        "parsed, never dialled",
    ("tests/unit/security/join_string_test.cc", "[::1]:29400"):
        "parsed, never dialled",
    ("tests/unit/security/join_string_test.cc", "0.0.0.0:29400"):
        "parsed, never dialled",
    ("tests/unit/security/join_string_test.cc", "localhost:29400"):
        "parsed, never dialled",
    ("tests/unit/security/join_string_test.cc", "[::]:29400"):
        "parsed, never dialled",
    ("tests/unit/security/join_string_test.cc", "127.0.0.1:80"):
        "parsed, never dialled",
    ("tests/unit/security/join_string_test.cc", "[::1]:80"):
        "parsed, never dialled",
    ("tests/unit/security/join_string_test.cc", "localhost:80"):
        "parsed, never dialled",
}

# Files that look at what came in from outside: nothing there may abort.
INPUT = re.compile(
    r"^daemon/base/(lines|printable)"
    r"|^daemon/core/(admission/|job/|exchange|network_plan/)"
    r"|^daemon/security/|^daemon/journal/"
    r"|^daemon/server/(membership_service|admin_service|leader/succession"
    r"|front_door/peer_address)"
    r"|^client/(facts|doctor|admin|cli|launch|rank)/"
    r"|^client/agent/(core/agent|hosts/|link/(daemon_stream|named_leader)|nccl/nccl\."
    r"|nccl/network_settings|node_files/(rank_folders|world_files)|rank_service/"
    r"|processes/(error_file|stack_dump))"
    r"|^trainer/data/(dataset|shard_header)"
    r"|^trainer/(options|checkpoint/|collective/|cuda/nccl|"
    r"check/(check_options|thresholds))")
# What is checked there is not from outside: (file, the line) -> why.
CHECKS_JUSTIFIED = {
    ("daemon/security/digest.cc", "CHECK_GT(got, 0);"):
        "the system's random numbers: without them there is no secret",
    ("daemon/security/digest.cc", "CHECK(HMAC("):
        "fails for want of memory alone, whatever the key and the text",
    ("daemon/security/digest.cc", "CHECK_EQ(size, digest.size());"):
        "SHA-256 has the size that it has",
    ("daemon/security/digest.cc", "CHECK(kdf != nullptr);"):
        "part of every OpenSSL 3",
    ("daemon/security/digest.cc", "CHECK(context != nullptr);"):
        "fails for want of memory alone",
    ("daemon/security/digest.cc", "CHECK_GT(EVP_KDF_derive("):
        "of a secret that Parse has measured, for a size that we chose",
    ("daemon/security/value_sealer.cc", "CHECK(context != nullptr);"):
        "fails for want of memory alone",
    ("daemon/security/value_sealer.cc", "CHECK(done);"):
        "fails for want of memory alone: sizes are bounded before",
    ("trainer/data/dataset.cc", "CHECK_LE(out.size(), tokens_);"):
        "offset and size come from our sampler",
    ("trainer/data/dataset.cc", "CHECK_LE(offset, tokens_ - out.size());"):
        "offset and size come from our sampler",
    ("client/agent/core/agent.cc", "CHECK_NE(hello.incarnation(), 0u);"):
        "drawn by ourselves, never zero",
    ("client/agent/core/agent.cc", "CHECK_GE(now, now_);"):
        "our shell's monotonic clock",
    ("daemon/core/job/job_restore.cc", "CHECK_GE(nodes_min_, 1u);"):
        "settings are checked at admission, a journal's by CheckJournal",
    ("daemon/core/job/job_restore.cc", "CHECK_LE(nodes_min_, nodes_max_);"):
        "settings are checked at admission, a journal's by CheckJournal",
    ("daemon/core/job/job_restore.cc",
     "CHECK_LE(nodes_max_, Limits::nodes_max);"):
        "settings are checked at admission, a journal's by CheckJournal",
    ("daemon/core/job/job_restore.cc", "CHECK(!state.end.has_value());"):
        "CheckJournal, which comes before, refuses a run that has ended",
    ("daemon/core/job/job.cc", "CHECK_GE(now, now_);"):
        "our shell's monotonic clock",
    ("daemon/core/job/job.cc", "CHECK_LE(barred_.size(), sessions_.size());"):
        "an invariant of ours, whatever the input was",
    ("daemon/core/job/job.cc", "CHECK_LE(nodes_.size(), kKnownMax);"):
        "an invariant of ours, whatever the input was",
    ("daemon/core/job/job.cc", "CHECK_LE(deadlines_.size(), nodes_.size());"):
        "an invariant of ours, whatever the input was",
    ("daemon/core/job/job.cc",
     "CHECK_LE(failures_.causes().size(), Limits::causes_max);"):
        "an invariant of ours, whatever the input was",
    ("daemon/core/job/job.cc",
     "CHECK((node.session == 0) || sessions_.contains(node.session));"):
        "an invariant of ours, whatever the input was",
    ("daemon/core/job/job.cc", "CHECK(seats.insert(node.seat).second);"):
        "seats are given by ourselves",
    ("daemon/core/job/job.cc",
     "CHECK_LT(static_cast<uint32_t>(node.seat), nodes_max_);"):
        "seats are given by ourselves",
    ("daemon/core/job/job.cc", "CHECK_EQ(world_.generation(), generation_);"):
        "both were just set by ourselves",
    ("daemon/core/job/job.cc",
     "CHECK_LE(notices_.leaving().size(), nodes_.size());"):
        "only known nodes are put there, and go from both together",
    ("daemon/core/job/job.cc", "CHECK_LE(reach_.size(), nodes_.size());"):
        "its entries are nodes of nodes_, and go when a node is gone",
    ("daemon/core/job/job.cc", "CHECK_LE(checking_.size(), nodes_.size());"):
        "only living nodes are asked, and one that parts is struck off",
    ("daemon/core/job/job.cc",
     "CHECK_LE(hangs_.size(), world_.world_size());"):
        "by rank of the world, for local ranks that its nodes have",
    ("daemon/core/job/job.cc",
     "CHECK_LE(newcomers_.names(), Limits::newcomer_names_max);"):
        "a further name is counted with the others",
    ("daemon/core/job/job.cc",
     "CHECK_LE(isolation_.silent(), nodes_.size());"):
        "members are put there, and go when it is known what became of them",
    ("daemon/core/job/job.cc",
     "CHECK_LE(claimants_.size(), Limits::nodes_max);"):
        "a claim beyond that is refused",
    ("daemon/core/job/job.cc",
     "CHECK_LE(claims_.size(), Limits::claimed_worlds_max);"):
        "a claim of one more world is refused",
    ("daemon/core/job/job_notice.cc", "CHECK(phase_ == Phase::kRunning);"):
        "all who ask look at the phase first, which is ours",
    ("daemon/core/network_plan/newcomer_verdict.cc",
     "CHECK_LT(left.size(), nodes.size());"):
        "a newcomer is left in each pass, and each pass removes at least one",
    ("daemon/core/job/job_attend.cc",
     "CHECK(node.deadline == absl::InfiniteFuture());"):
        "a node that attends anew is an absent one or none: judged before",
    ("daemon/core/job/job_end.cc", "CHECK(phase_ != Phase::kEnded);"):
        "a job's phase is ours; a message after its end gets a Refusal",
    ("daemon/core/job/job_form.cc", "CHECK(!names.empty());"):
        "called while somebody is unprepared, and not otherwise",
    ("daemon/core/job/job_form.cc",
     "CHECK(phase_ == Phase::kForming || phase_ == Phase::kRunning);"):
        "a job's phase is ours",
    ("daemon/core/exchange.cc", "CHECK_LT(node_rank, ranks_.size());"):
        "the rank that we gave the session, never the message's",
}
ABORTS = re.compile(r"(?<!\w)(CHECK(_\w+)?|assert|GPR_ASSERT|LOG\(FATAL)\s*\(|"
                    # Not a message's abort(), nor a method of that name.
                    r"(?<![\w.>:])abort\s*\((?!\)\s*const)|"
                    r"std::terminate\(|std::abort\(")

# What an agent does for its daemon is fixed by the message's kind: no field
# may tell it what to execute. The command's digest alone is known, and it
# travels the other way.
ORDERS = re.compile(
    r"(command|argv|args|exec|executable|shell|script|program)(_\w+)?",
    re.IGNORECASE)

# Opened at run time, never linked.
NEVER_LINKED = re.compile(
    r"lib(nccl|nvidia-ml|cuda|cudart|cublas|ibverbs|rdmacm|mlx5)\b")


def without_comments(text):
    """C++ with comments blanked, line ends kept, strings left alone."""
    return re.sub(
        r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/',
        lambda m: m[0] if m[0][0] == '"' else re.sub(r"[^\n]", " ", m[0]),
        text, flags=re.S)


def places(files, pattern, why, clean=without_comments):
    found = []
    for path, text in sorted(files.items()):
        for number, line in enumerate(clean(text).split("\n"), 1):
            match = pattern.search(line)
            if match:
                found.append(f"{path}:{number}: {match[0].strip()}: {why}")
    return found


def excused(path, text, justified):
    """`text` without what is justified in that file."""
    for where, words in justified:
        if where == path:
            text = text.replace(words, "")
    return text


def includes(text):
    """[(line, name)] of all #include lines."""
    return [(number, match[1])
            for number, line in enumerate(
                without_comments(text).split("\n"), 1)
            for match in [re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]',
                                   line)] if match]


# --- The rules ----------------------------------------------------------------

def is_pure(path):
    return re.match(r"(daemon|client/agent)/core/.*\.(h|cc)$",
                    path) is not None


def impure_includes(files):
    """The cores include no gRPC, thread, clock, file or socket, however far
    down."""
    found = []

    def walk(path, chain, seen):
        for line, name in includes(files.get(path, "")):
            where = f"{path}:{line}"
            way = "".join(f" <- {c}" for c in reversed(chain))
            if IMPURE.search(name):
                found.append(f"{where}: <{name}> in a pure core{way}")
            # And what stands behind a header of ours.
            for one in (name, re.sub(r"\.h$", ".cc", name)):
                if one in files and one not in seen:
                    seen.add(one)
                    walk(one, chain + [where], seen)
    for path in sorted(files):
        if is_pure(path):
            walk(path, [], {path})
    return found


def calls_in_cores(files):
    """The cores take `now` as an argument, chance with the event, and touch
    nothing."""
    return places({p: t for p, t in files.items() if is_pure(p)}, CALLS,
                  "time, chance and the world come in with the event")


def upward_includes(files):
    """trainer -> client -> daemon -> proto."""
    found = []
    for path, text in sorted(files.items()):
        floor = path.split("/")[0]
        if floor not in FLOORS:
            continue
        for line, name in includes(text):
            other = name.split("/")[0]
            if other in ("tests",) or (
                    other in FLOORS
                    and FLOORS.index(other) > FLOORS.index(floor)):
                found.append(f"{path}:{line}: {name}: {floor} may use only "
                             "what lies below it")
    return found


def folder_uses(files):
    """{folder: {folder that it includes from: the first file:line that does}},
    of our folders that have code."""
    code = {p: t for p, t in files.items()
            if p.split("/")[0] in FLOORS
            and p.endswith((".h", ".cc"))}
    folders = {os.path.dirname(p) for p in code}
    uses = {folder: {} for folder in folders}
    for path, text in sorted(code.items()):
        for line, name in includes(text):
            own, other = os.path.dirname(path), os.path.dirname(name)
            if other in folders and other != own:
                uses[own].setdefault(other, f"{path}:{line}")
    return uses


def way(uses, start, end):
    """The folders of a shortest way from one to the other; none: []."""
    ways, seen = [[start]], {start}
    for at in ways:
        for other in sorted(uses.get(at[-1], {})):
            if other == end:
                return at + [other]
            if other not in seen:
                seen.add(other)
                ways.append(at + [other])
    return []


def folder_cycles(files):
    """No include cycle between folders."""
    uses, found, told = folder_uses(files), [], set()
    for folder in sorted(uses):
        cycle = way(uses, folder, folder)
        if cycle and frozenset(cycle) not in told:
            told.add(frozenset(cycle))
            found.append(f"{uses[cycle[0]][cycle[1]]}: folders include each "
                         f"other: {' -> '.join(cycle)}")
    return found


def lies_in(folder, other):
    return folder == other or folder.startswith(other + "/")


def forbidden_uses(files, table=None):
    """Each folder uses what USES allows; a folder without a row has to get
    one."""
    table, found = USES if table is None else table, []
    for folder, uses in sorted(folder_uses(files).items()):
        rows = [row for row in table if lies_in(folder, row[0])]
        if not rows:
            found.append(f"{folder}:1: no row of USES says what it may use")
            continue
        own, allowed = max(rows, key=lambda row: len(row[0]))
        for other, where in sorted(uses.items()):
            if not any(lies_in(other, one) for one in [own] + allowed):
                found.append(f"{where}: {own} may not use {other}")
    return found


def more_than_absl(files):
    """daemon/base includes neither gRPC nor messages of ours; its subfolder
    grpc, a library of its own, may."""
    return [f"{path}:{line}: <{name}>: daemon/base links absl only"
            for path, text in sorted(files.items())
            if os.path.dirname(path) == "daemon/base"
            for line, name in includes(text)
            if re.match(r"grpc|rollcall/|etcd/|daemon/base/grpc/", name)]


def sleeps(files):
    """Nothing waits by sleeping where an event can be awaited."""
    return places({p: t for p, t in files.items()
                   if p not in SLEEPS_JUSTIFIED},
                  SLEEPS, "await the event", clean=as_code)


def shells(files):
    """Nothing hands a string to a shell."""
    return places(files, SHELLS, "start the program itself", clean=as_code)


def bare_channels(files):
    """Each channel and server begins with the arguments that turn message
    compression off."""
    ours = {p: t for p, t in files.items()
            if p != DEFAULTS and p.split("/")[0] in FLOORS}
    found = places(ours, BARE_CHANNEL, "begin with DefaultChannelArguments()")
    for path, text in sorted(ours.items()):
        for match in BARE_SERVER.finditer(without_comments(text)):
            line = text.count("\n", 0, match.start()) + 1
            found.append(f"{path}:{line}: call SetDefaults first")
    return found


def fixed_ports(files):
    """No test listens on or dials a port that it did not ask the system for."""
    return places({p: excused(p, as_code(t), PORTS_JUSTIFIED)
                   for p, t in files.items() if p.startswith("tests/")},
                  FIXED_PORT, "ask for port 0", clean=str)


def aborts_on_input(files):
    """Nothing from network, file, environment or flag reaches an abort."""
    return places({p: excused(p, without_comments(t), CHECKS_JUSTIFIED)
                   for p, t in files.items() if INPUT.search(p)},
                  ABORTS, "what comes from outside gets a Status", clean=str)


def messages(files):
    """Name -> [(file:line, type, field)] of all messages in .proto files; a
    nested one by its own name."""
    found = {}
    for path, text in sorted(files.items()):
        if not path.endswith(".proto"):
            continue
        blocks = []
        for number, line in enumerate(without_comments(text).split("\n"), 1):
            for piece in re.findall(r"[^{};]*[{};]", line):
                opened = re.match(r"\s*(message|\w+)\s+(\w+).*\{$", piece)
                declared = re.match(
                    r"\s*(?:repeated |optional )?(map<[^>]*>|[\w.]+)\s+(\w+)"
                    r"\s*=\s*\d+", piece)
                if piece.endswith("{"):
                    # A oneof's fields are those of its message.
                    is_message = opened and opened[1] == "message"
                    is_oneof = opened and opened[1] == "oneof"
                    blocks.append(opened[2] if is_message else
                                  blocks[-1] if is_oneof and blocks else None)
                    if is_message:
                        found.setdefault(opened[2], [])
                elif piece.endswith("}"):
                    blocks.pop()
                elif declared and blocks and blocks[-1]:
                    found[blocks[-1]].append(
                        (f"{path}:{number}", declared[1], declared[2]))
    return found


def orders(files, root="DaemonMessage"):
    """No message that a daemon sends says what to execute, however deep."""
    known, found = messages(files), []
    todo, seen = [root], {root}
    while todo:
        for where, kind, name in known.get(todo.pop(), []):
            if ORDERS.fullmatch(name):
                found.append(f"{where}: {name}: the daemon names no command")
            for part in re.findall(r"\w+", kind):
                if part in known and part not in seen:
                    seen.add(part)
                    todo.append(part)
    # A World travels as bytes in a Proposal, a Seal in a Commit.
    if root == "DaemonMessage":
        for inner in ("World", "Seal"):
            found += orders(files, inner) if inner in known else []
    return sorted(set(found))


def top_level(names):
    return [f"{name}:1: does not belong on the top level"
            for name in sorted(set(names) - TOP_LEVEL)]


def linked(binaries):
    """Binaries as executables() has them. rollcall and rollcalld start where
    none of these is installed, so nothing below them may link one either;
    what a packaged libgloo links is its own business."""
    return [f"{path}:1: links {match[0]}; open it with dlopen"
            for path, said in sorted(binaries.items())
            for match in NEVER_LINKED.finditer(said)]


def read_at_once(name):
    return name.endswith((".h", ".cc", ".c", ".py", ".sh", ".proto"))


def as_code(text):
    """Python and shell: without comment lines; C++: without comments."""
    if re.search(r'^\s*#\s*include\b|\bnamespace\b', text, re.M):
        return without_comments(text)
    return re.sub(r"^\s*#.*$", "", text, flags=re.M)


def tree():
    """Path -> text of all our code."""
    files = {}
    for folder in ("proto", "daemon", "client", "trainer", "tests",
                   "scripts"):
        for path in glob.glob(os.path.join(PROJECT, folder, "**", "*"),
                              recursive=True):
            if read_at_once(path) and os.path.isfile(path):
                with open(path, encoding="utf-8") as f:
                    files[os.path.relpath(path, PROJECT)] = f.read()
    # The patterns of this file would find themselves.
    files.pop(os.path.relpath(os.path.abspath(__file__), PROJECT))
    return files


def executables():
    """Path -> the libraries it needs: rollcall's all, others' own."""
    found = {}
    for path in glob.glob(os.path.join(BIN, "*")):
        if os.path.isfile(path) and os.access(path, os.X_OK):
            whole = os.path.basename(path) in ("rollcall", "rollcalld")
            said = subprocess.run(
                ["ldd", path] if whole else ["readelf", "-d", path],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            found[os.path.relpath(path, PROJECT)] = said.stdout
    return found


class Absences(unittest.TestCase):
    def check(self, found):
        self.assertEqual(found, [], "\n" + "\n".join(found))

    def test_the_cores_are_pure(self):
        files = tree()
        self.assertTrue([p for p in files if is_pure(p)])
        self.check(impure_includes(files) + calls_in_cores(files))

    def test_floors_use_only_what_lies_below(self):
        self.check(upward_includes(tree()))

    def test_no_cycle_between_folders(self):
        files = tree()
        self.assertIn("client/doctor", folder_uses(files)["client/cli"])
        self.check(folder_cycles(files))

    def test_folders_use_what_the_design_allows(self):
        self.check(forbidden_uses(tree()))

    def test_base_links_absl_only(self):
        self.check(more_than_absl(tree()))

    def test_nothing_sleeps(self):
        self.check(sleeps(tree()))

    def test_no_shell_on_a_string(self):
        self.check(shells(tree()))

    def test_every_channel_and_server_has_the_defaults(self):
        self.check(bare_channels(tree()))

    def test_no_fixed_port_in_tests(self):
        self.check(fixed_ports(tree()))

    def test_no_input_reaches_an_abort(self):
        self.check(aborts_on_input(tree()))

    def test_no_daemon_says_what_to_execute(self):
        files = tree()
        known = messages(files)
        self.assertIn("proposal", [n for _, _, n in known["DaemonMessage"]])
        self.assertIn("members", [n for _, _, n in known["World"]])
        self.check(orders(files))

    def test_no_excuse_outlives_its_cause(self):
        files = tree()
        self.check([f"{path}: no `{words}` there: {why}; strike it out"
                    for table in (CHECKS_JUSTIFIED, PORTS_JUSTIFIED)
                    for (path, words), why in table.items()
                    if words not in files.get(path, "")])

    # Otherwise it is found out by a run that takes an hour.
    def test_each_deliberate_fault_can_be_put_in(self):
        folder = os.path.join(PROJECT, "tests", "sim")
        with unittest.mock.patch.object(sys, "path", [folder] + sys.path):
            import faults  # pylint: disable=import-outside-toplevel
        files = tree()
        self.assertTrue(faults.FAULTS)
        self.check([f"tests/sim/faults.py: {fault.name}: not once in {path}: "
                    f"{old}"
                    for fault in faults.FAULTS
                    for path, old, _ in fault.edits
                    if files[path].count(old) != 1])

    def test_the_top_level_holds_what_was_agreed(self):
        names = set(os.listdir(PROJECT))
        if os.path.exists(os.path.join(PROJECT, ".git")):
            listed = subprocess.run(
                ["git", "-C", PROJECT, "ls-files"], check=True, text=True,
                stdout=subprocess.PIPE).stdout.split("\n")
            names = {p.split("/")[0] for p in listed if p}
        self.check(top_level(names))

    def test_what_is_opened_at_run_time_is_not_linked(self):
        found = executables()
        self.assertTrue(found, f"no binaries in {BIN}")
        self.check(linked(found))


GLIBC = re.compile(r"\bGLIBC_(\d+)\.(\d+)")


def needed(path):
    """The shared libraries that a binary names itself."""
    said = subprocess.run(["readelf", "-d", path], check=True, text=True,
                          stdout=subprocess.PIPE).stdout
    return re.findall(r"\(NEEDED\).*\[(.*)\]", said)


def newest_glibc(symbols):
    """Of what `objdump -T` or `readelf` prints, as (2, 35)."""
    return max(tuple(map(int, m)) for m in GLIBC.findall(symbols))


class Release(unittest.TestCase):
    """What README.md says of the one binary that is shipped."""

    def setUp(self):
        self.binary = os.path.join(BIN, "rollcall")
        others = [name for name in needed(self.binary) if not re.match(
            r"(libc|libm|libdl|librt|libpthread|libresolv|ld-linux.*)\.so",
            name)]
        if others:
            self.skipTest(f"{self.binary} is no release: it needs {others[0]}")

    def test_the_oldest_c_library_is_the_one_that_is_named(self):
        with open(os.path.join(PROJECT, "README.md"), encoding="utf-8") as f:
            said = re.search(r"built on Debian (\d+) its newest\s+symbol is of "
                             r"GLIBC_(\d+)\.(\d+)", f.read())
        self.assertIsNotNone(said)
        with open("/etc/os-release", encoding="utf-8") as f:
            here = f.read()
        symbols = subprocess.run(
            ["objdump", "-T", self.binary], check=True, text=True,
            stdout=subprocess.PIPE).stdout
        if f'VERSION_ID="{said[1]}"' not in here or "ID=debian" not in here:
            self.skipTest(f"README.md has the figure of Debian {said[1]}; here "
                          f"it is {newest_glibc(symbols)}")
        self.assertEqual(newest_glibc(symbols), (int(said[2]), int(said[3])))


class EachRuleCanFail(unittest.TestCase):
    def assert_finds(self, found, *starts):
        self.assertEqual([f.split(": ")[0] for f in found], list(starts))

    def test_pure(self):
        self.assert_finds(impure_includes({
            "daemon/core/x.cc": '#include "daemon/core/x.h"\n',
            "daemon/core/x.h": '// <thread>\n#include "daemon/server/y.h"\n',
            "daemon/server/y.h": "#include <mutex>\n#include <vector>\n"}),
            "daemon/server/y.h:1", "daemon/server/y.h:1")
        self.assert_finds(impure_includes({
            "client/agent/core/agent.h": "\n#include <grpcpp/grpcpp.h>\n",
            "client/agent/session.h": "#include <thread>\n"}),
            "client/agent/core/agent.h:2")
        self.assert_finds(impure_includes({
            "daemon/core/x.cc": '#include "daemon/base/y.h"\n',
            "daemon/base/y.h": "",
            "daemon/base/y.cc": "#include <unistd.h>\n"}),
            "daemon/base/y.cc:1")
        self.assert_finds(calls_in_cores({
            "daemon/core/x.cc": "// absl::Now()\nauto t = absl::Now();\n"}),
            "daemon/core/x.cc:2")

    def test_floors(self):
        self.assert_finds(upward_includes({
            "daemon/a.cc": '#include "client/b.h"\n#include "proto/c.h"\n',
            "client/b.cc": '#include "daemon/a.h"\n#include "tests/t.h"\n'}),
            "client/b.cc:2", "daemon/a.cc:1")

    def test_folder_cycles(self):
        self.assert_finds(folder_cycles({
            "client/a/x.cc": '#include "client/b/y.h"\n',
            "client/b/y.h": '\n#include "client/c/z.h"\n',
            "client/c/z.h": '#include <vector>\n'
                            '#include "client/a/x.h"\n',
            "client/d/w.cc": '#include "client/a/x.h"\n'}),
            "client/a/x.cc:1")
        # A parent and its child, and a folder that is no one's.
        self.assert_finds(folder_cycles({
            "daemon/a/x.h": '#include "daemon/a/b/y.h"\n',
            "daemon/a/b/y.h": '#include "daemon/a/x.h"\n'
                              '#include "rollcall/v1/a.pb.h"\n'}),
            "daemon/a/x.h:1")

    def test_forbidden_uses(self):
        table = [("daemon/a", []), ("daemon/b", ["daemon/a"]),
                 ("daemon/b/pure", [])]
        self.assert_finds(forbidden_uses({
            "daemon/a/x.h": '#include "daemon/b/y.h"\n',
            "daemon/b/y.h": '#include "daemon/a/x.h"\n'
                            '#include "daemon/b/pure/z.h"\n',
            "daemon/b/pure/z.h": '\n#include "daemon/a/x.h"\n',
            "daemon/bb/w.h": ''}, table),
            "daemon/a/x.h:1", "daemon/b/pure/z.h:2", "daemon/bb:1")
        # Rows name what stands above them.
        above = []
        for folder, allowed in USES:
            for one in allowed:
                self.assertTrue([row for row in above if lies_in(one, row)],
                                f"{folder}: {one}")
            above.append(folder)

    def test_base(self):
        self.assert_finds(more_than_absl({
            "daemon/base/x.h": "#include <grpcpp/grpcpp.h>\n"
                               '#include "absl/time/time.h"\n',
            "daemon/base/y.cc": '#include "rollcall/v1/admin.pb.h"\n',
            "daemon/base/grpc/z.cc": "#include <grpcpp/grpcpp.h>\n"}),
            "daemon/base/x.h:1", "daemon/base/y.cc:1")

    def test_sleeps(self):
        self.assert_finds(sleeps({
            "client/a.cc": "#include <x>\n"
                           "std::this_thread::sleep_for(x);\n// usleep(1)\n",
            "tests/b.py": "import time\ntime.sleep(1)\n# time.sleep(2)\n"}),
            "client/a.cc:2", "tests/b.py:2")

    def test_shells(self):
        self.assert_finds(shells({
            "client/a.cc": '#include <x>\nstd::system("ls");\n',
            "tests/b.py": "subprocess.run('ls', shell=True)\n"}),
            "client/a.cc:2", "tests/b.py:1")

    def test_bare_channels(self):
        for text in ("grpc::ChannelArguments arguments;",
                     "f(grpc::ChannelArguments());",
                     "grpc::CreateChannel(a, b);",
                     "grpc::ServerBuilder builder;\nbuilder.Build();"):
            self.assertEqual(len(bare_channels({"client/x.cc": text})), 1, text)
        for text in ("grpc::ChannelArguments a = DefaultChannelArguments();",
                     "grpc::ServerBuilder builder;\n  SetDefaults(builder);"):
            self.assertEqual(bare_channels({"client/x.cc": text}), [], text)

    def test_ports(self):
        self.assert_finds(fixed_ports({
            "tests/a.cc": '#include <x>\nDial("127.0.0.1:5000");\n'
                          'Listen("127.0.0.1:0");\n',
            "tests/b.py": "s.bind(('', 8080))\ns.bind(('', 0))\n"}),
            "tests/a.cc:2", "tests/b.py:1")

    def test_aborts(self):
        self.assert_finds(aborts_on_input({
            "daemon/core/admission/admission.cc": "CHECK(x);\n// CHECK(y)\n",
            "daemon/core/formation/world.cc": "CHECK(x);\n",
            "daemon/core/job/job.cc": "CHECK(x);\n  CHECK_GE(now, now_);\n",
            "client/agent/core/agent.cc": "m.abort();\nm->abort();\n",
            "client/facts/gpu.cc": "\n  abort();\n"}),
            "client/facts/gpu.cc:2", "daemon/core/admission/admission.cc:1",
            "daemon/core/job/job.cc:1")

    def test_orders(self):
        self.assert_finds(orders({
            "proto/a.proto": "message AgentMessage { bytes command = 1; }\n"
                             "message DaemonMessage { oneof kind {\n"
                             "  Work work = 1; } }\n"
                             "message Work {\n  // string shell = 2;\n"
                             "  repeated string argv = 1;\n}\n"
                             "message World { string exec_path = 1; }\n"}),
            "proto/a.proto:6", "proto/a.proto:8")

    def test_top_level(self):
        self.assert_finds(top_level(["daemon", "notes.txt"]), "notes.txt:1")

    def test_glibc(self):
        self.assertEqual(newest_glibc(
            "0 DF *UND* 0 (GLIBC_2.9) a\n0 DF *UND* 0 (GLIBC_2.34) b\n"
            "0 DF *UND* 0 (GLIBCXX_3.4.30) c\n"), (2, 34))

    def test_linked(self):
        self.assert_finds(linked({
            "bin/rollcall": "\tlibc.so.6 => x\n\tlibnccl.so.2 => y\n",
            "bin/other": "\tlibm.so.6 => x\n"}), "bin/rollcall:1")


if __name__ == "__main__":
    unittest.main(verbosity=2)

// rollcall_sim: plays runs of the two cores from seeds.
//
//   rollcall_sim --seed S [--nodes N] [--trace]   one run, step by step
//   rollcall_sim --seeds A:B [--seconds T] [--json] [--floors]
//                                                 many; stops at the first that
//                                                 breaks a promise, and shows
//                                                 at the end how often each was
//                                                 tested
//   rollcall_sim --journal FOLDER [--job ID] [--seeds A:B] [--trace]
//                                                 runs that go on from what a
//                                                 daemon journaled there: all
//                                                 of its agents have died
//   rollcall_sim --group ...                      as above, of several daemons
//                                                 that share a store
//   rollcall_sim --list                           the promises
//
// --json: prints the summary of many runs as one JSON object in one line.
// --floors: 20,000 runs or more have to test each promise as often as reach.cc
// requires.
//
// Exit status: 0: all promises held; 1: one was broken (the last line is the
// command that replays it), or one was tested too seldom for --floors; 2: the
// command line is wrong.
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "daemon/journal/sqlite_journal.h"
#include "tests/sim/reach.h"
#include "tests/sim/simulation.h"

namespace rollcall::sim {
namespace {

// The text that is printed when a core aborts. It is prepared here because a
// signal handler may only call write.
char replay[256];
constexpr uint64_t kSeedsOfAJournal = 1000;

void SetReplay(const SimulationOptions& options) {
  const std::string text = absl::StrCat(
      "replay: rollcall_sim --seed ", options.seed,
      options.nodes != 0 ? absl::StrCat(" --nodes ", options.nodes) : "",
      options.journal.has_value() ? " --journal FOLDER" : "",
      options.group ? " --group" : "", " --trace\n");
  strncpy(replay, text.c_str(), sizeof(replay) - 1);
}

void OnAbort(int) {
  if (write(STDOUT_FILENO, replay, strlen(replay)) < 0) _exit(1);
  _exit(1);
}

struct Wanted {
  uint64_t from = 0;
  uint64_t to = 0;
  bool many = false;
  bool json = false;
  bool floors = false;
  double seconds = 0;
  std::string journal;
  std::string job;
  SimulationOptions options;
};

// Returns nothing if the command line is wrong.
std::optional<Wanted> Read(const std::vector<std::string>& arguments) {
  Wanted wanted;
  bool ok = !arguments.empty();
  for (size_t i = 0; i < arguments.size() && ok; ++i) {
    const std::string& flag = arguments[i];
    if (flag == "--trace" || flag == "--json" || flag == "--floors" ||
        flag == "--group") {
      wanted.options.trace = wanted.options.trace || flag == "--trace";
      wanted.options.group = wanted.options.group || flag == "--group";
      wanted.json = wanted.json || flag == "--json";
      wanted.floors = wanted.floors || flag == "--floors";
      continue;
    }
    if (++i == arguments.size()) return std::nullopt;
    const std::string& value = arguments[i];
    if (flag == "--seed") {
      ok = absl::SimpleAtoi(value, &wanted.from);
      wanted.to = wanted.from + 1;
    } else if (flag == "--seeds") {
      const std::vector<std::string> ends = absl::StrSplit(value, ':');
      ok = ends.size() == 2 && absl::SimpleAtoi(ends[0], &wanted.from) &&
           absl::SimpleAtoi(ends[1], &wanted.to) && wanted.from < wanted.to;
      wanted.many = true;
    } else if (flag == "--nodes") {
      ok = absl::SimpleAtoi(value, &wanted.options.nodes) &&
           wanted.options.nodes <= 200;
    } else if (flag == "--journal") {
      wanted.journal = value;
    } else if (flag == "--job") {
      wanted.job = value;
    } else if (flag == "--seconds") {
      ok = absl::SimpleAtod(value, &wanted.seconds);
    } else {
      ok = false;
    }
  }
  // With a journal and no seeds given, as many runs as show the effects of
  // chance.
  if (!wanted.journal.empty() && wanted.to == 0) {
    wanted.to = kSeedsOfAJournal;
    wanted.many = true;
  }
  ok = ok && (!wanted.options.group || wanted.journal.empty());
  return ok ? std::optional<Wanted>(wanted) : std::nullopt;
}

// Reads the run of a production journal with the code that a daemon uses.
absl::StatusOr<JournaledRun> ReadJournal(const Wanted& wanted) {
  absl::StatusOr<StateFolder> folder = StateFolder::Open(wanted.journal);
  if (!folder.ok()) return folder.status();
  auto journal = SqliteJournal::Open(*std::move(folder));
  if (!journal.ok()) return journal.status();
  absl::StatusOr<std::vector<JournaledRun>> runs = (*journal)->LoadAll();
  if (!runs.ok()) return runs.status();
  std::string names;
  for (JournaledRun& run : *runs) {
    const bool wished =
        wanted.job.empty() ? runs->size() == 1 : run.job == wanted.job;
    if (!wished) {
      absl::StrAppend(&names, names.empty() ? "" : ", ", run.job);
      continue;
    }
    absl::Status fits = Job::CheckJournal(run.state);
    if (!fits.ok()) return fits;
    return std::move(run);
  }
  return absl::NotFoundError(absl::StrCat(
      wanted.journal, ": expected one job, or one that --job names; found ",
      names.empty() ? "none" : names));
}

double Seconds(Nanos nanos) {
  return absl::ToDoubleSeconds(absl::Nanoseconds(nanos));
}

// The results of many runs.
struct Sum {
  uint64_t seeds = 0;
  uint64_t events = 0;
  uint64_t generations = 0;
  uint64_t faults = 0;
  // The number of runs in which ranks of an older world were alive beside a
  // newer world that has none of its machines and had completed a step; and the
  // longest such time.
  uint64_t overlaps = 0;
  Nanos overlap_max = 0;
  std::map<std::string, uint64_t> ends;
  Reach reach;

  explicit Sum(bool group) : reach(group) {}
};

void Print(const Sum& sum) {
  std::string text =
      absl::StrCat(sum.seeds, " seeds green, ", sum.events, " events, ",
                   sum.faults, " faults, ", sum.generations, " generations\n");
  for (const auto& [end, count] : sum.ends) {
    absl::StrAppendFormat(&text, "  %8d %s\n", count, end);
  }
  absl::StrAppendFormat(&text,
                        "overlap of worlds without a common machine: %d runs, "
                        "%.1f s at most\n",
                        sum.overlaps, Seconds(sum.overlap_max));
  std::fputs(text.c_str(), stdout);
}

void PrintJson(const Sum& sum) {
  std::string text = absl::StrCat(
      "{\"seeds\": ", sum.seeds, ", \"events\": ", sum.events,
      ", \"faults\": ", sum.faults, ", \"generations\": ", sum.generations,
      ", \"overlap_runs\": ", sum.overlaps,
      ", \"overlap_max_s\": ", Seconds(sum.overlap_max), ", \"ends\": {");
  for (const auto& [end, count] : sum.ends) {
    absl::StrAppend(&text, end == sum.ends.begin()->first ? "" : ", ", "\"",
                    end, "\": ", count);
  }
  absl::StrAppend(&text, "}, \"promises\": ", sum.reach.Json(), "}\n");
  std::fputs(text.c_str(), stdout);
}

int Play(Wanted wanted) {
  const auto began = std::chrono::steady_clock::now();
  const std::clock_t cpu_began = std::clock();
  const auto passed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() -
                                         began)
        .count();
  };
  Sum sum(wanted.options.group);
  for (uint64_t seed = wanted.from; seed < wanted.to; ++seed) {
    if (wanted.seconds > 0 && passed() >= wanted.seconds) break;
    wanted.options.seed = seed;
    SetReplay(wanted.options);
    const Outcome outcome = Simulation(wanted.options).Run();
    ++sum.seeds;
    sum.events += outcome.events;
    sum.generations += outcome.generations;
    sum.faults += outcome.faults;
    sum.overlaps += outcome.overlap > 0;
    sum.overlap_max = std::max(sum.overlap_max, outcome.overlap);
    ++sum.ends[outcome.end];
    sum.reach.Add(outcome.tested);
    if (!outcome.ok) {
      std::printf("seed %llu: %s\n%s", static_cast<unsigned long long>(seed),
                  outcome.verdict.c_str(), replay);
      return 1;
    }
  }
  const double seconds = passed();
  if (wanted.json) {
    PrintJson(sum);
  } else {
    Print(sum);
    if (wanted.many) std::fputs(sum.reach.Table().c_str(), stdout);
  }
  if (wanted.many && !wanted.json) {
    // CPU time of this process, because others may use the machine as well.
    const double cpu = std::max(
        static_cast<double>(std::clock() - cpu_began) / CLOCKS_PER_SEC, 1e-3);
    std::printf("%.1f s, %.1f s of a core: %.0f seeds/s, %.0f events/s\n",
                seconds, cpu, static_cast<double>(sum.seeds) / cpu,
                static_cast<double>(sum.events) / cpu);
  }
  const std::string seldom = wanted.floors ? sum.reach.BelowFloor() : "";
  std::fputs(seldom.c_str(), stderr);
  return seldom.empty() ? 0 : 1;
}

int Main(const std::vector<std::string>& arguments) {
  if (arguments.size() == 1 && arguments[0] == "--list") {
    for (const InvariantRow& row : kInvariants) {
      std::printf("%2d %s: %s\n", static_cast<int>(row.number), row.name,
                  row.sentence);
    }
    return 0;
  }
  std::optional<Wanted> wanted = Read(arguments);
  if (!wanted.has_value()) {
    std::fprintf(stderr,
                 "usage: rollcall_sim --seed S [--nodes N] [--trace]\n"
                 "       rollcall_sim --seeds A:B [--nodes N] [--seconds T] "
                 "[--json] [--floors]\n"
                 "       rollcall_sim --journal FOLDER [--job ID]\n"
                 "       rollcall_sim --group --seed S | --seeds A:B ...\n"
                 "       rollcall_sim --list\n");
    return 2;
  }
  if (!wanted->journal.empty()) {
    absl::StatusOr<JournaledRun> run = ReadJournal(*wanted);
    if (!run.ok()) {
      std::fprintf(stderr, "rollcall_sim: %s\n",
                   std::string(run.status().message()).c_str());
      return 2;
    }
    wanted->options.journal = *std::move(run);
  }
  signal(SIGABRT, OnAbort);
  return Play(*wanted);
}

}  // namespace
}  // namespace rollcall::sim

int main(int argc, char** argv) {
  return rollcall::sim::Main(std::vector<std::string>(argv + 1, argv + argc));
}

#include "client/launch/render/render.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/launch/render/fill.h"
#include "client/launch/render/kubernetes_texts.h"
#include "client/launch/render/platform_names.h"
#include "client/launch/render/platform_texts.h"
#include "client/launch/render/quoting.h"
#include "client/launch/spawn/hostfile.h"
#include "daemon/base/text/lines.h"
#include "daemon/base/text/nearest.h"
#include "daemon/base/text/printable.h"
#include "daemon/core/admission/admission.h"

namespace rollcall {
namespace {

// The values of the flags, with the platform's defaults for flags that are not
// given.
struct Terms {
  std::map<std::string, std::string> flags;
  std::vector<std::string> hosts;
  // Empty: no command was given.
  std::vector<std::string> command;
  FillValues values;

  const std::string& at(const char* flag) const { return flags.at(flag); }
  bool elastic() const { return absl::StrContains(at("--nodes"), ':'); }
  // The largest number of nodes, which is the number of pods.
  size_t nodes() const {
    const std::string& text = at("--nodes");
    uint32_t nodes = 0;
    return absl::SimpleAtoi(text.substr(text.rfind(':') + 1), &nodes) ? nodes
                                                                      : 0;
  }
  std::vector<std::string> CommandOr(std::vector<std::string> other) const {
    return command.empty() ? other : command;
  }
};

using Words = std::vector<std::string>;

std::string Digits(size_t number) { return absl::StrCat(number); }

// --- Kubernetes --------------------------------------------------------------

// The `limits` of a container; empty: no GPUs are requested.
std::string Resources(const Terms& terms, absl::string_view key) {
  if (terms.at("--gpus") == "0") return "";
  return absl::StrCat(key,
                      ":\n  limits:\n    nvidia.com/gpu: ", terms.at("--gpus"));
}

// `suffix`: the longest text that is appended to the job's name in a pod's
// name, without the pod's index. `nodes_flag`: the platform does not tell a pod
// how many nodes there are. No platform tells a pod the minimum (Kubeflow does,
// on a runtime with an elastic policy).
absl::Status FillKubernetes(absl::string_view suffix, bool nodes_flag,
                            Terms& terms) {
  const std::string& job = terms.at("--job");
  const size_t index_bytes = Digits(terms.nodes() - 1).size();
  absl::Status good = CheckObjectName(job, suffix.size() + index_bytes);
  if (!good.ok()) return good;
  if (terms.at("--secret-name").empty()) {
    terms.flags["--secret-name"] = absl::StrCat(job, "-secret");
  }
  const std::string& secret = terms.at("--secret-name");
  good = CheckSecretName(secret);
  if (!good.ok()) return good;
  Words words = {"rollcall", "run"};
  if (nodes_flag || terms.elastic())
    words.push_back("--nodes=" + terms.at("--nodes"));
  words.push_back("--nproc-per-node=" + terms.at("--nproc-per-node"));
  words.push_back("--join-timeout=" + terms.at("--join-timeout"));
  words.push_back("--");
  const Words command = terms.CommandOr({"python3", "train.py"});
  words.insert(words.end(), command.begin(), command.end());
  terms.values["COMMAND"] = YamlList(DollarsDoubled(words));
  terms.values["SECRET"] = secret;
  terms.values["SECRET_TEXT"] = YamlText(secret);
  terms.values["RESOURCES"] = Resources(terms, "resources");
  terms.values["RESOURCES_PER_NODE"] = Resources(terms, "resourcesPerNode");
  // A failure ends every pod of a world, and each pod counts.
  terms.values["BACKOFF"] = absl::StrCat(3 * terms.nodes());
  return absl::OkStatus();
}

absl::Status FillJob(Terms& terms) { return FillKubernetes("-", true, terms); }
absl::Status FillJobSet(Terms& terms) {
  return FillKubernetes("-node-0-", true, terms);
}
absl::Status FillLeaderWorkerSet(Terms& terms) {
  return FillKubernetes("-0-", false, terms);
}
absl::Status FillTrainJob(Terms& terms) {
  return FillKubernetes("-node-0-", false, terms);
}

// --- Others ------------------------------------------------------------------

absl::Status FillSlurm(Terms& terms) {
  const bool example = terms.command.empty();
  terms.values["EXAMPLE"] = example ? " python3 train.py --flag" : "";
  terms.values["CHECK"] =
      example ? ": \"${1:?sbatch train.sbatch CMD...}\"" : "";
  Words words = {"rollcall",       "run",
                 "--notice-time",  "80s",
                 "--join-timeout", terms.at("--join-timeout")};
  if (!terms.at("--nproc-per-node").empty()) {
    words.insert(words.end(),
                 {"--nproc-per-node", terms.at("--nproc-per-node")});
  }
  words.push_back("--");
  terms.values["RUN"] = absl::StrCat(
      ShellLine(words), " ", example ? "\"$@\"" : ShellLine(terms.command));
  return absl::OkStatus();
}

absl::Status FillCompose(Terms& terms) {
  Words words = {"rollcall", "run", "--job", terms.at("--job")};
  if (!terms.at("--nproc-per-node").empty()) {
    words.push_back("--nproc-per-node=" + terms.at("--nproc-per-node"));
  }
  words.push_back("--join-timeout=" + terms.at("--join-timeout"));
  words.push_back("--");
  const Words command = terms.CommandOr({"python3", "train.py"});
  words.insert(words.end(), command.begin(), command.end());
  terms.values["COMMAND"] = YamlList(DollarsDoubled(words));
  return absl::OkStatus();
}

// The value of `run:` in a spec of VESSL, which is a line for a shell. It is
// split over several lines if they can be written unchanged in a YAML block.
std::string VesslRun(const Words& lines, bool in_template) {
  const std::string line = absl::StrJoin(lines, " ");
  const bool plain = std::all_of(line.begin(), line.end(),
                                 [](char c) { return c >= ' ' && c <= '~'; }) &&
                     !(in_template && absl::StrContains(line, "<<"));
  if (plain) {
    return absl::StrCat("run: >-\n  ", absl::StrJoin(lines, "\n  "));
  }
  return absl::StrCat("run: ",
                      in_template ? YamlTextInTemplate(line) : YamlText(line));
}

std::string VesslCommand(const Terms& terms) {
  return "-- " + ShellLine(terms.CommandOr({"python3", "/code/train.py"}));
}

absl::Status FillVessl(Terms& terms) {
  terms.values["RUN"] =
      VesslRun({ShellLine({"rollcall", "run", "--join-timeout",
                           terms.at("--join-timeout")}),
                ShellLine({"--worker-template", "/code/worker.yaml.tpl"}) +
                    " --submit \"vessl run create -f\"",
                VesslCommand(terms)},
               false);
  return absl::OkStatus();
}

absl::Status FillVesslWorker(Terms& terms) {
  terms.values["RUN"] =
      VesslRun({ShellLine({"rollcall", "run", "--join-timeout",
                           terms.at("--join-timeout")}),
                VesslCommand(terms)},
               true);
  return absl::OkStatus();
}

absl::Status FillHostfile(Terms& terms) {
  const Words names = terms.hosts.empty()
                          ? Words{"localhost", "node2", "me@node3"}
                          : terms.hosts;
  std::string text;
  for (const std::string& name : names) {
    const bool has_slots = absl::StrContains(name, " slots=");
    absl::StrAppend(&text, text.empty() ? "" : "\n", name,
                    has_slots ? "" : " slots=",
                    has_slots ? "" : terms.at("--nproc-per-node"));
  }
  const auto hosts = text.find('#') == std::string::npos
                         ? ParseHostfile(text)
                         : absl::InvalidArgumentError("a # in a host");
  if (!hosts.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--host: expected `[USER@]HOST [slots=N] [name=NODE]`: ",
                     hosts.status().message()));
  }
  if (hosts->size() != names.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--host: expected one host in each, found ", hosts->size(),
                     " in ", names.size()));
  }
  terms.values["HOSTS"] = text;
  return absl::OkStatus();
}

absl::Status FillNothing(Terms&) { return absl::OkStatus(); }

// --- The table ---------------------------------------------------------------

struct Setting {
  const char* flag;
  const char* initial;
};

struct PlatformRow {
  const char* name;
  const char* text;
  absl::Status (*fill)(Terms&);
  std::vector<Setting> settings;
  bool has_command = true;
  // --nodes may be MIN:MAX.
  bool elastic = false;
};

constexpr char kExampleImage[] = "registry.example/train:1";

const std::vector<PlatformRow>& Rows() {
  static const auto& rows = *[] {
    const std::vector<Setting> pods = {
        {"--job", "train"},       {"--image", kExampleImage},
        {"--nodes", "4"},         {"--nproc-per-node", "auto"},
        {"--gpus", "8"},          {"--secret-name", ""},
        {"--join-timeout", "1h"},
    };
    const std::vector<Setting> vessl = {
        {"--job", "train"},
        {"--image", kExampleImage},
        {"--join-timeout", "1h"},
    };
    std::vector<Setting> launcher = vessl;
    launcher.insert(launcher.end(),
                    {{"--nodes", "2"}, {"--nproc-per-node", "8"}});
    return new std::vector<PlatformRow>{
        {"kubernetes", kKubernetesText, FillJob, pods, true, true},
        {"jobset", kJobSetText, FillJobSet, pods, true, true},
        {"leaderworkerset", kLeaderWorkerSetText, FillLeaderWorkerSet, pods,
         true, true},
        {"trainjob", kTrainJobText, FillTrainJob, pods, true, true},
        {"slurm",
         kSlurmText,
         FillSlurm,
         {{"--job", "train"},
          {"--nodes", "2"},
          {"--nproc-per-node", ""},
          {"--join-timeout", "1h"}}},
        {"compose",
         kComposeText,
         FillCompose,
         {{"--job", "train"},
          {"--image", kExampleImage},
          {"--nodes", "3"},
          {"--nproc-per-node", ""},
          {"--join-timeout", "1h"}}},
        {"systemd", kSystemdText, FillNothing, {}, false},
        {"vessl", kVesslText, FillVessl, launcher},
        {"vessl-worker", kVesslWorkerText, FillVesslWorker, vessl},
        {"ssh",
         kHostfileText,
         FillHostfile,
         {{"--host", ""}, {"--nproc-per-node", "8"}},
         false},
    };
  }();
  return rows;
}

absl::StatusOr<Terms> ReadTerms(const PlatformRow& row,
                                const RenderOptions& options) {
  Terms terms;
  Words known;
  for (const Setting& setting : row.settings) {
    known.push_back(setting.flag);
    terms.flags[setting.flag] = setting.initial;
  }
  std::map<std::string, std::string> given = options.flags;
  if (!options.hosts.empty()) given["--host"] = "";
  for (const auto& [flag, value] : given) {
    if (terms.flags.contains(flag)) {
      terms.flags[flag] = value;
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        flag, ": expected a flag that `rollcall render ", row.name, "` uses (",
        known.empty() ? "it has none" : absl::StrJoin(known, ", "),
        "), found this one"));
  }
  const auto nodes = terms.flags.find("--nodes");
  if (!row.elastic && nodes != terms.flags.end() && terms.elastic()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--nodes: expected one number of nodes for ", row.name,
                     ", got ", nodes->second));
  }
  if (!row.has_command && !options.command.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "`rollcall render ", row.name, "`: expected no command, found ",
        Printable(options.command.front(), 60), "; its file runs none"));
  }
  terms.hosts = options.hosts;
  terms.command = options.command;
  return terms;
}

// Checks that are the same for every platform with these flags.
absl::Status CheckTerms(const Terms& terms) {
  const auto job = terms.flags.find("--job");
  if (job != terms.flags.end()) {
    absl::Status good = AdmitJobId(job->second);
    if (!good.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("--", good.message()));
    }
  }
  const auto image = terms.flags.find("--image");
  if (image != terms.flags.end()) {
    absl::Status good = CheckImageName(image->second);
    if (!good.ok()) return good;
  }
  for (size_t i = 0; i < terms.command.size(); ++i) {
    const std::string& word = terms.command[i];
    if (ValidUtf8(word) == word) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("word ", i + 1,
                     " of the command: expected UTF-8, since the file is "
                     "text, found '",
                     Printable(word, 60), "'"));
  }
  return absl::OkStatus();
}

void FillCommon(Terms& terms) {
  const auto add = [&terms](const char* name, const char* flag) {
    const auto value = terms.flags.find(flag);
    if (value != terms.flags.end()) terms.values[name] = value->second;
  };
  add("JOB", "--job");
  add("RANKS", "--nproc-per-node");
  add("IMAGE", "--image");
  for (const char* name : {"JOB", "IMAGE"}) {
    const auto value = terms.values.find(name);
    if (value == terms.values.end()) continue;
    terms.values[absl::StrCat(name, "_TEXT")] = YamlText(value->second);
  }
  if (terms.flags.contains("--nodes")) {
    terms.values["NODES"] = absl::StrCat(terms.nodes());
    terms.values["WORKERS"] = absl::StrCat(terms.nodes() - 1);
  }
}

}  // namespace

std::vector<std::string> RenderPlatforms() {
  std::vector<std::string> names;
  for (const PlatformRow& row : Rows()) names.push_back(row.name);
  return names;
}

absl::StatusOr<std::string> Render(const std::string& platform,
                                   const RenderOptions& options) {
  const auto row = std::find_if(
      Rows().begin(), Rows().end(),
      [&platform](const PlatformRow& one) { return one.name == platform; });
  if (row == Rows().end()) {
    const auto nearest = Nearest(Printable(platform, 60), RenderPlatforms());
    return absl::InvalidArgumentError(absl::StrCat(
        "expected a platform (", absl::StrJoin(RenderPlatforms(), ", "),
        "), found '", Printable(platform, 60), "'",
        nearest ? absl::StrCat("; did you mean ", *nearest, "?") : ""));
  }
  auto terms = ReadTerms(*row, options);
  if (!terms.ok()) return terms.status();
  if (absl::Status good = CheckTerms(*terms); !good.ok()) return good;
  FillCommon(*terms);
  if (absl::Status good = row->fill(*terms); !good.ok()) return good;
  return Fill(row->text, terms->values);
}

}  // namespace rollcall

#include "client/facts/device_facts.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "client/facts/bound_facts.h"
#include "client/facts/devices/gpu.h"
#include "client/facts/devices/infiniband.h"
#include "client/facts/devices/nvml.h"
#include "client/facts/devices/verbs.h"
#include "client/facts/devices/verbs_merge.h"
#include "client/facts/isolated_query.h"
#include "client/facts/nccl_search.h"
#include "client/facts/system/missing.h"
#include "client/facts/system/system.h"
#include "daemon/base/library.h"
#include "daemon/base/processes/child_process.h"
#include "daemon/core/admission/admission.h"
#include "google/protobuf/repeated_field.h"

extern char** environ;

namespace rollcall {
namespace {

// `rollcall facts` stops waiting for the libraries this long before the
// timeout, and its answer is awaited until this long after it: on a busy
// machine its start and its own work take a while.
constexpr absl::Duration kOwnTime = absl::Milliseconds(500);
constexpr size_t kAnswerBytesMax = 1 << 20;
// The name of a folder's fact: this prefix and its path.
constexpr char kFolderFact[] = "folders.";
constexpr char kTryByHand[] =
    "`rollcall facts --json` on this node shows its output";

bool OtherRoot(const DeviceFactsOptions& options) {
  return options.sysroot != "/" && !options.sysroot.empty();
}

std::vector<std::string> OwnEnvironment() {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    environment.emplace_back(*entry);
  }
  return environment;
}

bool OpensLibrary(const std::string& name) {
  return dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL) != nullptr;
}

// Adds a MissingFact for a part that hung or crashed.
void AddNoAnswer(v1::Facts& facts, absl::string_view fact,
                 const std::string& reason) {
  v1::MissingFact missing;
  missing.set_fact(std::string(fact));
  missing.set_reason(reason);
  missing.set_remedy(kTryByHand);
  missing.set_no_answer(true);
  AddMissing(facts, missing);
}

// Adds a MissingFact for an isolated query that failed.
void AddFailure(const IsolatedAnswer& answer, absl::string_view fact,
                absl::string_view library, v1::Facts& facts) {
  if (answer.failure.empty()) return;
  const std::string at =
      answer.step.empty() ? "" : absl::StrCat(" at ", answer.step);
  AddNoAnswer(facts, fact,
              absl::StrCat(library, " failed", at, ": ", answer.failure));
}

void Take(IsolatedAnswer& answer, v1::Facts& facts) {
  // Entries are added one by one, so that `missing` keeps its bound.
  google::protobuf::RepeatedPtrField<v1::MissingFact> missing;
  missing.Swap(answer.facts.mutable_missing());
  facts.MergeFrom(answer.facts);
  for (const v1::MissingFact& one : missing) {
    AddMissing(facts, one);
  }
}

// The facts that are known while libibverbs is still being asked. A device that
// has not been asked about yet counts as unusable.
v1::Facts SoFar(const VerbsAnswer& verbs, v1::Facts facts) {
  MergeVerbs(
      verbs,
      [](const v1::InfinibandPort&) {
        return Unusable{Unusable::Why::kOther,
                        "libibverbs was not asked about this device"};
      },
      facts);
  facts.clear_missing();
  return facts;
}

// Adds a folder whose free space is not known.
void AddUnknownFolder(const std::string& folder, absl::string_view reason,
                      v1::Facts& facts) {
  const std::string path = PlainText(folder, FactsLimits::path_bytes_max);
  const auto& known = facts.folders();
  if (std::any_of(known.begin(), known.end(),
                  [&](const v1::FolderSpace& f) { return f.path() == path; })) {
    return;
  }
  if (known.size() >= static_cast<int>(FactsLimits::folders_max)) return;
  facts.add_folders()->set_path(path);
  AddMissing(facts, absl::StrCat(kFolderFact, path), reason, "");
}

void TakeFolders(const std::vector<std::string>& folders,
                 IsolatedAnswer& answer, v1::Facts& facts) {
  Take(answer, facts);
  AddFailure(answer, answer.step.empty() ? "folders" : answer.step, "statvfs",
             facts);
  if (answer.failure.empty()) return;
  for (const std::string& folder : folders) {
    AddUnknownFolder(folder, "not asked: a folder before it did not answer",
                     facts);
  }
}

void MarkUnusable(const IsolatedAnswer& answer, v1::Facts& facts) {
  if (answer.failure.empty()) return;
  for (v1::InfinibandPort& port : *facts.mutable_infiniband()) {
    if (!answer.step.empty() && port.device() != answer.step) continue;
    port.set_unusable(PlainText(absl::StrCat("libibverbs: ", answer.failure),
                                FactsLimits::missing_text_bytes_max));
  }
}

}  // namespace

v1::Facts AskInfiniband(
    const DeviceFactsOptions& options,
    const std::function<void(const v1::Facts&, absl::string_view)>& report) {
  v1::Facts facts;
  for (v1::InfinibandPort& port : ReadInfinibandPorts(options.sysroot)) {
    *facts.add_infiniband() = std::move(port);
  }
  const auto why = [&](const v1::InfinibandPort& port) {
    return WhyNotListed(options.sysroot, port);
  };
  VerbsAnswer verbs;
  if (!OtherRoot(options) || !options.verbs_library.empty()) {
    verbs = AskVerbs(
        options.verbs_library.empty() ? "libibverbs.so.1"
                                      : options.verbs_library,
        [&](const VerbsAnswer& so_far, absl::string_view device) {
          report(SoFar(so_far, facts), device);
        },
        [&](const std::string& device) {
          return WhyNotOpened(options.sysroot, device);
        });
    MergeVerbs(verbs, why, facts);
  }
  for (v1::InfinibandPort& port : *facts.mutable_infiniband()) {
    if (port.gids().empty()) ReadGids(options.sysroot, port);
  }
  if (facts.infiniband().empty()) SayWhyNoPort(options.sysroot, facts);
  AddUnreadFields(options.sysroot, verbs, facts);
  return facts;
}

v1::Facts AskEfaPlugin(const DeviceFactsOptions& options) {
  v1::Facts ports;
  for (v1::InfinibandPort& port : ReadInfinibandPorts(options.sysroot)) {
    *ports.add_infiniband() = std::move(port);
  }
  const char* plugin = std::getenv("NCCL_NET_PLUGIN");
  CheckEfaPlugin(plugin == nullptr ? "" : plugin, OpensLibrary, ports);
  v1::Facts facts;
  facts.mutable_missing()->Swap(ports.mutable_missing());
  return facts;
}

v1::Facts AskGpus(
    const DeviceFactsOptions& options,
    const std::function<void(const v1::Facts&, absl::string_view)>& report) {
  v1::Facts facts;
  // Without a GPU, NVML is not asked.
  const bool shown = CountGpus(options.sysroot, facts);
  if (options.nvml_library.empty() && !shown) {
    SayWhyNoGpu(options.sysroot, facts);
    return facts;
  }
  if (options.nvml_library.empty() && OtherRoot(options)) return facts;
  AskNvml(
      NvmlLibraryNames(options.nvml_library),
      [&](absl::string_view gpu) { report(facts, gpu); }, facts);
  CountListedGpus(facts);
  return facts;
}

v1::Facts AskNccl(const DeviceFactsOptions& options) {
  v1::Facts facts;
  const absl::StatusOr<Library> library =
      Library::Open({FindNcclLibrary(options.nccl_library, OwnEnvironment())});
  int (*get_version)(int*) = nullptr;
  absl::Status status = library.status();
  if (status.ok()) status = library->Find("ncclGetVersion", &get_version);
  int version = 0;
  if (status.ok()) {
    if (const int code = get_version(&version); code != 0) {
      status = absl::UnknownError(absl::StrCat("ncclGetVersion: code ", code));
    }
    Dl_info where{};
    if (dladdr(reinterpret_cast<void*>(get_version), &where) != 0 &&
        where.dli_fname != nullptr) {
      facts.mutable_versions()->set_nccl_path(
          PlainText(where.dli_fname, FactsLimits::path_bytes_max));
    }
  }
  if (!status.ok()) {
    AddMissing(facts, "versions.nccl",
               absl::StrCat("the NCCL that the command would load: ",
                            status.message()),
               "name its libnccl.so.2 with --nccl-lib, or its folder in "
               "LD_LIBRARY_PATH");
    return facts;
  }
  facts.mutable_versions()->set_nccl(NcclVersionText(version));
  return facts;
}

v1::Facts AskFolders(
    const DeviceFactsOptions& options,
    const std::function<void(const v1::Facts&, absl::string_view)>& report) {
  v1::Facts facts;
  for (const std::string& folder : options.folders) {
    if (facts.folders_size() >= static_cast<int>(FactsLimits::folders_max)) {
      break;
    }
    v1::FolderSpace& known = *facts.add_folders();
    known.set_path(PlainText(folder, FactsLimits::path_bytes_max));
    report(facts, absl::StrCat(kFolderFact, folder));
    const absl::StatusOr<v1::FolderSpace> space = ReadFolderSpace(folder);
    if (space.ok()) {
      known = *space;
    } else {
      AddMissing(facts, absl::StrCat(kFolderFact, folder),
                 space.status().message(), "");
    }
  }
  return facts;
}

v1::Facts GatherDeviceFacts(const DeviceFactsOptions& options) {
  using Report = IsolatedQuery::Report;
  std::vector<IsolatedQuery> queries = {
      {[&](const Report& report) { return AskInfiniband(options, report); }},
      {[&](const Report& report) { return AskGpus(options, report); }},
      {[&](const Report&) { return AskNccl(options); }},
      {[&](const Report&) { return AskEfaPlugin(options); }},
  };
  if (!options.folders.empty()) {
    queries.push_back(
        {[&](const Report& report) { return AskFolders(options, report); }});
  }
  std::vector<IsolatedAnswer> answers = AskIsolated(queries, options.timeout);
  v1::Facts facts;
  // The entries for failed queries come first in `missing`, because a Hello
  // leaves out the last entries if there are too many.
  const std::string device = answers[0].step.empty()
                                 ? "infiniband"
                                 : absl::StrCat("infiniband.", answers[0].step);
  AddFailure(answers[0], device, "libibverbs", facts);
  AddFailure(answers[1], answers[1].step.empty() ? "gpus" : answers[1].step,
             "NVML", facts);
  AddFailure(answers[2], "versions.nccl", "NCCL", facts);
  if (HasEfa(answers[0].facts)) {
    AddFailure(answers[3], kEfaPluginFact, "NCCL's plugin for EFA", facts);
  }
  for (size_t i = 0; i < 4; ++i) Take(answers[i], facts);
  MarkUnusable(answers[0], facts);
  if (answers.size() > 4) TakeFolders(options.folders, answers[4], facts);
  PlaceGpus(options.sysroot, facts);
  BoundFacts(facts);
  return facts;
}

bool HasDevices(const DeviceFactsOptions& options) {
  if (!options.verbs_library.empty() || !options.nvml_library.empty()) {
    return true;
  }
  const std::string root = OtherRoot(options) ? options.sysroot : "";
  v1::Facts facts;
  return CountGpus(options.sysroot, facts) ||
         access((root + "/sys/class/infiniband").c_str(), F_OK) == 0;
}

bool AsksNvml(const DeviceFactsOptions& options) {
  if (!options.nvml_library.empty()) return true;
  v1::Facts facts;
  return !OtherRoot(options) && CountGpus(options.sysroot, facts);
}

v1::Facts WithoutDevices(const DeviceFactsOptions& options) {
  v1::Facts facts;
  if (!options.folders.empty()) {
    using Report = IsolatedQuery::Report;
    std::vector<IsolatedAnswer> answers = AskIsolated(
        {{[&](const Report& report) { return AskFolders(options, report); }}},
        options.timeout);
    TakeFolders(options.folders, answers[0], facts);
  }
  CountGpus(options.sysroot, facts);
  SayWhyNoGpu(options.sysroot, facts);
  SayWhyNoPort(options.sysroot, facts);
  BoundFacts(facts);
  return facts;
}

std::vector<std::string> FactsArguments(const DeviceFactsOptions& options) {
  std::vector<std::string> arguments;
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) arguments.insert(arguments.end(), {name, value});
  };
  if (OtherRoot(options)) add("--sysroot", options.sysroot);
  add("--verbs-lib", options.verbs_library);
  add("--nvml-lib", options.nvml_library);
  add("--nccl-lib", options.nccl_library);
  add("--timeout-ms", absl::StrCat(absl::ToInt64Milliseconds(options.timeout)));
  for (const std::string& folder : options.folders) add("--folder", folder);
  return arguments;
}

absl::StatusOr<FactsCommand> ParseFactsArguments(
    const std::vector<std::string>& arguments) {
  FactsCommand command;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& name = arguments[i];
    if (name == "--json" || name == "--watch") {
      (name == "--json" ? command.json : command.watch) = true;
      continue;
    }
    std::string* text = name == "--sysroot"     ? &command.options.sysroot
                        : name == "--verbs-lib" ? &command.options.verbs_library
                        : name == "--nvml-lib"  ? &command.options.nvml_library
                        : name == "--nccl-lib"  ? &command.options.nccl_library
                                                : nullptr;
    const bool known =
        text != nullptr || name == "--folder" || name == "--timeout-ms";
    if (!known || i + 1 == arguments.size() || arguments[i + 1].empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "facts: expected [--sysroot DIR] [--verbs-lib PATH] [--nvml-lib "
          "PATH] [--nccl-lib PATH] [--folder DIR]... [--timeout-ms N] "
          "[--json] [--watch], got ",
          PlainText(name)));
    }
    const std::string& value = arguments[++i];
    int64_t ms = 0;
    if (text != nullptr) {
      *text = value;
    } else if (name == "--folder") {
      command.options.folders.push_back(value);
    } else if (absl::SimpleAtoi(value, &ms) && ms > 0 && ms <= 600'000) {
      command.options.timeout = absl::Milliseconds(ms);
    } else {
      return absl::InvalidArgumentError(absl::StrCat(
          "facts: --timeout-ms takes 1 to 600000, not ", PlainText(value)));
    }
  }
  return command;
}

std::vector<std::string> WithoutPreload(
    const std::vector<std::string>& environment) {
  std::vector<std::string> given;
  for (const std::string& entry : environment) {
    if (!absl::StartsWith(entry, "LD_PRELOAD=")) given.push_back(entry);
  }
  return given;
}

v1::Facts AskDeviceFacts(const std::string& self,
                         const std::vector<std::string>& environment,
                         const DeviceFactsOptions& options) {
  DeviceFactsOptions inner = options;
  inner.timeout = std::max(options.timeout - kOwnTime, options.timeout / 2);
  std::vector<std::string> argv = {"rollcall", "facts"};
  for (std::string& argument : FactsArguments(inner)) {
    argv.push_back(std::move(argument));
  }
  v1::Facts facts;
  absl::Status status;
  auto child = ChildProcess::Spawn(self, argv, WithoutPreload(environment));
  if (!child.ok()) {
    status = child.status();
  } else {
    std::string answer;
    status = child->Read(options.timeout + kOwnTime, kAnswerBytesMax, nullptr,
                         -1, answer);
    const ChildProcess::Ending ending =
        child->End(status.ok() ? kOwnTime : absl::ZeroDuration());
    if (status.ok() &&
        (!ending.reaped || ending.code != 0 || ending.signal != 0)) {
      status = absl::AbortedError(absl::StrCat("it ended ", ending.Text()));
    } else if (status.ok() && !facts.ParseFromString(answer)) {
      status = absl::AbortedError("its answer cannot be parsed");
    }
  }
  if (status.ok()) status = AdmitFacts(facts);
  if (status.ok()) return facts;
  facts.Clear();
  const std::string reason =
      absl::StrCat("`rollcall facts`: ", status.message());
  for (const char* fact : {"infiniband", "gpus", "versions.nccl"}) {
    AddNoAnswer(facts, fact, reason);
  }
  for (const std::string& folder : options.folders) {
    AddUnknownFolder(folder, reason, facts);
  }
  return facts;
}

}  // namespace rollcall

#include "client/doctor/doctor.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/doctor/checks.h"

namespace rollcall {
namespace {

// The most items that are shown in one line.
constexpr size_t kListed = 8;

// "gpus.0.retired_pages" and "gpus.0" are part of "gpus.0"; "gpus.01" is not.
bool IsPartOf(absl::string_view part, absl::string_view whole) {
  return absl::StartsWith(part, whole) &&
         (part.size() == whole.size() || part[whole.size()] == '.');
}

void AddTrial(const Trial& trial, std::vector<Finding>& to) {
  FindingList findings(trial.check, to);
  if (trial.error.empty()) {
    findings.Ok(trial.subject, "works");
  } else {
    findings.Add(trial.severity, trial.subject, trial.error, trial.expected,
                 trial.why, trial.mend);
  }
}

}  // namespace

const v1::MissingFact* MissingFacts::Find(absl::string_view fact) {
  for (int i = 0; i < facts_.missing_size(); ++i) {
    if (!IsPartOf(fact, facts_.missing(i).fact())) continue;
    used_[i] = true;
    return &facts_.missing(i);
  }
  return nullptr;
}

const v1::MissingFact* MissingFacts::FindBelow(absl::string_view fact) {
  for (int i = 0; i < facts_.missing_size(); ++i) {
    if (!IsPartOf(facts_.missing(i).fact(), fact)) continue;
    used_[i] = true;
    return &facts_.missing(i);
  }
  return nullptr;
}

std::vector<const v1::MissingFact*> MissingFacts::Unused() const {
  std::vector<const v1::MissingFact*> unused;
  for (int i = 0; i < facts_.missing_size(); ++i) {
    if (!used_[i]) unused.push_back(&facts_.missing(i));
  }
  return unused;
}

void FindingList::Add(Severity severity, std::string subject, std::string found,
                      std::string expected, std::string why, std::string mend) {
  to_.push_back({check_, severity, std::move(subject), std::move(found),
                 std::move(expected), std::move(why), std::move(mend)});
}

void FindingList::Ok(std::string subject, std::string found) {
  Add(Severity::kOk, std::move(subject), std::move(found), "", "", "");
}

void FindingList::NotApplicable(std::string found) {
  Add(Severity::kNotApplicable, kNode, std::move(found), "", "", "");
}

void FindingList::Unknown(std::string subject, std::string found,
                          std::string mend) {
  Add(Severity::kUnknown, std::move(subject), std::move(found), "", "",
      std::move(mend));
}

void FindingList::Unknown(std::string subject, const v1::MissingFact* missing,
                          std::string found) {
  if (missing == nullptr) {
    Unknown(std::move(subject), std::move(found));
  } else {
    Unknown(std::move(subject), missing->reason(), missing->remedy());
  }
}

std::string ListText(const std::vector<std::string>& items) {
  const size_t shown = std::min(items.size(), kListed);
  const std::string text =
      absl::StrJoin(items.begin(), items.begin() + shown, ", ");
  return shown == items.size()
             ? text
             : absl::StrCat(text, " and ", items.size() - shown, " more");
}

DaemonClock CompareClocks(absl::Time asked, absl::Time told,
                          absl::Time answered) {
  const absl::Duration half = (answered - asked) / 2;
  DaemonClock clock;
  clock.offset = asked + half - told;
  clock.error = absl::AbsDuration(half);
  return clock;
}

std::vector<Finding> Diagnose(const v1::Facts& facts,
                              const DoctorOptions& options) {
  std::vector<Finding> findings;
  for (const Trial& trial : options.trials) AddTrial(trial, findings);
  MissingFacts missing(facts);
  const Examined node{facts, options, missing};
  for (const auto& group :
       {SystemChecks(), NetworkChecks(), InfinibandChecks(), GpuChecks()}) {
    for (const NamedCheck& named : group) {
      FindingList to(named.name, findings);
      named.check(node, to);
    }
  }
  // Comes last, because it reports the missing facts that no check above has
  // looked up.
  FindingList rest("facts", findings);
  const auto unused = missing.Unused();
  for (const v1::MissingFact* fact : unused) {
    rest.Unknown(fact->fact(), fact, "");
  }
  if (unused.empty()) rest.Ok(kNode, "no other fact is missing");
  return findings;
}

}  // namespace rollcall

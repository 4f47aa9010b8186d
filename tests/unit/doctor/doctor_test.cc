// The doctor's checks: a table of facts and the findings of each check.
#include "client/doctor/doctor.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/facts/system/system.h"
#include "tests/unit/doctor/doctor_rows.h"

namespace rollcall {
namespace {

std::vector<DoctorRow> AllRows() {
  std::vector<DoctorRow> all = HostRows();
  for (const auto& rows : {RdmaRows(), GpuRows()}) {
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

TEST(Doctor, EachCheck) {
  for (const DoctorRow& row : AllRows()) {
    SCOPED_TRACE(absl::StrCat(row.check, ": ", row.what));
    v1::Facts facts = Healthy();
    DoctorOptions options = HealthyOptions();
    row.change(facts, options);
    const std::vector<Finding> of =
        WorstFirst(Of(Diagnose(facts, options), row.check));
    ASSERT_FALSE(of.empty());
    const Finding& worst = of.front();
    EXPECT_EQ(Word(worst.severity), Word(row.expected)) << worst.found;
    const std::string subject = row.subject;
    EXPECT_EQ(worst.subject, subject.empty() ? worst.subject : subject);
    const std::string said =
        absl::StrCat(worst.found, " ", worst.expected, " ", worst.mend);
    EXPECT_TRUE(absl::StrContains(said, row.says)) << said;
    for (const Finding& finding : of) {
      const bool bad = finding.severity >= Severity::kWarning;
      EXPECT_FALSE(finding.subject.empty());
      EXPECT_FALSE(finding.found.empty());
      EXPECT_EQ(finding.expected.empty(), !bad);
      EXPECT_EQ(finding.why.empty(), !bad);
      EXPECT_TRUE(!bad || !finding.mend.empty());
    }
  }
}

TEST(Doctor, TheTableHasEachCheckAndWhatItCanSay) {
  std::map<std::string, std::set<Severity>> rows;
  for (const DoctorRow& row : AllRows()) rows[row.check].insert(row.expected);
  for (const Finding& finding : Diagnose(Healthy(), HealthyOptions())) {
    const std::set<Severity>& seen = rows[finding.check];
    EXPECT_TRUE(seen.contains(Severity::kOk)) << finding.check;
    EXPECT_TRUE(seen.contains(Severity::kUnknown) ||
                seen.contains(Severity::kNotApplicable))
        << finding.check;
    const Severity worst =
        seen.empty() ? Severity::kNotApplicable : *seen.rbegin();
    EXPECT_TRUE(worst >= Severity::kWarning || finding.check == "facts")
        << finding.check;
  }
}

TEST(Doctor, AHealthyNodeIsWellAndAnEmptyOneIsNot) {
  for (const char* layer : {"InfiniBand", "Ethernet"}) {
    EXPECT_EQ(Word(Worst(Diagnose(Healthy(layer), HealthyOptions()))), "ok");
  }
  // Unknown facts never count as ok. Only the check `facts` is ok, because no
  // other fact is missing.
  for (const Finding& finding : Diagnose({}, {})) {
    EXPECT_EQ(finding.severity == Severity::kOk, finding.check == "facts")
        << finding.check;
  }
}

TEST(Doctor, NamesTheDeadPortAndNoOther) {
  v1::Facts facts = Healthy();
  Port(facts, 5).set_state("DOWN");
  int bad = 0;
  for (const Finding& finding : Diagnose(facts, HealthyOptions())) {
    if (finding.severity <= Severity::kOk) continue;
    ++bad;
    EXPECT_EQ(finding.subject, "mlx5_5 port 1");
  }
  EXPECT_EQ(bad, 1);
}

// Each missing fact is reported once: by the check that needs it, or by
// `facts`.
TEST(Doctor, ShowsEachMissingFact) {
  v1::Facts facts = Healthy();
  for (const char* fact :
       {"limits.nofile", "gpus.3.retired_pages", "infiniband.mlx5_2.rate_gbps",
        "versions.rollcall", "gpus.33", ""}) {
    Lack(facts, fact, absl::StrCat("no ", fact));
  }
  facts.mutable_gpus(3)->clear_retired_pages();
  Port(facts, 2).clear_rate_gbps();
  std::map<std::string, std::string> shown;
  for (const Finding& finding : Diagnose(facts, HealthyOptions())) {
    if (finding.severity == Severity::kUnknown) {
      EXPECT_TRUE(shown.emplace(finding.found, finding.check).second)
          << finding.found;
    }
  }
  EXPECT_EQ(shown, (std::map<std::string, std::string>{
                       {"no ", "facts"},
                       {"no gpus.3.retired_pages", "gpu-retired-pages"},
                       {"no gpus.33", "facts"},
                       {"no infiniband.mlx5_2.rate_gbps", "hca-rate"},
                       {"no limits.nofile", "nofile"},
                       {"no versions.rollcall", "facts"}}));
}

TEST(Doctor, TheDaemonsClockIsComparedAtTheMiddleOfTheCall) {
  const absl::Time asked = absl::UnixEpoch() + absl::Hours(400'000);
  const absl::Duration trip = absl::Milliseconds(80);
  for (const absl::Duration offset :
       {absl::ZeroDuration(), absl::Seconds(30), -absl::Seconds(30)}) {
    // Whenever the daemon read its clock, the true offset is within the error.
    for (const absl::Duration way : {absl::ZeroDuration(), trip / 2, trip}) {
      const DaemonClock clock =
          CompareClocks(asked, asked + way - offset, asked + trip);
      ASSERT_TRUE(clock.offset.has_value());
      EXPECT_EQ(clock.error, trip / 2);
      EXPECT_EQ(*clock.offset, offset + trip / 2 - way);
      EXPECT_LE(absl::AbsDuration(*clock.offset - offset), clock.error);
    }
  }
  // This node's clock was set back during the call.
  EXPECT_EQ(CompareClocks(asked + trip, asked, asked).error, trip / 2);
  // A daemon may send any time.
  EXPECT_EQ(*CompareClocks(asked, absl::InfiniteFuture(), asked).offset,
            -absl::InfiniteDuration());
}

TEST(Doctor, TrialsComeFirst) {
  DoctorOptions options = HealthyOptions();
  options.trials = {{"process", "node", "", Severity::kFatal, "e", "w", "m"},
                    {"log", "/l", "EROFS", Severity::kWarning, "e", "w", "m"}};
  const std::vector<Finding> findings = Diagnose(Healthy(), options);
  EXPECT_EQ(findings[0],
            (Finding{"process", Severity::kOk, "node", "works", "", "", ""}));
  EXPECT_EQ(findings[1],
            (Finding{"log", Severity::kWarning, "/l", "EROFS", "e", "w", "m"}));
}

TEST(MayLock, NeedsTheCapabilityInTheFirstUserNamespace) {
  // CAP_IPC_LOCK is bit 14.
  const std::string with = "Name:\ta\nCapEff:\t0000000000004000\n";
  const std::string without = "Name:\ta\nCapEff:\t000001ffffffbfff\n";
  const std::string first = "         0          0 4294967295\n";
  EXPECT_TRUE(MayLockMemory(with, first));
  EXPECT_FALSE(MayLockMemory(without, first));
  EXPECT_FALSE(MayLockMemory(with, "0 1000 1\n"));
  EXPECT_FALSE(MayLockMemory(with, ""));
  EXPECT_FALSE(MayLockMemory("", first));
  EXPECT_FALSE(MayLockMemory("CapEff:\tlots\n", first));
}

}  // namespace
}  // namespace rollcall

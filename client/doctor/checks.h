// Definitions that the checks share, and the list of checks of each group.
// Internal to this folder.
#ifndef ROLLCALL_CLIENT_DOCTOR_CHECKS_H_
#define ROLLCALL_CLIENT_DOCTOR_CHECKS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/doctor/doctor.h"
#include "daemon/base/text/bytes_text.h"

namespace rollcall {

// The subject of findings about the node as a whole.
inline constexpr char kNode[] = "node";

// The facts that the node could not find out. An entry that a check has looked
// up is reported by that check; the other entries are reported by the check
// `facts`.
class MissingFacts {
 public:
  explicit MissingFacts(const v1::Facts& facts)
      : facts_(facts), used_(facts.missing_size(), false) {}

  // The entry for `fact`, or for a fact that contains it ("gpus.0" contains
  // "gpus.0.retired_pages"); null: none.
  const v1::MissingFact* Find(absl::string_view fact);
  // The first entry for `fact` or a part of it; null: none.
  const v1::MissingFact* FindBelow(absl::string_view fact);
  std::vector<const v1::MissingFact*> Unused() const;

 private:
  const v1::Facts& facts_;
  std::vector<bool> used_;
};

struct Examined {
  const v1::Facts& facts;
  const DoctorOptions& options;
  MissingFacts& missing;
};

// Collects the findings of one check.
class FindingList {
 public:
  FindingList(std::string check, std::vector<Finding>& to)
      : check_(std::move(check)), to_(to) {}

  void Add(Severity severity, std::string subject, std::string found,
           std::string expected, std::string why, std::string mend);
  void Ok(std::string subject, std::string found);
  void NotApplicable(std::string found);
  void Unknown(std::string subject, std::string found, std::string mend = "");
  // If `missing` is not null, the finding has its reason and remedy; else it
  // has `found`.
  void Unknown(std::string subject, const v1::MissingFact* missing,
               std::string found);

 private:
  const std::string check_;
  std::vector<Finding>& to_;
};

struct NamedCheck {
  const char* name;
  void (*check)(const Examined& node, FindingList& to);
};

std::vector<NamedCheck> NetworkChecks();
std::vector<NamedCheck> SystemChecks();
std::vector<NamedCheck> InfinibandChecks();
std::vector<NamedCheck> GpuChecks();

// Whether libibverbs can open this port's device, but the limit on locked
// memory is too low to register memory with it. Then `unusable` has the reason
// of the fact infiniband.memlock.
bool IsShortOfMemlock(const Examined& node, const v1::InfinibandPort& port);

// The first few items, and the number of further items.
std::string ListText(const std::vector<std::string>& items);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_DOCTOR_CHECKS_H_

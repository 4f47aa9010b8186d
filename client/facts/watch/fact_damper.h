// FactDamper: how often the changes of a node's facts are reported.
//
// A fact that changes rarely is reported at once. A fact that flaps is reported
// at most once in kBetween, with the number of changes since. A node reports at
// most kNodeBurst changes at once and one in kNodeBetween after that. What is
// not reported yet is kept as one entry per fact, so no last value is lost,
// except for facts beyond kFactsMax, which are dropped.
//
// A pure value; it reads no clock.
#ifndef ROLLCALL_CLIENT_FACTS_WATCH_FACT_DAMPER_H_
#define ROLLCALL_CLIENT_FACTS_WATCH_FACT_DAMPER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

class FactDamper {
 public:
  static constexpr int kBurst = 4;
  static constexpr absl::Duration kBetween = absl::Seconds(10);
  static constexpr int kNodeBurst = 16;
  static constexpr absl::Duration kNodeBetween = absl::Seconds(1);
  static constexpr size_t kFactsMax = 256;

  // `change` has happened; its count is 1.
  void Take(const v1::FactChange& change, absl::Time now);

  // The changes to report now, in the order in which they happened.
  std::vector<v1::FactChange> Due(absl::Time now);
  // When Due returns the next one at the latest; InfiniteFuture: none waits.
  absl::Time NextDue() const;

 private:
  // So many reports at once, then one in each `between`.
  struct Budget {
    int most;
    absl::Duration between;
    int left = most;
    // When `left` was last increased.
    absl::Time since = absl::InfinitePast();

    void Refill(absl::Time now);
    void Spend(absl::Time now);
    // When there is a report left.
    absl::Time Next() const {
      return left > 0 ? absl::InfinitePast() : since + between;
    }
  };
  struct Fact {
    Budget budget{kBurst, kBetween};
    std::optional<v1::FactChange> waiting;
    // Grows with the changes that wait.
    uint64_t number = 0;
  };

  // By kind and subject. A fact is forgotten once it may report kBurst changes
  // again.
  std::map<std::pair<int, std::string>, Fact> facts_;
  uint64_t numbers_ = 0;
  Budget node_{kNodeBurst, kNodeBetween};
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_FACTS_WATCH_FACT_DAMPER_H_

// MeasureLinks: how long a small message takes between neighbours on the ring
// of all ranks, link by link, so that the one bad cable is seen.
//
// A round trip is made on a link while no rank is at two: links of the same
// round share no rank. The time is half of it, on the one clock of the rank
// that began it.
//
// Thread rule: one thread; all ranks of the world call it with the same count.
#ifndef ROLLCALL_TRAINER_CHECK_LINKS_H_
#define ROLLCALL_TRAINER_CHECK_LINKS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "trainer/collective/collective.h"

namespace rollcall {

// From rank `from` to the next one, and back.
struct LinkTime {
  int from = 0;
  double median_us = 0;
  double p99_us = 0;
};

// Of half round trips, which it sorts; not none.
LinkTime Summarize(int from, std::vector<double> times_us);

// In which round the link from this rank is measured: 0 to 2.
int RoundOfLink(int from, int ranks);

// By rank, the same on all ranks; two ranks have one link, one has none.
// UNIMPLEMENTED: this collective has no way back. Else the collective's errors.
absl::StatusOr<std::vector<LinkTime>> MeasureLinks(Collective& collective,
                                                   int trips);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CHECK_LINKS_H_

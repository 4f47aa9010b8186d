// MeasureLinks: measures the latency of a small message on each link between
// neighbours in the ring of all ranks, so that a bad cable is found.
//
// A rank takes part in one round trip at a time, because the links of one round
// share no rank. The latency is half of the round trip's time, measured by the
// clock of the rank that began it.
//
// Thread rule: one thread. All ranks of the world call it with the same count.
#ifndef ROLLCALL_TRAINER_CHECK_LINKS_H_
#define ROLLCALL_TRAINER_CHECK_LINKS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "trainer/collective/collective.h"

namespace rollcall {

// The latency, half a round trip, between rank `from` and the next rank.
struct LinkTime {
  int from = 0;
  double median_us = 0;
  double p99_us = 0;
};

// The times are those of half round trips. This sorts them; there must be at
// least one.
LinkTime Summarize(int from, std::vector<double> times_us);

// The round in which the link from this rank is measured: 0 to 2.
int RoundOfLink(int from, int ranks);

// The links by rank; all ranks get the same result. A world of two ranks has
// one link, and a world of one rank has none. UNIMPLEMENTED: this collective
// cannot send backward. Other errors are the collective's.
absl::StatusOr<std::vector<LinkTime>> MeasureLinks(Collective& collective,
                                                   int trips);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CHECK_LINKS_H_

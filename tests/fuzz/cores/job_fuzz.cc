// One run of a job, from its first Hello to its end, with normal agents that
// die and come back, and with hostile ones that send raw bytes. Every message
// takes the same way as in a daemon: protobuf, admission, Job::Step.
//
// Oracle: JobRig's promises and the Job's own checks.
#include "tests/fuzz/cores/job_script.h"

namespace {

constexpr int kStepsMax = 150;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  rollcall::Feed feed(data, size);
  rollcall::JobRig rig;
  rig.Begin(rollcall::ReadSettings(feed));
  rollcall::Play(feed, rig, kStepsMax);
  return 0;
}

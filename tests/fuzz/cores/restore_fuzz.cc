// A daemon that is restarted on a journal which was edited, or which another
// program has written. Each row's blobs are parsed as the store parses them,
// and the Job that is restored from them goes on.
//
// Oracle: JobRig's promises, above all that no number in a journal reaches one
// of the Job's CHECKs, and that generations still only grow.
#include <optional>
#include <string>
#include <utility>

#include "daemon/core/formation/world.h"
#include "tests/fuzz/cores/job_script.h"

namespace rollcall {
namespace {

constexpr int kStepsMax = 100;

// A column that holds a message. Returns false if it does not parse; the store
// then refuses the row.
template <typename Message>
bool Parse(Feed& feed, std::optional<Message>& column) {
  const std::string_view bytes = feed.Text();
  return column.emplace().ParseFromArray(bytes.data(),
                                         static_cast<int>(bytes.size()));
}

template <typename Message>
bool ReadColumn(Feed& feed, std::optional<Message>& column) {
  return !feed.Flag() || Parse(feed, column);
}

void WriteLeaving(Feed& feed, v1::Notice& leaving) {
  leaving.set_notice(feed.Number());
  for (uint32_t i = feed.Pick(4); i > 0; --i) leaving.add_nodes(feed.String());
  if (!feed.Flag()) return;
  leaving.mutable_end()->set_exit_code(static_cast<int32_t>(feed.Number()));
  leaving.mutable_end()->set_code(v1::REASON_CODE_REQUEUE);
  leaving.mutable_end()->set_reason(feed.String());
}

// A world that is nearly valid, which random bytes seldom are.
void WriteWorld(Feed& feed, JournalState& journal) {
  v1::World world;
  world.set_job("demo");
  world.set_run(journal.run);
  world.set_generation(feed.Flag() ? journal.generation : feed.Number());
  uint64_t next_rank = 0;
  for (uint32_t count = feed.Pick(5), i = 0; i < count; ++i) {
    v1::Member& member = *world.add_members();
    member.set_node(feed.String());
    member.set_node_rank(i);
    member.set_seat(static_cast<uint32_t>(feed.Number()));
    member.set_first_rank(static_cast<uint32_t>(next_rank));
    member.set_ranks(static_cast<uint32_t>(feed.Number()));
    member.set_address(feed.Flag() ? "10.7.0.1" : feed.String());
    next_rank += member.ranks();
  }
  world.set_world_size(static_cast<uint32_t>(next_rank));
  journal.proposal.emplace().set_generation(journal.generation);
  journal.proposal->set_world(world.SerializeAsString());
}

bool ReadJournal(Feed& feed, JournalState& journal) {
  journal.run = "0badcafe";
  journal.generation = feed.Number();
  journal.restarts_charged = static_cast<uint32_t>(feed.Number());
  if (feed.Flag()) {
    journal.settings = ReadSettings(feed);
  } else {
    const std::string_view bytes = feed.Text();
    if (!journal.settings.ParseFromArray(bytes.data(),
                                         static_cast<int>(bytes.size()))) {
      return false;
    }
  }
  if (feed.Flag()) {
    WriteWorld(feed, journal);
  } else if (!ReadColumn(feed, journal.proposal)) {
    return false;
  }
  if (!ReadColumn(feed, journal.world_commit)) return false;
  // The bits, from the lowest: the end; which nodes were to leave; the same as
  // raw bytes, at the end of the input; which nodes have finished; the world
  // ran last and has ended.
  const uint8_t what = feed.Byte();
  if ((what & 1) != 0 && !Parse(feed, journal.end)) return false;
  if ((what & 2) != 0) WriteLeaving(feed, journal.leaving.emplace());
  if ((what & 8) != 0 && !Parse(feed, journal.finished)) return false;
  if ((what & 16) != 0) {
    journal.ran_proposal = std::exchange(journal.proposal, std::nullopt);
    journal.ran_world_commit =
        std::exchange(journal.world_commit, std::nullopt);
    journal.ran_finished = std::exchange(journal.finished, std::nullopt);
  }
  return (what & 4) == 0 || Parse(feed, journal.leaving);
}

}  // namespace
}  // namespace rollcall

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  rollcall::Feed feed(data, size);
  rollcall::JournalState journal;
  if (!rollcall::ReadJournal(feed, journal)) return 0;
  rollcall::JobRig rig;
  if (rig.TakeUp(journal)) rollcall::Play(feed, rig, rollcall::kStepsMax);
  return 0;
}

#include "daemon/server/loop/state/batch.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/server/loop/state/delayed_calls.h"

namespace rollcall {
namespace {

constexpr absl::Time kStart = absl::UnixEpoch();

Send AbortSent() {
  v1::DaemonMessage message;
  message.mutable_abort()->set_generation(1);
  return {{1}, message};
}

Journal Entry(uint64_t generation) {
  return {Journal::Kind::kEnded, generation, ""};
}

class BatchTest : public testing::Test {
 protected:
  Batch::Answer Note(const std::string& name) {
    return [this, name](const absl::Status& status) {
      absl::StrAppend(&answers_, name, ":",
                      absl::StatusCodeToString(status.code()), " ");
    };
  }

  Batch batch_;
  std::string answers_;
};

TEST_F(BatchTest, KeepsEffectsInOrderAndEntriesApart) {
  batch_.Add("a", "r", {Entry(1), AbortSent(), Entry(2), Forget{}});
  batch_.AddAnswer("a", Note("a"));
  EXPECT_EQ(batch_.bytes(), AbortSent().message.ByteSizeLong());
  const Batch::Entries entries = batch_.TakeEntries();
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].run, "r");
  EXPECT_EQ(entries[1].action.generation, 2u);
  EXPECT_TRUE(batch_.entries().empty());
  const std::vector<Batch::Effect> effects = batch_.TakeEffects();
  ASSERT_EQ(effects.size(), 3u);
  EXPECT_TRUE(std::holds_alternative<Send>(effects[0].what));
  EXPECT_TRUE(std::holds_alternative<Forget>(effects[1].what));
  EXPECT_TRUE(std::holds_alternative<Batch::Answer>(effects[2].what));
  EXPECT_EQ(batch_.bytes(), 0u);
  EXPECT_TRUE(batch_.TakeEffects().empty());
  EXPECT_EQ(answers_, "");
}

TEST_F(BatchTest, DropsWhatFollowsFromEntriesThatWereNotWritten) {
  batch_.Add("a", "r", {Entry(1), AbortSent()});
  batch_.Add("b", "r", {Entry(1), AbortSent()});
  batch_.AddAnswer("a", Note("a"));
  batch_.AddAnswer("b", Note("b"));
  batch_.AddAnswer("", Note("none"));
  batch_.Drop({{"a", absl::UnavailableError("full")}});
  EXPECT_EQ(answers_, "a:UNAVAILABLE ");
  std::string kept;
  for (const Batch::Effect& effect : batch_.TakeEffects()) {
    absl::StrAppend(&kept, effect.job, " ");
  }
  EXPECT_EQ(kept, "b b  ");
}

TEST_F(BatchTest, DropsAll) {
  batch_.Add("a", "r", {Entry(1), AbortSent()});
  batch_.AddAnswer("a", Note("a"));
  batch_.AddAnswer("", Note("none"));
  batch_.DropAll(absl::AbortedError("no leader"));
  EXPECT_EQ(answers_, "a:ABORTED none:ABORTED ");
  EXPECT_TRUE(batch_.entries().empty());
  EXPECT_TRUE(batch_.TakeEffects().empty());
}

TEST(DelayedCalls, AreMadeWhenTheyAreDue) {
  DelayedCalls calls;
  std::string made;
  const auto add = [&](int seconds, char name) {
    calls.Add(kStart, kStart + absl::Seconds(seconds),
              [&made, name] { made.push_back(name); });
  };
  EXPECT_EQ(calls.NextDue(), absl::InfiniteFuture());
  add(0, 'n');
  add(3, 'c');
  add(1, 'a');
  add(1, 'b');
  EXPECT_EQ(made, "n");
  EXPECT_EQ(calls.NextDue(), kStart + absl::Seconds(1));
  calls.Run(kStart + absl::Seconds(2));
  EXPECT_EQ(made, "nab");
  calls.Run(absl::InfiniteFuture());
  EXPECT_EQ(made, "nabc");
  calls.Run(absl::InfiniteFuture());
}

TEST(DelayedCalls, AreMadeAtOnceWhereTooManyWait) {
  DelayedCalls calls;
  size_t made = 0;
  for (size_t i = 0; i <= DelayedCalls::kMax; ++i) {
    calls.Add(kStart, kStart + absl::Seconds(1), [&] { ++made; });
  }
  EXPECT_EQ(made, 1u);
}

}  // namespace
}  // namespace rollcall

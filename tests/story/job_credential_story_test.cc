// Whose credential a job still goes by.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <variant>

#include "tests/story/job_story.h"

namespace rollcall {
namespace {

JournalState CommittedState(const JobStory& story) {
  JournalState state;
  state.run = "run1";
  EXPECT_TRUE(state.settings.ParseFromString(
      story.journal().at(Journal::Kind::kRunStarted).body));
  const Journal& proposed = story.journal().at(Journal::Kind::kProposed);
  state.generation = proposed.generation;
  state.proposal.emplace();
  EXPECT_TRUE(state.proposal->ParseFromString(proposed.body));
  state.seal.emplace();
  EXPECT_TRUE(state.seal->ParseFromString(
      story.journal().at(Journal::Kind::kCommitted).body));
  return state;
}

// What the job says of a credential that is genuine: of node a, in this life.
bool Stands(JobStory& story, uint64_t incarnation, uint64_t previous = 0) {
  v1::Hello hello = HelloOf("a", incarnation);
  hello.set_previous_incarnation(previous);
  return story.job().CredentialStands(hello);
}

TEST(Credential, StandsForTheLifeThatHoldsThePlace) {
  JobStory story("2:3");
  EXPECT_TRUE(Stands(story, 1)) << "nobody holds it";
  story.Tell({{0.0, Attends("a", 1), ""}});
  EXPECT_TRUE(Stands(story, 1));
  EXPECT_FALSE(Stands(story, 2));
  // The next life of the same agent shows the one before it.
  EXPECT_TRUE(Stands(story, 2, 1));
  EXPECT_FALSE(Stands(story, 1, 2));
  // With a broken stream it is still its own.
  story.Tell({{0.1, Breaks("a"), ""}});
  EXPECT_TRUE(Stands(story, 1));
}

TEST(Credential, OfAReplacedLifeIsNoMore) {
  JobStory story("2:3");
  story.Tell({
      {0.0, Attends("a", 1), ""},
      {0.1, Breaks("a"), ""},
      {0.2, Attends("a", 2), ""},
  });
  EXPECT_FALSE(Stands(story, 1));
  EXPECT_FALSE(Stands(story, 3, 1));
  EXPECT_TRUE(Stands(story, 2));
  EXPECT_TRUE(Stands(story, 3, 2));
}

TEST(Credential, OfALostLifeLetsItsAgentAttendAnew) {
  JobStory story("2:3");
  story.Tell({
      {0.0, Attends("a", 1), ""},
      {0.1, Breaks("a"), ""},
      {1.2, Ticks(), ""},
  });
  EXPECT_TRUE(Stands(story, 1)) << "it is told LOST, and not that it is false";
  EXPECT_TRUE(Stands(story, 2, 1));
  story.Tell({
      {1.3, Attends("a", 1), "refuse a LOST"},
      {1.4, Attends("a", 2), ""},
  });
  EXPECT_FALSE(Stands(story, 1));
  EXPECT_TRUE(Stands(story, 2));
}

TEST(Credential, OfAMemberFromTheJournalStands) {
  JobStory first("2");
  first.Tell({
      {0.0, Attends("a", 7), ""},
      {0.0, Attends("b", 8), "form g1 a,b"},
      {0.1, PreparesAll({"a", "b"}, 1), "run g1"},
  });
  JobStory story(Job::Restore("demo", CommittedState(first), Limits(),
                              absl::UnixEpoch() + absl::Seconds(0.1)),
                 first);
  // The journal knows no incarnations: whoever shows a genuine one is it.
  EXPECT_TRUE(Stands(story, 7));
  EXPECT_TRUE(Stands(story, 9, 7));
  EXPECT_FALSE(story.job().AwaitsWord(HelloOf("a", 7)));
  HelloOptions holds;
  holds.run = "run1";
  holds.held.set_running_generation(1);
  story.Tell({{0.2, Attends("a", 7, holds), ""}});
  EXPECT_TRUE(story.job().AwaitsWord(HelloOf("a", 7)));
  EXPECT_TRUE(Stands(story, 7));
  EXPECT_FALSE(Stands(story, 6));
}

TEST(Credential, TheJobKnowsWhoIsInAndWhoAttends) {
  JobStory story("2:3");
  EXPECT_FALSE(story.job().AwaitsWord(HelloOf("a", 1)));
  story.Tell({{0.0, Attends("a", 1), ""}});
  EXPECT_TRUE(story.job().AwaitsWord(HelloOf("a", 1)));
  EXPECT_FALSE(story.job().AwaitsWord(HelloOf("a", 2)));
  EXPECT_FALSE(story.job().AwaitsWord(HelloOf("b", 1)));
  const SessionId older = story.SessionOf("a");
  EXPECT_TRUE(story.job().Attends(older));
  EXPECT_FALSE(story.job().Attends(older + 1));
  // A newer stream takes the place of the older one.
  story.Tell({{0.1, Attends("a", 1), "refuse a REDIALED"}});
  EXPECT_FALSE(story.job().Attends(older));
  EXPECT_TRUE(story.job().Attends(story.SessionOf("a")));
  // One that is refused never attended.
  HelloOptions other;
  other.run = "another";
  story.Tell({{0.2, Attends("b", 1, other), "refuse b OTHER_RUN"}});
  EXPECT_FALSE(story.job().Attends(story.SessionOf("b")));
  EXPECT_FALSE(story.job().AwaitsWord(HelloOf("b", 1)));
  story.Tell({{0.3, Breaks("a"), ""}});
  EXPECT_FALSE(story.job().Attends(story.SessionOf("a")));
  EXPECT_TRUE(story.job().AwaitsWord(HelloOf("a", 1)));
}

TEST(Credential, EachWelcomeBringsThatOfItsOwnLife) {
  JobStory story("2:3");
  const auto welcomed = [&](uint64_t incarnation) {
    Attend attend;
    attend.hello = HelloOf("a", incarnation);
    attend.session = story.NewSession("a");
    attend.credential = "credential of " + std::to_string(incarnation);
    for (const Action& action : story.job().Step(attend, story.now())) {
      const auto* send = std::get_if<Send>(&action);
      if (send != nullptr && send->message.has_welcome()) {
        return send->message.welcome().node_credential();
      }
    }
    return std::string("no welcome");
  };
  EXPECT_EQ(welcomed(1), "credential of 1");
  EXPECT_EQ(welcomed(1), "credential of 1");
  story.Tell({{0.1, Breaks("a"), ""}});
  EXPECT_EQ(welcomed(2), "credential of 2");
}

}  // namespace
}  // namespace rollcall

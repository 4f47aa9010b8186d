#include "daemon/server/trace/formation_spans.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "tests/unit/time_at.h"

namespace rollcall {
namespace {

// Returns "gather 0-2, prepare 1 2-3; formed", in seconds since wall clock time
// 100.
std::string Text(const FormationTrace& formation) {
  const auto seconds = [](absl::Time time) {
    return absl::ToDoubleSeconds(time - At(100));
  };
  std::string text;
  for (const FormationTrace::Phase& phase : formation.phases) {
    absl::StrAppend(&text, phase.name, " ", phase.generation, " ",
                    seconds(phase.begin), "-", seconds(phase.end), ", ");
  }
  return absl::StrCat(text, seconds(formation.begin), "-",
                      seconds(formation.end),
                      formation.formed ? " formed" : " not formed");
}

TEST(FormationSpans, PhasesFollowTheStateOfTheJob) {
  struct Row {
    double at;
    v1::JobState state;
    uint64_t generation;
    bool probing;
    const char* expected;  // Of a formation that ends here.
  };
  constexpr auto kGathering = v1::JOB_STATE_GATHERING;
  constexpr auto kForming = v1::JOB_STATE_FORMING;
  constexpr auto kRunning = v1::JOB_STATE_RUNNING;
  constexpr auto kIsolated = v1::JOB_STATE_ISOLATED;
  const std::vector<std::vector<Row>> kRuns = {
      {{0, kGathering, 0, false, ""},
       {1, kGathering, 0, false, ""},
       {2, kGathering, 0, true, ""},
       {3, kForming, 1, false, ""},
       // The proposal was superseded.
       {4, kForming, 2, false, ""},
       {5, kRunning, 2, false,
        "gather 0 0-2, probe 0 2-3, prepare 1 3-4, prepare 2 4-5, 0-5 formed"},
       {6, kRunning, 2, false, ""},
       {9, kForming, 3, false, ""},
       {10, kIsolated, 3, false, ""},
       {12, kForming, 3, false, ""},
       {13, kRunning, 3, false,
        "prepare 3 9-10, isolated 3 10-12, prepare 3 12-13, 9-13 formed"}},
      // The daemon took over a running world, and then was cut off for a while.
      {{0, kRunning, 7, false, ""},
       {1, kIsolated, 7, false, ""},
       {2, kRunning, 7, false, ""},
       {3, kGathering, 7, false, ""},
       {4, v1::JOB_STATE_FAILED, 7, false, "gather 7 3-4, 3-4 not formed"},
       {5, v1::JOB_STATE_FAILED, 7, false, ""}}};
  for (const std::vector<Row>& run : kRuns) {
    FormationSpans spans;
    for (const Row& row : run) {
      const auto ended = spans.Note({row.state, row.generation, row.probing},
                                    At(row.at), At(100 + row.at));
      EXPECT_EQ(ended.has_value() ? Text(*ended) : "", row.expected)
          << "at " << row.at;
    }
  }
}

TEST(FormationSpans, PhasesAreBounded) {
  FormationSpans spans;
  for (size_t i = 0; i < FormationSpans::kPhasesMax + 3; ++i) {
    EXPECT_FALSE(spans.Note({v1::JOB_STATE_FORMING, i, false},
                            At(static_cast<double>(i)), At(0)));
  }
  const auto ended =
      spans.Note({v1::JOB_STATE_RUNNING, 70, false}, At(100), At(0));
  ASSERT_TRUE(ended.has_value());
  EXPECT_EQ(ended->phases.size(), FormationSpans::kPhasesMax);
  EXPECT_EQ(ended->phases_left_out, 3u);
}

TEST(FormationSpans, ALineIsAnExportRequest) {
  FormationTrace formation;
  formation.begin = At(1.5);
  formation.end = At(4);
  formation.formed = true;
  formation.phases = {{"gather", 0, At(1.5), At(2)},
                      {"prepare", 1, At(2), At(4)}};
  const FormationFacts facts = {"demo",  "run1",        1, 2, 16,
                                "first", "\"quoted\"\n"};
  const std::string line = OtlpLine(formation, facts);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto json = nlohmann::json::parse(line);
  const auto& resource = json.at("resourceSpans").at(0);
  EXPECT_EQ(resource.at("resource").at("attributes").at(0).at("key"),
            "service.name");
  const auto& spans = resource.at("scopeSpans").at(0).at("spans");
  ASSERT_EQ(spans.size(), 3u);
  EXPECT_EQ(spans[0].at("name"), "formation");
  EXPECT_EQ(spans[0].at("startTimeUnixNano"), "1500000000");
  EXPECT_EQ(spans[0].at("endTimeUnixNano"), "4000000000");
  EXPECT_EQ(spans[0].at("status").at("code"), 1);
  EXPECT_EQ(spans[0].at("parentSpanId").get<std::string>().size(), 16u);
  EXPECT_EQ(spans[0].at("traceId").get<std::string>().size(), 32u);
  EXPECT_EQ(spans[0].at("spanId").get<std::string>().size(), 16u);
  for (size_t i : {1, 2}) {
    EXPECT_EQ(spans[i].at("parentSpanId"), spans[0].at("spanId"));
    EXPECT_EQ(spans[i].at("traceId"), spans[0].at("traceId"));
    EXPECT_NE(spans[i].at("spanId"), spans[0].at("spanId"));
  }
  EXPECT_NE(spans[1].at("spanId"), spans[2].at("spanId"));
  const auto& world_size = spans[0].at("attributes").at(4);
  EXPECT_EQ(world_size.at("key"), "rollcall.world_size");
  EXPECT_EQ(world_size.at("value").at("intValue"), "16");
  formation.formed = false;
  EXPECT_EQ(nlohmann::json::parse(
                OtlpLine(formation, facts))["resourceSpans"][0]["scopeSpans"][0]
                                           ["spans"][0]["status"]["code"],
            2);
}

}  // namespace
}  // namespace rollcall

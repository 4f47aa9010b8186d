// What a daemon hears of the last generation, and how often: a table.
#include "client/agent/core/agent/state/generation_answer.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "absl/strings/str_cat.h"

namespace rollcall {
namespace {

std::string AnswerText(const std::optional<v1::AgentMessage>& message) {
  if (!message.has_value()) return "";
  if (message->has_stopped()) {
    return absl::StrCat("stopped ", message->stopped().generation());
  }
  return absl::StrCat("refused ", message->refused().generation(), " ",
                      message->refused().reason());
}

TEST(GenerationAnswer, Table) {
  using Answer = GenerationAnswer;
  const auto refuse = [](uint64_t generation) {
    return [=](Answer& answer) { answer.Refuse(generation, "why"); };
  };
  const auto stopped = [](uint64_t generation) {
    return [=](Answer& answer) { answer.Stopped(generation); };
  };
  const auto forget = [](Answer& answer) { answer.Forget(); };
  const auto stream = [](Answer& answer) { answer.NewStream(); };
  const auto nothing = [](Answer&) {};
  const struct {
    std::function<void(Answer&)> event;
    bool settled;
    std::string expect;
  } kRows[] = {
      {nothing, true, ""},
      {refuse(1), false, "refused 1 why"},  // Whatever runs here.
      {nothing, true, ""},                  // Once on each stream.
      {stream, false, "refused 1 why"},
      {forget, true, ""},
      {stream, true, ""},
      {stopped(2), false, ""},
      {nothing, false, ""},
      {nothing, true, "stopped 2"},
      {nothing, true, ""},
      {stream, false, ""},
      {nothing, true, "stopped 2"},
      {stopped(2), true, "stopped 2"},  // The daemon asked again.
      {stopped(3), false, ""},
      {refuse(4), false, "refused 4 why"},  // Instead of Stopped(3).
      {nothing, true, ""},
      {stopped(4), true, "stopped 4"},  // Instead of Refused(4).
      {stream, true, "stopped 4"},
      {forget, true, ""},
  };
  Answer answer;
  int number = 0;
  for (const auto& row : kRows) {
    SCOPED_TRACE(absl::StrCat("row ", number++));
    row.event(answer);
    EXPECT_EQ(AnswerText(answer.Take(row.settled)), row.expect);
  }
}

}  // namespace
}  // namespace rollcall

// EventLog: what is kept, what is read again, and what a full disk costs.
#include "daemon/server/events/event_log.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/base/durations.h"
#include "daemon/core/limits.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace rollcall {
namespace {

constexpr Log::Level kInfo = Log::Level::kInfo;

absl::Time At(double seconds) {
  return absl::FromUnixSeconds(1'000'000) + absl::Seconds(seconds);
}

class EventLogTest : public testing::Test {
 protected:
  EventLogTest() {
    char path[] = "/tmp/event_log_XXXXXX";
    folder_ = mkdtemp(path);
  }
  ~EventLogTest() override { std::filesystem::remove_all(folder_); }

  std::vector<nlohmann::json> Lines(const char* file = EventLog::kFile) const {
    std::vector<nlohmann::json> lines;
    std::ifstream in(folder_ + file);
    for (std::string line; std::getline(in, line);) {
      lines.push_back(nlohmann::json::parse(line));
    }
    return lines;
  }

  std::string folder_;
};

v1::EventsRequest Of(const std::string& job, uint64_t after = 0) {
  v1::EventsRequest request;
  request.set_job(job);
  request.set_after(after);
  return request;
}

TEST_F(EventLogTest, ALineIsTheLogsFieldsWithIdAndRun) {
  EventLog log(folder_);
  log.Add("j", "r1", Log::Level::kWarning,
          "job=j event=lost node=a id=9 reason=\"its stream\nbroke\"", At(1.5));
  const v1::EventsResponse answer = log.Events(Of("j"), At(2));
  ASSERT_EQ(answer.lines_size(), 1);
  EXPECT_EQ(answer.lines(0),
            R"({"id":1,"time":"1970-01-12T13:46:41.500Z","level":"warning",)"
            R"("job":"j","run":"r1","event":"lost","node":"a",)"
            R"("reason":"its stream?broke"})");
  EXPECT_EQ(Lines()[0], nlohmann::json::parse(answer.lines(0)));
  struct stat info;
  ASSERT_EQ(stat((folder_ + EventLog::kFile).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(EventLogTest, AnswersByIdAndByTime) {
  EventLog log("");
  for (int i = 0; i < 5; ++i) {
    log.Add(i == 2 ? "other" : "j", "r", kInfo, absl::StrCat("event=e n=", i),
            At(i));
  }
  EXPECT_EQ(log.Events(Of("j"), At(9)).lines_size(), 4);
  EXPECT_EQ(log.Events(Of("j"), At(9)).last(), 5u);
  EXPECT_EQ(log.Events(Of("j", 2), At(9)).lines_size(), 2);
  EXPECT_EQ(log.Events(Of("j", 5), At(9)).lines_size(), 0);
  EXPECT_EQ(log.Events(Of("none"), At(9)).lines_size(), 0);
  v1::EventsRequest latest = Of("j");
  ToProto(absl::Seconds(6), latest.mutable_within());
  EXPECT_EQ(log.Events(latest, At(9)).lines_size(), 2);
}

TEST_F(EventLogTest, IsBoundedWhateverComes) {
  EventLog log(folder_);
  const std::string reason(1500, 'x');
  log.Add("j", "r", kInfo, "event=run generation=1", At(0));
  constexpr int kLines = 6000;
  for (int i = 1; i < kLines; ++i) {
    log.Add("j", "r", kInfo,
            absl::StrCat("event=lost n=", i, " reason=", reason), At(i));
  }
  size_t bytes = 0;
  uint64_t last = 0;
  for (bool more = true; more;) {
    const v1::EventsResponse answer = log.Events(Of("j", last), At(kLines));
    EXPECT_LE(answer.ByteSizeLong(),
              Limits::event_answer_bytes_max + 2 * Limits::event_bytes_max);
    // What nodes cause does not push out what the job did.
    if (last == 0) {
      EXPECT_EQ(nlohmann::json::parse(answer.lines(0))["event"], "run");
    }
    for (const std::string& one : answer.lines()) bytes += one.size();
    ASSERT_GT(answer.last(), last);
    last = answer.last();
    more = answer.more();
  }
  EXPECT_EQ(last, uint64_t{kLines});
  EXPECT_LE(bytes, Limits::events_of_nodes_bytes_max +
                       Limits::events_of_job_bytes_max);
  EXPECT_GT(bytes, Limits::events_of_nodes_bytes_max / 2);
  // 9 MB were written: two files are full, and the older one is replaced. The
  // new one begins with what the job itself did.
  EXPECT_LE(std::filesystem::file_size(folder_ + EventLog::kFile),
            Limits::event_file_bytes_max);
  EXPECT_LE(std::filesystem::file_size(folder_ + EventLog::kOlderFile),
            Limits::event_file_bytes_max);
  EXPECT_EQ(Lines().front()["event"], "run");
  EXPECT_EQ(Lines(EventLog::kOlderFile).back()["id"].get<int>() + 1,
            Lines()[1]["id"]);
  const EventLog again(folder_);
  EXPECT_EQ(again.Summary("j", "r", At(kLines))->worlds(), 1u);
}

TEST_F(EventLogTest, TheNewestOfTheJobAndOfItsNodes) {
  EventLog log("");
  EXPECT_EQ(log.Newest("j", 0).lines_size(), 0);
  EXPECT_EQ(log.LastId("j"), 0u);
  constexpr int kMany = 2 * EventLog::kNewestMax;
  for (int i = 1; i <= kMany; ++i) {
    log.Add("j", "r", kInfo, absl::StrCat("event=run n=", i), At(i));
  }
  for (int i = 1; i <= kMany; ++i) {
    log.Add("j", "r", kInfo, absl::StrCat("event=lost n=", i), At(kMany + i));
  }
  log.Add("other", "r", kInfo, "event=run", At(0));
  const auto describe = [](const v1::EventsResponse& answer) {
    std::vector<std::string> found;
    for (const std::string& line : answer.lines()) {
      const auto json = nlohmann::json::parse(line);
      found.push_back(absl::StrCat(json["event"].get<std::string>(),
                                   json["n"].get<std::string>()));
    }
    return found;
  };
  const v1::EventsResponse all = log.Newest("j", 0);
  const std::vector<std::string> found = describe(all);
  ASSERT_EQ(found.size(), size_t{kMany});
  EXPECT_EQ(found.front(), absl::StrCat("run", kMany / 2 + 1));
  EXPECT_EQ(found[kMany / 2 - 1], absl::StrCat("run", kMany));
  EXPECT_EQ(found.back(), absl::StrCat("lost", kMany));
  EXPECT_TRUE(all.more());
  EXPECT_EQ(all.last(), uint64_t{2 * kMany});
  EXPECT_EQ(log.LastId("j"), all.last());
  log.Add("j", "r", kInfo, "event=run n=9", At(0));
  const v1::EventsResponse next = log.Newest("j", all.last());
  EXPECT_EQ(describe(next), std::vector<std::string>{"run9"});
  EXPECT_FALSE(next.more());
  EXPECT_EQ(log.Newest("j", next.last()).lines_size(), 0);
  EXPECT_EQ(log.Newest("j", next.last()).last(), next.last());
  // Long events.
  for (int i = 0; i < kMany; ++i) {
    log.Add("j", "r", kInfo,
            absl::StrCat("event=lost reason=", std::string(1500, 'x')), At(0));
  }
  EXPECT_LE(log.Newest("j", 0).ByteSizeLong(), size_t{128} << 10);
}

TEST_F(EventLogTest, TheLastStepOutlivesTheDaemonAndAFullFile) {
  {
    EventLog log(folder_);
    log.Add("j", "r1", kInfo, "event=end code=REASON_CODE_REQUEUE step=9",
            At(0));
    log.Add("j", "r2", kInfo, "event=start nodes=1:1", At(1));
    const std::string reason(1500, 'x');
    for (int i = 0; i < 6000; ++i) {
      log.Add("j", "r2", kInfo, absl::StrCat("event=lost reason=", reason),
              At(2));
    }
    log.Add("k", "r3", kInfo, "event=end code=REASON_CODE_FINISHED step=9",
            At(3));
  }
  EventLog log(folder_);
  EXPECT_EQ(log.LastStepOf("j"), (LastStep{"r1", 9}));
  EXPECT_EQ(log.LastStepOf("k"), LastStep());
  EXPECT_EQ(log.LastStepOf("none"), LastStep());
}

TEST_F(EventLogTest, OnlyJobsThatAreOverMakeRoom) {
  EventLog log("");
  const auto count = [&log](const std::string& job) {
    return log.Events(Of(job), At(9)).lines_size();
  };
  log.Add("quiet", "r", kInfo, "event=run generation=1", At(0));
  for (size_t i = 0; i < 2 * Limits::event_jobs_max; ++i) {
    const std::string job = absl::StrCat("k", i);
    log.Add(job, "r", kInfo, "event=start", At(0));
    log.Forget(job);
  }
  EXPECT_EQ(count("quiet"), 1);
  EXPECT_EQ(count("k0"), 0);
  EXPECT_EQ(count(absl::StrCat("k", 2 * Limits::event_jobs_max - 1)), 1);
  // In memory only, another daemon may have led since.
  log.Begin();
  EXPECT_EQ(count("quiet"), 0);
}

TEST_F(EventLogTest, ADaemonThatStartsAgainGoesOn) {
  {
    EventLog log(folder_);
    log.Add("j", "r0", kInfo, "event=run generation=1", At(0));
    log.Add("j", "r", kInfo, "event=start", At(1));
    log.Add("j", "r", kInfo, "event=run generation=1", At(2));
  }
  std::ofstream(folder_ + EventLog::kFile, std::ios::app)
      << "no json\n[1]\n{\"id\":7}\n{\"id\":\"8\",\"time\":\"x\"}\n"
      << R"({"id":7,"time":3})"
      << "\n"
      << R"({"id":7,"time":"infinite-future","job":"j"})"
      << "\n"
      << R"({"id":18446744073709551615,"time":"2026-01-01T00:00:00Z"})"
      << "\n"
      << R"({"id":7,"time":"2026-01-01T00:00:00Z","job":5})"
      << "\n"
      << R"({"id":-1,"time":"2026-01-01T00:00:00Z","job":"j"})"
      << "\n"
      << std::string(100'000, 'x') << "\n"
      << R"({"id":8,"ti)";
  EventLog log(folder_);
  EXPECT_EQ(log.Events(Of("j"), At(9)).lines_size(), 3);
  log.Add("j", "r", kInfo,
          "event=abort generation=1 code=REASON_CODE_HANG reason=\"it hangs\"",
          At(5));
  const auto summary = log.Summary("j", "r", At(6));
  ASSERT_TRUE(summary.has_value());
  EXPECT_EQ(FromProto(summary->elapsed()), absl::Seconds(5));
  EXPECT_EQ(FromProto(summary->running()), absl::Seconds(3));
  ASSERT_EQ(summary->interruptions_size(), 1);
  EXPECT_EQ(summary->interruptions(0).reason(), "it hangs");
  EXPECT_EQ(log.Events(Of("j"), At(9)).last(), 8u);
  // The part of a line has an end, so the new one is a line of its own.
  EXPECT_EQ(EventLog(folder_).Events(Of("j"), At(9)).lines_size(), 4);
  EXPECT_FALSE(log.Summary("j", "r0", At(6)).has_value());
  EXPECT_FALSE(log.Summary("other", "r", At(6)).has_value());
}

// A limit on the size of files stands in for a full disk.
TEST_F(EventLogTest, AFullDiskLosesEventsAndSaysHowMany) {
  std::signal(SIGXFSZ, SIG_IGN);
  EventLog log(folder_);
  log.Add("j", "r", kInfo, "event=first", At(0));
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit full = before;
  // Room for a part of the next line.
  full.rlim_cur = std::filesystem::file_size(folder_ + EventLog::kFile) + 20;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &full), 0);
  log.Add("j", "r", kInfo, "event=second", At(1));
  log.Add("j", "r", kInfo, "event=third", At(2));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(log.Events(Of("j"), At(9)).lost(), 2u);
  EXPECT_EQ(log.Summary("j", "r", At(9))->events_lost(), 2u);
  EXPECT_EQ(log.Events(Of("j"), At(9)).lines_size(), 3);
  log.Add("j", "r", kInfo, "event=fourth", At(3));
  const auto lines = Lines();
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0]["event"], "first");
  EXPECT_EQ(lines[1]["event"], "events_lost");
  EXPECT_EQ(lines[1]["count"], "2");
  EXPECT_EQ(lines[1]["id"].get<int>() + 1, lines[2]["id"]);
  EXPECT_EQ(lines[2]["event"], "fourth");
}

// When the disk filled, the new file had no room for the first lines.
TEST_F(EventLogTest, ANewFileGetsItsFirstLinesLater) {
  std::signal(SIGXFSZ, SIG_IGN);
  EventLog log(folder_);
  log.Add("j", "r", kInfo, "event=run generation=1", At(0));
  const std::string reason(1500, 'x');
  const auto bytes = [this] {
    return std::filesystem::file_size(folder_ + EventLog::kFile);
  };
  while (bytes() + 2000 < Limits::event_file_bytes_max) {
    log.Add("j", "r", kInfo, absl::StrCat("event=lost reason=", reason), At(1));
  }
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit full = before;
  full.rlim_cur = 20;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &full), 0);
  for (int i = 0; i < 3; ++i) {
    log.Add("j", "r", kInfo, absl::StrCat("event=lost reason=", reason), At(2));
  }
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  ASSERT_EQ(bytes(), 0u);
  log.Add("j", "r", kInfo, "event=notice", At(3));
  const auto lines = Lines();
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0]["event"], "run");
  EXPECT_EQ(lines[1]["event"], "events_lost");
  EXPECT_EQ(lines[2]["event"], "notice");
}

TEST_F(EventLogTest, AFileThatCannotBeRenamedDoesNotGrow) {
  std::filesystem::create_directories(folder_ + EventLog::kOlderFile + "/x");
  const std::string reason(1500, 'x');
  EventLog log(folder_);
  for (int i = 0; i < 4000; ++i) {
    log.Add("j", "r", kInfo, absl::StrCat("event=lost reason=", reason), At(i));
  }
  EXPECT_LE(std::filesystem::file_size(folder_ + EventLog::kFile),
            Limits::event_file_bytes_max);
  EXPECT_GT(log.Events(Of("j"), At(9)).lost(), 1000u);
}

TEST_F(EventLogTest, AFolderThatIsMissingCostsTheFile) {
  EventLog log(folder_ + "/none");
  log.Add("j", "r", kInfo, "event=first", At(0));
  EXPECT_EQ(log.Events(Of("j"), At(9)).lost(), 1u);
  EXPECT_EQ(log.Events(Of("j"), At(9)).lines_size(), 1);
}

}  // namespace
}  // namespace rollcall

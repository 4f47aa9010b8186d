// This binary also acts as `rollcall facts`; see main at the end.
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <csignal>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/facts/device_facts.h"
#include "client/facts/facts.h"
#include "client/facts/isolated_query.h"
#include "daemon/core/admission/admission.h"
#include "daemon/core/limits.h"
#include "tests/unit/facts/facts_fixture.h"

extern char** environ;

namespace rollcall {
namespace {

class DeviceFactsTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    unsetenv("FACTS_ANSWER");
    options_.sysroot = Machine("dgx_h100");
    options_.verbs_library = Verbs();
    options_.nvml_library = NvmlLibrary();
    options_.nccl_library = "/nowhere/libnccl.so.2";
    options_.timeout = absl::Seconds(60);
  }

  static std::vector<std::string> Environment() {
    std::vector<std::string> environment;
    for (char** entry = environ; *entry != nullptr; ++entry) {
      environment.emplace_back(*entry);
    }
    return environment;
  }

  v1::Facts AskByCommand() {
    v1::Facts facts = AskDeviceFacts("/proc/self/exe", Environment(), options_);
    EXPECT_TRUE(AdmitFacts(facts).ok()) << AdmitFacts(facts);
    return facts;
  }

  DeviceFactsOptions options_;
};

TEST(IsolatedQuery, ReportsAreReadUpToTheLastThatIsWhole) {
  v1::Facts first;
  first.set_gpu_count(1);
  v1::Facts second;
  second.set_gpu_count(2);
  const std::string one = EncodeReport(first, "a", false);
  const std::string two = EncodeReport(second, "b", false);
  const std::string end = EncodeReport(second, "", true);
  struct {
    const char* name;
    std::string bytes;
    uint32_t count;
    const char* step;
    bool failed;
  } const kRows[] = {
      {"nothing", "", 0, "", true},
      {"one", one, 1, "a", true},
      {"two", one + two, 2, "b", true},
      {"to the end", one + two + end, 2, "", false},
      {"the second is cut", one + two.substr(0, two.size() - 1), 1, "a", true},
      {"a head is cut", one + two.substr(0, 3), 1, "a", true},
      {"garbage", one + std::string(64, '\xff'), 1, "a", true},
      {"what follows the end", end + one, 2, "", false},
  };
  for (const auto& row : kRows) {
    const IsolatedAnswer answer = DecodeReports(row.bytes);
    EXPECT_EQ(answer.facts.gpu_count(), row.count) << row.name;
    EXPECT_EQ(answer.step, row.step) << row.name;
    EXPECT_EQ(!answer.failure.empty(), row.failed) << row.name;
  }
}

TEST(IsolatedQuery, OneThatHangsOrCrashesCostsNoOther) {
  using Report = IsolatedQuery::Report;
  const auto facts = [](uint32_t count) {
    v1::Facts made;
    made.set_gpu_count(count);
    return made;
  };
  const std::vector<IsolatedQuery> queries = {
      {[&](const Report& report) {
        report(facts(7), "the bad one");
        while (true) pause();
        return facts(0);
      }},
      {[&](const Report&) { return facts(1); }},
      {[&](const Report& report) {
        report(facts(8), "");
        raise(SIGABRT);
        return facts(0);
      }},
      // The answer is more than a pipe can hold, while the parent waits for the
      // first query.
      {[&](const Report&) {
        v1::Facts made = facts(3);
        made.set_hostname(std::string(1 << 20, 'x'));
        return made;
      }},
      {[&](const Report&) {
        _exit(0);
        return facts(0);
      }},
  };
  const auto answers = AskIsolated(queries, absl::Seconds(2));
  ASSERT_EQ(answers.size(), 5u);
  EXPECT_EQ(answers[0].facts.gpu_count(), 7u);
  EXPECT_EQ(answers[0].step, "the bad one");
  EXPECT_EQ(answers[0].failure, "no answer within 2s");
  EXPECT_EQ(answers[1].facts.gpu_count(), 1u);
  EXPECT_EQ(answers[1].failure, "");
  EXPECT_EQ(answers[2].facts.gpu_count(), 8u);
  EXPECT_EQ(answers[2].failure, "it ended by signal 6");
  EXPECT_EQ(answers[3].failure, "");
  EXPECT_EQ(answers[3].facts.hostname().size(), size_t{1} << 20);
  EXPECT_EQ(answers[4].failure, "it gave no answer");
}

TEST(FactsArguments, ComeBackAsTheyWere) {
  DeviceFactsOptions options;
  options.sysroot = "/r";
  options.verbs_library = "/v";
  options.nvml_library = "/n";
  options.nccl_library = "/c";
  options.folders = {"/a", "b c"};
  options.timeout = absl::Milliseconds(1234);
  const auto back = ParseFactsArguments(FactsArguments(options));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->options.sysroot, "/r");
  EXPECT_EQ(back->options.verbs_library, "/v");
  EXPECT_EQ(back->options.nvml_library, "/n");
  EXPECT_EQ(back->options.nccl_library, "/c");
  EXPECT_EQ(back->options.folders, options.folders);
  EXPECT_EQ(back->options.timeout, options.timeout);
  EXPECT_FALSE(back->json);
  EXPECT_TRUE(ParseFactsArguments({"--json"})->json);
  using Arguments = std::vector<std::string>;
  for (const Arguments& bad :
       {Arguments{"--sysroot"}, Arguments{"--sysroot", ""}, Arguments{"x"},
        Arguments{"--timeout-ms", "0"}, Arguments{"--timeout-ms", "x"},
        Arguments{"--timeout-ms", "600001"}}) {
    EXPECT_EQ(ParseFactsArguments(bad).status().code(),
              absl::StatusCode::kInvalidArgument)
        << bad[0];
  }
}

TEST_F(DeviceFactsTest, AllFactsOfANodeWithEightOfEach) {
  options_.folders = {folder_.path(), "/dev/null/x"};
  // A library's output does not mix with the answer.
  setenv("FAKE_NVML", "chatter=1", 1);
  const v1::Facts facts = AskByCommand();
  ASSERT_EQ(facts.infiniband_size(), 8);
  ASSERT_EQ(facts.gpus_size(), 8);
  EXPECT_EQ(facts.gpu_count(), 8u);
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(facts.infiniband(i).unusable(), "");
    EXPECT_EQ(facts.infiniband(i).gids_size(), 1);
    ASSERT_EQ(facts.gpus(i).near_hcas_size(), 1);
    EXPECT_EQ(facts.gpus(i).near_hcas(0), facts.infiniband(i).device());
  }
  EXPECT_EQ(facts.versions().cuda(), "13.0");
  ASSERT_EQ(facts.folders_size(), 2);
  EXPECT_EQ(facts.folders(0).path(), folder_.path());
  EXPECT_GT(facts.folders(0).size_bytes(), 0u);
  EXPECT_EQ(facts.folders(1).path(), "/dev/null/x");
  EXPECT_EQ(facts.folders(1).size_bytes(), 0u);
  auto missing = Missing(facts);
  EXPECT_EQ(missing.size(), 2u) << facts.ShortDebugString();
  EXPECT_TRUE(absl::StrContains(missing["versions.nccl"], "/nowhere"));
  EXPECT_TRUE(absl::StrContains(missing["folders./dev/null/x"], "/dev/null"));
}

TEST_F(DeviceFactsTest, ALibraryThatHangsOrCrashesCostsItsDevices) {
  options_.timeout = absl::Seconds(3);
  setenv("FAKE_VERBS", "ibv_open_device@mlx5_3=crash", 1);
  setenv("FAKE_NVML", "nvmlDeviceGetMemoryInfo@5=hang", 1);
  const v1::Facts facts = AskByCommand();
  ASSERT_EQ(facts.infiniband_size(), 8);
  for (int i = 0; i < 8; ++i) {
    const v1::InfinibandPort& port = facts.infiniband(i);
    EXPECT_EQ(port.unusable().empty(), i < 3) << port.ShortDebugString();
    EXPECT_EQ(port.state(), "ACTIVE");
  }
  EXPECT_TRUE(absl::StrContains(facts.infiniband(3).unusable(), "signal 6"))
      << facts.infiniband(3).unusable();
  EXPECT_EQ(facts.gpus_size(), 5) << "those before the one that hangs";
  EXPECT_EQ(facts.gpu_count(), 8u);
  auto missing = Missing(facts);
  EXPECT_TRUE(absl::StrContains(missing["infiniband.mlx5_3"], "signal 6"))
      << facts.ShortDebugString();
  EXPECT_TRUE(absl::StrContains(missing["gpus.5"], "no answer within"))
      << facts.ShortDebugString();
}

TEST_F(DeviceFactsTest, ALibraryThatFailsAtOnceLeavesWhatTheKernelSays) {
  options_.timeout = absl::Seconds(3);
  setenv("FAKE_VERBS", "ibv_get_device_list=hang", 1);
  setenv("FAKE_NVML", "nvmlInit_v2=crash", 1);
  const v1::Facts facts = AskByCommand();
  ASSERT_EQ(facts.infiniband_size(), 8);
  for (const auto& port : facts.infiniband()) {
    EXPECT_TRUE(absl::StrContains(port.unusable(), "no answer"))
        << port.device();
  }
  EXPECT_EQ(facts.gpus_size(), 0);
  EXPECT_EQ(facts.gpu_count(), 8u);
  auto missing = Missing(facts);
  EXPECT_TRUE(absl::StrContains(missing["infiniband"], "no answer within"));
  EXPECT_TRUE(absl::StrContains(missing["gpus"], "signal 6"));
}

// The command is missing, silent, crashed, or gives a wrong answer.
TEST_F(DeviceFactsTest, ACommandThatDoesNotAnswerIsAMissingFact) {
  struct {
    const char* answer;
    const char* reason;
  } const kRows[] = {
      {"silent", "no answer within"},     {"garbage", "cannot be parsed"},
      {"crash", "by signal 6"},           {"code", "with code 3"},
      {"unfit", "facts.infiniband.port"}, {"endless", "more than"},
  };
  for (const auto& row : kRows) {
    setenv("FACTS_ANSWER", row.answer, 1);
    options_.timeout =
        absl::Milliseconds(std::string(row.answer) == "silent" ? 200 : 60000);
    options_.folders = {"/data"};
    const v1::Facts facts = AskByCommand();
    EXPECT_EQ(facts.infiniband_size(), 0) << row.answer;
    ASSERT_EQ(facts.folders_size(), 1) << row.answer;
    EXPECT_EQ(facts.folders(0).path(), "/data");
    auto missing = Missing(facts);
    for (const char* fact :
         {"infiniband", "gpus", "versions.nccl", "folders./data"}) {
      EXPECT_TRUE(absl::StrContains(missing[fact], row.reason))
          << row.answer << ": " << missing[fact];
    }
  }
  const v1::Facts none = AskDeviceFacts("/nowhere/rollcall", {}, options_);
  EXPECT_TRUE(absl::StrContains(Missing(none)["gpus"], "/nowhere/rollcall"));
}

TEST_F(DeviceFactsTest, AHelloGetsThemAll) {
  NodeFactsOptions options;
  options.environment = Environment();
  options.devices = options_;
  const v1::Facts facts = GatherNodeFacts(options);
  EXPECT_TRUE(AdmitFacts(facts).ok()) << AdmitFacts(facts);
  EXPECT_EQ(facts.infiniband_size(), 8);
  EXPECT_EQ(facts.gpus_size(), 8);
  EXPECT_EQ(facts.gpu_count(), 8u);
  EXPECT_GT(facts.interfaces_size(), 0);
  EXPECT_FALSE(facts.boot_id().empty());
  EXPECT_FALSE(facts.versions().kernel().empty());
  EXPECT_EQ(facts.versions().driver(), "580.65.06");
}

// On a busy node a library may be too slow, although the devices are still
// there.
TEST_F(DeviceFactsTest, ACheckTakesNoDevicesAwayThatGaveNoAnswer) {
  NodeFactsOptions options;
  options.environment = Environment();
  options.devices = options_;
  v1::Facts known = GatherNodeFacts(options);
  known.set_probe_port(7);
  known.set_advertised_address("203.0.113.7");
  known.add_folders()->set_path("/data");
  v1::Facts checked = GatherNodeFacts(options);
  checked.mutable_infiniband(3)->set_state("DOWN");
  checked.clear_interfaces();
  checked.add_interfaces()->set_name("new0");
  // If all facts were found, all are taken.
  v1::Facts facts = known;
  TakeChecked(checked, facts);
  EXPECT_EQ(facts.infiniband(3).state(), "DOWN");
  ASSERT_EQ(facts.interfaces_size(), 1);
  EXPECT_EQ(facts.probe_port(), 7u);
  EXPECT_EQ(facts.advertised_address(), "203.0.113.7");
  EXPECT_EQ(facts.folders_size(), 1);

  options.devices.timeout = absl::Milliseconds(1500);
  struct Row {
    const char* verbs;
    const char* nvml;
    const char* self;
  };
  for (const Row& row : {
           Row{"ibv_open_device@mlx5_3=hang", "", "/proc/self/exe"},
           Row{"ibv_open_device@mlx5_3=crash", "", "/proc/self/exe"},
           Row{"ibv_get_device_list=hang", "", "/proc/self/exe"},
           Row{"", "nvmlInit_v2=hang", "/proc/self/exe"},
           Row{"", "", "/nowhere/rollcall"},
       }) {
    setenv("FAKE_VERBS", row.verbs, 1);
    setenv("FAKE_NVML", row.nvml, 1);
    options.self = row.self;
    options.environment = Environment();
    checked = GatherNodeFacts(options);
    unsetenv("FAKE_VERBS");
    unsetenv("FAKE_NVML");
    checked.clear_interfaces();
    checked.add_interfaces()->set_name("new0");
    facts = known;
    TakeChecked(checked, facts);
    v1::Facts expected = known;
    *expected.mutable_interfaces() = checked.interfaces();
    EXPECT_EQ(facts.DebugString(), expected.DebugString())
        << row.verbs << row.nvml << row.self;
  }
}

TEST_F(DeviceFactsTest, ANodeWithoutDevicesAsksNoLibrary) {
  NodeFactsOptions options;
  // If the command were run, a missing fact would name it.
  options.self = "/nowhere/rollcall";
  options.devices.sysroot = folder_ / "empty";
  std::filesystem::create_directories(folder_ / "empty/sys/class");
  options.devices.folders = {folder_.path(), "/dev/null/x"};
  const v1::Facts facts = GatherNodeFacts(options);
  auto missing = Missing(facts);
  EXPECT_TRUE(absl::StrContains(missing["folders./dev/null/x"], "/dev/null"));
  for (const char* fact : {"infiniband", "gpus", "versions.nccl"}) {
    EXPECT_FALSE(missing.contains(fact)) << "it is known that there is none";
  }
  ASSERT_EQ(facts.folders_size(), 2);
  EXPECT_GT(facts.folders(0).size_bytes(), 0u);
  for (const char* device :
       {"/sys/class/infiniband", "/dev/nvidia0", "/dev/dxg"}) {
    options.devices.sysroot = folder_ / "with";
    std::filesystem::create_directories(options.devices.sysroot + device);
    EXPECT_TRUE(absl::StrContains(Missing(GatherNodeFacts(options))["gpus"],
                                  "/nowhere/rollcall"))
        << device;
    std::filesystem::remove_all(options.devices.sysroot);
  }
}

int AnswerOddly(const std::string& answer) {
  v1::Facts unfit;
  unfit.add_infiniband()->set_port(1 << 20);
  const std::string text = answer == "garbage" ? std::string(100, '\xff')
                           : answer == "unfit" ? unfit.SerializeAsString()
                                               : "";
  (void)!write(STDOUT_FILENO, text.data(), text.size());
  if (answer == "crash") raise(SIGABRT);
  while (answer == "silent") pause();
  const std::string many(1 << 16, 'x');
  while (answer == "endless" &&
         write(STDOUT_FILENO, many.data(), many.size()) > 0) {
  }
  return answer == "code" ? 3 : 0;
}

int FactsMain(const std::vector<std::string>& arguments) {
  if (const char* answer = getenv("FACTS_ANSWER")) return AnswerOddly(answer);
  const auto command = ParseFactsArguments(arguments);
  if (!command.ok()) return 2;
  const std::string text =
      GatherDeviceFacts(command->options).SerializeAsString();
  return write(STDOUT_FILENO, text.data(), text.size()) ==
                 static_cast<ssize_t>(text.size())
             ? 0
             : 1;
}

}  // namespace
}  // namespace rollcall

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "facts") {
    return rollcall::FactsMain({argv + 2, argv + argc});
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

// This binary is its own `mint-nccl-id` child; see main at the end.
#include "client/agent/nccl/nccl.h"

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iostream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/agent/nccl/nccl_mint.h"
#include "daemon/base/clock.h"
#include "daemon/core/limits.h"

extern char** environ;

namespace rollcall {
namespace {

std::vector<std::string> Environment() {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    environment.emplace_back(*entry);
  }
  return environment;
}

// The library on this machine. Empty, with a notice, if there is none.
std::string Library() {
  const std::string library = FindNcclLibrary("", Environment());
  if (access(library.c_str(), R_OK) == 0) return library;
  std::cout << "NOTICE: no libnccl.so.2 on this machine; minting real ids was "
               "not tried\n";
  return "";
}

class NcclFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/rollcall-nccl-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Put(const std::string& path) {
    const std::filesystem::path file = folder_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << "";
    return file;
  }
  std::string folder_;
};

TEST_F(NcclFolderTest, FindsTheLibraryThatTheCommandWouldFind) {
  const std::string so = "/nvidia/nccl/lib/libnccl.so.2";
  const std::string ld = Put("/ld/libnccl.so.2");
  const std::string venv = Put("/venv/lib/python3.11/site-packages" + so);
  const std::string conda = Put("/conda/lib/libnccl.so.2");
  const std::string bin = Put("/py/bin/python3");
  std::filesystem::permissions(bin, std::filesystem::perms::owner_all);
  const std::string python = Put("/py/lib/python3.12/site-packages" + so);
  const std::string odd = Put("/o[d]d*/lib/python3.9/site-packages" + so);
  const std::string cuda = Put("/cuda/lib64/libnccl.so.2");
  const std::string f = folder_;
  struct {
    std::vector<std::string> environment;
    std::string expect;
  } const kRows[] = {
      {{"LD_LIBRARY_PATH=/nowhere::" + f + "/ld", "VIRTUAL_ENV=" + f + "/venv"},
       ld},
      {{"VIRTUAL_ENV=" + f + "/venv", "CUDA_HOME=" + f + "/cuda"}, venv},
      {{"VIRTUAL_ENV=" + f + "/o[d]d*"}, odd},
      {{"CONDA_PREFIX=" + f + "/conda", "CUDA_HOME=" + f + "/cuda"}, conda},
      {{"PATH=relative:/nowhere:" + f + "/py/bin", "CUDA_HOME=" + f + "/cuda"},
       f + "/py/bin/../lib/python3.12/site-packages" + so},
      {{"CUDA_HOME=" + f + "/cuda"}, cuda},
      // Variables whose names only begin the same do not count.
      {{"LD_LIBRARY_PATHS=" + f + "/ld", "CUDA_HOME=" + f + "/cuda"}, cuda},
      {{"LD_PRELOAD=" + ld, "CUDA_HOME=" + f + "/cuda"}, cuda},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(FindNcclLibrary("", row.environment), row.expect);
    EXPECT_EQ(FindNcclLibrary("/x/libnccl.so", row.environment),
              "/x/libnccl.so");
  }
}

TEST(Nccl, TheSearchIsBounded) {
  std::string many = "LD_LIBRARY_PATH=";
  for (int i = 0; i < 10000; ++i) absl::StrAppend(&many, "/d", i, ":");
  EXPECT_LE(NcclLibraryCandidates({many}).size(), 256u);
}

TEST(Nccl, AnswersAreReadBack) {
  NcclIds ids;
  ids.version = 22809;
  ids.ids = {std::string(128, '\0'), std::string(128, '\xff')};
  const auto back = ParseMintedIds(FormatMintedIds(ids));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->version, ids.version);
  EXPECT_EQ(back->ids, ids.ids);
  const auto error =
      ParseMintedIds(FormatMintedIds(absl::NotFoundError("no such\nlibrary")));
  EXPECT_EQ(error.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(error.status().message(), "no such library");
  const std::string hex(256, 'a');
  for (const std::string& bad :
       {std::string(""), std::string("version 1\n"), "version 1\n" + hex + "\n",
        "version x\n" + hex + "\nend\n", "version 1\n" + hex + "a\nend\n",
        "version 1\n" + hex.substr(1) + "x\nend\n",
        "NCCL INFO hello\nversion 1\n" + hex + "\nend\n",
        "version 1\n" + hex + "\nend\nmore\n"}) {
    EXPECT_EQ(ParseMintedIds(bad).status().code(),
              absl::StatusCode::kInvalidArgument)
        << bad;
  }
}

TEST(Nccl, SaysWhatIsWrongWithALibrary) {
  EXPECT_EQ(MintNcclIds("/nowhere/libnccl.so.2", 1).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(MintNcclIds("/dev/null", 1).status().code(),
            absl::StatusCode::kNotFound);
  // This is a library, but not NCCL.
  EXPECT_EQ(MintNcclIds("libm.so.6", 1).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(Nccl, WrongArgumentsAreExit2) {
  using Arguments = std::vector<std::string>;
  for (const Arguments& arguments :
       {Arguments{}, Arguments{"--count"}, Arguments{"--count", "0"},
        Arguments{"--count", "-1"}, Arguments{"--count", "many"},
        Arguments{"--count", "99999999"}}) {
    EXPECT_EQ(MintNcclIdMain(arguments), 2);
  }
}

NcclMint::Options Options(const std::string& library, uint32_t count) {
  NcclMint::Options options;
  options.library = library;
  options.environment = Environment();
  options.count = count;
  return options;
}

TEST(NcclMint, MintsFreshIds) {
  const std::string library = Library();
  if (library.empty()) GTEST_SKIP() << "no libnccl.so.2 on this machine";
  std::set<std::string> seen;
  for (int generation = 0; generation < 2; ++generation) {
    const absl::Time start = absl::Now();
    auto mint = NcclMint::Start(Options(library, 3));
    ASSERT_TRUE(mint.ok()) << mint.status();
    const auto ids = (*mint)->Await(absl::Seconds(60), -1);
    ASSERT_TRUE(ids.ok()) << ids.status();
    std::cout << "minted 3 ids in " << absl::Now() - start << "\n";
    EXPECT_GE(ids->version, 20000u);
    ASSERT_EQ(ids->ids.size(), 3u);
    for (const std::string& id : ids->ids) {
      EXPECT_EQ(id.size(), Limits::nccl_id_bytes);
      EXPECT_TRUE(seen.insert(id).second) << "an id came twice";
    }
    EXPECT_EQ(kill((*mint)->pid(), 0), 0) << "the root must stay alive";
  }
}

// NCCL prints to stdout, and NCCL_COMM_ID would make every id the same.
TEST(NcclMint, ChatterAndCommIdDoNotReachTheAnswer) {
  const std::string library = Library();
  if (library.empty()) GTEST_SKIP() << "no libnccl.so.2 on this machine";
  NcclMint::Options options = Options(library, 2);
  options.environment.push_back("NCCL_DEBUG=VERSION");
  options.environment.push_back("NCCL_COMM_ID=127.0.0.1:23456");
  auto mint = NcclMint::Start(options);
  ASSERT_TRUE(mint.ok());
  const auto ids = (*mint)->Await(absl::Seconds(60), -1);
  ASSERT_TRUE(ids.ok()) << ids.status();
  ASSERT_EQ(ids->ids.size(), 2u);
  EXPECT_NE(ids->ids[0], ids->ids[1]);
}

TEST(NcclMint, AnAbsentLibraryIsSaidInWords) {
  auto mint = NcclMint::Start(Options("/nowhere/libnccl.so.2", 1));
  ASSERT_TRUE(mint.ok());
  const auto ids = (*mint)->Await(absl::Seconds(60), -1);
  EXPECT_EQ(ids.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(absl::StrContains(ids.status().message(), "--nccl-lib"));
}

TEST(NcclMint, AChildThatCannotBeOrDoesNotAnswer) {
  NcclMint::Options options = Options("x", 1);
  options.self = "/nowhere/rollcall";
  EXPECT_EQ(NcclMint::Start(options).status().code(),
            absl::StatusCode::kFailedPrecondition);

  options.self = "/bin/false";
  auto dies = NcclMint::Start(options);
  ASSERT_TRUE(dies.ok());
  const auto died = (*dies)->Await(absl::Seconds(60), -1);
  EXPECT_EQ(died.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(absl::StrContains(died.status().message(), "code 1"))
      << died.status();

  options.self = "/proc/self/exe";
  options.library = "silent";
  auto silent = NcclMint::Start(options);
  ASSERT_TRUE(silent.ok());
  EXPECT_EQ((*silent)->Await(absl::Milliseconds(30), -1).status().code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST(NcclMint, AWaitCanBeCancelled) {
  auto silent = NcclMint::Start(Options("silent", 1));
  ASSERT_TRUE(silent.ok());
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  ASSERT_EQ(write(ends[1], "x", 1), 1);
  EXPECT_EQ((*silent)->Await(absl::Seconds(600), ends[0]).status().code(),
            absl::StatusCode::kCancelled);
  close(ends[0]);
  close(ends[1]);
}

TEST(NcclMint, TheChildGoesWithItsHolder) {
  pid_t pid = -1;
  {
    auto silent = NcclMint::Start(Options("silent", 1));
    ASSERT_TRUE(silent.ok());
    pid = (*silent)->pid();
    EXPECT_EQ(kill(pid, 0), 0);
  }
  EXPECT_EQ(kill(pid, 0), -1);
  EXPECT_EQ(errno, ESRCH) << "killed and reaped";
}

// A killed agent leaves no child, because only the agent holds the other end of
// the child's stdin.
TEST(NcclMint, TheChildGoesWhenTheAgentIsKilled) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const pid_t agent = fork();
  if (agent == 0) {
    auto silent = NcclMint::Start(Options("silent", 1));
    const pid_t pid = silent.ok() ? (*silent)->pid() : -1;
    (void)!write(ends[1], &pid, sizeof(pid));
    pause();
    _exit(0);
  }
  pid_t child = -1;
  ASSERT_EQ(read(ends[0], &child, sizeof(child)),
            static_cast<ssize_t>(sizeof(child)));
  close(ends[0]);
  close(ends[1]);
  ASSERT_GT(child, 0);
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
  ASSERT_GE(pidfd, 0);
  kill(agent, SIGKILL);
  ASSERT_EQ(waitpid(agent, nullptr, 0), agent);
  pollfd ended{pidfd, POLLIN, 0};
  EXPECT_EQ(poll(&ended, 1, 30000), 1) << "the child outlived its agent";
  close(pidfd);
}

}  // namespace
}  // namespace rollcall

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "mint-nccl-id") {
    const std::vector<std::string> arguments(argv + 2, argv + argc);
    // A child that never answers. It ends when its stdin closes, as the real
    // one does.
    if (arguments.back() == "silent") {
      char ignored;
      while (read(STDIN_FILENO, &ignored, 1) > 0) {
      }
      return 0;
    }
    return rollcall::MintNcclIdMain(arguments);
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

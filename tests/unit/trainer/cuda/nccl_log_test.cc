// How the transport is read from NCCL's log. The lines are from several
// versions of NCCL.
#include "trainer/cuda/nccl/nccl_log.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"

namespace rollcall {
namespace {

struct Row {
  const char* what;
  const char* log;
  const char* transport;
};

const Row kRows[] = {
    {"nothing yet", "", "NCCL"},
    {"a network is there, nobody beyond this node is",
     "h:1:2 [0] NCCL INFO Using network Socket\n"
     "h:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n"
     "h:1:2 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/IPC/read\n",
     "P2P"},
    {"chosen, not yet connected",
     "h:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB ib0\n"
     "h:1:2 [0] NCCL INFO Using network IB\n",
     "IB"},
    {"no InfiniBand: that is a network too",
     "h:1:2 [0] NCCL INFO NET/IB : No device found.\n"
     "h:1:2 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>\n"
     "h:1:2 [0] NCCL INFO Using network Socket\n"
     "h:1:2 [0] NCCL INFO Channel 03/0 : 15[7] -> 6[6] [send] via "
     "NET/Socket/3\n"
     "h:1:2 [0] NCCL INFO Connected all rings\n",
     "Socket"},
    {"InfiniBand from the GPU, and peers on this node",
     "h:1:2 [1] NCCL INFO Channel 02/0 : 1[1] -> 3[1] [receive] via "
     "NET/IB/2/GDRDMA\n"
     "h:1:2 [1] NCCL INFO Channel 00/0 : 3[1] -> 2[0] via P2P/direct "
     "pointer/read\n"
     "h:1:2 [1] NCCL INFO Connected NVLS tree\n",
     "IB/GDRDMA+NVLS+P2P"},
    {"with and without the GPU's direct way",
     "NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA\n"
     "NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/IB/0\n",
     "IB+IB/GDRDMA"},
    {"shared memory, in its old spelling and its new one",
     "[0] NCCL INFO Ring 00 : 0[1b000] -> 7[41000] via direct shared memory\n"
     "[0] NCCL INFO Channel 09 : 6[6] -> 7[7] via SHM/direct/direct\n",
     "SHM"},
    {"a plugin with a space in its name",
     "h:1:2 [0] NCCL INFO Using network AWS Libfabric\n"
     "h:1:2 [0] NCCL INFO Channel 00/0 : 8[0] -> 0[0] [send] via "
     "NET/AWS Libfabric/0/GDRDMA(PCI)\n",
     "AWS Libfabric/GDRDMA"},
    {"a line that has not ended is left",
     "h:1:2 [0] NCCL INFO Using network Socket\n"
     "h:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/I",
     "Socket"},
    // The forms of CollNet's lines are those of NCCL's
    // src/transport/coll_net.cc, that of the mixed node is the log in
    // NVIDIA/nccl-tests issue 133.
    {"sums in the switches",
     "h:1:2 [0] NCCL INFO CollNet 00/0 : 0 [send] via COLLNET/SHARP/0/GDRDMA\n"
     "h:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n"
     "h:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via "
     "NET/IB/0/GDRDMA\n",
     "CollNet+IB/GDRDMA+P2P"},
    {"sums in the switches, older",
     "h:1:2 [0] NCCL INFO Coll 00 : 0 [receive] via COLLNET/SHARP/0\n",
     "CollNet"},
    {"a node of eight GPUs among several",
     "h:1:2 [4] NCCL INFO Channel 00 : 5[8e000] -> 4[89000] via P2P/direct "
     "pointer/read\n"
     "h:1:2 [4] NCCL INFO Channel 01 : 12[8d000] -> 4[89000] [receive] via "
     "NET/IB/0/GDRDMA\n"
     "h:1:2 [4] NCCL INFO Channel 01 : 4[89000] -> 12[8d000] [send] via "
     "NET/IB/0/GDRDMA\n"
     "h:1:2 [4] NCCL INFO Connected all rings\n",
     "IB/GDRDMA+P2P"},
    {"a sentence about CollNet is no channel",
     "h:1:2 [0] NCCL INFO Collecting values via environment\n", "NCCL"},
    {"words alone are no channel",
     "h:1:2 [0] NCCL INFO NCCL_IB_HCA set via environment\n"
     "h:1:2 [0] NCCL WARN connection via NET/IB broke\n"
     "\n via NET/IB/0\n",
     "NCCL"},
};

TEST(NcclTransportsTest, AreReadFromItsLog) {
  for (const Row& row : kRows) {
    NcclTransports transports;
    transports.Read(row.log);
    EXPECT_EQ(transports.ToString(), row.transport) << row.what;
  }
}

TEST(NcclTransportsTest, AreBoundedForAnyLog) {
  NcclTransports transports;
  for (int i = 0; i < 1000; ++i) {
    transports.Read(absl::StrCat("NCCL INFO Channel 0 : 0 -> 1 via NET/", i,
                                 std::string(1000, 'x'), "\n"));
  }
  EXPECT_LE(transports.used.size(), 16u);
  EXPECT_LE(transports.ToString().size(), 16u * 80);
}

class NcclLogTest : public testing::Test {
 protected:
  void SetUp() override { Clear(); }
  void TearDown() override { Clear(); }
  static void Clear() {
    for (const char* name :
         {"NCCL_DEBUG", "NCCL_DEBUG_FILE", "NCCL_DEBUG_SUBSYS"}) {
      unsetenv(name);
    }
  }
};

// The test opens the file by its name and writes line by line, as NCCL does.
TEST_F(NcclLogTest, IsReadWhileItIsWritten) {
  const std::unique_ptr<NcclLog> log = NcclLog::Catch();
  ASSERT_NE(log, nullptr);
  EXPECT_STREQ(getenv("NCCL_DEBUG"), "INFO");
  std::FILE* nccl = std::fopen(getenv("NCCL_DEBUG_FILE"), "w");
  ASSERT_NE(nccl, nullptr);
  setlinebuf(nccl);
  EXPECT_EQ(log->Transport(), "NCCL");
  std::fputs("h:1:2 [0] NCCL INFO Using network IB\n", nccl);
  EXPECT_EQ(log->Transport(), "IB");
  // This is more than one read takes, written in pieces.
  for (int i = 0; i < 5000; ++i) {
    std::fputs("h:1:2 [0] NCCL INFO Trees [0] 1/-1/-1->0->-1\n", nccl);
  }
  std::fputs("NCCL INFO Channel 0 : 0[0] -> 1[0] [send] via ", nccl);
  std::fflush(nccl);
  EXPECT_EQ(log->Transport(), "IB");
  std::fputs("NET/Socket/0\n", nccl);
  EXPECT_EQ(log->Transport(), "Socket");
  log->Forget();
  EXPECT_EQ(log->Transport(), "NCCL");
  std::fclose(nccl);
}

TEST_F(NcclLogTest, OfTheUserIsNotTouched) {
  for (const char* level : {"INFO", "trace", "ABORT"}) {
    setenv("NCCL_DEBUG", level, 1);
    EXPECT_EQ(NcclLog::Catch(), nullptr);
    EXPECT_STREQ(getenv("NCCL_DEBUG"), level);
    EXPECT_EQ(getenv("NCCL_DEBUG_FILE"), nullptr);
  }
  setenv("NCCL_DEBUG", "WARN", 1);
  setenv("NCCL_DEBUG_FILE", "/nowhere", 1);
  EXPECT_EQ(NcclLog::Catch(), nullptr);
}

TEST_F(NcclLogTest, WarningsThatTheUserWantsArePassedOn) {
  for (const char* level : {"warn", "VERSION"}) {
    Clear();
    setenv("NCCL_DEBUG", level, 1);
    const std::unique_ptr<NcclLog> log = NcclLog::Catch();
    ASSERT_NE(log, nullptr);
    EXPECT_STREQ(getenv("NCCL_DEBUG"), "INFO");
    std::FILE* nccl = std::fopen(getenv("NCCL_DEBUG_FILE"), "w");
    ASSERT_NE(nccl, nullptr);
    std::fputs(
        "h:1:2 [0] NCCL INFO Using network IB\n"
        "h:1:2 [0] socket.c:9 NCCL WARN a link is down\n",
        nccl);
    std::fclose(nccl);
    testing::internal::CaptureStderr();
    EXPECT_EQ(log->Transport(), "IB");
    EXPECT_EQ(testing::internal::GetCapturedStderr(),
              std::string(level) == "warn"
                  ? "h:1:2 [0] socket.c:9 NCCL WARN a link is down\n"
                  : "");
  }
}

}  // namespace
}  // namespace rollcall

#include "client/agent/node_files/rank_environment.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "client/agent/node_files/world_files.h"

namespace rollcall {
namespace {

using Environment = std::map<std::string, std::string>;

// Returns the entries by name. Fails if a name occurs twice.
Environment ByName(const std::vector<std::string>& entries) {
  Environment by_name;
  for (const std::string& entry : entries) {
    const size_t equals = entry.find('=');
    EXPECT_TRUE(
        by_name.emplace(entry.substr(0, equals), entry.substr(equals + 1))
            .second)
        << entry;
  }
  return by_name;
}

v1::World MakeWorld() {
  v1::World world;
  world.set_job("train");
  world.set_run("r1");
  world.set_generation(4);
  world.set_world_size(5);
  world.set_restarts_charged(2);
  world.set_max_restarts(3);
  const uint32_t ranks[] = {2, 3};
  uint32_t first = 0;
  for (uint32_t i = 0; i < 2; ++i) {
    auto& member = *world.add_members();
    member.set_node(i == 0 ? "a" : "b");
    member.set_node_rank(i);
    member.set_first_rank(first);
    member.set_ranks(ranks[i]);
    member.set_address(i == 0 ? "10.0.0.1" : "fd00::2");
    member.add_addresses(member.address());
    first += ranks[i];
  }
  return world;
}

v1::WorldCommit MakeWorldCommit(int ids = 1) {
  v1::WorldCommit world_commit;
  world_commit.set_generation(4);
  world_commit.set_master_address("10.0.0.1");
  world_commit.set_master_port(23456);
  for (int i = 0; i < ids; ++i) {
    world_commit.add_nccl_ids(std::string(128, static_cast<char>('A' + i)));
  }
  return world_commit;
}

Environment Get(const std::vector<std::string>& inherited,
                const v1::World& world = MakeWorld(),
                const v1::WorldCommit& world_commit = MakeWorldCommit(),
                uint32_t node_rank = 1, uint32_t local_rank = 2) {
  const RankFiles files =
      NameRankFiles("/run/x", "/run/x/socket", world, world_commit, node_rank);
  return ByName(RankEnvironment(inherited, NetworkOptions(), files, world,
                                world_commit, node_rank, local_rank));
}

TEST(RankEnvironment, ASetUpCommandGetsWhatNeedsNoWorld) {
  NetworkOptions network;
  network.job_variables = {{"NCCL_DEBUG", "INFO"}};
  const Environment expect = {
      {"PATH", "/bin"},          {"NCCL_DEBUG", "INFO"},
      {"ROLLCALL_JOB", "train"}, {"ROLLCALL_NODE", "b"},
      {"ROLLCALL_ATTEMPT", "2"}, {"ROLLCALL_SOCKET", "/run/x/socket"},
  };
  EXPECT_EQ(ByName(SetupEnvironment(
                {"PATH=/bin", "NCCL_DEBUG=WARN", "RANK=7", "=odd",
                 "ROLLCALL_JOIN=rc1.secret", "ROLLCALL_SECRET_FILE=/s",
                 "TORCHELASTIC_RUN_ID=x", "ROLLCALL_ATTEMPT=2"},
                network, "train", "b", "/run/x/socket")),
            expect);
}

TEST(RankEnvironment, IsTheWholeContract) {
  const Environment expect = {
      {"PATH", "/bin"},
      {"RANK", "4"},
      {"LOCAL_RANK", "2"},
      {"WORLD_SIZE", "5"},
      {"LOCAL_WORLD_SIZE", "3"},
      {"GROUP_RANK", "1"},
      {"GROUP_WORLD_SIZE", "2"},
      {"ROLE_RANK", "4"},
      {"ROLE_WORLD_SIZE", "5"},
      {"ROLE_NAME", "default"},
      {"NODE_RANK", "1"},
      {"NNODES", "2"},
      {"MASTER_ADDR", "10.0.0.1"},
      {"MASTER_PORT", "23456"},
      {"TORCHELASTIC_RUN_ID", "train"},
      {"TORCHELASTIC_RESTART_COUNT", "2"},
      {"TORCHELASTIC_MAX_RESTARTS", "3"},
      {"TORCHELASTIC_ERROR_FILE", "/run/x/gen-4/error-2.json"},
      {"TORCHELASTIC_USE_AGENT_STORE", "False"},
      {"OMP_NUM_THREADS", "1"},
      {"ROLLCALL_JOB", "train"},
      {"ROLLCALL_RUN", "r1"},
      {"ROLLCALL_NODE", "b"},
      {"ROLLCALL_GENERATION", "4"},
      {"ROLLCALL_ATTEMPT", "0"},
      {"ROLLCALL_WORLD_FILE", "/run/x/gen-4/world.json"},
      {"ROLLCALL_NCCL_ID_FILE", "/run/x/gen-4/nccl-ids"},
      {"ROLLCALL_HOSTFILE", "/run/x/gen-4/hostfile"},
      {"ROLLCALL_PROGRESS", "/run/x/gen-4/progress-2"},
      {"ROLLCALL_NOTICE", "/run/x/gen-4/notice"},
      {"ROLLCALL_SOCKET", "/run/x/socket"},
  };
  EXPECT_EQ(Get({"PATH=/bin"}), expect);
}

TEST(RankEnvironment, TheAttemptIsThatOfTheAgent) {
  EXPECT_EQ(Get({"ROLLCALL_ATTEMPT=3"}).at("ROLLCALL_ATTEMPT"), "3");
  EXPECT_EQ(Get({"ROLLCALL_ATTEMPT="}).at("ROLLCALL_ATTEMPT"), "0");
}

TEST(RankEnvironment, WhatIsInheritedAndWhatIsNot) {
  struct {
    const char* entry;
    const char* name;
    const char* expect;  // nullptr: not set.
  } const kRows[] = {
      {"HOME=/root", "HOME", "/root"},
      {"X=", "X", ""},
      {"X=a=b", "X", "a=b"},
      {"ROLLCALL_JOIN=rc1.abc", "ROLLCALL_JOIN", nullptr},
      {"ROLLCALL_SECRET=s", "ROLLCALL_SECRET", nullptr},
      {"ROLLCALL_SECRET_FILE=/s", "ROLLCALL_SECRET_FILE", nullptr},
      {"ROLLCALL_ANYTHING=1", "ROLLCALL_ANYTHING", nullptr},
      {"ROLLCALL_SOCKET=/outer", "ROLLCALL_SOCKET", "/run/x/socket"},
      {"TORCHELASTIC_LOG=1", "TORCHELASTIC_LOG", nullptr},
      {"TORCHELASTIC_RUN_ID=outer", "TORCHELASTIC_RUN_ID", "train"},
      {"RANK=99", "RANK", "4"},
      {"MASTER_ADDR=6.6.6.6", "MASTER_ADDR", "10.0.0.1"},
      {"ROLE_NAME=trainer", "ROLE_NAME", "default"},
      {"RANKS=3", "RANKS", "3"},
      {"OMP_NUM_THREADS=8", "OMP_NUM_THREADS", "8"},
      {"OMP_NUM_THREADS=", "OMP_NUM_THREADS", ""},
      {"NCCL_SOCKET_IFNAME=eth9", "NCCL_SOCKET_IFNAME", "eth9"},
      {"NOEQUALS", "NOEQUALS", nullptr},
      {"=odd", "", nullptr},
      {"", "", nullptr},
  };
  v1::World world = MakeWorld();
  auto& planned = *world.mutable_members(1)->add_plan();
  planned.set_name("NCCL_SOCKET_IFNAME");
  planned.set_value("=eth0");
  for (const auto& row : kRows) {
    const Environment environment = Get({row.entry}, world);
    const auto at = environment.find(row.name);
    if (row.expect == nullptr) {
      EXPECT_EQ(at, environment.end()) << row.entry;
    } else {
      ASSERT_NE(at, environment.end()) << row.entry;
      EXPECT_EQ(at->second, row.expect) << row.entry;
    }
  }
}

TEST(RankEnvironment, OfThePlanOnlyNetworkSettingsAreTaken) {
  v1::World world = MakeWorld();
  const auto plan = [&](const std::string& name, const std::string& value) {
    auto& planned = *world.mutable_members(1)->add_plan();
    planned.set_name(name);
    planned.set_value(value);
  };
  plan("NCCL_SOCKET_IFNAME", "=eth0");
  plan("NCCL_IB_HCA", "=mlx5_0:1");
  plan("NCCL_HOSTID", "a-1");
  plan("UCX_NET_DEVICES", "mlx5_0:1");
  plan("GLOO_SOCKET_IFNAME", "eth0");
  const size_t good = Get({}, world).size();
  plan("LD_PRELOAD", "/tmp/evil.so");
  plan("NCCL_NET_PLUGIN", "/tmp/evil.so");
  plan("PATH", "/tmp");
  plan("NCCL_IB_X=1", "y");
  plan("NCCL_IB_Y", std::string("a\0b", 3));
  const Environment environment = Get({}, world);
  EXPECT_EQ(environment.size(), good);
  EXPECT_EQ(environment.at("NCCL_SOCKET_IFNAME"), "=eth0");
  EXPECT_EQ(environment.at("NCCL_HOSTID"), "a-1");
  // The plan of the other node does not apply to node rank 0.
  EXPECT_FALSE(Get({}, world, MakeWorldCommit(), 0, 0).contains("NCCL_IB_HCA"));
}

TEST(RankEnvironment, TheJobsVariablesWin) {
  v1::World world = MakeWorld();
  v1::PlannedVariable& planned = *world.mutable_members(1)->add_plan();
  planned.set_name("NCCL_SOCKET_IFNAME");
  planned.set_value("=eth0");
  NetworkOptions network;
  network.job_variables = {{"NCCL_ALGO", "Ring"},
                           {"NCCL_SOCKET_IFNAME", "^docker"},
                           {"OMP_NUM_THREADS", "4"}};
  const Environment got = ByName(RankEnvironment(
      {"NCCL_ALGO=Tree", "NCCL_ALGO=", "UCX_TLS=rc"}, network,
      NameRankFiles("/run/x", "/run/x/socket", world, MakeWorldCommit(), 1),
      world, MakeWorldCommit(), 1, 0));
  EXPECT_EQ(got.at("NCCL_ALGO"), "Ring");
  EXPECT_EQ(got.at("NCCL_SOCKET_IFNAME"), "^docker");
  EXPECT_EQ(got.at("OMP_NUM_THREADS"), "4");
  EXPECT_EQ(got.at("UCX_TLS"), "rc");
}

TEST(RankEnvironment, OneRankKeepsItsThreadsAndNoIdsNoFile) {
  v1::World world = MakeWorld();
  world.mutable_members(1)->set_ranks(1);
  const Environment environment = Get({}, world, MakeWorldCommit(0), 1, 0);
  EXPECT_FALSE(environment.contains("OMP_NUM_THREADS"));
  EXPECT_FALSE(environment.contains("ROLLCALL_NCCL_ID_FILE"));
}

TEST(WorldFiles, TheWorldAsJson) {
  v1::World world = MakeWorld();
  auto& port = *world.mutable_members(0)->add_ports();
  port.set_device("mlx5_0");
  port.set_port(1);
  port.mutable_gid()->set_type("RoCE v2");
  port.set_rail(0);
  world.mutable_members(0)->add_ports();
  world.mutable_members(0)->set_hostname("host");
  world.mutable_members(1)->add_gpus()->set_model("H200");
  world.mutable_members(1)->mutable_gpus(0)->set_count(8);
  const auto json = nlohmann::json::parse(WorldJson(world, MakeWorldCommit()));
  std::set<std::string> fields;
  for (const auto& [name, value] : json.items()) fields.insert(name);
  EXPECT_EQ(fields,
            (std::set<std::string>{"job", "run", "generation", "world_size",
                                   "master_addr", "master_port", "nodes"}));
  EXPECT_EQ(json["generation"], 4);
  EXPECT_EQ(json["world_size"], 5);
  EXPECT_EQ(json["master_addr"], "10.0.0.1");
  EXPECT_EQ(json["master_port"], 23456);
  ASSERT_EQ(json["nodes"].size(), 2u);
  const auto& node = json["nodes"][0];
  fields.clear();
  for (const auto& [name, value] : node.items()) fields.insert(name);
  EXPECT_EQ(fields, (std::set<std::string>{"node", "hostname", "node_rank",
                                           "address", "addresses", "first_rank",
                                           "ranks", "infiniband", "gpus"}));
  EXPECT_EQ(node["hostname"], "host");
  EXPECT_EQ(json["nodes"][1]["hostname"], json["nodes"][1]["node"]);
  EXPECT_EQ(node["addresses"], nlohmann::json::array({"10.0.0.1"}));
  EXPECT_EQ(node["infiniband"][0]["gid"]["type"], "RoCE v2");
  EXPECT_EQ(node["infiniband"][0]["rail"], 0);
  EXPECT_TRUE(node["infiniband"][1]["rail"].is_null());
  EXPECT_TRUE(node["infiniband"][1]["gid"].is_null());
  EXPECT_EQ(json["nodes"][1]["gpus"][0]["model"], "H200");
  EXPECT_EQ(json["nodes"][1]["gpus"][0]["count"], 8);
  EXPECT_EQ(json["nodes"][1]["first_rank"], 2);
}

TEST(WorldFiles, TextThatIsNoUtf8DoesNotThrow) {
  v1::World world = MakeWorld();
  world.mutable_members(0)->set_node("a");
  // A peer could send such bytes past a decoder that does not check them.
  world.mutable_members(0)->mutable_address()->assign("\xff\xfe");
  EXPECT_FALSE(
      nlohmann::json::parse(WorldJson(world, MakeWorldCommit())).empty());
}

TEST(WorldFiles, TheHostfile) {
  v1::World world = MakeWorld();
  EXPECT_EQ(HostfileText(world), "10.0.0.1 slots=2\nfd00::2 slots=3\n");
  world.mutable_members(1)->set_address("10.0.0.1");
  EXPECT_EQ(HostfileText(world), "10.0.0.1 slots=5\n");
}

class RankFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/rollcall-files-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  static std::string Read(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  static mode_t Mode(const std::string& path) {
    struct stat status {};
    return stat(path.c_str(), &status) == 0 ? status.st_mode & 07777 : 0;
  }
  std::string folder_;
};

TEST_F(RankFilesTest, AreWrittenWithTheirModes) {
  const v1::World world = MakeWorld();
  const v1::WorldCommit world_commit = MakeWorldCommit(2);
  const RankFiles files =
      NameRankFiles(folder_ + "/run", "/s", world, world_commit, 1);
  EXPECT_EQ(files.progress_files.size(), 3u);
  EXPECT_EQ(files.error_files.size(), 3u);
  const mode_t old = umask(0);
  std::filesystem::create_directories(files.folder);
  ASSERT_TRUE(WriteRankFiles(files, world, world_commit).ok());
  umask(old);
  EXPECT_EQ(Mode(files.world_file), 0644u);
  EXPECT_EQ(Mode(files.hostfile), 0644u);
  EXPECT_EQ(Mode(files.nccl_id_file), 0600u);
  std::string hex;
  for (int i = 0; i < 128; ++i) hex += "41";
  hex += "\n";
  for (int i = 0; i < 128; ++i) hex += "42";
  EXPECT_EQ(Read(files.nccl_id_file), hex + "\n");
  EXPECT_EQ(Read(files.world_file), WorldJson(world, world_commit));
  // Writing them again, as in a retry, leaves no other files behind.
  ASSERT_TRUE(WriteRankFiles(files, world, world_commit).ok());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(files.folder),
                          std::filesystem::directory_iterator()),
            3);
}

TEST_F(RankFilesTest, OfAnotherUserAreThatUsers) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  const v1::World world = MakeWorld();
  const v1::WorldCommit world_commit = MakeWorldCommit(1);
  const SystemUser user = {.uid = 31337, .gid = 31338};
  chmod(folder_.c_str(), 0755);
  ASSERT_EQ(mkdir((folder_ + "/run").c_str(), 0755), 0);
  const RankFiles files =
      NameRankFiles(folder_ + "/run", "/s", world, world_commit, 1);
  ASSERT_EQ(mkdir(files.folder.c_str(), 0700), 0);
  ASSERT_EQ(chown(files.folder.c_str(), user.uid, user.gid), 0);
  ASSERT_TRUE(WriteRankFiles(files, world, world_commit, &user).ok());
  for (const std::string& path :
       {files.world_file, files.hostfile, files.nccl_id_file}) {
    struct stat info;
    ASSERT_EQ(stat(path.c_str(), &info), 0) << path;
    EXPECT_EQ(info.st_uid, user.uid) << path;
    EXPECT_EQ(info.st_gid, user.gid) << path;
  }
  // A symbolic link in place of a file must not lead to a file that the user
  // may not write.
  const std::string other = folder_ + "/other";
  std::ofstream(other) << "kept";
  const std::string link = files.folder + "/notice.new";
  ASSERT_EQ(symlink(other.c_str(), link.c_str()), 0);
  {
    const AsUser as(&user);
    ASSERT_TRUE(as.ok());
    EXPECT_TRUE(WriteFileAtomically(files.notice_file, "text", 0644).ok());
  }
  EXPECT_EQ(Read(other), "kept");
  EXPECT_EQ(Read(files.notice_file), "text");
}

TEST_F(RankFilesTest, ErrorsNameThePath) {
  const v1::World world = MakeWorld();
  const absl::Status status = WriteRankFiles(
      NameRankFiles("/proc/nowhere", "/s", world, MakeWorldCommit(), 0), world,
      MakeWorldCommit());
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(std::string(status.message()).find("/proc/nowhere"),
            std::string::npos);
}

}  // namespace
}  // namespace rollcall

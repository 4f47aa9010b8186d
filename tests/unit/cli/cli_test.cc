// Tests the grammar of the command line.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/admin/addresses.h"
#include "client/cli/flags/argv.h"
#include "client/cli/flags/flags.h"
#include "client/cli/job_lookup.h"
#include "client/cli/written_folders.h"
#include "client/launch/run_spec/spec_keys.h"
#include "tests/unit/cli/parse_flags.h"

namespace rollcall {
namespace {

TEST(Argv, CommandIsKeptByteForByte) {
  const Argv args =
      Split("launch --nproc_per_node=a_b -- sh -c [1,2] -- --x_y");
  EXPECT_EQ(args.flags,
            (std::vector<std::string>{"launch", "--nproc-per-node=a_b"}));
  EXPECT_EQ(args.command,
            (std::vector<std::string>{"sh", "-c", "[1,2]", "--", "--x_y"}));
}

TEST(Flags, HostsNamesTakeOneWord) {
  const auto join = Parse<JoinFlags>("join --hosts-names a,b.c rc1.x -- true");
  EXPECT_EQ(join.local.hosts_names, (std::vector<std::string>{"a", "b.c"}));
  EXPECT_EQ(join.where.join_string, "rc1.x");
  EXPECT_NE(Complaint("join --hosts-names a,b/c rc1.x -- true"), "");
  EXPECT_NE(Complaint("launch --no-hosts --hosts-names a -- true"), "");
}

TEST(Flags, DoctorTakesAJobLikeStatus) {
  EXPECT_EQ(Parse<DoctorFlags>("doctor rc1.x --all").where.join_string,
            "rc1.x");
  const auto far =
      Parse<DoctorFlags>("doctor --endpoint h:1 --job exp --secret-file s");
  EXPECT_EQ(far.where.endpoint, "h:1");
  EXPECT_EQ(far.where.job, "exp");
  EXPECT_EQ(far.where.secret_file, "s");
  EXPECT_EQ(Parse<DoctorFlags>("doctor --state d").where.state, "d");
  EXPECT_NE(Complaint("doctor rc1.x --tls-ca ca.pem"), "");
}

TEST(Flags, DoctorTakesFoldersInAnyNumber) {
  const auto plain = Parse<DoctorFlags>("doctor");
  EXPECT_FALSE(plain.all || plain.json);
  EXPECT_TRUE(plain.folders.empty());
  const auto full =
      Parse<DoctorFlags>("doctor --folder /a --all --folder=b --json");
  EXPECT_TRUE(full.all && full.json);
  EXPECT_EQ(full.folders, (std::vector<std::string>{"/a", "b"}));
  std::string many = "doctor";
  for (int i = 0; i < 64; ++i) many += " --folder /a";
  EXPECT_EQ(Parse<DoctorFlags>(many).folders.size(), 64u);
  EXPECT_NE(Complaint(many + " --folder /a"), "");
}

TEST(Flags, ARunTakesFolders) {
  using Folders = std::vector<std::string>;
  std::string eight = "join rc1.x";
  for (int i = 0; i < 8; ++i) eight += " --folder /a";
  EXPECT_EQ(Parse<JoinFlags>(eight + " -- true").local.folders.size(), 8u);
  EXPECT_NE(Complaint(eight + " --folder /a -- true"), "");
  EXPECT_EQ(Parse<LaunchFlags>("launch --folder b -- true").local.folders,
            Folders{"b"});
}

TEST(WrittenFolders, AreThoseThatAreNamedAndThoseOfEveryCommand) {
  using Folders = std::vector<std::string>;
  LocalFlags local;
  local.log_dir = "logs";
  local.folders = {"/data", "/data", "/home/me/logs"};
  const Folders environment = {"TMPDIRS=/no", "TMPDIR=/scratch", "A=b"};
  struct {
    const char* what;
    Folders command;
    Folders named;
  } const rows[] = {
      {"the trainer's flag",
       {"rollcall-train", "--checkpoints", "ckpt"},
       {"/home/me/logs", "/data", "/home/me/ckpt"}},
      {"the trainer behind another program",
       {"env", "--checkpoints", "/no", "/opt/rollcall-train",
        "--checkpoints=/data"},
       {"/home/me/logs", "/data"}},
      {"a flag of another program",
       {"my-rollcall-train", "--checkpoints", "/no"},
       {"/home/me/logs", "/data"}},
      {"a flag without its value",
       {"rollcall-train", "--checkpoints"},
       {"/home/me/logs", "/data"}},
  };
  for (const auto& row : rows) {
    const WrittenFolders found =
        FindWrittenFolders(local, row.command, environment, "/home/me");
    EXPECT_EQ(found.named, row.named) << row.what;
    EXPECT_EQ(found.others, (Folders{"/home/me", "/scratch"})) << row.what;
  }
  // Without a working folder, relative paths stay as they are.
  const WrittenFolders lost = FindWrittenFolders(local, {"true"}, {}, "");
  EXPECT_EQ(lost.named, (Folders{"logs", "/data", "/home/me/logs"}));
  EXPECT_TRUE(lost.others.empty());
}

// The complaint about `line`, in which '' is an empty word.
std::string ComplaintWithEmpty(const std::string& line) {
  Argv args = Split(line);
  for (std::string& flag : args.flags) {
    if (flag == "''") flag.clear();
  }
  const auto invocation = ParseFlags(args);
  return invocation.ok() ? "" : std::string(invocation.status().message());
}

TEST(Flags, AnEmptyValueIsNotTheDefault) {
  for (const char* line : {"launch --name '' -- x",
                           "launch --job '' -- x",
                           "launch --state '' -- x",
                           "launch --listen '' -- x",
                           "launch --nodes '' -- x",
                           "launch --nodes 2 --grow '' -- x",
                           "launch --hosts-names '' -- x",
                           "launch --token-ttl '' -- x",
                           "launch --preempt-signal '' -- x",
                           "launch --rank-user '' -- x",
                           "launch --secret-file '' -- x",
                           "launch --tls-ca '' -- x",
                           "join rc1.x --name '' -- x",
                           "join --endpoint '' -- x",
                           "join rc1.x --job '' -- x",
                           "join '' -- x",
                           "status --state ''",
                           "doctor --folder ''",
                           "status --job ''",
                           "status ''",
                           "stop --job ''",
                           "drain n --deadline ''",
                           "token create --ttl ''",
                           "token revoke ''"}) {
    const std::string complaint = ComplaintWithEmpty(line);
    EXPECT_TRUE(absl::StrContains(complaint, "got an empty one"))
        << line << ": " << complaint;
  }
  EXPECT_TRUE(absl::StrContains(ComplaintWithEmpty("launch --job '' -- x"),
                                "--job: expected ID"));
  // A reason may be empty, and so may the words of the user's command.
  EXPECT_EQ(ComplaintWithEmpty("drain n --reason ''"), "");
  EXPECT_EQ(ComplaintWithEmpty("token create --description ''"), "");
  EXPECT_EQ(ComplaintWithEmpty("launch -- x ''"), "");
}

TEST(Flags, LaunchCountsItselfAndItsWorkers) {
  const auto one = Parse<LaunchFlags>("launch -- true");
  EXPECT_EQ(one.settings.nodes_max(), 1u);
  const auto four = Parse<LaunchFlags>("launch --local-workers 3 -- true");
  EXPECT_EQ(four.settings.nodes_min(), 4u);
  EXPECT_EQ(four.settings.nodes_max(), 4u);
  const auto range = Parse<LaunchFlags>(
      "launch --nodes 3:4 --local-workers 3 --join-timeout 30s "
      "--max-restarts 0 --grow never -- true");
  EXPECT_EQ(range.settings.nodes_min(), 3u);
  EXPECT_EQ(range.settings.nodes_max(), 4u);
  EXPECT_EQ(range.settings.join_timeout().seconds(), 30);
  EXPECT_TRUE(range.settings.has_max_restarts());
  EXPECT_EQ(range.settings.max_restarts(), 0u);
  EXPECT_EQ(range.settings.grow(), v1::GROW_NEVER);
}

TEST(Flags, TorchrunsSpellings) {
  const auto launch = Parse<LaunchFlags>(
      "launch --nnodes=2 --nproc_per_node 8 --rdzv_id exp --max_restarts=1 -- "
      "true");
  EXPECT_EQ(launch.settings.nodes_max(), 2u);
  EXPECT_EQ(launch.local.nproc_per_node, "8");
  EXPECT_EQ(launch.job, "exp");
  EXPECT_EQ(launch.settings.max_restarts(), 1u);
  const auto join = Parse<JoinFlags>(
      "join --rdzv-endpoint h:1 --rdzv-id exp --nproc-per-node auto -- true");
  EXPECT_EQ(join.where.endpoint, "h:1");
  EXPECT_EQ(join.where.job, "exp");
  EXPECT_FALSE(join.settings.has_nodes_max());
}

TEST(Flags, ANameOfAnyTextIsAJob) {
  for (const char* line : {"launch --rdzv-id My_Run.7 -- true",
                           "launch --rdzv_id=MY-RUN.7 -- true"}) {
    EXPECT_EQ(Parse<LaunchFlags>(line).job, "my-run-7") << line;
  }
  EXPECT_EQ(Parse<StatusFlags>("status --rdzv-id My_Run").where.job, "my-run");
}

TEST(Flags, WhatTorchrunNeedsIsTakenAndNamed) {
  const std::vector<std::string> all = {"--node-rank", "--master-addr",
                                        "--master-port", "--rdzv-backend"};
  const std::string flags =
      " --node_rank 1 --master_addr h --master_port 29500 --rdzv_backend c10d";
  auto taken = Parse<LaunchFlags>("launch" + flags + " -- true").local.unneeded;
  EXPECT_EQ(taken, all);
  taken = Parse<JoinFlags>("join rc1.x" + flags + " -- true").local.unneeded;
  EXPECT_EQ(taken, all);
  EXPECT_TRUE(Parse<LaunchFlags>("launch -- true").local.unneeded.empty());
}

TEST(Flags, WhatStartsRanksItselfIsStartedOncePerNode) {
  Parse<LaunchFlags>("launch -- torchrun t.py");
  Parse<LaunchFlags>("launch --nproc-per-node 8 --once -- mpirun a.out");
  Parse<LaunchFlags>("launch --nproc-per-node 8 -- python3 t.py -m deepspeed");
  Parse<LaunchFlags>("launch --nproc-per-node 8 -- python3 -m package.train");
}

TEST(Flags, MistakesNameTheRightSpelling) {
  struct {
    const char* line;
    const char* expect;
  } const rows[] = {
      {"launch --nprocs-per-node 2 -- true",
       "unknown flag --nprocs-per-node; did you mean --nproc-per-node?"},
      {"launch --ndoes=2 -- true", "did you mean --nodes?"},
      {"lanch -- true", "unknown command lanch; did you mean launch?"},
      {"", "expected a command"},
      {"launch", "after `--`"},
      {"launch train.py -- true", "goes after `--`"},
      {"launch --nodes 0 -- true", "--nodes takes"},
      {"launch --nproc-per-node 65 -- true", "--nproc-per-node takes"},
      {"launch --nproc-per-node all -- true", "--nproc-per-node takes"},
      {"launch --join-timeout soon -- true", "--join-timeout takes"},
      {"launch --grow later -- true", "--grow takes"},
      {"launch --job Bad_Name -- true", "Bad_Name"},
      {"launch --no-worker -- true", "--no-worker needs --nodes"},
      {"launch -- docker run image", "in the container instead"},
      {"launch --job a --rdzv-id b -- true", "--rdzv-id"},
      {"launch --rdzv-id __ -- true", "a letter or digit"},
      {"launch --nproc-per-node 8 -- torchrun t.py", "--nproc-per-node 1"},
      {"launch --nproc-per-node auto -- deepspeed t.py", "deepspeed starts"},
      {"join x --nproc-per-node 2 -- python3 -m torch.distributed.run t.py",
       "torch.distributed.run starts"},
      {"launch --nproc-per-node 2 -- mpirun a.out", "--once"},
      {"join x", "--attach"},
      {"join x --attach -- true", "expected no command"},
      {"launch --attach --once", "--once"},
      {"join x --socket /tmp/s -- true", "--attach"},
      {"join x --attach --socket s", "an absolute path"},
      {"join x --attach --socket /tmp/", "an absolute path"},
      {"join x --attach --socket ''", "--socket"},
      {"join x --attach --nproc-per-node 65", "--nproc-per-node takes"},
      {"launch --attach --socket /tmp/s --local-workers 1", "one agent"},
      {"run", "after `--`"},
      {"run --job Bad_Name -- true", "Bad_Name"},
      {"detect -- true", "runs no command"},
      {"join x --nmae n -- true", "did you mean --name?"},
      {"status --jsno", "did you mean --json?"},
      {"status -- true", "runs no command"},
      {"doctor -- true", "runs no command"},
      {"doctor --jsn", "did you mean --json?"},
      {"docter", "did you mean doctor?"},
      {"stop --exit-code 256", "--exit-code"},
      {"launch --max-restarts=-3 -- true",
       "--max-restarts: expected a number of 0 or more, got '-3'"},
      {"launch --max-restarts many -- true", "a number of 0 or more"},
      {"launch --local-workers=-1 -- true",
       "--local-workers: expected a number of 0 or more, got '-1'"},
  };
  for (const auto& row : rows) {
    const std::string complaint = Complaint(row.line);
    EXPECT_TRUE(absl::StrContains(complaint, row.expect))
        << row.line << ": " << complaint;
  }
}

TEST(Flags, RanksThatOthersStart) {
  const auto join =
      Parse<JoinFlags>("join rc1.x --attach --nproc-per-node 4 --socket /a/s");
  EXPECT_TRUE(join.local.attach);
  EXPECT_EQ(join.local.socket, "/a/s");
  EXPECT_TRUE(join.command.empty());
  EXPECT_TRUE(Parse<LaunchFlags>("launch --attach").local.attach);
  EXPECT_TRUE(Parse<RunFlags>("run --attach").launch.local.attach);
  EXPECT_FALSE(Parse<JoinFlags>("join rc1.x -- true").local.attach);
  const std::string longest = "/" + std::string(106, 'a');
  EXPECT_EQ(
      Parse<JoinFlags>("join rc1.x --attach --socket " + longest).local.socket,
      longest);
  EXPECT_TRUE(absl::StrContains(
      Complaint("join rc1.x --attach --socket " + longest + "a"),
      "at most 107 bytes"));
}

TEST(Flags, HelpShowsLimits) {
  const auto help = Parse<HelpText>("launch --help");
  EXPECT_TRUE(absl::StrContains(help.text, "--nproc-per-node"));
  EXPECT_TRUE(absl::StrContains(help.text, "lease 5s"));
  EXPECT_TRUE(absl::StrContains(help.text, "nodes at most 16384"));
  const auto all = Parse<HelpText>("--help");
  EXPECT_TRUE(absl::StrContains(all.text, "launch"));
  EXPECT_FALSE(absl::StrContains(all.text, "daemon  "));
}

TEST(Addresses, HostPort) {
  EXPECT_EQ(FormatHostPort(*ParseHostPort("[::1]:80")), "[::1]:80");
  EXPECT_EQ(FormatHostPort(*ParseHostPort("node:0")), "node:0");
  for (const char* bad : {"node", "node:", "node:65536", "::1:80", "a:-1"}) {
    EXPECT_FALSE(ParseHostPort(bad).ok()) << bad;
  }
  // The brackets do not match, so the meaning is unclear.
  for (const char* bad : {"[::1", "[::1:80", "::1]:80", "[:80", "node]:80",
                          "[]]:0", "[[::1]]:80"}) {
    EXPECT_TRUE(absl::StrContains(ParseHostPort(bad).status().message(),
                                  "as in [::1]:"))
        << bad << ParseHostPort(bad).status();
  }
}

TEST(Addresses, ThisMachineReachesAWildcardByLoopback) {
  EXPECT_EQ(LocalEndpoint({"::", 0}, 7), "127.0.0.1:7");
  EXPECT_EQ(LocalEndpoint({"10.0.0.5", 0}, 7), "10.0.0.5:7");
}

TEST(Place, TheAddressThatThePlatformNames) {
  EXPECT_EQ(AdvertisedAddress({}), "");
  EXPECT_EQ(
      AdvertisedAddress({"NODE_ADDR=10.65.0.2", "PRIMARY_ADDR=10.65.0.1"}),
      "10.65.0.2");
  // The variable of another program does not count.
  EXPECT_EQ(AdvertisedAddress({"NODE_ADDR=10.65.0.2"}), "");
  for (const char* bad : {"", "node-1", "127.0.0.1", "10.65.0.2/24"}) {
    EXPECT_EQ(AdvertisedAddress(
                  {"PRIMARY_ADDR=10.65.0.1", absl::StrCat("NODE_ADDR=", bad)}),
              "");
  }
}

TEST(Flags, VariablesForAllNodes) {
  const auto launch = Parse<LaunchFlags>(
      "launch --env UCX_TLS=rc=x --env NCCL_ALGO --env UCX_TLS=tcp -- x");
  ASSERT_EQ(launch.settings.environment_size(), 2);
  EXPECT_EQ(launch.settings.environment(0).name(), "NCCL_ALGO");
  // The command takes the launcher's own value.
  EXPECT_FALSE(launch.settings.environment(0).has_value());
  EXPECT_EQ(launch.settings.environment(1).value(), "tcp");
  EXPECT_EQ(Parse<JoinFlags>("join rc1.x --env UCX_TLS=rc -- x")
                .settings.environment(0)
                .value(),
            "rc");
  for (const char* bad :
       {"LD_PRELOAD=/x.so", "PATH=/x", "NCCL_NET_PLUGIN=x", "NCCL_TOPO_FILE=/x",
        "NCCL_ALGO=", "=x", "LD_PRELOAD"}) {
    const auto refused =
        ParseFlags(Split(absl::StrCat("launch --env ", bad, " -- x")));
    EXPECT_TRUE(absl::IsInvalidArgument(refused.status())) << bad;
  }
}

TEST(Flags, WhatEndsARunHow) {
  const auto launch = Parse<LaunchFlags>(
      "launch --linger 10m --requeue-exit-code 99 --preempt-signal USR2 "
      "--grow never -- x");
  EXPECT_EQ(launch.settings.linger().seconds(), 600);
  EXPECT_EQ(launch.settings.requeue_exit_code(), 99);
  EXPECT_EQ(launch.settings.grow(), v1::GROW_NEVER);
  EXPECT_EQ(launch.local.preempt_signal, 12);
  const auto join = Parse<JoinFlags>(
      "join rc1.x --preempt-signal SIGINT --grow boundary "
      "--max-restarts 7 -- x");
  EXPECT_EQ(join.local.preempt_signal, 2);
  EXPECT_EQ(join.local.rank_user, "");
  const auto other = Parse<JoinFlags>("join rc1.x --rank-user 1000:100 -- x");
  EXPECT_EQ(other.local.rank_user, "1000:100");
  EXPECT_EQ(join.settings.grow(), v1::GROW_BOUNDARY);
  EXPECT_EQ(join.settings.max_restarts(), 7u);
  EXPECT_FALSE(join.settings.has_linger());
  const auto plain = Parse<LaunchFlags>("launch -- x");
  EXPECT_EQ(plain.local.preempt_signal, 15);
  EXPECT_FALSE(plain.settings.has_linger());
  EXPECT_FALSE(plain.settings.has_requeue_exit_code());
  const auto called = Parse<JoinFlags>("join rc1.x --last-call 30s -- x");
  EXPECT_EQ(called.settings.last_call().seconds(), 30);
  EXPECT_FALSE(plain.settings.has_last_call());
  const auto uncalled = Parse<LaunchFlags>("launch --last-call 0 -- x");
  EXPECT_TRUE(uncalled.settings.has_last_call());
  EXPECT_EQ(uncalled.settings.last_call().seconds(), 0);
  const auto watched = Parse<LaunchFlags>("launch --hang-timeout 90s -- x");
  EXPECT_EQ(watched.settings.hang_timeout().seconds(), 90);
  EXPECT_FALSE(plain.settings.has_hang_timeout());
  for (const char* never : {"0", "0s", "never"}) {
    const auto off = Parse<JoinFlags>(
        absl::StrCat("join rc1.x --hang-timeout ", never, " -- x"));
    EXPECT_TRUE(off.settings.has_hang_timeout()) << never;
    EXPECT_EQ(off.settings.hang_timeout().seconds(), 0) << never;
  }
  const auto started = Parse<JoinFlags>("join rc1.x --start-timeout 90s -- x");
  EXPECT_EQ(started.settings.start_timeout().seconds(), 90);
  EXPECT_FALSE(plain.settings.has_start_timeout());
  for (const char* never : {"0", "0s", "never"}) {
    const auto off = Parse<LaunchFlags>(
        absl::StrCat("launch --start-timeout ", never, " -- x"));
    EXPECT_TRUE(off.settings.has_start_timeout()) << never;
    EXPECT_EQ(off.settings.start_timeout().seconds(), 0) << never;
  }
  const auto setup = Parse<JoinFlags>(
      "join rc1.x --setup prepare --setup-timeout 90s --setup-retries 2 -- x");
  EXPECT_EQ(setup.local.setup, "prepare");
  EXPECT_EQ(setup.local.setup_retries, 2u);
  EXPECT_EQ(setup.settings.setup_timeout().seconds(), 90);
  EXPECT_EQ(plain.local.setup, "");
  EXPECT_FALSE(plain.settings.has_setup_timeout());
  EXPECT_NE(Complaint("launch --setup prepare --attach"), "");
  const auto pinged = Parse<LaunchFlags>("launch --ping-interval 30s -- x");
  EXPECT_EQ(pinged.settings.ping_interval().seconds(), 30);
  EXPECT_FALSE(plain.settings.has_ping_interval());
  for (const char* bad : {"--ping-interval 1s",
                          "--ping-interval -2s",
                          "--hang-timeout soon",
                          "--setup-timeout soon",
                          "--setup-timeout 0s",
                          "--setup-timeout never",
                          "--setup-retries 2",
                          "--setup x --setup-retries -1",
                          "--setup x --setup-retries 101",
                          "--hang-timeout -1s",
                          "--last-call 61m",
                          "--last-call 11m",
                          "--join-timeout 5s --last-call 6s",
                          "--start-timeout soon",
                          "--start-timeout 169h",
                          "--linger soon",
                          "--linger 0s",
                          "--requeue-exit-code 0",
                          "--requeue-exit-code 256",
                          "--preempt-signal KILL",
                          "--grow now"}) {
    EXPECT_NE(Complaint(std::string("launch ") + bad + " -- x"), "") << bad;
  }
}

TEST(Flags, EveryKeyOfARunSpecIsAFlagOfLaunch) {
  const std::string help = Parse<HelpText>("launch --help").text;
  for (const SpecKey& key : kSpecKeys) {
    EXPECT_TRUE(absl::StrContains(help, absl::StrCat("  --", key.name)))
        << key.name;
  }
}

TEST(Flags, ASpecIsReadLater) {
  const auto spec =
      Parse<SpecFlags>("launch --spec f --nnodes 2 --rdzv-id x -- a b");
  EXPECT_EQ(spec.file, "f");
  EXPECT_EQ(spec.args.command, (std::vector<std::string>{"a", "b"}));
  for (const char* name : {"--nodes", "--nnodes", "--rdzv-id", "--spec"}) {
    EXPECT_TRUE(spec.on_command_line.contains(name)) << name;
  }
  EXPECT_FALSE(spec.on_command_line.contains("--job"));
  EXPECT_TRUE(Parse<SpecFlags>("launch --spec f").args.command.empty());
}

TEST(Flags, SshIsForOtherHosts) {
  for (const char* flag : {"--push", "--ssh s", "--export A"}) {
    EXPECT_TRUE(absl::StrContains(
        Complaint(absl::StrCat("launch ", flag, " -- true")), "--hostfile"));
    EXPECT_EQ(Complaint(absl::StrCat("launch --hostfile h ", flag, " -- true")),
              "");
  }
}

TEST(Flags, WhatTheEnvironmentGivesReachesEveryCommand) {
  const GivenSecrets given{"rc1.x", "secret"};
  for (const char* line : {"join -- true", "status", "stop", "token list"}) {
    auto invocation = ParseFlags(Split(line));
    ASSERT_TRUE(invocation.ok()) << line;
    Fill(*invocation, given);
    std::visit(
        [&](const auto& flags) {
          if constexpr (requires { flags.where; }) {
            EXPECT_EQ(flags.where.given.join, "rc1.x") << line;
            EXPECT_EQ(flags.where.given.secret, "secret") << line;
          } else {
            ADD_FAILURE() << line;
          }
        },
        *invocation);
  }
}

}  // namespace
}  // namespace rollcall

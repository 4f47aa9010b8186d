#include "client/admin/job_text.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace rollcall {
namespace {

TEST(JobText, StatusJsonHasExactlyTheContractsFields) {
  v1::JobStatus status;
  status.set_job("exp");
  status.set_state(v1::JOB_STATE_RUNNING);
  status.set_generation(2);
  status.add_nodes()->set_node("a");
  status.mutable_last_reform()->set_code(v1::REASON_CODE_LOST_STREAM);
  status.mutable_root_cause()->set_code(v1::REASON_CODE_RANK_EXIT);
  const auto json = StatusJson(status);
  const auto keys = [](const nlohmann::ordered_json& object) {
    std::vector<std::string> names;
    for (const auto& item : object.items()) names.push_back(item.key());
    return names;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(keys(json), (Names{"job",
                               "run",
                               "state",
                               "generation",
                               "world_size",
                               "nodes_min",
                               "nodes_max",
                               "nodes",
                               "missing",
                               "last_reform",
                               "root_cause",
                               "differences",
                               "waited_s",
                               "step",
                               "awaits",
                               "saved_step",
                               "slow",
                               "steps",
                               "loss",
                               "tokens_per_second",
                               "gradient_norm",
                               "flops_utilization",
                               "validation_loss",
                               "memory_bytes",
                               "refused",
                               "unauthenticated"}));
  EXPECT_EQ(keys(json["unauthenticated"]),
            (Names{"silent", "garbage", "crowded", "unknown", "hung_up"}));
  EXPECT_EQ(
      keys(json["nodes"][0]),
      (Names{"node", "state", "node_rank", "incarnation", "address", "lease_ms",
             "ranks", "step", "reason", "changes", "changes_dropped"}));
  EXPECT_EQ(keys(json["last_reform"]), (Names{"generation", "code", "reason"}));
  EXPECT_EQ(keys(json["root_cause"]),
            (Names{"node", "rank", "code", "detail", "node_changes"}));
  EXPECT_EQ(json["state"], "running");
  EXPECT_TRUE(json["generation"].is_number());
  EXPECT_EQ(json["last_reform"]["code"], "lost_stream");
}

v1::NodeChange ChangeAgo(const std::string& subject, int64_t seconds) {
  v1::NodeChange change;
  change.mutable_age()->set_seconds(seconds);
  change.mutable_change()->set_kind(v1::FACT_KIND_INTERFACE);
  change.mutable_change()->set_subject(subject);
  change.mutable_change()->set_before("up");
  change.mutable_change()->set_after("down");
  change.mutable_change()->set_count(3);
  return change;
}

TEST(JobText, WhatChangedAtTheNodesLatestFirst) {
  v1::JobStatus status;
  EXPECT_EQ(ChangesTable(status), "");
  v1::NodeStatus& a = *status.add_nodes();
  a.set_node("a");
  *a.add_changes() = ChangeAgo("interface eth0", 30);
  v1::NodeStatus& b = *status.add_nodes();
  b.set_node("b");
  *b.add_changes() = ChangeAgo("interface eth1", 600);
  *b.add_changes() = ChangeAgo("interface eth2", 2);
  EXPECT_EQ(ChangesTable(status),
            "changed 2 s ago: b: interface eth2: up -> down (3 changes)\n"
            "changed 30 s ago: a: interface eth0: up -> down (3 changes)\n"
            "changed 10 min 0 s ago: b: interface eth1: up -> down "
            "(3 changes)\n");
  for (int i = 0; i < 7; ++i) {
    *a.add_changes() = ChangeAgo("interface eth3", 1);
  }
  a.set_changes_dropped(5);
  EXPECT_TRUE(absl::StrContains(
      ChangesTable(status),
      "changed 2 s ago: b: interface eth2: up -> down (3 changes)\n"
      "changed: 7 more; --json has the latest of each node\n"))
      << ChangesTable(status);
  const auto json = StatusJson(status)["nodes"][1]["changes"][1];
  EXPECT_EQ(json["kind"], "interface");
  EXPECT_EQ(json["subject"], "interface eth2");
  EXPECT_EQ(json["before"], "up");
  EXPECT_EQ(json["after"], "down");
  EXPECT_EQ(json["count"], 3);
  EXPECT_EQ(json["age_s"], 2.0);
}

TEST(JobText, ACauseEndsWithWhatChangedAtItsNode) {
  v1::RootCause cause;
  cause.set_node("b");
  cause.set_rank(3);
  cause.set_code(v1::REASON_CODE_RANK_EXIT);
  cause.set_value(7);
  cause.set_node_changes("GPU 3: Xid 79 4 s before");
  EXPECT_EQ(CauseText(cause),
            "rank 3 on b exited with code 7; changes on b: "
            "GPU 3: Xid 79 4 s before");
}

TEST(JobText, HowATrainingGoes) {
  v1::JobStatus status;
  status.set_state(v1::JOB_STATE_RUNNING);
  EXPECT_EQ(StatusTable(status).find("step"), std::string::npos);
  EXPECT_TRUE(StatusJson(status)["loss"].is_null());
  status.set_step(12);
  EXPECT_NE(StatusTable(status).find("\nstep 12\n"), std::string::npos);
  status.mutable_pace()->set_loss(1.53125);
  status.mutable_pace()->set_tokens_per_second(2345.6);
  EXPECT_NE(StatusTable(status).find("\nstep 12  loss 1.5312  2346 tokens/s\n"),
            std::string::npos);
  const auto json = StatusJson(status);
  EXPECT_EQ(json["step"], 12);
  EXPECT_EQ(json["loss"], 1.53125);
  EXPECT_EQ(json["tokens_per_second"], 2345.6);
  // The value is unknown until the training reports it.
  EXPECT_TRUE(json["steps"].is_null());
  status.mutable_pace()->set_steps(1500);
  EXPECT_EQ(StatusJson(status)["steps"], 1500);
}

TEST(JobText, WhatATrainingMeasures) {
  v1::JobStatus status;
  status.set_state(v1::JOB_STATE_RUNNING);
  status.set_step(12);
  v1::Pace& pace = *status.mutable_pace();
  pace.set_loss(1.53125);
  pace.set_tokens_per_second(2345.6);
  const struct {
    std::function<void()> change;
    const char* name;
    double value;
    const char* text;  // Follows those of the rows before.
  } kRows[] = {
      {[&] { pace.set_gradient_norm(0); }, "gradient_norm", 0, "  norm 0"},
      {[&] { pace.set_validation_loss(1.625); }, "validation_loss", 1.625,
       "  validation 1.6250"},
      {[&] { pace.set_flops_utilization(0.412); }, "flops_utilization", 0.412,
       "  mfu 41.2%"},
      {[&] { pace.set_memory_bytes(3 << 20); }, "memory_bytes", 3 << 20,
       "  memory 3 MiB"},
  };
  std::string line = "\nstep 12  loss 1.5312  2346 tokens/s";
  for (const auto& row : kRows) {
    EXPECT_TRUE(StatusJson(status)[row.name].is_null()) << row.name;
    row.change();
    EXPECT_EQ(StatusJson(status)[row.name], row.value);
    line += row.text;
    EXPECT_NE(StatusTable(status).find(line + "\n"), std::string::npos)
        << StatusTable(status);
  }
}

v1::Pings PingsOfNodes(int count) {
  v1::Pings pings;
  for (int i = 0; i < count; ++i) pings.add_nodes(absl::StrCat("node", i));
  v1::Ping& cut = *pings.add_pings();
  cut.set_from(0);
  cut.set_to(1);
  cut.set_error("Connection refused");
  v1::Ping& slow = *pings.add_pings();
  slow.set_from(1);
  slow.set_to(0);
  slow.set_reached(true);
  slow.mutable_round_trip()->set_nanos(1'234'000);
  pings.set_pairs(2);
  pings.set_unreached(1);
  pings.mutable_age()->set_seconds(12);
  return pings;
}

TEST(JobText, Pings) {
  EXPECT_EQ(
      PingsTable(PingsOfNodes(2)),
      "connecting took, in ms, probed 12 s ago, 1 of 2 pairs not reached:\n"
      "                       0       1\n"
      "0          node0       -    none\n"
      "1          node1    1.23       -\n"
      "  node0 does not reach node1 (Connection refused)\n");
  EXPECT_EQ(
      PingsTable(PingsOfNodes(17)),
      "connecting took, in ms, probed 12 s ago, 1 of 2 pairs not reached:\n"
      "  node0 does not reach node1 (Connection refused)\n"
      "  node1 reaches node0 in 1.23 ms\n");
  EXPECT_NE(PingsTable(v1::Pings()).find("no nodes have probed"),
            std::string::npos);
  v1::JobStatus status;
  EXPECT_FALSE(StatusJson(status).contains("pings"));
  *status.mutable_pings() = PingsOfNodes(2);
  const auto json = StatusJson(status)["pings"];
  EXPECT_EQ(json["unreached"], 1);
  EXPECT_TRUE(json["pings"][0]["ms"].is_null());
  EXPECT_EQ(json["pings"][1]["ms"], 1.234);
}

// The text names the node and the rank, and says how the rank ended.
TEST(JobText, NamesTheRankOfACause) {
  struct Row {
    v1::ReasonCode code;
    const char* text;
  };
  const Row rows[] = {
      {v1::REASON_CODE_RANK_EXIT, "rank 3 on b exited with code 7"},
      {v1::REASON_CODE_RANK_COMMUNICATION, "rank 3 on b exited with code 7"},
      {v1::REASON_CODE_GPU_ERROR,
       "rank 3 on b failed with a GPU error, code 7"},
      {v1::REASON_CODE_NOT_STARTED,
       "rank 3 on b could not be started (code 7)"},
      {v1::REASON_CODE_RANK_SIGNAL,
       "rank 3 on b was ended by signal 7 (SIGBUS)"},
      {v1::REASON_CODE_RANK_GONE,
       "rank 3 on b is gone: its connection to its agent ended"},
      {v1::REASON_CODE_OUT_OF_MEMORY,
       "rank 3 on b was killed by the kernel for memory (OOM killer): "},
      {v1::REASON_CODE_HANG, "rank 3 on b made no progress"},
      {v1::REASON_CODE_LOST_LEASE, "node b: lost_lease"},
  };
  for (const Row& row : rows) {
    v1::RootCause cause;
    cause.set_node("b");
    cause.set_rank(3);
    cause.set_code(row.code);
    cause.set_value(7);
    EXPECT_EQ(CauseText(cause), row.text);
  }
}

TEST(JobText, FailureNamesNodeRankAndCodeFirst) {
  v1::End end;
  v1::RootCause& cause = *end.mutable_root_cause();
  cause.set_node("b");
  cause.set_rank(3);
  cause.set_code(v1::REASON_CODE_RANK_EXIT);
  cause.set_value(7);
  cause.set_stderr_tail("one\ntwo\n");
  EXPECT_EQ(FailureText(end),
            "rank 3 on b exited with code 7\n  | one\n  | two");
  // The rank wrote this text into its error file.
  cause.set_detail("no such shard");
  EXPECT_EQ(FailureText(end),
            "rank 3 on b exited with code 7: no such shard\n  | one\n  | two");
  // The text of this cause already has the detail.
  cause.set_code(v1::REASON_CODE_HANG);
  cause.clear_stderr_tail();
  EXPECT_EQ(FailureText(end), "rank 3 on b made no progress: no such shard");
}

TEST(JobText, ANodeWithoutASeatIsNamedWhileItsJobWaits) {
  v1::JobStatus status;
  status.set_state(v1::JOB_STATE_GATHERING);
  status.set_nodes_max(2);
  status.add_missing("c");
  v1::NodeStatus& node = *status.add_nodes();
  node.set_node("b");
  node.set_reason("its disk is full");
  for (const v1::NodeState state :
       {v1::NODE_STATE_SPARE, v1::NODE_STATE_QUARANTINED}) {
    node.set_state(state);
    EXPECT_TRUE(absl::StrContains(WaitingText(status),
                                  "b gets no seat: its disk is full"))
        << WaitingText(status);
  }
}

TEST(JobText, WhatAGatheringWaitsFor) {
  struct {
    const char* what;
    uint32_t missing_count;
    int here;
    std::vector<std::string> missing;
    bool fence;
    const char* text;
    const char* awaits = "";
  } const kRows[] = {
      {"too few",
       1,
       1,
       {},
       false,
       "waiting: 1 node is here; 1 more to begin, room for 3 more"},
      {"a name is known",
       1,
       1,
       {"c"},
       false,
       "waiting: 1 node is here; 1 more to begin, room for 3 more; missing: c"},
      {"enough",
       0,
       3,
       {"d"},
       false,
       "waiting: 3 nodes are here; enough to begin, room for 1 more; missing: "
       "d"},
      {"all", 0, 4, {}, false, "gathering generation 2"},
      {"answers, with room",
       0,
       3,
       {},
       false,
       "waiting: 3 nodes are here; enough to begin, room for 1 more; a checks "
       "b",
       "a checks b"},
      {"answers",
       0,
       4,
       {},
       false,
       "gathering generation 2; a checks b",
       "a checks b"},
      {"the last world may still run",
       0,
       4,
       {},
       true,
       "waiting for the ranks of generation 2 to stop"},
      {"too few, whatever may still run",
       1,
       1,
       {},
       true,
       "waiting: 1 node is here; 1 more to begin, room for 3 more"},
  };
  for (const auto& row : kRows) {
    v1::JobStatus status;
    status.set_state(v1::JOB_STATE_GATHERING);
    status.set_generation(2);
    status.set_nodes_min(2);
    status.set_nodes_max(4);
    status.set_missing_count(row.missing_count);
    status.set_awaits(row.awaits);
    for (const std::string& name : row.missing) status.add_missing(name);
    for (int i = 0; i < row.here; ++i) {
      status.add_nodes()->set_state(v1::NODE_STATE_ATTENDING);
    }
    if (row.fence) status.mutable_fence()->set_seconds(60);
    EXPECT_EQ(WaitingText(status), row.text) << row.what;
  }
}

v1::JobStatus WithNodes(v1::JobState state,
                        const std::vector<v1::NodeStatus>& nodes) {
  v1::JobStatus status;
  status.set_state(state);
  status.set_generation(3);
  for (const v1::NodeStatus& node : nodes) *status.add_nodes() = node;
  return status;
}

v1::NodeStatus Preparing(const std::string& name, bool prepared) {
  v1::NodeStatus node;
  node.set_node(name);
  node.set_state(v1::NODE_STATE_PREPARING);
  node.set_prepared(prepared);
  return node;
}

v1::NodeStatus In(const std::string& name, v1::NodeState state) {
  v1::NodeStatus node;
  node.set_node(name);
  node.set_state(state);
  return node;
}

TEST(JobText, WhomAFormingWorldWaitsFor) {
  std::vector<v1::NodeStatus> many;
  for (int i = 0; i < 10; ++i)
    many.push_back(Preparing(absl::StrCat(i), false));
  struct {
    const char* what;
    v1::JobState state;
    std::vector<v1::NodeStatus> nodes;
    const char* text;
  } const kRows[] = {
      {"two of three",
       v1::JOB_STATE_FORMING,
       {Preparing("a", true), Preparing("b", false), Preparing("c", false)},
       "forming generation 3; not prepared yet: b, c"},
      {"a spare is not waited for",
       v1::JOB_STATE_FORMING,
       {Preparing("a", false), In("s", v1::NODE_STATE_SPARE)},
       "forming generation 3; not prepared yet: a"},
      {"too many for a line", v1::JOB_STATE_FORMING, many,
       "forming generation 3; not prepared yet: 0, 1, 2, 3, 4, 5, 6, 7 and 2 "
       "more"},
      {"none", v1::JOB_STATE_FORMING, {Preparing("a", true)}, ""},
      {"an older daemon does not say",
       v1::JOB_STATE_FORMING,
       {In("a", v1::NODE_STATE_PREPARING)},
       ""},
      {"another state", v1::JOB_STATE_RUNNING, {Preparing("a", false)}, ""},
  };
  for (const auto& row : kRows) {
    const v1::JobStatus status = WithNodes(row.state, row.nodes);
    EXPECT_EQ(UnpreparedText(status), row.text) << row.what;
    // `status` also prints it as a line, with and without --json.
    EXPECT_EQ(absl::StrContains(StatusTable(status), "not prepared yet"),
              *row.text != 0)
        << row.what;
    const auto json = StatusJson(status)["nodes"];
    EXPECT_EQ(json[0].contains("prepared"), row.nodes[0].has_prepared());
  }
  EXPECT_EQ(
      StatusJson(WithNodes(v1::JOB_STATE_FORMING,
                           {Preparing("a", true)}))["nodes"][0]["prepared"],
      true);
}

TEST(JobText, StatusNamesWhoHasNotFinished) {
  const v1::JobStatus status = WithNodes(
      v1::JOB_STATE_RUNNING,
      {In("a", v1::NODE_STATE_FINISHED), In("b", v1::NODE_STATE_RUNNING),
       In("c", v1::NODE_STATE_SUSPECT), In("d", v1::NODE_STATE_SPARE)});
  EXPECT_TRUE(absl::StrContains(StatusTable(status),
                                "\n1 node finished; still running: b, c\n"))
      << StatusTable(status);
}

}  // namespace
}  // namespace rollcall

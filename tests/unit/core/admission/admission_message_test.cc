// Which messages of an agent are admitted.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "daemon/core/admission/admission.h"
#include "tests/unit/core/admission/good_hello.h"

namespace rollcall {
namespace {

struct MessageRow {
  const char* what;
  bool fits;
  std::function<void(v1::AgentMessage&)> fill;
};

v1::StoreOperation* Asked(v1::AgentMessage& message) {
  return message.mutable_store()->add_asked()->mutable_what();
}

v1::StoreOperation StoreOf(const std::string& key, size_t value_bytes) {
  v1::StoreOperation what;
  what.set_kind(v1::STORE_KIND_SET);
  what.set_key(key);
  what.set_value(std::string(value_bytes, 'x'));
  return what;
}

v1::GroupChecked* Grouped(v1::AgentMessage& message) {
  return message.mutable_group_checked();
}

v1::GroupChecked Times(int64_t seconds, int32_t nanos) {
  v1::GroupChecked checked;
  for (google::protobuf::Duration* time :
       {checked.mutable_product(), checked.mutable_all_reduce()}) {
    time->set_seconds(seconds);
    time->set_nanos(nanos);
  }
  return checked;
}

TEST(Admission, Messages) {
  const MessageRow rows[] = {
      {"nothing", false, [](auto&) {}},
      {"another hello", false,
       [](auto& m) { *m.mutable_hello() = GoodHello(); }},
      {"an introduction after the Hello", false,
       [](auto& m) { *m.mutable_introduction() = GoodHello(); }},
      {"heartbeat", true, [](auto& m) { m.mutable_heartbeat()->set_step(1); }},
      {"the highest step", true,
       [](auto& m) { m.mutable_heartbeat()->set_step(Limits::step_max); }},
      {"a step beyond all", false,
       [](auto& m) { m.mutable_heartbeat()->set_step(Limits::step_max + 1); }},
      {"pace", true,
       [](auto& m) { m.mutable_heartbeat()->mutable_pace()->set_loss(2); }},
      {"heartbeat, and how long a start took", true,
       [](auto& m) {
         m.mutable_heartbeat()->mutable_start_took()->set_seconds(7 * 86400);
       }},
      {"heartbeat, and a start of more than a week", false,
       [](auto& m) {
         m.mutable_heartbeat()->mutable_start_took()->set_seconds(7 * 86400 +
                                                                  1);
       }},
      {"heartbeat, and a start of less than nothing", false,
       [](auto& m) {
         m.mutable_heartbeat()->mutable_start_took()->set_seconds(-1);
       }},
      {"the most steps of a training", true,
       [](auto& m) {
         m.mutable_heartbeat()->mutable_pace()->set_steps(Limits::step_max);
       }},
      {"more steps than any training has", false,
       [](auto& m) {
         m.mutable_heartbeat()->mutable_pace()->set_steps(Limits::step_max + 1);
       }},
      {"pace that is no number", false,
       [](auto& m) {
         m.mutable_heartbeat()->mutable_pace()->set_loss(std::nan(""));
       }},
      {"all measures of a pace", true,
       [](auto& m) {
         v1::Pace& pace = *m.mutable_heartbeat()->mutable_pace();
         pace.set_gradient_norm(0);
         pace.set_flops_utilization(1);
         pace.set_validation_loss(1e300);
         pace.set_memory_bytes(std::numeric_limits<uint64_t>::max());
       }},
      {"a norm that is no number", false,
       [](auto& m) {
         m.mutable_heartbeat()->mutable_pace()->set_gradient_norm(std::nan(""));
       }},
      {"a norm below zero", false,
       [](auto& m) {
         m.mutable_heartbeat()->mutable_pace()->set_gradient_norm(-1);
       }},
      {"a validation loss without an end", false,
       [](auto& m) {
         m.mutable_heartbeat()->mutable_pace()->set_validation_loss(
             std::numeric_limits<double>::infinity());
       }},
      {"a use of the device below zero", false,
       [](auto& m) {
         m.mutable_heartbeat()->mutable_pace()->set_flops_utilization(-0.1);
       }},
      {"more than all of the device", false,
       [](auto& m) {
         m.mutable_heartbeat()->mutable_pace()->set_flops_utilization(1.01);
       }},
      {"probed", true,
       [](auto& m) {
         auto& result = *m.mutable_probed()->add_results();
         result.set_node("a");
         result.set_address("10.0.0.1");
       }},
      {"probed nowhere", false,
       [](auto& m) { m.mutable_probed()->add_results()->set_node("a"); }},
      {"prepared", true,
       [](auto& m) {
         m.mutable_prepared()->set_generation(1);
         m.mutable_prepared()->set_master_port(65535);
         m.mutable_prepared()->add_nccl_ids(std::string(128, 'i'));
       }},
      {"port 65536", false,
       [](auto& m) { m.mutable_prepared()->set_master_port(65536); }},
      {"short id", false,
       [](auto& m) { m.mutable_prepared()->add_nccl_ids("i"); }},
      {"8193 ids", false,
       [](auto& m) {
         for (int i = 0; i < 8193; ++i) {
           m.mutable_prepared()->add_nccl_ids(std::string(128, 'i'));
         }
       }},
      {"refused", true,
       [](auto& m) { m.mutable_refused()->set_reason("\x1b[2Jno"); }},
      {"stopped", true,
       [](auto& m) { m.mutable_stopped()->set_generation(1); }},
      {"state of rank 63", true,
       [](auto& m) { m.mutable_prepared()->add_states()->set_local_rank(63); }},
      {"state of rank 64", false,
       [](auto& m) { m.mutable_prepared()->add_states()->set_local_rank(64); }},
      {"state of a step beyond all", false,
       [](auto& m) {
         m.mutable_prepared()->add_states()->set_completed_step(
             Limits::step_max + 1);
       }},
      {"exit 3", true, [](auto& m) { m.mutable_rank_exited()->set_code(3); }},
      {"exit -1", false,
       [](auto& m) { m.mutable_rank_exited()->set_code(-1); }},
      {"exit 256", false,
       [](auto& m) { m.mutable_rank_exited()->set_code(256); }},
      {"signal 9", true,
       [](auto& m) { m.mutable_rank_exited()->set_signal(9); }},
      {"signal -9", false,
       [](auto& m) { m.mutable_rank_exited()->set_signal(-9); }},
      {"code and signal", false,
       [](auto& m) {
         m.mutable_rank_exited()->set_signal(9);
         m.mutable_rank_exited()->set_code(9);
       }},
      {"rank 64", false,
       [](auto& m) { m.mutable_rank_exited()->set_local_rank(64); }},
      {"a set-up that succeeded", true,
       [](auto& m) { m.mutable_setup_ended()->set_tries(1); }},
      {"a set-up that was never run", false,
       [](auto& m) { m.mutable_setup_ended(); }},
      {"a set-up that was run too often", false,
       [](auto& m) { m.mutable_setup_ended()->set_tries(102); }},
      {"a set-up that exited -1", false,
       [](auto& m) {
         m.mutable_setup_ended()->set_tries(1);
         m.mutable_setup_ended()->set_code(-1);
       }},
      {"a set-up that signal 128 ended", false,
       [](auto& m) {
         m.mutable_setup_ended()->set_tries(1);
         m.mutable_setup_ended()->set_signal(128);
       }},
      {"a set-up that ended twice", false,
       [](auto& m) {
         m.mutable_setup_ended()->set_tries(1);
         m.mutable_setup_ended()->set_code(9);
         m.mutable_setup_ended()->set_signal(9);
       }},
      {"a set-up that timed out", true,
       [](auto& m) {
         m.mutable_setup_ended()->set_tries(101);
         m.mutable_setup_ended()->set_code(124);
         m.mutable_setup_ended()->set_timed_out(true);
       }},
      {"a set-up that timed out and succeeded", false,
       [](auto& m) {
         m.mutable_setup_ended()->set_tries(1);
         m.mutable_setup_ended()->set_timed_out(true);
       }},
      {"leaving", true, [](auto& m) { m.mutable_leaving(); }},
      {"leaving in the past", false,
       [](auto& m) {
         m.mutable_leaving()->mutable_deadline()->set_seconds(-5);
       }},
      {"exchange", true,
       [](auto& m) {
         m.mutable_exchange()->set_key("k");
         m.mutable_exchange()->add_values(std::string(4096, 'v'));
       }},
      {"exchange of nothing", false,
       [](auto& m) { m.mutable_exchange()->set_key("k"); }},
      {"exchange too large", false,
       [](auto& m) {
         m.mutable_exchange()->set_key("k");
         m.mutable_exchange()->add_values(std::string(4097, 'v'));
       }},
      {"end seen", true, [](auto& m) { m.mutable_end_seen(); }},
      {"notice seen", true, [](auto& m) { m.mutable_notice_seen(); }},
      {"stalled", true,
       [](auto& m) {
         m.mutable_rank_stalled()->set_local_rank(63);
         m.mutable_rank_stalled()->set_collective_entered(UINT64_MAX);
         m.mutable_rank_stalled()->set_collective_left(UINT64_MAX);
         m.mutable_rank_stalled()->set_text(std::string(10'000, '\x1b'));
       }},
      {"stalled, rank 64", false,
       [](auto& m) { m.mutable_rank_stalled()->set_local_rank(64); }},
      {"left and never entered", false,
       [](auto& m) { m.mutable_rank_stalled()->set_collective_left(1); }},
      {"stalled at a step beyond all", false,
       [](auto& m) {
         m.mutable_rank_stalled()->set_step(Limits::step_max + 1);
       }},
      {"stalled in no generation that can be", false,
       [](auto& m) { m.mutable_rank_stalled()->set_generation(UINT64_MAX); }},
      {"finding", true,
       [](auto& m) { m.mutable_check_report()->add_findings(); }},
      {"facts in a report that no Hello may bring", false,
       [](auto& m) {
         m.mutable_check_report()->mutable_facts()->add_interfaces()->set_name(
             "eth0\n");
       }},
      {"a group listens", true,
       [](auto& m) { m.mutable_group_listening()->set_port(65535); }},
      {"a group listens nowhere", false,
       [](auto& m) { m.mutable_group_listening()->set_round(1); }},
      {"a group listens beyond all ports", false,
       [](auto& m) { m.mutable_group_listening()->set_port(65536); }},
      {"a group's times", true, [](auto& m) { *Grouped(m) = Times(0, 1); }},
      {"a group's times are far too long", false,
       [](auto& m) { *Grouped(m) = Times(int64_t{1} << 40, 0); }},
      {"a group's times are zero", false,
       [](auto& m) { *Grouped(m) = Times(0, 0); }},
      {"a group's times are negative", false,
       [](auto& m) { *Grouped(m) = Times(-1, 0); }},
      {"a group has one time", false,
       [](auto& m) {
         *Grouped(m) = Times(1, 0);
         m.mutable_group_checked()->clear_product();
       }},
      {"a group has neither times nor an error", false,
       [](auto& m) { m.mutable_group_checked()->set_round(1); }},
      {"a group's error", true,
       [](auto& m) { m.mutable_group_checked()->set_error("x"); }},
      {"a group's error beside times", false,
       [](auto& m) {
         *Grouped(m) = Times(1, 0);
         m.mutable_group_checked()->set_error("x");
       }},
      {"an operation on the store", true,
       [](auto& m) {
         *Asked(m) = StoreOf("k", Limits::store_value_bytes_max);
       }},
      {"a value beyond the store's", false,
       [](auto& m) {
         *Asked(m) = StoreOf("k", Limits::store_value_bytes_max + 1);
       }},
      {"two values that are too large together", false,
       [](auto& m) {
         *Asked(m) = StoreOf("k", Limits::store_value_bytes_max);
         m.mutable_store()->mutable_asked(0)->mutable_what()->set_expected("x");
       }},
      {"the longest key", true,
       [](auto& m) {
         *Asked(m) = StoreOf(std::string(Limits::store_key_bytes_max, 0), 1);
       }},
      {"a longer key", false,
       [](auto& m) {
         *Asked(m) =
             StoreOf(std::string(Limits::store_key_bytes_max + 1, 0), 1);
       }},
      {"no key", false, [](auto& m) { *Asked(m) = StoreOf("", 1); }},
      {"a count of keys", true,
       [](auto& m) { Asked(m)->set_kind(v1::STORE_KIND_NUM_KEYS); }},
      {"a count with a key", false,
       [](auto& m) {
         Asked(m)->set_kind(v1::STORE_KIND_NUM_KEYS);
         m.mutable_store()->mutable_asked(0)->mutable_what()->set_key("k");
       }},
      {"more operations than one message has", false,
       [](auto& m) {
         for (size_t i = 0; i <= Limits::store_asked_per_node_max +
                                     Limits::store_waits_per_node_max;
              ++i) {
           *Asked(m) = StoreOf("k", 1);
         }
       }},
      {"a record", true,
       [](auto& m) {
         v1::StoreRecord& record = *m.mutable_store()->add_records();
         record.set_key("k");
         record.set_sequence(uint64_t{1} << 62);
         record.set_value(std::string(Limits::store_value_bytes_max, 'x'));
       }},
      {"a record of no key", false,
       [](auto& m) { m.mutable_store()->add_records(); }},
      {"the store of no generation that can be", false,
       [](auto& m) { m.mutable_store()->set_generation(UINT64_MAX); }},
      {"unknown severity", false,
       [](auto& m) {
         m.mutable_check_report()->add_findings()->set_severity(
             static_cast<v1::CheckFinding::Severity>(77));
       }},
  };
  for (const MessageRow& row : rows) {
    v1::AgentMessage message;
    row.fill(message);
    const absl::Status status = AdmitMessage(message);
    EXPECT_EQ(status.ok(), row.fits) << row.what << ": " << status;
  }
}

TEST(Admission, AFactChangeNeedsAKindASubjectAndACount) {
  const struct {
    int kind;
    const char* subject;
    uint32_t count;
    bool fits;
  } kRows[] = {{v1::FACT_KIND_XID, "GPU 3", 1, true},
               {v1::FACT_KIND_XID, "GPU 3", UINT32_MAX, true},
               {99, "GPU 3", 1, true},
               {v1::FACT_KIND_UNSPECIFIED, "GPU 3", 1, false},
               {v1::FACT_KIND_XID, "", 1, false},
               {v1::FACT_KIND_XID, "GPU 3", 0, false}};
  for (const auto& row : kRows) {
    v1::AgentMessage message;
    v1::FactChange& change = *message.mutable_fact_change();
    change.set_kind(static_cast<v1::FactKind>(row.kind));
    change.set_subject(row.subject);
    change.set_count(row.count);
    EXPECT_EQ(AdmitMessage(message).ok(), row.fits)
        << row.kind << row.subject << row.count;
  }
  v1::AgentMessage message;
  v1::FactChange& change = *message.mutable_fact_change();
  change.set_subject(std::string(9999, '\n'));
  change.set_before(std::string(9999, '\x1b'));
  change.set_after(std::string(9999, 'x'));
  CleanMessage(message);
  const size_t most = Limits::fact_text_bytes_max;
  EXPECT_EQ(change.subject(), std::string(most, '?'));
  EXPECT_EQ(change.before(), std::string(most, '?'));
  EXPECT_EQ(change.after(), std::string(most, 'x'));
}

}  // namespace
}  // namespace rollcall

#include "daemon/core/admission/admission.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/base/printable.h"
#include "google/protobuf/message.h"
#include "google/protobuf/unknown_field_set.h"

namespace rollcall {
namespace {

struct TextRow {
  std::string text;
  bool fits;
};

void ExpectRows(const std::vector<TextRow>& rows,
                absl::Status (*admit)(std::string_view)) {
  for (const TextRow& row : rows) {
    const absl::Status status = admit(row.text);
    EXPECT_EQ(status.ok(), row.fits) << '"' << row.text << "\" " << status;
    EXPECT_EQ(absl::IsInvalidArgument(status), !row.fits);
    EXPECT_LT(status.message().size(), 512u);
  }
}

TEST(Admission, JobIds) {
  ExpectRows({{"a", true},
              {"train-7", true},
              {std::string(63, 'x'), true},
              {"", false},
              {std::string(64, 'x'), false},
              {"-a", false},
              {"a-", false},
              {"A", false},
              {"a_b", false},
              {"a.b", false},
              {"../x", false},
              {std::string("a\0b", 3), false},
              {"\xc3\xa4", false}},
             AdmitJobId);
}

TEST(Admission, NodeNames) {
  ExpectRows({{"a", true},
              {"node-1.cluster.local", true},
              {"ip-10-0-0-1", true},
              {"my_host", true},
              {"10.0.0.1", true},
              {std::string(63, 'n'), true},
              {"", false},
              {".", false},
              {"a.", false},
              {".a", false},
              {"a..b", false},
              {"-a", false},
              {"a-.b", false},
              {std::string(64, 'n'), false},
              {std::string(62, 'n') + "." + std::string(62, 'n') + "." +
                   std::string(62, 'n') + "." + std::string(63, 'n'),
               true},
              {std::string(62, 'n') + "." + std::string(62, 'n') + "." +
                   std::string(62, 'n') + "." + std::string(63, 'n') + ".n",
               false},
              {"a b", false},
              {"a\n10.0.0.1 evil", false},
              {"a#b", false},
              {"a/b", false}},
             AdmitNodeName);
}

TEST(Admission, Addresses) {
  ExpectRows({{"10.0.0.1", true},
              {"255.255.255.255", true},
              {"::", true},
              {"::1", true},
              {"fe80::1", true},
              {"1:2:3:4:5:6:7:8", true},
              {"::ffff:1.2.3.4", true},
              {"1:2:3:4:5:6:1.2.3.4", true},
              {"1::", true},
              {"", false},
              {"10.0.0", false},
              {"10.0.0.256", false},
              {"10.0.0.01", false},
              {"10.0.0.1:80", false},
              {"10.0.0.1/24", false},
              {"fe80::1%eth0", false},
              {"[::1]", false},
              {"1::2::3", false},
              {":::", false},
              {"1:2:3:4:5:6:7", false},
              {"1:2:3:4:5:6:7:8:9", false},
              {"12345::", false},
              {"::1.2.3.4.5", false},
              {"1.2.3.4::", false},
              {":1", false},
              {"localhost", false}},
             AdmitAddress);
}

TEST(Admission, AddressesAsTheSystemReadsThem) {
  std::mt19937 random(1);
  const std::string letters = "0123456789af:.:.";
  for (int i = 0; i < 200'000; ++i) {
    std::string text;
    const size_t size = random() % 20;
    for (size_t k = 0; k < size; ++k) {
      text.push_back(letters[random() % letters.size()]);
    }
    in6_addr parsed;
    const bool system = inet_pton(AF_INET, text.c_str(), &parsed) == 1 ||
                        inet_pton(AF_INET6, text.c_str(), &parsed) == 1;
    ASSERT_EQ(AdmitAddress(text).ok(), system) << text;
  }
}

TEST(Admission, ExchangeKeys) {
  ExpectRows({{"k", true},
              {"gloo/0/1 x", true},
              {std::string(128, 'k'), true},
              {"", false},
              {std::string(129, 'k'), false},
              {"k\n", false},
              {"\xff", false}},
             AdmitExchangeKey);
}

// Each row changes one thing in a message that is admitted as it is.
struct HelloRow {
  const char* what;
  bool fits;
  std::function<void(v1::Hello&)> change;
};

v1::Hello GoodHello() {
  v1::Hello hello;
  hello.set_job("train");
  hello.set_node("node1");
  hello.set_incarnation(7);
  hello.mutable_token()->set_id("abc");
  hello.mutable_token()->set_secret("secret");
  hello.set_ranks(8);
  hello.mutable_facts()->set_hostname("node1");
  v1::Interface& interface = *hello.mutable_facts()->add_interfaces();
  interface.set_name("eth0");
  v1::InterfaceAddress& address = *interface.add_addresses();
  address.set_address("10.0.0.1");
  address.set_prefix_length(24);
  return hello;
}

// Each new part of the facts, filled as a node fills it.
void FullFacts(v1::Facts& facts) {
  v1::InfinibandPort& port = *facts.add_infiniband();
  port.set_device("mlx5_0");
  port.set_port(1);
  port.set_lid(65535);
  port.set_active_mtu(4096);
  port.set_numa_node(-1);
  port.set_net_device("ib0");
  port.set_unusable("no provider");
  v1::Gid& gid = *port.add_gids();
  gid.set_index(3);
  gid.set_type("RoCE v2");
  gid.set_address("::ffff:10.0.0.1");
  gid.set_net_device("eth0");
  v1::Gpu& gpu = *facts.add_gpus();
  gpu.set_index(255);
  gpu.set_numa_node(1);
  gpu.add_near_hcas("mlx5_0");
  gpu.add_throttle_reasons("hw_slowdown");
  v1::MissingFact& missing = *facts.add_missing();
  missing.set_fact("gpus");
  missing.set_reason(std::string(512, 'r'));
  facts.add_folders()->set_path("/scratch");
  facts.set_container("docker");
  facts.set_probe_port(65535);
}

v1::InfinibandPort* Port(v1::Hello& hello) {
  FullFacts(*hello.mutable_facts());
  return hello.mutable_facts()->mutable_infiniband(0);
}

v1::Gpu* FullGpu(v1::Hello& hello) {
  FullFacts(*hello.mutable_facts());
  return hello.mutable_facts()->mutable_gpus(0);
}

// Beside eth0.
void AddInterfaces(v1::Hello& hello, int count) {
  for (int i = 0; i < count; ++i) {
    hello.mutable_facts()->add_interfaces()->set_name(absl::StrCat("veth", i));
  }
}

void AddPort(v1::Hello& hello, int device, int gids) {
  v1::InfinibandPort& port = *hello.mutable_facts()->add_infiniband();
  port.set_device(absl::StrCat("mlx5_", device));
  while (port.gids_size() < gids) port.add_gids();
}

TEST(Admission, Hellos) {
  const auto interface = [](v1::Hello& h) {
    return h.mutable_facts()->mutable_interfaces(0);
  };
  const HelloRow rows[] = {
      {"as it is", true, [](auto&) {}},
      {"no job", false, [](auto& h) { h.clear_job(); }},
      {"run", true, [](auto& h) { h.set_run("0123abcd"); }},
      {"odd run", false, [](auto& h) { h.set_run("a b"); }},
      {"no node", false, [](auto& h) { h.clear_node(); }},
      {"incarnation 0", false, [](auto& h) { h.set_incarnation(0); }},
      {"16 nonces of lives", true,
       [](auto& h) {
         for (int i = 0; i < 16; ++i) h.add_swept_nonces(std::string(16, 'n'));
       }},
      {"17 nonces of lives", false,
       [](auto& h) {
         for (int i = 0; i < 17; ++i) h.add_swept_nonces(std::string(16, 'n'));
       }},
      {"a short nonce", false,
       [](auto& h) { h.add_swept_nonces(std::string(15, 'n')); }},
      {"a long nonce", false,
       [](auto& h) { h.add_swept_nonces(std::string(17, 'n')); }},
      {"no credential", true, [](auto& h) { h.clear_token(); }},
      {"no secret", false, [](auto& h) { h.mutable_token()->clear_secret(); }},
      {"long secret", false,
       [](auto& h) { h.mutable_token()->set_secret(std::string(65, 's')); }},
      {"odd token id", false,
       [](auto& h) { h.mutable_token()->set_id("a\nb"); }},
      {"credential", true, [](auto& h) { h.set_node_credential("c"); }},
      {"empty credential", false, [](auto& h) { h.set_node_credential(""); }},
      {"ranks 0", false, [](auto& h) { h.set_ranks(0); }},
      {"ranks 64", true, [](auto& h) { h.set_ranks(64); }},
      {"ranks 65", false, [](auto& h) { h.set_ranks(65); }},
      {"digest", true,
       [](auto& h) { h.set_command_digest(std::string(32, 'd')); }},
      {"short digest", false, [](auto& h) { h.set_command_digest("d"); }},
      {"no address", true, [&](auto& h) { interface(h)->clear_addresses(); }},
      {"odd address", false,
       [&](auto& h) {
         interface(h)->mutable_addresses(0)->set_address("10.0.0.1/24");
       }},
      {"prefix 33", false,
       [&](auto& h) {
         interface(h)->mutable_addresses(0)->set_prefix_length(33);
       }},
      {"IPv6 prefix 33", true,
       [&](auto& h) {
         interface(h)->mutable_addresses(0)->set_address("fd00::1");
         interface(h)->mutable_addresses(0)->set_prefix_length(33);
       }},
      {"65 addresses", false,
       [&](auto& h) {
         for (int i = 0; i < 64; ++i) {
           interface(h)->add_addresses()->set_address("10.0.0.2");
         }
       }},
      {"interface with a slash", false,
       [&](auto& h) { interface(h)->set_name("eth/0"); }},
      {"interface with a newline", false,
       [&](auto& h) { interface(h)->set_name("eth0\n"); }},
      {"long interface", false,
       [&](auto& h) { interface(h)->set_name(std::string(16, 'e')); }},
      {"256 interfaces", true, [](auto& h) { AddInterfaces(h, 255); }},
      {"257 interfaces", false, [](auto& h) { AddInterfaces(h, 256); }},
      {"an interface twice", false,
       [](auto& h) { h.mutable_facts()->add_interfaces()->set_name("eth0"); }},
      {"facts too large", false,
       [](auto& h) {
         for (int i = 0; i < 300; ++i) {
           h.mutable_facts()->add_gpus()->set_name(std::string(250, 'g'));
         }
       }},
      {"GPU with an escape", false,
       [](auto& h) { h.mutable_facts()->add_gpus()->set_name("\x1b[2J"); }},
      {"all that a node can say", true,
       [](auto& h) { FullFacts(*h.mutable_facts()); }},
      {"odd master", false, [&](auto& h) { interface(h)->set_master("a b"); }},
      {"long master", false,
       [&](auto& h) { interface(h)->set_master(std::string(16, 'b')); }},
      {"port 65536", false, [](auto& h) { Port(h)->set_port(65536); }},
      {"LID 65536", false, [](auto& h) { Port(h)->set_lid(65536); }},
      {"SM LID 65536", false, [](auto& h) { Port(h)->set_sm_lid(65536); }},
      {"MTU 65536", false, [](auto& h) { Port(h)->set_active_mtu(65536); }},
      {"NUMA node -2", false, [](auto& h) { Port(h)->set_numa_node(-2); }},
      {"NUMA node 65536", false,
       [](auto& h) { Port(h)->set_numa_node(65536); }},
      {"driver with an escape", false,
       [](auto& h) { Port(h)->set_driver("\x1b[2J"); }},
      {"long firmware", false,
       [](auto& h) { Port(h)->set_firmware(std::string(257, 'f')); }},
      {"physical state with a newline", false,
       [](auto& h) { Port(h)->set_phys_state("LinkUp\n"); }},
      {"a long reason", true,
       [](auto& h) { Port(h)->set_unusable(std::string(512, 'r')); }},
      {"too long a reason", false,
       [](auto& h) { Port(h)->set_unusable(std::string(513, 'r')); }},
      {"odd net_device", false,
       [](auto& h) { Port(h)->set_net_device("a/b"); }},
      {"257 GIDs", false,
       [](auto& h) {
         auto* port = Port(h);
         for (int i = 0; i < 256; ++i) port->add_gids();
       }},
      {"1024 GIDs of all ports", true,
       [](auto& h) {
         for (int i = 0; i < 4; ++i) AddPort(h, i, 256);
       }},
      {"1025 GIDs of all ports", false,
       [](auto& h) {
         for (int i = 0; i < 5; ++i) AddPort(h, i, 205);
       }},
      {"two ports of a device", true,
       [](auto& h) {
         *h.mutable_facts()->add_infiniband() = *Port(h);
         h.mutable_facts()->mutable_infiniband(1)->set_port(2);
       }},
      {"a port twice", false,
       [](auto& h) { *h.mutable_facts()->add_infiniband() = *Port(h); }},
      {"GID index 65536", false,
       [](auto& h) { Port(h)->mutable_gids(0)->set_index(65536); }},
      {"a GID that is no address", false,
       [](auto& h) { Port(h)->mutable_gids(0)->set_address("10.0.0.1"); }},
      {"odd net_device of a GID", false,
       [](auto& h) { Port(h)->mutable_gids(0)->set_net_device("a\n"); }},
      {"GPU 256", false, [](auto& h) { FullGpu(h)->set_index(256); }},
      {"two GPUs", true,
       [](auto& h) {
         *h.mutable_facts()->add_gpus() = *FullGpu(h);
         h.mutable_facts()->mutable_gpus(1)->set_index(0);
       }},
      {"a GPU twice", false,
       [](auto& h) { *h.mutable_facts()->add_gpus() = *FullGpu(h); }},
      {"1025 words of all GPUs", false,
       [](auto& h) {
         for (uint32_t i = 0; i < 5; ++i) {
           v1::Gpu& gpu = *h.mutable_facts()->add_gpus();
           gpu.set_index(i);
           for (int j = 0; j < 205; ++j) gpu.add_near_hcas("a");
         }
       }},
      {"a GPU's NUMA node", false,
       [](auto& h) { FullGpu(h)->set_numa_node(-2); }},
      {"odd compute capability", false,
       [](auto& h) { FullGpu(h)->set_compute_capability("9\n0"); }},
      {"257 near HCAs", false,
       [](auto& h) {
         auto* gpu = FullGpu(h);
         for (int i = 0; i < 256; ++i) gpu->add_near_hcas("a");
       }},
      {"odd near HCA", false, [](auto& h) { FullGpu(h)->add_near_hcas("\t"); }},
      {"odd throttle reason", false,
       [](auto& h) { FullGpu(h)->add_throttle_reasons("\t"); }},
      {"257 throttle reasons", false,
       [](auto& h) {
         auto* gpu = FullGpu(h);
         for (int i = 0; i < 256; ++i) gpu->add_throttle_reasons("a");
       }},
      {"probe port 1023", false,
       [](auto& h) { h.mutable_facts()->set_probe_port(1023); }},
      {"probe port 65536", false,
       [](auto& h) { h.mutable_facts()->set_probe_port(65536); }},
      {"odd container", false,
       [](auto& h) { h.mutable_facts()->set_container("a\n"); }},
      {"17 folders", false,
       [](auto& h) {
         for (int i = 0; i < 17; ++i) h.mutable_facts()->add_folders();
       }},
      {"odd folder", false,
       [](auto& h) { h.mutable_facts()->add_folders()->set_path("/\xc3"); }},
      {"long folder", false,
       [](auto& h) {
         h.mutable_facts()->add_folders()->set_path(std::string(4097, '/'));
       }},
      {"65 missing facts", false,
       [](auto& h) {
         for (int i = 0; i < 65; ++i) h.mutable_facts()->add_missing();
       }},
      {"odd missing fact", false,
       [](auto& h) { h.mutable_facts()->add_missing()->set_fact("\n"); }},
      {"odd reason", false,
       [](auto& h) { h.mutable_facts()->add_missing()->set_reason("\n"); }},
      {"long remedy", false,
       [](auto& h) {
         h.mutable_facts()->add_missing()->set_remedy(std::string(513, 'r'));
       }},
      {"long NCCL path", false,
       [](auto& h) {
         h.mutable_facts()->mutable_versions()->set_nccl_path(
             std::string(4097, '/'));
       }},
      {"odd advertised address", false,
       [](auto& h) { h.mutable_facts()->set_advertised_address("host"); }},
      {"min over max", false,
       [](auto& h) {
         h.mutable_settings()->set_nodes_min(3);
         h.mutable_settings()->set_nodes_max(2);
       }},
      {"nodes 0", false,
       [](auto& h) { h.mutable_settings()->set_nodes_max(0); }},
      {"nodes 16385", false,
       [](auto& h) { h.mutable_settings()->set_nodes_max(16385); }},
      {"linger of less than nothing", false,
       [](auto& h) {
         h.mutable_settings()->mutable_linger()->set_seconds(-1);
       }},
      {"linger without an end", false,
       [](auto& h) {
         h.mutable_settings()->mutable_linger()->set_seconds(INT64_MAX);
       }},
      {"lease of nothing", false,
       [](auto& h) { h.mutable_settings()->mutable_lease(); }},
      {"negative timeout", false,
       [](auto& h) {
         h.mutable_settings()->mutable_join_timeout()->set_seconds(-1);
       }},
      {"odd nanoseconds", false,
       [](auto& h) {
         h.mutable_settings()->mutable_stop_grace()->set_nanos(2'000'000'000);
       }},
      {"endless timeout", false,
       [](auto& h) {
         h.mutable_settings()->mutable_join_timeout()->set_seconds(INT64_MAX);
       }},
      {"a timeout of a week", true,
       [](auto& h) {
         h.mutable_settings()->mutable_join_timeout()->set_seconds(7 * 86400);
       }},
      {"a timeout of more than a week", false,
       [](auto& h) {
         h.mutable_settings()->mutable_join_timeout()->set_seconds(7 * 86400 +
                                                                   1);
       }},
      {"a linger of more than a week", false,
       [](auto& h) {
         h.mutable_settings()->mutable_linger()->set_seconds(7 * 86400 + 1);
       }},
      {"no limit for a start", true,
       [](auto& h) { h.mutable_settings()->mutable_start_timeout(); }},
      {"a negative limit for a start", false,
       [](auto& h) {
         h.mutable_settings()->mutable_start_timeout()->set_seconds(-1);
       }},
      {"more than a week for a start", false,
       [](auto& h) {
         h.mutable_settings()->mutable_start_timeout()->set_seconds(7 * 86400 +
                                                                    1);
       }},
      {"a lease of an hour", true,
       [](auto& h) {
         h.mutable_settings()->mutable_lease()->set_seconds(3600);
       }},
      {"a lease of more than an hour", false,
       [](auto& h) {
         h.mutable_settings()->mutable_lease()->set_seconds(3601);
       }},
      {"a reattach grace of more than an hour", false,
       [](auto& h) {
         h.mutable_settings()->mutable_reattach_grace()->set_seconds(3601);
       }},
      {"last call of nothing", true,
       [](auto& h) { h.mutable_settings()->mutable_last_call(); }},
      {"unknown grow", false,
       [](auto&
              h) { h.mutable_settings()->set_grow(static_cast<v1::Grow>(99)); }},
      {"requeue code 1", true,
       [](auto& h) { h.mutable_settings()->set_requeue_exit_code(1); }},
      {"requeue code 0", false,
       [](auto& h) { h.mutable_settings()->set_requeue_exit_code(0); }},
      {"requeue code 256", false,
       [](auto& h) { h.mutable_settings()->set_requeue_exit_code(256); }},
      {"odd expected node", false,
       [](auto& h) { h.mutable_settings()->add_expected_nodes("a b"); }},
      {"generation seen", true, [](auto& h) { h.set_generation_seen(1000); }},
      {"generation beyond all", false,
       [](auto& h) { h.set_generation_seen(UINT64_MAX); }},
      {"a proof", true,
       [](auto& h) { h.mutable_held()->set_proof(std::string(32, 'p')); }},
      {"a proof of 65 bytes", false,
       [](auto& h) { h.mutable_held()->set_proof(std::string(65, 'p')); }},
  };
  for (const HelloRow& row : rows) {
    v1::Hello hello = GoodHello();
    row.change(hello);
    const absl::Status status = AdmitHello(hello);
    EXPECT_EQ(status.ok(), row.fits) << row.what << ": " << status;
  }
}

TEST(Admission, NoRefusalShowsASecret) {
  v1::Hello hello = GoodHello();
  hello.mutable_token()->set_secret(std::string(70, 'S'));
  EXPECT_EQ(AdmitHello(hello).ToString().find("SS"), std::string::npos);
}

struct MessageRow {
  const char* what;
  bool fits;
  std::function<void(v1::AgentMessage&)> fill;
};

TEST(Admission, Messages) {
  const MessageRow rows[] = {
      {"nothing", false, [](auto&) {}},
      {"another hello", false,
       [](auto& m) { *m.mutable_hello() = GoodHello(); }},
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
      {"pace that is no number", false,
       [](auto& m) {
         m.mutable_heartbeat()->mutable_pace()->set_loss(std::nan(""));
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

TEST(Printable, ReplacesWhatATerminalWouldObey) {
  const struct {
    std::string text;
    std::string line;
    std::string lines;
  } rows[] = {
      {"plain", "plain", "plain"},
      {"a\nb\tc\rd", "a?b?c?d", "a\nb\tc?d"},
      {"\x1b[2J", "?[2J", "?[2J"},
      {"\x7f", "?", "?"},
      {"gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f"},
      {"\xc2\x9b"
       "1m",
       "?1m", "?1m"},                        // A C1 control.
      {"\xff\xfe", "??", "??"},              // No UTF-8.
      {"\xc0\xaf", "??", "??"},              // Overlong.
      {"\xed\xa0\x80", "???", "???"},        // A surrogate.
      {"\xf4\x90\x80\x80", "????", "????"},  // Beyond Unicode.
      {"\xe2\x82", "??", "??"},              // Cut.
      {"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80"},
      {std::string("a\0b", 3), "a?b", "a?b"},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(Printable(row.text, 100), row.line);
    EXPECT_EQ(Printable(row.text, 100, true), row.lines);
  }
}

TEST(Printable, ReplacesWhatMakesATextReadOtherwise) {
  const struct {
    uint32_t first;
    uint32_t last;
  } ranges[] = {
      {0x80, 0x9F},      // C1 controls.
      {0x61C, 0x61C},    // The Arabic letter mark.
      {0x200B, 0x200F},  // Of no width, and direction marks.
      {0x2028, 0x202E},  // Line separators, embeddings and overrides.
      {0x2060, 0x2069},  // The word joiner, and isolates.
      {0xFEFF, 0xFEFF},  // The byte order mark.
  };
  const auto utf8 = [](uint32_t code) {
    if (code < 0x800) {
      return std::string{static_cast<char>(0xC0 | code >> 6),
                         static_cast<char>(0x80 | (code & 0x3F))};
    }
    return std::string{static_cast<char>(0xE0 | code >> 12),
                       static_cast<char>(0x80 | (code >> 6 & 0x3F)),
                       static_cast<char>(0x80 | (code & 0x3F))};
  };
  const auto hidden = [&](uint32_t code) {
    for (const auto& range : ranges) {
      if (range.first <= code && code <= range.last) return true;
    }
    return false;
  };
  for (const auto& range : ranges) {
    // With those before and after it, where they are others.
    for (uint32_t code = range.first - 1; code <= range.last + 1; ++code) {
      if (code < 0x80 || code == 0x206A) continue;
      const std::string text = "a" + utf8(code) + "b";
      const std::string expected = hidden(code) ? "a?b" : text;
      EXPECT_EQ(Printable(text, 100), expected) << std::hex << code;
      EXPECT_EQ(Printable(text, 100, true), expected) << std::hex << code;
    }
  }
}

TEST(Printable, CutsBetweenCharacters) {
  EXPECT_EQ(Printable("abc", 2), "ab");
  EXPECT_EQ(Printable("a\xc3\xbc", 2), "a");
  EXPECT_EQ(Printable("a", 0), "");
}

TEST(Clean, KeepsTheEndOfAStderrTail) {
  v1::AgentMessage message;
  message.mutable_rank_stalled()->set_text(std::string(10'000, '\x1b'));
  CleanMessage(message);
  EXPECT_EQ(message.rank_stalled().text(),
            std::string(Limits::stall_text_bytes_max, '?'));
  message.mutable_rank_exited()->set_stderr_tail(std::string(10'000, 'x') +
                                                 "\nlast\x1b line");
  CleanMessage(message);
  const std::string& tail = message.rank_exited().stderr_tail();
  EXPECT_EQ(tail.size(), Limits::stderr_tail_bytes);
  EXPECT_EQ(tail.substr(tail.size() - 11), "\nlast? line");
}

// A field that no version has, of this many bytes.
void AddUnknown(google::protobuf::Message& message, size_t bytes) {
  message.GetReflection()
      ->MutableUnknownFields(&message)
      ->AddLengthDelimited(19'999)
      ->assign(bytes, 'u');
}

TEST(Clean, WhatIsNotKnownIsNotKept) {
  constexpr size_t kMiB = 1 << 20;
  v1::Hello hello = GoodHello();
  AddUnknown(hello, kMiB);
  AddUnknown(*hello.mutable_facts(), kMiB);
  AddUnknown(*hello.mutable_facts()->mutable_interfaces(0), kMiB);
  EXPECT_GT(hello.SpaceUsedLong(), 3 * kMiB);
  CleanHello(hello);
  EXPECT_LT(hello.SpaceUsedLong(), kMiB);
  EXPECT_TRUE(AdmitHello(hello).ok());

  v1::AgentMessage message;
  message.mutable_rank_stalled()->set_generation(1);
  AddUnknown(message, kMiB);
  AddUnknown(*message.mutable_rank_stalled(), kMiB);
  CleanMessage(message);
  EXPECT_LT(message.SpaceUsedLong(), kMiB);
  EXPECT_EQ(message.rank_stalled().generation(), 1u);
}

TEST(Clean, CleansReasons) {
  v1::AgentMessage message;
  message.mutable_refused()->set_reason("no\nroom");
  CleanMessage(message);
  EXPECT_EQ(message.refused().reason(), "no?room");
}

}  // namespace
}  // namespace rollcall

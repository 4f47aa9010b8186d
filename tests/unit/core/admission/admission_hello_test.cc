#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/core/admission/admission.h"
#include "tests/unit/core/admission/good_hello.h"

namespace rollcall {
namespace {

// Each row changes one thing in a message that is admitted without the change.
struct HelloRow {
  const char* what;
  bool fits;
  std::function<void(v1::Hello&)> change;
};

v1::CommunicationVariable* AddVariable(v1::Facts& facts,
                                       const std::string& name) {
  v1::CommunicationVariable* variable =
      facts.mutable_communication()->add_variables();
  variable->set_name(name);
  return variable;
}

v1::SameFile* AddFile(v1::Hello& hello, const std::string& path) {
  v1::SameFile* file = hello.mutable_facts()->add_same_files();
  file->set_path(path);
  return file;
}

// Fills each of the newer parts of the facts as a node would.
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
  AddVariable(facts, "FI_PROVIDER")->set_value("efa");
  AddVariable(facts, "NCCL_ALGO")->set_digest("abcd");
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

// Adds interfaces besides eth0.
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
      {"64 variables", true,
       [](auto& h) {
         for (int i = 10; i < 74; ++i) {
           AddVariable(*h.mutable_facts(), absl::StrCat("UCX_", i))
               ->set_value(std::string(128, 'v'));
         }
       }},
      {"65 variables", false,
       [](auto& h) {
         for (int i = 10; i < 75; ++i) {
           AddVariable(*h.mutable_facts(), absl::StrCat("UCX_", i))
               ->set_value("v");
         }
       }},
      {"a variable of another kind", false,
       [](auto& h) {
         AddVariable(*h.mutable_facts(), "LD_PRELOAD")->set_value("v");
       }},
      {"a variable with a long name", false,
       [](auto& h) {
         AddVariable(*h.mutable_facts(), "UCX_" + std::string(61, 'A'))
             ->set_value("v");
       }},
      {"a variable twice", false,
       [](auto& h) {
         AddVariable(*h.mutable_facts(), "UCX_TLS")->set_value("v");
         AddVariable(*h.mutable_facts(), "UCX_TLS")->set_value("w");
       }},
      {"variables not sorted", false,
       [](auto& h) {
         AddVariable(*h.mutable_facts(), "UCX_TLS")->set_value("v");
         AddVariable(*h.mutable_facts(), "NCCL_ALGO")->set_value("w");
       }},
      {"a variable without a value", false,
       [](auto& h) { AddVariable(*h.mutable_facts(), "UCX_TLS"); }},
      {"a variable with a long value", false,
       [](auto& h) {
         AddVariable(*h.mutable_facts(), "UCX_TLS")
             ->set_value(std::string(129, 'v'));
       }},
      {"a variable with an odd value", false,
       [](auto& h) {
         AddVariable(*h.mutable_facts(), "UCX_TLS")->set_value("\x1b[2J");
       }},
      {"a variable with a long digest", false,
       [](auto& h) {
         AddVariable(*h.mutable_facts(), "UCX_TLS")->set_digest("abcde");
       }},
      {"8 files", true,
       [](auto& h) {
         for (int i = 0; i < 8; ++i) AddFile(h, absl::StrCat("/", i));
       }},
      {"9 files", false,
       [](auto& h) {
         for (int i = 0; i < 9; ++i) AddFile(h, absl::StrCat("/", i));
       }},
      {"a file twice", false,
       [](auto& h) {
         AddFile(h, "/a");
         AddFile(h, "/a");
       }},
      {"a relative file", false, [](auto& h) { AddFile(h, "a"); }},
      {"a file without a path", false, [](auto& h) { AddFile(h, ""); }},
      {"a file with a long path", false,
       [](auto& h) { AddFile(h, std::string(1025, '/')); }},
      {"a file with a short digest", false,
       [](auto& h) { AddFile(h, "/a")->set_sha256("short"); }},
      {"a file with an odd error", false,
       [](auto& h) { AddFile(h, "/a")->set_error("\n"); }},
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
      {"more than a week for a set-up", false,
       [](auto& h) {
         h.mutable_settings()->mutable_setup_timeout()->set_seconds(7 * 86400 +
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
       [](auto&
              h) { h.mutable_resume_state()->set_proof(std::string(32, 'p')); }},
      {"a proof of 65 bytes", false,
       [](auto&
              h) { h.mutable_resume_state()->set_proof(std::string(65, 'p')); }},
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

}  // namespace
}  // namespace rollcall

// RealEtcd: an etcd for one test, on free ports, which ends with the test.
#ifndef ROLLCALL_TESTS_UNIT_JOURNAL_REAL_ETCD_H_
#define ROLLCALL_TESTS_UNIT_JOURNAL_REAL_ETCD_H_

#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace rollcall {

class RealEtcd {
 public:
  // PEM texts. Empty CA: no TLS. etcd presents the certificate, and requires a
  // client certificate of the CA.
  struct Tls {
    std::string ca;
    std::string certificate;
    std::string key;
  };

  // Returns null if there is no etcd here, or if it could not be started.
  static std::unique_ptr<RealEtcd> Start() { return Start(Tls()); }
  static std::unique_ptr<RealEtcd> Start(const Tls& tls) {
    if (access(kProgram, X_OK) != 0) return nullptr;
    // Another process may take the ports before etcd binds them.
    for (int i = 0; i < 5; ++i) {
      std::unique_ptr<RealEtcd> etcd(new RealEtcd(tls));
      if (etcd->Serves()) return etcd;
    }
    return nullptr;
  }
  static constexpr char kProgram[] = "/usr/bin/etcd";

  ~RealEtcd() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    std::filesystem::remove_all(folder_);
  }

  const std::string& endpoint() const { return endpoint_; }
  void Signal(int number) { kill(pid_, number); }
  // Connects as a client that has etcd's own certificate.
  std::shared_ptr<grpc::Channel> Channel() const {
    if (tls_.ca.empty()) {
      return grpc::CreateChannel(endpoint_, grpc::InsecureChannelCredentials());
    }
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = tls_.ca;
    options.pem_cert_chain = tls_.certificate;
    options.pem_private_key = tls_.key;
    return grpc::CreateChannel(endpoint_, grpc::SslCredentials(options));
  }

 private:
  explicit RealEtcd(const Tls& tls) : tls_(tls) {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "rollcall_etcd_XXXXXX")
            .string();
    if (mkdtemp(pattern.data()) != nullptr) folder_ = pattern;
    endpoint_ = absl::StrCat("127.0.0.1:", FreePort());
    const bool closed = !tls_.ca.empty();
    const std::string clients =
        absl::StrCat(closed ? "https://" : "http://", endpoint_);
    const std::string peers = absl::StrCat("http://127.0.0.1:", FreePort());
    std::vector<std::string> arguments = {kProgram,
                                          "--name",
                                          "one",
                                          "--data-dir",
                                          folder_ + "/data",
                                          "--listen-client-urls",
                                          clients,
                                          "--advertise-client-urls",
                                          clients,
                                          "--listen-peer-urls",
                                          peers,
                                          "--initial-advertise-peer-urls",
                                          peers,
                                          "--initial-cluster",
                                          "one=" + peers,
                                          "--logger",
                                          "zap",
                                          "--log-outputs",
                                          folder_ + "/log"};
    if (closed) {
      for (const auto& [flag, text] :
           {std::pair("--trusted-ca-file", tls_.ca),
            std::pair("--cert-file", tls_.certificate),
            std::pair("--key-file", tls_.key)}) {
        const std::string path = absl::StrCat(folder_, "/", flag);
        std::ofstream(path) << text;
        arguments.push_back(flag);
        arguments.push_back(path);
      }
      arguments.push_back("--client-cert-auth");
    }
    std::vector<char*> argv;
    for (const std::string& a : arguments) {
      argv.push_back(const_cast<char*>(a.c_str()));
    }
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execv(kProgram, argv.data());
    _exit(127);
  }

  bool Serves() const {
    const auto channel = Channel();
    // An etcd whose port was taken has ended and never connects.
    for (int i = 0; i < 60; ++i) {
      if (channel->WaitForConnected(std::chrono::system_clock::now() +
                                    std::chrono::milliseconds(500))) {
        return true;
      }
      siginfo_t ended = {};
      const int options = WEXITED | WNOHANG | WNOWAIT;
      if (waitid(P_PID, static_cast<id_t>(pid_), &ended, options) != 0 ||
          ended.si_pid != 0) {
        return false;
      }
    }
    return false;
  }

  static int FreePort() {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    bind(fd, reinterpret_cast<sockaddr*>(&address), size);
    getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
    close(fd);
    return ntohs(address.sin_port);
  }

  const Tls tls_;
  std::string folder_;
  std::string endpoint_;
  pid_t pid_ = -1;
};

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_UNIT_JOURNAL_REAL_ETCD_H_

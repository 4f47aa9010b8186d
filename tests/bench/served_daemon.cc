// The daemons that crowds attend: the real one, and a bare gRPC server that
// does the least a roll call could.
#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <memory>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/server/mutex.h"
#include "daemon/server/server.h"
#include "rollcall/v1/membership.grpc.pb.h"
#include "tests/bench/crowd.h"

extern char** environ;

namespace rollcall::bench {
namespace {

// Welcomes whoever says Hello; once `nodes` are in, all get the same commit of
// 16 bytes a node.
class BareService : public v1::Membership::CallbackService {
 public:
  explicit BareService(int nodes) : nodes_(nodes) {
    commit_.mutable_commit()->set_generation(1);
    commit_.mutable_commit()->set_seal(std::string(16 * nodes, 's'));
  }

  grpc::ServerBidiReactor<v1::AgentMessage, v1::DaemonMessage>* Attend(
      grpc::CallbackServerContext*) override {
    return new Stream(this);
  }

 private:
  class Stream
      : public grpc::ServerBidiReactor<v1::AgentMessage, v1::DaemonMessage> {
   public:
    explicit Stream(BareService* service) : service_(service) {
      StartRead(&incoming_);
    }
    void OnReadDone(bool ok) override {
      if (!ok) {
        service_->Leave(this);
        Finish(grpc::Status::OK);
        return;
      }
      if (incoming_.has_hello()) {
        v1::DaemonMessage welcome;
        welcome.mutable_welcome()->set_run("bare");
        Send(welcome);
        service_->Enter(this);
      }
      StartRead(&incoming_);
    }
    void OnWriteDone(bool ok) override {
      MutexLock lock(mutex_);
      outgoing_.pop_front();
      if (ok && !outgoing_.empty()) StartWrite(&outgoing_.front());
    }
    void OnDone() override { delete this; }
    void Send(const v1::DaemonMessage& message) {
      MutexLock lock(mutex_);
      outgoing_.push_back(message);
      if (outgoing_.size() == 1) StartWrite(&outgoing_.front());
    }

   private:
    BareService* const service_;
    v1::AgentMessage incoming_;
    Mutex mutex_;
    std::deque<v1::DaemonMessage> outgoing_ ABSL_GUARDED_BY(mutex_);
  };

  void Enter(Stream* stream) {
    MutexLock lock(mutex_);
    streams_.insert(stream);
    if (static_cast<int>(streams_.size()) < nodes_) return;
    for (Stream* each : streams_) each->Send(commit_);
  }
  void Leave(Stream* stream) {
    MutexLock lock(mutex_);
    streams_.erase(stream);
  }

  const int nodes_;
  v1::DaemonMessage commit_;
  Mutex mutex_;
  std::set<Stream*> streams_ ABSL_GUARDED_BY(mutex_);
};

// Says where, and waits for the end of stdin, which is the parent's.
void ServeOn(int port) {
  std::printf("%d\n", port);
  std::fflush(stdout);
  char byte;
  while (read(0, &byte, 1) > 0) {
  }
}

int ServeBare(int nodes) {
  BareService service(nodes);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port);
  builder.RegisterService(&service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return 1;
  ServeOn(port);
  server->Shutdown(std::chrono::system_clock::now());
  return 0;
}

int ServeRollcall(int nodes) {
  ServerOptions options;
  options.listen = "127.0.0.1:0";
  options.token = BenchToken();
  options.job = kJob;
  options.settings.set_nodes_min(nodes);
  options.settings.set_nodes_max(nodes);
  // The crowd sends no heartbeats.
  options.limits.lease = absl::Minutes(10);
  options.limits.prepare_timeout = absl::Minutes(10);
  auto server = Server::Start(std::move(options));
  if (!server.ok()) {
    std::fprintf(stderr, "bench: %s\n", server.status().ToString().c_str());
    return 1;
  }
  ServeOn((*server)->port());
  return 0;
}

}  // namespace

const char kJob[] = "bench";

v1::JoinToken BenchToken() {
  v1::JoinToken token;
  token.set_id("bench0");
  token.set_secret(std::string(16, 'b'));
  return token;
}

int Serve(const std::string& kind, int nodes) {
  RaiseFileLimit();
  return kind == "bare" ? ServeBare(nodes) : ServeRollcall(nodes);
}

ServedDaemon::ServedDaemon(const std::string& kind, int nodes) {
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) std::exit(1);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in[0], 0);
  posix_spawn_file_actions_adddup2(&actions, out[1], 1);
  // Its log has a line for every node that attends.
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  std::string count = absl::StrCat(nodes);
  std::string serve = "--serve", of_kind = kind, self = "bench";
  char* argv[] = {self.data(), serve.data(), of_kind.data(), count.data(),
                  nullptr};
  const int failed =
      posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(in[0]);
  close(out[1]);
  lifeline_ = in[1];
  FILE* said = fdopen(out[0], "r");
  if (failed != 0 || std::fscanf(said, "%d", &port_) != 1) {
    std::fprintf(stderr, "bench: the %s daemon did not come up\n",
                 kind.c_str());
    std::exit(1);
  }
  std::fclose(said);
}

ServedDaemon::~ServedDaemon() {
  close(lifeline_);
  waitpid(pid_, nullptr, 0);
}

int64_t ServedDaemon::resident_kib() const {
  std::ifstream status(absl::StrCat("/proc/", pid_, "/status"));
  for (std::string word; status >> word;) {
    int64_t kib;
    if (word == "VmRSS:" && status >> kib) return kib;
  }
  return 0;
}

}  // namespace rollcall::bench

#include "client/agent/preparation.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <optional>
#include <random>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/agent/hosts/hosts_file.h"
#include "client/agent/nccl/nccl_mint.h"
#include "client/agent/node_files/master_port.h"
#include "client/agent/node_files/rank_environment.h"
#include "daemon/base/check.h"
#include "daemon/base/mutex.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

constexpr absl::Duration kMintTimeout = absl::Seconds(10);
// Shorter than prepare_timeout: if another process holds the lock, the node
// gets a warning but does not lose its seat.
constexpr absl::Duration kHostsLockTimeout = absl::Seconds(5);
// The time for all names together.
constexpr absl::Duration kResolverPatience = absl::Milliseconds(500);
// Limits the set of warnings that were already given and are not repeated.
constexpr size_t kSaidMax = 256;

EditFileOptions HostsOptions() {
  EditFileOptions options;
  options.lock_timeout = kHostsLockTimeout;
  return options;
}

// A counter that poll(2) can wait for.
class Wake {
 public:
  Wake() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~Wake() {
    if (fd_ >= 0) close(fd_);
  }
  Wake(const Wake&) = delete;
  Wake& operator=(const Wake&) = delete;
  void Set() {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = write(fd_, &one, sizeof(one));
  }
  void Clear() {
    uint64_t count;
    [[maybe_unused]] const ssize_t n = read(fd_, &count, sizeof(count));
  }
  // -1 if eventfd failed: then waits end only at their own deadline.
  int fd() const { return fd_; }

 private:
  const int fd_;
};

uint32_t NcclIdCount(const v1::World& world) {
  constexpr uint32_t kRanks = Limits::ranks_per_nccl_id;
  return (world.world_size() + kRanks - 1) / kRanks;
}

}  // namespace

// Runs the thread, which carries out the latest request. The port and the child
// of a generation stay here until Undo or the next request.
class Preparation::Worker {
 public:
  Worker(PreparationOptions options, Done done)
      : options_(std::move(options)),
        done_(std::move(done)),
        owner_(ThisOwner(options_.node)),
        resolver_(options_.resolver != nullptr
                      ? options_.resolver
                      : std::make_shared<SystemResolver>()) {
    for (const std::string& name : options_.hosts_names) {
      listed_.insert(absl::AsciiStrToLower(name));
    }
    thread_ = std::thread([this] { Run(); });
  }

  ~Worker() { Stop(); }

  void Prepare(const v1::World& world, uint32_t node_rank,
               const NetworkOptions& network) {
    CHECK(node_rank < static_cast<uint32_t>(world.members_size()));
    MutexLock lock(mutex_);
    wanted_ = Wanted{world, node_rank, network};
    generation_ = world.generation();
    port_.reset();
    Signal();
  }

  void Undo(uint64_t generation) {
    MutexLock lock(mutex_);
    if (generation_ != generation) return;
    generation_ = 0;
    wanted_.reset();
    port_.reset();
    Signal();
  }

  void ReleasePort(uint64_t generation) {
    MutexLock lock(mutex_);
    if (generation_ == generation) port_.reset();
  }

  std::vector<std::string> RestoreHosts() {
    Stop();
    std::vector<std::string> warnings;
    if (!written_.has_value()) return warnings;
    const absl::Status status =
        HostsFile(options_.hosts_file, HostsOptions())
            .Remove(written_->job, written_->run, owner_, &warnings);
    // If every write failed, the block may not exist: no warning.
    if (!status.ok() && written_->whole) {
      warnings.push_back(absl::StrCat(
          "hosts file not restored: ", std::string(status.message()),
          "; take the lines of job ", written_->job, " out of ",
          options_.hosts_file));
    }
    written_.reset();
    return warnings;
  }

 private:
  struct Wanted {
    v1::World world;
    uint32_t node_rank;
    NetworkOptions network;
  };
  struct Written {
    std::string job;
    std::string run;
    bool whole = false;  // At least one write has succeeded.
  };
  using Outcome = std::variant<PreparationDone, PreparationFailed>;

  void Signal() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    superseded_.Set();
    changed_.NotifyAll();
    ++revision_;
  }

  void Stop() {
    {
      MutexLock lock(mutex_);
      stopping_ = true;
      generation_ = 0;
      wanted_.reset();
      port_.reset();
      Signal();
    }
    if (thread_.joinable()) thread_.join();
  }

  void Run() {
    uint64_t seen = 0;
    while (true) {
      std::optional<Wanted> wanted;
      {
        MutexLock lock(mutex_);
        while (revision_ == seen && !stopping_) changed_.Wait(mutex_);
        seen = revision_;
        superseded_.Clear();
        wanted = std::exchange(wanted_, std::nullopt);
        if (stopping_) break;
      }
      // The previous generation's child ends before the next one starts.
      mint_.reset();
      if (wanted.has_value())
        Answer(wanted->world.generation(), Carry(*wanted));
    }
    mint_.reset();
  }

  // Reports the outcome, unless the generation was undone or superseded.
  void Answer(uint64_t generation, Outcome outcome) {
    {
      MutexLock lock(mutex_);
      if (generation_ != generation) return;
    }
    done_(std::move(outcome));
  }

  // The child mints while the port is bound and the hosts file is written.
  Outcome Carry(const Wanted& wanted) {
    const uint64_t generation = wanted.world.generation();
    PreparationDone done{generation};
    const bool is_first = wanted.node_rank == 0;
    if (is_first) {
      StartMint(wanted, done);
      if (absl::Status status = HoldPort(generation, done); !status.ok()) {
        return PreparationFailed{generation, std::string(status.message())};
      }
    }
    WriteHosts(wanted, done);
    for (std::string& warning :
         SettingsFor(wanted.world, wanted.node_rank, options_.environment,
                     wanted.network)
             .warnings) {
      done.warnings.push_back(std::move(warning));
    }
    if (mint_ != nullptr) AwaitMint(done);
    return done;
  }

  void StartMint(const Wanted& wanted, PreparationDone& done) {
    NcclMint::Options options;
    options.self = options_.self;
    options.user = options_.user;
    options.environment = CommandEnvironment(
        options_.environment, wanted.network, wanted.world, wanted.node_rank);
    options.library =
        FindNcclLibrary(options_.nccl_library, options.environment);
    options.count = NcclIdCount(wanted.world);
    auto mint = NcclMint::Start(options);
    if (mint.ok()) {
      mint_ = *std::move(mint);
    } else {
      done.nccl_absent = std::string(mint.status().message());
    }
  }

  void AwaitMint(PreparationDone& done) {
    auto minted = mint_->Await(kMintTimeout, superseded_.fd());
    if (minted.ok()) {
      done.nccl_ids = std::move(minted->ids);
      done.nccl_version = minted->version;
      return;
    }
    done.nccl_absent = std::string(minted.status().message());
    mint_.reset();
  }

  absl::Status HoldPort(uint64_t generation, PreparationDone& done) {
    auto port = MasterPort::Hold(MasterPortRanges(ReadEphemeralRange()),
                                 std::random_device{}());
    if (!port.ok()) return port.status();
    done.master_port = port->port();
    MutexLock lock(mutex_);
    if (generation_ == generation) port_ = *std::move(port);
    return absl::OkStatus();
  }

  void WriteHosts(const Wanted& wanted, PreparationDone& done) {
    if (options_.hosts_file.empty()) return;
    // A failed write may still have left the block, so RestoreHosts removes it.
    const bool before = written_.has_value() && written_->whole;
    written_ = Written{wanted.world.job(), wanted.world.run(), before};
    HostsFile file(options_.hosts_file, HostsOptions());
    std::vector<std::string> warnings;
    const absl::Status status =
        file.Write(wanted.world, wanted.node_rank, AskNames(wanted.world, file),
                   owner_, &warnings);
    written_->whole |= status.ok();
    for (std::string& warning : warnings) {
      if (said_.size() >= kSaidMax) said_.clear();
      if (said_.insert(warning).second) {
        done.warnings.push_back(std::move(warning));
      }
    }
    if (!status.ok()) {
      done.warnings.push_back(absl::StrCat(
          "hosts file not written: ", std::string(status.message()),
          "; names of peers may not resolve here, addresses work; "
          "--hosts-file PATH writes elsewhere, --no-hosts not at all"));
    }
  }

  HostsNames AskNames(const v1::World& world, const HostsFile& file) {
    HostsNames names;
    names.listed = listed_;
    const std::set<std::string> in_block = file.NamesOf(world.job());
    std::vector<NameQuestion> questions;
    for (std::string& name : NamesToAsk(world, listed_)) {
      const bool own = in_block.contains(name);
      questions.push_back({std::move(name), own});
    }
    names.answers = resolver_->Ask(questions, kResolverPatience);
    return names;
  }

  const PreparationOptions options_;
  const Done done_;
  const HostsOwner owner_;
  // The names of `hosts_names` in lower case.
  std::set<std::string> listed_;

  // Used only by the thread until it is joined.
  const std::shared_ptr<HostsResolver> resolver_;
  std::set<std::string> said_;
  std::unique_ptr<NcclMint> mint_;
  std::optional<Written> written_;

  Mutex mutex_;
  CondVar changed_;
  Wake superseded_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // Grows with each request, so that a request that arrives during another one
  // is not missed.
  uint64_t revision_ ABSL_GUARDED_BY(mutex_) = 0;
  // The latest generation that was requested and not undone; 0: none.
  uint64_t generation_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<Wanted> wanted_ ABSL_GUARDED_BY(mutex_);
  std::optional<MasterPort> port_ ABSL_GUARDED_BY(mutex_);

  // Declared last: the thread uses all of the above.
  std::thread thread_;
};

Preparation::Preparation(PreparationOptions options, Done done)
    : worker_(std::make_unique<Worker>(std::move(options), std::move(done))) {}

Preparation::~Preparation() = default;

void Preparation::Prepare(const v1::World& world, uint32_t node_rank,
                          const NetworkOptions& network) {
  worker_->Prepare(world, node_rank, network);
}

void Preparation::Undo(uint64_t generation) { worker_->Undo(generation); }

void Preparation::ReleasePort(uint64_t generation) {
  worker_->ReleasePort(generation);
}

std::vector<std::string> Preparation::RestoreHosts() {
  return worker_->RestoreHosts();
}

}  // namespace rollcall

#include "client/agent/session.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "client/agent/core/agent/agent.h"
#include "client/agent/fact_watcher.h"
#include "client/agent/group_checks.h"
#include "client/agent/link/agent_incarnations.h"
#include "client/agent/link/daemon_link.h"
#include "client/agent/node_checks.h"
#include "client/agent/node_files/rank_environment.h"
#include "client/agent/node_files/rank_folders.h"
#include "client/agent/node_files/run_folder.h"
#include "client/agent/preparation.h"
#include "client/agent/probe/prober.h"
#include "client/agent/processes/process_tree/fork_exec.h"
#include "client/agent/processes/processes.h"
#include "client/agent/processes/signal_thread.h"
#include "client/agent/processes/stack_dump.h"
#include "client/agent/rank_links.h"
#include "client/agent/rank_service/rank_service.h"
#include "client/agent/session_parts.h"
#include "client/agent/setup_command.h"
#include "client/agent/told_facts.h"
#include "daemon/base/clock.h"
#include "daemon/base/grpc/poller_keep_alive.h"
#include "daemon/base/inbox.h"
#include "daemon/core/exit_codes.h"

namespace rollcall {
namespace {

// How long the last messages to the daemon may take.
constexpr absl::Duration kClosePatience = absl::Milliseconds(500);

class Session {
 public:
  Session(AgentOptions options, std::unique_ptr<RunFolder> folder);
  AgentResult Run();

 private:
  void Step(const AgentEvent& event);
  void Carry(const std::vector<AgentAction>& actions);
  void Do(const Dial&);
  void Do(const Say& say);
  void Do(const Prepare& prepare);
  void Do(const Undo& undo);
  void Do(const StartRanks& start);
  void Do(const AbortRanks& abort);
  void Do(const StopRanks& stop);
  void Do(const PassSignal& pass);
  void Do(const TellNotice& tell);
  void Do(const LookAtRank& look);
  void Do(const RunChecks& run);
  void Do(const RunProbe& run);
  void Do(const RunGroupCheck& run);
  void Do(const AnswerExchange& answer);
  void Do(const AnswerStore& answer);
  void Do(const FailRequests& fail);
  void Do(const RunSetup& run);
  void Do(const StopSetupCommand& stop);
  void Do(const Report& report);
  void Do(const Exit& exit);

  void TakeJobVariables(const v1::JobSettings& settings);
  void TellNewFacts();
  void OpenToAttached(const StartRanks& start);
  // Reports the fresh ranks, which have no process, as ended.
  void CannotStart(const StartRanks& start, const absl::Status& why);
  void SampleProgress();
  void WriteNotice(const std::vector<RankIncarnation>& ranks, const char* kind,
                   absl::Duration deadline);
  v1::Hello FirstHello() const;
  void TakeSameFiles(const std::vector<v1::SameFile>& files);
  void Post(AgentEvent event) { inbox_.PostAlways({0, std::move(event)}); }
  bool PostOfService(AgentEvent event);
  RankService* rank_service() const { return rank_links_.service(); }

  // `network.facts` are the node's latest facts.
  AgentOptions options_;
  ToldFacts told_facts_{options_.network.facts};
  // Only its `environment`, as the daemon sent it last.
  v1::JobSettings variables_;
  AgentIncarnations incarnations_;
  // Declared before everything that posts to the inbox, so it outlives them.
  Inbox<LinkEvent> inbox_{Limits::inbox_events_max};
  std::unique_ptr<RunFolder> folder_;
  RankFolders rank_folders_;
  // Null: then no address of this node is proven.
  const std::unique_ptr<Prober> prober_;
  const std::unique_ptr<GroupChecks> group_checks_;
  Agent agent_;
  SignalThread signals_{[this](AgentEvent e) { Post(std::move(e)); }};
  Preparation preparation_;
  SetupCommand setup_command_;
  Processes processes_;
  StackDumps stack_dumps_;
  NodeChecks checks_;
  FactWatcher fact_watcher_;
  RankLinks rank_links_{options_, *folder_, [this](AgentEvent e) {
                          return PostOfService(std::move(e));
                        }};
  const PollerKeepAlive poller_keep_alive_;
  DaemonLink link_;

  std::optional<AgentResult> result_;
};

Session::Session(AgentOptions options, std::unique_ptr<RunFolder> folder)
    : options_(std::move(options)),
      incarnations_(options_.hello.job(), options_.hello.node()),
      folder_(std::move(folder)),
      rank_folders_(*folder_, options_.user()),
      prober_(
          StartProber(options_, [this](AgentEvent e) { Post(std::move(e)); })),
      group_checks_(MakeGroupChecks(
          options_, [this](AgentEvent e) { Post(std::move(e)); })),
      agent_(FirstHello(), options_.join_timeout, options_.limits,
             MonotonicNow(), options_.preempt_signal, options_.attach,
             options_.setup_retries),
      preparation_(ForPreparation(options_),
                   [this](std::variant<PreparationDone, PreparationFailed> r) {
                     std::visit([this](auto e) { Post(std::move(e)); },
                                std::move(r));
                   }),
      setup_command_(options_.setup, std::move(options_.later_same_files),
                     [this](AgentEvent e) { Post(std::move(e)); }),
      processes_(ForProcesses(options_, *folder_),
                 {[this](RankEnded e) {
                    if (!setup_command_.TakeEnded(e)) Post(std::move(e));
                  },
                  [this](RanksGone e) {
                    setup_command_.TakeGone(e);
                    if (!e.ranks.empty()) Post(std::move(e));
                  }}),
      stack_dumps_(options_.limits.stacks_patience, options_.environment,
                   [this](const RankIncarnation& incarnation, StackDump dump) {
                     processes_.Say(incarnation, std::move(dump.text));
                     Post(RankLooked{incarnation, dump.stopped,
                                     std::move(dump.summary), dump.nccl});
                   }),
      checks_(ForChecks(options_, *folder_),
              [this](ChecksDone e) { Post(std::move(e)); }),
      fact_watcher_(
          ForFactWatch(options_),
          [this](v1::FactChange c) { Post(FactChanged{std::move(c)}); },
          [this](std::string why) { Post(FactWatchEnded{std::move(why)}); }),
      link_(options_.endpoints, options_.trust, inbox_) {}

v1::Hello Session::FirstHello() const {
  v1::Hello hello = options_.hello;
  hello.set_incarnation(incarnations_.next());
  hello.set_checks_groups(group_checks_ != nullptr);
  *hello.mutable_swept_nonces() = {folder_->swept().begin(),
                                   folder_->swept().end()};
  return hello;
}

AgentResult Session::Run() {
  if (options_.attach) {
    const auto path = rank_links_.OpenToAttached();
    if (!path.ok()) {
      return {kExitRendezvous, std::string(path.status().message()), {}};
    }
    Do(Report{Report::Kind::kSocket, *path});
  }
  Carry(agent_.Start());
  while (!result_) {
    const absl::Duration left = agent_.NextDeadline() - MonotonicNow();
    for (LinkEvent& in : inbox_.Take(std::max(left, absl::ZeroDuration()))) {
      if (!link_.Take(in)) continue;
      if (auto* down = std::get_if<StreamDown>(&in.event)) {
        down->fresh_incarnation = incarnations_.next();
        if (!options_.attach) down->nonce = incarnations_.nonce();
      }
      auto* checked = std::get_if<ChecksDone>(&in.event);
      if (checked != nullptr && !told_facts_.Take(checked->report)) continue;
      if (const auto* gone = std::get_if<SetupGone>(&in.event)) {
        TakeSameFiles(gone->same_files);
      }
      const auto* from = std::get_if<FromDaemon>(&in.event);
      const bool welcome = from != nullptr && from->message.has_welcome();
      if (welcome) TakeJobVariables(from->message.welcome().settings());
      Step(in.event);
      if (welcome) TellNewFacts();
      if (result_) break;
    }
    if (!result_ && MonotonicNow() >= agent_.NextDeadline()) {
      SampleProgress();
      Step(AgentTick{});
    }
  }
  link_.Close(kClosePatience);
  // If the run has not ended, the node's next agent needs the recorded
  // incarnations to prove that these ranks are gone.
  if (result_->end.has_value()) folder_->ForgetIncarnations();
  for (const std::string& warning : preparation_.RestoreHosts()) {
    Warn(options_, warning);
  }
  return *result_;
}

void Session::Step(const AgentEvent& event) {
  Carry(agent_.Step(event, MonotonicNow()));
}

void Session::Carry(const std::vector<AgentAction>& actions) {
  for (const AgentAction& action : actions) {
    std::visit([this](const auto& a) { Do(a); }, action);
  }
}

// --- The daemon -------------------------------------------------------------

void Session::Do(const Dial&) { link_.Dial(); }

void Session::Do(const Say& say) {
  if (!link_.is_up()) return;
  v1::AgentMessage message = say.message;
  told_facts_.PutInto(message);
  if (message.has_hello()) {
    incarnations_.Said(message.hello().incarnation());
  }
  link_.Send(std::move(message));
}

// They are the same in every Welcome of a run. With --attach the agent sets no
// environment.
void Session::TakeJobVariables(const v1::JobSettings& settings) {
  v1::JobSettings taken;
  *taken.mutable_environment() = settings.environment();
  if (options_.attach ||
      taken.SerializeAsString() == variables_.SerializeAsString()) {
    return;
  }
  variables_ = std::move(taken);
  for (std::string& warning : SetJobVariables(settings, options_)) {
    Warn(options_, std::move(warning));
  }
}

// Sends facts that changed between the Hello and the Welcome.
void Session::TellNewFacts() {
  if (told_facts_.all_told()) return;
  ChecksDone changed;
  *changed.report.mutable_facts() = options_.network.facts;
  Step(changed);
}

// --- Preparing and running --------------------------------------------------

void Session::Do(const Prepare& prepare) {
  // With --attach the next agent cannot end processes that this agent has not
  // started, so it must not prove that they are gone.
  if (!options_.attach) folder_->RecordIncarnation(incarnations_.nonce());
  preparation_.Prepare(prepare.world, prepare.node_rank, options_.network);
}

void Session::Do(const Undo& undo) {
  preparation_.Undo(undo.generation);
  folder_->Remove(undo.generation);
}

// Always posted: there are no more of the first three events than streams, and
// a lost event is not repeated.
bool Session::PostOfService(AgentEvent event) {
  if (!std::holds_alternative<RankUnlinked>(event) &&
      !std::holds_alternative<RankEnded>(event) &&
      !std::holds_alternative<RanksGone>(event)) {
    return inbox_.Post({0, std::move(event)});
  }
  Post(std::move(event));
  return true;
}

// Attached ranks run already or are started by others: they get no files, and
// the agent starts no process for them.
void Session::OpenToAttached(const StartRanks& start) {
  std::vector<uint32_t> waiting;
  for (const RankIncarnation& incarnation : start.waiting) {
    waiting.push_back(incarnation.local_rank);
  }
  preparation_.ReleasePort(start.world.generation());
  // Starts the guard, which removes the agent's names from the hosts file if
  // the agent is killed. The guard has no ranks here, so it ends none.
  const absl::Status guarded = processes_.Start(start.world.generation(), {});
  if (!guarded.ok()) Warn(options_, std::string(guarded.message()));
  const NetworkSettings network = SettingsFor(
      start.world, start.node_rank, options_.environment, options_.network);
  rank_service()->SetWorld(start.world, start.world_commit, start.node_rank,
                           waiting, network.variables);
}

void Session::CannotStart(const StartRanks& start, const absl::Status& why) {
  RankEnded ended{.generation = start.world.generation(),
                  .code = kNodeCannotStart,
                  .stderr_tail = std::string(why.message())};
  RanksGone gone;
  for (const uint32_t local_rank : start.fresh) {
    ended.local_rank = local_rank;
    Post(ended);
    gone.ranks.push_back({ended.generation, local_rank});
  }
  if (!gone.ranks.empty()) Post(std::move(gone));
}

void Session::Do(const StartRanks& start) {
  if (options_.attach) return OpenToAttached(start);
  const uint64_t generation = start.world.generation();
  const RankFiles files =
      NameRankFiles(folder_->path(), folder_->socket(), start.world,
                    start.world_commit, start.node_rank);
  rank_folders_.Begin(generation, files, start.waiting);
  absl::Status wrote = folder_->Add(generation);
  if (wrote.ok()) {
    wrote =
        WriteRankFiles(files, start.world, start.world_commit, options_.user());
  }
  const v1::Member& me = start.world.members(start.node_rank);
  std::vector<uint32_t> waiting;
  for (const RankIncarnation& incarnation : start.waiting) {
    waiting.push_back(incarnation.local_rank);
    processes_.Rename(incarnation.local_rank,
                      me.first_rank() + incarnation.local_rank);
  }
  // The service's socket is in the run folder, so the folder must be there.
  if (wrote.ok() ? rank_links_.Ensure(!waiting.empty())
                 : rank_service() != nullptr) {
    rank_service()->SetWorld(start.world, start.world_commit, start.node_rank,
                             waiting);
  }
  if (!wrote.ok()) return CannotStart(start, wrote);
  const std::vector<RankCommand> commands =
      RankCommandsFor(options_, files, start);
  preparation_.ReleasePort(generation);
  if (!commands.empty()) {
    if (absl::Status began = processes_.Start(generation, commands);
        !began.ok()) {
      return CannotStart(start, began);
    }
  }
}

// --- The set-up command ------------------------------------------------------

void Session::Do(const RunSetup&) {
  setup_command_.Start(
      processes_, SetupEnvironment(options_.environment, options_.network,
                                   options_.hello.job(), options_.hello.node(),
                                   folder_->socket()));
}

void Session::Do(const StopSetupCommand& stop) {
  setup_command_.Stop(processes_, stop.grace);
}

// The daemon learns of the files before it learns that the node is set up.
void Session::TakeSameFiles(const std::vector<v1::SameFile>& files) {
  if (files.empty()) return;
  v1::Facts& facts = options_.network.facts;
  *facts.mutable_same_files() = {files.begin(), files.end()};
  for (const v1::SameFile& file : files) {
    if (!file.error().empty()) Warn(options_, SameFileWarning(file));
  }
  TellNewFacts();
}

// --- Ranks -------------------------------------------------------------------

void Session::Do(const AbortRanks& abort) {
  if (rank_service() != nullptr) {
    rank_service()->EndWorld(abort.generation, abort.code, abort.reason);
  }
}

void Session::Do(const StopRanks& stop) {
  if (options_.attach) return rank_service()->Stop(stop.ranks);
  // The file is written before the signal is sent, so that a rank that the
  // signal wakes finds it.
  WriteNotice(stop.ranks, "stop", stop.grace);
  processes_.Stop(stop.ranks, stop.grace);
}

void Session::Do(const TellNotice& tell) {
  const char* kind = tell.notice.kind() == v1::NOTICE_KIND_GROW    ? "grow"
                     : tell.notice.kind() == v1::NOTICE_KIND_DRAIN ? "drain"
                                                                   : "preempt";
  WriteNotice({}, kind, tell.deadline);
  if (rank_service() != nullptr) rank_service()->Tell(tell.notice);
}

void Session::Do(const LookAtRank& look) {
  const RankIncarnation incarnation = look.incarnation;
  const pid_t linked =
      rank_service() == nullptr
          ? 0
          : rank_service()->AskWhere(look.generation, incarnation.local_rank);
  // An attached rank has another parent and may run in another container, so
  // its stacks are not taken.
  if (options_.attach) return Post(RankLooked{incarnation, false, ""});
  stack_dumps_.Take(incarnation, processes_.SessionOf(incarnation), linked);
}

void Session::Do(const RunChecks& run) { checks_.Run(run.request); }

void Session::Do(const RunProbe& run) {
  if (prober_ != nullptr) prober_->Run(run.probe);
}

void Session::Do(const RunGroupCheck& run) {
  if (group_checks_ == nullptr) return;
  if (!run.check.has_value()) return group_checks_->End();
  // Variables such as NCCL_SOCKET_IFNAME apply to the check too.
  group_checks_->Run(*run.check,
                     CleanEnvironment(options_.environment, options_.network));
}

void Session::WriteNotice(const std::vector<RankIncarnation>& ranks,
                          const char* kind, absl::Duration deadline) {
  const absl::Status wrote = rank_folders_.WriteNotice(ranks, kind, deadline);
  if (!wrote.ok()) {
    Warn(options_,
         absl::StrCat(wrote.message(),
                      "; a rank that reads this file is not told of "
                      "the notice (",
                      kind, "); signals and linked ranks do not need it"));
  }
}

void Session::Do(const PassSignal& pass) {
  if (options_.attach) return;
  processes_.Signal(pass.ranks, pass.signal);
}

void Session::Do(const AnswerExchange& answer) {
  if (rank_service() != nullptr) rank_service()->Answer(answer.exchange);
}

void Session::Do(const AnswerStore& answer) {
  if (rank_service() != nullptr) rank_service()->Answer(answer);
}

void Session::Do(const FailRequests& fail) {
  if (rank_service() != nullptr) {
    rank_service()->FailRequests(fail.generation, fail.reason);
  }
}

void Session::SampleProgress() {
  for (const RankProgressed& progressed : rank_folders_.Sample()) {
    Step(progressed);
  }
}

void Session::Do(const Report& report) {
  if (options_.report) options_.report(report);
}

void Session::Do(const Exit& exit) {
  result_ = AgentResult{exit.code, exit.reason, exit.end};
}

}  // namespace

AgentResult RunAgent(AgentOptions options) {
  // Signals still end the process here: there is nothing to restore yet. An
  // empty folder may stay, which the next agent on this machine removes.
  const SystemUser* const user = options.user();
  auto folder = RunFolder::Make(
      VariableIn(options.environment, "XDG_RUNTIME_DIR"), options.hello.job(),
      options.hello.node(), options.join_timeout,
      [&](const std::string& text) {
        Warn(options, absl::StrCat(text, "; waiting for ",
                                   absl::FormatDuration(options.join_timeout)));
      },
      user);
  if (!folder.ok()) {
    return {kExitRendezvous, std::string(folder.status().message()), {}};
  }
  for (const std::string& text : (*folder)->living()) Warn(options, text);
  if (user != nullptr) {
    options.environment = EnvironmentOf(*user, options.environment);
  }
  RemoveDeadHosts(options);
  return Session(std::move(options), *std::move(folder)).Run();
}

}  // namespace rollcall

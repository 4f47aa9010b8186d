// LeaderSession: the loop of one of several daemons that share their state in
// etcd. A daemon has a loop while it leads, and none while it is on standby.
//
// When it is elected, it restores the state from etcd like a restarted daemon,
// and opens the CurrentLoop. When it no longer leads, it ends all streams, and
// answers clients with the leader's address. It decides nothing else.
//
// Thread rule: created and destroyed by one thread; it works on a thread of its
// own.
#ifndef ROLLCALL_DAEMON_SERVER_LEADER_LEADER_SESSION_H_
#define ROLLCALL_DAEMON_SERVER_LEADER_LEADER_SESSION_H_

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "daemon/base/inbox.h"
#include "daemon/journal/etcd/etcd_journal.h"
#include "daemon/journal/etcd/etcd_tokens.h"
#include "daemon/journal/etcd/key_value.h"
#include "daemon/journal/etcd/leadership.h"
#include "daemon/server/leader/current_loop.h"
#include "daemon/server/loop/loop.h"
#include "daemon/server/loop/state/logger.h"

namespace rollcall {

class LeaderSession {
 public:
  struct Options {
    // Prefix of all keys.
    std::string prefix;
    ValueSealer sealer;
    // Whether the tokens are in etcd. Then they are read when this daemon
    // begins to lead, and periodically while it is on standby, and are passed
    // to loop.keep_token.
    bool tokens_in_etcd = false;
    // Lifetime of the worker's token in etcd.
    absl::Duration token_ttl;
    // Addresses of this daemon.
    std::vector<std::string> endpoints;
    // Options of each loop. If credential_key is empty, the key that all
    // daemons of this name share in etcd is used. LeaderSession sets `resume`
    // and `leads`, and with tokens_in_etcd also `tokens` and `keep_token`,
    // which calls the given one.
    Loop::Options loop;
  };

  // Begins to campaign. `client`, `current_loop` and `logger` must outlive
  // this.
  LeaderSession(Options options, KeyValueStore& client,
                CurrentLoop& current_loop, Logger& logger);
  // As Stop.
  ~LeaderSession();

  // Ends the loop, if there is one, and resigns. The second call does nothing.
  void Stop();

 private:
  struct LostLeadership {
    std::string why;
  };
  struct OtherLeads {
    std::vector<std::string> endpoints;
  };
  struct Quit {};
  using Input = std::variant<LeaderTerm, LostLeadership, OtherLeads, Quit>;

  void Run();
  // Waits for inputs, and appends them to inputs_.
  void Take(absl::Duration patience);
  void On(const LeaderTerm& leader_term);
  void On(const LostLeadership& lost_leadership);
  void On(const OtherLeads& other);
  void On(const Quit& quit);

  // Starts a loop with the journal's content. Errors: those of the journal.
  absl::Status TakeUp(const LeaderTerm& leader_term);
  void EndLoop(const absl::Status& why);
  absl::Time Now() const { return options_.loop.machine->Now(); }
  // When ReadTokens is due; InfiniteFuture: not while this daemon leads.
  absl::Time ReadTokensAt() const;
  // Reads the tokens in etcd, and writes new ones to their files. `make`: also
  // creates the missing ones in etcd.
  absl::Status ReadTokens(bool make);
  void TellUnread(const absl::Status& read);

  const Options options_;
  CurrentLoop& current_loop_;
  Logger& logger_;
  KeyValueStore& client_;
  Inbox<Input> inbox_;
  std::deque<Input> inputs_;  // Taken and not processed yet.
  // The tokens that were read last, and those that were last passed to
  // keep_token.
  KeptTokens tokens_;
  KeptTokens told_;
  // Why the last write of each role's token failed, so that the same reason is
  // logged once. Empty: the write succeeded.
  std::map<v1::Role, std::string> not_kept_;
  // When the tokens were read last, also without success.
  absl::Time read_tokens_ = Now();
  // Why the last read of the tokens failed; empty: the read succeeded.
  std::string unread_;
  std::unique_ptr<EtcdJournal> journal_;
  std::unique_ptr<Loop> loop_;
  bool quit_ = false;
  // Its callbacks post to inbox_. The loop and the journal call its Leads.
  std::unique_ptr<Leadership> leadership_;
  // Null after Stop.
  std::unique_ptr<Machine::Thread> thread_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_LEADER_LEADER_SESSION_H_

// Succession: the loop of one of several daemons that share their state in
// etcd: it has one while it leads, and none while it stands by.
//
// When it is elected it takes up what etcd holds, as a daemon that was started
// again, and opens the door; when it leads no more it ends all streams, and
// whoever comes is told where the leader is. It decides nothing else.
//
// Thread rule: made and ended by one thread; it works on one of its own.
#ifndef ROLLCALL_DAEMON_SERVER_LEADER_SUCCESSION_H_
#define ROLLCALL_DAEMON_SERVER_LEADER_SUCCESSION_H_

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "daemon/base/inbox.h"
#include "daemon/journal/etcd_journal.h"
#include "daemon/journal/etcd_tokens.h"
#include "daemon/journal/key_value.h"
#include "daemon/journal/leadership.h"
#include "daemon/server/leader/loop_door.h"
#include "daemon/server/loop/logger.h"
#include "daemon/server/loop/loop.h"

namespace rollcall {

class Succession {
 public:
  struct Options {
    // What all keys begin with.
    std::string prefix;
    ValueSealer sealer;
    // The tokens lie in etcd: they are read when it begins to lead, and now and
    // then while it stands by, and told to loop.keep_token.
    bool tokens_in_etcd = false;
    // Of the worker's token there.
    absl::Duration token_ttl;
    // Where this daemon is reached.
    std::vector<std::string> endpoints;
    // Of each loop; with an empty credential_key, the one that all daemons of
    // this name share in etcd. `resume` and `leads` are set here, and with
    // tokens_in_etcd `tokens`.
    Loop::Options loop;
  };

  // Begins to campaign. `client`, `door` and `logger` must outlive this.
  Succession(Options options, KeyValueStore& client, LoopDoor& door,
             Logger& logger);
  // As Stop.
  ~Succession();

  // Ends the loop, if there is one, and gives the lead up. The second call does
  // nothing.
  void Stop();

 private:
  struct Deposed {
    std::string why;
  };
  struct OtherLeads {
    std::vector<std::string> endpoints;
  };
  struct Quit {};
  using Input = std::variant<Reign, Deposed, OtherLeads, Quit>;

  void Run();
  // Waits for inputs, and puts them behind those that wait.
  void Take(absl::Duration patience);
  void On(const Reign& reign);
  void On(const Deposed& deposed);
  void On(const OtherLeads& other);
  void On(const Quit& quit);

  // What the journal holds, in a loop that has started. Errors as the
  // journal's.
  absl::Status TakeUp(const Reign& reign);
  void EndLoop(const absl::Status& why);
  // How long until ReadTokens is due while standing by.
  absl::Duration ReadTokensIn() const;
  // Reads the tokens in etcd, and writes to their files those that are new.
  // `make`: those that are not there are made.
  absl::Status ReadTokens(bool make);
  void TellUnread(const absl::Status& read);

  const Options options_;
  LoopDoor& door_;
  Logger& logger_;
  KeyValueStore& client_;
  Inbox<Input> inbox_;
  std::deque<Input> inputs_;  // Taken, and not dealt with.
  // As read last, and as keep_token was told.
  KeptTokens tokens_;
  KeptTokens told_;
  // Why it last could not keep one; said once. Empty: it could.
  std::map<v1::Role, std::string> not_kept_;
  // Why it last could not read them; empty: it could.
  std::string unread_;
  std::unique_ptr<EtcdJournal> journal_;
  std::unique_ptr<Loop> loop_;
  bool quit_ = false;
  // Calls back into the inbox; asked by loops and journals.
  std::unique_ptr<Leadership> leadership_;
  // Null once it has stopped.
  std::unique_ptr<Machine::Thread> thread_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_LEADER_SUCCESSION_H_

// HostsResolver: looks up names with this machine's resolver.
//
// The system's resolver may block for a long time (10 s or more if a DNS server
// does not answer). So each lookup runs on its own thread, and the caller waits
// at most `patience`. At most kLookupsMax threads exist; a name for which no
// thread is free gets the answer kUnclear.
//
// Thread rule: one thread at a time, but not the agent's loop, because Ask
// blocks.
#ifndef ROLLCALL_CLIENT_AGENT_HOSTS_HOSTS_RESOLVER_H_
#define ROLLCALL_CLIENT_AGENT_HOSTS_HOSTS_RESOLVER_H_

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/agent/hosts/hosts_names.h"

namespace rollcall {

// A name, in lower case.
struct NameQuestion {
  std::string name;
  // The job's own block in /etc/hosts gives the name an address now, so an
  // answer from that file proves nothing: only DNS is asked.
  bool in_own_block = false;
};

class HostsResolver {
 public:
  virtual ~HostsResolver() = default;
  // Returns an answer for each question within `patience`. Never fails.
  virtual std::map<std::string, NameAnswer> Ask(
      const std::vector<NameQuestion>& questions, absl::Duration patience) = 0;
};

// Asks once, with getaddrinfo(3); for a name in the job's own block, asks only
// DNS. May block without a time limit.
NameAnswer LookUpName(const NameQuestion& question);

// Whether /etc/nsswitch.conf with this text looks up host names by DNS.
bool AsksDns(absl::string_view nsswitch);

// Adds the addresses of a DNS reply. False: the reply is truncated.
bool ReadDnsReply(absl::string_view reply, NameAnswer& answer);

class SystemResolver : public HostsResolver {
 public:
  static constexpr size_t kLookupsMax = 64;
  using LookUp = std::function<NameAnswer(const NameQuestion&)>;

  explicit SystemResolver(LookUp look_up = LookUpName);
  // Lookups that have not ended keep running; they do not use this object.
  ~SystemResolver() override = default;

  // A name that was not found is not looked up again by this agent, and a name
  // without a clear answer is not looked up again within a minute. So a new
  // generation does not wait for the same names each time.
  std::map<std::string, NameAnswer> Ask(
      const std::vector<NameQuestion>& questions,
      absl::Duration patience) override;

  // Number of lookups that run now.
  size_t running() const;

 private:
  struct Round;
  struct Running;

  bool Start(const NameQuestion& question, const std::shared_ptr<Round>& round);

  const LookUp look_up_;
  // Shared with the lookup threads, each of which may outlive this object.
  const std::shared_ptr<Running> running_;
  // An answer, and the time until which the name is not looked up again.
  struct Kept {
    NameAnswer answer;
    absl::Time until;
  };
  std::map<std::string, Kept> kept_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_HOSTS_HOSTS_RESOLVER_H_

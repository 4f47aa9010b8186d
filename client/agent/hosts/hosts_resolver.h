// HostsResolver: looks up names with this machine's resolver.
//
// The system's resolver may block for long (a DNS server that does not answer:
// 10 s and more). So each lookup runs on a thread of its own, and the caller
// waits no longer than the bound. At most kLookupsMax threads exist; a name for
// which none is free has no clear answer.
//
// Thread rule: one thread at a time; not the agent's loop, since Ask blocks.
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

// Asks once, with getaddrinfo(3), or DNS only for a name in the job's own
// block. Blocks without a bound.
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
  // Hanging lookups are left running; they do not use this object.
  ~SystemResolver() override = default;

  // A name that was not found is not looked up again by this agent, and a name
  // without a clear answer not within a minute, so that a new generation does
  // not wait for the same names each time.
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
  // An answer, and until when it is not asked for again.
  struct Kept {
    NameAnswer answer;
    absl::Time until;
  };
  std::map<std::string, Kept> kept_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_HOSTS_HOSTS_RESOLVER_H_

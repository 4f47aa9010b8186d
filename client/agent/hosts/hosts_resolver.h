// HostsResolver: what this machine's resolver says of names.
//
// The system's resolver blocks for as long as it likes (a DNS server that does
// not answer: 10 s and more), so each name is asked for on a thread of its own
// and the caller waits no longer than the bound. A thread whose lookup hangs
// ends with it. There are never more than kLookupsMax of them, and a name that
// finds no free one has no clear answer.
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
  // The job's own block in /etc/hosts gives it an address now, so an answer
  // from that file would prove nothing: only DNS is asked.
  bool in_own_block = false;
};

class HostsResolver {
 public:
  virtual ~HostsResolver() = default;
  // An answer for each question, within `patience`. Never fails.
  virtual std::map<std::string, NameAnswer> Ask(
      const std::vector<NameQuestion>& questions, absl::Duration patience) = 0;
};

// Asks once, by getaddrinfo(3), or by DNS alone for a name in the own block.
// Blocks without a bound.
NameAnswer LookUpName(const NameQuestion& question);

// Whether host names are looked up by DNS, by the text of /etc/nsswitch.conf.
bool AsksDns(absl::string_view nsswitch);

// Adds the addresses of a DNS reply. False: it is cut off.
bool ReadDnsReply(absl::string_view reply, NameAnswer& answer);

class SystemResolver : public HostsResolver {
 public:
  static constexpr size_t kLookupsMax = 64;
  using LookUp = std::function<NameAnswer(const NameQuestion&)>;

  explicit SystemResolver(LookUp look_up = LookUpName);
  // Lookups that hang are left behind; they touch nothing of this object.
  ~SystemResolver() override = default;

  // A name that was not found is not asked for again in this agent's life, and
  // one without a clear answer not within a minute, so that a new generation
  // does not wait for the same names each time.
  std::map<std::string, NameAnswer> Ask(
      const std::vector<NameQuestion>& questions,
      absl::Duration patience) override;

  // Lookups that run now.
  size_t running() const;

 private:
  struct Round;
  struct Running;

  bool Start(const NameQuestion& question, const std::shared_ptr<Round>& round);

  const LookUp look_up_;
  // Shared with the threads, any of which may outlive this object.
  const std::shared_ptr<Running> running_;
  // What need not be asked again until then.
  struct Kept {
    NameAnswer answer;
    absl::Time until;
  };
  std::map<std::string, Kept> kept_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_HOSTS_HOSTS_RESOLVER_H_

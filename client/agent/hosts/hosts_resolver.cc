#include "client/agent/hosts/hosts_resolver.h"

#include <arpa/nameser.h>
#include <netdb.h>
#include <netinet/in.h>
#include <resolv.h>
#include <signal.h>

#include <algorithm>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_split.h"
#include "client/facts/system/system.h"
#include "daemon/base/clock.h"
#include "daemon/base/mutex.h"
#include "daemon/base/text/address_text.h"

namespace rollcall {
namespace {

using Kind = NameAnswer::Kind;

constexpr absl::Duration kUnclearFor = absl::Minutes(1);
constexpr size_t kKeptMax = 256;
constexpr size_t kAddressesMax = 16;
constexpr size_t kNsswitchBytesMax = 64 << 10;

NameAnswer Nowhere() { return {Kind::kNotFound, {}}; }

void Add(NameAnswer& answer, std::string address) {
  if (address.empty() || answer.addresses.size() >= kAddressesMax) return;
  answer.kind = Kind::kFound;
  answer.addresses.insert(std::move(address));
}

NameAnswer AskAll(const std::string& name) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(name.c_str(), nullptr, &hints, &found);
  if (error == EAI_NONAME || error == EAI_NODATA) return Nowhere();
  // EAI_AGAIN and other errors do not tell what the name means elsewhere. A
  // machine without a configured name server gets them too.
  if (error != 0) return {};
  NameAnswer answer;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    Add(answer, AddressText(at->ai_addr));
  }
  freeaddrinfo(found);
  return answer;
}

// Reads a DNS message from front to back; past its end it reads zeros.
class DnsReader {
 public:
  explicit DnsReader(absl::string_view bytes) : rest_(bytes) {}

  uint32_t Number(size_t size) {
    uint32_t number = 0;
    for (const char byte : Take(size)) {
      number = number << 8 | static_cast<unsigned char>(byte);
    }
    return number;
  }
  absl::string_view Take(size_t size) {
    whole_ = whole_ && size <= rest_.size();
    const absl::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(taken.size());
    return taken;
  }
  // Skips labels up to the empty label or a compression pointer.
  void SkipName() {
    while (whole_) {
      const uint32_t size = Number(1);
      if (size == 0) return;
      if (size >= 0xc0) {
        Take(1);
        return;
      }
      Take(size);
    }
  }
  bool whole() const { return whole_; }

 private:
  absl::string_view rest_;
  bool whole_ = true;
};

// Asks for one record type. Returns whether the answer is clear.
bool AskDns(res_state state, const std::string& name, int type,
            NameAnswer& answer) {
  unsigned char reply[4096];
  const int size =
      res_nsearch(state, name.c_str(), ns_c_in, type, reply, sizeof(reply));
  if (size < 0) {
    return state->res_h_errno == HOST_NOT_FOUND ||
           state->res_h_errno == NO_DATA;
  }
  const auto read = std::min(static_cast<size_t>(size), sizeof(reply));
  return ReadDnsReply({reinterpret_cast<const char*>(reply), read}, answer);
}

NameAnswer AskDnsAlone(const std::string& name) {
  if (!AsksDns(ReadSmallFile("/etc/nsswitch.conf", kNsswitchBytesMax))) {
    return Nowhere();
  }
  struct __res_state state;
  std::memset(&state, 0, sizeof(state));
  if (res_ninit(&state) != 0) return {};
  NameAnswer answer;
  // Both types are asked for, even if the first has an answer.
  const bool clear_a = AskDns(&state, name, ns_t_a, answer);
  const bool clear_aaaa = AskDns(&state, name, ns_t_aaaa, answer);
  res_nclose(&state);
  if (answer.kind == Kind::kFound) return answer;
  return clear_a && clear_aaaa ? Nowhere() : NameAnswer{};
}

}  // namespace

bool AsksDns(absl::string_view nsswitch) {
  for (const absl::string_view line : absl::StrSplit(nsswitch, '\n')) {
    const std::vector<absl::string_view> words =
        absl::StrSplit(line.substr(0, line.find('#')), absl::ByAnyChar(" \t\r"),
                       absl::SkipEmpty());
    if (words.empty() || words[0] != "hosts:") continue;
    return std::any_of(words.begin(), words.end(), [](absl::string_view word) {
      return word == "dns" || word == "resolve";
    });
  }
  return true;
}

bool ReadDnsReply(absl::string_view reply, NameAnswer& answer) {
  DnsReader reader(reply);
  reader.Take(4);  // Message id and flags, which the resolver has checked.
  const uint32_t questions = reader.Number(2);
  const uint32_t answers = reader.Number(2);
  reader.Take(4);
  for (uint32_t i = 0; i < questions && reader.whole(); ++i) {
    reader.SkipName();
    reader.Take(4);
  }
  for (uint32_t i = 0; i < answers && reader.whole(); ++i) {
    reader.SkipName();
    const uint32_t type = reader.Number(2);
    reader.Take(6);  // Class and TTL.
    const absl::string_view data = reader.Take(reader.Number(2));
    if (!reader.whole()) break;
    const bool is_address = (type == ns_t_a && data.size() == 4) ||
                            (type == ns_t_aaaa && data.size() == 16);
    if (is_address) Add(answer, AddressText(data));
  }
  return reader.whole();
}

NameAnswer LookUpName(const NameQuestion& question) {
  return question.in_own_block ? AskDnsAlone(question.name)
                               : AskAll(question.name);
}

struct SystemResolver::Round {
  Mutex mutex;
  CondVar changed;
  std::map<std::string, NameAnswer> answers ABSL_GUARDED_BY(mutex);
};

struct SystemResolver::Running {
  Mutex mutex;
  size_t count ABSL_GUARDED_BY(mutex) = 0;
};

SystemResolver::SystemResolver(LookUp look_up)
    : look_up_(std::move(look_up)), running_(std::make_shared<Running>()) {}

size_t SystemResolver::running() const {
  MutexLock lock(running_->mutex);
  return running_->count;
}

// Returns false if no thread is free.
bool SystemResolver::Start(const NameQuestion& question,
                           const std::shared_ptr<Round>& round) {
  {
    MutexLock lock(running_->mutex);
    if (running_->count >= kLookupsMax) return false;
    ++running_->count;
  }
  try {
    std::thread([look_up = look_up_, running = running_, round, question] {
      // Other threads of the agent handle the signals.
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_BLOCK, &all, nullptr);
      NameAnswer answer = look_up(question);
      {
        MutexLock lock(running->mutex);
        --running->count;
      }
      MutexLock lock(round->mutex);
      round->answers[question.name] = std::move(answer);
      round->changed.NotifyAll();
    }).detach();
  } catch (const std::system_error&) {
    MutexLock lock(running_->mutex);
    --running_->count;
    return false;
  }
  return true;
}

std::map<std::string, NameAnswer> SystemResolver::Ask(
    const std::vector<NameQuestion>& questions, absl::Duration patience) {
  const absl::Time until = MonotonicNow() + patience;
  std::map<std::string, NameAnswer> answers;
  const auto round = std::make_shared<Round>();
  std::set<std::string> asked;
  for (const NameQuestion& question : questions) {
    const auto kept = kept_.find(question.name);
    if (kept != kept_.end() && MonotonicNow() < kept->second.until) {
      answers[question.name] = kept->second.answer;
    } else if (Start(question, round)) {
      asked.insert(question.name);
    } else {
      answers[question.name] = NameAnswer{};
    }
  }
  {
    MutexLock lock(round->mutex);
    while (round->answers.size() < asked.size()) {
      const absl::Duration left = until - MonotonicNow();
      if (left <= absl::ZeroDuration()) break;
      round->changed.WaitFor(round->mutex, left);
    }
    for (const std::string& name : asked) {
      const auto at = round->answers.find(name);
      answers[name] = at == round->answers.end() ? NameAnswer{} : at->second;
    }
  }
  if (kept_.size() + asked.size() > kKeptMax) kept_.clear();
  for (const std::string& name : asked) {
    const NameAnswer& answer = answers[name];
    if (answer.kind == Kind::kFound) {
      kept_.erase(name);
    } else {
      kept_[name] = {answer, answer.kind == Kind::kNotFound
                                 ? absl::InfiniteFuture()
                                 : MonotonicNow() + kUnclearFor};
    }
  }
  return answers;
}

}  // namespace rollcall

// EtcdJournal: the journal in etcd, where several daemons of one name share it
// and one leads.
//
// Below the prefix: `jobs/JOB` holds a job's last run as one value, `tokens/ID`
// a token's record (digests, never secrets), `writes` a number. All values but
// that number are sealed (ValueSealer): one that does not open is refused by
// the name of its key, and never taken as missing. Every write is a transaction
// that compares two things: that the leader's key is still the one of this
// journal's Reign, so that a former leader can write nothing; and the number,
// which it moves on, so that a transaction that was sent twice, or arrives
// late, is carried out once.
//
// A write whose fate nobody knows, and one that was fenced off, end the Reign
// (`lost`) and return ABORTED: nothing that was decided under it may be said
// any more, and all is read again by whoever leads next.
//
// Thread rule: one thread at a time; in practice the loop thread.
#ifndef ROLLCALL_DAEMON_JOURNAL_ETCD_JOURNAL_H_
#define ROLLCALL_DAEMON_JOURNAL_ETCD_JOURNAL_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/journal/journal.h"
#include "daemon/journal/key_value.h"
#include "daemon/journal/leadership.h"
#include "daemon/security/value_sealer.h"

namespace rollcall {

class EtcdJournal final : public JournalStore {
 public:
  // Runs that have ended and are kept, the latest.
  static constexpr size_t kEndedRunsKept = 64;

  struct Options {
    // Of all keys, see EtcdPlace.
    std::string prefix;
    Reign reign;
    // Whether the Reign is in force; asked between attempts. From any thread.
    std::function<bool()> leads;
    // The Reign is over; the argument says why. Called at most a few times.
    std::function<void(std::string)> lost;
    ValueSealer sealer;
  };

  // Reads all runs. `client` must outlive the journal. UNAVAILABLE: etcd does
  // not answer. FAILED_PRECONDITION: what lies there cannot be read.
  static absl::StatusOr<std::unique_ptr<EtcdJournal>> Open(
      KeyValueStore& client, Options options);

  // As JournalStore says, and: ABORTED: the Reign is over. RESOURCE_EXHAUSTED:
  // a run does not fit etcd_value_bytes_max; nothing was written.
  absl::Status Append(absl::Span<const JournalEntry> entries,
                      absl::Time written_at) override;
  absl::StatusOr<std::optional<JournaledRun>> Load(
      std::string_view job) override;
  absl::StatusOr<std::vector<JournaledRun>> LoadAll() override;
  absl::StatusOr<std::vector<v1::TokenRecord>> LoadTokens() override;
  absl::Status SaveTokens(absl::Span<const v1::TokenRecord> written,
                          absl::Span<const std::string> removed) override;
  absl::Status DropTokens() override;

  // Writes one value below the prefix, sealed, as Append does.
  absl::Status WriteValue(const std::string& name, const std::string& value);

 private:
  using Runs = std::map<std::string, JournaledRun, std::less<>>;

  EtcdJournal(KeyValueStore& client, Options options);

  absl::Status ReadRuns();
  // All keys of a prefix, page by page, as of one revision.
  absl::Status ReadAll(const std::string& prefix,
                       const std::function<absl::Status(
                           const std::string& name, const std::string& value,
                           int64_t revision)>& take);
  absl::Status Fold(const JournalEntry& entry, absl::Time written_at,
                    Runs& changed) const;
  std::vector<std::string> EndedBeyondBound() const;
  // All of them, in as many transactions as their sizes take.
  absl::Status WriteAll(std::vector<etcdserverpb::RequestOp> operations);
  absl::Status Write(std::vector<etcdserverpb::RequestOp> operations);
  absl::Status Lost(const std::string& why);
  etcdserverpb::RequestOp PutSealed(std::string key,
                                    const std::string& value) const;

  KeyValueStore& client_;
  const Options options_;
  const std::string leader_key_;
  const std::string writes_key_;
  // What is durable; nobody else writes.
  Runs runs_;
  // Of each of them, when it was written last: by its key's revision, and
  // since this was opened, by counting on from the highest.
  std::map<std::string, int64_t, std::less<>> order_;
  int64_t order_latest_ = 0;
  // The latest write that is known to have been carried out, and the latest.
  uint64_t written_ = 0;
  uint64_t tried_ = 0;
};

// The value of a key that is written once, by whoever comes first, and is the
// same for all from then on: `candidate`, unless there is one. Sealed. Without
// a candidate nothing is written. Safe to retry. UNAVAILABLE: etcd does not
// answer within `patience`. NOT_FOUND: there is no value, and no candidate.
// FAILED_PRECONDITION: the value there does not open; the key is named.
absl::StatusOr<std::string> KeepInEtcd(
    KeyValueStore& client, const ValueSealer& sealer, const std::string& key,
    const std::optional<std::string>& candidate, absl::Duration patience);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_JOURNAL_ETCD_JOURNAL_H_

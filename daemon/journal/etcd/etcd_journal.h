// EtcdJournal: the journal in etcd. Several daemons of one name share it, and
// one of them leads.
//
// The keys below the prefix: `jobs/JOB` has a job's last run as one value,
// `tokens/ID` has a token's record (digests, never secrets), and `writes` has a
// number. All values except that number are encrypted (ValueSealer). A value
// that cannot be decrypted is an error that names its key, and never counts as
// missing. Every write is a transaction with two comparisons. The first: the
// leader's key is still that of this journal's LeaderTerm, so that a former
// leader can write nothing. The second: the number, which each transaction
// changes, so that a transaction that was sent twice or arrives late is carried
// out once.
//
// A write with an unknown result, and a write that was fenced off, end the
// LeaderTerm (`lost`) and return ABORTED. No decision of that LeaderTerm may be
// sent any more, and the next leader reads everything again.
//
// Thread rule: one thread at a time; in practice the loop thread.
#ifndef ROLLCALL_DAEMON_JOURNAL_ETCD_ETCD_JOURNAL_H_
#define ROLLCALL_DAEMON_JOURNAL_ETCD_ETCD_JOURNAL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/journal/etcd/key_value.h"
#include "daemon/journal/etcd/leadership.h"
#include "daemon/journal/record_journal.h"
#include "daemon/security/secrets/value_sealer.h"

namespace rollcall {

class EtcdJournal final : public RecordJournal {
 public:
  struct Options {
    // Prefix of all keys, see EtcdLocation.
    std::string prefix;
    LeaderTerm leader_term;
    // Whether the LeaderTerm is in force; called between attempts, from any
    // thread.
    std::function<bool()> leads;
    // Called when the LeaderTerm is over, with the reason. Called at most a few
    // times.
    std::function<void(std::string)> lost;
    ValueSealer sealer;
  };

  // Reads all runs. `client` must outlive the journal. UNAVAILABLE: etcd does
  // not answer. FAILED_PRECONDITION: a stored value cannot be read.
  static absl::StatusOr<std::unique_ptr<EtcdJournal>> Open(
      KeyValueStore& client, Options options);

  // Writes return the errors that JournalStore lists, and ABORTED if the
  // LeaderTerm is over. Append also returns RESOURCE_EXHAUSTED if a run does
  // not fit etcd_value_bytes_max; then nothing was written.
  absl::StatusOr<std::vector<v1::TokenRecord>> LoadTokens() override;
  absl::Status SaveTokens(absl::Span<const v1::TokenRecord> written,
                          absl::Span<const std::string> removed) override;
  absl::Status DropTokens() override;

  // Writes one encrypted value below the prefix. Errors: those of SaveTokens.
  absl::Status WriteValue(const std::string& name, const std::string& value);

 private:
  EtcdJournal(KeyValueStore& client, Options options);

  absl::Status Store(const Changes& changes) override;
  // Reads all keys of a prefix, page by page, at one revision.
  absl::Status ReadAll(const std::string& prefix,
                       const std::function<absl::Status(
                           const std::string& name, const std::string& value,
                           int64_t revision)>& take);
  // Writes all operations, in as many transactions as their sizes require.
  absl::Status WriteAll(std::vector<etcdserverpb::RequestOp> operations);
  absl::Status Write(std::vector<etcdserverpb::RequestOp> operations);
  absl::Status Lost(const std::string& why);
  etcdserverpb::RequestOp PutSealed(std::string key,
                                    const std::string& value) const;

  KeyValueStore& client_;
  const Options options_;
  const std::string leader_key_;
  const std::string writes_key_;
  // The number of the latest write that is known to have been carried out, and
  // of the latest write that was sent.
  uint64_t written_ = 0;
  uint64_t tried_ = 0;
};

// Returns the existing value of `key`; if there is none, writes `candidate` and
// returns that. So the first caller sets the value, and later calls do not
// change it. The value is encrypted. Without a candidate nothing is written.
// Safe to retry. UNAVAILABLE: etcd does not answer within `patience`.
// NOT_FOUND: there is no value, and no candidate. FAILED_PRECONDITION: the
// existing value cannot be decrypted; the message names its key.
absl::StatusOr<std::string> KeepInEtcd(
    KeyValueStore& client, const ValueSealer& sealer, const std::string& key,
    const std::optional<std::string>& candidate, absl::Duration patience);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_JOURNAL_ETCD_ETCD_JOURNAL_H_

#include "daemon/journal/etcd/etcd_journal.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

using etcdserverpb::Compare;
using etcdserverpb::KeyValue;
using etcdserverpb::RangeRequest;
using etcdserverpb::RangeResponse;
using etcdserverpb::RequestOp;
using etcdserverpb::TxnRequest;
using etcdserverpb::TxnResponse;

constexpr absl::Duration kReadPatience = absl::Seconds(5);
constexpr absl::Duration kWritePatience = absl::Seconds(1);
// A write is tried at most this often, and only while the LeaderTerm lasts. The
// bound is there because agents wait for the write.
constexpr int kWriteAttempts = 10;
// Values per page; this many of the largest values fit one answer.
constexpr int64_t kPageKeys = 16;
static_assert(kPageKeys * Limits::etcd_value_bytes_max <
              KeyValueStore::kAnswerBytesMax);

RequestOp Put(std::string key, std::string value) {
  RequestOp operation;
  operation.mutable_request_put()->set_key(std::move(key));
  operation.mutable_request_put()->set_value(std::move(value));
  return operation;
}

RequestOp Delete(std::string key, std::string range_end = "") {
  RequestOp operation;
  operation.mutable_request_delete_range()->set_key(std::move(key));
  operation.mutable_request_delete_range()->set_range_end(std::move(range_end));
  return operation;
}

RequestOp Read(const std::string& key) {
  RequestOp operation;
  operation.mutable_request_range()->set_key(key);
  return operation;
}

// The end of the range of keys that begin with `prefix`, which ends with '/'.
std::string EndOf(std::string prefix) {
  prefix.back() = '/' + 1;
  return prefix;
}

absl::Status Unfit(const std::string& key, const absl::Status& why) {
  return absl::FailedPreconditionError(absl::StrCat(
      "etcd, ", key, ": ", why.message(),
      "; give all daemons the secret that sealed it, or remove the key "
      "(etcdctl del), or give daemons another NAME"));
}

// The result of the read number `at` in the answer; null: no such key.
const KeyValue* Found(const TxnResponse& answer, int at) {
  if (at >= answer.responses_size()) return nullptr;
  const RangeResponse& read = answer.responses(at).response_range();
  return read.kvs_size() == 0 ? nullptr : &read.kvs(0);
}

}  // namespace

EtcdJournal::EtcdJournal(KeyValueStore& client, Options options)
    : RecordJournal("etcd"),
      client_(client),
      options_(std::move(options)),
      leader_key_(absl::StrCat(options_.prefix, kLeaderKey)),
      writes_key_(absl::StrCat(options_.prefix, kWritesKey)) {}

absl::StatusOr<std::unique_ptr<EtcdJournal>> EtcdJournal::Open(
    KeyValueStore& client, Options options) {
  std::unique_ptr<EtcdJournal> journal(
      new EtcdJournal(client, std::move(options)));
  const absl::Status read = journal->ReadAll(
      absl::StrCat(journal->options_.prefix, "jobs/"),
      [&](const std::string& job, const std::string& value, int64_t revision) {
        return journal->Take(job, value, revision);
      });
  if (!read.ok()) return read;
  return journal;
}

// --- Reading -----------------------------------------------------------------

absl::Status EtcdJournal::ReadAll(
    const std::string& prefix,
    const std::function<absl::Status(const std::string& name,
                                     const std::string& value,
                                     int64_t revision)>& take) {
  RangeRequest page;
  page.set_key(prefix);
  page.set_range_end(EndOf(prefix));
  page.set_limit(kPageKeys);
  for (;;) {
    const absl::StatusOr<RangeResponse> found =
        client_.Range(page, kReadPatience);
    if (!found.ok()) {
      return absl::UnavailableError(
          absl::StrCat("cannot read ", prefix, ": ", found.status().message()));
    }
    for (const KeyValue& kv : found->kvs()) {
      if (kv.key().size() <= prefix.size()) continue;
      const absl::StatusOr<std::string> value =
          options_.sealer.Open(kv.key(), kv.value());
      absl::Status taken = value.status();
      if (taken.ok())
        taken = take(kv.key().substr(prefix.size()), *value, kv.mod_revision());
      if (!taken.ok()) return Unfit(kv.key(), taken);
    }
    if (!found->more() || found->kvs_size() == 0) return absl::OkStatus();
    page.set_revision(found->header().revision());
    page.set_key(found->kvs(found->kvs_size() - 1).key() + '\0');
  }
}

absl::StatusOr<std::vector<v1::TokenRecord>> EtcdJournal::LoadTokens() {
  std::vector<v1::TokenRecord> records;
  const absl::Status read = ReadAll(
      absl::StrCat(options_.prefix, "tokens/"),
      [&records](const std::string& id, const std::string& value, int64_t) {
        v1::TokenRecord record;
        if (!record.ParseFromString(value) || record.status().id() != id) {
          return absl::FailedPreconditionError("this is not a token");
        }
        records.push_back(std::move(record));
        return absl::OkStatus();
      });
  if (!read.ok()) return read;
  return records;
}

// --- Writing -----------------------------------------------------------------

absl::Status EtcdJournal::Store(const Changes& changes) {
  const std::string jobs = absl::StrCat(options_.prefix, "jobs/");
  std::vector<RequestOp> operations;
  for (const auto& [job, record] : changes.written) {
    if (record.size() > Limits::etcd_value_bytes_max) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "the world of job ", job, " takes ", record.size(),
          " bytes; etcd takes ", Limits::etcd_value_bytes_max,
          " in one request: use fewer nodes, or a daemon with --state DIR"));
    }
    operations.push_back(PutSealed(absl::StrCat(jobs, job), record));
  }
  for (const std::string& job : changes.removed) {
    operations.push_back(Delete(absl::StrCat(jobs, job)));
  }
  return WriteAll(std::move(operations));
}

absl::Status EtcdJournal::SaveTokens(absl::Span<const v1::TokenRecord> written,
                                     absl::Span<const std::string> removed) {
  const std::string tokens = absl::StrCat(options_.prefix, "tokens/");
  std::vector<RequestOp> operations;
  for (const std::string& id : removed) {
    operations.push_back(Delete(absl::StrCat(tokens, id)));
  }
  for (const v1::TokenRecord& record : written) {
    operations.push_back(PutSealed(absl::StrCat(tokens, record.status().id()),
                                   record.SerializeAsString()));
  }
  return WriteAll(std::move(operations));
}

absl::Status EtcdJournal::DropTokens() {
  const std::string tokens = absl::StrCat(options_.prefix, "tokens/");
  return WriteAll({Delete(tokens, EndOf(tokens))});
}

absl::Status EtcdJournal::WriteValue(const std::string& name,
                                     const std::string& value) {
  return WriteAll({PutSealed(absl::StrCat(options_.prefix, name), value)});
}

RequestOp EtcdJournal::PutSealed(std::string key,
                                 const std::string& value) const {
  std::string sealed = options_.sealer.Seal(key, value);
  return Put(std::move(key), std::move(sealed));
}

absl::Status EtcdJournal::WriteAll(std::vector<RequestOp> operations) {
  std::vector<RequestOp> batch;
  size_t bytes = 0;
  bool some_written = false;
  const auto write = [&] {
    absl::Status written = Write(std::exchange(batch, {}));
    // Earlier batches are in etcd, but their decisions were not sent to agents.
    // Only a daemon that reads etcd again may continue.
    if (absl::IsUnavailable(written) && some_written) {
      written = Lost(std::string(written.message()));
    }
    some_written = true;
    bytes = 0;
    return written;
  };
  for (RequestOp& operation : operations) {
    const size_t size = operation.ByteSizeLong();
    if (batch.size() == Limits::etcd_operations_max ||
        (!batch.empty() && bytes + size > Limits::etcd_value_bytes_max)) {
      if (absl::Status written = write(); !written.ok()) return written;
    }
    bytes += size;
    batch.push_back(std::move(operation));
  }
  return batch.empty() ? absl::OkStatus() : write();
}

absl::Status EtcdJournal::Write(std::vector<RequestOp> operations) {
  TxnRequest txn;
  Compare& leader = *txn.add_compare();
  leader.set_target(Compare::CREATE);
  leader.set_key(leader_key_);
  leader.set_create_revision(options_.leader_term.create_revision);
  Compare& writes = *txn.add_compare();
  writes.set_target(Compare::VALUE);
  writes.set_key(writes_key_);
  writes.set_value(WritesValue(options_.leader_term.lease, written_));
  // Identifies this write. The number is never used again, even if this write
  // fails.
  const std::string mark = WritesValue(options_.leader_term.lease, ++tried_);
  for (RequestOp& operation : operations) {
    *txn.add_success() = std::move(operation);
  }
  *txn.add_success() = Put(writes_key_, mark);
  *txn.add_failure() = Read(leader_key_);
  *txn.add_failure() = Read(writes_key_);

  std::string last = "the lease had ended before";
  for (int i = 0; i < kWriteAttempts && options_.leads(); ++i) {
    const absl::StatusOr<TxnResponse> answer = client_.Txn(txn, kWritePatience);
    if (!answer.ok()) {
      last = std::string(answer.status().message());
      if (absl::IsUnavailable(answer.status())) continue;
      // etcd refuses the write (for example, its disk is full). If an earlier
      // attempt was carried out, the next write detects that.
      return absl::UnavailableError(last);
    }
    const KeyValue* found = answer->succeeded() ? nullptr : Found(*answer, 1);
    if (answer->succeeded() || (found != nullptr && found->value() == mark)) {
      written_ = tried_;
      return absl::OkStatus();
    }
    return Lost("another daemon leads: its write was fenced off");
  }
  return Lost(absl::StrCat("it is not known whether a write was carried out (",
                           last, ")"));
}

absl::Status EtcdJournal::Lost(const std::string& why) {
  options_.lost(why);
  return absl::AbortedError(why);
}

// --- Values that all daemons share ------------------------------------------

absl::StatusOr<std::string> KeepInEtcd(
    KeyValueStore& client, const ValueSealer& sealer, const std::string& key,
    const std::optional<std::string>& candidate, absl::Duration patience) {
  TxnRequest txn;
  Compare& compare = *txn.add_compare();
  compare.set_target(Compare::CREATE);
  compare.set_key(key);
  compare.set_create_revision(0);
  if (candidate) *txn.add_success() = Put(key, sealer.Seal(key, *candidate));
  *txn.add_failure() = Read(key);
  const absl::StatusOr<TxnResponse> answer = client.Txn(txn, patience);
  if (!answer.ok()) return answer.status();
  if (answer->succeeded() && candidate) return *candidate;
  if (answer->succeeded()) {
    return absl::NotFoundError(absl::StrCat("etcd has no ", key));
  }
  const KeyValue* found = Found(*answer, 0);
  if (found == nullptr) {
    return absl::UnavailableError(absl::StrCat(key, ": it was just removed"));
  }
  absl::StatusOr<std::string> value = sealer.Open(key, found->value());
  return value.ok() ? value : Unfit(key, value.status());
}

}  // namespace rollcall

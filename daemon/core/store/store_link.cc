#include "daemon/core/store/store_link.h"

#include <utility>

#include "daemon/core/limits.h"

namespace rollcall {
namespace {

// Small answers are not counted, because their number is bounded.
size_t LargeBytesOf(const StoreAnswer& answer) {
  const size_t bytes = answer.value == nullptr ? 0 : answer.value->size();
  return bytes > Limits::store_large_bytes ? bytes : 0;
}

}  // namespace

std::vector<std::string> StoreLink::Reset(size_t& unread_bytes) {
  std::vector<std::string> unsure;
  for (Sent& sent : sent_) {
    for (Confirmed& one : sent.records) unsure.push_back(std::move(one.key));
  }
  for (v1::StoreRecord& record : records_) {
    unsure.push_back(std::move(*record.mutable_key()));
  }
  unread_bytes -= large_bytes_;
  const uint64_t number = number_ + 1;
  *this = StoreLink();
  number_ = number;
  return unsure;
}

std::vector<StoreLink::Confirmed> StoreLink::Received(uint64_t message,
                                                      size_t& unread_bytes) {
  std::vector<Confirmed> confirmed;
  while (!sent_.empty() && sent_.front().message <= message) {
    Sent& sent = sent_.front();
    large_bytes_ -= sent.large_bytes;
    unread_bytes -= sent.large_bytes;
    for (Confirmed& one : sent.records) confirmed.push_back(std::move(one));
    sent_.pop_front();
  }
  return confirmed;
}

bool StoreLink::MayAnswer(size_t unread_bytes) const {
  // An answer never overtakes a record, because it may show the record's
  // change.
  if (!records_.empty() || answers_.empty()) return false;
  const size_t bytes = LargeBytesOf(answers_.front());
  return bytes == 0 ||
         (large_bytes_ + bytes <= Limits::store_unread_node_bytes_max &&
          unread_bytes + bytes <= Limits::store_unread_bytes_max);
}

bool StoreLink::IsHeldByOthers(size_t unread_bytes) const {
  return !answers_.empty() && !MayAnswer(unread_bytes) && MayAnswer(0);
}

std::optional<v1::StoreOut> StoreLink::Next(size_t& unread_bytes) {
  if (!open_ && !report_ && records_.empty() && !MayAnswer(unread_bytes)) {
    return std::nullopt;
  }
  v1::StoreOut out;
  Sent sent{++last_message_, 0, {}};
  if (std::exchange(open_, false)) out.set_link(number_);
  out.set_report(std::exchange(report_, false));
  size_t bytes = 0;
  while (!records_.empty() && bytes < Limits::store_message_bytes) {
    v1::StoreRecord& record = *out.add_records();
    record = std::move(records_.front());
    records_.pop_front();
    sent.records.push_back({record.key(), record.sequence()});
    bytes += record.ByteSizeLong();
  }
  while (bytes < Limits::store_message_bytes && MayAnswer(unread_bytes)) {
    StoreAnswer& answer = answers_.front();
    const size_t large_bytes = LargeBytesOf(answer);
    large_bytes_ += large_bytes;
    unread_bytes += large_bytes;
    sent.large_bytes += large_bytes;
    v1::StoreAnswered& answered = *out.add_answered();
    answered.set_operation(answer.operation);
    *answered.mutable_result() = std::move(answer.result);
    if (answer.value != nullptr) {
      answered.mutable_result()->set_value(*answer.value);
    }
    bytes += answered.ByteSizeLong();
    answers_.pop_front();
  }
  out.set_number(last_message_);
  // Messages without records and large answers are not tracked.
  if (!sent.records.empty() || sent.large_bytes > 0) {
    sent_.push_back(std::move(sent));
  }
  return out;
}

}  // namespace rollcall

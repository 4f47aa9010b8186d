#include "client/agent/core/node_exchanges.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/text/printable.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

constexpr size_t kErrorBytesMax = 4 << 10;

}  // namespace

void NodeExchanges::Begin(uint64_t generation, uint32_t first_rank,
                          uint32_t ranks, int world_size) {
  *this = NodeExchanges();
  generation_ = generation;
  first_rank_ = first_rank;
  ranks_ = ranks;
  world_size_ = world_size;
}

NodeExchanges::Outcome NodeExchanges::Take(const RankExchanged& exchanged) {
  for (const v1::ExchangeOut& out : answered_) {
    if (out.key() != exchanged.key) continue;
    const uint32_t rank = first_rank_ + exchanged.local_rank;
    if (exchanged.local_rank >= ranks_ ||
        out.values(static_cast<int>(rank)) != exchanged.value) {
      return Refusal(exchanged.key, absl::StatusCode::kInvalidArgument,
                     absl::StrCat("key '", exchanged.key,
                                  "' was given another value before; "
                                  "use a fresh key"));
    }
    return AnswerExchange{out};
  }
  const auto [at, fresh] = open_.try_emplace(exchanged.key);
  if (fresh && open_.size() > Limits::exchanges_open_max) {
    open_.erase(at);
    return Refusal(exchanged.key, absl::StatusCode::kResourceExhausted,
                   absl::StrCat("over ", Limits::exchanges_open_max,
                                " keys are open at once"));
  }
  Open& open = at->second;
  open.values.resize(ranks_);
  if (exchanged.local_rank >= ranks_ || open.said) return {};
  open.values[exchanged.local_rank] = exchanged.value;
  open.said = std::all_of(open.values.begin(), open.values.end(),
                          [](const auto& v) { return v.has_value(); });
  if (!open.said) return {};
  return ValuesOf(exchanged.key, open);
}

std::optional<AnswerExchange> NodeExchanges::Answer(
    const v1::ExchangeOut& exchange) {
  if (exchange.generation() != generation_ ||
      open_.erase(exchange.key()) == 0) {
    return std::nullopt;
  }
  if (exchange.code() != 0) {
    return Refusal(exchange.key(),
                   static_cast<absl::StatusCode>(exchange.code()),
                   Printable(exchange.error(), kErrorBytesMax));
  }
  if (exchange.values_size() != world_size_) {
    return Refusal(exchange.key(), absl::StatusCode::kInternal,
                   "the answer has not one value a rank");
  }
  answered_.push_back(exchange);
  answered_.back().clear_error();
  if (answered_.size() > Limits::answers_kept) {
    answered_.erase(answered_.begin());
  }
  return AnswerExchange{answered_.back()};
}

std::vector<v1::ExchangeIn> NodeExchanges::ToRepeat() const {
  std::vector<v1::ExchangeIn> all;
  for (const auto& [key, open] : open_) {
    if (open.said) all.push_back(ValuesOf(key, open));
  }
  for (const v1::ExchangeOut& out : answered_) {
    v1::ExchangeIn& in = all.emplace_back();
    in.set_generation(generation_);
    in.set_key(out.key());
    for (uint32_t i = 0; i < ranks_; ++i) {
      in.add_values(out.values(static_cast<int>(first_rank_ + i)));
    }
  }
  return all;
}

v1::ExchangeIn NodeExchanges::ValuesOf(const std::string& key,
                                       const Open& open) const {
  v1::ExchangeIn in;
  in.set_generation(generation_);
  in.set_key(key);
  for (const std::optional<std::string>& value : open.values) {
    in.add_values(*value);
  }
  return in;
}

AnswerExchange NodeExchanges::Refusal(const std::string& key,
                                      absl::StatusCode code,
                                      const std::string& why) const {
  v1::ExchangeOut out;
  out.set_generation(generation_);
  out.set_key(key);
  out.set_code(static_cast<uint32_t>(code));
  out.set_error(why);
  return {std::move(out)};
}

}  // namespace rollcall

#include "daemon/server/loop/state/batch.h"

#include <type_traits>
#include <utility>

namespace rollcall {

void Batch::Add(const std::string& job, const std::string& run,
                std::vector<Action> actions) {
  for (Action& action : actions) {
    std::visit(
        [&](auto& what) {
          using Kind = std::decay_t<decltype(what)>;
          if constexpr (std::is_same_v<Kind, Journal>) {
            entries_.push_back({job, run, std::move(what)});
          } else {
            if constexpr (std::is_same_v<Kind, Send>) {
              bytes_ += what.message.ByteSizeLong();
            }
            effects_.push_back({job, std::move(what)});
          }
        },
        action);
  }
}

void Batch::AddAnswer(const std::string& job, Answer answer) {
  effects_.push_back({job, std::move(answer)});
}

Batch::Entries Batch::TakeEntries() { return std::exchange(entries_, {}); }

std::vector<Batch::Effect> Batch::TakeEffects() {
  bytes_ = 0;
  return std::exchange(effects_, {});
}

void Batch::Drop(const std::map<std::string, absl::Status>& failed) {
  std::vector<Effect> kept;
  for (Effect& effect : effects_) {
    const auto why = failed.find(effect.job);
    if (why == failed.end()) {
      kept.push_back(std::move(effect));
    } else if (Answer* answer = std::get_if<Answer>(&effect.what)) {
      (*answer)(why->second);
    }
  }
  effects_ = std::move(kept);
}

void Batch::DropAll(const absl::Status& status) {
  entries_.clear();
  for (Effect& effect : TakeEffects()) {
    if (Answer* answer = std::get_if<Answer>(&effect.what)) (*answer)(status);
  }
}

}  // namespace rollcall

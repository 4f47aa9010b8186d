#include "daemon/server/loop/state/loop_input.h"

#include <variant>

#include "daemon/server/loop/streams/refusal.h"

namespace rollcall {

void Decline(LoopInput& input, const absl::Status& status) {
  if (StreamOpened* opened = std::get_if<StreamOpened>(&input)) {
    opened->stream->Close(status.code(), RefusalOf(status));
  } else if (WatchOpened* watch = std::get_if<WatchOpened>(&input)) {
    watch->watcher->End(status);
  } else {
    std::visit(
        [&status](auto& call) {
          if constexpr (requires { call.reply; }) call.reply(status);
        },
        input);
  }
}

}  // namespace rollcall

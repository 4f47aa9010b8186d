#include "client/admin/messages.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace rollcall {

void Messages::Write(const std::shared_ptr<OutputTarget>& to,
                     std::string bytes) {
  if (writer_.full()) {
    ++left_out_;
    return;
  }
  SayWhatIsMissing();
  writer_.Write(to, std::move(bytes));
}

void Messages::SayWhatIsMissing() {
  if (left_out_ == 0) return;
  writer_.Write(err_, absl::StrCat("rollcall: ", left_out_,
                                   " messages are missing here: the output "
                                   "before them was not read in time\n"));
  left_out_ = 0;
}

}  // namespace rollcall

// IsolatedQuery: a question to a device library, asked in a copy of this
// process, since the library may hang or crash.
//
// The copy reports what it knows by then before each step that may be its last,
// so that one device that hangs does not take the facts of the others along.
//
// Thread rule: for a process with one thread (it forks).
#ifndef ROLLCALL_CLIENT_FACTS_ISOLATED_QUERY_H_
#define ROLLCALL_CLIENT_FACTS_ISOLATED_QUERY_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

struct IsolatedQuery {
  // Sends `facts` as they are by now, before `step` is begun.
  using Report =
      std::function<void(const v1::Facts& facts, absl::string_view step)>;
  // The question. What it returns is the whole answer.
  std::function<v1::Facts(const Report& report)> ask;
};

struct IsolatedAnswer {
  // The whole answer, or what was last reported.
  v1::Facts facts;
  // How the copy failed ("no answer within 4.5s", "it ended by signal 11");
  // empty: the answer is whole.
  std::string failure;
  // The step that it had begun by then.
  std::string step;
};

// Asks all at once, and waits for all: at most `timeout`, and a second more for
// a copy that SIGKILL does not end. Answers stand in the order of the queries.
std::vector<IsolatedAnswer> AskIsolated(
    const std::vector<IsolatedQuery>& queries, absl::Duration timeout);

// A report as it passes through the pipe, and all of them read back: the last
// that is whole. Pure.
std::string EncodeReport(const v1::Facts& facts, absl::string_view step,
                         bool whole);
IsolatedAnswer DecodeReports(absl::string_view bytes);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_FACTS_ISOLATED_QUERY_H_

// IsolatedQuery: asks a device library in a copy of this process, because the
// library may hang or crash.
//
// Before each step that may hang or crash, the copy reports what it knows so
// far. So one broken device does not lose the facts of the others.
//
// Thread rule: only in a process with one thread, because it forks.
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
  // Sends the facts known so far, before `step` begins.
  using Report =
      std::function<void(const v1::Facts& facts, absl::string_view step)>;
  // Runs in the copy. Returns the whole answer.
  std::function<v1::Facts(const Report& report)> ask;
};

struct IsolatedAnswer {
  // The whole answer, or the last report.
  v1::Facts facts;
  // How the copy failed ("no answer within 4.5s", "it ended by signal 11");
  // empty: the answer is whole.
  std::string failure;
  // The last step that the copy began.
  std::string step;
};

// Runs all queries at once and waits for all of them: at most `timeout`, and
// one more second for a copy that SIGKILL does not end. The answers are in the
// order of the queries.
std::vector<IsolatedAnswer> AskIsolated(
    const std::vector<IsolatedQuery>& queries, absl::Duration timeout);

// EncodeReport makes a report as it is written to the pipe; DecodeReports reads
// all reports and returns the last complete one. Pure.
std::string EncodeReport(const v1::Facts& facts, absl::string_view step,
                         bool whole);
IsolatedAnswer DecodeReports(absl::string_view bytes);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_FACTS_ISOLATED_QUERY_H_

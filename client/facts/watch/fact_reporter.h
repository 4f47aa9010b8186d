// FactReporter: writes the changes of all sources of one process, damped.
//
// Thread rule: Take from any thread; Run from one.
#ifndef ROLLCALL_CLIENT_FACTS_WATCH_FACT_REPORTER_H_
#define ROLLCALL_CLIENT_FACTS_WATCH_FACT_REPORTER_H_

#include <optional>
#include <string>
#include <vector>

#include "client/facts/watch/fact_damper.h"
#include "daemon/base/files/fd.h"
#include "daemon/base/mutex.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

class FactReporter {
 public:
  // Writes lines to `out_fd`.
  FactReporter(int out_fd, bool json);

  void Take(const v1::FactChange& change);
  void Take(const std::optional<v1::FactChange>& change) {
    if (change) Take(*change);
  }
  void Take(const std::vector<v1::FactChange>& changes) {
    for (const v1::FactChange& change : changes) Take(change);
  }

  // A source has ended and the process goes on. `text`: what is not watched any
  // more, and why; one line.
  void TakeEnd(const std::string& text) const;

  // Writes what is due until `in_fd` or the output ends.
  void Run(int in_fd);

 private:
  // Returns false if the output has ended.
  bool Write(const std::vector<v1::FactChange>& changes) const;

  const int out_fd_;
  const bool json_;
  const Fd bell_;
  Mutex mutex_;
  FactDamper damper_ ABSL_GUARDED_BY(mutex_);
};

// Names the calling thread after its source, once its first values are read:
// later changes are noticed. `ps -T` shows it.
void NameSource(const char* source);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_FACTS_WATCH_FACT_REPORTER_H_

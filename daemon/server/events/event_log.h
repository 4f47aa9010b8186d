// EventLog: the events of all jobs of a daemon, that is the lines that the jobs
// log: in memory the latest ones, for Admin.Events, and in a file, one JSON
// object each (EventsResponse says what is in it).
//
// Everything is bounded. A job has two lists in memory, so that the many events
// of nodes do not push out those of the job itself (its worlds, notices and
// end). At event_file_bytes_max, events.jsonl is renamed to events.1.jsonl,
// replaces an older file of that name, and the new file begins with the latest
// events of the second kind of the jobs that still run.
//
// An event that cannot be written to the file (because the disk is full) is
// missing there; that has no other effect, and the next line that can be
// written says how many are missing. A daemon that starts again reads its
// files.
//
// It decides nothing. Thread rule: one thread at a time; in practice the loop
// thread only.
#ifndef ROLLCALL_DAEMON_SERVER_EVENTS_EVENT_LOG_H_
#define ROLLCALL_DAEMON_SERVER_EVENTS_EVENT_LOG_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "daemon/core/events.h"
#include "daemon/core/failures/progress.h"
#include "daemon/server/events/last_steps.h"
#include "daemon/server/events/line_file.h"
#include "daemon/server/events/log_line.h"
#include "daemon/server/events/run_account.h"
#include "rollcall/v1/admin.pb.h"

namespace rollcall {

class EventLog {
 public:
  static constexpr char kFile[] = "/events.jsonl";
  static constexpr char kOlderFile[] = "/events.1.jsonl";

  // `folder`: where the files are; empty: in memory only.
  explicit EventLog(std::string folder);
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  // A loop begins. In memory only, another daemon may have led before it: what
  // is known of the jobs is dropped.
  void Begin();

  // `line`: as Log::text. `run`: empty: not known.
  void Add(const std::string& job, const std::string& run, Log::Level level,
           const std::string& line, absl::Time wall_now);

  // The job is over. Its events are kept until other jobs need their place.
  void Forget(const std::string& job);

  // See Admin.Events. Empty for a job that has no events.
  v1::EventsResponse Events(const v1::EventsRequest& request,
                            absl::Time wall_now) const;

  // The newest events with a higher id than `after`, oldest first: at most
  // kNewestMax of the job itself and as many of its nodes.
  // EventsResponse::more: there are older ones above `after`.
  static constexpr size_t kNewestMax = 100;
  v1::EventsResponse Newest(const std::string& job, uint64_t after) const;

  // The id of the job's last event; 0: it has none.
  uint64_t LastId(const std::string& job) const;

  // Of the job's latest run; nullopt: it is not `run`.
  std::optional<v1::RunSummary> Summary(const std::string& job,
                                        const std::string& run,
                                        absl::Time wall_now) const;

  // Of the job's last run that had a step; see LastSteps.
  LastStep LastStepOf(const std::string& job) const;

 private:
  struct Event {
    uint64_t id;
    absl::Time at;
    std::string json;
  };
  // The latest events within two bounds, by id.
  struct Latest {
    std::deque<Event> events;
    size_t bytes = 0;

    void Add(Event event, size_t count_max, size_t bytes_max);
  };
  struct OfJob {
    Latest own;
    Latest of_nodes;
    std::string run;
    RunAccount account;
    LastSteps steps;
    bool over = false;
    uint64_t last_id = 0;
  };

  void ReadFile(const std::string& path);
  void ReadLine(const std::string& line);
  OfJob& Find(const std::string& job);
  void Keep(const std::string& job, const std::string& run, Event event,
            const LogFields& fields);
  void Write(const std::string& json, absl::Time at);
  // The latest events of the jobs that still run.
  std::string FirstLines() const;

  const std::string folder_;
  std::map<std::string, OfJob> jobs_;
  uint64_t last_id_ = 0;
  LineFile file_;
  uint64_t lost_ = 0;
  // Of these, how many the file does not mention yet.
  uint64_t unmentioned_ = 0;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_EVENTS_EVENT_LOG_H_

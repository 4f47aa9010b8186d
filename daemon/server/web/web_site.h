// WebSite: makes the answers of the HTTP port: the status page, jobs and their
// events as JSON, jobs as metrics, and whether the daemon works. It posts to
// the loop as the admin calls do, and encodes the loop's answers on the
// server's thread.
//
// It changes nothing, logs no request, and never repeats what a request
// contained.
//
// Thread rule: Answer only on the HttpServer's thread.
#ifndef ROLLCALL_DAEMON_SERVER_WEB_WEB_SITE_H_
#define ROLLCALL_DAEMON_SERVER_WEB_WEB_SITE_H_

#include <memory>
#include <string>
#include <vector>

#include "daemon/server/leader/current_loop.h"
#include "daemon/server/loop/state/snapshots.h"
#include "daemon/server/web/http_server.h"
#include "daemon/server/web/routes.h"

namespace rollcall {

class WebSite {
 public:
  // `loop` must outlive the HttpServer. `loopback`: see RouteOf.
  WebSite(CurrentLoop& loop, bool loopback)
      : loop_(loop), loopback_(loopback) {}

  void Answer(const WebRequest& request, HttpServer::Reply reply);

 private:
  // The latest encoding for a path. It is kept because many clients may request
  // it at once.
  struct Encoded {
    std::vector<SharedStatus> jobs;
    bool single = false;
    std::shared_ptr<const std::string> body;
  };

  void AskHealth(bool ready, HttpServer::Reply reply);
  void AskEvents(const Route& route, const std::string& address,
                 HttpServer::Reply reply);
  void AskJobs(const Route& route, const std::string& address,
               HttpServer::Reply reply);
  WebAnswer Encode(WebPath path, const Snapshot& snapshot);

  CurrentLoop& loop_;
  const bool loopback_;
  Encoded status_;
  Encoded metrics_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_WEB_WEB_SITE_H_

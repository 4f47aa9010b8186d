// The status page: one file of HTML with its style and script, built into the
// binary from status_page.html. It contains no data; its script asks for
// /status.json and shows what it says as text.
//
// Pure; any thread.
#ifndef ROLLCALL_DAEMON_SERVER_WEB_STATUS_PAGE_H_
#define ROLLCALL_DAEMON_SERVER_WEB_STATUS_PAGE_H_

#include <memory>
#include <string>

namespace rollcall {

// Shared with the connections that send it.
const std::shared_ptr<const std::string>& StatusPage();

// The value of its Content-Security-Policy: only its own script and style run,
// by their digests, and it can send requests to this daemon only.
const std::string& StatusPagePolicy();

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_WEB_STATUS_PAGE_H_

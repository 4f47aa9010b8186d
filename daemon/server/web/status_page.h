// The status page: one file of HTML with its style and script, built into the
// binary from status_page.html. It contains no data; its script reads
// /status.json and shows the contents as text.
//
// Pure; any thread.
#ifndef ROLLCALL_DAEMON_SERVER_WEB_STATUS_PAGE_H_
#define ROLLCALL_DAEMON_SERVER_WEB_STATUS_PAGE_H_

#include <memory>
#include <string>

namespace rollcall {

// Shared with the connections that send it.
const std::shared_ptr<const std::string>& StatusPage();

// The value of the page's Content-Security-Policy. It allows only the page's
// own script and style, by their digests, and requests only to this daemon.
const std::string& StatusPagePolicy();

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_WEB_STATUS_PAGE_H_

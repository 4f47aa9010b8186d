#include "client/agent/processes/output/error_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "daemon/base/files/fd.h"
#include "daemon/base/text/lines.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

constexpr size_t kErrorFileBytesMax = 1 << 20;

std::string MessageOf(const nlohmann::json& parsed) {
  auto message = parsed.find("message");
  if (message == parsed.end()) return "";
  if (message->is_object()) {
    const auto inner = message->find("message");
    if (inner == message->end()) return "";
    message = inner;
  }
  const auto* text = message->get_ptr<const std::string*>();
  return text == nullptr ? "" : LastBytes(*text, Limits::stderr_tail_bytes);
}

}  // namespace

ErrorReport ParseErrorFile(std::string_view json) {
  const nlohmann::json parsed =
      nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) return {};
  const auto permanent = parsed.find("permanent");
  return {MessageOf(parsed), permanent != parsed.end() && *permanent == true};
}

ErrorReport ReadErrorFile(const std::string& path) {
  if (path.empty()) return {};
  // Non-blocking, because the rank may have put anything there, even a FIFO.
  const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat about {};
  if (!file.open() || fstat(file.get(), &about) != 0 ||
      !S_ISREG(about.st_mode)) {
    return {};
  }
  std::string text;
  char piece[16384];
  while (text.size() <= kErrorFileBytesMax) {
    const ssize_t got = read(file.get(), piece, sizeof piece);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return {};
    if (got == 0) return ParseErrorFile(text);
    text.append(piece, got);
  }
  return {};
}

}  // namespace rollcall

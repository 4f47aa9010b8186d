#include "client/agent/probe/probe_call.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "daemon/core/admission/admission.h"

namespace rollcall {
namespace {

constexpr char kWord[] = "rollcall";
static_assert(sizeof(kWord) - 1 + Limits::probe_bytes == kProbeQuestionBytes);

}  // namespace

std::string ProbeQuestion(const v1::Probe& probe) {
  return absl::StrCat(kWord, probe.ask());
}

bool IsProbeQuestion(const v1::Probe& probe, std::string_view heard) {
  return probe.ask().size() == Limits::probe_bytes &&
         heard == ProbeQuestion(probe);
}

bool ReceiveUpTo(int fd, size_t bytes_max, std::string& heard,
                 std::string& error) {
  char bytes[64];
  while (heard.size() < bytes_max) {
    const ssize_t got =
        recv(fd, bytes, std::min(sizeof(bytes), bytes_max - heard.size()), 0);
    if (got > 0) {
      heard.append(bytes, static_cast<size_t>(got));
    } else if (got < 0 && errno == EINTR) {
      continue;
    } else if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      return true;
    } else {
      error = got == 0 ? "closed without an answer" : std::strerror(errno);
      return false;
    }
  }
  return true;
}

socklen_t ParseProbeAddress(const std::string& text, uint32_t port,
                            sockaddr_storage& out) {
  out = {};
  if (port == 0 || port > UINT16_MAX || !AdmitAddress(text).ok()) return 0;
  auto& four = reinterpret_cast<sockaddr_in&>(out);
  auto& six = reinterpret_cast<sockaddr_in6&>(out);
  if (inet_pton(AF_INET, text.c_str(), &four.sin_addr) == 1) {
    four.sin_family = AF_INET;
    four.sin_port = htons(static_cast<uint16_t>(port));
    return sizeof(four);
  }
  if (inet_pton(AF_INET6, text.c_str(), &six.sin6_addr) == 1) {
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(static_cast<uint16_t>(port));
    return sizeof(six);
  }
  return 0;
}

}  // namespace rollcall

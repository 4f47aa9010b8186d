#include "daemon/core/admission/grammar.h"

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/durations.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

// Far above what a run can reach, and far enough below 2^63 that counting up
// from it never overflows the journal's integers.
constexpr uint64_t kGenerationMax = uint64_t{1} << 62;
constexpr size_t kShownBytesMax = 64;

// 1 to 4 hexadecimal digits.
bool IsHexGroup(std::string_view text) {
  if (text.empty() || text.size() > 4) return false;
  for (unsigned char c : text) {
    if (!absl::ascii_isxdigit(c)) return false;
  }
  return true;
}

// Removes the part before the next `mark` from `rest` and returns it. `more`:
// whether there was a mark.
std::string_view CutAt(char mark, std::string_view& rest, bool& more) {
  const size_t end = rest.find(mark);
  more = end != std::string_view::npos;
  const std::string_view part = rest.substr(0, end);
  rest = more ? rest.substr(end + 1) : std::string_view();
  return part;
}

// Counts the 16-bit groups of one side of an IPv6 address; -1: the side is not
// valid. If `tail`, the last group may be an IPv4 address (two groups).
int CountGroups(std::string_view side, bool tail) {
  int count = 0;
  for (bool more = !side.empty(); more;) {
    const std::string_view group = CutAt(':', side, more);
    if (!more && tail && IsIpv4(group)) {
      count += 2;
    } else if (IsHexGroup(group)) {
      count += 1;
    } else {
      return -1;
    }
  }
  return count;
}

// Whether `part` is 0 to 255 in decimal.
bool IsOctet(std::string_view part) {
  if (part.empty() || part.size() > 3) return false;
  // A leading zero would be octal to some readers and decimal to others.
  if (part.size() > 1 && part[0] == '0') return false;
  int value = 0;
  for (unsigned char c : part) {
    if (!absl::ascii_isdigit(c)) return false;
    value = value * 10 + (c - '0');
  }
  return value <= 255;
}

// Whether all of `text` is one label of a hostname.
bool IsLabel(std::string_view text) {
  if (text.empty() || text.size() > 63) return false;
  if (text.front() == '-' || text.back() == '-') return false;
  for (unsigned char c : text) {
    if (!absl::ascii_isalnum(c) && c != '-' && c != '_') return false;
  }
  return true;
}

bool IsLowerId(std::string_view text, size_t bytes_max) {
  if (text.empty() || text.size() > bytes_max) return false;
  for (unsigned char c : text) {
    if (!absl::ascii_islower(c) && !absl::ascii_isdigit(c) && c != '-') {
      return false;
    }
  }
  return true;
}

}  // namespace

absl::Status Unfit(const char* field, const std::string& expected,
                   std::string_view found) {
  const std::string shown =
      absl::CHexEscape(std::string(found.substr(0, kShownBytesMax)));
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": expected ", expected, ", got \"", shown, "\"",
                   found.size() > kShownBytesMax
                       ? absl::StrCat("... (", found.size(), " bytes)")
                       : ""));
}

absl::Status Unfit(const char* field, const std::string& expected,
                   uint64_t found) {
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": expected ", expected, ", got ", found));
}

absl::Status AdmitPlainText(const char* field, std::string_view text,
                            size_t bytes_max) {
  bool printable = text.size() <= bytes_max;
  for (unsigned char c : text) printable = printable && absl::ascii_isprint(c);
  if (printable) return absl::OkStatus();
  return Unfit(field,
               absl::StrCat("at most ", bytes_max, " bytes of printable ASCII"),
               text);
}

absl::Status AdmitCount(const char* field, uint64_t count, uint64_t most) {
  if (count <= most) return absl::OkStatus();
  return Unfit(field, absl::StrCat("at most ", most), count);
}

absl::Status AdmitRange(const char* field, int64_t value, int64_t least,
                        int64_t most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return Unfit(field, absl::StrCat(least, " to ", most), absl::StrCat(value));
}

absl::Status AdmitLowerId(const char* field, std::string_view id,
                          size_t bytes_max) {
  if (IsLowerId(id, bytes_max)) return absl::OkStatus();
  return Unfit(field, absl::StrCat("1 to ", bytes_max, " of [a-z0-9-]"), id);
}

absl::Status AdmitGeneration(const char* field, uint64_t generation) {
  if (generation <= kGenerationMax) return absl::OkStatus();
  return Unfit(field, absl::StrCat("at most ", kGenerationMax), generation);
}

absl::Status AdmitDuration(const char* field,
                           const google::protobuf::Duration& duration,
                           double least_seconds, absl::Duration most) {
  const int64_t seconds = duration.seconds();
  const int32_t nanos = duration.nanos();
  const bool normal = seconds >= 0 && nanos >= 0 && nanos < 1'000'000'000;
  if (normal && FromProto(duration) <= most &&
      static_cast<double>(seconds) + nanos * 1e-9 >= least_seconds) {
    return absl::OkStatus();
  }
  return Unfit(field,
               absl::StrCat("a duration of ", least_seconds, " s to ",
                            absl::ToInt64Seconds(most), " s"),
               absl::StrCat(seconds, " s and ", nanos, " ns"));
}

absl::Status AdmitJobId(std::string_view job) {
  if (IsLowerId(job, Limits::job_id_bytes_max) && job.front() != '-' &&
      job.back() != '-') {
    return absl::OkStatus();
  }
  return Unfit("job", "1 to 63 of [a-z0-9-], no '-' at either end", job);
}

absl::Status AdmitNodeName(std::string_view node) {
  bool fits = node.size() <= Limits::node_name_bytes_max;
  for (size_t begin = 0; fits;) {
    const size_t dot = node.find('.', begin);
    fits = IsLabel(node.substr(begin, dot - begin));
    if (dot == std::string_view::npos) break;
    begin = dot + 1;
  }
  if (fits) return absl::OkStatus();
  return Unfit("node",
               "a host name: labels of [A-Za-z0-9_-] with dots between, 1 to "
               "253 bytes",
               node);
}

absl::Status AdmitAddress(std::string_view address) {
  if (IsIpv4(address) || IsIpv6(address)) return absl::OkStatus();
  return Unfit("address",
               "an IPv4 or IPv6 address without zone, prefix or port", address);
}

absl::Status AdmitExchangeKey(std::string_view key) {
  if (key.empty()) return Unfit("key", "1 to 128 bytes", key);
  return AdmitPlainText("key", key, Limits::exchange_key_bytes_max);
}

bool IsIpv4(std::string_view text) {
  int octets = 0;
  for (bool more = true; more; ++octets) {
    if (!IsOctet(CutAt('.', text, more))) return false;
  }
  return octets == 4;
}

bool IsIpv6(std::string_view text) {
  const size_t gap = text.find("::");
  if (gap == std::string_view::npos) return CountGroups(text, true) == 8;
  const std::string_view right = text.substr(gap + 2);
  if (right.find("::") != std::string_view::npos) return false;
  const int before = CountGroups(text.substr(0, gap), false);
  const int after = CountGroups(right, true);
  return before >= 0 && after >= 0 && before + after <= 7;
}

}  // namespace rollcall

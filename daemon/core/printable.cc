// What people wrote, made fit for terminals, logs and files: the part of
// admission that cleans and does not refuse.
#include <algorithm>
#include <cstdint>
#include <iterator>

#include "daemon/core/admission.h"

namespace rollcall {
namespace {

constexpr size_t kReasonBytesMax = 4 << 10;
constexpr size_t kShortTextBytesMax = 256;

// Bytes of the UTF-8 character that `text` begins with; 0: not a valid one.
size_t CharacterBytes(std::string_view text) {
  const auto byte = [&](size_t i) -> uint8_t {
    return i < text.size() ? static_cast<uint8_t>(text[i]) : 0;
  };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  const size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4) return 0;
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  // Overlong forms, surrogates and what lies beyond Unicode.
  if (first == 0xE0 && byte(1) < 0xA0) return 0;
  if (first == 0xED && byte(1) > 0x9F) return 0;
  if (first == 0xF0 && byte(1) < 0x90) return 0;
  if (first == 0xF4 && byte(1) > 0x8F) return 0;
  return size;
}

// The code point of one valid UTF-8 character.
uint32_t CodePoint(std::string_view character) {
  const uint8_t first = static_cast<uint8_t>(character[0]);
  if (character.size() == 1) return first;
  uint32_t code = first & (0x7F >> character.size());
  for (const char c : character.substr(1)) {
    code = code << 6 | (static_cast<uint8_t>(c) & 0x3F);
  }
  return code;
}

// Controls that a terminal could obey, and characters that make a text read
// otherwise than it is written: line and paragraph separators, marks that
// change the direction of writing, and those that are not seen at all.
bool IsControl(std::string_view character) {
  static constexpr struct {
    uint32_t first;
    uint32_t last;
  } kRanges[] = {
      {0x0000, 0x001F}, {0x007F, 0x009F}, {0x00AD, 0x00AD},   {0x061C, 0x061C},
      {0x180E, 0x180E}, {0x200B, 0x200F}, {0x2028, 0x202E},   {0x2060, 0x206F},
      {0xFEFF, 0xFEFF}, {0xFFF9, 0xFFFB}, {0xE0000, 0xE007F},
  };
  const uint32_t code = CodePoint(character);
  return std::any_of(std::begin(kRanges), std::end(kRanges),
                     [code](const auto& range) {
                       return range.first <= code && code <= range.last;
                     });
}

std::string Reason(const std::string& text) {
  return Printable(text, kReasonBytesMax);
}

// The last bytes count, since a program says last why it fails.
std::string Tail(std::string_view text) {
  const size_t most = Limits::stderr_tail_bytes;
  return Printable(text.substr(text.size() - std::min(text.size(), most)), most,
                   /*multiline=*/true);
}

void CleanExit(v1::RankExited& exited) {
  exited.set_stderr_tail(Tail(exited.stderr_tail()));
  exited.set_error_file(Tail(exited.error_file()));
}

void CleanCause(v1::RootCause& cause) {
  cause.set_node(Printable(cause.node(), Limits::node_name_bytes_max));
  cause.set_detail(Tail(cause.detail()));
  cause.set_stderr_tail(Tail(cause.stderr_tail()));
}

}  // namespace

std::string Printable(std::string_view text, size_t bytes_max, bool multiline) {
  std::string clean;
  clean.reserve(std::min(text.size(), bytes_max));
  while (!text.empty()) {
    const size_t size = CharacterBytes(text);
    const std::string_view character =
        text.substr(0, std::max<size_t>(size, 1));
    const bool kept = multiline && (character == "\n" || character == "\t");
    const bool bad = size == 0 || (IsControl(character) && !kept);
    if (clean.size() + (bad ? 1 : character.size()) > bytes_max) break;
    if (bad) {
      clean.push_back('?');
    } else {
      clean.append(character);
    }
    text.remove_prefix(character.size());
  }
  return clean;
}

void CleanHello(v1::Hello& hello) {
  // They could be most of a message, and are kept as long as the node.
  hello.DiscardUnknownFields();
  hello.set_version(Printable(hello.version(), kShortTextBytesMax));
}

void CleanDaemonMessage(v1::DaemonMessage& message) {
  switch (message.kind_case()) {
    case v1::DaemonMessage::kWaiting: {
      v1::Waiting& waiting = *message.mutable_waiting();
      waiting.set_reason(Reason(waiting.reason()));
      for (std::string& name : *waiting.mutable_missing()) {
        name = Printable(name, Limits::node_name_bytes_max);
      }
      break;
    }
    case v1::DaemonMessage::kAbort:
      message.mutable_abort()->set_reason(Reason(message.abort().reason()));
      break;
    case v1::DaemonMessage::kNotice:
      message.mutable_notice()->set_reason(Reason(message.notice().reason()));
      for (std::string& name : *message.mutable_notice()->mutable_nodes()) {
        name = Printable(name, Limits::node_name_bytes_max);
      }
      break;
    case v1::DaemonMessage::kEnd: {
      v1::End& end = *message.mutable_end();
      end.set_reason(Reason(end.reason()));
      if (end.has_root_cause()) CleanCause(*end.mutable_root_cause());
      for (v1::RootCause& cause : *end.mutable_causes()) CleanCause(cause);
      break;
    }
    default:
      break;
  }
}

void CleanSeal(v1::Seal& seal) {
  seal.set_nccl_absent(Reason(seal.nccl_absent()));
}

void CleanMessage(v1::AgentMessage& message) {
  message.DiscardUnknownFields();
  switch (message.kind_case()) {
    case v1::AgentMessage::kProbed:
      for (auto& result : *message.mutable_probed()->mutable_results()) {
        result.set_error(Printable(result.error(), kShortTextBytesMax));
      }
      break;
    case v1::AgentMessage::kPrepared: {
      v1::Prepared& prepared = *message.mutable_prepared();
      prepared.set_nccl_absent(Reason(prepared.nccl_absent()));
      for (std::string& text : *prepared.mutable_warnings()) {
        text = Reason(text);
      }
      break;
    }
    case v1::AgentMessage::kRefused:
      message.mutable_refused()->set_reason(Reason(message.refused().reason()));
      break;
    case v1::AgentMessage::kRankExited:
      CleanExit(*message.mutable_rank_exited());
      break;
    case v1::AgentMessage::kRankStalled: {
      v1::RankStalled& stalled = *message.mutable_rank_stalled();
      stalled.set_text(Printable(stalled.text(), Limits::stall_text_bytes_max));
      break;
    }
    case v1::AgentMessage::kLeaving:
      message.mutable_leaving()->set_reason(Reason(message.leaving().reason()));
      break;
    case v1::AgentMessage::kCheckReport:
      for (auto& finding :
           *message.mutable_check_report()->mutable_findings()) {
        finding.set_text(Reason(finding.text()));
      }
      break;
    default:
      break;
  }
}

std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted.push_back('\\');
    quoted.push_back(c);
  }
  quoted.push_back('"');
  return quoted;
}

}  // namespace rollcall

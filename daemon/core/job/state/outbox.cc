#include "daemon/core/job/state/outbox.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace rollcall {

void Outbox::SendTo(const Node& node, v1::DaemonMessage message) {
  if (node.session != 0) SendTo({node.session}, std::move(message));
}

void Outbox::SendTo(std::vector<SessionId> sessions,
                    v1::DaemonMessage message) {
  actions_.push_back(Send{std::move(sessions), std::move(message)});
}

void Outbox::Close(SessionId session, absl::StatusCode code,
                   v1::RefusalCode refusal, const std::string& text) {
  CloseStream close;
  close.session = session;
  close.code = code;
  close.refusal.set_code(refusal);
  close.refusal.set_text(text);
  actions_.push_back(std::move(close));
}

void Outbox::Write(Journal::Kind kind, uint64_t generation,
                   const google::protobuf::MessageLite& body) {
  WriteBytes(kind, generation, body.SerializeAsString());
}

void Outbox::WriteBytes(Journal::Kind kind, uint64_t generation,
                        std::string body) {
  actions_.push_back(Journal{kind, generation, std::move(body)});
}

void Outbox::Say(Log::Level level, const std::string& text) {
  actions_.push_back(Log{level, absl::StrCat("job=", job_, " ", text)});
}

void Outbox::SayOf(const Node& node, Log::Level level,
                   const std::string& text) {
  SayOf(node, level, text, "");
}

void Outbox::SayOf(const Node& node, Log::Level level, const std::string& text,
                   const std::string& about) {
  actions_.push_back(Log{level, absl::StrCat("job=", job_, " ", text),
                         node.observed_address,
                         absl::StrCat(job_, "/", node.name(), about)});
}

void Outbox::SayOf(const std::string& address, Log::Level level,
                   const std::string& text) {
  actions_.push_back(
      Log{level, absl::StrCat("job=", job_, " ", text), address});
}

}  // namespace rollcall

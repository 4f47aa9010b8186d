// The hidden `rollcall facts`: asks device libraries in a separate process; see
// client/facts/device_facts.h. It prints serialized Facts for the agent that
// started it, or, with --json, all facts of this node for users. With --watch
// it prints what changes from then on.
#include "client/facts/facts.h"

#include <fcntl.h>
#include <google/protobuf/util/json_util.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "client/cli/commands.h"
#include "client/cli/job_lookup.h"
#include "client/facts/communication.h"
#include "client/facts/watch/fact_watch.h"
#include "daemon/core/exit_codes.h"

namespace rollcall {
namespace {

bool WriteAnswer(const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t n = write(STDOUT_FILENO, text.data() + at, text.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += static_cast<size_t>(n);
  }
  return true;
}

std::string Json(const v1::Facts& facts) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.preserve_proto_field_names = true;
  std::string json;
  if (!google::protobuf::util::MessageToJsonString(facts, &json, options)
           .ok()) {
    return "{}\n";
  }
  return json;
}

// Keeps warnings of libraries out of the agent's log.
void SilenceStderr() {
  const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (null < 0) return;
  dup2(null, STDERR_FILENO);
  close(null);
}

}  // namespace

int RunFactsCommand(const std::vector<std::string>& arguments) {
  const absl::StatusOr<FactsCommand> command = ParseFactsArguments(arguments);
  if (!command.ok()) {
    Complain(command.status().message());
    return kExitUsage;
  }
  if (!command->json) SilenceStderr();
  if (command->watch) WatchFacts(command->options, command->json);
  v1::Facts facts = GatherDeviceFacts(command->options);
  if (!command->json) return WriteAnswer(facts.SerializeAsString()) ? 0 : 1;
  v1::Facts whole = GatherFacts(command->options.sysroot);
  AddDeviceFacts(facts, whole);
  *whole.mutable_communication() =
      CommunicationVariablesIn(PlainEnvironment(), {});
  if (WriteAnswer(Json(whole))) return 0;
  return FailToPrint(errno);
}

}  // namespace rollcall

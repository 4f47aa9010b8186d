// WorkerTemplate: a run spec for a worker, as text with placeholders such as
// <<NODE_RANK>>. The launcher fills it in for each worker and submits it.
//
// Pure; any thread.
#ifndef ROLLCALL_CLIENT_LAUNCH_SPAWN_WORKER_TEMPLATE_H_
#define ROLLCALL_CLIENT_LAUNCH_SPAWN_WORKER_TEMPLATE_H_

#include <cstddef>
#include <map>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace rollcall {

inline constexpr size_t kTemplateBytesMax = 1 << 20;

// The values of placeholders, by name: MASTER_ADDR, NODE_RANK, NUM_NODES,
// GPUS_PER_NODE, RDZV_ID and JOIN. An empty value means that it is not known.
using TemplateValues = std::map<std::string, std::string>;

// The placeholders in `text`. INVALID_ARGUMENT: a placeholder is not closed on
// its line, or has a name that TemplateValues does not list; the message names
// line and column, counted from 1.
absl::StatusOr<std::set<std::string>> PlaceholdersOf(absl::string_view text);

// `text` with values in place of placeholders. INVALID_ARGUMENT: as for
// PlaceholdersOf, or a placeholder has no value.
absl::StatusOr<std::string> RenderTemplate(absl::string_view text,
                                           const TemplateValues& values);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_SPAWN_WORKER_TEMPLATE_H_

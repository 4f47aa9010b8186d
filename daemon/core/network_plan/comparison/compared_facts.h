// Compared facts: which facts the nodes of a world should share, and the value
// that a node has of each.
//
// Pure; reads facts only.
#ifndef ROLLCALL_DAEMON_CORE_NETWORK_PLAN_COMPARISON_COMPARED_FACTS_H_
#define ROLLCALL_DAEMON_CORE_NETWORK_PLAN_COMPARISON_COMPARED_FACTS_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

struct ComparedNode {
  std::string node;
  const v1::Facts* facts;
  // Bytes, not text. Empty: unknown.
  std::string command_digest;
  // The interface that has the address its peers use. Empty: unknown.
  std::string interface;
  // The node's clock minus the daemon's. Unset: unknown.
  std::optional<absl::Duration> clock_offset;
  // The network plan's variables, which the node's ranks get unless the node
  // sets them itself. Null: unknown.
  const std::vector<v1::PlannedVariable>* plan = nullptr;
  // The job's settings, whose variables all ranks get. Null: unknown.
  const v1::JobSettings* settings = nullptr;
};

struct ComparedFact {
  // Returns a node's value. Empty: unknown, so it is not compared.
  using ValueOf = std::string (*)(const ComparedNode&);

  // If `read` is null: the name of a variable, or the path of a file.
  const char* fact;
  ValueOf read;
  // The consequence of a difference, and what to do.
  const char* advice;
  // Whether a difference can exclude a node from a strict job.
  bool strict = true;
  // More text about a node whose value differs. It is not compared.
  ValueOf detail = nullptr;

  std::string value_of(const ComparedNode& node) const;
  bool is_file() const { return read == nullptr && *fact == '/'; }
  bool is_variable() const { return read == nullptr && !is_file(); }
  // A node that differs gets no seat even in a job that is not strict.
  bool required() const;
};

// A fixed list, then the files of --same, by path, and the communication
// variables that these nodes set. The entries refer to the nodes' facts.
std::vector<ComparedFact> AllComparedFacts(
    const std::vector<ComparedNode>& nodes);

// The comparison of one fact, which must outlive it.
ComparedFact ComparedFactOf(const std::string& fact);
ComparedFact ComparedVariable(const char* name);

// The names of communication variables that these nodes set, in the order in
// which differences are looked for: those of most nodes first. The others take
// turns: the first of each node, then the second of each, and so on. So a node
// with many of its own displaces none of another node. At most
// compared_variables_max.
std::vector<const char*> ComparedVariables(
    const std::vector<ComparedNode>& nodes);

// Whether the node itself sets the variable, and whether the plan sets it for
// the node.
bool SetsVariable(const ComparedNode& node, std::string_view name);
bool PlanSetsVariable(const ComparedNode& node, std::string_view name);

// Whether the value of a file says that the node cannot use it.
bool CannotUse(std::string_view value);

// A value as it is shown: a node may have many GPU models.
std::string ShortenedValue(std::string text);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_NETWORK_PLAN_COMPARISON_COMPARED_FACTS_H_

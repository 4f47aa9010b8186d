#include "daemon/core/membership/run_credentials.h"

#include <cstdint>
#include <utility>

namespace rollcall {
namespace {

// The epochs of an adopted run continue this far above every epoch that the
// world's members know. Nodes that the lost daemon has evicted since are not in
// that world, and their credentials must stay invalid.
constexpr uint64_t kEpochsUnseen = uint64_t{1} << 32;

}  // namespace

std::string RunCredentials::Issue(Node& node, absl::Time now) const {
  if (!make_) return "";
  AgentCredential& credential = node.credential;
  credential.issued_before = std::exchange(
      credential.issued,
      {make_(run_, node.hello, epochs_.EpochOf(node.name())), now});
  return credential.issued.bytes;
}

bool RunCredentials::IsRecent(const v1::Hello& hello, const Node& node,
                              absl::Time now, const Limits& limits) {
  const auto is = [&](const IssuedCredential& issued) {
    return !issued.bytes.empty() && hello.node_credential() == issued.bytes &&
           now - issued.at < limits.credential_ttl;
  };
  return is(node.credential.issued) || is(node.credential.issued_before);
}

void RunCredentials::Adopt(const v1::World& world,
                           const v1::WorldCommit& world_commit) {
  former_run_ = std::exchange(run_, world.run());
  former_epochs_ = std::exchange(epochs_, NodeEpochs());
  for (int row = 0; row < world.members_size(); ++row) {
    const uint32_t place =
        row < world_commit.token_of_size() ? world_commit.token_of(row) : 0;
    epochs_.Set(
        world.members(row).node(), world_commit.epochs(row),
        place > 0 ? world_commit.token_ids(static_cast<int>(place) - 1) : "");
  }
  epochs_.RaiseFloor(world_commit.epoch_highest() + kEpochsUnseen);
}

void RunCredentials::Admit(const v1::Hello& hello, bool continues) {
  const std::string& name = hello.node();
  const bool by_credential = hello.has_node_credential();
  const bool former = by_credential && hello.run() != run_;
  // The agent shows no credential of an earlier incarnation of this node, so it
  // is another agent. The earlier credentials become invalid now: a restarted
  // daemon does not know which incarnation was the last, and an earlier one may
  // come back first.
  if (!continues && (!by_credential || former) && epochs_.Has(name)) {
    epochs_.Raise(name);
  }
  std::string token;
  if (!by_credential) token = hello.token().id();
  if (former) token = former_epochs_.TokenOf(name);
  epochs_.Admit(name, token);
}

void RunCredentials::Evict(const std::string& node) {
  epochs_.Raise(node);
  if (former_epochs_.Has(node)) former_epochs_.Raise(node);
}

}  // namespace rollcall

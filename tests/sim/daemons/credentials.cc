#include "tests/sim/daemons/credentials.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace rollcall::sim {

std::string CredentialOf(const std::string& run, const std::string& node,
                         uint64_t incarnation, uint64_t epoch) {
  return absl::StrCat(run, "/", node, "/", incarnation, "/", epoch);
}

std::optional<uint64_t> EpochShown(const v1::Hello& hello) {
  const uint64_t shown = hello.previous_incarnation() != 0
                             ? hello.previous_incarnation()
                             : hello.incarnation();
  const std::string& credential = hello.node_credential();
  uint64_t epoch = 0;
  const std::string text = credential.substr(credential.rfind('/') + 1);
  if (!absl::SimpleAtoi(text, &epoch) ||
      credential != CredentialOf(hello.run(), hello.node(), shown, epoch)) {
    return std::nullopt;
  }
  return epoch;
}

std::string ProofOf(const std::string& run, uint64_t generation,
                    const std::string& world, const std::string& world_commit) {
  // FNV-1a is not a secure hash, but here it is enough: different bytes have
  // different sums, and no fault forges a sum.
  uint64_t sum = 0xcbf29ce484222325;
  for (const std::string& part :
       {run, absl::StrCat("/", generation, "/"), world, world_commit}) {
    for (const char c : part) {
      sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    }
  }
  return absl::StrCat("proof-", absl::Hex(sum));
}

}  // namespace rollcall::sim

#include "daemon/security/secrets/incarnation_nonce.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "daemon/core/limits.h"

namespace rollcall {
namespace {

TEST(IncarnationNonce, IsDrawnAnew) {
  EXPECT_EQ(DrawIncarnationNonce().size(), Limits::incarnation_nonce_bytes);
  EXPECT_NE(DrawIncarnationNonce(), DrawIncarnationNonce());
}

TEST(IncarnationNonce, MakesTheIncarnationWithJobAndNode) {
  const std::string nonce(Limits::incarnation_nonce_bytes, 'n');
  // Agents and daemons of different versions must compute the same value.
  EXPECT_EQ(IncarnationOf("train", "a", nonce), 0x31a3e7409da4ce7du);
  const std::set<uint64_t> all = {
      IncarnationOf("train", "a", nonce), IncarnationOf("train", "b", nonce),
      IncarnationOf("test", "a", nonce),
      IncarnationOf("train", "a",
                    std::string(Limits::incarnation_nonce_bytes, 'm'))};
  EXPECT_EQ(all.size(), 4u);
}

}  // namespace
}  // namespace rollcall

#include "daemon/security/life_nonce.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "daemon/core/limits.h"

namespace rollcall {
namespace {

TEST(LifeNonce, IsDrawnAnew) {
  EXPECT_EQ(DrawLifeNonce().size(), Limits::life_nonce_bytes);
  EXPECT_NE(DrawLifeNonce(), DrawLifeNonce());
}

TEST(LifeNonce, MakesTheIncarnationWithJobAndNode) {
  const std::string nonce(Limits::life_nonce_bytes, 'n');
  // Agents and daemons of different versions must agree on it.
  EXPECT_EQ(IncarnationOf("train", "a", nonce), 0x31a3e7409da4ce7du);
  const std::set<uint64_t> all = {
      IncarnationOf("train", "a", nonce), IncarnationOf("train", "b", nonce),
      IncarnationOf("test", "a", nonce),
      IncarnationOf("train", "a", std::string(Limits::life_nonce_bytes, 'm'))};
  EXPECT_EQ(all.size(), 4u);
}

}  // namespace
}  // namespace rollcall

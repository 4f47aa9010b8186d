#include "daemon/security/node_credential.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "absl/strings/escaping.h"

namespace rollcall {
namespace {

const std::string kKey(32, 'k');

v1::Hello Welcomed() {
  v1::Hello hello;
  hello.set_job("train");
  hello.set_run("run1");
  hello.set_node("a");
  hello.set_incarnation(7);
  hello.set_node_credential(NodeCredential(kKey, "train", "run1", "a", 7));
  return hello;
}

TEST(NodeCredential, IsTheSameInEveryLifeOfADaemon) {
  EXPECT_EQ(absl::BytesToHexString(Welcomed().node_credential()),
            "0dda52bc752f7d450380fe47fe04679e55217935f81eb5daaeb18fa5a18334fe");
  EXPECT_TRUE(IsOwnCredential(kKey, Welcomed()));
}

TEST(NodeCredential, IsBoundToAllThatItNames) {
  const std::function<void(v1::Hello&)> changes[] = {
      [](v1::Hello& h) { h.set_job("train2"); },
      [](v1::Hello& h) { h.set_run("run2"); },
      [](v1::Hello& h) { h.clear_run(); },
      [](v1::Hello& h) { h.set_node("b"); },
      [](v1::Hello& h) { h.set_incarnation(8); },
      [](v1::Hello& h) { h.set_previous_incarnation(8); },
      [](v1::Hello& h) { h.set_launcher(true); },
      [](v1::Hello& h) { h.mutable_node_credential()->front() ^= 1; },
      [](v1::Hello& h) { h.mutable_node_credential()->back() ^= 1; },
      [](v1::Hello& h) { h.mutable_node_credential()->pop_back(); },
      [](v1::Hello& h) { h.mutable_node_credential()->push_back('x'); },
      [](v1::Hello& h) { h.set_node_credential(""); },
      [](v1::Hello& h) { h.clear_node_credential(); },
      // The same letters, cut elsewhere.
      [](v1::Hello& h) {
        h.set_job("trai");
        h.set_run("nrun1");
      },
  };
  int number = 0;
  for (const auto& change : changes) {
    v1::Hello hello = Welcomed();
    change(hello);
    EXPECT_FALSE(IsOwnCredential(kKey, hello)) << "change " << number;
    ++number;
  }
  EXPECT_FALSE(IsOwnCredential(std::string(32, 'l'), Welcomed()));
}

TEST(NodeCredential, TheLaunchersIsTheLaunchers) {
  v1::Hello hello = Welcomed();
  hello.set_launcher(true);
  hello.set_node_credential(
      NodeCredential(kKey, "train", "run1", "a", 7, true));
  EXPECT_TRUE(IsOwnCredential(kKey, hello));
  hello.set_launcher(false);
  EXPECT_FALSE(IsOwnCredential(kKey, hello));
}

TEST(NodeCredential, SpeaksForTheNextIncarnationOfItsAgent) {
  v1::Hello hello = Welcomed();
  hello.set_incarnation(8);
  hello.set_previous_incarnation(7);
  EXPECT_TRUE(IsOwnCredential(kKey, hello));
  // The one that comes is not looked at, and the one before it is.
  hello.set_incarnation(9);
  EXPECT_TRUE(IsOwnCredential(kKey, hello));
  hello.set_previous_incarnation(8);
  EXPECT_FALSE(IsOwnCredential(kKey, hello));
}

}  // namespace
}  // namespace rollcall

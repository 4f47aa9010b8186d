// How the values that a node's ranks exchange are collected. Each row is one
// script.
#include "client/agent/core/node_exchanges.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

constexpr uint64_t kGeneration = 5;

// The node has ranks 2 and 3 of a world of 4.
NodeExchanges Begun() {
  NodeExchanges exchanges;
  exchanges.Begin(kGeneration, 2, 2, 4);
  return exchanges;
}

std::string Text(const v1::ExchangeIn& in) {
  EXPECT_EQ(in.generation(), kGeneration);
  return absl::StrCat("to daemon ", in.key(), "=",
                      absl::StrJoin(in.values(), ","));
}

std::string Text(const AnswerExchange& answer) {
  const v1::ExchangeOut& out = answer.exchange;
  EXPECT_EQ(out.generation(), kGeneration);
  if (out.code() != 0) {
    return absl::StrCat("error ", out.key(), ": ", out.error());
  }
  return absl::StrCat("answer ", out.key(), "=",
                      absl::StrJoin(out.values(), ","));
}

// Carries out "rank RANK KEY VALUE" or "daemon KEY VALUE,VALUE...", and returns
// the result. Empty: no result.
std::string Carry(NodeExchanges& exchanges, const std::string& step) {
  const std::vector<std::string> words = absl::StrSplit(step, ' ');
  if (words[0] == "daemon") {
    v1::ExchangeOut out;
    out.set_generation(words[1] == "old" ? kGeneration - 1 : kGeneration);
    out.set_key(words[1]);
    if (words[2] == "refused") {
      out.set_code(static_cast<uint32_t>(absl::StatusCode::kAborted));
      out.set_error(
          "re\x1b"
          "fused");
    } else {
      for (absl::string_view value : absl::StrSplit(words[2], ',')) {
        out.add_values(std::string(value));
      }
    }
    const auto answer = exchanges.Answer(out);
    return answer.has_value() ? Text(*answer) : "";
  }
  const NodeExchanges::Outcome outcome =
      exchanges.Take({kGeneration, static_cast<uint32_t>(std::stoul(words[1])),
                      words[2], words[3]});
  if (const auto* answer = std::get_if<AnswerExchange>(&outcome)) {
    return Text(*answer);
  }
  const auto* in = std::get_if<v1::ExchangeIn>(&outcome);
  return in == nullptr ? "" : Text(*in);
}

TEST(NodeExchanges, Scripts) {
  const struct {
    const char* name;
    std::vector<std::pair<std::string, std::string>> steps;
    std::vector<std::string> repeated;
  } rows[] = {
      {"one rank's value waits for the other's",
       {{"rank 0 k a", ""}, {"rank 1 k b", "to daemon k=a,b"}},
       {"to daemon k=a,b"}},
      {"a key that is not complete is not repeated", {{"rank 0 k a", ""}}, {}},
      {"before it is sent, a value may change",
       {{"rank 0 k a", ""},
        {"rank 0 k c", ""},
        {"rank 1 k b", "to daemon k=c,b"}},
       {"to daemon k=c,b"}},
      {"a value that comes twice is sent once",
       {{"rank 0 k a", ""},
        {"rank 1 k b", "to daemon k=a,b"},
        {"rank 1 k b", ""}},
       {"to daemon k=a,b"}},
      {"the answer, and again for one that asks late",
       {{"rank 0 k a", ""},
        {"rank 1 k b", "to daemon k=a,b"},
        {"daemon k x,y,a,b", "answer k=x,y,a,b"},
        {"daemon k x,y,a,b", ""},
        {"rank 1 k b", "answer k=x,y,a,b"}},
       {"to daemon k=a,b"}},
      {"another value after the answer",
       {{"rank 0 k a", ""},
        {"rank 1 k b", "to daemon k=a,b"},
        {"daemon k x,y,a,b", "answer k=x,y,a,b"},
        {"rank 1 k z",
         "error k: key 'k' was given another value before; use a fresh key"}},
       {"to daemon k=a,b"}},
      {"a rank that the node does not have",
       {{"rank 2 k a", ""},
        {"rank 0 k a", ""},
        {"rank 1 k b", "to daemon k=a,b"},
        {"daemon k x,y,a,b", "answer k=x,y,a,b"},
        {"rank 2 k a",
         "error k: key 'k' was given another value before; use a fresh key"}},
       {"to daemon k=a,b"}},
      {"an answer that nobody waits for, and one of an older world",
       {{"daemon k x,y,a,b", ""}, {"daemon old x,y,a,b", ""}},
       {}},
      {"the daemon refuses",
       {{"rank 0 k a", ""},
        {"rank 1 k b", "to daemon k=a,b"},
        {"daemon k refused", "error k: re?fused"}},
       {}},
      {"an answer of another size",
       {{"rank 0 k a", ""},
        {"rank 1 k b", "to daemon k=a,b"},
        {"daemon k x,y,a", "error k: the answer has not one value a rank"}},
       {}},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    NodeExchanges exchanges = Begun();
    for (const auto& [step, want] : row.steps) {
      EXPECT_EQ(Carry(exchanges, step), want) << step;
    }
    std::vector<std::string> repeated;
    for (const v1::ExchangeIn& in : exchanges.ToRepeat()) {
      repeated.push_back(Text(in));
    }
    EXPECT_EQ(repeated, row.repeated);
    exchanges.End();
    EXPECT_TRUE(exchanges.ToRepeat().empty());
  }
}

TEST(NodeExchanges, OpenKeysAreBounded) {
  NodeExchanges exchanges = Begun();
  for (size_t i = 0; i < Limits::exchanges_open_max; ++i) {
    ASSERT_EQ(Carry(exchanges, absl::StrCat("rank 0 k", i, " a")), "");
  }
  EXPECT_EQ(Carry(exchanges, "rank 0 more a"),
            absl::StrCat("error more: over ", Limits::exchanges_open_max,
                         " keys are open at once"));
  // The keys that are open can still be completed.
  EXPECT_EQ(Carry(exchanges, "rank 1 k0 b"), "to daemon k0=a,b");
}

TEST(NodeExchanges, TheLatestAnswersAreKept) {
  NodeExchanges exchanges = Begun();
  for (size_t i = 0; i <= Limits::answers_kept; ++i) {
    const std::string key = absl::StrCat("k", i);
    Carry(exchanges, absl::StrCat("rank 0 ", key, " a"));
    Carry(exchanges, absl::StrCat("rank 1 ", key, " b"));
    Carry(exchanges, absl::StrCat("daemon ", key, " x,y,a,b"));
  }
  const std::vector<v1::ExchangeIn> repeated = exchanges.ToRepeat();
  ASSERT_EQ(repeated.size(), Limits::answers_kept);
  EXPECT_EQ(repeated.front().key(), "k1");
}

}  // namespace
}  // namespace rollcall

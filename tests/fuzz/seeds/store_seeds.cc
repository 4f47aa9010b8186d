// Scripts for the store: for the daemon's side, and for an agent's.
#include <string>

#include "rollcall/v1/membership.pb.h"
#include "tests/fuzz/seeds/seeds.h"

namespace rollcall {
namespace {

// A node asks for one operation that has no expected value. The node says that
// it has received all records.
Script& Ask(Script& script, int node, int operation, int kind, int key,
            const std::string& value, int delta) {
  // The bytes: node, case, link, received, below, one operation.
  script.Bytes({node, 4, 1, 1, operation, 1, operation, kind});
  script.Bytes({0, key, 1}).Text(value).Bytes({0, delta, 0});
  return script;
}

std::string Any() {
  v1::StoreIn in;
  in.set_generation(2);
  in.add_asked()->set_operation(1);
  v1::StoreOperation& what = *in.mutable_asked(0)->mutable_what();
  what.set_kind(v1::STORE_KIND_SET);
  what.set_key("k");
  what.set_value("v");
  in.add_cancelled(7);
  return in.SerializeAsString();
}

}  // namespace

void StoreScripts(Corpus& corpus) {
  Script shared;
  shared.Bytes({0});
  Ask(shared, 0, 1, 1, 0, "x", 0);  // Set by node 0.
  Ask(shared, 1, 1, 2, 0, "", 0);   // Read by node 1.
  Ask(shared, 0, 2, 5, 1, "", 3);   // Counters.
  Ask(shared, 1, 2, 5, 1, "", 3);
  Ask(shared, 2, 1, 6, 2, "y", 0);  // Compared.
  Ask(shared, 2, 2, 7, 2, "", 0);   // Removed.
  Ask(shared, 1, 3, 8, 0, "", 0);   // Counted.
  corpus.Add("store", "operations", shared.text());

  Script again = shared;
  again.Bytes({1, 0});  // Node 1 attends again.
  Ask(again, 1, 2, 5, 1, "", 3);
  again.Bytes({0, 1, 0, 0});  // The daemon was restarted.
  for (int node = 0; node < 3; ++node) again.Bytes({node, 0});
  for (int node = 0; node < 3; ++node) {
    // One record of each node; no more follow.
    again.Bytes({node, 3, 1, 1, 1, node, 5 + node, 1}).Text("x");
    again.Bytes({1, 1, 2, 9, 0, 1});
  }
  Ask(again, 0, 9, 2, 0, "", 0);
  corpus.Add("store", "restarted", again.text());

  Script any;
  any.Bytes({0, 0, 2}).Text(Any());
  corpus.Add("store", "any", any.text());

  Script agent;
  agent.Bytes({1});
  for (const int kind : {1, 2, 2, 5, 5}) {  // Asked by ranks.
    agent.Bytes({7, kind, 0, 0, 1}).Text("x").Bytes({0, 1});
  }
  // Answers to operations 1, 2 and 3. Then the stream ends, and the store
  // opens.
  agent.Bytes({4, 1, 1, 1, 1, 0, 3, 1, 0, 2, 0, 3, 0});
  agent.Bytes({0, 4, 1, 1, 0, 5, 1, 0, 0});
  corpus.Add("store", "agent", agent.text());
}

}  // namespace rollcall

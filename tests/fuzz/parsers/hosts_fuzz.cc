// A hosts file that other programs write too: any bytes, our own blocks that
// were cut or edited, and worlds whose names come from other nodes.
//
// Oracle: the text outside of the blocks stays the same, to the byte. Writing
// twice has the result of writing once. Removing restores what was there
// before. A block has the lines of its members and no other line.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/agent/hosts/hosts_text.h"
#include "tests/fuzz/feed.h"
#include "tests/fuzz/oracle.h"

namespace rollcall {
namespace {

HostsOwner Owner(int64_t pid) {
  HostsOwner owner;
  owner.pid = pid;
  owner.start_ticks = 5;
  owner.boot_id = "boot";
  owner.pid_namespace = 6;
  owner.node = "a";
  return owner;
}

v1::World ReadWorld(Feed& feed) {
  v1::World world;
  world.set_job("train");
  world.set_run("5f0c");
  world.set_generation(feed.Byte());
  world.set_one_machine(feed.Flag());
  for (uint32_t i = 0, count = feed.Pick(4); i < count; ++i) {
    v1::Member& member = *world.add_members();
    member.set_node_rank(i);
    member.set_node(feed.Flag() ? feed.String() : absl::StrCat("n", i));
    member.set_address(feed.Flag() ? feed.String() : "10.0.0.1");
  }
  return world;
}

// Which of the world's names are known. Takes two bits for each name, so that
// the script stays aligned.
HostsNames NamesOf(const v1::World& world, uint8_t bits) {
  HostsNames names;
  for (const std::string& name : NamesToAsk(world, {})) {
    switch (bits & 3) {
      case 0:
        names.answers[name] = {NameAnswer::Kind::kNotFound, {}};
        break;
      case 1:
        names.listed.insert(name);
        break;
      case 2:
        names.answers[name] = {NameAnswer::Kind::kFound, {"10.9.9.9"}};
        break;
      default:
        break;
    }
    bits = static_cast<uint8_t>(bits >> 2);
  }
  return names;
}

// A name with a dot, or a name that already has another meaning, is in no block
// unless it was listed.
void CheckNames(const HostsBlock& block, const HostsNames& names) {
  for (const std::string& name :
       NamesInBlock(FormatHosts({{block}, "", false}), block.job)) {
    if (names.listed.contains(name)) continue;
    Expect(name.find('.') == std::string::npos, "no name with a dot", name);
    const auto answer = names.answers.find(name);
    Expect(answer != names.answers.end() &&
               answer->second.kind == NameAnswer::Kind::kNotFound,
           "no name without a clear answer", name);
  }
}

// Whole blocks, as they are written or nearly so, between any other text.
std::string ReadText(Feed& feed) {
  std::string text;
  for (uint32_t parts = feed.Pick(5); parts > 0; --parts) {
    switch (feed.Pick(8)) {
      case 0:
        absl::StrAppend(&text, "# rollcall begin job=train run=", feed.Pick(2),
                        " generation=", feed.Byte(), " size=", feed.Byte(),
                        feed.Flag() ? " file=new\n" : "\n");
        break;
      case 1:
        absl::StrAppend(&text, "# rollcall owner pid=", feed.Pick(4),
                        " start=5 boot=boot pidns=6 node=a\n");
        break;
      case 2:
        absl::StrAppend(&text, "10.0.0.", feed.Byte(), " n1 node-",
                        feed.Pick(3), ".train.rollcall\n");
        break;
      case 3:
        absl::StrAppend(&text, "# rollcall end job=train run=", feed.Pick(2),
                        "\n");
        break;
      case 4:
        text += feed.Flag() ? "127.0.0.1 localhost\n" : "127.0.1.1\tN1 n0\r\n";
        break;
      default:
        text += feed.Text();
    }
  }
  return text + std::string(feed.Rest());
}

void CheckBlock(const HostsBlock& block, const v1::World& world) {
  size_t lines = 0;
  for (const absl::string_view line : absl::StrSplit(block.entries, '\n')) {
    if (line.empty()) continue;
    ++lines;
    ExpectPrintable("an entry", {line.data(), line.size()});
    Expect(std::count(line.begin(), line.end(), ' ') <= 2,
           "an entry has an address, a name and an alias",
           {line.data(), line.size()});
  }
  // A block that is newer than the world stays as it was.
  if (block.generation > world.generation()) return;
  Expect(lines <= static_cast<size_t>(world.members_size()),
         "a block has one line a member", block.entries);
}

void One(Feed& feed) {
  const v1::World world = ReadWorld(feed);
  const uint32_t node_rank = feed.Pick(4);
  const uint8_t living = feed.Byte();
  const auto lives = [living](const HostsOwner& owner) {
    return owner.pid == 1 || (owner.pid == 2 && (living & 1) != 0);
  };
  const HostsNames names = NamesOf(world, static_cast<uint8_t>(living >> 1));
  const bool created = feed.Flag();
  const std::string text = ReadText(feed);

  const HostsText before = ParseHosts(text);
  if (before.blocks.empty() && !before.damaged) {
    Expect(before.rest == text, "what is not a block is kept", text);
  }
  const std::string formatted = FormatHosts(before);
  const HostsText again = ParseHosts(formatted);
  Expect(again.rest == before.rest &&
             again.blocks.size() == before.blocks.size() && !again.damaged,
         "what was formatted parses to the same", formatted);

  const auto write = [&](const std::string& to) {
    return WriteHostsBlock(to, created, world, node_rank, "n0", names, Owner(1),
                           lives);
  };
  const HostsChange once = write(text);
  const HostsText written = ParseHosts(once.text);
  Expect(!written.damaged, "a written block is whole", once.text);
  Expect(written.rest == before.rest, "a write keeps all other bytes",
         once.text);
  Expect(!written.blocks.empty() && written.blocks[0].job == "train" &&
             written.blocks[0].generation >= world.generation(),
         "the block stands first", once.text);
  CheckBlock(written.blocks[0], world);
  if (written.blocks[0].generation == world.generation() &&
      before.blocks.empty()) {
    CheckNames(written.blocks[0], names);
  }
  Expect(write(once.text).text == once.text, "written twice is written once",
         once.text);

  const HostsChange removed =
      RemoveHostsBlock(once.text, "train", "5f0c", Owner(1),
                       [](const HostsOwner&) { return false; });
  Expect(removed.text == before.rest, "removed is as it was before",
         removed.text);
  Expect(!removed.remove_file || removed.text.empty(),
         "a file that holds anything stays", removed.text);
}

}  // namespace
}  // namespace rollcall

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  rollcall::Feed feed(data, size);
  rollcall::One(feed);
  return 0;
}

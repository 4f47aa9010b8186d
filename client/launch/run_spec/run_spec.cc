#include "client/launch/run_spec/run_spec.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/launch/run_spec/exclusive_flags.h"
#include "client/launch/run_spec/spec_environment.h"
#include "client/launch/run_spec/spec_keys.h"
#include "client/launch/spawn/hostfile.h"
#include "daemon/base/text/nearest.h"
#include "daemon/base/text/printable.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

constexpr char kCommand[] = "command";
constexpr char kEnvironment[] = "environment";
constexpr char kSpawn[] = "spawn";

// The key in the file that stands for a flag.
std::string KeyOf(const std::string& flag) {
  return flag == "--local-workers"     ? "spawn.local"
         : flag == "--host"            ? "spawn.ssh.hosts"
         : flag == "--hostfile"        ? "spawn.ssh.hostfile"
         : flag == "--worker-template" ? "spawn.template.file"
                                       : flag.substr(2);
}

bool IsPlain(const YamlNode& node) {
  return node.kind == YamlNode::Kind::kText && !node.quoted;
}

class SpecReader {
 public:
  SpecReader(const std::string& folder, const FlagCheck& check)
      : folder_(folder), check_(check) {}

  void Read(const YamlNode& root) {
    if (!ExpectMap(root, "a map of settings")) return;
    std::vector<std::string> known;
    for (const SpecKey& one : kSpecKeys) known.push_back(one.name);
    known.insert(known.end(), {kCommand, kEnvironment, kSpawn});
    ForEach(root, "", known,
            [this](const std::string& key, const YamlNode& at) {
              if (key == kCommand) return Command(at);
              if (key == kEnvironment) return Environment(at);
              if (key == kSpawn) return Spawn(at);
              for (const SpecKey& one : kSpecKeys) {
                if (key == one.name) return Setting(one, at);
              }
            });
    CheckTogether();
  }

  RunSpec spec;
  std::vector<YamlError> errors;

 private:
  void Add(const TextPlace& place, std::string what) {
    errors.push_back({place, std::move(what)});
  }

  void Expected(const YamlNode& node, absl::string_view key,
                absl::string_view expected) {
    Add(node.place, absl::StrCat(key, key.empty() ? "" : ": ", "expected ",
                                 expected, ", found ", DescribeYaml(node)));
  }

  bool ExpectMap(const YamlNode& node, absl::string_view expected,
                 absl::string_view key = "") {
    if (node.kind == YamlNode::Kind::kMap) return true;
    Expected(node, key, expected);
    return false;
  }

  // Whether `node` is a text that is not empty. A number is a text too.
  bool ExpectText(const YamlNode& node, absl::string_view key,
                  absl::string_view expected) {
    if (node.kind == YamlNode::Kind::kText && !node.text.empty()) return true;
    Expected(node, key, expected);
    return false;
  }

  bool ExpectList(const YamlNode& node, absl::string_view key,
                  absl::string_view expected) {
    if (node.kind == YamlNode::Kind::kList && !node.children.empty()) {
      return true;
    }
    Expected(node, key, expected);
    return false;
  }

  // Calls `take` for each known key. `in`: the key whose value is this map.
  template <typename Take>
  void ForEach(const YamlNode& map, const std::string& in,
               const std::vector<std::string>& known, const Take& take) {
    std::map<std::string, size_t> lines;
    for (size_t i = 0; i < map.keys.size(); ++i) {
      const YamlNode& key = map.keys[i];
      const std::string prefix = in.empty() ? "" : in + ": ";
      if (key.kind != YamlNode::Kind::kText) {
        Expected(key, in, "a key");
        continue;
      }
      const auto [line, first] = lines.emplace(key.text, key.place.line);
      if (!first) {
        Add(key.place, absl::StrCat(prefix, "expected each key once, found ",
                                    DescribeYaml(key), " again; it is in line ",
                                    line->second));
        continue;
      }
      if (std::find(known.begin(), known.end(), key.text) != known.end()) {
        take(key.text, map.children[i]);
        continue;
      }
      const auto nearest = Nearest(Printable(key.text, 60), known);
      Add(key.place,
          absl::StrCat(
              prefix, "expected a key of a run spec, found ", DescribeYaml(key),
              nearest ? absl::StrCat("; did you mean ", *nearest, "?")
              : in.empty()
                  ? "; client/README.md lists them"
                  : absl::StrCat("; known are ", absl::StrJoin(known, ", "))));
    }
  }

  void AddFlag(const std::string& flag, std::string value,
               const TextPlace& place) {
    spec.flags.push_back({flag, std::move(value), place});
  }

  // A path on this machine; a relative path begins in the file's folder.
  std::string Path(const std::string& path) const {
    return absl::StartsWith(path, "/") ? path
                                       : absl::StrCat(folder_, "/", path);
  }

  // Refuses a shell's ~ and URLs: as paths they would become folders of that
  // name.
  bool ExpectPath(const YamlNode& node, const std::string& key) {
    if (!ExpectText(node, key, "a path")) return false;
    if (!absl::StartsWith(node.text, "~") &&
        !absl::StrContains(node.text, "://")) {
      return true;
    }
    Expected(node, key,
             "a path of this machine, from / or from this file's folder");
    return false;
  }

  // `key` is for messages. The flag's own check validates the value.
  void Value(const std::string& key, const std::string& flag,
             const YamlNode& node) {
    if (!ExpectText(node, key, "a value")) return;
    Word(key, flag, node.text, node.place);
  }

  void Word(const std::string& key, const std::string& flag,
            const std::string& value, const TextPlace& place) {
    if (absl::Status good = check_(flag, value); !good.ok()) {
      const std::string named =
          absl::StrReplaceAll(good.message(), {{flag, key}});
      Add(place, absl::StartsWith(named, key) ? named
                                              : absl::StrCat(key, ": ", named));
      return;
    }
    AddFlag(flag, value, place);
  }

  void Switch(const std::string& key, const std::string& flag,
              const YamlNode& node) {
    const bool yes = IsPlain(node) && node.text == "true";
    if (!yes && !(IsPlain(node) && node.text == "false")) {
      Expected(node, key, "true or false");
    } else if (yes) {
      AddFlag(flag, "true", node.place);
    }
  }

  void Setting(const SpecKey& key, const YamlNode& node) {
    const std::string flag = absl::StrCat("--", key.name);
    switch (key.form) {
      case SpecForm::kValue:
        return Value(key.name, flag, node);
      case SpecForm::kSwitch:
        return Switch(key.name, flag, node);
      case SpecForm::kPath:
      case SpecForm::kInput:
        if (!ExpectPath(node, key.name)) return;
        return AddFlag(flag,
                       key.form == SpecForm::kInput && node.text == "-"
                           ? "-"
                           : Path(node.text),
                       node.place);
      case SpecForm::kPathList:
        if (!ExpectList(node, key.name, "a list of paths")) return;
        for (const YamlNode& path : node.children) {
          if (!ExpectPath(path, key.name)) continue;
          AddFlag(flag, Path(path.text), path.place);
        }
        return;
      case SpecForm::kNameList:
        return Names(key.name, flag, node);
      case SpecForm::kMap:
        return Variables(key.name, flag, node);
    }
  }

  void Names(const std::string& key, const std::string& flag,
             const YamlNode& node) {
    if (!ExpectList(node, key, "a list of names")) return;
    std::vector<std::string> names;
    for (const YamlNode& name : node.children) {
      if (!ExpectText(name, key, "a name")) continue;
      absl::Status good = absl::StrContains(name.text, ',')
                              ? absl::InvalidArgumentError("a ',' in a name")
                              : check_(flag, name.text);
      if (!good.ok()) {
        Expected(name, key, "a host name");
        continue;
      }
      names.push_back(name.text);
    }
    if (!names.empty()) AddFlag(flag, absl::StrJoin(names, ","), node.place);
  }

  // A name without a value is for the launcher's own value.
  void Variables(const std::string& key, const std::string& flag,
                 const YamlNode& node) {
    if (!ExpectMap(node, "a map of names and values", key)) return;
    std::vector<std::string> known;
    for (const YamlNode& name : node.keys) known.push_back(name.text);
    ForEach(
        node, key, known,
        [this, &key, &flag](const std::string& name, const YamlNode& value) {
          const bool own = value.kind == YamlNode::Kind::kNull;
          if (!own && value.kind != YamlNode::Kind::kText) {
            return Expected(value, absl::StrCat(key, ": ", name),
                            "a value (none: the launcher's own)");
          }
          Word(key, flag, own ? name : absl::StrCat(name, "=", value.text),
               value.place);
        });
  }

  // A list is the argv; a text is run by a shell.
  void Command(const YamlNode& node) {
    if (node.kind == YamlNode::Kind::kText && !node.text.empty()) {
      spec.command = {"/bin/sh", "-c", node.text};
      return;
    }
    if (!ExpectList(node, kCommand, "a list of words, or a text for /bin/sh")) {
      return;
    }
    for (const YamlNode& word : node.children) {
      // An argument may be empty.
      if (word.kind != YamlNode::Kind::kText) {
        Expected(word, kCommand, "a word");
      } else {
        spec.command.push_back(word.text);
      }
    }
    if (!spec.command.empty() && spec.command.front().empty()) {
      Expected(node.children.front(), kCommand, "a program");
    }
  }

  void Environment(const YamlNode& node) {
    if (!ExpectMap(node, "a map of names and values", kEnvironment)) return;
    environment_place_ = node.place;
    std::vector<std::string> known;
    for (const YamlNode& key : node.keys) known.push_back(key.text);
    for (const YamlNode& key : node.keys) {
      if (key.kind != YamlNode::Kind::kText) continue;
      absl::Status good = CheckSpecVariable(key.text);
      if (!good.ok()) {
        Add(key.place, absl::StrCat(kEnvironment, ": ", good.message()));
      }
    }
    ForEach(node, kEnvironment, known,
            [this](const std::string& name, const YamlNode& value) {
              if (value.kind == YamlNode::Kind::kText) {
                spec.environment.push_back(absl::StrCat(name, "=", value.text));
              } else {
                Expected(value, absl::StrCat(kEnvironment, ": ", name),
                         "a value (\"\" is an empty one)");
              }
            });
  }

  void Spawn(const YamlNode& node) {
    const std::string expected = "one of local, ssh and template";
    if (!ExpectMap(node, expected, kSpawn)) return;
    if (node.keys.size() != 1) {
      Add(node.place, absl::StrCat(kSpawn, ": expected ", expected, ", found ",
                                   node.keys.size(), " keys"));
    }
    ForEach(node, kSpawn, {"local", "ssh", "template"},
            [this](const std::string& key, const YamlNode& at) {
              if (key == "local") {
                Value("spawn.local", "--local-workers", at);
              } else if (key == "ssh") {
                Ssh(at);
              } else {
                Template(at);
              }
            });
  }

  void Ssh(const YamlNode& node) {
    const std::string in = "spawn.ssh";
    if (!ExpectMap(node, "a map with hosts or hostfile", in)) return;
    bool hosts = false;
    ForEach(node, in, {"hosts", "hostfile", "command", "push"},
            [this, &in, &hosts](const std::string& key, const YamlNode& at) {
              const std::string name = absl::StrCat(in, ".", key);
              if (key == "push") return Switch(name, "--push", at);
              if (key == "hosts") {
                hosts = true;
                return Hosts(name, at);
              }
              hosts = hosts || key == "hostfile";
              const bool file = key == "hostfile";
              if (!ExpectText(at, name, file ? "a path" : "a command")) return;
              AddFlag(file ? "--hostfile" : "--ssh",
                      file ? Path(at.text) : at.text, at.place);
            });
    if (!hosts) {
      Add(node.place, absl::StrCat(in,
                                   ": expected hosts or hostfile, found "
                                   "neither"));
    }
  }

  // Each entry is a line of a hostfile.
  void Hosts(const std::string& key, const YamlNode& node) {
    if (!ExpectList(node, key, "a list of hosts")) return;
    if (node.children.size() > Limits::nodes_max) {
      Add(node.place,
          absl::StrCat(key, ": expected at most ", Limits::nodes_max,
                       " hosts, found ", node.children.size()));
      return;
    }
    std::map<std::string, size_t> lines;
    for (const YamlNode& entry : node.children) {
      if (!ExpectText(entry, key, "`[USER@]HOST [slots=N] [name=NODE]`")) {
        continue;
      }
      if (entry.text.find_first_of("\n#") != std::string::npos) {
        Expected(entry, key, "one host");
        continue;
      }
      const auto hosts = ParseHostfile(entry.text);
      if (!hosts.ok()) {
        Add(entry.place,
            absl::StrCat(key, ": ",
                         absl::StrReplaceAll(hosts.status().message(),
                                             {{"line 1: ", ""}})));
        continue;
      }
      const auto [line, first] =
          lines.emplace(hosts->front().name, entry.place.line);
      if (!first) {
        Add(entry.place,
            absl::StrCat(key, ": expected each host once, found ", line->first,
                         " again; it is in line ", line->second));
      }
      AddFlag("--host", entry.text, entry.place);
    }
  }

  void Template(const YamlNode& node) {
    const std::string in = "spawn.template";
    if (!ExpectMap(node, "a map with file and submit", in)) return;
    std::set<std::string> found;
    ForEach(node, in, {"file", "submit"},
            [this, &in, &found](const std::string& key, const YamlNode& at) {
              found.insert(key);
              const bool file = key == "file";
              const std::string name = absl::StrCat(in, ".", key);
              if (file ? !ExpectPath(at, name)
                       : !ExpectText(at, name, "a command")) {
                return;
              }
              AddFlag(file ? "--worker-template" : "--submit",
                      file ? Path(at.text) : at.text, at.place);
            });
    for (const char* key : {"file", "submit"}) {
      if (found.contains(key)) continue;
      Add(node.place,
          absl::StrCat(in, ": expected the key ", key, ", found none"));
    }
  }

  // Checks for keys that contradict each other.
  void CheckTogether() {
    // Only the first flag of each name is kept: there may be thousands of
    // hosts.
    std::map<std::string, TextPlace> before;
    for (const SpecFlag& one : spec.flags) {
      if (!before.emplace(one.name, one.place).second) continue;
      for (const auto& [name, place] : before) {
        if (!ExcludesFlag(one.name, name)) continue;
        Add(one.place,
            absl::StrCat("expected either ", KeyOf(name), " or ",
                         KeyOf(one.name), ", found both; the other is in line ",
                         place.line));
        break;
      }
      if (one.name == "--worker-template" && environment_place_) {
        Add(*environment_place_,
            "environment: expected none with spawn.template, found one; "
            "workers "
            "get the environment of their template, so put it there");
      }
    }
  }

  const std::string& folder_;
  const FlagCheck& check_;
  std::optional<TextPlace> environment_place_;
};

bool Before(const YamlError& a, const YamlError& b) {
  return std::pair(a.place.line, a.place.column) <
         std::pair(b.place.line, b.place.column);
}

absl::Status Failed(const std::string& file, std::vector<YamlError> errors) {
  std::stable_sort(errors.begin(), errors.end(), Before);
  const size_t all = errors.size();
  errors.resize(std::min(all, kYamlErrorsMax));
  std::string text = absl::StrJoin(
      errors, "\n", [&file](std::string* to, const YamlError& error) {
        absl::StrAppend(to, file, ":", error.place.line, ":",
                        error.place.column, ": ", error.what);
      });
  if (all > kYamlErrorsMax) {
    absl::StrAppend(&text, "\n", file, ": and ", all - kYamlErrorsMax, " more");
  }
  return absl::InvalidArgumentError(text);
}

}  // namespace

absl::StatusOr<RunSpec> ParseRunSpec(absl::string_view text,
                                     const std::string& file,
                                     const std::string& folder,
                                     const FlagCheck& check) {
  YamlTree tree = ParseYaml(text);
  if (!tree.errors.empty()) return Failed(file, std::move(tree.errors));
  SpecReader reader(folder, check);
  reader.Read(tree.root);
  if (!reader.errors.empty()) return Failed(file, std::move(reader.errors));
  return std::move(reader.spec);
}

}  // namespace rollcall

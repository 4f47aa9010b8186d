#include "tests/facts/sysfs_tree.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <vector>

namespace rollcall {
namespace {

namespace fs = std::filesystem;
using Words = std::map<std::string, std::string>;

class Tree {
 public:
  explicit Tree(const std::string& root) : root_(root) {}

  bool Line(const std::string& line) {
    std::istringstream words(line);
    std::string kind;
    if (!(words >> kind) || kind[0] == '#') return true;
    std::vector<std::string> plain;
    Words named;
    for (std::string word; words >> word;) {
      const size_t at = word.find('=');
      if (at == std::string::npos) {
        plain.push_back(word);
      } else {
        named[word.substr(0, at)] = word.substr(at + 1);
      }
    }
    if (kind == "hca" && plain.size() == 1) return Hca(plain[0], named);
    if (kind == "port" && plain.size() == 2) return Port(plain, named);
    if (kind == "gid" && plain.size() >= 4) return Gid(plain);
    if (kind == "net" && plain.size() == 2) return Net(plain, named);
    if (kind == "gpu" && plain.size() == 1) return Gpu(plain[0], named);
    return false;
  }

 private:
  static std::string Blanks(std::string text) {
    std::replace(text.begin(), text.end(), '_', ' ');
    return text;
  }

  bool File(const fs::path& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream file(root_ / path);
    file << text << "\n";
    return file.good();
  }

  // `target` is a path below the root. The link is relative, as in sysfs.
  bool Link(const fs::path& link, const fs::path& target) {
    const fs::path folder = (root_ / link).parent_path();
    fs::create_directories(folder);
    fs::create_directories(root_ / target);
    std::error_code failed;
    fs::create_symlink(fs::relative(root_ / target, folder), root_ / link,
                       failed);
    return !failed;
  }

  static fs::path PciFolder(const std::string& path) {
    const std::string bus = path.substr(0, 7);
    return fs::path("sys/devices/pci" + bus) / path;
  }

  bool Hca(const std::string& name, Words& named) {
    const bool virtual_device = named["pci"].empty();
    const fs::path hardware = PciFolder(named["pci"]);
    const fs::path device =
        (virtual_device ? fs::path("sys/devices/virtual") : hardware) /
        "infiniband" / name;
    hcas_[name] = device;
    bool good = File(device / "fw_ver", named["fw"]) &&
                Link("sys/class/infiniband/" + name, device);
    if (virtual_device) {
      good = good && File(device / "parent", named["parent"]);
    } else {
      good =
          good && Link(device / "device", hardware) &&
          File(hardware / "numa_node", named["numa"]) &&
          Link(hardware / "driver", "sys/bus/pci/drivers/" + named["driver"]);
    }
    if (!named.contains("uverbs")) return good;
    const std::string uverbs = "uverbs" + named["uverbs"];
    return good &&
           File("sys/class/infiniband_verbs/" + uverbs + "/ibdev", name) &&
           File("dev/infiniband/" + uverbs, "");
  }

  bool Port(const std::vector<std::string>& plain, Words& named) {
    const fs::path port = hcas_[plain[0]] / "ports" / plain[1];
    return File(port / "state", Blanks(named["state"])) &&
           File(port / "phys_state", Blanks(named["phys"])) &&
           File(port / "link_layer", named["layer"]) &&
           File(port / "rate", Blanks(named["rate"])) &&
           File(port / "lid", named["lid"]) &&
           File(port / "sm_lid", named["sm"]);
  }

  bool Gid(const std::vector<std::string>& plain) {
    const fs::path port = hcas_[plain[0]] / "ports" / plain[1];
    const std::string& index = plain[2];
    return File(port / "gids" / index, plain[3]) &&
           (plain.size() < 5 ||
            File(port / "gid_attrs/types" / index, Blanks(plain[4]))) &&
           (plain.size() < 6 ||
            File(port / "gid_attrs/ndevs" / index, plain[5]));
  }

  bool Net(const std::vector<std::string>& plain, Words& named) {
    const fs::path net = hcas_[plain[0]] / "device/net" / plain[1];
    return File(net / "type", named["type"]) &&
           File(net / "dev_port", named["dev_port"]) &&
           File(net / "dev_id", "0x0");
  }

  bool Gpu(const std::string& address, Words& named) {
    const fs::path hardware = PciFolder(named["pci"]);
    return File(hardware / "numa_node", named["numa"]) &&
           Link("sys/bus/pci/devices/" + address, hardware) &&
           File("proc/driver/nvidia/gpus/" + address + "/information", "");
  }

  const fs::path root_;
  std::map<std::string, fs::path> hcas_;
};

}  // namespace

bool MakeSysfsTree(const std::string& text, const std::string& root) {
  Tree tree(root);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!tree.Line(line)) return false;
  }
  return true;
}

}  // namespace rollcall

#include "client/facts/devices/verbs.h"

#include <infiniband/verbs.h>
#include <net/if.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/facts/devices/infiniband.h"
#include "client/facts/system/missing.h"
#include "daemon/base/library.h"
#include "daemon/core/admission/admission.h"

namespace rollcall {
namespace {

using Why = Unusable::Why;

constexpr int kDevicesListedMax = FactsLimits::devices_max;
// Devices that ranks use have fewer ports; only representors of a switch have
// more.
constexpr int kPortsOfDeviceMax = 16;
constexpr size_t kGidEntriesMax = 4096;
// The amount of memory that is registered to test the limit on locked memory:
// about what one NCCL connection needs.
constexpr size_t kLockedBytes = 16 << 20;

// The functions of libibverbs, as its header declares them; null: the library
// lacks the symbol. The header's ibv_query_port and ibv_query_gid_ex are inline
// functions that call query_port and query_gid_ex below.
struct VerbsFunctions {
  ibv_device** (*get_device_list)(int*) = nullptr;
  void (*free_device_list)(ibv_device**) = nullptr;
  const char* (*get_device_name)(ibv_device*) = nullptr;
  ibv_context* (*open_device)(ibv_device*) = nullptr;
  int (*close_device)(ibv_context*) = nullptr;
  int (*query_device)(ibv_context*, ibv_device_attr*) = nullptr;
  int (*query_port)(ibv_context*, uint8_t, ibv_port_attr*) = nullptr;
  ssize_t (*query_gid_table)(ibv_context*, ibv_gid_entry*, size_t, uint32_t,
                             size_t) = nullptr;
  int (*query_gid_ex)(ibv_context*, uint32_t, uint32_t, ibv_gid_entry*,
                      uint32_t, size_t) = nullptr;
  ibv_pd* (*alloc_pd)(ibv_context*) = nullptr;
  int (*dealloc_pd)(ibv_pd*) = nullptr;
  ibv_mr* (*reg_mr)(ibv_pd*, void*, size_t, int) = nullptr;
  int (*dereg_mr)(ibv_mr*) = nullptr;
};

VerbsFunctions LookUp(const Library& library) {
  VerbsFunctions f;
  library.Find("ibv_get_device_list", &f.get_device_list).IgnoreError();
  library.Find("ibv_free_device_list", &f.free_device_list).IgnoreError();
  library.Find("ibv_get_device_name", &f.get_device_name).IgnoreError();
  library.Find("ibv_open_device", &f.open_device).IgnoreError();
  library.Find("ibv_close_device", &f.close_device).IgnoreError();
  library.Find("ibv_query_device", &f.query_device).IgnoreError();
  library.Find("ibv_query_port", &f.query_port).IgnoreError();
  library.Find("_ibv_query_gid_table", &f.query_gid_table).IgnoreError();
  library.Find("_ibv_query_gid_ex", &f.query_gid_ex).IgnoreError();
  library.Find("ibv_alloc_pd", &f.alloc_pd).IgnoreError();
  library.Find("ibv_dealloc_pd", &f.dealloc_pd).IgnoreError();
  library.Find("ibv_reg_mr", &f.reg_mr).IgnoreError();
  library.Find("ibv_dereg_mr", &f.dereg_mr).IgnoreError();
  return f;
}

Unusable Lacks(absl::string_view library, absl::string_view symbol) {
  return {Why::kNoSymbol, absl::StrCat(library, " lacks the symbol ", symbol)};
}

// Does what the header's inline ibv_query_port does: a newer provider fills in
// more fields.
int QueryPort(const VerbsFunctions& f, ibv_context* context, uint8_t number,
              ibv_port_attr* attributes) {
  std::memset(attributes, 0, sizeof(*attributes));
  if (verbs_context* extended = verbs_get_ctx_op(context, query_port)) {
    return extended->query_port(context, number, attributes,
                                sizeof(*attributes));
  }
  if (f.query_port == nullptr) return ENOSYS;
  return f.query_port(context, number, attributes);
}

bool CanQueryPorts(const VerbsFunctions& f, ibv_context* context) {
  return f.query_port != nullptr ||
         verbs_get_ctx_op(context, query_port) != nullptr;
}

std::optional<v1::Gid> FromEntry(const ibv_gid_entry& entry) {
  if (entry.gid.global.interface_id == 0) return std::nullopt;
  v1::Gid gid;
  gid.set_index(entry.gid_index);
  gid.set_type(entry.gid_type == IBV_GID_TYPE_IB        ? "IB"
               : entry.gid_type == IBV_GID_TYPE_ROCE_V1 ? "RoCE v1"
               : entry.gid_type == IBV_GID_TYPE_ROCE_V2 ? "RoCE v2"
                                                        : "");
  gid.set_address(GidTextOfBytes(entry.gid.raw));
  char name[IF_NAMESIZE] = "";
  // An interface in another network namespace has no name in this one.
  if (entry.ndev_ifindex != 0 &&
      if_indextoname(entry.ndev_ifindex, name) != nullptr) {
    gid.set_net_device(PlainText(name, IF_NAMESIZE - 1));
  }
  return gid;
}

void AddGid(const ibv_gid_entry& entry, v1::InfinibandPort& port) {
  if (port.gids_size() >= static_cast<int>(FactsLimits::devices_max)) return;
  if (auto gid = FromEntry(entry)) *port.add_gids() = *std::move(gid);
}

// Queries all GIDs that are set, in one call or one by one; none if libibverbs
// has neither function.
void QueryGids(const VerbsFunctions& f, ibv_context* context,
               const std::vector<int>& table_sizes, VerbsDevice& device) {
  size_t entries_max = 0;
  for (const int size : table_sizes) entries_max += std::max(size, 0);
  entries_max = std::min(entries_max, kGidEntriesMax);
  if (f.query_gid_table != nullptr) {
    std::vector<ibv_gid_entry> entries(entries_max);
    const ssize_t count = f.query_gid_table(
        context, entries.data(), entries.size(), 0, sizeof(ibv_gid_entry));
    if (count >= 0 && static_cast<size_t>(count) <= entries.size()) {
      for (ssize_t i = 0; i < count; ++i) {
        for (v1::InfinibandPort& port : device.ports) {
          if (port.port() == entries[i].port_num) AddGid(entries[i], port);
        }
      }
      return;
    }
  }
  if (f.query_gid_ex == nullptr) return;
  for (size_t i = 0; i < device.ports.size(); ++i) {
    const uint32_t size =
        std::clamp<int>(table_sizes[i], 0, FactsLimits::devices_max);
    for (uint32_t index = 0; index < size; ++index) {
      ibv_gid_entry entry{};
      const int error = f.query_gid_ex(context, device.ports[i].port(), index,
                                       &entry, 0, sizeof(entry));
      // ENODATA: the entry is not set.
      if (error == 0) AddGid(entry, device.ports[i]);
      if (error != 0 && error != ENODATA) {
        for (v1::InfinibandPort& port : device.ports) port.clear_gids();
        return;
      }
    }
  }
}

void FillPort(const ibv_port_attr& attributes, v1::InfinibandPort& port) {
  port.set_state(VerbsState(attributes.state));
  port.set_phys_state(VerbsPhysicalState(attributes.phys_state));
  // Providers older than RoCE leave the link layer unspecified, so it is
  // unknown.
  if (attributes.link_layer == IBV_LINK_LAYER_INFINIBAND) {
    port.set_link_layer("InfiniBand");
    port.set_lid(attributes.lid);
    port.set_sm_lid(attributes.sm_lid);
  } else if (attributes.link_layer == IBV_LINK_LAYER_ETHERNET) {
    port.set_link_layer("Ethernet");
  }
  port.set_active_mtu(VerbsMtuBytes(attributes.active_mtu));
  port.set_rate_gbps(
      VerbsRateGbps(attributes.active_width, attributes.active_speed));
}

uint64_t MemlockBytes() {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return UINT64_MAX;
  return limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur;
}

// Registers memory as a training run would. The limit alone does not tell
// whether that works, because for root it depends on capabilities.
Unusable TryMemlock(const VerbsFunctions& f, ibv_context* context) {
  const uint64_t limit = MemlockBytes();
  if (limit == UINT64_MAX || f.alloc_pd == nullptr || f.reg_mr == nullptr) {
    return {};
  }
  ibv_pd* domain = f.alloc_pd(context);
  if (domain == nullptr) return {};
  void* memory = mmap(nullptr, kLockedBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  Unusable unusable;
  if (memory != MAP_FAILED) {
    ibv_mr* region =
        f.reg_mr(domain, memory, kLockedBytes, IBV_ACCESS_LOCAL_WRITE);
    const int error = errno;
    if (region == nullptr && (error == ENOMEM || error == EAGAIN)) {
      unusable = {Why::kMemlock,
                  absl::StrCat("ibv_reg_mr of ", kLockedBytes >> 20,
                               " MiB: ", std::strerror(error),
                               "; the limit on locked memory is ", limit >> 10,
                               " KiB")};
    }
    if (region != nullptr && f.dereg_mr != nullptr) f.dereg_mr(region);
    munmap(memory, kLockedBytes);
  }
  if (f.dealloc_pd != nullptr) f.dealloc_pd(domain);
  return unusable;
}

// Queries the ports of an open device. Not kUsable: a query failed.
Unusable QueryPorts(const VerbsFunctions& f, ibv_context* context,
                    VerbsDevice& device) {
  ibv_device_attr attributes{};
  int count = 0;
  std::string firmware;
  if (f.query_device != nullptr && f.query_device(context, &attributes) == 0) {
    count = attributes.phys_port_cnt;
    firmware = PlainText(absl::string_view(
        attributes.fw_ver,
        strnlen(attributes.fw_ver, sizeof(attributes.fw_ver))));
  }
  const bool known = count > 0;
  count = std::min(known ? count : kPortsOfDeviceMax, kPortsOfDeviceMax);
  std::vector<int> table_sizes;
  for (int number = 1; number <= count; ++number) {
    ibv_port_attr port_attributes;
    const int error =
        QueryPort(f, context, static_cast<uint8_t>(number), &port_attributes);
    // Without ibv_query_device the number of ports is unknown, so the first
    // query that fails ends the list.
    if (error != 0 && !known && number > 1) break;
    if (error != 0) {
      return {Why::kOther, absl::StrCat("ibv_query_port of port ", number, ": ",
                                        std::strerror(error))};
    }
    v1::InfinibandPort port;
    port.set_device(device.name);
    port.set_port(static_cast<uint32_t>(number));
    port.set_firmware(firmware);
    FillPort(port_attributes, port);
    device.ports.push_back(std::move(port));
    table_sizes.push_back(port_attributes.gid_tbl_len);
  }
  QueryGids(f, context, table_sizes, device);
  return {};
}

std::string DeviceName(const VerbsFunctions& f, ibv_device* device) {
  const char* name =
      f.get_device_name != nullptr ? f.get_device_name(device) : device->name;
  if (name == nullptr) return "";
  return PlainText(absl::string_view(name, strnlen(name, IBV_SYSFS_NAME_MAX)));
}

// `memlock`: the result of TryMemlock on the first device that opened.
void AskDevice(const VerbsFunctions& f, const std::string& library,
               ibv_device* handle, std::optional<Unusable>& memlock,
               VerbsDevice& device) {
  if (f.open_device == nullptr) {
    device.unusable = Lacks(library, "ibv_open_device");
    return;
  }
  errno = 0;
  ibv_context* context = f.open_device(handle);
  if (context == nullptr) {
    device.unusable = OpenFailure(errno, MemlockBytes());
    return;
  }
  if (!CanQueryPorts(f, context)) {
    device.unusable = Lacks(library, "ibv_query_port");
  } else {
    device.unusable = QueryPorts(f, context, device);
  }
  if (device.unusable.why == Why::kUsable) {
    if (!memlock.has_value()) memlock = TryMemlock(f, context);
    device.unusable = *memlock;
  }
  if (f.close_device != nullptr) f.close_device(context);
}

}  // namespace

VerbsAnswer AskVerbs(
    const std::string& library_name,
    const std::function<void(const VerbsAnswer& so_far,
                             absl::string_view device)>& before,
    const std::function<Unusable(const std::string& device)>& why_not_opened) {
  VerbsAnswer answer;
  before(answer, "");
  const absl::StatusOr<Library> library = Library::Open({library_name});
  if (!library.ok()) {
    answer.failure = {Why::kNoLibrary,
                      absl::StrCat("libibverbs cannot be opened: ",
                                   library.status().message())};
    return answer;
  }
  const VerbsFunctions f = LookUp(*library);
  if (f.get_device_list == nullptr) {
    answer.failure = Lacks(library_name, "ibv_get_device_list");
    return answer;
  }
  int count = 0;
  errno = 0;
  ibv_device** list = f.get_device_list(&count);
  if (list == nullptr) {
    const int error = errno;
    answer.failure = {
        error == ENOSYS ? Why::kNoKernel : Why::kOther,
        absl::StrCat("ibv_get_device_list: ",
                     error == ENOSYS
                         ? "this kernel has no RDMA for processes (ENOSYS)"
                         : std::strerror(error))};
    return answer;
  }
  std::optional<Unusable> memlock;
  for (int i = 0; i < std::min(count, kDevicesListedMax); ++i) {
    if (list[i] == nullptr) break;
    VerbsDevice device;
    device.name = DeviceName(f, list[i]);
    before(answer, device.name);
    device.unusable = why_not_opened(device.name);
    if (device.unusable.why == Why::kUsable) {
      AskDevice(f, library_name, list[i], memlock, device);
    }
    answer.devices.push_back(std::move(device));
  }
  if (f.free_device_list != nullptr) f.free_device_list(list);
  return answer;
}

std::string VerbsState(int state) {
  switch (state) {
    case IBV_PORT_NOP:
      return "NOP";
    case IBV_PORT_DOWN:
      return "DOWN";
    case IBV_PORT_INIT:
      return "INIT";
    case IBV_PORT_ARMED:
      return "ARMED";
    case IBV_PORT_ACTIVE:
      return "ACTIVE";
    case IBV_PORT_ACTIVE_DEFER:
      return "ACTIVE_DEFER";
    default:
      return "";
  }
}

// The names of phys_state_show in the kernel's drivers/infiniband/core/sysfs.c.
std::string VerbsPhysicalState(uint8_t state) {
  switch (state) {
    case 1:
      return "Sleep";
    case 2:
      return "Polling";
    case 3:
      return "Disabled";
    case 4:
      return "PortConfigurationTraining";
    case 5:
      return "LinkUp";
    case 6:
      return "LinkErrorRecovery";
    case 7:
      return "Phy Test";
    default:
      return "";
  }
}

// The rates of rate_show in the same file, for ib_port_width and ib_port_speed
// of rdma/ib_verbs.h.
uint32_t VerbsRateGbps(uint8_t width, uint8_t speed) {
  const auto lanes = [&]() -> uint32_t {
    switch (width) {
      case 1:
        return 1;
      case 2:
        return 4;
      case 4:
        return 8;
      case 8:
        return 12;
      case 16:
        return 2;
      default:
        return 0;
    }
  }();
  const auto tenths = [&]() -> uint32_t {
    switch (speed) {
      case 1:  // SDR
        return 25;
      case 2:  // DDR
        return 50;
      case 4:  // QDR
      case 8:  // FDR10
        return 100;
      case 16:  // FDR
        return 140;
      case 32:  // EDR
        return 250;
      case 64:  // HDR
        return 500;
      case 128:  // NDR
        return 1000;
      default:  // XDR does not fit into eight bits.
        return 0;
    }
  }();
  return lanes * tenths / 10;
}

uint32_t VerbsMtuBytes(int mtu) {
  return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128u << mtu : 0;
}

Unusable OpenFailure(int error, uint64_t memlock_bytes) {
  const std::string text =
      absl::StrCat("ibv_open_device: ",
                   error == 0 ? "no errno was set" : std::strerror(error));
  if (error == EACCES || error == EPERM) return {Why::kNotPermitted, text};
  // If there is no limit, the memory is short for another reason.
  if ((error == ENOMEM || error == EAGAIN) && memlock_bytes != UINT64_MAX) {
    return {Why::kMemlock,
            absl::StrCat(text, "; the limit on locked memory is ",
                         memlock_bytes >> 10, " KiB")};
  }
  return {Why::kOther, text};
}

}  // namespace rollcall

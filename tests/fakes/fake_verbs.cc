// A fake libibverbs.so.1 with 8 HCAs for machines without one. It has the
// functions that client/facts uses. FAKE_VERBS (see fate.h) sets which calls
// fail, and:
//   devices=N      the number of HCAs (default 8)
//   absent=NAME    this HCA is not listed, as without its provider
//   link=ethernet  RoCE with GIDs of both types (default InfiniBand)
//   down=NAME      the port of this HCA is down
//   extended=1     contexts have query_port, as with current providers
//   gids=none      _ibv_query_gid_table and _ibv_query_gid_ex are refused
#include <errno.h>
#include <infiniband/verbs.h>
#include <string.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/fakes/fate.h"

#undef ibv_query_port
#undef ibv_reg_mr

namespace {

constexpr char kVariable[] = "FAKE_VERBS";
constexpr int kGidTableSize = 16;

// All memory that was handed out. It is never freed, because a test may remove
// the function that would free it.
std::vector<void*>& Kept() {
  static auto* kept = new std::vector<void*>;
  return *kept;
}

template <typename T>
T* Make(size_t count = 1) {
  void* made = calloc(count, sizeof(T));
  Kept().push_back(made);
  return static_cast<T*>(made);
}

bool Fails(const char* function, const std::string& device) {
  const int error = Fate(kVariable, function, device);
  if (error != 0) errno = error;
  return error != 0;
}

std::string Name(ibv_context* context) { return context->device->name; }

bool IsRoce() { return FateWord(kVariable, "link") == "ethernet"; }

int Number(const std::string& name) {
  return atoi(name.c_str() + name.rfind('_') + 1);
}

void SetPort(const std::string& name, ibv_port_attr* port) {
  const bool down = FateWord(kVariable, "down") == name;
  port->state = down ? IBV_PORT_DOWN : IBV_PORT_ACTIVE;
  port->phys_state = down ? 3 : 5;
  port->max_mtu = IBV_MTU_4096;
  port->active_mtu = IsRoce() ? IBV_MTU_1024 : IBV_MTU_4096;
  port->gid_tbl_len = kGidTableSize;
  port->lid = IsRoce() ? 0 : 0x10 + Number(name);
  port->sm_lid = IsRoce() ? 0 : 1;
  port->active_width = 2;    // 4X
  port->active_speed = 128;  // NDR
  port->link_layer =
      IsRoce() ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND;
}

// Entries 0 and 1 are link-local, 2 and 3 have the address 10.0.N.1; each
// address has both RoCE types.
bool SetGid(const std::string& name, uint32_t index, ibv_gid_entry* entry) {
  if (index >= (IsRoce() ? 4u : 1u)) return false;
  memset(entry, 0, sizeof(*entry));
  entry->gid_index = index;
  entry->port_num = 1;
  unsigned char* raw = entry->gid.raw;
  if (index < 2) {
    raw[0] = 0xfe;
    raw[1] = 0x80;
    raw[8] = 0xa0;
    raw[15] = static_cast<unsigned char>(1 + Number(name));
  } else {
    raw[10] = raw[11] = 0xff;
    raw[12] = 10;
    raw[14] = static_cast<unsigned char>(Number(name));
    raw[15] = 1;
  }
  entry->gid_type = !IsRoce()        ? IBV_GID_TYPE_IB
                    : index % 2 == 0 ? IBV_GID_TYPE_ROCE_V1
                                     : IBV_GID_TYPE_ROCE_V2;
  // The loopback interface, which exists in every network namespace.
  entry->ndev_ifindex = IsRoce() ? 1 : 0;
  return true;
}

int ExtendedQueryPort(ibv_context* context, uint8_t number,
                      ibv_port_attr* attributes, size_t size) {
  if (number != 1 || size < offsetof(ibv_port_attr, port_cap_flags2)) {
    return EINVAL;
  }
  if (Fails("ibv_query_port", Name(context))) return errno;
  SetPort(Name(context), attributes);
  return 0;
}

}  // namespace

extern "C" {

ibv_device** ibv_get_device_list(int* count) {
  if (Fails("ibv_get_device_list", "")) return nullptr;
  const std::string wanted = FateWord(kVariable, "devices");
  const int devices = wanted.empty() ? 8 : atoi(wanted.c_str());
  auto** list = Make<ibv_device*>(static_cast<size_t>(devices) + 1);
  int listed = 0;
  for (int i = 0; i < devices; ++i) {
    const std::string name = "mlx5_" + std::to_string(i);
    if (FateWord(kVariable, "absent") == name) continue;
    auto* device = Make<ibv_device>();
    snprintf(device->name, sizeof(device->name), "%s", name.c_str());
    list[listed++] = device;
  }
  if (count != nullptr) *count = listed;
  return list;
}

void ibv_free_device_list(ibv_device**) {}

const char* ibv_get_device_name(ibv_device* device) { return device->name; }

ibv_context* ibv_open_device(ibv_device* device) {
  if (Fails("ibv_open_device", device->name)) return nullptr;
  auto* whole = Make<verbs_context>();
  whole->context.device = device;
  if (!FateWord(kVariable, "extended").empty()) {
    whole->sz = sizeof(*whole);
    whole->query_port = ExtendedQueryPort;
    whole->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
  }
  return &whole->context;
}

int ibv_close_device(ibv_context*) { return 0; }

int ibv_query_device(ibv_context* context, ibv_device_attr* attributes) {
  if (Fails("ibv_query_device", Name(context))) return errno;
  memset(attributes, 0, sizeof(*attributes));
  snprintf(attributes->fw_ver, sizeof(attributes->fw_ver), "28.39.1002");
  attributes->phys_port_cnt = 1;
  return 0;
}

int ibv_query_port(ibv_context* context, uint8_t number,
                   _compat_ibv_port_attr* attributes) {
  if (number != 1) return EINVAL;
  if (Fails("ibv_query_port", Name(context))) return errno;
  SetPort(Name(context), reinterpret_cast<ibv_port_attr*>(attributes));
  return 0;
}

ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* entries,
                             size_t max_entries, uint32_t, size_t size) {
  if (FateWord(kVariable, "gids") == "none") return -EOPNOTSUPP;
  if (Fails("_ibv_query_gid_table", Name(context))) return -errno;
  if (size != sizeof(ibv_gid_entry)) return -EINVAL;
  size_t count = 0;
  while (count < max_entries &&
         SetGid(Name(context), static_cast<uint32_t>(count), &entries[count])) {
    ++count;
  }
  return static_cast<ssize_t>(count);
}

int _ibv_query_gid_ex(ibv_context* context, uint32_t port, uint32_t index,
                      ibv_gid_entry* entry, uint32_t, size_t) {
  if (FateWord(kVariable, "gids") == "none") return EOPNOTSUPP;
  if (Fails("_ibv_query_gid_ex", Name(context))) return errno;
  if (port != 1 || index >= kGidTableSize) return EINVAL;
  return SetGid(Name(context), index, entry) ? 0 : ENODATA;
}

ibv_pd* ibv_alloc_pd(ibv_context* context) {
  if (Fails("ibv_alloc_pd", Name(context))) return nullptr;
  auto* domain = Make<ibv_pd>();
  domain->context = context;
  return domain;
}

int ibv_dealloc_pd(ibv_pd*) { return 0; }

ibv_mr* ibv_reg_mr(ibv_pd* domain, void*, size_t, int) {
  if (Fails("ibv_reg_mr", Name(domain->context))) return nullptr;
  auto* region = Make<ibv_mr>();
  region->context = domain->context;
  return region;
}

int ibv_dereg_mr(ibv_mr*) { return 0; }

}  // extern "C"

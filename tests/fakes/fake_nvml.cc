// A fake libnvidia-ml.so.1 with 8 GPUs at the PCI addresses of a DGX H100. It
// has the functions that client/facts uses, with the layouts of nvml.h.
// FAKE_NVML (see fate.h) sets which calls fail; a GPU is named by its number.
// FAKE_NVML also takes gpus=N, chatter=1 (the library prints), and rows=none (a
// GPU that retires pages but does not remap rows). With events=FIFO, lines from
// that FIFO change what it reports: "xid GPU NUMBER", "ecc GPU COUNT" and
// "clocks GPU BITS".
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/fakes/fate.h"

namespace {

constexpr char kNvml[] = "FAKE_NVML";
constexpr int kInvalidArgument = 2;
constexpr int kNotSupported = 3;
constexpr int kInsufficientSize = 7;
constexpr int kLinks = 18;
constexpr unsigned kBuses[] = {0x1b, 0x43, 0x52, 0x61, 0x9d, 0xc3, 0xd1, 0xdf};

// A handle is the GPU's number plus one, so that no handle is null.
using Device = struct FakeGpu*;
size_t Index(Device device) { return reinterpret_cast<size_t>(device) - 1; }

int NvmlFate(const char* function, Device device) {
  return Fate(kNvml, function, std::to_string(Index(device)));
}

unsigned Gpus() {
  const std::string wanted = FateWord(kNvml, "gpus");
  return wanted.empty() ? 8 : static_cast<unsigned>(atoi(wanted.c_str()));
}

struct Pci {
  char legacy[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned id;
  unsigned subsystem;
  char text[32];
};

struct FabricV2 {
  unsigned version;
  unsigned char cluster[16];
  int status;
  unsigned clique;
  unsigned char state;
  unsigned health;
};

int Put(const char* function, Device device, const std::string& value,
        char* text, unsigned length) {
  if (const int error = NvmlFate(function, device)) return error;
  if (value.size() >= length) return kInsufficientSize;
  strcpy(text, value.c_str());
  return 0;
}

struct Event {
  Device device;
  unsigned long long type;
  unsigned long long data;
  unsigned gpu_instance;
  unsigned compute_instance;
};

// What the FIFO has changed; -1: nothing.
long long ecc_now[8] = {-1, -1, -1, -1, -1, -1, -1, -1};
long long clocks_now[8] = {-1, -1, -1, -1, -1, -1, -1, -1};

}  // namespace

extern "C" {

int nvmlEventSetCreate(void** set) {
  *set = &ecc_now;
  return Fate(kNvml, "nvmlEventSetCreate", "");
}

int nvmlDeviceRegisterEvents(Device device, unsigned long long, void*) {
  return NvmlFate("nvmlDeviceRegisterEvents", device);
}

int nvmlEventSetWait_v2(void*, Event* event, unsigned timeout_ms) {
  constexpr int kTimeout = 10;
  static const int fifo = [] {
    const std::string path = FateWord(kNvml, "events");
    return path.empty() ? -1 : open(path.c_str(), O_RDWR | O_CLOEXEC);
  }();
  if (const int error = Fate(kNvml, "nvmlEventSetWait_v2", "")) return error;
  pollfd polled{fifo, POLLIN, 0};
  if (poll(&polled, 1, static_cast<int>(timeout_ms)) <= 0) return kTimeout;
  std::string line;
  for (char c; read(fifo, &c, 1) == 1 && c != '\n';) line += c;
  char what[16] = "";
  unsigned gpu = 0;
  long long value = 0;
  if (sscanf(line.c_str(), "%15s %u %lli", what, &gpu, &value) != 3 ||
      gpu > 7) {
    return kTimeout;
  }
  *event = {reinterpret_cast<Device>(size_t{gpu} + 1), 0x8,
            static_cast<unsigned long long>(value), ~0u, ~0u};
  if (strcmp(what, "clocks") == 0) {
    clocks_now[gpu] = value;
    return kTimeout;
  }
  if (strcmp(what, "ecc") == 0) {
    ecc_now[gpu] = value;
    event->type = 0x2;
  }
  return 0;
}

int nvmlInit_v2() {
  if (!FateWord(kNvml, "chatter").empty()) {
    (void)!write(STDOUT_FILENO, "chatter\n", 8);
  }
  return Fate(kNvml, "nvmlInit_v2", "");
}
int nvmlShutdown() { return 0; }

const char* nvmlErrorString(int error) {
  return error == 999 ? "Unknown Error" : error == 15 ? "GPU is lost" : "Error";
}

int nvmlSystemGetDriverVersion(char* text, unsigned length) {
  if (const int error = Fate(kNvml, "nvmlSystemGetDriverVersion", "")) {
    return error;
  }
  snprintf(text, length, "580.65.06");
  return 0;
}

int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = 13000;
  return Fate(kNvml, "nvmlSystemGetCudaDriverVersion_v2", "");
}

int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = Gpus();
  return Fate(kNvml, "nvmlDeviceGetCount_v2", "");
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device* device) {
  if (index >= Gpus()) return kInvalidArgument;
  *device = reinterpret_cast<Device>(size_t{index} + 1);
  return NvmlFate("nvmlDeviceGetHandleByIndex_v2", *device);
}

int nvmlDeviceGetName(Device device, char* text, unsigned length) {
  return Put("nvmlDeviceGetName", device, "NVIDIA H100 80GB HBM3", text,
             length);
}

int nvmlDeviceGetUUID(Device device, char* text, unsigned length) {
  char uuid[64];
  snprintf(uuid, sizeof(uuid), "GPU-00000000-0000-0000-0000-%012zx",
           Index(device));
  return Put("nvmlDeviceGetUUID", device, uuid, text, length);
}

int nvmlDeviceGetPciInfo_v3(Device device, Pci* pci) {
  memset(pci, 0, sizeof(*pci));
  pci->bus = kBuses[Index(device) % 8];
  snprintf(pci->text, sizeof(pci->text), "00000000:%02X:00.0", pci->bus);
  return NvmlFate("nvmlDeviceGetPciInfo_v3", device);
}

int nvmlDeviceGetMemoryInfo(Device device, unsigned long long* memory) {
  memory[0] = 85520809984ull;
  memory[1] = memory[0] - memory[2];
  return NvmlFate("nvmlDeviceGetMemoryInfo", device);
}

int nvmlDeviceGetEccMode(Device device, int* current, int* pending) {
  *current = *pending = 1;
  return NvmlFate("nvmlDeviceGetEccMode", device);
}

int nvmlDeviceGetTotalEccErrors(Device device, int type, int counter,
                                unsigned long long* count) {
  *count = type == 1 && counter == 0 ? Index(device) : 77;
  if (ecc_now[Index(device)] >= 0) *count = ecc_now[Index(device)];
  return NvmlFate("nvmlDeviceGetTotalEccErrors", device);
}

int nvmlDeviceGetRemappedRows(Device device, unsigned* corrected,
                              unsigned* uncorrected, unsigned* pending,
                              unsigned* failed) {
  if (FateWord(kNvml, "rows") == "none") return kNotSupported;
  *corrected = 5;
  *uncorrected = static_cast<unsigned>(Index(device) % 2);
  *pending = *failed = 0;
  return NvmlFate("nvmlDeviceGetRemappedRows", device);
}

int nvmlDeviceGetRetiredPages(Device device, int cause, unsigned* count,
                              unsigned long long*) {
  if (const int error = NvmlFate("nvmlDeviceGetRetiredPages", device)) {
    return error;
  }
  const unsigned room = *count;
  *count = cause == 1 ? 3 : 0;
  return room < *count ? kInsufficientSize : 0;
}

int nvmlDeviceGetClockInfo(Device device, int type, unsigned* mhz) {
  *mhz = type == 1 ? 1755 : 1;
  return NvmlFate("nvmlDeviceGetClockInfo", device);
}

int nvmlDeviceGetMaxClockInfo(Device device, int type, unsigned* mhz) {
  *mhz = type == 1 ? 1980 : 1;
  return NvmlFate("nvmlDeviceGetMaxClockInfo", device);
}

int nvmlDeviceGetCurrentClocksEventReasons(Device device,
                                           unsigned long long* bits) {
  *bits = Index(device) == 2 ? 0x1 | 0x8 | 0x40 : 0x1;
  if (clocks_now[Index(device)] >= 0) *bits = clocks_now[Index(device)];
  return NvmlFate("nvmlDeviceGetCurrentClocksEventReasons", device);
}

int nvmlDeviceGetNvLinkState(Device device, unsigned link, int* active) {
  if (link >= kLinks) return kInvalidArgument;
  *active = Index(device) == 4 && link < 2 ? 0 : 1;
  return NvmlFate("nvmlDeviceGetNvLinkState", device);
}

int nvmlDeviceGetGpuFabricInfoV(Device device, FabricV2* fabric) {
  if (fabric->version != (sizeof(*fabric) | 2u << 24)) return 25;
  memset(fabric->cluster, 0xab, sizeof(fabric->cluster));
  fabric->status = 0;
  fabric->clique = 7;
  fabric->state = 3;
  return NvmlFate("nvmlDeviceGetGpuFabricInfoV", device);
}

int nvmlDeviceGetCudaComputeCapability(Device device, int* major, int* minor) {
  *major = 9;
  *minor = 0;
  return NvmlFate("nvmlDeviceGetCudaComputeCapability", device);
}

}  // extern "C"

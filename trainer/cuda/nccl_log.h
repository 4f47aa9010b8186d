// NcclLog: what NCCL says of itself, caught in memory; and what it tells of the
// way that bytes take.
//
// NCCL tells nobody by its functions which network it chose: only its log does.
// It reads where to write that once in a process, at its first call.
#ifndef ROLLCALL_TRAINER_CUDA_NCCL_LOG_H_
#define ROLLCALL_TRAINER_CUDA_NCCL_LOG_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "absl/strings/string_view.h"

namespace rollcall {

// What was read so far. Pure.
struct NcclTransports {
  // Chosen for other nodes, whether or not there are any: "Socket", "IB", or a
  // plugin's name. Empty: not told yet.
  std::string network;
  // That channels are connected by: "Socket", "IB", "IB/GDRDMA" (straight from
  // the GPU), "P2P", "SHM", "NVLS", "CollNet".
  std::set<std::string> used;

  // Takes in more of the log; a last line without its end is left for the next
  // time. Returns how much was taken.
  size_t Read(absl::string_view text);
  // Networks first: "IB/GDRDMA+P2P". Before any channel is connected, the
  // network that was chosen; "NCCL" before that.
  std::string ToString() const;
};

class NcclLog {
 public:
  // Before NCCL's first call, and before other threads read the environment.
  // Null where NCCL_DEBUG is set: its log is the user's; or where the system
  // has no such memory.
  static std::unique_ptr<NcclLog> Catch();
  ~NcclLog();
  NcclLog(const NcclLog&) = delete;
  NcclLog& operator=(const NcclLog&) = delete;

  // By all that NCCL has said in this process up to now. One thread at a time.
  std::string Transport();
  // Forgets, for a new communicator.
  void Forget() { transports_ = {}; }

 private:
  explicit NcclLog(int fd) : fd_(fd) {}
  void ReadOn();

  const int fd_;
  int64_t read_ = 0;
  NcclTransports transports_;
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CUDA_NCCL_LOG_H_

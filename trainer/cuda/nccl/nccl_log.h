// NcclLog: receives NCCL's log in memory and finds in it which transport NCCL
// uses.
//
// NCCL has no function that returns the network it chose; only its log has
// that. NCCL reads the log's path once per process, at its first call.
#ifndef ROLLCALL_TRAINER_CUDA_NCCL_NCCL_LOG_H_
#define ROLLCALL_TRAINER_CUDA_NCCL_NCCL_LOG_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "absl/strings/string_view.h"

namespace rollcall {

// The transports that the log has named so far. Pure.
struct NcclTransports {
  // The network to other nodes, even if there are none: "Socket", "IB", or a
  // plugin's name. Empty: not logged yet.
  std::string network;
  // The transports of the channels: "Socket", "IB", "IB/GDRDMA" (directly from
  // the GPU), "P2P", "SHM", "NVLS", "CollNet".
  std::set<std::string> used;

  // Parses more of the log. An incomplete last line is left for the next call.
  // Returns the number of bytes parsed.
  size_t Read(absl::string_view text);
  // The transports, networks first: "IB/GDRDMA+P2P". Before any channel is
  // connected: the chosen network. Before the network is logged: "NCCL".
  std::string ToString() const;
};

class NcclLog {
 public:
  // Call it before NCCL's first call, and before other threads read the
  // environment. Null: the user has set the log (NCCL_DEBUG_FILE, or NCCL_DEBUG
  // above WARN), or the system cannot make a file in memory. If NCCL_DEBUG is
  // WARN, warnings are passed on to stderr as they are read.
  static std::unique_ptr<NcclLog> Catch();
  ~NcclLog();
  NcclLog(const NcclLog&) = delete;
  NcclLog& operator=(const NcclLog&) = delete;

  // The transport, from everything that NCCL has logged in this process so far.
  // One thread at a time.
  std::string Transport();
  // Reads the new part of NCCL's log, and passes warnings on to stderr if
  // NCCL_DEBUG is WARN. One thread at a time.
  void ReadOn();
  // Reads what is still unread, then forgets the transports. Call it before a
  // new communicator is made.
  void Forget() {
    ReadOn();
    transports_ = {};
  }

 private:
  NcclLog(int fd, bool warns) : fd_(fd), warns_(warns) {}

  const int fd_;
  const bool warns_;
  int64_t read_ = 0;
  NcclTransports transports_;
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CUDA_NCCL_NCCL_LOG_H_

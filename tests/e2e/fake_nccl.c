// libfake_nccl.so: as much of NCCL as minting unique ids needs, for machines
// without one. It connects nothing: a rank that used such an id would not
// find a peer. The ids are random, as those of NCCL are, so that a test sees
// whether all ranks got the same ones.
#include <stddef.h>
#include <sys/random.h>

typedef enum { ncclSuccess = 0, ncclSystemError = 2 } ncclResult_t;
typedef struct {
  char internal[128];
} ncclUniqueId;

ncclResult_t ncclGetVersion(int* version) {
  *version = 22809;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const ssize_t got = getrandom(id->internal, sizeof(id->internal), 0);
  return got == (ssize_t)sizeof(id->internal) ? ncclSuccess : ncclSystemError;
}

const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclSuccess ? "no error" : "no random numbers";
}

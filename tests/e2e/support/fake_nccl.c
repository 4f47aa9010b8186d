// libfake_nccl.so: the part of NCCL that makes unique ids, for machines without
// NCCL. It cannot connect ranks. The ids are random, like those of NCCL, so
// that a test can check that all ranks got the same ones.
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

// A C program without any library of rollcall. It reads the NCCL unique ids of
// its world from ROLLCALL_NCCL_ID_FILE (one per line, in hex), as for
// ncclCommInitRank or ncclCommInitRankScalable, and prints them.
#include <stdio.h>
#include <stdlib.h>

#define ID_BYTES 128  // NCCL_UNIQUE_ID_BYTES

typedef struct {
  unsigned char internal[ID_BYTES];  // As in ncclUniqueId.
} unique_id;

// Returns 1: an id was read; 0: end of file; -1: the line is no id.
static int read_id(FILE* file, unique_id* id) {
  char line[2 * ID_BYTES + 2];
  if (fgets(line, sizeof line, file) == NULL) return 0;
  for (int i = 0; i < ID_BYTES; ++i) {
    if (sscanf(&line[2 * i], "%2hhx", &id->internal[i]) != 1) return -1;
  }
  return line[2 * ID_BYTES] == '\n' ? 1 : -1;
}

int main(void) {
  const char* path = getenv("ROLLCALL_NCCL_ID_FILE");
  const char* rank = getenv("RANK");
  FILE* file = path == NULL ? NULL : fopen(path, "r");
  if (file == NULL || rank == NULL) {
    fprintf(stderr, "no ROLLCALL_NCCL_ID_FILE or no RANK\n");
    return 1;
  }
  unique_id id;
  int got;
  while ((got = read_id(file, &id)) == 1) {
    printf("rank %s id ", rank);
    for (int i = 0; i < ID_BYTES; ++i) printf("%02x", id.internal[i]);
    printf("\n");
  }
  fclose(file);
  return got == 0 ? 0 : 1;
}

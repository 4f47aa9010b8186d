// Imitates a file system that does not answer, such as a network file system
// whose server is gone. Preloaded into a program, it makes statvfs wait forever
// for paths that begin with HANGING_FOLDER.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

static void Hang(const char* path) {
  const char* prefix = getenv("HANGING_FOLDER");
  const int hangs =
      prefix != NULL && strncmp(path, prefix, strlen(prefix)) == 0;
  while (hangs) pause();
}

int statvfs(const char* path, struct statvfs* space) {
  int (*real)(const char*, struct statvfs*) = NULL;
  *(void**)&real = dlsym(RTLD_NEXT, "statvfs");
  Hang(path);
  return real(path, space);
}

int statvfs64(const char* path, struct statvfs64* space) {
  int (*real)(const char*, struct statvfs64*) = NULL;
  *(void**)&real = dlsym(RTLD_NEXT, "statvfs64");
  Hang(path);
  return real(path, space);
}

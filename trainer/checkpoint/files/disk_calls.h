// DiskCalls: the system calls by which a checkpoint changes the disk. A test
// can end the process before or during any of them.
//
// Each returns what its system call returns, and sets errno. Files are read
// without it, because reading changes nothing.
#ifndef ROLLCALL_TRAINER_CHECKPOINT_FILES_DISK_CALLS_H_
#define ROLLCALL_TRAINER_CHECKPOINT_FILES_DISK_CALLS_H_

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <string>

namespace rollcall {

struct DiskCalls {
  std::function<int(const std::string& path)> make_folder;
  // Creates an empty file for writing. Returns a file descriptor.
  std::function<int(const std::string& path)> create;
  std::function<ssize_t(int file, const void* bytes, size_t size)> write;
  std::function<int(int file)> sync;
  // Syncs the folder's entries. Returns 0 on a file system that cannot do this.
  std::function<int(const std::string& path)> sync_folder;
  std::function<int(const std::string& from, const std::string& to)> rename;
  std::function<int(const std::string& path)> remove_file;
  std::function<int(const std::string& path)> remove_folder;

  static DiskCalls System();
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CHECKPOINT_FILES_DISK_CALLS_H_

#include "trainer/checkpoint/files/disk_calls.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace rollcall {
namespace {

int SyncFolder(const std::string& path) {
  const int folder = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return -1;
  const int result = fsync(folder);
  const int error = errno;
  close(folder);
  errno = error;
  // Some file systems cannot sync a folder, and do not need to.
  return result != 0 && error == EINVAL ? 0 : result;
}

}  // namespace

DiskCalls DiskCalls::System() {
  DiskCalls calls;
  calls.make_folder = [](const std::string& path) {
    return mkdir(path.c_str(), 0777);
  };
  calls.create = [](const std::string& path) {
    return open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  };
  calls.write = [](int file, const void* bytes, size_t size) {
    return ::write(file, bytes, size);
  };
  calls.sync = [](int file) { return fsync(file); };
  calls.sync_folder = SyncFolder;
  calls.rename = [](const std::string& from, const std::string& to) {
    return std::rename(from.c_str(), to.c_str());
  };
  calls.remove_file = [](const std::string& path) {
    return unlink(path.c_str());
  };
  calls.remove_folder = [](const std::string& path) {
    return rmdir(path.c_str());
  };
  return calls;
}

}  // namespace rollcall

#include "client/facts/same_files.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "client/facts/isolated_query.h"
#include "daemon/base/files/fd.h"
#include "daemon/base/text/printable.h"
#include "daemon/core/admission/admission.h"

namespace rollcall {
namespace {

constexpr size_t kReadBytes = 64 << 10;

v1::SameFile Failed(const std::string& path, const std::string& why) {
  v1::SameFile file;
  file.set_path(path);
  file.set_error(Printable(why, FactsLimits::missing_text_bytes_max));
  return file;
}

}  // namespace

v1::SameFile ReadSameFile(const std::string& path) {
  // A FIFO without a writer would block.
  const Fd fd(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (fd.get() < 0) return Failed(path, std::strerror(errno));
  struct stat found;
  if (fstat(fd.get(), &found) != 0) return Failed(path, std::strerror(errno));
  if (!S_ISREG(found.st_mode)) return Failed(path, "not a regular file");
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> digest(
      EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  if (digest == nullptr ||
      EVP_DigestInit_ex(digest.get(), EVP_sha256(), nullptr) != 1) {
    return Failed(path, "no SHA-256");
  }
  v1::SameFile file;
  file.set_path(path);
  uint64_t size = 0;
  std::string bytes(kReadBytes, '\0');
  for (;;) {
    const ssize_t n = read(fd.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Failed(path, std::strerror(errno));
    if (n == 0) break;
    size += static_cast<uint64_t>(n);
    if (EVP_DigestUpdate(digest.get(), bytes.data(), static_cast<size_t>(n)) !=
        1) {
      return Failed(path, "no SHA-256");
    }
  }
  unsigned char sum[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  if (EVP_DigestFinal_ex(digest.get(), sum, &length) != 1) {
    return Failed(path, "no SHA-256");
  }
  file.set_sha256(sum, length);
  file.set_size_bytes(size);
  return file;
}

std::string SameFileWarning(const v1::SameFile& file) {
  return absl::StrCat("WARNING: ", file.path(),
                      " of --same or --shared: ", file.error());
}

std::string UnusableFileText(const std::vector<v1::SameFile>& files) {
  for (const v1::SameFile& file : files) {
    if (file.error().empty()) continue;
    return absl::StrCat(
        "--same or --shared: expected ", file.path(),
        file.path().back() == '/' ? " to be a folder to which ranks can write"
                                  : " to be a file that ranks can read",
        ", found: ", file.error(), "; make it, or give another one");
  }
  return "";
}

void GatherSameFiles(const std::vector<SameQuery>& queries,
                     const SystemUser* user, absl::Duration timeout,
                     v1::Facts& facts) {
  if (queries.empty()) return;
  std::vector<IsolatedQuery> isolated;
  for (const SameQuery& query : queries) {
    isolated.push_back({[&query, user](const IsolatedQuery::Report&) {
      const AsUser as(user);
      v1::Facts told;
      *told.add_same_files() =
          as.ok() ? query.ask()
                  : Failed(query.path, "cannot act as " + UserText(*user));
      return told;
    }});
  }
  const std::vector<IsolatedAnswer> answers = AskIsolated(isolated, timeout);
  for (size_t i = 0; i < queries.size(); ++i) {
    const IsolatedAnswer& answer = answers[i];
    const bool whole = answer.failure.empty() &&
                       answer.facts.same_files_size() == 1 &&
                       answer.facts.same_files(0).path() == queries[i].path;
    *facts.add_same_files() = whole ? answer.facts.same_files(0)
                                    : Failed(queries[i].path, answer.failure);
  }
}

}  // namespace rollcall

#include "client/facts/same_files.h"

#include <gtest/gtest.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/escaping.h"

namespace rollcall {
namespace {

std::string Sha256Of(const std::string& text) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(),
         digest);
  return std::string(digest, digest + sizeof(digest));
}

class SameFiles : public testing::Test {
 protected:
  SameFiles() {
    char path[] = "/tmp/same-files-XXXXXX";
    folder_ = mkdtemp(path);
  }
  ~SameFiles() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << text;
    return path;
  }

  std::string folder_;
};

TEST_F(SameFiles, TheDigestIsThatOfTheWholeContents) {
  // Longer than one read.
  const std::string text((size_t{2} << 20) + 7, 'x');
  for (const std::string& each : {std::string(), std::string("a"), text}) {
    const v1::SameFile file = ReadSameFile(Write("f", each));
    EXPECT_EQ(file.error(), "");
    EXPECT_EQ(file.size_bytes(), each.size());
    EXPECT_EQ(file.sha256(), Sha256Of(each));
  }
}

TEST_F(SameFiles, WhatCannotBeReadIsSaid) {
  ASSERT_EQ(mkfifo((folder_ + "/fifo").c_str(), 0600), 0);
  for (const std::string& path :
       {folder_ + "/none", folder_, folder_ + "/fifo"}) {
    const v1::SameFile file = ReadSameFile(path);
    EXPECT_EQ(file.path(), path);
    EXPECT_EQ(file.sha256(), "");
    EXPECT_NE(file.error(), "");
  }
}

TEST_F(SameFiles, AllAreGathered) {
  v1::Facts facts;
  const std::string here = Write("a", "a");
  const std::string none = folder_ + "/none";
  GatherSameFiles({{here, [&] { return ReadSameFile(here); }},
                   {none, [&] { return ReadSameFile(none); }}},
                  nullptr, absl::Seconds(30), facts);

  ASSERT_EQ(facts.same_files_size(), 2);
  EXPECT_EQ(facts.same_files(0).sha256(), Sha256Of("a"));
  EXPECT_NE(facts.same_files(1).error(), "");
}

}  // namespace
}  // namespace rollcall

#include "daemon/security/certificates/identity.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "daemon/security/kept_tokens.h"
#include "tests/unit/file_limit.h"

namespace rollcall {
namespace {

namespace fs = std::filesystem;

class IdentityTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern =
        (fs::temp_directory_path() / "rollcall_identity_XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string file(const char* name) const { return folder_ + "/" + name; }
  void Write(const char* name, const std::string& text) {
    std::ofstream(file(name)) << text;
  }
  Identity MustKeep() {
    absl::StatusOr<Identity> kept = Identity::Keep(folder_);
    EXPECT_TRUE(kept.ok()) << kept.status();
    return *std::move(kept);
  }

  std::string folder_;
};

TEST_F(IdentityTest, IsKeptOverItsLives) {
  const Identity first = MustKeep();
  EXPECT_EQ(first.credential_key.size(), 32u);
  const Identity second = MustKeep();
  EXPECT_EQ(second.authority.pin(), first.authority.pin());
  EXPECT_EQ(second.credential_key, first.credential_key);
  // Another folder has another identity.
  fs::create_directory(folder_ + "/other");
  const absl::StatusOr<Identity> other = Identity::Keep(folder_ + "/other");
  ASSERT_TRUE(other.ok());
  EXPECT_NE(other->authority.pin(), first.authority.pin());
  EXPECT_NE(other->credential_key, first.credential_key);
}

TEST_F(IdentityTest, ItsFilesAreForTheOwnerAlone) {
  const mode_t before = umask(0);
  MustKeep();
  umask(before);
  size_t files = 0;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    ++files;
    struct stat info;
    ASSERT_EQ(stat(entry.path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u) << entry.path();
  }
  EXPECT_EQ(files, 2u);
}

TEST_F(IdentityTest, ADamagedFileIsNamedAndLeftAsItIs) {
  MustKeep();
  const std::string other_key = [] { return Authority::Make()->KeyPem(); }();
  const struct {
    const char* file;
    std::string text;
  } rows[] = {
      {"ca.key", ""},
      {"ca.key", "garbage"},
      {"ca.key", other_key.substr(0, other_key.size() / 2)},
      {"credential.key", ""},
      {"credential.key", std::string(63, 'a')},
      {"credential.key", std::string(65, 'a')},
      {"credential.key", std::string(64, 'g')},
      {"credential.key", std::string(64, 'A')},
      {"credential.key", std::string(100'000, 'a')},
  };
  for (const auto& row : rows) {
    const std::string path = file(row.file);
    const std::string kept = *ReadSecretFile(path);
    Write(row.file, row.text);
    const absl::Status status = Identity::Keep(folder_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << row.file;
    EXPECT_NE(status.ToString().find(path), std::string::npos) << status;
    EXPECT_EQ(fs::file_size(path), row.text.size());
    Write(row.file, kept);
  }
  EXPECT_TRUE(Identity::Keep(folder_).ok());
}

TEST_F(IdentityTest, AFolderThatIsNotThereIsNamed) {
  const absl::Status status = Identity::Keep(folder_ + "/none").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.ToString().find(folder_ + "/none"), std::string::npos);
  // There is a folder in place of the file.
  fs::create_directory(file("ca.key"));
  EXPECT_EQ(Identity::Keep(folder_).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(IdentityTest, ASecretThatOthersCanReadOrWriteIsRefused) {
  const struct {
    mode_t mode;
    bool taken;
  } rows[] = {
      {0600, true},  {0400, true},  {0700, true},  {0711, true},
      {0640, false}, {0604, false}, {0620, false}, {0602, false},
      {0644, false}, {0666, false}, {0440, false},
  };
  const std::string path = file("secret");
  Write("secret", "text");
  for (const auto& row : rows) {
    ASSERT_EQ(chmod(path.c_str(), row.mode), 0);
    std::string warning;
    const absl::StatusOr<std::string> read = ReadPrivateFile(path, &warning);
    EXPECT_EQ(read.ok(), row.taken) << std::oct << row.mode;
    EXPECT_EQ(CheckPrivateFile(path).ok(), row.taken) << std::oct << row.mode;
    EXPECT_EQ(warning, "");
    if (row.taken) continue;
    EXPECT_EQ(read.status().code(), absl::StatusCode::kFailedPrecondition);
    for (const std::string& word :
         {path, std::string("0600"), std::string("chmod 600")}) {
      EXPECT_NE(read.status().message().find(word), absl::string_view::npos)
          << read.status();
    }
  }
  // A link to the file is followed.
  fs::create_symlink(path, file("link"));
  EXPECT_FALSE(ReadPrivateFile(file("link")).ok());
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  EXPECT_TRUE(ReadPrivateFile(file("link")).ok());
  EXPECT_TRUE(absl::IsNotFound(ReadPrivateFile(file("none")).status()));
  // A key that was kept is checked like the user's own file.
  MustKeep();
  ASSERT_EQ(chmod(file("ca.key").c_str(), 0644), 0);
  EXPECT_FALSE(Identity::Keep(folder_).ok());
}

TEST_F(IdentityTest, AKeptSecretIsAFileOfThisUsersAlone) {
  MustKeep();
  for (const char* name : {"ca.key", "credential.key", "admin.token"}) {
    ASSERT_TRUE(KeptTokens::Keep(folder_).ok());
    const std::string path = file(name), moved = file("moved");
    const auto refused = [&] {
      const absl::Status status = name[0] == 'a'
                                      ? KeptTokens::Keep(folder_).status()
                                      : Identity::Keep(folder_).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << name;
      EXPECT_NE(status.message().find(path), absl::string_view::npos) << status;
    };
    fs::rename(path, moved);
    fs::create_symlink(moved, path);
    refused();
    fs::remove(path);
    // The file is a pipe, and the call must not wait for a writer.
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    refused();
    fs::remove(path);
    fs::rename(moved, path);
    if (geteuid() != 0) continue;
    ASSERT_EQ(chown(path.c_str(), 65534, 65534), 0);
    refused();
    fs::remove(path);
  }
}

TEST_F(IdentityTest, ASecretFileIsReplacedWhole) {
  const std::string path = file("s");
  EXPECT_TRUE(absl::IsNotFound(ReadSecretFile(path).status()));
  ASSERT_TRUE(WriteSecretFile(path, "one").ok());
  // The file that a killed writer left does not stop the next writer.
  Write("s.new", "half");
  ASSERT_TRUE(WriteSecretFile(path, "two").ok());
  EXPECT_EQ(*ReadSecretFile(path), "two");
  EXPECT_FALSE(fs::exists(path + ".new"));
  // The temporary name is a link, and the write must not follow it.
  Write("victim", "kept");
  fs::create_symlink(file("victim"), path + ".new");
  ASSERT_TRUE(WriteSecretFile(path, "three").ok());
  EXPECT_EQ(*ReadSecretFile(file("victim")), "kept");
  EXPECT_EQ(*ReadSecretFile(path), "three");
}

TEST_F(IdentityTest, ASecretFileThatDoesNotFitSaysWhy) {
  const std::string path = file("s");
  ASSERT_TRUE(WriteSecretFile(path, "one").ok());
  {
    const FileLimit limit(4);
    const absl::Status status = WriteSecretFile(path, "longer");
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    // The first part was written. The error is the system's error for the rest.
    EXPECT_NE(status.message().find("File too large"), std::string::npos)
        << status;
    EXPECT_NE(status.message().find("--state"), std::string::npos) << status;
  }
  EXPECT_EQ(*ReadSecretFile(path), "one");
  EXPECT_FALSE(fs::exists(path + ".new"));
}

TEST(Identity, WithoutAFolderItIsFreshOrTheSecrets) {
  const absl::StatusOr<Identity> one = Identity::Make();
  const absl::StatusOr<Identity> two = Identity::Make();
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_NE(one->authority.pin(), two->authority.pin());
  EXPECT_NE(one->credential_key, two->credential_key);
  const absl::StatusOr<SharedSecret> secret =
      SharedSecret::Parse(SharedSecret::MakeText());
  const absl::StatusOr<Identity> here = Identity::FromSecret(*secret);
  const absl::StatusOr<Identity> there = Identity::FromSecret(*secret);
  ASSERT_TRUE(here.ok() && there.ok());
  EXPECT_EQ(here->authority.pin(), there->authority.pin());
  EXPECT_EQ(here->credential_key, there->credential_key);
  EXPECT_EQ(here->credential_key.size(), 32u);
}

}  // namespace
}  // namespace rollcall

// How messages are kept and dropped while no process reads them.
#include "client/admin/messages.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/admin/live_line.h"
#include "daemon/base/files/fd.h"

namespace rollcall {
namespace {

class MessagesTest : public testing::Test {
 protected:
  MessagesTest() {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    reader_ = Fd(ends[0]);
    held_ = Fd(ends[1]);
  }

  // Returns everything until the writer has closed the pipe.
  std::string ReadAll() {
    std::string text;
    char block[64 << 10];
    ssize_t got;
    while ((got = read(reader_.get(), block, sizeof(block))) > 0) {
      text.append(block, static_cast<size_t>(got));
    }
    return text;
  }

  Fd reader_;
  Fd held_;
};

TEST_F(MessagesTest, NeverBlockAndAreCountedWhereTheyAreLeftOut) {
  auto messages = std::make_unique<Messages>(held_.get(), held_.get());
  const std::string line(999, 'x');
  // This is far more than a pipe and the queue can hold.
  constexpr size_t kSaid = 16 << 10;
  for (size_t i = 0; i < kSaid; ++i) messages->Say(line + "\n");
  EXPECT_FALSE(messages->Flush(absl::ZeroDuration()));
  EXPECT_FALSE(messages->written());
  std::thread reader([&] {
    const std::string text = ReadAll();
    size_t whole = 0;
    size_t left_out = 0;
    std::string last;
    for (absl::string_view each : absl::StrSplit(text, '\n')) {
      whole += each == line;
      if (absl::ConsumePrefix(&each, "rollcall: ")) {
        size_t count = 0;
        EXPECT_TRUE(absl::SimpleAtoi(each.substr(0, each.find(' ')), &count));
        left_out += count;
      }
      if (!each.empty()) last = std::string(each);
    }
    EXPECT_GT(whole, 1000u);
    EXPECT_GT(left_out, 1000u);
    EXPECT_EQ(whole + left_out, kSaid);
    EXPECT_EQ(last, "after it");
  });
  EXPECT_TRUE(messages->Flush(absl::Seconds(60)));
  messages->Put("after it\n");
  messages.reset();
  held_.Close();
  reader.join();
}

TEST_F(MessagesTest, AHeldTerminalIsNotShownEverySecondOfIt) {
  {
    Messages messages(held_.get(), held_.get());
    LiveLine line(messages, /*terminal=*/true);
    const std::string filling(1 << 20, '.');
    messages.Say(filling);
    line.Show("waits for b", " 1 s");
    for (int i = 2; i < 1000; ++i) {
      line.Show("waits for b", absl::StrCat(" ", i, " s"));
    }
    line.Show("waits for c", " 1000 s");
    line.Print("done");
    std::thread reader([&] {
      const std::string text = ReadAll();
      EXPECT_EQ(text.substr(filling.size()),
                "\r\033[?7lrollcall: waits for b 1 s\033[K\033[?7h"
                "\r\033[?7lrollcall: waits for c 1000 s\033[K\033[?7h"
                "\r\033[Krollcall: done\n");
    });
    EXPECT_TRUE(messages.Flush(absl::Seconds(60)));
    held_.Close();
    reader.join();
  }
}

}  // namespace
}  // namespace rollcall

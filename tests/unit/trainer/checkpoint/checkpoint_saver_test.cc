#include "trainer/checkpoint/checkpoint_saver.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <future>
#include <string>
#include <vector>

#include "tests/unit/trainer/checkpoint/checkpoint_fixture.h"

namespace rollcall {
namespace {

using Code = absl::StatusCode;
using Names = std::vector<std::string>;

class CheckpointSaverTest : public CheckpointFixture {
 protected:
  // A store whose saves wait at their first system call until the test releases
  // them.
  std::unique_ptr<CheckpointStore> Gated() {
    DiskCalls calls = DiskCalls::System();
    auto real = calls.make_folder;
    calls.make_folder = [this, real](const std::string& path) {
      if (path.find(".partial") != std::string::npos) {
        begun_.set_value();
        go_.get_future().wait();
        go_ = std::promise<void>();
      }
      return real(path);
    };
    return Open(9, std::move(calls));
  }
  void AwaitSave() {
    begun_.get_future().wait();
    begun_ = std::promise<void>();
  }
  static std::function<absl::Status(StateTensors&)> Fill(int64_t step) {
    return [step](StateTensors& room) {
      room = TensorsOf(step);
      return absl::OkStatus();
    };
  }

  std::promise<void> begun_, go_;
};

TEST_F(CheckpointSaverTest, SavesInTheBackground) {
  auto store = Gated();
  CheckpointSaver saver(*store);
  EXPECT_FALSE(saver.Wait().has_value());
  auto begun = saver.Begin(StateOf(100), Fill(100));
  ASSERT_TRUE(begun.ok()) << begun.status();
  EXPECT_FALSE(begun->before.has_value());
  AwaitSave();
  EXPECT_FALSE(saver.Ended().has_value());
  go_.set_value();
  auto outcome = saver.Wait();
  ASSERT_TRUE(outcome.has_value());
  ASSERT_TRUE(outcome->ok()) << outcome->status();
  EXPECT_EQ((*outcome)->path, Path("run/step-00000100"));
  EXPECT_FALSE(saver.Ended().has_value());  // Returned only once.
  Names skipped;
  EXPECT_EQ(NewestStep(*store, &skipped), 100);
}

TEST_F(CheckpointSaverTest, OneAtATimeAndNoneIsDropped) {
  auto store = Gated();
  CheckpointSaver saver(*store);
  ASSERT_TRUE(saver.Begin(StateOf(100), Fill(100)).ok());
  AwaitSave();
  std::atomic<bool> filled = false;
  auto second = std::async(std::launch::async, [&] {
    return saver.Begin(StateOf(200), [&](StateTensors& room) {
      filled = true;
      return Fill(200)(room);
    });
  });
  // The buffers belong to the first save until it ends.
  EXPECT_FALSE(filled);
  go_.set_value();
  AwaitSave();
  EXPECT_TRUE(filled);
  auto begun = second.get();
  ASSERT_TRUE(begun.ok()) << begun.status();
  ASSERT_TRUE(begun->before.has_value());
  EXPECT_TRUE(begun->before->ok());
  go_.set_value();
  ASSERT_TRUE(saver.Wait().value().ok());
  EXPECT_EQ(Entries(), (Names{"latest", "step-00000100", "step-00000200"}));
}

TEST_F(CheckpointSaverTest, TheDestructorWaits) {
  auto store = Gated();
  {
    CheckpointSaver saver(*store);
    ASSERT_TRUE(saver.Begin(StateOf(100), Fill(100)).ok());
    AwaitSave();
    go_.set_value();
  }
  Names skipped;
  EXPECT_EQ(NewestStep(*store, &skipped), 100);
}

TEST_F(CheckpointSaverTest, ErrorsAreKeptAndReturnedOnce) {
  DiskCalls calls = DiskCalls::System();
  std::atomic<bool> full = true;
  auto real = calls.create;
  calls.create = [&](const std::string& path) {
    if (!full) return real(path);
    errno = ENOSPC;
    return -1;
  };
  auto store = Open(3, std::move(calls));
  CheckpointSaver saver(*store);
  const float* room = nullptr;
  ASSERT_TRUE(saver
                  .Begin(StateOf(100),
                         [&](StateTensors& to) {
                           to = TensorsOf(100);
                           room = to.weights.data();
                           return absl::OkStatus();
                         })
                  .ok());
  // If the snapshot fails, nothing is saved, and the earlier error is kept.
  EXPECT_EQ(saver
                .Begin(StateOf(200),
                       [](StateTensors&) {
                         return absl::UnavailableError("the device is gone");
                       })
                .status()
                .code(),
            Code::kUnavailable);
  full = false;
  auto begun = saver.Begin(StateOf(300), [&](StateTensors& to) {
    EXPECT_EQ(to.weights.data(), room);  // The same memory.
    return Fill(300)(to);
  });
  ASSERT_TRUE(begun.ok()) << begun.status();
  ASSERT_TRUE(begun->before.has_value());
  EXPECT_EQ(begun->before->status().code(), Code::kResourceExhausted);
  ASSERT_TRUE(saver.Wait().value().ok());
  EXPECT_EQ(Entries(), (Names{"latest", "step-00000300"}));
}

}  // namespace
}  // namespace rollcall

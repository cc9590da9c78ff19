// Disks that are full, folders that must not be written, and files that lie.
#include <grp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "gmock/gmock.h"
#include "meshwork/storage/checkpoint.h"
#include "meshwork/storage/checkpoint_writer.h"
#include "storage/saved.h"
#include "support/contents.h"
#include "support/temp_dir.h"

namespace meshwork::checkpoint_disk_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// 280 KiB.
const std::vector<SavedVariable>& Third() {
  static const auto* const variables = new std::vector<SavedVariable>{{"w", {F32, {64, 1120}}, "{a,_}"}};
  return *variables;
}

class CheckpointDiskTest : public TempDirTest {
 protected:
  ~CheckpointDiskTest() override {
    if (is_mounted_) umount2(Path("disk").c_str(), MNT_DETACH);
  }
  // Mounts a disk in memory at disk. False: this process may not.
  bool Mount(const char* options, unsigned long flags = 0) {
    std::filesystem::create_directory(Path("disk"));
    // Only this process sees the mount, and it ends with the process.
    if (unshare(CLONE_NEWNS) != 0 || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
      return false;
    is_mounted_ = mount("none", Path("disk").c_str(), "tmpfs", flags, options) == 0;
    return is_mounted_;
  }
  std::string Runs() const { return Path("disk/runs"); }
  absl::Status Save(CheckpointWriter& writer, int64_t step) const {
    MESHWORK_RETURN_IF_ERROR(writer.Begin({.step = step}, StateOf("a=2", 1, 0, Third(), /*filled=*/true)));
    return writer.Wait();
  }
  std::vector<std::string> Names() const { return NamesIn(Runs()); }
  void ExpectNewest(int64_t step) const {
    const absl::StatusOr<Checkpoint> newest = Checkpoint::Open(Runs());
    ASSERT_EQ(MessageOf(newest.status()), "");
    EXPECT_EQ(MessageOf(newest->Verify()), "");
    EXPECT_EQ(newest->index().step, step);
  }

 private:
  bool is_mounted_ = false;
};

TEST_F(CheckpointDiskTest, AFullDiskLosesNothingAndTheNextOneIsTried) {
  if (!Mount("size=1m")) GTEST_SKIP() << "this process may not mount a disk";
  const auto writer = CheckpointWriter::Open({.dir = Runs(), .job = "job", .keep = 9}).value();
  for (int64_t step = 1; step <= 3; ++step) ASSERT_EQ(MessageOf(Save(*writer, step)), "");
  for (int64_t step = 4; step <= 6; ++step) {
    EXPECT_THAT(MessageOf(Save(*writer, step)),
                AllOf(HasSubstr(fmt::format("Checkpoint of step {}: {}/partial-job-{}/shard-00000-of-00001",
                                            step, Runs(), step)),
                      HasSubstr("cannot be written: No space left on device")));
    ExpectNewest(3);
    // Half-written files take no room away.
    EXPECT_THAT(Names(), ElementsAre("lock", CheckpointName(1), CheckpointName(2), CheckpointName(3)));
  }
  ASSERT_EQ(MessageOf(RemoveCheckpoint(Runs() + "/" + CheckpointName(1))), "");
  EXPECT_EQ(MessageOf(Save(*writer, 7)), "");
  ExpectNewest(7);
}

// The disk has room for one shard, not for two.
TEST_F(CheckpointDiskTest, ADiskThatIsFullForOneDomainIsFullForAll) {
  if (!Mount("size=1m")) GTEST_SKIP() << "this process may not mount a disk";
  const std::vector<SavedVariable> variables = {{"w", {F32, {144, 960}}, "{a,_}"}};  // 2 * 270 KiB
  ASSERT_EQ(SaveAll(Runs(), "a=2", 2, variables, {.step = 1}), std::vector<absl::Status>(2));
  const std::vector<absl::Status> ended = SaveAll(Runs(), "a=2", 2, variables, {.step = 2});
  EXPECT_THAT(MessageOf(ended[0]), HasSubstr("No space left on device"));
  ExpectNewest(1);
  ASSERT_EQ(MessageOf(RemoveCheckpoint(Runs() + "/" + CheckpointName(1))), "");
  EXPECT_EQ(SaveAll(Runs(), "a=2", 2, variables, {.step = 3}), std::vector<absl::Status>(2));
  ExpectNewest(3);
  EXPECT_THAT(Names(), ElementsAre("lock", CheckpointName(3)));
}

TEST_F(CheckpointDiskTest, ADiskWithoutRoomForTheNameOfTheJobIsLocked) {
  if (!Mount("size=8k")) GTEST_SKIP() << "this process may not mount a disk";
  std::filesystem::create_directory(Runs());
  // The filler takes the last page.
  const absl::Status filled = WriteFileAtomically(Path("disk/filler"), std::string(8192, 'x'));
  ASSERT_EQ(MessageOf(filled), "");
  const auto writer = CheckpointWriter::Open({.dir = Runs(), .job = "job"});
  ASSERT_EQ(MessageOf(writer.status()), "");
  EXPECT_THAT(MessageOf(CheckpointWriter::Open({.dir = Runs(), .job = "job"}).status()),
              HasSubstr("another job writes its checkpoints there: it has not said which."));
  EXPECT_FALSE(Save(**writer, 1).ok());
  std::filesystem::remove(Path("disk/filler"));
}

TEST_F(CheckpointDiskTest, AFolderThatMustNotBeWrittenIsReadAndNotWritten) {
  if (!Mount("size=1m")) GTEST_SKIP() << "this process may not mount a disk";
  ASSERT_EQ(SaveAll(Runs(), "a=2", 1, Third(), {.step = 1}), std::vector<absl::Status>(1));
  ASSERT_EQ(mount(nullptr, Path("disk").c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr), 0)
      << std::strerror(errno);
  ExpectNewest(1);
  EXPECT_EQ(
      MessageOf(CheckpointWriter::Open({.dir = Runs(), .job = "job"}).status()),
      Runs() +
          "/lock: cannot be locked: Read-only file system; the folder must be writable, on a file system with "
          "flock.");
  EXPECT_THAT(MessageOf(CheckpointWriter::Open({.dir = Path("disk/other"), .job = "job"}).status()),
              HasSubstr("disk/other: the folder cannot be made: Read-only file system"));
}

// A folder that loses its permissions while a job writes there, and gets them back.
TEST_F(CheckpointDiskTest, AFolderThatMayNotBeWrittenForAWhileLosesNothing) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become somebody who needs permissions";
  std::filesystem::create_directories(Runs());
  ASSERT_EQ(chown(Runs().c_str(), 1234, 4321), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (setgroups(0, nullptr) != 0 || setgid(4321) != 0 || setuid(1234) != 0) _exit(1);
    const auto writer = CheckpointWriter::Open({.dir = Runs(), .job = "job"});
    if (!writer.ok() || !Save(**writer, 1).ok()) _exit(2);
    chmod(Runs().c_str(), 0555);
    const absl::Status refused = Save(**writer, 2);
    if (MessageOf(refused).find("Permission denied") == std::string::npos) _exit(3);
    const absl::StatusOr<Checkpoint> newest = Checkpoint::Open(Runs());
    if (!newest.ok() || newest->index().step != 1 || !newest->Verify().ok()) _exit(4);
    chmod(Runs().c_str(), 0755);
    if (!Save(**writer, 3).ok()) _exit(5);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  ExpectNewest(3);
  EXPECT_THAT(Names(), ElementsAre("lock", CheckpointName(1), CheckpointName(3)));
}

}  // namespace
}  // namespace meshwork::checkpoint_disk_test

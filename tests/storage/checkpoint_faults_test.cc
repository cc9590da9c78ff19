// Every system call of a writer and of a reader fails once (storage/fault_shim.cc), or ends the program.
#ifdef FAULT_SHIM
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <set>

#include "gmock/gmock.h"
#include "storage/checkpoints_of_child.h"
#include "storage/child_process.h"
#include "support/long_tests.h"
#include "support/temp_dir.h"

namespace meshwork::checkpoint_faults_test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

// What happens at a call, and the error text that this gives.
struct FaultCase {
  std::string kind;
  bool is_sticky = false, plain_rename = false;
  std::string calls = "all";

  std::string Text() const {
    const std::map<std::string, int> errors = {{"EIO", EIO}, {"ENOSPC", ENOSPC}, {"EROFS", EROFS}};
    return std::strerror(errors.at(kind));
  }
  // Whether the program should not notice it at all.
  bool is_harmless() const { return kind == "EINTR" || kind == "short"; }
};

class CheckpointFaultsTest : public TempDirTest {
 protected:
  std::string Runs() const { return Path("runs"); }

  ChildProcess::Environment EnvironmentOf(const FaultCase& fault, int64_t at) const {
    return {{"LD_PRELOAD", FAULT_SHIM},
            {"FAULT_DIR", Runs()},
            {"FAULT_CALLS", fault.calls},
            {"FAULT_KIND", fault.kind},
            {"FAULT_AT", std::to_string(at)},
            {"FAULT_STICKY", fault.is_sticky ? "1" : "0"},
            {"FAULT_PLAIN_RENAME", fault.plain_rename ? "1" : "0"},
            {"FAULT_REPORT", Path("hit")}};
  }
  // The call that was hit; "": none.
  std::string Hit() const {
    std::string line;
    std::ifstream file(Path("hit"));
    std::getline(file, line);
    return line;
  }
  // Resets the folder to one with the checkpoint of step 1.
  void Restart() {
    std::filesystem::remove(Path("hit"));
    std::filesystem::remove_all(Runs());
    if (!std::filesystem::exists(Path("start"))) {
      ChildProcess child(ChildWrites{.dir = Path("start"), .first = 1, .count = 1}.Arguments());
      ASSERT_EQ(child.Wait(), 0);
      ASSERT_EQ(CheckCheckpoints(Path("start")), 1);
    }
    std::filesystem::copy(Path("start"), Runs(), std::filesystem::copy_options::recursive);
  }
  // Checks that nothing was lost, and that the next writer goes on and cleans up.
  void CheckFolder(int64_t done) {
    EXPECT_GE(CheckCheckpoints(Runs()), std::max<int64_t>(done, 1));
    ASSERT_EQ(
        MessageOf(SaveAll(Runs(), "a=2", 1, ChildVariables(), {.step = 9, .facts = {{"write", "0"}}})[0]),
        "");
    EXPECT_EQ(CheckCheckpoints(Runs()), 9);
    EXPECT_THAT(NamesBesideLock(Runs()), Each(StartsWith("step-")));
  }
  // Each failure names the file and the reason. The next attempt succeeds, unless the disk is gone.
  void CheckLines(const FaultCase& fault, const std::vector<std::string>& lines) {
    int failures = 0;
    for (const std::string& line : lines) {
      if (!line.starts_with("failed ") && !line.starts_with("refused ")) continue;
      ++failures;
      EXPECT_FALSE(fault.is_harmless()) << line;
      if (!fault.is_harmless()) {
        EXPECT_THAT(line, AllOf(HasSubstr(Runs()), HasSubstr(fault.Text())));
      }
    }
    if (!fault.is_sticky) {
      EXPECT_LE(failures, 1) << lines.back();
    }
  }

  // Faults at the n-th call of a writer, for every n; without long tests, for every k-th n from `from` on.
  void Sweep(const FaultCase& fault, int64_t from) {
    int64_t hits = 0;
    for (int64_t n = LongTests() ? 1 : from;; n += EverySo(fault.calls == "all" ? 59 : 23)) {
      Restart();
      // Two checkpoints, each replaced by another of the same step. The oldest is removed.
      ChildProcess child(ChildWrites{.dir = Runs(), .first = 2, .count = 4, .each = 2}.Arguments(),
                         EnvironmentOf(fault, n));
      const int end = child.Wait();
      const std::string hit = Hit();
      if (hit.empty()) break;
      SCOPED_TRACE(fmt::format("{}{}{} at call {}: {}", fault.kind, fault.is_sticky ? " from then on" : "",
                               fault.plain_rename ? ", plain renames" : "", n, hit));
      ++hits;
      if (fault.kind == "kill") {
        EXPECT_EQ(end, -SIGKILL);
      } else {
        EXPECT_EQ(end, 0);
        CheckLines(fault, child.Lines());
      }
      CheckFolder(LastDone(child.Lines()));
      if (HasFatalFailure()) return;
    }
    EXPECT_GT(hits, fault.is_harmless() ? 0 : 2);
  }

  // The same for one of two domains.
  void SweepDomains(int64_t failing, int64_t from) {
    const FaultCase fault{.kind = "EIO", .calls = "writes"};
    for (int64_t n = LongTests() ? 1 : from;; n += EverySo(43)) {
      Restart();
      std::vector<std::unique_ptr<ChildProcess>> children;
      for (int64_t domain = 0; domain < 2; ++domain) {
        const ChildWrites writes{.dir = Runs(), .domain = domain, .domains = 2, .first = 2, .count = 3};
        children.push_back(std::make_unique<ChildProcess>(
            writes.Arguments(), domain == failing ? EnvironmentOf(fault, n) : ChildProcess::Environment()));
      }
      for (const auto& child : children) EXPECT_EQ(child->Wait(), 0);
      const std::string hit = Hit();
      if (hit.empty()) break;
      SCOPED_TRACE(fmt::format("EIO in domain {} at call {}: {}", failing, n, hit));
      CheckLines(fault, children[static_cast<size_t>(failing)]->Lines());
      CheckFolder(LastDone(children[0]->Lines()));
      if (HasFatalFailure()) return;
    }
  }
};

TEST_F(CheckpointFaultsTest, AnErrorAtAnyCallOfAWriterLosesNothing) {
  Sweep({.kind = "EIO"}, 3);
  Sweep({.kind = "ENOSPC", .calls = "writes"}, 11);
}

TEST_F(CheckpointFaultsTest, ADiskThatIsGoneFromAnyCallOnLosesNothing) {
  Sweep({.kind = "EROFS", .is_sticky = true, .calls = "writes"}, 5);
  Sweep({.kind = "ENOSPC", .is_sticky = true, .calls = "writes"}, 17);
}

TEST_F(CheckpointFaultsTest, AWriterGoesOnAfterInterruptionsAndShortTransfers) {
  Sweep({.kind = "EINTR"}, 7);
  Sweep({.kind = "short"}, 1);
}

TEST_F(CheckpointFaultsTest, AWriterKilledAtAnyCallLosesNothing) {
  Sweep({.kind = "kill", .calls = "writes"}, 13);
}

// As on NFS.
TEST_F(CheckpointFaultsTest, NothingIsLostWhereFoldersCannotBeExchanged) {
  Sweep({.kind = "EIO", .plain_rename = true}, 23);
  Sweep({.kind = "kill", .plain_rename = true, .calls = "writes"}, 19);
}

TEST_F(CheckpointFaultsTest, AnErrorInOneOfTwoDomainsLosesNothing) {
  SweepDomains(0, 8);
  SweepDomains(1, 4);
}

// A reader names the file that it cannot read, and the reason. Given a folder, it may read the older checkpoint.
TEST_F(CheckpointFaultsTest, AReaderSaysWhatItCannotRead) {
  for (const absl::Status& status :
       SaveAll(Runs(), "a=2", 2, ChildVariables(), {.step = 1, .facts = {{"write", "0"}}}))
    ASSERT_EQ(MessageOf(status), "");
  for (const absl::Status& status :
       SaveAll(Runs(), "a=2", 2, ChildVariables(), {.step = 2, .facts = {{"write", "0"}}}))
    ASSERT_EQ(MessageOf(status), "");
  for (const std::string& path : {Runs(), Runs() + "/" + CheckpointName(2)}) {
    for (const std::string kind : {"EIO", "EINTR", "short"}) {
      int64_t failures = 0;
      for (int64_t n = 1;; n += EverySo(9)) {
        std::filesystem::remove(Path("hit"));
        ChildProcess child({CHECKPOINT_CHILD, "read", path},
                           EnvironmentOf({.kind = kind, .calls = "reads"}, n));
        EXPECT_EQ(child.Wait(), 0);
        const std::string hit = Hit();
        if (hit.empty()) break;
        SCOPED_TRACE(fmt::format("{} at call {} of reading {}: {}", kind, n, path, hit));
        ASSERT_THAT(child.Lines(), SizeIs(1));
        const std::string said = child.Lines()[0];
        if (kind != "EIO") {
          EXPECT_EQ(said, "read 2 0");
        } else if (said.starts_with("failed ")) {
          ++failures;
          EXPECT_THAT(said, AllOf(HasSubstr(Runs()), HasSubstr("Input/output error")));
        } else {
          EXPECT_TRUE(said == "read 2 0" || (said == "read 1 0" && path == Runs())) << said;
        }
      }
      EXPECT_EQ(failures > 0, kind == "EIO");
    }
  }
}

// ---- The order of calls, against which a power cut is measured.

// What a power cut might lose: contents of files and names in folders that are not flushed.
class UnflushedModel {
 public:
  // A line of the log of calls.
  void Follow(const std::string& line) {
    const size_t space = line.find(' ');
    const std::string call = line.substr(0, space);
    std::string path = line.substr(space + 1), to;
    if (const size_t second = path.find(' '); second != std::string::npos) {
      to = path.substr(second + 1);
      path.resize(second);
    }
    if (call == "write") contents_.insert(path);
    else if (call == "create" || call == "mkdir") names_.insert(ParentOf(path));
    else if (call == "fsync") contents_.erase(path), names_.erase(path), new_names_.erase(path);
    else if (call == "unlinkat" || call == "remove") CheckBeforeRemoval(line, path);
    else if (call == "rename" || call == "exchange") Rename(line, path, to);
  }
  const std::vector<std::string>& mistakes() const { return mistakes_; }
  int64_t renames() const { return renames_; }

 private:
  static std::string ParentOf(const std::string& path) { return path.substr(0, path.rfind('/')); }
  static std::set<std::string> Below(const std::set<std::string>& paths, const std::string& root) {
    std::set<std::string> below;
    for (const std::string& path : paths)
      if (path == root || path.starts_with(root + "/")) below.insert(path);
    return below;
  }
  // A file or folder that gets its final name must be complete.
  void Rename(const std::string& line, const std::string& from, const std::string& to) {
    ++renames_;
    for (const std::string& path : Below(contents_, from))
      mistakes_.push_back(fmt::format("{}: the contents of {} are not flushed", line, path));
    for (const std::string& path : Below(names_, from))
      mistakes_.push_back(fmt::format("{}: the names in {} are not flushed", line, path));
    names_.insert(ParentOf(to));
    new_names_.insert(ParentOf(to));
  }
  // Files may be removed only after the folder's new name is flushed.
  void CheckBeforeRemoval(const std::string& line, const std::string& path) {
    const std::string folder = ParentOf(ParentOf(path));
    if (new_names_.contains(folder))
      mistakes_.push_back(fmt::format("{}: the names in {} are not flushed", line, folder));
  }

  std::set<std::string> contents_;           // files
  std::set<std::string> names_, new_names_;  // folders with unflushed new names; with unflushed renames
  std::vector<std::string> mistakes_;
  int64_t renames_ = 0;
};

TEST_F(CheckpointFaultsTest, APowerCutFindsEverythingFlushedThatHasAName) {
  for (const bool plain_rename : {false, true}) {
    Restart();
    std::filesystem::remove(Path("log"));
    ChildProcess::Environment environment = EnvironmentOf({.plain_rename = plain_rename}, 0);
    environment["FAULT_LOG"] = Path("log");
    std::vector<std::unique_ptr<ChildProcess>> children;
    for (int64_t domain = 0; domain < 2; ++domain) {
      const ChildWrites writes{
          .dir = Runs(), .domain = domain, .domains = 2, .first = 1, .count = 4, .each = 2};
      children.push_back(std::make_unique<ChildProcess>(writes.Arguments(), environment));
    }
    for (const auto& child : children) {
      EXPECT_EQ(child->Wait(), 0);
      EXPECT_EQ(LastDone(child->Lines()), 2);
    }
    UnflushedModel model;
    std::ifstream log(Path("log"));
    for (std::string line; std::getline(log, line);) model.Follow(line);
    EXPECT_THAT(model.mistakes(), IsEmpty());
    EXPECT_GE(model.renames(), 20);  // of two shards, a note, an index and a folder, four times
  }
}

}  // namespace
}  // namespace meshwork::checkpoint_faults_test
#endif  // FAULT_SHIM

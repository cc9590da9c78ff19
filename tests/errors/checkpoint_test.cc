// What is refused of checkpoints. DIR stands for a directory of this run.
#include "meshwork/storage/checkpoint.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <filesystem>
#include <memory>

#include "errors/errors.h"
#include "gtest/gtest.h"
#include "meshwork/storage/checkpoint_writer.h"
#include "storage/saved.h"
#include "support/flushes.h"
#include "support/temp_dir.h"

namespace meshwork::checkpoint_test {
namespace {

class CheckpointErrors : public TempDirTest {
 protected:
  void Expect(std::string_view area, const std::vector<Mistake>& mistakes) {
    char host[256] = {};
    gethostname(host, sizeof(host) - 1);
    ExpectErrors(
        area, mistakes,
        {{dir(), "DIR"}, {fmt::format("process {} on {}", getpid(), host), "process 4711 on host-d"}});
  }
  static const std::vector<SavedVariable>& Variables() {
    static const auto* const variables =
        new std::vector<SavedVariable>{{"b", {F32, {3}}, "{_}"}, {"w", {F32, {6, 2}}, "{a,_}"}};
    return *variables;
  }
  std::string Saved(const std::string& name, int64_t domains = 1) {
    for (const absl::Status& status : SaveAll(Path(name), "a=2", domains, Variables(), {.step = 1}))
      EXPECT_EQ(MessageOf(status), "");
    return Path(name + "/step-000000000001");
  }
};

// ---- The index.

// Reads a right index, of w, with one text in it replaced.
absl::Status ReadIndexWith(const std::string& from, const std::string& to) {
  std::string text = fmt::format(
      R"({{"format":1,"meshwork":"0.2.0","step":100,"mesh":"[batch=4]","written":"2026-11-24T10:52:29Z",)"
      R"("facts":{{"epoch":"3"}},"metrics":{{"loss":0.25}},"shards":[{{"file":"s0","bytes":96,"sha256":"{0}"}},)"
      R"({{"file":"s1","bytes":96,"sha256":"{0}"}}],"variables":[{{"name":"w","type":"f32[10,7]","layout":)"
      R"("{{batch,_}}","pieces":[{{"shard":0,"box":[[0,5],[0,7]]}},{{"shard":1,"box":[[5,10],[0,7]]}}]}},)"
      R"({{"name":"x","type":"i64[]","layout":"{{}}","pieces":[{{"shard":1,"box":[]}}]}}]}})",
      std::string(64, 'a'));
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  if (at != std::string::npos) text.replace(at, from.size(), to);
  return CheckpointIndexFromJson(text, "index.json").status();
}

TEST_F(CheckpointErrors, Index) {
  ASSERT_EQ(MessageOf(ReadIndexWith("w", "w")), "");
  const auto write = [](CheckpointIndex index) { return ToJson(index); };
  const auto changed = [](const std::string& from, const std::string& to) {
    CheckpointIndex index;
    index.facts = {{"batch", "17"}};
    std::string text = ToJson(index).value();
    return CheckpointIndexFromJson(text.replace(text.find(from), from.size(), to), "index.json").status();
  };
  const auto many_shards = [] {
    std::string shards = "[";
    for (int i = 0; i < 1 << 20; ++i) shards += "0,";
    return ReadIndexWith(R"([{"file":"s0")", shards + R"({"file":"s0")");
  };
  Expect("checkpoint_index", {
                                 MISTAKE(ReadIndexWith(R"({"format")", "")),
                                 MISTAKE(ReadIndexWith(R"("format":1,)", "")),
                                 MISTAKE(ReadIndexWith(R"("format":1)", R"("format":0)")),
                                 MISTAKE(ReadIndexWith(R"("format":1)", R"("format":3)")),
                                 MISTAKE(ReadIndexWith(R"("format":1,"meshwork":"0.2.0")", R"("format":3)")),
                                 MISTAKE(ReadIndexWith(R"("format":1)", R"("format":2)")),
                                 MISTAKE(changed(R"("batch":"17")", R"("batch":"3")")),
                                 MISTAKE(ReadIndexWith(R"("step":100)", R"("step":-1)")),
                                 MISTAKE(ReadIndexWith(R"("step")", R"("stop")")),
                                 MISTAKE(ReadIndexWith(R"("3")", "3")),
                                 MISTAKE(ReadIndexWith("0.25", R"("0.25")")),
                                 MISTAKE(ReadIndexWith("s0", "")),
                                 MISTAKE(ReadIndexWith("s0", "../s0")),
                                 MISTAKE(ReadIndexWith("s0", "..")),
                                 MISTAKE(ReadIndexWith("s0", "s1")),
                                 {"more shards than 2^20", many_shards},
                                 MISTAKE(ReadIndexWith("96", "-96")),
                                 MISTAKE(ReadIndexWith("aaaa", "aaa")),
                                 MISTAKE(ReadIndexWith("aaaa", "AAAA")),
                                 MISTAKE(ReadIndexWith("[10,7]", "[10,8]")),
                                 MISTAKE(ReadIndexWith("[10,7]", "[1099511627776,1099511627776]")),
                                 MISTAKE(ReadIndexWith("[10,7]", "[10, 7]")),
                                 MISTAKE(ReadIndexWith("f32[10", "f33[10")),
                                 MISTAKE(ReadIndexWith(R"("shard":0)", R"("shard":2)")),
                                 MISTAKE(ReadIndexWith("[[0,5],[0,7]]", "[[0,5]]")),
                                 MISTAKE(ReadIndexWith("[[0,5],[0,7]]", "[[0,5],[0,7,8]]")),
                                 MISTAKE(ReadIndexWith("[[0,5],[0,7]]", "[[0,5],[0,8]]")),
                                 MISTAKE(ReadIndexWith("[[0,5],[0,7]]", "[[0,0],[0,7]]")),
                                 MISTAKE(ReadIndexWith("[[0,5],[0,7]]", "[[0,6],[0,7]]")),
                                 MISTAKE(ReadIndexWith("[[0,5],[0,7]]", "[[0,4],[0,7]]")),
                                 MISTAKE(ReadIndexWith(R"("x")", R"("w")")),
                                 MISTAKE(write({.metrics = {{"loss", std::nan("")}}})),
                                 MISTAKE(write({.facts = {{"name", "\xff"}}})),
                             });
}

// ---- Folders.

// Takes the folder of a job whose lock names no holder.
absl::Status TakeSilentLock(const std::string& dir) {
  const absl::StatusOr<CheckpointLock> lock = CheckpointLock::Take(dir);
  std::filesystem::resize_file(dir + "/lock", 0);
  return CheckpointLock::Take(dir).status();
}

// A process has no file descriptor left to open a folder within the folder.
absl::Status RemoveWithFewFiles(const std::string& path) {
  std::filesystem::create_directories(path + "/below/it");
  const int next = dup(STDIN_FILENO);
  close(next);
  rlimit before;
  EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = static_cast<rlim_t>(next) + 1;
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const absl::Status status = RemoveCheckpoint(path);
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  return status;
}

TEST_F(CheckpointErrors, Folders) {
  const std::string good = Saved("good"), cut = Saved("cut"), missing = Saved("missing"),
                    hashed = Saved("hashed"), piece = Saved("piece"), type = Saved("type"),
                    long_index = Saved("long");
  const std::string shard = "/" + ShardName(0, 1);
  std::filesystem::resize_file(cut + shard, 100);
  std::filesystem::remove(missing + shard);
  std::filesystem::resize_file(long_index + "/index.json", uintmax_t{1} << 40);
  // Shards of the same size: one bit differs; another tensor; another type.
  std::string bytes = ReadFile(hashed + shard).value();
  bytes.back() ^= 1;
  File("hashed/step-000000000001" + shard, bytes);
  bytes = ReadFile(piece + shard).value();
  bytes[bytes.find("w [0:3")] = 'v';
  File("piece/step-000000000001" + shard, bytes);
  bytes = ReadFile(type + shard).value();
  bytes.replace(bytes.find("F32"), 3, "I32");
  File("type/step-000000000001" + shard, bytes);
  std::filesystem::create_directory(Path("empty"));
  File("file", "x");
  const CheckpointLock lock = CheckpointLock::Take(Path("locked")).value();
  const auto verify = [](const std::string& path) -> absl::Status {
    MESHWORK_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Open(path));
    return checkpoint.Verify();
  };
  const auto flush = [&](const std::function<absl::Status()>& call) {
    const WatchedFlushes failing([](const std::string&) { return EIO; });
    return call();
  };
  const Checkpoint opened = Checkpoint::Open(good).value();
  Expect("checkpoint_folder",
         {
             MISTAKE(Checkpoint::Open(Path("none"))),
             MISTAKE(Checkpoint::Open(Path("empty"))),
             MISTAKE(Checkpoint::Open(Path("file"))),
             MISTAKE(Checkpoint::Open(Path("cut"))),
             MISTAKE(Checkpoint::Open(cut)),
             MISTAKE(Checkpoint::Open(Path("missing"))),
             MISTAKE(Checkpoint::Open(long_index)),
             MISTAKE(verify(hashed)),
             MISTAKE(verify(piece)),
             MISTAKE(verify(type)),
             MISTAKE(opened.Read("ww")),
             MISTAKE(RemoveWithFewFiles(Path("full/step-000000000001"))),
             MISTAKE(RenameFolder(Path("good"), Path("cut"))),
             MISTAKE(flush([&] { return RenameFolder(Path("empty"), Path("renamed")); })),
             MISTAKE(flush([&] { return MakeFolders(Path("made")); })),
             MISTAKE(MakeFolders(Path("file"))),
             MISTAKE(MakeFolders(Path("file/below"))),
             MISTAKE(CheckpointLock::Take(Path("locked"))),
             MISTAKE(TakeSilentLock(Path("silent"))),
             MISTAKE(CheckpointLock::Take(Path("file/below"))),
             {"a lock that is a folder",
              [&] {
                std::filesystem::create_directories(Path("odd/lock"));
                return CheckpointLock::Take(Path("odd"));
              }},
         });
}

// ---- Writers.

TEST_F(CheckpointErrors, Writers) {
  const auto state = [](int64_t domains, int64_t domain) {
    return StateOf("a=2", domains, domain, Variables(), /*filled=*/true);
  };
  const auto alone = [&](const std::string& dir) -> absl::Status {
    MESHWORK_ASSIGN_OR_RETURN(
        const auto writer,
        CheckpointWriter::Open(
            {.dir = dir, .num_domains = 2, .job = "job", .deadline = std::chrono::milliseconds(20)}));
    MESHWORK_RETURN_IF_ERROR(writer->Begin({.step = 1}, state(2, 0)));
    return writer->Wait();
  };
  const auto save = [&](const CheckpointNote& note) -> absl::Status {
    MESHWORK_ASSIGN_OR_RETURN(const auto writer, CheckpointWriter::Open({.dir = Path("runs"), .job = "job"}));
    MESHWORK_RETURN_IF_ERROR(writer->Begin(note, state(1, 0)));
    return writer->Wait();
  };
  File("file", "x");
  // The shard, of domain 1, that cannot be flushed.
  const auto fail = [&] {
    const WatchedFlushes failing(
        [](const std::string& path) { return path.find("shard-00001-of") == std::string::npos ? 0 : EIO; });
    return SaveAll(Path("failing"), "a=2", 2, Variables())[0];
  };
  Expect("checkpoint_writer", {
                                  MISTAKE(CheckpointWriter::Open({.dir = ""})),
                                  MISTAKE(CheckpointWriter::Open({.dir = Path("runs"), .keep = 0})),
                                  MISTAKE(CheckpointWriter::Open({.dir = Path("file/below"), .job = "job"})),
                                  MISTAKE(alone(Path("alone"))),
                                  {"a domain that fails", fail},
                                  MISTAKE(save({.step = 1, .metrics = {{"loss", INFINITY}}})),
                                  MISTAKE(save({.step = 1, .facts = {{"name", "\xff"}}})),
                              });
}

// ---- Restoring.

TEST_F(CheckpointErrors, Restoring) {
  const Checkpoint checkpoint = Checkpoint::Open(Saved("good")).value();
  const auto restore = [&](const std::vector<SavedVariable>& variables, const RestoreOptions& options = {}) {
    return checkpoint.RestoreInto(StateOf("a=2", 1, 0, variables, /*filled=*/false), options);
  };
  const SavedVariable b = {"b", {F32, {3}}, "{_}"}, w = {"w", {F32, {6, 2}}, "{a,_}"};
  const SavedVariable other = {"head", {F32, {3}}, "{_}"};
  const Checkpoint cut = Checkpoint::Open(Saved("cut")).value();
  std::filesystem::resize_file(cut.path() + "/" + ShardName(0, 1), 8);
  Expect("checkpoint_restore",
         {
             MISTAKE(restore({b})),
             MISTAKE(restore({b, w, other})),
             MISTAKE(restore({b, {"w", {F32, {6, 3}}, "{_,_}"}})),
             MISTAKE(restore({b, {"w", {BF16, {6, 2}}, "{_,_}"}})),
             MISTAKE(restore({{"b", {F64, {4}}, "{_}"}, other})),
             MISTAKE(restore({other}, {.names = {{"head", "c"}}, .partial = true})),
             MISTAKE(restore({b, w}, {.names = {{"ww", "w"}}})),
             MISTAKE(restore({other}, {.partial = true})),
             {"a shard that was cut after it was opened",
              [&] { return cut.RestoreInto(StateOf("a=2", 1, 0, Variables(), false)); }},
         });
}

}  // namespace
}  // namespace meshwork::checkpoint_test

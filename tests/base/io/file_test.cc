#include "meshwork/base/io/file.h"

#include <grp.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <set>
#include <thread>
#include <vector>

#include "meshwork/base/io/sha256.h"
#include "support/flushes.h"
#include "support/temp_dir.h"

namespace meshwork::file_test {
namespace {

using FileTest = TempDirTest;

TEST_F(FileTest, ReadsWhatWasWritten) {
  for (size_t size : {size_t{0}, size_t{1}, size_t{4095}, size_t{4096}, size_t{4097}, size_t{1000000}}) {
    std::string contents;
    for (size_t i = 0; i < size; ++i) contents += static_cast<char>(i * 7 + i / 256);
    ASSERT_TRUE(WriteFileAtomically(Path("f"), contents).ok());
    EXPECT_EQ(ReadFile(Path("f")).value(), contents);
  }
  EXPECT_EQ(NumFiles(), 1);
}

TEST_F(FileTest, WritesPiecesOneAfterTheOther) {
  const std::array<std::string_view, 4> pieces = {"ab", "", "c", "def"};
  ASSERT_TRUE(WriteFileAtomically(Path("f"), pieces).ok());
  EXPECT_EQ(ReadFile(Path("f")).value(), "abcdef");
}

TEST_F(FileTest, WritesPiecesThatAreMadeMeanwhile) {
  int made = 0;
  std::string piece;
  const auto next = [&]() -> absl::StatusOr<std::string_view> {
    piece = made < 3 ? std::string(size_t{1} << (10 * made), static_cast<char>('a' + made)) : "";
    ++made;
    return piece;
  };
  Sha256 hash;
  ASSERT_TRUE(WritePiecesAtomically(Path("f"), next, &hash).ok());
  EXPECT_EQ(ReadFile(Path("f")).value(), "a" + std::string(1024, 'b') + std::string(1 << 20, 'c'));
  EXPECT_EQ(hash.Hex(), Sha256OfFile(Path("f")).value());
  made = 3;
  ASSERT_TRUE(WritePiecesAtomically(Path("f"), next).ok());
  EXPECT_EQ(ReadFile(Path("f")).value(), "");
}

TEST_F(FileTest, APieceThatCannotBeMadeLeavesTheOldFile) {
  File("f", "old");
  int made = 0;
  const auto next = [&]() -> absl::StatusOr<std::string_view> {
    if (made++ == 2) return absl::DataLossError("damaged");
    return "piece";
  };
  EXPECT_EQ(MessageOf(WritePiecesAtomically(Path("f"), next)), "damaged");
  EXPECT_EQ(ReadFile(Path("f")).value(), "old");
  EXPECT_EQ(NumFiles(), 1);
}

// Pieces are flushed before the file gets its new name, as in other writes.
TEST_F(FileTest, FlushesPieces) {
  File("f", "old");
  std::vector<std::string> flushed;
  {
    const WatchedFlushes flushes([&](const std::string& path) {
      flushed.push_back((path == dir() ? "directory" : ReadFile(path).value()) + ", f is " +
                        ReadFile(Path("f")).value());
      return 0;
    });
    int made = 0;
    ASSERT_TRUE(WritePiecesAtomically(Path("f"), [&]() -> absl::StatusOr<std::string_view> {
                  return made++ < 2 ? "ab" : "";
                }).ok());
  }
  EXPECT_EQ(flushed, (std::vector<std::string>{"abab, f is old", "directory, f is abab"}));
}

TEST_F(FileTest, HashesWhatItWrites) {
  const std::string mebibyte(size_t{1} << 20, 'm'), odd(1'234'567, 'o');
  std::vector<std::string_view> pieces(64, mebibyte);
  pieces.insert(pieces.end(), {"", odd, "end"});
  std::string hash;
  {
    // Without a flush, writing ends before hashing does.
    const WatchedFlushes flushes([](const std::string&) { return EINVAL; });
    Sha256 beside;
    ASSERT_TRUE(WriteFileAtomically(Path("f"), pieces, &beside).ok());
    hash = beside.Hex();
  }
  EXPECT_EQ(hash, Sha256OfFile(Path("f")).value());
  EXPECT_EQ(std::filesystem::file_size(Path("f")), (64 << 20) + 1'234'567 + 3);
}

// A power cut loses what was not flushed: first the contents, then the name.
TEST_F(FileTest, FlushesTheFileBeforeItsNameAndThenTheDirectory) {
  File("f", "old");
  std::vector<std::string> flushed;
  {
    const WatchedFlushes flushes([&](const std::string& path) {
      const bool is_temporary = path.starts_with(Path("f") + ".tmp-");
      flushed.push_back(is_temporary ? "temporary, " + ReadFile(path).value() : path);
      flushed.back() += ", where f is " + ReadFile(Path("f")).value();
      return 0;
    });
    ASSERT_TRUE(WriteFileAtomically(Path("f"), "new").ok());
  }
  EXPECT_EQ(flushed,
            (std::vector<std::string>{"temporary, new, where f is old", dir() + ", where f is new"}));
}

TEST_F(FileTest, FlushesTheDirectoryOfARelativePathAndOfWhereALinkLeads) {
  std::filesystem::create_directory(Path("sub"));
  ASSERT_EQ(symlink("sub/f", Path("link").c_str()), 0);
  std::vector<std::string> flushed;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(dir());
  {
    const WatchedFlushes flushes([&](const std::string& path) {
      if (std::filesystem::is_directory(path)) flushed.push_back(path);
      return 0;
    });
    EXPECT_TRUE(WriteFileAtomically("f", "x").ok());
    EXPECT_TRUE(WriteFileAtomically("link", "x").ok());
  }
  std::filesystem::current_path(before);
  EXPECT_EQ(flushed, (std::vector<std::string>{dir(), Path("sub")}));
}

// EINVAL says that there is no disk to flush to.
TEST_F(FileTest, WritesWhereNothingCanBeFlushed) {
  const WatchedFlushes flushes([](const std::string&) { return EINVAL; });
  ASSERT_TRUE(WriteFileAtomically(Path("f"), "x").ok());
  EXPECT_EQ(ReadFile(Path("f")).value(), "x");
}

TEST_F(FileTest, AFlushThatFailsIsAnError) {
  File("f", "old");
  const auto write = [&](bool fail_directory) {
    const WatchedFlushes flushes([&](const std::string& path) {
      return std::filesystem::is_directory(path) == fail_directory ? EIO : 0;
    });
    return WriteFileAtomically(Path("f"), "new");
  };
  EXPECT_FALSE(write(false).ok());
  EXPECT_EQ(ReadFile(Path("f")).value(), "old");
  EXPECT_FALSE(write(true).ok());
  EXPECT_EQ(ReadFile(Path("f")).value(), "new");
  EXPECT_EQ(NumFiles(), 1);
}

TEST_F(FileTest, WritesIntoADirectoryThatMayNotBeRead) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become the owner of the directory";
  ASSERT_EQ(chown(dir().c_str(), 1234, 4321), 0);
  ASSERT_EQ(chmod(dir().c_str(), 0300), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const bool became = setgroups(0, nullptr) == 0 && setgid(4321) == 0 && setuid(1234) == 0;
    _exit(became && WriteFileAtomically(Path("f"), "x").ok() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(ReadFile(Path("f")).value(), "x");
}

TEST_F(FileTest, WritesARelativePath) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(dir());
  EXPECT_TRUE(WriteFileAtomically("f", "x").ok());
  std::filesystem::current_path(before);
  EXPECT_EQ(ReadFile(Path("f")).value(), "x");
}

TEST_F(FileTest, ReadsAPipe) {
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  const std::string contents(100000, 'x');
  std::thread writer([&] {
    FILE* pipe = fopen(Path("pipe").c_str(), "w");
    fwrite(contents.data(), 1, contents.size(), pipe);
    fclose(pipe);
  });
  EXPECT_EQ(ReadFile(Path("pipe")).value(), contents);
  writer.join();
}

struct stat StatOf(const std::string& path) {
  struct stat info {};
  EXPECT_EQ(lstat(path.c_str(), &info), 0) << path;
  return info;
}

TEST_F(FileTest, AFileThatIsReplacedKeepsItsPermissions) {
  for (mode_t mode : {0600, 0640, 0666, 0444, 0755, 02755, 04711}) {
    File("f", "old");
    ASSERT_EQ(chmod(Path("f").c_str(), mode), 0);
    ASSERT_TRUE(WriteFileAtomically(Path("f"), "new").ok());
    EXPECT_EQ(StatOf(Path("f")).st_mode & 07777, mode);
    EXPECT_EQ(ReadFile(Path("f")).value(), "new");
    std::filesystem::remove(Path("f"));
  }
}

TEST_F(FileTest, ANewFileIsAsTheUmaskSays) {
  const mode_t before = umask(027);
  EXPECT_TRUE(WriteFileAtomically(Path("f"), "x").ok());
  umask(before);
  EXPECT_EQ(StatOf(Path("f")).st_mode & 07777, 0640u);
}

// Root can give files away. Others can change a file's group only to another group of theirs.
TEST_F(FileTest, AFileThatIsReplacedKeepsItsOwnerAndGroup) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make a file that is somebody else's";
  File("f", "old");
  ASSERT_EQ(chown(Path("f").c_str(), 1234, 4321), 0);
  ASSERT_EQ(chmod(Path("f").c_str(), 06750), 0);
  ASSERT_TRUE(WriteFileAtomically(Path("f"), "new").ok());
  const struct stat info = StatOf(Path("f"));
  EXPECT_EQ(info.st_uid, 1234u);
  EXPECT_EQ(info.st_gid, 4321u);
  EXPECT_EQ(info.st_mode & 07777, 06750u);
}

// If the group cannot be kept, its rights are not passed on to another group.
TEST_F(FileTest, AGroupThatCannotBeKeptPassesNoRightsOn) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become somebody who cannot";
  File("f", "old");
  ASSERT_EQ(chown(dir().c_str(), 1234, 4321), 0);
  ASSERT_EQ(chown(Path("f").c_str(), 77, 88), 0);
  ASSERT_EQ(chmod(Path("f").c_str(), 02764), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const bool became = setgroups(0, nullptr) == 0 && setgid(4321) == 0 && setuid(1234) == 0;
    _exit(became && WriteFileAtomically(Path("f"), "new").ok() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  const struct stat info = StatOf(Path("f"));
  EXPECT_EQ(info.st_uid, 1234u);
  EXPECT_EQ(info.st_gid, 4321u);
  EXPECT_EQ(info.st_mode & 07777, 0744u);
}

TEST_F(FileTest, FollowsLinks) {
  std::filesystem::create_directory(Path("sub"));
  File("sub/f", "old");
  ASSERT_EQ(chmod(Path("sub/f").c_str(), 0600), 0);
  // A link to a relative path, through another link.
  ASSERT_EQ(symlink("f", Path("sub/near").c_str()), 0);
  ASSERT_EQ(symlink("sub/near", Path("far").c_str()), 0);
  ASSERT_TRUE(CheckWritable(Path("far")).ok());
  ASSERT_TRUE(WriteFileAtomically(Path("far"), "new").ok());
  EXPECT_TRUE(S_ISLNK(StatOf(Path("far")).st_mode));
  EXPECT_TRUE(S_ISLNK(StatOf(Path("sub/near")).st_mode));
  EXPECT_EQ(ReadFile(Path("sub/f")).value(), "new");
  EXPECT_EQ(StatOf(Path("sub/f")).st_mode & 07777, 0600u);
  // A link to a file that does not exist yet.
  ASSERT_EQ(symlink(Path("sub/later").c_str(), Path("dangling").c_str()), 0);
  ASSERT_TRUE(WriteFileAtomically(Path("dangling"), "first").ok());
  EXPECT_EQ(ReadFile(Path("sub/later")).value(), "first");
  EXPECT_TRUE(S_ISLNK(StatOf(Path("dangling")).st_mode));
}

TEST_F(FileTest, DoesNotReplaceADirectory) {
  std::filesystem::create_directory(Path("sub"));
  EXPECT_FALSE(WriteFileAtomically(Path("sub"), "x").ok());
  EXPECT_TRUE(std::filesystem::is_directory(Path("sub")));
  EXPECT_EQ(NumFiles(), 1);
}

TEST_F(FileTest, AFailedWriteLeavesTheOldFileAndNoTemporary) {
  File("f", "old");
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 1000;
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const absl::Status status = WriteFileAtomically(Path("f"), std::string(5000, 'x'));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  ExpectError(
      status, absl::StatusCode::kOutOfRange, Path("f"),
      "$: cannot be written: File too large; its directory must exist, be writable and have room. Nothing "
      "was changed.");
  EXPECT_EQ(ReadFile(Path("f")).value(), "old");
  EXPECT_EQ(NumFiles(), 1);
}

TEST_F(FileTest, ConcurrentWritersLeaveOneOfTheirVersions) {
  std::vector<std::thread> writers;
  for (int w = 0; w < 4; ++w) {
    writers.emplace_back([this, w] {
      const std::string contents(10000, static_cast<char>('a' + w));
      for (int i = 0; i < 5; ++i) EXPECT_TRUE(WriteFileAtomically(Path("f"), contents).ok());
    });
  }
  for (std::thread& writer : writers) writer.join();
  const std::string contents = ReadFile(Path("f")).value();
  EXPECT_EQ(contents, std::string(10000, contents[0]));
  EXPECT_EQ(NumFiles(), 1);
}

TEST_F(FileTest, MakesFoldersAndFlushesTheirNames) {
  std::vector<std::string> flushed;
  {
    const WatchedFlushes flushes([&](const std::string& path) { return flushed.push_back(path), 0; });
    EXPECT_EQ(MessageOf(MakeFolders(Path("a/b/c"))), "");
    EXPECT_EQ(MessageOf(MakeFolders(Path("a/b/c"))), "");
    EXPECT_EQ(MessageOf(MakeFolders(Path("a/d"))), "");
  }
  EXPECT_EQ(MessageOf(MakeFolders(Path("a/e/"))), "");
  EXPECT_TRUE(std::filesystem::is_directory(Path("a/e")));
  EXPECT_TRUE(std::filesystem::is_directory(Path("a/b/c")));
  EXPECT_TRUE(std::filesystem::is_directory(Path("a/d")));
  EXPECT_EQ(std::set<std::string>(flushed.begin(), flushed.end()),
            (std::set<std::string>{dir(), Path("a"), Path("a/b")}));
}

TEST_F(FileTest, RenamesFoldersAndReplacesNothing) {
  std::filesystem::create_directory(Path("a"));
  File("a/f", "a");
  ASSERT_EQ(MessageOf(RenameFolder(Path("a"), Path("b"))), "");
  EXPECT_EQ(ReadFile(Path("b/f")).value(), "a");
  EXPECT_FALSE(std::filesystem::exists(Path("a")));
  std::filesystem::create_directory(Path("empty"));
  EXPECT_EQ(RenameFolder(Path("b"), Path("empty")).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(ReadFile(Path("b/f")).value(), "a");
}

TEST_F(FileTest, ExchangesFolders) {
  for (const char* name : {"a", "b"}) {
    std::filesystem::create_directory(Path(name));
    File(fmt::format("{}/f", name), name);
  }
  std::vector<std::string> flushed;
  {
    const WatchedFlushes flushes([&](const std::string& path) { return flushed.push_back(path), 0; });
    ASSERT_EQ(MessageOf(ExchangeFolders(Path("a"), Path("b"))), "");
  }
  EXPECT_EQ(ReadFile(Path("a/f")).value(), "b");
  EXPECT_EQ(ReadFile(Path("b/f")).value(), "a");
  EXPECT_EQ(flushed, std::vector<std::string>{dir()});
  EXPECT_EQ(ExchangeFolders(Path("a"), Path("none")).code(), absl::StatusCode::kNotFound);
}

TEST_F(FileTest, InputFileReadsAtAnyPosition) {
  const InputFile file = InputFile::Open(File("f", "0123456789")).value();
  EXPECT_EQ(file.size(), 10);
  EXPECT_EQ(file.path(), Path("f"));
  std::array<char, 3> bytes;
  ASSERT_TRUE(file.ReadAt(4, std::as_writable_bytes(std::span(bytes))).ok());
  EXPECT_EQ(std::string_view(bytes.data(), 3), "456");
  EXPECT_TRUE(file.ReadAt(10, {}).ok());
}

}  // namespace
}  // namespace meshwork::file_test

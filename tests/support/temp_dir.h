// A directory for the files of one test, empty at first, removed at its end.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

#include "gtest/gtest.h"
#include "meshwork/base/status.h"

namespace meshwork {

class TempDirTest : public testing::Test {
 protected:
  TempDirTest() {
    const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
    dir_ =
        fmt::format("{}meshwork-{}-{}-{}", testing::TempDir(), test.test_suite_name(), test.name(), getpid());
    std::filesystem::remove_all(dir_);
    std::filesystem::create_directories(dir_);
  }
  ~TempDirTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(dir_, ignored);
  }

  const std::string& dir() const { return dir_; }
  std::string Path(std::string_view name) const { return fmt::format("{}/{}", dir_, name); }
  // Writes a file and returns its path.
  std::string File(std::string_view name, std::string_view contents) const {
    std::string path = Path(name);
    std::ofstream file(path, std::ios::binary);
    file << contents << std::flush;
    EXPECT_TRUE(file.good()) << path;
    return path;
  }
  int64_t NumFiles() const {
    return std::distance(std::filesystem::directory_iterator(dir_), std::filesystem::directory_iterator());
  }

 private:
  std::string dir_;
};

// Expects an error with exactly this message, where $ stands for `path`.
inline void ExpectError(const absl::Status& status, absl::StatusCode code, std::string_view path,
                        std::string_view message) {
  std::string expected;
  for (char c : message) {
    if (c == '$') expected += path;
    else expected += c;
  }
  EXPECT_EQ(MessageOf(status), expected);
  EXPECT_EQ(status.code(), code);
}

inline void ExpectInvalid(const absl::Status& status, std::string_view path, std::string_view message) {
  ExpectError(status, absl::StatusCode::kInvalidArgument, path, message);
}

}  // namespace meshwork

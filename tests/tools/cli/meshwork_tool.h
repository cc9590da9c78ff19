// The fixture of the tests of the program meshwork: a program text, and the tool run on it.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "support/temp_dir.h"
#include "tools/cli/process.h"

namespace meshwork {

inline constexpr std::string_view kStep = R"(mesh [batch=2, model=4]
func step(%h: f32[8,12] {batch,model},
     var %w: f32[12,4] {model,_}) {
  %y = matmul %h, %w : f32[8,4] {batch,_}
  %loss = reduce_sum %y dims=[0,1] : f32[]
  %0 = add %w, %w : f32[12,4]
  update %w = %0
  return y=%y, loss=%loss
}
)";

class MeshworkTest : public TempDirTest {
 protected:
  MeshworkTest() { File("step.mw", kStep); }

  static Finished Run(const std::vector<std::string>& args) {
    const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
    return RunProcess(MESHWORK, args, fmt::format("{}cli-{}-{}", testing::TempDir(), test.name(), getpid()));
  }
  // Runs a shell command in the test's folder, where $0 is the program.
  Finished Shell(const std::string& command) const {
    return RunProcess("/bin/sh", {"-c", fmt::format("cd {} && {}", dir(), command), MESHWORK}, Path("shell"));
  }

  // Nothing on stdout; this on stderr, where $ stands for the test's folder.
  void ExpectFails(const Finished& finished, int code, std::string_view message) const {
    std::string expected;
    for (char c : message) {
      if (c == '$') expected += dir();
      else expected += c;
    }
    EXPECT_EQ(finished.err, expected + "\n");
    EXPECT_EQ(finished.out, "");
    EXPECT_EQ(finished.code, code);
  }

  // The output of a command that succeeds.
  static std::string Output(const std::vector<std::string>& args) {
    const Finished finished = Run(args);
    EXPECT_EQ(finished.code, 0);
    EXPECT_EQ(finished.err, "");
    return finished.out;
  }
};

// `n` numbers: 0, 1, 2, 3, 4, 0, …
inline std::vector<float> Ramp(int64_t n) {
  std::vector<float> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(static_cast<float>(i % 5));
  return values;
}

}  // namespace meshwork

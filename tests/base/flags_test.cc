// Flags of kinds that few programs have.
#include "meshwork/base/flags.h"

#include <chrono>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace meshwork::flags_test {
namespace {

using std::chrono::milliseconds;

TEST(FlagsTest, ReadsTimes) {
  const auto read = [](const char* text) {
    milliseconds time{-1};
    FlagTable flags("program", "About.");
    flags.Duration("time", "how long", &time);
    const char* const argv[] = {"program", "--time", text};
    EXPECT_TRUE(flags.Parse(3, argv).ok()) << text;
    return time;
  };
  EXPECT_EQ(read("0s"), milliseconds(0));
  EXPECT_EQ(read("250ms"), milliseconds(250));
  EXPECT_EQ(read("1.5s"), milliseconds(1500));
  EXPECT_EQ(read("5min"), milliseconds(300000));
  EXPECT_EQ(read("2h"), milliseconds(7200000));
}

// Law: the text that DurationToString writes is read back as the same duration.
TEST(FlagsTest, WritesTimesAsItReadsThem) {
  for (const auto& [time, text] :
       std::vector<std::pair<milliseconds, std::string>>{{milliseconds(0), "0ms"},
                                                         {milliseconds(1), "1ms"},
                                                         {milliseconds(1500), "1500ms"},
                                                         {milliseconds(90000), "90s"},
                                                         {milliseconds(300000), "5min"},
                                                         {milliseconds(7200000), "2h"}}) {
    EXPECT_EQ(DurationToString(time), text);
    milliseconds read{-1};
    FlagTable flags("program", "About.");
    flags.Duration("time", "how long", &read);
    const char* const argv[] = {"program", "--time", text.c_str()};
    EXPECT_TRUE(flags.Parse(3, argv).ok()) << text;
    EXPECT_EQ(read, time);
  }
}

TEST(FlagsTest, AddsTextsThatAreGivenSeveralTimes) {
  std::vector<std::string> names;
  FlagTable flags("program", "About.");
  flags.Texts("name", "which ones", &names);
  const char* const argv[] = {"program", "--name", "a", "--name=b", "--name", "a"};
  ASSERT_TRUE(flags.Parse(6, argv).ok());
  EXPECT_EQ(names, (std::vector<std::string>{"a", "b", "a"}));
}

// Arguments after "--" belong to another program, flags included.
TEST(FlagsTest, LeavesAnotherProgramItsArguments) {
  std::vector<std::string> command;
  int64_t count = 0;
  FlagTable flags("program", "About.");
  flags.Int("count", "how many", &count, 0);
  flags.Rest("COMMAND", "what to run", &command);
  const char* const argv[] = {"program", "--count", "3", "--", "train", "--count", "4", "--help", "--", ""};
  ASSERT_TRUE(flags.Parse(10, argv).ok());
  EXPECT_EQ(count, 3);
  EXPECT_FALSE(flags.help_asked());
  EXPECT_EQ(command, (std::vector<std::string>{"train", "--count", "4", "--help", "--", ""}));
  EXPECT_NE(
      flags.Help().find("Usage: program [--flag value]… -- COMMAND\n\n  COMMAND            what to run\n"),
      std::string::npos)
      << flags.Help();
}

}  // namespace
}  // namespace meshwork::flags_test

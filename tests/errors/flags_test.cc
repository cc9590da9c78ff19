// What is refused of command-line flags.
#include "meshwork/base/flags.h"

#include <chrono>
#include <string>
#include <vector>

#include "errors/errors.h"
#include "gtest/gtest.h"

namespace meshwork::flags_test {
namespace {

absl::Status Parse(const std::vector<const char*>& arguments, bool places, bool rest = false) {
  std::string file, choice = "on";
  int64_t count = 0, size = 1, memory = 0;
  double rate = 1;
  bool quiet = false;
  std::chrono::milliseconds time{1};
  std::vector<std::string> texts, command;
  FlagTable flags("program", "About.");
  if (places) flags.Positional("FILE", "a file", &file);
  flags.Int("count", "how many", &count, 0);
  flags.Int("size", "how large", &size, 1, 9);
  flags.Bytes("memory", "how much", &memory);
  flags.Real("rate", "how fast", &rate, 0);
  flags.Choice("choice", "which", &choice, {"on", "off"});
  flags.Duration("time", "how long", &time);
  flags.Texts("name", "which ones", &texts);
  if (rest) flags.Rest("COMMAND", "what to run", &command);
  flags.Switch("quiet", "says nothing", &quiet);
  std::vector<const char*> argv = {"program"};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return flags.Parse(static_cast<int>(argv.size()), argv.data());
}
absl::Status Flags(const std::vector<const char*>& arguments) { return Parse(arguments, false); }
absl::Status WithFile(const std::vector<const char*>& arguments) { return Parse(arguments, true); }
absl::Status WithCommand(const std::vector<const char*>& arguments) { return Parse(arguments, false, true); }

TEST(FlagsErrors, Arguments) {
  ExpectErrors("flags", {
                            MISTAKE(Flags({"count"})),
                            MISTAKE(Flags({"--"})),
                            MISTAKE(Flags({"-"})),
                            MISTAKE(Flags({"--cuont", "1"})),
                            MISTAKE(Flags({"--verbose"})),
                            MISTAKE(Flags({"--help=yes"})),
                            MISTAKE(Flags({"--count"})),
                            MISTAKE(Flags({"--quiet=yes"})),
                            MISTAKE(Flags({"--count", "-1"})),
                            MISTAKE(Flags({"--size=10"})),
                            MISTAKE(Flags({"--memory=5MB"})),
                            MISTAKE(Flags({"--memory", "-1KiB"})),
                            MISTAKE(Flags({"--memory=9000000000GiB"})),
                            MISTAKE(Flags({"--rate=0"})),
                            MISTAKE(Flags({"--choice=On"})),
                            MISTAKE(Flags({"--choice=never"})),
                            MISTAKE(Flags({"--time=10"})),
                            MISTAKE(Flags({"--time=-1s"})),
                            MISTAKE(Flags({"--time=1d"})),
                            MISTAKE(Flags({"--time=1e300h"})),
                            MISTAKE(Flags({"--time=nanms"})),
                            MISTAKE(Flags({"--name"})),
                            MISTAKE(WithCommand({})),
                            MISTAKE(WithCommand({"--count=1", "--"})),
                            MISTAKE(WithCommand({"train", "--quiet"})),
                            MISTAKE(WithFile({})),
                            MISTAKE(WithFile({"-", "b"})),
                            MISTAKE(WithFile({"-x"})),
                        });
}

}  // namespace
}  // namespace meshwork::flags_test

// meshwork supervise as a shell sees it.
#include <filesystem>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/cli/meshwork_tool.h"

namespace meshwork::meshwork_supervise_test {
namespace {

using ::testing::HasSubstr;

class SuperviseTest : public MeshworkTest {
 protected:
  SuperviseTest() {
    // try CODE…: try n ends with the n-th code. A code -N ends it by signal N.
    File("try",
         "n=$(cat tries 2>/dev/null || echo 0); echo $((n + 1)) > tries; shift $n\n"
         "case $1 in -*) kill $1 $$ ;; *) exit $1 ;; esac\n");
  }

  // Runs "meshwork supervise <arguments>" in this test's folder.
  Finished Supervise(const std::string& arguments) const {
    return Shell("exec \"$0\" supervise " + arguments);
  }
  // The lines on stderr, with times hidden.
  static std::string Said(const Finished& finished) {
    static const auto* const seconds = new std::regex("after [0-9.]+ s");
    return std::regex_replace(finished.err, *seconds, "after T s");
  }
  std::string Tries() const { return Contents(Path("tries")); }
  // A shell function that waits until a file exists and is not empty.
  static std::string Await() { return "await() { while ! [ -s $1 ]; do sleep 0.01; done; }; "; }
};

constexpr std::string_view kFast = "--backoff 1ms --max-backoff 2ms ";

TEST_F(SuperviseTest, HelpSaysWhatItDoes) {
  const std::string help = Output({"supervise", "--help"});
  EXPECT_THAT(help, HasSubstr("Usage: meshwork supervise [--flag value]… -- COMMAND ARG…\n"));
  EXPECT_THAT(help, HasSubstr("--max-backoff      the most time before a start [5min]\n"));
}

TEST_F(SuperviseTest, RefusesArgumentsThatAreWrong) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{}, "-- COMMAND ARG… is missing. See --help."},
      {{"--"}, "-- COMMAND ARG… is missing. See --help."},
      {{"true"}, "\"true\" is not a flag; write -- in front of COMMAND ARG…. See --help."},
      {{"--restart", "1", "--", "true"},
       "there is no flag --restart; did you mean \"restarts\"? See --help."},
      {{"--restarts", "-1", "--", "true"}, "--restarts: \"-1\" is not a whole number of at least 0."},
      {{"--backoff", "1", "--", "true"},
       "--backoff: \"1\" is not a time; write for example 500ms, 10s, 5min or 1h."},
      {{"--backoff", "1h", "--max-backoff=90s", "--", "true"},
       "--max-backoff: 90s is less than the 1h of --backoff."},
      {{"--", Path("none"), "x"},
       "$/none: cannot be started: No such file or directory; give a program and its arguments behind --."},
      {{"--", dir()}, "$: cannot be started: Permission denied; give a program and its arguments behind --."},
      {{"--", ""},
       "\"\": cannot be started: No such file or directory; give a program and its arguments behind --."}};
  for (auto [args, message] : cases) {
    args.insert(args.begin(), "supervise");
    ExpectFails(Run(args), 2, "meshwork supervise: " + message);
  }
}

TEST_F(SuperviseTest, ACommandThatSucceedsRunsOnce) {
  const Finished finished = Supervise("-- sh -c 'echo said; cat; echo \"$1\"' name 'an argument'");
  EXPECT_EQ(finished.code, 0);
  EXPECT_EQ(finished.out, "said\nan argument\n");  // standard input is empty
  EXPECT_EQ(finished.err, "");
}

TEST_F(SuperviseTest, StartsAgainUntilItSucceeds) {
  const Finished finished = Supervise(fmt::format("{} -- sh try 1 3 -KILL 127 0", kFast));
  EXPECT_EQ(finished.code, 0);
  EXPECT_EQ(Said(finished),
            "meshwork supervise: sh failed with exit code 1 after T s; starts it again in 1ms, 1 of 10.\n"
            "meshwork supervise: sh failed with exit code 3 after T s; starts it again in 2ms, 2 of 10.\n"
            "meshwork supervise: sh was ended by SIGKILL after T s; starts it again in 2ms, 3 of 10.\n"
            "meshwork supervise: sh failed with exit code 127 after T s; starts it again in 2ms, 4 of 10.\n"
            "meshwork supervise: sh ended after T s.\n");
  EXPECT_EQ(Tries(), "5\n");
}

TEST_F(SuperviseTest, GivesUpWithTheLastExitCode) {
  const Finished finished = Supervise(fmt::format("{} --restarts 2 -- sh try 1 4 5 0", kFast));
  EXPECT_EQ(finished.code, 5);
  EXPECT_THAT(Said(finished),
              HasSubstr("sh failed with exit code 5 after T s; gives up after 2 restarts.\n"));
  EXPECT_EQ(Tries(), "3\n");
  const Finished killed = Supervise("--restarts 0 -- sh -c 'kill -9 $$'");
  EXPECT_EQ(killed.code, 137);
  EXPECT_EQ(Said(killed),
            "meshwork supervise: sh was ended by SIGKILL after T s; gives up after 0 restarts.\n");
}

TEST_F(SuperviseTest, WrongInputIsNotTriedAgain) {
  const Finished finished = Supervise(fmt::format("{} -- sh try 1 2 0", kFast));
  EXPECT_EQ(finished.code, 2);
  EXPECT_THAT(Said(finished),
              HasSubstr("sh failed with exit code 2 after T s: its input is wrong, and would be wrong again; "
                        "--restart-on-misuse starts it again even so.\n"));
  EXPECT_EQ(Tries(), "2\n");
  std::filesystem::remove(Path("tries"));
  EXPECT_EQ(Supervise(fmt::format("{} --restart-on-misuse -- sh try 1 2 0", kFast)).code, 0);
  EXPECT_EQ(Tries(), "3\n");
}

// The fourth failure is the first one after progress.
TEST_F(SuperviseTest, ALongRunResetsTheCount) {
  const Finished finished = Supervise(
      "--backoff 1ms --max-backoff 1s --restarts 3 --reset-after 0.3s -- "
      "sh -c 'n=$(cat tries 2>/dev/null || echo 0); echo $((n + 1)) > tries; [ $n != 3 ] || sleep 0.4; [ $n = 5 ]'");
  EXPECT_EQ(finished.code, 0);
  EXPECT_EQ(Tries(), "6\n");
  EXPECT_THAT(finished.err, HasSubstr("starts it again in 4ms, 3 of 3."));
  EXPECT_THAT(finished.err, HasSubstr("starts it again in 2ms, 2 of 3."));
}

// ---- Signals.

TEST_F(SuperviseTest, PassesSignalsOnAndWaits) {
  for (const char* signal : {"TERM", "INT", "HUP"}) {
    for (const char* path : {"ready", "child", "said"}) std::filesystem::remove(Path(path));
    // Children of the command get the signal as well.
    const Finished finished = Shell(fmt::format(
        "{0}env --default-signal=INT \"$0\" supervise -- sh -c 'exec 2> /dev/null; "
        "trap \"wait; sleep 0.05; echo saved > said; exit 0\" {1}; env --default-signal=INT "
        "sh -c \"trap \\\"echo too > child; exit\\\" {1}; echo > ready; while :; do sleep 0.01; done\" & "
        "while :; do sleep 0.01; done' & id=$!; "
        "await ready; kill -{1} $id; wait $id; echo ended $?",
        Await(), signal));
    EXPECT_EQ(finished.out, "ended 0\n");
    EXPECT_EQ(Said(finished),
              fmt::format("meshwork supervise: SIG{}: passes it on to sh and waits for its end.\n"
                          "meshwork supervise: sh ended after T s.\n",
                          signal));
    EXPECT_EQ(Contents(Path("said")), "saved\n");
    EXPECT_EQ(Contents(Path("child")), "too\n");
  }
}

TEST_F(SuperviseTest, WhatASignalEndsIsNotStartedAgain) {
  const Finished finished = Shell(Await() +
                                  "\"$0\" supervise -- sh -c 'echo > ready; sleep 1000' & id=$!; "
                                  "await ready; kill $id; wait $id; echo ended $?");
  EXPECT_EQ(finished.out, "ended 143\n");
  EXPECT_EQ(Said(finished),
            "meshwork supervise: SIGTERM: passes it on to sh and waits for its end.\n"
            "meshwork supervise: sh was ended by SIGTERM after T s.\n");
}

TEST_F(SuperviseTest, ASignalEndsTheWaitForAStart) {
  const Finished finished =
      Shell(Await() +
            "\"$0\" supervise --backoff 1h --max-backoff 1h -- sh try 7 0 2> said & id=$!; "
            "await said; kill $id; wait $id; echo ended $?");
  EXPECT_EQ(finished.out, "ended 7\n");
  EXPECT_THAT(Contents(Path("said")), HasSubstr("SIGTERM: does not start sh again.\n"));
  EXPECT_EQ(Tries(), "1\n");
}

// As under nohup.
TEST_F(SuperviseTest, SignalsThatAreIgnoredStayIgnored) {
  const Finished finished =
      Shell(Await() +
            "trap '' HUP; \"$0\" supervise -- sh -c 'echo > ready; while ! [ -e go ]; do sleep "
            "0.01; done; exit 0' & id=$!; await ready; kill -HUP $id; echo > go; wait $id; echo ended $?");
  EXPECT_EQ(finished.out, "ended 0\n");
  EXPECT_EQ(finished.err, "");
}

// ---- Processes that are left behind.

// Whether the process whose number is in the file is gone, or is a zombie.
bool IsGone(const std::string& file) {
  const std::string stat = Contents(fmt::format("/proc/{}/stat", std::stoi(Contents(file))));
  return stat.empty() || stat.find(") Z ") != std::string::npos;
}

TEST_F(SuperviseTest, EndsWhatACommandLeavesRunning) {
  // In its process group; in a session of its own; a grandchild whose parent ends at once.
  const Finished finished = Supervise(
      "--restarts 0 -- sh -c 'sleep 1000 & echo $! > a; setsid sh -c \"echo \\$\\$ > b; exec sleep 1000\" & "
      "(setsid sh -c \"echo \\$\\$ > c; sleep 1000; :\" &) ; while ! [ -s b ] || ! [ -s c ]; do sleep 0.01; done; exit 1'");
  EXPECT_EQ(finished.code, 1);
  for (const char* name : {"a", "b", "c"}) EXPECT_TRUE(IsGone(Path(name))) << name;
}

TEST_F(SuperviseTest, KillsWhatDoesNotEnd) {
  const Finished finished = Supervise(
      "--grace 50ms -- sh -c 'sh -c \"trap : TERM; echo \\$\\$ > a; while :; do sleep 0.01; done\" & "
      "while ! [ -s a ]; do sleep 0.01; done'");
  EXPECT_EQ(finished.code, 0);
  EXPECT_TRUE(IsGone(Path("a")));
}

TEST_F(SuperviseTest, WhatItRunsEndsWithIt) {
  const Finished finished =
      Shell(Await() +
            "\"$0\" supervise -- sh -c 'trap \"echo told > told; exit\" TERM; echo $$ > a; "
            "while :; do sleep 0.01; done' & id=$!; await a; kill -9 $id; await told; "
            "wait $id; echo ended $?");
  EXPECT_EQ(finished.out, "ended 137\n");
  EXPECT_EQ(Contents(Path("told")), "told\n");
}

}  // namespace
}  // namespace meshwork::meshwork_supervise_test

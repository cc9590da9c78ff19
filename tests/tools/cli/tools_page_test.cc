// docs/tools.md, docs/explain.md, docs/partitioner.md and docs/saving.md: every line that begins with "$ " is run, and prints what
// stands below it.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "support/golden.h"
#include "support/temp_dir.h"
#include "tools/cli/process.h"

namespace meshwork::tools_page_test {
namespace {

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// The commands of all blocks form one shell script. After each follows a line that no command prints; $? is then
// that of the command before.
constexpr std::string_view kMark = "---- end of a command ----";

struct Session {
  std::string script = "exec 2>&1\n";
  int commands = 0;
};

Session ReadCommands(const std::string& page) {
  Session session;
  bool inside = false, open = false;
  auto close = [&] {
    if (open) session.script += fmt::format("code=$?; echo '{}'; (exit $code)\n", kMark);
    open = false;
  };
  for (const std::string& line : Lines(page)) {
    const bool command = inside && line.starts_with("$ ");
    if (command || line.starts_with("```")) close();
    if (line.starts_with("```")) inside = line == "```console";
    if (command || (open && line.starts_with("> "))) session.script += line.substr(2) + "\n";
    open = open || command;
    session.commands += command;
  }
  return session;
}

// The page with `outputs` below its commands.
std::string WithOutputs(const std::string& page, const std::vector<std::string>& outputs) {
  std::string text;
  bool inside = false, in_output = false;
  size_t next = 0;
  std::string pending;  // output that follows the command and its input lines
  for (const std::string& line : Lines(page)) {
    const bool command = inside && line.starts_with("$ ");
    if (line.starts_with("```")) inside = line == "```console";
    if (command || line.starts_with("```")) {
      text += std::exchange(pending, "");
      in_output = false;
    }
    if (!in_output || line.starts_with("> ")) text += line + "\n";
    if (command) {
      in_output = true;
      pending = outputs.at(next++);
    }
  }
  return text;
}

// Times differ from run to run, and versions from release to release.
std::string WithoutTimes(const std::string& page) {
  std::string text;
  bool times = false;
  for (const std::string& line : Lines(page)) {
    times = line == "  \"ms\": {" || (times && line != "  }");
    text += (times ? line.substr(0, line.find(": ")) : line) + "\n";
  }
  static const auto* const version = new std::regex("by meshwork [0-9.]+");
  static const auto* const when = new std::regex("20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z");
  static const auto* const lasted = new std::regex(" after [0-9.]+ s");
  text = std::regex_replace(text, *version, "by meshwork");
  text = std::regex_replace(text, *when, "TIME");
  return std::regex_replace(text, *lasted, " after a while");
}

class ToolsPageTest : public TempDirTest, public testing::WithParamInterface<std::string> {};

TEST_P(ToolsPageTest, ShowsWhatCommandsPrint) {
  const std::string file = fmt::format("../docs/{}.md", GetParam());
  const std::string page = ReadGolden(file);
  const Session session = ReadCommands(page);
  ASSERT_GE(session.commands, 4);
  File("step.mw", ReadGolden("../examples/step.mw"));
  std::string path;
  for (const char* program : {MESHWORK, MLP_MNIST, QUICKSTART})
    path += std::filesystem::path(program).parent_path().string() + ":";
  const Finished finished = RunProcess(
      "/bin/sh", {"-c", fmt::format("cd {}\nPATH={}$PATH\n{}", dir(), path, session.script)}, Path("shell"));
  EXPECT_EQ(finished.err, "");

  std::vector<std::string> outputs(1);
  for (const std::string& line : Lines(finished.out)) {
    if (line == kMark) outputs.emplace_back();
    else outputs.back() += line + "\n";
  }
  ASSERT_EQ(outputs.back(), "");
  outputs.pop_back();
  ASSERT_EQ(static_cast<int>(outputs.size()), session.commands) << finished.out;
  const std::string expected = WithOutputs(page, outputs);
  if (UpdatesGolden()) std::ofstream(GoldenPath(file), std::ios::binary) << expected;
  else EXPECT_EQ(WithoutTimes(page), WithoutTimes(expected)) << "UPDATE_GOLDEN=1 rewrites " << file;
}

INSTANTIATE_TEST_SUITE_P(Pages, ToolsPageTest, testing::Values("tools", "explain", "partitioner", "saving"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace meshwork::tools_page_test

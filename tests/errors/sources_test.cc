// Every message that the library's sources can make has been tested: it is in a file of tests/errors, which
// the tests here compare with the library's messages. Errors that no user can cause are MESHWORK_CHECKs.
#include "errors/sources.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "support/contents.h"
#include "support/golden.h"

namespace meshwork::sources_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Folders, with all rooms in them.
constexpr std::string_view kFolders[] = {"base",        "mesh",           "layout",         "ir",
                                         "ops",         "verify",         "spmd",           "runtime",
                                         "storage",     "session",        "stablehlo/read", "train",
                                         "tools/check", "tools/simulate", "tools/report"};

std::vector<MessagePattern> LibraryMessages() {
  const std::filesystem::path root = std::filesystem::path(MESHWORK_TEST_DIR).parent_path();
  std::vector<std::string> files;
  for (std::string_view folder : kFolders) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
      const std::string extension = entry.path().extension().string();
      if (extension == ".h" || extension == ".cc")
        files.push_back(std::filesystem::relative(entry.path(), root).string());
    }
  }
  std::sort(files.begin(), files.end());
  std::vector<MessagePattern> messages;
  for (const std::string& file : files)
    for (MessagePattern& message : MessagesOf(file, Contents(root / file)))
      messages.push_back(std::move(message));
  return messages;
}

// The messages in tests/errors, each once.
std::set<std::string> SeenMessages() {
  std::set<std::string> seen;
  for (const std::string& name : GoldenFiles("errors")) {
    if (!name.ends_with(".txt")) continue;
    std::string message;
    std::ifstream file(GoldenPath(name));
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with("    ")) message += (message.empty() ? "" : "\n") + line.substr(4);
      else if (!message.empty()) seen.insert(std::exchange(message, ""));
    }
    seen.insert(message);
  }
  return seen;
}

std::string Escaped(std::string text) {
  for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos;) text.replace(at, 1, "\\n");
  return text;
}

TEST(SourcesTest, EveryMessageHasBeenSeen) {
  const std::vector<MessagePattern> messages = LibraryMessages();
  ASSERT_GT(messages.size(), 250u);  // the sources are there
  const std::set<std::string> seen = SeenMessages();
  std::map<std::string, std::vector<const MessagePattern*>> by_literal;
  for (const MessagePattern& message : messages) by_literal[message.literal].push_back(&message);
  std::vector<std::string> unseen;
  for (const auto& entry : by_literal) {  // clang 14 captures no structured binding
    const auto& sites = entry.second;
    // If several places make the same message, each must have made it.
    const auto count = static_cast<size_t>(std::count_if(
        seen.begin(), seen.end(), [&](const std::string& text) { return sites[0]->Matches(text); }));
    if (count >= sites.size()) continue;
    std::string where;
    for (const MessagePattern* site : sites) where += (where.empty() ? "" : ", ") + site->where;
    unseen.push_back(fmt::format("{} ({} of {} seen): {}", where, count, sites.size(), Escaped(entry.first)));
  }
  EXPECT_THAT(unseen, IsEmpty()) << "a message of the library that no test in tests/errors brings about";
}

// A file that no test writes any more would still count as seen.
TEST(SourcesTest, EveryFileIsWrittenByATest) {
  std::string tests;
  for (const std::string& name : GoldenFiles("errors"))
    if (name.ends_with("_test.cc")) tests += ReadGolden(name);
  for (const std::string& name : GoldenFiles("errors")) {
    if (!name.ends_with(".txt")) continue;
    const std::string area = std::filesystem::path(name).stem().string();
    EXPECT_NE(tests.find(fmt::format("\"{}\"", area)), std::string::npos) << "tests/" << name;
  }
}

// ---- The reader of sources.

std::vector<std::string> LiteralsIn(std::string_view source) {
  std::vector<std::string> literals;
  for (const MessagePattern& message : MessagesOf("f.cc", source))
    literals.push_back(message.where + " " + message.literal);
  return literals;
}

TEST(SourcesTest, FindsMessagesWhereverTheyStand) {
  // clang-format off
  EXPECT_THAT(LiteralsIn(R"(
    // return InvalidArgument("a comment {}.");
    return InvalidArgument("size {} of \"{}\" "
                           "is \n{}.", n ? "at most" : "two", Name("x"));
    const char* rule = "only low and high may be negative.";
    MESHWORK_CHECK(x == ')', "{} is a bug that ends here.", f("no word of it."));
    Log(LogLevel::kInfo, "{} is there {}.", f(1), g); Log("no sentence"); Log("Too short."); /* Fail("a comment") */
    RecordError(where + ": the name is taken"); fail('"', "each {{brace}}", 1'000);
  )"),
              // clang-format on
              ElementsAre("f.cc:3 size {} of \"{}\" is \n{}.", "f.cc:4 at most",
                          "f.cc:5 only low and high may be negative.", "f.cc:8 : the name is taken",
                          "f.cc:8 each {{brace}}"));
}

TEST(SourcesTest, PatternsMatchWhatFmtMakesOfThem) {
  EXPECT_THAT(PiecesOf("{}: {:02x} of {{{}, _}}"), ElementsAre("", ": ", " of {", ", _}"));
  EXPECT_THAT(PiecesOf("expected {"), ElementsAre("expected {"));
  const MessagePattern pattern{"", "", PiecesOf("dim {} of {} has size {}.")};
  EXPECT_TRUE(pattern.Matches("slice (@): dim 1 of f32[4,6] has size 6."));
  EXPECT_FALSE(pattern.Matches("slice (@): dim 1 has size 6 of f32[4,6]."));
}

}  // namespace
}  // namespace meshwork::sources_test

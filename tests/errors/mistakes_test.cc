// Eighty mistakes that new users made, or that users of Keras, PyTorch and JAX bring along, each in their own
// words. tests/errors/mistakes.txt has the messages. A case that is no mistake here gives its result instead.
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "errors/errors.h"
#include "errors/typical.h"
#include "gtest/gtest.h"
#include "support/golden.h"

namespace meshwork::mistakes_test {
namespace {

// The lines of a file of tests/errors from the one with the title of a mistake to that of the next one.
std::pair<int, int> LinesOf(const std::string& file, const std::string& title) {
  std::ifstream in(std::string(MESHWORK_TEST_DIR) + "/errors/" + file);
  std::pair<int, int> found = {0, 0};
  int line = 0;
  for (std::string text; std::getline(in, text);) {
    ++line;
    if (!text.starts_with("      {\"")) continue;
    if (text.find('"' + title + '"') != std::string::npos) found = {line, line};
    else if (found.second == found.first && found.first > 0) found.second = line;
  }
  return {found.first, found.second > found.first ? found.second : line};
}

// "Input "x" (typical.cc:41): …" becomes "Input "x" (@): …". Expects the line to be one of the mistake's.
std::string WithoutLines(std::string text, const std::string& title) {
  static const std::regex place("(typical[a-z_]*\\.cc):([0-9]+)");
  for (std::smatch match; std::regex_search(text, match, place);) {
    const auto [first, last] = LinesOf(match[1], title);
    const int line = std::stoi(match[2]);
    // Functions shared by several mistakes stand above them.
    EXPECT_TRUE((first <= line && line <= last) || line < 35) << title << ": " << text;
    text.replace(static_cast<size_t>(match.position(0)), static_cast<size_t>(match.length(0)), "@");
  }
  return text;
}

// Where a message begins: "Session: ", "relu (@ in block1): ", "Update of "w" (@): ".
const std::regex& Place() {
  static const std::regex place(
      "^(Batches|Compile|Executor|Mesh|Run|Session|[A-Za-z_]+( of)?( \"[^\"]*\")? \\(@( in [a-z]+)?\\)): ");
  return place;
}

// Words that tell the reader what to do, or describe a right program.
const std::regex& WayOut() {
  static const std::regex way_out(
      "\\b([Cc]all|[Cc]ast|combine|compare|Compile|compute|convert|count|declare|did you mean|ExpandDims|feed|[Gg]ive|hold|"
      "keep|[Mm]ake|[Nn]ame|Pad|pin|Reshape|return|Shard|split|start|takes?|Transpose|use|write)\\b|at least [0-9]|the "
      "[a-z]+s are ");
  return way_out;
}

// A status may hold several messages, of one or more lines each.
std::vector<std::string> MessagesIn(const std::string& text) {
  std::vector<std::string> messages;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (messages.empty() || std::regex_search(line, Place())) messages.push_back(line);
    else messages.back() += '\n' + line;
  }
  return messages;
}

// Values come first; behind a semicolon follow the rule and what to do, or an example of a right one.
bool HasWayOut(const std::string& message) {
  const size_t values = message.find(';');
  return message.find(", as in ") != std::string::npos ||
         (values != std::string::npos && std::regex_search(message.substr(values), WayOut()));
}

TEST(MistakesTest, EightyTypicalOnesAreToldWhatToDo) {
  std::vector<TypicalMistake> all;
  for (const auto& some : {DeclarationMistakes(), OpMistakes(), ProgramMistakes(), ForeignMistakes()})
    all.insert(all.end(), some.begin(), some.end());
  ASSERT_EQ(all.size(), 80u);
  std::string told;
  for (size_t i = 0; i < all.size(); ++i) {
    SCOPED_TRACE(all[i].title);
    const std::string message = WithoutLines(all[i].make(), all[i].title);
    if (i > 0) told += '\n';
    told += fmt::format("{:02} {}\n{}\n", i + 1, all[i].title, Indented(message));
    if (message.starts_with("fine: ")) continue;
    for (const std::string& one : MessagesIn(message)) {
      EXPECT_TRUE(std::regex_search(one, Place())) << one;
      EXPECT_TRUE(HasWayOut(one)) << one;
      EXPECT_TRUE(one.ends_with('.') || one.ends_with('?')) << one;
    }
  }
  ExpectGolden(fmt::format("errors/{}.txt", "mistakes"), told);
}

// A test of the check itself, by messages that once passed.
TEST(MistakesTest, AMessageWithoutAWayOutIsNone) {
  for (const char* message :
       {"Var \"w\" (@): Layout {_,model}: mesh [batch=8] has no axis \"model\".",
        "concat (@): operand 0 is f32[8,4], operand 1 f32[7,3]; all dims but dim 1 must be equal."})
    EXPECT_FALSE(HasWayOut(message)) << message;
  EXPECT_TRUE(HasWayOut("add (@): dtypes differ: f32[8] and i32[8]; cast one of them."));
}

}  // namespace
}  // namespace meshwork::mistakes_test

// Every fenced block of the README and of docs/ is true. page.h lists how a block is checked; a block that no
// test here can check fails.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "docs/commands.h"
#include "docs/layouts.h"
#include "docs/page.h"
#include "docs/pages.h"
#include "docs/say.h"
#include "fmt/ranges.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/text.h"
#include "meshwork/mesh/placement.h"
#include "meshwork/spmd/compile.h"
#include "nlohmann/json.hpp"
#include "support/golden.h"
#include "tools/cli/process.h"

namespace meshwork::docs {

// How GoogleTest names a block.
void PrintTo(const FencedBlock& block, std::ostream* out) { *out << block.page << ":" << block.line; }

namespace {

namespace fs = std::filesystem;

// "docs/tour.md" -> "tour".
std::string Stem(const std::string& page) { return fs::path(page).stem().string(); }

std::string Scratch() { return testing::TempDir() + "docs-" + std::to_string(getpid()); }

// All blocks, hidden ones included, in the order of the pages.
const std::vector<FencedBlock>& AllBlocks() {
  static const auto* blocks = [] {
    auto* all = new std::vector<FencedBlock>;
    for (const std::string& page : Pages())
      for (FencedBlock& block : ReadBlocks(Root(), page)) all->push_back(std::move(block));
    return all;
  }();
  return *blocks;
}

// The last block above on the same page for which `is` holds.
template <typename Predicate>
const FencedBlock* Above(const FencedBlock& block, Predicate&& is) {
  const FencedBlock* found = nullptr;
  for (const FencedBlock& other : AllBlocks())
    if (other.page == block.page && other.line < block.line && is(other)) found = &other;
  return found;
}

// Puts `text` in the place of the block's text.
void Rewrite(const FencedBlock& block, const std::string& text) {
  std::string page;
  int fences = 0;  // opening and closing ones
  bool inside = false;
  for (const std::string& line : Lines(Contents(Root() / block.page))) {
    const bool fence = FenceIndent(line) != std::string::npos;
    if (fence && inside) inside = false;
    if (!inside) page += line + "\n";
    if (fence && fences++ == 2 * block.index) {
      for (const std::string& row : Lines(text))
        page += (row.empty() ? "" : std::string(block.indent, ' ')) + row + "\n";
      inside = true;
    }
  }
  std::ofstream(Root() / block.page, std::ios::binary) << page;
}

void ExpectText(const FencedBlock& block, const std::string& actual) {
  if (actual != block.text && UpdatesGolden()) return Rewrite(block, actual);
  EXPECT_EQ(actual, block.text) << "UPDATE_GOLDEN=1 rewrites the page";
}

// ---- What programs print.

const Finished& RunOnce(const std::string& page, const std::string& file) {
  static std::map<std::string, Finished> finished;
  const fs::path program = fs::path(Stem(page)) / fs::path(file).stem();
  const bool is_there = fs::exists(fs::path(PROGRAMS_OF_PAGES) / Stem(page) / file);
  const auto [it, is_new] = finished.try_emplace(program.string());
  if (is_new && is_there) {
    const std::string folder = Scratch() + "-run";  // for files that a program writes
    fs::create_directory(folder);
    it->second =
        RunProcess("/bin/sh", {"-c", R"(cd "$0" && exec "$1" "$2")", folder, DOCS_PROGRAMS, program.string()},
                   Scratch());
    fs::remove_all(folder);
  }
  EXPECT_TRUE(is_there) << page << " names " << file << ", which tests/docs/CMakeLists.txt does not";
  return it->second;
}

// The output of the program of a block; for statements, the output of those of the block.
std::string OutputOf(const FencedBlock& block) {
  if (!block.IsStatements()) return RunOnce(block.page, block.File()).out;
  const std::string& out = RunOnce(block.page, "statements.cc").out;
  const std::string mark = fmt::format("{}{}\n", kBlockMark, block.index);
  const size_t begin = out.find(mark);
  if (begin == std::string::npos) return "(the program did not come so far)";
  const size_t end = out.find(kBlockMark, begin + mark.size());
  return out.substr(begin + mark.size(), end == std::string::npos ? end : end - begin - mark.size());
}

// Numbers with a point, and the text without them.
struct Measured {
  std::string text;
  std::vector<double> numbers;
};
Measured Measure(const std::string& line) {
  static const std::regex number(R"(-?[0-9]+\.[0-9]+(e[-+][0-9]+)?)");
  Measured measured{std::regex_replace(line, number, "#"), {}};
  for (auto at = std::sregex_iterator(line.begin(), line.end(), number); at != std::sregex_iterator(); ++at)
    measured.numbers.push_back(std::stod(at->str()));
  return measured;
}

bool IsAbout(const std::string& actual, const std::string& said) {
  const Measured a = Measure(actual), b = Measure(said);
  if (a.text != b.text || a.numbers.size() != b.numbers.size()) return false;
  for (size_t i = 0; i < a.numbers.size(); ++i)
    if (std::abs(a.numbers[i] - b.numbers[i]) > 0.02 * std::abs(b.numbers[i])) return false;
  return true;
}

bool IsLike(const std::string& actual, const std::string& said) {
  static const std::regex number(R"([0-9]+(\.[0-9]+)?)"), unit("[kMGT](B|FLOP)/s"), space(" +");
  auto shape = [](const std::string& line) {
    return std::regex_replace(std::regex_replace(std::regex_replace(line, number, "#"), unit, "$1/s"), space,
                              " ");
  };
  constexpr std::string_view kCut = "…";
  const std::string shown = shape(said);
  if (!shown.ends_with(kCut)) return shape(actual) == shown;
  return shape(actual).starts_with(std::string_view(shown).substr(0, shown.size() - kCut.size()));
}

using LinesMatch = std::function<bool(const std::string& actual, const std::string& said)>;

// Whether the lines from a and s on match; "…" stands for any number of lines.
bool Match(const std::vector<std::string>& actual, const std::vector<std::string>& said,
           const LinesMatch& match, size_t a = 0, size_t s = 0) {
  for (; s < said.size() && said[s] != "…"; ++a, ++s)
    if (a == actual.size() || !match(actual[a], said[s])) return false;
  if (s == said.size()) return a == actual.size();
  for (; a <= actual.size(); ++a)
    if (Match(actual, said, match, a, s + 1)) return true;
  return false;
}

// Whether each line of `said` matches another line of `actual`, in any order.
bool AllAreAmong(std::vector<std::string> actual, const std::vector<std::string>& said,
                 const LinesMatch& match) {
  for (const std::string& line : said) {
    if (line == "…") continue;
    const auto found =
        std::find_if(actual.begin(), actual.end(), [&](const auto& a) { return match(a, line); });
    if (found == actual.end()) return false;
    actual.erase(found);
  }
  return true;
}

void CheckOutput(const FencedBlock& block) {
  const FencedBlock* source = Above(block, [](const FencedBlock& other) {
    return !other.hidden && (other.IsStatements() || other.File().ends_with(".cc"));
  });
  ASSERT_NE(source, nullptr) << "there is no program above";
  const std::string actual = OutputOf(*source);
  const std::vector<std::string> lines = Lines(actual), said = Lines(block.text);
  const auto equal = [](const std::string& a, const std::string& b) { return a == b; };
  if (block.Is("text", "like") ? AllAreAmong(lines, said, IsLike)
                               : Match(lines, said, block.Is("text", "about") ? LinesMatch(IsAbout) : equal))
    return;
  if (UpdatesGolden() && block.text.find("…\n") == std::string::npos) return Rewrite(block, actual);
  ADD_FAILURE() << "the program at line " << source->line << " prints\n"
                << actual << "and not\n"
                << block.text;
}

// ---- The checks.

void CheckStatements(const FencedBlock& block) {
  const std::string file = "statements.cc";
  const Finished& finished = RunOnce(block.page, file);
  EXPECT_EQ(finished.code, 0) << finished.out << finished.err;
  if (!block.Is("cpp", "values")) return;
  std::string said;
  for (const std::string& line : Lines(block.text)) {
    const size_t comment = line.find(";  // ");
    if (comment != std::string::npos) said += line.substr(line.find_first_not_of(' ', comment + 5)) + "\n";
  }
  EXPECT_EQ(OutputOf(block), said);
}

void CheckProgram(const FencedBlock& block) {
  if (!block.File().ends_with(".cc")) return;  // a header; programs include it
  const std::string file = block.File();
  const Finished& finished = RunOnce(block.page, file);
  EXPECT_EQ(finished.code, 0) << finished.out << finished.err;
}

// The lines without their indents, so that a quote may be indented otherwise.
std::vector<std::string> StrippedLines(const std::string& text) {
  std::vector<std::string> lines = Lines(text);
  for (std::string& line : lines) line.erase(0, line.find_first_not_of(' '));
  return lines;
}

// The lines stand in the file, one after the other; "…" parts pieces, which follow each other.
void CheckQuote(const FencedBlock& block) {
  const std::vector<std::string> file = StrippedLines(Contents(Root() / block.words[1]));
  ASSERT_FALSE(file.empty()) << "there is no file " << block.words[1];
  std::vector<std::string> said = StrippedLines(block.text);
  said.push_back("…");
  auto at = file.begin();
  for (auto piece = said.begin(); piece != said.end(); ++piece) {
    const auto end = std::find(piece, said.end(), "…");
    at = std::search(at, file.end(), piece, end);
    ASSERT_TRUE(piece == end || at != file.end()) << block.words[1] << " has no lines\n"
                                                  << fmt::format("{}", fmt::join(piece, end, "\n"));
    piece = end;
  }
}

absl::StatusOr<Graph> Parse(const FencedBlock& block, std::string_view text) {
  return ParseGraph(text, fs::path(block.page).filename().string());
}

void CheckTextProgram(const FencedBlock& block) {
  const absl::StatusOr<Graph> graph = Parse(block, block.text);
  EXPECT_TRUE(graph.ok()) << graph.status();
}

void CheckCompiled(const FencedBlock& block) {
  const FencedBlock* source = Above(block, [](const FencedBlock& other) { return other.Is("mw"); });
  ASSERT_NE(source, nullptr) << "there is no program above";
  const absl::StatusOr<Graph> global = Parse(*source, source->text);
  ASSERT_TRUE(global.ok()) << global.status();
  std::map<std::string, std::string, std::less<>> texts;
  auto keep = [&](std::string_view pass, const Graph& graph) {
    texts[std::string(pass)] = PrintGraph(graph);
  };
  const absl::StatusOr<Program> program = Compile(*global, {.dump = keep});
  ASSERT_TRUE(program.ok()) << program.status();
  if (block.words[0] == "compiled") return ExpectText(block, PrintGraph(program->body));
  ASSERT_EQ(block.words.size(), 2u);
  ASSERT_TRUE(texts.contains(block.words[1])) << "there is no pass " << block.words[1];
  ExpectText(block, texts[block.words[1]]);
}

void CheckMistake(const FencedBlock& block) {
  constexpr std::string_view kLine = "----\n";
  const size_t line = block.text.find(kLine);
  ASSERT_NE(line, std::string::npos);
  const std::string text = block.text.substr(0, line);
  const absl::StatusOr<Graph> graph = Parse(block, text);
  const absl::Status status = graph.ok() ? Compile(*graph).status() : graph.status();
  ASSERT_FALSE(status.ok());
  ExpectText(block, fmt::format("{}{}{}\n", text, kLine, MessageOf(status)));
}

// The devices of each process as rows of the mesh's second axis. REQUIRES: the mesh has two axes; a process holds whole
// rows.
std::string Draw(const Mesh& mesh, const Placement& placement) {
  const auto cell = [](const std::string& name, int64_t number) {
    return fmt::format("  {:>8}", fmt::format("{} {}", name, number));
  };
  const int64_t columns = mesh.axis(1).size, devices = placement.devices_per_domain();
  std::string head(9, ' ');
  for (int64_t c = 0; c < columns; ++c) head += cell(mesh.axis(1).name, c);
  const auto row = [&](std::string text) {
    text.resize(head.size(), ' ');
    return fmt::format("|  {}  |\n", text);
  };
  const std::string edge = fmt::format("+{}+\n", std::string(head.size() + 4, '-'));
  std::string drawing;
  for (int64_t process = 0; process < placement.num_domains(); ++process) {
    const int64_t first = placement.FirstDevice(process);
    drawing += edge + row(fmt::format("process {}", process)) + row(head);
    for (int64_t device = first; device < first + devices; device += columns) {
      std::string text = fmt::format("{:<9}", fmt::format("{} {}", mesh.axis(0).name, device / columns));
      for (int64_t c = 0; c < columns; ++c) text += cell("device", device + c);
      drawing += row(text);
    }
  }
  return drawing + edge;
}

void CheckPlacement(const FencedBlock& block) {
  static const std::regex form("(\\S+) on ([0-9]+) processes");
  const std::string first = block.text.substr(0, block.text.find('\n'));
  std::smatch match;
  ASSERT_TRUE(std::regex_match(first, match, form)) << first;
  const absl::StatusOr<Mesh> mesh = Mesh::Parse(match[1].str());
  ASSERT_TRUE(mesh.ok()) << mesh.status();
  const absl::StatusOr<Placement> placement = Placement::Create(*mesh, std::stoll(match[2].str()));
  ASSERT_TRUE(placement.ok()) << placement.status();
  ASSERT_EQ(mesh->num_axes(), 2);
  ASSERT_EQ(placement->devices_per_domain() % mesh->axis(1).size, 0);
  ExpectText(block, first + "\n" + Draw(*mesh, *placement));
}

// "base/         status macros": the first word of a line, and its columns beyond, are paths.
void CheckTree(const FencedBlock& block) {
  for (const std::string& line : Lines(block.text)) {
    if (line.empty() || line[0] == ' ') continue;
    std::istringstream words(line);
    int paths = 0;
    for (std::string word; words >> word && (paths == 0 || word.ends_with("/")); ++paths)
      EXPECT_TRUE(fs::exists(Root() / word)) << word;
  }
}

// Without the name of a target, which is the reader's.
std::string WithoutTarget(const std::string& line) {
  static const std::regex target(R"(^(target_link_libraries)\([a-z_]+ )");
  return std::regex_replace(line, target, "$1(");
}

void CheckCmake(const FencedBlock& block) {
  std::set<std::string> known;
  for (const auto& entry : fs::recursive_directory_iterator(Root() / "tests/install"))
    if (entry.path().filename() == "CMakeLists.txt")
      for (const std::string& line : Lines(Contents(entry.path()))) known.insert(WithoutTarget(line));
  for (const std::string& line : Lines(block.text))
    EXPECT_TRUE(known.contains(WithoutTarget(line))) << "no project in tests/install says " << line;
}

// If there is a Python, it compiles the program; the program's modules need not be installed.
void CheckPython(const FencedBlock& block) {
  if (std::system("python3 -c '' >/dev/null 2>&1") != 0) return;
  const fs::path file = Scratch() + ".py";
  std::ofstream(file) << block.text;
  EXPECT_EQ(std::system(fmt::format("python3 -c 'import ast,sys; ast.parse(open(sys.argv[1]).read())' '{}'",
                                    file.string())
                            .c_str()),
            0);
}

void ExpectNothingWrong(const std::string& wrong) { EXPECT_EQ(wrong, ""); }

void Check(const FencedBlock& block) {
  if (block.words.size() == 2 && block.words[0] == "from") return CheckQuote(block);
  if (block.IsStatements()) return CheckStatements(block);
  if (!block.File().empty()) return CheckProgram(block);
  if (block.Is("text") || block.Is("text", "about") || block.Is("text", "like")) return CheckOutput(block);
  if (block.Is("mw")) return CheckTextProgram(block);
  if (block.Is("mw", "compiled") || block.Is("mw", "after")) return CheckCompiled(block);
  if (block.Is("mw-error")) return CheckMistake(block);
  if (block.Is("layout")) return ExpectNothingWrong(CheckLayouts(block.text));
  if (block.Is("placement")) return CheckPlacement(block);
  if (block.Is("tree")) return CheckTree(block);
  if (block.Is("sh")) return ExpectNothingWrong(CheckCommands(block.text, {Root(), MLP_MNIST, Scratch()}));
  if (block.Is("cmake")) return CheckCmake(block);
  if (block.Is("python")) return CheckPython(block);
  if (block.Is("json")) return ExpectNothingWrong(nlohmann::json::accept(block.text) ? "" : "not JSON");
  if (block.Is("ebnf") && block.page == "docs/text-format.md") return;  // grammar_test.cc
  if (block.Is("console") && (block.page == "docs/tools.md" || block.page == "docs/explain.md" ||
                              block.page == "docs/partitioner.md" || block.page == "docs/saving.md"))
    return;  // tools/cli/tools_page_test.cc
  ADD_FAILURE() << "nothing checks a block that is marked \"" << block.language
                << "\"; tests/docs/page.h says "
                << "which marks there are";
}

std::vector<FencedBlock> ShownBlocks() {
  std::vector<FencedBlock> shown;
  for (const FencedBlock& block : AllBlocks())
    if (!block.hidden) shown.push_back(block);
  return shown;
}

class BlockTest : public testing::TestWithParam<FencedBlock> {};

TEST_P(BlockTest, SaysWhatIsSo) {
  SCOPED_TRACE(fmt::format("{}:{}", GetParam().page, GetParam().line));
  Check(GetParam());
}

// "docs_tour_17": the page and the block's number on it.
std::string BlockName(const testing::TestParamInfo<FencedBlock>& info) {
  const fs::path page = fs::path(info.param.page).replace_extension();
  std::string name = fmt::format("{}_{}", page.string(), info.param.index + 1);
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Pages, BlockTest, testing::ValuesIn(ShownBlocks()), BlockName);

}  // namespace
}  // namespace meshwork::docs

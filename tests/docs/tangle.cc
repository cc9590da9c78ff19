// Writes the C++ of a page into files, which the build compiles.
//
//   docs_tangle ROOT PAGE FOLDER FILE...
//
// FILE... are the files that the page's blocks name, and statements.cc if it has blocks of statements: the
// files that the build expects. It is an error if the page has others.
//
// All programs are compiled as parts of one, each in a namespace of its own. There `main` is a function like others,
// which has to return something, and a header of the page is read by each program that includes it.
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "docs/page.h"
#include "fmt/format.h"

namespace meshwork::docs {
namespace {

constexpr std::string_view kStatements = "statements.cc";

// Errors of the compiler, and locations that programs print, are lines of the page.
std::string LineMark(const FencedBlock& block) {
  return fmt::format("#line {} \"{}\"\n", block.line, block.page);
}

// `EXPRESSION;  // VALUE` becomes `Say(EXPRESSION);`, on the same lines.
std::string SayValues(const std::string& text) {
  std::string out, statement;
  for (const std::string& line : Lines(text)) {
    const size_t comment = line.find(";  // ");
    if (comment != std::string::npos) {
      out += fmt::format("meshwork::docs::Say({}{});\n", statement, line.substr(0, comment));
      statement.clear();
    } else {
      statement += line + "\n";
      if (!line.ends_with(";")) continue;
      out += statement;
      statement.clear();
    }
  }
  return out + statement;
}

// A program whose main returns something.
std::string Returning(std::string text) {
  const size_t end = text.find("\n}\n", text.find("int main()"));
  if (end != std::string::npos) text.insert(end + 1, "return 0;\n");
  return text;
}

std::string ReadByEach(std::string header) {
  static constexpr std::string_view kOnce = "#pragma once\n";
  if (const size_t at = header.find(kOnce); at != std::string::npos) header.replace(at, kOnce.size(), "\n");
  return header;
}

// "g" of `mw::Graph g(mesh);`
std::string GraphMadeBy(const std::string& line) {
  static constexpr std::string_view kGraph = "mw::Graph ";
  if (!line.starts_with(kGraph)) return "";
  return line.substr(kGraph.size(), line.find_first_of(" (", kGraph.size()) - kGraph.size());
}

// One function of all statements, which says where the output of each block begins. At its end no graph may hold a
// mistake.
std::string StatementsProgram(const std::vector<FencedBlock>& blocks) {
  std::string includes = "#include \"docs/say.h\"\n", body, checks;
  for (const FencedBlock& block : blocks) {
    if (!block.IsStatements()) continue;
    std::string text;
    for (const std::string& line : Lines(block.text)) {
      const bool include = line.starts_with("#include");
      if (include) includes += line + "\n";
      text += (include ? "" : line) + "\n";
      const std::string graph = GraphMadeBy(line);
      if (!graph.empty()) checks += fmt::format("meshwork::docs::ExpectOk({});\n", graph);
    }
    if (!block.hidden) body += fmt::format("meshwork::docs::BeginBlock({});\n", block.index);
    body += LineMark(block) + (block.Is("cpp", "values") ? SayValues(text) : text);
  }
  return fmt::format("{}\nint main() {{\n{}{}return 0;\n}}\n", includes, body, checks);
}

bool Write(const std::filesystem::path& path, const std::string& text) {
  if (Contents(path) == text) return true;  // so that nothing is built anew
  std::filesystem::create_directories(path.parent_path());
  return static_cast<bool>(std::ofstream(path, std::ios::binary) << text);
}

int Tangle(const std::filesystem::path& root, const std::string& page, const std::filesystem::path& folder,
           const std::set<std::string>& expected) {
  const std::vector<FencedBlock> blocks = ReadBlocks(root, page);
  std::map<std::string, std::string> files;
  for (const FencedBlock& block : blocks) {
    if (block.IsStatements()) files.try_emplace(std::string(kStatements), StatementsProgram(blocks));
    const std::string file = block.File();
    if (!file.empty()) files[file] += LineMark(block) + block.text;
  }
  for (auto& [name, text] : files)
    if (name != kStatements) text = name.ends_with(".cc") ? Returning(text) : ReadByEach(text);
  for (const auto& [name, text] : files) {
    if (expected.contains(name) && Write(folder / name, text)) continue;
    fmt::print(stderr, "{}: {} is not written; tests/docs/CMakeLists.txt names the files of a page.\n", page,
               name);
    return 1;
  }
  for (const std::string& name : expected) {
    if (files.contains(name)) continue;
    fmt::print(stderr, "{} has no block of {}, which tests/docs/CMakeLists.txt names.\n", page, name);
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace meshwork::docs

int main(int argc, char** argv) {
  if (argc < 4) {
    fmt::print(stderr, "usage: docs_tangle ROOT PAGE FOLDER FILE...\n");
    return 2;
  }
  return meshwork::docs::Tangle(argv[1], argv[2], argv[3], {argv + 4, argv + argc});
}

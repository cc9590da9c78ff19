// A libFuzzer target: any text gives an error that points at its place, or an object whose own text is read
// back unchanged.
//
// Texts that start with { are read as layouts, those with [ as meshes, all
// others as programs; a golden file counts as the two programs before and after its line "----".
//
// --prepare writes the initial corpus, the samples of all ops as programs, and a dictionary of their names.
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <string_view>

#include "fuzz/fuzzer.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/difference.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/text.h"
#include "support/sample.h"

namespace meshwork {
namespace {

// "program:LINE:COLUMN: message", the line, the caret.
void CheckError(std::string_view message) {
  if (!message.starts_with("program:")) Finding("an error without its place", message);
  if (std::count(message.begin(), message.end(), '\n') != 2 || !message.ends_with('^'))
    Finding("an error without its line and caret", message);
  if (message.size() > 3000) Finding("a very long error", message.substr(0, 3000));
}

void TryProgram(std::string_view text) {
  const absl::StatusOr<Graph> graph = ParseGraph(text);
  if (!graph.ok()) return CheckError(MessageOf(graph.status()));
  const std::string printed = PrintGraph(*graph);
  const absl::StatusOr<Graph> again = ParseGraph(printed);
  if (!again.ok()) Finding("what is printed does not read back", MessageOf(again.status()));
  if (std::string difference = FirstDifference(*graph, *again); !difference.empty())
    Finding("a program reads back as another", difference + "\n" + printed);
  if (PrintGraph(*again) != printed) Finding("a text is not a fixed point", printed);
}

void TryLayout(std::string_view text) {
  static const Mesh mesh = Mesh::Parse("a=2, b=3, c=1, d=4").value();
  const absl::StatusOr<LayoutPin> pin = LayoutPin::Parse(mesh, text);
  if (!pin.ok()) return;
  // A part of an axis cuts the mesh.
  const absl::StatusOr<LayoutPin> again = LayoutPin::Parse(pin->layout.mesh(), pin->ToString());
  if (!again.ok() || *again != *pin) Finding("a layout reads back as another", pin->ToString());
}

void TryMesh(std::string_view text) {
  const absl::StatusOr<Mesh> mesh = Mesh::Parse(text);
  if (!mesh.ok()) return;
  const absl::StatusOr<Mesh> again = Mesh::Parse(mesh->ToString());
  if (!again.ok() || *again != *mesh) Finding("a mesh reads back as another", mesh->ToString());
}

// ---- The initial corpus.

constexpr std::string_view kWords[] = {
    "mesh ", "func ", "var ",  "update ", "return ", " of ",  "----\n", "//",
    "true",  "false", "sum:",  "inf",     "nan",     "-0",    "1e-310", "9223372036854775807",
    "{_,_}", "{a}",   "| sum", "(a,b)",   "%x",      "MATCH", "?",      "a:(1)2",
    "8@x*4"};

std::set<std::string> Vocabulary() {
  std::set<std::string> words(std::begin(kWords), std::end(kWords));
  for (DType dtype : kAllDTypes) words.insert(std::string(DTypeName(dtype)) + "[");
  for (ReduceOp op : kAllReduceOps) words.emplace(ReduceOpName(op));
  for (const OpRow* row : AllOps()) {
    words.insert(std::string(row->name) + " ");
    for (const AttrSpec& spec : row->attrs) words.insert(std::string(spec.name) + "=");
  }
  return words;
}

}  // namespace

void Try(std::string_view text) {
  constexpr std::string_view kLine = "\n----\n";
  if (text.starts_with('{')) return TryLayout(text);
  if (text.starts_with('[')) return TryMesh(text);
  for (size_t line = text.find(kLine); line != std::string_view::npos; line = text.find(kLine)) {
    TryProgram(text.substr(0, line));
    text.remove_prefix(line + kLine.size());
  }
  TryProgram(text);
}

void Prepare(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder / "samples");
  std::ofstream dictionary(folder / "words.dict");
  for (const std::string& word : Vocabulary()) {
    dictionary << '"';
    for (char c : word) dictionary << (c == '\n' ? std::string("\\x0a") : std::string(1, c));
    dictionary << "\"\n";
  }
  for (const OpRow* row : AllOps())
    for (size_t i = 0; i < row->samples.size(); ++i)
      std::ofstream(folder / "samples" / fmt::format("{}_{}.mw", row->name, i))
          << ProgramText(*row, row->samples[i]);
}

}  // namespace meshwork

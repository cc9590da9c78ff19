#include "meshwork/ir/sample.h"

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/registry.h"
#include "meshwork/ir/text.h"

namespace meshwork {
namespace {

std::string Numbered(std::string_view prefix, int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.push_back(fmt::format("{}{}", prefix, i));
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

std::string Sample::ToString() const {
  auto join = [](const std::vector<Type>& types) {
    std::vector<std::string> names;
    for (const Type& type : types) names.push_back(type.ToString());
    return fmt::format("{}", fmt::join(names, ", "));
  };
  return fmt::format("{} {} -> {} (sample \"{}\")", row->name, join(operands), join(results), text);
}

std::vector<std::string> SplitTypes(std::string_view text) {
  std::vector<std::string> types;
  for (size_t end = text.find(']'); end != std::string_view::npos; end = text.find(']')) {
    types.emplace_back(text.substr(0, end + 1));
    text.remove_prefix(end + 1);
    const size_t next = text.find_first_not_of(", ");
    text.remove_prefix(next == std::string_view::npos ? text.size() : next);
  }
  return types;
}

std::string ProgramText(const OpRow& row, std::string_view sample) {
  const size_t semicolon = sample.find(';');
  const std::vector<std::string> types = SplitTypes(sample.substr(0, semicolon));
  std::vector<std::string> arguments;
  for (size_t i = 0; i < types.size(); ++i) arguments.push_back(fmt::format("%a{}: {}", i, types[i]));
  const std::string results = Numbered("%r", row.num_results);
  return fmt::format("mesh []\nfunc sample({}) {{\n  {} = {} {} {}\n  return {}\n}}\n",
                     fmt::join(arguments, ", "), results, row.name,
                     Numbered("%a", static_cast<int>(types.size())),
                     semicolon == std::string_view::npos ? "" : sample.substr(semicolon + 1), results);
}

absl::StatusOr<Sample> ParseSample(const OpRow& row, std::string_view text) {
  const TrialRow trial(row);
  MESHWORK_ASSIGN_OR_RETURN(Graph graph, ParseGraph(ProgramText(row, text), "sample"));
  const Node& node = graph.nodes()[0];
  return Sample{&row, std::string(text), TypesOf(graph, node.operands), TypesOf(graph, node.results),
                node.attrs};
}

std::optional<Sample> Resized(const Sample& sample, const std::vector<int64_t>& sizes) {
  const Rule rule = sample.rule();
  for (const Letter& letter : rule.letters)
    if (letter.size == 0) return std::nullopt;
  auto resize = [&](Type& type, const LetterList& letters) {
    for (size_t d = 0; d < letters.size(); ++d) {
      if (letters[d] == kNoLetter || rule.letters[letters[d]].windowed) continue;
      type.shape[d] = type.shape[d] / rule.letters[letters[d]].size * sizes[letters[d]];
    }
  };
  Sample resized = sample;
  for (size_t i = 0; i < sample.operands.size(); ++i) resize(resized.operands[i], rule.operands[i]);
  for (size_t i = 0; i < sample.results.size(); ++i) resize(resized.results[i], rule.results[i]);
  const auto attrs = ResizedAttrs(*sample.row, {sample.operands, sample.results, sample.attrs},
                                  resized.operands, resized.results[0].shape);
  if (!attrs.ok()) return std::nullopt;
  resized.attrs = *attrs;
  const auto inferred = sample.row->infer({resized.operands, {}, resized.attrs});
  if (!inferred.ok() || *inferred != resized.results) return std::nullopt;
  return resized;
}

void AddSample(Graph& graph, const Sample& sample, const std::vector<ValueId>& operands,
               const std::vector<Layout>& results) {
  Attrs attrs = sample.attrs;  // a layout among them is one of the sample's mesh
  for (const auto& [name, value] : sample.attrs.entries())
    if (const auto* pin = std::get_if<LayoutPin>(&value))
      attrs.Set(name, LayoutPin{Layout::Replicated(graph.mesh(), pin->layout.rank())});
  const int node = graph.TryAdd(*sample.row, operands, attrs, {"sample", 1}).value();
  for (size_t i = 0; i < results.size(); ++i) {
    const ValueId id = graph.nodes()[node].results[i];
    graph.mutable_value(id).layout = results[i];
    graph.AddOutput({fmt::format("r{}", i), id});
  }
}

Graph BuildGraph(const Sample& sample, const std::vector<Layout>& operands,
                 const std::vector<Layout>& results, const Mesh& mesh) {
  Graph graph(mesh);
  std::vector<ValueId> arguments;
  for (size_t i = 0; i < operands.size(); ++i) {
    arguments.push_back(graph.AddArgument({.name = fmt::format("a{}", i),
                                           .type = sample.operands[i],
                                           .global = sample.operands[i],
                                           .layout = operands[i]},
                                          /*is_variable=*/false));
  }
  AddSample(graph, sample, arguments, results);
  return graph;
}

}  // namespace meshwork

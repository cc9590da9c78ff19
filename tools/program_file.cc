#include "tools/program_file.h"

#include <cstdio>

#include "meshwork/base/status.h"
#include "meshwork/ir/text.h"
#include "meshwork/storage/file.h"

namespace meshwork::tools {
namespace {

absl::StatusOr<std::string> ReadStandardInput() {
  std::string text;
  char buffer[1 << 16];
  while (const size_t n = std::fread(buffer, 1, sizeof(buffer), stdin)) text.append(buffer, n);
  if (std::ferror(stdin) != 0) return InvalidArgument("standard input cannot be read.");
  return text;
}

}  // namespace

std::string NameOf(const std::string& file) { return file == "-" ? "standard input" : file; }

absl::Status BadInput(const absl::Status& status) {
  return status.ok() ? status : InvalidArgument("{}", MessageOf(status));
}

absl::StatusOr<std::string> ReadText(const std::string& file) {
  if (file == "-") return ReadStandardInput();
  absl::StatusOr<std::string> text = ReadFile(file);
  if (!text.ok()) return BadInput(text.status());
  return text;
}

absl::StatusOr<Graph> ReadProgram(const std::string& file) {
  MESHWORK_ASSIGN_OR_RETURN(const std::string text, ReadText(file));
  absl::StatusOr<Graph> graph = ParseGraph(text, NameOf(file));
  if (graph.ok() && graph->outputs().empty() && graph->updates().empty())
    return InvalidArgument(
        "{}: {} returns nothing and updates no variable, so that nothing of it is computed; end it with "
        "return %value, or update %variable = %value.",
        NameOf(file), graph->name);
  return graph;
}

absl::StatusOr<Topology> ReadTopology(const Mesh& mesh, const std::string& file) {
  if (file.empty()) return Topology();
  MESHWORK_ASSIGN_OR_RETURN(const std::string text, ReadText(file));
  absl::StatusOr<Topology> topology = Topology::Parse(mesh, text);
  if (!topology.ok()) return Annotate(topology.status(), NameOf(file) + ": ");
  return topology;
}

}  // namespace meshwork::tools

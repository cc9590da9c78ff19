#include "tools/cli/program_file.h"

#include <cstdio>
#include <filesystem>
#include <system_error>

#include "meshwork/base/io/file.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/text.h"
#include "meshwork/session/remesh.h"
#include "meshwork/session/session_backend.h"
#include "tools/cli/name_patterns.h"

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

namespace {

bool IsSameFile(const std::string& a, const std::string& b) {
  std::error_code none;
  if (std::filesystem::equivalent(a, b, none)) return true;
  const auto path_of = [&](const std::string& file) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(file, none), none);
  };
  return !path_of(a).empty() && path_of(a) == path_of(b);
}

bool IsFile(const GivenFile& file) { return !file.path.empty() && file.path != "-"; }

}  // namespace

absl::Status CheckFiles(const std::vector<GivenFile>& inputs, const std::vector<GivenFile>& outputs) {
  const GivenFile* from_standard_input = nullptr;
  for (const GivenFile& input : inputs) {
    if (input.path != "-") continue;
    if (from_standard_input != nullptr)
      return InvalidArgument("{}: - is standard input, which is {} already; name a file.", input.flag,
                             from_standard_input->flag);
    from_standard_input = &input;
  }
  std::vector<GivenFile> taken = inputs;
  for (const GivenFile& output : outputs) {
    if (!IsFile(output)) continue;
    for (const GivenFile& other : taken) {
      if (!IsFile(other) || !IsSameFile(output.path, other.path)) continue;
      const std::filesystem::path path(output.path);
      return InvalidArgument("{}: {} is {} too, and would be overwritten; give another name, as {}.",
                             output.flag, output.path, other.flag,
                             (path.parent_path() / path.stem()).string() + "." + output.other);
    }
    taken.push_back(output);
  }
  return absl::OkStatus();
}

void AddProgram(FlagTable& flags, ProgramChoice& program) {
  flags.Positional("FILE", kFileHelp, &program.file);
  flags.Text("mesh", "another mesh for the program, as batch=4,model=2; axes that it lacks shard nothing",
             &program.mesh);
  flags.Texts("layout",
              "NAME={…}: the layout of inputs and variables of this name; * stands for any characters",
              &program.layouts);
}

void AddDevices(FlagTable& flags, std::string* devices, int64_t* workers) {
  constexpr int64_t kMostWorkers = 1024;
  flags.Text("devices", std::string(kDevicesHelp), devices);
  flags.Int("workers", "threads; 0: one per core", workers, 0, kMostWorkers);
}

absl::StatusOr<Graph> ReadProgram(const ProgramChoice& program) {
  MESHWORK_ASSIGN_OR_RETURN(const std::string text, ReadText(program.file));
  return ParseProgram(text, program);
}

absl::StatusOr<Graph> ParseProgram(const std::string& text, const ProgramChoice& program) {
  absl::StatusOr<Graph> graph = ParseGraph(text, NameOf(program.file));
  if (graph.ok() && graph->outputs().empty() && graph->updates().empty())
    return InvalidArgument(
        "{}: {} returns nothing and updates no variable, so that nothing of it is computed; end it with "
        "return %value, or update %variable = %value.",
        NameOf(program.file), graph->name);
  if (!graph.ok() || (program.mesh.empty() && program.layouts.empty())) return graph;
  absl::StatusOr<Mesh> mesh = program.mesh.empty() ? graph->mesh() : Mesh::Parse(program.mesh);
  if (!mesh.ok()) return Annotate(mesh.status(), "--mesh: ");
  NamedLayouts layouts;
  for (const std::string& layout : program.layouts) {
    MESHWORK_ASSIGN_OR_RETURN(const PatternLayout named, ParsePatternLayout(layout));
    absl::StatusOr<Layout> parsed = Layout::Parse(*mesh, named.layout);
    if (!parsed.ok()) return Annotate(parsed.status(), fmt::format("--layout: \"{}\": ", named.pattern));
    layouts.emplace_back(named.pattern, SpecOf(*parsed));
  }
  return OnOtherMesh(*graph, *mesh, layouts);
}

absl::StatusOr<Topology> ReadTopology(const Mesh& mesh, const std::string& file) {
  if (file.empty()) return Topology();
  MESHWORK_ASSIGN_OR_RETURN(const std::string text, ReadText(file));
  return ParseTopology(mesh, text, file);
}

absl::StatusOr<Topology> ParseTopology(const Mesh& mesh, const std::string& text, const std::string& file) {
  if (file.empty()) return Topology();
  absl::StatusOr<Topology> topology = Topology::Parse(mesh, text);
  if (!topology.ok()) return Annotate(topology.status(), NameOf(file) + ": ");
  return topology;
}

absl::StatusOr<Machine> ReadMachine(const std::string& file) {
  if (file.empty()) return Machine();
  MESHWORK_ASSIGN_OR_RETURN(const std::string text, ReadText(file));
  absl::StatusOr<Machine> machine = ParseMachine(text);
  if (!machine.ok()) return Annotate(machine.status(), fmt::format("--machine: {}: ", NameOf(file)));
  return machine;
}

}  // namespace meshwork::tools

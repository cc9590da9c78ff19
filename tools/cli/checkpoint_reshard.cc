// meshwork checkpoint reshard.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "meshwork/base/name_patterns.h"
#include "meshwork/base/status.h"
#include "meshwork/mesh/placement.h"
#include "meshwork/storage/checkpoint_copy.h"
#include "meshwork/storage/checkpoint_parts.h"
#include "tools/cli/checkpoint_commands.h"
#include "tools/cli/name_patterns.h"
#include "tools/cli/program_file.h"
#include "tools/cli/progress_line.h"
#include "tools/cli/tensor_difference.h"
#include "tools/cli/tensor_source.h"

namespace meshwork::tools {
namespace {

constexpr int64_t kMostShards = 4096;
constexpr int64_t kMostDevices = 65536;  // a variable may be cut into as many pieces

struct Question {
  int64_t shards = 0;  // not given
  std::string mesh;
  std::vector<std::string> layouts;  // "w*={batch,_}"
};

absl::StatusOr<std::vector<PatternLayout>> ReadLayouts(const std::vector<std::string>& texts,
                                                       const CheckpointIndex& index) {
  std::vector<PatternLayout> layouts;
  std::vector<std::string> patterns, names;
  for (const std::string& text : texts) {
    MESHWORK_ASSIGN_OR_RETURN(PatternLayout layout, ParsePatternLayout(text));
    layouts.push_back(std::move(layout));
    patterns.push_back(layouts.back().pattern);
  }
  for (const CheckpointVariable& variable : index.variables) names.push_back(variable.name);
  MESHWORK_RETURN_IF_ERROR(CheckPatterns("layout", patterns, names));
  return layouts;
}

// A layout of a variable that is not partial.
absl::StatusOr<Layout> ReadLayout(const Mesh& mesh, const std::string& text, const Type& type) {
  MESHWORK_ASSIGN_OR_RETURN(Layout layout, Layout::Parse(mesh, text));
  MESHWORK_RETURN_IF_ERROR(layout.Fits(type.shape));
  if (layout.is_partial())
    return InvalidArgument("layout {}: a variable owes no reduction; name only axes that cut it.",
                           layout.ToString());
  return layout;
}

// The layout of each variable: that of --layout; otherwise its present layout, if the mesh has its axes; otherwise
// whole. Cuts the mesh as the layouts need it.
absl::StatusOr<std::map<std::string, Layout>> ChooseLayouts(Mesh& mesh, const Question& question,
                                                            const CheckpointIndex& index) {
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<PatternLayout> asked, ReadLayouts(question.layouts, index));
  std::map<std::string, Layout> layouts;
  for (const CheckpointVariable& variable : index.variables) {
    for (const PatternLayout& row : asked) {
      if (!MatchesPattern(variable.name, row.pattern)) continue;
      absl::StatusOr<Layout> layout = ReadLayout(mesh, row.layout, variable.type);
      if (!layout.ok())
        return Annotate(layout.status(),
                        fmt::format("--layout: \"{}\" {}: ", variable.name, variable.type.ToString()));
      mesh = layout->mesh();
      layouts.insert_or_assign(variable.name, *std::move(layout));
    }
  }
  for (const CheckpointVariable& variable : index.variables) {
    if (layouts.contains(variable.name)) continue;
    absl::StatusOr<Layout> layout = ReadLayout(mesh, variable.layout, variable.type);
    if (!layout.ok()) layout = Layout::Replicated(mesh, variable.type.rank());
    mesh = layout->mesh();
    layouts.emplace(variable.name, *std::move(layout));
  }
  return layouts;
}

struct Plan {
  Placement placement;  // a domain for each shard
  std::map<std::string, VariablePlace> places;
};

absl::StatusOr<Plan> MakePlan(const CheckpointIndex& saved, const Question& question) {
  const bool has_mesh = !question.mesh.empty();
  absl::StatusOr<Mesh> mesh =
      has_mesh ? Mesh::Parse(question.mesh) : Mesh::Create({{"shard", question.shards}});
  if (!mesh.ok()) return Annotate(mesh.status(), "--mesh: ");
  if (mesh->num_devices() > kMostDevices)
    return InvalidArgument("--mesh: {} has {} devices; a checkpoint is cut for at most {}.", mesh->ToString(),
                           mesh->num_devices(), kMostDevices);
  const int64_t shards = question.shards > 0 ? question.shards : mesh->num_devices();
  if (shards > kMostShards)
    return InvalidArgument("--shards: one for each of {} devices are more than {}; give a number.", shards,
                           kMostShards);
  std::map<std::string, Layout> layouts;
  if (has_mesh) {
    MESHWORK_ASSIGN_OR_RETURN(layouts, ChooseLayouts(*mesh, question, saved));
  } else {
    for (const CheckpointVariable& variable : saved.variables)
      layouts.emplace(variable.name, Layout::Replicated(*mesh, variable.type.rank()));
  }
  absl::StatusOr<Placement> placement = Placement::Create(*mesh, shards);
  if (!placement.ok()) return Annotate(placement.status(), "--shards: ");
  Plan plan{*std::move(placement), {}};
  for (const CheckpointVariable& variable : saved.variables)
    plan.places[variable.name] = {variable.type, layouts.at(variable.name).On(plan.placement.mesh())};
  return plan;
}

// `saved` with other pieces; with `has_mesh` also with the plan's mesh and layouts.
CheckpointIndex IndexOf(const CheckpointIndex& saved, const Plan& plan, bool has_mesh) {
  const std::map<std::string, std::vector<WrittenPart>> parts = PlanParts(plan.placement, plan.places);
  CheckpointIndex index = saved;
  if (has_mesh) index.mesh = plan.placement.mesh().ToString();
  for (CheckpointVariable& variable : index.variables) {
    if (has_mesh) variable.layout = plan.places.at(variable.name).layout.ToString();
    variable.pieces.clear();
    for (const WrittenPart& part : parts.at(variable.name))
      variable.pieces.push_back({part.domain, part.part.box});
  }
  return index;
}

// Checks that both have the same elements.
absl::Status CheckSame(const TensorSource& saved, const TensorSource& written, ProgressLine& progress) {
  for (const auto& [name, type] : saved.types()) {
    MESHWORK_ASSIGN_OR_RETURN(const TensorDifference difference, Difference(saved, written, name, progress));
    if (difference.elements > 0)
      return absl::InternalError(
          fmt::format("{}: {} than in {}; this is a bug.", name, Describe(difference, type), saved.path()));
  }
  return absl::OkStatus();
}

absl::Status Reshard(const std::string& from, const std::string& to, const Question& question, bool force) {
  absl::StatusOr<Checkpoint> opened = OpenVerified(from);
  if (!opened.ok()) return BadInput(opened.status());
  MESHWORK_ASSIGN_OR_RETURN(const Plan plan, MakePlan(opened->index(), question));
  const CheckpointIndex index = IndexOf(opened->index(), plan, !question.mesh.empty());
  const int64_t shards = plan.placement.num_domains();
  if (!force) MESHWORK_RETURN_IF_ERROR(CheckNotThere(to, index.step));
  const TensorSource source(*std::move(opened));
  int64_t bytes = 0;
  for (const auto& [name, type] : source.types()) bytes += type.bytes();
  ProgressLine progress("writing and comparing", 2 * bytes);
  const auto read = [&](const CheckpointVariable& variable, const Block& box) {
    progress.Add(NumElements(box) * DTypeSize(variable.type.dtype));
    return source.Read(variable.name, box);
  };
  const auto check = [&](const Checkpoint& written) -> absl::Status {
    MESHWORK_ASSIGN_OR_RETURN(const TensorSource again, TensorSource::Open(written.path()));
    return CheckSame(source, again, progress);
  };
  MESHWORK_ASSIGN_OR_RETURN(const std::string path,
                            WriteCheckpoint(to, index, shards, read, {.replace = force, .check = check}));
  fmt::print("{}: {} of {}, {} in {}\n", path, Count(std::ssize(index.variables), "variable"), source.path(),
             BytesToString(bytes), Count(shards, "shard"));
  return absl::OkStatus();
}

}  // namespace

absl::Status ReshardCheckpoint(Arguments args) {
  std::string from, to;
  Question question;
  bool force = false;
  FlagTable flags(
      "meshwork checkpoint reshard",
      "Writes a checkpoint anew, in other pieces and another number of files, and compares both. A restore on\n"
      "another mesh does not need this; it makes files of another size, and pieces that each process of a\n"
      "job reads as a whole.\n\n"
      "With --shards alone, a variable of more than 256 KiB is cut into that many pieces along its first dim\n"
      "that is long enough, and smaller ones are spread over the files. With --mesh, variables are cut as by\n"
      "a training on that mesh, and --shards is its number of processes.");
  flags.Positional("CHECKPOINT", kCheckpointHelp, &from);
  flags.Positional("DIR", "the folder that gets the new checkpoint", &to);
  flags.Int("shards", "number of files; 0: one for each device of --mesh", &question.shards, 0, kMostShards);
  flags.Text("mesh", "named axes, as batch=4,model=2", &question.mesh);
  flags.Texts(
      "layout",
      "how a variable is cut on --mesh, as 'w={batch,_}', or all whose names fit a pattern, as\n"
      "                     'layer*/w={_,model}'; may be given several times, the last one counts; others\n"
      "                     keep their layouts if the mesh has the axes, or are whole",
      &question.layouts);
  flags.Switch("force", "replaces a checkpoint of this step that is there", &force);
  if (const auto done = Parse(flags, args)) return *done;
  if (question.shards == 0 && question.mesh.empty())
    return InvalidArgument("--shards or --mesh is missing. See --help.");
  if (!question.layouts.empty() && question.mesh.empty())
    return InvalidArgument("--layout names axes of a mesh; give --mesh as well.");
  return Reshard(from, to, question, force);
}

}  // namespace meshwork::tools

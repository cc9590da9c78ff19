// meshwork relayout.
#include "meshwork/layout/relayout.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/ir/local.h"
#include "meshwork/ir/plan/explain.h"
#include "meshwork/ir/type.h"
#include "tools/cli/commands.h"
#include "tools/cli/program_file.h"

namespace meshwork::tools {
namespace {

using Json = nlohmann::ordered_json;

struct Question {
  Type type;
  Layout from, to;
};

// "[128,700]", "128,700", "[]".
absl::StatusOr<Shape> ParseShape(std::string_view text) {
  const absl::Status wrong =
      InvalidArgument("--shape: \"{}\" is not a list of sizes; write for example 128,700.", text);
  if (text.starts_with('[') != text.ends_with(']') || text == "[") return wrong;
  if (text.starts_with('[')) text = text.substr(1, text.size() - 2);
  Shape shape;
  while (!text.empty()) {
    int64_t size = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
    if (error != std::errc()) return wrong;
    shape.push_back(size);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (text.empty()) break;
    if (text[0] != ',' || text.size() == 1) return wrong;
    text.remove_prefix(1);
    while (text.starts_with(' ')) text.remove_prefix(1);
  }
  return shape;
}

// Both layouts of the result are on one mesh, which is cut as both need it.
absl::StatusOr<Question> ReadQuestion(const std::string& mesh_text, const std::string& shape,
                                      const std::string& dtype, const std::string& from,
                                      const std::string& to) {
  absl::StatusOr<Mesh> mesh = Mesh::Parse(mesh_text);
  if (!mesh.ok()) return Annotate(mesh.status(), "--mesh: ");
  Question question;
  MESHWORK_ASSIGN_OR_RETURN(question.type.shape, ParseShape(shape));
  MESHWORK_ASSIGN_OR_RETURN(question.type.dtype, DTypeFromName(dtype));
  if (absl::Status status = CheckSize(question.type); !status.ok()) return Annotate(status, "--shape: ");
  auto read = [&](std::string_view flag, const std::string& text, Layout* layout) {
    absl::StatusOr<Layout> parsed = Layout::Parse(*mesh, text);
    absl::Status status = parsed.ok() ? parsed->Fits(question.type.shape) : parsed.status();
    if (status.ok()) status = CheckPartials(*parsed, question.type);
    if (!status.ok()) return Annotate(status, fmt::format("--{}: ", flag));
    *layout = *std::move(parsed);
    *mesh = layout->mesh();
    return absl::OkStatus();
  };
  MESHWORK_RETURN_IF_ERROR(read("from", from, &question.from));
  MESHWORK_RETURN_IF_ERROR(read("to", to, &question.to));
  question.from = question.from.On(*mesh);
  return question;
}

// "all_to_all over (x), dim 0 to dim 1".
std::string Describe(const RelayoutStep& step) {
  std::string out(RelayoutKindName(step.kind));
  if (!step.axes.empty()) out += " over " + step.result.mesh().AxesToString(step.axes);
  if (step.dim >= 0) out += fmt::format(", dim {}", step.dim);
  if (step.to_dim >= 0) out += fmt::format(" to dim {}", step.to_dim);
  return out;
}

std::string AsText(const Question& q, const RelayoutPlan& plan, bool has_times) {
  const int64_t size = DTypeSize(q.type.dtype);
  std::string out = fmt::format("{} on mesh {}: {} -> {}\n", q.type.ToString(), q.to.mesh().ToString(),
                                q.from.ToString(), q.to.ToString());
  int count = 0;
  for (const RelayoutStep& step : plan.steps)
    out += fmt::format("{:3}. {}: {} {}, {} elements, {} B on the wire per device\n", ++count, Describe(step),
                       Type{q.type.dtype, step.shape}.ToString(), step.result.ToString(), step.wire_elements,
                       step.wire_elements * size);
  out += fmt::format("{}, {} elements, {} B on the wire per device", Count(count, "step"), plan.wire_elements,
                     plan.wire_elements * size);
  return out + (has_times ? ", " + TimeToString(plan.seconds) : "") + "\n";
}

std::string AsJson(const Question& q, const RelayoutPlan& plan, bool has_times) {
  const int64_t size = DTypeSize(q.type.dtype);
  Json json = {{"mesh", q.to.mesh().ToString()},
               {"type", q.type.ToString()},
               {"from", q.from.ToString()},
               {"to", q.to.ToString()},
               {"steps", Json::array()},
               {"wire_elements_per_device", plan.wire_elements},
               {"wire_bytes_per_device", plan.wire_elements * size}};
  if (has_times) json["seconds"] = plan.seconds;
  for (const RelayoutStep& step : plan.steps) {
    Json item = {{"op", RelayoutKindName(step.kind)}};
    if (!step.axes.empty()) item["axes"] = q.to.mesh().AxesToString(step.axes);
    if (step.dim >= 0) item["dim"] = step.dim;
    if (step.to_dim >= 0) item["to_dim"] = step.to_dim;
    if (step.kind == RelayoutKind::kReduceScatter || step.kind == RelayoutKind::kAllReduce)
      item["reduction"] = ReduceOpName(step.op);
    item["type"] = Type{q.type.dtype, step.shape}.ToString();
    item["layout"] = step.result.ToString();
    item["wire_elements_per_device"] = step.wire_elements;
    item["wire_bytes_per_device"] = step.wire_elements * size;
    json["steps"].push_back(std::move(item));
  }
  return json.dump(2) + "\n";
}

}  // namespace

absl::Status Relayout(Arguments args) {
  std::string mesh, shape, dtype = "f32", from, to, topology;
  bool json = false;
  FlagTable flags(
      "meshwork relayout",
      "Plans how a tensor changes its layout: the slices and collectives, and what each device sends.");
  std::vector<std::string> dtypes;
  for (DType known : kAllDTypes) dtypes.emplace_back(DTypeName(known));
  flags.Text("mesh", "named axes, as batch=4,model=2; [] is one device", &mesh);
  flags.Text("shape", "of the whole tensor, as 128,700; [] is a scalar", &shape);
  flags.Choice("dtype", "of its elements", &dtype, dtypes);
  flags.Text("from", "the layout that it has, as {batch,_}", &from);
  flags.Text("to", "the layout that it shall have", &to);
  flags.Text("topology", kTopologyHelp, &topology);
  flags.Switch("json", "prints one JSON object", &json);
  if (const auto done = Parse(flags, args)) return *done;
  for (const auto& [name, value] :
       {std::pair("mesh", &mesh), {"shape", &shape}, {"from", &from}, {"to", &to}})
    if (value->empty()) return InvalidArgument("--{} is missing. See --help.", name);
  MESHWORK_ASSIGN_OR_RETURN(const Question question, ReadQuestion(mesh, shape, dtype, from, to));
  RelayoutOptions options{.element_bytes = DTypeSize(question.type.dtype)};
  MESHWORK_ASSIGN_OR_RETURN(options.topology, ReadTopology(question.to.mesh(), topology));
  MESHWORK_ASSIGN_OR_RETURN(const RelayoutPlan plan,
                            PlanRelayout(question.from.WithoutTrivialAxes(), question.to.WithoutTrivialAxes(),
                                         question.type.shape, options));
  const bool has_times = !topology.empty();
  fmt::print("{}", json ? AsJson(question, plan, has_times) : AsText(question, plan, has_times));
  return absl::OkStatus();
}

}  // namespace meshwork::tools

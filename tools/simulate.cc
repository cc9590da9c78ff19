// meshwork simulate.
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/simulate/measure.h"
#include "meshwork/simulate/process.h"
#include "meshwork/simulate/report.h"
#include "meshwork/simulate/scale.h"
#include "meshwork/storage/file.h"
#include "meshwork/train/plot.h"
#include "tools/commands.h"
#include "tools/program_file.h"

namespace meshwork::tools {
namespace {

struct SimulateFlags {
  ProgramChoice program;
  CompileOptions compile;
  std::string topology, machine, trace, plot, scale;
  int64_t most_devices = int64_t{1} << 20, domains = 1;
  bool measure = false, json = false, strong = false, no_overlap = false;
};

absl::Status CheckFlags(const SimulateFlags& o) {
  if (o.measure && o.machine.empty())
    return InvalidArgument("--measure writes what it measures into the file that --machine names; name one.");
  if (o.scale.empty() && o.strong)
    return InvalidArgument("--strong says how a step scales; name the axis that grows with --scale.");
  if (o.scale.empty() && !o.plot.empty())
    return InvalidArgument("--plot draws how a step scales; name the axis that grows with --scale.");
  if (!o.scale.empty() && !o.trace.empty())
    return InvalidArgument("--trace writes one step, --scale simulates many; leave one of them out.");
  if (!o.scale.empty() && o.measure)
    return InvalidArgument("--measure times one program, --scale simulates many; leave one of them out.");
  for (const auto& [flag, file] : {std::pair("trace", o.trace), std::pair("plot", o.plot),
                                   std::pair("machine", o.measure ? o.machine : "")})
    if (!file.empty())
      MESHWORK_RETURN_IF_ERROR(BadInput(Annotate(CheckWritable(file), fmt::format("--{}: ", flag))));
  return absl::OkStatus();
}

// The machine of the file, or the assumed one, with the links of --topology.
absl::StatusOr<Machine> MachineOn(const Mesh& mesh, const SimulateFlags& o) {
  Machine machine;
  if (!o.measure) {
    MESHWORK_ASSIGN_OR_RETURN(machine, ReadMachine(o.machine));
  }
  MESHWORK_ASSIGN_OR_RETURN(machine.topology, ReadTopology(mesh, o.topology));
  return machine;
}

absl::Status SimulateOne(const Graph& global, const SimulateFlags& o) {
  MESHWORK_ASSIGN_OR_RETURN(Machine machine, MachineOn(global.mesh(), o));
  CompileOptions compile = o.compile;
  compile.topology = machine.topology;
  compile.num_domains = o.domains;
  absl::StatusOr<Program> program = meshwork::Compile(global, compile);
  if (program.status().code() == absl::StatusCode::kResourceExhausted) return BadInput(program.status());
  MESHWORK_RETURN_IF_ERROR(program.status());
  if (o.measure) {
    const Topology topology = machine.topology;
    MESHWORK_ASSIGN_OR_RETURN(machine, MeasureMachine());
    machine.topology = topology;
    MESHWORK_RETURN_IF_ERROR(MeasureKernels(*program, machine));
    MESHWORK_RETURN_IF_ERROR(WriteFileAtomically(o.machine, MachineToJson(machine).dump(2) + "\n"));
  }
  MESHWORK_ASSIGN_OR_RETURN(const Simulation step, SimulateOn(*program, machine, {.overlap = !o.no_overlap}));
  if (o.json) fmt::print("{}\n", ToJson(program->body, step).dump(2));
  else fmt::print("{}", ToText(program->body, step));
  return o.trace.empty() ? absl::OkStatus()
                         : WriteFileAtomically(o.trace, TraceOf(program->body, step).ToJson());
}

LineChart ChartOf(const Graph& global, const std::vector<ScalePoint>& curve, const SimulateFlags& o) {
  LineChart chart{.title = fmt::format("{} on more devices", global.name),
                  .note = o.strong ? "the batch stays" : "the batch grows",
                  .x_label = "devices, as a power of 2"};
  Panel times{.title = "Seconds of a step", .log = true}, efficiency{.title = "Efficiency"};
  const auto series = [&](std::string name, int paint, auto&& value) {
    Series all{.name = std::move(name), .paint = paint};
    for (const ScalePoint& point : curve)
      if (point.status.ok())
        all.points.push_back({std::log2(static_cast<double>(point.mesh.num_devices())), value(point)});
    return all;
  };
  times.series = {series("step", 0, [](const ScalePoint& p) { return p.seconds; }),
                  series("compute", 1, [](const ScalePoint& p) { return p.compute_seconds; }),
                  series("links", 2, [](const ScalePoint& p) { return p.link_seconds; })};
  efficiency.series = {series("efficiency", 0, [](const ScalePoint& p) { return p.efficiency; })};
  chart.panels = {std::move(times), std::move(efficiency)};
  return chart;
}

absl::Status SimulateMany(const Graph& global, const SimulateFlags& o) {
  ScaleOptions options{.axis = o.scale == "first" ? "" : o.scale,
                       .devices = o.most_devices,
                       .same_batch = o.strong,
                       .compile = o.compile,
                       .simulate = {.overlap = !o.no_overlap}};
  options.compile.num_domains = 1;
  const auto point_on = [&](const Mesh& mesh) -> absl::StatusOr<ScaleProgram> {
    ProgramChoice choice = o.program;
    choice.mesh = mesh.ToString();
    MESHWORK_ASSIGN_OR_RETURN(Graph graph, ReadProgram(choice));
    MESHWORK_ASSIGN_OR_RETURN(Machine machine, MachineOn(mesh, o));
    return ScaleProgram{std::move(graph), std::move(machine)};
  };
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<ScalePoint> curve, Scale(global.mesh(), options, point_on));
  if (o.json) fmt::print("{}\n", ToJson(curve).dump(2));
  else fmt::print("{}", ToText(curve));
  return o.plot.empty() ? absl::OkStatus() : WriteFileAtomically(o.plot, ChartOf(global, curve, o).ToSvg());
}

}  // namespace

absl::Status Simulate(Arguments args) {
  SimulateFlags o;
  FlagTable flags(
      "meshwork simulate",
      "Says how long a step takes on devices that need not be there: what they compute, what crosses between\n"
      "them, what they wait for and hold, and what limits the step. Each device is as --machine says, the links\n"
      "are as --topology says. With --scale, on 1, 2, 4, … positions of an axis.");
  AddProgram(flags, o.program);
  flags.Text("topology",
             "a JSON file: bandwidth and latency of each axis, operations per second (docs/tools.md)",
             &o.topology);
  flags.Text("machine", "a JSON file: what a device does in a second (docs/tools.md)", &o.machine);
  flags.Switch("measure", "measures this machine's CPUs as the process of all devices, and writes --machine",
               &o.measure);
  flags.Int("domains", "processes that share the devices, of a machine with workers", &o.domains, 1, 1 << 20);
  flags.Switch("no-overlap", "each op waits for the collectives before it", &o.no_overlap);
  flags.Text("scale", "the axis that grows, as batch; first: the first of the mesh", &o.scale);
  flags.Int("devices", "the most of a mesh, with --scale", &o.most_devices, 1, int64_t{1} << 40);
  flags.Switch("strong", "with --scale, the batch stays as it is, instead of growing with the axis",
               &o.strong);
  flags.Text("plot", "draws the curve of --scale as SVG into this file", &o.plot);
  flags.Text("trace", "writes when each op and each collective runs, for ui.perfetto.dev", &o.trace);
  AddBudgets(flags, o.compile);
  flags.Switch("shard-weight-update", kShardWeightUpdateHelp, &o.compile.shard_weight_update);
  flags.Switch("narrow-sums", kNarrowSumsHelp, &o.compile.narrow_sums);
  flags.Switch("json", "prints one JSON value", &o.json);
  if (const auto done = Parse(flags, args)) return *done;
  MESHWORK_RETURN_IF_ERROR(CheckFlags(o));
  MESHWORK_ASSIGN_OR_RETURN(const Graph global, ReadProgram(o.program));
  return o.scale.empty() ? SimulateOne(global, o) : SimulateMany(global, o);
}

}  // namespace meshwork::tools

// meshwork simulate.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "meshwork/base/io/file.h"
#include "meshwork/base/json.h"
#include "meshwork/base/status.h"
#include "meshwork/tools/simulate/measure.h"
#include "meshwork/tools/simulate/process.h"
#include "meshwork/tools/simulate/report.h"
#include "meshwork/tools/simulate/scale.h"
#include "meshwork/train/log/plot.h"
#include "tools/cli/commands.h"
#include "tools/cli/program_file.h"

namespace meshwork::tools {
namespace {

constexpr int64_t kMostDevices = int64_t{1} << 20;  // unless --max-devices says otherwise

struct SimulateFlags {
  ProgramChoice program;
  CompileOptions compile;
  std::string topology, machine, trace, plot, scale;
  int64_t max_devices = kMostDevices, domains = 1;
  bool measure = false, json = false, strong = false, no_overlap = false;
};

absl::Status CheckFlags(const SimulateFlags& o) {
  if (o.measure && o.machine.empty())
    return InvalidArgument("--measure writes what it measures into the file that --machine names; name one.");
  if (o.measure && o.machine == "-")
    return InvalidArgument(
        "--measure writes what it measures into the file that --machine names; - is none.");
  if (o.scale.empty() && o.strong)
    return InvalidArgument("--strong says how a step scales; name the axis that grows with --scale.");
  if (o.scale.empty() && !o.plot.empty())
    return InvalidArgument("--plot draws how a step scales; name the axis that grows with --scale.");
  if (o.scale.empty() && o.max_devices != kMostDevices)
    return InvalidArgument(
        "--max-devices says how far a step scales; name the axis that grows with --scale.");
  if (!o.scale.empty() && !o.trace.empty())
    return InvalidArgument("--trace writes one step, --scale simulates many; leave one of them out.");
  if (!o.scale.empty() && o.measure)
    return InvalidArgument("--measure times one program, --scale simulates many; leave one of them out.");
  if (!o.scale.empty() && o.domains > 1)
    return InvalidArgument(
        "--domains shares the devices of one mesh, --scale simulates many; leave one of them out.");
  std::vector<GivenFile> inputs = {{"FILE", o.program.file}, {"--topology", o.topology}};
  std::vector<GivenFile> outputs = {{"--trace", o.trace, "trace.json"}, {"--plot", o.plot, "curve.svg"}};
  if (o.measure) outputs.push_back({"--machine", o.machine, "machine.json"});
  else inputs.push_back({"--machine", o.machine});
  MESHWORK_RETURN_IF_ERROR(CheckFiles(inputs, outputs));
  for (const GivenFile& output : outputs)
    if (!output.path.empty())
      MESHWORK_RETURN_IF_ERROR(BadInput(Annotate(CheckWritable(output.path), output.flag + ": ")));
  return absl::OkStatus();
}

// The contents of the files. Each is read only once, as it may be standard input.
struct SimulateInputs {
  std::string program, topology;
  Machine machine;
};

absl::StatusOr<SimulateInputs> ReadInputs(const SimulateFlags& o) {
  SimulateInputs inputs;
  MESHWORK_ASSIGN_OR_RETURN(inputs.program, ReadText(o.program.file));
  if (!o.topology.empty()) {
    MESHWORK_ASSIGN_OR_RETURN(inputs.topology, ReadText(o.topology));
  }
  if (!o.measure) {
    MESHWORK_ASSIGN_OR_RETURN(inputs.machine, ReadMachine(o.machine));
  }
  return inputs;
}

// The machine of the file, or the assumed one, with the links of --topology.
absl::StatusOr<Machine> MachineOn(const Mesh& mesh, const SimulateInputs& inputs, const SimulateFlags& o) {
  Machine machine = inputs.machine;
  MESHWORK_ASSIGN_OR_RETURN(machine.topology, ParseTopology(mesh, inputs.topology, o.topology));
  return machine;
}

// Measures this machine and the pieces of the program, and writes both into the file --machine. Pieces of other
// programs in the file stay, if they were measured with as many workers.
absl::StatusOr<Machine> Measured(const Program& program, const Topology& topology, const SimulateFlags& o) {
  MESHWORK_ASSIGN_OR_RETURN(Machine machine, MeasureMachine());
  machine.topology = topology;
  MESHWORK_RETURN_IF_ERROR(MeasureKernels(program, machine));
  const absl::StatusOr<std::string> before = ReadFile(o.machine);
  if (absl::StatusOr<Machine> known = before.ok() ? ParseMachine(*before) : before.status();
      known.ok() && known->workers == machine.workers)
    machine.kernels.merge(known->kernels);
  MESHWORK_RETURN_IF_ERROR(WriteFileAtomically(o.machine, PrintJson(MachineToJson(machine))));
  return machine;
}

absl::Status SimulateOne(const Graph& global, const SimulateInputs& inputs, const SimulateFlags& o) {
  MESHWORK_ASSIGN_OR_RETURN(Machine machine, MachineOn(global.mesh(), inputs, o));
  if (o.domains > 1 && !o.measure && machine.workers == 0)
    return InvalidArgument(
        "--domains={}: processes share virtual devices, and --machine has hardware; name a machine with "
        "\"workers\", as --measure writes it.",
        o.domains);
  CompileOptions compile = o.compile;
  compile.topology = machine.topology;
  compile.num_domains = o.domains;
  MESHWORK_ASSIGN_OR_RETURN(const Program program, CompileWithin(global, compile));
  if (o.measure) {
    MESHWORK_ASSIGN_OR_RETURN(machine, Measured(program, compile.topology, o));
  }
  MESHWORK_ASSIGN_OR_RETURN(const Simulation step, SimulateOn(program, machine, {.overlap = !o.no_overlap}));
  fmt::print("{}", o.json ? PrintJson(ToJson(program.body, step)) : ToText(program.body, step));
  return o.trace.empty() ? absl::OkStatus()
                         : WriteFileAtomically(o.trace, TraceOf(program.body, step).ToJson());
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

absl::Status SimulateMany(const Graph& global, const SimulateInputs& inputs, const SimulateFlags& o) {
  const std::vector<Axis> axes = global.mesh().axes();
  const bool has_axis =
      std::any_of(axes.begin(), axes.end(), [&](const Axis& axis) { return axis.name == o.scale; });
  ScaleOptions options{.axis = o.scale == "first" && !has_axis ? "" : o.scale,
                       .max_devices = o.max_devices,
                       .same_batch = o.strong,
                       .compile = o.compile,
                       .simulate = {.overlap = !o.no_overlap}};
  options.compile.num_domains = 1;
  const auto point_on = [&](const Mesh& mesh) -> absl::StatusOr<ScaleProgram> {
    ProgramChoice choice = o.program;
    choice.mesh = mesh.ToString();
    MESHWORK_ASSIGN_OR_RETURN(Graph graph, ParseProgram(inputs.program, choice));
    MESHWORK_ASSIGN_OR_RETURN(Machine machine, MachineOn(mesh, inputs, o));
    return ScaleProgram{std::move(graph), std::move(machine)};
  };
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<ScalePoint> curve, Scale(global.mesh(), options, point_on));
  if (std::none_of(curve.begin(), curve.end(), [](const ScalePoint& p) { return p.status.ok(); }))
    return BadInput(Annotate(curve.front().status, curve.front().mesh.ToString() + ": "));
  fmt::print("{}", o.json ? PrintJson(ToJson(curve)) : ToText(curve));
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
  flags.Int("max-devices", "the most of a mesh, with --scale", &o.max_devices, 1, int64_t{1} << 40);
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
  MESHWORK_ASSIGN_OR_RETURN(const SimulateInputs inputs, ReadInputs(o));
  MESHWORK_ASSIGN_OR_RETURN(const Graph global, ParseProgram(inputs.program, o.program));
  return o.scale.empty() ? SimulateOne(global, inputs, o) : SimulateMany(global, inputs, o);
}

}  // namespace meshwork::tools

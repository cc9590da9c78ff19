// meshwork compile, meshwork explain.
#include "meshwork/spmd/compile.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "fmt/ranges.h"
#include "meshwork/base/json.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/plan/explain.h"
#include "meshwork/ir/plan/memory_report.h"
#include "meshwork/ir/program.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/text.h"
#include "meshwork/spmd/auto/cheaper_layouts.h"
#include "meshwork/spmd/describe_search.h"
#include "meshwork/spmd/shard_weight_update.h"
#include "meshwork/stablehlo/write.h"
#include "meshwork/stablehlo/write_shardy.h"
#include "meshwork/verify/certificate.h"
#include "meshwork/verify/verify.h"
#include "tools/cli/commands.h"
#include "tools/cli/kernel_code.h"
#include "tools/cli/plugin_code.h"
#include "tools/cli/program_file.h"

namespace meshwork::tools {
namespace {

using Json = nlohmann::ordered_json;

// A count as a whole number, where it is one.
Json Flops(const Graph& graph) {
  const double flops = CountFlops(graph);
  if (flops < 9e18) return static_cast<int64_t>(flops);
  return flops;
}

// Milliseconds, to the microsecond.
double Milliseconds(double seconds) { return std::round(seconds * 1e6) / 1e3; }

// The place where a device holds most, and the largest values there.
Json PeakOf(const Graph& local, const MemoryReport& report) {
  const std::vector<std::string> names = ValueNames(local);
  Json json = {{"at", DescribePoint(local, report)}, {"values", report.num_live}, {"largest", Json::array()}};
  for (const LiveValue& live : report.largest) {
    const ValueInfo& info = local.value(live.value);
    const SourceLocation& made = info.node < 0 ? info.location : local.nodes()[info.node].location;
    json["largest"].push_back({{"value", names[live.value]},
                               {"type", info.type.ToString()},
                               {"global", info.global.ToString()},
                               {"layout", info.layout->ToString()},
                               {"bytes", live.bytes},
                               {"op", info.node < 0 ? "" : local.nodes()[info.node].row->name},
                               {"line", made.ToString()}});
  }
  return json;
}

std::string Stats(const Graph& global, const Program& program) {
  const Graph& local = program.body;
  const MemoryReport memory = ReportMemory(local);
  Json json = {{"mesh", local.mesh().ToString()},  {"devices", local.mesh().num_devices()},
               {"collectives", Json::array()},     {"flops", Flops(global)},
               {"flops_per_device", Flops(local)}, {"peak_bytes", memory.peak_bytes},
               {"peak", PeakOf(local, memory)},    {"ms", Json::object()}};
  for (const CollectiveSummary& c : SummarizeCollectives(local)) {
    json["collectives"].push_back(
        {{"type", c.type}, {"axes", c.axes}, {"count", c.count}, {"wire_bytes_per_device", c.bytes}});
    if (c.received != c.bytes) json["collectives"].back()["received_bytes_per_device"] = c.received;
  }
  for (const PassTiming& pass : program.passes) json["ms"][pass.pass] = Milliseconds(pass.seconds);
  json["ms"]["verify"] = Milliseconds(program.verify_seconds);
  return PrintJson(json);
}

// The program after propagate, below the decisions of this pass and of those after it.
std::string Propagated(const Program& program, const std::string& text) {
  std::string out;
  for (const std::string& decision : program.decisions) out += fmt::format("// {}\n", decision);
  for (const std::string& conflict : program.conflicts) out += fmt::format("// conflict: {}\n", conflict);
  return out + text;
}

Explanation ExplainAll(const Graph& global, const Program& program, const CompileOptions& options) {
  Explanation explanation = meshwork::Explain(program, options.topology);
  explanation.search = CheaperLayouts(global, program, options);
  return explanation;
}

absl::StatusOr<std::string> Emit(const std::string& emit, const Graph& global, CompileOptions options) {
  if (emit == "search") return DescribeSearch(global, options);
  std::string propagated;
  options.dump = [&](std::string_view pass, const Graph& graph) {
    if (pass == "propagate" && emit == "propagated") propagated = PrintGraph(graph);
  };
  MESHWORK_ASSIGN_OR_RETURN(const Program program, CompileWithin(global, options));
  if (emit == "global") return PrintGraph(WithShardedState(global, program));
  if (emit == "propagated") return Propagated(program, propagated);
  if (emit == "stats") return Stats(global, program);
  if (emit == "memory") return PrintMemoryReport(program.body, ReportMemory(program.body));
  if (emit == "explain") return ToText(ExplainAll(global, program, options));
  if (emit == "explain-json") return PrintJson(ToJson(ExplainAll(global, program, options)));
  if (emit == "stablehlo") return WriteStableHlo(program.body);
  if (emit == "shardy") return WriteShardy(global);
  if (emit == "certificate") {
    const Graph asked = WithShardedState(global, program);
    MESHWORK_ASSIGN_OR_RETURN(const Proof proof,
                              meshwork::Verify(asked, program.body, {.narrow_sums = options.narrow_sums}));
    return CertificateToJson(MakeCertificate(asked, program.body, proof));
  }
  return PrintGraph(program.body);
}

// The program after each pass, below the pass's name.
absl::StatusOr<std::string> EmitPasses(const Graph& global, CompileOptions options) {
  std::string out;
  options.dump = [&](std::string_view pass, const Graph& graph) {
    out += fmt::format("{}// {}\n{}", out.empty() ? "" : "\n", pass, PrintGraph(graph));
  };
  MESHWORK_RETURN_IF_ERROR(CompileWithin(global, options).status());
  return out;
}

}  // namespace

absl::StatusOr<Program> CompileWithin(const Graph& global, const CompileOptions& options) {
  absl::StatusOr<Program> program = meshwork::Compile(global, options);
  if (program.status().code() == absl::StatusCode::kResourceExhausted) return BadInput(program.status());
  return program;
}

void AddBudgets(FlagTable& flags, CompileOptions& options) {
  flags.Bytes("memory-budget", "what a device may hold, as 500000, 512KiB, 16MiB, 2GiB; 0: no limit",
              &options.memory_budget);
  flags.Bytes("replication-budget", "what may be gathered whole on every device unasked",
              &options.replication_budget);
}

void AddCompile(FlagTable& flags, CompileOptions& options, std::string& topology) {
  AddBudgets(flags, options);
  flags.Switch("shard-weight-update", kShardWeightUpdateHelp, &options.shard_weight_update);
  flags.Switch("narrow-sums", kNarrowSumsHelp, &options.narrow_sums);
  flags.Text("topology", kTopologyHelp, &topology);
}

absl::Status Compile(Arguments args) {
  std::string topology, emit = "local";
  ProgramChoice program;
  KernelCodeChoice code;
  bool passes = false;
  CompileOptions options;
  FlagTable flags(
      "meshwork compile",
      "Compiles a global program and proves that the result computes it. Prints, as --emit asks:\n\n"
      "  global       the program that was read, in its canonical form\n"
      "  propagated   with a layout for every value, below the choices and the conflicts\n"
      "  search       what the search for layouts weighs: layouts, ways to run ops, and what they cost\n"
      "  local        what each device runs\n"
      "  stats        collectives, operations, memory and times, as one JSON object\n"
      "  memory       the most that a device holds at a time, where, and the largest values there\n"
      "  explain      every collective, and why it is there\n"
      "  certificate  what is proven, as JSON for meshwork verify\n"
      "  stablehlo    what each device runs, as a StableHLO module for compilers such as XLA\n"
      "  shardy       the program that was read, as one with its pins, for XLA's partitioner\n\n"
      "With --devices=cuda it compiles the kernels of the steps that meshwork run makes of the program, and\n"
      "keeps their machine code, so that a run has nothing left to compile. Prints how many there are. With\n"
      "--devices=tpu or pjrt:PATH, and --arch, a PJRT plugin compiles the program for devices that need not be\n"
      "there. Prints the memory and the time that it counts.");
  AddProgram(flags, program);
  flags.Choice("emit", "what to print", &emit,
               {"global", "propagated", "search", "local", "stats", "memory", "explain", "certificate",
                "stablehlo", "shardy"});
  AddCompile(flags, options, topology);
  flags.Switch("passes", "prints the program after every pass that changes it instead", &passes);
  AddKernelCode(flags, code);
  if (const auto done = Parse(flags, args)) return *done;
  if (passes && emit != "local")
    return InvalidArgument("--passes prints programs, not --emit={}; leave one of them out.", emit);
  MESHWORK_RETURN_IF_ERROR(CheckKernelCode(code));
  if (code.is_asked() && (passes || emit != "local"))
    return InvalidArgument("--devices={} compiles {} and prints no program; leave out --{}.", code.devices,
                           code.is_plugin() ? "for these" : "kernels", passes ? "passes" : "emit");
  MESHWORK_ASSIGN_OR_RETURN(const Graph global, ReadProgram(program));
  MESHWORK_ASSIGN_OR_RETURN(options.topology, ReadTopology(global.mesh(), topology));
  MESHWORK_ASSIGN_OR_RETURN(const std::string text, code.is_plugin() ? CompileByPlugin(global, options, code)
                                                    : code.is_asked()
                                                        ? CompileKernelCode(global, options, code)
                                                    : passes ? EmitPasses(global, options)
                                                             : Emit(emit, global, options));
  fmt::print("{}", text);
  return absl::OkStatus();
}

absl::Status Explain(Arguments args) {
  std::string topology;
  ProgramChoice program;
  bool json = false;
  CompileOptions options;
  FlagTable flags(
      "meshwork explain",
      "Says of every collective that a program needs what it moves, which line asks for it and why;\n"
      "which tensors disagree about their layouts; and which one layout, were it another, would make\n"
      "the step cheaper. The same as meshwork compile --emit=explain.");
  AddProgram(flags, program);
  AddCompile(flags, options, topology);
  flags.Switch("json", "prints one JSON object", &json);
  if (const auto done = Parse(flags, args)) return *done;
  MESHWORK_ASSIGN_OR_RETURN(const Graph global, ReadProgram(program));
  MESHWORK_ASSIGN_OR_RETURN(options.topology, ReadTopology(global.mesh(), topology));
  MESHWORK_ASSIGN_OR_RETURN(const std::string text, Emit(json ? "explain-json" : "explain", global, options));
  fmt::print("{}", text);
  return absl::OkStatus();
}

}  // namespace meshwork::tools

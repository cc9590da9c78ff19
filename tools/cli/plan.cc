// meshwork plan.
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "fmt/ranges.h"
#include "meshwork/base/io/file.h"
#include "meshwork/base/json.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/plan/explain.h"
#include "meshwork/ir/regions.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/text.h"
#include "meshwork/session/remesh.h"
#include "meshwork/spmd/auto/auto_layouts.h"
#include "meshwork/spmd/auto/auto_mesh.h"
#include "tools/cli/commands.h"
#include "tools/cli/program_file.h"

namespace meshwork::tools {
namespace {

using Json = nlohmann::ordered_json;

struct PlanFlags {
  ProgramChoice program;
  CompileOptions compile;
  std::string topology, output;
  int64_t plans = 3, num_devices = 0;
  bool open = false, cut_mesh = false, price_pins = false, json = false, cpp = false;
};

// Searches layouts. As this takes a while, a terminal shows the mesh that is being searched.
absl::StatusOr<std::vector<FoundLayouts>> Search(const Graph& graph, const PlanFlags& o, int most) {
  if (!o.cut_mesh) return FindLayouts(graph, o.compile, {.most = most});
  const bool is_terminal = isatty(STDERR_FILENO) != 0;
  const auto show = [&](const Mesh& mesh) {
    if (is_terminal) fmt::print(stderr, "\r\x1b[Kplan: mesh {}", mesh.ToString());
  };
  absl::StatusOr<std::vector<FoundLayouts>> found =
      FindMesh(graph, o.compile, {.most = most, .on_search = show});
  if (is_terminal) fmt::print(stderr, "\r\x1b[K");
  return found;
}

// The program without its pins, except relayouts.
Graph Opened(Graph graph) {
  for (ValueId id = 0; id < static_cast<ValueId>(graph.values().size()); ++id) {
    ValueInfo& info = graph.mutable_value(id);
    if (info.node >= 0 && graph.nodes()[info.node].row->name == "relayout") continue;
    info.layout.reset();
    info.modes.clear();
  }
  return graph;
}

// Error: the program has layouts that Opened leaves, such as those of relayouts and of values in bodies. They are
// written for the program's own mesh.
absl::Status CheckCanMove(const Graph& graph, bool is_body = false) {
  for (const Node& node : graph.nodes()) {
    const bool is_pinned = is_body && std::any_of(node.results.begin(), node.results.end(), [&](ValueId id) {
                             return graph.value(id).layout.has_value();
                           });
    if (node.row->name == "relayout" || IsManual(node) || is_pinned)
      return InvalidArgument(
          "--num-devices: the layout at {} is written for the program's own mesh; name a mesh by --mesh.",
          graph.Describe(node.row->name, node.location));
    for (const auto& region : node.regions)
      if (absl::Status status = CheckCanMove(*region, /*is_body=*/true); !status.ok()) return status;
  }
  return absl::OkStatus();
}

// The price of a pin of an input or a variable: the time of the best plan with the pin, minus that without it.
struct PinPrice {
  std::string name, layout, instead;
  double seconds = 0;
};

absl::StatusOr<std::vector<PinPrice>> PricesOf(const Graph& graph, const PlanFlags& o, double with_all) {
  std::vector<PinPrice> prices;
  for (const Argument& argument : graph.arguments()) {
    const ValueInfo& info = graph.value(argument.value);
    if (!info.layout.has_value()) continue;
    Graph without = graph;
    without.mutable_value(argument.value).layout.reset();
    without.mutable_value(argument.value).modes.clear();
    MESHWORK_ASSIGN_OR_RETURN(const std::vector<FoundLayouts> found, Search(without, o, /*most=*/1));
    std::string instead;
    for (const FoundLayouts::Pin& pin : found[0].pins)
      if (pin.name == info.name) instead = pin.layout;
    prices.push_back({info.name, info.layout->ToString(), instead, with_all - found[0].seconds()});
  }
  std::stable_sort(prices.begin(), prices.end(),
                   [](const PinPrice& a, const PinPrice& b) { return a.seconds > b.seconds; });
  return prices;
}

std::string PinText(const FoundLayouts::Pin& pin) {
  return fmt::format("%{} {}{}", pin.name, pin.layout, pin.gathers ? " gather=on_use" : "");
}

// The pins of a plan that differ from those of the best plan; of the best plan, all. Of many, the rest are only
// counted.
std::vector<std::string> PinsToShow(const FoundLayouts& plan, const FoundLayouts* best) {
  constexpr size_t kMost = 12;
  std::vector<std::string> shown;
  size_t count = 0;
  for (size_t i = 0; i < plan.pins.size(); ++i) {
    const bool is_same =
        best != nullptr && best->graph.mesh() == plan.graph.mesh() && best->pins[i] == plan.pins[i];
    if (is_same || ++count > kMost) continue;
    shown.push_back(PinText(plan.pins[i]));
  }
  if (count > kMost) shown.push_back(fmt::format("and {} more", count - kMost));
  return shown;
}

// A gap to the least time: "0.0%" if there is none, up to rounding.
std::string GapText(double gap) {
  constexpr double kRounding = 1e-7;
  return gap > kRounding && gap < 1e-3 ? "<0.1%" : fmt::format("{:.1f}%", 100 * gap);
}

std::string TextOf(const Graph& graph, const std::vector<FoundLayouts>& plans,
                   const std::vector<PinPrice>& prices) {
  std::string text = fmt::format("{} on mesh {}, the best of the layouts that were found:\n",
                                 graph.name.empty() ? "program" : graph.name, graph.mesh().ToString());
  text += fmt::format("  {:>4}  {:>10}  {:>10}  {:>10}  {:>14}  {:>11}  {:>14}  {:>6}\n", "plan", "time",
                      "compute", "links", "sent, B", "collectives", "held, B", "gap");
  for (size_t i = 0; i < plans.size(); ++i) {
    const FoundLayouts& plan = plans[i];
    text += fmt::format("  {:>4}  {:>10}  {:>10}  {:>10}  {:>14}  {:>11}  {:>14}  {:>6}\n", i + 1,
                        TimeToString(plan.seconds()), TimeToString(plan.compute_seconds),
                        TimeToString(plan.cost.seconds), plan.cost.bytes, plan.cost.collectives,
                        plan.cost.peak_bytes, GapText(plan.gap));
  }
  for (size_t i = 0; i < plans.size(); ++i) {
    const std::vector<std::string> pins = PinsToShow(plans[i], i == 0 ? nullptr : &plans[0]);
    text += fmt::format("plan {}{}:\n", i + 1, i == 0 ? "" : ", where it differs from plan 1");
    if (plans[i].graph.mesh() != graph.mesh())
      text += fmt::format("  mesh {}\n", plans[i].graph.mesh().ToString());
    if (plans[i].is_fitted)
      text += "  fits only when it is compiled with this memory budget, which plans it again\n";
    for (const std::string& pin : pins) text += fmt::format("  {}\n", pin);
    if (pins.empty()) text += plans[i].pins.empty() ? "  the program pins all\n" : "  in values alone\n";
  }
  if (!prices.empty()) text += "what the program's own pins cost:\n";
  for (const PinPrice& price : prices)
    text += price.seconds > 0 ? fmt::format("  %{} {}: {}; without it, {}\n", price.name, price.layout,
                                            TimeToString(price.seconds), price.instead)
                              : fmt::format("  %{} {}: nothing\n", price.name, price.layout);
  return text;
}

// "mw::UNSHARDED", "\"batch\"", "{\"batch\", \"model\"}", "mw::DimSpec::Factors({{8, {\"x\"}}, {8}})".
std::string CppOf(const DimSpec& dim) {
  const auto quoted = [](const std::vector<std::string>& axes) {
    std::vector<std::string> names;
    for (const std::string& axis : axes) names.push_back(fmt::format("\"{}\"", axis));
    return fmt::format("{}", fmt::join(names, ", "));
  };
  if (dim.mode() == DimMode::kOpen) return "mw::OPEN";
  if (dim.mode() == DimMode::kMatch) return "mw::MATCH";
  if (!dim.factors().empty()) {
    std::vector<std::string> factors;
    for (const FactorSpec& factor : dim.factors())
      factors.push_back(factor.axes.empty()
                            ? fmt::format("{{{}}}", factor.size)
                            : fmt::format("{{{}, {{{}}}}}", factor.size, quoted(factor.axes)));
    return fmt::format("mw::DimSpec::Factors({{{}}})", fmt::join(factors, ", "));
  }
  if (dim.axes().empty()) return "mw::UNSHARDED";
  return dim.axes().size() == 1 ? quoted(dim.axes()) : fmt::format("{{{}}}", quoted(dim.axes()));
}

// "{mw::UNSHARDED, \"x\"}".
std::string CppOf(const ValueInfo& pinned) {
  std::vector<std::string> dims;
  for (const DimSpec& dim : SpecOf(LayoutPin{*pinned.layout, pinned.modes})) dims.push_back(CppOf(dim));
  return fmt::format("{{{}}}", fmt::join(dims, ", "));
}

// The pins of inputs and variables as a call in C++. Other pins become comments.
std::string CppOf(const Graph& graph, const FoundLayouts& plan) {
  std::string notes, layouts;
  const std::vector<std::string> names = ValueNames(plan.graph);
  for (size_t id = 0; id < graph.values().size(); ++id) {
    const ValueInfo& info = plan.graph.values()[id];
    if (info.node < 0 || !info.layout.has_value() || graph.values()[id].layout.has_value()) continue;
    const Node& made = plan.graph.nodes()[info.node];
    notes += fmt::format("// {}, of {}: WithLayout(x, {}).\n", names[id],
                         graph.Describe(made.row->name, made.location), CppOf(info));
  }
  for (const Argument& argument : plan.graph.arguments()) {
    const ValueInfo& info = plan.graph.value(argument.value);
    const auto pin = std::find_if(plan.pins.begin(), plan.pins.end(),
                                  [&](const FoundLayouts::Pin& p) { return p.name == info.name; });
    if (pin == plan.pins.end()) continue;
    layouts += fmt::format("{}{{\"{}\", {}}}", layouts.empty() ? "" : ",\n                              ",
                           info.name, CppOf(info));
    if (pin->gathers)
      notes += fmt::format("// \"{}\" is declared with .gather = mw::Gathering::kOnUse.\n", info.name);
  }
  return fmt::format("// Before the model, on the mesh {}:\n{}graph.SetLayouts({{.layouts = {{{}}}}});\n",
                     plan.graph.mesh().ToString(), notes, layouts);
}

Json JsonOf(const Graph& graph, const std::vector<FoundLayouts>& plans, const std::vector<PinPrice>& prices) {
  Json json = {{"program", graph.name}, {"mesh", graph.mesh().ToString()}, {"plans", Json::array()}};
  for (const FoundLayouts& plan : plans) {
    Json one = {{"mesh", plan.graph.mesh().ToString()},
                {"seconds", plan.seconds()},
                {"compute_seconds", plan.compute_seconds},
                {"link_seconds", plan.cost.seconds},
                {"wire_bytes_per_device", plan.cost.bytes},
                {"collectives", plan.cost.collectives},
                {"peak_bytes", plan.cost.peak_bytes},
                {"gap", plan.gap},
                {"fitted", plan.is_fitted},
                {"pins", Json::array()}};
    for (const FoundLayouts::Pin& pin : plan.pins)
      one["pins"].push_back({{"name", pin.name}, {"layout", pin.layout}, {"gather_on_use", pin.gathers}});
    json["plans"].push_back(std::move(one));
  }
  for (const PinPrice& price : prices)
    json["pin_prices"].push_back({{"name", price.name},
                                  {"layout", price.layout},
                                  {"instead", price.instead},
                                  {"seconds", price.seconds}});
  return json;
}

}  // namespace

absl::Status Plan(Arguments args) {
  PlanFlags o;
  FlagTable flags(
      "meshwork plan",
      "Finds a layout for every input and variable that the program does not pin, such that a step takes\n"
      "little time and fits into the memory of a device. Prints the best plans, and writes the program with\n"
      "the pins of the best one.");
  AddProgram(flags, o.program);
  flags.Text("topology", kTopologyHelp, &o.topology);
  flags.Bytes("memory-budget", "what a device may hold, as 500000, 512KiB, 16MiB, 2GiB; 0: no limit",
              &o.compile.memory_budget);
  flags.Int("plans", "so many plans are printed", &o.plans, /*at_least=*/1, /*at_most=*/100);
  flags.Switch("open", "what the program pins is open, too", &o.open);
  flags.Switch("cut-mesh", "also tries the mesh with its axes cut in parts, in every way that pays",
               &o.cut_mesh);
  flags.Int("num-devices",
            "puts the program on a mesh [devices=N] instead of its own, with --open and --cut-mesh",
            &o.num_devices, /*at_least=*/1, /*at_most=*/int64_t{1} << 40);
  flags.Switch("price-pins", "says what each pin of the program costs, by a search without it",
               &o.price_pins);
  flags.Text("output", "writes the program with the pins of the best plan; - is standard output", &o.output);
  flags.Switch("cpp", "prints the best plan as a call of Graph::SetLayouts, for a program in C++", &o.cpp);
  flags.Switch("json", "prints the plans as JSON", &o.json);
  if (const auto done = Parse(flags, args)) return *done;
  if (o.cpp && (o.json || o.price_pins))
    return InvalidArgument("--cpp prints the best plan alone; leave --json and --price-pins out.");
  if (o.output == "-" && o.cpp)
    return InvalidArgument("--output - and --cpp both write to standard output; name a file for one.");
  if (o.output == "-" && o.json)
    return InvalidArgument("--output - and --json both write to standard output; name a file for one.");
  MESHWORK_RETURN_IF_ERROR(CheckFiles({{"FILE", o.program.file}, {"--topology", o.topology}},
                                      {{"--output", o.output, "laid_out.mw"}}));
  if (!o.output.empty() && o.output != "-")
    MESHWORK_RETURN_IF_ERROR(BadInput(Annotate(CheckWritable(o.output), "--output: ")));
  if (o.num_devices > 0) {
    if (!o.program.mesh.empty())
      return InvalidArgument("--num-devices and --mesh both say on which devices; name one of them.");
    if (!o.program.layouts.empty())
      return InvalidArgument(
          "--num-devices opens all layouts, and --layout names one; leave one of them out.");
    if (o.price_pins)
      return InvalidArgument(
          "--num-devices opens all layouts, so that no pin has a price; leave --price-pins out.");
    o.open = o.cut_mesh = true;
  }
  MESHWORK_ASSIGN_OR_RETURN(Graph graph, ReadProgram(o.program));
  if (o.num_devices > 0) MESHWORK_RETURN_IF_ERROR(CheckCanMove(graph));
  if (o.open) graph = Opened(std::move(graph));
  if (o.num_devices > 0) {
    MESHWORK_ASSIGN_OR_RETURN(const Mesh mesh, Mesh::Parse(fmt::format("devices={}", o.num_devices)));
    MESHWORK_ASSIGN_OR_RETURN(graph, OnOtherMesh(graph, mesh));
  }
  MESHWORK_ASSIGN_OR_RETURN(o.compile.topology, ReadTopology(graph.mesh(), o.topology));
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<FoundLayouts> plans,
                            Search(graph, o, static_cast<int>(o.plans)));
  std::vector<PinPrice> prices;
  if (o.price_pins) {
    MESHWORK_ASSIGN_OR_RETURN(prices, PricesOf(graph, o, plans[0].seconds()));
  }
  if (o.output == "-") {
    fmt::print("{}", PrintGraph(plans[0].graph));
    return absl::OkStatus();
  }
  if (!o.output.empty()) MESHWORK_RETURN_IF_ERROR(WriteFileAtomically(o.output, PrintGraph(plans[0].graph)));
  if (o.cpp) {
    fmt::print("{}", CppOf(graph, plans[0]));
    return absl::OkStatus();
  }
  fmt::print("{}", o.json ? PrintJson(JsonOf(graph, plans, prices)) : TextOf(graph, plans, prices));
  return absl::OkStatus();
}

}  // namespace meshwork::tools

// The data of the page, as JSON. report/page/*.js read it.
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "fmt/format.h"
#include "meshwork/base/version.h"
#include "meshwork/ir/plan/explain.h"
#include "meshwork/ir/plan/memory_report.h"
#include "meshwork/ir/program.h"
#include "meshwork/layout/layout.h"
#include "meshwork/mesh/mesh.h"
#include "meshwork/spmd/auto/cheaper_layouts.h"
#include "meshwork/spmd/shard_weight_update.h"
#include "meshwork/tools/report/cheapest_change.h"
#include "meshwork/tools/report/drawing.h"
#include "meshwork/tools/report/html_report.h"
#include "meshwork/tools/simulate/simulate.h"
#include "meshwork/verify/verify.h"
#include "nlohmann/json.hpp"

namespace meshwork {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMostLive = 24;  // values that are listed at the peak

std::string_view NameOfKind(DrawnVertex::Kind kind) {
  switch (kind) {
    case DrawnVertex::Kind::kInput: return "input";
    case DrawnVertex::Kind::kVariable: return "variable";
    case DrawnVertex::Kind::kOp: return "op";
    case DrawnVertex::Kind::kLocalOp: return "local";
    case DrawnVertex::Kind::kCollective: return "collective";
    case DrawnVertex::Kind::kOutput: return "output";
    case DrawnVertex::Kind::kUpdate: return "update";
  }
  return "";
}

// The layouts of the page. Many values have the same layout, and each layout is written once.
class LayoutTable {
 public:
  int Add(const DrawnLayout& layout) {
    const auto [at, is_new] = numbers_.emplace(layout.text, static_cast<int>(numbers_.size()));
    if (is_new) json_.push_back({{"text", layout.text}, {"cut", layout.cut}, {"partial", layout.is_partial}});
    return at->second;
  }
  // A layout on `mesh`, as a text.
  void Add(const Mesh& mesh, const std::string& text) {
    const absl::StatusOr<Layout> layout = Layout::Parse(mesh, text);
    if (layout.ok()) Add(Describe(*layout));
  }
  Json Take() { return std::move(json_); }

 private:
  std::map<std::string, int> numbers_;
  Json json_ = Json::array();
};

Json VertexJson(const DrawnVertex& vertex, LayoutTable& layouts) {
  Json json = {{"kind", NameOfKind(vertex.kind)},
               {"label", vertex.label},
               {"text", vertex.text},
               {"type", vertex.type}};
  json["layout"] = layouts.Add(vertex.layout);
  if (!vertex.rule.empty()) json["rule"] = vertex.rule;
  SourceLocation line = vertex.where;
  line.scope = {};
  if (const std::string text = line.ToString(); !text.empty()) json["line"] = text;
  if (!vertex.where.scope.empty()) json["scope"] = vertex.where.scope.str();
  if (vertex.collective >= 0) json["collective"] = vertex.collective;
  if (!vertex.bodies.empty()) json["bodies"] = vertex.bodies;
  return json;
}

Json DrawingJson(const Drawing& drawing, LayoutTable& layouts) {
  Json json = {{"title", drawing.title},
               {"times", drawing.times},
               {"vertices", Json::array()},
               {"edges", Json::array()}};
  for (const DrawnVertex& vertex : drawing.vertices) json["vertices"].push_back(VertexJson(vertex, layouts));
  for (const DrawnEdge& edge : drawing.edges)
    json["edges"].push_back({edge.from, edge.to, layouts.Add(edge.layout), edge.value});
  return json;
}

Json CostJson(const StepCost& cost, bool has_times) {
  Json json = {{"collectives", cost.collectives},
               {"bytes", cost.bytes},
               {"received", cost.received},
               {"peak_bytes", cost.peak_bytes}};
  if (has_times) json["seconds"] = cost.seconds;
  return json;
}

Json MovingJson(const MovingCost& cost, bool has_times) {
  Json json = {{"bytes", std::llround(cost.bytes)}};
  if (has_times) json["seconds"] = cost.seconds;
  return json;
}

// Every collective of the explanation, with its place in the drawings.
Json CollectivesJson(const Explanation& all, const Drawings& drawings) {
  const std::vector<std::optional<CheapestChange>> changes = CheapestChanges(all);
  Json list = Json::array();
  for (size_t i = 0; i < all.collectives.size(); ++i) {
    const ExplainedCollective& c = all.collectives[i];
    Json json = {{"op", c.op},
                 {"axes", c.axes},
                 {"group", c.group},
                 {"bytes", c.bytes},
                 {"received", c.received},
                 {"times", c.times},
                 {"values", Json::array()}};
    if (all.has_times) json["seconds"] = c.seconds;
    for (const MovedValue& v : c.values)
      json["values"].push_back(
          {{"type", v.type}, {"from", v.from}, {"to", v.to}, {"line", v.location}, {"cause", v.cause}});
    if (const std::optional<CheapestChange>& change = changes[i])
      json["change"] = {{"number", change->change},
                        {"before", MovingJson(change->before, all.has_times)},
                        {"after", MovingJson(change->after, all.has_times)}};
    list.push_back(std::move(json));
  }
  for (size_t d = 0; d < drawings.all.size(); ++d) {
    const Drawing& drawing = drawings.all[d];
    const ValueUsers users(drawing);
    std::map<std::pair<int, int>, std::string> names;
    for (const DrawnEdge& edge : drawing.edges)
      if (drawing.vertices[edge.to].collective >= 0) names.try_emplace({edge.to, edge.operand}, edge.value);
    for (int v = 0; v < static_cast<int>(drawing.vertices.size()); ++v) {
      if (drawing.vertices[v].collective < 0) continue;
      Json& json = list[drawing.vertices[v].collective];
      json["drawing"] = d;
      json["vertex"] = v;
      for (int i = 0; i < static_cast<int>(json["values"].size()); ++i) {
        Json& value = json["values"][i];
        if (const auto name = names.find({v, i}); name != names.end()) value["name"] = name->second;
        value["makers"] = users.MakersOf(v, i);
        value["readers"] = users.ReadersOf(v, i);
      }
    }
  }
  return list;
}

// Spans are arrays instead of objects to save space, as there are as many as nodes.
Json TimesJson(const Simulation& step) {
  Json json = {{"seconds", step.seconds},
               {"compute_seconds", step.compute_seconds},
               {"link_seconds", step.link_seconds},
               {"waited_seconds", step.waited_seconds},
               {"limit", step.limit},
               {"spans", Json::array()},
               {"memory", Json::array()}};
  for (const SimulatedSpan& span : step.spans)
    json["spans"].push_back({span.lane == Lane::kLinks ? 1 : 0, span.start, span.seconds, span.times,
                             span.depth, span.op, span.where, span.collective, span.has_body});
  // A point for each change.
  int64_t bytes = -1;
  for (const MemoryAt& at : step.memory) {
    if (at.bytes != bytes) json["memory"].push_back({at.start, at.bytes, at.node});
    bytes = at.bytes;
  }
  return json;
}

Json PeakJson(const Graph& local) {
  const MemoryReport report = ReportMemory(local, kMostLive);
  Json json = {{"bytes", report.peak_bytes},
               {"node", report.node},
               {"at", DescribePoint(local, report)},
               {"num_live", report.num_live},
               {"largest", Json::array()}};
  for (const LiveValue& live : report.largest)
    json["largest"].push_back({{"bytes", live.bytes}, {"value", DescribeLive(local, live.value)}});
  return json;
}

Json AlternativesJson(const Explanation& all, const Mesh& mesh, LayoutTable& layouts) {
  Json json = {{"layouts", all.search.layouts}, {"tried", all.search.tried}, {"changes", Json::array()}};
  for (const LayoutChange& change : all.search.changes) {
    layouts.Add(mesh, change.from);
    layouts.Add(mesh, change.to);
    json["changes"].push_back({{"value", change.value},
                               {"others", change.others},
                               {"from", change.from},
                               {"to", change.to},
                               {"line", change.location},
                               {"cost", CostJson(change.cost, all.has_times)}});
  }
  return json;
}

// `proven`: the result of Verify for the program.
Json ProofJson(const absl::StatusOr<Proof>& proven) {
  if (!proven.ok()) return {{"holds", false}, {"text", std::string(proven.status().message())}};
  std::map<Lemma, int64_t> counts;
  for (const Claim& claim : proven->claims) ++counts[claim.lemma];
  Json lemmas = Json::object();
  for (Lemma lemma : kAllLemmas)
    if (counts.contains(lemma)) lemmas[std::string(LemmaName(lemma))] = counts[lemma];
  return {{"holds", true}, {"claims", proven->claims.size()}, {"lemmas", lemmas}};
}

}  // namespace

std::string ReportJson(const Graph& global, const Program& program, const HtmlReportOptions& options) {
  const Graph& local = program.body;
  Explanation all = Explain(program, options.compile.topology);
  if (options.alternatives > 0)
    all.search =
        CheaperLayouts(global, program, options.compile, {.most = static_cast<int>(options.alternatives)});
  const Graph asked = WithShardedState(global, program);
  const absl::StatusOr<Proof> proven = Verify(asked, local, {.narrow_sums = options.compile.narrow_sums});
  const Drawings drawings =
      DrawProgram(asked, local, proven.ok() ? std::optional<Proof>(*proven) : std::nullopt);

  Json json = {{"version", MESHWORK_VERSION},
               {"program", all.program},
               {"mesh", all.mesh},
               {"devices", local.mesh().num_devices()},
               {"has_times", all.has_times}};
  json["cost"] = CostJson(all.cost, all.has_times);
  json["proof"] = ProofJson(proven);
  json["decisions"] = program.decisions;
  json["conflicts"] = program.conflicts;
  json["sharded_state"] = Json::array();
  for (const ShardedState& state : program.sharded_state)
    json["sharded_state"].push_back({{"variable", "%" + state.variable},
                                     {"asked", state.asked.ToString()},
                                     {"layout", state.layout.ToString()}});
  json["left_out"] = Json::array();
  for (const LeftOutPass& pass : program.left_out)
    json["left_out"].push_back({{"pass", pass.pass}, {"error", pass.error}});
  json["unseen"] = drawings.unseen;

  LayoutTable layouts;
  json["drawings"] = Json::array();
  for (const Drawing& drawing : drawings.all) json["drawings"].push_back(DrawingJson(drawing, layouts));
  json["collectives"] = CollectivesJson(all, drawings);
  json["alternatives"] = AlternativesJson(all, asked.mesh(), layouts);
  json["layouts"] = layouts.Take();
  Machine machine = options.machine;
  machine.topology = options.compile.topology;
  json["times"] = TimesJson(Simulate(local, machine));
  json["peak"] = PeakJson(local);
  // Names may be any bytes.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace meshwork

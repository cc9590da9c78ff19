#include "meshwork/ir/graph.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "meshwork/base/status.h"
#include "meshwork/base/suggest.h"
#include "meshwork/ir/row.h"

namespace meshwork {
namespace {

std::string_view BaseName(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

constexpr std::string_view kKindNames[] = {"true or false", "a whole number",    "a number",
                                           "a dtype",       "a list like [0,1]", "axes like (batch)",
                                           "a reduction",   "a layout"};

}  // namespace

std::string_view GatheringName(Gathering gather) {
  MESHWORK_CHECK(gather != Gathering::kWithinBudget, "texts say nothing of what is not asked for");
  return gather == Gathering::kAllowed ? "allowed" : "on_use";
}

// ---- Where a graph is.

Graph& Graph::operator=(const Graph& other) {
  if (this == &other) return *this;
  DropHandles();
  GraphParts::operator=(other);
  return *this;
}

Graph::Graph(Graph&& other) noexcept : GraphParts(std::move(static_cast<GraphParts&>(other))) {
  TakePlace(other);
}

Graph& Graph::operator=(Graph&& other) noexcept {
  if (this == &other) return *this;
  DropHandles();
  GraphParts::operator=(std::move(static_cast<GraphParts&>(other)));
  TakePlace(other);
  return *this;
}

Graph::~Graph() { DropHandles(); }

void Graph::DropHandles() {
  if (anchor_ != nullptr) anchor_->graph = nullptr;
  anchor_ = nullptr;
  bodies_.clear();
}

void Graph::TakePlace(Graph& other) {
  anchor_ = std::move(other.anchor_);
  if (anchor_ != nullptr) anchor_->graph = this;
  outer_ = other.outer_;
  owner_ = std::move(other.owner_);
  bodies_ = std::move(other.bodies_);
  scope_ = std::move(other.scope_);
  for (const std::shared_ptr<Graph>& body : bodies_) body->outer_ = this;
  other.anchor_ = nullptr;
  other.bodies_.clear();
  static_cast<GraphParts&>(other) = GraphParts(mesh_);
  other.is_moved_ = true;
}

Graph Graph::Nowhere() {
  Graph graph{Mesh()};
  graph.is_nowhere_ = true;
  return graph;
}

const Type& internal::TypeOfNoValue() {
  static const auto* type = new Type{F32, Shape(kMaxRank, 1)};
  return *type;
}

absl::StatusOr<Attrs> Graph::CompleteAttrs(const OpRow& row, const Attrs& given) {
  for (const auto& entry : given.entries()) {
    const std::string& name = entry.first;
    auto is_named = [&](const AttrSpec& spec) { return spec.name == name; };
    if (std::any_of(row.attrs.begin(), row.attrs.end(), is_named)) continue;
    std::vector<std::string> known;
    for (const AttrSpec& spec : row.attrs) known.emplace_back(spec.name);
    return InvalidArgument("there is no attribute \"{}\"{}", name,
                           DidYouMeanOneOf(name, known, "attributes"));
  }
  Attrs::Entries complete;
  complete.reserve(row.attrs.size());
  for (const AttrSpec& spec : row.attrs) {
    const AttrValue* value = given.Find(spec.name);
    if (value == nullptr) {
      if (!spec.fallback.has_value())
        return InvalidArgument("attribute \"{}\" is missing; give {}.", spec.name,
                               kKindNames[static_cast<int>(spec.kind)]);
      complete.emplace_back(spec.name, *spec.fallback);
      continue;
    }
    AttrValue converted = *value;
    if (spec.kind == AttrKind::kFloat && std::holds_alternative<int64_t>(converted)) {
      converted = static_cast<double>(std::get<int64_t>(converted));
    }
    // All NaNs become the same NaN, so that equal attributes have equal bits and texts can carry them.
    if (const auto* real = std::get_if<double>(&converted); real != nullptr && std::isnan(*real))
      converted = std::numeric_limits<double>::quiet_NaN();
    if (converted.index() != static_cast<size_t>(spec.kind)) {
      return InvalidArgument("attribute \"{}\" is {}; it must be {}.", spec.name,
                             kKindNames[converted.index()], kKindNames[static_cast<int>(spec.kind)]);
    }
    if (spec.is_result_shape && spec.kind == AttrKind::kInts) {
      for (int64_t size : std::get<std::vector<int64_t>>(converted))
        if (size < 0)
          return InvalidArgument("attribute \"{}\" has the size {}; sizes are at least 0.", spec.name, size);
    }
    complete.emplace_back(spec.name, std::move(converted));
  }
  return Attrs(std::move(complete));
}

SourceLocation::SourceLocation(CallSite site) : line(site.line) {
  // Successive calls mostly come from one file, so they share its name.
  thread_local SharedText last;
  const std::string_view name = BaseName(site.file);
  if (last != name) last = name;
  file = last;
}

std::string SourceLocation::ToString() const {
  if (file.empty()) return "";
  return scope.empty() ? fmt::format("{}:{}", file, line) : fmt::format("{}:{} in {}", file, line, scope);
}

std::string Graph::Describe(std::string_view op, const SourceLocation& location) const {
  const std::string name =
      location.within == nullptr ? std::string(op) : fmt::format("{} of {}", op, location.within);
  return location.file.empty() ? name : fmt::format("{} ({})", name, location.ToString());
}

std::string Graph::Describe(int node) const {
  return Describe(nodes_[node].row->name, nodes_[node].location);
}

Attrs OnMesh(Attrs attrs, const Mesh& from, const Mesh& finer) {
  if (from == finer) return attrs;
  const Attrs before = attrs;
  for (const auto& [name, value] : before.entries()) {
    if (const auto* axes = std::get_if<AxisList>(&value)) attrs.Set(name, from.On(finer, *axes));
    if (const auto* pin = std::get_if<LayoutPin>(&value))
      attrs.Set(name, LayoutPin{pin->layout.On(finer), pin->modes});
  }
  return attrs;
}

void Graph::CutMesh(const Mesh& finer) {
  if (mesh_ == finer) return;
  for (ValueInfo& info : values_)
    if (info.layout.has_value()) info.layout = info.layout->On(finer);
  for (Node& node : nodes_) {
    node.attrs = OnMesh(std::move(node.attrs), mesh_, finer);
    for (std::shared_ptr<const Graph>& region : node.regions) {
      Graph cut = *region;
      cut.CutMesh(finer);
      region = std::make_shared<const Graph>(std::move(cut));
    }
  }
  mesh_ = finer;
}

Graph& Graph::AddBody(std::string owner) {
  bodies_.push_back(std::make_shared<Graph>(mesh_));
  bodies_.back()->outer_ = this;
  bodies_.back()->owner_ = std::move(owner);
  bodies_.back()->rules_.missing_axes = rules_.missing_axes;
  bodies_.back()->scope_ = scope_;
  bodies_.back()->precision_ = precision_;
  return *bodies_.back();
}

Value Graph::Capture(const Value& value) {
  if (value.graph() == this) return value;
  if (outer_ == nullptr) return {};
  const Value outer = outer_->Capture(value);
  if (!outer.valid()) return {};
  for (const auto& [known, inner] : captured_)
    if (known == outer.id()) return {this, inner};
  const ValueInfo& info = outer.graph()->value(outer.id());
  std::string name = info.name;
  if (!IsArgumentName(name) || IsArgumentTaken(name)) name = fmt::format("outer{}", captured_.size());
  for (size_t i = captured_.size() + 1; IsArgumentTaken(name); ++i) name = fmt::format("outer{}", i);
  const ValueId inner = AddArgument(
      {.name = std::move(name),
       .type = info.type,
       .global = info.type,
       .gather = info.gather == Gathering::kAllowed ? Gathering::kAllowed : Gathering::kWithinBudget,
       .location = info.location},
      /*is_variable=*/false);
  captured_.emplace_back(outer.id(), inner);
  return {this, inner};
}

RandomPlace Graph::random_place() {
  if (make_random_place_ == nullptr) return outer_ == nullptr ? RandomPlace() : outer_->random_place();
  if (!random_place_.has_value()) random_place_ = make_random_place_();
  return *random_place_;
}

Value Graph::MeanWeight(const Value& weight, const SourceLocation& location) {
  Graph* const graph = weight.graph();
  if (!weight.valid() || graph->is_closed_) return weight;
  if (graph->mean_weight_ != nullptr) return graph->mean_weight_(weight);
  for (const Graph* around = graph->outer_; around != nullptr; around = around->outer_) {
    if (around->mean_weight_ == nullptr) continue;
    graph->RecordError(fmt::format(
        "{}: a mean that leaves rows out stands in the body of {}, within a part of the batch; how much weight it has in "
        "the whole batch is not known there: return the sums of losses and weights from the body, and take MeanOver of them.",
        graph->Describe("mean_over",
                        graph->location_override_ == nullptr ? location : *graph->location_override_),
        graph->owner_));
    return {};
  }
  return weight;
}

std::vector<Value> Graph::Add(std::string_view op, std::span<const Value> operands, const Attrs& attrs,
                              SourceLocation location) {
  if (location_override_ != nullptr) location = *location_override_;
  if (location.scope.empty()) location.scope = scope_;
  const absl::StatusOr<const OpRow*> found = FindOp(op);
  if (!found.ok()) {
    RecordError(fmt::format("{}: {}", Describe(op, location), MessageOf(found.status())));
    return {Value()};
  }
  const OpRow& row = **found;
  const auto invalid = [&] {
    return std::vector<Value>(row.num_results < 0 ? operands.size() : row.num_results);
  };
  if (is_nowhere_) return invalid();
  if (is_closed_) {
    (outer_ == nullptr ? *this : *outer_)
        .RecordError(
            fmt::format("{}: it reads a value that was made in the body of {}; return it from there.",
                        Describe(op, location), owner_));
    return invalid();
  }
  absl::InlinedVector<ValueId, 4> ids;
  for (const Value& given : operands) {
    if (given.is_lost())
      RecordError(fmt::format("{}: the graph of operand {} is gone; keep it as long as its values.",
                              Describe(op, location), ids.size()));
    if (!given.valid()) return invalid();  // its mistake is recorded already
    const Value captured = Capture(given);
    const Value& operand = captured.valid() ? captured : given;
    if (operand.graph() != this) {
      const std::string mistake = fmt::format(
          "{}: operand {} belongs to another graph; an op reads values of one: declare both in the same.",
          Describe(op, location), ids.size());
      RecordError(mistake);
      operand.graph()->RecordError(mistake);
      return invalid();
    }
    ids.push_back(operand.id());
  }
  absl::StatusOr<int> node = TryAdd(row, ids, attrs, location);
  if (!node.ok()) {
    RecordError(std::string(MessageOf(node.status())));
    return invalid();
  }
  std::vector<Value> results;
  results.reserve(nodes_[*node].results.size());
  for (ValueId id : nodes_[*node].results) results.emplace_back(this, id);
  return results;
}

absl::StatusOr<int> Graph::TryAdd(const OpRow& row, std::span<const ValueId> operands, const Attrs& attrs,
                                  SourceLocation location) {
  auto fail = [&](const absl::Status& status) {
    return Annotate(status, Describe(row.name, location) + ": ");
  };
  if (absl::Status status = CheckOperandCount(row, operands.size()); !status.ok()) return fail(status);
  absl::StatusOr<Attrs> complete = CompleteAttrs(row, attrs);
  if (!complete.ok()) return fail(complete.status());
  const std::vector<Type> types = TypesOf(*this, operands);
  absl::StatusOr<std::vector<Type>> results = InferTypes(row, types, *complete);
  if (!results.ok()) return fail(results.status());
  if (row.num_results >= 0 && std::ssize(*results) != row.num_results)
    return fail(InvalidArgument("its row infers {} and says that there are {}.",
                                Count(std::ssize(*results), "result"), row.num_results));
  Node node{.row = &row, .attrs = *std::move(complete), .location = location};
  node.operands.assign(operands.begin(), operands.end());
  for (const Type& type : *results)
    if (absl::Status status = CheckSize(type); !status.ok()) return fail(status);
  for (const Type& type : *results) AddResult(node, {.type = type, .global = type, .location = location});
  nodes_.push_back(std::move(node));
  return static_cast<int>(nodes_.size()) - 1;
}

void Graph::AddResult(Node& node, ValueInfo info) {
  info.node = static_cast<int>(nodes_.size());
  node.results.push_back(static_cast<ValueId>(values_.size()));
  values_.push_back(std::move(info));
}

int Graph::AddNode(Node node, std::vector<ValueInfo> results) {
  node.results.clear();
  for (ValueInfo& info : results) AddResult(node, std::move(info));
  nodes_.push_back(std::move(node));
  return static_cast<int>(nodes_.size()) - 1;
}

int Graph::AddCopy(const Graph& from, const Node& node) {
  const int index = static_cast<int>(nodes_.size());
  nodes_.push_back(node);
  for (ValueId& id : nodes_.back().results) {
    values_.push_back(from.values_[id]);
    id = static_cast<ValueId>(values_.size()) - 1;
    values_[id].node = index;
  }
  return index;
}

std::vector<ValueId> Graph::InsertResults(int node, size_t at, std::vector<ValueInfo> results) {
  std::vector<ValueId> ids;
  for (ValueInfo& info : results) {
    info.node = node;
    ids.push_back(static_cast<ValueId>(values_.size()));
    values_.push_back(std::move(info));
  }
  auto& all = nodes_[node].results;
  all.insert(all.begin() + static_cast<int64_t>(at), ids.begin(), ids.end());
  return ids;
}

ValueId Graph::AddArgument(ValueInfo info, bool is_variable, std::optional<Initializer> initializer) {
  const auto id = static_cast<ValueId>(values_.size());
  info.node = -1;
  values_.push_back(std::move(info));
  arguments_.push_back({id, is_variable, std::move(initializer)});
  return id;
}

void Graph::AddUpdate(VariableUpdate update) {
  const auto argument = static_cast<size_t>(update.argument);
  if (is_updated_.size() <= argument) is_updated_.resize(argument + 1, false);
  is_updated_[argument] = true;
  updates_.push_back(update);
}

void Graph::ClearUpdates() {
  updates_.clear();
  is_updated_.clear();
}

void Graph::ClearOutputs() {
  outputs_.clear();
  output_names_ = {};
}

std::vector<Variable> Graph::variables() {
  std::vector<Variable> variables;
  for (const Argument& argument : arguments_)
    if (argument.is_variable) variables.emplace_back(this, argument.value);
  return variables;
}

int Graph::FindArgument(std::string_view name) const {
  for (size_t i = 0; i < arguments_.size(); ++i)
    if (values_[arguments_[i].value].name == name) return static_cast<int>(i);
  return -1;
}

}  // namespace meshwork

#include "meshwork/ops/control/body_builder.h"

#include <algorithm>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/ir/regions.h"
#include "meshwork/ops/ops.h"

namespace meshwork {

BodyBuilder::BodyBuilder(Graph& graph, std::string_view op, SourceLocation location)
    : graph_(graph),
      body_(graph.AddBody(graph.Describe(op, location))),
      op_(op),
      location_(std::move(location)) {}

bool BodyBuilder::MayNest() {
  if (body_.depth() <= kMaxNesting) return true;
  Fail("it stands in {} bodies already, and they nest at most {} deep; write some of them as one.",
       kMaxNesting, kMaxNesting);
  return false;
}

Value BodyBuilder::Argument(std::string name, const Type& type, bool is_variable) {
  const ValueId id = body_.AddArgument(
      {.name = std::move(name), .type = type, .global = type, .location = location_}, is_variable);
  parts_.arguments.push_back({.value = id, .type = type, .is_variable = is_variable});
  return {&body_, id};
}

void BodyBuilder::CountIterations() {
  body_.SetRandomPlace([this] {
    RandomPlace place = graph_.random_place();
    place.iterations.push_back(Iteration());
    return place;
  });
}

Value BodyBuilder::Iteration() {
  if (iteration_.valid()) return iteration_;
  std::string name = "iteration";
  for (int i = 1; body_.FindArgument(name) >= 0; ++i) name = fmt::format("iteration{}", i);
  iteration_ = Argument(std::move(name), {I64, {}}, true);
  const LocationScope scope(body_, location_);
  next_iteration_ = Add(iteration_, 1.0);
  return iteration_;
}

void BodyBuilder::TakeCount(size_t carries, Node& node) {
  if (!counts()) return;
  std::vector<RegionParts::Part>& arguments = parts_.arguments;
  const auto count = std::find_if(arguments.begin(), arguments.end(), [&](const RegionParts::Part& part) {
    return part.value == iteration_.id();
  });
  std::rotate(arguments.begin() + static_cast<int64_t>(carries), count, count + 1);
  parts_.updates.push_back({static_cast<int>(carries), next_iteration_.id()});
  const LocationScope scope(graph_, location_);
  const Value start = Constant(graph_, 0.0, {I64, {}});
  node.operands.insert(node.operands.begin() + static_cast<int64_t>(carries), start.id());
}

ValueId BodyBuilder::Returned(const Value& value, std::string_view what, size_t index) {
  const Value here = value.valid() ? body_.Capture(value) : Value();
  if (here.valid()) return here.id();
  is_valid_ = false;
  if (value.valid()) Fail("{} {} belongs to another graph; return values of the body.", what, index);
  else if (body_.errors().empty() && graph_.errors().empty())
    Fail("{} {}: there is no value; it was default-constructed, or made of numbers alone.", what, index);
  return kNoValue;
}

bool BodyBuilder::Close() {
  for (const std::string& error : body_.errors()) graph_.RecordError(error);
  is_valid_ = is_valid_ && body_.errors().empty();
  Mesh finer = graph_.mesh();
  for (const Axis& axis : body_.mesh().axes())
    if (absl::StatusOr<Mesh> cut = finer.Cut(axis.name); cut.ok()) finer = *std::move(cut);
  graph_.CutMesh(finer);
  body_.CutMesh(finer);
  for (const auto& [outer, inner] : body_.captured())
    parts_.arguments.push_back({.value = inner, .type = body_.value(inner).type});
  body_.CloseBody();
  return is_valid_;
}

std::vector<Value> AddNodeOf(Graph& graph, Node node) {
  if (node.location.scope.empty()) node.location.scope = graph.scope();
  std::vector<Value> results;
  // What has no results does nothing, and has no text.
  std::vector<Type> operands;
  for (const ValueId operand : node.operands) operands.push_back(graph.value(operand).type);
  if (const auto types = InferControl(node, operands); types.ok() && types->empty()) return results;
  absl::StatusOr<int> added = TryAddControl(graph, std::move(node));
  if (!added.ok()) {
    graph.RecordError(std::string(MessageOf(added.status())));
    return results;
  }
  for (ValueId id : graph.nodes()[*added].results) results.emplace_back(&graph, id);
  return results;
}

bool ResolveOperands(Graph& graph, BodyBuilder& builder, std::string_view what,
                     const std::vector<Value>& values, std::vector<Value>& resolved) {
  bool all_valid = true;
  for (size_t i = 0; i < values.size(); ++i) {
    const Value here = values[i].valid() ? graph.Capture(values[i]) : Value();
    if (!here.valid() && (values[i].valid() || values[i].is_lost() || graph.errors().empty()))
      builder.Fail("{} {} {}", what, i,
                   values[i].valid() ? "belongs to another graph; a loop reads values of one."
                   : values[i].is_lost()
                       ? "is a value whose graph is gone; keep it as long as its values."
                       : "has no value; it was default-constructed, or made of numbers alone.");
    all_valid &= here.valid();
    resolved.push_back(here);
  }
  return all_valid;
}

}  // namespace meshwork

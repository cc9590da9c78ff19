// The control family: scan, while, if; their inference and builders.
#include "meshwork/ops/control/control_flow.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/ir/regions.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/control/added_terms.h"
#include "meshwork/ops/control/batch_parts.h"
#include "meshwork/ops/control/body_builder.h"
#include "meshwork/ops/control/control_gradients.h"
#include "meshwork/ops/control/families.h"
#include "meshwork/ops/ops.h"

namespace meshwork {
namespace {

std::string NameOf(const Graph& region, int argument) { return "%" + region.argument_name(argument); }

void FailCarry(BodyBuilder& builder, size_t c, const Type& first, const Type& next) {
  builder.Fail("carry {} is {}, its next value {}; they must agree: start with {}, or return {}.", c,
               first.ToString(), next.ToString(), next.ToString(), first.ToString());
}

const Type& ArgumentType(const Graph& region, int argument) {
  return region.value(region.arguments()[argument].value).type;
}

absl::Status CheckArgument(const Graph& region, int argument, std::string_view what, const Type& given) {
  if (ArgumentType(region, argument) == given) return absl::OkStatus();
  return InvalidArgument("{} {} is {}, and {} is given.", what, NameOf(region, argument),
                         ArgumentType(region, argument).ToString(), given.ToString());
}

// Arguments against operands; variables come first, and only loops have them.
absl::Status CheckArguments(const Graph& region, const ControlShape& shape,
                            const std::vector<Type>& operands) {
  const auto given = static_cast<int>(operands.size()) - shape.first_argument;
  if (given != static_cast<int>(region.arguments().size()))
    return InvalidArgument("its body takes {}, and {} given.", Count(region.arguments().size(), "argument"),
                           given == 1 ? "1 is" : fmt::format("{} are", given));
  for (int a = 0; a < given; ++a) {
    const Type& operand = operands[a + shape.first_argument];
    const bool is_carry = a < shape.carries;
    if (region.arguments()[a].is_variable != is_carry)
      return InvalidArgument("{} is {}; the arguments of a body are its carries (var), then the others.",
                             NameOf(region, a), is_carry ? "no carry" : "a carry");
    if (is_carry) {
      MESHWORK_RETURN_IF_ERROR(CheckArgument(region, a, "carry", operand));
    } else if (a < shape.carries + shape.slices) {
      if (operand.rank() == 0)
        return InvalidArgument("{} is a slice of {}, which has no dims.", NameOf(region, a),
                               operand.ToString());
      Type slice = operand;
      slice.shape.erase(slice.shape.begin());
      MESHWORK_RETURN_IF_ERROR(CheckArgument(region, a, "slice", slice));
    } else {
      MESHWORK_RETURN_IF_ERROR(CheckArgument(region, a, "argument", operand));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Type>> InferScan(const Node& node, const std::vector<Type>& operands) {
  const Graph& body = *node.regions[0];
  const int64_t length = node.attrs.Get<int64_t>("length");
  const ControlShape shape = ShapeOfControl(node);
  if (length < 0) return InvalidArgument("length={}; the number of iterations is at least 0.", length);
  // The shape has numbers that there can be.
  const int64_t slices = node.attrs.Get<int64_t>("slices"), sums = node.attrs.Get<int64_t>("sums");
  const int64_t others = std::ssize(body.arguments()) - shape.carries;
  if (slices < 0 || slices > others)
    return InvalidArgument("slices={}; its body has {} beside the carries.", slices,
                           Count(others, "argument"));
  if (sums < 0 || sums > std::ssize(body.outputs()))
    return InvalidArgument("sums={}; its body returns {}.", sums, Count(body.outputs().size(), "value"));
  MESHWORK_RETURN_IF_ERROR(CheckArguments(body, shape, operands));
  std::vector<Type> results(operands.begin(), operands.begin() + shape.carries);
  for (int s = shape.carries; s < shape.carries + shape.slices; ++s)
    if (operands[s].shape[0] != length)
      return InvalidArgument("{} is {}, which has {}; length={}.", fmt::format("operand {}", s),
                             operands[s].ToString(), Count(operands[s].shape[0], "slice"), length);
  for (int o = 0; o < shape.stacked + shape.sums; ++o) {
    Type type = body.value(body.outputs()[o].value).type;
    if (o < shape.stacked) type.shape.insert(type.shape.begin(), length);
    else if (type.dtype == BOOL)
      return InvalidArgument("output {} is {}; what is added up is of numbers.", o, type.ToString());
    else if (IsStorage(type.dtype))
      return InvalidArgument(
          "output {} is {}, and {} only stores and feeds numbers; Cast what is added up, to f32, say.", o,
          type.ToString(), DTypeName(type.dtype));
    results.push_back(std::move(type));
  }
  return results;
}

absl::StatusOr<std::vector<Type>> InferWhile(const Node& node, const std::vector<Type>& operands) {
  const Graph& body = *node.regions[0];
  const ControlShape shape = ShapeOfControl(node);
  MESHWORK_RETURN_IF_ERROR(CheckArguments(body, shape, operands));
  const Type* go = body.outputs().size() == 1 ? &body.value(body.outputs()[0].value).type : nullptr;
  if (go == nullptr || *go != Type{BOOL, {}})
    return InvalidArgument("its condition is {}; it must be one bool[].",
                           go == nullptr ? Count(body.outputs().size(), "value") : go->ToString());
  return std::vector<Type>(operands.begin(), operands.begin() + shape.carries);
}

absl::StatusOr<std::vector<Type>> InferIf(const Node& node, const std::vector<Type>& operands) {
  if (operands.empty()) return InvalidArgument("takes a predicate, got no operand.");
  if (operands[0] != Type{BOOL, {}})
    return InvalidArgument("the predicate is {}; it must be a bool[].", operands[0].ToString());
  std::vector<std::vector<Type>> returned;
  for (const auto& region : node.regions) {
    MESHWORK_RETURN_IF_ERROR(CheckArguments(*region, ShapeOfControl(node), operands));
    std::vector<Type>& types = returned.emplace_back();
    for (const OutputInfo& output : region->outputs()) types.push_back(region->value(output.value).type);
  }
  if (returned[0] == returned[1]) return returned[0];
  auto text = [](const std::vector<Type>& types) {
    std::string out;
    for (const Type& type : types) out += (out.empty() ? "" : ", ") + type.ToString();
    return out.empty() ? "nothing" : out;
  };
  return InvalidArgument(
      "one branch returns {}, the other {}; they must agree: return the same types from both.",
      text(returned[0]), text(returned[1]));
}

}  // namespace

// ---- Builders.

namespace {

std::string CountCarries(size_t n) { return n == 1 ? "1 carry" : fmt::format("{} carries", n); }

// A scan that is being built.
class ScanBuilder {
 public:
  ScanBuilder(Graph& graph, const ScanOptions& options, CallSite loc)
      : graph_(graph), options_(options), location_(loc), builder_(graph, "scan", loc) {}

  ScanResult Build(const std::vector<Value>& carries, const std::vector<Value>& xs, const ScanBody& body) {
    ScanResult result{.carries = std::vector<Value>(carries.size())};
    if (!builder_.MayNest()) {
      Graph nowhere = Graph::Nowhere();
      const ScanStep step = body(nowhere, result.carries, std::vector<Value>(xs.size()));
      result.stacked.resize(step.stacked.size());
      result.sums.resize(step.sums.size());
      return result;
    }
    const bool carries_known = ResolveOperands(graph_, builder_, "carry", carries, initial_);
    const bool xs_known = ResolveOperands(graph_, builder_, "xs", xs, xs_);
    const bool is_known = FindLength() && carries_known && xs_known;
    std::vector<Value> inner, slices;
    for (size_t c = 0; c < initial_.size(); ++c)
      inner.push_back(initial_[c].valid()
                          ? builder_.Argument(fmt::format("carry{}", c), initial_[c].type(), true)
                          : Value());
    for (size_t s = 0; s < xs_.size(); ++s) {
      Type type = xs_[s].type();
      const bool has_slices = xs_[s].valid() && type.rank() > 0;
      if (has_slices) type.shape.erase(type.shape.begin());
      slices.push_back(has_slices ? builder_.Argument(fmt::format("slice{}", s), type, false) : Value());
    }
    TellPlace(is_known);
    // After a mistake, too: it says how many results there are, and its own mistakes are reported.
    const ScanStep step = body(builder_.body(), inner, slices);
    result.stacked.resize(step.stacked.size());
    result.sums.resize(step.sums.size());
    if (is_known) Take(step);
    if (builder_.Close() && is_known) Finish(result);
    return result;
  }

 private:
  // Tells the body its iteration, or its part of the batch, for random numbers and means that leave rows out.
  void TellPlace(bool is_known) {
    if (!options_.is_batch_in_parts || xs_.empty()) return builder_.CountIterations();
    if (!is_known) return;
    builder_.body().SetRandomPlace([this] { return batch_parts_.Place(); });
    builder_.body().SetMeanWeight([this](const Value& weight) { return batch_parts_.MeanWeight(weight); });
  }

  bool FindLength() {
    length_ = options_.length;
    if (xs_.empty() && length_ < 0) {
      builder_.Fail("length={}; without xs, say how many iterations there are, at least 0.", length_);
      return false;
    }
    for (size_t s = 0; s < xs_.size(); ++s) {
      if (!xs_[s].valid()) continue;
      const Type& type = xs_[s].type();
      if (type.rank() == 0) {
        builder_.Fail("xs {} is {}, which has no dim to be cut into slices.", s, type.ToString());
        return false;
      }
      if (length_ < 0) length_ = type.shape[0];
      if (type.shape[0] == length_) continue;
      builder_.Fail("xs {} is {}, which has {}; there are {}.", s, type.ToString(),
                    Count(type.shape[0], "slice"), Count(length_, "iteration"));
      return false;
    }
    return true;
  }

  // Takes the values that the body returned. Carries that it only adds to become sums.
  void Take(const ScanStep& step) {
    if (step.carries.size() != initial_.size())
      return builder_.Fail("it takes {}, and the body returns {}; give the next value of each.",
                           CountCarries(initial_.size()), step.carries.size());
    std::vector<ValueId> next, all;
    for (size_t c = 0; c < step.carries.size(); ++c) {
      next.push_back(builder_.Returned(step.carries[c], "carry", c));
      if (next.back() == kNoValue) continue;
      const Type& type = builder_.body().value(next.back()).type;
      if (type != initial_[c].type()) FailCarry(builder_, c, initial_[c].type(), type);
    }
    for (size_t i = 0; i < step.stacked.size(); ++i)
      stacked_.push_back(builder_.Returned(step.stacked[i], "stacked", i));
    for (size_t i = 0; i < step.sums.size(); ++i) sums_.push_back(builder_.Returned(step.sums[i], "sum", i));
    for (const auto* list : {&next, &stacked_, &sums_}) all.insert(all.end(), list->begin(), list->end());
    if (std::find(all.begin(), all.end(), kNoValue) != all.end()) return;
    if (options_.is_batch_in_parts && !xs_.empty())
      for (ValueId loss : sums_) batch_parts_.CheckLoss(loss);
    const AddedTerms added(builder_.body(), all);
    own_sums_ = sums_.size();
    sum_of_.assign(initial_.size(), -1);
    std::vector<std::optional<std::vector<ValueId>>> terms;
    for (size_t c = 0; c < initial_.size(); ++c)
      terms.push_back(added.Of(builder_.parts().arguments[c].value, next[c]));
    for (size_t c = 0; c < initial_.size(); ++c) {
      if (!terms[c].has_value()) {
        kept_.push_back(next[c]);
        continue;
      }
      const LocationScope scope(builder_.body(), location_);
      sum_of_[c] = static_cast<int>(sums_.size());
      sums_.push_back(SumOfTerms(builder_.body(), *terms[c]).id());
    }
  }

  void Finish(ScanResult& result) {
    RegionParts& parts = builder_.parts();
    Node node{.row = &GetOp("scan"), .location = location_};
    for (size_t c = initial_.size(); c-- > 0;)
      if (sum_of_[c] >= 0) parts.arguments.erase(parts.arguments.begin() + static_cast<int64_t>(c));
    for (size_t c = 0; c < initial_.size(); ++c)
      if (sum_of_[c] < 0) node.operands.push_back(initial_[c].id());
    for (const Value& x : xs_) node.operands.push_back(x.id());
    for (const auto& [outer, inner] : builder_.body().captured()) node.operands.push_back(outer);
    for (size_t k = 0; k < kept_.size(); ++k) parts.updates.push_back({static_cast<int>(k), kept_[k]});
    builder_.TakeCount(kept_.size(), node);
    parts.outputs = stacked_;
    parts.outputs.insert(parts.outputs.end(), sums_.begin(), sums_.end());
    node.attrs = {{"length", length_},
                  {"slices", static_cast<int64_t>(xs_.size())},
                  {"sums", static_cast<int64_t>(sums_.size())},
                  {"reverse", options_.reverse},
                  {"recompute", options_.recompute}};
    node.regions.push_back(std::make_shared<const Graph>(builder_.Region()));
    const std::vector<Value> all = AddNodeOf(graph_, std::move(node));
    if (all.empty()) return;
    const LocationScope scope(graph_, location_);
    const size_t first_stacked = kept_.size() + (builder_.counts() ? 1 : 0),
                 first_sum = first_stacked + stacked_.size();
    for (size_t c = 0, k = 0; c < initial_.size(); ++c) {
      if (sum_of_[c] < 0) result.carries[c] = all[k++];
      else result.carries[c] = AddedTo(initial_[c], all[first_sum + sum_of_[c]]);
    }
    for (size_t i = 0; i < stacked_.size(); ++i) result.stacked[i] = all[first_stacked + i];
    for (size_t i = 0; i < own_sums_; ++i) result.sums[i] = all[first_sum + i];
  }

  Graph& graph_;
  const ScanOptions& options_;
  const SourceLocation location_;
  BodyBuilder builder_;
  std::vector<Value> initial_, xs_;
  BatchParts batch_parts_{graph_, builder_, initial_, xs_, location_};
  int64_t length_ = -1;
  std::vector<ValueId> kept_, stacked_, sums_;  // of the body
  std::vector<int> sum_of_;                     // per carry: the sum that it is; -1: it stays a carry
  size_t own_sums_ = 0;                         // those that the body returned
};

}  // namespace

ScanResult Scan(Graph& graph, const std::vector<Value>& carries, const std::vector<Value>& xs,
                const ScanBody& body, const ScanOptions& options, CallSite loc) {
  return ScanBuilder(graph, options, loc).Build(carries, xs, body);
}

std::vector<Value> While(Graph& graph, const std::vector<Value>& carries, const WhileCondition& condition,
                         const WhileBody& body, CallSite loc) {
  const SourceLocation location(loc);
  BodyBuilder builder(graph, "while", location);
  const std::vector<Value> invalid(carries.size());
  if (!builder.MayNest()) return invalid;
  std::vector<Value> initial, inner;
  const bool is_known = ResolveOperands(graph, builder, "carry", carries, initial);
  for (size_t c = 0; c < initial.size(); ++c)
    inner.push_back(initial[c].valid() ? builder.Argument(fmt::format("carry{}", c), initial[c].type(), true)
                                       : Value());
  builder.CountIterations();
  const Value go = condition(builder.body(), inner);
  const std::vector<Value> next = body(builder.body(), inner);
  if (!is_known) {
    builder.Close();
    return invalid;
  }
  if (next.size() != initial.size())
    builder.Fail("it takes {}, and the body returns {}; give the next value of each.",
                 CountCarries(initial.size()), next.size());
  builder.parts().outputs = {builder.Returned(go, "condition", 0)};
  for (size_t c = 0; c < std::min(next.size(), initial.size()); ++c) {
    const ValueId id = builder.Returned(next[c], "carry", c);
    builder.parts().updates.push_back({static_cast<int>(c), id});
    if (id != kNoValue && builder.body().value(id).type != initial[c].type())
      FailCarry(builder, c, initial[c].type(), builder.body().value(id).type);
  }
  if (!builder.Close()) return invalid;
  Node node{.row = &GetOp("while"), .location = location};
  for (const Value& value : initial) node.operands.push_back(value.id());
  for (const auto& [outer, inside] : builder.body().captured()) node.operands.push_back(outer);
  builder.TakeCount(initial.size(), node);
  node.regions.push_back(std::make_shared<const Graph>(builder.Region()));
  std::vector<Value> results = AddNodeOf(graph, std::move(node));
  if (results.empty()) return invalid;
  results.resize(initial.size());  // without the count
  return results;
}

namespace {

// Calls the branches only to learn the number of results; their nodes are discarded.
std::vector<Value> InvalidResults(const Branch& then, const Branch& otherwise) {
  Graph nowhere = Graph::Nowhere();
  const size_t returned = then(nowhere).size();
  return std::vector<Value>(std::max(returned, otherwise(nowhere).size()));
}

}  // namespace

std::vector<Value> If(const Value& predicate, const Branch& then, const Branch& otherwise, CallSite loc) {
  if (!predicate.valid()) return InvalidResults(then, otherwise);
  Graph& graph = *predicate.graph();
  const SourceLocation location(loc);
  BodyBuilder builders[] = {{graph, "if", location}, {graph, "if", location}};
  size_t returned = 0;
  bool is_valid = true;
  if (!builders[0].MayNest()) return InvalidResults(then, otherwise);
  const Branch* const branches[] = {&then, &otherwise};
  for (int b = 0; b < 2; ++b) {
    BodyBuilder& builder = builders[b];
    const std::vector<Value> results = (*branches[b])(builder.body());
    for (size_t r = 0; r < results.size(); ++r)
      builder.parts().outputs.push_back(builder.Returned(results[r], "result", r));
    returned = std::max(returned, results.size());
    is_valid &= builder.Close();
  }
  if (!is_valid) return std::vector<Value>(returned);
  Node node{.row = &GetOp("if"), .location = location};
  node.operands.push_back(predicate.id());
  // Both branches take the values that either of them reads.
  std::vector<ValueId> outer;
  for (BodyBuilder& builder : builders)
    for (const auto& [value, inner] : builder.body().captured())
      if (std::find(outer.begin(), outer.end(), value) == outer.end()) outer.push_back(value);
  node.operands.insert(node.operands.end(), outer.begin(), outer.end());
  for (BodyBuilder& builder : builders) {
    RegionParts& parts = builder.parts();
    parts.arguments.clear();
    for (size_t i = 0; i < outer.size(); ++i) {
      RegionParts::Part part{.type = graph.value(outer[i]).type, .name = fmt::format("unread{}", i)};
      for (const auto& [value, inner] : builder.body().captured())
        if (value == outer[i]) part.value = inner;
      parts.arguments.push_back(std::move(part));
    }
    node.regions.push_back(std::make_shared<const Graph>(builder.Region()));
  }
  std::vector<Value> results = AddNodeOf(graph, std::move(node));
  return results.size() == returned ? results : std::vector<Value>(returned);
}

// ---- Rows.

namespace {

absl::StatusOr<std::vector<Type>> RefuseWithoutBody(const OpView&) {
  return InvalidArgument("it has a body; write it with Scan, While or If.");
}

}  // namespace

std::span<const OpRow> ControlOps() {
  static const auto* rows = new std::vector<OpRow>{
      {.name = "scan",
       .doc = "runs its body `length` times, on one slice of each scanned operand after the other",
       .num_operands = -1,
       .num_results = -1,
       .kind = OpKind::kControl,
       .control = ControlKind::kScan,
       .num_regions = 1,
       .attrs = {{"length", AttrKind::kInt},
                 {"slices", AttrKind::kInt, AttrValue(int64_t{0})},
                 {"sums", AttrKind::kInt, AttrValue(int64_t{0})},
                 {"reverse", AttrKind::kBool, AttrValue(false)},
                 {"recompute", AttrKind::kBool, AttrValue(false)}},
       .infer = RefuseWithoutBody,
       .infer_regions = InferScan,
       .grad_regions = ScanGradients},
      {.name = "while",
       .doc = "runs its body as long as what it returns is true",
       .num_operands = -1,
       .num_results = -1,
       .kind = OpKind::kControl,
       .control = ControlKind::kWhile,
       .num_regions = 1,
       .infer = RefuseWithoutBody,
       .infer_regions = InferWhile,
       .grad_regions = WhileGradients},
      {.name = "if",
       .doc = "runs the first body where the predicate is true, else the second",
       .num_operands = -1,
       .num_results = -1,
       .kind = OpKind::kControl,
       .control = ControlKind::kIf,
       .num_regions = 2,
       .infer = RefuseWithoutBody,
       .infer_regions = InferIf,
       .grad_regions = IfGradients},
  };
  return *rows;
}

}  // namespace meshwork

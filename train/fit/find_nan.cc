#include "meshwork/train/fit/find_nan.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/base/suggest.h"
#include "meshwork/ir/readers.h"
#include "meshwork/ir/rewrite.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/control/live_values.h"
#include "meshwork/ops/control/rebatch.h"
#include "meshwork/session/save_restore.h"
#include "meshwork/train/fit/output_means.h"

namespace meshwork {
namespace {

// The counts and the range of a value's elements.
struct Content {
  int64_t nans = 0, infinities = 0;
  int64_t first_nan = -1, first_infinity = -1;  // in row-major order
  double low = INFINITY, high = -INFINITY;      // of the finite ones
};

Content ContentOf(const Tensor& tensor) {
  Content content;
  if (!IsFloat(tensor.dtype())) return content;
  const Tensor wide = tensor.Cast(F64);
  const std::span<const double> values = wide.values<double>();
  for (size_t i = 0; i < values.size(); ++i) {
    const double value = values[i];
    if (std::isfinite(value)) {
      content.low = std::min(content.low, value);
      content.high = std::max(content.high, value);
      continue;
    }
    int64_t& count = std::isnan(value) ? content.nans : content.infinities;
    int64_t& first = std::isnan(value) ? content.first_nan : content.first_infinity;
    if (count++ == 0) first = static_cast<int64_t>(i);
  }
  return content;
}

// "[0,2]"; "" of a scalar.
std::string IndexText(int64_t element, const Shape& shape) {
  std::string text;
  for (size_t d = shape.size(); d-- > 0;) {
    text = fmt::format("{}{}{}", element % shape[d], text.empty() ? "" : ",", text);
    element /= shape[d];
  }
  return text.empty() ? "" : fmt::format(", the first at [{}]", text);
}

class NanSearch {
 public:
  NanSearch(const Graph& graph, const Session& session, const Feeds& feeds)
      : graph_(graph),
        session_(session),
        feeds_(feeds),
        live_(LiveValues(graph)),
        readers_(ReadersOf(graph)),
        values_(graph.values().size()),
        contents_(graph.values().size()),
        infinite_since_(graph.values().size(), kNoValue) {}

  absl::StatusOr<std::optional<NanOrigin>> Run() {
    for (const Argument& argument : graph_.arguments()) {
      MESHWORK_ASSIGN_OR_RETURN(const bool has_nan, Read(argument));
      if (has_nan) return OfArgument(argument, argument.value, "NaN");
    }
    for (size_t n = 0; n < graph_.nodes().size(); ++n) {
      const Node& node = graph_.nodes()[n];
      if (!live_[node.results[0]]) continue;
      MESHWORK_RETURN_IF_ERROR(Compute(static_cast<int>(n)));
      for (const ValueId result : node.results)
        if (contents_[result].nans > 0) return OfNode(static_cast<int>(n), result, /*is_nan=*/true);
      for (const ValueId operand : node.operands)
        if (readers_.last(operand) == static_cast<int>(n)) values_[operand] = Tensor();
    }
    return Infinite();
  }

 private:
  // Whether the argument has NaN.
  absl::StatusOr<bool> Read(const Argument& argument) {
    const std::string& name = graph_.value(argument.value).name;
    if (!live_[argument.value]) return false;
    Tensor& value = values_[argument.value];
    if (argument.is_variable) {
      MESHWORK_ASSIGN_OR_RETURN(value, session_.Get(name));
    } else {
      const auto feed = feeds_.find(name);
      if (feed == feeds_.end())
        return InvalidArgument("FindFirstNan: input \"{}\" is not fed; give the feeds of the step.", name);
      if (!feed->second.valid())
        return Annotate(feed->second.status(), fmt::format("FindFirstNan: input \"{}\": ", name));
      if (feed->second.type() != graph_.value(argument.value).type)
        return InvalidArgument(
            "FindFirstNan: input \"{}\" is {} and the step takes {}; give the feeds of one step.", name,
            feed->second.type().ToString(), graph_.value(argument.value).type.ToString());
      value = feed->second;
    }
    Note(argument.value, argument.value);
    return contents_[argument.value].nans > 0;
  }

  // Looks at a value. `source`: the value in which its infinities began, if it has any.
  void Note(ValueId value, ValueId source) {
    contents_[value] = ContentOf(values_[value]);
    if (contents_[value].infinities > 0) infinite_since_[value] = source;
  }

  absl::Status Compute(int n) {
    const Node& node = graph_.nodes()[n];
    Graph alone(graph_.mesh());
    alone.name = "op";
    std::vector<ValueId> map(graph_.values().size(), kNoValue);
    Feeds feeds;
    for (const ValueId operand : node.operands) {
      if (map[operand] != kNoValue) continue;
      const std::string name = fmt::format("operand{}", feeds.size());
      map[operand] = alone.AddArgument({.name = name, .type = graph_.value(operand).type}, false);
      alone.mutable_value(map[operand]).global = graph_.value(operand).type;
      feeds[name] = values_[operand];
    }
    CopyNode(graph_, node, alone, map);
    for (size_t r = 0; r < node.results.size(); ++r) {
      alone.mutable_value(map[node.results[r]]).name.clear();
      alone.AddOutput({fmt::format("result{}", r), map[node.results[r]]});
    }
    absl::StatusOr<Session> session = Session::Create(alone, {.workers = 1, .own_cores = false});
    const std::string where = fmt::format("FindFirstNan: {}: ", graph_.Describe(n));
    if (!session.ok()) return Annotate(session.status(), where);
    const absl::StatusOr<StepResult> result = session->Run(feeds);
    if (!result.ok()) return Annotate(result.status(), where);
    ValueId source = node.results[0];  // of infinities
    for (const ValueId operand : node.operands)
      if (infinite_since_[operand] != kNoValue) source = infinite_since_[operand];
    for (size_t r = 0; r < node.results.size(); ++r) {
      values_[node.results[r]] = result->outputs().at(fmt::format("result{}", r));
      Note(node.results[r], source);
    }
    return absl::OkStatus();
  }

  // If nothing is NaN: the origin of the first output or update that is infinite.
  std::optional<NanOrigin> Infinite() const {
    std::vector<ValueId> last;
    for (const OutputInfo& output : graph_.outputs()) last.push_back(output.value);
    for (const VariableUpdate& update : graph_.updates()) last.push_back(update.value);
    for (const ValueId value : last) {
      const ValueId source = infinite_since_[value];
      if (source == kNoValue) continue;
      const int node = graph_.value(source).node;
      if (node >= 0) return OfNode(node, source, /*is_nan=*/false);
      for (const Argument& argument : graph_.arguments())
        if (argument.value == source) return OfArgument(argument, source, "an infinity");
    }
    return std::nullopt;
  }

  std::string Name(const Argument& argument) const {
    return fmt::format("{} \"{}\"", argument.is_variable ? "variable" : "input",
                       graph_.value(argument.value).name);
  }
  // The maker of a value: "exp (model.cc:10)", "input \"x\"".
  std::string Maker(ValueId value) const {
    const int node = graph_.value(value).node;
    if (node >= 0) return graph_.Describe(node);
    for (const Argument& argument : graph_.arguments())
      if (argument.value == value) return Name(argument);
    return "";
  }

  NanOrigin OfArgument(const Argument& argument, ValueId value, std::string_view what) const {
    const ValueInfo& info = graph_.value(value);
    const Content& content = contents_[value];
    return {.where = Name(argument),
            .location = info.location,
            .message = fmt::format(
                "{}, {}, has {} before the step{}.", Name(argument), info.type.ToString(), what,
                IndexText(content.nans > 0 ? content.first_nan : content.first_infinity, info.type.shape))};
  }

  NanOrigin OfNode(int n, ValueId result, bool is_nan) const {
    const Node& node = graph_.nodes()[n];
    const ValueInfo& info = graph_.value(result);
    const Content& content = contents_[result];
    std::string text = fmt::format(
        "{} makes the first {}: its result, {}, has {}{}.", graph_.Describe(n), is_nan ? "NaN" : "infinity",
        info.type.ToString(), is_nan ? content.nans : content.infinities,
        IndexText(is_nan ? content.first_nan : content.first_infinity, info.type.shape));
    for (size_t o = 0; o < node.operands.size(); ++o) text += OfOperand(o, node.operands[o]);
    return {.where = graph_.Describe(n), .location = node.location, .message = std::move(text)};
  }

  std::string OfOperand(size_t o, ValueId operand) const {
    const ValueInfo& info = graph_.value(operand);
    const Content& content = contents_[operand];
    std::string text =
        fmt::format(" Operand {}, {}{}", o, info.name.empty() ? "" : fmt::format("\"{}\", ", info.name),
                    info.type.ToString());
    if (IsFloat(info.type.dtype) && content.low <= content.high)
      text += fmt::format(", from {:.6g} to {:.6g}", content.low, content.high);
    if (content.infinities > 0)
      text += fmt::format(
          ", has {}, made by {}",
          content.infinities == 1 ? "an infinity" : fmt::format("{} infinities", content.infinities),
          Maker(infinite_since_[operand]));
    return text + ".";
  }

  const Graph& graph_;
  const Session& session_;
  const Feeds& feeds_;
  const std::vector<bool> live_;
  const Readers readers_;
  std::vector<Tensor> values_;
  std::vector<Content> contents_;
  std::vector<ValueId> infinite_since_;  // of an infinite value: the value in which its infinities began
};

}  // namespace

std::string UndoAndExplainNan(Session& session, const Feeds& feeds) {
  if (const absl::Status undone = session.Undo(); !undone.ok()) return std::string(MessageOf(undone));
  const absl::StatusOr<std::optional<NanOrigin>> origin = FindFirstNan(session, feeds);
  if (!origin.ok()) return std::string(MessageOf(origin.status()));
  if (origin->has_value()) return (*origin)->message;
  return "Computed once more, op by op, on whole tensors, all values of the step are finite.";
}

absl::StatusOr<std::optional<NanOrigin>> FindFirstNan(const Session& session, const Feeds& feeds) {
  if (session.Here().num_domains() > 1)
    return absl::UnimplementedError(fmt::format(
        "FindFirstNan: the session has {} domains, of which none has all values; restore its variables in a session of one "
        "process, and look for the op there.",
        session.Here().num_domains()));
  const int64_t full = LeadingInputOf(session.graph()).rows, rows = ExamplesIn(session.graph(), feeds);
  if (full == 0 || rows == full) return NanSearch(session.graph(), session, feeds).Run();
  absl::StatusOr<Graph> shorter = Rebatch(session.graph(), full, rows);
  if (!shorter.ok()) return Annotate(shorter.status(), "FindFirstNan: ");
  return NanSearch(*shorter, session, feeds).Run();
}

}  // namespace meshwork

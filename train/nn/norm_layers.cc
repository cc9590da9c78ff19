#include "meshwork/train/nn/norm_layers.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "fmt/format.h"
#include "meshwork/base/hash.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/name_scope.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/hyperparameters.h"
#include "meshwork/ops/ops.h"
#include "meshwork/train/nn/initializers.h"

namespace meshwork {
namespace {

// n / (n - 1), n rows of x: [..,units]. Of one row, whose variance is 0, it is 1.
Value BesselsCorrection(const Value& x, DType dtype) {
  std::vector<int64_t> dims(x.rank() - 1);
  std::iota(dims.begin(), dims.end(), 0);
  const BatchView* const view = x.graph()->batch_view();
  const Value n = view == nullptr ? DimensionSize(x, dims, dtype) : view->count(x, dims, dtype);
  return Div(n, Maximum(Sub(n, 1.0), 1.0));
}

// Adds one batch to a running statistic. After an earlier call of the layer, it starts from that call's result, and its
// own update replaces that call's.
void UpdateStatistic(Graph& graph, const Variable& running, const Value& batch, double momentum,
                     CallSite loc) {
  const auto next = [&](const Value& now) { return MovingAverage({now, loc}, batch, momentum); };
  if (const BatchView* const view = batch.graph()->batch_view(); view != nullptr)
    return view->update(running, next);
  std::vector<VariableUpdate> updates = graph.updates();
  const auto earlier = std::find_if(updates.begin(), updates.end(), [&](const VariableUpdate& update) {
    return graph.arguments()[update.argument].value == running.id();
  });
  if (earlier == updates.end()) return graph.Update(running, next(running), loc);
  const Value both = next(Value(&graph, earlier->value));
  if (both.graph() != &graph) return graph.Update(running, both, loc);  // a mistake
  earlier->value = both.id();
  graph.ClearUpdates();
  for (const VariableUpdate& update : updates) graph.AddUpdate(update);
}

}  // namespace

BatchNormalization::BatchNormalization(std::optional<int64_t> units, Graph& graph, const std::string& name,
                                       const BatchNormalizationOptions& options, CallSite loc)
    : options_(options),
      precision_(LayerPrecision(graph, options.dtype, options.compute)),
      variables_(
          graph, units, [name, options, loc, dtype = precision_.variables](Graph& graph, int64_t units) {
            Variables made;
            if (const absl::Status status = CheckDecay("momentum", options.momentum); !status.ok()) {
              graph.RecordError(fmt::format(
                  "{}: {}", graph.Describe(fmt::format("batch_norm \"{}\"", name), loc), MessageOf(status)));
              return made;
            }
            const auto declare = [&](const char* which, const LayerInitializer& start, DType dtype,
                                     bool trainable) {
              return graph.Var(fmt::format("{}/{}", name, which), start.For({units}, dtype), options.layout,
                               {.gather = options.gather, .trainable = trainable}, loc);
            };
            const DType wide = WideDType(dtype);
            if (options.scale) made.scale = declare("scale", options.scale_initializer, dtype, true);
            if (options.offset) made.offset = declare("offset", options.offset_initializer, dtype, true);
            made.mean = declare("mean", Zeros(), wide, false);
            made.variance = declare("variance", Filled(1), wide, false);
            return made;
          }) {}

Value BatchNormalization::operator()(const Value& x, CallSite loc) const {
  if (!x.valid()) return {};
  const Variables& variables = variables_.For(x);
  const Variable &mean = variables.mean, &running_variance = variables.variance;
  if (!mean.valid() || !running_variance.valid()) return {};
  if ((options_.scale && !variables.scale.valid()) || (options_.offset && !variables.offset.valid()))
    return {};
  Graph& graph = *mean.graph();
  if (x.graph() != &graph && !x.graph()->body_of().empty() && x.graph()->batch_view() == nullptr) {
    const std::string name = graph.value(mean.id()).name;
    graph.RecordError(fmt::format(
        "{}: it is called in the body of {}, where its running mean and variance cannot be updated; call it outside, or "
        "take a layer that has none, as LayerNormalization or GroupNormalization.",
        graph.Describe(fmt::format("batch_norm \"{}\"", std::string_view(name).substr(0, name.rfind('/'))),
                       loc),
        x.graph()->body_of()));
    return {};
  }
  const NameScope name_scope = NameScope::Of(mean, mean);
  const LocationScope scope(graph, loc);
  const auto or_constant = [&](const Variable& variable, double without) {
    return variable.valid() ? Value(variable) : Constant(graph, without, mean.type());
  };
  const Value in = ToCompute(x, precision_);
  const Value scale = or_constant(variables.scale, 1), offset = or_constant(variables.offset, 0);
  const BatchNormResult batch = BatchNorm({in, loc}, scale, offset, options_.epsilon);
  if (!batch.y.valid()) return {};
  const DType dtype = batch.variance.dtype();
  const Value variance =
      options_.unbiased ? Mul(batch.variance, BesselsCorrection(in, dtype)) : batch.variance;
  UpdateStatistic(graph, mean, batch.mean, options_.momentum, loc);
  UpdateStatistic(graph, running_variance, variance, options_.momentum, loc);
  return WhenTraining({batch.y, loc},
                      BatchNormInference({in, loc}, scale, offset, mean, running_variance, options_.epsilon));
}

Value GroupNormalization::operator()(const Value& x, CallSite loc) const {
  return Apply(x, loc, [&](const Operand& x, const Variables& variables) {
    return GroupNorm(x, variables.scale, variables.offset, groups_, epsilon_);
  });
}

namespace {

// The graph's counter of steps; declares it if there is none.
Variable DropoutStep(Graph& graph, CallSite loc) {
  const NameScope none = NameScope::None(graph);
  const int found = graph.FindArgument(kDropoutStep);
  if (found < 0) {
    const Variable step = graph.Var(kDropoutStep, Zeros({}, I64), {}, VarOptions{.trainable = false}, loc);
    if (step.valid()) graph.Update(step, Add({step, loc}, 1.0), loc);
    return step;
  }
  const Argument& argument = graph.arguments()[found];
  const Type& type = graph.value(argument.value).type;
  if (argument.is_variable && type == Type{I64, {}}) return Variable(&graph, argument.value);
  graph.RecordError(fmt::format(
      "{}: \"{}\" is the {} {}; it must be an i64[] variable, which counts the steps; give yours another name.",
      graph.Describe("dropout", loc), kDropoutStep, argument.is_variable ? "variable" : "input",
      type.ToString()));
  return {};
}

// Whether a random op of the graph or of a body in it draws from this stream.
bool Draws(const Graph& graph, int64_t seed, int64_t stream) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [&](const Node& node) {
    if (node.row->name == "random_bernoulli")
      return node.attrs.Get<int64_t>("seed") == seed && node.attrs.Get<int64_t>("stream") == stream;
    return std::any_of(node.regions.begin(), node.regions.end(),
                       [&](const auto& region) { return Draws(*region, seed, stream); });
  });
}

// The first stream from `stream` on that no random op of the graph, or of those around it, draws from with this seed.
int64_t FreeStream(const Graph& graph, int64_t seed, int64_t stream) {
  const auto is_taken = [&] {
    for (const Graph* at = &graph; at != nullptr; at = at->enclosing())
      if (Draws(*at, seed, stream)) return true;
    return false;
  };
  while (is_taken()) ++stream;
  return stream;
}

}  // namespace

Dropout::Dropout(Graph& graph, const std::string& name, double rate, const DropoutOptions& options,
                 CallSite loc)
    : name_(graph.scope().empty() ? name : fmt::format("{}/{}", graph.scope(), name)),
      rate_(rate),
      options_(options),
      step_(DropoutStep(graph, loc)) {}

Value Dropout::operator()(const Value& x, CallSite loc) const {
  if (!x.valid() || !step_.valid()) return {};
  // 62 bits, so that counting on stays in range.
  const int64_t stream = FreeStream(*x.graph(), options_.seed, static_cast<int64_t>(StableHash(name_) >> 2));
  return WhenTraining(
      {StatelessDropout({x, loc}, rate_, options_.seed, stream, step_, options_.whole_dims), loc}, x);
}

}  // namespace meshwork

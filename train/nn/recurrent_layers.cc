#include "meshwork/train/nn/recurrent_layers.h"

#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "meshwork/ir/layout_rules.h"
#include "meshwork/ir/name_scope.h"
#include "meshwork/ops/control/control_flow.h"
#include "meshwork/ops/given_sizes.h"
#include "meshwork/ops/ops.h"

namespace meshwork {

using internal::RecurrentBase;
using internal::RecurrentKind;
using internal::RecurrentVariables;

namespace {

struct KindInfo {
  std::string_view op;
  int64_t gates;
};

const KindInfo& InfoOf(RecurrentKind kind) {
  static constexpr KindInfo kInfos[] = {{"simple_rnn", 1}, {"lstm", 4}, {"gru", 3}};
  return kInfos[static_cast<int>(kind)];
}

constexpr int64_t kForgetGate = 1;  // of Lstm

// [rows, gates, units], filled as `start` fills [rows, gates · units]; an Initializer is taken as it is.
Initializer InGates(const LayerInitializer& start, const Shape& shape, DType dtype) {
  if (start.has_type()) return start.For(shape, dtype);
  if (!CheckSize({dtype, shape}).ok())
    return {{dtype, shape}, nullptr};  // the declaration says what is wrong
  const Initializer matrix = start.For({shape[0], shape[1] * shape[2]}, dtype);
  return {{dtype, shape}, [matrix](Graph& graph, const Type& type, int64_t seed, int64_t stream) {
            return Reshape(matrix.build(graph, matrix.type, seed, stream), type.shape);
          }};
}

// 1 for gate `one`, else as `start`; [gates, units].
Initializer WithOnes(int64_t one, const Initializer& start) {
  return {start.type, [one, start](Graph& graph, const Type& type, int64_t seed, int64_t stream) {
            const Value is_one = Equal(Iota(graph, {I64, type.shape}, 0), static_cast<double>(one));
            return Select(is_one, Constant(graph, 1, type), start.build(graph, type, seed, stream));
          }};
}

// The parts of [.., gates, units] by gate: [.., units] each.
std::vector<Value> ByGate(const Value& weights) {
  const int64_t dim = weights.rank() - 2;
  std::vector<Value> parts;
  for (int64_t gate = 0; gate < weights.shape()[dim]; ++gate)
    parts.push_back(Squeeze(SliceDim(weights, dim, gate, gate + 1), {dim}));
  return parts;
}

RecurrentVariables Declare(RecurrentKind kind, Graph& graph, const std::string& name, int64_t inputs,
                           int64_t units, const RecurrentOptions& options, DType dtype, CallSite loc) {
  const auto declare = [&](const char* which, const Initializer& start, const Shape& shape,
                           const LayoutSpec& layout) {
    const std::string variable = fmt::format("{}/{}", name, which);
    if (start.type == Type{dtype, shape})
      return graph.Var(variable, start, UnlessWhole(layout), {.gather = options.gather}, loc);
    graph.RecordError(fmt::format("{}: its initializer is of {}; it must be of {}.",
                                  graph.Describe(fmt::format("variable \"{}\"", variable), loc),
                                  start.type.ToString(), Type{dtype, shape}.ToString()));
    return Variable();
  };
  const int64_t gates = InfoOf(kind).gates;
  const Shape of_inputs = {inputs, gates, units}, of_states = {units, gates, units},
              of_gates = {gates, units}, of_units = {units};
  RecurrentVariables made;
  made.kernel = declare("kernel", InGates(options.kernel_initializer, of_inputs, dtype), of_inputs,
                        {options.inputs, UNSHARDED, options.units});
  made.recurrent = declare("recurrent", InGates(options.recurrent_initializer, of_states, dtype), of_states,
                           {options.recurrent_rows, UNSHARDED, options.units});
  bool are_valid = made.kernel.valid() && made.recurrent.valid();
  if (options.bias) {
    Initializer start = options.bias_initializer.For(of_gates, dtype);
    if (kind == RecurrentKind::kLstm && options.unit_forget_bias) start = WithOnes(kForgetGate, start);
    made.bias = declare("bias", start, of_gates, {UNSHARDED, options.units});
    are_valid = are_valid && made.bias.valid();
  }
  if (kind == RecurrentKind::kGru && options.bias && options.reset_after) {
    made.recurrent_bias = declare("recurrent_bias", Zeros(of_units, dtype), of_units, {options.units});
    are_valid = are_valid && made.recurrent_bias.valid();
  }
  made.is_complete = are_valid;
  return made;
}

// bool [b,t]: whether each step of x: [b,t,inputs] is real; invalid if all are.
Value IsReal(const Value& x, const RealSteps& steps) {
  if (!steps.lengths.valid()) return steps.mask;
  const Value place = OfGivenSizes(Iota(*x.graph(), {I64, {x.shape()[1]}}, 0), "a recurrent layer");
  return Less(place, ExpandDims(InDType(steps.lengths, I64), 1));
}

}  // namespace

RecurrentBase::RecurrentBase(RecurrentKind kind, std::optional<int64_t> inputs, Graph& graph,
                             const std::string& name, int64_t units, const RecurrentOptions& options,
                             CallSite loc)
    : options_(options),
      precision_(LayerPrecision(graph, options.dtype, options.compute)),
      kind_(kind),
      units_(units),
      variables_(
          graph, inputs,
          [kind, name, units, options, dtype = precision_.variables, loc](Graph& graph, int64_t inputs) {
            return Declare(kind, graph, name, inputs, units, options, dtype, loc);
          }) {}

// Returns whether x and the initial states fit; if not, records a mistake. States that are not given become
// zeros.
bool RecurrentBase::Check(const Value& x, int64_t inputs, Values& states, CallSite loc) const {
  const auto fail = [&](const std::string& message) {
    x.graph()->RecordError(fmt::format("{}: {}", x.graph()->Describe(InfoOf(kind_).op, loc), message));
    return false;
  };
  const DType dtype = precision_.compute;
  const Type type = x.type();
  if (type.dtype != dtype || type.rank() != 3 || type.shape[2] != inputs)
    return fail(fmt::format("x is {}; it must be {}[b,t,{}].", type.ToString(), DTypeName(dtype), inputs));
  const Type wanted{dtype, {type.shape[0], units_}};
  for (Value& state : states) {
    if (!state.valid()) state = Constant(*x.graph(), 0, wanted, loc);
    if (state.type() != wanted)
      return fail(fmt::format("an initial state is {}; it must be {}, [b, units].", state.type().ToString(),
                              wanted.ToString()));
  }
  return true;
}

bool RecurrentBase::CheckSteps(const Value& x, const RealSteps& steps, CallSite loc) const {
  const auto fail = [&](const std::string& message) {
    x.graph()->RecordError(fmt::format("{}: {}", x.graph()->Describe(InfoOf(kind_).op, loc), message));
    return false;
  };
  const Shape rows = {x.shape()[0]}, all = {x.shape()[0], x.shape()[1]};
  const Value &lengths = steps.lengths, &mask = steps.mask;
  if (lengths.valid() && mask.valid()) return fail("lengths and a mask are given; give one of them.");
  if (lengths.valid() && (!IsInteger(lengths.dtype()) || lengths.shape() != rows))
    return fail(fmt::format("the lengths are {}; they must be whole numbers [{}], one for each row of x.",
                            lengths.type().ToString(), rows[0]));
  if (mask.valid() && mask.type() != Type{BOOL, all})
    return fail(fmt::format("the mask is {}; it must be {}, true where a step is real.",
                            mask.type().ToString(), Type{BOOL, all}.ToString()));
  return true;
}

RecurrentBase::Values RecurrentBase::Run(const Value& given, Values states, const RealSteps& steps,
                                         CallSite loc, const Step& step) const {
  const Values nothing(states.size() + 1);
  if (!given.valid()) return nothing;
  const RecurrentVariables& variables = variables_.For(given);
  const NameScope name_scope = NameScope::Of(variables.kernel, given);
  const LocationScope scope(*given.graph(), loc);
  const Value x = ToCompute(given, precision_);
  if (!variables.is_complete || !Check(x, variables.kernel.shape()[0], states, loc) ||
      !CheckSteps(x, steps, loc))
    return nothing;
  const auto gates = [&](const Variable& variable) { return ByGate(ToCompute(variable, precision_)); };
  const Value by_step = Transpose(x, {1, 0, 2});
  const Values recurrent = gates(variables.recurrent);
  Values inputs = gates(variables.kernel), biases;
  if (options_.bias) biases = gates(variables.bias);
  for (size_t gate = 0; gate < inputs.size(); ++gate) {
    inputs[gate] = MatMul(by_step, inputs[gate]);
    if (!biases.empty()) inputs[gate] = Add(inputs[gate], biases[gate]);
  }
  const Value is_real = IsReal(x, steps);
  Values xs = inputs;
  if (is_real.valid()) xs.push_back(ExpandDims(Transpose(is_real, {1, 0}), -1));
  ScanResult result = Scan(
      *x.graph(), states, xs,
      [&](Graph& body, const Values& carries, const Values& slices) {
        const LocationScope scope(body, loc);
        Values next = step(carries, slices, recurrent);
        if (is_real.valid())
          for (size_t i = 0; i < next.size(); ++i) next[i] = Select(slices.back(), next[i], carries[i]);
        const Value first = next[0];
        return ScanStep{.carries = std::move(next), .stacked = {first}};
      },
      {.reverse = options_.reverse, .recompute = options_.recompute}, loc);
  Value sequence = Transpose(result.stacked[0], {1, 0, 2});
  if (is_real.valid() && steps.zero_output) sequence = Select(ExpandDims(is_real, -1), sequence, 0.0);
  Values all = {sequence};
  all.insert(all.end(), result.carries.begin(), result.carries.end());
  return all;
}

RecurrentResult SimpleRnn::operator()(const Value& x, const Value& initial, const RealSteps& steps,
                                      CallSite loc) const {
  const Values y =
      Run(x, {initial}, steps, loc, [](const Values& states, const Values& inputs, const Values& recurrent) {
        return Values{Tanh(Add(inputs[0], MatMul(states[0], recurrent[0])))};
      });
  return {y[0], y[1]};
}

LstmResult Lstm::operator()(const Value& x, const LstmState& initial, const RealSteps& steps,
                            CallSite loc) const {
  const Values y =
      Run(x, {initial.state, initial.cell}, steps, loc,
          [](const Values& states, const Values& inputs, const Values& recurrent) {
            const auto gate = [&](size_t g) { return Add(inputs[g], MatMul(states[0], recurrent[g])); };
            const Value added = Mul(Sigmoid(gate(0)), Tanh(gate(2)));
            const Value cell = Add(Mul(Sigmoid(gate(1)), states[1]), added);
            return Values{Mul(Sigmoid(gate(3)), Tanh(cell)), cell};
          });
  return {y[0], y[1], y[2]};
}

RecurrentResult Gru::operator()(const Value& x, const Value& initial, const RealSteps& steps,
                                CallSite loc) const {
  const Values y = Run(
      x, {initial}, steps, loc, [this](const Values& states, const Values& inputs, const Values& recurrent) {
        const Value& state = states[0];
        const auto gate = [&](size_t g) { return Sigmoid(Add(inputs[g], MatMul(state, recurrent[g]))); };
        const Value keep = gate(0), reset = gate(1);
        Value product;
        if (options_.reset_after) {
          product = MatMul(state, recurrent[2]);
          if (options_.bias) product = Add(product, ToCompute(recurrent_bias(), precision_));
          product = Mul(reset, product);
        } else {
          product = MatMul(Mul(reset, state), recurrent[2]);
        }
        const Value candidate = Tanh(Add(inputs[2], product));
        return Values{Add(candidate, Mul(keep, Sub(state, candidate)))};
      });
  return {y[0], y[1]};
}

Value internal::Merged(Merge merge, const Value& forward, const Value& backward, CallSite loc) {
  if (!forward.valid() || !backward.valid()) return {};
  if (merge == Merge::kConcat) return Concat({forward, backward}, -1, loc);
  if (merge == Merge::kMul) return Mul({forward, loc}, backward);
  const Value sum = Add({forward, loc}, backward);
  return merge == Merge::kSum ? sum : Mul({sum, loc}, 0.5);
}

}  // namespace meshwork

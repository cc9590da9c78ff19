#include "meshwork/session/quantize_weights.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "meshwork/base/name_patterns.h"
#include "meshwork/base/status.h"
#include "meshwork/base/suggest.h"
#include "meshwork/ir/readers.h"
#include "meshwork/ir/rewrite.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/ops.h"
#include "meshwork/runtime/tensor/quantized.h"
#include "meshwork/session/weight_plan.h"
#include "meshwork/storage/weight_files.h"

namespace meshwork {
namespace {

// The variables that take a weight's place, and its dims that are their rows and their blocks.
struct Parts {
  int argument = -1;
  int rows = 0, blocks = 1;
  ValueId q = kNoValue, scale = kNoValue, zero = kNoValue;  // in the new program
};

bool IsCast(const Node& node) { return node.row->name == "cast"; }

absl::Status CheckOptions(const QuantizeWeightsOptions& options) {
  if (options.bits == 8 || options.bits == 4) return absl::OkStatus();
  return InvalidArgument("QuantizeWeights: bits={}; give 8 or 4.", options.bits);
}

class WeightQuantizer {
 public:
  WeightQuantizer(const Graph& from, const QuantizeWeightsOptions& options)
      : from_(from),
        options_(options),
        readers_(ReadersOf(from)),
        to_(from.mesh()),
        map_(from.values().size(), kNoValue) {
    to_.name = from.name;
  }

  absl::StatusOr<QuantizedProgram> Run() && {
    MESHWORK_RETURN_IF_ERROR(Choose());
    std::vector<QuantizedWeight> weights;
    for (int a = 0; a < std::ssize(from_.arguments()); ++a) {
      MESHWORK_RETURN_IF_ERROR(AddArgument(a));
      if (const Parts* parts = PartsOf(from_.arguments()[static_cast<size_t>(a)].value))
        weights.push_back({from_.argument_name(a), parts->rows == 1});
    }
    for (const Node& node : from_.nodes()) AddNode(node);
    for (const VariableUpdate& update : from_.updates())
      to_.AddUpdate({arguments_[static_cast<size_t>(update.argument)], map_[update.value], update.location});
    for (const OutputInfo& output : from_.outputs()) to_.AddOutput({output.name, map_[output.value]});
    MESHWORK_RETURN_IF_ERROR(to_.status());
    return QuantizedProgram{std::move(to_), std::move(weights)};
  }

 private:
  // ---- Which weights, and how.

  absl::Status Choose() {
    std::vector<std::string> names;
    for (const Argument& argument : from_.arguments())
      if (argument.is_variable) names.push_back(from_.value(argument.value).name);
    for (const std::string& pattern : options_.weights) {
      bool fits = false;
      for (int a = 0; a < std::ssize(from_.arguments()); ++a) {
        if (!from_.arguments()[static_cast<size_t>(a)].is_variable ||
            !MatchesPattern(from_.argument_name(a), pattern))
          continue;
        fits = true;
        MESHWORK_RETURN_IF_ERROR(ChooseOne(a));
      }
      if (!fits)
        return InvalidArgument("QuantizeWeights: no variable fits \"{}\"{}", pattern,
                               DidYouMeanOneOf(pattern, names, "variables"));
    }
    return absl::OkStatus();
  }

  absl::Status ChooseOne(int argument) {
    const ValueId id = from_.arguments()[static_cast<size_t>(argument)].value;
    const ValueInfo& info = from_.value(id);
    if (info.type.rank() != 2 || !IsReal(info.type.dtype))
      return InvalidArgument("QuantizeWeights: \"{}\" is {}; only matrices of real numbers can be quantised.",
                             info.name, info.type.ToString());
    std::optional<int> rows;
    MESHWORK_RETURN_IF_ERROR(FindRows(id, info, rows));
    if (!rows.has_value())
      return InvalidArgument("QuantizeWeights: nothing reads \"{}\"; leave it out.", info.name);
    Parts parts{.argument = argument, .rows = *rows, .blocks = 1 - *rows};
    MESHWORK_RETURN_IF_ERROR(CheckBlocks(info, parts));
    parts_[id] = parts;
    return absl::OkStatus();
  }

  // Finds the dim of the weight that products leave over, and lookups find rows along. `id`: the weight, or it cast.
  absl::Status FindRows(ValueId id, const ValueInfo& weight, std::optional<int>& rows) {
    for (const VariableUpdate& update : from_.updates())
      if (from_.arguments()[static_cast<size_t>(update.argument)].value == id)
        return InvalidArgument(
            "QuantizeWeights: the program updates \"{}\"; a weight that is trained cannot be "
            "quantised.",
            weight.name);
    if (readers_.exits(id) > 0)
      return InvalidArgument(
          "QuantizeWeights: \"{}\" is an output, or what a variable becomes; only products and "
          "lookups may read it.",
          weight.name);
    for (const Readers::Reader& reader : readers_[id]) {
      const Node& node = from_.nodes()[static_cast<size_t>(reader.node)];
      if (IsCast(node) && IsFloat(from_.value(node.results[0]).type.dtype)) {
        MESHWORK_RETURN_IF_ERROR(FindRows(node.results[0], weight, rows));
        continue;
      }
      const std::optional<int> wanted = RowsFor(node, reader.operand);
      if (!wanted.has_value())
        return InvalidArgument(
            "QuantizeWeights: {} reads \"{}\"; a quantised weight may be the right operand of matmul, without "
            "batch dims, or looked up by gather along dim 0. Leave it out.",
            from_.Describe(reader.node), weight.name);
      if (rows.value_or(*wanted) != *wanted)
        return InvalidArgument(
            "QuantizeWeights: {} reads \"{}\" along the other dim than an op before it; blocks lie along one dim. "
            "Leave it out.",
            from_.Describe(reader.node), weight.name);
      rows = wanted;
    }
    return absl::OkStatus();
  }

  // The dim of the operand that stays in the result; nothing if the node cannot read a quantised weight there.
  std::optional<int> RowsFor(const Node& node, int operand) const {
    if (node.row->name == "gather" && operand == 0 && node.attrs.Get<int64_t>("dim") == 0) return 0;
    if (node.row->name != "matmul" || operand != 1 || node.attrs.Get<bool>("sum_batch")) return std::nullopt;
    return node.attrs.Get<bool>("transpose_b") ? 0 : 1;
  }

  absl::Status CheckBlocks(const ValueInfo& info, const Parts& parts) const {
    const int64_t k = info.type.shape[static_cast<size_t>(parts.blocks)];
    if (k % kBlockNumbers != 0)
      return InvalidArgument(
          "QuantizeWeights: \"{}\" is {}, and its k, dim {}, is {}; blocks have 32 numbers, so k "
          "must be a multiple of that. Leave it out.",
          info.name, info.type.ToString(), parts.blocks, k);
    if (!info.layout.has_value()) return absl::OkStatus();
    const LayoutPin pin{*info.layout, info.modes};
    if (!info.layout->IsStrided(parts.blocks) &&
        k / kBlockNumbers % info.layout->NumShards(parts.blocks) == 0)
      return absl::OkStatus();
    return InvalidArgument(
        "QuantizeWeights: \"{}\" is {} {}, and has {} blocks of 32 along dim {}; axes that cut it must divide these, "
        "and cut it plainly. Give it another layout.",
        info.name, info.type.ToString(), pin.ToString(), k / kBlockNumbers, parts.blocks);
  }

  // ---- The new program.

  const Parts* PartsOf(ValueId id) const {
    const auto found = parts_.find(id);
    return found == parts_.end() ? nullptr : &found->second;
  }

  absl::Status AddArgument(int a) {
    const Argument& argument = from_.arguments()[static_cast<size_t>(a)];
    const ValueInfo& info = from_.value(argument.value);
    arguments_.push_back(static_cast<int>(to_.arguments().size()));
    const auto found = parts_.find(argument.value);
    if (found == parts_.end()) {
      map_[argument.value] = to_.AddArgument(info, argument.is_variable, argument.initializer);
      return absl::OkStatus();
    }
    Parts& parts = found->second;
    const Shape& shape = info.type.shape;
    const QuantizedTypes types = QuantizedTypesOf(
        {shape[static_cast<size_t>(parts.rows)], shape[static_cast<size_t>(parts.blocks)]}, options_.bits);
    MESHWORK_ASSIGN_OR_RETURN(parts.q, AddPart(info, parts, "q", types.q));
    MESHWORK_ASSIGN_OR_RETURN(parts.scale, AddPart(info, parts, "scale", types.scale));
    if (options_.bits == 4) {
      MESHWORK_ASSIGN_OR_RETURN(parts.zero, AddPart(info, parts, "zero", types.scale));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<ValueId> AddPart(const ValueInfo& weight, const Parts& parts, std::string_view part,
                                  const Type& type) {
    ValueInfo info = weight;
    info.name = fmt::format("{}.{}", weight.name, part);
    info.type = info.global = type;
    if (from_.FindArgument(info.name) >= 0)
      return InvalidArgument(
          "QuantizeWeights: \"{}\" would become \"{}\", which is there already; rename one.", weight.name,
          info.name);
    if (weight.layout.has_value()) {
      const LayoutSpec spec = SpecOf(LayoutPin{*weight.layout, weight.modes});
      LayoutSpec of_part = {spec[static_cast<size_t>(parts.rows)], spec[static_cast<size_t>(parts.blocks)]};
      if (type.rank() > 2) of_part.push_back(UNSHARDED);
      MESHWORK_ASSIGN_OR_RETURN(const LayoutPin pin, LayoutPin::Create(from_.mesh(), of_part));
      info.layout = pin.layout;
      info.modes = pin.modes;
    }
    const Initializer zeros = {
        type, [](Graph& graph, const Type& of, int64_t, int64_t) { return Constant(graph, 0, of); }};
    return to_.AddArgument(std::move(info), /*is_variable=*/true, zeros);
  }

  void AddNode(const Node& node) {
    if (IsCast(node) && PartsOf(node.operands[0]) != nullptr) {
      parts_[node.results[0]] = *PartsOf(node.operands[0]);  // readers take the weight as it is stored
      return;
    }
    if (const Parts* parts = node.operands.size() == 2 ? PartsOf(node.operands[1]) : nullptr)
      return Replace(node, Product(node, *parts));
    if (const Parts* parts = node.operands.empty() ? nullptr : PartsOf(node.operands[0]))
      return Replace(node, Lookup(node, *parts));
    CopyNode(from_, node, to_, map_);
  }

  Operand In(ValueId id, const Node& node) { return Operand(Value(&to_, id), node.location); }

  Value Product(const Node& node, const Parts& parts) {
    const LocationScope scope(to_, node.location);
    Operand x = In(map_[node.operands[0]], node);
    if (node.attrs.Get<bool>("transpose_a")) {
      std::vector<int64_t> exchanged;
      for (int64_t d = 0; d < x.value().rank(); ++d) exchanged.push_back(d);
      std::swap(exchanged.end()[-1], exchanged.end()[-2]);
      x = Operand(Transpose(x, exchanged), node.location);
    }
    return MatMulQ(x, In(parts.q, node), In(parts.scale, node), Value(&to_, parts.zero));
  }

  Value Lookup(const Node& node, const Parts& parts) {
    const LocationScope scope(to_, node.location);
    const Operand indices = In(map_[node.operands[1]], node);
    const auto rows = [&](ValueId part) { return Gather(In(part, node), indices, 0); };
    const Value found =
        DequantizeMatrix(Operand(rows(parts.q), node.location), Operand(rows(parts.scale), node.location),
                         parts.zero == kNoValue ? Value() : rows(parts.zero));
    return InDType(found, from_.value(node.results[0]).type.dtype);
  }

  // The result of `node` is `value` from now on, with its name and its pin.
  void Replace(const Node& node, const Value& value) {
    if (!value.valid()) return;  // recorded
    const ValueInfo& old = from_.value(node.results[0]);
    ValueInfo& info = to_.mutable_value(value.id());
    info.name = old.name;
    info.layout = old.layout;
    info.modes = old.modes;
    info.gather = old.gather;
    map_[node.results[0]] = value.id();
  }

  const Graph& from_;
  const QuantizeWeightsOptions& options_;
  const Readers readers_;
  Graph to_;
  std::vector<ValueId> map_;        // per value of from_, that of to_
  std::vector<int> arguments_;      // per argument of from_, that of to_
  std::map<ValueId, Parts> parts_;  // of the weights, and of casts of them
};

// The value of the weight as rows in blocks.
absl::StatusOr<QuantizedMatrix> Rounded(const Session& session, const QuantizedWeight& weight, int bits) {
  MESHWORK_ASSIGN_OR_RETURN(Tensor matrix, session.Get(weight.name));
  if (weight.is_transposed) matrix = matrix.Transposed();
  absl::StatusOr<QuantizedMatrix> rounded = QuantizeMatrix(matrix, {.bits = bits});
  if (!rounded.ok()) return Annotate(rounded.status(), fmt::format("QuantizeSession: \"{}\": ", weight.name));
  return rounded;
}

}  // namespace

absl::StatusOr<QuantizedProgram> QuantizeWeights(const Graph& graph, const QuantizeWeightsOptions& options) {
  MESHWORK_RETURN_IF_ERROR(graph.status());
  MESHWORK_RETURN_IF_ERROR(CheckOptions(options));
  return WeightQuantizer(graph, options).Run();
}

absl::StatusOr<Session> QuantizeSession(const Session& session, const QuantizeWeightsOptions& options,
                                        SessionOptions session_options) {
  MESHWORK_ASSIGN_OR_RETURN(const QuantizedProgram program, QuantizeWeights(session.graph(), options));
  MESHWORK_ASSIGN_OR_RETURN(Session quantized, Session::Create(program.graph, std::move(session_options)));
  for (const QuantizedWeight& weight : program.weights) {
    MESHWORK_ASSIGN_OR_RETURN(const QuantizedMatrix rounded, Rounded(session, weight, options.bits));
    MESHWORK_RETURN_IF_ERROR(quantized.Set(weight.name + ".q", rounded.q));
    MESHWORK_RETURN_IF_ERROR(quantized.Set(weight.name + ".scale", rounded.scale));
    if (rounded.zero.valid()) MESHWORK_RETURN_IF_ERROR(quantized.Set(weight.name + ".zero", rounded.zero));
  }
  for (const std::string& name : quantized.variable_names()) {
    if (session.graph().FindArgument(name) < 0) continue;
    MESHWORK_ASSIGN_OR_RETURN(const Tensor value, session.Get(name));
    MESHWORK_RETURN_IF_ERROR(quantized.Set(name, value));
  }
  return quantized;
}

absl::StatusOr<std::vector<QuantizeWeightsOptions>> StoredInBlocks(const Graph& graph,
                                                                   const std::string& path,
                                                                   const std::vector<WeightRule>& rules) {
  MESHWORK_RETURN_IF_ERROR(CheckRules(rules, "StoredInBlocks"));
  MESHWORK_ASSIGN_OR_RETURN(const WeightFiles files, WeightFiles::Open(path));
  QuantizeWeightsOptions eight{.bits = 8}, four{.bits = 4};
  for (int a = 0; a < std::ssize(graph.arguments()); ++a) {
    if (!graph.arguments()[static_cast<size_t>(a)].is_variable) continue;
    const std::string& variable = graph.argument_name(a);
    const FoundRule found = RuleFor(rules, variable);
    const WeightTensor* const q = files.Find(fmt::format("{}.q", found.tensor));
    if (q == nullptr || (q->entry->type.dtype != I8 && q->entry->type.dtype != U8)) continue;
    if (found.rule != nullptr && (found.rule->rows.has_value() || found.rule->columns.has_value()))
      return InvalidArgument(
          "StoredInBlocks: \"{}\" is a part of \"{}\", which {} has in blocks; only whole tensors can be read so. "
          "Import the model without --keep-blocks.",
          variable, found.tensor, files.path());
    (q->entry->type.dtype == I8 ? eight : four).weights.push_back(variable);
  }
  std::vector<QuantizeWeightsOptions> stored;
  for (QuantizeWeightsOptions& of_bits : {std::ref(eight), std::ref(four)})
    if (!of_bits.weights.empty()) stored.push_back(std::move(of_bits));
  return stored;
}

std::vector<WeightRule> WithBlockRules(const std::vector<WeightRule>& rules) {
  std::vector<WeightRule> all;
  for (const WeightRule& rule : rules)
    for (const char* part : {".q", ".scale", ".zero"})
      all.push_back({.variable = rule.variable + part, .tensor = rule.tensor + part});
  all.insert(all.end(), rules.begin(), rules.end());
  return all;
}

}  // namespace meshwork

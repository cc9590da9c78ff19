#include <algorithm>
#include <bit>
#include <map>

#include "meshwork/base/status.h"
#include "meshwork/base/text_error.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/ops.h"
#include "meshwork/stablehlo/read/reader.h"

namespace meshwork::mlir {
namespace {

// Of all functions together, calls counted as often as they are made.
constexpr int64_t kMostOps = 300'000;

// The elements of a splat as a double; those of 64 bits may not be one.
double NumberOf(DType dtype, int64_t bits) {
  switch (dtype) {
    case DType::kF64: return std::bit_cast<double>(bits);
    case DType::kF32: return std::bit_cast<float>(static_cast<int32_t>(bits));
    case DType::kBF16: return static_cast<float>(std::bit_cast<BFloat16>(static_cast<uint16_t>(bits)));
    case DType::kF16: return static_cast<float>(std::bit_cast<Float16>(static_cast<uint16_t>(bits)));
    case DType::kI32: return static_cast<double>(static_cast<int32_t>(bits));  // of ui32 the same bits
    default: return static_cast<double>(bits);
  }
}

Value SplatValue(Graph& graph, const Type& type, int64_t bits) {
  if (type.dtype != I64 || std::abs(static_cast<double>(bits)) < 9e15)
    return Constant(graph, NumberOf(type.dtype, bits), type);
  // A double would round it.
  const Value number = Squeeze(Constant(graph, ElementList(std::vector<int64_t>{bits}), {I64, {1}}), {0});
  return type.rank() == 0 ? number : BroadcastTo(number, type.shape, {});
}

// "dtypes differ" of "add (elementwise.cc:41): dtypes differ", whose place is that of a line of ours.
std::string_view WithoutPlace(std::string_view mistake) {
  const size_t open = mistake.find(" ("), close = mistake.find("): ");
  const bool has_place = open < close && close != std::string_view::npos && mistake.find(':') > open;
  return has_place ? mistake.substr(close + 3) : mistake;
}

// Whether a node only adds dims in front, and repeats its operand along them and along dims of size 1.
bool IsLeftOut(const Node& node, const Type& from, const Type& to) {
  if (node.row->name != "broadcast_to" && node.row->name != "expand_dims") return false;
  const auto dims = node.attrs.Get<std::vector<int64_t>>("dims");
  if (node.row->name == "expand_dims") {
    for (size_t i = 0; i < dims.size(); ++i)
      if (dims[i] != static_cast<int64_t>(i)) return false;
    return true;
  }
  for (size_t i = 0; i < dims.size(); ++i)
    if (dims[i] != to.rank() - from.rank() + static_cast<int64_t>(i)) return false;
  return true;
}

}  // namespace

const Bound* Scope::Find(const ValueRef& ref) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->outer) {
    const auto found = scope->values.find(ref.name);
    if (found == scope->values.end()) continue;
    const auto index = static_cast<size_t>(ref.result);
    return index < found->second.size() ? &found->second[index] : nullptr;
  }
  return nullptr;
}

absl::StatusOr<DType> DTypeOfElement(std::string_view element) {
  static const std::map<std::string_view, DType> dtypes = {
      {"f32", F32}, {"f64", F64}, {"bf16", BF16}, {"f16", F16}, {"i1", BOOL}, {"i8", I8},
      {"ui8", U8},  {"i32", I32}, {"ui32", I32},  {"i64", I64}, {"ui64", I64}};
  const auto found = dtypes.find(element);
  if (found != dtypes.end()) return found->second;
  return InvalidArgument(
      "elements of type {} are not read; those that are: f32, f64, bf16, f16, i1, i8, ui8, "
      "i32, ui32, i64, ui64.",
      element);
}

double NumberOf(const Bound& bound) {
  return NumberOf(DTypeOfElement(bound.type.element).value_or(F64), bound.known.bits);
}

absl::StatusOr<Type> TypeOf(const TensorType& type) {
  if (!type.is_tensor) return InvalidArgument("values of type {} are not read, only tensors.", type.element);
  if (type.is_dynamic)
    return InvalidArgument("{}: sizes that are not known are not read; lower the function for fixed shapes.",
                           type.ToString());
  MESHWORK_ASSIGN_OR_RETURN(const DType dtype, DTypeOfElement(type.element));
  const Type read{dtype, type.shape};
  MESHWORK_RETURN_IF_ERROR(CheckSize(read));
  return read;
}

// ---- OpView.

absl::Status OpView::FailAt(size_t at, std::string_view message) const {
  return reader.FailAt(at, fmt::format("{}: {}", op.name, message));
}

Value OpView::Arg(size_t i) const { return reader.Materialize(graph, operands[i]); }

std::vector<Value> OpView::Args() const {
  std::vector<Value> values;
  for (size_t i = 0; i < operands.size(); ++i) values.push_back(Arg(i));
  return values;
}

Value OpView::Light(size_t i) const {
  const Bound& bound = operands[i];
  if (bound.known.is_splat()) {
    Bound scalar = bound;
    scalar.type.shape.clear();
    scalar.value = Value();
    return reader.Materialize(graph, scalar);
  }
  const Value value = Arg(i);
  // Behind it, several may follow each other.
  Value light = value;
  while (light.valid()) {
    const Graph& of = *light.graph();
    const ValueInfo& info = of.value(light.id());
    if (info.node < 0 || info.layout.has_value()) break;
    const Node& node = of.nodes()[static_cast<size_t>(info.node)];
    if (node.operands.size() != 1 || !IsLeftOut(node, of.value(node.operands[0]).type, info.type)) break;
    light = Value(light.graph(), node.operands[0]);
  }
  return light;
}

std::vector<Value> OpView::LightArgs() const {
  std::vector<Value> values;
  for (size_t i = 0; i < operands.size(); ++i) values.push_back(Light(i));
  const auto shape_of_all = [&] {
    int rank = 0;
    for (const Value& value : values) rank = std::max(rank, value.rank());
    Shape shape(static_cast<size_t>(rank), 1);
    for (const Value& value : values)
      for (int d = 0; d < value.rank(); ++d) {
        int64_t& size = shape[shape.size() - static_cast<size_t>(value.rank() - d)];
        if (size == 1) size = value.shape()[static_cast<size_t>(d)];
      }
    return shape;
  };
  for (const Value& value : values)
    if (!value.valid() || value.rank() > result().rank()) return Args();
  for (size_t i = 0; i < operands.size() && shape_of_all() != result().shape; ++i) values[i] = Arg(i);
  return values;
}

Type OpView::result_type(size_t r) const { return TypeOf(op.result_types[r]).value(); }

absl::StatusOr<int64_t> OpView::Int(std::string_view name, std::optional<int64_t> otherwise) const {
  const Attribute* const attribute = FindAttribute(name);
  if (attribute == nullptr && otherwise.has_value()) return *otherwise;
  if (attribute == nullptr || attribute->kind != Attribute::Kind::kInt)
    return FailAt(attribute == nullptr ? op.at : attribute->at,
                  fmt::format("{} is to be a whole number.", name));
  return attribute->whole;
}

absl::StatusOr<bool> OpView::Bool(std::string_view name, bool otherwise) const {
  const Attribute* const attribute = FindAttribute(name);
  if (attribute == nullptr) return otherwise;
  if (attribute->kind != Attribute::Kind::kBool)
    return FailAt(attribute->at, fmt::format("{} is to be true or false.", name));
  return attribute->whole != 0;
}

absl::StatusOr<std::vector<int64_t>> OpView::Ints(std::string_view name,
                                                  std::optional<std::vector<int64_t>> otherwise) const {
  const Attribute* const attribute = FindAttribute(name);
  if (attribute == nullptr && otherwise.has_value()) return *std::move(otherwise);
  if (attribute == nullptr) return Fail(fmt::format("there is no attribute {}.", name));
  std::vector<int64_t> numbers;
  if (attribute->kind == Attribute::Kind::kDense) {
    MESHWORK_ASSIGN_OR_RETURN(const DenseElements elements,
                              ReadDense(*attribute, reader.text(), reader.file()));
    const int64_t count = NumElements(attribute->type.shape);
    if (count > 4 * kMaxRank)
      return FailAt(attribute->at, fmt::format("{}: there are too many numbers.", name));
    for (int64_t i = 0; i < count; ++i)
      numbers.push_back(elements.bits[elements.is_splat ? 0 : static_cast<size_t>(i)]);
    return numbers;
  }
  if (attribute->kind != Attribute::Kind::kList)
    return FailAt(attribute->at, fmt::format("{} is to be a list of numbers.", name));
  for (const Attribute& item : attribute->items) {
    if (item.kind != Attribute::Kind::kInt && item.kind != Attribute::Kind::kBool)
      return FailAt(item.at, fmt::format("{} is to be a list of numbers.", name));
    numbers.push_back(item.whole);
  }
  return numbers;
}

absl::StatusOr<std::string> OpView::Word(std::string_view name, std::string_view otherwise) const {
  const Attribute* const attribute = FindAttribute(name);
  if (attribute == nullptr && !otherwise.empty()) return std::string(otherwise);
  if (attribute == nullptr) return Fail(fmt::format("there is no attribute {}.", name));
  const std::string_view word = WordOf(attribute);
  if (word.empty()) return FailAt(attribute->at, fmt::format("{} is to be a word of StableHLO.", name));
  return std::string(word);
}

absl::StatusOr<std::vector<int64_t>> OpView::IntsOf(const Attribute& dict, std::string_view member) const {
  const Attribute* const attribute = dict.Find(member);
  std::vector<int64_t> numbers;
  if (attribute == nullptr) return numbers;
  if (attribute->kind != Attribute::Kind::kList)
    return FailAt(attribute->at, fmt::format("{} is to be a list of dims.", member));
  for (const Attribute& item : attribute->items) {
    if (item.kind != Attribute::Kind::kInt)
      return FailAt(item.at, fmt::format("{} is to be a list of dims.", member));
    numbers.push_back(item.whole);
  }
  return numbers;
}

absl::StatusOr<int64_t> OpView::IntOf(const Attribute& dict, std::string_view member,
                                      int64_t otherwise) const {
  const Attribute* const attribute = dict.Find(member);
  if (attribute == nullptr) return otherwise;
  if (attribute->kind != Attribute::Kind::kInt)
    return FailAt(attribute->at, fmt::format("{} is to be a number.", member));
  return attribute->whole;
}

absl::Status OpView::Expect(size_t num_operands, size_t num_results, size_t num_regions) const {
  if (operands.size() == num_operands && op.result_types.size() == num_results &&
      op.regions.size() == num_regions)
    return absl::OkStatus();
  return Fail(fmt::format("it has {}, {} and {}; it is to have {}, {} and {}.",
                          Count(std::ssize(operands), "operand"),
                          Count(std::ssize(op.result_types), "result"),
                          Count(std::ssize(op.regions), "region"), num_operands, num_results, num_regions));
}

Value ToArithmetic(const Value& x) {
  if (x.dtype() == F16) return Cast(x, F32);
  return x.dtype() == U8 || x.dtype() == I8 ? Cast(x, I32) : x;
}

Value FromArithmetic(const OpView& view, const Value& x, size_t r) {
  const DType stated = view.result_type(r).dtype;
  return IsStorage(stated) ? InDType(x, stated) : x;
}

Value OpView::Number(double number, DType dtype) const { return Constant(graph, number, Type{dtype, {}}); }

// ---- ModuleReader.

ModuleReader::ModuleReader(const Module& module, std::string_view text, std::string_view file,
                           bool recomputes)
    : module_(module), text_(text), file_(file), recomputes_(recomputes), line_starts_({0}) {
  for (size_t at = 0; at < text.size(); ++at)
    if (text[at] == '\n') line_starts_.push_back(at + 1);
}

const std::map<std::string_view, ReadOp>& AllReadOps() {
  static const auto* const ops = [] {
    auto* all = new std::map<std::string_view, ReadOp>;
    for (const auto& family : {ElementwiseOps(), ShapeOps(), IndexOps(), ReductionOps(), ProductOps(),
                               WindowOps(), ControlOps(), ShardingOps()})
      for (const NamedReadOp& named : family) all->emplace(named.op, named.read);
    return all;
  }();
  return *ops;
}

ReadOp FindReadOp(std::string_view op) {
  const auto found = AllReadOps().find(op);
  return found == AllReadOps().end() ? nullptr : found->second;
}

absl::Status ModuleReader::FailAt(size_t at, std::string_view message) const {
  return ErrorAt(text_, file_, at, message);
}

const Op* ModuleReader::FindFunction(std::string_view name) const {
  for (const Op& op : module_.op.regions[0].ops) {
    const Attribute* const symbol = op.attributes.Find("sym_name");
    if (op.name == "func.func" && symbol != nullptr && symbol->text == name && op.regions.size() == 1)
      return &op;
  }
  return nullptr;
}

absl::Status ModuleReader::CountOp(const Op& op, int64_t elements) {
  constexpr int64_t kElementsOfAnOp = 64;  // about as much memory
  ops_ += 1 + elements / kElementsOfAnOp;
  if (ops_ <= kMostOps) return absl::OkStatus();
  return FailAt(
      op.at,
      fmt::format("the module becomes more than {} ops, calls counted as often as they are made.", kMostOps));
}

SourceLocation ModuleReader::LocationOf(const Op& op) const {
  const FileLine line = LineOf(module_, op.location);
  if (line.line > 0) return SourceLocation(SharedText(line.file), line.line);
  const auto next = std::upper_bound(line_starts_.begin(), line_starts_.end(), op.at);
  return SourceLocation(SharedText(file_), static_cast<int>(next - line_starts_.begin()));
}

Value ModuleReader::Materialize(Graph& graph, const Bound& bound) const {
  if (bound.value.valid()) return bound.value;
  const absl::StatusOr<Type> type = TypeOf(bound.type);
  if (!type.ok()) return {};
  if (bound.known.is_splat()) return SplatValue(graph, *type, bound.known.bits);
  if (!bound.known.is_count()) return {};
  Value value = bound.known.loop->counter;
  if (!value.valid()) return {};
  value = InDType(value, type->dtype);
  if (bound.known.scale != 1) value = Mul(value, static_cast<double>(bound.known.scale));
  if (bound.known.offset != 0) value = Add(value, static_cast<double>(bound.known.offset));
  return type->rank() == 0 ? value : BroadcastTo(value, type->shape, {});
}

absl::Status ModuleReader::CheckMistakes(const Graph& graph, const Op& op) const {
  for (const Graph* at = &graph; at != nullptr; at = at->enclosing())
    if (!at->errors().empty())
      return FailAt(op.at, fmt::format("{}: {}", op.name, WithoutPlace(at->errors()[0])));
  return absl::OkStatus();
}

absl::StatusOr<Bounds> ModuleReader::ReadOne(Graph& graph, const Op& op, const Scope& scope) {
  MESHWORK_RETURN_IF_ERROR(CountOp(op));
  OpView view{*this, graph, op, scope, LocationOf(op)};
  std::vector<Known> known;
  bool is_invalid = false;
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const Bound* const bound = scope.Find(op.operands[i]);
    if (bound == nullptr)
      return FailAt(op.operands[i].at, fmt::format("there is no value %{} here.", op.operands[i].name));
    if (bound->type != op.operand_types[i])
      return FailAt(op.at, fmt::format("{}: operand {} is {} here, and {} where it is made.", op.name, i,
                                       op.operand_types[i].ToString(), bound->type.ToString()));
    is_invalid |= bound->known.kind == Known::Kind::kNothing && !bound->value.valid();
    view.operands.push_back(*bound);
    known.push_back(bound->known);
  }
  for (const TensorType& type : op.result_types)
    if (const absl::StatusOr<Type> result = TypeOf(type); !result.ok())
      return FailAt(op.at, fmt::format("{}: {}", op.name, MessageOf(result.status())));
  if (is_invalid) {  // behind a mistake, which the op around will report
    Bounds results(op.result_types.size());
    for (size_t r = 0; r < results.size(); ++r) results[r].type = op.result_types[r];
    return results;
  }
  const Folded folded = Fold(op, known);
  if (folded.known.has_value()) return Bounds{Bound(op.result_types[0], *folded.known)};
  if (folded.operand.has_value() && view.operands[*folded.operand].type == op.result_types[0])
    return Bounds{view.operands[*folded.operand]};
  const ReadOp read = FindReadOp(op.name);
  if (read == nullptr)
    return FailAt(op.at, fmt::format("the op {} is not read; docs/from-jax.md says which are.", op.name));
  const LocationScope location(graph, view.location);
  MESHWORK_ASSIGN_OR_RETURN(Bounds results, read(view));
  MESHWORK_RETURN_IF_ERROR(CheckMistakes(graph, op));
  if (results.size() != op.result_types.size())
    return FailAt(op.at, fmt::format("{}: it gives {}, and {} are stated.", op.name,
                                     Count(std::ssize(results), "result"), op.result_types.size()));
  for (size_t r = 0; r < results.size(); ++r) {
    const bool is_known = results[r].known.kind != Known::Kind::kNothing;
    if (is_known && results[r].type != op.result_types[r])
      return FailAt(op.at, fmt::format("{}: result {} is stated as {}, and is {}.", op.name, r,
                                       op.result_types[r].ToString(), results[r].type.ToString()));
    results[r].type = op.result_types[r];
    if (is_known) continue;
    const Type stated = view.result_type(r);
    if (!results[r].value.valid() || results[r].value.type() != stated)
      return FailAt(
          op.at,
          fmt::format("{}: result {} is stated as {}, and is {}.", op.name, r, op.result_types[r].ToString(),
                      results[r].value.valid() ? results[r].value.type().ToString() : "none"));
  }
  return results;
}

absl::StatusOr<Bounds> ModuleReader::Run(Graph& graph, const Region& region, Bounds arguments,
                                         const Scope* outer) {
  if (depth_ >= kDeepest)
    return FailAt(region.at, fmt::format("more than {} calls and regions lie in each other.", kDeepest));
  ++depth_;
  absl::StatusOr<Bounds> results = RunOps(graph, region, std::move(arguments), outer);
  --depth_;
  return results;
}

absl::StatusOr<Bounds> ModuleReader::RunOps(Graph& graph, const Region& region, Bounds arguments,
                                            const Scope* outer) {
  Scope scope{.outer = outer};
  for (size_t a = 0; a < region.arguments.size(); ++a) {
    Bounds argument(1);
    if (a < arguments.size()) argument[0] = std::move(arguments[a]);
    if (!scope.values.emplace(region.arguments[a].name, std::move(argument)).second)
      return FailAt(region.at, fmt::format("the block has two arguments %{}.", region.arguments[a].name));
  }
  for (const Op& op : region.ops) {
    const bool is_end = op.name == "func.return" || op.name == "stablehlo.return" || op.name == "sdy.return";
    if (is_end && &op != &region.ops.back()) return FailAt(op.at, "ops follow the return of the block.");
    if (is_end) {
      Bounds returned;
      for (const ValueRef& operand : op.operands) {
        const Bound* const bound = scope.Find(operand);
        if (bound == nullptr)
          return FailAt(operand.at, fmt::format("there is no value %{} here.", operand.name));
        returned.push_back(*bound);
      }
      return returned;
    }
    MESHWORK_ASSIGN_OR_RETURN(Bounds results, ReadOne(graph, op, scope));
    if (!op.result.empty() && !scope.values.emplace(op.result, std::move(results)).second)
      return FailAt(op.at, fmt::format("%{} is made a second time.", op.result));
  }
  return FailAt(region.ops.empty() ? region.at : region.ops.back().at, "the block has no return at its end.");
}

absl::StatusOr<Bounds> ModuleReader::Call(Graph& graph, const Op& function, Bounds arguments,
                                          const Op& call) {
  const Region& body = function.regions[0];
  if (body.arguments.size() != arguments.size())
    return FailAt(call.at, fmt::format("{}: the function takes {}, and gets {}.", call.name,
                                       Count(std::ssize(body.arguments), "argument"), arguments.size()));
  for (size_t a = 0; a < arguments.size(); ++a)
    if (body.arguments[a].type != arguments[a].type)
      return FailAt(call.at, fmt::format("{}: argument {} is {}, and the function takes {}.", call.name, a,
                                         arguments[a].type.ToString(), body.arguments[a].type.ToString()));
  return Run(graph, body, std::move(arguments), nullptr);
}

}  // namespace meshwork::mlir

// Declarations in a graph: inputs, variables, pins, updates and outputs. The graph records their mistakes.
#include <algorithm>
#include <cctype>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/ir/graph.h"
#include "meshwork/ir/missing_axes.h"

namespace meshwork {
namespace {

std::vector<std::string> AxesAskedBy(const LayoutRules& rules) {
  std::vector<std::string> axes = rules.batch;
  axes.insert(axes.end(), rules.variables.begin(), rules.variables.end());
  for (const auto& [name, spec] : rules.layouts)
    for (std::string& axis : AxesNamedBy(spec)) axes.push_back(std::move(axis));
  return axes;
}

// Whether `spec` names an axis that the rules do not name.
bool NamesNewAxis(const LayoutSpec& spec, const LayoutRules& rules) {
  const std::vector<std::string> axes = AxesNamedBy(spec);
  if (axes.empty()) return false;
  const std::vector<std::string> known = AxesAskedBy(rules);
  return std::any_of(axes.begin(), axes.end(), [&](const std::string& axis) {
    return std::find(known.begin(), known.end(), axis) == known.end();
  });
}

}  // namespace

bool IsArgumentName(std::string_view name) {
  if (name.find("//") != std::string_view::npos) return false;
  if (name.empty() || !(std::isalpha(static_cast<unsigned char>(name[0])) || name[0] == '_')) return false;
  for (char c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c)) &&
        std::string_view("_./-").find(c) == std::string_view::npos)
      return false;
  }
  return true;
}

absl::StatusOr<Value> Graph::TryArgument(std::string_view kind, std::string_view name, const Type& type,
                                         const LayoutSpec& spec, bool is_variable,
                                         std::optional<Initializer> initializer,
                                         const SourceLocation& location) {
  const std::string where = fmt::format(
      "{} \"{}\"{}", kind, name, location.file.empty() ? "" : fmt::format(" ({})", location.ToString()));
  if (!IsArgumentName(name)) {
    return InvalidArgument(
        "{}: a name is a letter followed by letters, digits and any of _ . / - (no //), as in dense1/kernel.",
        where);
  }
  if (IsArgumentTaken(std::string(name))) {
    return InvalidArgument(
        "{}: the name is already taken; names of inputs and variables must be unique: give another name, or open a "
        "NameScope.",
        where);
  }
  if (!is_variable && type.rank() > 0 && type.shape[0] < 0)
    return InvalidArgument(
        "{}: {} has a negative size; give that of a full batch as dim 0, shorter batches may be fed.", where,
        type.ToString());
  if (absl::Status status = CheckSize(type); !status.ok()) return Annotate(status, where + ": ");
  const LayoutRules::Ruled ruled =
      spec.empty() ? rules_.LayoutOf(mesh_, std::string(name), type, is_variable) : LayoutRules::Ruled{spec};
  absl::StatusOr<LayoutPin> pin = ResolvePin(ruled.layout, type);
  if (!pin.ok()) return Annotate(pin.status(), where + ": ");
  // CheckRules looks through the rules for axes that the mesh lacks.
  if (rules_.missing_axes == MissingAxes::kShardNothing && NamesNewAxis(spec, rules_))
    rules_.layouts.emplace_back(name, spec);
  return Value(this, AddArgument({.name = std::string(name),
                                  .type = type,
                                  .global = type,
                                  .layout = std::move(pin->layout),
                                  .modes = std::move(pin->modes),
                                  .gather = ruled.in_blocks ? Gathering::kOnUse : Gathering::kWithinBudget,
                                  .location = location},
                                 is_variable, std::move(initializer)));
}

absl::StatusOr<LayoutPin> Graph::ResolvePin(const LayoutSpec& spec, const Type& type) {
  MESHWORK_ASSIGN_OR_RETURN(LayoutPin pin, MakePin(spec));
  if (pin.layout.rank() != type.rank())
    return InvalidArgument("layout {} has {}, {} has {}; give one entry per dim, UNSHARDED for a whole dim.",
                           pin.ToString(), Count(pin.layout.rank(), "dim"), type.ToString(), type.rank());
  MESHWORK_RETURN_IF_ERROR(pin.layout.Fits(type.shape));
  if (pin.Has(DimMode::kMatch))
    return InvalidArgument(
        "layout {}: MATCH keeps a dim of what a relayout reads; here there is nothing to match.",
        pin.ToString());
  CutMesh(pin.layout.mesh());
  return pin;
}

absl::StatusOr<LayoutPin> Graph::MakePin(const LayoutSpec& spec) const {
  return LayoutPin::Create(
      mesh_, rules_.missing_axes == MissingAxes::kShardNothing ? WithoutMissingAxes(mesh_, spec) : spec);
}

void Graph::SetLayouts(LayoutRules rules, CallSite loc) {
  rules_ = std::move(rules);
  rules_location_ = loc;
  if (arguments_.empty()) return;
  RecordError(fmt::format("SetLayouts ({}): \"{}\" is declared already; set layouts before they are used.",
                          rules_location_.ToString(), argument_name(0)));
}

absl::Status Graph::CheckRules() const {
  std::vector<std::pair<std::string, Type>> declared;
  for (const Argument& argument : arguments_)
    declared.emplace_back(values_[argument.value].name, values_[argument.value].type);
  absl::Status status = CheckLayouts(rules_.layouts, declared);
  if (status.ok() && rules_.missing_axes == MissingAxes::kShardNothing)
    status = CheckMissingAxes(*this, AxesAskedBy(rules_));
  return Annotate(status, fmt::format("SetLayouts ({}): ", rules_location_.ToString()));
}

LayoutSpec Value::layout() const {
  if (!valid()) return {};
  const ValueInfo& info = graph()->value(id_);
  return info.layout.has_value() ? SpecOf(LayoutPin{*info.layout, info.modes}) : LayoutSpec();
}

void Graph::Pin(const Value& value, const LayoutSpec& layout, CallSite loc) {
  const std::string where = fmt::format("WithLayout ({})", SourceLocation(loc).ToString());
  if (!value.valid()) return RecordMissing(where, value);
  if (value.graph() != this) return RecordError(where + ": " + WhyForeign(value, "the value"));
  absl::StatusOr<LayoutPin> pin = ResolvePin(layout, value.type());
  if (!pin.ok()) return RecordError(std::string(MessageOf(Annotate(pin.status(), where + ": "))));
  ValueInfo& info = values_[value.id()];
  if (info.layout.has_value())
    return RecordError(fmt::format(
        "{}: the value is pinned as {} already; pin it once, or move it to another layout by Relayout.",
        where, LayoutPin{*info.layout, info.modes}.ToString()));
  info.layout = std::move(pin->layout);
  info.modes = std::move(pin->modes);
}

Value Graph::Input(std::string_view name, DType dtype, const Shape& shape, const LayoutSpec& layout,
                   CallSite loc) {
  absl::StatusOr<Value> value = TryArgument("Input", name, {dtype, shape}, layout, false, {}, loc);
  if (value.ok()) return *value;
  RecordError(std::string(MessageOf(value.status())));
  return {};
}

Variable Graph::Var(std::string_view name, Initializer initializer, const LayoutSpec& layout, CallSite loc) {
  const Type type = initializer.type;
  SourceLocation location(loc);
  location.scope = scope_;
  const std::string full = scope_.empty() ? std::string(name) : fmt::format("{}/{}", scope_, name);
  absl::StatusOr<Value> value =
      TryArgument("Var", full, type, layout, true, std::move(initializer), location);
  if (value.ok()) return Variable(this, value->id());
  RecordError(std::string(MessageOf(value.status())));
  return {};
}

Variable Graph::Var(std::string_view name, Initializer initializer, const LayoutSpec& layout,
                    const VarOptions& options, CallSite loc) {
  const Variable variable = Var(name, std::move(initializer), layout, loc);
  if (!variable.valid()) return variable;
  if (options.gather != Gathering::kWithinBudget) values_[variable.id()].gather = options.gather;
  arguments_.back().is_trainable = options.trainable;
  return variable;
}

void Graph::Update(const Variable& variable, const Value& value, CallSite loc) {
  const SourceLocation location(loc);
  if (!variable.valid() || !value.valid()) {
    const bool is_known = variable.valid() && variable.graph() == this;
    return RecordMissing(
        fmt::format("Update{} ({})",
                    is_known ? fmt::format(" of \"{}\"", this->value(variable.id()).name) : "",
                    location.ToString()),
        variable.valid() ? value : variable);
  }
  if (variable.graph() != this || value.graph() != this) {
    return RecordError(fmt::format("Update ({}): {}", location.ToString(),
                                   variable.graph() != this ? WhyForeign(variable, "the variable")
                                                            : WhyForeign(value, "the new value")));
  }
  const std::string& name = this->value(variable.id()).name;
  const auto found = std::lower_bound(arguments_.begin(), arguments_.end(), variable.id(),
                                      [](const Argument& a, ValueId id) { return a.value < id; });
  if (found == arguments_.end() || found->value != variable.id() || !found->is_variable) {
    return RecordError(fmt::format(
        "Update ({}): \"{}\" is not a variable; only variables keep values, declare it by Graph::Var.",
        location.ToString(), name));
  }
  if (variable.type() != value.type()) {
    return RecordError(
        fmt::format("Update of \"{}\" ({}): the variable is {}, the new value {}; they must agree, {}.", name,
                    location.ToString(), variable.type().ToString(), value.type().ToString(),
                    variable.shape() == value.shape()
                        ? fmt::format("Cast the new value to {}", DTypeName(variable.dtype()))
                        : "give a value of the variable's shape"));
  }
  const auto argument = static_cast<size_t>(found - arguments_.begin());
  if (argument < is_updated_.size() && is_updated_[argument]) {
    const auto first = std::find_if(updates_.begin(), updates_.end(), [&](const VariableUpdate& update) {
      return update.argument == static_cast<int>(argument);
    });
    const std::string before = first == updates_.end() ? "" : first->location.ToString();
    return RecordError(fmt::format(
        "Update of \"{}\" ({}): it is already updated{}; a step writes a variable once, and Minimize writes "
        "all that its loss depends on. Make one update of the two, or name what Minimize shall write: "
        "Minimize(loss, variables).",
        name, location.ToString(), before.empty() ? "" : fmt::format(" ({})", before)));
  }
  AddUpdate({static_cast<int>(argument), value.id(), location});
}

void Graph::Output(std::string_view name, const Value& value, CallSite loc) {
  const std::string where = fmt::format("Output \"{}\" ({})", name, SourceLocation(loc).ToString());
  if (!value.valid()) return RecordMissing(where, value);
  if (!IsArgumentName(name)) {
    return RecordError(
        where +
        ": a name is a letter followed by letters, digits and any of _ . / - (no //), as in dense1/kernel.");
  }
  if (value.graph() != this) return RecordError(where + ": " + WhyForeign(value, "the value"));
  if (IsOutputTaken(std::string(name)))
    return RecordError(where + ": the name is already taken; output names must be unique: give another one.");
  outputs_.push_back({std::string(name), value.id()});
}

void Graph::SetPrecision(const Precision& precision, CallSite loc) {
  for (const DType dtype : {precision.compute, precision.variables})
    if (!IsFloat(dtype))
      return RecordError(fmt::format(
          "SetPrecision ({}): {}; layers compute in f32, f64 or bf16, and keep variables in one of these.",
          SourceLocation(loc).ToString(), DTypeName(dtype)));
  precision_ = precision;
}

// An invalid value is a mistake only if no other mistake is recorded; otherwise a recorded mistake is its
// cause.
void Graph::RecordMissing(const std::string& where, const Value& value) {
  if (value.is_lost())
    return RecordError(where + ": the graph of the value is gone; keep it as long as its values.");
  if (errors_.empty())
    RecordError(
        where +
        ": there is no value; it was default-constructed, or made of numbers alone, or of values whose "
        "graph is gone. Make it from values of this graph; Constant makes a value of a number.");
}

std::string Graph::WhyForeign(const Value& value, std::string_view what) const {
  for (const Graph* around = value.graph(); around->outer_ != nullptr; around = around->outer_)
    if (around->outer_ == this)
      return fmt::format("{} was made in the body of {}; return it from there.", what, around->owner_);
  return fmt::format("{} belongs to another graph; name values of this one.", what);
}

absl::Status Graph::status() const {
  if (is_moved_) return InvalidArgument("Graph: it was moved to another one; go on with that.");
  if (errors_.empty()) return CheckRules();
  std::string all;
  for (const std::string& error : errors_) all += (all.empty() ? "" : "\n") + error;
  return absl::InvalidArgumentError(all);
}

bool Graph::IsArgumentTaken(const std::string& name) {
  for (size_t& i = argument_names_.count; i < arguments_.size(); ++i)
    argument_names_.taken.insert(argument_name(static_cast<int>(i)));
  return argument_names_.taken.contains(name);
}

bool Graph::IsOutputTaken(const std::string& name) {
  for (size_t& i = output_names_.count; i < outputs_.size(); ++i)
    output_names_.taken.insert(outputs_[i].name);
  return output_names_.taken.contains(name);
}

}  // namespace meshwork

#include "meshwork/stablehlo/read/read_stablehlo.h"

#include <algorithm>
#include <set>

#include "absl/strings/ascii.h"
#include "meshwork/base/name_patterns.h"
#include "meshwork/base/quote.h"
#include "meshwork/base/status.h"
#include "meshwork/ops/control/live_values.h"
#include "meshwork/ops/ops.h"
#include "meshwork/stablehlo/read/reader.h"
#include "meshwork/stablehlo/read/shardings.h"

namespace meshwork {
namespace {

using mlir::Attribute;
using mlir::Bound;
using mlir::Bounds;
using mlir::ModuleReader;
using mlir::Op;

Initializer ZerosOf(const Type& type) {
  return {type, [](Graph& graph, const Type& of, int64_t, int64_t) { return Constant(graph, 0, of); }};
}

// Whether `name` is `prefix`, or NAME/… of it; what follows then.
std::optional<std::string_view> RestBehind(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  const std::string_view rest = name.substr(prefix.size());
  return rest.empty() || rest.front() == '/' ? std::optional(rest) : std::nullopt;
}

// Names that are taken get _2, _3, …
std::string Unique(std::string name, std::set<std::string>& taken) {
  const std::string wanted = name;
  for (int n = 2; !taken.insert(name).second; ++n) name = fmt::format("{}_{}", wanted, n);
  return name;
}

// "train" of jit_train; "main" where that is no word.
std::string ProgramName(std::string_view module) {
  if (module.starts_with("jit_")) module.remove_prefix(4);
  const bool is_word = !module.empty() && absl::ascii_isalpha(static_cast<unsigned char>(module.front())) &&
                       std::all_of(module.begin(), module.end(), [](char c) {
                         return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_';
                       });
  return is_word ? std::string(module) : "main";
}

// The attributes of an argument or a result: entry i of the list `name` of a function.
const Attribute& AttributesOf(const Op& function, std::string_view name, size_t i) {
  static const Attribute none{.kind = Attribute::Kind::kDict};
  const Attribute* const list = function.attributes.Find(name);
  return list != nullptr && i < list->items.size() ? list->items[i] : none;
}

// The function `main` as a graph in the making.
class MainReader {
 public:
  MainReader(ModuleReader& reader, const Op& function, const ReadStableHloOptions& options, Mesh mesh)
      : reader_(reader),
        function_(function),
        options_(options),
        graph_(std::move(mesh)),
        num_arguments_(function.regions[0].arguments.size()) {
    graph_.SetLayouts(options.layouts);
    if (const Attribute* const symbol = reader.module().op.attributes.Find("sym_name"); symbol != nullptr)
      graph_.name = ProgramName(symbol->text);
  }

  absl::StatusOr<Graph> Read() {
    NameAll();
    MESHWORK_RETURN_IF_ERROR(FindUpdates());
    MESHWORK_ASSIGN_OR_RETURN(Bounds arguments, Declare());
    MESHWORK_ASSIGN_OR_RETURN(const Bounds results,
                              reader_.Run(graph_, function_.regions[0], std::move(arguments), nullptr));
    MESHWORK_RETURN_IF_ERROR(Return(results));
    if (!graph_.errors().empty())
      return reader_.FailAt(function_.regions[0].ops.back().at, graph_.errors()[0]);
    return DropDeadCode(std::move(graph_));
  }

 private:
  void NameAll() {
    std::set<std::string> taken;
    for (size_t a = 0; a < num_arguments_; ++a) {
      std::string name =
          NameOfPath(mlir::NameOf(reader_.module(), function_.regions[0].arguments[a].location));
      if (!IsArgumentName(name)) name = fmt::format("arg{}", a);
      argument_names_.push_back(Unique(std::move(name), taken));
    }
    taken.clear();
    const auto count = static_cast<size_t>(std::ssize(function_.regions[0].ops.back().operands));
    for (size_t r = 0; r < count; ++r) {
      const Attribute* const info = AttributesOf(function_, "res_attrs", r).Find("jax.result_info");
      std::string name = info == nullptr ? "" : NameOfPath(info->text);
      if (!IsArgumentName(name)) name = count == 1 ? "result" : fmt::format("result/{}", r);
      result_names_.push_back(Unique(std::move(name), taken));
    }
  }

  // Which arguments are variables, and which results they hold after the step.
  absl::Status FindUpdates() {
    update_of_.assign(num_arguments_, std::nullopt);
    is_variable_.assign(num_arguments_, false);
    for (size_t a = 0; a < num_arguments_; ++a) {
      const Attribute* const alias = AttributesOf(function_, "arg_attrs", a).Find("tf.aliasing_output");
      if (alias == nullptr) continue;
      if (alias->kind != Attribute::Kind::kInt || alias->whole < 0 ||
          alias->whole >= std::ssize(result_names_))
        return reader_.FailAt(alias->at, "tf.aliasing_output is to be the number of a result.");
      MESHWORK_RETURN_IF_ERROR(Pair(a, static_cast<size_t>(alias->whole)));
    }
    for (const auto& [argument, result] : options_.updates)
      MESHWORK_RETURN_IF_ERROR(PairAll(argument, result));
    for (const std::string& pattern : options_.variables) {
      bool fits = false;
      for (size_t a = 0; a < num_arguments_; ++a) {
        if (argument_names_[a] != pattern && !MatchesPattern(argument_names_[a], pattern)) continue;
        is_variable_[a] = fits = true;
      }
      if (!fits)
        return InvalidArgument("{}: no argument is called {}; there are {}.", options_.file_name,
                               Quoted(pattern), Some(argument_names_));
    }
    return absl::OkStatus();
  }

  static std::string Some(const std::vector<std::string>& names) {
    constexpr size_t kMost = 8;
    std::string text;
    for (size_t i = 0; i < names.size() && i < kMost; ++i)
      text += fmt::format("{}{}", i == 0 ? "" : ", ", names[i]);
    return names.empty()          ? "none"
           : names.size() > kMost ? fmt::format("{} and {} more", text, names.size() - kMost)
                                  : text;
  }

  absl::Status Pair(size_t argument, size_t result) {
    const bool is_new = std::find(update_of_.begin(), update_of_.end(), result) == update_of_.end();
    if (update_of_[argument].has_value() ? *update_of_[argument] != result : !is_new)
      return InvalidArgument(
          "{}: the argument {} and the result {} are paired, and one of them with another already.",
          options_.file_name, argument_names_[argument], result_names_[result]);
    update_of_[argument] = result;
    is_variable_[argument] = true;
    return absl::OkStatus();
  }

  absl::Status PairAll(const std::string& argument, const std::string& result) {
    bool fits = false;
    for (size_t a = 0; a < num_arguments_; ++a) {
      const auto rest = RestBehind(argument_names_[a], argument);
      if (!rest.has_value()) continue;
      fits = true;
      const std::string wanted = fmt::format("{}{}", result, *rest);
      const auto found = std::find(result_names_.begin(), result_names_.end(), wanted);
      if (found == result_names_.end())
        return InvalidArgument("{}: there is no result {} for the argument {}; there are {}.",
                               options_.file_name, Quoted(wanted), argument_names_[a], Some(result_names_));
      MESHWORK_RETURN_IF_ERROR(Pair(a, static_cast<size_t>(found - result_names_.begin())));
    }
    if (fits) return absl::OkStatus();
    return InvalidArgument("{}: no argument is called {}; there are {}.", options_.file_name,
                           Quoted(argument), Some(argument_names_));
  }

  absl::StatusOr<LayoutSpec> LayoutFor(const Attribute& attributes, const mlir::TensorType& type, size_t at) {
    const auto layout = mlir::LayoutOf(attributes, graph_.mesh(), type.rank());
    if (!layout.ok()) return reader_.FailAt(at, MessageOf(layout.status()));
    if (!layout->has_value()) return LayoutSpec();
    const absl::StatusOr<LayoutPin> pin = LayoutPin::Parse(graph_.mesh(), **layout);
    if (!pin.ok()) return reader_.FailAt(at, MessageOf(pin.status()));
    return SpecOf(*pin);
  }

  absl::StatusOr<Bounds> Declare() {
    const SourceLocation location = reader_.LocationOf(function_);
    const CallSite site(location.file.c_str(), location.line);
    Bounds arguments;
    for (size_t a = 0; a < num_arguments_; ++a) {
      const mlir::RegionArgument& argument = function_.regions[0].arguments[a];
      const absl::StatusOr<Type> type = mlir::TypeOf(argument.type);
      if (!type.ok())
        return reader_.FailAt(function_.at,
                              fmt::format("argument {}: {}", argument_names_[a], MessageOf(type.status())));
      MESHWORK_ASSIGN_OR_RETURN(const LayoutSpec layout, LayoutFor(AttributesOf(function_, "arg_attrs", a),
                                                                   argument.type, function_.at));
      Bound bound;
      if (is_variable_[a]) bound.value = graph_.Var(argument_names_[a], ZerosOf(*type), layout, site);
      else bound.value = graph_.Input(argument_names_[a], type->dtype, type->shape, layout, site);
      if (!graph_.errors().empty()) return reader_.FailAt(function_.at, graph_.errors()[0]);
      bound.type = argument.type;
      arguments.push_back(std::move(bound));
    }
    return arguments;
  }

  absl::Status Return(const Bounds& results) {
    const SourceLocation location = reader_.LocationOf(function_.regions[0].ops.back());
    const CallSite site(location.file.c_str(), location.line);
    for (size_t r = 0; r < results.size(); ++r) {
      Value value = reader_.Materialize(graph_, results[r]);
      MESHWORK_ASSIGN_OR_RETURN(const LayoutSpec layout, LayoutFor(AttributesOf(function_, "res_attrs", r),
                                                                   results[r].type, function_.at));
      if (!layout.empty()) value = Relayout({value, site}, layout);
      const auto updated = std::find(update_of_.begin(), update_of_.end(), r);
      if (updated == update_of_.end()) {
        graph_.Output(result_names_[r], value, site);
        continue;
      }
      const int argument =
          graph_.FindArgument(argument_names_[static_cast<size_t>(updated - update_of_.begin())]);
      graph_.Update(Variable(&graph_, graph_.arguments()[static_cast<size_t>(argument)].value), value, site);
    }
    return absl::OkStatus();
  }

  ModuleReader& reader_;
  const Op& function_;
  const ReadStableHloOptions& options_;
  Graph graph_;
  size_t num_arguments_;
  std::vector<std::string> argument_names_, result_names_;
  std::vector<std::optional<size_t>> update_of_;  // per argument, the result
  std::vector<bool> is_variable_;
};

}  // namespace

std::vector<std::string> OpsOfStableHlo() {
  std::vector<std::string> names;
  for (const auto& [name, read] : mlir::AllReadOps()) names.emplace_back(name);
  return names;
}

std::string NameOfPath(std::string_view path) {
  std::string name;
  const auto begin_part = [&] {
    if (!name.empty() && name.back() != '/') name += '/';
  };
  for (const char c : path) {
    if (c == '[' || c == '.' || c == '/') begin_part();
    else if (absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-') name += c;
    else if (c != ']' && c != '\'' && c != '"') name += '_';
  }
  while (name.ends_with('/')) name.pop_back();
  return name;
}

absl::StatusOr<Graph> ReadStableHlo(std::string_view text, const ReadStableHloOptions& options) {
  MESHWORK_ASSIGN_OR_RETURN(const mlir::Module module, mlir::ParseModule(text, options.file_name));
  ModuleReader reader(module, text, options.file_name, options.recompute_scans);
  std::set<std::string> functions;
  for (const Op& op : module.op.regions[0].ops)
    if (const Attribute* const symbol = op.attributes.Find("sym_name");
        op.name == "func.func" && symbol != nullptr && !functions.insert(symbol->text).second)
      return reader.FailAt(op.at, fmt::format("there are two functions @{}.", symbol->text));
  const Op* const main = reader.FindFunction("main");
  if (main == nullptr || main->regions[0].ops.empty())
    return reader.FailAt(module.op.at, "the module has no function @main.");
  absl::StatusOr<std::optional<Mesh>> mesh = options.mesh;
  if (!options.mesh.has_value()) mesh = mlir::MeshOf(module);
  if (!mesh.ok()) return reader.FailAt(module.op.at, MessageOf(mesh.status()));
  return MainReader(reader, *main, options, mesh->value_or(Mesh::Parse("device=1").value())).Read();
}

}  // namespace meshwork

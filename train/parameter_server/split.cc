#include "meshwork/train/parameter_server/split.h"

#include <algorithm>
#include <map>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/mesh/mesh.h"
#include "meshwork/ops/control/live_values.h"
#include "meshwork/train/parameter_server/server_program.h"
#include "meshwork/train/parameter_server/sparse_rows.h"
#include "meshwork/train/parameter_server/update_facts.h"
#include "meshwork/train/parameter_server/update_plan.h"
#include "meshwork/train/parameter_server/worker_program.h"

namespace meshwork {
namespace {

class Splitter {
 public:
  Splitter(const Graph& graph, const SplitOptions& options)
      : graph_(graph), options_(options), facts_(graph) {}

  absl::StatusOr<TrainingSplit> Run() {
    MESHWORK_ASSIGN_OR_RETURN(plan_, PlanUpdates(facts_, options_.partitioner));
    MESHWORK_RETURN_IF_ERROR(Place());
    NamePushed();
    Graph marked = graph_;
    marked.ClearUpdates();
    for (const auto& [value, name] : outputs_) marked.AddOutput({name, value});
    const std::vector<bool> live = LiveValues(marked);
    if (options_.sparse_rows) tables_ = FindSparseTables(facts_, plan_, live);
    NameIds();
    TrainingSplit split{.worker = WorkerProgram(graph_, live, marked.outputs(), tables_, ids_),
                        .ids = IdsProgram(graph_, ids_),
                        .sparse = {},
                        .servers = {},
                        .pieces = {},
                        .pushed = {},
                        .variables = Variables()};
    MESHWORK_RETURN_IF_ERROR(AddSparse(split));
    MESHWORK_RETURN_IF_ERROR(AddServers(split));
    AddPieces(split);
    return split;
  }

 private:
  struct PlaceOfPiece {
    RowRange rows;
    std::string suffix;
    int64_t server = 0;
  };

  const ValueInfo& InfoOf(int a) const {
    return graph_.value(graph_.arguments()[static_cast<size_t>(a)].value);
  }

  absl::Status Place() {
    std::vector<int64_t> bytes;
    for (const VariableGroup& group : plan_.groups) {
      const Shape& shape = InfoOf(group.lead).type.shape;
      places_.emplace_back();
      int64_t row_bytes = 0, all_bytes = 0;
      for (int a : group.arguments) {
        const Type& type = InfoOf(a).type;
        all_bytes += type.bytes();
        if (group.pieces > 1) row_bytes += type.bytes() / shape[0];
      }
      const std::vector<RowRange> rows = RowsOfPieces(shape.empty() ? 1 : shape[0], group.pieces);
      for (size_t p = 0; p < rows.size(); ++p) {
        places_.back().push_back({rows[p], group.pieces == 1 ? "" : fmt::format("/part_{}", p)});
        bytes.push_back(group.pieces == 1 ? all_bytes : rows[p].size() * row_bytes);
      }
    }
    MESHWORK_ASSIGN_OR_RETURN(const std::vector<int64_t> servers, PlacePieces(bytes, options_.num_servers));
    size_t next = 0;
    for (std::vector<PlaceOfPiece>& group : places_)
      for (PlaceOfPiece& place : group) place.server = servers[next++];
    return absl::OkStatus();
  }

  // Whether servers compute `root` from `value`.
  bool Reaches(const VariableGroup& group, ValueId root, ValueId value) const {
    std::vector<ValueId> stack = {root};
    std::vector<bool> seen(graph_.values().size(), false);
    while (!stack.empty()) {
      const ValueId at = stack.back();
      stack.pop_back();
      if (at == value) return true;
      if (at == kNoValue || seen[static_cast<size_t>(at)]) continue;
      seen[static_cast<size_t>(at)] = true;
      const int n = graph_.value(at).node;
      if (n < 0 || std::binary_search(group.pushed.begin(), group.pushed.end(), at)) continue;
      for (ValueId id : graph_.nodes()[static_cast<size_t>(n)].operands) stack.push_back(id);
    }
    return false;
  }

  // Names of pushed values, without the piece: that of the first variable which is updated by the value and
  // names no other.
  void NamePushed() {
    names_.resize(plan_.groups.size() + 1);
    std::string scalars = "values/";
    const auto is_named = [&](const Argument& argument) {
      return graph_.value(argument.value).name.starts_with(scalars);
    };
    while (std::any_of(graph_.arguments().begin(), graph_.arguments().end(), is_named))
      scalars = "_" + scalars;
    const auto name_whole = [&](ValueId value) {
      const auto [found, is_new] = whole_.try_emplace(value, "");
      if (is_new) found->second = fmt::format("{}{}", scalars, whole_.size() - 1);
      return found->second;
    };
    for (size_t i = 0; i < plan_.groups.size(); ++i) {
      const VariableGroup& group = plan_.groups[i];
      std::vector<int> order = {group.lead};
      for (int a : group.arguments)
        if (a != group.lead) order.push_back(a);
      std::vector<bool> is_taken(graph_.arguments().size(), false);
      int more = 2;
      for (ValueId value : group.pushed) {
        const Type& type = graph_.value(value).type;
        if (type.rank() == 0 && InfoOf(group.lead).type.rank() > 0) {
          names_[i][value] = name_whole(value);
          continue;
        }
        const auto found = std::find_if(order.begin(), order.end(), [&](int a) {
          const ValueId root = facts_.updates[static_cast<size_t>(a)];
          return !is_taken[static_cast<size_t>(a)] && root != kNoValue && Reaches(group, root, value);
        });
        if (found != order.end()) {
          is_taken[static_cast<size_t>(*found)] = true;
          names_[i][value] = InfoOf(*found).name;
        } else {
          names_[i][value] = fmt::format("{}/values_{}", InfoOf(group.lead).name, more++);
        }
      }
    }
    for (ValueId value : plan_.shared.pushed) names_.back()[value] = name_whole(value);
    for (const auto& names : names_)
      for (const auto& [value, name] : names) outputs_.try_emplace(value, "");
    std::string prefix = "push/";
    const auto is_taken = [&](const OutputInfo& output) { return output.name.starts_with(prefix); };
    while (std::any_of(graph_.outputs().begin(), graph_.outputs().end(), is_taken)) prefix = "_" + prefix;
    for (auto& [value, name] : outputs_) name = fmt::format("{}{}", prefix, value);
  }

  void NameIds() {
    std::string prefix = "ids/";
    const auto is_taken = [&](const Argument& argument) {
      return graph_.value(argument.value).name.starts_with(prefix);
    };
    while (std::any_of(graph_.arguments().begin(), graph_.arguments().end(), is_taken)) prefix = "_" + prefix;
    for (size_t t = 0; t < tables_.size(); ++t)
      for (size_t i = 0; i < tables_[t].ids.size(); ++i)
        ids_.emplace_back(tables_[t].ids[i], fmt::format("{}{}/{}", prefix, t, i));
  }

  const SparseTable* TableOf(size_t group) const {
    const auto found = std::find_if(tables_.begin(), tables_.end(),
                                    [&](const SparseTable& table) { return table.group == group; });
    return found == tables_.end() ? nullptr : &*found;
  }

  absl::Status AddSparse(TrainingSplit& split) const {
    size_t next = 0;
    for (const SparseTable& table : tables_) {
      const ValueInfo& info = InfoOf(table.argument);
      ServerProgram program(facts_, fmt::format("rows_of_{}", info.name));
      MESHWORK_RETURN_IF_ERROR(program.AddRows(plan_.groups[table.group], names_[table.group]));
      MESHWORK_ASSIGN_OR_RETURN(Graph update, std::move(program).Finish());
      SparseVariable sparse{info.name, info.type.shape[0], table.capacity, {}, {}, std::move(update)};
      for (size_t i = 0; i < table.ids.size(); ++i) sparse.ids.push_back(ids_[next++].second);
      for (int a : plan_.groups[table.group].arguments) sparse.kept.push_back(graph_.argument_name(a));
      split.sparse.push_back(std::move(sparse));
    }
    return absl::OkStatus();
  }

  Graph Variables() const {
    Graph variables(Mesh::VirtualCpus("server=1").value());
    variables.name = "variables";
    for (const Argument& argument : graph_.arguments()) {
      if (!argument.is_variable) continue;
      const ValueInfo& info = graph_.value(argument.value);
      const LocationScope scope(variables, info.location);
      variables.Var(info.name, argument.initializer.value_or(Initializer{.type = info.type}));
    }
    return variables;
  }

  absl::Status AddServers(TrainingSplit& split) {
    for (int64_t s = 0; s < options_.num_servers; ++s) {
      ServerProgram program(facts_, fmt::format("server_{}", s));
      MESHWORK_RETURN_IF_ERROR(program.AddShared(plan_.shared, names_.back()));
      AddPushed(plan_.shared, names_.back(), {{0, 1}, "", s}, split);
      for (size_t i = 0; i < plan_.groups.size(); ++i) {
        for (const PlaceOfPiece& place : places_[i]) {
          if (place.server != s) continue;
          std::map<ValueId, std::string> names;
          for (const auto& [value, name] : names_[i])
            names[value] = whole_.contains(value) ? name : name + place.suffix;
          const SparseTable* const table = TableOf(i);
          if (table != nullptr) program.AddKept(plan_.groups[i], place.rows, place.suffix);
          else MESHWORK_RETURN_IF_ERROR(program.Add(plan_.groups[i], place.rows, place.suffix, names));
          AddPushed(plan_.groups[i], names, place, split, table);
        }
      }
      MESHWORK_ASSIGN_OR_RETURN(Graph graph, std::move(program).Finish());
      split.servers.push_back(std::move(graph));
    }
    return absl::OkStatus();
  }

  void AddPushed(const VariableGroup& group, const std::map<ValueId, std::string>& names,
                 const PlaceOfPiece& place, TrainingSplit& split, const SparseTable* table = nullptr) const {
    for (const auto& [value, name] : names) {
      Type type = graph_.value(value).type;
      RowRange rows{0, type.rank() == 0 ? 1 : type.shape[0]};
      if (group.pieces > 1 && type.rank() > 0) rows = place.rows, type.shape[0] = rows.size();
      const bool is_there = std::any_of(
          split.pushed.begin(), split.pushed.end(),
          [&, &n = name](const PushedRows& p) { return p.server == place.server && p.name == n; });
      if (!is_there)
        split.pushed.push_back(
            {name, outputs_.at(value), rows, type, place.server, table != nullptr && type.rank() > 0});
    }
  }

  void AddPieces(TrainingSplit& split) const {
    for (size_t a = 0; a < facts_.kinds.size(); ++a) {
      if (facts_.kinds[a] == ArgumentKind::kInput) continue;
      const ValueInfo& info = InfoOf(static_cast<int>(a));
      const bool is_read = split.worker.FindArgument(info.name) >= 0;
      if (facts_.kinds[a] == ArgumentKind::kShared) {
        for (int64_t s = 0; s < options_.num_servers; ++s)
          split.pieces.push_back({info.name, info.name, {0, 1}, info.type, s, is_read && s == 0});
        continue;
      }
      for (size_t i = 0; i < plan_.groups.size(); ++i) {
        const std::vector<int>& members = plan_.groups[i].arguments;
        if (!std::binary_search(members.begin(), members.end(), static_cast<int>(a))) continue;
        for (const PlaceOfPiece& place : places_[i]) {
          Type type = info.type;
          RowRange rows{0, type.rank() == 0 ? 1 : type.shape[0]};
          if (plan_.groups[i].pieces > 1) rows = place.rows, type.shape[0] = rows.size();
          split.pieces.push_back({info.name + place.suffix, info.name, rows, type, place.server, is_read,
                                  is_read && TableOf(i) != nullptr});
        }
      }
    }
  }

  const Graph& graph_;
  const SplitOptions& options_;
  const UpdateFacts facts_;
  UpdatePlan plan_;
  std::vector<std::vector<PlaceOfPiece>> places_;      // per group and piece
  std::vector<std::map<ValueId, std::string>> names_;  // per group, then of the shared scalars
  std::map<ValueId, std::string> whole_;               // scalars that go to several groups
  std::map<ValueId, std::string> outputs_;             // of the worker's program
  std::vector<SparseTable> tables_;
  std::vector<std::pair<ValueId, std::string>> ids_;  // of the tables, one after the other
};

}  // namespace

std::string PushInput(std::string_view name) { return fmt::format("push/{}", name); }
std::string RowsOf(std::string_view name) { return fmt::format("rows/{}", name); }
std::string SharedInput(std::string_view name) { return fmt::format("shared/{}", name); }

absl::StatusOr<TrainingSplit> SplitTraining(const Graph& graph, const SplitOptions& options) {
  MESHWORK_RETURN_IF_ERROR(graph.status());
  if (graph.updates().empty())
    return InvalidArgument(
        "SplitTraining: the program \"{}\" updates no variable, so there is nothing for servers to do; call Minimize.",
        graph.name);
  return Splitter(graph, options).Run();
}

}  // namespace meshwork

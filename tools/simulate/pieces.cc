#include "meshwork/tools/simulate/pieces.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "fmt/ranges.h"
#include "meshwork/base/hash.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/plan/storage.h"
#include "meshwork/ir/program.h"
#include "meshwork/ir/readers.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/text.h"
#include "meshwork/mesh/placement.h"
#include "meshwork/runtime/plan/sharing.h"

namespace meshwork {
namespace {

// The mesh of the devices of one domain: axes that lead to others have size 1. Axes keep their positions.
// REQUIRES: a mesh of at most Mesh::kMaxAxes axes.
Mesh MeshWithin(const Domain& domain) {
  const AxisSet across = domain.placement().across();
  std::vector<Axis> axes;
  for (int a = 0; a < domain.mesh().num_axes(); ++a)
    axes.push_back(
        {.name = fmt::format("a{}", a), .size = across.Contains(a) ? 1 : domain.mesh().axis(a).size});
  return Mesh::Create(std::move(axes)).value();
}

// The value on the mesh of the domain alone; nothing if its layout is strided.
std::optional<ValueInfo> InfoWithin(const ValueInfo& info, const Mesh& mesh, AxisSet across) {
  if (info.layout->is_strided()) return std::nullopt;
  const auto stays = [&](int axis) { return !across.Contains(axis); };
  ValueInfo within = info;
  std::vector<AxisList> dims;
  for (int d = 0; d < info.layout->rank(); ++d) {
    AxisList& dim = dims.emplace_back();
    for (int axis : info.layout->dim(d))
      if (stays(axis)) dim.push_back(axis);
    within.global.shape[static_cast<size_t>(d)] =
        info.type.shape[static_cast<size_t>(d)] * mesh.GroupSize(dim);
  }
  PartialSet partials;
  for (const Partial& partial : info.layout->partials())
    if (stays(partial.axis)) partials.push_back(partial);
  within.layout = Layout(mesh, std::move(dims), std::move(partials));
  return within;
}

class Cutter {
 public:
  explicit Cutter(const Schedule& schedule)
      : schedule_(schedule),
        local_(*schedule.graph),
        across_(schedule.domain.placement().across()),
        mesh_(schedule.domain.is_only() || TooFine() ? local_.mesh() : MeshWithin(schedule.domain)),
        contents_(FindContents(local_)),
        readers_(ReadersOf(local_, contents_)),
        instruction_of_(local_.nodes().size(), -1) {}

  Pieces Cut() {
    const size_t count = schedule_.instructions.size();
    if (TooFine()) return {.of = std::vector<int>(count, -1)};
    for (size_t i = 0; i < count; ++i)
      for (int node : NodesOf(schedule_.instructions[i]))
        instruction_of_[static_cast<size_t>(node)] = static_cast<int>(i);
    for (const Instruction& instruction : schedule_.once)
      for (const KernelStep& step : instruction.steps)
        instruction_of_[static_cast<size_t>(step.node)] = kOnce;
    together_.resize(count);
    std::iota(together_.begin(), together_.end(), 0);
    JoinByPartialValues();
    std::vector<int> last(count);  // by the first instruction of a piece
    for (size_t i = 0; i < count; ++i)
      last[static_cast<size_t>(FirstOf(static_cast<int>(i)))] = static_cast<int>(i);
    const auto last_of = [&](int instruction) { return last[static_cast<size_t>(FirstOf(instruction))]; };
    std::map<int, std::vector<int>> nodes;  // by the last instruction of a piece
    for (size_t n = 0; n < instruction_of_.size(); ++n)
      if (instruction_of_[n] >= 0) nodes[last_of(instruction_of_[n])].push_back(static_cast<int>(n));
    Pieces pieces{.of = std::vector<int>(count, -1)};
    std::map<int, int> piece_of;
    for (const auto& [end, members] : nodes) {
      std::optional<Piece> piece = PieceOf(members);
      if (!piece.has_value()) continue;
      piece_of[end] = static_cast<int>(pieces.all.size());
      pieces.all.push_back(*std::move(piece));
    }
    for (size_t i = 0; i < count; ++i)
      if (const auto at = piece_of.find(last_of(static_cast<int>(i))); at != piece_of.end())
        pieces.of[i] = at->second;
    return pieces;
  }

 private:
  bool TooFine() const {
    return !schedule_.domain.is_only() && schedule_.graph->mesh().num_axes() > Mesh::kMaxAxes;
  }

  // The nodes that the instruction computes: those of a kernel, or a collective within the domain.
  std::vector<int> NodesOf(const Instruction& instruction) const {
    std::vector<int> nodes;
    for (const KernelStep& step : instruction.steps) {
      nodes.push_back(step.node);
      if (step.reduces >= 0) nodes.push_back(step.reduces);
    }
    if (instruction.kind == Instruction::Kind::kCollective && instruction.calls.empty() &&
        (schedule_.domain.is_only() ||
         !MovesOver(local_, local_.nodes()[static_cast<size_t>(instruction.node)], across_)))
      nodes.push_back(instruction.node);
    return nodes;
  }

  int FirstOf(int instruction) const {
    while (together_[static_cast<size_t>(instruction)] != instruction)
      instruction = together_[static_cast<size_t>(instruction)];
    return instruction;
  }

  bool Owes(ValueId value) const {
    for (const Partial& partial : local_.value(value).layout->partials())
      if (!across_.Contains(partial.axis) && local_.mesh().axis(partial.axis).size > 1) return true;
    return false;
  }

  // The instruction that computes the value, or the value that it is a view of; -1: none; or kOnce.
  int Computes(ValueId value) const {
    const int node = local_.value(contents_[value]).node;
    return node < 0 ? -1 : instruction_of_[static_cast<size_t>(node)];
  }

  void JoinByPartialValues() {
    for (size_t n = 0; n < local_.nodes().size(); ++n) {
      if (instruction_of_[n] < 0) continue;
      for (ValueId operand : local_.nodes()[n].operands) {
        const int from = Computes(operand);
        if (from < 0 || !Owes(operand)) continue;
        const int a = FirstOf(from), b = FirstOf(instruction_of_[n]);
        together_[static_cast<size_t>(std::max(a, b))] = std::min(a, b);
      }
    }
  }

  // Values computed by these nodes that something else reads.
  std::vector<ValueId> ReadOutside(const std::set<int>& members) const {
    std::set<ValueId> read;
    for (int n : members)
      for (ValueId result : local_.nodes()[static_cast<size_t>(n)].results) {
        const auto is_outside = [&](const Readers::Reader& reader) {
          return !local_.nodes()[static_cast<size_t>(reader.node)].row->is_view &&
                 !members.contains(reader.node);
        };
        if (readers_.exits(result) > 0 ||
            std::any_of(readers_[result].begin(), readers_[result].end(), is_outside))
          read.insert(result);
      }
    return {read.begin(), read.end()};
  }

  // A copy of these nodes as a piece; nothing if an input or output would have a pending sum, or a layout that does
  // not fit the mesh of the domain.
  std::optional<Piece> PieceOf(const std::vector<int>& nodes) const {
    const std::set<int> members(nodes.begin(), nodes.end());
    Piece piece{.program = Graph(mesh_)};
    piece.program.name = "piece";
    piece.outputs = ReadOutside(members);
    if (piece.outputs.empty()) return std::nullopt;
    std::map<ValueId, ValueId> map;
    for (int n : nodes)
      for (ValueId operand : local_.nodes()[static_cast<size_t>(n)].operands)
        if (!map.contains(operand) && !members.contains(local_.value(contents_[operand]).node) &&
            Computes(operand) != kOnce && !AddInput(operand, piece, map))
          return std::nullopt;
    for (int n : nodes)
      if (!AddNode(n, piece.program, map)) return std::nullopt;
    for (size_t o = 0; o < piece.outputs.size(); ++o) {
      if (Owes(piece.outputs[o])) return std::nullopt;
      piece.program.AddOutput({fmt::format("o{}", o), map.at(piece.outputs[o])});
    }
    FindInPlace(nodes, piece);
    piece.key = KeyOf(nodes, piece);
    return piece;
  }

  std::optional<ValueInfo> InfoOf(ValueId value) const {
    const ValueInfo& info = local_.value(value);
    return schedule_.domain.is_only() ? info : InfoWithin(info, mesh_, across_);
  }

  bool AddInput(ValueId value, Piece& piece, std::map<ValueId, ValueId>& map) const {
    std::optional<ValueInfo> info = InfoOf(value);
    if (!info.has_value() || Owes(value)) return false;
    *info = {.name = fmt::format("i{}", piece.inputs.size()),
             .type = info->type,
             .global = info->global,
             .layout = info->layout};
    map[value] = piece.program.AddArgument(*std::move(info), /*is_variable=*/false);
    piece.inputs.push_back(value);
    return true;
  }

  // Copies the node, together with the views and constants before it that it reads.
  bool AddNode(int n, Graph& to, std::map<ValueId, ValueId>& map) const {
    const Node& node = local_.nodes()[static_cast<size_t>(n)];
    Node copy{.row = node.row, .attrs = node.attrs};
    for (ValueId operand : node.operands) {
      if (!map.contains(operand) && !AddNode(local_.value(operand).node, to, map)) return false;
      copy.operands.push_back(map[operand]);
    }
    std::vector<ValueInfo> infos;
    for (ValueId result : node.results) {
      std::optional<ValueInfo> info = InfoOf(result);
      if (!info.has_value()) return false;
      infos.push_back({.type = info->type, .global = info->global, .layout = info->layout});
    }
    // A layout in an attribute is on the mesh of all domains, so the node cannot be copied.
    if (!schedule_.domain.is_only())
      for (const auto& [name, value] : node.attrs.entries())
        if (std::holds_alternative<LayoutPin>(value)) return false;
    const int added = to.AddNode(std::move(copy), std::move(infos));
    for (size_t r = 0; r < node.results.size(); ++r)
      map[node.results[r]] = to.nodes()[static_cast<size_t>(added)].results[r];
    return true;
  }

  int StorageOf(ValueId value, const std::vector<int>& nodes) const {
    for (int n : nodes) {
      const Node& node = local_.nodes()[static_cast<size_t>(n)];
      const int i = instruction_of_[static_cast<size_t>(n)];
      for (const KernelStep& step : schedule_.instructions[static_cast<size_t>(i)].steps) {
        if (step.node != n) continue;
        for (size_t o = 0; o < node.operands.size(); ++o)
          if (node.operands[o] == value) return schedule_.buffers[step.buffers[o].buffer].storage;
        for (size_t r = 0; r < node.results.size(); ++r)
          if (node.results[r] == value)
            return schedule_.buffers[step.buffers[static_cast<size_t>(step.num_in) + r].buffer].storage;
      }
    }
    return -1;
  }

  void FindInPlace(const std::vector<int>& nodes, Piece& piece) const {
    std::set<std::string> taken;
    for (size_t o = 0; o < piece.outputs.size(); ++o) {
      const ValueInfo& out = local_.value(piece.outputs[o]);
      const int storage = StorageOf(piece.outputs[o], nodes);
      for (size_t i = 0; i < piece.inputs.size() && storage >= 0; ++i) {
        const ValueInfo& in = local_.value(piece.inputs[i]);
        const std::string name = fmt::format("i{}", i);
        if (in.global != out.global || in.layout->WithoutTrivialAxes() != out.layout->WithoutTrivialAxes() ||
            StorageOf(piece.inputs[i], nodes) != storage || !taken.insert(name).second)
          continue;
        piece.in_place[fmt::format("o{}", o)] = name;
        break;
      }
    }
  }

  std::string KeyOf(const std::vector<int>& nodes, const Piece& piece) const {
    constexpr size_t kNamed = 4;
    std::vector<std::string> ops, types;
    for (int n : nodes)
      if (ops.size() < kNamed) ops.emplace_back(local_.nodes()[static_cast<size_t>(n)].row->name);
    if (nodes.size() > kNamed) ops.back() = fmt::format("{} more", nodes.size() - kNamed + 1);
    for (ValueId input : piece.inputs)
      if (types.size() < kNamed) types.push_back(local_.value(input).type.ToString());
    std::string text = PrintGraph(piece.program);
    for (const auto& [output, input] : piece.in_place) text += fmt::format("{} over {}\n", output, input);
    return fmt::format("{} {} #{:016x}", fmt::join(ops, "+"), fmt::join(types, " "), StableHash(text));
  }

  const Schedule& schedule_;
  const Graph& local_;
  const AxisSet across_;
  const Mesh mesh_;
  const std::vector<ValueId> contents_;
  const Readers readers_;            // of contents
  static constexpr int kOnce = -2;   // before the first step
  std::vector<int> instruction_of_;  // per node; -1: none; or kOnce
  std::vector<int> together_;        // per instruction: another one of its piece, or itself, the first
};

}  // namespace

Pieces CutPieces(const Schedule& schedule) { return Cutter(schedule).Cut(); }

}  // namespace meshwork

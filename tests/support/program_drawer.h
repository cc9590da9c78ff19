// What random programs of every kind are drawn with: dice, meshes, layouts and pins, outputs.
//
//   class CatDrawer : ProgramDrawer {
//    public:
//     explicit CatDrawer(uint64_t seed) : ProgramDrawer(seed) {}
//     RandomProgram Draw() && { …; AddOutputs(); return TakeProgram(); }
//   };
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "meshwork/ir/graph.h"

namespace meshwork {

struct RandomProgram {
  Graph graph;
  std::map<std::string, std::vector<double>> feeds;  // a number per element of every argument
};

// The program that is drawn is in the drawer, which must not move while it is built.
class ProgramDrawer {
 protected:
  explicit ProgramDrawer(uint64_t seed, std::span<const std::string_view> meshes = kMeshes)
      : engine_(seed), program_{Graph(Mesh::Parse(meshes[Below(meshes.size())]).value()), {}} {
    root().name = "random";
  }
  ProgramDrawer(const ProgramDrawer&) = delete;
  ProgramDrawer& operator=(const ProgramDrawer&) = delete;

  Graph& root() { return program_.graph; }
  // The graph to which ops are added: the program, or the body of a loop that is being drawn.
  Graph& graph() { return *graphs_.back(); }
  const Graph& graph() const { return *graphs_.back(); }
  // How many loops are around what is drawn.
  size_t depth() const { return graphs_.size() - 1; }
  void EnterBody(Graph& body) { graphs_.push_back(&body); }
  void LeaveBody() { graphs_.pop_back(); }

  std::mt19937_64& engine() { return engine_; }
  uint64_t Below(uint64_t n) { return engine_() % n; }
  bool Chance(uint64_t percent) { return Below(100) < percent; }
  template <typename List>
  const auto& Pick(const List& list) {
    return list[Below(std::size(list))];
  }
  std::map<std::string, std::vector<double>>& feeds() { return program_.feeds; }
  RandomProgram TakeProgram() { return std::move(program_); }
  // In [low, high).
  double Uniform(double low, double high) {
    return low + (high - low) * static_cast<double>(engine_() >> 11) * 0x1p-53;
  }

  // Puts each axis on some dim, as major or minor axis, or on none; now and then a dim is strided.
  Layout DrawLayout(const Type& type) {
    std::vector<FactorList> dims;
    for (int64_t size : type.shape) {
      const int64_t inner = 2 + static_cast<int64_t>(Below(2));
      if (Chance(10) && size > inner && size % inner == 0) dims.push_back({{size / inner, {}}, {inner, {}}});
      else dims.push_back({{size, {}}});
    }
    for (int axis = 0; axis < graph().mesh().num_axes(); ++axis) {
      const size_t d = Below(dims.size() + 1);
      if (d == dims.size()) continue;
      AxisList& axes = dims[d][Below(dims[d].size())].axes;
      axes.insert(Chance(50) ? axes.begin() : axes.end(), axis);
    }
    return Layout::Strided(graph().mesh(), std::move(dims));
  }

  // A layout, some of its dims left to the compiler.
  LayoutPin DrawPin(const Type& type) {
    LayoutPin pin{DrawLayout(type)};
    if (!Chance(20) || type.rank() == 0 || pin.layout.is_strided()) return pin;
    pin.modes.assign(static_cast<size_t>(type.rank()), DimMode::kLocked);
    const int open = static_cast<int>(Below(static_cast<uint64_t>(type.rank())));
    pin.modes[static_cast<size_t>(open)] = DimMode::kOpen;
    pin.layout = pin.layout.WithDim(open, {});
    return pin;
  }

  void SetPin(ValueInfo& info) {
    LayoutPin pin = DrawPin(info.type);
    info.layout = std::move(pin.layout);
    info.modes = std::move(pin.modes);
  }

  // Outputs all values that nothing reads, and some others.
  void AddOutputs() {
    std::vector<bool> is_read(graph().values().size());
    for (const Node& node : graph().nodes())
      for (ValueId id : node.operands) is_read[id] = true;
    for (size_t id = 0; id < is_read.size(); ++id)
      if (!is_read[id] || Chance(20)) graph().AddOutput({fmt::format("y{}", id), static_cast<ValueId>(id)});
  }

 private:
  static constexpr std::string_view kMeshes[] = {"",        "x=2",         "x=3",     "x=4",      "x=5",
                                                 "x=1,y=2", "x=2,y=2",     "y=2,x=2", "x=2,y=3",  "x=3,y=2",
                                                 "x=4,y=2", "x=2,y=2,z=2", "x=2*2",   "x=2*3,y=2"};

  std::mt19937_64 engine_;
  RandomProgram program_;
  std::vector<Graph*> graphs_ = {&program_.graph};  // from the outside to the inside
};

}  // namespace meshwork

// Random global programs of all ops, for tests that hold for every program.
//
//   RandomPrograms programs;                      // reads the samples of every row
//   RandomProgram p = programs.Draw(/*seed=*/7);  // the same on every machine
//   Interpret(p.graph, p.feeds)
//
// A program applies samples of rows, in several sizes, to values of the right types: arguments, which lie
// anyhow, or what earlier nodes gave. So a new row is in these programs as soon as it has samples. Numbers
// stay comparable: an op that jumps, or wants numbers of a certain range, gets arguments, whose numbers are
// exact on every device.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "ops/graph.h"
#include "ops/row.h"
#include "support/sample.h"

namespace meshwork {

struct RandomProgram {
  Graph graph;
  std::map<std::string, std::vector<double>> feeds;  // a number per element of every argument
};

namespace internal {

inline constexpr std::string_view kRandomMeshes[] = {
    "", "x=2", "x=3", "x=5", "x=1,y=2", "y=2,x=2", "x=2,y=3", "x=4,y=2", "x=2,y=2,z=2", "x=2*2", "x=2*3,y=2"};

class ProgramDrawer {
 public:
  ProgramDrawer(const std::vector<Sample>& pool, uint64_t seed)
      : pool_(pool),
        engine_(seed),
        program_{Graph(Mesh::Parse(kRandomMeshes[Below(std::size(kRandomMeshes))]).value()), {}} {}

  RandomProgram Draw() && {
    graph().name = "random";
    for (uint64_t nodes = 1 + Below(8); nodes > 0; --nodes) AddNode();
    AddUpdates();
    AddOutputs();
    return std::move(program_);
  }

 private:
  Graph& graph() { return program_.graph; }
  uint64_t Below(uint64_t n) { return engine_() % n; }
  bool Chance(uint64_t percent) { return Below(100) < percent; }
  template <typename List>
  const auto& Pick(const List& list) {
    return list[Below(std::size(list))];
  }

  // Each axis on some dim, major or minor to what is there, or on none; now and then a dim is strided.
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

  // Few levels, so that ties occur and sums are exact or nearly so.
  double DrawNumber(DType dtype, const OpRow& row) {
    if (dtype == BOOL) return static_cast<double>(Below(2));
    if (IsInteger(dtype)) {
      const auto range = static_cast<uint64_t>(row.sample_int_high - row.sample_int_low);
      return static_cast<double>(row.sample_int_low + static_cast<int64_t>(Below(range)));
    }
    return row.sample_low + (row.sample_high - row.sample_low) * (static_cast<double>(Below(16)) + 0.5) / 16;
  }

  void SetPin(ValueInfo& info) {
    LayoutPin pin = DrawPin(info.type);
    info.layout = std::move(pin.layout);
    info.modes = std::move(pin.modes);
  }

  ValueId AddArgument(const Type& type, const OpRow& row) {
    const std::string name = fmt::format("a{}", graph().arguments().size());
    ValueInfo info{.name = name, .type = type, .global = type};
    if (Chance(80)) SetPin(info);
    const bool is_variable = Chance(30);
    for (int64_t i = 0; i < type.num_elements(); ++i)
      program_.feeds[name].push_back(DrawNumber(type.dtype, row));
    return graph().AddArgument(std::move(info), is_variable);
  }

  // Whether results follow operands without jumps, for operands of any size.
  static bool IsSmooth(const Sample& sample) {
    if (sample.row->kind == OpKind::kIdentity) return true;
    const bool own_range = sample.row->sample_low != -1 || sample.row->sample_high != 1;
    auto all_of = [&](DType dtype) {
      auto is = [&](const Type& type) { return type.dtype == dtype; };
      return std::all_of(sample.operands.begin(), sample.operands.end(), is) &&
             std::all_of(sample.results.begin(), sample.results.end(), is);
    };
    return sample.row->grad != nullptr && !own_range && (all_of(F32) || all_of(F64));
  }

  ValueId DrawOperand(const Type& type, const Sample& sample) {
    std::vector<ValueId> fitting;
    for (size_t id = 0; id < graph().values().size(); ++id) {
      const ValueInfo& info = graph().values()[id];
      if (info.type != type || !IsSmooth(sample)) continue;
      fitting.push_back(static_cast<ValueId>(id));
    }
    return !fitting.empty() && Chance(80) ? Pick(fitting) : AddArgument(type, *sample.row);
  }

  // A sample that reads what is there, if a few draws find one.
  const Sample& DrawSample() {
    const Sample* best = nullptr;
    size_t most = 0;
    for (int i = 0; i < 6; ++i) {
      const Sample& sample = Pick(pool_);
      size_t known = 0;
      for (const Type& type : sample.operands)
        for (const ValueInfo& info : graph().values()) known += IsSmooth(sample) && info.type == type;
      if (best != nullptr && known <= most) continue;
      best = &sample;
      most = known;
    }
    return *best;
  }

  void AddNode() {
    const Sample& sample = DrawSample();
    std::vector<ValueId> operands;
    for (const Type& type : sample.operands) operands.push_back(DrawOperand(type, sample));
    Attrs attrs = sample.attrs;
    for (const auto& [name, value] : sample.attrs.entries())
      if (std::holds_alternative<LayoutPin>(value)) attrs.Set(name, DrawPin(sample.operands[0]));
    const int node = graph().TryAdd(*sample.row, operands, attrs, {"random", 1}).value();
    for (ValueId id : graph().nodes()[node].results) {
      ValueInfo& info = graph().mutable_value(id);
      if (Chance(25)) SetPin(info);
      if (Chance(20)) info.name = fmt::format("layer.{}/h-{}", node, id);
    }
  }

  void AddUpdates() {
    for (size_t i = 0; i < graph().arguments().size(); ++i) {
      if (!graph().arguments()[i].is_variable) continue;
      std::vector<ValueId> fitting;
      for (size_t id = 0; id < graph().values().size(); ++id)
        if (graph().values()[id].type == graph().value(graph().arguments()[i].value).type)
          fitting.push_back(static_cast<ValueId>(id));
      if (Chance(80)) graph().AddUpdate({static_cast<int>(i), Pick(fitting)});
    }
  }

  // What nothing reads, and some of the rest.
  void AddOutputs() {
    std::vector<bool> is_read(graph().values().size());
    for (const Node& node : graph().nodes())
      for (ValueId id : node.operands) is_read[id] = true;
    for (size_t id = 0; id < is_read.size(); ++id)
      if (!is_read[id] || Chance(20)) graph().AddOutput({fmt::format("y{}", id), static_cast<ValueId>(id)});
  }

  const std::vector<Sample>& pool_;
  std::mt19937_64 engine_;
  RandomProgram program_;
};

}  // namespace internal

class RandomPrograms {
 public:
  RandomPrograms() {
    for (const OpRow* row : RowsUnderContract()) {
      for (std::string_view text : row->samples) {
        const Sample sample = ParseSample(*row, text).value();
        pool_.push_back(sample);
        for (int64_t size : {1, 3, 5, 7, 12})
          if (auto resized = Resize(sample, std::vector<int64_t>(sample.rule().letters.size(), size)))
            pool_.push_back(*std::move(resized));
      }
    }
  }

  RandomProgram Draw(uint64_t seed) const { return internal::ProgramDrawer(pool_, seed).Draw(); }

 private:
  std::vector<Sample> pool_;
};

}  // namespace meshwork

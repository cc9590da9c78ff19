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
#include <optional>
#include <string>
#include <vector>

#include "ops/graph.h"
#include "ops/row.h"
#include "support/program_drawer.h"
#include "support/sample.h"

namespace meshwork {

namespace internal {

class RowsDrawer : ProgramDrawer {
 public:
  RowsDrawer(const std::vector<Sample>& pool, uint64_t seed) : ProgramDrawer(seed), pool_(pool) {}

  RandomProgram Draw() && {
    for (uint64_t nodes = 1 + Below(8); nodes > 0; --nodes) AddNode();
    AddUpdates();
    AddOutputs();
    return TakeProgram();
  }

 private:
  // Few levels, so that ties occur and sums are exact or nearly so.
  double DrawNumber(DType dtype, const OpRow& row) {
    if (dtype == BOOL) return static_cast<double>(Below(2));
    if (IsInteger(dtype)) {
      const auto range = static_cast<uint64_t>(row.sample_int_high - row.sample_int_low);
      return static_cast<double>(row.sample_int_low + static_cast<int64_t>(Below(range)));
    }
    return row.sample_low + (row.sample_high - row.sample_low) * (static_cast<double>(Below(16)) + 0.5) / 16;
  }

  ValueId AddArgument(const Type& type, const OpRow& row) {
    const std::string name = fmt::format("a{}", graph().arguments().size());
    ValueInfo info{.name = name, .type = type, .global = type};
    if (Chance(80)) SetPin(info);
    const bool is_variable = Chance(30);
    if (is_variable && Chance(40)) info.gather = Gathering::kOnUse;
    for (int64_t i = 0; i < type.num_elements(); ++i) feeds()[name].push_back(DrawNumber(type.dtype, row));
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
      if (Chance(10)) info.gather = Gathering::kAllowed;
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

  const std::vector<Sample>& pool_;
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

  RandomProgram Draw(uint64_t seed) const { return internal::RowsDrawer(pool_, seed).Draw(); }

 private:
  std::vector<Sample> pool_;
};

}  // namespace meshwork

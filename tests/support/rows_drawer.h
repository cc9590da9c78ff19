// Draws a program of samples of rows: each is applied to values of the right types. See random_program.h.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/ir/pull_back.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/ops.h"
#include "support/program_drawer.h"
#include "support/sample.h"

namespace meshwork {

class RowsDrawer : protected ProgramDrawer {
 public:
  RowsDrawer(const std::vector<Sample>& pool, uint64_t seed) : ProgramDrawer(seed), pool_(pool) {}
  RowsDrawer(const std::vector<Sample>& pool, uint64_t seed, std::span<const std::string_view> meshes)
      : ProgramDrawer(seed, meshes), pool_(pool) {}

  RandomProgram Draw() && {
    for (uint64_t nodes = 1 + Below(8); nodes > 0; --nodes) AddNode();
    if (Chance(12)) AddWidened();
    AddUpdates();
    AddOutputs();
    return TakeProgram();
  }

 protected:
  // Numbers of few levels, so that ties occur and sums are exact or nearly so.
  double DrawNumber(DType dtype, const OpRow& row) {
    if (dtype == BOOL) return static_cast<double>(Below(2));
    if (IsInteger(dtype)) {
      const auto range = static_cast<uint64_t>(row.sample_int_high - row.sample_int_low);
      return static_cast<double>(row.sample_int_low + static_cast<int64_t>(Below(range)));
    }
    return row.sample_low + (row.sample_high - row.sample_low) * (static_cast<double>(Below(16)) + 0.5) / 16;
  }

  // A new argument of the program; a body reads it like any value outside the body.
  ValueId AddArgument(const Type& type, const OpRow& row) {
    const std::string name = fmt::format("a{}", root().arguments().size());
    ValueInfo info{.name = name, .type = type, .global = type};
    if (Chance(80)) SetPin(info);
    const bool is_variable = Chance(30);
    if (is_variable && Chance(40)) info.gather = Gathering::kOnUse;
    std::vector<double>& numbers = feeds()[name];
    for (int64_t i = 0; i < type.num_elements(); ++i) numbers.push_back(DrawNumber(type.dtype, row));
    const Value argument(&root(), root().AddArgument(std::move(info), is_variable));
    return graph().Capture(argument).id();
  }

  // Whether results depend on operands without jumps, for operands of any size.
  static bool IsSmooth(const Sample& sample) {
    if (sample.row->kind == OpKind::kIdentity) return true;
    const bool own_range = sample.row->sample_low != -1 || sample.row->sample_high != 1;
    auto all_of = [&](DType dtype) {
      auto is = [&](const Type& type) { return type.dtype == dtype; };
      return std::all_of(sample.operands.begin(), sample.operands.end(), is) &&
             std::all_of(sample.results.begin(), sample.results.end(), is);
    };
    // Exponentials that no log-sum bounds.
    if (sample.row->name.starts_with("attention_grad")) return false;
    return HasSlope(*sample.row) && !own_range && (all_of(F32) || all_of(F64));
  }

  // Whether it is no constant that is infinite or NaN.
  bool IsNumber(ValueId id) {
    const int node = graph().value(id).node;
    if (node < 0 || graph().nodes()[node].row->name != "constant") return true;
    return std::isfinite(graph().nodes()[node].attrs.Get<double>("value"));
  }

  std::vector<ValueId> ValuesOf(const Type& type) {
    std::vector<ValueId> fitting;
    for (size_t id = 0; id < graph().values().size(); ++id)
      if (graph().values()[id].type == type && IsNumber(static_cast<ValueId>(id)))
        fitting.push_back(static_cast<ValueId>(id));
    return fitting;
  }

  ValueId DrawOperand(const Type& type, const Sample& sample) {
    std::vector<ValueId> fitting;
    if (IsSmooth(sample)) fitting = ValuesOf(type);
    return !fitting.empty() && Chance(80) ? Pick(fitting) : AddArgument(type, *sample.row);
  }

  // A sample whose operands exist already, if a few draws find one.
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
    AddNode(sample, operands);
  }
  void AddNode(const Sample& sample, const std::vector<ValueId>& operands) {
    Attrs attrs = sample.attrs;
    for (const auto& [name, value] : sample.attrs.entries())
      if (std::holds_alternative<LayoutPin>(value)) attrs.Set(name, DrawPin(sample.operands[0]));
    const int node = graph().TryAdd(*sample.row, operands, attrs, {"random", 1}).value();
    MarkResults(node);
  }
  void MarkResults(int node) {
    for (ValueId id : graph().nodes()[node].results) {
      ValueInfo& info = graph().mutable_value(id);
      if (Chance(25)) SetPin(info);
      if (Chance(10)) info.gather = Gathering::kAllowed;
      if (Chance(20))
        info.name = depth() == 0 ? fmt::format("layer.{}/h-{}", node, id)
                                 : fmt::format("body{}.{}/h-{}", depth(), node, id);
    }
  }

  // A weight that is gathered on use, a cast or select to a wider dtype, which may run where its result is
  // read, and an op that reads that result more than once.
  void AddWidened() {
    const bool is_mask = Chance(50);
    const OpRow& row = GetOp("cast");
    const Type type{is_mask ? BOOL : BF16, {DrawSize(), DrawSize()}};
    const std::string name = fmt::format("a{}", root().arguments().size());
    ValueInfo info{.name = name, .type = type, .global = type};
    SetPin(info);
    info.gather = Gathering::kOnUse;
    for (int64_t i = 0; i < type.num_elements(); ++i) feeds()[name].push_back(DrawNumber(type.dtype, row));
    const Value kept(&root(), root().AddArgument(std::move(info), true));
    Value wide =
        is_mask && Chance(50) ? Select(kept, Constant(root(), 0.5, {F32, {}}), -0.25) : Cast(kept, F32);
    if (Chance(30)) wide = Cast(wide, F64);
    MarkResults(root().value(wide.id()).node);
    Value result;
    switch (Below(5)) {
      case 0: result = MatMul(wide, wide, false, true); break;
      case 1: result = MatMul(wide, wide, true, false); break;
      case 2: result = wide * Transpose(Transpose(wide, {1, 0}), {1, 0}); break;
      case 3: result = Concat({wide, wide, wide}, static_cast<int64_t>(Below(2))); break;
      default: result = Select(kept.dtype() == BOOL ? kept : Less(kept, 0.0), wide, wide * 2.0);
    }
    MarkResults(root().value(result.id()).node);
  }
  int64_t DrawSize() { return 1 + static_cast<int64_t>(Below(8)); }

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

  const std::vector<Sample>& pool() const { return pool_; }

 private:
  const std::vector<Sample>& pool_;
};

}  // namespace meshwork

// Draws scans, branches and whiles on reals, with bodies of the same ops, loops in loops among them.
//
// The ops of a body get numbers for which they are smooth in the first iteration only. Whether they are
// smooth in all iterations is checked by IsStable (stability.h) when the program is complete.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "meshwork/ir/regions.h"
#include "meshwork/ops/control/control_flow.h"
#include "support/ops_drawer.h"
#include "support/twins.h"

namespace meshwork {

class LoopsDrawer : protected OpsDrawer {
 protected:
  explicit LoopsDrawer(uint64_t seed) : OpsDrawer(seed) {}

  void AddLoop() {
    const uint64_t which = Below(10);
    if (which < 6) AddScan();
    else if (which < 9) AddIf();
    else AddWhile();
    if (Chance(20)) AddTwin();
  }

  bool trains_ = false;  // gradients go through what is drawn

 private:
  static constexpr int64_t kMostIterations = 4;

  // Adds a twin of the last loop (twins.h).
  void AddTwin() {
    auto n = static_cast<int>(graph().nodes().size()) - 1;
    while (n >= 0 && !IsControl(graph().nodes()[n])) --n;
    if (n < 0 || (trains_ && graph().nodes()[n].row->name == "while")) return;
    TwinMaker twins(engine(), {.for_training = true});
    const int twin = TryAddControl(graph(), twins.TwinOf(graph().nodes()[n])).value();
    std::vector<Value> results;
    for (ValueId id : graph().nodes()[twin].results) results.emplace_back(&graph(), id);
    Fit(results);
  }

  // A body has few ops, and a loop in a body is rare: one per hundred ops would be many.
  void AddBodyOps() {
    for (uint64_t ops = 1 + Below(5); ops > 0; --ops) {
      if (depth() < 2 && Chance(8)) AddLoop();
      else AddOp();
    }
  }

  // ---- Scans.

  // Tensors with the same, short leading dim.
  std::vector<Value> DrawSlices() {
    std::vector<Value> slices;
    if (Chance(25)) return slices;
    Value x = Tensor();
    if (x.shape()[0] > kMostIterations || Chance(30))
      x = NewArgument(F64, Stacked(DrawShape(), DrawLength()));
    slices.push_back(x);
    const int64_t length = x.shape()[0];
    for (const Value& y : All(F64))
      if (y.rank() > 0 && y.shape()[0] == length && y.id() != x.id() && Chance(20)) slices.push_back(y);
    if (slices.size() > 3) slices.resize(3);
    if (Chance(20)) slices.push_back(NewIndices({length, Pick(sizes())}, 4));
    return slices;
  }
  int64_t DrawLength() { return 1 + static_cast<int64_t>(Below(kMostIterations)); }
  static Shape Stacked(Shape shape, int64_t length) {
    shape.insert(shape.begin(), length);
    return shape;
  }

  // The next value of a carry. A carry that only gets terms added is a sum.
  Value NextOf(const Value& carry) {
    const Shape shape = carry.shape();
    const Value like = Like(carry);
    switch (Below(6)) {
      case 0: return carry + like;
      case 1: return carry * 0.5 + like * 0.5;
      case 2: return Chance(30) ? carry : like;
      default: return Tanh(carry * 0.75 + like);
    }
  }

  void AddScan() {
    std::vector<Value> carries;
    for (uint64_t c = Below(3); c > 0; --c) carries.push_back(Real());
    const std::vector<Value> xs = DrawSlices();
    ScanOptions options{.reverse = Chance(40), .recompute = Chance(30)};
    if (xs.empty()) options.length = DrawLength();
    const int64_t length = xs.empty() ? options.length : xs[0].shape()[0];
    std::vector<HostTensor> first;
    for (const Value& carry : carries) first.push_back(TensorOf(carry));
    for (const Value& x : xs) first.push_back(SliceOf(TensorOf(x), options.reverse ? length - 1 : 0));
    const ScanResult result = Scan(
        graph(), carries, xs,
        [&](Graph& body, const std::vector<Value>& now, const std::vector<Value>& slices) {
          std::vector<std::pair<Value, HostTensor>> arguments;
          for (const auto* list : {&now, &slices})
            for (const Value& argument : *list) arguments.emplace_back(argument, first[arguments.size()]);
          Enter(body, arguments);
          AddBodyOps();
          ScanStep step;
          for (const Value& carry : now) step.carries.push_back(NextOf(carry));
          if (step.carries.size() > 1 && Chance(15) && carries[0].shape() == carries[1].shape())
            std::swap(step.carries[0], step.carries[1]);
          for (uint64_t s = Below(3); s > 0; --s) step.stacked.push_back(Chance(85) ? Real() : OfAnyType());
          for (uint64_t s = Below(3); s > 0; --s) step.sums.push_back(Real());
          if (step.carries.size() + step.stacked.size() + step.sums.size() == 0)
            step.sums.push_back(ReduceMean(Square(Tensor()), {0}));
          Leave();
          return step;
        },
        options);
    Fit(result.carries);
    Fit(result.stacked);
    Fit(result.sums);
  }

  Value OfAnyType() {
    std::vector<Value> all = All(BOOL);
    for (DType dtype : {I32, I64})
      for (const Value& x : All(dtype)) all.push_back(x);
    return all.empty() ? Real() : Pick(all);
  }

  // Large results are scaled down so that other ops read them.
  void Fit(const std::vector<Value>& results) {
    for (const Value& x : results) {
      if (!x.valid() || x.dtype() != F64 || x.type().num_elements() > kMostElements) continue;
      if (const double largest = Largest(NumbersOf(x)); largest > kLarge && std::isfinite(largest))
        NumbersOf(x * (1 / std::ceil(largest)));
    }
  }

  // ---- Branches.

  Value Predicate() {
    if (Chance(40)) return NewArgument(BOOL, {}, 2);
    const Value x = Real(), total = ReduceMean(x, AllDimsOf(x));
    if (IsNear(NumbersOf(total), 0)) return NewArgument(BOOL, {}, 2);
    const Value is = Chance(50) ? Greater(total, 0.0) : Less(total, 0.0);
    NumbersOf(is);
    return is;
  }

  void AddIf() {
    const Value predicate = Predicate();
    std::vector<Value> targets;
    for (uint64_t t = 1 + Below(2); t > 0; --t) targets.push_back(Real());
    const Branch branch = [&](Graph& body) {
      Enter(body, {});
      AddBodyOps();
      std::vector<Value> results;
      for (const Value& target : targets) {
        const Value like = graph().Capture(target);
        NumbersOf(like);
        results.push_back(Chance(30) ? like : Chance(50) ? Like(like) : Tanh(like + Like(like)));
      }
      Leave();
      return results;
    };
    Fit(If(predicate, branch, branch));
  }

  // ---- Whiles: they count, and may end earlier.

  void AddWhile() {
    if (differentiates_) return;  // a gradient would stop there
    const Value zero = Constant(graph(), 0, {Chance(50) ? I64 : I32, {}});
    std::vector<Value> carries = {zero};
    for (uint64_t c = 1 + Below(2); c > 0; --c) carries.push_back(Real());
    std::vector<HostTensor> first;
    for (const Value& carry : carries) first.push_back(TensorOf(carry));
    const auto limit = static_cast<double>(Below(kMostIterations + 1));
    const bool may_end = Chance(40);
    const std::vector<Value> results = While(
        graph(), carries,
        [&](Graph&, const std::vector<Value>& now) {
          const Value more = Less(now[0], limit);
          if (!may_end) return more;
          return And(more, Less(ReduceMean(Square(now[1]), AllDimsOf(now[1])), 0.3));
        },
        [&](Graph& body, const std::vector<Value>& now) {
          std::vector<std::pair<Value, HostTensor>> arguments;
          for (size_t c = 0; c < now.size(); ++c) arguments.emplace_back(now[c], first[c]);
          Enter(body, arguments);
          AddBodyOps();
          std::vector<Value> next = {now[0] + 1.0};
          for (size_t c = 1; c < now.size(); ++c) next.push_back(NextOf(now[c]));
          Leave();
          return next;
        });
    for (const Value& x : results) {
      if (!trains_ || x.dtype() != F64) continue;
      NumbersOf(StopGradient(x));
      Hide(x);
    }
  }
};

}  // namespace meshwork

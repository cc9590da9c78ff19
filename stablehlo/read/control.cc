// Calls, loops and branches.
#include <algorithm>

#include "meshwork/base/status.h"
#include "meshwork/ops/control/control_flow.h"
#include "meshwork/ops/operators.h"
#include "meshwork/ops/ops.h"
#include "meshwork/stablehlo/read/reader.h"

namespace meshwork::mlir {
namespace {

using Role = CountedLoop::Role;

absl::StatusOr<Bounds> ReadCallOf(const OpView& view, std::string_view attribute) {
  const Attribute* const callee = view.FindAttribute(attribute);
  if (callee == nullptr || callee->kind != Attribute::Kind::kSymbol)
    return view.Fail(fmt::format("{} is to be the @name of a function.", attribute));
  const Op* const function = view.reader.FindFunction(callee->text);
  if (function == nullptr)
    return view.FailAt(callee->at, fmt::format("there is no function @{}.", callee->text));
  return view.reader.Call(view.graph, *function, view.operands, view.op);
}

absl::StatusOr<Bounds> ReadCall(const OpView& view) { return ReadCallOf(view, "callee"); }
absl::StatusOr<Bounds> ReadComposite(const OpView& view) { return ReadCallOf(view, "decomposition"); }
absl::StatusOr<Bounds> ReadBarrier(const OpView& view) { return view.operands; }

// ---- Loops.

Bounds Typed(const std::vector<Value>& values, const std::vector<TensorType>& types) {
  Bounds bounds;
  for (size_t i = 0; i < values.size(); ++i) {
    bounds.emplace_back(values[i]);
    bounds.back().type = types[i];
  }
  return bounds;
}

// Calls `run` and hands its values on; remembers the first error, after which the values are invalid.
std::vector<Value> RunInBody(Graph& body, const OpView& view, absl::Status& status, size_t count,
                             const std::function<absl::StatusOr<Bounds>()>& run) {
  std::vector<Value> values(count);
  if (!status.ok()) return values;
  absl::StatusOr<Bounds> results = run();
  if (!results.ok()) {
    status = results.status();
  } else if (results->size() != count) {
    status = view.Fail(
        fmt::format("a region returns {}; it is to return {}.", Count(std::ssize(*results), "value"), count));
  } else {
    for (size_t i = 0; i < count; ++i) values[i] = view.reader.Materialize(body, (*results)[i]);
  }
  return values;
}

absl::Status CheckWhile(const OpView& view) {
  MESHWORK_RETURN_IF_ERROR(view.Expect(view.operands.size(), view.operands.size(), 2));
  for (const Region& region : view.op.regions) {
    if (region.arguments.size() != view.operands.size())
      return view.Fail("a region has another number of arguments.");
    for (size_t i = 0; i < region.arguments.size(); ++i)
      if (region.arguments[i].type != view.type(i) || view.result(i) != view.type(i))
        return view.Fail(fmt::format("value {} that it carries has several types.", i));
  }
  return absl::OkStatus();
}

// A row of a tensor as it is carried: [1,..] of a slice [..].
Value AsRow(const Value& slice) { return ExpandDims(slice, {0}); }

class ScanReader {
 public:
  ScanReader(const OpView& view, CountedLoop loop) : view_(view), loop_(std::move(loop)) {}

  absl::StatusOr<Bounds> Read() {
    std::vector<Value> carries, xs;
    if (loop_.needs_counter) carries.push_back(view_.Number(0, I64));
    for (size_t i = 0; i < loop_.roles.size(); ++i) {
      if (Is(i, Role::kCarried)) carries.push_back(view_.Arg(i));
      if (Is(i, Role::kRows)) xs.push_back(loop_.is_backward[i] ? Reverse(view_.Arg(i), {0}) : view_.Arg(i));
    }
    const bool does_nothing =
        carries.empty() && std::count(loop_.roles.begin(), loop_.roles.end(), Role::kStacked) == 0;
    absl::Status status;
    const ScanResult result =
        does_nothing
            ? ScanResult()
            : Scan(view_.graph, carries, xs,
                   [&](Graph& body, const std::vector<Value>& carried, const std::vector<Value>& slices) {
                     return ReadBody(body, carried, slices, status);
                   },
                   {.length = loop_.length, .recompute = view_.reader.recomputes()});
    MESHWORK_RETURN_IF_ERROR(status);
    Bounds results;
    size_t carry = loop_.needs_counter ? 1 : 0, stacked = 0;
    for (size_t i = 0; i < loop_.roles.size(); ++i) {
      if (Is(i, Role::kCounter)) {
        const CountedLoop::Counter& counter = loop_.counters[i];
        results.emplace_back(view_.result(i), Known::Splat(counter.first + counter.step * loop_.length));
      } else if (Is(i, Role::kCarried)) {
        results.emplace_back(result.carries.at(carry++));
      } else if (Is(i, Role::kStacked)) {
        const Value& all = result.stacked.at(stacked++);
        results.emplace_back(loop_.is_backward[i] ? Reverse(all, {0}) : all);
      } else {
        results.push_back(view_.operands[i]);
      }
    }
    return results;
  }

 private:
  bool Is(size_t i, Role role) const { return loop_.roles[i] == role; }

  ScanStep ReadBody(Graph& body, const std::vector<Value>& carried, const std::vector<Value>& slices,
                    absl::Status& status) {
    Bounds arguments;
    size_t carry = 0, row = 0, num_stacked = 0;
    if (loop_.needs_counter) loop_.counter = carried[carry++];
    loop_.rows.assign(loop_.roles.size(), Value());
    for (size_t i = 0; i < loop_.roles.size(); ++i) {
      const Known as_it_came{.kind = Known::Kind::kCarried, .loop = &loop_, .carry = static_cast<int>(i)};
      Bound argument = view_.operands[i];
      if (Is(i, Role::kCounter)) {
        argument = Bound(view_.type(i), CountOf(loop_, i));
      } else if (Is(i, Role::kCarried)) {
        argument = Bound(carried[carry++]);
      } else if (Is(i, Role::kRows)) {
        loop_.rows[i] = AsRow(slices[row++]);
        argument = Bound(view_.type(i), as_it_came);
      } else if (Is(i, Role::kStacked)) {
        ++num_stacked;
        argument = Bound(view_.type(i), as_it_came);
      }
      argument.type = view_.type(i);
      arguments.push_back(std::move(argument));
    }
    ScanStep step;
    step.carries.resize(carried.size());
    step.stacked.resize(num_stacked);
    if (!status.ok()) return step;
    const absl::StatusOr<Bounds> returned =
        view_.reader.Run(body, view_.op.regions[1], arguments, &view_.scope);
    if (!returned.ok()) {
      status = returned.status();
      return step;
    }
    size_t next = 0, written = 0;
    if (loop_.needs_counter) step.carries[next++] = loop_.counter + 1.0;
    for (size_t i = 0; i < loop_.roles.size(); ++i) {
      if (Is(i, Role::kCarried)) step.carries[next++] = view_.reader.Materialize(body, (*returned)[i]);
      if (Is(i, Role::kStacked)) step.stacked[written++] = loop_.rows[i];
    }
    return step;
  }

  const OpView& view_;
  CountedLoop loop_;
};

absl::StatusOr<Bounds> ReadWhile(const OpView& view) {
  MESHWORK_RETURN_IF_ERROR(CheckWhile(view));
  MESHWORK_ASSIGN_OR_RETURN(std::optional<CountedLoop> loop, view.reader.FindCount(view));
  if (loop.has_value()) {
    if (loop->length == 0) return view.operands;
    return ScanReader(view, *std::move(loop)).Read();
  }
  absl::Status status;
  const size_t count = view.operands.size();
  if (count == 0) return Bounds();
  const std::vector<Value> results = While(
      view.graph, view.Args(),
      [&](Graph& body, const std::vector<Value>& carried) {
        return RunInBody(body, view, status, 1, [&] {
          return view.reader.Run(body, view.op.regions[0], Typed(carried, view.op.operand_types),
                                 &view.scope);
        })[0];
      },
      [&](Graph& body, const std::vector<Value>& carried) {
        return RunInBody(body, view, status, count, [&] {
          return view.reader.Run(body, view.op.regions[1], Typed(carried, view.op.operand_types),
                                 &view.scope);
        });
      });
  MESHWORK_RETURN_IF_ERROR(status);
  return Bounds(results.begin(), results.end());
}

// ---- Branches.

std::vector<Value> ReadBranch(Graph& body, const OpView& view, const Region& region, absl::Status& status) {
  return RunInBody(body, view, status, view.op.result_types.size(),
                   [&] { return view.reader.Run(body, region, {}, &view.scope); });
}

absl::StatusOr<Bounds> ReadIf(const OpView& view) {
  MESHWORK_RETURN_IF_ERROR(view.Expect(1, view.op.result_types.size(), 2));
  if (view.op.result_types.empty()) return Bounds();
  absl::Status status;
  const auto branch = [&](size_t r) {
    return [&, r](Graph& body) { return ReadBranch(body, view, view.op.regions[r], status); };
  };
  const std::vector<Value> results = If(view.graph.Capture(view.Arg(0)), branch(0), branch(1));
  MESHWORK_RETURN_IF_ERROR(status);
  return Bounds(results.begin(), results.end());
}

// The branch of this index, which is one of [first, end).
std::vector<Value> ReadCases(Graph& graph, const OpView& view, const Value& index, size_t first, size_t end,
                             absl::Status& status) {
  if (first + 1 == end) return ReadBranch(graph, view, view.op.regions[first], status);
  const size_t middle = first + (end - first) / 2;
  // In this graph, so that the branches within are those of the one that is chosen.
  const Value here = graph.Capture(index);
  return If(
      Less(here, static_cast<double>(middle)),
      [&](Graph& body) { return ReadCases(body, view, index, first, middle, status); },
      [&](Graph& body) { return ReadCases(body, view, index, middle, end, status); });
}

absl::StatusOr<Bounds> ReadCase(const OpView& view) {
  constexpr size_t kMostBranches = 1024;
  const size_t branches = view.op.regions.size();
  if (branches < 1 || branches > kMostBranches)
    return view.Fail(fmt::format("it has {} branches; from 1 to {} are read.", branches, kMostBranches));
  MESHWORK_RETURN_IF_ERROR(view.Expect(1, view.op.result_types.size(), branches));
  if (view.op.result_types.empty()) return Bounds();
  // An index that no branch has takes the last.
  const Value given = view.Arg(0);
  const auto last = static_cast<double>(branches - 1);
  const Value index =
      Select(Or(Less(given, 0.0), Greater(given, last)), view.Number(last, given.dtype()), given);
  absl::Status status;
  const std::vector<Value> results = branches == 1 ? ReadBranch(view.graph, view, view.op.regions[0], status)
                                                   : ReadCases(view.graph, view, index, 0, branches, status);
  MESHWORK_RETURN_IF_ERROR(status);
  return Bounds(results.begin(), results.end());
}

constexpr NamedReadOp kControlOps[] = {
    {"func.call", ReadCall},        {"stablehlo.composite", ReadComposite},
    {"stablehlo.while", ReadWhile}, {"stablehlo.optimization_barrier", ReadBarrier},
    {"stablehlo.if", ReadIf},       {"stablehlo.case", ReadCase},
};

}  // namespace

std::span<const NamedReadOp> ControlOps() { return kControlOps; }

}  // namespace meshwork::mlir

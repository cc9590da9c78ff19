#include "meshwork/ir/builder.h"

#include <algorithm>
#include <cmath>

#include "fmt/ranges.h"
#include "meshwork/base/status.h"

namespace meshwork {

ResolvedOperands Resolve(const std::vector<Operand>& operands) {
  ResolvedOperands resolved{.location = operands[0].location()};
  const Value* first = nullptr;
  bool is_valid = true, is_lost = false;
  for (const Operand& operand : operands) {
    if (operand.is_number()) continue;
    is_valid &= operand.value().valid();
    is_lost |= operand.value().is_lost();
    if (!operand.value().valid()) continue;
    if (first == nullptr) first = &operand.value();
    // In the body of a loop, values of the program around it may be read.
    Graph* const graph = operand.value().graph();
    if (resolved.graph == nullptr || graph->depth() > resolved.graph->depth()) resolved.graph = graph;
  }
  if (is_lost && first != nullptr)
    RecordMistake(resolved, "an op", "the graph of an operand is gone; keep it as long as its values.");
  // Numbers alone have no graph.
  if (!is_valid || first == nullptr) return {.values = std::vector<Value>(operands.size())};
  for (const Operand& operand : operands) {
    if (!operand.is_number()) {
      resolved.values.push_back(operand.value());
      continue;
    }
    resolved.values.push_back(resolved.graph->Add(
        "constant", {},
        {{"value", operand.number()}, {"dtype", first->dtype()}, {"shape", std::vector<int64_t>{}}},
        resolved.location)[0]);
  }
  return resolved;
}

Value AddOp(std::string_view op, const std::vector<Operand>& operands, const Attrs& attrs) {
  ResolvedOperands resolved = Resolve(operands);
  if (resolved.graph == nullptr) return {};
  return resolved.graph->Add(op, resolved.values, attrs, resolved.location)[0];
}

std::optional<int64_t> CountDim(const ResolvedOperands& at, std::string_view op, int64_t dim) {
  const Type& x = at.values[0].type();
  if (dim >= -x.rank() && dim < x.rank()) return dim < 0 ? dim + x.rank() : dim;
  if (x.rank() == 0) RecordMistake(at, op, "takes at least one dim, got {}.", x.ToString());
  else
    RecordMistake(at, op, "dim={} is none of {}; its dims count from 0 to {}, or backwards from -1 to -{}.",
                  dim, x.ToString(), x.rank() - 1, x.rank());
  return std::nullopt;
}

std::optional<std::vector<int64_t>> CountDims(const ResolvedOperands& at, std::string_view op,
                                              const DimList& dims) {
  std::vector<int64_t> counted;
  if (dims.is_all()) {
    for (int64_t d = 0; d < at.values[0].rank(); ++d) counted.push_back(d);
    return counted;
  }
  for (int64_t dim : dims.dims()) {
    const std::optional<int64_t> d = CountDim(at, op, dim);
    if (!d.has_value()) return std::nullopt;
    if (std::find(counted.begin(), counted.end(), *d) != counted.end()) {
      RecordMistake(at, op, "dims=[{}] names dim {} twice.", fmt::join(dims.dims(), ","), *d);
      return std::nullopt;
    }
    counted.push_back(*d);
  }
  return counted;
}

int64_t FromFront(int64_t dim, int64_t rank) { return dim < 0 && dim >= -rank ? dim + rank : dim; }

std::vector<int64_t> AllFromFront(std::vector<int64_t> dims, int64_t rank) {
  for (int64_t& dim : dims) dim = FromFront(dim, rank);
  return dims;
}

Value AddOpAlong(std::string_view op, const std::vector<Operand>& operands, int64_t dim, Attrs attrs) {
  const ResolvedOperands at = Resolve(operands);
  if (at.graph == nullptr) return {};
  const std::optional<int64_t> d = CountDim(at, op, dim);
  if (!d.has_value()) return {};
  attrs.Set("dim", *d);
  return at.graph->Add(op, at.values, attrs, at.location)[0];
}

Value AddOpOver(std::string_view op, const std::vector<Operand>& operands, const DimList& dims, Attrs attrs) {
  const ResolvedOperands at = Resolve(operands);
  if (at.graph == nullptr) return {};
  std::optional<std::vector<int64_t>> counted = CountDims(at, op, dims);
  if (!counted.has_value()) return {};
  attrs.Set("dims", *std::move(counted));
  return at.graph->Add(op, at.values, attrs, at.location)[0];
}

Value Value::operator[](ElementIndex i) const {
  const ResolvedOperands at = Resolve({Operand(*this, i.site)});
  if (at.graph == nullptr) return {};
  if (rank() == 0) {
    RecordMistake(at, "index", "x[{}] of {}, which has no dims.", i.index, type().ToString());
    return {};
  }
  const int64_t size = shape()[0], place = FromFront(i.index, size);
  if (place < 0 || place >= size) {
    RecordMistake(at, "index", "x[{}] of {}: dim 0 has size {}; places count from 0, or backwards from -1.",
                  i.index, type().ToString(), size);
    return {};
  }
  std::vector<int64_t> start(shape().size(), 0), limit(shape().begin(), shape().end());
  start[0] = place;
  limit[0] = place + 1;
  const Value slice = AddOp("slice", {Operand(*this, at.location)}, {{"start", start}, {"limit", limit}});
  return AddOp("squeeze", {Operand(slice, at.location)}, {{"dims", std::vector<int64_t>{0}}});
}

Value SumToType(const Value& grad, const Type& type) {
  if (!grad.valid() || grad.shape() == type.shape) return grad;
  const int extra = grad.rank() - type.rank();
  std::vector<int64_t> dropped, kept;
  for (int d = 0; d < extra; ++d) dropped.push_back(d);
  for (int d = 0; d < type.rank(); ++d)
    if (type.shape[d] == 1 && grad.shape()[d + extra] != 1) kept.push_back(d);
  const auto reduce = [](const Value& x, const std::vector<int64_t>& dims, bool keep_dims) {
    return AddOp("reduce_sum", {x}, {{"dims", dims}, {"keep_dims", keep_dims}});
  };
  Value sum = dropped.empty() ? grad : reduce(grad, dropped, false);
  return kept.empty() ? sum : reduce(sum, kept, true);
}

namespace {

std::string HowToBroadcast(const std::vector<Type>& operands) {
  const auto [low, high] = std::minmax_element(
      operands.begin(), operands.end(), [](const Type& a, const Type& b) { return a.rank() < b.rank(); });
  if (low->rank() > 0 && low->rank() + 1 == high->rank() &&
      std::equal(low->shape.begin(), low->shape.end(), high->shape.begin()))
    return fmt::format("ExpandDims of {} by {{-1}} fits", low->ToString());
  return "Slice, Pad or ExpandDims one of them";
}

}  // namespace

absl::StatusOr<Shape> BroadcastShapes(const std::vector<Type>& operands) {
  Shape shape;
  for (const Type& type : operands)
    if (type.shape.size() > shape.size()) shape.resize(type.shape.size(), 1);
  std::fill(shape.begin(), shape.end(), 1);
  for (const Type& type : operands) {
    const size_t extra = shape.size() - type.shape.size();
    for (size_t d = 0; d < type.shape.size(); ++d) {
      int64_t& size = shape[d + extra];
      if (type.shape[d] == size || type.shape[d] == 1) continue;
      if (size != 1) {
        std::string all;
        for (const Type& t : operands) all += (all.empty() ? "" : ", ") + t.ToString();
        return InvalidArgument(
            "shapes do not broadcast: {} (dim {} from the right is {} and {}); sizes must be "
            "equal or 1: {}.",
            all, type.shape.size() - d, size, type.shape[d], HowToBroadcast(operands));
      }
      size = type.shape[d];
    }
  }
  return shape;
}

absl::Status CheckElement(double value, DType dtype) {
  const int bits = 8 * static_cast<int>(DTypeSize(dtype)) - (dtype == U8 ? 0 : 1);
  const double limit = std::ldexp(1, bits), least = dtype == U8 ? 0 : -limit;
  const bool fits = dtype == BOOL
                        ? value == 0 || value == 1
                        : IsReal(dtype) || (value >= least && value < limit && value == std::trunc(value));
  if (fits) return absl::OkStatus();
  if (dtype == BOOL) return InvalidArgument("value={} is not 0 or 1, as dtype=bool asks.", value);
  return InvalidArgument(
      "value={} is not a whole number that fits dtype={}; cast to a real dtype, or give one.", value,
      DTypeName(dtype));
}

absl::Status CheckDim(std::string_view attribute, int64_t d, const Type& type) {
  if (d >= 0 && d < type.rank()) return absl::OkStatus();
  const std::string none = attribute == "dim" ? fmt::format("dim={} is none", d)
                                              : fmt::format("{} names dim {}, which is none", attribute, d);
  if (type.rank() == 0) return InvalidArgument("{} of {}, which has no dims.", none, type.ToString());
  if (type.rank() == 1) return InvalidArgument("{} of {}, whose only dim is 0.", none, type.ToString());
  return InvalidArgument("{} of {}; its dims count from 0 to {}.", none, type.ToString(), type.rank() - 1);
}

}  // namespace meshwork

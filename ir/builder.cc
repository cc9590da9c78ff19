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
                                              const std::vector<int64_t>& dims) {
  std::vector<int64_t> counted;
  for (int64_t dim : dims) {
    const std::optional<int64_t> d = CountDim(at, op, dim);
    if (!d.has_value()) return std::nullopt;
    if (std::find(counted.begin(), counted.end(), *d) != counted.end()) {
      RecordMistake(at, op, "dims=[{}] names dim {} twice.", fmt::join(dims, ","), *d);
      return std::nullopt;
    }
    counted.push_back(*d);
  }
  return counted;
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
            "equal or 1.",
            all, type.shape.size() - d, size, type.shape[d]);
      }
      size = type.shape[d];
    }
  }
  return shape;
}

absl::Status CheckElement(double value, DType dtype) {
  const double limit = dtype == I32 ? 0x1p31 : 0x1p63;
  const bool fits = dtype == BOOL
                        ? value == 0 || value == 1
                        : IsFloat(dtype) || (value >= -limit && value < limit && value == std::trunc(value));
  if (fits) return absl::OkStatus();
  if (dtype == BOOL) return InvalidArgument("value={} is not 0 or 1, as dtype=bool asks.", value);
  return InvalidArgument("value={} is not a whole number that fits dtype={}.", value, DTypeName(dtype));
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

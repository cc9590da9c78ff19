#include "meshwork/train/nn/conv_layers.h"

#include <limits>
#include <numeric>
#include <string_view>

#include "fmt/format.h"
#include "meshwork/ir/builder.h"
#include "meshwork/ir/name_scope.h"

namespace meshwork {
namespace {

// [size…, in / groups, out]; groups that divide nothing are Conv's to refuse.
Shape FilterShape(const Shape& size, int64_t in, int64_t out, int64_t groups) {
  Shape shape = size;
  shape.push_back(groups > 0 ? in / groups : in);
  shape.push_back(out);
  return shape;
}

bool CheckSizes(Graph& graph, std::string_view what, const std::string& name, const Shape& size, int spatial,
                CallSite loc) {
  if (size.size() == static_cast<size_t>(spatial)) return true;
  graph.RecordError(fmt::format("{}: the size of the filters is {}; it has one number per spatial dim, {}.",
                                graph.Describe(fmt::format("{} \"{}\"", what, name), loc),
                                ShapeToString(size), spatial));
  return false;
}

// Nothing after recording a mistake.
std::vector<int64_t> SpatialDims(const ResolvedOperands& at, std::string_view op) {
  const Type& x = at.values[0].type();
  if (x.rank() < 3) {
    RecordMistake(at, op, "x is {}; it must be [n, spatial…, c].", x.ToString());
    return {};
  }
  std::vector<int64_t> dims(x.rank() - 2);
  std::iota(dims.begin(), dims.end(), 1);
  return dims;
}

}  // namespace

int64_t internal::TimesMultiplier(int64_t channels, int64_t multiplier) {
  int64_t filters = 0;
  return __builtin_mul_overflow(channels, multiplier, &filters) ? std::numeric_limits<int64_t>::max()
                                                                : filters;
}

internal::ConvBase::ConvBase(ConvKind kind, int spatial, std::optional<int64_t> inputs, Graph& graph,
                             const std::string& name, int64_t filters, const Shape& size,
                             const ConvLayerOptions& options, CallSite loc)
    : kind_(kind),
      precision_(LayerPrecision(graph, options.dtype, options.compute)),
      has_bias_(options.bias),
      activation_(options.activation),
      variables_(
          graph, inputs,
          [kind, spatial, name, filters, size, options, loc, dtype = precision_.variables](Graph& graph,
                                                                                           int64_t inputs) {
            const int64_t groups = kind == ConvKind::kDepthwise ? inputs : options.groups;
            Variables made{{}, {}, {options.window, groups}};
            const char* op = kind == ConvKind::kTransposed ? "conv_transpose" : "conv";
            if (!CheckSizes(graph, op, name, size, spatial, loc)) return made;
            const int64_t outputs = kind == ConvKind::kDepthwise ? TimesMultiplier(inputs, filters) : filters;
            const Shape shape = kind == ConvKind::kTransposed ? FilterShape(size, outputs, inputs, groups)
                                                              : FilterShape(size, inputs, outputs, groups);
            const Initializer start =
                options.kernel_initializer.For(shape, dtype, FansOfFilter(shape, groups));
            made.kernel =
                graph.Var(name + "/kernel", start, options.kernel_layout, {.gather = options.gather}, loc);
            if (options.bias)
              made.bias = graph.Var(name + "/bias", options.bias_initializer.For({outputs}, dtype),
                                    options.bias_layout, {.gather = options.gather}, loc);
            return made;
          }) {}

Value internal::ConvBase::operator()(const Value& x, CallSite loc) const {
  if (!x.valid()) return {};
  const Variables& variables = variables_.For(x);
  const NameScope name_scope = NameScope::Of(variables.kernel, x);
  const LocationScope scope(*x.graph(), loc);
  const Operand images = {ToCompute(x, precision_), loc};
  const Value kernel = ToCompute(variables.kernel, precision_);
  const Value y = kind_ == ConvKind::kTransposed ? ConvTranspose(images, kernel, variables.options)
                                                 : Conv(images, kernel, variables.options);
  return Activated(activation_, has_bias_ ? Add({y, loc}, ToCompute(variables.bias, precision_)) : y, loc);
}

Value GlobalAvgPool(const Operand& x) {
  const ResolvedOperands at = Resolve({x});
  if (at.graph == nullptr) return {};
  const std::vector<int64_t> dims = SpatialDims(at, "global_avg_pool");
  return dims.empty() ? Value() : ReduceMean(x, dims);
}

Value GlobalMaxPool(const Operand& x) {
  const ResolvedOperands at = Resolve({x});
  if (at.graph == nullptr) return {};
  const std::vector<int64_t> dims = SpatialDims(at, "global_max_pool");
  return dims.empty() ? Value() : ReduceMax(x, dims);
}

}  // namespace meshwork

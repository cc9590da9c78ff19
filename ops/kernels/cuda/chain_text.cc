#include "meshwork/ops/kernels/cuda/chain_text.h"

#include <algorithm>
#include <optional>

#include "meshwork/base/status.h"
#include "meshwork/ops/kernels/cuda/scalars.h"

namespace meshwork {
namespace cuda {

bool ChainInput::PacksBy(int64_t width) const {
  if (walk.dims.size() < 2) return true;
  if (walk.dims.back().size % width != 0) return false;
  if (!moves()) return true;
  return std::all_of(walk.dims.begin(), walk.dims.end() - 1,
                     [&](const Walk::Dim& dim) { return dim.strides[0] % width == 0; });
}

std::string ChainInput::LinesOfLoad(size_t number, std::string_view index, std::string_view to,
                                    int64_t width) const {
  const std::string offset = walk.Offset(0, index), places = walk.Places(index);
  const std::string load = moves() && width > 1 ? fmt::format("{} = *(const {}*)(a{} + ({}));\n", to,
                                                              PackName(type.dtype, width), number, offset)
                                                : fmt::format("{} = a{}[{}];\n", to, number, offset);
  return places.empty() ? load : fmt::format("{{\n{}}}\n", Indented(places + load));
}

std::vector<ChainInput> InputsOf(std::span<const CudaChainOp> ops) {
  std::vector<ChainInput> inputs;
  for (const CudaChainOp& op : ops) {
    for (size_t o = 0; o < op.operands.size(); ++o) {
      if (op.operands[o].is_op) continue;
      const auto at = static_cast<size_t>(op.operands[o].index);
      if (inputs.size() <= at) inputs.resize(at + 1);
      const bool is_whole = !IsCudaElementwise(*op.row);  // a reduction reads all of it
      const Type& type = op.spec->operands[o].local;
      const Shape& shape = is_whole ? type.shape : op.spec->results[0].local.shape;
      const Shape strides = is_whole ? RowMajorStrides(shape) : CudaChainStrides(*op.row, *op.spec, o);
      inputs[at] = {type, Walk::Of(shape, {&strides, 1})};
    }
  }
  return inputs;
}

std::string PackName(DType dtype, int64_t width) {
  return fmt::format("Pack<{}, {}>", StoredName(dtype), width);
}

namespace {

bool HasUnrounded(DType dtype) { return dtype == BF16 || dtype == F16; }

// An expression for whether the index x is the element's place along the last dim.
std::string IsHot(const CudaChainOp& op, const ElementPlace& place) {
  const int64_t depth = op.spec->results[0].local.shape.back();
  const Extent extent = op.block->back();
  const bool is_small =
      DTypeSize(op.spec->operands[0].local.dtype) <= 4 && extent.start + depth < (int64_t{1} << 31);
  const std::string_view type = is_small ? "int" : "long long";
  std::string column = fmt::format("({})", place.at);
  if (depth != place.size) column += fmt::format(" % {}", Whole(depth));
  std::string is_hot = fmt::format("({})x == {} + ({})({})", type, Whole(extent.start), type, column);
  if (extent.size < depth) is_hot += fmt::format(" && {} < {}", column, Whole(extent.size));
  return is_hot;
}

}  // namespace

std::string LinesOfOp(const CudaChainOp& op, size_t number, const ElementPlace& place) {
  const DType first = op.spec->operands[0].local.dtype, result = op.spec->results[0].local.dtype;
  std::string lines =
      fmt::format("{} v{};\n{{\n  typedef {} T;\n", ComputeName(result), number, ComputeName(first));
  const bool is_unary = op.operands.size() == 1;
  for (size_t o = 0; o < op.operands.size(); ++o) {
    const std::string name = is_unary ? "x" : std::string(1, static_cast<char>('a' + o));
    lines += fmt::format("  const {} {} = {}{};\n", ComputeName(op.spec->operands[o].local.dtype), name,
                         op.operands[o].is_op ? 'v' : 'x', op.operands[o].index);
  }
  const std::optional<std::string> rounded = RoundedScalarOf(*op.row, *op.spec);
  const std::string value = rounded                     ? *rounded
                            : HasScalar(*op.row)        ? ScalarOf(*op.row, *op.spec)
                            : op.row->name == "one_hot" ? IsHot(op, place)
                                                        : "x";
  if (!HasUnrounded(result))
    return lines + fmt::format("  v{} = ({})({});\n}}\n", number, ComputeName(result), value);
  const std::string unrounded = fmt::format("u{}", number);
  return fmt::format("float {};\n", unrounded) + lines +
         fmt::format("  {} = {};\n  v{} = {};\n}}\n", unrounded, value, number,
                     rounded ? unrounded : RoundedNumber(result, unrounded));
}

std::string ElementOfOp(const CudaChainOp& op, size_t number) {
  const DType dtype = op.spec->results[0].local.dtype;
  return Rounded(dtype, fmt::format("{}{}", HasUnrounded(dtype) ? 'u' : 'v', number));
}

bool IsLong(const OpRow& row) {
  static constexpr std::string_view kLong[] = {"polygamma", "erfinv", "lgamma", "pow",
                                               "remainder", "sin",    "cos",    "tan"};
  return std::find(std::begin(kLong), std::end(kLong), row.name) != std::end(kLong);
}

}  // namespace cuda

bool IsCudaChainOp(const OpRow& row) { return cuda::HasScalar(row); }
bool IsCudaElementwise(const OpRow& row) {
  return cuda::HasScalar(row) || row.name == "broadcast_to" || row.name == "one_hot";
}

Shape CudaChainStrides(const OpRow& row, const KernelSpec& spec, size_t o) {
  const Shape& from = spec.operands[o].local.shape;
  const Shape& to = spec.results[0].local.shape;
  const Shape dense = cuda::RowMajorStrides(from);
  if (row.name == "one_hot") {
    Shape strides = dense;
    strides.push_back(0);
    return strides;
  }
  if (row.name != "broadcast_to") return cuda::BroadcastStrides(from, to);
  const auto& dims = spec.attrs.Get<std::vector<int64_t>>("dims");
  Shape strides(to.size(), 0);
  for (size_t d = 0; d < dims.size(); ++d)
    if (from[d] == to[dims[d]]) strides[dims[d]] = dense[d];
  return strides;
}

}  // namespace meshwork

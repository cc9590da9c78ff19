#include "meshwork/ops/kernels/cuda/text.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "meshwork/base/status.h"

namespace meshwork::cuda {
std::string_view StoredName(DType dtype) {
  switch (dtype) {
    case DType::kF32: return "float";
    case DType::kF64: return "double";
    case DType::kBF16:
    case DType::kF16: return "unsigned short";
    case DType::kI32: return "int";
    case DType::kI64: return "long long";
    case DType::kBool:
    case DType::kU8: return "unsigned char";
    case DType::kI8: return "signed char";
  }
  return "";
}

std::string_view ComputeName(DType dtype) {
  if (dtype == BF16 || dtype == F16) return "float";
  return dtype == BOOL ? "bool" : StoredName(dtype);
}

std::string Loaded(DType dtype, std::string_view element) {
  switch (dtype) {
    case DType::kBF16: return fmt::format("FromBf16({})", element);
    case DType::kF16: return fmt::format("FromF16({})", element);
    case DType::kBool: return fmt::format("({} != 0)", element);
    default: return std::string(element);
  }
}

std::string Rounded(DType dtype, std::string_view number) {
  switch (dtype) {
    case DType::kBF16: return fmt::format("ToBf16({})", number);
    case DType::kF16: return fmt::format("ToF16({})", number);
    default: return fmt::format("({})({})", StoredName(dtype), number);
  }
}

std::string RoundedNumber(DType dtype, std::string_view number) {
  switch (dtype) {
    case DType::kBF16: return fmt::format("RoundedToBf16({})", number);
    case DType::kF16: return fmt::format("RoundedToF16({})", number);
    default: return fmt::format("({})({})", ComputeName(dtype), number);
  }
}

int64_t ElementsOfWord(DType dtype, int64_t count) {
  int64_t elements = 16 / DTypeSize(dtype);
  while (elements > 1 && count % elements != 0) elements /= 2;
  return elements;
}

std::string_view WordOf(int64_t bytes) {
  switch (bytes) {
    case 16: return "Words4";
    case 8: return "unsigned long long";
    case 4: return "unsigned";
    case 2: return "unsigned short";
    default: return "unsigned char";
  }
}

std::string Real(double x) {
  if (std::isnan(x)) return "NotANumber()";
  if (std::isinf(x)) return x > 0 ? "Infinity()" : "-Infinity()";
  return x < 0 || std::signbit(x) ? fmt::format("({:a})", x) : fmt::format("{:a}", x);
}

std::string Whole(int64_t x) {
  if (x == std::numeric_limits<int64_t>::min()) return "(-9223372036854775807LL - 1)";
  if (x == std::numeric_limits<int32_t>::min()) return "(-2147483647 - 1)";
  const bool is_int = x == static_cast<int32_t>(x);
  const std::string digits = fmt::format("{}{}", x, is_int ? "" : "LL");
  return x < 0 ? fmt::format("({})", digits) : digits;
}

std::string Number(DType dtype, double x) { return fmt::format("({})({})", ComputeName(dtype), Real(x)); }

std::string Identity(DType dtype, ReduceOp op) {
  const std::string number(ComputeName(dtype));
  switch (op) {
    case ReduceOp::kSum: return Rounded(dtype, Number(dtype, IsReal(dtype) ? -0.0 : 0.0));
    case ReduceOp::kOr: break;
    case ReduceOp::kProd:
    case ReduceOp::kAnd: return Rounded(dtype, Number(dtype, 1));
    case ReduceOp::kMax:
      return dtype == BOOL ? "0" : Rounded(dtype, fmt::format("Limits<{}>::Least()", number));
    case ReduceOp::kMin:
      return dtype == BOOL ? "1" : Rounded(dtype, fmt::format("Limits<{}>::Most()", number));
  }
  return Rounded(dtype, Number(dtype, 0));
}

Shape RowMajorStrides(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

Shape BroadcastStrides(const Shape& operand, const Shape& to) {
  Shape strides(to.size(), 0);
  int64_t dense = 1;
  for (size_t i = operand.size(); i-- > 0;) {
    const size_t d = i + to.size() - operand.size();
    strides[d] = operand[i] == to[d] ? dense : 0;
    dense *= operand[i];
  }
  return strides;
}

Walk Walk::Of(const Shape& shape, std::span<const Shape> strides) {
  Walk walk;
  for (size_t d = shape.size(); d-- > 0;) {
    if (shape[d] == 1) continue;
    Dim dim{shape[d], {}};
    for (const Shape& of : strides) dim.strides.push_back(of[d]);
    bool merges = !walk.dims.empty();
    for (size_t t = 0; merges && t < strides.size(); ++t)
      merges = dim.strides[t] == walk.dims.back().strides[t] * walk.dims.back().size;
    if (merges) walk.dims.back().size *= dim.size;
    else walk.dims.push_back(std::move(dim));
  }
  std::reverse(walk.dims.begin(), walk.dims.end());
  return walk;
}

std::string Walk::Places(std::string_view index) const {
  if (dims.size() < 2) return "";
  Shape sizes;
  for (const Dim& dim : dims) sizes.push_back(dim.size);
  return PlacesAlong(sizes, index, "p");
}

std::string Walk::Offset(size_t t, std::string_view index) const {
  if (dims.empty()) return "0";
  std::vector<int64_t> strides;
  int64_t inner = 1;
  bool is_dense = true;
  for (size_t d = dims.size(); d-- > 0; inner *= dims[d].size)
    is_dense = is_dense && dims[d].strides[t] == inner;
  if (is_dense) return std::string(index);
  for (const Dim& dim : dims) strides.push_back(dim.strides[t]);
  if (dims.size() > 1) return OffsetOf(strides, "p");
  return strides[0] == 0 ? "0" : fmt::format("{} * {}", index, Whole(strides[0]));
}

std::string PlacesAlong(const Shape& shape, std::string_view index, std::string_view prefix) {
  std::string lines;
  int64_t inner = 1;
  for (size_t d = shape.size(); d-- > 0; inner *= shape[d]) {
    std::string place(index);
    if (inner > 1) place += fmt::format(" / {}", Whole(inner));
    if (d > 0) place += fmt::format(" % {}", Whole(std::max<int64_t>(shape[d], 1)));
    lines += fmt::format("const Index {}{} = {};\n", prefix, d, place);
  }
  return lines;
}

std::string OffsetOf(std::span<const int64_t> strides, std::string_view prefix) {
  std::string sum;
  for (size_t d = 0; d < strides.size(); ++d) {
    if (strides[d] == 0) continue;
    sum += fmt::format("{}{}{}", sum.empty() ? "" : " + ", prefix, d);
    if (strides[d] != 1) sum += fmt::format(" * {}", Whole(strides[d]));
  }
  return sum.empty() ? "0" : sum;
}

std::string Indented(std::string_view lines) {
  std::string text;
  for (size_t at = 0; at < lines.size();) {
    const size_t end = std::min(lines.find('\n', at), lines.size() - 1) + 1;
    text += fmt::format("  {}", lines.substr(at, end - at));
    at = end;
  }
  return text;
}

uint64_t HashOf(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

CudaKernel Finish(const KernelText& text) {
  std::vector<std::string> parameters;
  const std::string_view alone = text.in_place ? "" : "__restrict__ ";
  int64_t most = text.most_elements;
  for (size_t o = 0; o < text.in.size(); ++o) {
    parameters.push_back(fmt::format("const {}* {}a{}", StoredName(text.in[o].dtype), alone, o));
    most = std::max(most, text.in[o].num_elements());
  }
  for (size_t r = 0; r < text.out.size(); ++r) {
    parameters.push_back(fmt::format("{}* {}r{}", StoredName(text.out[r].dtype), alone, r));
    most = std::max(most, text.out[r].num_elements());
  }
  for (size_t b = 0; b < text.block_arguments.size(); ++b) {
    const CudaKernel::BlockArgument& of = text.block_arguments[b];
    const std::string tensor = fmt::format("{}{}", of.is_result ? 'r' : 'a', of.index);
    for (size_t d = 0; d < text.block_shapes[b].size(); ++d)
      parameters.push_back(fmt::format("long long {0}_start{1}, long long {0}_size{1}", tensor, d));
  }
  // Numbers of elements, plus the step of a grid, are held in 32 bits if they fit.
  const bool is_small = most < (int64_t{1} << 30);
  const std::string signature = fmt::format("({}) {{\n  typedef {} Index;\n", fmt::join(parameters, ", "),
                                            is_small ? "int" : "long long");
  const std::string definition = signature + text.body + "}\n";
  CudaKernel kernel;
  kernel.name = fmt::format("{}_{:016x}", text.name, HashOf(definition + text.table));
  std::string start = definition;
  if (!text.table.empty()) {
    kernel.source =
        fmt::format("__device__ const {} {}_table[] = {{{}}};\n", text.table_type, kernel.name, text.table);
    start.insert(signature.size(),
                 fmt::format("  const {}* const table = {}_table;\n", text.table_type, kernel.name));
  }
  const std::string at_once = text.blocks_at_once > 0 ? fmt::format(", {}", text.blocks_at_once) : "";
  kernel.source += fmt::format("extern \"C\" __global__ void __launch_bounds__({}{}) {}{}", text.threads,
                               at_once, kernel.name, start);
  kernel.blocks = text.blocks;
  kernel.threads = text.threads;
  kernel.shared_bytes = text.shared_bytes;
  kernel.pointers = std::ssize(text.in) + std::ssize(text.out);
  kernel.alignment = text.alignment;
  kernel.is_long = text.is_long;
  kernel.block_arguments = text.block_arguments;
  return kernel;
}

KernelText TextOf(const OpRow& row, const KernelSpec& spec) {
  KernelText text{.name = row.name, .in = {}, .out = {}, .body = {}};
  for (const TensorSpec& operand : spec.operands) text.in.push_back(operand.local);
  for (const TensorSpec& result : spec.results) text.out.push_back(result.local);
  text.in_place = std::any_of(row.in_place.begin(), row.in_place.end(), [](int o) { return o >= 0; });
  return text;
}

void TakeBlock(KernelText& text, const KernelSpec& spec, bool is_result, int index) {
  text.block_arguments.push_back({is_result, index});
  const auto at = static_cast<size_t>(index);
  text.block_shapes.push_back((is_result ? spec.results[at] : spec.operands[at]).local.shape);
}

CudaKernel ForEach(KernelText text, int64_t count, std::string_view lines) {
  // A thread's next element lies one grid further on. The blocks fill a GPU many times over.
  constexpr int64_t kMostBlocks = int64_t{1} << 16;
  text.blocks = std::min((count + text.threads - 1) / text.threads, kMostBlocks);
  text.most_elements = std::max(text.most_elements, count);
  text.body =
      Indented(text.body) +
      fmt::format(
          "  for (Index i = (Index)blockIdx.x * {0} + (Index)threadIdx.x; i < {1}; i += (Index)gridDim.x * {0}) {{\n{2}  "
          "}}\n",
          text.threads, Whole(count), Indented(Indented(lines)));
  return Finish(text);
}

}  // namespace meshwork::cuda

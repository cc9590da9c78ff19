#include "meshwork/ops/kernels/cuda/strided.h"

#include "meshwork/base/status.h"

namespace meshwork::cuda {

std::string ByWords(size_t operands, int64_t bytes) {
  std::string text = fmt::format("const bool by_words = (unsigned long long)r0 % {} == 0", bytes);
  for (size_t o = 0; o < operands; ++o)
    text += fmt::format(" && (unsigned long long)a{} % {} == 0", o, bytes);
  return text + ";\n";
}
std::string MovedWord(DType dtype, int64_t elements, std::string_view to, size_t o, std::string_view from) {
  if (elements == 1) return fmt::format("r0[{}] = a{}[{}];\n", to, o, from);
  return fmt::format(
      "if (by_words)\n  (({0}*)r0)[{1}] = ((const {0}*)a{2})[{3}];\n"
      "else\n  for (int x = 0; x < {4}; ++x) r0[({1}) * {4} + x] = a{2}[({3}) * {4} + x];\n",
      WordOf(elements * DTypeSize(dtype)), to, o, from, elements);
}

namespace {

// The number of elements of a word that are contiguous in the operand and in the result.
int64_t WordsOf(const Walk& walk, DType dtype, int64_t offset) {
  if (walk.dims.empty() || walk.dims.back().strides[0] != 1) return 1;
  int64_t elements = ElementsOfWord(dtype, walk.dims.back().size);
  const auto fits = [&](int64_t stride) { return stride % elements == 0; };
  for (size_t d = 0; d + 1 < walk.dims.size(); ++d)
    while (elements > 1 && !fits(walk.dims[d].strides[0])) elements /= 2;
  while (elements > 1 && !fits(offset)) elements /= 2;
  return elements;
}

// Two dims, of which the operand is dense along one and the result along the other: a block has 32 x 32 elements.
CudaKernel TiledMove(const OpRow& row, const KernelSpec& spec, const Walk& walk, size_t dense,
                     int64_t offset) {
  constexpr std::string_view kLines = R"(__shared__ {type} tile[32][33];
const int x = (int)threadIdx.x % 32, y = (int)threadIdx.x / 32;
const Index first_column = (Index)blockIdx.x % {tiles_n} * 32, first_row = (Index)blockIdx.x / {tiles_n} % {tiles_m} * 32;
const Index outer = (Index)blockIdx.x / ({tiles_n} * {tiles_m});
{places}const Index from = {offset} + {from}, to = {to};
for (int i = y; i < 32; i += 8) {{
  const Index row = first_row + x, column = first_column + i;
  if (row < {m} && column < {n}) tile[i][x] = a0[from + row + column * {step}];
}}
__syncthreads();
for (int i = y; i < 32; i += 8) {{
  const Index row = first_row + i, column = first_column + x;
  if (row < {m} && column < {n}) r0[to + row * {row_step} + column] = tile[x][i];
}}
)";
  const int64_t m = walk.dims[dense].size, n = walk.dims.back().size;
  Shape outer, from, to;
  int64_t inner = 1;
  Shape dense_strides(walk.dims.size());
  for (size_t d = walk.dims.size(); d-- > 0; inner *= walk.dims[d].size) dense_strides[d] = inner;
  for (size_t d = 0; d + 1 < walk.dims.size(); ++d) {
    if (d == dense) continue;
    outer.push_back(walk.dims[d].size);
    from.push_back(walk.dims[d].strides[0]);
    to.push_back(dense_strides[d]);
  }
  const int64_t tiles_m = (m + 31) / 32, tiles_n = (n + 31) / 32;
  KernelText text = TextOf(row, spec);
  text.blocks = NumElements(outer) * tiles_m * tiles_n;
  text.body = Indented(fmt::format(
      kLines, fmt::arg("type", StoredName(spec.results[0].local.dtype)), fmt::arg("tiles_n", Whole(tiles_n)),
      fmt::arg("tiles_m", Whole(tiles_m)), fmt::arg("places", PlacesAlong(outer, "outer", "p")),
      fmt::arg("offset", Whole(offset)), fmt::arg("from", OffsetOf(from, "p")),
      fmt::arg("to", OffsetOf(to, "p")), fmt::arg("m", Whole(m)), fmt::arg("n", Whole(n)),
      fmt::arg("step", Whole(walk.dims.back().strides[0])),
      fmt::arg("row_step", Whole(dense_strides[dense]))));
  text.most_elements = text.blocks + 64;
  return Finish(text);
}

}  // namespace

CudaKernel StridedMove(const OpRow& row, const KernelSpec& spec, const Shape& strides, int64_t offset) {
  constexpr int64_t kLeastTiled = 8;
  const DType dtype = spec.results[0].local.dtype;
  Walk walk = Walk::Of(spec.results[0].local.shape, {&strides, 1});
  if (!walk.dims.empty() && walk.dims.back().strides[0] != 1 && walk.dims.back().size >= kLeastTiled)
    for (size_t d = 0; d + 1 < walk.dims.size(); ++d)
      if (walk.dims[d].strides[0] == 1 && walk.dims[d].size >= kLeastTiled &&
          spec.results[0].local.num_elements() > 0)
        return TiledMove(row, spec, walk, d, offset);
  const int64_t elements = WordsOf(walk, dtype, offset);
  if (elements > 1) {
    for (size_t d = 0; d + 1 < walk.dims.size(); ++d) walk.dims[d].strides[0] /= elements;
    walk.dims.back().size /= elements;
  }
  const std::string at = walk.Offset(0, "i");
  const std::string from = offset == 0 ? at : fmt::format("{} + {}", Whole(offset / elements), at);
  KernelText text = TextOf(row, spec);
  if (elements > 1) text.body = ByWords(1, elements * DTypeSize(dtype));
  return ForEach(std::move(text), spec.results[0].local.num_elements() / elements,
                 walk.Places("i") + MovedWord(dtype, elements, "i", 0, from));
}

}  // namespace meshwork::cuda

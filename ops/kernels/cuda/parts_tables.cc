// Parts that are tables: lookups, and updates of the rows that were looked up.
#include <algorithm>
#include <string>

#include "meshwork/base/status.h"
#include "meshwork/ops/kernels/cuda/parts.h"
#include "meshwork/ops/kernels/cuda/parts_text.h"
#include "meshwork/ops/kernels/cuda/scatter_blocks.h"
#include "meshwork/ops/kernels/cuda/text.h"
#include "meshwork/ops/kernels/indexing.h"

namespace meshwork {
namespace cuda {

// Rows that are not in memory give zeros.
CudaKernel LookupsOfParts(const KernelSpec& spec, int64_t alignment) {
  constexpr int64_t kAtOnce = 4;  // words of a thread whose loads are under way together
  const DType dtype = spec.results[0].local.dtype;
  const int64_t inner =
      std::max<int64_t>(SizesOf(spec.operands[0].local.shape, spec.operands[1].local.shape, 0).inner, 1);
  int64_t together = ElementsOfWord(dtype, inner);
  while (together > 1 && alignment % (together * DTypeSize(dtype)) != 0) together /= 2;
  const std::string body =
      LinesThatFindPart({}, {}) +
      fmt::format(
          R"(const {type}* const p0 = (const {type}*)part.pointers[0];
const {index}* const p1 = (const {index}*)part.pointers[1];
{type}* const q0 = ({type}*)part.pointers[2];
const long long end = begin + per_block < part.elements ? begin + per_block : part.elements;
for (long long first = begin + (long long)threadIdx.x * {together}; first < end; first += {stride} * {at_once}) {{
  {word} words[{at_once}];
#pragma unroll
  for (int u = 0; u < {at_once}; ++u) {{
    const long long to = first + u * {stride};
    words[u] = {{}};
    if (to >= end) continue;
    const long long row = Within((long long)p1[to / {inner}], part.last_row) - part.first_row;
    if (row >= 0 && row < part.rows) words[u] = *(const {word}*)(p0 + row * {inner} + to % {inner});
  }}
#pragma unroll
  for (int u = 0; u < {at_once}; ++u) {{
    const long long to = first + u * {stride};
    if (to < end) *({word}*)(q0 + to) = words[u];
  }}
}}
)",
          fmt::arg("type", StoredName(dtype)), fmt::arg("index", StoredName(spec.operands[1].local.dtype)),
          fmt::arg("together", together), fmt::arg("stride", kSweepThreads * together),
          fmt::arg("at_once", kAtOnce), fmt::arg("word", WordOf(together * DTypeSize(dtype))),
          fmt::arg("inner", Whole(inner)));
  CudaKernel kernel = KernelOfParts("gather", spec, spec.operands.size(), body);
  kernel.alignment = together * DTypeSize(dtype);
  return kernel;
}

namespace {

constexpr std::string_view kRowUpdates =
    R"(__shared__ UpdateList<Index> list;
const Index all_rows = (Index)(part.elements / {inner}), first_row = (Index)(begin / {inner});
const Index own = (Index)(per_block / {inner}), left = all_rows - first_row;
const auto row_of = [&](Index j) -> long long {{
  return Within((long long)indices[j], part.last_row) - part.first_row;
}};
const auto initial_of = [&](Index) -> {number} {{ return 0; }};
const auto update_of = [&](Index at) -> {number} {{ return {loaded}; }};
const auto combine = [&]({number} a, {number} b) -> {number} {{ return Sum(a, b); }};
const auto store = [&](Index i, {number} all) {{
  const {number} x1 = {rounded};
  if (x1 == 0) {{
{stays}    return;
  }}
{lines}}};
ScatterToRows<{wide}, {per}, {number}>(list, (Index)0, all_rows, first_row, left < own ? left : own, (Index){inner},
                                       (Index)part.count, row_of, initial_of, update_of, combine, store);
)";

}  // namespace
}  // namespace cuda

bool IsLazyUpdate(const OpRow& row, const Attrs& attrs) {
  return row.name == "adagrad_update" || (row.name == "adam_update" && attrs.Get<bool>("lazy"));
}

CudaKernel MakeCudaRowUpdates(const OpRow& row, const KernelSpec& spec, const KernelSpec& scatter) {
  constexpr size_t kGradient = 1;
  const cuda::Sweep sweep = cuda::SweepOfPart(row, spec);
  const DType dtype = spec.results[0].local.dtype;
  const Type &updates = scatter.operands[0].local, &indices = scatter.operands[1].local;
  const IndexedSizes s = SizesOf(scatter.results[0].local.shape, indices.shape, 0);
  const bool is_wide = std::max(s.n * s.inner, updates.num_elements()) >= (int64_t{1} << 31) - 1024;
  std::string body = fmt::format("using Index = {};\n", is_wide ? "long long" : "int") +
                     cuda::LinesThatFindPart(sweep.before, sweep.behind);
  size_t pointer = 0;
  const auto declare = [&](std::string_view qualifier, DType of, const std::string& name) {
    body += fmt::format("{0}{1}* const {2} = ({0}{1}*)part.pointers[{3}];\n", qualifier, cuda::StoredName(of),
                        name, pointer++);
  };
  std::string lines, stays;
  for (size_t o = 0; o < sweep.in.size(); ++o) {
    declare("const ", sweep.in[o], fmt::format("p{}", o));
    if (o != kGradient)
      lines += fmt::format("const {} x{} = {};\n", cuda::ComputeName(dtype), o,
                           cuda::Loaded(dtype, fmt::format("p{}[i]", o)));
  }
  declare("const ", indices.dtype, "indices");
  lines += sweep.lines;
  for (size_t r = 0; r < sweep.out.size(); ++r) {
    declare("", sweep.out[r], fmt::format("q{}", r));
    lines += fmt::format("q{}[i] = {};\n", r, cuda::Rounded(dtype, fmt::format("v{}", r)));
    stays += fmt::format("    if (q{0} != p{1}) q{0}[i] = p{1}[i];\n", r, row.in_place[r]);
  }
  MESHWORK_CHECK(pointer <= kMostPointersOfPart, "{} has rows of {} pointers", row.name, pointer);
  const auto [wide, per] = cuda::ThreadsOfRow(s.inner);
  body += fmt::format(cuda::kRowUpdates, fmt::arg("inner", cuda::Whole(std::max<int64_t>(s.inner, 1))),
                      fmt::arg("number", cuda::ComputeName(dtype)),
                      fmt::arg("loaded", cuda::Loaded(dtype, "p1[at]")),
                      fmt::arg("rounded", cuda::RoundedNumber(dtype, "all")), fmt::arg("stays", stays),
                      fmt::arg("lines", cuda::Indented(lines)), fmt::arg("wide", wide), fmt::arg("per", per));
  return cuda::KernelOfParts(fmt::format("scatter_add_{}", row.name), spec, sweep.in.size(), body);
}

int64_t ElementsPerRowUpdatesBlock(int64_t rows, int64_t inner) {
  return cuda::RowsOfScatterBlock(rows) * std::max<int64_t>(inner, 1);
}

}  // namespace meshwork

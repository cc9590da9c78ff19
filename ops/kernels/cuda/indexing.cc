// Gathers, whose threads compute some elements each, and scatters, whose blocks compute some rows each: a block reads
// all indices and takes the updates of its rows, in their order, so that no sum depends on the order of threads.
#include "meshwork/ops/kernels/indexing.h"

#include <algorithm>

#include "meshwork/base/status.h"
#include "meshwork/ops/kernels/cuda/families.h"
#include "meshwork/ops/kernels/cuda/scatter_blocks.h"
#include "meshwork/ops/kernels/cuda/text.h"

namespace meshwork::cuda {
namespace {

std::string AtLeastOne(int64_t x) { return Whole(std::max<int64_t>(x, 1)); }

// ---- One index along a dim.

CudaKernel Gather(const OpRow& row, const KernelSpec& spec) {
  const int64_t dim = spec.attrs.Get<int64_t>("dim");
  const IndexedSizes s = SizesOf(spec.operands[0].local.shape, spec.operands[1].local.shape, dim);
  const DType dtype = spec.results[0].local.dtype;
  const int64_t together = ElementsOfWord(dtype, s.inner);
  const int64_t bytes = together * DTypeSize(dtype);
  const std::string_view word = WordOf(bytes);
  KernelText text = TextOf(row, spec);
  TakeBlock(text, spec, /*is_result=*/false, 0);
  text.body = fmt::format(
      "const bool by_words = (unsigned long long)a0 % {0} == 0 && (unsigned long long)r0 % {0} == 0;\n",
      bytes);
  return ForEach(
      std::move(text), spec.results[0].local.num_elements() / together,
      fmt::format("const Index column = i % {0} * {6}, which = i / {0} % {1}, slab = i / ({0} * {1});\n"
                  "const long long row = Within((long long)a1[which], {2}) - a0_start{3};\n"
                  "const bool is_here = row >= 0 && row < a0_size{3};\n"
                  "const Index from = (slab * {4} + (is_here ? (Index)row : 0)) * {8} + column;\n"
                  "if (is_here && by_words)\n  *({7}*)(r0 + i * {6}) = *(const {7}*)(a0 + from);\n"
                  "else\n  for (int x = 0; x < {6}; ++x) r0[i * {6} + x] = is_here ? a0[from + x] : {5};\n",
                  AtLeastOne(s.inner / together), AtLeastOne(s.count),
                  Whole(spec.operands[0].global.shape[dim] - 1), dim, Whole(s.n),
                  Identity(dtype, ReduceOp::kSum), together, word, Whole(s.inner)));
}

// The combination of the updates of a place in a scatter.
struct Scatter {
  int64_t slabs, rows, inner, count;  // the result: [slabs, rows, inner]; the updates: [slabs, count, inner]
  int updates;                        // the number of their operand
  std::string row;                    // of update j of `slab`: the row of the slab that it goes to
  std::string type, initial;          // of what is kept while updates come
  std::string combined;               // of a and b, an update
  std::string update, result;         // of `at`; of `all`, to be stored
};

constexpr std::string_view kScatter = R"(__shared__ UpdateList<Index> list;
const Index slab = (Index)blockIdx.x / {tiles}, first_row = (Index)blockIdx.x % {tiles} * {own};
const auto row_of = [&](Index j) -> long long {{
{row_lines}  return update_row;
}};
const auto initial_of = [&](Index to) -> {type} {{ return {initial}; }};
const auto update_of = [&](Index at) -> {type} {{ return {update}; }};
const auto combine = [&]({type} a, {type} b) -> {type} {{ return {combined}; }};
const auto store = [&](Index to, {type} all) {{ r0[to] = {result}; }};
ScatterToRows<{wide}, {per}, {type}>(list, slab, (Index){rows}, first_row,
                                     {rows} - first_row < {own} ? (Index)({rows} - first_row) : (Index){own}, (Index){inner},
                                     (Index){count}, row_of, initial_of, update_of, combine, store);
)";

CudaKernel ScatterRows(KernelText text, const Scatter& s) {
  const int64_t own = RowsOfScatterBlock(s.slabs * s.rows);
  const int64_t tiles = std::max<int64_t>((s.rows + own - 1) / own, 1);
  const auto [wide, per] = ThreadsOfRow(s.inner);
  text.threads = 256;
  text.blocks = s.inner == 0 || s.rows == 0 ? 0 : s.slabs * tiles;
  text.most_elements = std::max({text.blocks, s.count + 1024, s.inner + 1024});
  text.body = Indented(fmt::format(
      kScatter, fmt::arg("tiles", Whole(tiles)), fmt::arg("own", Whole(own)), fmt::arg("rows", Whole(s.rows)),
      fmt::arg("inner", Whole(s.inner)), fmt::arg("count", Whole(s.count)), fmt::arg("type", s.type),
      fmt::arg("initial", s.initial), fmt::arg("row_lines", Indented(s.row)), fmt::arg("update", s.update),
      fmt::arg("combined", s.combined), fmt::arg("wide", wide), fmt::arg("per", per),
      fmt::arg("result", s.result)));
  return Finish(text);
}

// The row of update j along `dim` of result 0, by the indices of operand `indices`.
std::string RowAlong(const KernelSpec& spec, int indices, int64_t dim) {
  return fmt::format("const long long update_row = Within((long long)a{}[j], {}) - r0_start{};\n", indices,
                     Whole(spec.results[0].global.shape[dim] - 1), dim);
}

// A scatter of the updates in operand 0, by the indices in operand 1.
CudaKernel ScatterAlong(const OpRow& row, const KernelSpec& spec, std::string_view initial,
                        std::string_view combined) {
  const int64_t dim = spec.attrs.Get<int64_t>("dim");
  const IndexedSizes s = SizesOf(spec.results[0].local.shape, spec.operands[1].local.shape, dim);
  const DType dtype = spec.results[0].local.dtype;
  KernelText text = TextOf(row, spec);
  TakeBlock(text, spec, /*is_result=*/true, 0);
  return ScatterRows(
      std::move(text),
      {s.outer, s.n, s.inner, s.count, 0, RowAlong(spec, 1, dim), std::string(ComputeName(dtype)),
       std::string(initial), std::string(combined), Loaded(dtype, "a0[at]"), Rounded(dtype, "all")});
}

CudaKernel ScatterAdd(const OpRow& row, const KernelSpec& spec) {
  return ScatterAlong(row, spec, "0", "Sum(a, b)");
}
CudaKernel ScatterMax(const OpRow& row, const KernelSpec& spec) {
  return ScatterAlong(row, spec, fmt::format("Limits<{}>::Least()", ComputeName(spec.results[0].local.dtype)),
                      "Larger(a, b)");
}
CudaKernel ScatterMin(const OpRow& row, const KernelSpec& spec) {
  return ScatterAlong(row, spec, fmt::format("Limits<{}>::Most()", ComputeName(spec.results[0].local.dtype)),
                      "Smaller(a, b)");
}

// The operands are indices, x and updates.
CudaKernel ScatterUpdate(const OpRow& row, const KernelSpec& spec) {
  const int64_t dim = spec.attrs.Get<int64_t>("dim");
  const IndexedSizes s = SizesOf(spec.results[0].local.shape, spec.operands[0].local.shape, dim);
  KernelText text = TextOf(row, spec);
  TakeBlock(text, spec, /*is_result=*/true, 0);
  return ScatterRows(std::move(text),
                     {s.outer, s.n, s.inner, s.count, 2, RowAlong(spec, 0, dim),
                      std::string(StoredName(spec.results[0].local.dtype)), "a1[to]", "b", "a2[at]", "all"});
}

// ---- Several indices: x: [batch.., n.., rest..], indices: [batch.., places.., k].

struct Groups {
  int64_t batches = 1, rows = 1, rest = 1, count = 1, width;
  // The lines that make `name`, the row of the place whose indices begin at a1[from], or -1 if it is not in the block
  // of `x`.
  std::string lines;

  Groups(const KernelSpec& spec, bool x_is_result, std::string_view from, std::string_view name) {
    const TensorSpec &x = x_is_result ? spec.results[0] : spec.operands[0], &indices = spec.operands[1];
    const auto batch = static_cast<size_t>(spec.attrs.Get<int64_t>("batch_dims"));
    const Shape& local = x.local.shape;
    width = indices.local.shape.back();
    const size_t end = batch + static_cast<size_t>(width);
    for (size_t d = 0; d < local.size(); ++d) (d < batch ? batches : d < end ? rows : rest) *= local[d];
    for (size_t d = batch; d + 1 < indices.local.shape.size(); ++d) count *= indices.local.shape[d];
    lines = fmt::format("long long {} = 0;\n", name);
    const std::string tensor = x_is_result ? "r0" : "a0";
    for (size_t d = batch; d < end; ++d)
      lines += fmt::format(
          "{{\n  const long long at = Within((long long)a1[{1} + {2}], {3}) - {4}_start{5};\n"
          "  {0} = {0} < 0 || at < 0 || at >= {4}_size{5} ? -1 : {0} * {6} + at;\n}}\n",
          name, from, d - batch, Whole(x.global.shape[d] - 1), tensor, d, Whole(local[d]));
  }
};

CudaKernel GatherNd(const OpRow& row, const KernelSpec& spec) {
  const Groups g(spec, /*x_is_result=*/false, "from", "row");
  KernelText text = TextOf(row, spec);
  TakeBlock(text, spec, /*is_result=*/false, 0);
  return ForEach(
      std::move(text), spec.results[0].local.num_elements(),
      fmt::format("const Index place = i / {0}, batch = place / {1};\nconst Index from = place * {2};\n{3}"
                  "r0[i] = row < 0 ? {4} : a0[(batch * {5} + row) * {0} + i % {0}];\n",
                  AtLeastOne(g.rest), AtLeastOne(g.count), Whole(g.width), g.lines,
                  Identity(spec.results[0].local.dtype, ReduceOp::kSum), Whole(g.rows)));
}

CudaKernel ScatterNdAdd(const OpRow& row, const KernelSpec& spec) {
  const int64_t width = spec.operands[1].local.shape.back();
  const Groups sizes(spec, /*x_is_result=*/true, "", "");
  const Groups g(spec, /*x_is_result=*/true,
                 fmt::format("(slab * {} + j) * {}", Whole(sizes.count), Whole(width)), "update_row");
  const DType dtype = spec.results[0].local.dtype;
  KernelText text = TextOf(row, spec);
  TakeBlock(text, spec, /*is_result=*/true, 0);
  return ScatterRows(std::move(text),
                     {g.batches, g.rows, g.rest, g.count, 0, g.lines, std::string(ComputeName(dtype)), "0",
                      "Sum(a, b)", Loaded(dtype, "a0[at]"), Rounded(dtype, "all")});
}

// ---- An index for each element along a dim.

struct Around {
  int64_t outer = 1, n, inner = 1;

  Around(const Shape& shape, int64_t dim) : n(shape[dim]) {
    for (int64_t d = 0; d < std::ssize(shape); ++d)
      if (d != dim) (d < dim ? outer : inner) *= shape[d];
  }
};

CudaKernel TakeAlongDim(const OpRow& row, const KernelSpec& spec) {
  const int64_t dim = spec.attrs.Get<int64_t>("dim");
  const Around to(spec.results[0].local.shape, dim), from(spec.operands[0].local.shape, dim);
  KernelText text = TextOf(row, spec);
  TakeBlock(text, spec, /*is_result=*/false, 0);
  return ForEach(
      std::move(text), spec.results[0].local.num_elements(),
      fmt::format("const Index outer = i / ({0} * {1}), column = i % {1};\n"
                  "const long long at = Within((long long)a1[i], {2}) - a0_start{3};\n"
                  "r0[i] = at >= 0 && at < a0_size{3} ? a0[(outer * {4} + at) * {5} + column] : {6};\n",
                  AtLeastOne(to.n), AtLeastOne(to.inner), Whole(spec.operands[0].global.shape[dim] - 1), dim,
                  Whole(from.n), Whole(from.inner), Identity(spec.results[0].local.dtype, ReduceOp::kSum)));
}

CudaKernel ScatterAddAlongDim(const OpRow& row, const KernelSpec& spec) {
  const int64_t dim = spec.attrs.Get<int64_t>("dim");
  const Around to(spec.results[0].local.shape, dim);
  const DType dtype = spec.results[0].local.dtype;
  KernelText text = TextOf(row, spec);
  TakeBlock(text, spec, /*is_result=*/true, 0);
  return ForEach(
      std::move(text), spec.results[0].local.num_elements(),
      fmt::format(
          "const Index outer = i / ({0} * {1}), row = i / {1} % {0}, column = i % {1};\n{2} all = 0;\n"
          "for (Index j = 0; j < {3}; ++j) {{\n  const Index from = (outer * {3} + j) * {1} + column;\n"
          "  if (Within((long long)a1[from], {4}) - r0_start{5} == row) all = Sum(all, {6});\n}}\nr0[i] = {7};\n",
          AtLeastOne(to.n), AtLeastOne(to.inner), ComputeName(dtype),
          Whole(spec.operands[0].local.shape[dim]), Whole(spec.results[0].global.shape[dim] - 1), dim,
          fmt::format("({}){}", ComputeName(dtype), Loaded(dtype, "a0[from]")), Rounded(dtype, "all")));
}

// ---- The slices of loops (runtime/plan/loop.cc).

CudaKernel LoopSlice(const OpRow& row, const KernelSpec& spec) {
  const int64_t n = spec.results[0].local.num_elements();
  return ForEach(TextOf(row, spec), n, fmt::format("r0[i] = a0[a1[0] * {} + i];\n", Whole(n)));
}

CudaKernel LoopStore(const OpRow& row, const KernelSpec& spec) {
  const int64_t n = spec.operands[1].local.num_elements();
  // If the result lies over operand 0, all elements but the slice are in place already.
  return ForEach(TextOf(row, spec), spec.results[0].local.num_elements(),
                 fmt::format("if (r0 != a0) r0[i] = i / {0} == a2[0] ? a1[i % {0}] : a0[i];\n"
                             "else if (i < {0}) r0[a2[0] * {0} + i] = a1[i];\n",
                             AtLeastOne(n)));
}

}  // namespace

int64_t RowsOfScatterBlock(int64_t rows) {
  // Blocks for all multiprocessors, if there are rows for them; each block reads all indices.
  constexpr int64_t kEnoughBlocks = 512, kMostRows = 240;
  return std::clamp<int64_t>(rows / kEnoughBlocks, 1, kMostRows);
}

RowThreads ThreadsOfRow(int64_t inner) {
  int64_t wide = 32;
  while (wide < 256 && wide < inner) wide *= 2;
  return {wide, std::clamp<int64_t>((inner + wide - 1) / wide, 1, 4)};
}

std::span<const Generator> IndexingKernels() {
  static constexpr Generator kGenerators[] = {
      {"gather", Gather},
      {"gather_nd", GatherNd},
      {"scatter_add", ScatterAdd},
      {"scatter_max", ScatterMax},
      {"scatter_min", ScatterMin},
      {"scatter_update", ScatterUpdate},
      {"scatter_nd_add", ScatterNdAdd},
      {"take_along_dim", TakeAlongDim},
      {"scatter_add_along_dim", ScatterAddAlongDim},
      {"loop_slice", LoopSlice},
      {"loop_store", LoopStore},
  };
  return kGenerators;
}

}  // namespace meshwork::cuda

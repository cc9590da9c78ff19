#include "meshwork/ops/kernels/cuda/rows_chunks.h"

#include "fmt/format.h"
#include "meshwork/ops/kernels/cuda/text.h"

namespace meshwork::cuda {
namespace {

// Chunks that a thread reads at once if it does not keep them in registers.
constexpr int64_t kChunksAtOnce = 4;

}  // namespace

std::string RowsChunks::NarrowLoad(size_t o) const {
  const DType dtype = plan_.inputs[o].type.dtype;
  return fmt::format("{} y{};\n{}const {} x{} = {};\n", StoredName(dtype), o,
                     plan_.inputs[o].LinesOfLoad(o, "row", fmt::format("y{}", o), 1), ComputeName(dtype), o,
                     Loaded(dtype, fmt::format("y{}", o)));
}

std::string RowsChunks::KeptLoads() const {
  return Declarations(plan_.chunks) + ForChunks("0", plan_.chunks, Loads("k"));
}

std::string RowsChunks::ForAllChunks(const std::string& lines, bool is_first) const {
  if (plan_.is_kept) return ForChunks("0", plan_.chunks, lines);
  const bool is_shared = plan_.text.shared_bytes > 0 && !is_first;
  const int64_t at_once = is_shared ? 1 : kChunksAtOnce;
  const std::string loads =
      is_shared ? SharedLines(false) + Loads("k - first", /*is_narrow=*/true) : Loads("k - first");
  const std::string keeps = plan_.text.shared_bytes > 0 && is_first ? SharedLines(true) : "";
  return fmt::format("for (int first = 0; first < {}; first += {}) {{\n{}}}\n", plan_.chunks, at_once,
                     Indented(Declarations(at_once) + ForChunks("first", at_once, loads) +
                              ForChunks("first", at_once, keeps + lines)));
}

std::string RowsChunks::ForElements(const std::string& lines) const {
  const bool is_even = plan_.size % plan_.chunk == 0;
  return fmt::format(
      "#pragma unroll\nfor (int e = 0; e < {}; ++e) {{\n{}}}\n", plan_.chunk,
      Indented(is_even ? lines
                       : fmt::format("if (column + e < {}) {{\n{}}}\n", Whole(plan_.size), Indented(lines))));
}

std::string RowsChunks::Declarations(int64_t count) const {
  std::string lines;
  for (size_t o = 0; o < plan_.inputs.size(); ++o) {
    if (!plan_.is_wide_input[o]) continue;
    const DType dtype = plan_.inputs[o].type.dtype;
    lines += fmt::format("{} m{}[{}];\n", plan_.IsPack(o) ? PackName(dtype, plan_.chunk) : StoredName(dtype),
                         o, count);
  }
  return lines;
}

std::string RowsChunks::SharedLines(bool stores) const {
  std::string lines;
  int64_t begin = 0;
  for (size_t o = 0; o < plan_.inputs.size(); ++o) {
    if (!plan_.is_wide_input[o] || !plan_.IsPack(o)) continue;
    const std::string pack = PackName(plan_.inputs[o].type.dtype, plan_.chunk);
    const std::string at = fmt::format("(({}*)(shared + {}))[k * {} + lane]", pack, begin / 16, plan_.lanes);
    const std::string mine = fmt::format("m{}[k - first]", o);
    lines += stores ? fmt::format("{} = {};\n", at, mine) : fmt::format("{} = {};\n", mine, at);
    begin += plan_.SharedBytesOf(o);
  }
  return lines;
}

std::string RowsChunks::Loads(std::string_view at, bool is_narrow) const {
  std::string lines;
  for (size_t o = 0; o < plan_.inputs.size(); ++o) {
    if (!plan_.is_wide_input[o] || (is_narrow && plan_.IsPack(o))) continue;
    const std::string to = fmt::format("m{}[{}]", o, at);
    lines += plan_.is_packed ? plan_.inputs[o].LinesOfLoad(o, "i", to, plan_.chunk)
                             : plan_.inputs[o].LinesOfLoad(o, "(i + e)", to + ".at[e]", 1);
  }
  return plan_.is_packed ? lines : ForElements(lines);
}

std::string RowsChunks::ForChunks(std::string_view first, int64_t count, const std::string& lines) const {
  return fmt::format(
      "#pragma unroll\nfor (int k = {0}; k < {0} + {1}; ++k) {{\n  const Index column = (lane + k * {2}) * {3};\n"
      "  if (column < {4}) {{\n    const Index i = row * {4} + column;\n{5}  }}\n}}\n",
      first, count, plan_.lanes, plan_.chunk, Whole(plan_.size), Indented(Indented(lines)));
}

}  // namespace meshwork::cuda

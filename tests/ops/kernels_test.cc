// The kernel of every row gives the same result, whatever pieces its work is cut into.
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/text.h"
#include "meshwork/ops/ops.h"
#include "ops/apply.h"
#include "support/interpreter.h"

namespace meshwork::kernels_test {
namespace {

// The program of one node that a sample stands for: "f32[4,6], f32[6]; dims=[0]".
std::string ProgramOf(const OpRow& row, std::string_view sample) {
  const std::string_view types = sample.substr(0, sample.find(';'));
  const std::string_view attrs =
      sample.find(';') == std::string_view::npos ? "" : sample.substr(sample.find(';') + 1);
  std::string arguments, operands, results;
  int count = 0;
  for (size_t at = 0; at < types.size();) {
    size_t end = types.find("],", at);
    end = end == std::string_view::npos ? types.size() : end + 1;
    arguments += fmt::format("{}%x{}: {}", count == 0 ? "" : ", ", count, types.substr(at, end - at));
    operands += fmt::format("{}%x{}", count == 0 ? "" : ", ", count);
    ++count;
    at = end + 1;
  }
  for (int r = 0; r < row.num_results; ++r) results += fmt::format("{}%{}", r == 0 ? "" : ", ", r);
  return fmt::format("mesh []\nfunc f({}) {{\n  {} = {} {} {}\n}}\n", arguments, results, row.name, operands,
                     attrs);
}

TEST(KernelTest, OfEveryRowGivesTheSameInAnyPieces) {
  std::mt19937 random(12);
  int kernels = 0;
  for (const OpRow* row : AllOps()) {
    for (std::string_view sample : row->samples) {
      SCOPED_TRACE(fmt::format("{} {}", row->name, sample));
      const Graph graph = ParseGraph(ProgramOf(*row, sample)).value();
      const Node& node = graph.nodes()[0];
      std::vector<TensorPart> operands, whole, pieces;
      for (ValueId id : node.operands) {
        const Type& type = graph.value(id).type;
        operands.emplace_back(
            HostTensor(type, Draw(random, type.num_elements(), IsFloat(type.dtype) ? row->sample_low : 0,
                                  IsFloat(type.dtype) ? row->sample_high : (type.dtype == BOOL ? 2 : 5),
                                  !IsFloat(type.dtype))));
      }
      for (ValueId id : node.results) whole.emplace_back(HostTensor(graph.value(id).type));
      pieces = whole;
      RunKernel(*row, node.attrs, operands, whole);
      RunKernel(*row, node.attrs, operands, pieces, {1, 2, 3, 5, 8, 13, 21});
      for (size_t r = 0; r < whole.size(); ++r) EXPECT_EQ(pieces[r].local, whole[r].local);
      ++kernels;
    }
  }
  EXPECT_GT(kernels, 60);
}

}  // namespace
}  // namespace meshwork::kernels_test

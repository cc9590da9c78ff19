// What RegroupSums makes of the programs of its golden files computes what they do.
#include "spmd/regroup_sums.h"

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "ops/text.h"
#include "support/golden.h"
#include "support/interpreter.h"

namespace meshwork {
namespace {

TEST(RegroupSumsTest, ComputesTheSame) {
  for (const std::string& file : GoldenFiles("spmd/regroup_sums")) {
    SCOPED_TRACE(file);
    const std::string golden = ReadGolden(file);
    const Graph graph = ParseGraph(golden.substr(0, golden.find("----\n"))).value();
    std::map<std::string, std::vector<double>> feeds;
    int next = 0;
    for (const Argument& argument : graph.arguments()) {
      std::vector<double>& numbers = feeds[graph.value(argument.value).name];
      for (int64_t i = 0; i < graph.value(argument.value).type.num_elements(); ++i)
        numbers.push_back(std::sin(++next));
    }
    const InterpretedStep expected = Interpret(graph, feeds), found = Interpret(RegroupSums(graph), feeds);
    for (const auto& [name, value] : expected.outputs) {
      const std::vector<double> a = value.Numbers(), b = found.outputs.at(name).Numbers();
      ASSERT_EQ(a.size(), b.size());
      for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-4) << name << "[" << i << "]";
    }
  }
}

}  // namespace
}  // namespace meshwork

// RegroupSums does not change the results of the programs of its golden files.
#include "meshwork/spmd/regroup_sums.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "meshwork/ir/program.h"
#include "meshwork/ir/text.h"
#include "meshwork/spmd/compile.h"
#include "support/golden.h"
#include "support/interpreter.h"
#include "support/long_tests.h"

namespace meshwork::regroup_sums_test {
namespace {

// The program and what RegroupSums makes of it give the same numbers, up to rounding.
void ExpectSameNumbers(const Graph& graph, const Graph& regrouped, double tolerance) {
  std::map<std::string, std::vector<double>> feeds;
  int next = 0;
  for (const Argument& argument : graph.arguments()) {
    std::vector<double>& numbers = feeds[graph.value(argument.value).name];
    for (int64_t i = 0; i < graph.value(argument.value).type.num_elements(); ++i)
      numbers.push_back(std::sin(++next));
  }
  const InterpretedStep expected = Interpret(graph, feeds), found = Interpret(regrouped, feeds);
  for (const auto& [name, value] : expected.outputs) {
    const std::vector<double> a = value.Numbers(), b = found.outputs.at(name).Numbers();
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance) << name << "[" << i << "]";
  }
}

TEST(RegroupSumsTest, ComputesTheSame) {
  for (const std::string& file : GoldenFiles("spmd/regroup_sums")) {
    SCOPED_TRACE(file);
    const std::string golden = ReadGolden(file);
    const Graph graph = ParseGraph(golden.substr(0, golden.find("----\n"))).value();
    ExpectSameNumbers(graph, RegroupSums(graph), 1e-4);
  }
}

// Sums of products that are pending over either axis or both, of whole and sharded values and of vectors.
// Some of their parts are pinned, or have other readers, or occur twice.
Graph DrawSums(uint64_t seed) {
  std::mt19937_64 engine(seed);
  auto draw = [&](size_t n) { return static_cast<size_t>(engine() % n); };
  constexpr std::array<const char*, 5> kPins = {"{_,_}", "{x,_}", "{_,y}", "{x,y}", "{(x,y),_}"};
  std::string nodes, outputs;
  std::vector<std::string> terms;
  for (const char* axes : {"x", "y", "xy"}) {
    for (int i = 0; i < 2; ++i) {
      terms.push_back(fmt::format("%p{}", terms.size()));
      nodes += fmt::format("{0} = matmul %a{1}{2}, %b{1}\n", terms.back(), axes, i);
      if (draw(3) == 0) {
        nodes += fmt::format("%t{0} = mul {1}, %h\n", terms.size(), terms.back());
        terms.back() = fmt::format("%t{}", terms.size());
      }
    }
  }
  terms.insert(terms.end(), {"%r", "%s", "%v"});
  std::shuffle(terms.begin(), terms.end(), engine);
  terms.resize(3 + draw(7));
  if (terms[0] == "%v") std::swap(terms[0], terms[1]);
  if (draw(4) == 0) terms.push_back(terms[1]);
  for (int n = 0; terms.size() > 1; ++n) {
    const size_t i = draw(terms.size() - 1);
    const std::string sum = fmt::format("%n{}", n);
    nodes += fmt::format("{} = {} {}, {}", sum, draw(3) == 0 ? "sub" : "add", terms[i], terms[i + 1]);
    if (draw(12) == 0 && terms[i] != "%v") nodes += fmt::format(" : f64[4,8] {}", kPins[draw(kPins.size())]);
    nodes += "\n";
    terms[i] = sum;
    if (draw(8) == 0) {
      nodes += fmt::format("%m{} = neg {}\n", n, sum);
      terms[i] = fmt::format("%m{}", n);
    }
    if (draw(8) == 0) outputs += fmt::format("o{}={}, ", n, terms[i]);
    terms.erase(terms.begin() + static_cast<int64_t>(i) + 1);
  }
  return ParseGraph(
             fmt::format("mesh [x=2, y=2]\nfunc f(%ax0: f64[4,8] {{_,x}}, %ax1: f64[4,8] {{_,x}}, "
                         "%bx: f64[8,8] {{x,_}}, %ay0: f64[4,8] {{_,y}}, %ay1: f64[4,8] {{_,y}}, "
                         "%by: f64[8,8] {{y,_}}, %axy0: f64[4,8] {{_,(x,y)}}, %axy1: f64[4,8] "
                         "{{_,(x,y)}}, %bxy: f64[8,8] {{(x,y),_}}, %r: f64[4,8] {{_,_}}, "
                         "%s: f64[4,8] {{x,_}}, %v: f64[8] {{_}}, %h: f64[]) {{\n{0}return {1}y={2}\n}}",
                         nodes, outputs, terms[0]))
      .value();
}

TEST(RegroupSumsTest, ComputesTheSameOfRandomSumsThatVerifyAccepts) {
  int regrouped_count = 0;
  for (uint64_t seed = 0; seed < (LongTests() ? 3000 : 300); ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = DrawSums(seed);
    const Graph regrouped = RegroupSums(graph);
    regrouped_count += PrintGraph(regrouped) != PrintGraph(graph);
    ExpectSameNumbers(graph, regrouped, 1e-12);
    const absl::StatusOr<Program> program = Compile(graph);
    ASSERT_TRUE(program.ok()) << program.status() << "\n" << PrintGraph(graph);
  }
  EXPECT_GE(regrouped_count, 50);
}

}  // namespace
}  // namespace meshwork::regroup_sums_test

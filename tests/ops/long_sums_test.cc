// Sums of millions of f32 terms keep the digits that pairwise summation keeps, in every op that sums: products,
// reductions, gradients by filters and by weights. Programs and sizes are drawn, and compared with the same program
// in f64. All terms are positive, and half of the programs have equal terms, whose rounding errors all have one sign.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "gtest/gtest.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/ir/text.h"
#include "meshwork/ops/ops.h"
#include "support/interpreter.h"

namespace meshwork::long_sums_test {
namespace {

using Ints = std::vector<int64_t>;

class LongSums : public testing::Test {
 protected:
  int64_t Below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }

  // Positive numbers that bf16 holds, for each argument.
  std::map<std::string, std::vector<double>> Feeds(const Graph& graph) {
    std::map<std::string, std::vector<double>> feeds;
    const bool alike = Below(2) == 0;
    for (const Argument& argument : graph.arguments()) {
      const ValueInfo& info = graph.value(argument.value);
      std::vector<double>& numbers = feeds[info.name];
      const double first = 1 + static_cast<double>(Below(64)) / 64;
      for (int64_t i = 0; i < info.type.num_elements(); ++i)
        numbers.push_back(alike ? first : (1 + static_cast<double>(Below(127))) / 64);
    }
    return feeds;
  }

  // `terms`: the number of terms of each sum. In texts, REAL stands for the dtype.
  void ExpectAsInDouble(const std::function<Graph(DType)>& program, int64_t terms,
                        std::initializer_list<DType> dtypes = {F32, BF16}) {
    const Graph wide = program(F64);
    ASSERT_TRUE(wide.status().ok()) << wide.status();
    const auto feeds = Feeds(wide);
    const auto exact = Interpret(wide, feeds).outputs;
    const double bound = 1e-6 * (std::log2(static_cast<double>(terms)) + 4);
    for (const DType dtype : dtypes) {
      const Graph graph = program(dtype);
      const auto found = Interpret(graph, feeds).outputs;
      for (const auto& [name, output] : exact) {
        const std::vector<double> want = output.Numbers(), got = found.at(name).Numbers();
        double worst = 0;
        for (size_t i = 0; i < want.size(); ++i)
          worst = std::max(worst, std::abs(got[i] - want[i]) / std::max(want[i], 1e-3));
        EXPECT_LE(worst, dtype == BF16 ? std::ldexp(1, -8) + bound : bound) << terms << " terms\n"
                                                                            << PrintGraph(graph);
      }
    }
  }
  void ExpectAsInDouble(const std::string& text, int64_t terms) {
    ExpectAsInDouble(
        [&](DType dtype) {
          std::string program = text;
          for (size_t at; (at = program.find("REAL")) != std::string::npos;)
            program.replace(at, 4, dtype == F64 ? "f64" : dtype == F32 ? "f32" : "bf16");
          return ParseGraph(program).value();
        },
        terms);
  }

  // From one to 6 million terms, of every magnitude; with `others` numbers per term, accordingly fewer.
  int64_t DrawTerms(int64_t others) {
    const int64_t most = int64_t{6'000'000} / others;
    const double share = static_cast<double>(Below(1001)) / 1000;
    return std::max<int64_t>(1, std::llround(std::pow(static_cast<double>(most), share)));
  }

 private:
  std::mt19937_64 random_{11};
};

TEST_F(LongSums, OfProducts) {
  for (int round = 0; round < 40; ++round) {
    const int64_t m = Below(2) == 0 ? 1 : 1 + Below(20), n = Below(2) == 0 ? 1 : 1 + Below(20);
    const int64_t k = round == 0 ? 4'000'000 : DrawTerms(m + n);
    const bool ta = Below(2) == 0, tb = Below(2) == 0;
    const Shape a = ta ? Shape{k, m} : Shape{m, k}, b = tb ? Shape{n, k} : Shape{k, n};
    ExpectAsInDouble(fmt::format("mesh [] func f(%a: REAL[{}], %b: REAL[{}]) {{\n"
                                 "  %c = matmul %a, %b transpose_a={} transpose_b={} return c=%c }}",
                                 fmt::join(a, ","), fmt::join(b, ","), ta, tb),
                     k);
  }
}

// Products are computed in tiles, each of which has a sum.
TEST_F(LongSums, OfLargeProducts) {
  ExpectAsInDouble(
      "mesh [] func f(%a: REAL[270,17000], %b: REAL[17000,530]) { %c = matmul %a, %b return c=%c }", 17000);
  ExpectAsInDouble(
      "mesh [] func f(%a: REAL[1,4000], %b: REAL[1100,4000]) { %c = matmul %a, %b transpose_b=true return c=%c }",
      4000);
}

TEST_F(LongSums, OfManyProducts) {
  for (int round = 0; round < 10; ++round) {
    const int64_t m = 1 + Below(4), n = 1 + Below(4), k = 1 + Below(5), count = DrawTerms(4 * (m + n) * k);
    const bool tb = Below(2) == 0;
    ExpectAsInDouble(fmt::format("mesh [] func f(%a: REAL[{0},{1},{2}], %b: REAL[{0},{3},{4}]) {{\n"
                                 "  %c = matmul %a, %b sum_batch=true transpose_b={5} return c=%c }}",
                                 count, m, k, tb ? n : k, tb ? k : n, tb),
                     count * k);
  }
}

TEST_F(LongSums, OfReductions) {
  for (int round = 0; round < 30; ++round) {
    Shape shape;
    Ints dims;
    const int64_t rank = 1 + Below(3), longest = Below(rank);
    int64_t others = 1, terms = 1;
    for (int64_t d = 0; d < rank; ++d) {
      shape.push_back(1 + Below(5));
      if (d != longest) others *= shape.back();
    }
    shape[static_cast<size_t>(longest)] = DrawTerms(others);
    for (int64_t d = 0; d < rank; ++d) {
      if (d != longest && Below(2) == 0) continue;
      dims.push_back(d);
      terms *= shape[static_cast<size_t>(d)];
    }
    ExpectAsInDouble(fmt::format("mesh [] func f(%a: REAL[{}]) {{ %c = {} %a dims=[{}] return c=%c }}",
                                 fmt::join(shape, ","), Below(2) == 0 ? "reduce_sum" : "reduce_mean",
                                 fmt::join(dims, ",")),
                     terms);
  }
}

TEST_F(LongSums, OfGradientsByFilters) {
  for (int round = 0; round < 36; ++round) {
    const int64_t rank = 1 + Below(3), groups = Below(4) == 0 ? 2 : 1, ci = groups * (1 + Below(2)),
                  co = groups * (1 + Below(3));
    const int64_t positions = round == 0 ? 1'000'000 : DrawTerms(3 * (ci + co));
    Ints filter, strides, sizes, out;
    int64_t images = positions;
    for (int64_t d = 0; d < rank; ++d) {
      filter.push_back(1 + Below(3));
      strides.push_back(1 + Below(2));
      // Either many small images or few large ones.
      const int64_t size =
          d + 1 == rank && Below(2) == 0 ? images : 1 + Below(std::min<int64_t>(images, 1500));
      sizes.push_back(size);
      images = std::max<int64_t>(images / size, 1);
    }
    Ints low, high;
    for (int64_t d = 0; d < rank; ++d) {
      low.push_back(Below(filter[d]));
      high.push_back(filter[d] - 1 - low[d]);
      out.push_back((sizes[d] + low[d] + high[d] - filter[d]) / strides[d] + 1);
    }
    int64_t terms = images;
    for (int64_t size : out) terms *= size;
    ExpectAsInDouble(
        fmt::format(
            "mesh [] func f(%x: REAL[{0},{1},{2}], %y: REAL[{0},{3},{4}]) {{\n"
            "  %w = conv_filter_grad %x, %y shape=[{5},{6},{4}] strides=[{7}] low=[{8}] high=[{9}] groups={10}\n  return w=%w }}",
            images, fmt::join(sizes, ","), ci, fmt::join(out, ","), co, fmt::join(filter, ","), ci / groups,
            fmt::join(strides, ","), fmt::join(low, ","), fmt::join(high, ","), groups),
        terms);
  }
}

TEST_F(LongSums, OfGradientsByWeights) {
  for (int round = 0; round < 8; ++round) {
    const int64_t k = 1 + Below(4), n = 1 + Below(4), batch = 1 + Below(3),
                  rows = DrawTerms(3 * (k + n) * batch);
    ExpectAsInDouble(
        [&](DType dtype) {
          Graph g{Mesh()};
          const Value x = g.Input("x", dtype, {batch, rows, k}), w = g.Input("w", dtype, {k, n}),
                      scale = g.Input("scale", dtype, {batch, rows, n}), bias = g.Input("bias", dtype, {n});
          const Value loss = ReduceSum((Einsum("brk,kn->brn", {x, w}) + bias) * scale);
          const std::vector<Value> gradients = Gradients(loss, {w, bias});
          g.Output("dw", gradients[0]);
          g.Output("db", gradients[1]);
          return g;
        },
        batch * rows, {F32});  // bf16 is rounded between its ops
  }
}

}  // namespace
}  // namespace meshwork::long_sums_test

#include "meshwork/ops/control/independent_rows.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/ir/text.h"
#include "meshwork/ops/control/control_flow.h"
#include "meshwork/ops/control/rebatch.h"
#include "meshwork/ops/ops.h"
#include "support/interpreter.h"
#include "support/random_program.h"

namespace meshwork::independent_rows_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kRows = 4;

// The rows [begin, begin + count) of the inputs of a batch, where rows beyond the last one are copies of it; and the
// variables.
NumbersByName RowsOf(const Graph& graph, const NumbersByName& feeds, int64_t rows, int64_t begin,
                     int64_t count) {
  NumbersByName part = feeds;
  for (const Argument& argument : graph.arguments()) {
    const ValueInfo& info = graph.value(argument.value);
    if (argument.is_variable || info.type.rank() == 0 || info.type.shape[0] != rows) continue;
    const std::vector<double>& all = feeds.at(info.name);
    const auto size = static_cast<int64_t>(all.size()) / rows;
    std::vector<double>& some = part[info.name];
    some.clear();
    for (int64_t i = begin; i < begin + count; ++i) {
      const auto row = all.begin() + std::min(i, rows - 1) * size;
      some.insert(some.end(), row, row + size);
    }
  }
  return part;
}

bool AreNear(double a, double b, double tolerance) {
  return a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= tolerance * (1 + std::abs(b));
}

// What IndependentRows promises: rows alone, and rows of a longer batch whose last ones are copies, give what they give
// among the others. Empty if so.
std::string BreaksPromise(const Graph& graph, int64_t rows, const std::vector<int64_t>& sizes,
                          const NumbersByName& feeds) {
  const InterpretedStep all = Interpret(graph, feeds);
  std::vector<std::pair<int64_t, int64_t>> parts = {{0, rows + 3}, {1, 2}};  // begin, count
  for (int64_t i = 0; i < rows; ++i) parts.emplace_back(i, 1);
  for (const auto& [begin, count] : parts) {
    const absl::StatusOr<Graph> part = Rebatch(graph, rows, count);
    if (!part.ok()) continue;  // a size that another op cannot have, which no output needs
    const InterpretedStep got = Interpret(*part, RowsOf(graph, feeds, rows, begin, count));
    for (size_t o = 0; o < sizes.size(); ++o) {
      const OutputInfo& output = graph.outputs()[o];
      const Type& type = graph.value(output.value).type;
      const std::vector<double> want = all.outputs.at(output.name).Numbers(),
                                have = got.outputs.at(output.name).Numbers();
      const auto row = static_cast<size_t>(sizes[o] == 0 ? 0 : type.num_elements() / rows);
      if (sizes[o] == 0 && have.size() != want.size())
        return fmt::format("{} has no fixed size", output.name);
      if (sizes[o] != 0 && have.size() != row * static_cast<size_t>(count))
        return fmt::format("{} has other rows", output.name);
      const size_t same =
          sizes[o] == 0 ? want.size() : row * static_cast<size_t>(std::min(count, rows - begin));
      for (size_t i = 0; i < same; ++i) {
        const double expected = want[i + static_cast<size_t>(begin) * row];
        if (!AreNear(have[i], expected,
                     type.dtype == F64                         ? 1e-12
                     : type.dtype == BF16 || type.dtype == F16 ? 0.02
                                                               : 1e-5))
          return fmt::format("{}: {} instead of {} at {} of {} rows from {} on", output.name, have[i],
                             expected, i, count, begin);
      }
    }
  }
  return "";
}

// ---- Programs by hand.

using Build = std::function<Value(Graph&, const Value&)>;

Graph ProgramOf(const Build& build, int64_t rows = kRows) {
  Graph g{Mesh()};
  const Value x = g.Input("x", F64, {rows, 3}, {UNSHARDED, UNSHARDED});
  g.Output("y", build(g, x));
  EXPECT_TRUE(g.status().ok()) << g.status();
  return g;
}

Value Weights(Graph& g, int64_t in, int64_t out) {
  return g.Var("w", {{F64, {in, out}}, nullptr}, {UNSHARDED, UNSHARDED});
}

NumbersByName FeedsOf(const Graph& graph) {
  std::mt19937_64 engine(5);
  NumbersByName feeds;
  for (const Argument& argument : graph.arguments()) {
    const ValueInfo& info = graph.value(argument.value);
    std::vector<double>& numbers = feeds[info.name];
    for (int64_t i = 0; i < info.type.num_elements(); ++i)
      numbers.push_back(static_cast<double>(engine() % 200) / 100 - 0.995);
  }
  return feeds;
}

TEST(IndependentRowsTest, ModelsThatKeepTheirRowsApart) {
  struct Case {
    std::string_view name;
    Build build;
    int64_t size = 1;
  };
  const Case cases[] = {
      {"the batch itself", [](Graph&, const Value& x) { return x; }},
      {"a layer", [](Graph& g, const Value& x) { return Relu(MatMul(x, Weights(g, 3, 5)) + 1.0); }},
      {"softmax", [](Graph&, const Value& x) { return Softmax(x, 1); }},
      {"a mean over features",
       [](Graph&, const Value& x) { return x - ExpandDims(ReduceMean(x, {1}), {1}); }},
      {"sorted features", [](Graph&, const Value& x) { return Sort(x, 1).values; }},
      {"sums of features", [](Graph&, const Value& x) { return Cumsum(x, 1); }},
      {"turned twice",
       [](Graph&, const Value& x) {
         return Transpose(Tanh(Transpose(x, {1, 0})), {1, 0});
       }},
      {"flat", [](Graph&, const Value& x) { return Reshape(x, {-1}); }, 3},
      {"rows in rows",
       [](Graph& g, const Value& x) {
         return Reshape(MatMul(Reshape(x, {-1, 1}), Weights(g, 1, 2)), {x.shape()[0], 6});
       }},
      {"ones of the batch's size", [](Graph& g, const Value& x) { return x + Constant(g, 1, x.type()); }},
      {"places of features",
       [](Graph& g, const Value& x) {
         return x + Iota(g, {F64, {1, 3}}, 1);
       }},
      {"places of features in each row", [](Graph& g, const Value& x) { return x * Iota(g, x.type(), 1); }},
      {"one feature", [](Graph&, const Value& x) { return SliceDim(x, 1, 0, 2); }},
      {"features beside features",
       [](Graph&, const Value& x) {
         return Concat({x, Tanh(x)}, 1);
       }},
      {"copies of features", [](Graph&, const Value& x) { return Repeat(x, 2, 1); }},
      {"rows of a table",
       [](Graph& g, const Value& x) { return Gather(Weights(g, 7, 2), Cast(Abs(x) * 6.0, I32), 0); }},
      {"a loop over features",
       [](Graph& g, const Value& x) {
         const Value turned = Transpose(x, {1, 0});
         const Value w = Weights(g, 3, 3);
         return Scan(g, {x}, {turned},
                     [&](Graph&, const std::vector<Value>& carries,
                         const std::vector<Value>& slices) -> ScanStep {
                       return {.carries = {Tanh(MatMul(carries[0], w) + ExpandDims(slices[0], {1}))}};
                     })
             .carries[0];
       }},
      {"a branch that no row chooses",
       [](Graph& g, const Value& x) {
         return If(
             ReduceSum(Weights(g, 2, 2)) > 0.0, [&](Graph&) { return std::vector<Value>{Tanh(x)}; },
             [&](Graph&) { return std::vector<Value>{x * 2.0}; })[0];
       }},
      {"a loop that no row ends",
       [](Graph& g, const Value& x) {
         return While(
             g, {x, Constant(g, 0, {F64, {}})},
             [](Graph&, const std::vector<Value>& carries) { return carries[1] < 3.0; },
             [](Graph&, const std::vector<Value>& carries) {
               return std::vector<Value>{Tanh(carries[0]), carries[1] + 1.0};
             })[0];
       }},
      {"a variable", [](Graph& g, const Value&) { return Weights(g, 4, 2) * 2.0; }, 0},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const Graph graph = ProgramOf(c.build);
    const absl::StatusOr<std::vector<int64_t>> sizes = IndependentRows(graph, kRows);
    ASSERT_TRUE(sizes.ok()) << sizes.status();
    EXPECT_THAT(*sizes, ElementsAre(c.size));
    EXPECT_EQ(BreaksPromise(graph, kRows, *sizes, FeedsOf(graph)), "");
  }
}

TEST(IndependentRowsTest, ProgramsThatMixRowsAreRefusedByTheOpThatMixes) {
  struct Case {
    std::string_view op;
    Build build;
  };
  const auto ones = [](Graph& g, int64_t rows) { return Constant(g, 1, {F64, {rows, 3}}); };
  const Case cases[] = {
      {"reduce_max", [](Graph&, const Value& x) { return Softmax(x, 0); }},
      {"reduce_", [](Graph&, const Value& x) { return x - ReduceMean(x, {0}); }},
      {"sort", [](Graph&, const Value& x) { return Sort(x, 0).values; }},
      {"cumsum", [](Graph&, const Value& x) { return Cumsum(x, 0); }},
      {"iota",
       [](Graph& g, const Value& x) {
         return x + Iota(g, {F64, {x.shape()[0], 1}}, 0);
       }},
      {"one_hot",
       [](Graph& g, const Value& x) {
         const Value classes = Constant(g, std::vector<double>{0, 2, 1}, {I32, {3}});
         return x + Transpose(OneHot(classes, x.shape()[0], F64), {1, 0});
       }},
      {"slice", [](Graph&, const Value& x) { return x * x[1]; }},
      {"roll", [](Graph&, const Value& x) { return Roll(x, 1, 0); }},
      {"reverse", [](Graph&, const Value& x) { return Reverse(x, {0}); }},
      {"matmul",
       [](Graph&, const Value& x) {
         return MatMul(x, Transpose(x, {1, 0}));
       }},
      {"matmul", [](Graph&, const Value& x) { return MatMul(x, x, /*transpose_a=*/true); }},
      {"concat",
       [&](Graph& g, const Value& x) {
         return Concat({x, ones(g, 2)}, 0);
       }},
      {"pad",
       [](Graph&, const Value& x) {
         return Pad(x, {1, 0}, {0, 0});
       }},
      {"gather",
       [](Graph& g, const Value& x) {
         return Gather(x, Constant(g, std::vector<double>{1, 0}, {I32, {2}}), 0);
       }},
      {"random_uniform", [](Graph& g, const Value& x) { return x + RandomUniform(g, x.type(), 1, 2, 0, 1); }},
      {"dimension_size", [](Graph&, const Value& x) { return x / DimensionSize(x, {0}, F64); }},
      {"reduce_sum",
       [&](Graph& g, const Value& x) { return x * ReduceSum((x * 0.0 + 1.0) * ones(g, x.shape()[0])); }},
      {"reduce_sum",
       [](Graph& g, const Value& x) {
         return While(
             g, {x}, [](Graph&, const std::vector<Value>& carries) { return ReduceSum(carries[0]) < 30.0; },
             [](Graph&, const std::vector<Value>& carries) {
               return std::vector<Value>{carries[0] + 1.0};
             })[0];
       }},
      {"scan",
       [](Graph& g, const Value& x) {
         return Scan(
                    g, {x, x}, {Transpose(x, {1, 0})},
                    [&](Graph&, const std::vector<Value>& carries,
                        const std::vector<Value>& slices) -> ScanStep {
                      return {.carries = {carries[1] + ExpandDims(slices[0], {1}), Reverse(carries[1], {0})}};
                    })
             .carries[0];
       }},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.op);
    const std::string message(MessageOf(IndependentRows(ProgramOf(c.build), kRows).status()));
    EXPECT_THAT(message, HasSubstr(c.op == "scan" ? "reverse" : c.op));
    EXPECT_THAT(message, HasSubstr("depends on other rows"));
    EXPECT_THAT(message, HasSubstr("independent_rows_test.cc:"));
  }
}

// ---- Every op.

// The op of a sample on inputs in which the batch is what the sample calls dim `dim` of operand `operand`: that dim, and
// all with its letter, stand first. Operands without it are variables. The results have it first, too.
Graph AlongBatch(const Sample& sample, size_t operand, size_t dim) {
  Graph g{Mesh()};
  const Rule rule = sample.rule();
  const int letter = rule.operands[operand][dim];
  const auto place = [&](const LetterList& letters) {
    const auto found = std::find(letters.begin(), letters.end(), letter);
    return letter == kNoLetter || found == letters.end() ? -1 : static_cast<int>(found - letters.begin());
  };
  // The dims in the order that has `first` before the others, and the way back.
  const auto order = [](int rank, int first) {
    std::vector<int64_t> dims(static_cast<size_t>(rank));
    std::iota(dims.begin(), dims.end(), 0);
    std::rotate(dims.begin(), dims.begin() + first, dims.begin() + first + 1);
    return dims;
  };
  std::vector<ValueId> operands;
  for (size_t o = 0; o < sample.operands.size(); ++o) {
    Type type = sample.operands[o];
    const int at = o == operand ? static_cast<int>(dim) : place(rule.operands[o]);
    if (at < 0) {
      operands.push_back(g.AddArgument({.name = fmt::format("v{}", o), .type = type, .global = type}, true));
      continue;
    }
    const std::vector<int64_t> dims = order(type.rank(), at);
    Shape shape;
    for (int64_t d : dims) shape.push_back(type.shape[static_cast<size_t>(d)]);
    type.shape = shape;
    std::vector<int64_t> back(dims.size());
    for (size_t d = 0; d < dims.size(); ++d) back[static_cast<size_t>(dims[d])] = static_cast<int64_t>(d);
    const Value x(&g, g.AddArgument({.name = fmt::format("x{}", o), .type = type, .global = type}, false));
    operands.push_back(Transpose(x, back).id());
  }
  const absl::StatusOr<int> added = g.TryAdd(*sample.row, operands, sample.attrs, {});
  EXPECT_TRUE(added.ok()) << added.status();
  for (size_t r = 0; r < sample.results.size(); ++r) {
    const Value y(&g, g.nodes()[*added].results[r]);
    const int at = place(rule.results[r]);
    g.Output(fmt::format("y{}", r), at < 0 ? y : Transpose(y, order(y.rank(), at)));
  }
  return g;
}

NumbersByName FeedsOf(const Graph& graph, const OpRow& row) {
  std::mt19937_64 engine(7);
  NumbersByName feeds;
  for (const Argument& argument : graph.arguments()) {
    const ValueInfo& info = graph.value(argument.value);
    std::vector<double>& numbers = feeds[info.name];
    for (int64_t i = 0; i < info.type.num_elements(); ++i) {
      const auto range = static_cast<uint64_t>(row.sample_int_high - row.sample_int_low);
      if (info.type.dtype == BOOL) numbers.push_back(static_cast<double>(engine() % 2));
      else if (IsInteger(info.type.dtype))
        numbers.push_back(static_cast<double>(row.sample_int_low + static_cast<int64_t>(engine() % range)));
      else
        numbers.push_back(row.sample_low + (row.sample_high - row.sample_low) *
                                               (static_cast<double>(engine() % 16) + 0.5) / 16);
    }
  }
  return feeds;
}

TEST(IndependentRowsTest, OfEveryOpAlongEveryDim) {
  int kept = 0, refused = 0;
  const RandomPrograms programs;
  std::set<std::string_view> reading;
  for (const Sample& sample : programs.pool()) {
    if (sample.row->name == "custom_gradient") continue;
    const Rule rule = sample.rule();
    for (size_t o = 0; o < sample.operands.size(); ++o) {
      for (size_t d = 0; d < rule.operands[o].size(); ++d) {
        const int letter = rule.operands[o][d];
        const int64_t rows = sample.operands[o].shape[d];
        if (rows < 2 || std::count(rule.operands[o].begin(), rule.operands[o].end(), letter) > 1) continue;
        SCOPED_TRACE(fmt::format("{} along dim {} of operand {}", sample.ToString(), d, o));
        const Graph graph = AlongBatch(sample, o, d);
        const bool meets_others =
            std::any_of(graph.arguments().begin(), graph.arguments().end(), [&](const Argument& argument) {
              const Shape& shape = graph.value(argument.value).type.shape;
              return !argument.is_variable && shape[0] != rows;
            });
        if (meets_others) continue;  // windows
        const absl::StatusOr<std::vector<int64_t>> sizes = IndependentRows(graph, rows);
        if (!sizes.ok()) ++refused;
        // An op that may run on blocks along the letter keeps the rows apart.
        const bool is_plain =
            letter != kNoLetter && !rule.letters[letter].whole && !rule.letters[letter].reduced &&
            !rule.letters[letter].windowed && !rule.letters[letter].must_divide &&
            rule.FindWindow(o, d) == nullptr &&
            std::all_of(rule.results.begin(), rule.results.end(), [&](const LetterList& letters) {
              return std::count(letters.begin(), letters.end(), letter) == 1;
            });
        // Ops of these names read places along the letter, or are refused whatever they do.
        const bool may_read = sample.row->reads_block;
        EXPECT_TRUE(sizes.ok() || !is_plain || may_read || !Rebatch(graph, rows, rows + 1).ok())
            << sizes.status();
        if (sizes.ok() && may_read) reading.insert(sample.row->name);
        if (!sizes.ok()) continue;
        ++kept;
        EXPECT_EQ(BreaksPromise(graph, rows, *sizes, FeedsOf(graph, *sample.row)), "");
      }
    }
  }
  EXPECT_THAT(reading,
              ElementsAre("attention", "conv_input_grad", "dynamic_slice", "dynamic_update_slice", "gather",
                          "gather_nd", "max_pool_grad", "one_hot", "scatter_add", "scatter_add_along_dim",
                          "scatter_max", "scatter_min", "scatter_update", "sum_pool_grad", "take_along_dim"));
  EXPECT_GT(kept, 500);
  EXPECT_GT(refused, 200);
}

// ---- Random programs.

// Each size of dims 0 of inputs in turn is the batch.
void TryPrograms(const std::function<RandomProgram(uint64_t)>& draw, uint64_t count, int least_kept) {
  int kept = 0;
  for (uint64_t seed = 1; seed <= count; ++seed) {
    const RandomProgram program = draw(seed);
    std::set<int64_t> sizes;
    for (const Argument& argument : program.graph.arguments())
      if (const Shape& shape = program.graph.value(argument.value).type.shape;
          !argument.is_variable && !shape.empty())
        sizes.insert(shape[0]);
    for (int64_t rows : sizes) {
      if (rows < 2) continue;
      SCOPED_TRACE(fmt::format("seed {}, {} rows", seed, rows));
      const absl::StatusOr<std::vector<int64_t>> independent = IndependentRows(program.graph, rows);
      if (!independent.ok()) continue;
      const bool has_rows =
          std::any_of(independent->begin(), independent->end(), [](int64_t size) { return size > 0; });
      kept += has_rows ? 1 : 0;
      ASSERT_EQ(BreaksPromise(program.graph, rows, *independent, program.feeds), "")
          << PrintGraph(program.graph);
    }
  }
  EXPECT_GE(kept, least_kept);
}

TEST(IndependentRowsTest, OfRandomPrograms) {
  const RandomPrograms programs;
  TryPrograms([&](uint64_t seed) { return programs.Draw(seed); }, 600, 20);
}

TEST(IndependentRowsTest, OfRandomLoops) {
  const RandomPrograms programs;
  TryPrograms([&](uint64_t seed) { return programs.DrawLoops(seed); }, 200, 5);
}

}  // namespace
}  // namespace meshwork::independent_rows_test

// Loops and branches as the compiler lays them out and the runtime runs them. On meshes and layouts of every
// kind they give the results of the same program written out iteration by iteration, on one device in f64.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "layout/all_layouts.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/ops/control/control_flow.h"
#include "meshwork/ops/ops.h"
#include "programs/expect_gives.h"
#include "support/interpreter.h"
#include "support/long_tests.h"

namespace meshwork::loops_test {
namespace {

constexpr std::string_view kLoopMeshes[] = {"x=2", "x=3", "x=4", "x=2,y=2", "x=2,y=3"};

// A program that is written in two ways: with loops, and written out.
struct LoopCase {
  std::string name;
  std::vector<Type> inputs;
  // Adds outputs. `unrolled`: without loops.
  std::function<void(Graph& graph, const std::vector<Value>& inputs, bool unrolled)> build;
};

Graph GraphOf(const LoopCase& c, const Mesh& mesh, const std::vector<Layout>& layouts, bool unrolled) {
  Graph graph(mesh);
  std::vector<Value> inputs;
  for (size_t i = 0; i < c.inputs.size(); ++i)
    inputs.push_back(
        graph.Input(fmt::format("in{}", i), c.inputs[i].dtype, c.inputs[i].shape, SpecOf(layouts[i])));
  c.build(graph, inputs, unrolled);
  return graph;
}

Value At(const Value& x, int64_t t) {
  const Shape shape(x.shape().begin() + 1, x.shape().end());
  std::vector<int64_t> start(shape.size() + 1, 0), sizes(x.shape().begin(), x.shape().end());
  start[0] = t;
  sizes[0] = t + 1;
  return Reshape(Slice(x, start, sizes), shape);
}

// A recurrent layer: a carry, slices, a captured weight; its states stacked and summed up.
void BuildRecurrent(Graph& graph, const std::vector<Value>& in, bool unrolled, bool reverse,
                    bool recompute = false) {
  const Value &h0 = in[0], &xs = in[1], &w = in[2];
  if (!unrolled) {
    const ScanResult r =
        Scan(graph, {h0}, {xs},
             [&](Graph&, const std::vector<Value>& c, const std::vector<Value>& x) -> ScanStep {
               const Value h = Tanh(MatMul(c[0], w) + x[0]);
               return {{h}, {h * 2.0}, {Square(h)}};
             },
             {.reverse = reverse, .recompute = recompute});
    graph.Output("last", r.carries[0]);
    graph.Output("all", r.stacked[0]);
    graph.Output("sum", r.sums[0]);
    return;
  }
  Value h = h0, sum;
  const int64_t length = xs.shape()[0];
  std::vector<Value> all(static_cast<size_t>(length));
  for (int64_t i = 0; i < length; ++i) {
    const int64_t t = reverse ? length - 1 - i : i;
    h = Tanh(MatMul(h, w) + At(xs, t));
    const Value s = h * 2.0;
    all[t] = Reshape(s, {1, s.shape()[0], s.shape()[1]});
    sum = sum.valid() ? sum + Square(h) : Square(h);
  }
  graph.Output("last", h);
  graph.Output("all", Concat(all, 0));
  graph.Output("sum", sum);
}

// Gradient accumulation by hand: its carry only gets terms added.
void BuildAccumulation(Graph& graph, const std::vector<Value>& in, bool unrolled) {
  const Value &xs = in[0], &ys = in[1], &w = in[2];
  const auto gradient = [](const Value& x, const Value& y, const Value& weight) {
    return MatMul(Transpose(x, {1, 0}), MatMul(x, weight) - y);
  };
  if (!unrolled) {
    const ScanResult r =
        Scan(graph, {w}, {xs, ys},
             [&](Graph&, const std::vector<Value>& c, const std::vector<Value>& x) -> ScanStep {
               return {{gradient(x[0], x[1], w) + c[0]}};
             });
    graph.Output("g", r.carries[0]);
    return;
  }
  Value g = w;
  for (int64_t t = 0; t < xs.shape()[0]; ++t) g = g + gradient(At(xs, t), At(ys, t), w);
  graph.Output("g", g);
}

// Two carries that swap, and one that stays; a loop in a loop.
void BuildNested(Graph& graph, const std::vector<Value>& in, bool unrolled) {
  const Value &a = in[0], &b = in[1];
  if (!unrolled) {
    const ScanResult r =
        Scan(graph, {a, b, a}, {},
             [&](Graph& body, const std::vector<Value>& c, const std::vector<Value>&) -> ScanStep {
               const ScanResult inner =
                   Scan(body, {c[0]}, {},
                        [&](Graph&, const std::vector<Value>& d, const std::vector<Value>&) -> ScanStep {
                          return {{Sin(d[0] + c[1])}, {}, {d[0] * b}};
                        },
                        {.length = 2});
               return {{c[1], inner.carries[0], c[2]}, {}, {inner.sums[0] + c[2]}};
             },
             {.length = 3});
    graph.Output("a", r.carries[0]);
    graph.Output("b", r.carries[1]);
    graph.Output("same", r.carries[2]);
    graph.Output("sum", r.sums[0]);
    return;
  }
  Value p = a, q = b, sum;
  for (int t = 0; t < 3; ++t) {
    Value d = p, inner;
    for (int u = 0; u < 2; ++u) {
      inner = inner.valid() ? inner + d * b : d * b;
      d = Sin(d + q);
    }
    p = q;
    q = d;
    sum = sum.valid() ? sum + (inner + a) : inner + a;
  }
  graph.Output("a", p);
  graph.Output("b", q);
  graph.Output("same", a);
  graph.Output("sum", sum);
}

Value Total(const Value& x) {
  std::vector<int64_t> dims;
  for (int d = 0; d < x.rank(); ++d) dims.push_back(d);
  return dims.empty() ? x : ReduceSum(x, dims);
}

// The gradients of the outputs of `build` by all inputs, as further outputs; twice: also those of the sum of
// the squares of the gradients.
template <typename Build>
auto WithGradients(Build build, bool twice = false) {
  return [build, twice](Graph& graph, const std::vector<Value>& in, bool unrolled) {
    build(graph, in, unrolled);
    Value loss;
    for (const OutputInfo& output : graph.outputs()) {
      const Value part = Total(Sin(Value(&graph, output.value)));
      loss = loss.valid() ? loss + part : part;
    }
    std::vector<Value> grads = Gradients(loss, in);
    if (twice) {
      Value squares;
      for (const Value& grad : grads)
        squares = squares.valid() ? squares + Total(Square(grad)) : Total(Square(grad));
      grads = Gradients(squares, in);
    }
    for (size_t i = 0; i < grads.size(); ++i) graph.Output(fmt::format("gradient{}", i), grads[i]);
  };
}

// Branches that depend on data and read different values; one branch in a loop, chosen anew in each iteration.
void BuildBranches(Graph& graph, const std::vector<Value>& in, bool unrolled) {
  const Value &a = in[0], &b = in[1], &w = in[2];
  const Value is_large = Greater(Total(a), 0.0);
  const auto step = [&](const Value& c, const Value& predicate) {
    if (unrolled) return Select(BroadcastTo(predicate, c.shape(), {}), Tanh(MatMul(c, w)), c * b);
    return If(
        predicate, [&](Graph&) { return std::vector<Value>{Tanh(MatMul(c, w))}; },
        [&](Graph&) { return std::vector<Value>{c * b}; })[0];
  };
  const Value first = step(a, is_large);
  graph.Output("first", first);
  Value c = first;
  if (unrolled) {
    for (int t = 0; t < 3; ++t) c = step(c, Less(Total(c), 0.5));
  } else {
    c = Scan(graph, {first}, {},
             [&](Graph&, const std::vector<Value>& carry, const std::vector<Value>&) -> ScanStep {
               return {{step(carry[0], Less(Total(carry[0]), 0.5))}};
             },
             {.length = 3})
            .carries[0];
  }
  graph.Output("last", c);
}

// Halves the first carry until it is small, and counts.
void BuildWhile(Graph& graph, const std::vector<Value>& in, bool unrolled) {
  const Value &a = in[0], &b = in[1];
  const Value zero = Constant(graph, 0, {I64, {}});
  const auto goes_on = [&](const Value& x, const Value& n) {
    return And(Greater(Total(Square(x)), 0.1), Less(n, 6.0));
  };
  if (!unrolled) {
    const std::vector<Value> r = While(
        graph, {a, zero, b}, [&](Graph&, const std::vector<Value>& c) { return goes_on(c[0], c[1]); },
        [&](Graph&, const std::vector<Value>& c) {
          return std::vector<Value>{c[0] * 0.5 + Sin(b) * 0.01, c[1] + 1.0,
                                    MatMul(c[2], Transpose(c[2], {1, 0})) * 0.1};
        });
    graph.Output("x", r[0]);
    graph.Output("n", r[1]);
    graph.Output("b", r[2]);
    return;
  }
  Value x = a, n = zero, m = b, active;
  for (int t = 0; t < 6; ++t) {
    const Value go = goes_on(x, n);
    active = active.valid() ? And(active, go) : go;
    const auto pick = [&](const Value& next, const Value& old) {
      return Select(old.rank() == 0 ? active : BroadcastTo(active, old.shape(), {}), next, old);
    };
    const Value next_x = x * 0.5 + Sin(b) * 0.01, next_m = MatMul(m, Transpose(m, {1, 0})) * 0.1;
    x = pick(next_x, x);
    m = pick(next_m, m);
    n = pick(n + 1.0, n);
  }
  graph.Output("x", x);
  graph.Output("n", n);
  graph.Output("b", m);
}

std::vector<LoopCase> LoopCases() {
  std::vector<LoopCase> cases;
  for (const auto& [b, n] : {std::pair<int64_t, int64_t>{4, 6}, {5, 3}, {1, 2}}) {
    const std::string size = fmt::format(" {}x{}", b, n);
    for (const bool reverse : {false, true})
      cases.push_back({(reverse ? "reverse" : "recurrent") + size,
                       {{F64, {b, n}}, {F64, {3, b, n}}, {F64, {n, n}}},
                       [reverse](Graph& graph, const std::vector<Value>& in, bool unrolled) {
                         BuildRecurrent(graph, in, unrolled, reverse);
                       }});
    cases.push_back(
        {"accumulation" + size, {{F64, {3, b, n}}, {F64, {3, b, 2}}, {F64, {n, 2}}}, BuildAccumulation});
    cases.push_back({"nested" + size, {{F64, {b, n}}, {F64, {b, n}}}, BuildNested});
    for (const bool recompute : {false, true})
      for (const bool twice : {false, true})
        cases.push_back(
            {fmt::format("{}{}gradient", twice ? "second " : "", recompute ? "recomputed " : "") + size,
             {{F64, {b, n}}, {F64, {3, b, n}}, {F64, {n, n}}},
             WithGradients(
                 [recompute](Graph& graph, const std::vector<Value>& in, bool unrolled) {
                   BuildRecurrent(graph, in, unrolled, false, recompute);
                 },
                 twice)});
    cases.push_back({"accumulation gradient" + size,
                     {{F64, {3, b, n}}, {F64, {3, b, 2}}, {F64, {n, 2}}},
                     WithGradients(BuildAccumulation)});
    cases.push_back({"nested gradient" + size, {{F64, {b, n}}, {F64, {b, n}}}, WithGradients(BuildNested)});
    cases.push_back(
        {"branches" + size, {{F64, {b, n}}, {F64, {b, n}}, {F64, {n, n}}}, WithGradients(BuildBranches)});
  }
  for (const int64_t n : {4, 5}) {
    cases.push_back({fmt::format("while {}", n), {{F64, {n, n}}, {F64, {n, n}}}, BuildWhile});
  }
  return cases;
}

class LoopsTest : public testing::TestWithParam<LoopCase> {};

// Every so many-th combination of layouts of the inputs.
TEST_P(LoopsTest, GiveWhatTheSameGivesWrittenOut) {
  const LoopCase& c = GetParam();
  std::vector<Layout> whole;
  for (const Type& type : c.inputs) whole.push_back(Layout::Replicated(Mesh(), type.rank()));
  const Graph one = GraphOf(c, Mesh(), whole, true);
  int64_t trial = 0;
  for (std::string_view text : kLoopMeshes) {
    const Mesh mesh = Mesh::Parse(text).value();
    std::vector<std::vector<Layout>> choices;
    int64_t combinations = 1;
    for (const Type& type : c.inputs) {
      choices.push_back(AllWholeLayouts(mesh, type.rank()));
      combinations *= std::ssize(choices.back());
    }
    const int64_t every = std::max<int64_t>(1, combinations / (LongTests() ? 200 : 4));
    for (int64_t k = trial % every; k < combinations; k += every, ++trial) {
      std::vector<Layout> layouts;
      int64_t rest = k;
      for (const std::vector<Layout>& choice : choices) {
        layouts.push_back(choice[rest % std::ssize(choice)]);
        rest /= std::ssize(choice);
      }
      const Graph graph = GraphOf(c, mesh, layouts, false);
      ASSERT_TRUE(graph.status().ok()) << graph.status();
      const Numbers numbers = RandomNumbers(graph, static_cast<uint64_t>(trial));
      const ExecutorOptions options{
          .share = trial % 5 != 1, .coalesce = trial % 5 != 2, .fuse = trial % 5 != 3};
      ExpectGives(graph, numbers, Interpret(one, numbers).outputs, options, 1 + static_cast<int>(trial % 3));
      ASSERT_FALSE(HasFatalFailure()) << c.name << " on " << text << ", combination " << k;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Programs, LoopsTest, testing::ValuesIn(LoopCases()), [](const auto& info) {
  std::string name = info.param.name;
  for (char& c : name)
    if (c == ' ') c = '_';
  return name;
});

}  // namespace
}  // namespace meshwork::loops_test

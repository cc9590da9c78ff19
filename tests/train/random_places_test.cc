// Random numbers in bodies: a part of a batch draws the numbers of its rows, and each iteration its own; forward, in
// gradients, and on every mesh.
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "meshwork/base/random.h"
#include "runtime/plan/programs.h"
#include "train/classifier.h"

namespace meshwork::random_places_test {
namespace {

using Values = std::vector<Value>;

constexpr const char* kMeshes[] = {"batch=1", "batch=2", "batch=2,model=2"};

Value Whole(Graph& graph, int64_t number) { return Constant(graph, static_cast<double>(number), {I64, {}}); }

// The outputs of `steps` steps, one step after the other.
std::map<std::string, std::vector<double>> Outputs(const Graph& graph, const Feeds& feeds, int steps = 1) {
  absl::StatusOr<Session> session = Session::Create(graph);
  std::map<std::string, std::vector<double>> outputs;
  if (!session.ok()) {
    ADD_FAILURE() << MessageOf(session.status());
    return outputs;
  }
  for (int s = 0; s < steps; ++s) {
    const absl::StatusOr<StepResult> result = session->Run(feeds);
    if (!result.ok()) {
      ADD_FAILURE() << MessageOf(result.status());
      return outputs;
    }
    for (const OutputInfo& output : graph.outputs()) {
      const Tensor tensor = result->Get(output.name)->Cast(F64);
      std::vector<double>& all = outputs[output.name];
      all.insert(all.end(), tensor.values<double>().begin(), tensor.values<double>().end());
    }
  }
  return outputs;
}

void ExpectSame(const std::map<std::string, std::vector<double>>& got,
                const std::map<std::string, std::vector<double>>& want, double tolerance = 1e-12) {
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [name, numbers] : want) {
    const std::vector<double>& mine = got.at(name);
    ASSERT_EQ(mine.size(), numbers.size()) << name;
    for (size_t i = 0; i < numbers.size(); ++i)
      ASSERT_NEAR(mine[i], numbers[i], tolerance) << name << " " << i;
  }
}

// ---- Parts of a batch.

// A function that adds noise to rows: [b,f] -> [b,f].
struct Noisy {
  const char* name;
  std::function<Value(const Dropout& drop, const Value& x)> apply;
};

Value InALoop(const Dropout& drop, const Value& x, bool recompute) {
  return Scan(*x.graph(), {x}, {},
              [&](Graph&, const Values& carries, const Values&) -> ScanStep {
                return {{Tanh(drop(carries[0]) + 0.1)}};
              },
              {.length = 3, .recompute = recompute})
      .carries[0];
}

const std::vector<Noisy>& AllNoisy() {
  static const auto* all = new std::vector<Noisy>{
      {"dropout", [](const Dropout& drop, const Value& x) { return drop(x); }},
      {"twice", [](const Dropout& drop, const Value& x) { return drop(Tanh(drop(x))); }},
      {"whole rows",
       [](const Dropout&, const Value& x) { return StatelessDropout(x, 0.5, 7, 5, {}, 1) + x; }},
      {"whole columns",
       [](const Dropout&, const Value& x) { return StatelessDropout(x, 0.5, 7, 6, {}, 0) + x; }},
      {"everything or nothing",
       [](const Dropout&, const Value& x) { return StatelessDropout(x, 0.5, 7, 7, {}, ALL_DIMS) + x; }},
      {"whole columns in a loop",
       [](const Dropout&, const Value& x) {
         return Scan(*x.graph(), {x}, {},
                     [&](Graph&, const Values& carries, const Values&) -> ScanStep {
                       return {{Tanh(StatelessDropout(carries[0], 0.5, 7, 8, {}, 0) + 0.1)}};
                     },
                     {.length = 3})
             .carries[0];
       }},
      {"a number per row",
       [](const Dropout&, const Value& x) {
         const Value noise = RandomUniform(*x.graph(), {F64, {x.shape()[0]}}, 7, 3, -1, 1);
         return x * ExpandDims(noise, {1});
       }},
      {"three dims",
       [](const Dropout& drop, const Value& x) {
         return ReduceSum(drop(ExpandDims(x, {2}) *
                               RandomNormal(*x.graph(), {F64, {x.shape()[0], x.shape()[1], 7}}, 7, 4, 0, 1)),
                          {2});
       }},
      {"a loop", [](const Dropout& drop, const Value& x) { return InALoop(drop, x, false); }},
      {"a loop that computes again",
       [](const Dropout& drop, const Value& x) { return InALoop(drop, x, true); }},
      {"a loop in a loop",
       [](const Dropout& drop, const Value& x) {
         return Scan(*x.graph(), {x}, {},
                     [&](Graph&, const Values& carries, const Values&) -> ScanStep {
                       return {{InALoop(drop, carries[0], false)}};
                     },
                     {.length = 2})
             .carries[0];
       }},
      {"a branch",
       [](const Dropout& drop, const Value& x) {
         const Value always = Less(Constant(*x.graph(), 1.0, {F32, {}}), 2.0);
         return If(
             always, [&](Graph&) -> Values { return {drop(x)}; }, [&](Graph&) -> Values { return {x}; })[0];
       }},
      {"a loop of unknown length",
       [](const Dropout& drop, const Value& x) {
         const Values last = While(
             *x.graph(), {StopGradient(x), Whole(*x.graph(), 0)},
             [](Graph&, const Values& carries) { return Less(carries[1], 3.0); },
             [&](Graph&, const Values& carries) -> Values {
               return {Tanh(drop(carries[0])), carries[1] + 1.0};
             });
         return x + last[0];
       }},
  };
  return *all;
}

// `parts`: the batch is cut into parts[0] parts, each of these into parts[1], and so on.
Graph InParts(const std::string& mesh, const Noisy& noisy, const std::vector<int64_t>& parts,
              int64_t batch = 8) {
  Graph g(Mesh::VirtualCpus(mesh).value());
  const Value x = g.Input("x", F64, {batch, 6}, {"batch", UNSHARDED});
  const Variable w = g.Var("w", GlorotUniform({6, 5}, F64));
  const Dropout drop(g, "drop", 0.5, {.seed = 3});
  std::function<Value(const Value&, size_t)> loss_of = [&](const Value& rows, size_t level) {
    if (level == parts.size()) return ReduceMean(Square(noisy.apply(drop, MatMul(rows, w)) - 0.3));
    return MeanOverMicrobatches(parts[level], {rows},
                                [&](const Values& part) { return loss_of(part[0], level + 1); });
  };
  const Value loss = loss_of(x, 0);
  g.Output("loss", loss);
  g.Output("gradient", Gradients(loss, {w})[0]);
  EXPECT_TRUE(g.status().ok()) << g.status();
  return g;
}

TEST(RandomPlacesTest, PartsOfABatchHaveTheNumbersOfTheirRows) {
  for (const Noisy& noisy : AllNoisy()) {
    SCOPED_TRACE(noisy.name);
    const Feeds feeds = {{"x", Rough(Type{F64, {8, 6}})}};
    const auto want = Outputs(InParts("batch=1", noisy, {}), feeds, 2);
    const std::vector<std::pair<const char*, std::vector<int64_t>>> trials = {
        {"batch=1", {4}},    {"batch=1", {2, 2, 2}},  {"batch=2", {2}},
        {"batch=2", {4, 2}}, {"batch=2,model=2", {}}, {"batch=2,model=2", {8}}};
    for (const auto& [mesh, parts] : trials) {
      SCOPED_TRACE(fmt::format("{} {}", mesh, fmt::join(parts, " ")));
      ExpectSame(Outputs(InParts(mesh, noisy, parts), feeds, 2), want);
    }
  }
}

// A short batch may be cut into other parts.
TEST(RandomPlacesTest, ShortBatchesToo) {
  for (const Noisy& noisy : AllNoisy()) {
    SCOPED_TRACE(noisy.name);
    for (int64_t rows : {7, 6, 4, 3, 1}) {
      SCOPED_TRACE(rows);
      const Feeds feeds = {{"x", Rough(Type{F64, {rows, 6}})}};
      ExpectSame(Outputs(InParts("batch=2", noisy, {4}), feeds),
                 Outputs(InParts("batch=1", noisy, {}, rows), feeds));
    }
  }
}

// ---- Iterations: iteration i draws as step i does.

struct Loop {
  std::vector<int64_t> lengths;  // outermost first
  bool recompute, reverse, has_step;
  const char* op;
};

Attrs NoiseAttrs(const Shape& shape, const std::string& op) {
  Attrs attrs = {{"seed", int64_t{5}},
                 {"stream", int64_t{2}},
                 {"dtype", F64},
                 {"shape", std::vector<int64_t>(shape.begin(), shape.end())}};
  if (op == "random_bernoulli") attrs.Set("p", 0.5);
  return attrs;
}

Value Noise(Graph& graph, const Loop& loop, const Shape& shape, const Value& step) {
  const Type type{F64, shape};
  const std::string op = loop.op;
  if (op == "random_bernoulli") return RandomBernoulli(graph, type, 5, 2, 0.5, step);
  if (op == "random_uniform") return RandomUniform(graph, type, 5, 2, 0, 1, step);
  return RandomNormal(graph, type, 5, 2, 0, 1, step);
}

Value Next(const Value& h, const Value& w, const Value& noise) { return Tanh(h * w + noise * h + 0.2); }

Value Looped(const Loop& loop, const Value& h, const Value& w, const Value& step, size_t level) {
  if (level == loop.lengths.size()) return Next(h, w, Noise(*h.graph(), loop, h.shape(), step));
  return Scan(*h.graph(), {h}, {},
              [&](Graph&, const Values& carries, const Values&) -> ScanStep {
                return {{Looped(loop, carries[0], w, step, level + 1)}};
              },
              {.length = loop.lengths[level], .reverse = loop.reverse, .recompute = loop.recompute})
      .carries[0];
}

Value Unrolled(const Loop& loop, Value h, const Value& w, Values keys, size_t level) {
  Graph& graph = *h.graph();
  if (level == loop.lengths.size())
    return Next(h, w, graph.Add(loop.op, keys, NoiseAttrs(h.shape(), loop.op), CallSite::Current())[0]);
  for (int64_t i = 0; i < loop.lengths[level]; ++i) {
    Values inner = keys;
    inner.push_back(Whole(graph, i));
    h = Unrolled(loop, h, w, inner, level + 1);
  }
  return h;
}

Graph LoopProgram(const std::string& mesh, const Loop& loop, bool unrolled) {
  Graph g(Mesh::VirtualCpus(mesh).value());
  const Value h = g.Input("h", F64, {4, 3}, {"batch", UNSHARDED}), w = g.Input("w", F64, {3}, {UNSHARDED});
  const Value step = loop.has_step ? g.Input("step", I64, {}) : Value();
  const Value last = unrolled ? Unrolled(loop, h, w, loop.has_step ? Values{step} : Values{}, 0)
                              : Looped(loop, h, w, step, 0);
  const Value loss = ReduceMean(Square(last));
  g.Output("last", last);
  g.Output("loss", loss);
  g.Output("gradient", Gradients(loss, {w})[0]);
  EXPECT_TRUE(g.status().ok()) << g.status();
  return g;
}

TEST(RandomPlacesTest, IterationsDrawAsStepsOfTheirNumbers) {
  Random random(11);
  for (int trial = 0; trial < 24; ++trial) {
    Loop loop;
    for (uint64_t depth = 1 + random.Below(3); depth > 0; --depth)
      loop.lengths.push_back(1 + static_cast<int64_t>(random.Below(3)));
    loop.recompute = random.Below(2) == 1;
    loop.reverse = random.Below(2) == 1;
    loop.has_step = random.Below(2) == 1;
    loop.op =
        std::vector<const char*>{"random_bernoulli", "random_uniform", "random_normal"}[random.Below(3)];
    const std::string mesh = kMeshes[random.Below(3)];
    SCOPED_TRACE(fmt::format("lengths {} recompute {} reverse {} step {} {} on {}",
                             fmt::join(loop.lengths, ","), loop.recompute, loop.reverse, loop.has_step,
                             loop.op, mesh));
    Feeds feeds = {{"h", Rough(Type{F64, {4, 3}})}, {"w", Rough(Type{F64, {3}})}};
    if (loop.has_step)
      feeds.insert({"step", Tensor::From<int64_t>({}, {static_cast<int64_t>(random.Below(9))})});
    const auto got = Outputs(LoopProgram(mesh, loop, false), feeds);
    ExpectSame(got, Outputs(LoopProgram("batch=1", loop, true), feeds));
    // The gradient matches central differences of the loss, with the same random numbers.
    Session session = Session::Create(LoopProgram(mesh, loop, false)).value();
    const std::vector<double> w(feeds.at("w").values<double>().begin(), feeds.at("w").values<double>().end());
    for (size_t i = 0; i < w.size(); ++i) {
      const auto loss_at = [&](double by) {
        std::vector<double> moved = w;
        moved[i] += by;
        Feeds there = feeds;
        there.at("w") = Tensor::From<double>({3}, moved);
        return session.Run(there)->Get("loss")->Scalar().value();
      };
      EXPECT_NEAR(got.at("gradient")[i], (loss_at(1e-5) - loss_at(-1e-5)) / 2e-5, 1e-8) << i;
    }
  }
}

TEST(RandomPlacesTest, IterationsOfAWhileDrawAsStepsOfTheirNumbers) {
  for (const char* mesh : kMeshes) {
    Graph g(Mesh::VirtualCpus(mesh).value());
    const Value start = g.Input("start", F64, {50}, {"batch"});
    const Values last = While(
        g, {start, Whole(g, 0)},
        [](Graph& body, const Values& carries) {
          // The condition draws random numbers, too. Its second term is always true.
          return And(Less(carries[1], 4.0), Less(RandomUniform(body, {F64, {}}, 1, 0, 0, 1), 2.0));
        },
        [](Graph& body, const Values& carries) -> Values {
          return {carries[0] * 2.0 + RandomBernoulli(body, {F64, {50}}, 5, 2, 0.5), carries[1] + 1.0};
        });
    ASSERT_EQ(last.size(), 2u);
    g.Output("got", last[0]);
    Value want = start;
    for (int64_t t = 0; t < 4; ++t)
      want = want * 2.0 + RandomBernoulli(g, {F64, {50}}, 5, 2, 0.5, Whole(g, t));
    g.Output("want", want);
    const auto outputs = Outputs(g, {{"start", Rough(Type{F64, {50}})}});
    EXPECT_EQ(outputs.at("got"), outputs.at("want")) << mesh;
  }
}

// Random numbers that are drawn outside of a loop are the same in each of its iterations.
TEST(RandomPlacesTest, NumbersOfTheProgramAroundAreThoseOfEachIteration) {
  Graph g(Mesh::VirtualCpus("batch=2").value());
  const Value noise = RandomUniform(g, {F64, {5}}, 1, 2, 0, 1);
  g.Output("stacked", Scan(g, {}, {},
                           [&](Graph&, const Values&, const Values&) -> ScanStep {
                             return {{}, {noise * 1.0}};
                           },
                           {.length = 3})
                          .stacked[0]);
  const std::vector<double> numbers = Outputs(g, {}).at("stacked");
  for (size_t i = 5; i < numbers.size(); ++i) EXPECT_EQ(numbers[i], numbers[i - 5]);
}

// One layer, called in the program, in two loops, and in a loop in each of these.
TEST(RandomPlacesTest, EveryCallOfALayerHasAMaskOfItsOwn) {
  Graph g(Mesh::VirtualCpus("batch=2").value());
  const Value x = g.Input("x", F64, {64});
  const Dropout drop(g, "drop", 0.5);
  const auto inner = [&](Graph&, const Values& ones, const Values&) -> ScanStep {
    return {ones, {drop(ones[0])}};
  };
  const auto outer = [&](Graph& body, const Values& ones, const Values&) -> ScanStep {
    return {ones, {drop(ones[0]), Scan(body, ones, {}, inner, {.length = 2}).stacked[0]}};
  };
  g.Output("program", drop(x));
  const ScanResult first = Scan(g, {x}, {}, outer, {.length = 2}),
                   second = Scan(g, {x}, {}, outer, {.length = 2});
  g.Output("first", first.stacked[0]);
  g.Output("first_inner", first.stacked[1]);
  g.Output("second", second.stacked[0]);
  g.Output("second_inner", second.stacked[1]);
  ASSERT_TRUE(g.status().ok()) << g.status();
  std::set<std::vector<double>> masks;
  size_t count = 0;
  for (const auto& [name, numbers] : Outputs(g, {{"x", Tensor::Full({F64, {64}}, 1)}})) {
    for (size_t at = 0; at < numbers.size(); at += 64, ++count)
      masks.emplace(numbers.begin() + static_cast<int64_t>(at),
                    numbers.begin() + static_cast<int64_t>(at) + 64);
  }
  EXPECT_EQ(count, 1u + 2 + 4 + 2 + 4);
  EXPECT_EQ(masks.size(), count);
}

// A loop over microbatches adds up gradients inside it, with random numbers as without: it stacks nothing per part.
TEST(RandomPlacesTest, DropoutKeepsNothingOfAMicrobatch) {
  const auto scans = [](bool drops) {
    const Graph g = InParts(
        "batch=1",
        drops ? AllNoisy()[0] : Noisy{"none", [](const Dropout&, const Value& x) { return Tanh(x); }}, {4});
    std::vector<std::string> results;
    for (const Node& node : g.nodes()) {
      if (node.row->name != "scan") continue;
      for (ValueId id : node.results)
        if (g.value(id).type.dtype != I64) results.push_back(g.value(id).type.ToString());
    }
    return results;
  };
  EXPECT_EQ(scans(true), scans(false));
}

}  // namespace
}  // namespace meshwork::random_places_test

// Predictions in batches of few sizes: the numbers of a program for exactly the rows that are fed, from few programs.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "runtime/plan/programs.h"
#include "support/in_domains.h"
#include "train/classifier.h"

namespace meshwork::session_predict_test {
namespace {

using Model = std::function<Value(Graph& g, const Value& x)>;

// x: f64[rows, ...] -> y.
Graph ProgramOf(const std::string& mesh, const Model& model, Shape shape) {
  Graph g(Mesh::VirtualCpus(mesh).value());
  if (g.mesh().FindAxes("batch").ok()) g.SetLayouts({.batch = {"batch"}});
  g.SetPrecision({.compute = F64, .variables = F64});
  g.Output("y", model(g, g.Input("x", F64, shape)));
  return g;
}

struct Case {
  std::string_view name;
  Shape example;  // without the batch
  Model model;
};

const std::vector<Case>& Models() {
  static const auto* const models = new std::vector<Case>{
      {"layers", {3}, [](Graph& g, const Value& x) { return Dense(g, "b", 2)(Relu(Dense(g, "a", 8)(x))); }},
      {"images",
       {6, 6, 2},
       [](Graph& g, const Value& x) {
         const Value h = Relu(BatchNormalization(g, "n")(Conv2D(g, "c", 4, {3, 3})(x)));
         return Dense(g, "d", 3)(Reshape(MaxPool(h, {2, 2}), {x.shape()[0], -1}));
       }},
      {"attention",
       {5, 8},
       [](Graph& g, const Value& x) {
         const Value h = x + MultiHeadAttention(g, "a", 2, {.causal = true})(x);
         return LayerNormalization(g, "n")(h + Dropout(g, "r", 0.1)(FeedForward(g, "f", 16)(h)));
       }},
      {"recurrence", {5, 3}, [](Graph& g, const Value& x) { return Gru(g, "gru", 4)(x).state; }},
      {"rows of many elements", {3}, [](Graph&, const Value& x) { return Reshape(Tanh(x), {-1}); }},
  };
  return *models;
}

Shape Batch(int64_t rows, Shape shape) {
  shape.insert(shape.begin(), rows);
  return shape;
}

constexpr const char* kMeshes[] = {"", "batch=4", "batch=2,model=2", "batch=3"};

TEST(PredictInBatchesTest, GivesTheNumbersOfExactlyTheseRows) {
  constexpr int64_t kFull = 10;  // 10, 3, 1
  for (const Case& c : Models()) {
    for (const char* mesh : kMeshes) {
      SCOPED_TRACE(fmt::format("{} on [{}]", c.name, mesh));
      const Graph graph = ProgramOf(mesh, c.model, Batch(kFull, c.example));
      Session session = Session::Create(graph).value(), exact = Session::Create(graph).value();
      const Tensor x = Rough(Type{F64, Batch(2 * kFull + 7, c.example)});
      for (int64_t rows = 1; rows <= 2 * kFull + 7; ++rows) {
        SCOPED_TRACE(rows);
        if (c.name == "rows of many elements" && rows > kFull) break;
        const absl::StatusOr<StepResult> got = session.Predict({{"x", x.Rows(0, rows)}});
        ASSERT_TRUE(got.ok()) << got.status();
        std::vector<Tensor> parts;
        for (int64_t begin = 0; begin < rows; begin += kFull)
          parts.push_back(
              exact.Evaluate({{"x", x.Rows(begin, std::min(begin + kFull, rows))}})->Get("y").value());
        ExpectNear(got->Get("y").value(), Tensor::Concat(parts, 0));
      }
      EXPECT_LE(session.kept_programs().made, 1 + 3);
    }
  }
}

TEST(PredictInBatchesTest, AHundredNumbersOfRowsTakeFivePrograms) {
  const Case& attention = Models()[2];
  Session session =
      Session::Create(ProgramOf("batch=2", attention.model, Batch(100, attention.example))).value();
  const int64_t full = session.kept_programs().bytes;
  const Tensor x = Rough(Type{F64, Batch(100, attention.example)});
  const Tensor all = session.Predict({{"x", x}})->Get("y").value();
  const int64_t two = session.kept_programs().bytes;
  for (int64_t rows = 1; rows <= 100; ++rows)
    ExpectNear(session.Predict({{"x", x.Rows(0, rows)}})->Get("y").value(), all.Rows(0, rows));
  const KeptPrograms programs = session.kept_programs();
  EXPECT_EQ(programs.made, 1 + 5);
  EXPECT_EQ(programs.kept, 1 + 5);
  // Those of 25, 7, 2 and 1 rows together hold less than that of 100.
  EXPECT_LT(programs.bytes - two, two - full);
}

// These need each number of rows as it is.
TEST(PredictInBatchesTest, RowsThatMeetArePredictedTogether) {
  const Case cases[] = {
      {"softmax over the batch", {3}, [](Graph&, const Value& x) { return Softmax(x, 0); }},
      {"less the mean of the batch", {3}, [](Graph&, const Value& x) { return x - ReduceMean(x, {0}); }},
      {"sorted", {3}, [](Graph&, const Value& x) { return Sort(x, 0).values; }},
      {"sums so far", {3}, [](Graph&, const Value& x) { return Cumsum(x, 0); }},
      {"numbered",
       {3},
       [](Graph& g, const Value& x) {
         return x + Iota(g, {F64, {x.shape()[0], 1}}, 0);
       }},
      {"less the first", {3}, [](Graph&, const Value& x) { return x - x[0]; }},
      {"turned", {3}, [](Graph&, const Value& x) { return Roll(x, 1, 0); }},
      {"backwards", {3}, [](Graph&, const Value& x) { return Reverse(x, {0}); }},
      {"products of rows", {3}, [](Graph&, const Value& x) { return MatMul(MatMul(x, x, false, true), x); }},
      {"divided by their number", {3}, [](Graph&, const Value& x) { return x / DimensionSize(x, {0}, F64); }},
      {"noisy", {3}, [](Graph& g, const Value& x) { return x + RandomUniform(g, x.type(), 1, 2, 0, 1); }},
      {"a mean, too", {}, [](Graph&, const Value& x) { return ReduceMean(x); }},
      {"normalized by the batch",
       {3},
       [](Graph&, const Value& x) {
         const Value mean = ReduceMean(x, {0});
         return (x - mean) / Sqrt(ReduceMean(Square(x - mean), {0}) + 1e-3);
       }},
  };
  for (const Case& c : cases) {
    for (const char* mesh : kMeshes) {
      SCOPED_TRACE(fmt::format("{} on [{}]", c.name, mesh));
      Session session = Session::Create(ProgramOf(mesh, c.model, Batch(10, c.example))).value();
      const Tensor x = Rough(Type{F64, Batch(10, c.example)});
      for (int64_t rows = 1; rows <= 10; ++rows) {
        SCOPED_TRACE(rows);
        Session exact = Session::Create(ProgramOf("", c.model, Batch(rows, c.example))).value();
        const Feeds feeds = {{"x", x.Rows(0, rows)}};
        ExpectNear(session.Predict(feeds)->Get("y").value(), exact.Run(feeds)->Get("y").value());
      }
      EXPECT_EQ(session.kept_programs().made, 10);
    }
  }
}

TEST(PredictInBatchesTest, OutputsThatAreNoRowsComeWhole) {
  Graph g(Mesh::VirtualCpus("batch=2").value());
  const Value x = g.Input("x", F64, {8, 3}, {"batch", UNSHARDED});
  const Value w = g.Var("w", GlorotUniform({8, 3}, F64), {UNSHARDED, UNSHARDED});
  g.Output("table", w * 1.0);
  g.Output("x", Tanh(x));
  Session session = Session::Create(g).value();
  for (int64_t rows : {1, 3, 4, 7}) {
    const Feeds feeds = {{"x", Rough(Type{F64, {rows, 3}})}};
    const StepResult got = session.Predict(feeds).value();
    EXPECT_EQ(session.kept_programs().made, rows == 1 ? 2 : 3);
    ExpectNear(got.Get("table").value(), session.Get("w").value(), 0);
    ExpectNear(got.Get("x").value(), Session::Create(g)->Evaluate(feeds)->Get("x").value());
  }
}

// The rows that fill a batch are like its last one: no division by the zeros of an empty row.
TEST(PredictInBatchesTest, WhatFillsABatchMakesNoNan) {
  Session session =
      Session::Create(
          ProgramOf("batch=2", [](Graph&, const Value& x) { return x / ReduceSum(x, {1}, true); }, {8, 3}),
          {.compile = {.warn = [](std::string_view) {}}})
          .value();
  const Tensor y = session.Predict({{"x", Tensor::Full({F64, {7, 3}}, 2)}})->Get("y").value();
  ASSERT_EQ(y.shape(), (Shape{7, 3}));
  for (double share : y.values<double>()) EXPECT_NEAR(share, 1.0 / 3, 1e-15);
}

// A program that only predicts is not compiled again for predictions of all its rows, which are no steps.
TEST(PredictInBatchesTest, TheFullStepOfAProgramThatOnlyPredictsIsUsed) {
  const Case& layers = Models()[0];
  for (const char* mesh : kMeshes) {
    Session session = Session::Create(ProgramOf(mesh, layers.model, Batch(8, layers.example))).value();
    const Feeds feeds = {{"x", Rough(Type{F64, {8, 3}})}};
    const Tensor y = session.Run(feeds)->Get("y").value();
    for (const std::vector<std::string>& outputs : {std::vector<std::string>{}, {"y"}}) {
      ExpectNear(session.Predict(feeds, outputs)->Get("y").value(), y, 0);
      ExpectNear(session.Evaluate(feeds, outputs)->Get("y").value(), y, 0);
    }
    EXPECT_EQ(session.kept_programs().made, 1);
    EXPECT_EQ(session.steps_done(), 1);
  }
  Session training = Session::Create(Classifier("batch=2", 12)).value();
  ASSERT_TRUE(training.Evaluate(Examples(12)).ok());
  EXPECT_EQ(training.kept_programs().made, 2);
  EXPECT_EQ(training.steps_done(), 0);
}

TEST(PredictInBatchesTest, AProgramOfExactlyTheseRowsIsUsed) {
  Session session = Session::Create(Classifier("batch=2", 12)).value();
  const Feeds five = {{"x", Examples(5).at("x")}};
  const Tensor evaluated = session.Evaluate(five, {"logits"})->Get("logits").value();
  ASSERT_EQ(session.kept_programs().made, 2);
  ExpectNear(session.Predict(five, {"logits"})->Get("logits").value(), evaluated, 0);
  EXPECT_EQ(session.kept_programs().made, 2);
}

TEST(PredictInBatchesTest, MistakesInFeedsNameTheRowsThatWereFed) {
  Session session = Session::Create(Classifier("batch=2", 12)).value();
  EXPECT_THAT(MessageOf(session.Predict({{"x", Tensor::Zeros({F64, {5, 4}})}}, {"logits"}).status()),
              testing::HasSubstr("is f64[5,4]; the program takes f64[5,3]"));
  EXPECT_THAT(MessageOf(session.Predict({{"x", Tensor::Zeros({F32, {5, 3}})}}, {"logits"}).status()),
              testing::HasSubstr("is f32[5,3]; the program takes f64[5,3]"));
}

// ---- What is kept.

TEST(KeptProgramsTest, TheLeastRecentlyUsedMakesRoom) {
  Session session = Session::Create(Classifier("batch=2", 12), {.max_programs = 2}).value();
  const auto made_by = [&](int64_t rows) {
    const int64_t before = session.kept_programs().made;
    EXPECT_TRUE(session.Evaluate(Examples(rows)).ok());
    return session.kept_programs().made - before;
  };
  EXPECT_EQ(made_by(3), 1);
  EXPECT_EQ(made_by(4), 1);
  EXPECT_EQ(made_by(3), 0);
  EXPECT_EQ(made_by(5), 1);  // for that of 4 rows
  EXPECT_EQ(session.kept_programs().kept, 3);
  EXPECT_EQ(made_by(3), 0);
  EXPECT_EQ(made_by(4), 1);
  EXPECT_EQ(made_by(5), 1);
  EXPECT_EQ(session.kept_programs().kept, 3);
  // The full step stays.
  const int64_t before = session.kept_programs().made;
  ASSERT_TRUE(session.Run(Examples(12)).ok());
  EXPECT_EQ(session.kept_programs().made, before);
}

TEST(KeptProgramsTest, TheSameNumbersWithOneProgramAsWithMany) {
  const Graph graph = Classifier("batch=4", 12);
  Session few = Session::Create(graph, {.max_programs = 1}).value(), many = Session::Create(graph).value();
  for (int64_t rows : {12, 5, 1, 7, 5, 12, 1, 7, 7, 2}) {
    const Feeds feeds = Examples(rows);
    ExpectNear(few.Run(feeds)->outputs(), many.Run(feeds)->outputs());
    ExpectNear(few.Predict({{"x", feeds.at("x")}}, {"logits"})->outputs(),
               many.Predict({{"x", feeds.at("x")}}, {"logits"})->outputs());
    EXPECT_LE(few.kept_programs().kept, 2);
  }
  ExpectNear(StateOf(few), StateOf(many));
}

// All domains drop the same programs, also after a call that failed in one of them: else some would compile and others run.
TEST(KeptProgramsTest, DomainsDropTheSame) {
  const Graph graph = Classifier("batch=4", 12);
  InDomains(2, [&](Transport& end) {
    SessionOptions options{.workers = 1, .own_cores = false, .gather_outputs = true, .max_programs = 2};
    options.executor.transport = &end;
    Session session = Session::Create(graph, options).value();
    Session alone = Session::Create(graph, {.workers = 1, .own_cores = false}).value();
    for (int64_t rows : {5, 3, 5, 7, 3, 12, 1, 5, 20, 3, 5}) {
      if (rows == 7) {
        EXPECT_FALSE(session.Evaluate(end.domain() == 0 ? Feeds() : Examples(3)).ok());
      }
      const Feeds feeds = {{"x", Rough(Type{F64, {rows, 3}})}};
      const absl::StatusOr<StepResult> got = session.Predict(feeds, {"logits"});
      ASSERT_TRUE(got.ok()) << got.status();
      ExpectNear(got->outputs(), alone.Predict(feeds, {"logits"})->outputs());
      EXPECT_LE(session.kept_programs().kept, 3);
    }
    EXPECT_GT(session.kept_programs().made, 8);
  });
}

TEST(KeptProgramsTest, ABoundStepOutlivesItsProgram) {
  const Graph graph = Classifier("batch=2", 12);
  Session session = Session::Create(graph, {.max_programs = 1}).value(),
          other = Session::Create(graph).value();
  BoundStep step = session.Bind(Examples(5)).value();
  ASSERT_TRUE(session.Evaluate(Examples(3)).ok());
  ASSERT_TRUE(session.Evaluate(Examples(4)).ok());
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(MessageOf(step.Run()), "");
    ExpectNear(step.outputs(), other.Run(Examples(5))->outputs());
    ASSERT_TRUE(session.Run(Examples(6)).ok());
    ASSERT_TRUE(other.Run(Examples(6)).ok());
  }
  EXPECT_EQ(session.steps_done(), 6);
  ExpectNear(StateOf(session), StateOf(other));
}

}  // namespace
}  // namespace meshwork::session_predict_test

// Differences between training, evaluation and prediction: WhenTraining, chosen outputs, batches in parts.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "train/classifier.h"

namespace meshwork::session_modes_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kModeMeshes[] = {"batch=1", "batch=2", "model=2", "batch=3,model=2", "batch=4,model=2"};

// x: f64[6] -> y = 10 x in training, 100 x otherwise.
Graph TenOrHundred(const std::string& mesh) {
  Graph g(Mesh::VirtualCpus(mesh).value());
  Value x = g.Input("x", F64, {6}, {AxisOrWhole(g.mesh(), "batch")});
  g.Output("y", WhenTraining(x * 10.0, x * 100.0));
  return g;
}

Tensor Six() { return Tensor::From<double>({6}, {1, 2, 3, 4, 5, 6}); }

TEST(WhenTrainingTest, RunTrainsAndEvaluateDoesNot) {
  for (const char* mesh : kModeMeshes) {
    SCOPED_TRACE(mesh);
    Session session = Session::Create(TenOrHundred(mesh)).value();
    EXPECT_THAT(session.Run({{"x", Six()}})->Get("y")->values<double>(), ElementsAre(10, 20, 30, 40, 50, 60));
    EXPECT_THAT(session.Evaluate({{"x", Six()}})->Get("y")->values<double>(),
                ElementsAre(100, 200, 300, 400, 500, 600));
    EXPECT_THAT(session.Evaluate({{"x", Six().Rows(4, 6)}})->Get("y")->values<double>(),
                ElementsAre(500, 600));
    EXPECT_THAT(session.Run({{"x", Six().Rows(4, 6)}})->Get("y")->values<double>(), ElementsAre(50, 60));
  }
}

TEST(WhenTrainingTest, WhatTheOtherModeNeedsIsNotComputed) {
  Session session = Session::Create(TenOrHundred("batch=2")).value();
  const Graph& local = session.program().body;
  int64_t products = 0;
  for (const Node& node : local.nodes()) {
    products += node.row->name == "mul" ? 1 : 0;
    EXPECT_NE(node.row->name, "when_training");
  }
  EXPECT_EQ(products, 1);
}

TEST(WhenTrainingTest, APinnedResultIsMoved) {
  Graph g(Mesh::VirtualCpus("batch=2").value());
  Value x = g.Input("x", F64, {6}, {"batch"});
  Value y = WhenTraining(x, -x);
  g.Pin(y, {UNSHARDED});
  g.Output("y", y + 0.0);
  Session session = Session::Create(g).value();
  EXPECT_THAT(session.Run({{"x", Six()}})->Get("y")->values<double>(), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(session.Evaluate({{"x", Six()}})->Get("y")->values<double>(),
              ElementsAre(-1, -2, -3, -4, -5, -6));
}

TEST(WhenTrainingTest, HoldsInBodiesOfLoopsAndOfManualRegions) {
  Graph g(Mesh::VirtualCpus("batch=2").value());
  Value x = g.Input("x", F64, {6}, {"batch"});
  const ScanResult scan =
      Scan(g, {x}, {},
           [](Graph&, const std::vector<Value>& carries, const std::vector<Value>&) {
             return ScanStep{.carries = {WhenTraining(carries[0] * 2.0, carries[0] * 3.0)}};
           },
           {.length = 3});
  g.Output("scanned", scan.carries[0]);
  const std::vector<Value> local =
      manual::Region(g, {x}, {{"batch"}}, {{"batch"}}, [](Graph&, const std::vector<Value>& blocks) {
        return std::vector<Value>{WhenTraining(blocks[0], -blocks[0])};
      });
  g.Output("local", local[0]);
  Session session = Session::Create(g).value();
  const StepResult trained = session.Run({{"x", Six()}}).value();
  const StepResult evaluated = session.Evaluate({{"x", Six()}}).value();
  EXPECT_THAT(trained.Get("scanned")->values<double>(), ElementsAre(8, 16, 24, 32, 40, 48));
  EXPECT_THAT(evaluated.Get("scanned")->values<double>(), ElementsAre(27, 54, 81, 108, 135, 162));
  EXPECT_THAT(trained.Get("local")->values<double>(), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(evaluated.Get("local")->values<double>(), ElementsAre(-1, -2, -3, -4, -5, -6));
}

TEST(WhenTrainingTest, GradientsAreThoseOfTraining) {
  for (const char* mesh : kModeMeshes) {
    SCOPED_TRACE(mesh);
    Graph g(Mesh::VirtualCpus(mesh).value());
    Value x = g.Input("x", F64, {6}, {AxisOrWhole(g.mesh(), "batch")});
    Variable w = g.Var("w", Filled(1, {6}, F64), {UNSHARDED});
    Value loss = ReduceSum(WhenTraining(w * x, w * x * x), {0});
    Sgd({.learning_rate = 1}).Minimize(loss);
    g.Output("loss", loss);
    Session session = Session::Create(g).value();
    EXPECT_EQ(session.Run({{"x", Six()}})->scalar("loss").value(), 21);
    EXPECT_THAT(session.Get("w")->values<double>(), ElementsAre(0, -1, -2, -3, -4, -5));
    // -1·4 - 2·9 - 3·16 - 4·25 - 5·36
    EXPECT_EQ(session.Evaluate({{"x", Six()}})->scalar("loss").value(), -350);
    EXPECT_THAT(session.Get("w")->values<double>(), ElementsAre(0, -1, -2, -3, -4, -5));
  }
}

TEST(WhenTrainingTest, StandsInTexts) {
  constexpr std::string_view kText =
      "mesh [x=2]\n"
      "\n"
      "func step(%a: f32[4] {x}, %b: f32[4] {x}) {\n"
      "  %0 = when_training %a, %b : f32[4]\n"
      "  return y=%0\n"
      "}\n";
  const Graph g = ParseGraph(kText, "p.mw").value();
  EXPECT_EQ(PrintGraph(ParseGraph(PrintGraph(g), "q.mw").value()), PrintGraph(g));
  Session session = Session::Create(g).value();
  const Feeds feeds = {{"a", Tensor::From<float>({4}, {1, 2, 3, 4})},
                       {"b", Tensor::From<float>({4}, {5, 6, 7, 8})}};
  EXPECT_THAT(session.Run(feeds)->Get("y")->values<float>(), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(session.Evaluate(feeds)->Get("y")->values<float>(), ElementsAre(5, 6, 7, 8));
}

// ---- Chosen outputs.

TEST(EvaluateTest, NeedsTheInputsOfTheChosenOutputs) {
  for (const char* mesh : kModeMeshes) {
    SCOPED_TRACE(mesh);
    Session session = Session::Create(Classifier(mesh, 6)).value();
    const Feeds feeds = Examples(6);
    const StepResult all = session.Evaluate(feeds).value();
    const StepResult logits = session.Evaluate({{"x", feeds.at("x")}}, {"logits"}).value();
    EXPECT_EQ(logits.outputs().size(), 1u);
    ExpectNear(logits.Get("logits").value(), all.Get("logits").value(), 0);
    // Labels may be given; they are not read.
    const Tensor no_labels = Tensor::From<float>({1}, {-7});
    ExpectNear(session.Evaluate({{"x", feeds.at("x")}, {"y", no_labels}}, {"logits"})->Get("logits").value(),
               logits.Get("logits").value(), 0);
    const StepResult two = session.Evaluate(feeds, {"loss", "logits", "loss"}).value();
    EXPECT_EQ(two.outputs().size(), 2u);
    EXPECT_EQ(two.scalar("loss").value(), all.scalar("loss").value());
    EXPECT_EQ(session.steps_done(), 0);
  }
}

TEST(EvaluateTest, SaysWhichFeedIsMissing) {
  Session session = Session::Create(Classifier("batch=2", 6)).value();
  EXPECT_THAT(MessageOf(session.Evaluate({{"x", Examples(6).at("x")}}, {"loss"}).status()),
              HasSubstr("\"y\""));
  EXPECT_THAT(MessageOf(session.Evaluate({{"y", Examples(6).at("y")}}, {"logits"}).status()),
              HasSubstr("\"x\""));
  EXPECT_EQ(MessageOf(session.Evaluate(Examples(6), {"logit"}).status()),
            "Session: there is no output \"logit\"; did you mean \"logits\"?");
}

TEST(EvaluateTest, NeedsNoInputsOfTheUpdateAlone) {
  Graph g(Mesh::VirtualCpus("batch=2").value());
  Value x = g.Input("x", F32, {4}, {"batch"});
  Value rate = g.Input("rate", F32, {}, {});
  Variable w = g.Var("w", Filled(3, {}), {});
  Value loss = ReduceMean(Square(x - w), {0});
  Sgd({.learning_rate = rate}).Minimize(loss);
  g.Output("loss", loss);
  Session session = Session::Create(g).value();
  const Tensor fed = Tensor::From<float>({4}, {3, 3, 3, 5});
  EXPECT_EQ(session.Evaluate({{"x", fed}})->scalar("loss").value(), 1);
  EXPECT_FALSE(session.Run({{"x", fed}}).ok());
  EXPECT_EQ(session.Run({{"x", fed}, {"rate", 1.0f}})->scalar("loss").value(), 1);
  EXPECT_EQ(session.Get("w")->Scalar().value(), 4);
}

// ---- Any number of rows.

// y = x w: f64[b,2] of x: f64[4,3] and w; the program takes b = 4; "bias" is no batch; "mean" has no rows.
Graph Predicting(const std::string& mesh) {
  Graph g(Mesh::VirtualCpus(mesh).value());
  Value x = g.Input("x", F64, {4, 3}, {AxisOrWhole(g.mesh(), "batch"), UNSHARDED});
  Value bias = g.Input("bias", F64, {2}, {UNSHARDED});
  Variable w = g.Var("w", GlorotUniform({3, 2}, F64), {UNSHARDED, AxisOrWhole(g.mesh(), "model")});
  Value y = MatMul(x, w) + bias;
  g.Output("y", y);
  g.Output("row_sums", ReduceSum(y, {1}));
  g.Output("mean", ReduceMean(y, {0, 1}));
  g.Output("column_sums", ReduceSum(Concat({y, y}, 1), {0}));  // f64[4], but not one per row
  return g;
}

TEST(PredictTest, TakesAnyNumberOfRows) {
  for (const char* mesh : kModeMeshes) {
    SCOPED_TRACE(mesh);
    Session session = Session::Create(Predicting(mesh)).value();
    const Tensor w = session.Get("w").value();
    for (const int64_t rows : {1, 3, 4, 5, 8, 11}) {
      SCOPED_TRACE(rows);
      const Tensor x = Rough(Type{F64, {rows, 3}});
      const Feeds feeds = {{"x", x}, {"bias", Tensor::From<double>({2}, {0.5, -1})}};
      const StepResult result = session.Predict(feeds, {"y", "row_sums"}).value();
      ASSERT_EQ(result.Get("y")->shape(), (Shape{rows, 2}));
      ASSERT_EQ(result.Get("row_sums")->shape(), (Shape{rows}));
      for (int64_t i = 0; i < rows; ++i) {
        double sum = 0;
        for (int64_t j = 0; j < 2; ++j) {
          double y = j == 0 ? 0.5 : -1;
          for (int64_t k = 0; k < 3; ++k) y += x.values<double>()[i * 3 + k] * w.values<double>()[k * 2 + j];
          EXPECT_NEAR(result.Get("y")->values<double>()[i * 2 + j], y, 1e-12);
          sum += y;
        }
        EXPECT_NEAR(result.Get("row_sums")->values<double>()[i], sum, 1e-12);
      }
    }
  }
}

TEST(PredictTest, SeesWhatTrainingHasMade) {
  Session session = Session::Create(Classifier("batch=2", 6)).value();
  const Feeds all = Examples(12);
  const Tensor before = session.Predict({{"x", all.at("x")}}, {"logits"})->Get("logits").value();
  ASSERT_TRUE(session.Run(Examples(6)).ok());
  const Tensor after = session.Predict({{"x", all.at("x")}}, {"logits"})->Get("logits").value();
  EXPECT_EQ(after.shape(), (Shape{12, 4}));
  EXPECT_NE(before.values<double>()[0], after.values<double>()[0]);
  ExpectNear(after.Rows(0, 6), session.Evaluate(Examples(6))->Get("logits").value(), 0);
  EXPECT_EQ(session.steps_done(), 1);
}

TEST(PredictTest, OutputsWithoutRowsComeFromOneBatchOnly) {
  Session session = Session::Create(Predicting("batch=2")).value();
  const Feeds feeds = {{"x", Rough(Type{F64, {5, 3}})}, {"bias", Tensor::From<double>({2}, {0, 0})}};
  const Feeds four = {{"x", Rough(Type{F64, {4, 3}})}, {"bias", feeds.at("bias")}};
  for (const std::string name : {"mean", "column_sums"}) {
    EXPECT_TRUE(session.Predict(four, {name}).ok());
    EXPECT_THAT(MessageOf(session.Predict(feeds, {"y", name}).status()),
                HasSubstr("Session: output \"" + name + "\" is f64["));
  }
  EXPECT_THAT(MessageOf(session.Predict(feeds).status()), HasSubstr("feed at most 4 rows."));
}

}  // namespace
}  // namespace meshwork::session_modes_test

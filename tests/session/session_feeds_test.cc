// The feeds of a session: bound once to many steps, and refused where they do not fit the program.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "meshwork.h"
#include "runtime/plan/programs.h"
#include "train/classifier.h"

namespace meshwork::session_feeds_test {
namespace {

// ---- Bound steps.

TEST(SessionTest, ABoundStepIsTheSameStep) {
  Session session = Session::Create(Classifier("batch=4,model=2", 6)).value();
  Session bound_session = Session::Create(Classifier("batch=4,model=2", 6)).value();
  Tensor x({F64, {6, 3}}), y({I32, {6}});
  BoundStep bound = bound_session.Bind({{"x", x}, {"y", y}}).value();
  for (int64_t begin : {0, 6, 3}) {
    const Feeds feeds = {{"x", Examples(12)["x"].Rows(begin, begin + 6)},
                         {"y", Examples(12)["y"].Rows(begin, begin + 6)}};
    std::copy_n(feeds.at("x").values<double>().begin(), 18, x.mutable_values<double>().begin());
    std::copy_n(feeds.at("y").values<int32_t>().begin(), 6, y.mutable_values<int32_t>().begin());
    ASSERT_EQ(MessageOf(bound.Run()), "");
    ExpectBitwiseEqual(bound.outputs(), session.Run(feeds)->outputs());
    ExpectBitwiseEqual(StateOf(bound_session), StateOf(session));
  }
}

TEST(SessionTest, AStepIsBoundToAShortBatchAndSurvivesAMove) {
  Session session = Session::Create(Classifier("batch=4", 6)).value();
  BoundStep bound = session.Bind(Examples(5)).value();
  const Session moved = std::move(session);
  ASSERT_EQ(MessageOf(bound.Run()), "");
  Session reference = Session::Create(Classifier("batch=4", 6)).value();
  ExpectBitwiseEqual(bound.outputs(), reference.Run(Examples(5))->outputs());
  ExpectBitwiseEqual(StateOf(moved), StateOf(reference));
}

TEST(SessionTest, BindingRefusesTheFeedsThatRunRefuses) {
  Session session = Session::Create(Classifier("batch=2", 6)).value();
  EXPECT_EQ(MessageOf(session.Bind({{"x", Examples(6)["x"]}}).status()),
            "Run: feed \"y\" is missing; step(x: f64[6,3], y: i32[6]) takes every input at every step: "
            "feed it, or drop an input that nothing reads.");
}

// ---- Feeds.

std::string RunError(Session& session, const Feeds& feeds) {
  const absl::StatusOr<StepResult> result = session.Run(feeds);
  return result.ok() ? "OK" : std::string(MessageOf(result.status()));
}

TEST(SessionTest, RefusesFeedsThatDoNotFitAndKeepsItsState) {
  Session session = Session::Create(Classifier("batch=2", 6)).value();
  ASSERT_TRUE(session.Run(Examples(6)).ok());
  const Tensors before = StateOf(session);
  const Tensor x = Examples(6)["x"], y = Examples(6)["y"];

  EXPECT_EQ(RunError(session, {{"x", x}}),
            "Run: feed \"y\" is missing; step(x: f64[6,3], y: i32[6]) takes every input at every step: "
            "feed it, or drop an input that nothing reads.");
  EXPECT_EQ(RunError(session, {}),
            "Run: feed \"x\" is missing; step(x: f64[6,3], y: i32[6]) takes every input at every step: "
            "feed it, or drop an input that nothing reads.");
  EXPECT_EQ(RunError(session, {{"x", x}, {"y", y}, {"yy", y}}),
            "Run: feed \"yy\" is no input of step(x: f64[6,3], y: i32[6]); did you mean \"y\"?");
  EXPECT_EQ(RunError(session, {{"x", x}, {"y", y}, {"labels", y}}),
            "Run: feed \"labels\" is no input of step(x: f64[6,3], y: i32[6]).");
  EXPECT_EQ(RunError(session, {{"x", x}, {"y", y}, {"w", x}}),
            "Run: feed \"w\" is a variable; the program keeps its value; set it between steps (Session::Set, "
            "or Pack).");
  EXPECT_EQ(RunError(session, {{"x", Tensor()}, {"y", y}}),
            "Run: feed \"x\": Tensor: it has no elements yet; a default-constructed Tensor is empty, "
            "make one by Tensor::From or Tensor::Zeros.");
  EXPECT_EQ(RunError(session, {{"x", Tensor::From<double>({4, 3}, {1})}, {"y", y}}),
            "Run: feed \"x\": Tensor: 1 value for a f64[4,3], which has 12 elements; give one for each.");
  // More rows than the program's batch, and two numbers of rows.
  EXPECT_EQ(
      RunError(session, Examples(7)),
      "Run: feed \"x\" is f64[7,3]; the program takes f64[6,3], compile it for this shape or feed that one; "
      "of more rows, feed 6 at a time.");
  EXPECT_EQ(RunError(session, {{"x", x.Rows(0, 4)}, {"y", y}}),
            "Run: feed \"x\" has 4 rows and feed \"y\" 6; all inputs of the batch take as many.");
  EXPECT_EQ(RunError(session, {{"x", x.Rows(0, 1)}, {"y", y.Rows(0, 5)}}),
            "Run: feed \"x\" has 1 row and feed \"y\" 5; all inputs of the batch take as many.");
  // A batch without rows.
  EXPECT_EQ(
      RunError(session, Examples(0)),
      "Run: feed \"x\" is f64[0,3]; the program takes f64[6,3], compile it for this shape or feed that one.");
  // Another width, in a full and in a short batch.
  EXPECT_EQ(
      RunError(session, {{"x", Tensor::Zeros({F64, {6, 2}})}, {"y", y}}),
      "Run: feed \"x\" is f64[6,2]; the program takes f64[6,3], compile it for this shape or feed that one.");
  EXPECT_EQ(
      RunError(session, {{"x", Tensor::Zeros({F64, {4, 2}})}, {"y", y.Rows(0, 4)}}),
      "Run: feed \"x\" is f64[4,2]; the program takes f64[4,3], compile it for this shape or feed that one.");
  EXPECT_EQ(
      RunError(session, {{"x", Tensor::Zeros({F64, {}})}, {"y", y}}),
      "Run: feed \"x\" is f64[]; the program takes f64[6,3], compile it for this shape or feed that one.");
  // Another dtype.
  EXPECT_EQ(
      RunError(session, {{"x", Tensor::Zeros({F32, {6, 3}})}, {"y", y}}),
      "Run: feed \"x\" is f32[6,3]; the program takes f64[6,3], convert it or cast inside the program.");
  EXPECT_EQ(MessageOf(session.Evaluate({{"x", x}}).status()),
            "Run: feed \"y\" is missing; evaluate(x: f64[6,3], y: i32[6]) takes every input at every step: "
            "feed it, or drop an input that nothing reads.");

  ExpectBitwiseEqual(StateOf(session), before);
  EXPECT_TRUE(session.Run(Examples(6)).ok());
}

TEST(SessionTest, RefusesAVariableTiedToTheBatchWhereTheBatchIsShort) {
  Graph g(Mesh::VirtualCpus("batch=2").value());
  Value x = g.Input("x", F32, {6, 3}, {"batch", UNSHARDED});
  Variable table = g.Var("table", Zeros({6, 3}), {"batch", UNSHARDED});
  g.Update(table, table + x);
  g.Output("sum", ReduceSum(table + x, {0, 1}));
  Session session = Session::Create(g).value();
  const Tensor ones = Tensor::From<float>({6, 3}, std::vector<float>(18, 1));
  EXPECT_EQ(session.Run({{"x", ones}})->scalar("sum").value(), 18);
  EXPECT_EQ(
      RunError(session, {{"x", ones.Rows(0, 4)}}),
      "Session: variable \"table\" is f32[6,3]; its dim 0 is tied to the batch of 6, so the program cannot "
      "run with 4.");
  EXPECT_EQ(session.Run({{"x", ones}})->scalar("sum").value(), 36);
}

}  // namespace
}  // namespace meshwork::session_feeds_test

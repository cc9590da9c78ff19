// Which op FindFirstNan names, by its line in the user's source.
#include "meshwork/train/fit/find_nan.h"

#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "train/fit_programs.h"

namespace meshwork::find_nan_test {
namespace {

using ::testing::HasSubstr;

Tensor Row(const std::vector<double>& values) {
  return Tensor::From<double>({static_cast<int64_t>(values.size())}, values);
}

struct Logged {
  Graph graph;
  int line;
};
// loss = mean log(w x); w = 2, trained.
Logged LogOf(const std::string& mesh) {
  Graph g(Mesh::VirtualCpus(mesh).value());
  Value x = g.Input("x", F64, {4}, {AxisOrWhole(g.mesh(), "batch")});
  Variable w = g.Var("w", Filled(2, {}, F64), {});
  Value scaled = x * w;
  const int line = __LINE__ + 1;
  Value logs = Log(scaled);
  Value loss = ReduceMean(logs, {0});
  Sgd({.learning_rate = 0.1}).Minimize(loss);
  g.Output("loss", loss);
  return {std::move(g), line};
}

std::string At(std::string_view op, int line) { return fmt::format("{} (find_nan_test.cc:{})", op, line); }

TEST(FindFirstNanTest, NamesTheOpOnAnyMesh) {
  for (const char* mesh : {"batch=1", "batch=2", "batch=3,model=2"}) {
    SCOPED_TRACE(mesh);
    const Logged logged = LogOf(mesh);
    Session session = Session::Create(logged.graph).value();
    EXPECT_FALSE(FindFirstNan(session, {{"x", Row({1, 2, 3, 4})}})->has_value());
    const NanOrigin origin = FindFirstNan(session, {{"x", Row({1, -2, 3, -4})}})->value();
    EXPECT_EQ(origin.where, At("log", logged.line));
    EXPECT_EQ(origin.location.line, logged.line);
    EXPECT_EQ(origin.message,
              At("log", logged.line) +
                  " makes the first NaN: its result, f64[4], has 2, the first at [1]. Operand 0, f64[4], "
                  "from -8 to 6.");
    EXPECT_EQ(session.Get("w")->Scalar().value(), 2);
    EXPECT_EQ(session.steps_done(), 0);
  }
}

TEST(FindFirstNanTest, TakesShortBatches) {
  const Logged logged = LogOf("batch=2");
  Session session = Session::Create(logged.graph).value();
  const NanOrigin origin = FindFirstNan(session, {{"x", Row({1, 2, -3})}})->value();
  EXPECT_THAT(origin.message, HasSubstr("its result, f64[3], has 1, the first at [2]."));
}

TEST(FindFirstNanTest, NamesInputsAndVariables) {
  Session session = Session::Create(LogOf("batch=2").graph).value();
  EXPECT_EQ(FindFirstNan(session, {{"x", Row({1, 2, NAN, 4})}})->value().message,
            "input \"x\", f64[4], has NaN before the step, the first at [2].");
  // The gradient of the logarithm is 0 there, and 0 times infinity is NaN.
  EXPECT_THAT(FindFirstNan(session, {{"x", Row({INFINITY, 2, 3, 4})}})->value().message,
              HasSubstr("has an infinity, made by input \"x\"."));
  ASSERT_TRUE(session.Set("w", Tensor(std::nan(""))).ok());
  EXPECT_EQ(FindFirstNan(session, {{"x", Row({1, 2, 3, 4})}})->value().where, "variable \"w\"");
}

TEST(FindFirstNanTest, NamesAnInputOfWhichAnOutputIsInfinite) {
  Graph g(Mesh::VirtualCpus("batch=2").value());
  Value x = g.Input("x", F64, {4}, {"batch"});
  g.Output("loss", ReduceSum(x * 2.0, {0}));
  Session session = Session::Create(g).value();
  EXPECT_EQ(FindFirstNan(session, {{"x", Row({1, INFINITY, 3, 4})}})->value().message,
            "input \"x\", f64[4], has an infinity before the step, the first at [1].");
}

TEST(FindFirstNanTest, SaysWhereInfinitiesBegan) {
  Graph g(Mesh::VirtualCpus("batch=2").value());
  Value x = g.Input("x", F64, {4}, {"batch"});
  const int line = __LINE__ + 1;
  Value big = Exp(x);
  Value twice = big * 2.0;
  Value difference = twice - big;
  g.Output("loss", ReduceMean(difference, {0}));
  Session session = Session::Create(g).value();
  EXPECT_EQ(
      FindFirstNan(session, {{"x", Row({1, 2, 3, 1000})}})->value().message,
      fmt::format(
          "{} makes the first NaN: its result, f64[4], has 1, the first at [3]. Operand 0, f64[4], from "
          "{:.6g} to {:.6g}, has an infinity, made by {}. Operand 1, f64[4], from {:.6g} to {:.6g}, has an "
          "infinity, made by {}.",
          At("sub", line + 2), 2 * std::exp(1.0), 2 * std::exp(3.0), At("exp", line), std::exp(1.0),
          std::exp(3.0), At("exp", line)));
}

TEST(FindFirstNanTest, AnInfiniteMaskIsNoMistake) {
  Graph g(Mesh::VirtualCpus("batch=2").value());
  Value x = g.Input("x", F64, {2, 3}, {"batch", UNSHARDED});
  Value masked = Select(Less(x, 0.0), -INFINITY, x);
  const int line = __LINE__ + 1;
  Value shares = Softmax(masked, 1);
  g.Output("loss", ReduceMean(shares, {0, 1}));
  Session session = Session::Create(g).value();
  const auto search = [&](const std::vector<double>& values) {
    return FindFirstNan(session, {{"x", Tensor::From<double>({2, 3}, values)}}).value();
  };
  EXPECT_FALSE(search({1, -1, 2, 3, -4, 5}).has_value());
  // A row of which everything is masked.
  const NanOrigin origin = search({1, -1, 2, -3, -4, -5}).value();
  EXPECT_EQ(origin.location.line, line);
  EXPECT_THAT(origin.message, HasSubstr("made by " + At("constant", line - 2)));
}

TEST(FindFirstNanTest, LooksAtGradientsAndNewValues) {
  Graph g(Mesh::VirtualCpus("batch=1").value());
  Variable w = g.Var("w", Filled(0, {2}, F64), {UNSHARDED});
  const int line = __LINE__ + 1;
  Value root = Sqrt(w);
  Value loss = ReduceSum(root, {0});
  Sgd({.learning_rate = 0.1}).Minimize(loss);
  g.Output("loss", loss);
  Session session = Session::Create(g).value();
  EXPECT_EQ(session.Run({})->scalar("loss").value(), 0);  // the gradient is infinite, not the loss
  Session again = Session::Create(g).value();
  const NanOrigin origin = FindFirstNan(again, {})->value();
  EXPECT_EQ(origin.location.line, line);
  EXPECT_THAT(origin.message, HasSubstr("makes the first infinity"));
}

TEST(FindFirstNanTest, NamesLoopsAndManualRegionsAsAWhole) {
  Graph g(Mesh::VirtualCpus("batch=2").value());
  Value x = g.Input("x", F64, {4}, {"batch"});
  const std::vector<Value> local = manual::Region(
      g, {x}, {{"batch"}}, {{"batch"}},
      [](Graph&, const std::vector<Value>& blocks) { return std::vector<Value>{blocks[0] * 2.0}; });
  const int line = __LINE__ + 1;
  const ScanResult scan = Scan(g, {local[0]}, {},
                               [](Graph&, const std::vector<Value>& carries, const std::vector<Value>&) {
                                 return ScanStep{.carries = {Log(carries[0])}};
                               },
                               {.length = 2});
  g.Output("loss", ReduceMean(scan.carries[0], {0}));
  Session session = Session::Create(g).value();
  EXPECT_FALSE(FindFirstNan(session, {{"x", Row({10, 20, 30, 40})}})->has_value());
  const NanOrigin origin = FindFirstNan(session, {{"x", Row({10, 0.1, 30, 40})}})->value();
  EXPECT_THAT(origin.where, ::testing::StartsWith("scan"));
  EXPECT_NEAR(origin.location.line, line, 5);
}

TEST(StopOnNanTest, GoesBackAndNamesTheOp) {
  const Logged logged = LogOf("batch=2");
  SessionOptions options;
  options.executor.atomic = true;
  Session session = Session::Create(logged.graph, options).value();
  const Pipeline data = BatchesOf({{"x", Row({1, 2, 3, 4, 5, 6, 7, 8, 9, -10})}}, {.batch_size = 4}).value();
  Tensor before;
  const CallbackPtr note = Lambdas({.on_step_end = [&](FitState& state) {
    if (state.steps() == 2) before = state.session().Get("w").value();
    return absl::OkStatus();
  }});
  const absl::Status status =
      Fit(session, data, {.callbacks = {note, StopOnNan({.find_op = true})}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr("StopOnNan: the loss of step 3 is NaN (epoch 1, step 3). " + At("log", logged.line) +
                " makes the first NaN: its result, f64[2], has 1, the first at [1]. Operand 0, f64[2]"));
  EXPECT_EQ(session.Get("w")->Scalar().value(), before.Scalar().value());
  EXPECT_EQ(session.steps_done(), 2);
}

}  // namespace
}  // namespace meshwork::find_nan_test

#include "support/session_trials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "meshwork/base/status.h"
#include "support/small_session.h"

namespace meshwork {

void TryTraining(const MakeSession& make) {
  for (const bool atomic : {false, true}) {
    SCOPED_TRACE(atomic);
    Session cpu = OnCpu(SmallMlp(), {.executor = {.atomic = atomic}});
    Session there = make(SmallMlp(), {.executor = {.atomic = atomic}});
    EXPECT_FALSE(there.State().at("first/kernel").memory().is_host());
    EXPECT_EQ(there.LayoutOf("first/kernel")->ToString(), "{_,model}");
    ExpectStateNear(there, cpu);  // what the initializers make
    // The last batch is shorter.
    for (const int64_t rows : {kMlpRows, kMlpRows, kMlpRows, int64_t{5}})
      ExpectNear(there.Run(MlpRows(rows, rows)), cpu.Run(MlpRows(rows, rows)));
    EXPECT_EQ(there.steps_done(), 4);
    ExpectStateNear(there, cpu);

    ASSERT_TRUE(ResetMetrics(there).ok() && ResetMetrics(cpu).ok());
    for (int64_t first : {0, 3})
      ExpectNear(there.Accumulate(MlpRows(kMlpRows, first), {"accuracy"}),
                 cpu.Accumulate(MlpRows(kMlpRows, first), {"accuracy"}));
    EXPECT_EQ(there.Get("metrics/accuracy/count")->Scalar().value(), 2 * kMlpRows);
    ExpectNear(there.Evaluate(MlpRows(kMlpRows), {"loss"}), cpu.Evaluate(MlpRows(kMlpRows), {"loss"}));
    const Feeds many = {{"x", MlpRows(11).at("x")}};
    ExpectNear(there.Predict(many, {"logits"}), cpu.Predict(many, {"logits"}));

    EXPECT_EQ(there.Undo().ok(), atomic);
    EXPECT_EQ(cpu.Undo().ok(), atomic);
    ExpectStateNear(there, cpu);
  }
}

void TryInitialValues(const MakeSession& make) {
  Graph g(Mesh::VirtualCpus("batch=2,model=2").value());
  g.Var("sharded", Orthogonal({96, 130}), {"model", UNSHARDED});
  g.Var("padded", Orthogonal({5, 3}, 2, F64), {"batch", UNSHARDED});
  g.Var("whole", Orthogonal({130, 70}, 1, BF16), {UNSHARDED, UNSHARDED});
  g.Var("uniform", GlorotUniform({6, 4}), {UNSHARDED, "model"});
  g.Var("started", Zeros({3}), {UNSHARDED});
  for (const bool share : {true, false}) {
    SessionOptions options{.seed = 7, .executor = {.share = share}};
    Session cpu = OnCpu(g, options), there = make(g, options);
    for (const std::string& name : cpu.variable_names()) {
      EXPECT_FALSE(there.State().at(name).memory().is_host());
      EXPECT_TRUE(AllEqual(there.Get(name).value(), cpu.Get(name).value()).ok()) << name;
    }
  }
}

void TryReadingAndSetting(const MakeSession& make) {
  Session session = make(SmallMlp(), {});
  const Tensor kernel = MlpRows(6).at("x").Reshaped({5, 6});
  ASSERT_TRUE(session.Set("first/kernel", kernel).ok());
  EXPECT_TRUE(AllEqual(session.Get("first/kernel").value(), kernel).ok());
  const std::vector<Shard> shards = session.Shards("first/kernel").value();
  ASSERT_EQ(shards.size(), 4u);
  EXPECT_EQ(BlockToString(shards[1].box), "[0:5,3:6]");
  for (int64_t row = 0; row < 5; ++row)
    for (int64_t column = 0; column < 3; ++column)
      EXPECT_EQ(shards[1].tensor.values<float>()[static_cast<size_t>(row * 3 + column)],
                kernel.values<float>()[static_cast<size_t>(row * 6 + column + 3)]);
  Session moved = std::move(session);
  EXPECT_TRUE(AllEqual(moved.Get("first/kernel").value(), kernel).ok());
  EXPECT_EQ(session.Get("first/kernel").status().code(), absl::StatusCode::kFailedPrecondition);  // NOLINT
}

void TryCheckpoints(const MakeSession& make) {
  const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
  const std::string dir = fmt::format("{}meshwork-{}-{}", testing::TempDir(), test.name(), getpid());
  Session there = make(SmallMlp(), {});
  ASSERT_TRUE(there.Run(MlpRows(kMlpRows)).ok());
  ASSERT_EQ(MessageOf(there.Save(dir + "/there", {.step = 1})), "");
  // The restored session has another mesh.
  Session cpu = OnCpu(SmallMlp("batch=4,model=1"));
  ASSERT_EQ(cpu.Restore(dir + "/there")->step, 1);
  ExpectSameState(cpu, ValuesOf(there));
  ExpectNear(there.Run(MlpRows(kMlpRows, 2)), cpu.Run(MlpRows(kMlpRows, 2)));

  ASSERT_EQ(MessageOf(cpu.Save(dir + "/cpu", {.step = 2})), "");
  ASSERT_EQ(there.Restore(dir + "/cpu")->step, 2);
  ExpectSameState(there, ValuesOf(cpu));
  ExpectNear(there.Run(MlpRows(kMlpRows, 3)), cpu.Run(MlpRows(kMlpRows, 3)));
  std::filesystem::remove_all(dir);
}

void TryRemesh(const MakeSession& make) {
  Session cpu = OnCpu(SmallMlp());
  Session there = make(SmallMlp(), {.executor = {.profile = true, .atomic = true}});
  ExpectNear(there.Run(MlpRows(kMlpRows)), cpu.Run(MlpRows(kMlpRows)));
  EXPECT_EQ(there.Profile().steps, 1);
  const std::map<std::string, Tensor> before = ValuesOf(there);
  const Mesh three = Mesh::Parse("batch=1,model=3").value();
  ASSERT_EQ(MessageOf(there.Remesh(three).status()), "");
  ASSERT_EQ(MessageOf(cpu.Remesh(three).status()), "");
  EXPECT_EQ(there.program().body.mesh().ToString(), "[batch=1, model=3]");
  EXPECT_FALSE(there.State().at("first/kernel").memory().is_host());
  ExpectSameState(there, before);
  ExpectNear(there.Run(MlpRows(kMlpRows, 1)), cpu.Run(MlpRows(kMlpRows, 1)));
  ExpectStateNear(there, cpu);
}

void TryBinding(const MakeSession& make) {
  Session cpu = OnCpu(SmallMlp());
  Session there = make(SmallMlp(), {.executor = {.distributed = {"x"}}});
  DTensor x = there.NewFeed("x").value();
  EXPECT_FALSE(x.memory().is_host());
  Feeds feeds = MlpRows(kMlpRows);
  BoundStep step =
      there.Bind(StepMemory{.feeds = {{"y", feeds.at("y")}}, .distributed_feeds = {{"x", x}}}).value();
  for (int64_t first : {0, 4, 1}) {
    const Feeds next = MlpRows(kMlpRows, first);
    ASSERT_TRUE(Pack(next.at("x"), x).ok());
    const Tensor& labels = next.at("y");
    std::copy_n(labels.values<int32_t>().data(), kMlpRows, feeds.at("y").mutable_values<int32_t>().data());
    ASSERT_EQ(MessageOf(step.Run()), "");
    ExpectNear(step.outputs().at("loss"), cpu.Run(next)->Get("loss").value());
  }
}

void TryFit(const MakeSession& make) {
  Graph g(Mesh::VirtualCpus("batch=2").value());
  const Value x = g.Input("x", F32, {2}, {"batch"});
  const Variable seen = g.Var("seen", Zeros({2}, F32), {"batch"});
  g.Update(seen, x);
  g.Output("loss", ReduceSum(x, {0}));
  Session session = make(g, {});
  const std::vector<float> losses = {5, 3, 4, 6};
  const Pipeline data = Pipeline::FromFunction(4, [&](int64_t i) {
    return Example{{"x", Tensor::From<float>({2}, {losses[static_cast<size_t>(i)], 0})}};
  });
  const absl::StatusOr<History> history = Fit(
      session, data,
      {.epochs = 4,
       .steps_per_epoch = 1,
       .callbacks = {EarlyStopping({.monitor = "loss", .patience = 2, .restore_best = true}), StopOnNan()},
       .log = [](std::string_view) {}});
  ASSERT_TRUE(history.ok()) << history.status();
  EXPECT_EQ(history->steps, 4);
  EXPECT_EQ(session.Get("seen")->values<float>()[0], 3);
  const absl::StatusOr<Metrics> evaluation = Evaluate(session, data);
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  EXPECT_EQ(evaluation->at("loss"), 4.5);
}

}  // namespace meshwork

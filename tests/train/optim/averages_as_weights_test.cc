// Evaluations with averages in place of the weights, compared with a loop of Set and Get.
#include "meshwork/train/optim/averages_as_weights.h"

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "runtime/plan/programs.h"
#include "support/in_domains.h"
#include "support/tensors.h"
#include "train/classifier.h"

namespace meshwork::averages_as_weights_test {
namespace {

// A classifier whose weights are averaged, with variables whose names look like averages.
Graph Averaged(const std::string& mesh, DType dtype = F64) {
  Graph g(Mesh::VirtualCpus(mesh).value());
  const DimSpec batch = AxisOrWhole(g.mesh(), "batch"), model = AxisOrWhole(g.mesh(), "model");
  const Value x = g.Input("x", F64, {6, 3}, {batch, UNSHARDED});
  const Value y = g.Input("y", I32, {6}, {batch});
  const Variable w = g.Var("w", GlorotUniform({3, 4}, dtype), {UNSHARDED, model});
  const Variable b = g.Var("deep/b", Zeros({4}, dtype), {UNSHARDED});
  const Variable step = g.Var("step", Filled(7, {}, I64), {});  // not the step of the averages
  g.Update(step, step + 1.0);
  g.Var("wide/w", Filled(1, {3, 4}, F32), {});
  const Value logits = MatMul(x, InDType(w, F64)) + InDType(b, F64);
  const Value loss = SparseSoftmaxCrossEntropy(logits, y);
  Momentum({.learning_rate = 0.5}).Minimize(loss);
  AverageWeights(g, {.decay = 0.7});
  g.Output("loss", loss);
  g.Output("accuracy", AccuracyMetric(g, "accuracy").Update(logits, y));
  g.Output("logits", logits);
  return g;
}

Feeds Fed(int64_t rows = 6) { return Examples(rows); }

Pipeline Data() {
  const Feeds all = Examples(11);
  return BatchesOf(all, {.batch_size = 6}).value();
}

void Train(Session& session, int steps = 3) {
  for (int i = 0; i < steps; ++i) ASSERT_TRUE(session.Run(Fed()).ok());
}

Tensors BitsOf(const Session& session) { return StateOf(session); }

void ExpectSameBits(const Tensors& got, const Tensors& want) {
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [name, tensor] : want) {
    ASSERT_EQ(got.at(name).type(), tensor.type());
    EXPECT_EQ(std::memcmp(got.at(name).raw(), tensor.raw(), static_cast<size_t>(tensor.bytes())), 0) << name;
  }
}

// Metrics of a session whose weights were set to their averages by hand.
Metrics ByHand(const std::string& mesh, DType dtype) {
  Session session = Session::Create(Averaged(mesh, dtype)).value();
  Train(session);
  for (const char* name : {"w", "deep/b"})
    EXPECT_TRUE(session.Set(name, session.Get(std::string("ema/") + name).value()).ok());
  return Evaluate(session, Data()).value();
}

TEST(AveragesAsWeightsTest, EvaluatesAsIfTheWeightsWereSet) {
  for (const char* mesh : {"", "batch=2", "model=2", "batch=3,model=2"}) {
    for (const DType dtype : {F64, F32, BF16}) {
      SCOPED_TRACE(fmt::format("\"{}\" {}", mesh, DTypeName(dtype)));
      Session session = Session::Create(Averaged(mesh, dtype)).value();
      Train(session);
      const Tensors before = BitsOf(session);
      const Metrics plain = Evaluate(session, Data()).value(),
                    averaged = Evaluate(session, Data(), {.averages = "ema"}).value();
      EXPECT_EQ(averaged, ByHand(mesh, dtype));
      EXPECT_NE(averaged.at("loss"), plain.at("loss"));
      ExpectSameBits(BitsOf(session), before);
      {
        const auto averages = AveragesAsWeights::Begin(session).value();
        const Tensors meanwhile = BitsOf(session);
        for (const auto& [name, tensor] : before) {
          std::string now = name;
          if (name == "w" || name == "deep/b") now = "ema/" + name;
          else if (name == "ema/w" || name == "ema/deep/b") now = name.substr(4);
          ExpectSameBits({{"x", meanwhile.at(now)}}, {{"x", tensor}});
        }
        EXPECT_TRUE(averages->End().ok());
        ExpectSameBits(BitsOf(session), before);
      }
      ExpectSameBits(BitsOf(session), before);
    }
  }
}

// The compiler shards the optimizer state and the average of this weight, so their layouts differ from the weight's.
Graph Cut() {
  Graph g(Mesh::VirtualCpus("batch=4").value());
  const Value x = g.Input("x", F64, {8, 16}, {"batch", UNSHARDED});
  const Variable w = g.Var("w", GlorotUniform({16, 64}, F64));
  const Value loss = ReduceMean(Square(MatMul(x, w)));
  Adam({.learning_rate = 0.1}).Minimize(loss);
  AverageWeights(g, {.decay = 0.5});
  g.Output("loss", loss);
  return g;
}

// The losses with the weights after three steps, with their averages, and with the weights again. No variable changes.
std::vector<double> LossesOfCut(Transport* transport) {
  SessionOptions options{.workers = 1, .own_cores = false};
  options.compile.shard_weight_update = true;
  options.executor.transport = transport;
  Session session = Session::Create(Cut(), options).value();
  EXPECT_NE(session.LayoutOf("w")->ToString(), session.LayoutOf("ema/w")->ToString());
  const Feeds feeds = {{"x", Rough(Type{F64, {8, 16}})}};
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(session.Run(feeds).ok());
  const auto loss = [&] { return session.Evaluate(feeds)->scalar("loss").value(); };
  const Tensors before = BitsOf(session);
  std::vector<double> losses = {loss()};
  {
    const auto averages = AveragesAsWeights::Begin(session).value();
    losses.push_back(loss());
  }
  losses.push_back(loss());
  ExpectSameBits(BitsOf(session), before);
  EXPECT_TRUE(session.Set("w", session.Get("ema/w").value()).ok());
  EXPECT_EQ(loss(), losses[1]);
  return losses;
}

TEST(AveragesAsWeightsTest, WeightsAndAveragesMayLieElsewhere) {
  const std::vector<double> want = LossesOfCut(nullptr);
  EXPECT_NE(want[0], want[1]);
  EXPECT_EQ(want[0], want[2]);
  InDomains(2, [&](Transport& end) {
    const std::vector<double> got = LossesOfCut(&end);
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-12);
  });
}

// In two domains, each of which holds half of each weight.
TEST(AveragesAsWeightsTest, EvaluatesAlikeInSeveralDomains) {
  const std::string mesh = "model=2,batch=2";
  const Metrics want = ByHand(mesh, F64);
  InDomains(2, [&](Transport& end) {
    SessionOptions options{.workers = 1, .own_cores = false, .gather_outputs = true};
    options.executor.transport = &end;
    Session session = Session::Create(Averaged(mesh), options).value();
    Train(session);
    const Tensors before = BitsOf(session);
    const absl::StatusOr<Metrics> got = Evaluate(session, Data(), {.averages = "ema"});
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_NEAR(got->at("loss"), want.at("loss"), 1e-12);
    ExpectSameBits(BitsOf(session), before);
  });
}

TEST(AveragesAsWeightsTest, TheWeightsAreBackAfterAnError) {
  Session session = Session::Create(Averaged("batch=2,model=2")).value();
  Train(session);
  const Tensors before = BitsOf(session);
  const FeedFunction fails = [calls = 0](const Example& batch) mutable -> absl::StatusOr<Feeds> {
    if (++calls > 1) return absl::InternalError("no more.");
    return Feeds{{"x", batch["x"]}, {"y", batch["y"]}};
  };
  EXPECT_FALSE(Evaluate(session, Data(), {.feeds = fails, .averages = "ema"}).ok());
  ExpectSameBits(BitsOf(session), before);
  EXPECT_FALSE(Evaluate(session, Data(), {.fed = {{"none", Tensor(1.0f)}}, .averages = "ema"}).ok());
  ExpectSameBits(BitsOf(session), before);
}

// Such validations do not change the training, and each validation uses the averages at the end of that epoch.
TEST(AveragesAsWeightsTest, ValidationsOfFit) {
  const auto fit = [](const std::string& averages, Session& session) {
    std::vector<double> by_hand;
    const CallbackPtr measure = [&] {
      struct Measure : Callback {
        Session& session;
        std::vector<double>& losses;
        Measure(Session& session, std::vector<double>& losses) : session(session), losses(losses) {}
        absl::Status OnEpochEnd(FitState&) override {
          Session other = Session::Create(Averaged("batch=2")).value();
          for (const char* name : {"w", "deep/b"})
            MESHWORK_RETURN_IF_ERROR(other.Set(name, *session.Get(std::string("ema/") + name)));
          losses.push_back(Evaluate(other, Data())->at("loss"));
          return absl::OkStatus();
        }
      };
      return std::make_shared<Measure>(session, by_hand);
    }();
    const History history =
        Fit(session, Data(),
            {.epochs = 3, .validation_data = Data(), .validation_averages = averages, .callbacks = {measure}})
            .value();
    return std::pair(history.Of("val_loss"), by_hand);
  };
  Session plain = Session::Create(Averaged("batch=2")).value(),
          averaged = Session::Create(Averaged("batch=2")).value();
  const auto without = fit("", plain), with = fit("ema", averaged);
  EXPECT_EQ(with.first, with.second);
  EXPECT_NE(without.first, with.first);
  ExpectSameBits(BitsOf(averaged), BitsOf(plain));
}

}  // namespace
}  // namespace meshwork::averages_as_weights_test

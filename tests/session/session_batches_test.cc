// Short leading batches: a session computes of fewer rows what a program for that many rows computes.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "runtime/plan/programs.h"
#include "train/classifier.h"

namespace meshwork::session_batches_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ShortBatchTest : public testing::TestWithParam<const char*> {};

TEST_P(ShortBatchTest, EqualsTheSameRowsOnOneDevice) {
  constexpr int64_t kFull = 9;
  Session session = Session::Create(Classifier(GetParam(), kFull)).value();
  for (int64_t rows = 1; rows <= kFull; ++rows) {
    SCOPED_TRACE(rows);
    // A program written for exactly this batch, from the same state.
    Session exact = Session::Create(Classifier("batch=1", rows)).value();
    for (const auto& [name, value] : StateOf(session)) ASSERT_EQ(MessageOf(exact.Set(name, value)), "");
    const StepResult evaluated = session.Evaluate(Examples(rows)).value();
    const StepResult ran = session.Run(Examples(rows)).value();
    const StepResult expected = exact.Run(Examples(rows)).value();
    EXPECT_EQ(ran.Get("logits")->shape(), (Shape{rows, 4}));
    ExpectNear(ran.outputs(), expected.outputs());
    ExpectNear(evaluated.outputs(), expected.outputs());
    ExpectNear(StateOf(session), StateOf(exact));
  }
}

TEST_P(ShortBatchTest, MeansAreOverTheRowsThatAreThere) {
  Session session = Session::Create(Classifier(GetParam(), 9)).value();
  const Feeds examples = Examples(9);
  double sum_of_losses = 0, hits = 0;
  for (int64_t rows = 1; rows <= 9; ++rows) {
    const StepResult one = session
                               .Evaluate({{"x", examples.at("x").Rows(rows - 1, rows)},
                                          {"y", examples.at("y").Rows(rows - 1, rows)}})
                               .value();
    sum_of_losses += one.scalar("loss").value();
    hits += one.scalar("accuracy").value();
    const StepResult all = session.Evaluate(Examples(rows)).value();
    EXPECT_NEAR(all.scalar("loss").value(), sum_of_losses / static_cast<double>(rows), 1e-12);
    EXPECT_NEAR(all.scalar("accuracy").value(), hits / static_cast<double>(rows), 1e-12);
  }
}

INSTANTIATE_TEST_SUITE_P(Meshes, ShortBatchTest,
                         testing::Values("batch=1", "batch=2", "batch=4", "batch=9", "batch=16", "model=3",
                                         "batch=2,model=2", "model=2,batch=3"));

TEST(SessionTest, InputsWithoutTheBatchStayWholeInAShortBatch) {
  Graph g(Mesh::VirtualCpus("batch=2").value());
  Value x = g.Input("x", F32, {4, 2}, {"batch", UNSHARDED});
  Value scale = g.Input("scale", F32, {}, {});
  Value mask = g.Input("mask", F32, {2}, {UNSHARDED});
  g.Output("y", x * mask * scale);
  Session session = Session::Create(g).value();
  const Feeds feeds = {{"x", Tensor::From<float>({3, 2}, {1, 2, 3, 4, 5, 6})},
                       {"scale", Tensor::From<float>({}, {10})},
                       {"mask", Tensor::From<float>({2}, {1, 2})}};
  EXPECT_THAT(session.Run(feeds)->Get("y")->values<float>(), ElementsAre(10, 40, 30, 80, 50, 120));
}

// The budget for gathers holds for every program that a session compiles.
TEST(SessionTest, EvaluateAndShortBatchesGatherWithinTheSameBudget) {
  Graph g(Mesh::VirtualCpus("x=2").value());
  const Value x = g.Input("x", F32, {360000}, {"x"});
  g.Output("y", ReduceSum(Sort(x, 0).values, {0}));
  EXPECT_FALSE(Session::Create(g).ok());
  Session session = Session::Create(g, {.compile = {.replication_budget = 1 << 21}}).value();
  EXPECT_TRUE(session.Evaluate({{"x", Tensor({F32, {360000}})}}).ok());
  EXPECT_TRUE(session.Run({{"x", Tensor({F32, {350000}})}}).ok());
}

// Sizes that equal the batch by accident: a program written for 6 rows and fed 4 gives what one written for 4 gives,
// or is refused. The 6 rows that the program makes itself stay 6 rows.
TEST(SessionTest, WhatIsNoBatchDoesNotShrinkWithIt) {
  constexpr int64_t kRows = 6;
  using Build = std::function<Value(Graph & g, const Value& x)>;
  struct Case {
    std::string_view name;
    Build build;
    bool is_refused = false;
  };
  auto constant = [](Graph& g, int64_t rows) { return Constant(g, 2, {F64, {rows, 3}}); };
  std::vector<Case> cases;
  for (int64_t rows : {1, 3, 4, 5, 7, 12, 18}) {
    cases.push_back({"constant rows", [=](Graph& g, const Value& x) {
                       return Concat({x, constant(g, rows)}, 0);
                     }});
    cases.push_back({"in front", [=](Graph& g, const Value& x) {
                       return Concat({Iota(g, {F64, {rows, 3}}, 0), x, constant(g, 1)}, 0);
                     }});
    cases.push_back({"random rows", [=](Graph& g, const Value& x) {
                       return Concat({Tanh(x), RandomNormal(g, {F64, {rows, 3}}, 1, 2, 0, 1)}, 0);
                     }});
    cases.push_back({"what meets the joined rows follows from them", [=](Graph& g, const Value& x) {
                       const Value joined = Concat({x, constant(g, rows)}, 0);
                       return joined * Iota(g, {F64, joined.shape()}, 0);
                     }});
  }
  cases.push_back({"6 rows of ones",
                   [=](Graph& g, const Value& x) {
                     return Concat({x, constant(g, kRows)}, 0);
                   },
                   true});
  cases.push_back({"6 random rows",
                   [=](Graph& g, const Value& x) {
                     return Concat({x, RandomNormal(g, {F64, {kRows, 3}}, 1, 2, 0, 1)}, 0);
                   },
                   true});
  cases.push_back({"6 rows of an iota",
                   [=](Graph& g, const Value& x) {
                     return Concat({Iota(g, {F64, {kRows, 3}}, 0), x}, 0);
                   },
                   true});
  cases.push_back({"an eye",
                   [=](Graph& g, const Value& x) {
                     return Concat({SliceDim(Eye(g, {F64, {kRows, kRows}}), 1, 0, 3), x}, 0);
                   },
                   true});
  cases.push_back(
      {"a variable", [=](Graph& g, const Value& x) {
         return Concat({x, g.Var("v", NormalRandom({kRows, 3}, 0, 1, F64), {UNSHARDED, UNSHARDED})}, 0);
       }});
  cases.push_back({"the batch twice", [=](Graph&, const Value& x) { return Concat({x, Tanh(x)}, 0); }});
  cases.push_back({"an iota of the batch", [=](Graph& g, const Value& x) {
                     return x * Iota(g, {F64, {x.shape()[0], 1}}, 0);
                   }});
  cases.push_back(
      {"an iota of the batch, backwards", [=](Graph& g, const Value& x) {
         return Concat({x * Reverse(Iota(g, {F64, {x.shape()[0], 1}}, 0), {0}), constant(g, 5)}, 0);
       }});
  cases.push_back({"padded", [=](Graph& g, const Value& x) {
                     const Value padded = Pad(x, {2, 0}, {1, 0});
                     return padded + Constant(g, 1, {F64, {padded.shape()[0], 1}});
                   }});
  for (const Case& c : cases) {
    for (const char* mesh : {"batch=1", "batch=4"}) {
      SCOPED_TRACE(c.name);
      auto run = [&](int64_t rows) {
        Graph g(Mesh::VirtualCpus(mesh).value());
        const Value x = g.Input("x", F64, {rows, 3}, {"batch", UNSHARDED});
        g.Output("y", c.build(g, x));
        absl::StatusOr<Session> session = Session::Create(g);
        return session.ok() ? session->Run({{"x", Rough(Type{F64, {12, 3}}).Rows(0, 4)}}) : session.status();
      };
      const absl::StatusOr<StepResult> got = run(kRows);
      if (c.is_refused) {
        EXPECT_THAT(MessageOf(got.status()), HasSubstr("cannot be told"));
        continue;
      }
      const StepResult want = run(4).value();
      ASSERT_TRUE(got.ok()) << got.status();
      ExpectNear(got->Get("y").value(), want.Get("y").value());
    }
  }
}

// The images have as many rows as the batch, and are upsampled. The batch dim is found by data flow, not by its size.
TEST(SessionBatchesTest, UpsampledImagesOfTheBatchsSizeTakeAnyBatch) {
  for (const auto& [mesh, batch] : {std::pair("batch=1", 8), {"batch=2", 8}, {"batch=2", 4}}) {
    SCOPED_TRACE(fmt::format("{} of {}", mesh, batch));
    Graph g(Mesh::VirtualCpus(mesh).value());
    const Value x = g.Input("x", F64, {batch, 4, 4, 2}, {"batch", UNSHARDED, UNSHARDED, UNSHARDED});
    g.Output("y", Relu(Upsample(x, {2, 2})));
    Session session = Session::Create(g).value();
    for (int64_t rows : {3, 8, 11}) {
      const Tensor images = Rough(Type{F64, {rows, 4, 4, 2}});
      const Tensor y = session.Predict({{"x", images}}, {"y"})->Get("y").value();
      ASSERT_EQ(y.shape(), (Shape{rows, 8, 8, 2}));
      for (int64_t n = 0; n < rows; ++n)
        for (int64_t i = 0; i < 8; ++i)
          for (int64_t j = 0; j < 8; ++j)
            for (int64_t c = 0; c < 2; ++c)
              EXPECT_EQ(y.At({n, i, j, c}).value(), std::max(images.At({n, i / 2, j / 2, c}).value(), 0.0));
    }
  }
}

// In layers and functions each size in turn equals the batch: a short batch trains as in a program written for it.
TEST(SessionBatchesTest, SizesInsideOfLayersAreNoBatch) {
  constexpr int64_t kRows = 12;  // the batch, and the size
  struct Case {
    std::string_view name;
    Shape example;  // without the batch
    std::function<Value(Graph& g, const Value& x)> build;
  };
  const auto attention = [](int64_t heads, bool rotary = false) {
    return [=](Graph& g, const Value& x) {
      return MultiHeadAttention(g, "a", heads,
                                {.rotary = rotary ? std::optional(RotaryOptions()) : std::nullopt})(x);
    };
  };
  const auto resize = [](std::vector<int64_t> sizes, ResizeForm form) {
    return [=](Graph& g, const Value& x) { return Resize(Conv2D(g, "c", 2, {3, 3})(x), sizes, form); };
  };
  const auto transform = [](int64_t units) {
    return [=](Graph& g, const Value& x) {
      const Value h = Dense(g, "d", units)(x);
      return Fft(h, h * 0.5, -1).re;
    };
  };
  const auto experts = [](int64_t experts, int64_t capacity, int64_t choices = 1) {
    return [=](Graph& g, const Value& x) {
      const Routing r = RouteToExperts(Softmax(Dense(g, "gate", experts)(x), -1),
                                       {.choices = choices, .capacity = capacity});
      const Value by_expert = Einsum("gsec,gsm->egcm", {r.dispatch, x});
      return Einsum("egcm,gsec->gsm", {Dense(g, "expert", x.shape()[2])(by_expert), r.combine}) * r.balance;
    };
  };
  const auto norm = [](int64_t channels, int64_t groups) {
    return [=](Graph& g, const Value& x) {
      return GroupNormalization(g, "n", groups)(Dense(g, "d", channels)(x));
    };
  };
  // For each row, how many numbers are positive, up to 11.
  static const auto positives = [](const Value& x) {
    Value n = Cast(x > 0.0, I32);
    while (n.rank() > 1) n = ReduceSum(n, -1);
    return Minimum(n, 11.0);
  };
  const Case cases[] = {
      {"heads of 12", {4, 24}, attention(2)},
      {"12 heads", {4, 24}, attention(12)},
      {"12 positions", {12, 8}, attention(2)},
      {"12 units", {4, 12}, attention(3)},
      {"12 angles", {4, 48}, attention(2, /*rotary=*/true)},
      {"12 positions turned", {12, 8}, attention(2, /*rotary=*/true)},
      {"resized to 12", {7, 7, 1}, resize({12, 9}, ResizeForm::kBilinear)},
      {"resized to 12, nearest", {7, 7, 1}, resize({9, 12}, ResizeForm::kNearest)},
      {"resized to 12 both ways", {7, 7, 1}, resize({12, 12}, ResizeForm::kBilinear)},
      {"resized from 12", {14, 14, 1}, resize({7, 9}, ResizeForm::kBilinear)},
      {"upsampled to 12",
       {8, 8, 1},
       [](Graph& g, const Value& x) {
         return Upsample(Conv2D(g, "c", 2, {3, 3})(x), {2, 2});
       }},
      {"fft of 12", {4}, transform(12)},
      {"fft of 96", {4}, transform(96)},
      {"fft of 144", {4}, transform(144)},
      {"capacity 12", {5, 8}, experts(3, 12)},
      {"capacity 12, two choices", {5, 8}, experts(3, 12, 2)},
      {"12 experts", {5, 8}, experts(12, 3)},
      {"12 tokens", {12, 8}, experts(3, 4)},
      {"12 groups", {4, 3}, norm(24, 12)},
      {"groups of 12", {4, 3}, norm(24, 2)},
      {"gru of 12", {5, 3}, [](Graph& g, const Value& x) { return Gru(g, "gru", 12)(x).sequence; }},
      {"gru over 12", {12, 3}, [](Graph& g, const Value& x) { return Gru(g, "gru", 5)(x).state; }},
      {"lstm of 12, both ways",
       {5, 3},
       [](Graph& g, const Value& x) { return Bidirectional<Lstm>(g, "lstm", 12)(x).sequence; }},
      {"gru over 12, by lengths",
       {12, 3},
       [](Graph& g, const Value& x) { return Gru(g, "gru", 5)(x, {}, {.lengths = positives(x)}).sequence; }},
      {"12 steps reversed",
       {12, 3},
       [](Graph& g, const Value& x) { return Dense(g, "d", 2)(ReverseSequence(x, positives(x))); }},
      {"weights of 12 classes",
       {12},
       [](Graph& g, const Value& x) {
         const Value labels = positives(x);
         return SparseSoftmaxCrossEntropy(
             Dense(g, "d", 12)(x), labels,
             {.reduction = Reduction::kNone, .weights = ClassWeights(labels, {{4, 2.0}, {11, 3.0}})});
       }},
      {"dropout of 12 whole columns",
       {5},
       [](Graph& g, const Value& x) { return StatelessDropout(Dense(g, "d", 12)(x), 0.5, 3, 1, {}, 0); }},
      {"dropout of whole rows of 12",
       {5},
       [](Graph& g, const Value& x) { return StatelessDropout(Dense(g, "d", 12)(x), 0.5, 3, 1, {}, 1); }},
      {"12 hidden", {4, 3}, [](Graph& g, const Value& x) { return FeedForward(g, "f", 12)(x); }},
      {"12 windows",
       {25, 1},
       [](Graph& g, const Value& x) {
         return Conv1D(g, "c", 12, {3}, {.window = {.strides = {2}, .padding = WindowPadding::Valid()}})(x);
       }},
  };
  for (const Case& c : cases) {
    for (const char* mesh : {"batch=1", "batch=2"}) {
      SCOPED_TRACE(fmt::format("{} on {}", c.name, mesh));
      const auto made_for = [&](int64_t rows) {
        Graph g(Mesh::VirtualCpus(mesh).value());
        g.SetLayouts({.batch = {"batch"}});
        g.SetPrecision({.compute = F64, .variables = F64});
        Shape shape = c.example;
        shape.insert(shape.begin(), rows);
        const Value y = c.build(g, g.Input("x", F64, shape));
        const Value loss = ReduceMean(Square(y));
        Sgd({.learning_rate = 0.1}).Minimize(loss);
        g.Output("loss", loss);
        return Session::Create(g);
      };
      Session session = made_for(kRows).value();
      Shape shape = c.example;
      shape.insert(shape.begin(), kRows);
      const Tensor x = Rough(Type{F64, shape});
      for (int64_t rows : {kRows, int64_t{5}, int64_t{1}}) {
        Session exact = made_for(rows).value();
        for (const auto& [name, value] : StateOf(session)) ASSERT_EQ(MessageOf(exact.Set(name, value)), "");
        const absl::StatusOr<StepResult> ran = session.Run({{"x", x.Rows(0, rows)}});
        ASSERT_TRUE(ran.ok()) << rows << " rows: " << ran.status();
        ExpectNear(ran->outputs(), exact.Run({{"x", x.Rows(0, rows)}})->outputs());
        ExpectNear(StateOf(session), StateOf(exact));
      }
    }
  }
}

}  // namespace
}  // namespace meshwork::session_batches_test

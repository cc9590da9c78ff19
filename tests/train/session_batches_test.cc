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
#include "runtime/programs.h"
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

// Sizes that are the batch's by accident: a program written for 6 rows, fed 4, is the one written for 4 rows,
// or is refused. What it makes of 6 rows itself stays 6 rows.
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

// The images have as many rows as the batch, and are made larger: by the data, not by its size, one dim is the batch.
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

}  // namespace
}  // namespace meshwork::session_batches_test

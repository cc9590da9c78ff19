// The variables of a session: initial values, Get, Set, and the layouts that all its programs share.
#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "runtime/plan/programs.h"
#include "train/classifier.h"

namespace meshwork::session_variables_test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

TEST(SessionTest, VariablesComeBackAsTheyWereSetFromAnyLayout) {
  for (const char* mesh : {"batch=1", "model=3", "batch=2,model=2", "model=8"}) {
    SCOPED_TRACE(mesh);
    Session session = Session::Create(Classifier(mesh, 6)).value();
    EXPECT_THAT(session.variable_names(), ElementsAre("w", "b"));
    const Tensor w = Rough(Type{F64, {3, 4}});
    ASSERT_EQ(MessageOf(session.Set("w", w)), "");
    EXPECT_TRUE(BitwiseEqual(session.Get("w").value(), w));
    EXPECT_THAT(session.Get("b")->values<double>(), ElementsAre(0, 0, 0, 0));
  }
}

TEST(SessionTest, ATensorFromGetDoesNotChangeWithTheVariable) {
  Session session = Session::Create(Classifier("batch=2", 6)).value();
  const Tensor first = session.Get("w").value();
  const std::vector<double> values(first.values<double>().begin(), first.values<double>().end());
  ASSERT_TRUE(session.Run(Examples(6)).ok());
  EXPECT_THAT(first.values<double>(), testing::ElementsAreArray(values));
  EXPECT_FALSE(BitwiseEqual(session.Get("w").value(), first));
}

TEST(SessionTest, RefusesToSetWhatDoesNotFit) {
  Session session = Session::Create(Classifier("batch=2", 6)).value();
  const Tensors before = StateOf(session);
  EXPECT_EQ(MessageOf(session.Set("w", Tensor::Zeros({F64, {4, 3}}))),
            "variable \"w\": Pack: a f64[4,3] cannot fill a f64[3,4] {_,_}; dtype and shape must agree, and "
            "Tensor::Transposed swaps the dims.");
  EXPECT_EQ(MessageOf(session.Set("w", Tensor::Zeros({F32, {3, 4}}))),
            "variable \"w\": Pack: a f32[3,4] cannot fill a f64[3,4] {_,_}; dtype and shape must agree, and "
            "Tensor::Cast makes f64 of it.");
  EXPECT_EQ(MessageOf(session.Set("w", Tensor())),
            "variable \"w\": Pack: Tensor: it has no elements yet; a default-constructed Tensor is empty, "
            "make one by Tensor::From or Tensor::Zeros.");
  EXPECT_EQ(MessageOf(session.Set("v", Tensor::Zeros({F64, {3, 4}}))),
            "Session: there is no variable \"v\"; the variables are b, w.");
  EXPECT_EQ(session.Set("v", Tensor()).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(MessageOf(session.Get("weights").status()),
            "Session: there is no variable \"weights\"; the variables are b, w.");
  ExpectBitwiseEqual(StateOf(session), before);
}

TEST(SessionTest, InitialValuesHangOnSeedAndNameAlone) {
  auto initial = [](int64_t seed, bool with_another) {
    Graph g(Mesh::VirtualCpus("model=2").value());
    if (with_another) g.Var("another", GlorotUniform({3, 4}), {UNSHARDED, UNSHARDED});
    g.Var("w", GlorotUniform({3, 4}), {UNSHARDED, "model"});
    g.Var("u", GlorotUniform({3, 4}), {UNSHARDED, "model"});
    return StateOf(Session::Create(g, {.seed = seed}).value());
  };
  const Tensors state = initial(1, false);
  EXPECT_TRUE(BitwiseEqual(state.at("w"), initial(1, true).at("w")));
  EXPECT_FALSE(BitwiseEqual(state.at("w"), initial(2, false).at("w")));
  EXPECT_FALSE(BitwiseEqual(state.at("w"), state.at("u")));
}

TEST(SessionTest, VariablesWithOpenDimsLieWhereTheStepPutsThem) {
  Graph g(Mesh::VirtualCpus("x=2").value());
  Value a = g.Input("a", F32, {4, 4}, {UNSHARDED, "x"});
  Variable w = g.Var("w", Filled(2, {4}), {OPEN});
  Value sum = WithLayout(a + w, {OPEN, "x"});
  g.Update(w, w + ReduceSum(sum, {0}));
  Session session = Session::Create(g).value();
  const Graph& body = session.program().body;
  EXPECT_EQ(body.value(body.arguments()[1].value).layout->ToString(), "{x}");
  ASSERT_TRUE(session.Run({{"a", Tensor::From<float>({4, 4}, std::vector<float>(16, 1))}}).ok());
  EXPECT_THAT(session.Get("w")->values<float>(), Each(2 + 4 * 3));
}

TEST(SessionTest, AVariableWithoutAPinLiesAlikeInAllPrograms) {
  const Graph g = ParseGraph(R"(
mesh [x=2]
func f(%a: f32[4] {x}, var %w: f32[4]) {
  %0 = add %w, %a
  update %w = %0
  return y=%a, w=%w
})")
                      .value();
  Session session = Session::Create(g).value();
  const Tensor a = Tensor::From<float>({4}, {1, 2, 3, 4});
  ASSERT_TRUE(session.Run({{"a", a}}).ok());
  const absl::StatusOr<StepResult> result = session.Evaluate({{"a", a}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->Get("w")->values<float>(), testing::ElementsAre(1, 2, 3, 4));
}

}  // namespace
}  // namespace meshwork::session_variables_test

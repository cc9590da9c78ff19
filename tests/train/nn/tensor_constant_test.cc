#include "meshwork/train/nn/tensor_constant.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/ops/ops.h"
#include "meshwork/session/session.h"

namespace meshwork::tensor_constant_test {
namespace {

TEST(TensorConstantTest, IsTheTensorOnEveryMesh) {
  for (const char* mesh : {"batch=1", "batch=2", "batch=4"}) {
    Graph g(Mesh::VirtualCpus(mesh).value());
    const Value x = g.Input("x", F32, {5, 2}, {"batch", UNSHARDED});
    g.Output("sum", x + Constant(g, Tensor::From<float>({5, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9})));
    g.Output("mask", Constant(g, Tensor::From<bool>({2}, {true, false})));
    Session session = Session::Create(g, {.workers = 1}).value();
    for (int64_t rows : {5, 3}) {
      const StepResult step = session.Run({{"x", Tensor::Full({F32, {rows, 2}}, 10)}}).value();
      for (int64_t i = 0; i < rows; ++i)
        EXPECT_EQ(step.Get("sum")->At({i, 1}).value(), 11 + 2 * i) << mesh << ": " << rows << " rows";
      EXPECT_TRUE(step.Get("mask")->At<bool>({0}).value());
      EXPECT_FALSE(step.Get("mask")->At<bool>({1}).value());
    }
  }
}

TEST(TensorConstantTest, SaysWhyATensorIsInvalid) {
  Graph g{Mesh()};
  EXPECT_FALSE(Constant(g, Tensor::From<float>({3}, {1, 2})).valid());
  EXPECT_THAT(std::string(g.status().message()), testing::StartsWith("constant (tensor_constant_test.cc:"));
}

}  // namespace
}  // namespace meshwork::tensor_constant_test

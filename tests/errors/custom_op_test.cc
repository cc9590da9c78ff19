// Rows from outside the library: what is refused, and the mistakes that are found in them.
#include <functional>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "errors/errors.h"
#include "gtest/gtest.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/control/control_flow.h"
#include "meshwork/ops/ops.h"
#include "meshwork/session/session.h"
#include "meshwork/tools/check/check_op.h"
#include "support/swiglu.h"

namespace meshwork::custom_op_test {
namespace {

// A row that is right except for `change`.
OpRow Changed(const std::function<void(OpRow& row)>& change) {
  OpRow row = SwigluRow();
  change(row);
  return row;
}

#define ROW_MISTAKE(...)            \
  ::meshwork::Mistake(#__VA_ARGS__, \
                      [&]() -> Refusal { return RegisterOp(Changed([](OpRow& row) { __VA_ARGS__; })); })
#define OP_MISTAKE(...)             \
  ::meshwork::Mistake(#__VA_ARGS__, \
                      [&]() -> Refusal { return CheckOp(Changed([](OpRow& row) { __VA_ARGS__; })); })

TEST(CustomOpErrors, WhatRegisterOpRefuses) {
  ASSERT_TRUE(RegisterOp(SwigluRow("taken_by_a_test")).ok());
  ExpectErrors("custom_op_register",
               {
                   ROW_MISTAKE(row.name = ""),
                   ROW_MISTAKE(row.name = "swi-glu"),
                   ROW_MISTAKE(row.name = "2swiglu"),
                   ROW_MISTAKE(row.name = "swi glu"),
                   ROW_MISTAKE(row.name = "swi\nglu"),
                   ROW_MISTAKE(row.name = "matmul"),
                   ROW_MISTAKE(row.name = "taken_by_a_test"),
                   MISTAKE(RegisterOp({.name = "nothing"})),
                   ROW_MISTAKE(row.doc = "", row.rule = nullptr),
                   ROW_MISTAKE(row.infer = nullptr),
                   ROW_MISTAKE(row.cpu = nullptr),
                   ROW_MISTAKE(row.samples = {}),
                   ROW_MISTAKE(row.kind = OpKind::kCollective),
                   ROW_MISTAKE(row.kind = OpKind::kControl),
                   ROW_MISTAKE(row.num_regions = 1),
                   ROW_MISTAKE(row.num_operands = -2),
                   ROW_MISTAKE(row.num_operands = 65),
                   ROW_MISTAKE(row.num_operands = -1, row.optional_operands = 1),
                   ROW_MISTAKE(row.optional_operands = -1),
                   ROW_MISTAKE(row.num_results = 0),
                   ROW_MISTAKE(row.num_results = -1),
                   ROW_MISTAKE(row.in_place = {2}),
                   ROW_MISTAKE(row.in_place = {0, 1}),
                   ROW_MISTAKE(row.is_view = true),
                   ROW_MISTAKE(row.sample_low = 1),
                   ROW_MISTAKE(row.sample_int_high = 0),
                   ROW_MISTAKE(row.attrs = {{"two words", AttrKind::kInt}}),
                   ROW_MISTAKE(row.attrs = {{"n", AttrKind::kInt}, {"n", AttrKind::kFloat}}),
                   ROW_MISTAKE(row.attrs = {{"n", AttrKind::kInt, true}}),
                   ROW_MISTAKE(row.samples = {"f32[4,6], f32[4,6"}),
                   ROW_MISTAKE(row.samples = {"f32[4], f32[4]; scale=2"}),
                   ROW_MISTAKE(row.samples = {"f32[4]"}),
                   ROW_MISTAKE(row.samples = {"f32[4], f32[4]", "f32[4], f32[6]"}),
                   ROW_MISTAKE(row.num_results = 2),
                   ROW_MISTAKE(row.rule = [](const OpView&) { return Rule(); }),
               });
}

// A row without a gradient is not one with a gradient of zero: that row has ZeroGradient.
TEST(CustomOpErrors, GradientsThroughARowWithoutOne) {
  OpRow row = SwigluRow("swiglu_without_gradient");
  row.grad = nullptr;
  ASSERT_TRUE(RegisterOp(row).ok());
  const auto op = [](const Value& x) {
    return x.graph()->Add("swiglu_without_gradient", {{x, x}}, {}, CallSite::Current())[0];
  };
  const auto in_loop = [&](Graph& g, const Value& x) {
    const auto body = [&](Graph&, const auto& c, const auto&) { return ScanStep{.carries = {op(c[0])}}; };
    return Scan(g, {x}, {}, body, {.length = 3}).carries[0];
  };
  const auto gradient = [](Graph& g, auto&& of) {
    const Value x = g.Input("x", F32, {4}, {UNSHARDED});
    Gradients(ReduceSum(of(g, x), {0}), {x});
  };
  const auto alone = [&](Graph&, const Value& x) { return op(x); };
  ExpectErrors("custom_op_gradient",
               {GRAPH_MISTAKE(gradient(g, alone)), GRAPH_MISTAKE(gradient(g, in_loop))});
}

TEST(CustomOpErrors, WhatCheckOpFinds) {
  ExpectErrors(
      "custom_op_check",
      {
          OP_MISTAKE(row.doc = ""),
          OP_MISTAKE(row.cpu = [](const KernelSpec&) { return Kernel(); }),
          OP_MISTAKE(
              row.cpu = [](const KernelSpec&) { return Kernel{.run = RunSwiglu<float>, .units = 30}; }),
          OP_MISTAKE(
              row.cpu = [](const KernelSpec&) { return Kernel{.run = RunSwiglu<float>, .units = 23}; }),
          OP_MISTAKE(row = GetOp("neg"), row.name = "my_neg", row.is_view = true),
          // The rule lets a sum of the first operand stay pending, which is wrong.
          OP_MISTAKE(
              row.samples = {"f32[4], f32[4]"},
              row.rule = [](const OpView& view) { return ElementwiseRule(view, Linear(Which::kOne)); }),
          // Nor may rows of one operand meet other rows of the other operand.
          OP_MISTAKE(
              row.samples = {"f32[6], f32[6]"},
              row.rule = [](const OpView& view) { return MakeRule("m,n->m", view.operands, view.results); }),
          OP_MISTAKE(
              row.samples = {"f64[2], f64[2]"},
              row.grad =
                  [](const GradView& view) {
                    return std::vector<Value>{view.result_grads[0], view.result_grads[0]};
                  }),
          OP_MISTAKE(
              row.samples = {"f64[12], f64[12]"},
              row.grad =
                  [](const GradView& view) {
                    return std::vector<Value>{view.result_grads[0], view.result_grads[0]};
                  }),
          OP_MISTAKE(row.grad = [](const GradView& view) { return std::vector<Value>{view.operands[0]}; }),
      });
}

// Exceptions that kernels and their libraries throw when memory is out.
TEST(CustomOpErrors, KernelsThatThrow) {
  auto run = [](std::string_view name, KernelFactory cpu) -> absl::Status {
    OpRow row = SwigluRow(name);
    row.cpu = cpu;
    EXPECT_TRUE(RegisterOp(row).ok());
    Graph g{Mesh()};
    const Value x = g.Input("x", F32, {4}, {UNSHARDED});
    g.Output("y", g.Add(name, {{x, x}}, {}, {})[0]);
    absl::StatusOr<Session> session = Session::Create(g, {.workers = 2});
    MESHWORK_RETURN_IF_ERROR(session.status());
    return session->Run({{"x", Tensor::Zeros({F32, {4}})}}).status();
  };
  ExpectErrors(
      "kernels",
      {
          MISTAKE(run("hungry",
                      [](const KernelSpec&) {
                        return Kernel{.run = [](const KernelArgs&) { throw std::bad_alloc(); }, .units = 4};
                      })),
          MISTAKE(run("broken",
                      [](const KernelSpec&) {
                        return Kernel{
                            .run = [](const KernelArgs&) { throw std::runtime_error("no such code"); },
                            .units = 4};
                      })),
          MISTAKE(run("odd",
                      [](const KernelSpec&) {
                        return Kernel{.run = [](const KernelArgs&) { throw 1; }, .units = 4};
                      })),
          MISTAKE(
              run("broken_before", [](const KernelSpec&) -> Kernel { throw std::runtime_error("no code"); })),
          MISTAKE(run("hungry_before", [](const KernelSpec&) -> Kernel { throw std::bad_alloc(); })),
      });
}

// The predicate stays true.
TEST(CustomOpErrors, KernelsThatThrowInALoopEndIt) {
  OpRow row = SwigluRow("hungry_loop");
  row.cpu = [](const KernelSpec&) {
    return Kernel{.run = [](const KernelArgs&) { throw std::bad_alloc(); }, .units = 4};
  };
  ASSERT_TRUE(RegisterOp(row).ok());
  Graph g{Mesh()};
  const Value x = g.Input("x", F32, {4}, {UNSHARDED});
  using Values = std::vector<Value>;
  g.Output("y", While(
                    g, {x}, [&](Graph&, const Values&) { return Less(ReduceSum(x, {0}), 1.0); },
                    [](Graph& body, const Values& c) -> Values {
                      return {body.Add("hungry_loop", {{c[0], c[0]}}, {}, {})[0]};
                    })[0]);
  for (int workers : {1, 2}) {
    absl::StatusOr<Session> session = Session::Create(g, {.workers = workers});
    ASSERT_TRUE(session.ok()) << session.status();
    EXPECT_EQ(session->Run({{"x", Tensor::Zeros({F32, {4}})}}).status().code(),
              absl::StatusCode::kResourceExhausted);
  }
}

}  // namespace
}  // namespace meshwork::custom_op_test

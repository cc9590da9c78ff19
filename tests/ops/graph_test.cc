#include "ops/graph.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/gradients.h"
#include "ops/ops.h"
#include "ops/row.h"

namespace meshwork {
namespace {

Mesh TestMesh() { return Mesh::Parse("batch=2,model=4").value(); }

// An unsharded input with a name of its own.
Value In(Graph& g, DType dtype, const Shape& shape) {
  return g.Input("x" + std::to_string(g.values().size()), dtype, shape, LayoutSpec(shape.size(), UNSHARDED));
}
Initializer Zeros(Type type) {
  return {type, [](Graph& g, const Type& t, int64_t, int64_t) { return Constant(g, 0, t); }};
}
Variable NewVar(Graph& g, std::string_view name, const Type& type) {
  return g.Var(name, Zeros(type), LayoutSpec(type.shape.size(), UNSHARDED));
}
std::string StatusOf(const Graph& g) { return std::string(MessageOf(g.status())); }

// A mistake and its message, where @ stands for the place. `build` is one line and returns it.
struct Mistake {
  std::function<int(Graph&)> build;
  const char* message;
};

void ExpectMessages(const std::vector<Mistake>& mistakes) {
  for (const Mistake& mistake : mistakes) {
    Graph g(TestMesh());
    const int line = mistake.build(g);
    std::string expected = mistake.message;
    if (const size_t at = expected.find('@'); at != std::string::npos)
      expected.replace(at, 1, "graph_test.cc:" + std::to_string(line));
    EXPECT_EQ(StatusOf(g), expected);
    EXPECT_EQ(g.status().code(), absl::StatusCode::kInvalidArgument);
  }
}

// A mistake and its __LINE__ share a line.
// clang-format off

// ---- Declarations.

TEST(GraphTest, KeepsWhatIsDeclared) {
  Graph g(TestMesh());
  const Value x = g.Input("x", F32, {8, 6}, {"batch", UNSHARDED});
  const int line = __LINE__ - 1;
  const Variable w = NewVar(g, "dense/w.0", {F64, {6}});
  const Value y = Relu(x);
  g.Output("y", y);
  g.Update(w, Mul(w, 0.5));
  ASSERT_TRUE(g.status().ok()) << g.status();

  EXPECT_EQ(x.type(), (Type{F32, {8, 6}}));
  EXPECT_EQ(g.value(x.id()).layout->ToString(), "{batch,_}");
  EXPECT_EQ(g.value(x.id()).global, x.type());
  EXPECT_EQ(g.value(x.id()).location.ToString(), "graph_test.cc:" + std::to_string(line));
  ASSERT_EQ(g.arguments().size(), 2u);
  EXPECT_FALSE(g.arguments()[0].is_variable);
  EXPECT_TRUE(g.arguments()[1].is_variable);
  EXPECT_EQ(g.argument_name(1), "dense/w.0");
  EXPECT_EQ(g.FindArgument("dense/w.0"), 1);
  EXPECT_EQ(g.FindArgument("w"), -1);
  ASSERT_EQ(g.variables().size(), 1u);
  EXPECT_EQ(g.variables()[0].id(), w.id());
  ASSERT_EQ(g.outputs().size(), 1u);
  EXPECT_EQ(g.outputs()[0].value, y.id());
  ASSERT_EQ(g.updates().size(), 1u);
  EXPECT_EQ(g.updates()[0].argument, 1);
  EXPECT_FALSE(g.value(y.id()).layout.has_value());  // no pin
  EXPECT_EQ(g.value(y.id()).node, 0);
}

TEST(GraphTest, RejectsBadInputsAndVariables) {
  ExpectMessages({
      {[](Graph& g) { g.Input("", F32, {}, {}); return __LINE__; },
       "Input \"\" (@): a name is a letter followed by letters, digits and any of _ . / -"},
      {[](Graph& g) { g.Input("2x", F32, {}, {}); return __LINE__; },
       "Input \"2x\" (@): a name is a letter followed by letters, digits and any of _ . / -"},
      {[](Graph& g) { g.Input("a b", F32, {}, {}); return __LINE__; },
       "Input \"a b\" (@): a name is a letter followed by letters, digits and any of _ . / -"},
      {[](Graph& g) { NewVar(g, "w", {}), g.Input("w", F32, {}, {}); return __LINE__; },
       "Input \"w\" (@): the name is already taken; names of inputs and variables must be unique."},
      {[](Graph& g) { g.Input("w", F32, {}, {}), g.Var("w", Zeros({}), {}); return __LINE__; },
       "Var \"w\" (@): the name is already taken; names of inputs and variables must be unique."},
      {[](Graph& g) { g.Input("x", F32, {4, -1}, {UNSHARDED, UNSHARDED}); return __LINE__; },
       "Input \"x\" (@): f32[4,-1] has a negative size."},
      {[](Graph& g) { g.Input("x", F32, {1 << 20, (1 << 20) + 1}, {UNSHARDED, UNSHARDED}); return __LINE__; },
       "Input \"x\" (@): f32[1048576,1048577] has more than 2^40 elements."},
      {[](Graph& g) { g.Var("w", Zeros({BOOL, Shape(27, 1)}), LayoutSpec(27, UNSHARDED)); return __LINE__; },
       "Var \"w\" (@): bool[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1] has 27 dims; at most 26 "
       "are "
       "allowed."},
      {[](Graph& g) { g.Input("x", F32, {4, 6}, {"batch", "modle"}); return __LINE__; },
       "Input \"x\" (@): Layout {batch,modle}: mesh [batch=2, model=4] has no axis \"modle\"; did you mean "
       "\"model\"?"},
      {[](Graph& g) { g.Input("x", F32, {4, 6}, {"batch", "batch"}); return __LINE__; },
       "Input \"x\" (@): Layout {batch,batch}: axis \"batch\" appears twice; an axis shards one dim, once."},
      {[](Graph& g) { g.Var("w", Zeros({F32, {4, 6}}), {"batch"}); return __LINE__; },
       "Var \"w\" (@): layout {batch} has 1 dims, f32[4,6] has 2; give one entry per dim."},
  });
}

TEST(GraphTest, RejectsBadUpdatesAndOutputs) {
  static Graph other(TestMesh());
  static const Value foreign = In(other, F32, {4});
  static const Variable foreign_variable = NewVar(other, "v", {F32, {4}});
  ExpectMessages({
      {[](Graph& g) { Value x = In(g, F32, {4}); g.Update(Variable(&g, x.id()), x); return __LINE__; },
       "Update (@): \"x0\" is not a variable."},
      {[](Graph& g) { g.Update(NewVar(g, "w", {F32, {4}}), In(g, F32, {4, 1})); return __LINE__; },
       "Update of \"w\" (@): the variable is f32[4], the new value f32[4,1]; they must agree."},
      {[](Graph& g) { g.Update(NewVar(g, "w", {F32, {4}}), In(g, F64, {4})); return __LINE__; },
       "Update of \"w\" (@): the variable is f32[4], the new value f64[4]; they must agree."},
      {[](Graph& g) { Variable w = NewVar(g, "w", {}); g.Update(w, w), g.Update(w, w); return __LINE__; },
       "Update of \"w\" (@): it is already updated; a step writes a variable once."},
      {[](Graph& g) { g.Update(NewVar(g, "w", {F32, {4}}), foreign); return __LINE__; },
       "Update (@): the new value belongs to another graph."},
      {[](Graph& g) { g.Update(foreign_variable, In(g, F32, {4})); return __LINE__; },
       "Update (@): the variable belongs to another graph."},
      {[](Graph& g) { Value x = In(g, F32, {4}); g.Output("y", x), g.Output("y", x); return __LINE__; },
       "Output \"y\" (@): the name is already taken; output names must be unique."},
      {[](Graph& g) { g.Output("my loss", In(g, F32, {4})); return __LINE__; },
       "Output \"my loss\" (@): a name is a letter followed by letters, digits and any of _ . / -"},
      {[](Graph& g) { g.Output("y", foreign); return __LINE__; },
       "Output \"y\" (@): the value belongs to another graph."},
      {[](Graph& g) { Add(In(g, F32, {4}), foreign); return __LINE__; },
       "add (@): operand 1 belongs to another graph."},
      {[](Graph& g) { Gradients(ReduceSum(In(g, F32, {4}), {0}), {{foreign}}); return __LINE__; },
       "Gradients (@): a value to differentiate by belongs to another graph."},
  });
  // The graph whose value was used hears of it as well: its program lacks what was built on it.
  EXPECT_THAT(std::string(MessageOf(other.status())), testing::HasSubstr("operand 1 belongs to another graph."));
}

TEST(GraphTest, RejectsOutputsAndUpdatesWithoutAValue) {
  Graph g(Mesh::Parse("x=2").value());
  g.Output("y", Value());
  const int line = __LINE__ - 1;
  EXPECT_EQ(MessageOf(g.status()),
            fmt::format("Output \"y\" (graph_test.cc:{}): there is no value; it was default-constructed, or made "
                        "of numbers alone.",
                        line));
  Graph h(Mesh::Parse("x=2").value());
  h.Update(h.Var("w", {{F32, {4}}, nullptr}, {UNSHARDED}), Add(1.0, 2.0));
  const int update_line = __LINE__ - 1;
  EXPECT_EQ(MessageOf(h.status()),
            fmt::format("Update (graph_test.cc:{}): there is no value; it was default-constructed, or made of "
                        "numbers alone.",
                        update_line));
}

TEST(GraphTest, RejectsAnOpThatIsNone) {
  Graph g(Mesh::Parse("x=2").value());
  EXPECT_FALSE(g.Add("matmull", {}, {}, {})[0].valid());
  EXPECT_EQ(MessageOf(g.status()), "matmull: there is no op \"matmull\"; did you mean \"matmul\"?");
}

// ---- Operand counts and attributes, which only Graph::Add can get wrong.

TEST(GraphTest, RejectsWrongOperandCounts) {
  const SourceLocation at("model.cc", 41);
  Graph g(TestMesh());
  const Value x = In(g, F32, {4});
  EXPECT_EQ(g.Add("matmul", {{x}}, {}, at).size(), 1u);
  EXPECT_EQ(g.Add("neg", {{x, x}}, {}, at).size(), 1u);
  EXPECT_EQ(g.Add("all_reduce", {}, {}, at).size(), 0u);
  EXPECT_EQ(StatusOf(g),
            "matmul (model.cc:41): takes 2 operands, got 1.\n"
            "neg (model.cc:41): takes 1 operand, got 2.\n"
            "all_reduce (model.cc:41): takes at least one operand, got none.");
}

TEST(GraphTest, RejectsUnknownMissingAndMistypedAttributes) {
  const SourceLocation at("model.cc", 41);
  auto error = [&](std::string_view op, Attrs attrs) {
    Graph g(TestMesh());
    std::vector<Value> operands(std::max(GetOp(op).num_operands, 0), In(g, F32, {4, 6}));
    if (GetOp(op).num_operands < 0) operands = {In(g, F32, {4, 6})};
    const std::vector<Value> results = g.Add(op, operands, std::move(attrs), at);
    EXPECT_FALSE(results[0].valid());
    return StatusOf(g);
  };
  EXPECT_EQ(error("reduce_sum", {{"dim", std::vector<int64_t>{0}}}),
            "reduce_sum (model.cc:41): there is no attribute \"dim\"; did you mean \"dims\"?");
  EXPECT_EQ(error("relu", {{"slope", 0.5}}), "relu (model.cc:41): there is no attribute \"slope\".");
  EXPECT_EQ(error("reduce_sum", {}), "reduce_sum (model.cc:41): attribute \"dims\" is missing.");
  EXPECT_EQ(error("reduce_sum", {{"dims", int64_t{0}}}),
            "reduce_sum (model.cc:41): attribute \"dims\" must be a list like [0,1].");
  EXPECT_EQ(error("matmul", {{"transpose_a", int64_t{1}}}),
            "matmul (model.cc:41): attribute \"transpose_a\" must be true or false.");
  EXPECT_EQ(error("argmax", {{"dim", 1.0}}),
            "argmax (model.cc:41): attribute \"dim\" must be a whole number.");
  EXPECT_EQ(error("constant", {{"value", true}}),
            "constant (model.cc:41): attribute \"value\" must be a number.");
  EXPECT_EQ(error("cast", {{"dtype", int64_t{0}}}),
            "cast (model.cc:41): attribute \"dtype\" must be a dtype.");
  EXPECT_EQ(error("relayout", {{"layout", true}}),
            "relayout (model.cc:41): attribute \"layout\" must be a layout.");
  EXPECT_EQ(error("all_gather", {{"axes", std::vector<int64_t>{0}}, {"dim", int64_t{0}}}),
            "all_gather (model.cc:41): attribute \"axes\" must be axes like (batch).");
  EXPECT_EQ(error("all_reduce", {{"axes", AxisList{0}}, {"op", true}}),
            "all_reduce (model.cc:41): attribute \"op\" must be a reduction.");
  EXPECT_EQ(error("reshape", {{"shape", std::vector<int64_t>{4, -6}}}),
            "reshape (model.cc:41): attribute \"shape\" has the negative size -6.");
  EXPECT_EQ(
      error("all_gather", {{"axes", AxisList{0}}, {"dim", int64_t{0}}}),
      "all_gather (model.cc:41): exists only in local programs; in a global program ask for a layout with "
      "relayout.");
}

TEST(GraphTest, FillsDefaultsInTheOrderOfTheRow) {
  Graph g(TestMesh());
  g.Add("random_uniform", {},
        {{"shape", std::vector<int64_t>{4}}, {"high", int64_t{2}}, {"seed", int64_t{7}}}, {});
  ASSERT_TRUE(g.status().ok()) << g.status();
  const Attrs expected = {{"seed", int64_t{7}}, {"stream", int64_t{0}}, {"low", 0.0},
                          {"high", 2.0},        {"dtype", F32},         {"shape", std::vector<int64_t>{4}}};
  EXPECT_EQ(g.nodes()[0].attrs, expected);  // the whole number became a real one
}

TEST(GraphTest, NamesTheNearestOp) {
  EXPECT_EQ(MessageOf(FindOp("matmull").status()), "there is no op \"matmull\"; did you mean \"matmul\"?");
  EXPECT_EQ(MessageOf(FindOp("convolution").status()), "there is no op \"convolution\".");
  for (const OpRow* row : AllOps()) EXPECT_EQ(FindOp(row->name).value(), row);
}

// ---- Every message of the rows.

TEST(GraphTest, RejectsBadElementwiseOperands) {
  ExpectMessages({
      {[](Graph& g) { Exp(In(g, I32, {4})); return __LINE__; },
       "exp (@): takes f32, f64 or bf16, got i32[4]."},
      {[](Graph& g) { Relu(In(g, BOOL, {4})); return __LINE__; },
       "relu (@): takes f32, f64 or bf16, got bool[4]."},
      {[](Graph& g) { In(g, BOOL, {4}) + In(g, BOOL, {4}); return __LINE__; },
       "add (@): takes numbers, got bool[4]."},
      {[](Graph& g) { Neg(In(g, BOOL, {})); return __LINE__; },
       "neg (@): takes numbers, got bool[]."},
      {[](Graph& g) { In(g, F32, {4}) * In(g, F64, {4}); return __LINE__; },
       "mul (@): dtypes differ: f32[4] and f64[4]; cast one of them."},
      {[](Graph& g) { Less(In(g, I32, {4}), In(g, I64, {4})); return __LINE__; },
       "less (@): dtypes differ: i32[4] and i64[4]; cast one of them."},
      {[](Graph& g) { In(g, F32, {4, 6}) - In(g, F32, {4}); return __LINE__; },
       "sub (@): shapes do not broadcast: f32[4,6], f32[4] (dim 1 from the right is 6 and 4); sizes must be "
       "equal or "
       "1."},
      {[](Graph& g) { In(g, F32, {2, 1, 3}) / In(g, F32, {4, 5, 3}); return __LINE__; },
       "div (@): shapes do not broadcast: f32[2,1,3], f32[4,5,3] (dim 3 from the right is 2 and 4); sizes "
       "must be "
       "equal or 1."},
      {[](Graph& g) { Maximum(In(g, F32, {0}), In(g, F32, {3})); return __LINE__; },
       "maximum (@): shapes do not broadcast: f32[0], f32[3] (dim 1 from the right is 0 and 3); sizes must "
       "be equal "
       "or 1."},
      {[](Graph& g) { Add(In(g, F32, {1 << 20, 1}), In(g, F32, {1, 1 << 21})); return __LINE__; },
       "add (@): f32[1048576,2097152] has more than 2^40 elements."},
      {[](Graph& g) { Select(In(g, F32, {4}), In(g, F32, {4}), 0.0); return __LINE__; },
       "select (@): the condition must be bool, got f32[4]."},
      {[](Graph& g) { Select(In(g, BOOL, {4}), In(g, F32, {4}), In(g, F64, {4})); return __LINE__; },
       "select (@): dtypes differ: f32[4] and f64[4]; cast one of them."},
      {[](Graph& g) { Select(In(g, BOOL, {4}), In(g, F32, {3}), 0.0); return __LINE__; },
       "select (@): shapes do not broadcast: bool[4], f32[3], f32[] (dim 1 from the right is 4 and 3); sizes "
       "must be "
       "equal or 1."},
      {[](Graph& g) { Select(In(g, BOOL, {4}), 1.0, 0.0); return __LINE__; },
       "select (@): both branches are numbers; make one a Constant, which has a dtype."},
      {[](Graph& g) { In(g, F32, {4}) & In(g, F32, {4}); return __LINE__; },
       "and (@): takes bools or whole numbers, got f32[4]."},
      {[](Graph& g) { ~In(g, F64, {4}); return __LINE__; },
       "not (@): takes bools or whole numbers, got f64[4]."},
      {[](Graph& g) { In(g, BOOL, {4}) | In(g, I32, {4}); return __LINE__; },
       "or (@): dtypes differ: bool[4] and i32[4]; cast one of them."},
      {[](Graph& g) { ShiftLeft(In(g, BOOL, {4}), In(g, BOOL, {4})); return __LINE__; },
       "shift_left (@): takes whole numbers, got bool[4]."},
      {[](Graph& g) { IsNan(In(g, I32, {4})); return __LINE__; },
       "is_nan (@): takes f32, f64 or bf16, got i32[4]."},
      {[](Graph& g) { Atan2(In(g, I32, {4}), In(g, I32, {4})); return __LINE__; },
       "atan2 (@): takes f32, f64 or bf16, got i32[4]."},
      {[](Graph& g) { In(g, BOOL, {4}) % In(g, BOOL, {4}); return __LINE__; },
       "remainder (@): takes numbers, got bool[4]."},
      {[](Graph& g) { Clip(In(g, F32, {4}), 2, 1); return __LINE__; },
       "clip (@): low=2 is not below or at high=1."},
      {[](Graph& g) { Clip(In(g, F32, {4}), 0, std::nan("")); return __LINE__; },
       "clip (@): low=0 is not below or at high=nan."},
      {[](Graph& g) { Clip(In(g, I32, {4}), 0.5, 1); return __LINE__; },
       "clip (@): the bound 0.5 is not a whole number, and the operand is i32[4]."},
      {[](Graph& g) { Clip(In(g, BOOL, {4}), 0, 1); return __LINE__; },
       "clip (@): takes numbers, got bool[4]."},
      {[](Graph& g) { LeakyRelu(In(g, F32, {4}), INFINITY); return __LINE__; },
       "leaky_relu (@): alpha=inf is not finite."},
      {[](Graph& g) { Elu(In(g, I64, {4})); return __LINE__; },
       "elu (@): takes f32, f64 or bf16, got i64[4]."},
      {[](Graph& g) { Gelu(In(g, I64, {4})); return __LINE__; },
       "gelu (@): takes f32, f64 or bf16, got i64[4]."},
      {[](Graph& g) { In(g, I32, {4}) * 0.5; return __LINE__; },
       "constant (@): value=0.5 is not a whole number that fits dtype=i32."},
  });
}

TEST(GraphTest, RejectsBadShapeOps) {
  ExpectMessages({
      {[](Graph& g) { BroadcastTo(In(g, F32, {6}), {4, 6}, {0, 1}); return __LINE__; },
       "broadcast_to (@): dims=[0,1] has 2 entries for the operand f32[6]; give one result dim per operand "
       "dim."},
      {[](Graph& g) { BroadcastTo(In(g, F32, {6}), {4, 6}, {2}); return __LINE__; },
       "broadcast_to (@): dims names dim 2 of f32[4,6]; its dims count from 0 to 1."},
      {[](Graph& g) { BroadcastTo(In(g, F32, {1}), {}, {0}); return __LINE__; },
       "broadcast_to (@): dims names dim 0 of f32[], which has no dims."},
      {[](Graph& g) { BroadcastTo(In(g, F32, {4, 6}), {6, 4}, {1, 0}); return __LINE__; },
       "broadcast_to (@): dims=[1,0] must increase."},
      {[](Graph& g) { BroadcastTo(In(g, F32, {6}), {4, 6}, {0}); return __LINE__; },
       "broadcast_to (@): operand dim 0 of f32[6] does not fit dim 0 of f32[4,6]; sizes must be equal or 1."},
      {[](Graph& g) { BroadcastTo(In(g, F32, {}), {-4}, {}); return __LINE__; },
       "broadcast_to (@): attribute \"shape\" has the negative size -4."},
      {[](Graph& g) { Reshape(In(g, F32, {4, 6}), {5, 5}); return __LINE__; },
       "reshape (@): f32[4,6] has 24 elements, f32[5,5] has 25; they must be equal."},
      {[](Graph& g) { Reshape(In(g, F32, {0}), {int64_t{1} << 40, int64_t{1} << 40}); return __LINE__; },
       "reshape (@): f32[1099511627776,1099511627776] has more than 2^40 elements."},
      {[](Graph& g) { Reshape(In(g, F32, {1}), Shape(27, 1)); return __LINE__; },
       "reshape (@): f32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1] has 27 dims; at most 26 are "
       "allowed."},
      {[](Graph& g) { Transpose(In(g, F32, {4, 6}), {0, 0}); return __LINE__; },
       "transpose (@): permutation=[0,0] does not name each dim of f32[4,6] once."},
      {[](Graph& g) { Transpose(In(g, F32, {4, 6}), {1}); return __LINE__; },
       "transpose (@): permutation=[1] does not name each dim of f32[4,6] once."},
      {[](Graph& g) { Relayout(In(g, F32, {4, 6}), {"batch"}); return __LINE__; },
       "relayout (@): layout {batch} has 1 dims, the operand f32[4,6] has 2."},
      {[](Graph& g) { Relayout(In(g, F32, {4, 6}), {"bach", UNSHARDED}); return __LINE__; },
       "relayout (@): Layout {bach,_}: mesh [batch=2, model=4] has no axis \"bach\"; did you mean "
       "\"batch\"?"},
      {[](Graph& g) { DimensionSize(In(g, F32, {4, 6}), {-1}, F32); return __LINE__; },
       "dimension_size (@): dims names dim -1 of f32[4,6]; its dims count from 0 to 1."},
      {[](Graph& g) { DimensionSize(In(g, F32, {4, 6}), {1, 1}, F32); return __LINE__; },
       "dimension_size (@): dims=[1,1] names dim 1 twice."},
  });
  Graph g(TestMesh());
  const Value x = In(g, F32, {4});
  g.Add("relayout", {{x}}, {{"layout", LayoutPin::Parse(g.mesh(), "{_ | sum:model}").value()}}, {});
  EXPECT_EQ(StatusOf(g), "relayout: layout {_ | sum:model} is partial; only whole values can be asked for.");
}

TEST(GraphTest, RejectsBadReductionsAndProducts) {
  ExpectMessages({
      {[](Graph& g) { ReduceSum(In(g, BOOL, {4}), {0}); return __LINE__; },
       "reduce_sum (@): takes numbers, got bool[4]; reduce_all and reduce_any take bools."},
      {[](Graph& g) { ReduceSum(In(g, F32, {4}), {1}); return __LINE__; },
       "reduce_sum (@): dims names dim 1 of f32[4]; its dims count from 0 to 0."},
      {[](Graph& g) { ReduceMax(In(g, F32, {4, 6}), {1, 0, 1}); return __LINE__; },
       "reduce_max (@): dims=[1,0,1] names dim 1 twice."},
      {[](Graph& g) { ReduceMean(In(g, I32, {4}), {0}); return __LINE__; },
       "reduce_mean (@): takes f32, f64 or bf16, got i32[4]."},
      {[](Graph& g) { ReduceMean(In(g, F32, {}), {0}); return __LINE__; },
       "reduce_mean (@): dims names dim 0 of f32[], which has no dims."},
      {[](Graph& g) { Argmax(In(g, BOOL, {4}), 0); return __LINE__; },
       "argmax (@): takes numbers, got bool[4]."},
      {[](Graph& g) { Argmax(In(g, F32, {4}), -1); return __LINE__; },
       "argmax (@): dim names dim -1 of f32[4]; its dims count from 0 to 0."},
      {[](Graph& g) { Argmax(In(g, F32, {4, 0}), 1); return __LINE__; },
       "argmax (@): dim 1 of f32[4,0] is empty; it has no largest and no smallest element."},
      {[](Graph& g) { Argmin(In(g, F32, {(int64_t{1} << 31) + 1}), 0); return __LINE__; },
       "argmin (@): dim 0 of f32[2147483649] has more than 2^31 elements, which an i32 index cannot count."},
      {[](Graph& g) { ReduceProd(In(g, BOOL, {4}), {0}); return __LINE__; },
       "reduce_prod (@): takes numbers, got bool[4]; reduce_all and reduce_any take bools."},
      {[](Graph& g) { ReduceAll(In(g, I32, {4}), {0}); return __LINE__; },
       "reduce_all (@): takes bools, got i32[4]; compare with something, or cast to bool."},
      {[](Graph& g) { ReduceAny(In(g, BOOL, {4}), {1}); return __LINE__; },
       "reduce_any (@): dims names dim 1 of bool[4]; its dims count from 0 to 0."},
      {[](Graph& g) { MatMul(In(g, F32, {4, 6}), In(g, F32, {6})); return __LINE__; },
       "matmul (@): takes matrices, got f32[4,6] and f32[6]; reshape a vector to a matrix of one row or one "
       "column."},
      {[](Graph& g) { MatMul(In(g, F32, {}), In(g, F32, {6, 2})); return __LINE__; },
       "matmul (@): takes matrices, got f32[] and f32[6,2]; reshape a vector to a matrix of one row or one "
       "column."},
      {[](Graph& g) { MatMul(In(g, F32, {2, 4, 6}), In(g, F32, {3, 6, 8})); return __LINE__; },
       "matmul (@): batch dims of f32[2,4,6] and f32[3,6,8]: shapes do not broadcast: f32[2], f32[3] (dim 1 "
       "from the right is 2 and 3); sizes must be equal or 1."},
      {[](Graph& g) { MatMul(In(g, F32, {4, 6}), In(g, F64, {6, 8})); return __LINE__; },
       "matmul (@): takes f32, f64 or bf16, both alike, got f32[4,6] and f64[6,8]."},
      {[](Graph& g) { MatMul(In(g, I32, {4, 6}), In(g, I32, {6, 8})); return __LINE__; },
       "matmul (@): takes f32, f64 or bf16, both alike, got i32[4,6] and i32[6,8]."},
      {[](Graph& g) { MatMul(In(g, F32, {128, 784}), In(g, F32, {512, 700})); return __LINE__; },
       "matmul (@): k differs: a is f32[128,784] (k=784), b is f32[512,700] (k=512)."},
      {[](Graph& g) { MatMul(In(g, F32, {4, 6}), In(g, F32, {6, 8}), true, true); return __LINE__; },
       "matmul (@): k differs: a is f32[4,6] transposed (k=4), b is f32[6,8] transposed (k=8)."},
  });
}

TEST(GraphTest, RejectsMoreOperandsThanARowHasRoomFor) {
  Graph g(TestMesh());
  g.Add("random_uniform", {{In(g, I64, {}), In(g, I64, {})}},
        {{"seed", int64_t{7}}, {"shape", std::vector<int64_t>{4}}}, {});
  EXPECT_EQ(StatusOf(g), "random_uniform: takes 0 to 1 operand, got 2.");
}

TEST(GraphTest, RejectsSumsOverBatchesThatDiffer) {
  Graph g(TestMesh());
  g.Add("matmul", {{In(g, F32, {2, 4, 6}), In(g, F32, {6, 8})}}, {{"sum_batch", true}}, {});
  EXPECT_EQ(StatusOf(g),
            "matmul: sum_batch=true takes the same batch dims twice, got f32[2,4,6] and f32[6,8].");
}

TEST(GraphTest, RejectsBadGenerators) {
  ExpectMessages({
      {[](Graph& g) { Constant(g, 0.5, {I64, {4}}); return __LINE__; },
       "constant (@): value=0.5 is not a whole number that fits dtype=i64."},
      {[](Graph& g) { Constant(g, 2147483648.0, {I32, {4}}); return __LINE__; },
       "constant (@): value=2147483648 is not a whole number that fits dtype=i32."},
      {[](Graph& g) { Constant(g, 0x1p63, {I64, {}}); return __LINE__; },
       "constant (@): value=9.223372036854776e+18 is not a whole number that fits dtype=i64."},
      {[](Graph& g) { Constant(g, std::nan(""), {I32, {}}); return __LINE__; },
       "constant (@): value=nan is not a whole number that fits dtype=i32."},
      {[](Graph& g) { Constant(g, 2, {BOOL, {}}); return __LINE__; },
       "constant (@): value=2 is not 0 or 1, as dtype=bool asks."},
      {[](Graph& g) { Constant(g, 1, {F32, {1 << 20, 1 << 21}}); return __LINE__; },
       "constant (@): f32[1048576,2097152] has more than 2^40 elements."},
      {[](Graph& g) { Iota(g, {F32, {4}}, 1); return __LINE__; },
       "iota (@): dim names dim 1 of f32[4]; its dims count from 0 to 0."},
      {[](Graph& g) { Iota(g, {F32, {}}, 0); return __LINE__; },
       "iota (@): dim names dim 0 of f32[], which has no dims."},
      {[](Graph& g) { Iota(g, {BOOL, {4}}, 0); return __LINE__; },
       "iota (@): makes numbers; dtype=bool is not one."},
      {[](Graph& g) { OneHot(In(g, F32, {4}), 3, F32); return __LINE__; },
       "one_hot (@): takes i32 or i64, got f32[4]."},
      {[](Graph& g) { OneHot(In(g, I32, {4}), -3, F32); return __LINE__; },
       "one_hot (@): depth=-3 is negative."},
      {[](Graph& g) { OneHot(In(g, I32, {4}), int64_t{1} << 40, F32); return __LINE__; },
       "one_hot (@): f32[4,1099511627776] has more than 2^40 elements."},
      {[](Graph& g) { RandomUniform(g, {I32, {4}}, 1, 0, 0, 1); return __LINE__; },
       "random_uniform (@): dtype=i32 is not f32, f64 or bf16."},
      {[](Graph& g) { RandomUniform(g, {F32, {4}}, 1, 0, 2, 1); return __LINE__; },
       "random_uniform (@): low=2 high=1 is not a range; both are finite and low is at most high."},
      {[](Graph& g) { RandomUniform(g, {F32, {4}}, 1, 0, 0, HUGE_VAL); return __LINE__; },
       "random_uniform (@): low=0 high=inf is not a range; both are finite and low is at most high."},
      {[](Graph& g) { RandomUniform(g, {F32, {4}}, 1, 0, -3e38, 3e38); return __LINE__; },
       "random_uniform (@): low=-3e+38 high=3e+38 is not a range; both are finite and low is at most high."},
      {[](Graph& g) { RandomNormal(g, {F32, {4}}, 1, 0, 1e39, 1); return __LINE__; },
       "random_normal (@): mean=1e+39 stddev=1 is no distribution; both are finite and stddev is not negative."},
      {[](Graph& g) { RandomNormal(g, {BOOL, {4}}, 1, 0, 0, 1); return __LINE__; },
       "random_normal (@): dtype=bool is not f32, f64 or bf16."},
      {[](Graph& g) { RandomNormal(g, {F32, {4}}, 1, 0, 0, -1); return __LINE__; },
       "random_normal (@): mean=0 stddev=-1 is no distribution; both are finite and stddev is not negative."},
      {[](Graph& g) { RandomTruncatedNormal(g, {F32, {4}}, 1, 0, HUGE_VAL, 1); return __LINE__; },
       "random_truncated_normal (@): mean=inf stddev=1 is no distribution; both are finite and stddev is not "
       "negative."},
      {[](Graph& g) { RandomTruncatedNormal(g, {I64, {4}}, 1, 0, 0, 1); return __LINE__; },
       "random_truncated_normal (@): dtype=i64 is not f32, f64 or bf16."},
      {[](Graph& g) { RandomBernoulli(g, {BOOL, {4}}, 1, 0, 1.5); return __LINE__; },
       "random_bernoulli (@): p=1.5 is no probability; it lies in [0, 1]."},
      {[](Graph& g) { RandomBernoulli(g, {BOOL, {4}}, 1, 0, std::nan("")); return __LINE__; },
       "random_bernoulli (@): p=nan is no probability; it lies in [0, 1]."},
      {[](Graph& g) { RandomBernoulli(g, {BOOL, {4}}, 1, 0, 0.5, In(g, I32, {})); return __LINE__; },
       "random_bernoulli (@): the step must be i64[], got i32[]."},
      {[](Graph& g) { RandomUniform(g, {F32, {4}}, 1, 0, 0, 1, In(g, I64, {1})); return __LINE__; },
       "random_uniform (@): the step must be i64[], got i64[1]."},
      {[](Graph& g) { Dropout(In(g, F32, {4}), 1, 7, 0); return __LINE__; },
       "dropout (@): rate=1 is not in [0, 1)."},
      {[](Graph& g) { Dropout(In(g, I32, {4}), 0.5, 7, 0); return __LINE__; },
       "dropout (@): takes f32, f64 or bf16, got i32[4]."},
      {[](Graph& g) { Linspace(g, 0, 1, {I32, {4}}); return __LINE__; },
       "linspace (@): makes a vector of f32, f64 or bf16, not i32[4]."},
      {[](Graph& g) { Linspace(g, 0, 1, {F32, {4, 1}}); return __LINE__; },
       "linspace (@): makes a vector of f32, f64 or bf16, not f32[4,1]."},
      {[](Graph& g) { Linspace(g, 0, HUGE_VAL, {F32, {4}}); return __LINE__; },
       "linspace (@): start=0 stop=inf is no range; both are finite."},
      {[](Graph& g) { Eye(g, {F32, {4}}); return __LINE__; },
       "eye (@): makes matrices, not f32[4]; give shape at least two dims."},
      {[](Graph& g) { Eye(g, {F32, {4, 4}}, (int64_t{1} << 40) + 1); return __LINE__; },
       "eye (@): offset=1099511627777 is beyond 2^40."},
  });
}

// Adam on a weight, its gradient and moments of these types.
int Adam(Graph& g, const Type& weight, const Type& gradient, const Type& m, const Type& v, const Type& step) {
  auto in = [&](const Type& type) { return In(g, type.dtype, type.shape); };
  AdamUpdate(in(weight), in(gradient), in(m), in(v), in(step), 0.1, 0.9, 0.999, 1e-8); return __LINE__;
}

TEST(GraphTest, RejectsBadOptimizerOperands) {
  static const Type kW{F32, {4}}, kStep{I64, {}};
  ExpectMessages({
      {[](Graph& g) { return Adam(g, {I32, {4}}, kW, kW, kW, kStep); },
       "adam_update (@): the weight must be f32, f64 or bf16, got i32[4]."},
      {[](Graph& g) { return Adam(g, kW, {F32, {5}}, kW, kW, kStep); },
       "adam_update (@): the gradient is f32[5], the weight f32[4]; they must agree."},
      {[](Graph& g) { return Adam(g, kW, kW, {F64, {4}}, kW, kStep); },
       "adam_update (@): the first moment is f64[4], the weight f32[4]; they must agree."},
      {[](Graph& g) { return Adam(g, kW, kW, kW, {F32, {4, 1}}, kStep); },
       "adam_update (@): the second moment is f32[4,1], the weight f32[4]; they must agree."},
      {[](Graph& g) { return Adam(g, kW, kW, kW, kW, {I32, {}}); },
       "adam_update (@): the step must be i64[], got i32[]."},
  });
}

TEST(GraphTest, RejectsBadCompositesAndGradients) {
  ExpectMessages({
      {[](Graph& g) { LogSoftmax(In(g, F32, {})); return __LINE__; },
       "log_softmax (@): takes at least one dim, got f32[]."},
      {[](Graph& g) { SparseSoftmaxCrossEntropy(In(g, F32, {4, 10}), In(g, I32, {5})); return __LINE__; },
       "sparse_softmax_cross_entropy (@): logits are f32[4,10], labels i32[5]; they must be f32, f64 or "
       "bf16 [..,c] and i32 or i64 [..] with the same sizes."},
      {[](Graph& g) { SparseSoftmaxCrossEntropy(In(g, F32, {4}), In(g, I32, {4})); return __LINE__; },
       "sparse_softmax_cross_entropy (@): logits are f32[4], labels i32[4]; they must be f32, f64 or "
       "bf16 [..,c] and i32 or i64 [..] with the same sizes."},
      {[](Graph& g) { Accuracy(In(g, F32, {4, 10}), In(g, F32, {4})); return __LINE__; },
       "accuracy (@): logits are f32[4,10], labels f32[4]; they must be f32, f64 or bf16 [..,c] "
       "and i32 or i64 [..] with the same sizes."},
      {[](Graph& g) { Accuracy(In(g, I32, {4, 10}), In(g, I32, {4})); return __LINE__; },
       "accuracy (@): logits are i32[4,10], labels i32[4]; they must be f32, f64 or bf16 [..,c] "
       "and i32 or i64 [..] with the same sizes."},
      {[](Graph& g) { Value x = In(g, F32, {4}); Gradients(x, {{x}}); return __LINE__; },
       "Gradients (@): the loss is f32[4]; it must be a scalar f32[] or f64[]."},
      {[](Graph& g) { Value x = In(g, I32, {}); Gradients(x, {{x}}); return __LINE__; },
       "Gradients (@): the loss is i32[]; it must be a scalar f32[] or f64[]."},
      {[](Graph& g) { Gradients(In(g, F32, {}), {{In(g, I32, {4})}}); return __LINE__; },
       "Gradients (@): a value of i32[4] has no gradient; only f32 and f64 have."},
  });
}

TEST(GraphTest, MistakesWithinCompositesStandWhereTheUserCalledThem) {
  ExpectMessages({
      {[](Graph& g) { LogSoftmax(In(g, I32, {4, 10})); return __LINE__; },
       "exp (@): takes f32, f64 or bf16, got i32[4,10]."},
  });
}

// clang-format on

// ---- How mistakes are recorded.

TEST(GraphTest, ReportsAllMistakesAtOnceWithTheirLines) {
  Graph g(TestMesh());
  const Value x = In(g, F32, {4, 6});
  const Value bad = MatMul(x, x);
  const int first = __LINE__ - 1;
  const Value fine = Relu(x);
  const Value worse = x + In(g, F32, {5});
  const int second = __LINE__ - 1;
  EXPECT_FALSE(bad.valid());
  EXPECT_TRUE(fine.valid());
  EXPECT_FALSE(worse.valid());
  EXPECT_EQ(StatusOf(g),
            fmt::format("matmul (graph_test.cc:{}): k differs: a is f32[4,6] (k=6), b is f32[4,6] (k=4).\n"
                        "add (graph_test.cc:{}): shapes do not broadcast: f32[4,6], f32[5] (dim 1 from "
                        "the right is 6 and 5); sizes must be equal or 1.",
                        first, second));
}

TEST(GraphTest, InvalidValuesPassSilently) {
  Graph g(TestMesh());
  const Value x = In(g, F32, {4});
  const Value bad = Exp(In(g, I32, {4}));
  const std::string only = StatusOf(g);
  const size_t nodes = g.nodes().size();
  const Variable bad_variable = g.Var("", Zeros({}), {});
  const std::string both = StatusOf(g);
  EXPECT_NE(both, only);

  EXPECT_FALSE(Value().valid());
  EXPECT_FALSE((bad + x).valid());
  EXPECT_FALSE((x + bad).valid());
  EXPECT_FALSE((2.0 * bad).valid());
  EXPECT_FALSE(Relu(Neg(bad)).valid());
  EXPECT_FALSE(Select(bad, x, x).valid());
  EXPECT_FALSE(Select(In(g, BOOL, {4}), bad, x).valid());
  EXPECT_FALSE(Relayout(bad, {"no such axis"}).valid());
  EXPECT_FALSE(LogSoftmax(bad).valid());
  EXPECT_FALSE(SparseSoftmaxCrossEntropy(bad, x).valid());
  EXPECT_FALSE(Accuracy(x, bad).valid());
  EXPECT_FALSE(AdamUpdate(bad, x, x, x, x, 1, 1, 1, 1).weight.valid());
  EXPECT_FALSE(AdamUpdate(x, x, x, bad, x, 1, 1, 1, 1).second_moment.valid());
  EXPECT_FALSE(Gradients(bad, {{x}})[0].valid());
  EXPECT_FALSE(Gradients(ReduceSum(x, {0}), {{x, bad}})[0].valid());
  EXPECT_FALSE(Add(1.0, 2.0).valid());  // no graph to record in
  g.Output("y", bad);
  g.Update(bad_variable, x);
  EXPECT_EQ(StatusOf(g), both);
  EXPECT_TRUE(g.outputs().empty());
  EXPECT_EQ(g.nodes().size(), nodes + 1);  // the sum that was differentiated
}

TEST(GraphTest, NumbersBecomeScalarsOfTheOtherOperand) {
  Graph g(TestMesh());
  const Value y = 2.0 - In(g, I64, {4});
  ASSERT_TRUE(g.status().ok()) << g.status();
  EXPECT_EQ(y.type(), (Type{I64, {4}}));
  ASSERT_EQ(g.nodes().size(), 2u);
  EXPECT_EQ(g.value(g.nodes()[0].results[0]).type, (Type{I64, {}}));
  EXPECT_EQ(g.nodes()[1].operands[0], g.nodes()[0].results[0]);  // sides stay where they are
}

TEST(GraphTest, NodesOfCompositesStandWhereTheUserCalledThem) {
  Graph g(TestMesh());
  const Value logits = In(g, F32, {4, 10});
  SparseSoftmaxCrossEntropy(logits, In(g, I32, {4}));
  const std::string here = "graph_test.cc:" + std::to_string(__LINE__ - 1);
  ASSERT_GT(g.nodes().size(), 5u);
  for (const Node& node : g.nodes()) EXPECT_EQ(node.location.ToString(), here) << node.row->name;
  EXPECT_EQ(g.Describe(0), "one_hot (" + here + ")");
  EXPECT_EQ(g.Describe("loss", {}), "loss");
}

}  // namespace
}  // namespace meshwork

// Messages of Verify about local programs that do not compute the global one.
#include "meshwork/verify/verify.h"

#include <filesystem>
#include <regex>
#include <string>

#include "errors/errors.h"
#include "gtest/gtest.h"
#include "meshwork/base/io/file.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/text.h"
#include "meshwork/spmd/compile.h"

namespace meshwork::verify_test {
namespace {

Graph Parse(std::string_view text) { return ParseGraph(text, "step.mw").value(); }

absl::Status Of(std::string_view global, std::string_view local) {
  return Verify(Parse(global), Parse(local)).status();
}

constexpr std::string_view kGlobal = R"(mesh [x=2, y=2]
func step(%a: f32[5,6] {x,_}, var %w: f32[6,4]) {
  %p = matmul %a, %w
  %s = reduce_sum %p dims=[0]
  update %w = %w
  return p=%p, s=%s
})";
constexpr std::string_view kLocal = R"(mesh [x=2, y=2]
func step(%a: f32[3,6] of f32[5,6] {x,_}, var %w: f32[6,4] of f32[6,4] {_,_}) {
  %p = matmul %a, %w : f32[3,4] of f32[5,4] {x,_}
  %m = mask_padding %p dims=[0] op=sum : f32[3,4] of f32[5,4] {x,_}
  %t = reduce_sum %m dims=[0] : f32[4] of f32[4] {_ | sum:x}
  %s = all_reduce %t axes=(x) op=sum : f32[4] of f32[4] {_}
  update %w = %w
  return p=%p, s=%s
})";

// The error of the right program after `change`.
template <typename F>
absl::Status Changed(F&& change) {
  Graph local = Parse(kLocal);
  change(local);
  return Verify(Parse(kGlobal), local).status();
}

// The right program with one text for another.
absl::Status With(std::string_view text, std::string_view other) {
  std::string local(kLocal);
  local.replace(local.find(text), text.size(), other);
  return Of(kGlobal, local);
}

absl::Status UpdateOfAnotherLayout() {
  Graph local = Parse("mesh [x=2, y=2] func f(%a: f32[2] of f32[4] {x}, var %w: f32[2] of f32[4] {y}) {}");
  local.AddUpdate({1, 0});
  return Verify(Parse("mesh [x=2, y=2] func f(%a: f32[4], var %w: f32[4]) { update %w = %a }"), local)
      .status();
}

// An op that depends on the place of its block, on no block.
absl::Status StridedOneHot() {
  const Graph global = Parse("mesh [x=2] func f(%a: i32[8] {x}) { %r = one_hot %a depth=3 return r=%r }");
  Graph local = Compile(global).value().body;
  for (size_t v = 0; v < local.values().size(); ++v) {
    ValueInfo& info = local.mutable_value(static_cast<ValueId>(v));
    std::vector<FactorList> dims(static_cast<size_t>(info.type.rank()), FactorList{{1, {}}});
    dims[0] = {{4, {0}}, {2, {}}};
    info.layout = Layout::Strided(local.mesh(), dims);
  }
  return Verify(Parse("mesh [x=2] func f(%a: i32[8]) { %r = one_hot %a depth=3 return r=%r }"), local)
      .status();
}

TEST(VerifyErrors, TheRightProgramHasNone) { EXPECT_EQ(MessageOf(Of(kGlobal, kLocal)), ""); }

TEST(VerifyErrors, ArgumentsAndResults) {
  ExpectErrors(
      "verify",
      {
          MISTAKE(Of("mesh [x=4] func f() {}", "mesh [x=2] func f() {}")),
          MISTAKE(Of(kGlobal, kGlobal)),
          MISTAKE(Of("mesh [x=2] func f(%a: f32[4]) {}", "mesh [x=2] func f(%a: f32[4]) {}")),
          MISTAKE(Of("mesh [x=2] func f() {}", "mesh [x=2] func f(%a: f32[4] of f32[4] {_}) {}")),
          MISTAKE(Changed([](Graph& g) {
            g.mutable_value(0).global.shape = {6, 6};
          })),
          MISTAKE(With("var %w: f32[6,4] of f32[6,4] {_,_}", "var %w: f32[6,4] of f32[6,4] {_,_ | sum:y}")),
          MISTAKE(With("f32[5,6] {x,_}", "f32[5,6] {y,_}")),
          MISTAKE(Changed([](Graph& g) {
            g.mutable_value(2).type.shape = {5, 4};
          })),
          MISTAKE(With("s=%s", "s=%t")),
          MISTAKE(With("p=%p", "q=%p")),
          MISTAKE(With("p=%p, ", "")),
          MISTAKE(With("  update %w = %w\n", "")),
          MISTAKE(Changed([](Graph& g) {
            g.AddUpdate({1, 1});
          })),
          MISTAKE(Of("mesh [x=2] func f(var %w: f32[4]) {}",
                     "mesh [x=2] func f(var %w: f32[4] of f32[4] {_}) { update %w = %w }")),
          MISTAKE(UpdateOfAnotherLayout()),
          MISTAKE(Of("mesh [x=2] func f(%a: f32[4], var %w: f32[4]) { update %w = %w return y=%a }",
                     "mesh [x=2] func f(%a: f32[4] of f32[4] {_}, var %w: f32[4] of f32[4] {_}) {"
                     " update %w = %a return y=%a }")),
      });
}

// A local program of one op on %a, of `type` in the global one.
absl::Status OneOp(std::string_view type, std::string_view op, std::string_view local_type,
                   std::string_view local_op) {
  return Of(fmt::format("mesh [x=2, y=2] func f(%a: {}) {{ %r = {} return r=%r }}", type, op),
            fmt::format("mesh [x=2, y=2] func f(%a: {}) {{ %r = {} return r=%r }}", local_type, local_op));
}

// A local program of a sum that the global one does not have.
absl::Status SumOfTwo(std::string_view sum, std::string_view result) {
  return Of("mesh [x=2] func f(%a: f32[4], %b: f32[4], %c: f32[8] {x}) { %r = exp %a return r=%r }",
            fmt::format("mesh [x=2] func f(%a: f32[4] of f32[4] {{_}}, %b: f32[4] of f32[4] {{_}},"
                        " %c: f32[4] of f32[8] {{x}}) {{ %r = {} return {} }}",
                        sum, result));
}

// The local program of kLocal, where node `n` is another.
template <typename F>
absl::Status NodeChanged(int n, F&& change) {
  const Graph local = Parse(kLocal);
  Graph copy(local.mesh());
  for (const Argument& argument : local.arguments())
    copy.AddArgument(local.value(argument.value), argument.is_variable, std::nullopt);
  for (int i = 0; i < static_cast<int>(local.nodes().size()); ++i) {
    Node node = local.nodes()[i];
    std::vector<ValueInfo> infos;
    for (ValueId id : node.results) infos.push_back(local.value(id));
    if (i == n) change(node, infos);
    copy.AddNode(std::move(node), std::move(infos));
  }
  return Verify(Parse(kGlobal), copy).status();
}

// Parts of bf16 that are carried in f32.
constexpr std::string_view kGlobalSum = R"(mesh [x=2]
func step(%a: bf16[4,4], %f: f32[4,4]) {
  %s = reduce_sum %a dims=[0]
  %n = neg %s
  %e = exp %n
  %g = reduce_sum %f dims=[0]
  return e=%e, g=%g
})";
constexpr std::string_view kLocalSum = R"(mesh [x=2]
func step(%a: bf16[2,4] of bf16[4,4] {x,_}, %f: f32[2,4] of f32[4,4] {x,_}) {
  %t = reduce_sum %f dims=[0] : f32[4] of f32[4] {_ | sum:x}
  %g = all_reduce %t axes=(x) op=sum : f32[4] of f32[4] {_}
  %w = widen %a : f32[2,4] of f32[4,4] {x,_}
  %s = reduce_sum %w dims=[0] : f32[4] of f32[4] {_ | sum:x}
  %n = neg %s : f32[4] of f32[4] {_ | sum:x}
  %r = all_reduce %n axes=(x) op=sum : f32[4] of f32[4] {_}
  %b = narrow %r : bf16[4] of bf16[4] {_}
  %e = exp %b : bf16[4] of bf16[4] {_}
  return e=%e, g=%g
})";
// Some of these are found when the text is read.
absl::Status WithSum(std::string_view text, std::string_view other) {
  std::string local(kLocalSum);
  local.replace(local.find(text), text.size(), other);
  const absl::StatusOr<Graph> read = ParseGraph(local, "step.mw");
  return read.ok() ? Verify(Parse(kGlobalSum), *read).status() : read.status();
}
// What no text gives: the reader finds it.
template <typename F>
absl::Status SumChanged(std::string_view op, F&& change) {
  Graph local = Parse(kLocalSum);
  for (size_t n = 0; n < local.nodes().size(); ++n)
    if (local.nodes()[n].row->name == op) change(local, local.mutable_node(static_cast<int>(n)));
  return Verify(Parse(kGlobalSum), local).status();
}
ValueId ResultOf(const Graph& graph, std::string_view name) {
  for (size_t v = 0; v < graph.values().size(); ++v)
    if (graph.values()[v].name == name) return static_cast<ValueId>(v);
  return kNoValue;
}
TEST(VerifyErrors, Rounding) {
  EXPECT_EQ(MessageOf(Of(kGlobalSum, kLocalSum)), "");
  ExpectErrors(
      "verify_rounding",
      {
          // A result that is not rounded, or too early, or that is no bf16.
          MISTAKE(WithSum("exp %b : bf16[4] of bf16[4] {_}", "exp %r : f32[4] of f32[4] {_}")),
          MISTAKE(WithSum("e=%e", "e=%r")),
          MISTAKE(
              WithSum("narrow %r : bf16[4] of bf16[4] {_}", "narrow %n : bf16[4] of bf16[4] {_ | sum:x}")),
          MISTAKE(WithSum("narrow %r", "narrow %g")),
          MISTAKE(WithSum("neg %s", "add %s, %t")),
          MISTAKE(WithSum("g=%g", "g=%r")),
          MISTAKE(SumChanged("narrow",
                             [](Graph& local, const Node& node) {
                               ValueInfo& info = local.mutable_value(node.results[0]);
                               info.type.dtype = info.global.dtype = F64;
                             })),
          MISTAKE(SumChanged("narrow",
                             [](Graph& local, Node& node) {
                               node.operands[0] = ResultOf(local, "n");
                               local.mutable_value(node.results[0]).layout =
                                   local.value(node.operands[0]).layout;
                             })),
          MISTAKE(Of("mesh [x=2] func f(%a: bf16[4,4]) { %s = reduce_sum %a dims=[0] return s=%s }",
                     "mesh [x=2] func f(%a: bf16[2,4] of bf16[4,4] {x,_}) {"
                     " %w = widen %a : f32[2,4] of f32[4,4] {x,_}"
                     " %s = reduce_sum %w dims=[0] : f32[4] of f32[4] {_ | sum:x}"
                     " %r = all_reduce %s axes=(x) op=sum : f32[4] of f32[4] {_}"
                     " return s=%r }")),
          MISTAKE([] {
            const std::string_view global =
                "mesh [x=2] func f(%a: bf16[4,4], %c: bf16[4]) {"
                " %s = reduce_sum %a dims=[0] %m = mul %s, %c return m=%m }";
            Graph local = Parse(
                "mesh [x=2] func f(%a: bf16[2,4] of bf16[4,4] {x,_}, %c: bf16[4] of bf16[4] {_}) {"
                " %w = widen %a : f32[2,4] of f32[4,4] {x,_}"
                " %s = reduce_sum %w dims=[0] : f32[4] of f32[4] {_ | sum:x}"
                " %d = widen %c : f32[4] of f32[4] {_}"
                " %m = mul %s, %d : f32[4] of f32[4] {_ | sum:x}"
                " %r = all_reduce %m axes=(x) op=sum : f32[4] of f32[4] {_}"
                " %b = narrow %r : bf16[4] of bf16[4] {_} return m=%b }");
            local.mutable_node(3).operands[1] = ResultOf(local, "c");
            return Verify(Parse(global), local).status();
          }()),
          // Another value in f32, and a value that is not in f32.
          MISTAKE(WithSum("reduce_sum %w dims=[0]", "reduce_sum %f dims=[0]")),
          MISTAKE(WithSum("widen %a : f32[2,4] of f32[4,4] {x,_}",
                          "cast %a dtype=f32 : f32[2,4] of f32[4,4] {x,_}")),
          MISTAKE(WithSum("widen %a : f32[2,4]", "widen %f : f32[2,4]")),
          MISTAKE(Of("mesh [x=2] func f(%a: bf16[4,4], %b: bf16[4,4], %c: f32[4]) {"
                     " %s = reduce_sum %a dims=[0] %t = reduce_sum %b dims=[0] %r = add %s, %t return r=%r }",
                     "mesh [x=2] func f(%a: bf16[2,4] of bf16[4,4] {x,_}, %b: bf16[2,4] of bf16[4,4] {x,_},"
                     " %c: f32[4] of f32[4] {_}) {"
                     " %v = widen %a : f32[2,4] of f32[4,4] {x,_}"
                     " %s = reduce_sum %v dims=[0] : f32[4] of f32[4] {_ | sum:x}"
                     " %w = widen %b : f32[2,4] of f32[4,4] {x,_}"
                     " %t = reduce_sum %w dims=[0] : f32[4] of f32[4] {_ | sum:x}"
                     " %u = all_reduce %t axes=(x) op=sum : f32[4] of f32[4] {_}"
                     " %q = all_reduce %s axes=(x) op=sum : f32[4] of f32[4] {_}"
                     " %r = add %q, %u : f32[4] of f32[4] {_}"
                     " %z = narrow %r : bf16[4] of bf16[4] {_} return r=%z }")),
          // A sum that the global program does not have, of f32 and of what is carried in it.
          MISTAKE(Of("mesh [x=2] func f(%a: bf16[4], %c: f32[4]) { %r = exp %a return r=%r }",
                     "mesh [x=2] func f(%a: bf16[4] of bf16[4] {_}, %c: f32[4] of f32[4] {_}) {"
                     " %w = widen %a : f32[4] of f32[4] {_} %r = add %w, %c : f32[4] of f32[4] {_}"
                     " return r=%r }")),
          MISTAKE(Of("mesh [x=2] func f(%a: bf16[4], %p: bool[]) {"
                     " %r = if %p, %a (%x: bf16[4]) { return %x } else (%x: bf16[4]) { return %x }"
                     " return r=%r }",
                     "mesh [x=2] func f(%a: bf16[4] of bf16[4] {_}, %p: bool[] of bool[] {}) {"
                     " %w = widen %a : f32[4] of f32[4] {_}"
                     " %r = if %p, %w (%x: f32[4] of f32[4] {_}) { return %x }"
                     " else (%x: f32[4] of f32[4] {_}) { return %x } : f32[4] of f32[4] {_}"
                     " return r=%r }")),
      });
}

// Terms that devices, or iterations, add up in bf16.
TEST(VerifyErrors, RoundedTerms) {
  const std::string_view product =
      "mesh [x=2] func f(%a: bf16[2,4], %b: bf16[4,2]) { %c = matmul %a, %b return c=%c }";
  const std::string_view on_blocks =
      "mesh [x=2] func f(%a: bf16[2,2] of bf16[2,4] {_,x}, %b: bf16[2,2] of bf16[4,2] {x,_}) {"
      " %c = matmul %a, %b : bf16[2,2] of bf16[2,2] {_,_ | sum:x}"
      " %r = all_reduce %c axes=(x) op=sum : bf16[2,2] of bf16[2,2] {_,_} return c=%r }";
  const std::string_view picked =
      "mesh [x=2] func f(%t: bf16[2,4] of bf16[4,4] {x,_}, %i: i32[3] of i32[3] {_}) {"
      " %g = gather %t, %i dim=0 : bf16[3,4] of bf16[3,4] {_,_ | sum:x}";
  const std::string lookups = "mesh [x=2] func f(%t: bf16[4,4], %i: i32[3]) { %g = gather %t, %i dim=0 ";
  const std::string scan =
      "mesh [x=2] func f(%j: i32[5,3], %t: bf16[4,4]) { %s = scan %j, %t length=5 slices=1 sums=1 (%k: i32[3], %w: "
      "bf16[4,4]) { %g = gather %w, %k dim=0 return %g } return s=%s }";
  const std::string_view local_scan =
      "mesh [x=2] func f(%j: i32[5,3] of i32[5,3] {_,_}, %t: bf16[2,4] of bf16[4,4] {x,_}) {"
      " %s = scan %j, %t length=5 slices=1 sums=1 (%k: i32[3] of i32[3] {_}, %w: bf16[2,4] of bf16[4,4] {x,_}) {"
      " %g = gather %w, %k dim=0 : bf16[3,4] of bf16[3,4] {_,_ | sum:x} return %g }"
      " : bf16[3,4] of bf16[3,4] {_,_ | sum:x}"
      " %r = all_reduce %s axes=(x) op=sum : bf16[3,4] of bf16[3,4] {_,_} return s=%r }";
  const auto narrow = [](std::string_view global, std::string_view local) {
    return Verify(Parse(global), Parse(local), {.narrow_sums = true}).status();
  };
  EXPECT_EQ(MessageOf(narrow(product, on_blocks)), "");
  EXPECT_EQ(MessageOf(narrow(scan, local_scan)), "");
  // The sum of a lookup is exact.
  EXPECT_EQ(
      MessageOf(Of(lookups + "return r=%g }",
                   std::string(picked) + " %r = all_reduce %g axes=(x) op=sum : bf16[3,4] of bf16[3,4] {_,_}"
                                         " return r=%r }")),
      "");
  ExpectErrors("verify_rounded_terms",
               {
                   MISTAKE(Of(product, on_blocks)),
                   MISTAKE(Of(lookups + "%s = add %g, %g return r=%s }",
                              std::string(picked) +
                                  " %s = add %g, %g : bf16[3,4] of bf16[3,4] {_,_ | sum:x}"
                                  " %r = all_reduce %s axes=(x) op=sum : bf16[3,4] of bf16[3,4] {_,_}"
                                  " return r=%r }")),
                   MISTAKE(Of(lookups + "%n = neg %g %u = sub %n, %g return r=%u }",
                              std::string(picked) + " %s = add %g, %g : bf16[3,4] of bf16[3,4] {_,_ | sum:x}"
                                                    " return r=%s }")),
                   MISTAKE(Of(scan, local_scan)),
               });
}

TEST(VerifyErrors, CollectivesAndLocalOps) {
  ExpectErrors(
      "verify_moves",
      {
          MISTAKE(NodeChanged(3, [](Node& node, auto&) { node.row = &GetOp("relayout"); })),
          MISTAKE(NodeChanged(3, [](Node& node, auto&) { node.operands.push_back(node.operands[0]); })),
          MISTAKE(
              NodeChanged(3, [](Node&, auto& infos) { infos[0].global.dtype = infos[0].type.dtype = F64; })),
          MISTAKE(NodeChanged(3, [](Node& node, auto&) { node.attrs.Set("axes", AxisList{1}); })),
          MISTAKE(NodeChanged(3, [](Node& node, auto&) { node.attrs.Set("op", ReduceOp::kMax); })),
          MISTAKE(NodeChanged(1, [](Node& node, auto&) { node.attrs.Set("dims", std::vector<int64_t>{7}); })),
          MISTAKE(OneOp("f32[4,6]", "reshape %a shape=[24]", "f32[4,6] of f32[4,6] {_,_}",
                        "reshape %a shape=[24] : f32[24] of f32[48] {x}")),
          MISTAKE(OneOp("f32[4,6]", "reshape %a shape=[24]", "f32[2,6] of f32[4,6] {x,_}",
                        "reshape %a shape=[12] : f32[12] of f32[24] {y}")),
          MISTAKE([&] {
            const Graph global = Parse("mesh [x=2] func f(%a: f32[4,6]) { %r = reshape %a shape=[24] }");
            Graph local = Parse(
                "mesh [x=2] func f(%a: f32[4,6] of f32[4,6] {_,_}) {"
                " %r = reshape %a shape=[24] : f32[24] of f32[24] {_} }");
            local.mutable_value(1).type.dtype = local.mutable_value(1).global.dtype = F64;
            return Verify(global, local).status();
          }()),
      });
}

// ---- Exchanges.

// A local program of one exchange of %a: f32[4] {x}, or of two operands, for a global one that shifts %a.
absl::Status Exchanged(std::string_view exchange, std::string_view arguments = "%a: f32[2] of f32[4] {x}") {
  const absl::StatusOr<Graph> local =
      ParseGraph(fmt::format("mesh [x=2] func f({}) {{ %r = exchange {} return r=%r }}", arguments, exchange),
                 "step.mw");
  if (!local.ok()) return local.status();
  return Verify(Parse("mesh [x=2] func f(%a: f32[4] {x}) { %r = slice %a start=[1] limit=[4] return r=%r }"),
                *local)
      .status();
}

constexpr std::string_view kConv =
    "mesh [x=2] func f(%a: f32[1,4,1], %w: f32[3,1,1]) {"
    " %r = conv %a, %w low=[1] high=[1] return r=%r }";

// The convolution on blocks along x of what `body` makes of %a.
absl::Status Convolved(std::string_view body) {
  return Of(kConv, fmt::format("mesh [x=2] func f(%a: f32[1,2,1] of f32[1,4,1] {{_,x,_}},"
                               " %w: f32[3,1,1] of f32[3,1,1] {{_,_,_}}) {{ {} return r=%r }}",
                               body));
}

TEST(VerifyErrors, Exchanges) {
  constexpr std::string_view kWindows =
      "%h = exchange %a offset=[0,-1,0] size=[-1,4,-1] extent=[1,3,1] : f32[1,4,1] of f32[1,8,1] {_,x,_}";
  auto after = [&](std::string_view rest) { return Convolved(fmt::format("{} {}", kWindows, rest)); };
  ExpectErrors(
      "verify_exchanges",
      {
          MISTAKE(Exchanged("%a offset=[2] : f32[2] of f32[3] {x}")),
          MISTAKE(Exchanged("%a offset=[1,1] : f32[2] of f32[3] {x}")),
          MISTAKE(Exchanged("%a offset=[1] stride=[1,1] : f32[2] of f32[3] {x}")),
          MISTAKE(Exchanged("%a offset=[1] stride=[0] : f32[2] of f32[3] {x}")),
          MISTAKE(Exchanged("%a offset=[0] stride=[-9223372036854775808] : f32[2] of f32[3] {x}")),
          MISTAKE(Exchanged("%a offset=[4611686018427387904] : f32[2] of f32[3] {x}")),
          MISTAKE(Of("mesh [x=2] func f(%a: f32[4,4]) {"
                     " %s = reduce_sum %a dims=[0] %p = pad %s low=[1] high=[0] value=1 return p=%p }",
                     "mesh [x=2] func f(%a: f32[2,4] of f32[4,4] {x,_}) {"
                     " %s = reduce_sum %a dims=[0] : f32[4] of f32[4] {_ | sum:x}"
                     " %e = exchange %s offset=[-1] value=1 : f32[5] of f32[5] {_ | sum:x}"
                     " %p = all_reduce %e axes=(x) op=sum : f32[5] of f32[5] {_} return p=%p }")),
          MISTAKE(Exchanged("%a offset=[1] : i32[2] of i32[3] {x}")),
          MISTAKE(Exchanged("%a offset=[0] : f32[2] of f32[4] {2*2@x}")),
          MISTAKE(Exchanged("%a, %a offset=[0,0] : f32[2] of f32[4] {x}")),
          MISTAKE(Exchanged("%a, %a offset=[0,-3] : f32[4] of f32[8] {x}")),
          MISTAKE(Exchanged("%a, %a offset=[0,-4] stride=[2] : f32[4] of f32[8] {x}")),
          MISTAKE(Exchanged("%a offset=[-1] size=[4] extent=[3] : f32[3] of f32[6] {x}")),
          MISTAKE(Exchanged("%a offset=[-1] size=[4] extent=[3] : f32[4] of f32[8] {x}")),
          MISTAKE(Convolved("%h = exchange %a offset=[0,-1,0] size=[-1,4,-1] extent=[1,3,1]"
                            " : f32[2,4,1] of f32[2,8,1] {_,x,_}"
                            " %r = conv %h, %w : f32[2,2,1] of f32[2,4,1] {_,x,_}")),
          MISTAKE(after("%r = exp %h : f32[1,4,1] of f32[1,8,1] {_,x,_}")),
          MISTAKE(after("%r = conv %h, %w low=[1] high=[1] : f32[1,4,1] of f32[1,8,1] {_,x,_}")),
          MISTAKE(Convolved("%r = conv %a, %w low=[1] high=[1] : f32[1,2,1] of f32[1,4,1] {_,x,_}")),
          MISTAKE(Convolved("%h = exchange %a offset=[0,0,0] size=[-1,4,-1] extent=[1,3,1]"
                            " : f32[1,4,1] of f32[1,8,1] {_,x,_}"
                            " %r = conv %h, %w : f32[1,2,1] of f32[1,4,1] {_,x,_}")),
          MISTAKE(Convolved("%h = exchange %a offset=[0,-1,0] size=[1,4,-1] extent=[1,3,1]"
                            " : f32[1,4,1] of f32[1,8,1] {_,x,_}"
                            " %r = conv %h, %w : f32[1,2,1] of f32[1,4,1] {_,x,_}")),
          MISTAKE(Of("mesh [x=2] func f(%a: f32[4] {x}) { %r = reverse %a dims=[0] return r=%r }",
                     "mesh [x=2] func f(%a: f32[2] of f32[4] {x}) {"
                     " %r = reverse %a dims=[0] : f32[2] of f32[4] {x} return r=%r }")),
      });
}

TEST(VerifyErrors, ACompilerThatErrs) {
  const Graph global = Parse(kGlobal);
  // Stands in for a pass that loses an update.
  const CompileOptions errs = {.dump = [](std::string_view pass, const Graph& graph) {
    if (pass == "bucket_reductions") const_cast<Graph&>(graph).ClearUpdates();
  }};
  // And for one with a bug that shows itself.
  const CompileOptions breaks = {
      .wrong_pass = WrongPass::kRefuse,
      .dump = [](std::string_view pass, const Graph&) { MESHWORK_CHECK(pass != "bucket_reductions"); }};
  // The error without the parts that differ from run to run: the names of the saved program and the line of the CHECK.
  const auto compile = [&](const CompileOptions& options) {
    const absl::Status status = Compile(global, options).status();
    static const std::regex saved("The program is in (.*)\\.$"), line("verify_test.cc:\\d+");
    std::string message(MessageOf(status));
    if (std::smatch match; std::regex_search(message, match, saved)) {
      EXPECT_EQ(PrintGraph(ParseGraph(ReadFile(match[1].str()).value()).value()), PrintGraph(global));
      std::filesystem::remove(match[1].str());
      message.replace(match.position(1), match.length(1), "TMP/meshwork-bug-XXXXXX.mw");
    }
    return absl::Status(status.code(), std::regex_replace(message, line, "verify_test.cc:LINE"));
  };
  ExpectErrors("verify_compile", {MISTAKE(compile(errs)), MISTAKE(compile(breaks))});
}

TEST(VerifyErrors, OpsOnBlocks) {
  ExpectErrors(
      "verify_ops",
      {
          MISTAKE(OneOp("f32[4]", "exp %a", "f32[4] of f32[4] {_}", "tanh %a : f32[4] of f32[4] {_}")),
          MISTAKE(OneOp("f32[4]", "exp %a", "f32[4] of f32[4] {_}", "exp %a : f32[4] of f32[8] {x}")),
          MISTAKE(OneOp("f32[4]", "slice %a start=[0] limit=[2]", "f32[4] of f32[4] {_}",
                        "slice %a start=[1] limit=[3] : f32[2] of f32[2] {_}")),
          MISTAKE(StridedOneHot()),
          MISTAKE(OneOp("f32[8]", "exp %a", "f32[4] of f32[8] {4@x*2}", "exp %a : f32[4] of f32[8] {4*2@x}")),
          MISTAKE(OneOp("f32[4]", "exp %a", "f32[2] of f32[4] {x}", "exp %a : f32[2] of f32[4] {y}")),
          MISTAKE(OneOp("f32[1,4]", "broadcast_to %a shape=[4,4] dims=[0,1]", "f32[1,4] of f32[1,4] {x,_}",
                        "broadcast_to %a shape=[4,4] dims=[0,1] : f32[4,4] of f32[4,4] {_,_}")),
          MISTAKE(OneOp("f32[4]", "argmax %a dim=0", "f32[2] of f32[4] {x}",
                        "argmax %a dim=0 : i32[] of i32[] {}")),
          MISTAKE(
              Of("mesh [x=2, y=2] func f(%a: f32[4,3], %i: i32[6]) { %r = gather %a, %i dim=0 return r=%r }",
                 "mesh [x=2, y=2] func f(%a: f32[2,3] of f32[4,3] {x,_}, %i: i32[3] of i32[6] {x}) {"
                 " %r = gather %a, %i dim=0 : f32[3,3] of f32[6,3] {x,_} return r=%r }")),
          MISTAKE(Of("mesh [x=2, y=2] func f(%b: f32[4,4]) {"
                     " %s = reduce_sum %b dims=[0] %r = exp %s return r=%r }",
                     "mesh [x=2, y=2] func f(%b: f32[2,4] of f32[4,4] {x,_}) {"
                     " %s = reduce_sum %b dims=[0] : f32[4] of f32[4] {_ | sum:x}"
                     " %r = exp %s : f32[4] of f32[4] {_ | sum:x} return r=%r }")),
          MISTAKE(
              Of("mesh [x=2, y=2] func f(%b: f32[4,4,3], %i: i32[6]) {"
                 " %s = reduce_max %b dims=[0] %r = gather %s, %i dim=0 return r=%r }",
                 "mesh [x=2, y=2] func f(%b: f32[2,2,3] of f32[4,4,3] {y,x,_}, %i: i32[6] of i32[6] {_}) {"
                 " %s = reduce_max %b dims=[0] : f32[2,3] of f32[4,3] {x,_ | max:y}"
                 " %r = gather %s, %i dim=0 : f32[6,3] of f32[6,3] {_,_ | max:y} return r=%r }")),
          MISTAKE(NodeChanged(2,
                              [](Node&, auto& infos) {
                                infos[0].layout = infos[0].layout->WithPartials({{1, ReduceOp::kSum}});
                              })),
          MISTAKE(SumOfTwo("add %a, %b : f32[4] of f32[8] {x}", "r=%r")),
          MISTAKE(SumOfTwo("add %a, %b : f32[4] of f32[4] {_}", "r=%r")),
          MISTAKE(SumOfTwo("sub %b, %a : f32[4] of f32[4] {_} %n = neg %r : f32[4] of f32[4] {_}"
                           " %t = reshape %n shape=[2,2] : f32[2,2] of f32[2,2] {_,_}",
                           "r=%t")),
          MISTAKE(SumOfTwo("add %a, %c : f32[4] of f32[4] {_}", "r=%r")),
          MISTAKE(With("reduce_sum %m", "reduce_sum %p")),
          MISTAKE(With("dims=[0] op=sum : f32[3,4]", "dims=[0] op=max : f32[3,4]")),
      });
}

}  // namespace
}  // namespace meshwork::verify_test

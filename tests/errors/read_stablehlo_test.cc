// What ReadStableHlo does not read: texts that are no module, types that contradict each other, ops and forms of them
// that have no counterpart here.
#include "meshwork/stablehlo/read/read_stablehlo.h"

#include <string>
#include <string_view>
#include <utility>

#include "errors/errors.h"
#include "fmt/format.h"
#include "gtest/gtest.h"

namespace meshwork::read_stablehlo_errors {
namespace {

absl::Status Text(std::string_view text, const ReadStableHloOptions& options = {}) {
  return ReadStableHlo(text, options).status();
}

std::string Times(std::string_view text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

// A module of these ops.
std::string Module(std::string_view ops) {
  return fmt::format("\"builtin.module\"() ({{\n{}\n}}) : () -> ()\n", ops);
}
absl::Status Top(std::string_view ops) { return Text(Module(ops)); }
// An op with this attribute.
absl::Status Attribute(std::string_view value) {
  return Top(fmt::format(R"("op"() {{x = {}}} : () -> ())", value));
}

// "$add f32$": a region of two scalars, which returns what the op makes of them. "$ f32$": the second.
std::string WithRegions(std::string_view ops) {
  std::string all;
  for (size_t at = 0, end = 0; at < ops.size(); at = end + 1) {
    const size_t start = std::min(ops.find('$', at), ops.size());
    all += ops.substr(at, start - at);
    if (start == ops.size()) break;
    end = ops.find('$', start + 1);
    const size_t space = ops.find(' ', start);
    const std::string_view op = ops.substr(start + 1, space - start - 1),
                           element = ops.substr(space + 1, end - space - 1);
    const std::string made =
        op.empty()
            ? ""
            : fmt::format(R"(%r = "stablehlo.{0}"(%x, %y) : (tensor<{1}>, tensor<{1}>) -> tensor<{1}> )", op,
                          element);
    all += fmt::format(
        R"(({{^b(%x: tensor<{0}>, %y: tensor<{0}>): {1}"stablehlo.return"(%{2}) : (tensor<{0}>) -> ()}}))",
        element, made, op.empty() ? "y" : "r");
  }
  return all;
}

// A function that does these ops and returns the first of its arguments, of which there is at least one: "%a: tensor<4xf32>".
std::string Function(std::string_view name, std::string_view arguments, std::string_view ops,
                     std::string_view attributes = "") {
  const std::string_view first = arguments.substr(0, arguments.find(','));
  const size_t colon = first.find(':');
  return fmt::format(R"("func.func"() <{{sym_name = "{}"{}}}> ({{
^bb0({}):
{}
"func.return"({}) : ({}) -> ()
}}) : () -> ())",
                     name, attributes, arguments, WithRegions(ops), first.substr(0, colon),
                     first.substr(colon + 2));
}
absl::Status Main(std::string_view arguments, std::string_view ops) {
  return Top(Function("main", arguments, ops));
}

// ---- The text.

TEST(ReadStableHloErrors, Text) {
  ExpectErrors("read_stablehlo_text",
               {MISTAKE(Text("")),
                MISTAKE(Text("module @jit_f { func.func public @main() }")),
                MISTAKE(Text("\"func.func\"() : () -> ()")),
                MISTAKE(Text("\"builtin.module\"() : () -> ()")),
                MISTAKE(Text(Module("") + "\"more\"() : () -> ()")),
                MISTAKE(Text("#loc = loc(\"a.py\":1:2")),
                MISTAKE(Top("%0 = stablehlo.add %a, %b : tensor<4xf32>")),
                MISTAKE(Top("\"op")),
                MISTAKE(Top("\"op\"(%)")),
                MISTAKE(Top("\"op\"(%a#4096)")),
                MISTAKE(Top("%0:5000 = \"op\"() : () -> ()")),
                MISTAKE(Top("\"op\"()[^bb1]")),
                MISTAKE(Top("\"op\"(%a) : () -> ()")),
                MISTAKE(Top("\"op\"() : () -> f32")),
                MISTAKE(Top("\"op\"() : () f32")),
                MISTAKE(Top("\"op\"() : (,) -> ()")),
                MISTAKE(Top("\"op\"() ({^(%x: f32): }) : () -> ()")),
                MISTAKE(Top("\"op\"() ({ ^bb0: \"br\"() : () -> () ^bb1: }) : () -> ()")),
                {"65 regions", Top(Times("\"op\"() ({", 65))},
                {"65 lists", Attribute(Times("[", 65))},
                {"65 types", Attribute(Times("(", 65))},
                {"65 results", Attribute(Times("() -> ", 65) + "()")},
                MISTAKE(Attribute("@")),
                MISTAKE(Attribute("{=}")),
                MISTAKE(Attribute("array<>")),
                MISTAKE(Attribute("12_3")),
                MISTAKE(Attribute("99999999999999999999 : i64")),
                MISTAKE(Attribute("1.5.5 : f32")),
                MISTAKE(Attribute("!")),
                MISTAKE(Attribute("tensor<4x>")),
                MISTAKE(Attribute("tensor<99999999999999999999xf32>")),
                {"27 dims", Attribute("tensor<" + Times("1x", 27) + "f32>")},
                MISTAKE(Attribute("#stablehlo.gather<offset_dims = [1] // >\n>"))});
}

// ---- Types and constants.

absl::Status Constant(std::string_view value, std::string_view type) {
  return Main(
      "%a: tensor<f32>",
      fmt::format(R"(%0 = "stablehlo.constant"() <{{value = dense<{0}> : {1}}}> : () -> {1})", value, type));
}
// An op of JAX's with dims of this form.
absl::Status Reversed(std::string_view dims) {
  return Main("%a: tensor<4xf32>",
              fmt::format(R"(%0 = "stablehlo.reverse"(%a) {} : (tensor<4xf32>) -> tensor<4xf32>)", dims));
}

TEST(ReadStableHloErrors, Types) {
  const std::string list = Times("0, ", 65536) + "1";
  ExpectErrors(
      "read_stablehlo_types",
      {MISTAKE(Main("%a: tensor<4xcomplex<f32>>", "")),
       MISTAKE(Main("%a: !stablehlo.token", "")),
       MISTAKE(Main("%a: tensor<?x4xf32>", "")),
       MISTAKE(Main("%a: tensor<4000000000x4000000000xf32>", "")),
       {"a result of a type that is not read",
        Main("%a: tensor<f32>", R"(%0 = "stablehlo.convert"(%a) : (tensor<f32>) -> tensor<f8E4M3FN>)")},
       MISTAKE(Constant("", "tensor<2xf32>")),
       MISTAKE(Constant("1.0 2.0", "tensor<2xf32>")),
       MISTAKE(Constant("[1.0, 2.0]", "tensor<3xf32>")),
       MISTAKE(Constant("[1.0, 2.0", "tensor<2xf32>")),
       {"27 lists", Constant(Times("[", 27), "tensor<2xf32>")},
       MISTAKE(Constant("one", "tensor<f32>")),
       MISTAKE(Constant("0xFG", "tensor<f32>")),
       MISTAKE(Constant("1.5", "tensor<i32>")),
       MISTAKE(Constant("\"0x0\"", "tensor<f32>")),
       MISTAKE(Constant("\"0x0G\"", "tensor<f32>")),
       MISTAKE(Constant("\"0x0000\"", "tensor<f32>")),
       MISTAKE(Constant("\"0x0000\"", "tensor<4xi1>")),
       MISTAKE(Reversed("<{dimensions = dense<1> : tensor<1xindex>}>")),
       MISTAKE(Reversed("<{dimensions = dense<\"0x00\"> : tensor<1xindex>}>")),
       MISTAKE(Reversed("<{dimensions = dense<1> : tensor<?xi64>}>")),
       MISTAKE(Reversed("<{dimensions = dense<1> : tensor<105xi64>}>")),
       MISTAKE(Reversed("<{dimensions = 0 : i64}>")),
       MISTAKE(Reversed("<{dimensions = [0.5]}>")),
       MISTAKE(Reversed("")),
       {"a value of another type than the result",
        Main("%a: tensor<f32>",
             R"(%0 = "stablehlo.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<f32>)")},
       {"a value that the text leaves out",
        Main(
            "%a: tensor<f32>",
            R"(%0 = "stablehlo.constant"() <{value = dense_resource<__elided__> : tensor<2xf32>}> : () -> tensor<2xf32>)")},
       {"65537 elements", Constant("[" + list + "]", "tensor<65537xi32>")}});
}

// ---- Functions and ops.

constexpr std::string_view kOne = "%a: tensor<4xf32>", kTwo = "%a: tensor<4xf32>, %b: tensor<2xf32>";
constexpr std::string_view kWhole = "%a: tensor<4xui8>, %b: tensor<4xui64>, %c: tensor<4xui32>";

TEST(ReadStableHloErrors, Functions) {
  const std::string f = Function("f", "%a: tensor<4xf32>, %b: tensor<2xf32>", "") + "\n";
  const std::string recursive =
      R"(%0 = "func.call"(%a) <{callee = @main}> : (tensor<4xf32>) -> tensor<4xf32>)";
  const std::string thousand = Function(
      "f", "%a: tensor<f32>",
      Times("%0 = \"stablehlo.constant\"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>\n", 1000));
  const std::string million =
      Function("main", "%a: tensor<f32>",
               Times("%0 = \"func.call\"(%a) <{callee = @f}> : (tensor<f32>) -> tensor<f32>\n", 1000));
  ExpectErrors(
      "read_stablehlo_functions",
      {MISTAKE(Top(Function("f", kOne, ""))),
       MISTAKE(Top(R"("func.func"() <{sym_name = "main"}> ({ ^bb0(%a: tensor<f32>): }) : () -> ())")),
       {"no return", Top(R"("func.func"() <{sym_name = "main"}> ({
^bb0(%a: tensor<4xf32>):
%0 = "stablehlo.abs"(%a) : (tensor<4xf32>) -> tensor<4xf32>
}) : () -> ())")},
       {"two returns", Main(kOne, R"("func.return"() : () -> ())")},
       {"an operand that is not there",
        Main(kOne, R"(%0 = "stablehlo.abs"(%b) : (tensor<4xf32>) -> tensor<4xf32>)")},
       {"a result that is not there", Main(kOne, R"("func.return"(%b#1) : (tensor<4xf32>) -> ())")},
       {"an operand of another type",
        Main(kOne, R"(%0 = "stablehlo.abs"(%a) : (tensor<4xf64>) -> tensor<4xf64>)")},
       {"another result", Main(kOne, R"(%0 = "stablehlo.abs"(%a) : (tensor<4xf32>) -> tensor<4xf64>)")},
       {"no callee", Main(kOne, R"("func.call"() : () -> ())")},
       {"a callee that is not there", Main(kOne, R"("func.call"() <{callee = @g}> : () -> ())")},
       {"too few arguments",
        Top(f + Function("main", kOne, R"("func.call"(%a) <{callee = @f}> : (tensor<4xf32>) -> ())"))},
       {"an argument of another type",
        Top(f +
            Function(
                "main", kOne,
                R"(%0 = "func.call"(%a, %a) <{callee = @f}> : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>)"))},
       {"other results",
        Top(f + Function("main", kTwo,
                         R"("func.call"(%a, %b) <{callee = @f}> : (tensor<4xf32>, tensor<2xf32>) -> ())"))},
       {"recursion", Main(kOne, recursive)},
       {"a million ops", Top(thousand + "\n" + million)},
       {"a decomposition that is not there",
        Main(kOne,
             R"(%0 = "stablehlo.composite"(%a) <{name = "chlo.f"}> : (tensor<4xf32>) -> tensor<4xf32>)")}});
}

TEST(ReadStableHloErrors, Ops) {
  ExpectErrors(
      "read_stablehlo_ops",
      {{"no op", Main(kOne, R"(%0 = "stablehlo.fft"(%a) : (tensor<4xf32>) -> tensor<4xf32>)")},
       {"a library",
        Main(
            kOne,
            R"(%0 = "stablehlo.custom_call"(%a) <{call_target_name = "lapack_sgeqrf_ffi"}> : (tensor<4xf32>) -> tensor<4xf32>)")},
       {"two operands",
        Main(kOne, R"(%0 = "stablehlo.sine"(%a, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>)")},
       {"two shapes",
        Main(kTwo, R"(%0 = "stablehlo.add"(%a, %b) : (tensor<4xf32>, tensor<2xf32>) -> tensor<4xf32>)")},
       {"two dtypes",
        Main("%a: tensor<4xf32>, %b: tensor<4xi32>",
             R"(%0 = "stablehlo.add"(%a, %b) : (tensor<4xf32>, tensor<4xi32>) -> tensor<4xf32>)")},
       {"a quotient of ui64",
        Main(kWhole,
             R"(%0 = "stablehlo.divide"(%b, %b) : (tensor<4xui64>, tensor<4xui64>) -> tensor<4xui64>)")},
       {"ui64 as a real",
        Main(kWhole, R"(%0 = "stablehlo.convert"(%b) : (tensor<4xui64>) -> tensor<4xf32>)")},
       {"a shift of ui32",
        Main(
            kWhole,
            R"(%0 = "stablehlo.shift_right_arithmetic"(%c, %c) : (tensor<4xui32>, tensor<4xui32>) -> tensor<4xui32>)")},
       {"no direction",
        Main(kOne, R"(%0 = "stablehlo.compare"(%a, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>)")},
       {"no word",
        Main(
            kOne,
            R"(%0 = "stablehlo.compare"(%a, %a) {comparison_direction = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>)")},
       {"another direction",
        Main(
            kOne,
            R"(%0 = "stablehlo.compare"(%a, %a) {comparison_direction = #stablehlo<comparison_direction UP>, compare_type = #stablehlo<compare_type FLOAT>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>)")},
       {"the total order",
        Main(
            kOne,
            R"(%0 = "stablehlo.compare"(%a, %a) {comparison_direction = #stablehlo<comparison_direction LT>, compare_type = #stablehlo<compare_type TOTALORDER>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>)")},
       {"a predicate of another shape",
        Main(
            "%a: tensor<4xf32>, %p: tensor<2xi1>",
            R"(%0 = "stablehlo.select"(%p, %a, %a) : (tensor<2xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>)")},
       {"a choice of two types",
        Main(
            "%a: tensor<4xf32>, %b: tensor<4xf64>, %p: tensor<4xi1>",
            R"(%0 = "stablehlo.select"(%p, %a, %b) : (tensor<4xi1>, tensor<4xf32>, tensor<4xf64>) -> tensor<4xf32>)")},
       {"bits of another size",
        Main(kOne, R"(%0 = "stablehlo.bitcast_convert"(%a) : (tensor<4xf32>) -> tensor<4xi64>)")},
       {"the next of bf16",
        Main("%a: tensor<4xbf16>",
             R"(%0 = "chlo.next_after"(%a, %a) : (tensor<4xbf16>, tensor<4xbf16>) -> tensor<4xbf16>)")},
       {"an order that is computed",
        Main(kOne, R"(%0 = "chlo.polygamma"(%a, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>)")},
       {"too few dims",
        Main(
            kOne,
            R"(%0 = "stablehlo.broadcast_in_dim"(%a) <{broadcast_dimensions = array<i64>}> : (tensor<4xf32>) -> tensor<2x4xf32>)")},
       {"nothing to join",
        Main(kOne, R"(%0 = "stablehlo.concatenate"() <{dimension = 0 : i64}> : () -> tensor<4xf32>)")},
       {"no dim to join along",
        Main(kOne, R"(%0 = "stablehlo.concatenate"(%a) : (tensor<4xf32>) -> tensor<4xf32>)")},
       {"an iota along no dim",
        Main(kOne, R"(%0 = "stablehlo.iota"() <{iota_dimension = 3 : i64}> : () -> tensor<4xf32>)")}});
}

// ---- Products, reductions, orders.

TEST(ReadStableHloErrors, Products) {
  constexpr std::string_view kDot = "%a: tensor<4x3xf32>, %b: tensor<4x3xf32>",
                             kConv = "%x: tensor<3x8x8x2xf32>, %w: tensor<3x3x2x4xf32>";
  const auto dot = [&](std::string_view numbers) {
    return Main(
        kDot,
        fmt::format(
            R"(%0 = "stablehlo.dot_general"(%a, %b) <{{{}}}> : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x4xf32>)",
            numbers));
  };
  const auto conv = [&](std::string_view attributes) {
    return Main(
        kConv,
        fmt::format(
            R"(%0 = "stablehlo.convolution"(%x, %w) <{{{}}}> : (tensor<3x8x8x2xf32>, tensor<3x3x2x4xf32>) -> tensor<3x6x6x4xf32>)",
            attributes));
  };
  const std::string numbers = "dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>";
  ExpectErrors(
      "read_stablehlo_products",
      {MISTAKE(dot("")),
       MISTAKE(dot(
           "dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>")),
       MISTAKE(dot("dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [true]>")),
       MISTAKE(conv("")),
       MISTAKE(conv("dimension_numbers = #stablehlo.conv<raw>")),
       MISTAKE(conv("dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>")),
       MISTAKE(conv("dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f, ?]>")),
       MISTAKE(conv(numbers + ", window_strides = array<i64: 1>")),
       MISTAKE(conv(numbers + ", batch_group_count = 2 : i64")),
       MISTAKE(conv(numbers + ", lhs_dilation = array<i64: 0, 1>")),
       {"transpose_a",
        Main(
            "%a: tensor<4x4xf32>",
            R"(%0 = "stablehlo.triangular_solve"(%a, %a) <{lower = true, transpose_a = "NO_TRANSPOSE"}> : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>)")},
       {"lower",
        Main(
            "%a: tensor<4x4xf32>",
            R"(%0 = "stablehlo.cholesky"(%a) <{lower = 1 : i64}> : (tensor<4x4xf32>) -> tensor<4x4xf32>)")}});
}

TEST(ReadStableHloErrors, Reductions) {
  const auto reduce = [](std::string_view element, std::string_view first, std::string_view function) {
    return Main(
        fmt::format("%a: tensor<4x{}>", element),
        fmt::format(R"(%z = "stablehlo.constant"() <{{value = dense<{1}> : tensor<{0}>}}> : () -> tensor<{0}>
%0 = "stablehlo.reduce"(%a, %z) <{{dimensions = array<i64: 0>}}> ${2} {0}$ : (tensor<4x{0}>, tensor<{0}>) -> tensor<{0}>)",
                    element, first, function));
  };
  // The region takes (value, index, value, index).
  const auto extremum = [](std::string_view element, std::string_view first, std::string_view indices,
                           std::string_view returned) {
    return Main(fmt::format("%a: tensor<4x{}>, %n: tensor<4xi32>", element),
                fmt::format(R"(%i = "stablehlo.iota"() <{{iota_dimension = 0 : i64}}> : () -> tensor<4xi32>
%z = "stablehlo.constant"() <{{value = dense<{1}> : tensor<{0}>}}> : () -> tensor<{0}>
%j = "stablehlo.constant"() <{{value = dense<0> : tensor<i32>}}> : () -> tensor<i32>
%0:2 = "stablehlo.reduce"(%a, {2}, %z, %j) <{{dimensions = array<i64: 0>}}> ({{
^bb0(%x: tensor<{0}>, %k: tensor<i32>, %y: tensor<{0}>, %l: tensor<i32>):
%1 = "stablehlo.compare"(%x, %y) {{comparison_direction = #stablehlo<comparison_direction GT>}} : (tensor<{0}>, tensor<{0}>) -> tensor<i1>
%2 = "stablehlo.compare"(%x, %x) {{comparison_direction = #stablehlo<comparison_direction NE>}} : (tensor<{0}>, tensor<{0}>) -> tensor<i1>
%3 = "stablehlo.or"(%1, %2) : (tensor<i1>, tensor<i1>) -> tensor<i1>
%4 = "stablehlo.compare"(%x, %y) {{comparison_direction = #stablehlo<comparison_direction EQ>}} : (tensor<{0}>, tensor<{0}>) -> tensor<i1>
%5 = "stablehlo.compare"(%k, %l) {{comparison_direction = #stablehlo<comparison_direction LT>}} : (tensor<i32>, tensor<i32>) -> tensor<i1>
%6 = "stablehlo.and"(%4, %5) : (tensor<i1>, tensor<i1>) -> tensor<i1>
%7 = "stablehlo.or"(%3, %6) : (tensor<i1>, tensor<i1>) -> tensor<i1>
%8 = "stablehlo.select"(%3, %x, %y) : (tensor<i1>, tensor<{0}>, tensor<{0}>) -> tensor<{0}>
%9 = "stablehlo.select"(%7, %k, %l) : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
"stablehlo.return"(%8, {3}) : (tensor<{0}>, tensor<i32>) -> ()
}}) : (tensor<4x{0}>, tensor<4xi32>, tensor<{0}>, tensor<i32>) -> (tensor<{0}>, tensor<i32>))",
                            element, first, indices, returned));
  };
  ExpectErrors(
      "read_stablehlo_reductions",
      {MISTAKE(reduce("f32", "0.0", "divide")),
       MISTAKE(reduce("i32", "0", "and")),
       MISTAKE(reduce("ui32", "7", "maximum")),
       MISTAKE(extremum("ui32", "0", "%i", "%9")),
       MISTAKE(extremum("f32", "0xFF800000", "%i", "%k")),
       MISTAKE(extremum("f32", "0xFF800000", "%n", "%9")),
       MISTAKE(extremum("f32", "0.0", "%i", "%9")),
       {"nothing to sort", Main(kOne, R"("stablehlo.sort"() <{dimension = 0 : i64}> ({ }) : () -> ())")},
       {"no order",
        Main(
            kOne,
            R"(%0 = "stablehlo.sort"(%a) <{dimension = 0 : i64}> $add f32$ : (tensor<4xf32>) -> tensor<4xf32>)")},
       {"no k",
        Main(kOne, R"(%0:2 = "chlo.top_k"(%a) : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi32>))")}});
}

// ---- Windows.

TEST(ReadStableHloErrors, Windows) {
  const auto window = [](std::string_view type, std::string_view function, std::string_view first,
                         std::string_view attributes) {
    const std::string element(type.substr(type.rfind('x') + 1));
    return Main(
        fmt::format("%a: tensor<{}>", type),
        fmt::format(R"(%z = "stablehlo.constant"() <{{value = dense<{2}> : tensor<{1}>}}> : () -> tensor<{1}>
%0 = "stablehlo.reduce_window"(%a, %z) <{{{4}}}> ${3} {1}$ : (tensor<{0}>, tensor<{1}>) -> tensor<{0}>)",
                    type, element, first, function, attributes));
  };
  const auto scatter = [](std::string_view direction, std::string_view size) {
    return Main(
        "%a: tensor<4x4xf32>",
        fmt::format(R"(%z = "stablehlo.constant"() <{{value = dense<0.0> : tensor<f32>}}> : () -> tensor<f32>
%0 = "stablehlo.select_and_scatter"(%a, %a, %z) <{{window_dimensions = array<i64: {1}>}}> ({{
^bb0(%x: tensor<f32>, %y: tensor<f32>):
%1 = "stablehlo.compare"(%x, %y) {{comparison_direction = #stablehlo<comparison_direction {0}>}} : (tensor<f32>, tensor<f32>) -> tensor<i1>
"stablehlo.return"(%1) : (tensor<i1>) -> ()
}}, $add f32$) : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>)",
                    direction, size));
  };
  ExpectErrors("read_stablehlo_windows",
               {MISTAKE(window("4x4xf32", "add", "0.0", "window_dimensions = array<i64: 2>")),
                MISTAKE(window("4x4xf32", "add", "1.0", "window_dimensions = array<i64: 2, 2>")),
                MISTAKE(window("4x4xf32", "divide", "1.0", "window_dimensions = array<i64: 2, 2>")),
                MISTAKE(window("4x4xf32", "add", "0.0",
                               "window_dimensions = array<i64: 2, 2>, base_dilations = array<i64: 2, 2>")),
                MISTAKE(window("4x4x4x4xf32", "add", "0.0", "window_dimensions = array<i64: 2, 2, 2, 2>")),
                MISTAKE(window("4x4xf32", "multiply", "1.0", "window_dimensions = array<i64: 2, 2>")),
                MISTAKE(scatter("LT", "2, 2")), MISTAKE(scatter("GE", "1, 1"))});
}

// ---- Places.

TEST(ReadStableHloErrors, Indices) {
  // Of x: f32[4,6] at i: i32[4,2], and of u: f32[4,6].
  constexpr std::string_view kPlaces = "%x: tensor<4x6xf32>, %i: tensor<4x2xi32>, %u: tensor<4x6xf32>";
  const auto gather = [&](std::string_view numbers, std::string_view sizes) {
    return Main(
        kPlaces,
        fmt::format(
            R"(%0 = "stablehlo.gather"(%x, %i) <{{slice_sizes = array<i64: {1}>, dimension_numbers = #stablehlo.gather<{0}>}}> : (tensor<4x6xf32>, tensor<4x2xi32>) -> tensor<4xf32>)",
            numbers, sizes));
  };
  const auto scatter = [&](std::string_view function, std::string_view numbers) {
    return Main(
        kPlaces,
        fmt::format(
            R"(%0 = "stablehlo.scatter"(%x, %i, %u) <{{scatter_dimension_numbers = #stablehlo.scatter<{1}>}}> ${0} f32$ : (tensor<4x6xf32>, tensor<4x2xi32>, tensor<4x6xf32>) -> tensor<4x6xf32>)",
            function, numbers));
  };
  const auto slice = [](std::string_view sizes, std::string_view starts, std::string_view types) {
    return Main(
        "%x: tensor<4x6xf32>, %i: tensor<i32>, %v: tensor<2xi32>",
        fmt::format(
            R"(%0 = "stablehlo.dynamic_slice"(%x, {1}) <{{slice_sizes = array<i64: {0}>}}> : (tensor<4x6xf32>, {2}) -> tensor<2x6xf32>)",
            sizes, starts, types));
  };
  ExpectErrors(
      "read_stablehlo_indices",
      {{"no numbers",
        Main(kPlaces,
             R"(%0 = "stablehlo.gather"(%x, %i) : (tensor<4x6xf32>, tensor<4x2xi32>) -> tensor<4xf32>)")},
       MISTAKE(gather("start_index_map = [0, 2], index_vector_dim = 1", "1, 1")),
       MISTAKE(
           gather("start_index_map = [0, 1], operand_batching_dims = [0, 0], index_vector_dim = 1", "1, 1")),
       MISTAKE(gather("start_index_map = [0, 1], collapsed_slice_dims = [2], index_vector_dim = 1", "1, 1")),
       MISTAKE(gather("start_index_map = [0, 1], start_indices_batching_dims = [2], index_vector_dim = 1",
                      "1, 1")),
       MISTAKE(gather("start_index_map = [0, 1], index_vector_dim = 3", "1, 1")),
       MISTAKE(gather(
           "start_index_map = [0, 1], operand_batching_dims = [0], start_indices_batching_dims = [0], index_vector_dim = 1",
           "1, 1")),
       MISTAKE(gather("start_index_map = [0], index_vector_dim = 1", "1, 1")),
       MISTAKE(gather("start_index_map = [0, 1], index_vector_dim = 1", "5, 1")),
       MISTAKE(gather("start_index_map = [0, 1], collapsed_slice_dims = [0], index_vector_dim = 1", "1, 1")),
       MISTAKE(
           gather("start_index_map = [0, 1], collapsed_slice_dims = [0, 1], index_vector_dim = [1]", "1, 1")),
       MISTAKE(gather("start_index_map = [0, 1], collapsed_slice_dims = [@x], index_vector_dim = 1", "1, 1")),
       {"offset_dims",
        Main(
            kPlaces,
            R"(%0 = "stablehlo.gather"(%x, %i) <{slice_sizes = array<i64: 1, 1>, dimension_numbers = #stablehlo.gather<start_index_map = [0, 1], collapsed_slice_dims = [0], offset_dims = [2], index_vector_dim = 1>}> : (tensor<4x6xf32>, tensor<4x2xi32>) -> tensor<4x1xf32>)")},
       {"no numbers of a scatter",
        Main(
            kPlaces,
            R"(%0 = "stablehlo.scatter"(%x, %i, %u) $add f32$ : (tensor<4x6xf32>, tensor<4x2xi32>, tensor<4x6xf32>) -> tensor<4x6xf32>)")},
       MISTAKE(scatter("add", "update_window_dims = [2]")),
       MISTAKE(scatter("add", "scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1")),
       MISTAKE(scatter(
           "add",
           "update_window_dims = [1], scatter_dims_to_operand_dims = [0, 1], inserted_window_dims = [0, 1], index_vector_dim = 1")),
       MISTAKE(scatter(
           "divide",
           "update_window_dims = [1], scatter_dims_to_operand_dims = [0, 1], inserted_window_dims = [0], index_vector_dim = 1")),
       MISTAKE(scatter(
           "multiply",
           "update_window_dims = [1], scatter_dims_to_operand_dims = [0, 1], inserted_window_dims = [0], index_vector_dim = 1")),
       MISTAKE(slice("2", "%i", "tensor<i32>")),
       MISTAKE(slice("2, 7", "%i, %i", "tensor<i32>, tensor<i32>")),
       MISTAKE(slice("2, 6", "%v, %i", "tensor<2xi32>, tensor<i32>")),
       {"a slice of nothing", Main(kPlaces, R"(%0 = "stablehlo.dynamic_slice"() : () -> tensor<4x6xf32>)")},
       {"an update of nothing",
        Main(kPlaces,
             R"(%0 = "stablehlo.dynamic_update_slice"(%x) : (tensor<4x6xf32>) -> tensor<4x6xf32>)")}});
}

// ---- Loops and branches.

TEST(ReadStableHloErrors, Loops) {
  constexpr std::string_view kState = "%a: tensor<f32>, %p: tensor<i1>, %n: tensor<i32>";
  const auto loop = [&](std::string_view condition, std::string_view body) {
    return Main(kState, fmt::format(R"(%0 = "stablehlo.while"(%a) ({}, {}) : (tensor<f32>) -> tensor<f32>)",
                                    condition, body));
  };
  constexpr std::string_view kNot = R"({^bb0(%x: tensor<f32>): "stablehlo.return"(%p) : (tensor<i1>) -> ()})",
                             kSame =
                                 R"({^bb0(%x: tensor<f32>): "stablehlo.return"(%x) : (tensor<f32>) -> ()})",
                             kNone = R"({"stablehlo.return"() : () -> ()})",
                             kOther =
                                 R"({^bb0(%x: tensor<f64>): "stablehlo.return"(%x) : (tensor<f64>) -> ()})",
                             kBranch = R"({"stablehlo.return"(%a) : (tensor<f32>) -> ()})";
  // Counted to 3: the body is that of a scan.
  const auto counted = [](std::string_view body) {
    return Main(
        "%a: tensor<f32>, %n: tensor<i32>",
        fmt::format(R"(%i = "stablehlo.constant"() <{{value = dense<0> : tensor<i32>}}> : () -> tensor<i32>
%0:2 = "stablehlo.while"(%i, %a) ({{
^bb0(%j: tensor<i32>, %x: tensor<f32>):
%1 = "stablehlo.constant"() <{{value = dense<3> : tensor<i32>}}> : () -> tensor<i32>
%2 = "stablehlo.compare"(%j, %1) {{comparison_direction = #stablehlo<comparison_direction LT>}} : (tensor<i32>, tensor<i32>) -> tensor<i1>
"stablehlo.return"(%2) : (tensor<i1>) -> ()
}}, {{
^bb0(%j: tensor<i32>, %x: tensor<f32>):
%1 = "stablehlo.constant"() <{{value = dense<1> : tensor<i32>}}> : () -> tensor<i32>
%2 = "stablehlo.add"(%j, %1) : (tensor<i32>, tensor<i32>) -> tensor<i32>
{}
"stablehlo.return"(%2, %3) : (tensor<i32>, tensor<f32>) -> ()
}}) : (tensor<i32>, tensor<f32>) -> (tensor<i32>, tensor<f32>))",
                    body));
  };
  ExpectErrors(
      "read_stablehlo_loops",
      {MISTAKE(loop(kNone, kSame)),
       MISTAKE(loop(kNot, kOther)),
       MISTAKE(loop(kNot, R"({^bb0(%x: tensor<f32>): "stablehlo.return"() : () -> ()})")),
       MISTAKE(loop(R"({^bb0(%x: tensor<f32>): "stablehlo.return"(%x) : (tensor<f32>) -> ()})", kSame)),
       {"a branch that returns nothing",
        Main(kState, fmt::format(R"(%0 = "stablehlo.if"(%p) ({}, {}) : (tensor<i1>) -> tensor<f32>)", kNone,
                                 kBranch))},
       {"no branches", Main(kState, R"(%0 = "stablehlo.case"(%n) : (tensor<i32>) -> tensor<f32>)")},
       MISTAKE(counted(R"(%3 = "stablehlo.fft"(%x) : (tensor<f32>) -> tensor<f32>)")),
       MISTAKE(counted(
           R"(%3 = "stablehlo.constant"() <{value = dense<x> : tensor<f32>}> : () -> tensor<f32>)"))});
}

// ---- Layouts.

TEST(ReadStableHloErrors, Shardings) {
  const auto mesh = [](std::string_view mesh) {
    return fmt::format("\"sdy.mesh\"() <{{{}sym_name = \"mesh\"}}> : () -> ()\n", mesh);
  };
  const std::string square = mesh(R"(mesh = #sdy.mesh<["x"=2, "y"=2]>, )");
  const auto argument = [&](std::string_view attribute) {
    return Top(square +
               Function("main", "%a: tensor<4x6xf32>", "", fmt::format(", arg_attrs = [{{{}}}]", attribute)));
  };
  const auto tiles = [&](std::string_view tiles) {
    return argument(fmt::format("mhlo.sharding = \"{{{}}}\"", tiles));
  };
  const auto shardy = [&](std::string_view dims) {
    return argument(fmt::format("sdy.sharding = #sdy.sharding<{}>", dims));
  };
  const auto constraint = [&](std::string_view dims) {
    return Top(
        square +
        Function(
            "main", "%a: tensor<4x6xf32>",
            fmt::format(
                R"(%0 = "sdy.sharding_constraint"(%a) <{{sharding = {}}}> : (tensor<4x6xf32>) -> tensor<4x6xf32>)",
                dims)));
  };
  ExpectErrors("read_stablehlo_shardings",
               {MISTAKE(Top(mesh("") + Function("main", kOne, ""))),
                MISTAKE(Top(mesh("mesh = #sdy.mesh<[\"x\"=2, \"x\"=2]>, ") + Function("main", kOne, ""))),
                MISTAKE(Top(mesh("mesh = #sdy.mesh<[\"\"=2]>, ") + Function("main", kOne, ""))),
                MISTAKE(Top(square + mesh("mesh = #sdy.mesh<[\"x\"=4]>, ") + Function("main", kOne, ""))),
                MISTAKE(argument("sdy.sharding = \"\"")),
                MISTAKE(shardy("mesh<[]>")),
                MISTAKE(shardy("@, [{}, {}]")),
                MISTAKE(shardy("@mesh, [{\"\"}, {}]")),
                MISTAKE(shardy("@mesh, [{\"z\"}, {}]")),
                MISTAKE(shardy("@mesh, [{\"x\"}]")),
                MISTAKE(tiles("devices=[0,2]<=[4]")),
                MISTAKE(tiles("devices=[2,2]<=[8]")),
                MISTAKE(tiles("devices=[2,2]<=[2,2]T(1,1)")),
                MISTAKE(tiles("devices=[4]<=[4]")),
                MISTAKE(tiles("devices=[2,2]0,1,1,3")),
                MISTAKE(tiles("devices=[2,2]0,3,1,2")),
                MISTAKE(tiles("devices=[2,1]<=[2]")),
                MISTAKE(constraint("#sdy.sharding<@mesh, [{\"x\"}, {\"x\"}]>")),
                MISTAKE(constraint("#sdy.sharding<@mesh, [{\"x\":(3)2}, {}]>")),
                MISTAKE(constraint("\"x\""))});
}

// ---- Names.

TEST(ReadStableHloErrors, Names) {
  // f(params, batch) -> {"params": .., "loss": ..}.
  const auto read = [](const ReadStableHloOptions& options, std::string_view attributes = "") {
    return Text(
        Module(fmt::format(
            R"("func.func"() <{{sym_name = "main", res_attrs = [{{jax.result_info = "['params']['w']"}}, {{jax.result_info = "['loss']"}}]{}}}> ({{
^bb0(%a: tensor<4xf32> loc("params['w']"), %b: tensor<2xf32> loc("batch")):
"func.return"(%a, %b) : (tensor<4xf32>, tensor<2xf32>) -> ()
}}) : () -> ())",
            attributes)),
        options);
  };
  std::string many = "%a0: tensor<f32>";
  for (int a = 1; a < 10; ++a) many += fmt::format(", %a{}: tensor<f32>", a);
  ExpectErrors("read_stablehlo_names",
               {MISTAKE(read({.variables = {"weights"}})),
                MISTAKE(read({.updates = {{"weights", "params"}}})),
                MISTAKE(read({.updates = {{"params", "loss"}}})),
                MISTAKE(read({.updates = {{"batch", "params/w"}, {"params", "params"}}})),
                MISTAKE(read({.updates = {{"params/w", "loss"}}})),
                MISTAKE(read({.variables = {"weights"}, .file_name = "step.mlir"})),
                MISTAKE(read({}, ", arg_attrs = [{tf.aliasing_output = 2 : i32}]")),
                {"ten arguments", Text(Module(Function("main", many, "")), {.variables = {"weights"}})}});
}

}  // namespace
}  // namespace meshwork::read_stablehlo_errors

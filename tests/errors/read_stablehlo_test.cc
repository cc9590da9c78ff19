// What ReadStableHlo does not read: texts that are no module, types that contradict each other, ops and forms
// of them that have no counterpart here, layouts and names that fit nothing.
#include "meshwork/stablehlo/read/read_stablehlo.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "errors/errors.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
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

// "add f32" as a region of two scalars that returns what the op makes of them.
std::string RegionOf(std::string_view function) {
  const size_t space = function.find(' ');
  constexpr std::string_view kRegion = R"({{
^bb0(%x: tensor<{1}>, %y: tensor<{1}>):
%r = "stablehlo.{0}"(%x, %y) : (tensor<{1}>, tensor<{1}>) -> tensor<{1}>
"stablehlo.return"(%r) : (tensor<{1}>) -> ()
}})";
  return fmt::format(fmt::runtime(kRegion), function.substr(0, space), function.substr(space + 1));
}

// Ops in which regions stand as "$add f32$".
std::string WithRegions(std::string_view ops) {
  std::string all;
  for (size_t i = 0, at = 0; at <= ops.size(); ++i) {
    const size_t end = std::min(ops.find('$', at), ops.size());
    const std::string_view piece = ops.substr(at, end - at);
    if (i % 2 == 0) all += piece;
    else all += RegionOf(piece);
    at = end + 1;
  }
  return all;
}

// A function of these arguments, "%a: tensor<4xf32>, …": it does these ops and returns the first argument.
std::string Function(std::string_view name, std::string_view arguments, std::string_view ops,
                     std::string_view attributes = "") {
  constexpr std::string_view kFunction = R"("func.func"() <{{sym_name = "{}"{}}}> ({{
^bb0({}):
{}
"func.return"({}) : ({}) -> ()
}}) : () -> ()
)";
  const std::string_view first = arguments.substr(0, arguments.find(','));
  const size_t colon = first.find(':');
  return fmt::format(fmt::runtime(kFunction), name, attributes, arguments, WithRegions(ops),
                     first.substr(0, colon), first.substr(colon + 2));
}
absl::Status Main(std::string_view arguments, std::string_view ops) {
  return Top(Function("main", arguments, ops));
}

// An op of these operands, "4xf32, f32=0.5": an argument of main of this type, and a constant. Its attributes
// and regions are as MLIR writes them.
absl::Status Op(std::string_view name, std::string_view operands, std::string_view result,
                std::string_view attributes = "") {
  std::vector<std::string> arguments = {"%unused: tensor<f32>"}, names, types;
  std::string constants;
  while (!operands.empty()) {
    const size_t end = std::min(operands.find(", "), operands.size());
    const std::string_view operand = operands.substr(0, end);
    operands.remove_prefix(std::min(end + 2, operands.size()));
    const size_t equals = operand.find('=');
    types.push_back(fmt::format("tensor<{}>", operand.substr(0, equals)));
    names.push_back(fmt::format("%{}", names.size()));
    if (equals == std::string_view::npos)
      arguments.push_back(fmt::format("{}: {}", names.back(), types.back()));
    else
      constants += fmt::format("{0} = \"stablehlo.constant\"() <{{value = dense<{1}> : {2}}}> : () -> {2}\n",
                               names.back(), operand.substr(equals + 1), types.back());
  }
  return Main(fmt::format("{}", fmt::join(arguments, ", ")),
              fmt::format("{}%r = \"{}\"({}) {} : ({}) -> tensor<{}>", constants, name,
                          fmt::join(names, ", "), attributes, fmt::join(types, ", "), result));
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
                {"65 regions", Top(Times("\"op\"() ({", 65))}});
}

TEST(ReadStableHloErrors, Attributes) {
  ExpectErrors("read_stablehlo_attributes",
               {MISTAKE(Attribute("@")),
                MISTAKE(Attribute("{=}")),
                MISTAKE(Attribute("array<>")),
                MISTAKE(Attribute("12_3")),
                MISTAKE(Attribute("99999999999999999999 : i64")),
                MISTAKE(Attribute("1.5.5 : f32")),
                MISTAKE(Attribute("!")),
                MISTAKE(Attribute("tensor<4x>")),
                MISTAKE(Attribute("tensor<99999999999999999999xf32>")),
                MISTAKE(Attribute("#stablehlo.gather<offset_dims = [1] // >\n>")),
                {"27 dims", Attribute("tensor<" + Times("1x", 27) + "f32>")},
                {"65 lists", Attribute(Times("[", 65))},
                {"65 types", Attribute(Times("(", 65))}});
}

// ---- Types and constants.

absl::Status Constant(std::string_view value, std::string_view type) {
  return Op("stablehlo.constant", "", type, fmt::format("<{{value = dense<{}> : tensor<{}>}}>", value, type));
}
// Dims of an op in this form.
absl::Status Dims(std::string_view dims) {
  return Op("stablehlo.reverse", "4xf32", "4xf32", fmt::format("<{{dimensions = {}}}>", dims));
}

TEST(ReadStableHloErrors, Types) {
  ExpectErrors("read_stablehlo_types",
               {MISTAKE(Main("%a: tensor<4xcomplex<f32>>", "")),
                MISTAKE(Main("%a: !stablehlo.token", "")),
                MISTAKE(Main("%a: tensor<?x4xf32>", "")),
                MISTAKE(Main("%a: tensor<4000000000x4000000000xf32>", "")),
                MISTAKE(Constant("1.0", "f8E4M3FN")),
                MISTAKE(Constant("", "2xf32")),
                MISTAKE(Constant("1.0 2.0", "2xf32")),
                MISTAKE(Constant("[1.0, 2.0]", "3xf32")),
                MISTAKE(Constant("[1.0, 2.0", "2xf32")),
                MISTAKE(Constant("one", "f32")),
                MISTAKE(Constant("0xFG", "f32")),
                MISTAKE(Constant("1.5", "i32")),
                MISTAKE(Constant("\"0x0\"", "f32")),
                MISTAKE(Constant("\"0x0G\"", "f32")),
                MISTAKE(Constant("\"0x0000\"", "f32")),
                MISTAKE(Constant("\"0x0000\"", "4xi1")),
                MISTAKE(Op("stablehlo.constant", "", "f32", "<{value = dense<1> : tensor<i32>}>")),
                MISTAKE(Op("stablehlo.constant", "", "2xf32",
                           "<{value = dense_resource<__elided__> : tensor<2xf32>}>")),
                {"27 lists", Constant(Times("[", 27), "2xf32")},
                {"65537 elements", Constant("[" + Times("0, ", 65536) + "1]", "65537xi32")},
                MISTAKE(Dims("dense<1> : tensor<1xindex>")),
                MISTAKE(Dims("dense<\"0x00\"> : tensor<1xindex>")),
                MISTAKE(Dims("dense<1> : tensor<?xi64>")),
                MISTAKE(Dims("dense<1> : tensor<105xi64>")),
                MISTAKE(Dims("0 : i64")),
                MISTAKE(Dims("[0.5]"))});
}

// ---- Functions.

// Functions that call the one before them ten times: f3 makes a thousand calls of f0.
std::string Tens(int count) {
  std::string all;
  for (int i = 0; i <= count; ++i)
    all += Function(fmt::format("f{}", i), "%a: tensor<f32>",
                    Times(fmt::format("%0 = \"func.call\"(%a) <{{callee = @f{}}}> : (tensor<f32>) -> "
                                      "tensor<f32>\n",
                                      i - 1),
                          i == 0 ? 0 : 10));
  return all;
}
// A call from main, beside these functions.
absl::Status Call(std::string_view functions, std::string_view callee,
                  std::string_view types = "tensor<f32>") {
  const std::string_view operands = types.empty() ? "" : "%a";
  return Top(std::string(functions) + Function("main", "%a: tensor<f32>",
                                               fmt::format("\"func.call\"({}) <{{callee = {}}}> : ({}) -> ()",
                                                           operands, callee, types)));
}

TEST(ReadStableHloErrors, Functions) {
  const std::string f = Function("f", "%a: tensor<f32>", ""), g = Function("g", "%a: tensor<f64>", "");
  const std::string h =
      Function("h", "%a: tensor<f32>", "\"func.call\"(%a) <{callee = @h}> : (tensor<f32>) -> ()");
  ExpectErrors("read_stablehlo_functions",
               {MISTAKE(Top(f)),
                MISTAKE(Top("\"func.func\"() <{sym_name = \"main\"}> ({ }) : () -> ()")),
                MISTAKE(Main("%a: tensor<f32>", "\"func.return\"() : () -> ()")),
                MISTAKE(Main("%a: tensor<f32>", "\"func.return\"(%a#1) : (tensor<f32>) -> ()")),
                {"no return", Top(R"("func.func"() <{sym_name = "main"}> ({
^bb0(%a: tensor<f32>):
%0 = "stablehlo.abs"(%a) : (tensor<f32>) -> tensor<f32>
}) : () -> ())")},
                {"a result that its type does not hold", Main("%a: tensor<ui8>", R"(
%0 = "stablehlo.constant"() <{value = dense<300> : tensor<ui8>}> : () -> tensor<ui8>
"func.return"(%0) : (tensor<ui8>) -> ())")},
                MISTAKE(Call(f, "\"f\"")),
                MISTAKE(Call("", "@f")),
                MISTAKE(Call(f, "@f", "")),
                MISTAKE(Call(g, "@g")),
                MISTAKE(Call(f, "@f")),
                MISTAKE(Call(h, "@h")),
                {"calls of calls", Call(Tens(6), "@f6")}});
}

// ---- Ops.

std::string Compares(std::string_view direction, std::string_view type) {
  return fmt::format(
      "{{comparison_direction = #stablehlo<comparison_direction {}>,\n"
      "compare_type = #stablehlo<compare_type {}>}}",
      direction, type);
}

TEST(ReadStableHloErrors, Ops) {
  ExpectErrors(
      "read_stablehlo_ops",
      {MISTAKE(Op("stablehlo.fft", "4xf32", "4xf32")),
       MISTAKE(Op("stablehlo.custom_call", "4xf32", "4xf32", "<{call_target_name = \"lapack_sgeqrf_ffi\"}>")),
       MISTAKE(Main("%a: tensor<4xf32>", "%0 = \"stablehlo.abs\"(%b) : (tensor<4xf32>) -> tensor<4xf32>")),
       MISTAKE(Main("%a: tensor<4xf32>", "%0 = \"stablehlo.abs\"(%a) : (tensor<4xf64>) -> tensor<4xf64>")),
       MISTAKE(Op("stablehlo.sine", "4xf32, 4xf32", "4xf32")),
       MISTAKE(Op("stablehlo.transpose", "4x2xf32", "2x4xf32", "<{permutation = array<i64: 0, 1>}>")),
       MISTAKE(Op("stablehlo.add", "4xf32, 2xf32", "4xf32")),
       MISTAKE(Op("stablehlo.add", "4xf32, 4xi32", "4xf32")),
       MISTAKE(Op("stablehlo.divide", "4xui64, 4xui64", "4xui64")),
       MISTAKE(Op("stablehlo.convert", "4xui64", "4xf32")),
       MISTAKE(Op("stablehlo.shift_right_arithmetic", "4xui32, 4xui32", "4xui32")),
       MISTAKE(Op("stablehlo.count_leading_zeros", "4xui8", "4xui8")),
       MISTAKE(Op("stablehlo.popcnt", "4xi8", "4xi8")),
       MISTAKE(Op("stablehlo.shift_right_logical", "4xi8, 4xi8", "4xi8")),
       MISTAKE(Op("stablehlo.compare", "4xf32, 4xf32", "4xi1")),
       MISTAKE(Op("stablehlo.compare", "4xf32, 4xf32", "4xi1", "{comparison_direction = 1 : i32}")),
       MISTAKE(Op("stablehlo.compare", "4xf32, 4xf32", "4xi1", Compares("UP", "FLOAT"))),
       MISTAKE(Op("stablehlo.compare", "4xf32, 4xf32", "4xi1",
                  "{comparison_direction = #stablehlo<comparison_direction LT>, compare_type = \"FLOAT\"}")),
       MISTAKE(Op("stablehlo.select", "2xi1, 4xf32, 4xf32", "4xf32")),
       MISTAKE(Op("stablehlo.select", "4xi1, 4xf32, 4xf64", "4xf32")),
       MISTAKE(Op("stablehlo.bitcast_convert", "4xf32", "4xi64")),
       MISTAKE(Op("chlo.next_after", "4xbf16, 4xbf16", "4xbf16")),
       MISTAKE(Op("chlo.polygamma", "4xf32, 4xf32", "4xf32")),
       MISTAKE(Op("stablehlo.broadcast_in_dim", "4xf32", "2x4xf32", "<{broadcast_dimensions = array<i64>}>")),
       MISTAKE(Op("stablehlo.transpose", "4x2xf32", "2x4xf32")),
       MISTAKE(Op("stablehlo.concatenate", "", "4xf32", "<{dimension = 0 : i64}>")),
       MISTAKE(Op("stablehlo.concatenate", "4xf32", "4xf32")),
       MISTAKE(Op("stablehlo.iota", "", "4xf32", "<{iota_dimension = 3 : i64}>"))});
}

absl::Status Dot(std::string_view numbers) {
  return Op("stablehlo.dot_general", "4x3xf32, 4x3xf32", "4x4xf32",
            fmt::format("<{{dot_dimension_numbers =\n#stablehlo.dot<{}>}}>", numbers));
}
absl::Status Convolution(std::string_view numbers, std::string_view more = "") {
  return Op("stablehlo.convolution", "3x8x8x2xf32, 3x3x2x4xf32", "3x6x6x4xf32",
            fmt::format("<{{dimension_numbers =\n#stablehlo.conv<{}>{}}}>", numbers, more));
}

TEST(ReadStableHloErrors, Products) {
  constexpr std::string_view kNumbers = "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]";
  ExpectErrors("read_stablehlo_products",
               {MISTAKE(Op("stablehlo.dot_general", "4x3xf32, 4x3xf32", "4x4xf32")),
                MISTAKE(Dot("lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]")),
                MISTAKE(Dot("lhs_contracting_dimensions = [true]")),
                MISTAKE(Op("stablehlo.convolution", "3x8x8x2xf32, 3x3x2x4xf32", "3x6x6x4xf32")),
                MISTAKE(Convolution("raw")), MISTAKE(Convolution("[b, 0, f]x[0, i, o]->[b, 0, f]")),
                MISTAKE(Convolution("[b, 0, 1, f]x[0, 1, i, o]->[b, 0, ?, f]")),
                MISTAKE(Convolution(kNumbers, ", window_strides = array<i64: 1>")),
                MISTAKE(Convolution(kNumbers, ", batch_group_count = 2 : i64")),
                MISTAKE(Convolution(kNumbers, ", lhs_dilation = array<i64: 0, 1>")),
                MISTAKE(Op("stablehlo.cholesky", "4x4xf32", "4x4xf32", "<{lower = 1 : i64}>")),
                MISTAKE(Op("stablehlo.triangular_solve", "4x4xf32, 4x4xf32", "4x4xf32",
                           "<{transpose_a = \"NO_TRANSPOSE\"}>"))});
}

// ---- Reductions, orders, windows.

absl::Status Reduce(std::string_view element, std::string_view first, std::string_view function) {
  return Op("stablehlo.reduce", fmt::format("4x{0}, {0}={1}", element, first), element,
            fmt::format("<{{dimensions = array<i64: 0>}}>\n(${} {}$)", function, element));
}

// The largest element and its index, as JAX writes them; `indices` and `index` are %iota and %7 there.
absl::Status Argmax(std::string_view element, std::string_view first, std::string_view indices,
                    std::string_view index) {
  constexpr std::string_view kArguments = "%a: tensor<4x{0}>, %i: tensor<4xi32>";
  constexpr std::string_view kOps =
      R"(%first = "stablehlo.constant"() <{{value = dense<{1}> : {0}}}> : () -> {0}
%zero = "stablehlo.constant"() <{{value = dense<0> : tensor<i32>}}> : () -> tensor<i32>
%iota = "stablehlo.iota"() <{{iota_dimension = 0 : i64}}> : () -> tensor<4xi32>
%0:2 = "stablehlo.reduce"(%a, {2}, %first, %zero) <{{dimensions = array<i64: 0>}}> ({{
^bb0(%x: {0}, %i: tensor<i32>, %y: {0}, %j: tensor<i32>):
%1 = "stablehlo.compare"(%x, %y) {{comparison_direction = #stablehlo<comparison_direction GT>}}
  : ({0}, {0}) -> {4}
%2 = "stablehlo.compare"(%x, %x) {{comparison_direction = #stablehlo<comparison_direction NE>}}
  : ({0}, {0}) -> {4}
%3 = "stablehlo.or"(%1, %2) : ({4}, {4}) -> {4}
%4 = "stablehlo.compare"(%x, %y) {{comparison_direction = #stablehlo<comparison_direction EQ>}}
  : ({0}, {0}) -> {4}
%5 = "stablehlo.compare"(%i, %j) {{comparison_direction = #stablehlo<comparison_direction LT>}}
  : ({5}, {5}) -> {4}
%6 = "stablehlo.and"(%4, %5) : ({4}, {4}) -> {4}
%or = "stablehlo.or"(%3, %6) : ({4}, {4}) -> {4}
%value = "stablehlo.select"(%3, %x, %y) : ({4}, {0}, {0}) -> {0}
%7 = "stablehlo.select"(%or, %i, %j) : ({4}, {5}, {5}) -> {5}
"stablehlo.return"(%value, {3}) : ({0}, {5}) -> ()
}}) : ({6}, tensor<4xi32>, {0}, {5}) -> ({0}, {5}))";
  return Main(fmt::format(fmt::runtime(kArguments), element),
              fmt::format(fmt::runtime(kOps), fmt::format("tensor<{}>", element), first, indices, index,
                          "tensor<i1>", "tensor<i32>", fmt::format("tensor<4x{}>", element)));
}

TEST(ReadStableHloErrors, Reductions) {
  ExpectErrors(
      "read_stablehlo_reductions",
      {MISTAKE(Reduce("f32", "0.0", "divide")), MISTAKE(Reduce("i32", "0", "and")),
       MISTAKE(Reduce("ui32", "7", "maximum")), MISTAKE(Argmax("f32", "0xFF800000", "%iota", "%i")),
       MISTAKE(Argmax("f32", "0xFF800000", "%i", "%7")), MISTAKE(Argmax("f32", "0.0", "%iota", "%7")),
       MISTAKE(Main("%a: tensor<f32>", "\"stablehlo.sort\"() ({ }) : () -> ()")),
       MISTAKE(Op("stablehlo.sort", "4xf32", "4xf32", "($add f32$)")),
       MISTAKE(Main("%a: tensor<4xf32>",
                    "%0:2 = \"chlo.top_k\"(%a) : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi32>)"))});
}

absl::Status ReduceWindow(std::string_view type, std::string_view size, std::string_view first,
                          std::string_view function, std::string_view more = "") {
  return Op("stablehlo.reduce_window", fmt::format("{}, f32={}", type, first), type,
            fmt::format("<{{window_dimensions = array<i64: {}>{}}}>\n(${} f32$)", size, more, function));
}
absl::Status SelectAndScatter(std::string_view direction, std::string_view size) {
  constexpr std::string_view kRest = R"(<{{window_dimensions = array<i64: {1}>}}> ({{
^bb0(%x: tensor<f32>, %y: tensor<f32>):
%1 = "stablehlo.compare"(%x, %y) {{comparison_direction = #stablehlo<comparison_direction {0}>}}
  : (tensor<f32>, tensor<f32>) -> tensor<i1>
"stablehlo.return"(%1) : (tensor<i1>) -> ()
}}, $add f32$))";
  return Op("stablehlo.select_and_scatter", "4x4xf32, 4x4xf32, f32=0.0", "4x4xf32",
            fmt::format(fmt::runtime(kRest), direction, size));
}

TEST(ReadStableHloErrors, Windows) {
  ExpectErrors("read_stablehlo_windows",
               {MISTAKE(ReduceWindow("4x4xf32", "2", "0.0", "add")),
                MISTAKE(ReduceWindow("4x4xf32", "2, 2", "1.0", "add")),
                MISTAKE(ReduceWindow("4x4xf32", "2, 2", "1.0", "divide")),
                MISTAKE(ReduceWindow("4x4xf32", "2, 2", "1.0", "multiply")),
                MISTAKE(ReduceWindow("4x4xf32", "2, 2", "0.0", "add", ", base_dilations = array<i64: 2, 2>")),
                MISTAKE(ReduceWindow("4x4x4x4xf32", "2, 2, 2, 2", "0.0", "add")),
                MISTAKE(SelectAndScatter("LT", "2, 2")), MISTAKE(SelectAndScatter("GE", "1, 1"))});
}

// ---- Places.

absl::Status Gather(std::string_view numbers, std::string_view sizes = "1, 1",
                    std::string_view result = "4xf32") {
  return Op("stablehlo.gather", "4x6xf32, 4x2xi32", result,
            fmt::format("<{{slice_sizes = array<i64: {}>, dimension_numbers =\n#stablehlo.gather<{}>}}>",
                        sizes, numbers));
}
absl::Status Scatter(std::string_view numbers, std::string_view function = "add") {
  return Op("stablehlo.scatter", "4x6xf32, 4x2xi32, 4x6xf32", "4x6xf32",
            fmt::format("<{{scatter_dimension_numbers =\n#stablehlo.scatter<{}>}}>\n(${} f32$)", numbers,
                        function));
}
absl::Status DynamicSlice(std::string_view sizes, std::string_view starts) {
  return Op("stablehlo.dynamic_slice", fmt::format("4x6xf32, {}", starts), "2x6xf32",
            fmt::format("<{{slice_sizes = array<i64: {}>}}>", sizes));
}

TEST(ReadStableHloErrors, Indices) {
  const std::string row =
      "update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = ";
  ExpectErrors(
      "read_stablehlo_indices",
      {MISTAKE(Op("stablehlo.gather", "4x6xf32, 4x2xi32", "4xf32")),
       MISTAKE(Gather("start_index_map = [0, 2], index_vector_dim = 1")),
       MISTAKE(Gather("start_index_map = [0, 1], index_vector_dim = 1, operand_batching_dims = [0, 0]")),
       MISTAKE(Gather("start_index_map = [0, 1], index_vector_dim = 1, collapsed_slice_dims = [2]")),
       MISTAKE(Gather("start_index_map = [0, 1], index_vector_dim = 1, start_indices_batching_dims = [2]")),
       MISTAKE(Gather("start_index_map = [0, 1], index_vector_dim = 3")),
       MISTAKE(Gather("start_index_map = [0, 1], index_vector_dim = 1, operand_batching_dims = [0], "
                      "start_indices_batching_dims = [0]")),
       MISTAKE(Gather("start_index_map = [0], index_vector_dim = 1")),
       MISTAKE(Gather("start_index_map = [0, 1], index_vector_dim = [1]")),
       MISTAKE(Gather("start_index_map = [0, 1], index_vector_dim = 1, collapsed_slice_dims = [@x]")),
       MISTAKE(Gather("start_index_map = [0, 1], index_vector_dim = 1", "5, 1")),
       MISTAKE(Gather("start_index_map = [0, 1], index_vector_dim = 1, collapsed_slice_dims = [0]")),
       MISTAKE(Gather("start_index_map = [0, 1], index_vector_dim = 1, collapsed_slice_dims = [0], "
                      "offset_dims = [2]",
                      "1, 1", "4x1xf32")),
       MISTAKE(Op("stablehlo.scatter", "4x6xf32, 4x2xi32, 4x6xf32", "4x6xf32", "($add f32$)")),
       MISTAKE(Scatter("update_window_dims = [2]")),
       MISTAKE(Scatter("scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1")),
       MISTAKE(Scatter(
           "update_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1")),
       MISTAKE(Scatter(row + "[0, 1], index_vector_dim = 1", "divide")),
       MISTAKE(Scatter(row + "[0, 1], index_vector_dim = 1", "multiply")),
       MISTAKE(DynamicSlice("2", "i32")),
       MISTAKE(DynamicSlice("2, 7", "i32, i32")),
       MISTAKE(DynamicSlice("2, 6", "2xi32, i32")),
       MISTAKE(Op("stablehlo.dynamic_slice", "", "f32")),
       MISTAKE(Op("stablehlo.dynamic_update_slice", "f32", "f32"))});
}

// ---- Loops and branches.

absl::Status While(std::string_view condition, std::string_view body) {
  return Op("stablehlo.while", "f32", "f32", fmt::format("({{{}}},\n{{{}}})", condition, body));
}
// A loop that counts from 0 to 3, so that its body is read as that of a scan.
absl::Status Counted(std::string_view op) {
  constexpr std::string_view kLoop =
      R"(%zero = "stablehlo.constant"() <{{value = dense<0> : {0}}}> : () -> {0}
%0:2 = "stablehlo.while"(%zero, %a) ({{
^bb0(%i: {0}, %x: tensor<f32>):
%1 = "stablehlo.constant"() <{{value = dense<3> : {0}}}> : () -> {0}
%2 = "stablehlo.compare"(%i, %1) {{comparison_direction = #stablehlo<comparison_direction LT>}}
  : ({0}, {0}) -> tensor<i1>
"stablehlo.return"(%2) : (tensor<i1>) -> ()
}}, {{
^bb0(%i: {0}, %x: tensor<f32>):
%1 = "stablehlo.constant"() <{{value = dense<1> : {0}}}> : () -> {0}
%2 = "stablehlo.add"(%i, %1) : ({0}, {0}) -> {0}
%3 = {1} : (tensor<f32>) -> tensor<f32>
"stablehlo.return"(%2, %3) : ({0}, tensor<f32>) -> ()
}}) : ({0}, tensor<f32>) -> ({0}, tensor<f32>))";
  return Main("%a: tensor<f32>", fmt::format(fmt::runtime(kLoop), "tensor<i32>", op));
}

TEST(ReadStableHloErrors, Loops) {
  const std::string same = "^b(%x: tensor<f32>): \"stablehlo.return\"(%x) : (tensor<f32>) -> ()";
  const std::string none = "^b(%x: tensor<f32>): \"stablehlo.return\"() : () -> ()";
  ExpectErrors("read_stablehlo_loops",
               {MISTAKE(While("", same)), MISTAKE(While("^b(%x: tensor<f64>):", same)),
                MISTAKE(While(none, same)), MISTAKE(Counted("\"stablehlo.fft\"(%x)")),
                MISTAKE(Op("stablehlo.if", "i1", "f32", fmt::format("({{{0}}},\n{{{0}}})", none))),
                MISTAKE(Op("stablehlo.case", "i32", "f32"))});
}

// ---- Layouts.

std::string MeshOf(std::string_view axes) {
  return fmt::format("\"sdy.mesh\"() <{{mesh = #sdy.mesh<[{}]>, sym_name = \"mesh\"}}> : () -> ()\n", axes);
}
absl::Status Meshes(std::string_view meshes) {
  return Top(std::string(meshes) + Function("main", "%a: tensor<f32>", ""));
}
// An argument with this layout, on a mesh of 2 x 2.
absl::Status Sharded(std::string_view attribute) {
  return Top(MeshOf("\"x\"=2, \"y\"=2") +
             Function("main", "%a: tensor<4x6xf32>", "", fmt::format(", arg_attrs =\n[{{{}}}]", attribute)));
}
absl::Status Shardy(std::string_view sharding) {
  return Sharded(fmt::format("sdy.sharding = #sdy.sharding<{}>", sharding));
}
absl::Status Gspmd(std::string_view sharding) {
  return Sharded(fmt::format("mhlo.sharding = \"{{{}}}\"", sharding));
}

TEST(ReadStableHloErrors, Shardings) {
  ExpectErrors(
      "read_stablehlo_shardings",
      {MISTAKE(Meshes("\"sdy.mesh\"() : () -> ()\n")), MISTAKE(Meshes(MeshOf("\"x\"=2, \"x\"=2"))),
       MISTAKE(Meshes(MeshOf("\"\"=2"))), MISTAKE(Meshes(MeshOf("\"x\"=2") + MeshOf("\"x\"=4"))),
       MISTAKE(Sharded("sdy.sharding = \"\"")), MISTAKE(Shardy("mesh<[]>")), MISTAKE(Shardy("@, [{}, {}]")),
       MISTAKE(Shardy("@mesh, [{\"\"}, {}]")), MISTAKE(Shardy("@mesh, [{\"z\"}, {}]")),
       MISTAKE(Gspmd("devices=[0,2]<=[4]")), MISTAKE(Gspmd("devices=[2,2]<=[8]")),
       MISTAKE(Gspmd("devices=[2,2]<=[2,2]T(1,1)")), MISTAKE(Gspmd("devices=[4]<=[4]")),
       MISTAKE(Gspmd("devices=[2,2]0,1,1,3")), MISTAKE(Gspmd("devices=[2,2]0,3,1,2")),
       MISTAKE(
           Op("sdy.sharding_constraint", "4xf32", "4xf32", "<{sharding = #sdy.sharding<@mesh, [{\"x\"}]>}>")),
       MISTAKE(Op("sdy.sharding_constraint", "4xf32", "4xf32", "<{sharding = \"x\"}>"))});
}

// ---- Names.

// f(params, batch) -> {"params": …, "loss": …}.
absl::Status Named(const ReadStableHloOptions& options, std::string_view attributes = "") {
  constexpr std::string_view kFunction = R"("func.func"() <{{sym_name = "main", res_attrs =
[{{jax.result_info = "['params']['w']"}}, {{jax.result_info = "['loss']"}}]{}}}> ({{
^bb0(%a: tensor<4xf32> loc("params['w']"), %b: tensor<2xf32> loc("batch")):
"func.return"(%a, %b) : (tensor<4xf32>, tensor<2xf32>) -> ()
}}) : () -> ())";
  return Text(Module(fmt::format(fmt::runtime(kFunction), attributes)), options);
}

TEST(ReadStableHloErrors, Names) {
  std::string ten = "%a0: tensor<f32>";
  for (int a = 1; a < 10; ++a) ten += fmt::format(", %a{}: tensor<f32>", a);
  ExpectErrors("read_stablehlo_names",
               {MISTAKE(Named({.variables = {"weights"}})),
                MISTAKE(Named({.variables = {"weights"}, .file_name = "step.mlir"})),
                MISTAKE(Named({.updates = {{"weights", "params"}}})),
                MISTAKE(Named({.updates = {{"params", "loss"}}})),
                MISTAKE(Named({.updates = {{"batch", "params/w"}, {"params", "params"}}})),
                MISTAKE(Named({}, ",\narg_attrs = [{tf.aliasing_output = 2 : i32}]")),
                {"ten arguments", Text(Module(Function("main", ten, "")), {.variables = {"weights"}})}});
}

// ---- What contradicts itself.

// A function that calls the next one twice, and so on: 2^30 ops.
std::string Doubling() {
  std::string functions = Function("f30", "%a: tensor<f32>", "");
  for (int i = 0; i < 30; ++i)
    functions +=
        Function(fmt::format("f{}", i), "%a: tensor<f32>",
                 fmt::format("%0 = \"func.call\"(%a) <{{callee = @f{0}}}> : (tensor<f32>) -> tensor<f32>\n"
                             "%1 = \"func.call\"(%0) <{{callee = @f{0}}}> : (tensor<f32>) -> tensor<f32>",
                             i + 1));
  return functions + Function("main", "%a: tensor<f32>",
                              "%0 = \"func.call\"(%a) <{callee = @f0}> : (tensor<f32>) -> tensor<f32>");
}

TEST(ReadStableHloErrors, Contradictions) {
  const std::string main = Function("main", "%a: tensor<f32>", "");
  ExpectErrors(
      "read_stablehlo_contradictions",
      {MISTAKE(Text("#x = [1, 2]\n" + Module(main))),
       MISTAKE(Main(
           "%a: tensor<f32>",
           "%0 = \"stablehlo.constant\"() <{value = dense<0x1FFFFFFFF> : tensor<f32>}> : () -> tensor<f32>")),
       {"a scatter of bits",
        [] {
          return Op("stablehlo.scatter", "4xi32, 2x1xi32, 2xi32", "4xi32",
                    "<{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], "
                    "scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}>\n($and i32$)");
        }},
       MISTAKE(Op("stablehlo.convolution", "3x8x8x2xf32, 3x3x2x4xf32", "3x6x6x4xf32",
                  "<{dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>,\n"
                  "feature_group_count = -1 : i64}>")),
       MISTAKE(Op("stablehlo.reduce", "4xf32, 2xf32", "f32", "<{dimensions = array<i64: 0>}>\n($add f32$)")),
       MISTAKE(Op("stablehlo.reduce_window", "4x4xf32, f32=0.0", "4xf32",
                  "<{window_dimensions = array<i64: 1, 2>}>\n($add f32$)")),
       {"a source of another rank",
        [] {
          return Op("stablehlo.select_and_scatter", "4x4xf32, 4xf32, f32=0.0", "4x4xf32", R"(<{
window_dimensions = array<i64: 1, 2>}> ({
^bb0(%x: tensor<f32>, %y: tensor<f32>):
%1 = "stablehlo.compare"(%x, %y) {comparison_direction = #stablehlo<comparison_direction GE>}
  : (tensor<f32>, tensor<f32>) -> tensor<i1>
"stablehlo.return"(%1) : (tensor<i1>) -> ()
}, $add f32$))");
        }},
       {"a sort of 65 operands",
        [] {
          return Main(
              "%a: tensor<4xf32>",
              fmt::format(
                  "%0:65 = \"stablehlo.sort\"(%a{}) ({{ }})\n: (tensor<4xf32>{}) -> (tensor<4xf32>{})",
                  Times(", %a", 64), Times(", tensor<4xf32>", 64), Times(", tensor<4xf32>", 64)));
        }},
       MISTAKE(Op("stablehlo.reduce_precision", "4xf32", "4xf32",
                  "<{exponent_bits = 4 : i32, mantissa_bits = 3 : i32}>")),
       MISTAKE(Main("%a: tensor<f32>, %a: tensor<f32>", "")),
       MISTAKE(Op("stablehlo.optimization_barrier", "i32=1", "f32")),
       MISTAKE(Top(Doubling())),
       MISTAKE(
           Top(Function("main", "%a: tensor<4xf32>", "",
                        ", arg_attrs = [{sdy.sharding = #sdy.sharding<@mesh, [{}], unreduced={\"y\"}>}]"))),
       MISTAKE(Top(main + main)),
       MISTAKE(Top("\"func.func\"() <{sym_name = \"main\"}> ({\n^bb0(%a: tensor<f32>):\n"
                   "\"func.return\"(%b) : (tensor<f32>) -> ()\n}) : () -> ()"))});
}

}  // namespace
}  // namespace meshwork::read_stablehlo_errors

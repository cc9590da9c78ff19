// What ReadStableHlo does not read: texts that are no module, types that contradict each other, ops and forms of
// them that have no counterpart here, layouts and names that fit nothing.
#include <algorithm>
#include <string>
#include <string_view>

#include "errors/errors.h"
#include "fmt/format.h"
#include "gtest/gtest.h"
#include "meshwork/stablehlo/read/read_stablehlo.h"

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

// A function with these arguments, "%a: tensor<4xf32>, …", that does these ops and returns the first argument.
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

constexpr std::string_view kOne = "%a: tensor<4xf32>", kTwo = "%a: tensor<4xf32>, %b: tensor<2xf32>";
constexpr std::string_view kWhole = "%a: tensor<4xui64>, %b: tensor<4xui32>";

// ---- The text.

TEST(ReadStableHloErrors, Text) {
  ExpectErrors("read_stablehlo_text",
               {MISTAKE(Text("")), MISTAKE(Text("module @jit_f { func.func public @main() }")),
                MISTAKE(Text("\"func.func\"() : () -> ()")),
                MISTAKE(Text("\"builtin.module\"() : () -> ()")),
                MISTAKE(Text(Module("") + "\"more\"() : () -> ()")),
                MISTAKE(Text("#loc = loc(\"a.py\":1:2")),
                MISTAKE(Top("%0 = stablehlo.add %a, %b : tensor<4xf32>")), MISTAKE(Top("\"op")),
                MISTAKE(Top("\"op\"(%)")), MISTAKE(Top("\"op\"(%a#4096)")),
                MISTAKE(Top("%0:5000 = \"op\"() : () -> ()")), MISTAKE(Top("\"op\"()[^bb1]")),
                MISTAKE(Top("\"op\"(%a) : () -> ()")), MISTAKE(Top("\"op\"() : () -> f32")),
                MISTAKE(Top("\"op\"() : () f32")), MISTAKE(Top("\"op\"() : (,) -> ()")),
                MISTAKE(Top("\"op\"() ({^(%x: f32): }) : () -> ()")),
                MISTAKE(Top("\"op\"() ({ ^bb0: \"br\"() : () -> () ^bb1: }) : () -> ()")),
                {"65 regions", Top(Times("\"op\"() ({", 65))},
                {"65 lists", Attribute(Times("[", 65))},
                {"65 types", Attribute(Times("(", 65))}});
}

TEST(ReadStableHloErrors, Attributes) {
  ExpectErrors("read_stablehlo_attributes",
               {MISTAKE(Attribute("@")), MISTAKE(Attribute("{=}")), MISTAKE(Attribute("array<>")),
                MISTAKE(Attribute("12_3")), MISTAKE(Attribute("99999999999999999999 : i64")),
                MISTAKE(Attribute("1.5.5 : f32")), MISTAKE(Attribute("!")), MISTAKE(Attribute("tensor<4x>")),
                MISTAKE(Attribute("tensor<99999999999999999999xf32>")),
                MISTAKE(Attribute("#stablehlo.gather<offset_dims = [1] // >\n>")),
                {"27 dims", Attribute("tensor<" + Times("1x", 27) + "f32>")}});
}

// ---- Types and constants.

absl::Status Constant(std::string_view value, std::string_view type) {
  return Main("%a: tensor<f32>",
              fmt::format("%0 = \"stablehlo.constant\"() <{{value = {}}}> : () -> {}", value, type));
}
// An op with dims in this form.
absl::Status Reverse(std::string_view attributes) {
  return Main(kOne, fmt::format("%0 = \"stablehlo.reverse\"(%a) <{{{}}}> : (tensor<4xf32>) -> tensor<4xf32>",
                                attributes));
}

TEST(ReadStableHloErrors, Types) {
  ExpectErrors("read_stablehlo_types",
               {MISTAKE(Main("%a: tensor<4xcomplex<f32>>", "")), MISTAKE(Main("%a: !stablehlo.token", "")),
                MISTAKE(Main("%a: tensor<?x4xf32>", "")),
                MISTAKE(Main("%a: tensor<4000000000x4000000000xf32>", "")),
                MISTAKE(Constant("dense<1.0> : tensor<f8E4M3FN>", "tensor<f8E4M3FN>"))});
}

TEST(ReadStableHloErrors, Constants) {
  ExpectErrors("read_stablehlo_constants",
               {MISTAKE(Constant("dense<> : tensor<2xf32>", "tensor<2xf32>")),
                MISTAKE(Constant("dense<1.0 2.0> : tensor<2xf32>", "tensor<2xf32>")),
                MISTAKE(Constant("dense<[1.0, 2.0]> : tensor<3xf32>", "tensor<3xf32>")),
                MISTAKE(Constant("dense<[1.0, 2.0> : tensor<2xf32>", "tensor<2xf32>")),
                MISTAKE(Constant("dense<one> : tensor<f32>", "tensor<f32>")),
                MISTAKE(Constant("dense<0xFG> : tensor<f32>", "tensor<f32>")),
                MISTAKE(Constant("dense<1.5> : tensor<i32>", "tensor<i32>")),
                MISTAKE(Constant("dense<\"0x0\"> : tensor<f32>", "tensor<f32>")),
                MISTAKE(Constant("dense<\"0x0G\"> : tensor<f32>", "tensor<f32>")),
                MISTAKE(Constant("dense<\"0x0000\"> : tensor<f32>", "tensor<f32>")),
                MISTAKE(Constant("dense<\"0x0000\"> : tensor<4xi1>", "tensor<4xi1>")),
                MISTAKE(Constant("dense<1> : tensor<i32>", "tensor<f32>")),
                MISTAKE(Constant("dense_resource<__elided__> : tensor<2xf32>", "tensor<2xf32>")),
                {"27 lists", Constant("dense<" + Times("[", 27) + "> : tensor<2xf32>", "tensor<2xf32>")},
                {"65537 elements", Constant("dense<[" + Times("0, ", 65536) + "1]> : tensor<65537xi32>",
                                            "tensor<65537xi32>")}});
}

TEST(ReadStableHloErrors, Numbers) {
  ExpectErrors("read_stablehlo_numbers",
               {MISTAKE(Reverse("dimensions = dense<1> : tensor<1xindex>")),
                MISTAKE(Reverse("dimensions = dense<\"0x00\"> : tensor<1xindex>")),
                MISTAKE(Reverse("dimensions = dense<1> : tensor<?xi64>")),
                MISTAKE(Reverse("dimensions = dense<1> : tensor<105xi64>")),
                MISTAKE(Reverse("dimensions = 0 : i64")), MISTAKE(Reverse("dimensions = [0.5]")),
                MISTAKE(Reverse(""))});
}

// ---- Functions.

// A call of @f, in main, beside this @f.
absl::Status Calls(std::string_view f, std::string_view arguments, std::string_view types,
                   std::string_view results = "()") {
  return Top(std::string(f) +
             Function("main", kTwo,
                      fmt::format("{}\"func.call\"({}) <{{callee = @f}}> : ({}) -> {}",
                                  results == "()" ? "" : "%0 = ", arguments, types, results)));
}

TEST(ReadStableHloErrors, Functions) {
  const std::string f = Function("f", kTwo, "");
  const std::string recursive =
      Function("f", kOne, "%0 = \"func.call\"(%a) <{callee = @f}> : (tensor<4xf32>) -> tensor<4xf32>");
  // Six that call the one before them ten times.
  std::string ten_each = Function("f0", "%a: i1", "");
  for (int i = 1; i <= 6; ++i)
    ten_each += Function(fmt::format("f{}", i), "%a: i1",
                         Times(fmt::format("%0 = \"func.call\"(%a) <{{callee = @f{}}}> : (i1) -> i1\n", i - 1),
                               10));
  ten_each = "";
  for (int i = 0; i <= 6; ++i) {
    const std::string call =
        fmt::format("%0 = \"func.call\"(%a) <{{callee = @f{}}}> : (tensor<f32>) -> tensor<f32>\n", i - 1);
    ten_each += Function(i == 6 ? "main" : fmt::format("f{}", i), "%a: tensor<f32>", Times(call, i == 0 ? 0 : 10));
  }
  ExpectErrors(
      "read_stablehlo_functions",
      {MISTAKE(Top(f)), {"no ops", Top(R"("func.func"() <{sym_name = "main"}> ({ }) : () -> ())")},
       {"no return", Top(R"("func.func"() <{sym_name = "main"}> ({
^bb0(%a: tensor<f32>):
%0 = "stablehlo.abs"(%a) : (tensor<f32>) -> tensor<f32>
}) : () -> ())")},
       {"two returns", Main(kOne, R"("func.return"() : () -> ())")},
       {"a result that is not there", Main(kOne, R"("func.return"(%a#1) : (tensor<4xf32>) -> ())")},
       {"a result that its type does not hold", Main("%a: tensor<ui8>", R"(
%0 = "stablehlo.constant"() <{value = dense<300> : tensor<ui8>}> : () -> tensor<ui8>
"func.return"(%0) : (tensor<ui8>) -> ())")},
       MISTAKE(Calls("", "", "")), MISTAKE(Calls(f, "%a", "tensor<4xf32>")),
       MISTAKE(Calls(f, "%a, %a", "tensor<4xf32>, tensor<4xf32>")),
       MISTAKE(Calls(f, "%a, %b", "tensor<4xf32>, tensor<2xf32>")),
       MISTAKE(Calls(recursive, "%a", "tensor<4xf32>", "tensor<4xf32>")),
       {"a callee that is no symbol", Main(kOne, R"("func.call"() <{callee = "f"}> : () -> ())")},
       {"no decomposition", Main(kOne, R"("stablehlo.composite"() <{name = "chlo.f"}> : () -> ())")},
       {"a million calls", Top(ten_each)}});
}

// ---- Ops.

// An op with these operands and attributes, of such types.
absl::Status Unlike(std::string_view arguments, std::string_view op, std::string_view types) {
  return Main(arguments, fmt::format("%0 = \"{}\"{}", op, types));
}

}  // namespace
}  // namespace meshwork::read_stablehlo_errors

#include "ops/text.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "gtest/gtest.h"
#include "ops/ops.h"
#include "ops/row.h"
#include "support/sample.h"

namespace meshwork {
namespace {

// ---- Programs as the printer writes them.

constexpr std::string_view kPrograms[] = {
    // Nothing at all.
    R"(mesh []
func f() {
}
)",
    // A global program with pins, a variable, an update and named outputs.
    R"(mesh [batch=2, model=4]
func step(%x: f32[128,784] {batch,_},
     var %w: f32[784,700] {_,model},
     %labels: i32[128]) {
  %h = matmul %x, %w : f32[128,700]
  %0 = relu %h : f32[128,700] {batch,model}
  %1 = reduce_mean %0 dims=[1] keep_dims=true : f32[128,1]
  %2 = constant value=0.5 shape=[] : f32[]
  %3 = mul %w, %2 : f32[784,700]
  %4 = relayout %1 {_,_} : f32[128,1]
  update %w = %3
  return mean=%4, %0
}
)",
    // Every kind of attribute and every dtype.
    R"(mesh [x=2]
func attrs(%a: f64[2,3],
     %b: i64[4],
     %c: bool[]) {
  %0 = argmax %a dim=1 : i32[2]
  %1 = cast %b dtype=bool : bool[4]
  %2 = cast %a dtype=f32 : f32[2,3]
  %3 = matmul %a, %a transpose_b=true : f64[2,2]
  %4 = transpose %a permutation=[1,0] : f64[3,2]
  %5 = random_uniform seed=-7 stream=9223372036854775807 low=-1 high=1e-08 dtype=f64 shape=[2] : f64[2]
  %6 = select %c, %a, %a : f64[2,3]
  %7 = one_hot %b depth=3 dtype=i64 : i64[4,3]
  %8 = dimension_size %a dims=[] : f32[]
}
)",
    // Numbers that are hard to write.
    R"(mesh []
func numbers() {
  %0 = constant value=inf shape=[] : f32[]
  %1 = constant value=-inf shape=[] : f32[]
  %2 = constant value=nan shape=[] : f32[]
  %3 = constant value=1e-08 shape=[] : f32[]
  %4 = constant value=0.1 dtype=f64 shape=[] : f64[]
  %5 = constant value=-0 shape=[] : f32[]
  %6 = constant value=5e-324 dtype=f64 shape=[] : f64[]
  %7 = constant value=1.7976931348623157e+308 dtype=f64 shape=[0,3] : f64[0,3]
}
)",
    // Several results, names with every allowed character, a name that looks like a number.
    R"(mesh []
func adam(var %layer.0/w-1: f32[4],
     var %_m: f32[4],
     var %v: f32[4],
     %g: f32[4],
     %t: i64[]) {
  %0, %new.m, %1 = adam_update %layer.0/w-1, %g, %_m, %v, %t learning_rate=0.001 epsilon=1e-07 : f32[4], f32[4], f32[4]
  %2x = neg %0 : f32[4]
  update %layer.0/w-1 = %2x
  update %_m = %new.m
  update %v = %1
  return new/w.0=%2x
}
)",
    // A local program: blocks, partial values, every collective.
    R"(mesh [batch=2, model=4]
func local(%h: f32[64,175] of f32[128,700] {batch,model},
     %w: f32[175,500] of f32[700,500] {model,_},
     var %b: f32[500] {_}) {
  %0 = matmul %h, %w : f32[64,500] of f32[128,500] {batch,_ | sum:model}
  %1 = all_reduce %0 axes=(model) op=sum : f32[64,500] of f32[128,500] {batch,_}
  %2 = all_gather %1 axes=(batch) dim=0 : f32[128,500] {_,_}
  %3 = reduce_scatter %0 axes=(model) dim=1 op=sum : f32[64,125] of f32[128,500] {batch,model}
  %4 = all_to_all %3 axes=(model) from=1 to=0 : f32[16,500] of f32[128,500] {(batch,model),_}
  %5 = collective_permute %4 : f32[16,500] of f32[128,500] {(model,batch),_}
  %6 = shard_slice %b axes=(batch,model) dim=0 : f32[63] of f32[500] {(batch,model)}
  %7 = mask_padding %6 dims=[0] op=max : f32[63] of f32[500] {(batch,model)}
  %8, %9 = all_reduce %0, %0 axes=(model) op=sum : f32[64,500] of f32[128,500] {batch,_}, f32[64,500] of f32[128,500] {batch,_}
  update %b = %b
  return %2, y=%8
}
)",
    // Scalars owe reductions too.
    R"(mesh [a=2, b=3]
func scalars(%x: f32[2] of f32[4] {a}) {
  %0 = reduce_sum %x dims=[0] : f32[] {| sum:a}
  %1 = all_reduce %0 axes=(a) op=sum : f32[] {}
  return %1
}
)",
};

TEST(TextTest, PrintsWhatItRead) {
  for (std::string_view program : kPrograms) {
    const absl::StatusOr<Graph> graph = ParseGraph(program);
    ASSERT_TRUE(graph.ok()) << graph.status();
    EXPECT_EQ(PrintGraph(*graph), program);
  }
}

TEST(TextTest, ReadsAnySpacingCommentsAndLeftOutTypes) {
  const char* loose = R"(// A program.
  mesh[ x = 2 ]func f (%a:f32[2,3]{x,_},var%b :f32[ 3 ]  )  // its arguments
{ %c=add%a,%b // no type
%d   =   reduce_sum %c   keep_dims = true dims = [ 0 , 1 ] :
     f32[1,1]
  return%c , z = %d })";
  EXPECT_EQ(PrintGraph(ParseGraph(loose).value()),
            "mesh [x=2]\n"
            "func f(%a: f32[2,3] {x,_},\n"
            "     var %b: f32[3]) {\n"
            "  %c = add %a, %b : f32[2,3]\n"
            "  %d = reduce_sum %c dims=[0,1] keep_dims=true : f32[1,1]\n"
            "  return %c, z=%d\n"
            "}\n");
}

TEST(TextTest, RenumbersValues) {
  EXPECT_EQ(
      PrintGraph(ParseGraph("mesh [] func f(%x: f32[]) { %7 = neg %x %007 = neg %7 %h = neg %007 return %h }")
                     .value()),
      "mesh []\nfunc f(%x: f32[]) {\n  %0 = neg %x : f32[]\n  %1 = neg %0 : f32[]\n  %h = neg %1 : f32[]\n"
      "  return %h\n}\n");
}

TEST(TextTest, PrintsWhatABuilderMade) {
  Graph g(Mesh::Parse("batch=2,model=4").value());
  g.name = "train";
  const Value x = g.Input("x", F32, {8, 6}, {"batch", UNSHARDED});
  const Variable w = g.Var("w", {{F32, {6}}, nullptr}, {"model"});
  const Value y = Relayout(x * w, {UNSHARDED, {"model", "batch"}});
  g.Update(w, w * 0.5);
  g.Output("y", y);
  const char* expected = R"(mesh [batch=2, model=4]
func train(%x: f32[8,6] {batch,_},
     var %w: f32[6] {model}) {
  %0 = mul %x, %w : f32[8,6]
  %1 = relayout %0 {_,(model,batch)} : f32[8,6]
  %2 = constant value=0.5 shape=[] : f32[]
  %3 = mul %w, %2 : f32[6]
  update %w = %3
  return y=%1
}
)";
  EXPECT_EQ(PrintGraph(g), expected);
  EXPECT_EQ(PrintGraph(ParseGraph(expected).value()), expected);
  EXPECT_EQ(PrintNode(g, 1), "%1 = relayout %0 {_,(model,batch)} : f32[8,6]");
}

TEST(TextTest, NodesStandAtTheirLines) {
  const Graph g = ParseGraph("mesh []\nfunc f(\n  %x: f32[]) {\n\n  %0 =\n    neg %x\n}", "a/b.mw").value();
  EXPECT_EQ(g.nodes()[0].location.ToString(), "a/b.mw:6");
  EXPECT_EQ(g.value(g.nodes()[0].operands[0]).location.ToString(), "a/b.mw:3");
}

// ---- Errors: the text with an @ before the place.

struct Mistake {
  std::string_view text, message;
};

// `text` without its @, and what the error says of the place.
std::string ErrorAt(std::string_view marked, std::string_view message, std::string* text) {
  const size_t at = marked.find('@');
  *text = std::string(marked.substr(0, at)) + std::string(marked.substr(at + 1));
  size_t line_start = 0, line = 1;
  for (size_t i = 0; i < at; ++i) {
    if (marked[i] != '\n') continue;
    line_start = i + 1;
    ++line;
  }
  const std::string whole_line = text->substr(line_start, text->find('\n', line_start) - line_start);
  const size_t column = at - line_start;
  return fmt::format("p.mw:{}:{}: {}\n  {}\n  {}^", line, column + 1, message, whole_line,
                     std::string(column, ' '));
}

void ExpectErrors(const std::vector<Mistake>& mistakes, std::string_view before = "",
                  std::string_view after = "") {
  for (const Mistake& mistake : mistakes) {
    const std::string marked = std::string(before) + std::string(mistake.text) + std::string(after);
    ASSERT_NE(marked.find('@'), std::string::npos) << marked;
    std::string text;
    const std::string expected = ErrorAt(marked, mistake.message, &text);
    const absl::StatusOr<Graph> graph = ParseGraph(text, "p.mw");
    ASSERT_FALSE(graph.ok()) << text;
    EXPECT_EQ(MessageOf(graph.status()), expected);
    EXPECT_EQ(graph.status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(TextTest, PointsAtMistakesInTheFrame) {
  ExpectErrors({
      {"@", "expected \"mesh\", found the end."},
      {"@func f() {}", "expected \"mesh\", found 'f'."},
      {"mesh @x=2", "expected [, found 'x'."},
      {"mesh @[x=2\nfunc f() {}", "this [ is never closed."},
      {"mesh @[a=2, a=3]\nfunc f() {}",
       "Mesh: axis \"a\" appears twice in [a=2, a=3]; axis names must be unique."},
      {"mesh @[a=2,]\nfunc f() {}", "Mesh: \"[a=2,]\" ends with a comma."},
      {"mesh [a=2]\n@fun f() {}", "expected \"func\", found 'f'."},
      {"mesh [a=2]\nfunc @(%x: f32[]) {}", "expected a function name, found '('."},
      {"mesh [a=2]\nfunc f @{}", "expected (, found '{'."},
      {"mesh []\nfunc f(%x: f32[]) @%0 = neg %x }", "expected {, found '%'."},
      {"mesh []\nfunc f() {\n@", "expected %, update, return or }, found the end."},
      {"mesh []\nfunc f() {\n  @foo\n}", "expected %, update, return or }, found 'f'."},
      {"mesh []\nfunc f() {\n} @junk", "expected the end of the program, found 'j'."},
      {"mesh []\nfunc f(%x: f32[]) {\n  return %x\n  @%0 = neg %x\n}",
       "nothing follows return but }, found '%'."},
      {"mesh []\nfunc f(%x: f32[]) {\n  return %x\n  @return %x\n}",
       "expected %, update, return or }, found 'r'."},
  });
}

TEST(TextTest, PointsAtMistakesInArguments) {
  ExpectErrors(
      {
          {"@x: f32[4]", "expected %, found 'x'."},
          {"%@: f32[4]", "expected a value name, found ':'."},
          {"%@ x: f32[4]", "expected a value name, found ' '."},
          {"%@// a comment\nx: f32[4]", "expected a value name, found '/'."},
          {"@%1x: f32[4]", "argument %1x: a name is a letter followed by letters, digits and any of _ . / -"},
          {"%x @f32[4]", "expected :, found 'f'."},
          {"%x: @[4]", "expected a type like f32[4,6], found '['."},
          {"%x: @f32[4] {MATCH}",
           "layout {MATCH}: MATCH keeps a dim of what a relayout reads; here there is nothing to match."},
          {"%x: @f33[4]",
           "unknown dtype \"f33\"; one of f32, f64, bf16, i32, i64, bool; did you mean \"f32\"?"},
          {"%x: @bfloat16[4]", "unknown dtype \"bfloat16\"; one of f32, f64, bf16, i32, i64, bool."},
          {"%x: f32@, %y: f32[]", "expected [, found ','."},
          {"%x: f32[4,@]", "expected a whole number, found ']'."},
          {"%x: f32[4 @6]", "expected ], found '6'."},
          {"%x: f32[4@.5]", "expected ], found '.'."},
          {"%x: @f32[4,-1]", "f32[4,-1] has a negative size."},
          {"%x: @f32[1048576,1048577]", "f32[1048576,1048577] has more than 2^40 elements."},
          {"%x: f32[@9223372036854775808]", "this number does not fit 64 bits."},
          {"%x: f32[4] @{y}", "Layout {y}: mesh [x=2] has no axis \"y\"; did you mean \"x\"?"},
          {"%x: f32[4,4] @{x,x}", "Layout {x,x}: axis \"x\" appears twice; an axis shards one dim, once."},
          {"%x: f32[4] @{x;}",
           "Layout {x;}: expected } at column 3; a layout looks like {batch, _} or {(a,b), _ | sum:c}."},
          {"%x: @f32[4] {x,_}", "layout {x,_} has 2 dims, f32[4] has 1; give one entry per dim."},
          {"%x: f32[2] of f32[4]@", "a block needs its layout: expected {, found ')'."},
          {"%x: f32[4], @%x: f32[4]", "%x is defined twice; names are unique."},
          {"@%0: f32[4]", "argument %0 needs a name, not a number."},
          {"%x: f32[4] @; %y: f32[4]", "expected ), found ';'."},
          {"%x: f32[4], @", "expected %, found ')'."},
      },
      "mesh [x=2]\nfunc f(", ") {}\n");
  ExpectErrors({{"mesh [x=2]\nfunc f(%x: f32[4] @{x) (\n", "this { is never closed."}});
}

TEST(TextTest, PointsAtMistakesInNodes) {
  ExpectErrors(
      {
          {"%0 @neg %x", "expected =, found 'n'."},
          {"%0, @neg %x", "expected %, found 'n'."},
          {"%0 = @: f32[4]", "expected an op, found ':'."},
          {"%0 = @matmull %x, %x", "there is no op \"matmull\"; did you mean \"matmul\"?"},
          {"%0 = @fft %x", "there is no op \"fft\"."},
          {"%0 = neg @%xx", "%xx is not defined above; did you mean \"x\"?"},
          {"%0 = neg @%bias", "%bias is not defined above."},
          {"%0 = neg @%0", "%0 is not defined above; did you mean \"t\"?"},
          {"%0 = add %x, @4", "expected %, found '4'."},
          {"@%x = neg %x", "%x is defined twice; names are unique."},
          {"%0 = neg %x\n  @%0 = neg %x", "%0 is defined twice; names are unique."},
          {"@%0, %1, %0 = adam_update %w, %w, %w, %w, %t learning_rate=1",
           "%0 is defined twice; names are unique."},
          {"%0, %1 = @neg %x", "neg has 1 result; 2 names and 0 types are given."},
          {"%0 = @neg %x : f32[4], f32[4]", "neg has 1 result; 1 names and 2 types are given."},
          {"%0 = @adam_update %w, %w, %w, %w, %t learning_rate=1",
           "adam_update has 3 results; 1 names and 0 types are given."},
          {"%0 = @neg %x : f32[5]", "neg: the result is f32[4], not f32[5]."},
          {"%0 = @neg %x : f64[4]", "neg: the result is f32[4], not f64[4]."},
          {"%0 = neg %x : @f33[4]",
           "unknown dtype \"f33\"; one of f32, f64, bf16, i32, i64, bool; did you mean \"f32\"?"},
          {"%0 = neg %x : f32[4] @{y}", "Layout {y}: mesh [x=2] has no axis \"y\"; did you mean \"x\"?"},
          {"%0 = @neg", "neg (p.mw:3): takes 1 operand, got 0."},
          {"%0 = @neg %x, %x", "neg (p.mw:3): takes 1 operand, got 2."},
          {"%0 = @matmul %x, %w",
           "matmul (p.mw:3): takes matrices, got f32[4] and f32[4]; reshape a vector to a matrix of one row "
           "or one column."},
          {"%0 = @reduce_sum %x", "reduce_sum (p.mw:3): attribute \"dims\" is missing."},
      },
      "mesh [x=2]\nfunc f(%x: f32[4], var %w: f32[4], %t: i64[]) {\n  ", "\n}\n");
}

TEST(TextTest, PointsAtMistakesInAttributes) {
  ExpectErrors(
      {
          {"reduce_sum %x @dim=[0]", "reduce_sum has no attribute \"dim\"; did you mean \"dims\"?"},
          {"neg %x @slope=1", "neg has no attribute \"slope\"."},
          {"neg %x @slope", "expected %, update, return or }, found 's'."},
          {"reduce_sum %x dims=[0] @dims=[0]", "attribute \"dims\" is given twice."},
          {"reduce_sum %x dims=@0", "expected [, found '0'."},
          {"reduce_sum %x dims=[0@}", "expected ], found '}'."},
          {"reduce_sum %x dims=[0] keep_dims=@yes", "expected true or false, found 'y'."},
          {"argmax %x dim=@x", "expected a whole number, found 'x'."},
          {"argmax %x dim=@-9223372036854775809", "this number does not fit 64 bits."},
          {"constant shape=[] value=@abc", "expected a number, found 'a'."},
          {"constant shape=[] value=@1e999", "this number does not fit a double."},
          {"cast %x dtype=@[", "expected a dtype, found '['."},
          {"cast %x dtype=@f33",
           "unknown dtype \"f33\"; one of f32, f64, bf16, i32, i64, bool; did you mean \"f32\"?"},
          {"relayout %x @{y}", "Layout {y}: mesh [x=2] has no axis \"y\"; did you mean \"x\"?"},
          {"relayout %x {x} @{_}", "attribute \"layout\" is given twice."},
          {"relayout %x layout={x} @{_}", "attribute \"layout\" is given twice."},
          {"relayout %x layout=@3", "expected {, found '3'."},
          {"neg %x @{x}", "neg takes no layout here, found '{'."},
          {"all_reduce %x axes=@x op=sum", "expected (, found 'x'."},
          {"all_reduce %x axes=(@) op=sum", "expected an axis name, found ')'."},
          {"all_reduce %x axes=(@y) op=sum", "mesh [x=2] has no axis \"y\"; did you mean \"x\"?"},
          {"all_reduce %x axes=(x,@x) op=sum", "axis \"x\" appears twice."},
          {"all_reduce %x axes=(x @op=sum", "expected ), found 'o'."},
          {"all_reduce %x axes=(x) op=@mean",
           "unknown reduction \"mean\"; one of sum, max, min, prod, and, or."},
          {"all_reduce %x axes=(x) op=@(", "expected a reduction, found '('."},
      },
      "mesh [x=2]\nfunc f(%x: f32[4]) {\n  %0 = ", "\n}\n");
}

TEST(TextTest, PointsAtMistakesInUpdatesAndReturns) {
  ExpectErrors(
      {
          {"update @%x = %w", "%x is not a variable."},
          {"%0 = neg %x\n  update @%0 = %x", "%0 is not a variable."},
          {"update @%w = %t", "%w is f32[4], its new value i64[]; they must agree."},
          {"update %w = %x\n  update @%w = %x", "%w is updated twice."},
          {"update %w @%x", "expected =, found '%'."},
          {"update %w = @%y", "%y is not defined above; did you mean \"t\"?"},
          {"update @w = %x", "expected %, found 'w'."},
          {"return @=%x", "expected %value or name=%value, found '='."},
          {"return @1st=%x",
           "output \"1st\": a name is a letter followed by letters, digits and any of _ . / -"},
          {"return y @%x", "expected =, found '%'."},
          {"return @%loss", "%loss is not defined above."},
          {"return y=%x, @y=%x", "output \"y\" is returned twice."},
      },
      "mesh [x=2]\nfunc f(%x: f32[4], var %w: f32[4], %t: i64[]) {\n  ", "\n}\n");
}

// ---- Local programs.

TEST(TextTest, PointsAtMistakesInLocalNodes) {
  ExpectErrors(
      {
          {"%0 = @all_reduce %p axes=(x) op=sum",
           "all_reduce: in a local program every result says its type and layout."},
          {"%0 = @matmul %h : f32[2,2] of f32[4,2] {x,_}", "matmul: takes 2 operands, got 1."},
          {"%0 = @all_gather %h, %h axes=(x) dim=0 : f32[4,6] {_,_}", "all_gather: takes 1 operand, got 2."},
          {"update @%v = %h", "%v is f32[4,6], its new value f32[2,6] of f32[4,6]; they must agree."},
          {"%0 = @all_gather %h dim=0 : f32[4,6] {_,_}", "all_gather: attribute \"axes\" is missing."},
          {"%0 = @all_reduce %p, %p axes=(x) op=sum : f32[4,6] {_,_}",
           "all_reduce has 2 results; 1 names and 1 types are given."},
      },
      "mesh [x=2, y=3]\nfunc f(%h: f32[2,6] of f32[4,6] {x,_}, %p: f32[4,6] {_,_ | sum:x}, var %v: f32[4,6]) "
      "{\n  ",
      "\n}\n");
}

TEST(TextTest, RejectsLocalProgramsThatDoNotFitTheirLayouts) {
  ExpectErrors(
      {
          // Types, blocks, layouts.
          {"%0 = @neg %h : f32[3,6] of f32[4,6] {x,_}", "f32[3,6] is not the block of f32[4,6] under {x,_}."},
          {"%0 = @neg %h : f32[2,6] of f64[4,6] {x,_}", "f32[2,6] is not the block of f64[4,6] under {x,_}."},
          {"%0 = neg %h : @f32[2,6] of f32[4] {x,_}",
           "layout {x,_} has 2 dims, the shape [4] has 1; give one entry per dim."},
          {"%0 = @neg %h : f32[2,6] {x,_}", "f32[2,6] is not the block of f32[2,6] under {x,_}."},
          {"%0 = @reduce_sum %h dims=[1] : f32[1] of f32[2] {x}",
           "reduce_sum: on blocks the result is f32[2], not f32[1]."},
          {"%0 = @relayout %h {_,_} : f32[2,6] of f32[4,6] {x,_}",
           "relayout: has no meaning in a local program; write the collectives instead."},
          {"update @%v = %p", "%v is {_,_}, its new value {_,_ | sum:x}; the layouts must agree."},
          // Collectives.
          {"%0 = @all_reduce %h axes=(x) op=sum : f32[2,6] of f32[4,6] {x,_}",
           "all_reduce: the operand {x,_} owes no sum over axis \"x\"."},
          {"%0 = @all_reduce %p axes=(x) op=and : f32[4,6] {_,_}",
           "all_reduce: and combines bools, not f32[4,6]; sum, max, min and prod combine numbers."},
          {"%0 = @all_reduce %b axes=(x) op=max : bool[4] {_}",
           "all_reduce: max combines numbers, not bool[4]; and and or combine bools."},
          {"%0 = @all_reduce %b axes=(x) op=and : bool[4] {_}",
           "all_reduce: the operand {_ | or:x} owes no and over axis \"x\"."},
          {"%0 = @reduce_scatter %b axes=(x) dim=0 op=sum : bool[2] of bool[4] {x}",
           "reduce_scatter: sum combines numbers, not bool[4]; and and or combine bools."},
          {"%0 = @reduce_scatter %p axes=(x) dim=0 op=or : f32[2,6] of f32[4,6] {x,_}",
           "reduce_scatter: or combines bools, not f32[4,6]; sum, max, min and prod combine numbers."},
          {"%0 = @mask_padding %h dims=[0] op=and : f32[2,6] of f32[4,6] {x,_}",
           "mask_padding: and combines bools, not f32[2,6]; sum, max, min and prod combine numbers."},
          {"%0 = @mask_padding %b dims=[0] op=prod : bool[4] {_ | or:x}",
           "mask_padding: prod combines numbers, not bool[4]; and and or combine bools."},
          {"%0 = reduce_sum %h dims=[0] : @f32[6] {_ | or:x}",
           "layout {_ | or:x}: or combines bools, not f32[6]; sum, max, min and prod combine numbers."},
          {"%0 = reduce_any %b dims=[0] : @bool[] {| max:x}",
           "layout {| max:x}: max combines numbers, not bool[]; and and or combine bools."},
          {"%0 = @all_reduce %p axes=(x) op=max : f32[4,6] {_,_}",
           "all_reduce: the operand {_,_ | sum:x} owes no max over axis \"x\"."},
          {"%0 = @all_reduce %p axes=(x) op=sum : f32[4,6] {_,_ | sum:x}",
           "all_reduce: the result must be f32[4,6] of f32[4,6] {_,_}, not f32[4,6] of f32[4,6] {_,_ | "
           "sum:x}."},
          {"%0 = @all_gather %h axes=(x) dim=1 : f32[4,6] {_,_}",
           "all_gather: axes (x) are not the minor axes of dim 1 of {x,_}."},
          {"%0 = @all_gather %h axes=(x) dim=2 : f32[4,6] {_,_}", "all_gather: dim 2 is not in {x,_}."},
          {"%0 = @all_gather %h axes=(x) dim=0 : f32[8,6] {_,_}",
           "all_gather: the result must be f32[4,6] of f32[4,6] {_,_}, not f32[8,6] of f32[8,6] {_,_}."},
          {"%0 = @shard_slice %h axes=(x) dim=1 : f32[2,3] of f32[4,6] {_,x}",
           "f32[2,3] is not the block of f32[4,6] under {_,x}."},
          {"%0 = @shard_slice %h axes=(x) dim=1 : f32[4,3] of f32[4,6] {_,x}",
           "shard_slice: axes (x) are already used in {x,_}."},
          {"%0 = @shard_slice %h axes=(y) dim=-1 : f32[2,2] of f32[4,6] {x,y}",
           "shard_slice: dim -1 is not in {x,_}."},
          {"%0 = @reduce_scatter %p axes=(x) dim=3 op=sum : f32[2,6] of f32[4,6] {x,_}",
           "reduce_scatter: dim 3 is not in {_,_}."},
          {"%0 = @all_to_all %h axes=(y) from=0 to=1 : f32[4,2] of f32[4,6] {_,y}",
           "all_to_all: axes (y) are not the minor axes of dim 0 of {x,_}."},
          {"%0 = @mask_padding %h dims=[2] op=sum : f32[2,6] of f32[4,6] {x,_}",
           "mask_padding: dim 2 is not in {x,_}."},
          {"%0 = @collective_permute %h : f32[4,3] of f32[4,6] {_,x}",
           "collective_permute: operand and result must have the same types."},
          {"%0 = @collective_permute %q : f32[2,6] of f32[4,6] {y,_}",
           "collective_permute: blocks of {x,_} are not blocks of {y,_} along dim 0."},
          {"%0 = @neg %h", "neg: in a local program every result says its type and layout."},
      },
      "mesh [x=2, y=3]\nfunc f(%h: f32[2,6] of f32[4,6] {x,_}, %p: f32[4,6] {_,_ | sum:x}, %q: f32[2,6] of "
      "f32[4,6] {x,_}, %b: bool[4] {_ | or:x}, var %v: f32[4,6]) {\n  ",
      "\n}\n");
}

// ---- Numbers.

TEST(TextTest, NumbersReadBackBitByBit) {
  const double numbers[] = {0.0,
                            -0.0,
                            0.1,
                            1.0 / 3,
                            1e-310,
                            -5e-324,
                            2.2250738585072014e-308,
                            1e22,
                            1e23,
                            123456789012345678.0,
                            1.7976931348623157e308,
                            std::numeric_limits<double>::infinity(),
                            -std::numeric_limits<double>::infinity(),
                            std::numeric_limits<double>::quiet_NaN(),
                            std::nextafter(1.0, 2.0),
                            static_cast<double>(0.1f)};
  for (double number : numbers) {
    Graph g(Mesh::Parse("").value());
    g.TryAdd(GetOp("constant"), {}, {{"value", number}, {"shape", std::vector<int64_t>{}}}, {}).value();
    const Graph read = ParseGraph(PrintGraph(g)).value();
    EXPECT_TRUE(SameAttr(*read.nodes()[0].attrs.Find("value"), number)) << PrintGraph(g);
  }
  for (int64_t number :
       {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max(), int64_t{-1}}) {
    Graph g(Mesh::Parse("").value());
    g.TryAdd(GetOp("random_uniform"), {}, {{"seed", number}, {"shape", std::vector<int64_t>{2}}}, {}).value();
    EXPECT_EQ(ParseGraph(PrintGraph(g)).value().nodes()[0].attrs.Get<int64_t>("seed"), number);
  }
}

// A default that is 0 must not hide a -0.
TEST(TextTest, NegativeZeroIsNoDefault) {
  Graph g(Mesh::Parse("").value());
  g.TryAdd(GetOp("random_uniform"), {},
           {{"seed", int64_t{1}}, {"low", -0.0}, {"shape", std::vector<int64_t>{2}}}, {})
      .value();
  EXPECT_EQ(PrintNode(g, 0), "%0 = random_uniform seed=1 low=-0 shape=[2] : f32[2]");
}

// ---- What errors quote.

std::string ErrorOf(std::string_view text) {
  const absl::StatusOr<Graph> graph = ParseGraph(text, "p.mw");
  return graph.ok() ? "it parses" : std::string(MessageOf(graph.status()));
}

TEST(TextTest, ErrorsQuoteOnePrintableLine) {
  using std::string_view_literals::operator""sv;
  // A tab counts as one column, and stands as one.
  EXPECT_EQ(ErrorOf("mesh\t[]\t!"), "p.mw:1:9: expected \"func\", found '!'.\n  mesh [] !\n          ^");
  // Lines that end as on Windows.
  EXPECT_EQ(ErrorOf("mesh []\r\nfunk f() {\r\n}\r\n"),
            "p.mw:2:1: expected \"func\", found 'f'.\n  funk f() {\n  ^");
  EXPECT_EQ(ErrorOf("mesh []\r\nfunc\r\n"), "p.mw:3:1: expected a function name, found the end.\n  \n  ^");
  // Columns count bytes, the caret characters.
  EXPECT_EQ(ErrorOf("mesh [] // \xc3\xa9\xe2\x82\xac\n\xc3\xa9"),
            "p.mw:2:1: expected \"func\", found '\xc3\xa9'.\n  \xc3\xa9\n  ^");
  EXPECT_EQ(ErrorOf("mesh [\xc3\xa9=2]"),
            "p.mw:1:6: Mesh: axis name \"\xc3\xa9\" in [\xc3\xa9=2]; a name is a letter followed by letters, "
            "digits "
            "and _.\n  mesh [\xc3\xa9=2]\n       ^");
  EXPECT_EQ(ErrorOf("mesh [] func f(%a: f32[1], %\xc3\xa9: f32[]) {}"),
            "p.mw:1:29: expected a value name, found '\xc3\xa9'.\n  mesh [] func f(%a: f32[1], %\xc3\xa9: "
            "f32[]) {}\n"
            "                              ^");
  // Bytes that are no text.
  EXPECT_EQ(ErrorOf("mesh [] \0 func"sv),
            "p.mw:1:9: expected \"func\", found byte 0x00.\n  mesh [] ? func\n          ^");
  EXPECT_EQ(ErrorOf("mesh [] \xff\xfe"),
            "p.mw:1:9: expected \"func\", found byte 0xff.\n  mesh [] ??\n          ^");
  EXPECT_EQ(ErrorOf("mesh [] \xc3"),
            "p.mw:1:9: expected \"func\", found byte 0xc3.\n  mesh [] ?\n          ^");
  EXPECT_EQ(ErrorOf("mesh [] \xed\xa0\x80"),  // half a surrogate pair
            "p.mw:1:9: expected \"func\", found byte 0xed.\n  mesh [] ???\n          ^");
  EXPECT_EQ(
      ErrorOf("mesh [a=2,\n\x01=3]"),
      "p.mw:1:6: Mesh: axis name \"?\" in [a=2, ?=3]; a name is a letter followed by letters, digits and _.\n"
      "  mesh [a=2,\n       ^");
}

TEST(TextTest, ErrorsCutLongLinesAndMessages) {
  const std::string many(1000, 'x');
  EXPECT_EQ(ErrorOf("mesh [] " + many),
            "p.mw:1:9: expected \"func\", found 'x'.\n  mesh [] " + many.substr(0, 140) + "...\n          ^");
  EXPECT_EQ(ErrorOf("mesh [] func f() { /" + many),
            "p.mw:1:20: expected %, update, return or }, found '/'.\n"
            "  mesh [] func f() { /" +
                many.substr(0, 139) + "...\n                     ^");
  EXPECT_EQ(ErrorOf("mesh [] func " + many + "!"), "p.mw:1:1014: expected (, found '!'.\n  ..." +
                                                       many.substr(0, 140) + "!\n  " + std::string(143, ' ') +
                                                       "^");
  EXPECT_EQ(ErrorOf("mesh []\nfunc f() { %0 = " + many + " }"),
            "p.mw:2:17: there is no op \"" + many.substr(0, 600 - 16) + " ... " + many.substr(0, 300 - 2) +
                "\".\n  func f() { %0 = " + many.substr(0, 140) + "...\n                  ^");
}

// ---- Large texts: what takes more than linear time does not end.

std::string Repeat(std::string_view text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

// The first line of the error, without its place.
std::string FirstLine(const std::string& error) {
  const size_t begin = error.find(": ") + 2;
  return error.substr(begin, error.find('\n') - begin);
}

TEST(TextTest, ReadsManyOfEverything) {
  constexpr int kMany = 40000;
  std::string arguments, updates, nodes, outputs;
  for (int i = 0; i < kMany; ++i) {
    arguments += fmt::format("{}var %a{}: f32[]", i == 0 ? "" : ", ", i);
    nodes += fmt::format("%{} = neg %a{}\n", i, i);
    updates += fmt::format("update %a{} = %{}\n", i, i);
    outputs += fmt::format("{}o{}=%{}", i == 0 ? "" : ", ", i, i);
  }
  const Graph g =
      ParseGraph(fmt::format("mesh [] func f({}) {{ {} {} return {} }}", arguments, nodes, updates, outputs))
          .value();
  EXPECT_EQ(g.nodes().size(), kMany);
  EXPECT_EQ(g.updates().size(), kMany);
  EXPECT_EQ(g.outputs().size(), kMany);
}

TEST(TextTest, RefusesLargeMistakes) {
  constexpr int kMany = 300000;
  const std::string head = "mesh [x=2] func f(%x: f32[4]) { ";
  auto expect = [](const std::string& text, std::string_view error) {
    EXPECT_EQ(FirstLine(ErrorOf(text)), error);
  };
  expect(std::string(kMany, '%'), "expected \"mesh\", found '%'.");
  expect("mesh " + std::string(kMany, '['), "this [ is never closed.");
  expect(std::string(kMany, '\n') + "x", "expected \"mesh\", found 'x'.");
  expect(Repeat("// \n", kMany), "expected \"mesh\", found the end.");
  expect(head + Repeat("%0 = neg %x %1 = neg", 1) + Repeat(" %x,", kMany) + "}", "expected %, found '}'.");
  expect("mesh [] func f(%x: f32[" + Repeat("1,", kMany) + "x", "expected a whole number, found 'x'.");
  expect("mesh [] func f(%x: f32[" + std::string(kMany, '9') + "])", "this number does not fit 64 bits.");
  expect(head + "%0 = constant shape=[] value=" + std::string(kMany, '9'),
         "this number does not fit a double.");
  const std::string name(kMany, 'a'), other = std::string(kMany, 'a') + "b";
  EXPECT_TRUE(ErrorOf("mesh [] func f(%" + name + ": f32[]) { %0 = neg %" + other + " }").ends_with("^"));
  EXPECT_TRUE(ErrorOf("mesh [] func f(%x: " + name + "[])").ends_with("^"));
  EXPECT_TRUE(ErrorOf("mesh [x=2] func f(%x: f32[] {" + name + "})").ends_with("^"));
  EXPECT_TRUE(ErrorOf("mesh [x=2] func f(%x: f32[] {" + Repeat("_,", kMany) + "_})").ends_with("^"));
  EXPECT_TRUE(ErrorOf("mesh [" + Repeat("a=1,", kMany) + "b=1]").ends_with("^"));
}

// Every attribute of every op that is a list.
TEST(TextTest, OpsTakeOrRefuseLongLists) {
  constexpr int kMany = 200000;
  for (const OpRow* row : AllOps()) {
    if (row->samples.empty()) continue;
    const Graph sample = ParseGraph(ProgramText(*row, row->samples[0])).value();
    for (const AttrSpec& spec : row->attrs) {
      if (spec.kind != AttrKind::kInts) continue;
      for (bool counting : {false, true}) {
        std::vector<int64_t> list(kMany, 1);
        if (counting) std::iota(list.begin(), list.end(), 0);
        Graph g = sample;
        Attrs attrs = g.nodes()[0].attrs;
        attrs.Set(spec.name, std::move(list));
        const auto operands = g.nodes()[0].operands;
        const absl::StatusOr<int> node = g.TryAdd(*row, operands, std::move(attrs), {});
        EXPECT_TRUE(node.ok() || node.status().code() == absl::StatusCode::kInvalidArgument) << row->name;
      }
    }
  }
}

// ---- Mutations of valid programs must never crash, and what still parses must round-trip.

std::string Mutate(std::string text, std::mt19937& random) {
  static constexpr std::string_view kAlphabet = "%{}[](),:=|_./-+ \n0123456789abefimnorstuvxyz!@\"\\\t";
  static constexpr std::string_view kTokens[] = {"%x",
                                                 "f32[4]",
                                                 "of",
                                                 "var",
                                                 "{_}",
                                                 "{x}",
                                                 "| sum:x",
                                                 "update",
                                                 "return",
                                                 "9223372036854775807",
                                                 "-1",
                                                 "1e308",
                                                 "axes=(x)",
                                                 "dims=[0]",
                                                 "//",
                                                 "all_reduce",
                                                 "neg",
                                                 "mesh [x=2]",
                                                 "[]",
                                                 "nan",
                                                 "shape=[1099511627776]"};
  auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  for (size_t edits = below(3) == 0 ? 3 : 1; edits > 0; --edits) {
    const size_t at = below(text.size() + 1);
    const size_t length = std::min(text.size() - at, 1 + below(below(4) == 0 ? 40 : 3));
    switch (below(6)) {
      case 0: text.erase(at, length); break;
      case 1: text.insert(at, 1, kAlphabet[below(kAlphabet.size())]); break;
      case 2: text.replace(at, std::min<size_t>(length, 1), 1, kAlphabet[below(kAlphabet.size())]); break;
      case 3: text.insert(at, text.substr(at, length)); break;
      case 4: text.insert(at, fmt::format(" {} ", kTokens[below(std::size(kTokens))])); break;
      default: {  // something from elsewhere in the program
        const size_t from = below(text.size() + 1);
        text.insert(at, text.substr(from, 1 + below(12)));
      }
    }
  }
  return text;
}

TEST(TextTest, SurvivesMutatedPrograms) {
  std::mt19937 random(2112);
  int parsed = 0, rejected = 0;
  for (int round = 0; round < 40000; ++round) {
    const std::string text =
        Mutate(std::string(kPrograms[static_cast<size_t>(round) % std::size(kPrograms)]), random);
    const absl::StatusOr<Graph> graph = ParseGraph(text);
    if (!graph.ok()) {
      ASSERT_TRUE(MessageOf(graph.status()).starts_with("program:")) << graph.status() << "\n" << text;
      ++rejected;
      continue;
    }
    ++parsed;
    const std::string printed = PrintGraph(*graph);
    const absl::StatusOr<Graph> again = ParseGraph(printed);
    ASSERT_TRUE(again.ok()) << again.status() << "\n" << text;
    ASSERT_EQ(PrintGraph(*again), printed) << text;
  }
  // Both happen often: the mutations are neither hopeless nor harmless.
  EXPECT_GT(parsed, 1000);
  EXPECT_GT(rejected, 10000);
}

TEST(TextTest, SurvivesEveryTruncation) {
  for (std::string_view program : kPrograms) {
    const size_t closing = program.rfind('}');
    for (size_t length = 0; length <= closing; ++length)
      EXPECT_FALSE(ParseGraph(program.substr(0, length)).ok()) << program.substr(0, length);
    EXPECT_TRUE(ParseGraph(program.substr(0, closing + 1)).ok());
  }
}

}  // namespace
}  // namespace meshwork

#include "meshwork/ir/text.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/ops.h"
#include "support/sample.h"

namespace meshwork::text_test {
namespace {

// ---- Programs as the printer writes them.

constexpr std::string_view kPrograms[] = {
    // An empty program.
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
    // Values that may be gathered, with a layout and without.
    R"(mesh [x=2]
func gathers(%a: f32[4,6] {x,_} gather=allowed,
     %b: f32[4,6] gather=allowed,
     var %w: f32[4,6] {?,x} gather=on_use,
     var %v: f32[4,6] gather=on_use) {
  %0 = add %a, %b : f32[4,6] gather=allowed
  %1 = neg %0 : f32[4,6] {x,_} gather=allowed
  update %w = %1
  return y=%v
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

TEST(TextTest, PrintsWhatMayBeGathered) {
  Graph g(Mesh::Parse("x=2").value());
  const Initializer zeros{{F32, {4}}, nullptr};
  const Value x = AllowGather(g.Input("x", F32, {4}, {"x"}));
  const Variable w = g.Var("w", zeros, {"x"}, {.gather = Gathering::kOnUse});
  const Variable v = g.Var("v", zeros, {"x"}, {.gather = Gathering::kAllowed});
  AllowGather(w);  // kOnUse allows it already
  g.Output("y", AllowGather(x + w + v));
  EXPECT_EQ(PrintGraph(g),
            "mesh [x=2]\nfunc step(%x: f32[4] {x} gather=allowed,\n     var %w: f32[4] {x} gather=on_use,\n"
            "     var %v: f32[4] {x} gather=allowed) {\n  %0 = add %x, %w : f32[4]\n"
            "  %1 = add %0, %v : f32[4] gather=allowed\n  return y=%1\n}\n");
}

TEST(TextTest, NodesStandAtTheirLines) {
  const Graph g = ParseGraph("mesh []\nfunc f(\n  %x: f32[]) {\n\n  %0 =\n    neg %x\n}", "a/b.mw").value();
  EXPECT_EQ(g.nodes()[0].location.ToString(), "a/b.mw:6");
  EXPECT_EQ(g.value(g.nodes()[0].operands[0]).location.ToString(), "a/b.mw:3");
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

// A default of 0 must not hide a -0.
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
  // A tab counts as one column, and is printed as a blank.
  EXPECT_EQ(ErrorOf("mesh\t[]\t!"), "p.mw:1:9: expected \"func\", found '!'.\n  mesh [] !\n          ^");
  // Lines that end as on Windows.
  EXPECT_EQ(ErrorOf("mesh []\r\nfunk f() {\r\n}\r\n"),
            "p.mw:2:1: expected \"func\", found \"funk\"; did you mean \"func\"?\n  funk f() {\n  ^");
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

// ---- Large texts: an algorithm of more than linear time would not end.

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
        const absl::StatusOr<int> node = g.TryAdd(*row, operands, attrs, {});
        EXPECT_TRUE(node.ok() || node.status().code() == absl::StatusCode::kInvalidArgument) << row->name;
      }
    }
  }
}

// ---- Mutations of valid programs must never crash; a mutation that parses must round-trip.

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
      default: {  // insert a piece of the program elsewhere
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
}  // namespace meshwork::text_test

#include "meshwork/spmd/compile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/ir/plan/explain.h"
#include "meshwork/ir/program.h"
#include "meshwork/ir/program_cost.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/text.h"
#include "meshwork/layout/relayout.h"
#include "meshwork/ops/blockwise.h"

namespace meshwork::compile_test {
namespace {

std::string CompileError(std::string_view text) {
  return std::string(MessageOf(Compile(ParseGraph(text).value()).status()));
}

TEST(CompileTest, RefusesAPinThatIsPartial) {
  EXPECT_EQ(CompileError("mesh [x=2]\nfunc f(%a: f32[4] {_ | sum:x}) {\n  %0 = tanh %a\n  return y=%0\n}\n"),
            "Compile: %a: f32[4] (program:2) is pinned as {_ | sum:x}; only whole values can be asked for. "
            "Leave the "
            "layout out: what is owed stays so as long as the ops that read it allow.");
}

std::vector<std::string> Collectives(const Graph& local) {
  std::vector<std::string> all;
  for (const Node& node : local.nodes())
    if (node.row->kind == OpKind::kCollective)
      all.push_back(fmt::format("{} of {} over {}", node.row->name, node.operands.size(),
                                local.mesh().AxesToString(GroupAxes(local, node))));
  return all;
}

// Adds %a of 64 x 128 to whole values, so that each sum has one of the layouts.
std::string SeveralReaders(const std::string& mesh, const std::string& layout,
                           const std::vector<std::string>& read) {
  std::string text = fmt::format("mesh [{}]\nfunc f(%a: f32[64,128] {}", mesh, layout), body, outputs;
  for (size_t i = 0; i < read.size(); ++i) {
    text += fmt::format(", %c{}: f32[64,128] {{_,_}}", i);
    body += fmt::format("  %o{0} = add %a, %c{0} : f32[64,128] {1}\n", i, read[i]);
    outputs += fmt::format("{0}o{1}=%o{1}", i == 0 ? "" : ", ", i);
  }
  return fmt::format("{}) {{\n{}  return {}\n}}\n", text, body, outputs);
}

// Each of the layouts could be made from another one of them.
TEST(CompileTest, ReadersThatCouldReadOfEachOtherCompile) {
  const std::string text =
      SeveralReaders("x=8,y=4,z=4", "{z,y}", {"{x,(z,y)}", "{x,y}", "{_,x}", "{(y,z),x}"});
  EXPECT_TRUE(Compile(ParseGraph(text).value()).ok());
}

// A relayout that is made first for a later reader pays off. On three axes all compile, but some send more.
TEST(CompileTest, SeveralReadersSendNoMoreThanEachByItself) {
  std::mt19937 random(5);
  const auto below = [&](size_t n) { return random() % n; };
  for (int trial = 0; trial < 300; ++trial) {
    const Mesh mesh = Mesh::Parse(trial % 2 == 0 ? "x=2,y=4" : "x=2,y=4,z=2").value();
    const auto layout = [&] {
      std::vector<AxisList> dims(2);
      for (int axis = mesh.num_axes() - 1; axis >= 0; --axis)
        if (const size_t d = below(3); d < 2)
          dims[d].insert(below(2) == 0 ? dims[d].begin() : dims[d].end(), axis);
      return Layout(mesh, dims);
    };
    const Layout from = layout();
    std::vector<std::string> read;
    int64_t alone = 0;
    for (size_t i = 0; i < 2 + below(3); ++i) {
      const Layout to = layout();
      if (std::find(read.begin(), read.end(), to.ToString()) != read.end()) continue;
      read.push_back(to.ToString());
      alone += PlanRelayout(from, to, {64, 128}).value().wire_elements * 4;
    }
    std::string axes = mesh.ToString();
    const std::string text = SeveralReaders(axes.substr(1, axes.size() - 2), from.ToString(), read);
    const absl::StatusOr<Program> program = Compile(ParseGraph(text).value());
    ASSERT_TRUE(program.ok()) << text;
    if (mesh.num_axes() == 2) {
      EXPECT_LE(CostOf(program->body, {}).bytes, alone) << text;
    }
  }
}

// Two weights, whole on every device; gradients of a batch that is cut over hosts and their devices.
constexpr std::string_view kTwoHosts = R"(mesh [host=2, device=4]
func step(%x: f32[64,32] {(host,device),_}, var %v: f32[32,32] {_,_}, var %w: f32[32,16] {_,_}) {
  %h = matmul %x, %v
  %y = matmul %h, %w
  %dw = matmul %h, %y transpose_a=true
  %dh = matmul %y, %w transpose_b=true
  %dv = matmul %x, %dh transpose_a=true
  %v1 = sub %v, %dv
  %w1 = sub %w, %dw
  update %v = %v1
  update %w = %w1
}
)";

TEST(CompileTest, ReducesHostByHostWhereThatIsFaster) {
  const Graph global = ParseGraph(kTwoHosts).value();
  EXPECT_EQ(Collectives(Compile(global)->body),
            std::vector<std::string>{"all_reduce of 2 over (host,device)"});
  const Topology slow_between =
      Topology::Create(global.mesh(), {{"host", {1e8, 1e-6}}, {"device", {1e11, 1e-7}}}).value();
  EXPECT_EQ(Collectives(Compile(global, {.topology = slow_between})->body),
            (std::vector<std::string>{"reduce_scatter of 2 over (device)", "all_reduce of 2 over (host)",
                                      "all_gather of 2 over (device)"}));
  // Messages that take long are few.
  const Topology slow_to_start =
      Topology::Create(global.mesh(), {{"host", {1e11, 1e-3}}, {"device", {1e11, 1e-3}}}).value();
  EXPECT_EQ(Collectives(Compile(global, {.topology = slow_to_start})->body),
            std::vector<std::string>{"all_reduce of 2 over (host,device)"});
}

// A ring has a step per block: over 64 devices it is written out, over a million it is not.
TEST(CompileTest, RingsThatAreTooLongGather) {
  for (int64_t devices : {64, 1 << 20}) {
    const std::string text = fmt::format(
        "mesh [x={0}]\nfunc f(%q: f32[1,{1},2,4] {{_,x,_,_}} gather=allowed) {{\n"
        "  %o, %l = attention %q, %q, %q scale=1 ring=true\n  return o=%o\n}}\n",
        devices, 2 * devices);
    const Graph local = Compile(ParseGraph(text).value())->body;
    int64_t turns = 0, gathers = 0;
    for (const Node& node : local.nodes()) {
      turns += node.row->name == "exchange" ? 1 : 0;
      gathers += node.row->name == "all_gather" ? 1 : 0;
    }
    EXPECT_EQ(turns > 0, devices == 64);
    EXPECT_EQ(gathers > 0, devices != 64);
  }
}

// Attention has two blockwise forms: the ring, up to a number of blocks, and the merge.
TEST(CompileTest, RingsHaveAtMost1024Blocks) {
  for (int64_t blocks : {1024, 1025}) {
    Graph graph = ParseGraph(R"(mesh [x=2]
func f(%q: f32[1,3000,1,2] {_,_,_,_}) {
  %o, %l = attention %q, %q, %q scale=1 ring=true
  return o=%o
}
)")
                      .value();
    const Node attention = graph.nodes()[0];
    const Value q(&graph, graph.arguments()[0].value);
    EXPECT_EQ(AddBlockwise(attention, std::vector<Value>(3, q), blocks, UNSHARDED).size(),
              blocks == 1024 ? 4u : 2u);
  }
}

// With 14 axes, the exchanges are counted on a sample of the devices.
TEST(CompileTest, CountsWhatTrillionsOfDevicesExchange) {
  const Graph global = ParseGraph(R"(mesh [a=8,b=8,c=8,d=8,e=8,f=8,g=8,h=8,i=8,j=8,k=8,l=8,m=8,n=2]
func f(%a: f32[1048576,1048576] {(a,b,c,d,e,f,g),(h,i,j,k,l,m,n)}) {
  %b = roll %a shift=3 dim=0
  return b=%b
}
)")
                           .value();
  const Graph local = Compile(global)->body;
  ASSERT_EQ(local.nodes().size(), 1);
  EXPECT_EQ(WireBytes(local, local.nodes()[0]), 2 * 4);  // a device holds one row of two
}

// Multiplying a pending sum takes each device eight times as long, and sends a sixteenth.
TEST(CompileTest, SumsArePassedOnWhereDevicesComputeFast) {
  const Graph global = ParseGraph(R"(mesh [x=8]
func f(%a: f32[64,4096] {_,x}, %w: f32[4096,512] {x,_}, %v: f32[512,32] {_,_}) {
  %p = matmul %a, %w
  %q = matmul %p, %v : f32[64,32] {x,_}
  return q=%q
}
)")
                           .value();
  auto bytes = [&](double flops) {
    const Topology topology = Topology::Create(global.mesh(), {{"x", {1e10, 1e-7}}}, flops).value();
    return SummarizeCollectives(Compile(global, {.topology = topology})->body)[0].bytes;
  };
  EXPECT_EQ(bytes(1e10), 7 * 64 * 512 * 4 / 8);
  EXPECT_EQ(bytes(1e14), 7 * 64 * 32 * 4 / 8);
}

// Rotated pins that contradict each other: 12 letters, each with three candidates.
TEST(CompileTest, ManyLettersAreDecidedWithoutTryingAllCombinations) {
  std::string mesh, shape, layouts[3];
  for (int i = 0; i < 12; ++i) {
    mesh += (i == 0 ? "" : ", ") + std::string(1, static_cast<char>('a' + i)) + "=2";
    shape += i == 0 ? "2" : ",2";
    for (int r = 0; r < 3; ++r)
      layouts[r] += (i == 0 ? "" : ",") + std::string(1, static_cast<char>('a' + (i + r) % 12));
  }
  const std::string text = fmt::format(
      "mesh [{0}]\nfunc f(%a: f32[{1}] {{{2}}}, %b: f32[{1}] {{{3}}}) {{\n  %0 = add %a, %b : f32[{1}] "
      "{{{4}}}\n  return y=%0\n}}\n",
      mesh, shape, layouts[0], layouts[1], layouts[2]);
  EXPECT_TRUE(Compile(ParseGraph(text).value()).ok());
}

}  // namespace
}  // namespace meshwork::compile_test

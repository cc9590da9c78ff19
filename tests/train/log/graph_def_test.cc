// Reads GraphDef by its definition: graph.proto, node_def.proto, attr_value.proto of TensorFlow.
#include "meshwork/train/log/graph_def.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "meshwork.h"
#include "meshwork/storage/wire_format.h"

namespace meshwork::graph_def_test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

struct DrawnNode {
  std::string op, device;
  std::vector<std::string> inputs;
  std::map<std::string, std::string> attrs;  // texts; attributes of other kinds as their bytes
};

template <typename F>
void ForEach(std::string_view message, F&& f) {
  WireReader reader(message);
  for (auto field = reader.Next().value(); field.has_value(); field = reader.Next().value()) f(*field);
}

std::map<std::string, DrawnNode> NodesOf(const Graph& graph) {
  std::map<std::string, DrawnNode> nodes;
  const std::string bytes = GraphDefOf(graph);
  ForEach(bytes, [&](const WireField& field) {
    if (field.number != 1) return;
    std::string name;
    DrawnNode node;
    ForEach(field.bytes, [&](const WireField& part) {
      if (part.number == 1) name = part.bytes;
      if (part.number == 2) node.op = part.bytes;
      if (part.number == 3) node.inputs.emplace_back(part.bytes);
      if (part.number == 4) node.device = part.bytes;
      if (part.number != 5) return;
      std::string key, value;
      ForEach(part.bytes, [&](const WireField& entry) { (entry.number == 1 ? key : value) = entry.bytes; });
      ForEach(std::string(value), [&](const WireField& attr) {
        if (attr.number == 2) value = attr.bytes;
      });
      node.attrs[key] = value;
    });
    EXPECT_TRUE(nodes.emplace(name, node).second) << name << " twice";
  });
  return nodes;
}

std::vector<std::string> Names(const std::map<std::string, DrawnNode>& nodes) {
  std::vector<std::string> names;
  for (const auto& [name, node] : nodes) names.push_back(name);
  return names;
}

TEST(GraphDefTest, HasANodeForEachPartOfAProgram) {
  const Graph graph = ParseGraph(R"(mesh [x=2]
func step(%a: f32[4,6] {x,_}, var %layer/w: f32[6,3]) {
  %h = matmul %a, %layer/w : f32[4,3]
  %0 = reduce_sum %h dims=[0,1]
  %1 = neg %layer/w
  update %layer/w = %1
  return loss=%0
})")
                          .value();
  const auto nodes = NodesOf(graph);
  EXPECT_THAT(Names(nodes), UnorderedElementsAre("a", "layer/w", "h", "program:4/reduce_sum_0",
                                                 "program:5/neg_1", "layer/w/update", "outputs/loss"));
  EXPECT_EQ(nodes.at("a").op, "input");
  EXPECT_EQ(nodes.at("layer/w").op, "variable");
  EXPECT_EQ(nodes.at("h").op, "matmul");
  EXPECT_THAT(nodes.at("h").inputs, ElementsAre("a", "layer/w"));
  EXPECT_THAT(nodes.at("program:4/reduce_sum_0").inputs, ElementsAre("h"));
  EXPECT_THAT(nodes.at("layer/w/update").inputs, ElementsAre("program:5/neg_1"));
  EXPECT_THAT(nodes.at("outputs/loss").inputs, ElementsAre("program:4/reduce_sum_0"));
  EXPECT_THAT(nodes.at("a").attrs, Contains(Pair("type", "f32[4,6]")));
  EXPECT_THAT(nodes.at("a").attrs, Contains(Pair("layout", "{x,_}")));
  EXPECT_THAT(nodes.at("h").attrs, Contains(Pair("line", "program:3")));
  // AttrValue { list { shape { dim { size: 4 } dim { size: 3 } } } }
  EXPECT_THAT(nodes.at("h").attrs,
              Contains(Pair("_output_shapes", "\x0a\x0a\x3a\x08\x12\x02\x08\x04\x12\x02\x08\x03")));
  // AttrValue { list { i: [0, 1] } }
  EXPECT_THAT(nodes.at("program:4/reduce_sum_0").attrs,
              Contains(Pair("dims", std::string("\x0a\x04\x1a\x02\0\x01", 6))));
  for (const auto& [name, node] : nodes) EXPECT_THAT(node.device, IsEmpty());
}

TEST(GraphDefTest, CollectivesOfALocalProgramNameTheirAxes) {
  const Graph graph = ParseGraph(R"(mesh [x=2, y=2]
func step(%a: f32[4,6] {x,y}, %w: f32[6,3] {y,_}) {
  %0 = matmul %a, %w : f32[4,3] {x,_}
  return y=%0
})")
                          .value();
  const Program program = Compile(graph).value();
  bool has_sum = false;
  for (const auto& [name, node] : NodesOf(program.body)) {
    if (node.op == "all_reduce") {
      has_sum = true;
      EXPECT_EQ(node.device, "(y)");
      EXPECT_THAT(node.attrs, Contains(Pair("type", "f32[2,3]")));
      EXPECT_THAT(node.attrs, Contains(Pair("whole", "f32[4,3]")));
      EXPECT_THAT(node.attrs.at("cause"), StartsWith("matmul"));
    } else {
      EXPECT_THAT(node.device, IsEmpty()) << name;
    }
  }
  EXPECT_TRUE(has_sum);
}

TEST(GraphDefTest, BodiesLieBelowTheirNode) {
  const Graph graph = ParseGraph(R"(mesh [x=2]
func step(%h0: f32[4], %xs: f32[8,4], %p: bool[]) {
  %last, %all = scan %h0, %xs length=8 slices=1 (var %h: f32[4], %x: f32[4]) {
    %0 = add %h, %x
    update %h = %0
    return %0
  }
  %y = if %p, %last (%a: f32[4]) {
    %0 = neg %a
    return %0
  } else (%a: f32[4]) {
    return %a
  }
  return all=%all, y=%y
})")
                          .value();
  const auto nodes = NodesOf(graph);
  EXPECT_THAT(Names(nodes),
              UnorderedElementsAre("h0", "xs", "p", "last", "last/body/h", "last/body/x",
                                   "last/body/program:4/add_0", "last/body/h/update", "last/body/outputs/0",
                                   "y", "y/then/a", "y/then/program:9/neg_0", "y/then/outputs/0", "y/else/a",
                                   "y/else/outputs/0", "outputs/all", "outputs/y"));
  EXPECT_THAT(nodes.at("last/body/x").inputs, ElementsAre("xs"));
  EXPECT_THAT(nodes.at("last").inputs, ElementsAre("h0", "xs", "last/body/program:4/add_0"));
  EXPECT_THAT(nodes.at("y/else/a").inputs, ElementsAre("last"));  // the predicate is no argument
  EXPECT_THAT(nodes.at("outputs/all").inputs, ElementsAre("last:1"));
  EXPECT_THAT(nodes.at("y").inputs, ElementsAre("p", "last", "y/then/program:9/neg_0", "y/else/a"));
}

TEST(GraphDefTest, NamesAreUnique) {
  Graph graph(Mesh::Parse("x=2").value());
  const Value a = graph.Input("outputs/y", F32, {4}, {"x"});
  graph.Output("y", a);
  EXPECT_THAT(Names(NodesOf(graph)), UnorderedElementsAre("outputs/y", "outputs/y_1"));
}

}  // namespace
}  // namespace meshwork::graph_def_test

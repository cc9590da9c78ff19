// Axes that the compiler cuts by itself. The resulting programs are in cases/28_*.
#include "meshwork/spmd/cut_mesh.h"

#include <cstdint>
#include <string>
#include <string_view>

#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/plan/explain.h"
#include "meshwork/ir/program.h"
#include "meshwork/ir/text.h"
#include "meshwork/mesh/topology.h"
#include "meshwork/spmd/compile.h"
#include "meshwork/verify/certificate.h"
#include "meshwork/verify/verify.h"
#include "support/golden.h"

namespace meshwork::cut_mesh_test {
namespace {

constexpr std::string_view kSplit =
    "mesh [x=4]\n"
    "func step(%a: f32[8,1024] {x,_}) {\n"
    "  %b = reshape %a shape=[2,4,1024]\n"
    "  %c = tanh %b\n"
    "  return c=%c\n"
    "}\n";

Graph Parse(std::string_view text) { return ParseGraph(text).value(); }

int64_t Wire(const Graph& local) { return CostOf(local, {}).bytes; }

TEST(CutMeshTest, AProgramOnACutMeshSendsLessAndAnyOtherIsAsWithout) {
  int cut = 0;
  for (const char* folder : {"spmd/cases", "spmd/compile", "spmd/propagate", "spmd/insert_relayouts"}) {
    for (const std::string& file : GoldenFiles(folder)) {
      const std::string golden = ReadGolden(file);
      const Graph graph = Parse(golden.substr(0, golden.find("----\n")));
      const Program program = Compile(graph).value();
      const Program without = Compile(graph, {.cut_mesh = false}).value();
      EXPECT_EQ(without.body.mesh(), graph.mesh()) << file;
      if (program.body.mesh() == graph.mesh()) {
        EXPECT_EQ(PrintGraph(program.body), PrintGraph(without.body)) << file;
      } else {
        EXPECT_LT(Wire(program.body), Wire(without.body)) << file;
        ++cut;
      }
    }
  }
  EXPECT_GE(cut, 4);
}

TEST(CutMeshTest, ATopologyOfTheMeshDescribesItsParts) {
  const Graph graph = Parse(kSplit);
  for (
      const char* text :
      {R"({"axes": {"x": {"bandwidth": 1e9, "latency": 1e-6}}})",
       R"({"axes": {"x:(1)2": {"bandwidth": 1e8, "latency": 1e-5}, "x:(2)2": {"bandwidth": 1e9, "latency": 1e-6}}})"}) {
    const Topology topology = Topology::Parse(graph.mesh(), text).value();
    const Program program = Compile(graph, {.topology = topology}).value();
    EXPECT_EQ(program.body.mesh().ToString(), "[x=2*2]");
    EXPECT_EQ(Wire(program.body), 0);
  }
}

// Without a cut the tensor would be gathered whole, which the budget does not allow.
TEST(CutMeshTest, SparesARefusedGather) {
  const Graph graph = Parse(kSplit);
  EXPECT_FALSE(Compile(graph, {.replication_budget = 100, .cut_mesh = false}).ok());
  const absl::StatusOr<Program> program = Compile(graph, {.replication_budget = 100});
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(Wire(program->body), 0);
}

TEST(CutMeshTest, CertificatesAreForTheProgramOnTheMeshThatWasGiven) {
  const Graph graph = Parse(kSplit);
  const Program program = Compile(graph).value();
  const Proof proof = Verify(graph, program.body).value();
  const Certificate certificate = MakeCertificate(graph, program.body, proof);
  EXPECT_EQ(certificate.mesh, "[x=2*2]");
  EXPECT_EQ(certificate.global, Fingerprint(graph));
  EXPECT_EQ(MessageOf(CheckCertificate(graph, certificate)), "");
}

TEST(CutMeshTest, VerifyReadsAProgramOnItsMeshCutFurtherAndOnNoOther) {
  auto verified_on = [](const char* global, const char* local) {
    auto program = [](const char* mesh, const char* type) {
      return Parse(fmt::format("mesh [{}] func f(%a: {}) {{ return a=%a }}", mesh, type));
    };
    return Verify(program(global, "f32[8]"), program(local, "f32[8] of f32[8] {_}")).ok();
  };
  for (const char* finer : {"x=4", "x=2*2"}) EXPECT_TRUE(verified_on("x=4", finer)) << finer;
  for (const char* other : {"x=8", "y=4", "x=4,y=2", "x=2, y=2", "x=2*4", "x=2*2,y=2"})
    EXPECT_FALSE(verified_on("x=4", other)) << other;
  EXPECT_FALSE(verified_on("x=2*2", "x=4"));
}

}  // namespace
}  // namespace meshwork::cut_mesh_test

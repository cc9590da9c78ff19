// A fixed share of the programs with hostile attributes that ./dev fuzz attributes draws without end, and
// bodies nested to the limit. MESHWORK_LONG_TESTS=1 tries many more.
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/difference.h"
#include "meshwork/ir/program.h"
#include "meshwork/ir/regions.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/text.h"
#include "meshwork/ops/control/control_flow.h"
#include "meshwork/ops/ops.h"
#include "meshwork/session/session.h"
#include "meshwork/spmd/compile.h"
#include "meshwork/verify/certificate.h"
#include "support/hostile_program.h"
#include "support/long_tests.h"

namespace meshwork::hostile_test {
namespace {

TEST(Hostile, AttributesEndInAnErrorOrInAProgramThatRuns) {
  const uint64_t programs = LongTests() ? 20000 : 400;
  for (uint64_t seed = 0; seed < programs; ++seed) {
    const HostileProgram program = DrawHostile(seed);
    ASSERT_EQ(TryHostile(program, seed), "") << "seed " << seed << "\n" << program.text;
  }
}

// The draw is the same on every machine, and statements of many rows are in the programs.
TEST(Hostile, DrawsWhatItSays) {
  EXPECT_EQ(DrawHostile(7).text, DrawHostile(7).text);
  std::set<std::string> ops;
  int64_t compiled = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const absl::StatusOr<Graph> graph = ParseGraph(DrawHostile(seed).text);
    ASSERT_TRUE(graph.ok());
    for (const Node& node : graph->nodes()) ops.insert(std::string(node.row->name));
    compiled += Compile(*graph).ok() ? 1 : 0;
  }
  EXPECT_GT(ops.size(), 120u);
  EXPECT_GT(compiled, 120);
}

// ---- Depth.

std::string Nested(const std::string& op, int depth) {
  std::string begin, end;
  for (int i = 0; i < depth; ++i) {
    if (op == "scan") {
      begin += "%p = scan %c length=1 (var %c: f64[4] {x}) {\n";
      end += "update %c = %p\n} : f64[4] {x}\n";
    } else if (op == "while") {
      begin += "%p, %q = while %c, %yes (var %c: f64[4] {x}, var %yes: bool[]) {\n";
      end += "%no = not %yes\nupdate %c = %p\nupdate %yes = %no\nreturn %yes\n} : f64[4] {x}, bool[] {}\n";
    } else {
      begin += "%p = if %yes, %c, %yes (%c: f64[4] {x}, %yes: bool[]) {\n";
      end += "return %p\n} else (%c: f64[4] {x}, %yes: bool[]) {\nreturn %c\n} : f64[4] {x}\n";
    }
  }
  return "mesh [x=2]\nfunc f(%c: f64[4] {x}, %yes: bool[]) {\n" + begin + "%p = exp %c\n" + end +
         "return p=%p\n}\n";
}

// Read, compiled, proven, read back and run at the depth that is allowed; one more is refused.
TEST(Hostile, BodiesNestAsDeepAsTheyMay) {
  for (const std::string op : {"scan", "while", "if"}) {
    const absl::StatusOr<Graph> graph = ParseGraph(Nested(op, kMaxNesting));
    ASSERT_TRUE(graph.ok()) << MessageOf(graph.status());
    EXPECT_EQ(FirstDifference(*graph, ParseGraph(PrintGraph(*graph)).value()), "");
    const absl::StatusOr<Program> program = Compile(*graph);
    ASSERT_TRUE(program.ok()) << MessageOf(program.status());
    const Proof proof = Verify(*graph, program->body).value();
    EXPECT_TRUE(CheckCertificate(*graph, MakeCertificate(*graph, program->body, proof)).ok());
    absl::StatusOr<Session> session = Session::Create(*graph, {.workers = 1});
    ASSERT_TRUE(session.ok()) << MessageOf(session.status());
    Tensor yes(Type{BOOL, {}});
    yes.mutable_values<bool>()[0] = true;
    const StepResult result =
        session->Run({{"c", Tensor::From({4}, std::vector<double>{0, 1, 2, 3})}, {"yes", yes}}).value();
    const Tensor p = result.Get("p").value();
    for (size_t i = 0; i < 4; ++i)
      EXPECT_NEAR(p.values<double>()[i], std::exp(static_cast<double>(i)),
                  1e-12 * std::exp(static_cast<double>(i)));
    EXPECT_FALSE(ParseGraph(Nested(op, kMaxNesting + 1)).ok());
  }
}

Value Deep(Graph& graph, const Value& x, int depth) {
  if (depth == 0) return x * 2.0;
  const auto body = [depth](Graph& inner, const std::vector<Value>& c,
                            const std::vector<Value>&) -> ScanStep {
    return {{Deep(inner, c[0], depth - 1)}};
  };
  return Scan(graph, {x}, {}, body, {.length = 1}).carries[0];
}

TEST(Hostile, BuildersNestAsDeep) {
  Graph graph(Mesh::Parse("x=2").value());
  graph.Output("y", Deep(graph, graph.Input("x", F32, {4}, {"x"}), kMaxNesting));
  ASSERT_TRUE(graph.status().ok()) << MessageOf(graph.status());
  EXPECT_TRUE(Compile(graph).ok());
}

// A certificate for a program that the compiler refuses is refused without a check of its contents.
TEST(Hostile, CertificatesOfWhatIsNoProgramAreRefused) {
  const Graph global = ParseGraph(R"(mesh [x=2]
func f(%a: f32[4]) {
  %b = device_all_gather %a axes=(x) dim=0 count=2
  return %b
}
)")
                           .value();
  const Certificate certificate{Fingerprint(global), Fingerprint(global), "[x=2]", PrintGraph(global), {}};
  const absl::Status status = CheckCertificate(global, certificate);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(MessageOf(status),
            "device_all_gather (program:3): exists only in a manual region; in a global program ask for a "
            "layout with "
            "relayout.");
}

// Its expand_dims once ended the checker: inference wrote beyond a shape.
TEST(Hostile, ALocalProgramWithDimsOutOfRangeIsRefused) {
  const Graph global = ParseGraph(R"(mesh [x=3]
func f(%a: f64[6,6], %b: f64[]) {
  %v = expand_dims %a dims=[2,3]
  return %v
}
)")
                           .value();
  const std::string local = R"(mesh [x=3]
func f(%a: f64[6,6] {_,_}, %b: f64[] {}) {
  %v = expand_dims %b dims=[2,3] : f64[6,6,1,1] {_,_,_,_}
  return %v
}
)";
  const Certificate certificate{"0", Fingerprint(global), "[x=3]", local, {}};
  const absl::Status status = CheckCertificate(global, certificate);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(MessageOf(status).starts_with("local:3:8: expand_dims (local:3): dims=[2,3] names dim 2;"))
      << MessageOf(status);
}

}  // namespace
}  // namespace meshwork::hostile_test

// Texts of devices, and a step that fails; tests/errors/pjrt_test.cc has what is said when something goes wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "meshwork.h"
#include "meshwork/ir/text.h"
#include "meshwork/runtime/exec/executor.h"
#include "meshwork/runtime/pjrt/pjrt_backend.h"
#include "meshwork/runtime/pjrt/pjrt_spec.h"
#include "meshwork/spmd/compile.h"
#include "support/temp_dir.h"

namespace meshwork::pjrt_failures_test {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(PjrtSpecTest, TextsOfDevicesAreRead) {
  EXPECT_FALSE(PjrtSpec::IsOne("cpu"));
  EXPECT_FALSE(PjrtSpec::IsOne("tpus"));
  EXPECT_TRUE(PjrtSpec::IsOne("tpu"));
  EXPECT_EQ(PjrtSpec::Parse("pjrt:/a:b/c.so").value().path, "/a:b/c.so");
  const PjrtSpec spec = PjrtSpec::Parse("pjrt:/a:b/c.so:n=8,text=a:b").value();
  EXPECT_EQ(spec.path, "/a:b/c.so");
  EXPECT_THAT(spec.options, ElementsAre(Pair("n", "8"), Pair("text", "a:b")));
  EXPECT_THAT(PjrtSpec::Parse("tpu:a=1").value().options, ElementsAre(Pair("a", "1")));
}

// Steps on a plugin that writes over what it may and then says that a device has stopped.
class PjrtFailuresTest : public TempDirTest {
 protected:
  PjrtFailuresTest() {
    const std::string plugin = Path("fails-at-end.so");
    std::filesystem::copy_file(FAKE_PJRT_PLUGIN, plugin);
    backend_ = PjrtBackend::Create("pjrt:" + plugin).value();
  }

  // A step that updates %w, and %v with its own value; both start as (3, 4).
  void RunAndFail(const ExecutorOptions& options) {
    const Graph graph = ParseGraph(R"(mesh [x=2]
func step(%a: f32[4,2] {x,_}, var %w: f32[2] {_}, var %v: f32[2] {x}) {
  %s = reduce_sum %a dims=[0]
  update %w = %s
  update %v = %v
})")
                            .value();
    executor_ = Executor::Create(Compile(graph).value(), *backend_, options, &variables_).value();
    for (const char* const name : {"w", "v"})
      ASSERT_TRUE(Pack(Tensor::From<float>({2}, {3, 4}), variables_.at(name)).ok());
    EXPECT_FALSE(
        executor_->Run({{"a", Tensor::From<float>({4, 2}, std::vector<float>(8, 1))}}, nullptr).ok());
  }
  std::vector<float> ValueOf(const std::string& name) {
    const Tensor value = Unpack(variables_.at(name)).value();
    return {value.values<float>().begin(), value.values<float>().end()};
  }

  std::unique_ptr<PjrtBackend> backend_;
  std::map<std::string, DTensor> variables_;
  std::unique_ptr<Executor> executor_;
};

TEST_F(PjrtFailuresTest, AnAtomicStepThatFailsLeavesItsVariables) {
  RunAndFail({.atomic = true});
  EXPECT_TRUE(executor_->step().wrote_spares());
  EXPECT_THAT(ValueOf("w"), ElementsAre(3, 4));
  EXPECT_THAT(ValueOf("v"), ElementsAre(3, 4));
}

TEST_F(PjrtFailuresTest, AfterAStepThatFailsVariablesCanBeSet) {
  RunAndFail({});
  EXPECT_THAT(ValueOf("v"), ElementsAre(3, 4));
  ASSERT_TRUE(Pack(Tensor::From<float>({2}, {5, 6}), variables_.at("w")).ok());
  EXPECT_THAT(ValueOf("w"), ElementsAre(5, 6));
}

// A mesh that the plugin has no devices for is refused while the session is as it was.
TEST_F(PjrtFailuresTest, ARemeshThatIsRefusedLosesNothing) {
  Graph graph(Mesh::VirtualCpus("x=2").value());
  graph.Var("w", Orthogonal({2, 2}), {"x", UNSHARDED});  // which the host computes
  graph.Output("sum", ReduceSum(graph.Input("a", F32, {4}, {"x"}), {0}));
  std::filesystem::copy_file(FAKE_PJRT_PLUGIN, Path("fine.so"));
  Session session = Session::Create(graph, {.devices = "pjrt:" + Path("fine.so")}).value();
  ASSERT_TRUE(session.Set("w", Tensor::From<float>({2, 2}, {1, 2, 3, 4})).ok());
  EXPECT_FALSE(session.Remesh(Mesh::Parse("x=4").value()).ok());
  EXPECT_EQ(session.Get("w")->values<float>()[3], 4);
}

}  // namespace
}  // namespace meshwork::pjrt_failures_test

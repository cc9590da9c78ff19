// Texts of devices, and a step that fails; tests/errors/pjrt_test.cc has what is said when something goes wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

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

class PjrtFailuresTest : public TempDirTest {};

TEST_F(PjrtFailuresTest, AnAtomicStepThatFailsLeavesItsVariables) {
  const std::string plugin = Path("fails-at-end.so");
  std::filesystem::copy_file(FAKE_PJRT_PLUGIN, plugin);
  const auto backend = PjrtBackend::Create("pjrt:" + plugin).value();
  const Graph graph = ParseGraph(R"(mesh [x=2]
func step(%a: f32[4,2] {x,_}, var %w: f32[2] {_}) {
  %s = reduce_sum %a dims=[0]
  update %w = %s
})")
                          .value();
  std::map<std::string, DTensor> variables;
  const auto executor =
      Executor::Create(Compile(graph).value(), *backend, {.atomic = true}, &variables).value();
  // Nothing is on a device yet, so that the fake need not bring it back.
  EXPECT_EQ(Unpack(variables.at("w")).value().values<float>()[0], 0);
  ASSERT_TRUE(Pack(Tensor::From<float>({2}, {3, 4}), variables.at("w")).ok());
  EXPECT_EQ(Unpack(variables.at("w")).value().values<float>()[1], 4);
  EXPECT_FALSE(executor->Run({{"a", Tensor::From<float>({4, 2}, std::vector<float>(8, 1))}}, nullptr).ok());
  EXPECT_FALSE(executor->step().wrote_spares());
}

}  // namespace
}  // namespace meshwork::pjrt_failures_test

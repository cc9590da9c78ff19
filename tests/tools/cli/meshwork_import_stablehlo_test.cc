// meshwork import stablehlo as a shell sees it: from a function of JAX's to a prediction.
#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/tensor/tensor_compare.h"
#include "meshwork/storage/npy.h"
#include "meshwork/storage/safetensors.h"
#include "support/golden.h"
#include "tools/cli/meshwork_tool.h"

namespace meshwork::meshwork_import_stablehlo_test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class ImportStableHloTest : public MeshworkTest {
 protected:
  // A program of JAX's, and what JAX recorded of it.
  static std::string Recorded(const std::string& name) {
    return fmt::format("{}/stablehlo/from_jax/{}", MESHWORK_TEST_DIR, name);
  }
  static Finished Import(std::vector<std::string> args) {
    args.insert(args.begin(), {"import", "stablehlo"});
    return Run(args);
  }
  static std::string Succeeds(const std::vector<std::string>& args) {
    const Finished finished = Run(args);
    EXPECT_EQ(finished.err, "");
    EXPECT_EQ(finished.code, 0);
    return finished.out;
  }
  // The arguments of the perceptron, as JAX names their paths: those of `params`, then x and labels.
  std::vector<std::pair<std::string, Tensor>> Weights() const {
    const auto recorded = ReadNpz(Recorded("mlp.npz")).value();
    const auto at = [&](const std::string& name) {
      for (const auto& [key, tensor] : recorded)
        if (key == name) return tensor;
      return Tensor();
    };
    std::vector<std::pair<std::string, Tensor>> weights;
    int i = 0;
    for (const char* layer : {"Dense_0", "Dense_1", "Dense_2"})
      for (const char* part : {"bias", "kernel"})
        weights.emplace_back(fmt::format("['params']['{}']['{}']", layer, part), at(fmt::format("a{}", i++)));
    return weights;
  }
};

TEST_F(ImportStableHloTest, HelpListsFlags) {
  ExpectGolden("tools/cli/meshwork_import_stablehlo_help.txt", Output({"import", "stablehlo", "--help"}));
}

TEST_F(ImportStableHloTest, AFunctionOfJaxPredictsWithItsWeights) {
  ASSERT_EQ(WriteNpz(Path("weights.npz"), Weights()), absl::OkStatus());
  const auto recorded = ReadNpz(Recorded("mlp.npz")).value();
  const auto inputs = std::vector<std::pair<std::string, Tensor>>{
      {"x",
       std::find_if(recorded.begin(), recorded.end(), [](const auto& a) { return a.first == "a6"; })->second},
      {"labels", std::find_if(recorded.begin(), recorded.end(), [](const auto& a) {
                   return a.first == "a7";
                 })->second}};
  ASSERT_EQ(WriteNpz(Path("inputs.npz"), inputs), absl::OkStatus());
  EXPECT_EQ(Import({Recorded("mlp.mlir"), Path("model"), "--weights", Path("weights.npz")}).out,
            fmt::format("{0}/program.mw: mesh [batch=2, model=2], 42 ops, 2 inputs, 6 variables, 1 output\n"
                        "{0}/model.safetensors: 6 tensors\n",
                        Path("model")));
  Succeeds({"save", Path("model/program.mw"), Path("saved"), "--weights", Path("model")});
  Succeeds({"predict", Path("saved"), "--inputs", Path("inputs.npz"), "--outputs", Path("loss.npz")});
  const auto loss = ReadNpz(Path("loss.npz")).value();
  const auto expected =
      std::find_if(recorded.begin(), recorded.end(), [](const auto& a) { return a.first == "r0"; })->second;
  EXPECT_EQ(AllClose(loss.at(0).second, expected, {.rtol = 1e-5}), absl::OkStatus());
}

TEST_F(ImportStableHloTest, AStepTrains) {
  const std::string out = Import({Recorded("adam.mlir"), Path("training"), "--update", "params=result/0",
                                  "--update", "state=result/1", "--mesh", "batch=1,model=1"})
                              .out;
  EXPECT_THAT(out,
              HasSubstr("1 input, 67 variables, 1 output\nwithout a tensor, so zero at the start: params/"));
  EXPECT_THAT(out, HasSubstr(" and 61 more\n"));
  EXPECT_FALSE(std::filesystem::exists(Path("training/model.safetensors")));
}

TEST_F(ImportStableHloTest, SaysWhatFitsNothing) {
  std::vector<std::pair<std::string, Tensor>> weights = {{"other", Tensor::From<float>({1}, {0})}};
  ASSERT_EQ(WriteSafetensors(Path("w.safetensors"), weights), absl::OkStatus());
  const auto refused = [&](std::vector<std::string> more, const std::string& message) {
    more.insert(more.begin(), {Recorded("mlp.mlir"), Path("refused")});
    const Finished finished = Import(more);
    EXPECT_EQ(finished.code, 2);
    EXPECT_THAT(finished.err, HasSubstr(message));
    EXPECT_FALSE(std::filesystem::exists(Path("refused")));
  };
  refused({"--weights", Path("w.safetensors")}, "no tensor has the name of an argument; it has other.");
  weights.emplace_back("params/Dense_0/bias", Tensor::From<float>({3}, {1, 2, 3}));
  ASSERT_EQ(WriteSafetensors(Path("w.safetensors"), weights), absl::OkStatus());
  refused({"--weights", Path("w.safetensors")},
          "--weights: params/params/Dense_0/bias is f32[16] in the program, and f32[3] in the file.");
  weights.emplace_back("['params']['Dense_0']['bias']", Tensor::From<float>({3}, {1, 2, 3}));
  ASSERT_EQ(WriteSafetensors(Path("w.safetensors"), weights), absl::OkStatus());
  refused({"--weights", Path("w.safetensors")},
          "--weights: several tensors are for params/params/Dense_0/bias.");
  refused({"--weights", Path("none.npz")}, "--weights: ");
  refused({"--update", "params"}, "--update: \"params\"; give an argument and a result, as params=result/0.");
  refused({"--update", "params=result"},
          "there is no result \"result/params/Dense_0/bias\" for the argument");
  refused({"--variable", "q*"}, "no argument is called \"q*\"");
  refused({"--mesh", "batch=0"}, "--mesh: ");
  refused({"--mesh", "batch=2"}, "model");
  EXPECT_THAT(Import({Path("none.mlir"), Path("out")}).err, StartsWith("meshwork import stablehlo: "));
  EXPECT_THAT(Import({Path("w.safetensors"), Path("out")}).err,
              HasSubstr("this is no module of MLIR in generic form"));
  EXPECT_FALSE(std::filesystem::exists(Path("out")));
}

TEST_F(ImportStableHloTest, ReplacesOnlyWhatSuchAnImportHasMade) {
  const std::vector<std::string> import = {Recorded("remat.mlir"), Path("out")};
  EXPECT_EQ(Import(import).code, 0);
  EXPECT_THAT(Import(import).err, HasSubstr("is there already; --force replaces it."));
  EXPECT_EQ(Import({import[0], import[1], "--force"}).code, 0);
  File("out/notes.txt", "mine");
  EXPECT_THAT(Import({import[0], import[1], "--force"}).err,
              HasSubstr("\"notes.txt\", which no import writes"));
}

}  // namespace
}  // namespace meshwork::meshwork_import_stablehlo_test

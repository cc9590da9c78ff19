// The weights that examples/mlp_mnist saves and loads.
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/runtime/tensor/tensor.h"
#include "meshwork/storage/safetensors.h"
#include "tools/cli/mlp_mnist.h"

namespace meshwork::mlp_mnist_weights_test {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// ---- Weights that are saved.

TEST_F(MlpMnistTest, SavesTheSameInitialWeightsOnEveryMesh) {
  for (const char* dtype : {"f32", "f64"}) {
    const std::vector<std::string> common = {"--epochs", "0", "--dtype", dtype, "--save", Path("weights")};
    std::string first;
    for (const char* mesh :
         {"batch=1", "batch=8", "batch=3", "batch=7", "batch=4,model=2", "model=3,other=2"}) {
      SCOPED_TRACE(fmt::format("{} {}", mesh, dtype));
      std::vector<std::string> args = common;
      args.insert(args.end(), {"--mesh", mesh});
      const Finished finished = Train(args);
      ASSERT_EQ(finished.code, 0) << finished.err;
      const std::string weights = Contents(Path("weights"));
      if (first.empty()) first = weights;
      EXPECT_TRUE(weights == first);
    }
    const auto tensors = ReadSafetensors(Path("weights")).value();
    std::vector<std::string> types;
    for (const auto& [name, tensor] : tensors)
      types.push_back(fmt::format("{} {}", name, tensor.type().ToString()));
    auto of = [&](std::string_view name, std::string_view shape) {
      return fmt::format("{} {}{}", name, dtype, shape);
    };
    EXPECT_THAT(types, ElementsAre(of("dense1/kernel", "[784,700]"), of("dense1/bias", "[700]"),
                                   of("dense2/kernel", "[700,500]"), of("dense2/bias", "[500]"),
                                   of("dense3/kernel", "[500,10]"), of("dense3/bias", "[10]")));

    std::vector<std::string> args = common;
    args.insert(args.end(), {"--seed", "1"});
    ASSERT_EQ(Train(args).code, 0);
    EXPECT_FALSE(Contents(Path("weights")) == first);
  }
}

TEST_F(MlpMnistTest, TakesTheOptimizerItIsTold) {
  std::map<std::string, std::string> by_weights;  // after two steps, which are enough to tell all apart
  for (const char* name : {"sgd", "momentum", "nesterov", "adagrad", "rmsprop", "adam", "adamw"}) {
    SCOPED_TRACE(name);
    ASSERT_EQ(Train({"--optimizer", name, "--steps", "2", "--save", Path("weights")}).code, 0);
    const auto [at, is_new] = by_weights.emplace(Contents(Path("weights")), name);
    EXPECT_TRUE(is_new) << "as " << at->second;
  }
  ASSERT_EQ(Train({"--steps", "2", "--save", Path("weights")}).code, 0);
  EXPECT_EQ(by_weights[Contents(Path("weights"))], "adam");
}

TEST_F(MlpMnistTest, WeightsDoNotDependOnTheNumberOfWorkers) {
  std::string first;
  for (const char* workers : {"1", "2", "3"}) {
    ASSERT_EQ(Train({"--workers", workers, "--save", Path("weights")}).code, 0);
    const std::string weights = Contents(Path("weights"));
    if (first.empty()) first = weights;
    EXPECT_TRUE(weights == first) << workers;
  }
}

// ---- Weights from a file.

TEST_F(MlpMnistTest, StartsFromSavedWeightsOnEveryMesh) {
  const auto before = [&] { return ReadJson("json").at("before"); };
  for (const char* dtype : {"f32", "f64"}) {
    ASSERT_EQ(Train({"--mesh", "batch=4,model=2", "--dtype", dtype, "--save", Path("weights"), "--json",
                     Path("json")})
                  .code,
              0);
    const std::string saved = Contents(Path("weights"));
    const json trained = ReadJson("json").at("epochs")[0];
    for (const char* mesh : {"batch=1", "batch=4,model=2", "model=3,other=2"}) {
      SCOPED_TRACE(mesh);
      const Finished finished = Train({"--mesh", mesh, "--dtype", dtype, "--epochs", "0", "--load",
                                       Path("weights"), "--save", Path("again"), "--json", Path("json")});
      ASSERT_EQ(finished.code, 0) << finished.err;
      EXPECT_TRUE(Contents(Path("again")) == saved);
      const double loss = trained.at("test_loss");
      EXPECT_NEAR(before().at("test_loss").get<double>(), loss, 1e-5 * loss);
      EXPECT_EQ(before().at("test_accuracy"), trained.at("test_accuracy"));
      EXPECT_THAT(finished.out, HasSubstr(fmt::format("at the start  test loss {:.4f}", loss)));
    }
  }
  // Training goes on from them, and may write over the file that it started from.
  ASSERT_EQ(Train({"--dtype", "f64", "--load", Path("weights"), "--save", Path("weights")}).code, 0);
  EXPECT_FALSE(Contents(Path("weights")) == Contents(Path("again")));
}

TEST_F(MlpMnistTest, RefusesWeightsOfAnotherModel) {
  const std::string all =
      "dense1/kernel, dense1/bias, dense2/kernel, dense2/bias, dense3/kernel, dense3/bias.";
  const auto load = [&] { return Train({"--load", Path("weights")}); };
  ExpectRejected(load(), "--load: $/weights: cannot be read: No such file or directory; check the path.");
  ExpectRejected(Train({"--load", data()}),
                 "--load: $/data: is not a regular file; directories, pipes and devices are not read here.");
  File("weights", "{}");
  ExpectRejected(load(),
                 "--load: $/weights: has 2 bytes; a safetensors file starts with 8 bytes of header length.");

  ASSERT_EQ(Train({"--epochs", "0", "--save", Path("weights")}).code, 0);
  const std::string whole = Contents(Path("weights"));
  File("weights", whole.substr(0, whole.size() - 1));
  const Finished cut = load();
  EXPECT_EQ(cut.code, 2);
  EXPECT_THAT(cut.err, HasSubstr("after its header; it is incomplete, fetch it again.\n"));
  File("weights", whole);
  ExpectRejected(
      Train({"--load", Path("weights"), "--dtype", "f64"}),
      "--load: $/weights: tensor \"dense1/kernel\" is f32[784,700] but the model's is f64[784,700]; "
      "weights are not converted, give --dtype f32.");

  auto tensors = ReadSafetensors(Path("weights")).value();
  const auto write = [&](const auto& changed) {
    EXPECT_TRUE(WriteSafetensors(Path("weights"), changed).ok());
  };
  auto changed = tensors;
  changed.pop_back();
  write(changed);
  ExpectRejected(
      load(), "--load: $/weights: there is no tensor \"dense3/bias\"; the weights of the model are " + all);
  changed = tensors;
  changed[5].first = "dense3/bais";
  write(changed);
  ExpectRejected(load(),
                 "--load: $/weights: tensor \"dense3/bais\" is no weight of the model; did you mean "
                 "\"dense3/bias\"? The weights are " +
                     all);
  changed = tensors;
  changed.emplace_back("optimizer/step", Tensor({F32, {}}));
  write(changed);
  ExpectRejected(
      load(),
      "--load: $/weights: tensor \"optimizer/step\" is no weight of the model. The weights are " + all);
  changed = tensors;
  changed[4].second = Tensor({F32, {10, 500}});
  write(changed);
  ExpectRejected(load(),
                 "--load: $/weights: tensor \"dense3/kernel\" is f32[10,500] but the model's is f32[500,10]; "
                 "weights are not converted.");
}

}  // namespace
}  // namespace meshwork::mlp_mnist_weights_test

// The weights of a session in files: those that LoadWeights takes, as they are on one device, whatever the mesh.
#include "meshwork/session/save_weights.h"

#include <cmath>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/random.h"
#include "meshwork/base/status.h"
#include "meshwork/ops/ops.h"
#include "meshwork/session/load_weights.h"
#include "meshwork/session/session.h"
#include "meshwork/storage/safetensors.h"
#include "meshwork/storage/safetensors_file.h"
#include "meshwork/train/nn/initializers.h"
#include "support/contents.h"
#include "support/in_domains.h"
#include "support/safetensors_bytes.h"
#include "support/temp_dir.h"

namespace meshwork::save_weights_test {
namespace {

using ::testing::ElementsAre;

SessionOptions Options(Transport* transport = nullptr) {
  SessionOptions options{.workers = 1, .own_cores = false, .seed = 5};
  options.executor.transport = transport;
  options.executor.check_replicas = true;
  options.executor.poison_padding = true;
  return options;
}

// y = x up down + bias, with a filter in bf16, the state of an optimizer, and the sum of a metric.
Graph Model(const std::string& mesh) {
  Graph g(Mesh::VirtualCpus(mesh).value());
  g.SetLayouts({.layouts = {{"block0/up", {UNSHARDED, "model"}}, {"block0/down", {"model", UNSHARDED}}},
                .missing_axes = MissingAxes::kShardNothing});
  const Value x = g.Input("x", F32, {4, 6});
  const Variable up = g.Var("block0/up", GlorotUniform({6, 7})),
                 down = g.Var("block0/down", GlorotUniform({7, 5}));
  const Variable bias = g.Var("bias", UniformRandom({5}, -1, 1)), slot = g.Var("adam/m/bias", Filled(2, {5}));
  const Variable filter = g.Var("filter", UniformRandom({2, 3, 4, 5}, -1, 1, BF16));
  const Variable sum = g.Var("metrics/mean/sum", Zeros({}, F64)), none = g.Var("none", Zeros({0, 3}, F64));
  g.Update(slot, slot * 0.5);
  g.Update(sum, sum + 1.0);
  g.Output("y", MatMul(MatMul(x, up), down) + bias);
  g.Output("rest", ReduceSum(Cast(filter, F32)) + Cast(sum + ReduceSum(none), F32));
  return g;
}

const std::vector<WeightRule> kRules = {
    {.variable = "block*/*", .tensor = "model.layers.*.*.weight", .transpose = true},
    {.variable = "filter", .tensor = "conv.weight", .dims = {2, 3, 1, 0}}};

class SaveWeightsTest : public TempDirTest {};

TEST_F(SaveWeightsTest, WritesWhatOthersRead) {
  Session session = Session::Create(Model("model=2"), Options()).value();
  const absl::StatusOr<SavedWeights> saved = SaveWeights(session, Path("new/model"), {.rules = kRules});
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_EQ(saved->path, Path("new/model/model.safetensors"));
  EXPECT_THAT(saved->tensors, ElementsAre("none", "bias", "model.layers.0.down.weight",
                                          "model.layers.0.up.weight", "conv.weight"));
  EXPECT_EQ(saved->bytes, std::ssize(Contents(saved->path)));
  std::map<std::string, Tensor> tensors;
  const auto read = ReadSafetensors(saved->path).value();
  for (const auto& [name, tensor] : read) tensors[name] = tensor;
  EXPECT_EQ(tensors.size(), 5u);
  EXPECT_EQ(RawBytes(tensors["model.layers.0.up.weight"]), RawBytes(session.Get("block0/up")->Transposed()));
  const Tensor filter = session.Get("filter").value();  // [h,w,in,out]
  const Tensor conv = tensors["conv.weight"];           // [out,in,h,w]
  EXPECT_EQ(conv.type(), (Type{BF16, {5, 4, 2, 3}}));
  EXPECT_EQ(conv.At({4, 1, 0, 2}).value(), filter.At({0, 2, 1, 4}).value());
  EXPECT_EQ(SafetensorsFile::Open(saved->path)->metadata().at("format"), "pt");
}

TEST_F(SaveWeightsTest, TheBytesAreThoseOfOneDevice) {
  {
    Session session = Session::Create(Model("batch=1"), Options()).value();
    ASSERT_TRUE(SaveWeights(session, Path("one.safetensors"), {.rules = kRules}).ok());
  }
  for (const std::string mesh : {"model=2", "model=3", "batch=2,model=2", "model=2,batch=2", "model=8"}) {
    for (const int64_t domains : {1, 2}) {
      if (domains == 2 && mesh == "model=3") continue;
      SCOPED_TRACE(fmt::format("{} in {}", mesh, domains));
      InDomainsOf(domains, [&](Transport* end) {
        Session session = Session::Create(Model(mesh), Options(end)).value();
        const absl::StatusOr<SavedWeights> saved =
            SaveWeights(session, Path("other.safetensors"), {.rules = kRules});
        ASSERT_TRUE(saved.ok()) << saved.status();
        EXPECT_EQ(saved->bytes > 0, end == nullptr || end->domain() == 0);
      });
      EXPECT_TRUE(Contents(Path("one.safetensors")) == Contents(Path("other.safetensors")));
    }
  }
}

// The law: LoadWeights gives back every bit, on another mesh, too.
TEST_F(SaveWeightsTest, LoadWeightsGivesThemBack) {
  Session session = Session::Create(Model("model=2"), Options()).value();
  ASSERT_TRUE(SaveWeights(session, dir(), {.rules = kRules}).ok());
  SessionOptions others = Options();
  others.seed = 6;
  Session other = Session::Create(Model("model=3"), others).value();
  EXPECT_NE(RawBytes(other.Get("block0/up").value()), RawBytes(session.Get("block0/up").value()));
  ASSERT_TRUE(LoadWeights(other, dir(), {.rules = kRules}).ok());
  for (const std::string& name : session.variable_names())
    EXPECT_EQ(RawBytes(other.Get(name).value()), RawBytes(session.Get(name).value())) << name;
}

TEST_F(SaveWeightsTest, PatternsSayWhichAreSavedAndLoaded) {
  Session session = Session::Create(Model("model=2"), Options()).value();
  const auto saved = [&](const SaveWeightsOptions& options) {
    return SaveWeights(session, Path("some.safetensors"), options).value().tensors;
  };
  EXPECT_THAT(saved({.only = {"b[il]*"}}), ElementsAre("bias", "block0/down", "block0/up"));
  EXPECT_THAT(saved({.only = {"b[il]*"}, .except = {"*/up"}}), ElementsAre("bias", "block0/down"));
  EXPECT_THAT(saved({.also = {"adam/*"}, .only = {"*bias"}}), ElementsAre("adam/m/bias", "bias"));
  ASSERT_TRUE(session.Set("block0/up", Tensor::Zeros({F32, {6, 7}})).ok());
  ASSERT_TRUE(session.Set("bias", Tensor::Zeros({F32, {5}})).ok());
  EXPECT_THAT(
      LoadWeights(session, Path("some.safetensors"), {.unused = {"adam/*"}, .only = {"bias"}})->variables,
      ElementsAre("bias"));
  EXPECT_NE(RawBytes(session.Get("bias").value()), RawBytes(Tensor::Zeros({F32, {5}})));
  EXPECT_EQ(RawBytes(session.Get("block0/up").value()), RawBytes(Tensor::Zeros({F32, {6, 7}})));
}

}  // namespace
}  // namespace meshwork::save_weights_test

// Published weights in a session: whatever the mesh and the layouts, the variables are what the tensors say, and no byte
// is read that no device needs.
#include "meshwork/session/load_weights.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/io/file.h"
#include "meshwork/base/random.h"
#include "meshwork/base/status.h"
#include "meshwork/ops/ops.h"
#include "meshwork/session/session.h"
#include "meshwork/session/weight_plan.h"
#include "meshwork/storage/safetensors.h"
#include "meshwork/train/nn/initializers.h"
#include "support/in_domains.h"
#include "support/safetensors_bytes.h"
#include "support/temp_dir.h"

namespace meshwork::load_weights_test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

Tensor Drawn(const Type& type, uint64_t seed) {
  Tensor tensor(Type{F32, type.shape});
  Random random(seed);
  for (float& value : tensor.mutable_values<float>()) value = static_cast<float>(random.Uniform(-1, 1));
  return tensor.Cast(type.dtype);
}

SessionOptions Options(Transport* transport = nullptr) {
  SessionOptions options{.workers = 1, .own_cores = false};
  options.executor.transport = transport;
  options.executor.check_replicas = true;
  return options;
}

// x: f32[4,6] -> y: f32[4,5] = x up down + bias: up is cut into columns, down into rows. A training would have the rest:
// a slot of an optimizer, an average, and the sum of a metric, which an output reads.
Graph Model(const std::string& mesh) {
  Graph g(Mesh::VirtualCpus(mesh).value());
  const DimSpec model = mesh.find("model") != std::string::npos ? DimSpec("model") : UNSHARDED;
  Value x = g.Input("x", F32, {4, 6}, {UNSHARDED, UNSHARDED});
  Variable up = g.Var("block0/up", GlorotUniform({6, 7}), {UNSHARDED, model});
  Variable down = g.Var("block0/down", GlorotUniform({7, 5}), {model, UNSHARDED});
  Variable bias = g.Var("bias", Zeros({5}), {UNSHARDED});
  Variable sum = g.Var("metrics/mean/sum", Zeros({}, F64), {});
  Variable slot = g.Var("adam/m/bias", Zeros({5}), {UNSHARDED});
  Variable average = g.Var("ema/bias", Zeros({5}), {UNSHARDED});
  Value y = MatMul(MatMul(x, up), down) + bias;
  g.Update(slot, slot * 0.5 + ReduceSum(y, 0));
  g.Update(average, average * 0.5 + bias);
  g.Update(sum, sum + 1.0);
  g.Output("y", y);
  g.Output("mean", sum + 1.0);
  return g;
}

// The weights of Model as another library has them.
std::vector<std::pair<std::string, Tensor>> Published() {
  return {{"model.layers.0.up.weight", Drawn({BF16, {7, 6}}, 1)},
          {"model.layers.0.down.weight", Drawn({F32, {5, 7}}, 2)},
          {"bias", Drawn({F16, {5}}, 3)}};
}

const LoadWeightsOptions& Rules() {
  static const auto* const rules = new LoadWeightsOptions{
      .rules = {{.variable = "block*/*", .tensor = "model.layers.*.*.weight", .transpose = true}}};
  return *rules;
}

class LoadWeightsTest : public TempDirTest {
 protected:
  void Write(const std::string& name, const std::vector<std::pair<std::string, Tensor>>& tensors) {
    EXPECT_EQ(MessageOf(WriteSafetensors(Path(name), tensors)), "");
  }
};

std::string BytesOf(Session& session, const std::string& variable) {
  return RawBytes(session.Get(variable).value());
}

TEST(WeightRuleTest, FillsStarsInOrder) {
  const auto tensor = [](const std::string& variable, const std::string& pattern, const std::string& name) {
    return TensorFor({.variable = variable, .tensor = pattern}, name);
  };
  EXPECT_EQ(tensor("block*/k", "h.*.k", "block7/k"), "h.7.k");
  EXPECT_EQ(tensor("block*/k", "h.*.k", "block7/q"), std::nullopt);
  EXPECT_EQ(tensor("a*/b*", "*.*", "a1/b2"), "1.2");
  EXPECT_EQ(tensor("*/*", "*|*", "a/b/c"), "a|b/c");  // as few characters as possible
  EXPECT_EQ(tensor("*a*a", "*|*", "aaa"), "|a");
  EXPECT_EQ(tensor("*/kernel", "*.weight", "x/y/kernel"), "x/y.weight");
  EXPECT_EQ(tensor("a*/b*", "one", "a1/b2"), "one");
  EXPECT_EQ(tensor("a", "b", "a"), "b");
  EXPECT_EQ(tensor("a", "b", "ab"), std::nullopt);
  EXPECT_EQ(tensor("a[1]?", "b", "a[1]?"), "b");
  EXPECT_EQ(tensor("", "b", ""), "b");
  EXPECT_EQ(tensor("*", "*", ""), "");
}

TEST_F(LoadWeightsTest, SetsVariablesOnAnyMesh) {
  const auto published = Published();
  Write("model.safetensors", published);
  for (const std::string mesh : {"batch=1", "model=2", "model=3", "batch=2,model=2", "model=8"}) {
    for (const int64_t domains : {1, 2}) {
      if (domains == 2 && (mesh == "batch=1" || mesh == "model=3")) continue;
      SCOPED_TRACE(fmt::format("{} in {}", mesh, domains));
      InDomainsOf(domains, [&](Transport* end) {
        Session session = Session::Create(Model(mesh), Options(end)).value();
        ASSERT_TRUE(session.Run({{"x", Drawn({F32, {4, 6}}, 9)}}).ok());
        const auto slot = BytesOf(session, "adam/m/bias"), average = BytesOf(session, "ema/bias");
        const absl::StatusOr<LoadedWeights> loaded = LoadWeights(session, dir(), Rules());
        ASSERT_TRUE(loaded.ok()) << loaded.status();
        EXPECT_THAT(loaded->variables, ElementsAre("bias", "block0/down", "block0/up"));
        EXPECT_THAT(loaded->kept, IsEmpty());
        EXPECT_THAT(loaded->unused, IsEmpty());
        EXPECT_EQ(BytesOf(session, "block0/up"), RawBytes(published[0].second.Cast(F32).Transposed()));
        EXPECT_EQ(BytesOf(session, "block0/down"), RawBytes(published[1].second.Transposed()));
        EXPECT_EQ(BytesOf(session, "bias"), RawBytes(published[2].second.Cast(F32)));
        // What is not published stays.
        EXPECT_EQ(BytesOf(session, "adam/m/bias"), slot);
        EXPECT_EQ(BytesOf(session, "ema/bias"), average);
        EXPECT_EQ(session.Get("metrics/mean/sum").value().Scalar().value(), 1);
        EXPECT_EQ(session.steps_done(), 1);
        EXPECT_TRUE(session.Run({{"x", Drawn({F32, {4, 6}}, 9)}}).ok());
      });
    }
  }
}

// up: bf16[7,6] cut into 4 and 3 of its rows; down: f32[5,7] into 4 and 3 of its columns; bias: f16[5] whole.
TEST_F(LoadWeightsTest, ADomainReadsOnlyItsBoxes) {
  Write("model.safetensors", Published());
  constexpr int64_t kUp = 7 * 6 * 2, kDown = 5 * 7 * 4, kBias = 5 * 2;
  const auto read = [&](const std::string& mesh, int64_t domains) {
    std::vector<int64_t> bytes(static_cast<size_t>(domains));
    InDomainsOf(domains, [&](Transport* end) {
      Session session = Session::Create(Model(mesh), Options(end)).value();
      bytes[static_cast<size_t>(end == nullptr ? 0 : end->domain())] =
          LoadWeights(session, dir(), Rules()).value().bytes_read;
    });
    return bytes;
  };
  // Within a process each byte is read once, however many devices need it.
  for (const std::string mesh : {"batch=1", "model=2", "batch=2,model=2", "model=3,batch=2"})
    EXPECT_THAT(read(mesh, 1), ElementsAre(kUp + kDown + kBias)) << mesh;
  constexpr int64_t kFour = 4 * 6 * 2 + 5 * 4 * 4 + kBias, kThree = 3 * 6 * 2 + 5 * 3 * 4 + kBias;
  EXPECT_THAT(read("model=2", 2), ElementsAre(kFour, kThree));
  EXPECT_THAT(read("model=2,batch=2", 2), ElementsAre(kFour, kThree));
  EXPECT_THAT(read("batch=2,model=2", 2), ElementsAre(kUp + kDown + kBias, kUp + kDown + kBias));
  // Blocks of 1 element each; the last of 8 devices has none.
  const std::vector<int64_t> eighths = read("model=8", 8);
  EXPECT_EQ(eighths[0], 6 * 2 + 5 * 4 + kBias);
  EXPECT_EQ(eighths[7], kBias);
}

// ---- Rules.

// A program that has these variables and gives them.
struct Declared {
  std::string name;
  Type type;
  LayoutSpec layout;
};
Graph ProgramOf(const std::string& mesh, const std::vector<Declared>& variables) {
  Graph g(Mesh::VirtualCpus(mesh).value());
  for (const Declared& variable : variables) {
    const Variable v = g.Var(variable.name, Zeros(variable.type.shape, variable.type.dtype), variable.layout);
    g.Output("out/" + variable.name, Relayout(v, LayoutSpec(variable.type.shape.size(), UNSHARDED)));
  }
  return g;
}

TEST_F(LoadWeightsTest, TensorsMayBeReadInPartsAndTwice) {
  const Tensor fused = Drawn({F32, {12, 4}}, 1), columns = Drawn({F32, {4, 12}}, 2);
  Write("w", {{"h.3.qkv", fused}, {"h.3.c_attn", columns}});
  Session session = Session::Create(ProgramOf("a=2", {{"l3/q", {F32, {4, 4}}, {UNSHARDED, "a"}},
                                                      {"l3/k", {F32, {4, 4}}, {"a", UNSHARDED}},
                                                      {"l3/v", {F64, {4, 4}}, {"a", UNSHARDED}},
                                                      {"l3/whole", {F32, {12, 4}}, {"a", UNSHARDED}},
                                                      {"l3/second", {F32, {4, 4}}, {"a", UNSHARDED}},
                                                      {"l3/corner", {F32, {3, 2}}, {UNSHARDED, "a"}}}),
                                    Options())
                        .value();
  const absl::StatusOr<LoadedWeights> loaded = LoadWeights(
      session, Path("w"),
      {.rules = {{.variable = "l*/q", .tensor = "h.*.qkv", .transpose = true, .rows = Extent{0, 4}},
                 {.variable = "l*/k", .tensor = "h.*.qkv", .rows = Extent{4, 4}},
                 {.variable = "l*/v", .tensor = "h.*.qkv", .transpose = true, .rows = Extent{8, 4}},
                 {.variable = "l*/second", .tensor = "h.*.c_attn", .columns = Extent{4, 4}},
                 {.variable = "l*/corner",
                  .tensor = "h.*.c_attn",
                  .transpose = true,
                  .rows = Extent{1, 2},
                  .columns = Extent{9, 3}},
                 {.variable = "*/corner", .tensor = "no such tensor"},
                 {.variable = "l*/*", .tensor = "h.*.qkv"}}});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(BytesOf(session, "l3/q"), RawBytes(fused.Rows(0, 4).Transposed()));
  EXPECT_EQ(BytesOf(session, "l3/k"), RawBytes(fused.Rows(4, 8)));
  EXPECT_EQ(BytesOf(session, "l3/v"), RawBytes(fused.Rows(8, 12).Transposed().Cast(F64)));
  EXPECT_EQ(BytesOf(session, "l3/whole"), RawBytes(fused));
  EXPECT_EQ(BytesOf(session, "l3/second"), RawBytes(columns.Sliced({{}, {4, 8}})));
  EXPECT_EQ(BytesOf(session, "l3/corner"), RawBytes(columns.Sliced({{1, 3}, {9, 12}}).Transposed()));
  EXPECT_EQ(loaded->bytes_read, 4 * (3 * 16 + 48 + 16 + 6));
}

TEST_F(LoadWeightsTest, ListsMaySayWhatIsLeftOut) {
  Write("w", {{"bias", Drawn({F32, {5}}, 1)},
              {"rotary.0.freq", Drawn({F32, {3}}, 2)},
              {"ema/bias", Drawn({F32, {5}}, 3)}});
  Session session = Session::Create(Model("model=2"), Options()).value();
  const auto up = BytesOf(session, "block0/up"), average = BytesOf(session, "ema/bias");
  LoadWeightsOptions options{.missing = {"block*"}, .unused = {"rotary.*", "ema/*"}};
  const LoadedWeights loaded = LoadWeights(session, Path("w"), options).value();
  EXPECT_THAT(loaded.variables, ElementsAre("bias"));
  EXPECT_THAT(loaded.kept, ElementsAre("block0/down", "block0/up"));
  EXPECT_THAT(loaded.unused, ElementsAre("ema/bias", "rotary.0.freq"));
  EXPECT_EQ(BytesOf(session, "block0/up"), up);
  EXPECT_EQ(BytesOf(session, "ema/bias"), average);
  options.also = {"ema/*"};
  EXPECT_THAT(LoadWeights(session, Path("w"), options).value().variables, ElementsAre("bias", "ema/bias"));
  EXPECT_EQ(BytesOf(session, "ema/bias"), RawBytes(Drawn({F32, {5}}, 3)));
}

// Tensors of any rank, type and order of dims, parts of them, in layouts of any kind.
TEST_F(LoadWeightsTest, RandomTablesAreReadAsTensorsAre) {
  std::mt19937_64 engine(17);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(engine() % static_cast<uint64_t>(n)); };
  for (int trial = 0; trial < 60; ++trial) {
    SCOPED_TRACE(trial);
    std::vector<std::pair<std::string, Tensor>> tensors;
    std::vector<Declared> variables;
    LoadWeightsOptions options;
    std::map<std::string, Tensor> expected;
    for (int64_t v = 0, count = 1 + below(5); v < count; ++v) {
      Shape shape;
      for (int64_t d = below(5); d > 0; --d) shape.push_back(1 + below(9));
      const DType stored = std::vector<DType>{F32, BF16, F16}[static_cast<size_t>(below(3))];
      const Tensor tensor = Drawn({stored, shape}, engine());
      tensors.emplace_back(fmt::format("t.{}", v), tensor);
      WeightRule rule{.variable = fmt::format("v{}", v), .tensor = fmt::format("t.{}", v)};
      std::vector<TensorSlice> slices(shape.size());
      for (size_t d = 0; d < std::min<size_t>(2, shape.size()); ++d) {
        if (below(2) == 0) continue;
        const int64_t begin = below(shape[d]), size = 1 + below(shape[d] - begin);
        (d == 0 ? rule.rows : rule.columns) = Extent{begin, size};
        slices[d] = {begin, begin + size};
      }
      std::vector<int64_t> dims(shape.size());
      std::iota(dims.begin(), dims.end(), 0);
      std::shuffle(dims.begin(), dims.end(), engine);
      if (below(3) > 0) rule.dims = dims;
      Tensor value = tensor.Cast(F32).Sliced(slices);
      if (!rule.dims.empty()) value = value.Transposed(rule.dims);
      LayoutSpec layout(shape.size(), UNSHARDED);
      for (const std::string axis : {"a", "b"})
        if (const size_t d = static_cast<size_t>(below(5)); d < layout.size()) {
          const int64_t size = value.shape()[d];
          if (size % 4 == 0 && below(2) == 0) layout[d] = DimSpec::Factors({{size / 2, {}}, {2, {axis}}});
          else layout[d] = DimSpec(axis);
        }
      variables.push_back({rule.variable, {F32, value.shape()}, layout});
      expected.emplace(rule.variable, value);
      options.rules.push_back(rule);
    }
    Write("model.safetensors", tensors);
    const int64_t domains = 1 + below(2);
    InDomainsOf(domains, [&](Transport* end) {
      absl::StatusOr<Session> session = Session::Create(ProgramOf("a=2,b=3", variables), Options(end));
      ASSERT_TRUE(session.ok()) << session.status();
      const absl::StatusOr<LoadedWeights> loaded = LoadWeights(*session, dir(), options);
      ASSERT_TRUE(loaded.ok()) << loaded.status();
      for (const auto& [name, value] : expected) EXPECT_EQ(BytesOf(*session, name), RawBytes(value)) << name;
    });
  }
}

// 48 MiB, in pieces and by several threads.
TEST_F(LoadWeightsTest, LargeTensorsAreReadInPieces) {
  const Tensor tall = Drawn({F32, {3000, 4000}}, 1);
  Write("w", {{"t", tall}});
  Session session =
      Session::Create(ProgramOf("a=2", {{"w", {F32, {4000, 3000}}, {"a", UNSHARDED}}}), Options()).value();
  const LoadedWeights loaded =
      LoadWeights(session, Path("w"), {.rules = {{.variable = "w", .tensor = "t", .transpose = true}}})
          .value();
  EXPECT_EQ(loaded.bytes_read, int64_t{4} * 3000 * 4000);
  EXPECT_TRUE(BytesOf(session, "w") == RawBytes(tall.Transposed()));
}

// ---- Errors (their texts: tests/errors/load_weights.txt).

TEST_F(LoadWeightsTest, WhatIsRefusedChangesNothing) {
  auto published = Published();
  published[1].second = Drawn({F32, {5, 8}}, 2);
  Write("model.safetensors", published);
  std::vector<std::string> errors(2);
  InDomainsOf(2, [&](Transport* end) {
    Session session = Session::Create(Model("model=2"), Options(end)).value();
    const auto up = BytesOf(session, "block0/up"), bias = BytesOf(session, "bias");
    errors[static_cast<size_t>(end->domain())] = MessageOf(LoadWeights(session, dir(), Rules()).status());
    EXPECT_EQ(BytesOf(session, "block0/up"), up);
    EXPECT_EQ(BytesOf(session, "bias"), bias);
  });
  EXPECT_THAT(errors[0], HasSubstr("\"block0/down\" is f32[7,5]"));
  EXPECT_EQ(errors[0], errors[1]);
}

TEST_F(LoadWeightsTest, OneDomainWithoutTheFilesFailsAll) {
  Write("model.safetensors", Published());
  std::vector<std::string> errors(2);
  InDomainsOf(2, [&](Transport* end) {
    Session session = Session::Create(Model("model=2"), Options(end)).value();
    const std::string path = end->domain() == 0 ? dir() : Path("elsewhere");
    errors[static_cast<size_t>(end->domain())] = MessageOf(LoadWeights(session, path, Rules()).status());
    EXPECT_TRUE(LoadWeights(session, dir(), Rules()).ok());  // the transport can still be used
  });
  EXPECT_THAT(errors, Each(HasSubstr(Path("elsewhere"))));
  EXPECT_THAT(errors[0], HasSubstr("domain 1 failed"));
}

TEST_F(LoadWeightsTest, DomainsWithOtherFilesAreRefused) {
  Write("model.safetensors", Published());
  auto others = Published();
  others[0].second = others[0].second.Cast(F32);
  Write("others", others);
  std::vector<std::string> errors(2);
  InDomainsOf(2, [&](Transport* end) {
    Session session = Session::Create(Model("model=2"), Options(end)).value();
    const std::string path = end->domain() == 0 ? dir() : Path("others");
    errors[static_cast<size_t>(end->domain())] = MessageOf(LoadWeights(session, path, Rules()).status());
  });
  EXPECT_EQ(errors[0], errors[1]);
  EXPECT_THAT(errors[0], HasSubstr("the domains differ: "));
  EXPECT_THAT(errors[0], HasSubstr("model.layers.0.up.weight"));
}

TEST_F(LoadWeightsTest, AnElementThatCannotBeReadFailsAllDomains) {
  Write("w", {{"m", BoolTensor({1, 0})}});
  std::string bytes = ReadFile(Path("w")).value();
  bytes.back() = 7;
  File("w", bytes);
  std::vector<std::string> errors(2);
  InDomainsOf(2, [&](Transport* end) {
    Session session = Session::Create(ProgramOf("a=2", {{"m", {BOOL, {2}}, {"a"}}}), Options(end)).value();
    errors[static_cast<size_t>(end->domain())] = MessageOf(LoadWeights(session, Path("w")).status());
  });
  EXPECT_THAT(errors, Each(HasSubstr("tensor \"m\": element 1 is 7")));
}

// Wherever the file is cut, and whatever byte of its header is another one, the session gets an error or the weights.
TEST_F(LoadWeightsTest, DamagedFilesAreRefused) {
  Write("good", Published());
  Session session = Session::Create(Model("model=2"), Options()).value();
  const std::string good = ReadFile(Path("good")).value();
  const auto header = static_cast<int64_t>(good.size()) - (7 * 6 * 2 + 5 * 7 * 4 + 5 * 2);
  for (size_t at = 0; at < good.size(); at += 3) {
    File("bad", good.substr(0, at));
    EXPECT_THAT(MessageOf(LoadWeights(session, Path("bad"), Rules()).status()), Not(IsEmpty())) << at;
  }
  for (size_t at = 0; at < static_cast<size_t>(header); ++at) {
    std::string bad = good;
    bad[at] ^= 1;
    LoadWeights(session, File("bad", bad), Rules()).status().IgnoreError();
  }
  EXPECT_TRUE(LoadWeights(session, Path("good"), Rules()).ok());
}

}  // namespace
}  // namespace meshwork::load_weights_test

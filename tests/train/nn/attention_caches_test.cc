#include "meshwork/train/nn/attention_caches.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork.h"

namespace meshwork::attention_caches_test {
namespace {

using ::testing::Contains;
using ::testing::DoubleNear;
using ::testing::Pointwise;

constexpr int64_t kRows = 3, kContext = 9, kUnits = 8, kHeads = 4, kKvHeads = 2, kHead = 2, kLayers = 2;
const MultiHeadAttentionOptions kAttention{.rotary = RotaryOptions(), .kv_heads = kKvHeads, .dtype = F64};

Value Layers(Graph& g, Value x, AttentionCaches* caches) {
  for (size_t i = 0; i < kLayers; ++i) {
    MultiHeadAttentionOptions options = kAttention;
    options.causal = caches == nullptr;
    const MultiHeadAttention layer(g, fmt::format("a/{}", i), kUnits, kHeads, options);
    x = x + layer(x, {.cache = caches == nullptr ? nullptr : &(*caches)[i]});
  }
  return x;
}

// `steps` steps of all rows, or of `rows` rows from the input "row" on.
Graph WithCaches(const Mesh& mesh, int64_t steps, int64_t rows = kRows) {
  Graph g(mesh);
  g.SetLayouts({.layouts = {{"cache/*", {"batch", UNSHARDED, "model", UNSHARDED}}},
                .missing_axes = MissingAxes::kShardNothing});
  const Value x = g.Input("x", F64, {rows, steps, kUnits}), places = g.Input("places", I32, {rows});
  AttentionCachesOptions options{
      .rows = kRows, .context = kContext, .kv_heads = kKvHeads, .head = kHead, .dtype = F64};
  if (rows < kRows) options.first_row = g.Input("row", I32, {1});
  AttentionCaches caches(g, "cache", kLayers, options, places);
  g.Output("y", Layers(g, x, &caches));
  caches.Update();
  return g;
}

Tensor Drawn(int64_t seed, const Shape& shape) {
  std::vector<double> drawn;
  for (int64_t i = 0; i < NumElements(shape); ++i)
    drawn.push_back(static_cast<double>((i * 37 + seed * 11) % 23) / 11 - 1);
  return Tensor::From<double>(shape, drawn);
}

Tensor Places(const std::vector<int32_t>& places) {
  return Tensor::From<int32_t>({std::ssize(places)}, places);
}

void ExpectSame(const Tensor& have, const Tensor& want) {
  EXPECT_EQ(have.shape(), want.shape());
  EXPECT_THAT(have.values<double>(), Pointwise(DoubleNear(1e-11), want.values<double>()));
}

// Each row's text is read by itself, in a program of that row; then all rows go on together, each at its own place.
TEST(AttentionCachesTest, RowsAreReadByThemselvesAndGoOnTogether) {
  constexpr int64_t kText = 5;
  const Tensor x = Drawn(4, {kRows, kText, kUnits});
  const std::vector<int32_t> read = {2, 4, 1};  // tokens of each row that its own program reads
  Graph whole{Mesh()};
  whole.Output("y", Layers(whole, whole.Input("x", F64, {kRows, kText, kUnits}), nullptr));
  Session reference = Session::Create(whole).value();
  for (const char* name : {"query", "key", "value", "out"})
    for (const char* layer : {"a/0/", "a/1/"}) {
      const std::string variable = fmt::format("{}{}", layer, name);
      ASSERT_TRUE(
          reference.Set(variable, Drawn(std::ssize(variable) + layer[2], reference.Get(variable)->shape()))
              .ok());
    }
  const Tensor want = reference.Run({{"x", x}})->Get("y").value();
  for (const char* mesh_text : {"batch=1,model=1", "batch=3,model=2", "batch=2,model=3", "model=4"}) {
    SCOPED_TRACE(mesh_text);
    const Mesh mesh = Mesh::VirtualCpus(mesh_text).value();
    Session writer = Session::Create(WithCaches(mesh, 1)).value();
    for (const std::string& name : reference.variable_names())
      ASSERT_TRUE(writer.Set(name, reference.Get(name).value()).ok());
    EXPECT_THAT(writer.variable_names(), Contains("cache/1/values"));
    for (int32_t row = 0; row < kRows; ++row) {
      const int64_t count = read[static_cast<size_t>(row)];
      Session reader = writer.Share(WithCaches(mesh, count, /*rows=*/1)).value();
      const Tensor part = x.Rows(row, row + 1).Sliced({{}, {0, count}});
      const absl::StatusOr<StepResult> result =
          reader.Run({{"x", part}, {"places", Places({0})}, {"row", Places({row})}});
      ASSERT_TRUE(result.ok()) << result.status();
      ExpectSame(result->Get("y").value(), want.Rows(row, row + 1).Sliced({{}, {0, count}}));
    }
    std::vector<int32_t> places = read;
    std::vector<Tensor> next, expected;
    for (size_t row = 0; row < kRows; ++row) {
      next.push_back(x[static_cast<int64_t>(row)].Rows(places[row], places[row] + 1));
      expected.push_back(want[static_cast<int64_t>(row)].Rows(places[row], places[row] + 1));
    }
    const absl::StatusOr<StepResult> result =
        writer.Run({{"x", Tensor::Stack(next)}, {"places", Places(places)}});
    ASSERT_TRUE(result.ok()) << result.status();
    ExpectSame(result->Get("y").value(), Tensor::Stack(expected));
  }
}

}  // namespace
}  // namespace meshwork::attention_caches_test

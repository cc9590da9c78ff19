// The transformer of examples/support/gpt.h on meshes, beside itself on one device.
#include "examples/support/gpt.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/random.h"
#include "meshwork/base/status.h"

namespace meshwork::gpt_test {
namespace {

constexpr int64_t kBatch = 8;
constexpr GptModel kSmall{.layers = 2, .dim = 32, .heads = 8, .sequence = 12, .vocabulary = 24, .dtype = F64};

Tensor Tokens(const GptModel& model, int64_t stream) {
  Random random(1, static_cast<uint64_t>(stream));
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < kBatch * model.sequence; ++i)
    tokens.push_back(static_cast<int32_t>(random.Below(static_cast<uint64_t>(model.vocabulary))));
  return Tensor::From<int32_t>({kBatch, model.sequence}, tokens);
}

absl::StatusOr<Session> MakeSession(const GptModel& model, const std::string& mesh) {
  Graph graph(Mesh::VirtualCpus(mesh).value());
  BuildGpt(graph, model, kBatch, Adam({.learning_rate = 1e-2}));
  return Session::Create(graph);
}

// The losses of `steps` steps from the same weights on the same data.
absl::StatusOr<std::vector<double>> Losses(const GptModel& model, const std::string& mesh, int64_t steps) {
  MESHWORK_ASSIGN_OR_RETURN(Session session, MakeSession(model, mesh));
  std::vector<double> losses;
  for (int64_t step = 0; step < steps; ++step) {
    MESHWORK_ASSIGN_OR_RETURN(const StepResult result,
                              session.Run({{"tokens", Tokens(model, 2 * (step % 3))},
                                           {"targets", Tokens(model, 2 * (step % 3) + 1)}}));
    MESHWORK_ASSIGN_OR_RETURN(losses.emplace_back(), result.scalar("loss"));
  }
  return losses;
}

void ExpectTheLossesOfOneDevice(const GptModel& model, const std::vector<std::string>& meshes, int64_t steps,
                                double tolerance) {
  const absl::StatusOr<std::vector<double>> expected = Losses(model, "batch=1", steps);
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (const std::string& mesh : meshes) {
    SCOPED_TRACE(mesh);
    const absl::StatusOr<std::vector<double>> losses = Losses(model, mesh, steps);
    ASSERT_TRUE(losses.ok()) << losses.status();
    for (size_t i = 0; i < expected->size(); ++i)
      EXPECT_LE(std::abs((*losses)[i] - (*expected)[i]), tolerance * std::abs((*expected)[i]))
          << "step " << i;
  }
}

const std::vector<std::string>& Meshes() {
  static const auto* meshes = new std::vector<std::string>{
      "batch=8", "batch=2,model=4", "batch=2,seq=2,model=2", "seq=4,model=2", "seq=3", "batch=3,model=3"};
  return *meshes;
}

TEST(GptTest, HasTheLossesOfOneDeviceOnEveryMesh) {
  ExpectTheLossesOfOneDevice(kSmall, Meshes(), /*steps=*/6, 1e-9);
  GptModel learned = kSmall;
  learned.rotary = false;
  ExpectTheLossesOfOneDevice(learned, Meshes(), /*steps=*/6, 1e-9);
}

TEST(GptTest, HasTheLossOfOneDeviceInF32) {
  GptModel model = kSmall;
  model.dtype = F32;
  ExpectTheLossesOfOneDevice(model, Meshes(), /*steps=*/1, 1e-5);
}

TEST(GptTest, TrainsInBf16AsInF32) {
  GptModel model = kSmall;
  model.dtype = F32;
  GptModel mixed = model;
  mixed.compute = BF16;
  constexpr int64_t kSteps = 24;
  // The mean loss of the last six steps, in which every batch comes twice.
  const auto end_of = [](const std::vector<double>& losses) {
    return std::accumulate(losses.end() - 6, losses.end(), 0.0) / 6;
  };
  const auto full = Losses(model, "batch=2", kSteps);
  ASSERT_TRUE(full.ok()) << full.status();
  EXPECT_LT(end_of(*full), 0.8 * full->front());
  for (const char* mesh : {"batch=2", "batch=2,model=2", "batch=2,seq=2"}) {
    const auto narrow = Losses(mixed, mesh, kSteps);
    ASSERT_TRUE(narrow.ok()) << narrow.status();
    EXPECT_NEAR(end_of(*narrow), end_of(*full), 0.02 * end_of(*full)) << mesh;
    EXPECT_NE(*narrow, *full);
  }
}

TEST(GptTest, WithExpertsLearnsInBf16) {
  GptModel model = kSmall;
  model.dtype = F32;
  model.compute = BF16;
  model.experts = 4;
  const auto losses = Losses(model, "batch=2,model=2", 40);
  ASSERT_TRUE(losses.ok()) << losses.status();
  EXPECT_LT(losses->back(), 0.75 * losses->front());
}

TEST(GptTest, WithExpertsHasTheLossesOfOneDevice) {
  GptModel model = kSmall;
  model.experts = 4;
  ExpectTheLossesOfOneDevice(model, {"batch=2", "batch=4", "batch=2,model=2"}, /*steps=*/4, 1e-9);
}

TEST(GptTest, LearnsWhatItSees) {
  const absl::StatusOr<std::vector<double>> losses = Losses(kSmall, "batch=2,seq=2,model=2", 60);
  ASSERT_TRUE(losses.ok()) << losses.status();
  EXPECT_NEAR(losses->front(), std::log(24), 0.7);
  EXPECT_LT(losses->back(), 0.75 * losses->front());
}

// Values with a row per token and the vocabulary as last dim never have larger blocks than their device's share.
TEST(GptTest, NeverGathersLogits) {
  const absl::StatusOr<Session> session = MakeSession(kSmall, "batch=2,model=4");
  ASSERT_TRUE(session.ok()) << session.status();
  int64_t logits = 0;
  for (const ValueInfo& value : session->program().body.values()) {
    if (value.global.shape != Shape{kBatch, kSmall.sequence, kSmall.vocabulary}) continue;
    EXPECT_EQ(value.type.shape, (Shape{kBatch / 2, kSmall.sequence, kSmall.vocabulary / 4}));
    ++logits;
  }
  EXPECT_GT(logits, 5);
}

}  // namespace
}  // namespace meshwork::gpt_test

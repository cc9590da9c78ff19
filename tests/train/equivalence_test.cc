// A small MLP on many meshes, beside the same MLP in plain loops over doubles: equal numbers everywhere.
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "meshwork/base/random.h"
#include "runtime/plan/programs.h"

namespace meshwork::equivalence_test {
namespace {

constexpr int64_t kSizes[] = {20, 14, 10, 4};
constexpr int kLayers = 3;
constexpr int64_t kSteps = 20;
constexpr double kSgdRate = 0.1, kAdamRate = 0.01;

// With batch=20 and model=16, some devices have no row or no column.
constexpr const char* kMeshes[] = {
    "batch=8",         "batch=3", "batch=7",         "batch=4,model=2",  "batch=2,model=3",
    "model=3,batch=2", "model=4", "batch=20",        "model=16",         "batch=2,model=2,copies=2",
    "batch=2,model=4", "model=8", "a=2,b=2,batch=2", "batch=2,model=2*2"};

enum class Optimizer { kSgd, kAdam };

using Vector = std::vector<double>;
using Vectors = std::map<std::string, Vector>;

struct Examples {
  Vector x;                // [b,20]
  std::vector<int32_t> y;  // [b]
  int64_t size() const { return static_cast<int64_t>(y.size()); }
};

// The batch of each step. Three overlapping clusters, so that there is something to learn.
std::vector<Examples> MakeBatches(int64_t rows) {
  Random random(/*seed=*/3);
  std::vector<Examples> batches(kSteps);
  for (Examples& batch : batches) {
    for (int64_t i = 0; i < rows; ++i) {
      batch.y.push_back(static_cast<int32_t>(random.Below(kSizes[kLayers])));
      for (int64_t j = 0; j < kSizes[0]; ++j)
        batch.x.push_back(random.Uniform(-1, 1) + (j % 4 == batch.y.back()));
    }
  }
  return batches;
}

std::string KernelName(int layer) { return fmt::format("dense{}/kernel", layer + 1); }
std::string BiasName(int layer) { return fmt::format("dense{}/bias", layer + 1); }

std::vector<std::string> WeightNames() {
  std::vector<std::string> names;
  for (int l = 0; l < kLayers; ++l) names.insert(names.end(), {KernelName(l), BiasName(l)});
  return names;
}

// The reference: forward, backward and optimizer written out, one number at a time. Shares nothing with
// meshwork.
class PlainMlp {
 public:
  explicit PlainMlp(Vectors weights) : weights_(std::move(weights)) {
    for (const auto& [name, weight] : weights_) {
      m_[name] = Vector(weight.size(), 0);
      v_[name] = Vector(weight.size(), 0);
    }
  }

  const Vectors& weights() const { return weights_; }
  const Vectors& m() const { return m_; }
  const Vectors& v() const { return v_; }
  int64_t steps() const { return steps_; }

  // One step; returns the loss before it.
  double Step(const Examples& batch, Optimizer optimizer) {
    Vectors gradients;
    const double loss = Differentiate(batch, gradients);
    ++steps_;
    for (auto& [name, weight] : weights_) {
      for (size_t i = 0; i < weight.size(); ++i) {
        const double g = gradients[name][i];
        if (optimizer == Optimizer::kSgd) {
          weight[i] -= kSgdRate * g;
          continue;
        }
        double &m = m_[name][i], &v = v_[name][i];
        m = 0.9 * m + 0.1 * g;
        v = 0.999 * v + 0.001 * g * g;
        const auto t = static_cast<double>(steps_);
        const double m_hat = m / (1 - std::pow(0.9, t)), v_hat = v / (1 - std::pow(0.999, t));
        weight[i] -= kAdamRate * m_hat / (std::sqrt(v_hat) + 1e-8);
      }
    }
    return loss;
  }

 private:
  // The mean loss, and its gradient by each weight.
  double Differentiate(const Examples& batch, Vectors& gradients) const {
    for (const auto& [name, weight] : weights_) gradients[name] = Vector(weight.size(), 0);
    double loss = 0;
    for (int64_t row = 0; row < batch.size(); ++row) {
      std::vector<Vector> h = {
          Vector(batch.x.begin() + row * kSizes[0], batch.x.begin() + (row + 1) * kSizes[0])};
      for (int l = 0; l < kLayers; ++l) {
        Vector out = weights_.at(BiasName(l));
        for (int64_t i = 0; i < kSizes[l]; ++i)
          for (int64_t j = 0; j < kSizes[l + 1]; ++j)
            out[j] += h[l][i] * weights_.at(KernelName(l))[i * kSizes[l + 1] + j];
        for (double& x : out) x = l + 1 < kLayers ? std::max(x, 0.0) : x;
        h.push_back(out);
      }
      double sum = 0;
      for (double logit : h[kLayers]) sum += std::exp(logit);
      loss += (std::log(sum) - h[kLayers][batch.y[row]]) / static_cast<double>(batch.size());
      Vector d;  // by the outputs of layer l
      for (double logit : h[kLayers]) d.push_back(std::exp(logit) / sum / static_cast<double>(batch.size()));
      d[batch.y[row]] -= 1 / static_cast<double>(batch.size());
      for (int l = kLayers; l-- > 0;) {
        Vector before(kSizes[l], 0);
        for (int64_t j = 0; j < kSizes[l + 1]; ++j) gradients[BiasName(l)][j] += d[j];
        for (int64_t i = 0; i < kSizes[l]; ++i) {
          for (int64_t j = 0; j < kSizes[l + 1]; ++j) {
            gradients[KernelName(l)][i * kSizes[l + 1] + j] += h[l][i] * d[j];
            before[i] += d[j] * weights_.at(KernelName(l))[i * kSizes[l + 1] + j];
          }
          if (h[l][i] <= 0) before[i] = 0;
        }
        d = before;
      }
    }
    return loss;
  }

  Vectors weights_, m_, v_;
  int64_t steps_ = 0;
};

// The same model as a global program. Axes that the mesh does not have shard nothing.
Session MakeSession(const std::string& mesh_text, int64_t batch_size, DType dtype, Optimizer optimizer) {
  Graph g(Mesh::VirtualCpus(mesh_text).value());
  auto axis_or_whole = [&](const char* name) {
    return g.mesh().FindAxes(name).ok() ? DimSpec(name) : DimSpec(UNSHARDED);
  };
  const DimSpec batch = axis_or_whole("batch"), model = axis_or_whole("model");
  Value x = g.Input("x", dtype, {batch_size, kSizes[0]}, {batch, UNSHARDED});
  Value y = g.Input("y", I32, {batch_size}, {batch});
  Dense dense1(g, "dense1", kSizes[0], kSizes[1],
               {.kernel_layout = {UNSHARDED, model}, .bias_layout = {model}, .dtype = dtype});
  Dense dense2(g, "dense2", kSizes[1], kSizes[2], {.kernel_layout = {model, UNSHARDED}, .dtype = dtype});
  Dense dense3(g, "dense3", kSizes[2], kSizes[3], {.dtype = dtype});
  Value loss = SparseSoftmaxCrossEntropy(dense3(Relu(dense2(Relu(dense1(x))))), y);
  if (optimizer == Optimizer::kSgd) Sgd({.learning_rate = kSgdRate}).Minimize(loss);
  else Adam({.learning_rate = kAdamRate}).Minimize(loss);
  g.Output("loss", loss);
  return Session::Create(g, {.workers = 2, .seed = 5, .executor = {.poison_padding = true}}).value();
}

template <typename T>
Tensor ToTensor(const Shape& shape, const Vector& values) {
  return Tensor::From<T>(shape, std::vector<T>(values.begin(), values.end()));
}

template <typename T>
Feeds FeedsOf(const Examples& batch) {
  return {{"x", ToTensor<T>({batch.size(), kSizes[0]}, batch.x)},
          {"y", Tensor::From<int32_t>({batch.size()}, batch.y)}};
}

Vector ToVector(const Tensor& tensor) {
  if (tensor.dtype() == F64) return {tensor.values<double>().begin(), tensor.values<double>().end()};
  return {tensor.values<float>().begin(), tensor.values<float>().end()};
}

Vectors WeightsOf(const Session& session) {
  Vectors weights;
  for (const std::string& name : WeightNames()) weights[name] = ToVector(session.Get(name).value());
  return weights;
}

// ‖a−b‖₂ / ‖b‖₂
double Distance(const Vector& a, const Vector& b) {
  EXPECT_EQ(a.size(), b.size());
  double difference = 0, norm = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return difference == 0 ? 0 : std::sqrt(difference / norm);
}

void ExpectClose(const Vectors& a, const Vectors& b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, values] : a) EXPECT_LE(Distance(values, b.at(name)), tolerance) << name;
}

// Losses and weights after kSteps steps.
struct Trained {
  Vector losses;
  Vectors weights;
};

Trained Train(Session& session, const std::vector<Examples>& batches) {
  Trained trained;
  for (const Examples& batch : batches)
    trained.losses.push_back(session.Run(FeedsOf<double>(batch))->scalar("loss").value());
  trained.weights = WeightsOf(session);
  return trained;
}

Trained Train(PlainMlp& plain, const std::vector<Examples>& batches, Optimizer optimizer) {
  Trained trained;
  for (const Examples& batch : batches) trained.losses.push_back(plain.Step(batch, optimizer));
  trained.weights = plain.weights();
  return trained;
}

void ExpectClose(const Trained& a, const Trained& b, double tolerance) {
  EXPECT_LE(Distance(a.losses, b.losses), tolerance);
  ExpectClose(a.weights, b.weights, tolerance);
}

class EquivalenceTest : public testing::TestWithParam<std::tuple<Optimizer, int64_t>> {
 protected:
  Optimizer optimizer() const { return std::get<0>(GetParam()); }
  int64_t batch_size() const { return std::get<1>(GetParam()); }
};

TEST_P(EquivalenceTest, TrainingInDoublesIsTheSameOnEveryMeshAndInPlainLoops) {
  const std::vector<Examples> batches = MakeBatches(batch_size());
  Session one = MakeSession("batch=1", batch_size(), F64, optimizer());
  PlainMlp plain(WeightsOf(one));
  const Trained reference = Train(plain, batches, optimizer());
  EXPECT_LT(reference.losses.back(), 0.8 * reference.losses.front());
  const Trained on_one = Train(one, batches);
  ExpectClose(on_one, reference, 1e-9);
  for (const char* mesh : kMeshes) {
    SCOPED_TRACE(mesh);
    Session session = MakeSession(mesh, batch_size(), F64, optimizer());
    const Trained trained = Train(session, batches);
    ExpectClose(trained, on_one, 1e-9);
    ExpectClose(trained, reference, 1e-9);
  }
}

TEST_P(EquivalenceTest, EachSingleStepInFloatsIsTheReferences) {
  const std::vector<Examples> batches = MakeBatches(batch_size());
  std::vector<std::pair<std::string, Session>> sessions;
  sessions.emplace_back("batch=1", MakeSession("batch=1", batch_size(), F32, optimizer()));
  for (const char* mesh : kMeshes)
    sessions.emplace_back(mesh, MakeSession(mesh, batch_size(), F32, optimizer()));
  PlainMlp plain(WeightsOf(sessions[0].second));
  for (int64_t step = 0; step < kSteps; ++step) {
    const PlainMlp before = plain;
    const double loss = plain.Step(batches[step], optimizer());
    for (auto& [mesh, session] : sessions) {
      SCOPED_TRACE(fmt::format("{}, step {}", mesh, step));
      auto set = [&session = session](const std::string& name, const Vector& values) {
        ASSERT_EQ(MessageOf(session.Set(name, ToTensor<float>(session.Get(name)->shape(), values))), "");
      };
      for (const std::string& name : WeightNames()) {
        set(name, before.weights().at(name));
        if (optimizer() == Optimizer::kSgd) continue;
        set("adam/m/" + name, before.m().at(name));
        set("adam/v/" + name, before.v().at(name));
      }
      if (optimizer() == Optimizer::kAdam) {
        ASSERT_EQ(MessageOf(session.Set("adam/step", Tensor::From<int64_t>({}, {before.steps()}))), "");
      }
      EXPECT_NEAR(session.Run(FeedsOf<float>(batches[step]))->scalar("loss").value() / loss, 1, 1e-5);
      ExpectClose(WeightsOf(session), plain.weights(), 1e-5);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(OptimizersAndBatchSizes, EquivalenceTest,
                         testing::Combine(testing::Values(Optimizer::kSgd, Optimizer::kAdam),
                                          testing::Values(16, 15)),
                         [](const auto& info) {
                           return fmt::format("{}{}",
                                              std::get<0>(info.param) == Optimizer::kSgd ? "Sgd" : "Adam",
                                              std::get<1>(info.param));
                         });

// The last batch of an epoch: 15 rows through a program written for 16.
TEST(MeshEquivalenceTest, ShortBatchesTrainAsInPlainLoops) {
  const std::vector<Examples> batches = MakeBatches(15);
  Session one = MakeSession("batch=1", 16, F64, Optimizer::kAdam);
  PlainMlp plain(WeightsOf(one));
  const Trained reference = Train(plain, batches, Optimizer::kAdam);
  ExpectClose(Train(one, batches), reference, 1e-9);
  for (const char* mesh : kMeshes) {
    SCOPED_TRACE(mesh);
    Session session = MakeSession(mesh, 16, F64, Optimizer::kAdam);
    ExpectClose(Train(session, batches), reference, 1e-9);
  }
}

TEST(MeshEquivalenceTest, InitialWeightsAreTheSameByteForByteOnEveryMesh) {
  for (DType dtype : {F32, F64}) {
    const Session one = MakeSession("batch=1", 16, dtype, Optimizer::kAdam);
    for (const char* mesh : kMeshes) {
      SCOPED_TRACE(mesh);
      const Session session = MakeSession(mesh, 16, dtype, Optimizer::kAdam);
      ASSERT_EQ(session.variable_names(), one.variable_names());
      for (const std::string& name : one.variable_names())
        EXPECT_TRUE(BitwiseEqual(session.Get(name).value(), one.Get(name).value())) << name;
    }
  }
}

}  // namespace
}  // namespace meshwork::equivalence_test

#include "benchmarks/step/trainee.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>
#include <utility>

#include "benchmarks/step/options.h"
#include "benchmarks/step/step.h"
#include "meshwork.h"
#include "meshwork/base/status.h"

namespace meshwork {
namespace {

absl::StatusOr<Weights> WeightsOf(const Session& session) {
  Weights weights;
  for (const std::string& name : TheStepModel().weights) {
    MESHWORK_ASSIGN_OR_RETURN(const Tensor tensor, session.Get(name));
    const std::span<const float> values = tensor.values<float>();
    weights.emplace_back(values.begin(), values.end());
  }
  return weights;
}

class MeshTrainee : public Trainee {
 public:
  explicit MeshTrainee(Session session) : session_(std::move(session)) {}
  absl::Status Step(const Tensor& images, const Tensor& labels) override {
    return session_.Run({{"images", images}, {"labels", labels}}).status();
  }
  absl::StatusOr<Weights> CurrentWeights() const override { return WeightsOf(session_); }

 private:
  Session session_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Trainee>> MakeTrainee(const std::string& variant, int64_t batch, int workers) {
  std::string_view mesh_text = variant;
  const bool is_by_hand = TheStepModel().by_hand != nullptr && variant == kByHand;
  if (is_by_hand) mesh_text = "batch=1";
  SessionOptions options{.workers = workers};
  if (mesh_text.ends_with(kUnshared)) {
    mesh_text.remove_suffix(kUnshared.size());
    options.executor.share = false;
  }
  if (mesh_text.ends_with(kAtomic)) {
    mesh_text.remove_suffix(kAtomic.size());
    options.executor.atomic = true;
  }
  MESHWORK_ASSIGN_OR_RETURN(const Mesh mesh, Mesh::VirtualCpus(mesh_text));
  MESHWORK_ASSIGN_OR_RETURN(Session session, Session::Create(TheStepModel().graph(mesh, batch), options));
  if (!is_by_hand) return std::make_unique<MeshTrainee>(std::move(session));
  MESHWORK_ASSIGN_OR_RETURN(const Weights start, WeightsOf(session));
  return TheStepModel().by_hand(batch, workers, start);
}

double Distance(const Weights& a, const Weights& b) {
  double worst = 0;
  for (size_t t = 0; t < a.size(); ++t) {
    double sum = 0;
    for (size_t i = 0; i < a[t].size(); ++i) sum += std::abs(a[t][i] - b[t][i]);
    worst = std::max(worst, sum / (TheStepModel().learning_rate * static_cast<double>(a[t].size())));
  }
  return worst;
}

}  // namespace meshwork

#include "benchmarks/gpu_step/training.h"

#include <memory>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/ir/program_cost.h"
#include "meshwork/ir/row.h"

namespace meshwork {
namespace {

constexpr uint64_t kBatches = 8;  // of the data, over which all steps cycle

// With `prefetches`, feeds are copied to the GPU while the step before runs.
absl::StatusOr<GpuWork> Made(const GpuOptions& o, const Training& training, bool prefetches) {
  absl::StatusOr<Mesh> mesh = Mesh::VirtualCpus(training.mesh);
  if (!mesh.ok()) return Annotate(mesh.status(), fmt::format("\"{}\": ", training.mesh));
  const auto data = std::make_shared<std::vector<Feeds>>();
  for (uint64_t batch = 0; batch < kBatches; ++batch) {
    Random random(/*seed=*/2, batch);
    data->push_back(training.make_feeds(random));
  }
  const Clock::time_point start = Clock::now();
  Graph graph(*mesh);
  training.build(graph);
  GpuWork work{.flops = FlopsOfProducts(graph)};
  MESHWORK_ASSIGN_OR_RETURN(Session made, Session::Create(graph, OptionsOf(o, training.precision)));
  const auto session = std::make_shared<Session>(std::move(made));
  MESHWORK_ASSIGN_OR_RETURN(std::shared_ptr<PrefetchToDevice> ahead,
                            PrefetchToDevice::Create(*session, prefetches));
  work.setup_seconds = SecondsSince(start);
  ahead->Start([data, next = size_t{0}]() mutable -> absl::StatusOr<std::optional<NextFeeds>> {
    return NextFeeds{(*data)[next++ % data->size()]};
  });
  work.step = [session, ahead = std::move(ahead)]() -> absl::StatusOr<double> {
    MESHWORK_ASSIGN_OR_RETURN(const PrefetchedFeeds* const batch, ahead->Next());
    MESHWORK_ASSIGN_OR_RETURN(const StepResult result, session->Run(batch->feeds, batch->staged));
    return result.scalar("loss");
  };
  work.profile = [session] { return session->Profile(); };
  return work;
}

}  // namespace

std::vector<GpuWorkPlan> TrainingPlans(const GpuOptions& o, const Training& training, bool prefetches) {
  std::vector<GpuWorkPlan> plans;
  plans.push_back({.name = training.name, .about = training.about, .make = [o, training] {
                     return Made(o, training, /*prefetches=*/false);
                   }});
  if (prefetches)
    plans.push_back({.name = training.name + "/prefetch",
                     .about = training.about,
                     .beside = training.name,
                     .make = [o, training] { return Made(o, training, /*prefetches=*/true); }});
  return plans;
}

std::vector<GpuWorkPlan> TrainingPlans(const GpuOptions& o, const Training& training) {
  return TrainingPlans(o, training, o.prefetch == "all");
}

DType ComputeOf(const GpuOptions& o) { return o.compute == "bf16" ? BF16 : F32; }

SessionOptions OptionsOf(const GpuOptions& o, const std::string& precision) {
  SessionOptions options{.devices = o.devices};
  options.executor.profile = o.profile == "on";
  options.executor.matmul_precision = precision == "tf32" ? MatmulPrecision::kTf32 : MatmulPrecision::kFull;
  return options;
}

double FlopsOfProducts(const Graph& graph) {
  double flops = 0;
  for (const Node& node : graph.nodes()) {
    if (node.row->is_product) flops += FlopsOf(graph, node);
    for (const auto& region : node.regions)
      flops += static_cast<double>(TimesOf(node)) * FlopsOfProducts(*region);
  }
  return flops;
}

Tensor RandomReals(Random& random, const Shape& shape) {
  std::vector<float> values(static_cast<size_t>(NumElements(shape)));
  for (float& value : values) value = static_cast<float>(random.Uniform());
  return Tensor::From<float>(shape, values);
}

Tensor RandomNumbers(Random& random, const Shape& shape, int64_t n) {
  std::vector<int32_t> values(static_cast<size_t>(NumElements(shape)));
  for (int32_t& value : values) value = static_cast<int32_t>(random.Below(static_cast<uint64_t>(n)));
  return Tensor::From<int32_t>(shape, values);
}

}  // namespace meshwork

#include "benchmarks/gpu_step/works.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_join.h"
#include "benchmarks/gpu_step/convolutions.h"
#include "benchmarks/gpu_step/dlrm.h"
#include "benchmarks/gpu_step/floors.h"
#include "benchmarks/gpu_step/recurrent.h"
#include "benchmarks/gpu_step/training.h"
#include "benchmarks/gpu_step/transformers.h"
#include "examples/support/mlp.h"
#include "meshwork/base/status.h"

namespace meshwork {
namespace {

// A step that reads variables and leaves its result, "y", on the device.
absl::StatusOr<GpuWork> OnDevice(const GpuOptions& o, const Graph& graph) {
  const Clock::time_point start = Clock::now();
  GpuWork work{.flops = FlopsOfProducts(graph)};
  SessionOptions options = OptionsOf(o, o.precision);
  options.executor.distributed = {"y"};
  MESHWORK_ASSIGN_OR_RETURN(Session made, Session::Create(graph, std::move(options)));
  const auto session = std::make_shared<Session>(std::move(made));
  MESHWORK_ASSIGN_OR_RETURN(BoundStep bound, session->Bind(StepMemory()));
  const auto step = std::make_shared<BoundStep>(std::move(bound));
  work.setup_seconds = SecondsSince(start);
  work.step = [session, step]() -> absl::StatusOr<double> {
    MESHWORK_RETURN_IF_ERROR(step->Run());
    return 0.0;
  };
  work.profile = [session] { return session->Profile(); };
  return work;
}

absl::StatusOr<GpuWork> Matmul(const GpuOptions& o) {
  Graph graph(Mesh::VirtualCpus("batch=1").value());
  const auto random = [&](std::string_view name) {
    return graph.Var(name, NormalRandom({o.size, o.size}, 0, 1, BF16), {UNSHARDED, UNSHARDED});
  };
  graph.Output("y", MatMul(random("a"), random("b")));
  return OnDevice(o, graph);
}

absl::StatusOr<GpuWork> Chain(const GpuOptions& o) {
  Graph graph(Mesh::VirtualCpus("batch=1").value());
  const auto random = [&](std::string_view name) {
    return graph.Var(name, NormalRandom({o.elements / 1024, 1024}, 0, 1, F32), {UNSHARDED, UNSHARDED});
  };
  const Value a = random("a"), b = random("b");
  graph.Output("y", Relu(a * b + 0.5) * Sigmoid(a) - b * b);
  MESHWORK_ASSIGN_OR_RETURN(GpuWork work, OnDevice(o, graph));
  work.bytes = 3.0 * 4 * static_cast<double>(o.elements);
  return work;
}

using Plans = std::vector<GpuWorkPlan>;

Plans MatmulPlans(const GpuOptions& o) {
  return {{.name = fmt::format("matmul/{}", o.size), .beside = "cublaslt", .make = [o] { return Matmul(o); }},
          {.name = "cublaslt", .make = [o] { return CublasFloor(o); }}};
}

Plans ChainPlans(const GpuOptions& o) {
  return {{.name = fmt::format("chain/{}", o.elements), .beside = "copy", .make = [o] { return Chain(o); }},
          {.name = "copy", .make = [o] { return CopyFloor(o); }}};
}

// Without prefetching, then with it.
Plans MlpPlans(const GpuOptions& o) {
  Plans plans;
  for (const int64_t batch : o.batches)
    for (const std::string& mesh : o.meshes) {
      const Training mlp{
          .name = fmt::format("mlp/{}/{}", batch, mesh),
          .about = {{"model", "mlp"}, {"batch", batch}, {"precision", o.precision}},
          .precision = o.precision,
          .mesh = mesh,
          .build = [batch](Graph& graph) { BuildMlp(graph, batch, {}, Adam({.learning_rate = 1e-3})); },
          .make_feeds =
              [batch](Random& random) {
                return Feeds{{"images", RandomReals(random, {batch, 784})},
                             {"labels", RandomNumbers(random, {batch}, 10)}};
              }};
      std::ranges::move(TrainingPlans(o, mlp, o.prefetch != "off"), std::back_inserter(plans));
    }
  return plans;
}

struct Kind {
  const char* name;
  Plans (*plans)(const GpuOptions& o);
};
constexpr Kind kKinds[] = {
    {"matmul", MatmulPlans}, {"chain", ChainPlans},     {"mlp", MlpPlans},
    {"cnn", CnnPlans},       {"resnet50", ResNetPlans}, {"unet", UNetPlans},
    {"lstm", LstmPlans},     {"gru", GruPlans},         {"bilstm", BidirectionalLstmPlans},
    {"dlrm", DlrmPlans},     {"gpt", GptPlans},         {"llama", LlamaPlans},
    {"vit", VitPlans},       {"bert", BertPlans}};

}  // namespace

std::string WorkNames() {
  return absl::StrJoin(kKinds, ", ", [](std::string* out, const Kind& kind) { out->append(kind.name); });
}

absl::StatusOr<std::vector<GpuWorkPlan>> PlanWorks(const GpuOptions& o) {
  Plans plans;
  for (const std::string& name : o.works) {
    const auto* const kind =
        std::ranges::find(kKinds, name, [](const Kind& k) { return std::string(k.name); });
    if (kind == std::end(kKinds))
      return InvalidArgument("--works: there is no \"{}\"; there are {}.", name, WorkNames());
    std::ranges::move(kind->plans(o), std::back_inserter(plans));
  }
  return plans;
}

}  // namespace meshwork

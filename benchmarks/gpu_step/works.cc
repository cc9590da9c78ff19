#include "benchmarks/gpu_step/works.h"

#include <memory>
#include <utility>

#include "benchmarks/gpu_step/floors.h"
#include "examples/support/mlp.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/program.h"
#include "meshwork/ir/row.h"
#include "meshwork/train/random.h"

namespace meshwork {
namespace {

constexpr int64_t kBatches = 8;  // of the data, over which all steps cycle

double FlopsOfAll(const Graph& graph) {
  double flops = 0;
  for (const Node& node : graph.nodes())
    if (node.row->is_product) flops += FlopsOf(graph, node);
  return flops;
}

SessionOptions OptionsOf(const GpuOptions& o) {
  SessionOptions options{.devices = o.devices};
  options.executor.profile = o.profile == "on";
  options.executor.matmul_precision = o.precision == "tf32" ? MatmulPrecision::kTf32 : MatmulPrecision::kFull;
  return options;
}

absl::StatusOr<Mesh> MeshOf(const std::string& text) {
  absl::StatusOr<Mesh> mesh = Mesh::VirtualCpus(text);
  if (!mesh.ok()) return Annotate(mesh.status(), fmt::format("\"{}\": ", text));
  return mesh;
}

// A training that is fed host tensors, and gives its loss to the host. With `prefetches` its feeds are copied to the GPU while
// the step before runs. Both cycle over the data.
absl::StatusOr<GpuWork> Training(const GpuOptions& o, std::string name, const Graph& graph,
                                 std::shared_ptr<const std::vector<Feeds>> data, bool prefetches = false) {
  GpuWork work{.name = std::move(name), .flops = FlopsOfAll(graph)};
  MESHWORK_ASSIGN_OR_RETURN(Session made, Session::Create(graph, OptionsOf(o)));
  const auto session = std::make_shared<Session>(std::move(made));
  MESHWORK_ASSIGN_OR_RETURN(std::shared_ptr<PrefetchToDevice> ahead,
                            PrefetchToDevice::Create(*session, prefetches));
  ahead->Start(
      [data = std::move(data), next = size_t{0}]() mutable -> absl::StatusOr<std::optional<NextFeeds>> {
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

// A step that reads variables and leaves its result, "y", on the device.
absl::StatusOr<GpuWork> OnDevice(const GpuOptions& o, std::string name, const Graph& graph) {
  GpuWork work{.name = std::move(name), .flops = FlopsOfAll(graph)};
  SessionOptions options = OptionsOf(o);
  options.executor.distributed = {"y"};
  MESHWORK_ASSIGN_OR_RETURN(Session made, Session::Create(graph, std::move(options)));
  const auto session = std::make_shared<Session>(std::move(made));
  MESHWORK_ASSIGN_OR_RETURN(BoundStep bound, session->Bind(StepMemory()));
  const auto step = std::make_shared<BoundStep>(std::move(bound));
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
  MESHWORK_ASSIGN_OR_RETURN(GpuWork work, OnDevice(o, fmt::format("matmul/{}", o.size), graph));
  work.beside = "cublaslt";
  return work;
}

absl::StatusOr<GpuWork> Chain(const GpuOptions& o) {
  Graph graph(Mesh::VirtualCpus("batch=1").value());
  const auto random = [&](std::string_view name) {
    return graph.Var(name, NormalRandom({o.elements / 1024, 1024}, 0, 1, F32), {UNSHARDED, UNSHARDED});
  };
  const Value a = random("a"), b = random("b");
  graph.Output("y", Relu(a * b + 0.5) * Sigmoid(a) - b * b);
  MESHWORK_ASSIGN_OR_RETURN(GpuWork work, OnDevice(o, fmt::format("chain/{}", o.elements), graph));
  work.bytes = 3.0 * 4 * static_cast<double>(o.elements);
  work.beside = "copy";
  return work;
}

// Without, and with prefetching.
absl::StatusOr<std::vector<GpuWork>> Mlp(const GpuOptions& o, int64_t batch, const std::string& on) {
  MESHWORK_ASSIGN_OR_RETURN(const Mesh mesh, MeshOf(on));
  Graph graph(mesh);
  BuildMlp(graph, batch, {}, Adam({.learning_rate = 1e-3}));
  const auto data = std::make_shared<std::vector<Feeds>>();
  for (int64_t b = 0; b < kBatches; ++b) {
    Random random(/*seed=*/2, static_cast<uint64_t>(b));
    std::vector<float> images(static_cast<size_t>(batch * 784));
    std::vector<int32_t> labels(static_cast<size_t>(batch));
    for (float& pixel : images) pixel = static_cast<float>(random.Uniform());
    for (int32_t& label : labels) label = static_cast<int32_t>(random.Below(10));
    data->push_back({{"images", Tensor::From<float>({batch, 784}, images)},
                     {"labels", Tensor::From<int32_t>({batch}, labels)}});
  }
  std::vector<GpuWork> works;
  const std::string name = fmt::format("mlp/{}/{}", batch, on);
  MESHWORK_ASSIGN_OR_RETURN(works.emplace_back(), Training(o, name, graph, data));
  if (o.prefetch == "off") return works;
  MESHWORK_ASSIGN_OR_RETURN(works.emplace_back(),
                            Training(o, name + "/prefetch", graph, data, /*prefetches=*/true));
  works.back().beside = name;
  return works;
}

absl::StatusOr<GpuWork> GptStep(const GpuOptions& o) {
  Graph graph(Mesh::VirtualCpus("batch=1").value());
  BuildGpt(graph, o.gpt, o.gpt_batch, Adam({.learning_rate = 1e-3}));
  const auto data = std::make_shared<std::vector<Feeds>>();
  for (int64_t b = 0; b < kBatches; ++b)
    data->push_back({{"tokens", RandomTokens(o.gpt, o.gpt_batch, static_cast<uint64_t>(2 * b))},
                     {"targets", RandomTokens(o.gpt, o.gpt_batch, static_cast<uint64_t>(2 * b + 1))}});
  return Training(o, fmt::format("gpt/{}", o.gpt_batch), graph, std::move(data));
}

}  // namespace

absl::StatusOr<std::vector<GpuWork>> MakeWorks(const GpuOptions& o) {
  std::vector<GpuWork> works;
  const auto add = [&](absl::StatusOr<GpuWork> work) -> absl::Status {
    MESHWORK_RETURN_IF_ERROR(work.status());
    works.push_back(*std::move(work));
    return absl::OkStatus();
  };
  for (const std::string& which : o.works) {
    if (which == "matmul") {
      MESHWORK_RETURN_IF_ERROR(add(Matmul(o)));
      MESHWORK_RETURN_IF_ERROR(add(CublasFloor(o)));
    } else if (which == "chain") {
      MESHWORK_RETURN_IF_ERROR(add(Chain(o)));
      MESHWORK_RETURN_IF_ERROR(add(CopyFloor(o)));
    } else if (which == "mlp") {
      for (const int64_t batch : o.batches)
        for (const std::string& mesh : o.meshes) {
          MESHWORK_ASSIGN_OR_RETURN(const std::vector<GpuWork> both, Mlp(o, batch, mesh));
          works.insert(works.end(), both.begin(), both.end());
        }
    } else if (which == "gpt") {
      MESHWORK_RETURN_IF_ERROR(add(GptStep(o)));
    } else {
      return InvalidArgument("--works: there is no \"{}\"; there are matmul, chain, mlp and gpt.", which);
    }
  }
  return works;
}

}  // namespace meshwork

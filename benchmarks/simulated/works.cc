#include "benchmarks/simulated/works.h"

#include <random>
#include <utility>

#include "examples/support/cnn.h"
#include "examples/support/gpt.h"
#include "examples/support/mlp.h"
#include "meshwork/base/status.h"

namespace meshwork {
namespace {

GptModel GptOf(const SimulatedWork& work) {
  return {.layers = 2, .dim = work.size, .heads = 4, .sequence = 64};
}

Tensor RandomImages(const Shape& shape) {
  Tensor images(Type{F32, shape});
  std::mt19937 random(1);
  for (float& x : images.mutable_values<float>()) x = static_cast<float>(random() % 256) / 255;
  return images;
}

Tensor RandomLabels(int64_t batch) {
  Tensor labels(Type{I32, {batch}});
  std::mt19937 random(2);
  for (int32_t& x : labels.mutable_values<int32_t>()) x = static_cast<int32_t>(random() % 10);
  return labels;
}

std::vector<SimulatedWork> MakeWorks() {
  std::vector<SimulatedWork> works;
  for (const int64_t batch : {128, 1024})
    for (const char* mesh : {"batch=1", "batch=8", "batch=4,model=2", "batch=2,model=4"})
      works.push_back({.model = "mlp", .mesh = mesh, .batch = batch});
  for (const int64_t batch : {16, 64})
    for (const char* mesh : {"batch=1", "batch=4", "batch=2,height=2"})
      works.push_back({.model = "cnn", .mesh = mesh, .batch = batch});
  for (const int64_t dim : {64, 256})
    for (const char* mesh : {"batch=1", "batch=4", "batch=2,model=2", "batch=2,seq=2"})
      works.push_back({.model = "gpt", .mesh = mesh, .batch = 8, .size = dim});
  const auto rank = [&](std::string text, NamedLayouts layouts) {
    works.push_back({.model = "mlp",
                     .mesh = "batch=2,model=4",
                     .batch = 64,
                     .layouts = std::move(layouts),
                     .layouts_text = std::move(text),
                     .ranked = true});
  };
  const LayoutSpec whole = {UNSHARDED, UNSHARDED}, columns = {UNSHARDED, "model"},
                   rows = {"model", UNSHARDED};
  const LayoutSpec by_batch = {"batch", UNSHARDED}, by_both = {{"batch", "model"}, UNSHARDED};
  const LayoutSpec alone = {UNSHARDED, UNSHARDED}, label_alone = {UNSHARDED};
  rank("columns, rows", {{"dense1/kernel", columns}, {"dense2/kernel", rows}});
  rank("whole", {{"dense*/kernel", whole}});
  rank("rows, rows", {{"dense1/kernel", rows}, {"dense2/kernel", rows}});
  rank("rows, columns", {{"dense1/kernel", rows}, {"dense2/kernel", columns}});
  rank("columns, columns", {{"dense1/kernel", columns}, {"dense2/kernel", columns}});
  rank("by batch", {{"dense1/kernel", by_batch}, {"dense2/kernel", by_batch}});
  rank("by both", {{"dense1/kernel", by_both}, {"dense2/kernel", by_both}});
  rank("whole, rows", {{"dense1/kernel", whole}, {"dense2/kernel", rows}});
  rank("by both, whole examples",
       {{"dense1/kernel", by_both}, {"dense2/kernel", by_both}, {"images", alone}, {"labels", label_alone}});
  rank("whole, whole examples", {{"dense*/kernel", whole}, {"images", alone}, {"labels", label_alone}});
  return works;
}

}  // namespace

std::string SimulatedWork::name() const {
  std::string text =
      fmt::format("{} {}{} on {}", model, batch, size > 0 ? fmt::format("x{}", size) : "", mesh);
  return layouts_text.empty() ? text : fmt::format("{}: {}", text, layouts_text);
}

const std::vector<SimulatedWork>& SimulatedWorks() {
  static const auto* works = new std::vector<SimulatedWork>(MakeWorks());
  return *works;
}

absl::StatusOr<Graph> GraphOf(const SimulatedWork& work) {
  MESHWORK_ASSIGN_OR_RETURN(const Mesh mesh, Mesh::VirtualCpus(work.mesh));
  Graph graph(mesh);
  const auto optimizer = Adam({.learning_rate = 1e-3});
  if (work.model == "mlp") BuildMlp(graph, work.batch, {}, optimizer);
  else if (work.model == "cnn") BuildCnn(graph, work.batch, {}, optimizer);
  else BuildGpt(graph, GptOf(work), work.batch, optimizer);
  MESHWORK_RETURN_IF_ERROR(graph.status());
  if (work.layouts.empty()) return graph;
  return OnOtherMesh(graph, mesh, work.layouts);
}

Feeds FeedsOf(const SimulatedWork& work) {
  if (work.model == "gpt") {
    const GptModel model = GptOf(work);
    return {{"tokens", RandomTokens(model, work.batch, /*stream=*/0)},
            {"targets", RandomTokens(model, work.batch, /*stream=*/1)}};
  }
  const Shape image = work.model == "mlp" ? Shape{work.batch, 784} : Shape{work.batch, 28, 28, 1};
  return {{"images", RandomImages(image)}, {"labels", RandomLabels(work.batch)}};
}

}  // namespace meshwork

// Writes TensorBoard event files whose contents tests/oracle/tensorboard_oracle.py knows.
//
//   write_summaries DIR
//
// DIR/global: every kind of summary, and the program of a small network as the user wrote it. DIR/local: scalars from
// four threads, and, as the graph, the program of each device of a mesh of eight. DIR/resumed: steps 1 to 7, then 5 and
// 6 again.
#include <cmath>
#include <limits>
#include <optional>
#include <thread>
#include <vector>

#include "meshwork.h"
#include "meshwork/base/status.h"

namespace meshwork {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int64_t kSteps = 100, kThreads = 4;

Graph Network() {
  Graph graph(Mesh::Parse("batch=4,model=2").value());
  const Value images = graph.Input("images", F32, {64, 30}, {"batch", UNSHARDED});
  const Value labels = graph.Input("labels", I32, {64}, {"batch"});
  Dense dense1(graph, "dense1", 30, 16, {.kernel_layout = {UNSHARDED, "model"}, .bias_layout = {"model"}});
  Dense dense2(graph, "dense2", 16, 10, {.kernel_layout = {"model", UNSHARDED}});
  const Value loss = SparseSoftmaxCrossEntropy(dense2(Relu(dense1(images))), labels);
  Sgd({.learning_rate = 0.1}).Minimize(loss);
  graph.Output("loss", loss);
  return graph;
}

// sin(0, 1, 2, …) · scale.
Tensor Waves(const Shape& shape, double scale) {
  Tensor tensor({F64, shape});
  double i = 0;
  for (double& x : tensor.mutable_values<double>()) x = std::sin(i++) * scale;
  return tensor;
}

// 0, 1/n, 2/n, …
Tensor Ramp(const Shape& shape) {
  Tensor tensor({F32, shape});
  int64_t i = 0;
  for (float& x : tensor.mutable_values<float>())
    x = static_cast<float>(static_cast<double>(i++) / static_cast<double>(tensor.num_elements()));
  return tensor;
}

absl::Status WriteScalars(SummaryWriter& log) {
  for (int64_t step = 1; step <= kSteps; ++step) {
    const double t = static_cast<double>(step);
    MESHWORK_RETURN_IF_ERROR(log.Scalar("train/loss", 2.5 / std::sqrt(t), step));
    MESHWORK_RETURN_IF_ERROR(log.Scalar("train/accuracy", 1 - 1 / t, step));
  }
  int64_t step = 0;
  for (double value : {0.0, -0.0, 1e-40, 3.4e38, 1e300, -kInfinity, std::nan("")})
    MESHWORK_RETURN_IF_ERROR(log.Scalar("unusual/numbers", value, step++));
  return log.Scalar("unusual/steps", 1, int64_t{1} << 40);
}

absl::Status WriteHistograms(SummaryWriter& log) {
  for (int64_t step = 0; step < 5; ++step)
    MESHWORK_RETURN_IF_ERROR(
        log.Histogram("dense1/kernel", Waves({30, 16}, 1 + static_cast<double>(step)), step));
  MESHWORK_RETURN_IF_ERROR(log.Histogram("unusual/one_number", Tensor::From<float>({3}, {2.5, 2.5, 2.5}), 0));
  MESHWORK_RETURN_IF_ERROR(log.Histogram("unusual/empty", Tensor::Zeros({F32, {0, 4}}), 0));
  MESHWORK_RETURN_IF_ERROR(
      log.Histogram("unusual/whole_numbers", Tensor::From<int64_t>({4}, {-7, 0, 3, 23}), 0));
  return log.Histogram("unusual/not_finite",
                       Tensor::From<double>({5}, {1, kInfinity, 31, std::nan(""), -kInfinity}), 7);
}

absl::Status WriteImages(SummaryWriter& log) {
  MESHWORK_RETURN_IF_ERROR(log.Image("images/grey", Ramp({16, 24}), 0));
  MESHWORK_RETURN_IF_ERROR(log.Image("images/grey_alpha", Ramp({8, 8, 2}), 0));
  MESHWORK_RETURN_IF_ERROR(log.Image("images/rgb", Ramp({20, 30, 3}), 0));
  MESHWORK_RETURN_IF_ERROR(log.Image("images/rgba", Ramp({5, 7, 4}), 0));
  MESHWORK_RETURN_IF_ERROR(log.Image("images/three", Ramp({3, 6, 9, 1}), 0));
  return log.Image("images/beyond", Tensor::From<double>({1, 4}, {-1, 2, std::nan(""), 0.5}), 0);
}

absl::Status WriteGlobal(const std::string& dir) {
  MESHWORK_ASSIGN_OR_RETURN(SummaryWriter log, SummaryWriter::Create(dir + "/global"));
  MESHWORK_RETURN_IF_ERROR(log.Graph(Network()));
  MESHWORK_RETURN_IF_ERROR(WriteScalars(log));
  MESHWORK_RETURN_IF_ERROR(WriteHistograms(log));
  MESHWORK_RETURN_IF_ERROR(WriteImages(log));
  MESHWORK_RETURN_IF_ERROR(log.Text("notes", "a network of **two** layers, größer als eine", 3));
  return log.Close();
}

absl::Status WriteLocal(const std::string& dir) {
  MESHWORK_ASSIGN_OR_RETURN(SummaryWriter log, SummaryWriter::Create(dir + "/local"));
  MESHWORK_ASSIGN_OR_RETURN(const Program program, Compile(Network()));
  MESHWORK_RETURN_IF_ERROR(log.Graph(program.body));
  std::vector<absl::Status> ends(kThreads);
  {
    std::vector<std::jthread> threads;
    for (int64_t t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        for (int64_t step = 0; step < kSteps; ++step)
          ends[static_cast<size_t>(t)].Update(
              log.Scalar(fmt::format("thread/{}", t), static_cast<double>(t * step), step));
      });
  }
  for (const absl::Status& end : ends) MESHWORK_RETURN_IF_ERROR(end);
  return log.Close();
}

absl::Status WriteResumed(const std::string& dir) {
  struct Part {
    std::optional<int64_t> purge_step;
    int64_t first, last;
    double value;
  };
  for (const Part& part : {Part{std::nullopt, 1, 7, 1}, Part{5, 5, 6, 2}}) {
    MESHWORK_ASSIGN_OR_RETURN(SummaryWriter log,
                              SummaryWriter::Create(dir + "/resumed", {.purge_step = part.purge_step}));
    for (int64_t step = part.first; step <= part.last; ++step)
      MESHWORK_RETURN_IF_ERROR(log.Scalar("train/resumed", part.value, step));
    MESHWORK_RETURN_IF_ERROR(log.Close());
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace meshwork

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: write_summaries DIR\n");
    return 2;
  }
  for (const auto write : {meshwork::WriteGlobal, meshwork::WriteLocal, meshwork::WriteResumed}) {
    const absl::Status status = write(argv[1]);
    if (!status.ok()) {
      fmt::print(stderr, "write_summaries: {}\n", meshwork::MessageOf(status));
      return 1;
    }
  }
}

// quantized/<bits>/<m>x<n>x<k>/<workers>: the row matmul_q, in turn with matmul of floats by the same matrix transposed, each
// cut between the workers as a step is. Counters: us, the median of matmul_q; gbs, the bytes of the quantised matrix read
// in this time, in GB/s; of_f32, the median of matmul divided by it; f32_gbs, the same of matmul.
#include <memory>
#include <utility>
#include <vector>

#include "benchmarks/machine.h"
#include "benchmarks/measure.h"
#include "meshwork.h"
#include "meshwork/base/status.h"

namespace meshwork::quantized_benchmark {
namespace {

struct Sizes {
  int64_t m, n, k;
};

// A program of one product, run by a session, whose variable is the matrix.
class Product {
 public:
  // bits: 4, 8, or 32 for floats.
  Product(const Sizes& s, int bits, int workers) {
    Graph g{Mesh()};
    const Value x = g.Input("x", F32, {s.m, s.k});
    if (bits == 32) {
      matrix_bytes_ = s.n * s.k * 4;
      const Variable w = g.Var("w", UniformRandom({s.n, s.k}, -1, 1));
      g.Output("y", MatMul(x, w, false, /*transpose_b=*/true));
    } else {
      const Shape blocks = {s.n, s.k / 32};
      const Variable q = g.Var("q", Zeros({s.n, s.k / 32, bits * 4}, bits == 8 ? I8 : U8));
      const Variable scale = g.Var("scale", Zeros(blocks, F16));
      const Variable zero = bits == 4 ? g.Var("zero", Zeros(blocks, F16)) : Variable();
      matrix_bytes_ = q.type().bytes() + scale.type().bytes() + (bits == 4 ? scale.type().bytes() : 0);
      g.Output("y", MatMulQ(x, q, scale, zero));
    }
    session_ = std::make_unique<Session>(Session::Create(g, {.workers = workers}).value());
    const Tensor rows = Tensor::Full({F32, {s.m, s.k}}, 0.5);
    step_ = std::make_unique<BoundStep>(session_->Bind({{"x", rows}}).value());
  }

  int64_t matrix_bytes() const { return matrix_bytes_; }

  // Seconds of a step that comes right behind another one, and so finds in the caches what these can hold.
  absl::StatusOr<double> Run() {
    MESHWORK_RETURN_IF_ERROR(step_->Run());
    absl::Status status;
    const double seconds = Seconds([&] { status = step_->Run(); });
    MESHWORK_RETURN_IF_ERROR(status);
    return seconds;
  }

 private:
  int64_t matrix_bytes_ = 0;
  std::unique_ptr<Session> session_;
  std::unique_ptr<BoundStep> step_;
};

absl::Status Measure(benchmark::State& state, const Sizes& sizes, int bits, int workers) {
  Product quantized(sizes, bits, workers), floats(sizes, 32, workers);
  std::vector<double> own, others;
  const auto turn = [&]() -> absl::Status {
    MESHWORK_ASSIGN_OR_RETURN(others.emplace_back(), floats.Run());
    MESHWORK_ASSIGN_OR_RETURN(own.emplace_back(), quantized.Run());
    return absl::OkStatus();
  };
  for (auto _ : state) {
    MESHWORK_RETURN_IF_ERROR(turn());
    state.SetIterationTime(own.back());
  }
  while (own.size() < 15) MESHWORK_RETURN_IF_ERROR(turn());
  const double seconds = Median(std::move(own)), of_floats = Median(std::move(others));
  state.counters["us"] = 1e6 * seconds;
  state.counters["gbs"] = 1e-9 * static_cast<double>(quantized.matrix_bytes()) / seconds;
  state.counters["of_f32"] = of_floats / seconds;
  state.counters["f32_gbs"] = 1e-9 * static_cast<double>(floats.matrix_bytes()) / of_floats;
  return absl::OkStatus();
}

const bool kRegistered = [] {
  for (const int bits : {4, 8}) {
    for (const auto& [n, k] : {std::pair<int64_t, int64_t>(1536, 576), {49152, 576}}) {
      for (const int64_t m : {1, 8, 64}) {
        for (const int workers : {1, 2}) {
          const Sizes sizes{m, n, k};
          RegisterMeasurement(fmt::format("quantized/{}/{}x{}x{}/{}", bits, m, n, k, workers),
                              benchmark::kMicrosecond,
                              [=](benchmark::State& state) { return Measure(state, sizes, bits, workers); });
        }
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace meshwork::quantized_benchmark

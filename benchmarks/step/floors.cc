#include "benchmarks/step/floors.h"

#include <dnnl.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

#include "benchmarks/machine.h"
#include "benchmarks/step/step.h"
#include "meshwork.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/cpu/worker_pool.h"

namespace meshwork {
namespace {

constexpr int kTries = 30;
constexpr int kSide = 512;  // of a matrix: three are 3 MB

// The shortest time of one call of f on each worker.
double FastestSeconds(WorkerPool& pool, const std::function<void(int)>& f) {
  double fastest = 1e300;
  for (int i = 0; i < kTries; ++i) fastest = std::min(fastest, Seconds([&] { pool.Run(f); }));
  return fastest;
}

double SecondsPerGflop(WorkerPool& pool) {
  struct Product {
    std::vector<float> a, b, c;
  };
  const std::vector<float> ones(size_t{kSide} * kSide, 1.0f);
  std::vector<Product> products(pool.num_workers(), {ones, ones, ones});
  const double seconds = FastestSeconds(pool, [&](int worker) {
    Product& p = products[worker];
    dnnl_sgemm('N', 'N', kSide, kSide, kSide, 1, p.a.data(), kSide, p.b.data(), kSide, 0, p.c.data(), kSide);
  });
  return seconds / (1e-9 * 2 * kSide * kSide * kSide * pool.num_workers());
}

// Counts the bytes that are read and written.
double SecondsToMove(WorkerPool& pool, double megabytes) {
  const auto bytes = static_cast<size_t>(1e6 * megabytes / 2);
  const std::vector<char> from(bytes, 1);
  std::vector<char> to(bytes, 2);
  return FastestSeconds(pool, [&](int worker) {
    const size_t begin = bytes * worker / pool.num_workers(), end = bytes * (worker + 1) / pool.num_workers();
    std::memcpy(to.data() + begin, from.data() + begin, end - begin);
  });
}

}  // namespace

absl::StatusOr<Floors> MeasureFloors(int64_t batch, int workers) {
  MESHWORK_ASSIGN_OR_RETURN(const Program program, Compile(TheStepModel().graph(Mesh(), batch)));
  const Graph& graph = program.body;
  int64_t bytes = 0;
  for (const Argument& argument : graph.arguments())
    bytes += (argument.is_variable ? 2 : 1) * graph.value(argument.value).type.bytes();
  WorkerPool pool(workers);
  Floors floors{1e-9 * CountFlops(graph), 1e-6 * static_cast<double>(bytes)};
  floors.products_ms = 1e3 * floors.gflop * SecondsPerGflop(pool);
  floors.memory_ms = 1e3 * SecondsToMove(pool, floors.megabytes);
  return floors;
}

}  // namespace meshwork

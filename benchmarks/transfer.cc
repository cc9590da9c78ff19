// pack/<layout>/<size> and unpack/…: a host tensor of this size is cut into the blocks of 8 devices, and put
// together again, beside memcpy of as many bytes by one thread (counter of_memcpy: bytes per second, divided
// by memcpy's). Unpack makes a new tensor, and the system allocates its pages during the write; memcpy writes
// to pages that are there already.
//
// replicas/<layout>/<size>: a check of two replicas of so many bytes each (train/cluster/replica_check.h), beside
// memcpy that copies one to the other.
#include "benchmarks/machine.h"
#include "benchmarks/measure.h"
#include "meshwork.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/cpu/cpu_memory.h"
#include "meshwork/runtime/cpu/worker_pool.h"
#include "meshwork/runtime/exec/dtensor.h"
#include "meshwork/train/cluster/replica_check.h"

namespace meshwork::transfer_benchmark {
namespace {

struct Case {
  std::string_view name, mesh, layout;
  int64_t extra_rows = 0;  // more rows than the axis divides evenly
};
constexpr int64_t kSizes[] = {4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20};
constexpr Case kCases[] = {{"rows", "x=8", "{x,_}"},
                           {"columns", "x=8", "{_,x}"},
                           {"both", "x=4,y=2", "{x,y}"},
                           {"uneven", "x=8", "{x,_}", -1},
                           {"strided", "x=8", "{2*8@x*2,_}"}};

absl::Status Move(benchmark::State& state, const Case& c, int64_t bytes, bool pack) {
  constexpr int64_t kRows = 32;
  const Type type{F32, {kRows + c.extra_rows, bytes / kRows / DTypeSize(F32)}};
  MESHWORK_ASSIGN_OR_RETURN(const Mesh mesh, Mesh::Parse(c.mesh));
  MESHWORK_ASSIGN_OR_RETURN(const Layout layout, Layout::Parse(mesh, c.layout));
  DTensor blocks(CpuMemory(), type, layout);
  Tensor host = Tensor::Zeros(type);
  MESHWORK_RETURN_IF_ERROR(Pack(host, blocks));
  WorkerPool one(1);
  return MeasureBesideMemcpy(state, one, 2 * type.bytes(), [&]() -> absl::StatusOr<double> {
    absl::Status status;
    const double seconds = Seconds([&] {
      if (pack) {
        status = Pack(host, blocks);
      } else {
        absl::StatusOr<Tensor> whole = Unpack(blocks);
        status = whole.status();
        benchmark::DoNotOptimize(whole);
      }
    });
    MESHWORK_RETURN_IF_ERROR(status);
    return seconds;
  });
}

// The devices along y hold replicas.
absl::Status Check(benchmark::State& state, std::string_view layout, int64_t bytes) {
  constexpr int64_t kRows = 32;
  MESHWORK_ASSIGN_OR_RETURN(const Mesh mesh, Mesh::Parse("x=2,y=2"));
  MESHWORK_ASSIGN_OR_RETURN(const Layout parsed, Layout::Parse(mesh, layout));
  const DTensor tensor(CpuMemory(), {F32, {kRows, bytes / kRows / DTypeSize(F32) - 1}}, parsed,
                       /*share=*/false);
  WorkerPool one(1);
  return MeasureBesideMemcpy(state, one, tensor.bytes(), [&]() -> absl::StatusOr<double> {
    absl::Status status;
    const double seconds = Seconds([&] { status = CheckReplicas({{"w", tensor}}, 1); });
    MESHWORK_RETURN_IF_ERROR(status);
    return seconds;
  });
}

const bool kRegistered = [] {
  for (const std::string_view layout : {"{x,_}", "{_,x}"})
    for (const int64_t bytes : kSizes)
      RegisterMeasurement(
          fmt::format("replicas/{}/{}", layout == "{x,_}" ? "rows" : "columns", SizeName(bytes)),
          benchmark::kMicrosecond,
          [layout, bytes](benchmark::State& state) { return Check(state, layout, bytes); });
  for (const bool pack : {true, false})
    for (const Case& c : kCases)
      for (const int64_t bytes : kSizes)
        RegisterMeasurement(fmt::format("{}/{}/{}", pack ? "pack" : "unpack", c.name, SizeName(bytes)),
                            benchmark::kMicrosecond, [&c, bytes, pack](benchmark::State& state) {
                              return Move(state, c, bytes, pack);
                            });
  return true;
}();

}  // namespace
}  // namespace meshwork::transfer_benchmark

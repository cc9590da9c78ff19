// cross_device/<op>/<devices>/<size>: a step that adds up n bytes of each device by a cross-device op
// (runtime/plan/cross_device.h), in turn with the same step without one, where the kernel of the terms adds them up and
// the sum is stored once. Both steps also keep the sum in a variable. With an op each device has a term and a result of
// its own: of D devices, at least D n bytes are written and read to have the terms apart, D n are read and D n written
// by the op, and n copied to the variable; without, D n are read and n written. Counters:
//   step_us      median wall time of a step with the op
//   default_us   without
//   of_default   the second divided by the first: 1 is as fast
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "benchmarks/machine.h"
#include "benchmarks/measure.h"
#include "meshwork.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/runtime/cpu/cross_device_ops.h"
#include "meshwork/runtime/exec/executor.h"

namespace meshwork::cross_device_benchmark {
namespace {

struct CrossDeviceCase {
  std::string_view name;
  std::shared_ptr<CrossDeviceOps> (*make)();
};

// A cross-device op with only the two functions that a user's own op needs: like ReductionToOneDevice, by one thread.
class OwnCrossDeviceOps : public CrossDeviceOps {
 public:
  explicit OwnCrossDeviceOps(std::shared_ptr<CrossDeviceOps> ops) : ops_(std::move(ops)) {}
  std::string_view name() const override { return "own"; }
  absl::Status Reduce(const ReducePack& pack) override { return ops_->Reduce(pack); }
  absl::Status Broadcast(const BroadcastPack& pack) override { return ops_->Broadcast(pack); }

 private:
  const std::shared_ptr<CrossDeviceOps> ops_;
};

const CrossDeviceCase kCrossDeviceCases[] = {
    {"reduction_to_one_device", [] { return ReductionToOneDevice(); }},
    {"hierarchical_copy", [] { return HierarchicalCopyAllReduce().value(); }},
    {"ring", [] { return RingAllReduce(); }},
    {"own", []() -> std::shared_ptr<CrossDeviceOps> {
       return std::make_shared<OwnCrossDeviceOps>(ReductionToOneDevice());
     }}};

constexpr int64_t kCrossDeviceSizes[] = {4 << 10, 1 << 20, 64 << 20};

absl::Status MeasureCrossDevice(benchmark::State& state, const CrossDeviceCase& c, int64_t devices,
                                int64_t bytes) {
  const int64_t n = bytes / DTypeSize(F32);
  MESHWORK_ASSIGN_OR_RETURN(const Graph graph, ParseGraph(fmt::format(R"(mesh [x={0}]
func step(var %a: f32[{0},{1}] {{x,_}}, var %b: f32[{1}] {{_}}) {{
  %p = reduce_sum %a dims=[0]
  update %b = %p
}})",
                                                                      devices, n)));
  MESHWORK_ASSIGN_OR_RETURN(const Program program, Compile(graph));
  CpuBackend backend;
  std::map<std::string, DTensor> variables;
  const ExecutorOptions without{.poison_padding = false, .check_replicas = false};
  ExecutorOptions with = without;
  with.cross_device_ops = c.make();
  MESHWORK_ASSIGN_OR_RETURN(const std::unique_ptr<Executor> ours,
                            Executor::Create(program, backend, with, &variables));
  MESHWORK_ASSIGN_OR_RETURN(const std::unique_ptr<Executor> plain,
                            Executor::Create(program, backend, without, &variables));
  MESHWORK_ASSIGN_OR_RETURN(BoundStep step, ours->Bind({}, {}));
  MESHWORK_ASSIGN_OR_RETURN(BoundStep plain_step, plain->Bind({}, {}));
  std::vector<double> steps, plain_steps;
  const auto turn = [&]() -> absl::Status {
    absl::Status status;
    steps.push_back(Seconds([&] { status = step.Run(); }));
    MESHWORK_RETURN_IF_ERROR(status);
    plain_steps.push_back(Seconds([&] { status = plain_step.Run(); }));
    return status;
  };
  MESHWORK_RETURN_IF_ERROR(turn());  // warms up pages and caches
  steps.clear(), plain_steps.clear();
  for (auto _ : state) {
    MESHWORK_RETURN_IF_ERROR(turn());
    state.SetIterationTime(steps.back());
  }
  while (steps.size() < 7) MESHWORK_RETURN_IF_ERROR(turn());
  const double median = Median(std::move(steps)), plain_median = Median(std::move(plain_steps));
  state.counters["step_us"] = 1e6 * median;
  state.counters["default_us"] = 1e6 * plain_median;
  state.counters["of_default"] = plain_median / median;
  return absl::OkStatus();
}

const bool kCrossDeviceRegistered = [] {
  for (const CrossDeviceCase& c : kCrossDeviceCases)
    for (const int64_t devices : {2, 8})
      for (const int64_t bytes : kCrossDeviceSizes)
        RegisterMeasurement(fmt::format("cross_device/{}/{}/{}", c.name, devices, SizeName(bytes)),
                            benchmark::kMicrosecond, [&c, devices, bytes](benchmark::State& state) {
                              return MeasureCrossDevice(state, c, devices, bytes);
                            });
  return true;
}();

}  // namespace
}  // namespace meshwork::cross_device_benchmark

// <collective>[/own]/<size>: one collective among the 8 virtual devices of this process, with n bytes in each
// device's operand. The time is that of the worker that spends most in the collective, or in the kernel that
// replaces it (runtime/plan/coalesce.h): an all_reduce of a sum over one row is a sum over eight rows.
//
// Bytes that must move: memory is shared, so a result that all devices hold is written once and no operand is
// sent twice. Each byte of an operand that is needed is read once, each byte of a result is written once.
//
//                        read  written
//   all_gather            8n      8n     one result of 8n
//   all_gather/own        8n     64n     share=false: each device has a result of its own
//   all_to_all            8n      8n
//   collective_permute    8n      8n
//   all_reduce            8n       n     one result of n
//   all_reduce/own        8n      8n     share=false
//   reduce_scatter        8n       n
//
// The machine's bandwidth is that of memcpy by the same workers, in turn with the collective. memcpy reads
// half as many bytes as the collective moves, and writes as many as it reads, so both move the same number.
// It uses memory of the same kind (AllocateAligned), one contiguous block split over the workers. Counters:
//   of_memcpy       bytes per second of the collective, divided by memcpy's: medians, 1 is as fast
//   instruction_us  median of the time above
//   step_us         median wall time of a whole step without a profile: start, end, barriers, and all
//                   devices' kernels before the collective, which copy 8n for all_reduce and reduce_scatter
//   barrier_us      the time that a worker waits at the barriers of a step
#include "benchmarks/machine.h"
#include "benchmarks/measure.h"
#include "meshwork.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/runtime/exec/dtensor.h"
#include "meshwork/runtime/exec/executor.h"

namespace meshwork::collectives_benchmark {
namespace {

// Programs of %n elements on each device, which keep the collective's result in a variable.
struct Case {
  std::string_view name, collective;
  bool share;
  int64_t read, written;  // in operands of one device
  std::string_view program;
};
constexpr std::string_view kGather = R"(mesh [x=8]
func step(var %a: f32[8,{n}] {{x,_}}, var %b: f32[8,{n}] {{_,_}}) {{
  %r = relayout %a {{_,_}}
  update %b = %r
}})";
constexpr std::string_view kAllReduce = R"(mesh [x=8]
func step(var %a: f32[8,{n}] {{x,_}}, var %b: f32[{n}] {{_}}) {{
  %p = reduce_sum %a dims=[0]
  update %b = %p
}})";
constexpr Case kCases[] = {{"all_gather", "all_gather", true, 8, 8, kGather},
                           {"all_gather/own", "all_gather", false, 8, 64, kGather},
                           {"all_to_all", "all_to_all", true, 8, 8, R"(mesh [x=8]
func step(var %a: f32[8,{n}] {{x,_}}, var %b: f32[8,{n}] {{_,x}}) {{
  %r = relayout %a {{_,x}}
  update %b = %r
}})"},
                           {"collective_permute", "collective_permute", true, 8, 8,
                            R"(mesh [x=2, y=2, z=2]
func step(var %a: f32[8,{n}] {{(x,y,z),_}}, var %b: f32[8,{n}] {{(z,y,x),_}}) {{
  %r = relayout %a {{(z,y,x),_}}
  update %b = %r
}})"},
                           {"all_reduce", "all_reduce", true, 8, 1, kAllReduce},
                           {"all_reduce/own", "all_reduce", false, 8, 8, kAllReduce},
                           {"reduce_scatter", "reduce_scatter", true, 8, 1, R"(mesh [x=8]
func step(var %a: f32[8,{n}] {{x,_}}, var %b: f32[{n}] {{x}}) {{
  %p = reduce_sum %a dims=[0]
  update %b = %p
}})"}};
// Bytes in each device's operand.
constexpr int64_t kSizes[] = {4 << 10, 64 << 10, 1 << 20, 4 << 20, 64 << 20};
// Beyond this a machine of 16 GB has no room for the collective and memcpy.
constexpr int64_t kMostMoved = int64_t{2} << 30;

absl::Status Measure(benchmark::State& state, const Case& c, int64_t bytes) {
  const std::string text = fmt::format(fmt::runtime(c.program), fmt::arg("n", bytes / DTypeSize(F32)));
  MESHWORK_ASSIGN_OR_RETURN(const Graph graph, ParseGraph(text));
  MESHWORK_ASSIGN_OR_RETURN(const Program program, Compile(graph));
  CpuBackend backend;
  std::map<std::string, DTensor> variables;
  const ExecutorOptions options{.share = c.share, .poison_padding = false, .check_replicas = false};
  ExecutorOptions profiled = options;
  profiled.profile = true;
  MESHWORK_ASSIGN_OR_RETURN(const std::unique_ptr<Executor> executor,
                            Executor::Create(program, backend, options, &variables));
  MESHWORK_ASSIGN_OR_RETURN(const std::unique_ptr<Executor> timed,
                            Executor::Create(program, backend, profiled, &variables));
  MESHWORK_ASSIGN_OR_RETURN(BoundStep step, executor->Bind({}, {}));
  MESHWORK_ASSIGN_OR_RETURN(BoundStep timed_step, timed->Bind({}, {}));
  std::vector<double> steps, waits;
  MESHWORK_RETURN_IF_ERROR(timed_step.Run());
  timed->ClearProfile();
  MESHWORK_RETURN_IF_ERROR(MeasureBesideMemcpy(
      state, backend.pool(), bytes * (c.read + c.written), [&]() -> absl::StatusOr<double> {
        absl::Status status;
        steps.push_back(Seconds([&] { status = step.Run(); }));
        MESHWORK_RETURN_IF_ERROR(status);
        MESHWORK_RETURN_IF_ERROR(timed_step.Run());
        const Profile profile = timed->Profile();
        timed->ClearProfile();
        waits.push_back(static_cast<double>(profile.wait_ns) / profile.workers);
        for (const ProfileRow& row : profile.rows)
          if (row.op.find(c.collective) != std::string::npos) return 1e-9 * static_cast<double>(row.max_ns);
        return absl::InternalError(fmt::format("the program has no {}", c.collective));
      }));
  state.counters["step_us"] = 1e6 * Median(std::move(steps));
  state.counters["barrier_us"] = 1e-3 * Median(std::move(waits));
  return absl::OkStatus();
}

const bool kRegistered = [] {
  for (const Case& c : kCases) {
    for (const int64_t bytes : kSizes) {
      if (bytes * (c.read + c.written) > kMostMoved) continue;
      RegisterMeasurement(fmt::format("{}/{}", c.name, SizeName(bytes)), benchmark::kMicrosecond,
                          [&c, bytes](benchmark::State& state) { return Measure(state, c, bytes); });
    }
  }
  return true;
}();

}  // namespace
}  // namespace meshwork::collectives_benchmark

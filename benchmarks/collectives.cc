// <collective>/<size>: one collective among the 8 virtual devices of this process, of so many bytes in each
// device's operand, beside memcpy of the operands of all devices by the same workers (counter x_memcpy: how
// many times its time). The time is that of the worker who spends most in the collective; barrier_us is what
// a worker waits at the barriers of the whole step.
#include "base/status.h"
#include "benchmarks/measure.h"
#include "meshwork.h"

namespace meshwork {
namespace {

constexpr int64_t kDevices = 8;

// Programs of %n elements on each device, which keep the collective's result in a variable.
struct Case {
  std::string_view collective, program;
};
constexpr Case kCases[] = {{"all_gather", R"(mesh [x=8]
func step(var %a: f32[8,{n}] {{x,_}}, var %b: f32[8,{n}] {{_,_}}) {{
  %r = relayout %a {{_,_}}
  update %b = %r
}})"},
                           {"all_to_all", R"(mesh [x=8]
func step(var %a: f32[8,{n}] {{x,_}}, var %b: f32[8,{n}] {{_,x}}) {{
  %r = relayout %a {{_,x}}
  update %b = %r
}})"},
                           {"collective_permute", R"(mesh [x=2, y=2, z=2]
func step(var %a: f32[8,{n}] {{(x,y,z),_}}, var %b: f32[8,{n}] {{(z,y,x),_}}) {{
  %r = relayout %a {{(z,y,x),_}}
  update %b = %r
}})"},
                           {"all_reduce", R"(mesh [x=8]
func step(var %a: f32[8,{n}] {{x,_}}, var %b: f32[{n}] {{_}}) {{
  %p = reduce_sum %a dims=[0]
  update %b = %p
}})"},
                           {"reduce_scatter", R"(mesh [x=8]
func step(var %a: f32[8,{n}] {{x,_}}, var %b: f32[{n}] {{x}}) {{
  %p = reduce_sum %a dims=[0]
  update %b = %p
}})"}};

absl::Status Measure(benchmark::State& state, const Case& c, int64_t bytes) {
  const std::string text = fmt::format(fmt::runtime(c.program), fmt::arg("n", bytes / DTypeSize(F32)));
  ASSIGN_OR_RETURN(const Graph graph, ParseGraph(text));
  ASSIGN_OR_RETURN(const Program program, Compile(graph));
  WorkerPool pool;
  std::map<std::string, DTensor> variables;
  ASSIGN_OR_RETURN(std::unique_ptr<Executor> executor,
                   Executor::Create(program, pool, {.poison_padding = false, .profile = true}, &variables));
  ASSIGN_OR_RETURN(BoundStep step, executor->Bind({}, {}));
  RETURN_IF_ERROR(step.Run());
  executor->ClearProfile();
  double waited = 0;
  RETURN_IF_ERROR(MeasureBesideMemcpy(state, pool, kDevices * bytes, [&]() -> absl::StatusOr<double> {
    RETURN_IF_ERROR(step.Run());
    const Profile profile = executor->Profile();
    executor->ClearProfile();
    waited += static_cast<double>(profile.wait_ns) / profile.workers;
    for (const ProfileRow& row : profile.rows)
      if (row.op == c.collective) return 1e-9 * static_cast<double>(row.max_ns);
    return absl::InternalError(fmt::format("the program has no {}", c.collective));
  }));
  state.counters["barrier_us"] = 1e-3 * waited / static_cast<double>(state.iterations());
  return absl::OkStatus();
}

const bool kRegistered = [] {
  for (const Case& c : kCases)
    for (const int64_t bytes : kSizes)
      RegisterMeasurement(fmt::format("{}/{}", c.collective, SizeName(bytes)), benchmark::kMicrosecond,
                          [&c, bytes](benchmark::State& state) { return Measure(state, c, bytes); });
  return true;
}();

}  // namespace
}  // namespace meshwork

// plan/<from>-><to>/log2_devices:<n>: planning one relayout on a mesh of three axes, without cached plans.
#include "meshwork/layout/relayout.h"

#include <benchmark/benchmark.h>

#include "meshwork.h"
#include "meshwork/base/status.h"

namespace meshwork::relayout_benchmark {
namespace {

struct Case {
  std::string_view from, to;
};
constexpr Case kCases[] = {{"{x,_,_}", "{x,_,_}"},
                           {"{_,_,_}", "{x,y,z}"},
                           {"{x,_,_}", "{_,_,_}"},
                           {"{x,_,_}", "{_,x,_}"},
                           {"{(x,y),_,_}", "{(y,x),_,_}"},
                           {"{_,_,_ | sum:x}", "{x,_,_}"},
                           {"{_,_,z | sum:(x,y)}", "{y,(z,x),_}"},
                           {"{(x,y),z,_}", "{z,_,(y,x)}"},
                           {"{256@x*256,_,_}", "{256*256@x,_,_}"}};

void Plan(benchmark::State& state, const Case& c) {
  const auto log2_axis = state.range(0) / 3;
  const int64_t k = int64_t{1} << log2_axis;
  const Mesh mesh = Mesh::Create({{"x", k}, {"y", k}, {"z", k}}).value();
  const Shape shape = {1 << 16, 1 << 16, 1 << 16};
  const Layout from = Layout::Parse(mesh, c.from).value(), to = Layout::Parse(mesh, c.to).value();
  for (auto _ : state) {
    absl::StatusOr<RelayoutPlan> plan = PlanRelayout(from, to, shape, {.use_cache = false});
    benchmark::DoNotOptimize(plan);
  }
}

const bool kRegistered = [] {
  for (const Case& c : kCases)
    benchmark::RegisterBenchmark(fmt::format("plan/{}->{}", c.from, c.to).c_str(),
                                 [&c](benchmark::State& state) { Plan(state, c); })
        ->ArgName("log2_devices")
        ->Arg(3)
        ->Arg(6)
        ->Arg(18)
        ->Unit(benchmark::kNanosecond);
  return true;
}();

}  // namespace
}  // namespace meshwork::relayout_benchmark

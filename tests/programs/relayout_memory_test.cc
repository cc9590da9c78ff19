// The memory in use during the steps of a relayout is the memory that its plan states: from every layout of a
// tensor, pending sums included, to every whole one, with the plan that sends least and with those that hold
// less. MESHWORK_LONG_TESTS=1 takes every pair; without it, every nth.
#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "layout/all_layouts.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/builder.h"
#include "meshwork/ir/plan/memory_plan.h"
#include "meshwork/ir/plan/memory_report.h"
#include "meshwork/ir/row.h"
#include "meshwork/layout/relayout.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/runtime/exec/executor.h"
#include "meshwork/spmd/local/localize.h"
#include "runtime/plan/schedules.h"

namespace meshwork::relayout_memory_test {
namespace {

// Ones, computed from a fed 1 and laid out as `from`, then relaid to `to`; before Localize.
Graph PlacedProgram(const Layout& from, const Layout& to, const Shape& shape, DType dtype = F32) {
  Graph graph(from.mesh());
  const Type type{dtype, shape};
  const Type scalar{dtype, {}};
  const ValueId one = graph.AddArgument(
      {.name = "one", .type = scalar, .global = scalar, .layout = Layout::Replicated(from.mesh(), 0)},
      /*is_variable=*/false);
  Node ones{.row = &GetOp("broadcast_to"),
            .attrs = {{"shape", ToInts(shape)}, {"dims", std::vector<int64_t>()}}};
  ones.operands.push_back(one);
  ValueInfo info{.type = type, .global = type, .layout = from};
  graph.AddNode(std::move(ones), {info});
  Node relayout{.row = &GetOp("relayout"), .attrs = {{"layout", LayoutPin{to}}}};
  relayout.operands.push_back(1);
  info.layout = to;
  graph.AddNode(std::move(relayout), {info});
  graph.AddOutput({"y", 2});
  return graph;
}

// The bytes of one device's storages in use at an instruction, maximized over the step, on a single worker:
// sharing and coalescing are off.
int64_t MeasuredPeak(const Schedule& schedule) {
  std::vector<BufferRequest> lives(schedule.storages.size(), {0, -1, -1});
  for (size_t i = 0; i < schedule.instructions.size(); ++i) {
    ForAccesses(schedule, schedule.instructions[i], [&](int, int storage, int64_t, int64_t, bool) {
      if (schedule.storages[storage].place.kind != Place::Kind::kPrivate) return;
      BufferRequest& life = lives[storage];
      life = {schedule.storages[storage].bytes, life.begin < 0 ? static_cast<int>(i) : life.begin,
              static_cast<int>(i)};
    });
  }
  for (BufferRequest& life : lives) life.begin = std::max(life.begin, 0), life.end = std::max(life.end, 0);
  return MaxLiveBytes(lives);
}

// Whether every buffer is in use as long as its value: no device has an empty block, whose buffer is never
// touched, and no op leaves out the blocks of some devices because others hold the same.
bool EveryBufferCounts(const Graph& local) {
  for (const ValueInfo& info : local.values())
    for (int64_t device = 0; device < local.mesh().num_devices(); ++device)
      if (NumElements(info.layout->BlockOf(info.global.shape, device)) == 0) return false;
  return std::none_of(local.nodes().begin(), local.nodes().end(), [](const Node& node) {
    return node.row->name == "collective_permute" || node.row->name == "all_to_all_v";
  });
}

struct Tally {
  int64_t smaller = 0;  // pairs with plans that hold less than the plan that sends least
  int64_t exact = 0;    // programs whose buffers hold all the bytes stated
};

class Trial {
 public:
  Trial(const Layout& from, const Layout& to, const Shape& shape, CpuBackend& backend)
      : placed_(PlacedProgram(from, to, shape)), from_(from), to_(to), shape_(shape), backend_(backend) {}

  void Run() {
    const RelayoutPlan plan = PlanRelayout(from_, to_, shape_).value();
    int64_t peak = plan.peak_elements * size_;
    RunWithin(0, peak);
    const std::vector<int64_t> limits = RelayoutLimits(placed_);
    for (int64_t limit : limits) {
      ASSERT_LT(limit, peak);
      peak = limit;
      RunWithin(limit, peak);
    }
    tally.smaller += limits.empty() ? 0 : 1;
  }

  Tally tally;

 private:
  void RunWithin(int64_t limit, int64_t peak) {
    const Program program{.body = Localize(placed_, {.relayout_bytes = limit})};
    // Before the relayout, the ones and the value that they are made of are held together.
    const int64_t made = size_ + NumElements(from_.LocalShape(shape_)) * size_;
    EXPECT_EQ(LogicalPeakBytes(program.body), std::max(peak, made));
    std::map<std::string, DTensor> state;
    const auto executor =
        Executor::Create(program, backend_,
                         {.share = false, .coalesce = false, .fuse = false, .poison_padding = true}, &state)
            .value();
    const int64_t devices = from_.mesh().num_devices(), measured = MeasuredPeak(ScheduleOf(*executor));
    if (EveryBufferCounts(program.body)) {
      EXPECT_GE(measured, devices * peak);
      ++tally.exact;
    }
    EXPECT_LE(measured, devices * peak);
    EXPECT_GE(executor->memory().private_bytes, measured);
    std::map<std::string, Tensor> outputs;
    ASSERT_TRUE(executor->Run({{"one", Tensor::From<float>({}, {1})}}, &outputs).ok());
    const auto terms = static_cast<float>(from_.mesh().GroupSize(from_.PartialAxes().ToList()));
    for (float y : outputs.at("y").values<float>()) ASSERT_EQ(y, terms);
  }

  const Graph placed_;
  const Layout& from_;
  const Layout& to_;
  const Shape& shape_;
  CpuBackend& backend_;
  const int64_t size_ = DTypeSize(F32);
};

void ExpectPeaks(const std::vector<Layout>& wholes, const Shape& shape, int64_t stride, Tally& tally) {
  CpuBackend backend(1);
  int64_t pair = 0;
  for (const Layout& whole : wholes) {
    for (const Layout& from : WithAllPartials(whole, {ReduceOp::kSum})) {
      for (const Layout& to : wholes) {
        if (from == to || pair++ % stride != 0) continue;
        Trial trial(from, to, shape, backend);
        trial.Run();
        tally.smaller += trial.tally.smaller;
        tally.exact += trial.tally.exact;
        if (testing::Test::HasFailure())
          FAIL() << fmt::format("{} -> {}, {} on {}", from.ToString(), to.ToString(), ShapeToString(shape),
                                from.mesh().ToString());
      }
    }
  }
}

TEST(RelayoutMemoryTest, StepsHoldWhatThePlanSays) {
  Tally tally;
  for (std::string_view text : {"a=2", "a=3", "a=4", "a=2,b=2", "a=2,b=3", "a=2,b=2,c=2", "a=2*2", "a=2*3"}) {
    const Mesh mesh = Mesh::Parse(text).value();
    for (const Shape& shape : {Shape{24}, Shape{10, 7}, Shape{4, 6, 5}})
      ExpectPeaks(AllWholeLayouts(mesh, static_cast<int>(shape.size())), shape,
                  mesh.num_axes() > 1 ? EverySo(11) : 1, tally);
    if (HasFailure()) return;
  }
  EXPECT_GT(tally.smaller, 10) << "no plan is made to hold less";
  EXPECT_GT(tally.exact, 1000) << "hardly any program is held against its peak from below";
}

TEST(RelayoutMemoryTest, StridedDimsAndWideTensors) {
  Tally tally;
  for (std::string_view text : {"a=2", "a=2,b=2"}) {
    ExpectPeaks(AllStridedLayouts(Mesh::Parse(text).value(), {12}, 2), {12}, EverySo(17), tally);
    if (HasFailure()) return;
  }
  // Beyond RelayoutOptions::kAlwaysFits.
  ExpectPeaks(AllWholeLayouts(Mesh::Parse("x=4,y=2").value(), 2), {256, 256}, EverySo(7), tally);
}

// A relayout in bf16 has its limit in bf16: here each device has ones of its own, which are not widened.
TEST(RelayoutMemoryTest, LimitsAreOfWhatIsSent) {
  int64_t smaller = 0;
  const Mesh mesh = Mesh::Parse("a=2,b=2").value();
  const Shape shape = {10, 7};
  for (const Layout& whole : AllWholeLayouts(mesh, 2)) {
    for (const Layout& from : WithAllPartials(whole, {ReduceOp::kSum})) {
      for (const Layout& to : AllWholeLayouts(mesh, 2)) {
        const Graph wide = PlacedProgram(from, to, shape), narrow = PlacedProgram(from, to, shape, BF16);
        std::vector<int64_t> twice = RelayoutLimits(narrow);
        for (int64_t limit : twice) {
          const Graph local = Localize(narrow, {.relayout_bytes = limit});
          EXPECT_EQ(LogicalPeakBytes(local), std::max(limit, 2 + NumElements(from.LocalShape(shape)) * 2));
          ++smaller;
        }
        for (int64_t& limit : twice) limit *= 2;
        EXPECT_EQ(twice, RelayoutLimits(wide)) << from.ToString() << " -> " << to.ToString();
      }
    }
  }
  EXPECT_GT(smaller, 10);
}

}  // namespace
}  // namespace meshwork::relayout_memory_test

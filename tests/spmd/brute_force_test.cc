// Compile against all layouts of small programs, tried one by one: without LayoutSpace and MinSum.
//
// A combination of layouts is a program in which every open value is pinned, or left open where it may have a
// pending sum. It is compiled without the passes that search: only the relayouts that pins require are
// inserted. So brute force covers every layout of even blocks, but only the ways to run ops on them that
// ChooseCuts finds, and only the pending sums that PartialFlow passes on; Compile may send less.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "meshwork/ir/plan/explain.h"
#include "meshwork/ir/program.h"
#include "meshwork/ir/program_cost.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/text.h"
#include "meshwork/ops/control/loops.h"
#include "meshwork/spmd/compile.h"
#include "meshwork/spmd/passes.h"
#include "meshwork/spmd/planner/kept_values.h"
#include "meshwork/spmd/planner/move_seconds.h"
#include "support/golden.h"
#include "support/long_tests.h"
#include "support/small_drawer.h"

namespace meshwork::brute_force_test {
namespace {

// The bytes and collectives of a step, and its time on the assumed topology, arithmetic included: with the
// cost of each collective besides its bytes, and without it, as the compiler counts.
struct StepSends {
  int64_t bytes = 0, collectives = 0;
  double seconds = 0, seconds_of_bytes = 0;
};

StepSends SentIn(const Graph& local) {
  const StepCost cost = CostOf(local, {});
  const double seconds = static_cast<double>(cost.bytes) / Topology::kAssumedLink.bandwidth +
                         CountFlops(local) / Topology::kAssumedFlops;
  return {cost.bytes, cost.collectives,
          seconds + static_cast<double>(cost.collectives) * Topology::kAssumedLink.latency, seconds};
}

// The compiler's order (choose_layouts.h): fewer bytes, at most half of them if that takes more collectives,
// and no more arithmetic than the bytes are worth, with the cost of collectives or without.
bool SendsLess(const StepSends& a, const StepSends& b) {
  if (a.bytes >= b.bytes || (a.collectives > b.collectives && 2 * a.bytes > b.bytes)) return false;
  return a.seconds < b.seconds * kLess || a.seconds_of_bytes < b.seconds_of_bytes * kLess;
}

// Operations of each product of a local program, on one device.
std::vector<double> ProductsOf(const Graph& local) {
  std::vector<double> flops;
  for (const Node& node : local.nodes())
    if (node.row->is_product) flops.push_back(FlopsOf(local, node));
  return flops;
}

// ChooseLayouts runs no product on fewer devices than before. So programs that compute a product on fewer
// devices do not count: those in which a product, in their order, has more operations per device than in
// `before`, or which have more products.
bool ComputesMore(const std::vector<double>& flops, const std::vector<double>& before) {
  if (flops.size() > before.size()) return true;
  for (size_t i = 0; i < flops.size(); ++i)
    if (flops[i] > before[i]) return true;
  return false;
}

struct BruteForce {
  int64_t tried = 0;
  std::optional<StepSends> least_bytes,
      less;  // of fewest bytes; of fewest seconds of those that SendsLess than Compile
  std::string least_program, less_program;  // their texts
};

const PassControl kOnlyPins = {.left_out = {"choose_layouts", "regroup_sums", "cut_mesh", "carry_summaries"}};

// `graph` with its outputs pinned as in `local`, which was made from it.
Graph WithOutputsOf(const Graph& local, Graph graph) {
  for (size_t i = 0; i < graph.outputs().size(); ++i)
    graph.mutable_value(graph.outputs()[i].value).layout = local.value(local.outputs()[i].value).layout;
  return graph;
}

BruteForce TryAll(const Graph& graph, const StepSends& compiled) {
  const std::vector<double> before =
      ProductsOf(RunPasses(graph, {}, {.left_out = {"choose_layouts"}}).program.body);
  const std::vector<OpenValue> open = OpenLayouts(graph);
  BruteForce all;
  Graph pinned = graph;
  std::vector<size_t> at(open.size(), 0);
  for (bool more = true; more;) {
    for (size_t i = 0; i < open.size(); ++i) pinned.mutable_value(open[i].id).layout = open[i].pins[at[i]];
    const Passed passed = RunPasses(pinned, {}, kOnlyPins);
    const StepSends sent = SentIn(passed.program.body);
    ++all.tried;
    if (passed.status.ok() && !ComputesMore(ProductsOf(passed.program.body), before)) {
      if (!all.least_bytes.has_value() || sent.bytes < all.least_bytes->bytes) {
        all.least_bytes = sent;
        all.least_program = PrintGraph(pinned);
      }
      if (SendsLess(sent, compiled) && (!all.less.has_value() || sent.seconds < all.less->seconds)) {
        all.less = sent;
        all.less_program = PrintGraph(pinned);
      }
    }
    more = false;
    for (size_t i = 0; i < open.size() && !more; ++i) {
      more = ++at[i] < open[i].pins.size();
      if (!more) at[i] = 0;
    }
  }
  return all;
}

// The numbers of compared programs, by outcome.
struct Counts {
  int64_t compared = 0, equal = 0, fewer = 0;  // in bytes, against the least of brute force
  int64_t more = 0;   // brute force sends fewer bytes, at more collectives or arithmetic than they are worth
  int64_t worse = 0;  // brute force sends fewer bytes, at no more than they are worth
};

// Outputs stay where Compile puts them: an output left in blocks that nobody asked for would send less.
void Compare(const Graph& graph, const std::string& name, int64_t most, Counts& counts) {
  const absl::StatusOr<Program> program = Compile(graph, {.cut_mesh = false});
  ASSERT_TRUE(program.ok()) << name << ": " << program.status() << "\n" << PrintGraph(graph);
  const StepSends sent = SentIn(program->body);
  const Passed before = RunPasses(graph, {.cut_mesh = false}, {.left_out = {"choose_layouts"}});
  if (before.status.ok()) {
    EXPECT_LE(sent.bytes, SentIn(before.program.body).bytes) << name << "\n" << PrintGraph(graph);
  }
  const Graph asked = WithOutputsOf(program->body, graph);
  if (Combinations(OpenLayouts(asked), most) > most) return;
  const BruteForce all = TryAll(asked, sent);
  if (!all.least_bytes.has_value()) return;
  ++counts.compared;
  const int64_t least = all.least_bytes->bytes;
  counts.equal += least == sent.bytes ? 1 : 0;
  counts.fewer += least > sent.bytes ? 1 : 0;
  if (least >= sent.bytes) return;
  ++(all.less.has_value() ? counts.worse : counts.more);
  if (!LongTests() || !all.less.has_value()) return;
  fmt::print("{}: {} B in {} collectives, but {} B in {} for\n{}", name, sent.bytes, sent.collectives,
             all.less->bytes, all.less->collectives, all.less_program);
}

void PrintCounts(const Counts& counts) {
  fmt::print(
      "{} programs: {} of the fewest bytes, {} of fewer; fewer bytes were found for {}, at a price, and for {} without\n",
      counts.compared, counts.equal, counts.fewer, counts.more, counts.worse);
}

TEST(BruteForceTest, SmallProgramsSendNoMoreThanInAnyLayouts) {
  const uint64_t programs = LongTests() ? 2000 : 150;
  const int64_t most = LongTests() ? 1000 : 200;
  Counts counts;
  for (uint64_t seed = 0; seed < programs; ++seed)
    Compare(SmallDrawer(seed, most).Draw(), fmt::format("seed {}", seed), most, counts);
  PrintCounts(counts);
  EXPECT_GE(counts.compared * 100, static_cast<int64_t>(programs) * 98);
  EXPECT_EQ(counts.worse, 0);
  EXPECT_LE((counts.worse + counts.more) * 100, counts.compared * 5);
  EXPECT_GE(counts.fewer * 100, counts.compared * 7);  // pending sums that are passed on
}

// The programs of the design's table, with all values between arguments and outputs left open.
TEST(BruteForceTest, CasesSendNoMoreThanInAnyLayouts) {
  Counts counts;
  for (const std::string& file : GoldenFiles("spmd/cases")) {
    const std::string golden = ReadGolden(file);
    Graph graph = ParseGraph(golden.substr(0, golden.find("----\n"))).value();
    // Values that are gathered on use are held for one op only.
    if (HasLoops(graph) || GathersOnUse(graph)) continue;
    std::vector<bool> is_output(graph.values().size(), false);
    for (const OutputInfo& output : graph.outputs()) is_output[output.value] = true;
    for (size_t id = 0; id < is_output.size(); ++id) {
      ValueInfo& info = graph.mutable_value(static_cast<ValueId>(id));
      if (info.node < 0 || is_output[id]) continue;
      info.layout.reset();
      info.modes.clear();
    }
    Compare(graph, file, LongTests() ? 20'000 : 200, counts);
  }
  PrintCounts(counts);
  EXPECT_GE(counts.compared, 10);
  EXPECT_EQ(counts.worse, 0);
}

}  // namespace
}  // namespace meshwork::brute_force_test

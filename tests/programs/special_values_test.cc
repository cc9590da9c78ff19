// Programs of one op or two, on infinities, NaN, zeros of both signs and denormals: where one device has a NaN,
// an infinity or a zero of a sign, every mesh has it, too. Also with the largest numbers, but not for ops that
// add up. The exceptions are listed with their reasons, as in docs/limitations.md; padding is full of NaN.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/ranges.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/movement.h"
#include "meshwork/ir/program.h"
#include "meshwork/ir/text.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/runtime/exec/executor.h"
#include "meshwork/spmd/compile.h"
#include "support/arguments.h"
#include "support/interpreter.h"
#include "support/long_tests.h"
#include "support/random_program.h"
#include "support/rows_drawer.h"
#include "support/tensors.h"

namespace meshwork::special_values_test {
namespace {

// Samples of rows as in random programs, on such numbers.
class SpecialsDrawer : RowsDrawer {
 public:
  SpecialsDrawer(const std::vector<Sample>& pool, uint64_t seed, bool with_largest)
      : RowsDrawer(pool, seed), with_largest_(with_largest) {}

  // A program of the op and, sometimes, of one that reads its result.
  RandomProgram Draw(const Sample& sample) && {
    std::vector<ValueId> operands;
    for (const Type& type : sample.operands) operands.push_back(AddArgument(type, *sample.row));
    AddNode(sample, operands);
    if (Chance(30)) AddReader();
    for (const Argument& argument : graph().arguments()) {
      const ValueInfo& info = graph().value(argument.value);
      if (IsFloat(info.type.dtype))
        for (double& x : feeds()[info.name])
          if (Chance(50)) x = DrawSpecial(info.type.dtype);
    }
    AddOutputs();
    return TakeProgram();
  }

 private:
  double DrawSpecial(DType dtype) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const double largest = dtype == F64   ? std::numeric_limits<double>::max()
                           : dtype == F32 ? std::numeric_limits<float>::max()
                                          : 0x1.fep127;
    const double least = dtype == F64   ? std::numeric_limits<double>::denorm_min()
                         : dtype == F32 ? std::numeric_limits<float>::denorm_min()
                                        : 0x1p-133;
    const double specials[] = {kInfinity, -kInfinity, std::nan(""), 0,       -0.0,
                               least,     -least,     largest,      -largest};
    return specials[Below(std::size(specials) - (with_largest_ ? 0 : 2))];
  }

  void AddReader() {
    for (int i = 0; i < 20; ++i) {
      const Sample& next = Pick(pool());
      const std::vector<ValueId> results(graph().nodes().back().results.begin(),
                                         graph().nodes().back().results.end());
      for (size_t o = 0; o < next.operands.size(); ++o) {
        if (next.operands[o] != graph().value(results[0]).type) continue;
        std::vector<ValueId> operands;
        for (size_t p = 0; p < next.operands.size(); ++p)
          operands.push_back(p == o ? results[0] : AddArgument(next.operands[p], *next.row));
        return AddNode(next, operands);
      }
    }
  }

  const bool with_largest_;
};

// The ways in which an op's result may differ on another mesh: kinds of Differences.
struct MayDiffer {
  std::string_view row;
  std::set<std::string> kinds;
  bool of_largest = false;  // only where the largest numbers are drawn
};
const std::set<std::string> kAll = {"nan", "inf", "zero"};
const MayDiffer kMayDiffer[] = {
    // Devices are sent zeros from beyond the ends of a dim, and multiply them by an infinite filter; kernels skip them.
    {"conv", {"nan"}},
    {"conv_filter_grad", {"nan"}},
    {"conv_input_grad", {"nan"}},
    // A partial sum that is zero is 0 or -0.
    {"matmul", {"zero"}},
    {"conv", {"zero"}},
    {"conv_filter_grad", {"zero"}},
    {"conv_input_grad", {"zero"}},
    // Places that a causal mask hides are skipped in blocks.
    {"attention", kAll},
    {"attention_grad_q", kAll},
    {"attention_grad_kv", kAll},
    // Sums overflow in one order and not in another.
    {"reduce_sum", kAll, true},
    {"reduce_mean", kAll, true},
    {"cumsum", kAll, true},
    {"matmul", kAll, true},
    {"conv", kAll, true},
    {"conv_filter_grad", kAll, true},
    {"conv_input_grad", kAll, true},
    {"scatter_add", kAll, true},
    {"scatter_nd_add", kAll, true},
    {"scatter_add_along_dim", kAll, true},
};

// Ops on pending sums may change the sign of a zero; if they also read other reals, every kind may differ.
std::set<std::string> MayDifferWhereItWaits(const Graph& local) {
  std::set<std::string> kinds;
  for (const Node& node : local.nodes()) {
    const auto owes = [&](ValueId id) { return local.value(id).layout->is_partial(); };
    if (node.row->kind != OpKind::kCompute ||
        std::none_of(node.operands.begin(), node.operands.end(), owes) || OnlyMoves(RuleOf(local, node)))
      continue;
    kinds.insert("zero");
    for (ValueId id : node.operands)
      if (!owes(id) && IsFloat(local.value(id).type.dtype)) kinds.insert(kAll.begin(), kAll.end());
  }
  return kinds;
}

// The kinds "nan", "inf", "zero" whose places differ between two lists of numbers.
std::set<std::string> Differences(const std::vector<double>& found, const std::vector<double>& expected) {
  std::set<std::string> kinds;
  for (size_t i = 0; i < found.size(); ++i) {
    const double a = found[i], b = expected[i];
    if (std::isnan(a) != std::isnan(b)) kinds.insert("nan");
    else if ((std::isinf(a) || std::isinf(b)) && a != b && !std::isnan(a)) kinds.insert("inf");
    else if (a == 0 && b == 0 && std::signbit(a) != std::signbit(b)) kinds.insert("zero");
  }
  return kinds;
}

std::set<std::string> DifferencesOf(const RandomProgram& random, CpuBackend& backend, bool with_largest) {
  const absl::StatusOr<Program> program = Compile(random.graph, {.replication_budget = int64_t{1} << 40});
  if (!program.ok()) return {std::string(MessageOf(program.status()))};
  std::map<std::string, DTensor> state;
  const std::unique_ptr<Executor> executor =
      Executor::Create(*program, backend, {.poison_padding = true, .check_replicas = true}, &state).value();
  const std::map<std::string, Tensor> feeds = PackArguments(random.graph, random.feeds, state).value();
  std::map<std::string, Tensor> outputs;
  if (absl::Status status = executor->Run(feeds, &outputs); !status.ok()) return {status.ToString()};
  const InterpretedStep expected = Interpret(random.graph, random.feeds);
  std::set<std::string> kinds;
  for (const auto& [name, value] : expected.outputs)
    kinds.merge(Differences(NumbersOf(outputs.at(name)), value.Numbers()));
  for (const std::string& kind : MayDifferWhereItWaits(program->body)) kinds.erase(kind);
  for (const MayDiffer& may : kMayDiffer)
    for (const Node& node : random.graph.nodes())
      if (node.row->name == may.row && (with_largest || !may.of_largest))
        for (const std::string& kind : may.kinds) kinds.erase(kind);
  return kinds;
}

void ExpectAsOnOneDevice(bool with_largest) {
  std::vector<Sample> samples;
  for (const OpRow* row : RowsUnderContract())
    for (std::string_view text : row->samples) samples.push_back(ParseSample(*row, text).value());
  CpuBackend backend(2);
  uint64_t seed = 0;
  for (const Sample& sample : samples) {
    for (int i = 0; i < (LongTests() ? 400 : 10) && !testing::Test::HasFailure(); ++i, ++seed) {
      const RandomProgram random = SpecialsDrawer(samples, seed, with_largest).Draw(sample);
      EXPECT_EQ(fmt::format("{}", fmt::join(DifferencesOf(random, backend, with_largest), ", ")), "")
          << "seed " << seed << "\n"
          << PrintGraph(random.graph);
    }
  }
}

TEST(SpecialValuesTest, AreWhereTheyAreOnOneDevice) { ExpectAsOnOneDevice(/*with_largest=*/false); }
TEST(SpecialValuesTest, OverflowWhereTheyDoOnOneDevice) { ExpectAsOnOneDevice(/*with_largest=*/true); }

// The values of constants count: a pending sum is reduced before it meets an infinity, or a divisor that may be 0.
TEST(SpecialValuesTest, ASumIsPaidBeforeAConstantThatWouldShowItsParts) {
  for (std::string_view op : {"mul %s, %inf", "mul %wide, %s", "div %s, %zero", "div %s, %iota",
                              "div %s, %tiny", "mul %s, %half"}) {
    SCOPED_TRACE(op);
    const Graph graph =
        ParseGraph(
            fmt::format("mesh [x=2]\nfunc f(%a: f32[4,3] {{x,_}}) {{\n  %s = reduce_sum %a dims=[0]\n"
                        "  %inf = constant value=inf shape=[]\n  %zero = constant value=-0 shape=[3]\n"
                        "  %big = constant value=2e8 shape=[]\n"
                        "  %wide = broadcast_to %big shape=[3] dims=[]\n  %iota = iota dim=0 shape=[3]\n"
                        "  %tiny = constant value=1e-8 shape=[]\n  %half = constant value=0.5 shape=[]\n  %r "
                        "= {} : f32[3] {{_}}\n  return r=%r\n}}",
                        op))
            .value();
    const Graph local = Compile(graph).value().body;
    EXPECT_EQ(MayDifferWhereItWaits(local).empty(), op != "mul %s, %half") << PrintGraph(local);
  }
}

// A lookup in a sharded table gives the element bit by bit.
TEST(SpecialValuesTest, WhatIsPickedKeepsItsBits) {
  for (std::string_view pick : {"gather %t, %i dim=0", "take_along_dim %t, %along dim=0", "gather_nd %t, %nd",
                                "dynamic_slice %t, %at dims=[0] sizes=[4]"}) {
    SCOPED_TRACE(pick);
    // The table is so large that gathering it would send more than a reduction of the rows that are looked up.
    std::vector<double> table = {-0.0, 0, -HUGE_VAL, std::nan(""), 0, -0.0, 1, HUGE_VAL};
    table.resize(32, 1);
    RandomProgram random{ParseGraph(fmt::format("mesh [x=2, y=2]\nfunc f(%t: f32[16,2] {{(y,x),_}}) {{\n"
                                                "  %i = iota dim=0 dtype=i32 shape=[4]\n"
                                                "  %along = iota dim=0 dtype=i32 shape=[4,2]\n"
                                                "  %nd = iota dim=0 dtype=i32 shape=[4,1]\n"
                                                "  %at = constant value=0 dtype=i32 shape=[1]\n"
                                                "  %r = {} : f32[4,2] {{_,_}}\n  return r=%r\n}}",
                                                pick))
                             .value(),
                         {{"t", std::move(table)}}};
    const Graph local = Compile(random.graph).value().body;
    EXPECT_TRUE(std::any_of(local.values().begin(), local.values().end(), [](const ValueInfo& info) {
      return info.layout->is_partial();
    })) << PrintGraph(local);
    CpuBackend backend(2);
    EXPECT_EQ(DifferencesOf(random, backend, false), std::set<std::string>());
  }
}

// A product of reals is that of all factors at once: partial products of devices must not overflow by themselves.
TEST(SpecialValuesTest, ProductsThatOverflowAreThoseOfOneDevice) {
  for (std::string_view op :
       {"reduce_prod %a dims=[0]", "cumprod %a dim=0", "cumprod %a dim=0 reverse=true"}) {
    SCOPED_TRACE(op);
    RandomProgram random{
        ParseGraph(
            fmt::format("mesh [x=2]\nfunc f(%a: f32[4,2] {{x,_}}) {{\n  %r = {}\n  return r=%r\n}}", op))
            .value(),
        {{"a", {0, 1e30, 1, 1e30, 1e30, 0, 1e30, 1}}}};
    CpuBackend backend(2);
    EXPECT_EQ(DifferencesOf(random, backend, false), std::set<std::string>());
  }
}

}  // namespace
}  // namespace meshwork::special_values_test

// Verify rejects every mistake that changes a number.
//
// Right programs are those of the golden files and random ones, with gradients and updates or of all rows,
// some with loops and branches. Each of their mutants (mutants.h) that Verify accepts must give the numbers
// of the original. Some of the rejected mutants are run, too, to count those with other numbers;
// MESHWORK_LONG_TESTS=1 runs more of them, of many more programs.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/text.h"
#include "meshwork/mesh/placement.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/runtime/exec/executor.h"
#include "meshwork/spmd/compile.h"
#include "meshwork/verify/verify.h"
#include "mutation/mutants.h"
#include "support/golden.h"
#include "support/limits.h"
#include "support/long_tests.h"
#include "support/random_program.h"
#include "support/random_training.h"
#include "support/tensors.h"

namespace meshwork::mutation_test {
namespace {

using Tensors = std::map<std::string, Tensor>;

// A global program, what the compiler makes of it, and numbers to run it on.
struct Case {
  std::string name;
  Graph global;
  Program program;
  Tensors arguments;
};

// Every number of a step: outputs, then variables.
absl::StatusOr<std::vector<double>> RunStep(const Program& program, const Tensors& arguments,
                                            CpuBackend& backend) {
  std::map<std::string, DTensor> state;
  MESHWORK_ASSIGN_OR_RETURN(
      std::unique_ptr<Executor> executor,
      Executor::Create(program, backend, {.poison_padding = true, .check_replicas = true}, &state));
  Tensors feeds, outputs;
  for (const Argument& argument : program.body.arguments()) {
    const std::string& name = program.body.value(argument.value).name;
    if (argument.is_variable) MESHWORK_RETURN_IF_ERROR(Pack(arguments.at(name), state.at(name)));
    else feeds.emplace(name, arguments.at(name));
  }
  MESHWORK_RETURN_IF_ERROR(executor->Run(feeds, &outputs));
  std::vector<double> numbers;
  auto append = [&](const Tensor& tensor) {
    const std::vector<double> more = NumbersOf(tensor);
    numbers.insert(numbers.end(), more.begin(), more.end());
  };
  for (const auto& [name, tensor] : outputs) append(tensor);
  for (const auto& [name, variable] : state) {
    MESHWORK_ASSIGN_OR_RETURN(const Tensor whole, Unpack(variable, /*check_replicas=*/true));
    append(whole);
  }
  return numbers;
}

// The tolerance for terms that are added in another order.
double ToleranceOf(const Graph& graph) {
  double tolerance = 1e-9;
  for (const ValueInfo& info : graph.values())
    tolerance = std::max(tolerance, info.type.dtype == BF16 ? 3e-2 : info.type.dtype == F32 ? 1e-4 : 0);
  return tolerance;
}

bool Agree(const std::vector<double>& a, const std::vector<double>& b, double tolerance) {
  if (a.size() != b.size()) return false;
  double scale = 1e-30;
  for (double x : b) scale = std::max(scale, std::isfinite(x) ? std::abs(x) : 0);
  for (size_t i = 0; i < a.size(); ++i) {
    const bool same = std::isnan(a[i]) ? std::isnan(b[i]) : a[i] == b[i];
    if (!same && !(std::abs(a[i] - b[i]) <= tolerance * scale)) return false;
  }
  return true;
}

// ---- Programs.

Tensor RandomTensor(const Type& type, std::mt19937_64& engine) {
  std::vector<double> numbers(static_cast<size_t>(type.num_elements()));
  for (double& x : numbers) {
    const auto draw = static_cast<double>(engine() >> 11) * 0x1p-53;
    x = IsFloat(type.dtype) ? 2 * draw - 1 : type.dtype == BOOL ? std::floor(2 * draw) : std::floor(4 * draw);
  }
  return ToTensor(HostTensor(type, numbers));
}

int64_t ElementsOf(const Graph& graph) {
  int64_t elements = 0;
  for (const ValueInfo& info : graph.values()) elements += info.global.num_elements();
  return elements;
}

Case CaseOf(std::string name, const Graph& global, int64_t num_domains = 1) {
  Program program = Compile(global, {.num_domains = num_domains}).value();
  return {std::move(name), global, std::move(program), {}};
}

// A number of domains over which the mesh can be spread, more than one; 1 if there is none.
int64_t SomeDomains(const Mesh& mesh) {
  for (int64_t count : {2, 3, 4})
    if (Placement::Create(mesh, count).ok()) return count;
  return 1;
}

std::vector<Case> GoldenCases() {
  std::vector<Case> cases;
  for (const std::string_view folder : {"spmd/cases", "spmd/regroup_sums", "spmd/compile", "spmd/propagate",
                                        "spmd/insert_relayouts", "spmd/localize", "spmd/split_at_domains"}) {
    for (const std::string& file : GoldenFiles(folder)) {
      const std::string text = ReadGolden(file);
      absl::StatusOr<Graph> graph = ParseGraph(text.substr(0, text.find("----\n")));
      EXPECT_TRUE(graph.ok()) << file << ": " << MessageOf(graph.status());
      if (!graph.ok() || (!LongTests() && ElementsOf(*graph) > 100000)) continue;
      std::mt19937_64 engine(cases.size());
      Case c = CaseOf(file, *graph, folder == "spmd/split_at_domains" ? 2 : 1);
      for (const Argument& argument : graph->arguments()) {
        const ValueInfo& info = graph->value(argument.value);
        c.arguments.emplace(info.name, RandomTensor(info.type, engine));
      }
      cases.push_back(std::move(c));
    }
  }
  return cases;
}

Case CaseOf(std::string name, const RandomProgram& random, int64_t num_domains = 1) {
  Case c = CaseOf(std::move(name), random.graph, num_domains);
  for (const Argument& argument : random.graph.arguments()) {
    const ValueInfo& info = random.graph.value(argument.value);
    c.arguments.emplace(info.name, ToTensor(HostTensor(info.type, random.feeds.at(info.name))));
  }
  return c;
}

std::vector<Case> RandomCases() {
  std::vector<Case> cases;
  const RandomPrograms programs;
  for (uint64_t seed = 0; seed < (LongTests() ? 2000 : 150); ++seed)
    cases.push_back(CaseOf(fmt::format("random program {}", seed), programs.Draw(seed)));
  for (uint64_t seed = 0; seed < (LongTests() ? 1000 : 60); ++seed)
    cases.push_back(CaseOf(fmt::format("random moves {}", seed), RandomPrograms::DrawMoves(seed)));
  for (uint64_t seed = 0; seed < (LongTests() ? 500 : 40); ++seed)
    cases.push_back(CaseOf(fmt::format("random training {}", seed), DrawTraining(seed)));
  for (uint64_t seed = 0; seed < (LongTests() ? 500 : 30); ++seed)
    cases.push_back(CaseOf(fmt::format("random loops {}", seed), programs.DrawLoops(seed)));
  // Bodies that are cleaned up, and bodies of folded loops.
  for (uint64_t seed = 0; seed < (LongTests() ? 200 : 12); ++seed)
    cases.push_back(CaseOf(fmt::format("random twins {}", seed), programs.DrawTwins(seed)));
  for (uint64_t seed = 0; seed < (LongTests() ? 200 : 2); ++seed)
    cases.push_back(CaseOf(fmt::format("random training with loops {}", seed), DrawLoopTraining(seed)));
  return cases;
}

// Programs for several domains: sums within them, then across.
std::vector<Case> SplitCases() {
  std::vector<Case> cases;
  const RandomPrograms programs;
  const auto add = [&](std::string name, const RandomProgram& random) {
    const int64_t domains = SomeDomains(random.graph.mesh());
    if (domains > 1) cases.push_back(CaseOf(fmt::format("{} on {} domains", name, domains), random, domains));
  };
  for (uint64_t seed = 5000; seed < (LongTests() ? 5500 : 5040); ++seed)
    add(fmt::format("random program {}", seed), programs.Draw(seed));
  for (uint64_t seed = 5000; seed < (LongTests() ? 5200 : 5016); ++seed)
    add(fmt::format("random training {}", seed), DrawTraining(seed));
  for (uint64_t seed = 5000; seed < (LongTests() ? 5200 : 5016); ++seed)
    add(fmt::format("random loops {}", seed), programs.DrawLoops(seed));
  return cases;
}

// ---- The trial.

struct Tally {
  int64_t mutants = 0, run = 0, refused = 0, different = 0, accepted = 0, missed = 0;
  // Rejected mutants are run until some differ, then every nth.
  bool IsToRun() const { return different < 50 || mutants % (LongTests() ? 4 : 48) == 0; }
};

// A program may not end, nor may a mutant of one that does: loops are ended after this many iterations.
constexpr int64_t kMostIterations = 8;

void Try(const Case& c, CpuBackend& backend, std::map<std::string, Tally>& tallies, Tally& in_bodies) {
  ASSERT_EQ(MessageOf(Verify(c.global, c.program.body).status()), "") << c.name;
  const absl::StatusOr<std::vector<double>> right =
      RunStep({.body = WithLimits(c.program.body, kMostIterations)}, c.arguments, backend);
  ASSERT_TRUE(right.ok()) << c.name << ": " << MessageOf(right.status());
  ForEachMutant(c.program.body, [&](Mutant mutant) {
    Tally& tally = tallies[mutant.kind];
    ++tally.mutants;
    in_bodies.mutants += mutant.in_body;
    const bool accepted = Verify(c.global, mutant.graph).ok();
    tally.accepted += accepted;
    in_bodies.accepted += mutant.in_body && accepted;
    if (!accepted && !tally.IsToRun() && !(mutant.in_body && in_bodies.mutants % 4 == 0)) return;
    ++tally.run;
    in_bodies.run += mutant.in_body;
    const Program program{.body = WithLimits(mutant.graph, kMostIterations)};
    const absl::StatusOr<std::vector<double>> numbers = RunStep(program, c.arguments, backend);
    // If the executor refuses the mutant, or finds that replicas differ, no wrong number comes out.
    tally.refused += !numbers.ok();
    const bool different = numbers.ok() && !Agree(*numbers, *right, ToleranceOf(c.global));
    tally.different += different;
    in_bodies.different += mutant.in_body && different;
    if (!different || !accepted) return;
    ++tally.missed;
    ADD_FAILURE() << c.name << ": Verify accepts the mutant \"" << mutant.kind << "\" at " << mutant.what
                  << "\n"
                  << PrintGraph(c.global) << PrintGraph(mutant.graph);
  });
}

TEST(LimitsTest, EndLoopsThatGoOnAndLeaveOthersAsTheyAre) {
  const Graph graph = ParseGraph(R"(mesh [x=2]
func f(%a: f64[2] {x}, %one: f64[]) {
  %endless = while %a (var %c: f64[2]) {
    %go = constant value=1 dtype=bool shape=[]
    %n = add %c, %c
    update %c = %n
    return %go
  }
  %thrice, %count = while %a, %one, %one (var %c: f64[2], var %k: f64[], %one: f64[]) {
    %last = constant value=4 dtype=f64 shape=[]
    %go = less %k, %last
    %n = add %c, %c
    %l = add %k, %one
    update %c = %n
    update %k = %l
    return %go
  }
  return endless=%endless, thrice=%thrice, count=%count
})")
                          .value();
  Case c = CaseOf("limits", graph);
  c.arguments.emplace("a", ToTensor(HostTensor({F64, {2}}, {1, 3})));
  c.arguments.emplace("one", ToTensor(HostTensor({F64, {}}, {1})));
  CpuBackend backend(2);
  // By name: count, endless, thrice.
  EXPECT_EQ(RunStep({.body = WithLimits(c.program.body, 5)}, c.arguments, backend).value(),
            (std::vector<double>{4, 32, 96, 8, 24}));
  EXPECT_EQ(RunStep({.body = WithLimits(c.program.body, 2)}, c.arguments, backend).value(),
            (std::vector<double>{3, 4, 12, 4, 12}));
}

// Every kind of mistake that mutants.h names.
constexpr std::string_view kKinds[] = {
    "attribute", "axes",    "block",        "branch", "coefficient", "double",    "drop",
    "fill",      "move",    "gradient sum", "group",  "identity",    "mask",      "moved read",
    "no update", "operand", "operation",    "order",  "output",      "regrouped", "relabel",
    "sign",      "skip",    "stale value",  "swap",   "term twice",  "update"};

TEST(MutationTest, VerifyRejectsEveryMutantWhoseNumbersDiffer) {
  std::vector<Case> cases = GoldenCases();
  for (Case& c : RandomCases()) cases.push_back(std::move(c));
  std::vector<Case> split = SplitCases();
  EXPECT_GE(split.size(), 40u);
  for (Case& c : split) cases.push_back(std::move(c));
  CpuBackend backend(2);
  std::map<std::string, Tally> tallies;
  Tally in_bodies;
  for (const Case& c : cases) {
    Try(c, backend, tallies, in_bodies);
    if (HasFailure()) break;
  }
  for (const std::string_view kind : kKinds)
    EXPECT_EQ(tallies.count(std::string(kind)), 1u) << "there is no mutant of the kind \"" << kind << "\"";
  EXPECT_EQ(tallies.size(), std::size(kKinds));
  Tally all;
  fmt::print("{:14}{:>9}{:>9}{:>11}{:>9}{:>11}{:>8}\n", "mutants", "made", "run", "different", "refused",
             "accepted", "missed");
  for (const auto& [kind, t] : tallies) {
    fmt::print("{:14}{:>9}{:>9}{:>11}{:>9}{:>11}{:>8}\n", kind, t.mutants, t.run, t.different, t.refused,
               t.accepted, t.missed);
    all.mutants += t.mutants;
    all.run += t.run;
    all.different += t.different;
    all.missed += t.missed;
    EXPECT_GT(t.different, 0) << "no mutant of the kind \"" << kind << "\" computes anything else";
  }
  fmt::print("{} programs, {} mutants, {} run, {} seen to compute something else, {} missed\n", cases.size(),
             all.mutants, all.run, all.different, all.missed);
  fmt::print("of them in bodies of loops: {} mutants, {} run, {} seen to compute something else\n",
             in_bodies.mutants, in_bodies.run, in_bodies.different);
  EXPECT_GE(all.different, 1000);
  EXPECT_GE(in_bodies.different, 100);
}

}  // namespace
}  // namespace meshwork::mutation_test

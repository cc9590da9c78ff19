// Moves state between placements over loopback, and checks every element against the layouts, the bytes that cross, and
// the memory.
#include "meshwork/runtime/exec/state_move.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "layout/all_layouts.h"
#include "meshwork/layout/block.h"
#include "meshwork/runtime/cpu/cpu_memory.h"
#include "meshwork/runtime/transport/loopback.h"
#include "runtime/plan/programs.h"
#include "support/counted_end.h"

namespace meshwork::state_move_test {
namespace {

using ::testing::ElementsAre;

// Memory that the host cannot read, like a GPU's, and that counts its bytes in use and their maximum.
class CountingMemory : public Memory {
 public:
  struct Count {
    int64_t now = 0, most = 0;
  };

  std::shared_ptr<void> Allocate(int64_t bytes) override {
    count_->now += bytes;
    count_->most = std::max(count_->most, count_->now);
    std::shared_ptr<void> held = CpuMemory()->Allocate(bytes);
    return {held.get(), [held, count = count_, bytes](void*) { count->now -= bytes; }};
  }
  std::string_view name() const override { return "counting memory"; }
  bool is_host() const override { return false; }
  absl::Status Upload(const BoxCopy& box, int64_t size, const std::byte* host, std::byte* to) override {
    return CpuMemory()->Upload(box, size, host, to);
  }
  absl::Status Download(const BoxCopy& box, int64_t size, const std::byte* from, std::byte* host) override {
    return CpuMemory()->Download(box, size, from, host);
  }

  int64_t now() const { return count_->now; }
  int64_t most() const { return count_->most; }

 private:
  const std::shared_ptr<Count> count_ = std::make_shared<Count>();
};

struct Layouts {
  Type type;
  std::string from, to;
};
using Variables = std::map<std::string, Layouts>;

struct Trial {
  std::string from_mesh;
  int64_t from_domains = 1;
  std::string to_mesh;
  int64_t to_domains = 1;
  Variables variables = {};
  std::vector<int64_t> from_processes = {}, to_processes = {};
  int64_t processes = 1;
  StateMoveOptions options = {};
  bool by_host = true;  // in the memory of the process, or in one of its own
};

PlacedDomains Placed(const std::string& mesh, int64_t domains, const std::vector<int64_t>& processes) {
  return {Placement::Create(Mesh::Parse(mesh).value(), domains).value(), processes};
}

StateMove PlanOf(const Trial& trial) {
  const PlacedDomains from = Placed(trial.from_mesh, trial.from_domains, trial.from_processes),
                      to = Placed(trial.to_mesh, trial.to_domains, trial.to_processes);
  std::map<std::string, MovedVariable> moved;
  for (const auto& [name, layouts] : trial.variables)
    moved.emplace(name,
                  MovedVariable{layouts.type, Layout::Parse(from.placement.mesh(), layouts.from).value(),
                                Layout::Parse(to.placement.mesh(), layouts.to).value()});
  return StateMove::Plan(from, to, moved, trial.options);
}

// The domain of a process; -1 if it has none.
int64_t DomainOf(const std::vector<int64_t>& processes, int64_t domains, int64_t process) {
  for (int64_t d = 0; d < domains; ++d)
    if ((processes.empty() ? d : processes[static_cast<size_t>(d)]) == process) return d;
  return -1;
}

// Each element of each buffer is that of `whole`, or 0 if it is lost.
void ExpectHolds(const DTensor& tensor, const Tensor& whole, const std::vector<Block>& lost) {
  const Shape& shape = tensor.type().shape;
  const int64_t size = DTypeSize(tensor.type().dtype);
  const Shape local_shape = tensor.layout().LocalShape(shape);
  for (int64_t i = 0; i < tensor.instances().count(); ++i) {
    const int64_t device = tensor.instances().Representative(i);
    ForEachIndex(FullBlock(local_shape), [&](const Shape& local) {
      if (!tensor.layout().IsHeld(shape, device, local)) return;
      const Shape index = tensor.layout().GlobalIndex(shape, device, local);
      const bool is_lost = std::any_of(lost.begin(), lost.end(), [&](const Block& box) {
        for (size_t d = 0; d < box.size(); ++d)
          if (index[d] < box[d].start || index[d] >= box[d].start + box[d].size) return false;
        return true;
      });
      const std::byte* const found = tensor.instance(i) + Linear(local_shape, local) * size;
      const std::byte* const expected =
          static_cast<const std::byte*>(whole.raw()) + Linear(shape, index) * size;
      const std::vector<std::byte> zeros(static_cast<size_t>(size));
      ASSERT_EQ(std::memcmp(found, is_lost ? zeros.data() : expected, static_cast<size_t>(size)), 0)
          << tensor.layout().ToString() << " device " << device << " " << ShapeToString(index);
    });
  }
}

// The elements that a domain holds, as a set of positions.
std::set<int64_t> HeldIn(const Placement& placement, const Layout& layout, const Shape& shape,
                         int64_t domain) {
  std::set<int64_t> held;
  for (int64_t d = 0; d < placement.devices_per_domain(); ++d) {
    ForEachIndex(FullBlock(layout.LocalShape(shape)), [&](const Shape& local) {
      const int64_t device = placement.FirstDevice(domain) + d;
      if (layout.IsHeld(shape, device, local))
        held.insert(Linear(shape, layout.GlobalIndex(shape, device, local)));
    });
  }
  return held;
}

// The bytes that each new domain needs and its process does not hold, if no process is lost.
int64_t LeastBytes(const Trial& trial) {
  const Placement from = Placed(trial.from_mesh, trial.from_domains, {}).placement,
                  to = Placed(trial.to_mesh, trial.to_domains, {}).placement;
  int64_t bytes = 0;
  for (const auto& [name, layouts] : trial.variables) {
    const Layout old = Layout::Parse(from.mesh(), layouts.from).value(),
                 next = Layout::Parse(to.mesh(), layouts.to).value();
    for (int64_t domain = 0; domain < to.num_domains(); ++domain) {
      std::set<int64_t> has;
      if (domain < from.num_domains()) has = HeldIn(from, old, layouts.type.shape, domain);
      for (int64_t at : HeldIn(to, next, layouts.type.shape, domain))
        bytes += has.contains(at) ? 0 : DTypeSize(layouts.type.dtype);
    }
  }
  return bytes;
}

// Runs the move, and checks elements, bytes and memory.
void ExpectMoves(const Trial& trial) {
  SCOPED_TRACE(fmt::format("{} in {} to {} in {}, {} bytes at a time", trial.from_mesh, trial.from_domains,
                           trial.to_mesh, trial.to_domains, trial.options.max_bytes_in_flight));
  const std::vector<std::unique_ptr<Transport>> ends =
      MakeLoopback(trial.processes, {.deadline = std::chrono::seconds(10)});
  std::vector<std::thread> threads;
  std::vector<int64_t> sent(static_cast<size_t>(trial.processes));
  for (int64_t process = 0; process < trial.processes; ++process) {
    threads.emplace_back([&, process] {
      CountedEnd end(*ends[static_cast<size_t>(process)]);
      const StateMove move = PlanOf(trial);
      const auto counted = std::make_shared<CountingMemory>();
      const std::shared_ptr<Memory> memory = trial.by_host ? CpuMemory() : counted;
      std::map<std::string, DTensor> old, made;
      const int64_t from = DomainOf(trial.from_processes, trial.from_domains, process);
      int64_t before = 0, after = 0;
      for (const auto& [name, layouts] : trial.variables) {
        if (from < 0) continue;
        const Placement placement = Placed(trial.from_mesh, trial.from_domains, {}).placement;
        DTensor tensor(Domain(placement, from), memory, layouts.type,
                       Layout::Parse(placement.mesh(), layouts.from).value(), trial.options.share);
        ASSERT_EQ(MessageOf(Pack(Ramp(layouts.type), tensor)), "");
        before += tensor.bytes();
        old.emplace(name, std::move(tensor));
      }
      Transport* const transport = trial.processes == 1 ? nullptr : &end;
      ASSERT_EQ(MessageOf(move.Run(transport, memory, old, made)), "");
      EXPECT_TRUE(old.empty());
      const int64_t to = DomainOf(trial.to_processes, trial.to_domains, process);
      EXPECT_EQ(made.size(), to < 0 ? 0u : trial.variables.size());
      int64_t largest = 0;
      for (const auto& [name, tensor] : made) {
        SCOPED_TRACE(name);
        const auto lost = move.lost().find(name);
        ExpectHolds(tensor, Ramp(tensor.type()),
                    lost == move.lost().end() ? std::vector<Block>() : lost->second);
        after += tensor.bytes();
        largest = std::max(largest, tensor.bytes());
      }
      sent[static_cast<size_t>(process)] = end.bytes();
      EXPECT_EQ(end.bytes(), move.sent_bytes(process));
      if (trial.by_host) return;
      EXPECT_EQ(counted->now(), after) << "what is old was freed";
      EXPECT_LE(counted->most(), move.peak_bytes());
      EXPECT_GE(counted->most(), std::max(before, after));
      const int64_t at_a_time = trial.options.max_bytes_in_flight;
      EXPECT_LE(counted->most(), std::max(before, after) + std::max(largest, at_a_time));
    });
  }
  for (std::thread& thread : threads) thread.join();
  const StateMove move = PlanOf(trial);
  int64_t total = 0;
  for (int64_t bytes : sent) total += bytes;
  EXPECT_EQ(total, move.total_bytes());
  if (trial.from_processes.empty() && trial.to_processes.empty()) {
    EXPECT_EQ(total, LeastBytes(trial));
  }
}

// Weights and state of every dtype, with dims that the meshes do not divide. All meshes have the same axes.
const Variables& Model() {
  static const auto* const variables = new Variables{
      {"adam/m", {{F32, {10, 7}}, "{a,_}", "{_,b}"}},   {"adam/step", {{I64, {}}, "{}", "{}"}},
      {"adam/v", {{F32, {10, 7}}, "{_,a}", "{b,a}"}},   {"bias", {{BF16, {7}}, "{_}", "{a}"}},
      {"empty", {{F32, {0, 3}}, "{a,_}", "{_,b}"}},     {"mask", {{BOOL, {5, 3}}, "{(a,b),_}", "{_,_}"}},
      {"strided", {{F64, {24}}, "{4*6@a}", "{(a,b)}"}}, {"w", {{F32, {10, 7}}, "{_,_}", "{_,(a,b)}"}}};
  return *variables;
}
Variables Swapped(const Variables& variables) {
  Variables swapped;
  for (const auto& [name, layouts] : variables) swapped[name] = {layouts.type, layouts.to, layouts.from};
  return swapped;
}

TEST(StateMoveTest, MovesEveryElement) {
  struct Place {
    std::string mesh;
    int64_t domains;
  };
  const Place places[] = {{"a=8,b=1", 1}, {"a=4,b=2", 2}, {"a=6,b=1", 3},
                          {"a=3,b=2", 3}, {"a=2,b=3", 2}, {"a=1,b=1", 1}};
  for (const Place& from : places) {
    for (const Place& to : places) {
      for (bool is_swapped : {false, true}) {
        // Axis a of every mesh shards the strided dim's factor of 6.
        const Trial trial{.from_mesh = from.mesh,
                          .from_domains = from.domains,
                          .to_mesh = to.mesh,
                          .to_domains = to.domains,
                          .variables = is_swapped ? Swapped(Model()) : Model(),
                          .processes = std::max(from.domains, to.domains)};
        ExpectMoves(trial);
      }
    }
  }
}

TEST(StateMoveTest, MovesLittleAtATime) {
  for (int64_t at_a_time : {64, 100, 300, 5000}) {
    for (bool share : {true, false}) {
      for (bool by_host : {true, false}) {
        Trial trial{.from_mesh = "a=8,b=1",
                    .from_domains = 2,
                    .to_mesh = "a=2,b=2",
                    .to_domains = 2,
                    .variables = Model(),
                    .processes = 2,
                    .options = {.max_bytes_in_flight = at_a_time, .share = share},
                    .by_host = by_host};
        ExpectMoves(trial);
        trial.to_mesh = "a=3,b=2";
        trial.to_domains = trial.processes = 3;
        trial.variables = Swapped(Model());
        ExpectMoves(trial);
      }
    }
  }
}

// One of three processes is lost, and the others have new numbers; or one is new.
TEST(StateMoveTest, MovesWhatIsLeft) {
  for (const std::vector<int64_t>& left : std::vector<std::vector<int64_t>>{
           {SendSide::kLost, 0, 1}, {1, SendSide::kLost, 0}, {0, 1, 2}, {3, 0, 1}}) {
    for (int64_t to_domains : {1, 2, 4}) {
      const Trial trial{.from_mesh = "a=3,b=2",
                        .from_domains = 3,
                        .to_mesh = "a=2,b=2",
                        .to_domains = to_domains,
                        .variables = Model(),
                        .from_processes = left,
                        .to_processes = to_domains == 2 ? std::vector<int64_t>{3, 1} : std::vector<int64_t>{},
                        .processes = 4,
                        .by_host = false};
      ExpectMoves(trial);
    }
  }
  const StateMove move = PlanOf({.from_mesh = "a=3,b=2",
                                 .from_domains = 3,
                                 .to_mesh = "a=2,b=2",
                                 .variables = Model(),
                                 .from_processes = {0, SendSide::kLost, 1}});
  std::vector<std::string> lost;
  for (const auto& [name, blocks] : move.lost()) lost.push_back(name);
  EXPECT_THAT(lost, ElementsAre("adam/m", "adam/v", "mask", "strided"));
  EXPECT_THAT(move.lost().at("adam/m"), ElementsAre(Block{{4, 4}, {0, 7}}));
}

// Computed by hand: from one process to two halves. Shrinking variables move first, the smallest new block first.
TEST(StateMoveTest, TheOrderNeedsTheLeastMemory) {
  const Trial trial{.from_mesh = "a=2",
                    .from_domains = 2,
                    .to_mesh = "a=2",
                    .to_domains = 2,
                    .variables = {{"halved", {{F32, {1000}}, "{_}", "{a}"}},        // 4000 -> 2000
                                  {"more halved", {{F32, {2000}}, "{_}", "{a}"}},   // 8000 -> 4000
                                  {"doubled", {{F32, {500}}, "{a}", "{_}"}},        // 1000 -> 2000
                                  {"more doubled", {{F32, {750}}, "{a}", "{_}"}}},  // 1500 -> 3000
                    .processes = 2,
                    .options = {.max_bytes_in_flight = 100},
                    .by_host = false};
  const StateMove move = PlanOf(trial);
  EXPECT_THAT(move.order(), ElementsAre("halved", "more halved", "more doubled", "doubled"));
  // 14500 before, 11000 after. halved: 14500 + 2000, without messages; more halved: 12500 + 4000, likewise;
  // more doubled: 8500 + 3000 + 100 bytes of messages; doubled: 10000 + 2000 + 100.
  EXPECT_EQ(move.peak_bytes(), 16500);
  EXPECT_EQ(move.total_bytes(), 2 * 1000 + 2 * 1500);
  ExpectMoves(trial);
}

// Small variables cross in one round, because each operation of the transport costs a latency.
TEST(StateMoveTest, SmallVariablesGoTogether) {
  class Prepares : public CountedEnd {
   public:
    using CountedEnd::CountedEnd;
    absl::StatusOr<std::unique_ptr<RemoteOp>> Prepare(RemoteSpec spec) override {
      ++count;
      return CountedEnd::Prepare(std::move(spec));
    }
    int count = 0;
  };
  Trial trial{.from_mesh = "a=2", .from_domains = 2, .to_mesh = "a=2", .to_domains = 2, .processes = 2};
  for (int i = 0; i < 20; ++i) trial.variables[fmt::format("b{}", i)] = {{F32, {10}}, "{a}", "{_}"};
  const std::vector<std::unique_ptr<Transport>> ends = MakeLoopback(2);
  std::vector<std::thread> threads;
  for (int64_t process = 0; process < 2; ++process) {
    threads.emplace_back([&, process] {
      Prepares end(*ends[static_cast<size_t>(process)]);
      std::map<std::string, DTensor> old, made;
      const Placement placement = Placed("a=2", 2, {}).placement;
      for (const auto& [name, layouts] : trial.variables)
        old.emplace(name, DTensor(Domain(placement, process), CpuMemory(), layouts.type,
                                  Layout::Parse(placement.mesh(), "{a}").value()));
      EXPECT_EQ(MessageOf(PlanOf(trial).Run(&end, CpuMemory(), old, made)), "");
      EXPECT_EQ(end.count, 1);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// An abort by one process ends the move in all processes.
TEST(StateMoveTest, AnAbortEndsIt) {
  const Trial trial{.from_mesh = "a=2",
                    .from_domains = 2,
                    .to_mesh = "a=2",
                    .to_domains = 2,
                    .variables = {{"w", {{F32, {10}}, "{a}", "{_}"}}},
                    .processes = 2};
  const std::vector<std::unique_ptr<Transport>> ends = MakeLoopback(2);
  ends[1]->Abort(absl::UnavailableError("the disk burns"));
  std::map<std::string, DTensor> old, made;
  const Placement placement = Placed("a=2", 2, {}).placement;
  old.emplace("w", DTensor(Domain(placement, 0), CpuMemory(), {F32, {10}},
                           Layout::Parse(placement.mesh(), "{a}").value()));
  EXPECT_EQ(MessageOf(PlanOf(trial).Run(ends[0].get(), CpuMemory(), old, made)), "the disk burns");
}

}  // namespace
}  // namespace meshwork::state_move_test

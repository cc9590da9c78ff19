#include "meshwork/runtime/plan/step_plan.h"

#include <random>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/runtime/plan/fence.h"
#include "meshwork/runtime/plan/loop.h"
#include "meshwork/runtime/plan/overlap.h"
#include "runtime/plan/random_program.h"
#include "runtime/plan/schedules.h"

namespace meshwork::step_plan_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A step of data parallelism: three layers in a loop, and a gradient that is summed over the devices, of
// which the last one has a row less.
constexpr std::string_view kPlanned = R"(mesh [batch=4]
func step(%x: f32[3,2] of f32[11,2] {batch,_}, %b: f32[2] {_}, var %w: f32[2,2] {_,_}) {
  %rate = constant value=0.5 shape=[] : f32[] {}
  %xm = mask_padding %x dims=[0] op=sum : f32[3,2] of f32[11,2] {batch,_}
  %y = scan %xm, %w, %b length=3
      (var %c: f32[3,2] of f32[11,2] {batch,_}, %a: f32[2,2] {_,_}, %b: f32[2] {_}) {
    %d = matmul %c, %a : f32[3,2] of f32[11,2] {batch,_}
    %e = add %d, %b : f32[3,2] of f32[11,2] {batch,_}
    update %c = %e
  } : f32[3,2] of f32[11,2] {batch,_}
  %g = matmul %xm, %y transpose_a=true : f32[2,2] {_,_ | sum:batch}
  %G = all_reduce %g axes=(batch) op=sum : f32[2,2] {_,_}
  %u = mul %G, %rate : f32[2,2] {_,_}
  %w1 = sub %w, %u : f32[2,2] {_,_}
  update %w = %w1
  return y=%y
})";

StepPlan PlanOf(std::string_view text, const StepPlanOptions& options) {
  auto graph = std::make_shared<const Graph>(LowerLoops(ParseGraph(text).value()));
  std::vector<InstanceMap> variables;
  const Domain domain = options.domain.value_or(Domain(graph->mesh()));
  for (const Argument& argument : graph->arguments())
    variables.emplace_back(
        domain, options.share ? graph->value(argument.value).layout->ShardedAxes() : AllAxes(graph->mesh()));
  return BuildStepPlan(std::move(graph), variables, options).value();
}

// The rows of all devices are one product. The gradients are summed where they are computed. The loop overwrites
// its result in each iteration.
TEST(StepPlanTest, SaysWhatRunsInWhichStorage) {
  EXPECT_EQ(ToString(PlanOf(kPlanned, {})), R"(s0: host feed x, 88 bytes
s1: temporary, 96 bytes
s2: host feed b, 8 bytes
s3: variable w, 16 bytes
s4: constant, 4 bytes
s5: temporary, 96 bytes
s6: constant, 8 bytes
s7: temporary, 8 bytes
s8: temporary, 96 bytes
s9: temporary, 16 bytes
s10: host output y, 88 bytes
pack input "x", 4 transfers of 22 elements: s0 -> s1
once constant -> f32[]: -> s4
mask_padding each f32[3,2] -> f32[3,2]: s1*4 -> s5*4
once constant -> i64[]: -> s6
assign scan (program:5), 1 transfer of 1 element: s6 -> s7
assign scan (program:5), 4 transfers of 24 elements: s5 -> s8
repeat 3 times: s6 s5*4 s3 s2 -> s7 s8*4
  body r0=s7 r1=s8 o2=s3 o3=s2
    s0: variable r0, 8 bytes
    s1: variable r1, 96 bytes
    s2: variable o2, 16 bytes
    s3: variable o3, 8 bytes
    s4: temporary, 96 bytes
    s5: constant, 8 bytes
    matmul f32[4,3,2] f32[1,2,2] -> f32[4,3,2]: s1*4 s2 -> s4*4
    add f32[4,3,2] f32[1,1,2] -> f32[4,3,2]: s4*4 s3 -> s1*4
    once constant -> i64[]: -> s5
    add i64[] i64[] -> i64[]: s0 s5 -> s0
matmul+all_reduce f32[4,3,2] f32[4,3,2] -> f32[2,2]: s5*4 s8*4 -> s9
mul f32[2,2] f32[] -> f32[2,2]: s9 s4 -> s9
sub f32[2,2] f32[2,2] -> f32[2,2]: s3 s9 -> s3
unpack output "y", 4 transfers of 22 elements: s8 -> s10
)");
}

TEST(StepPlanTest, DeviceByDeviceSumsAreCopies) {
  EXPECT_THAT(ToString(PlanOf(kPlanned, {.coalesce = false})), HasSubstr(R"(
matmul each f32[3,2] f32[3,2] -> f32[2,2]: s5*4 s8*4 -> s9*4
all_reduce, 1 transfer of 4 elements: s9 -> s10
mul f32[2,2] f32[] -> f32[2,2]: s10 s4 -> s10
)"));
}

TEST(StepPlanTest, WhatDevicesHoldForThemselvesIsCompared) {
  EXPECT_THAT(ToString(PlanOf(kPlanned, {.share = false, .check_replicas = true})), HasSubstr(R"(
sub each f32[2,2] f32[2,2] -> f32[2,2]: s3*4 s10*4 -> s3*4
unpack output "y", 4 transfers of 22 elements: s8 -> s11
compare variable "w", 3 transfers of 12 elements: s3
)"));
}

// ---- Laws.

void ExpectLiesIn(const StepPlan& plan, const ValueBuffers& value) {
  ASSERT_GE(value.first, 0);
  ASSERT_LE(value.first + value.instances.count(), std::ssize(plan.buffers));
  const Buffer& first = plan.buffers[value.first];
  EXPECT_LE(first.offset + plan.BytesOf(value), plan.storages[first.storage].bytes);
  for (int64_t i = 0; i < value.instances.count(); ++i) {
    const Buffer& buffer = plan.buffers[value.first + i];
    EXPECT_EQ(buffer.storage, first.storage);
    EXPECT_EQ(buffer.offset, first.offset + i * first.bytes);
  }
}

// The buffers of a kernel have the sizes that its spec declares.
void ExpectCovers(const StepPlan& plan, const ComputeStep& step) {
  const Node& node = plan.graph->nodes()[step.node];
  ASSERT_EQ(step.in.size(), node.operands.size());
  ASSERT_EQ(step.out.size(), node.results.size());
  ASSERT_TRUE(step.blocks.size() == 1 || step.blocks.size() == static_cast<size_t>(step.items.count()));
  for (const auto& blocks : step.blocks) EXPECT_EQ(blocks.size(), step.in.size() + step.out.size());
  EXPECT_LE(step.needed, step.items.count());
  const auto bytes = [&](const ValueBuffers& value) {
    return step.one_by_one ? plan.buffers[value.first].bytes : plan.BytesOf(value);
  };
  for (size_t o = 0; o < step.in.size(); ++o) {
    EXPECT_EQ(step.spec.operands[o].local.bytes(), bytes(step.in[o])) << node.row->name;
    if (step.reduces < 0) {
      EXPECT_EQ(step.in[o].instances.axes().Minus(step.items.axes()), AxisSet());
    }
  }
  for (size_t r = 0; r < step.out.size(); ++r) {
    EXPECT_EQ(step.spec.results[r].local.bytes(), bytes(step.out[r])) << node.row->name;
    EXPECT_EQ(step.out[r].instances.axes(), step.items.axes());
  }
}

// Tracks writes, storage by storage.
class Laws {
 public:
  explicit Laws(const StepPlan& plan) : plan_(plan) {
    for (size_t s = 0; s < plan.storages.size(); ++s) {
      const Storage& storage = plan.storages[s];
      if (storage.kind == Storage::Kind::kVariable || storage.kind == Storage::Kind::kHostFeed ||
          storage.kind == Storage::Kind::kFeed)
        written_.insert(static_cast<int>(s));
      if (storage.kind == Storage::Kind::kHostOutput) outputs_[static_cast<int>(s)].resize(storage.bytes / 4);
    }
  }

  void Check() {
    for (const Buffer& buffer : plan_.buffers) {
      ASSERT_TRUE(buffer.storage >= 0 && buffer.storage < std::ssize(plan_.storages));
      EXPECT_LE(buffer.offset + buffer.bytes, plan_.storages[buffer.storage].bytes);
    }
    has_fence_ = !plan_.steps.empty() && std::holds_alternative<RemoteStep>(plan_.steps[0]) &&
                 std::get<RemoteStep>(plan_.steps[0]).is_fence();
    for (const Step& step : plan_.steps) std::visit([this](const auto& kind) { Visit(kind); }, step);
    for (const Storage& storage : plan_.storages)
      EXPECT_TRUE(storage.kind != Storage::Kind::kSpare || spares_.insert(storage.index).second);
    for (const auto& [storage, elements] : outputs_) EXPECT_THAT(elements, ::testing::Each(1)) << storage;
    EXPECT_TRUE(under_way_.empty()) << ToString(plan_);
    EXPECT_EQ(std::ssize(operations_), plan_.num_operations);
  }

 private:
  void Read(BufferId buffer) {
    ExpectMayTouch(buffer, /*is_write=*/false);
    EXPECT_TRUE(written_.contains(plan_.buffers[buffer].storage)) << ToString(plan_);
  }
  void Read(const ValueBuffers& value) {
    ExpectLiesIn(plan_, value);
    for (int64_t i = 0; i < value.instances.count(); ++i) Read(static_cast<BufferId>(value.first + i));
  }
  void Write(const ValueBuffers& value) {
    ExpectLiesIn(plan_, value);
    for (int64_t i = 0; i < value.instances.count(); ++i) Write(static_cast<BufferId>(value.first + i));
  }
  // During an operation across domains, its sent buffers are not written, and its received buffers are not touched.
  void ExpectMayTouch(BufferId id, bool is_write) {
    const Buffer& buffer = plan_.buffers[id];
    for (const auto& [operation, remote] : under_way_) {
      const auto check = [&, operation = operation](const RemoteStep::Part& part) {
        const Buffer& other = plan_.buffers[part.buffer];
        EXPECT_FALSE(buffer.storage == other.storage && buffer.offset < other.offset + other.bytes &&
                     other.offset < buffer.offset + buffer.bytes)
            << "operation " << operation << "\n"
            << ToString(plan_);
      };
      if (is_write) std::for_each(remote.sends.begin(), remote.sends.end(), check);
      std::for_each(remote.receives.begin(), remote.receives.end(), check);
    }
  }
  void Write(BufferId buffer) {
    ExpectMayTouch(buffer, /*is_write=*/true);
    const int storage = plan_.buffers[buffer].storage;
    EXPECT_NE(plan_.storages[storage].kind, Storage::Kind::kHostFeed);
    EXPECT_FALSE(has_fence_ && plan_.storages[storage].kind == Storage::Kind::kSpare) << ToString(plan_);
    written_.insert(storage);
  }

  void Visit(const ComputeStep& step) {
    ExpectCovers(plan_, step);
    for (const ValueBuffers& value : step.in) Read(value);
    for (const ValueBuffers& value : step.out) Write(value);
    for (const ValueBuffers& value : step.out) {
      const bool constant =
          plan_.storages[plan_.buffers[value.first].storage].kind == Storage::Kind::kConstant;
      EXPECT_EQ(step.once, constant);
    }
  }

  // If a storage is only partly received, only the received bytes are read.
  void ReadElements(const Transfer& transfer) {
    for (BufferId from : transfer.from) {
      Read(from);
      const Buffer& buffer = plan_.buffers[from];
      const auto part = parts_.find(buffer.storage);
      if (part == parts_.end()) continue;
      const int64_t size = DTypeSize(transfer.dtype);
      transfer.box.ForRuns(0, transfer.box.elements(), [&](int64_t begin, int64_t, int64_t count) {
        for (int64_t i = begin * size; i < (begin + count) * size; ++i)
          ASSERT_TRUE(part->second.at(static_cast<size_t>(buffer.offset + i)))
              << "byte " << i << " of buffer " << from << "\n"
              << ToString(plan_);
      });
    }
  }
  void Receive(BufferId id, int64_t begin, int64_t end) {
    const Buffer& buffer = plan_.buffers[id];
    std::vector<bool>& bytes = parts_[buffer.storage];
    bytes.resize(static_cast<size_t>(plan_.storages[buffer.storage].bytes));
    for (int64_t i = begin; i < end; ++i) bytes.at(static_cast<size_t>(buffer.offset + i)) = true;
    Write(id);
  }

  void Visit(const CopyStep& step) {
    ASSERT_EQ(step.devices.size(), step.transfers.size());
    const bool compares = step.kind == CopyStep::Kind::kCompare;
    ASSERT_EQ(step.replicas.size(), compares ? step.transfers.size() : 0);
    for (const Transfer& transfer : step.transfers) {
      ReadElements(transfer);
      ASSERT_EQ(transfer.to < 0, compares);
      if (transfer.to < 0) continue;
      if (step.kind == CopyStep::Kind::kReceive) {
        const int64_t size = DTypeSize(transfer.dtype);
        transfer.box.ForRuns(0, transfer.box.elements(), [&](int64_t, int64_t to, int64_t count) {
          Receive(transfer.to, to * size, (to + count) * size);
        });
      }
      Write(transfer.to);
      const auto output = outputs_.find(plan_.buffers[transfer.to].storage);
      if (output == outputs_.end()) continue;
      transfer.box.ForRuns(0, transfer.box.elements(), [&](int64_t, int64_t to, int64_t count) {
        for (int64_t i = 0; i < count; ++i) ++output->second.at(to + i);
      });
    }
  }

  void Visit(const RemoteStep& step) {
    if (step.is_fence() && step.kind != RemoteStep::Kind::kStart) has_fence_ = false;
    if (step.kind == RemoteStep::Kind::kWait) {
      EXPECT_EQ(under_way_.erase(step.operation), 1);
    } else {
      EXPECT_TRUE(operations_.insert(step.operation).second);
      for (const RemoteStep::Part& part : step.sends)
        if (!step.is_fence()) Read(part.buffer);  // its byte says nothing
    }
    if (step.kind == RemoteStep::Kind::kStart) under_way_[step.operation] = step;
    else
      for (const RemoteStep::Part& part : step.receives)
        Receive(part.buffer, 0, plan_.buffers[part.buffer].bytes);
  }

  void Visit(const NestedStep& step) {
    for (const ValueBuffers& value : step.in) Read(value);
    for (const ValueBuffers& value : step.out) Write(value);
    for (const StepPlan& body : step.bodies) {
      ASSERT_EQ(body.graph->arguments().size(), step.arguments.size());
      for (const Storage& storage : body.storages) {
        EXPECT_NE(storage.kind, Storage::Kind::kHostFeed);
        EXPECT_NE(storage.kind, Storage::Kind::kHostOutput);
        if (storage.kind != Storage::Kind::kVariable) continue;
        const Buffer& around = plan_.buffers[step.arguments[storage.index]];
        EXPECT_LE(around.offset + storage.bytes, plan_.storages[around.storage].bytes);
      }
      Laws(body).Check();
    }
  }

  const StepPlan& plan_;
  std::set<int> written_;
  std::map<int, std::vector<bool>> parts_;   // per storage that is received: which bytes are there
  std::map<int, std::vector<int>> outputs_;  // per storage: how often each element is written
  std::map<int, RemoteStep> under_way_;      // by operation
  std::set<int> operations_;                 // operations that were started
  std::set<int> spares_;                     // arguments
  bool has_fence_ = false;                   // true until the fence ends; until then no spare is written
};

// Variables are not written, and each variable that changes has a spare.
void ExpectKeepsVariables(const StepPlan& plan) {
  for (int storage : StoragesWritten(plan))
    EXPECT_NE(plan.storages[static_cast<size_t>(storage)].kind, Storage::Kind::kVariable) << ToString(plan);
  std::set<int> changed, spares;
  for (const VariableUpdate& update : plan.graph->updates())
    if (update.value != plan.graph->arguments()[update.argument].value) changed.insert(update.argument);
  for (int storage : StoragesWritten(plan))
    if (plan.storages[static_cast<size_t>(storage)].kind == Storage::Kind::kSpare)
      spares.insert(plan.storages[static_cast<size_t>(storage)].index);
  EXPECT_EQ(spares, changed) << ToString(plan);
}

TEST(StepPlanTest, LawsHoldForRandomPrograms) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    const std::string text = ProgramDraw(random).Make().text;
    for (bool share : {true, false})
      for (bool coalesce : {true, false})
        for (bool check : {true, false}) {
          SCOPED_TRACE(fmt::format("share={} coalesce={} check={}\n{}", share, coalesce, check, text));
          StepPlanOptions options{.share = share, .coalesce = coalesce, .check_replicas = check};
          Laws(PlanOf(text, options)).Check();
          options.atomic = true;
          const StepPlan plan = PlanOf(text, options);
          Laws(plan).Check();
          ExpectKeepsVariables(plan);
          options.cross_device = CrossDevicePlan{.bytes_per_pack = 64};
          Laws(PlanOf(text, options)).Check();
          if (HasFailure()) return;
        }
  }
}

// The laws hold in each of several domains.
TEST(StepPlanTest, LawsHoldInEachDomain) {
  std::mt19937 random(4);
  int remote = 0, waits = 0, sums = 0;
  for (int round = 0; round < 100; ++round) {
    const std::string text = ProgramDraw(random).Make().text;
    const Mesh mesh = ParseGraph(text).value().mesh();
    for (int64_t domains : {2, 4})
      for (int64_t d = 0; d < domains; ++d)
        for (bool share : {true, false})
          for (bool coalesce : {true, false})
            for (int64_t bytes_under_way : {0, 64, 1 << 20}) {
              SCOPED_TRACE(fmt::format("share={} coalesce={} domain={} of {} under way={}\n{}", share,
                                       coalesce, d, domains, bytes_under_way, text));
              const Domain domain(Placement::Create(mesh, domains).value(), d);
              const Graph program = ParseGraph(text).value();
              const std::string overlapped =
                  PrintGraph(Overlap(program, domain.placement().across(), /*bucket_bytes=*/16));
              StepPlanOptions options{.domain = domain,
                                      .distributed = {"y", "z"},
                                      .bytes_under_way = bytes_under_way,
                                      .share = share,
                                      .coalesce = coalesce,
                                      .sums_domains = round % 2 == 1};
              const StepPlan plan = PlanOf(overlapped, options);
              for (const Step& step : plan.steps) {
                const auto* const at = std::get_if<RemoteStep>(&step);
                remote += at != nullptr;
                sums += at != nullptr && !at->sums.empty();
                waits += at != nullptr && at->kind == RemoteStep::Kind::kWait;
                ASSERT_TRUE(at == nullptr || bytes_under_way > 0 || at->kind == RemoteStep::Kind::kRun);
              }
              Laws(plan).Check();
              if (share != coalesce) continue;
              options.atomic = true;
              const StepPlan atomic = PlanOf(overlapped, options);
              Laws(atomic).Check();
              ExpectKeepsVariables(atomic);
              if (HasFailure()) return;
            }
  }
  EXPECT_GT(remote, 500);
  EXPECT_GT(waits, 100);
  EXPECT_GT(sums, 50);
}

// The plan refuses a wrong sum of domains both by messages and by the backend.
TEST(StepPlanTest, WrongSumsOfDomainsAreFound) {
  Graph program = ParseGraph(R"(mesh [x=2, y=2]
func step(%a: i32[1,2,4] of i32[2,4,4] {x,y,_}) {
  %p = reduce_sum %a dims=[0] : i32[2,4] of i32[4,4] {y,_ | sum:x}
  %s = all_reduce %p axes=(x) op=sum : i32[2,4] of i32[4,4] {y,_}
  return s=%s
})")
                      .value();
  ValueInfo& sum = program.mutable_value(program.nodes()[1].results[0]);
  sum.layout = Layout::Parse(program.mesh(), "{_,y}").value();
  sum.type.shape = {4, 2};
  const auto graph = std::make_shared<const Graph>(std::move(program));
  const Domain domain(Placement::Create(graph->mesh(), 2).value(), 0);
  for (const bool sums : {true, false}) {
    const StepPlanOptions options{.domain = domain, .distributed = {"s"}, .sums_domains = sums};
    EXPECT_THAT(std::string(MessageOf(BuildStepPlan(graph, std::vector<InstanceMap>(1), options).status())),
                HasSubstr("all_reduce keeps type and place"))
        << sums;
  }
}

// The first gradient crosses while the second is computed, and the second while the first variable is updated.
TEST(StepPlanTest, CollectivesAcrossDomainsStartEarly) {
  const Graph program = ParseGraph(R"(mesh [x=2]
func step(%x: f32[2,3] of f32[4,3] {x,_}, %d: f32[2,5] of f32[4,5] {x,_}, %e: f32[2,7] of f32[4,7] {x,_},
          var %w: f32[3,5] of f32[3,5] {_,_}, var %u: f32[3,7] of f32[3,7] {_,_}) {
  %g = matmul %x, %d transpose_a=true : f32[3,5] of f32[3,5] {_,_ | sum:x}
  %h = matmul %x, %e transpose_a=true : f32[3,7] of f32[3,7] {_,_ | sum:x}
  %H, %G = all_reduce %h, %g axes=(x) op=sum : f32[3,7] of f32[3,7] {_,_}, f32[3,5] of f32[3,5] {_,_}
  %w1 = sub %w, %G : f32[3,5] of f32[3,5] {_,_}
  %u1 = sub %u, %H : f32[3,7] of f32[3,7] {_,_}
  update %w = %w1
  update %u = %u1
})")
                            .value();
  const Domain domain(Placement::Create(program.mesh(), 2).value(), 1);
  const Graph ordered = Overlap(program, domain.placement().across(), /*bucket_bytes=*/1);
  EXPECT_THAT(ToString(PlanOf(PrintGraph(ordered), {.domain = domain, .bytes_under_way = 1000})),
              HasSubstr(R"(
matmul f32[2,3] f32[2,5] -> f32[3,5]: s1 s3 -> s8
start 0 of all_reduce across domains: 60 bytes of s8 to 0, 60 bytes of s10 from 0
matmul f32[2,3] f32[2,7] -> f32[3,7]: s1 s5 -> s11
start 1 of all_reduce across domains: 84 bytes of s11 to 0, 84 bytes of s13 from 0
wait for 0
all_reduce, 1 transfer of 15 elements: s10 s8 -> s9
sub f32[3,5] f32[3,5] -> f32[3,5]: s6 s9 -> s6
wait for 1
all_reduce, 1 transfer of 21 elements: s13 s11 -> s12
sub f32[3,7] f32[3,7] -> f32[3,7]: s7 s12 -> s7
)"));
  // If the backend makes the sums itself, it writes their results from the start: so they do not overwrite a variable.
  EXPECT_THAT(ToString(PlanOf(PrintGraph(ordered),
                              {.domain = domain, .bytes_under_way = 1000, .sums_domains = true})),
              HasSubstr(R"(
matmul f32[2,3] f32[2,5] -> f32[3,5]: s1 s3 -> s8
start 0 of all_reduce across domains: sum of 15 elements f32 s8 -> s9
matmul f32[2,3] f32[2,7] -> f32[3,7]: s1 s5 -> s10
start 1 of all_reduce across domains: sum of 21 elements f32 s10 -> s11
wait for 0
sub f32[3,5] f32[3,5] -> f32[3,5]: s6 s9 -> s6
wait for 1
sub f32[3,7] f32[3,7] -> f32[3,7]: s7 s11 -> s7
)"));
  // With room for one operation, the second starts after the first has ended; with no room, each runs at its place.
  EXPECT_THAT(ToString(PlanOf(PrintGraph(ordered), {.domain = domain, .bytes_under_way = 84})), HasSubstr(R"(
all_reduce, 1 transfer of 15 elements: s10 s8 -> s9
start 1 of all_reduce across domains: 84 bytes of s11 to 0, 84 bytes of s13 from 0
sub f32[3,5] f32[3,5] -> f32[3,5]: s6 s9 -> s6
wait for 1
)"));
  EXPECT_THAT(ToString(PlanOf(PrintGraph(ordered), {.domain = domain})), Not(HasSubstr("wait")));
}

// The fence starts first and ends after the first collective; the count is computed before, and copied to its spare.
TEST(StepPlanTest, NewValuesGoToSparesBehindTheFence) {
  constexpr std::string_view kCounted = R"(mesh [x=2]
func step(%x: f32[2,3] of f32[4,3] {x,_}, %d: f32[2,5] of f32[4,5] {x,_}, var %w: f32[3,5] of f32[3,5] {_,_},
          var %n: i64[] of i64[] {}) {
  %one = constant value=1 dtype=i64 shape=[] : i64[] of i64[] {}
  %m = add %n, %one : i64[] of i64[] {}
  %g = matmul %x, %d transpose_a=true : f32[3,5] of f32[3,5] {_,_ | sum:x}
  %G = all_reduce %g axes=(x) op=sum : f32[3,5] of f32[3,5] {_,_}
  %w1 = sub %w, %G : f32[3,5] of f32[3,5] {_,_}
  update %w = %w1
  update %n = %m
})";
  const Domain domain(Placement::Create(Mesh::Parse("x=2").value(), 2).value(), 1);
  EXPECT_EQ(ToString(PlanOf(kCounted, {.domain = domain, .bytes_under_way = 1000, .atomic = true})),
            R"(s0: constant, 1 byte
s1: temporary, 1 byte
s2: host feed x, 48 bytes
s3: temporary, 24 bytes
s4: host feed d, 80 bytes
s5: temporary, 40 bytes
s6: variable w, 60 bytes
s7: variable n, 8 bytes
s8: constant, 8 bytes
s9: temporary, 8 bytes
s10: temporary, 60 bytes
s11: temporary, 60 bytes
s12: temporary, 60 bytes
s13: spare of w, 60 bytes
s14: spare of n, 8 bytes
start 0 of fence across domains: 1 byte of s0 to 0, 1 byte of s1 from 0
pack input "x", 1 transfer of 6 elements: s2 -> s3
pack input "d", 1 transfer of 10 elements: s4 -> s5
once constant -> i64[]: -> s8
add i64[] i64[] -> i64[]: s7 s8 -> s9
matmul f32[2,3] f32[2,5] -> f32[3,5]: s3 s5 -> s10
all_reduce across domains: 60 bytes of s10 to 0, 60 bytes of s12 from 0
all_reduce, 1 transfer of 15 elements: s12 s10 -> s11
wait for 0
sub f32[3,5] f32[3,5] -> f32[3,5]: s6 s11 -> s13
assign variable "n", 1 transfer of 1 element: s9 -> s14
)");
  // A single domain needs no fence.
  EXPECT_THAT(ToString(PlanOf(kCounted, {.atomic = true})), Not(HasSubstr("fence")));
  // A program that changes no variable needs none either.
  EXPECT_THAT(ToString(PlanOf("mesh [x=2]\nfunc f(var %w: f32[2] of f32[4] {x}) {\n  update %w = %w\n}",
                              {.domain = domain, .atomic = true})),
              Not(HasSubstr("fence")));
}

// If kernels do not read host memory, feeds are packed.
TEST(StepPlanTest, FeedsAreViewedInHostMemoryAlone) {
  constexpr std::string_view kWhole =
      "mesh [x=2]\nfunc f(%a: f32[3] of f32[3] {_}) {\n"
      "  %b = neg %a : f32[3] of f32[3] {_}\n  return b=%b\n}";
  EXPECT_THAT(ToString(PlanOf(kWhole, {})), Not(HasSubstr("pack input")));
  EXPECT_THAT(ToString(PlanOf(kWhole, {.host_is_read = false})), HasSubstr(R"(
pack input "a", 1 transfer of 3 elements: s0 -> s1
)"));
}

TEST(StepPlanTest, LawsHoldForALoop) {
  for (bool share : {true, false})
    for (bool coalesce : {true, false})
      Laws(PlanOf(kPlanned, {.share = share, .coalesce = coalesce})).Check();
}

}  // namespace
}  // namespace meshwork::step_plan_test

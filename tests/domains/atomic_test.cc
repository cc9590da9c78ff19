// Steps that fail in one of several domains, at every moment at which they can fail, and the variables after them.
// MESHWORK_LONG_TESTS=1 tries all domains and moments.
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "domains/small_network.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/runtime/exec/executor.h"
#include "meshwork/runtime/exec/step_record.h"
#include "meshwork/runtime/transport/loopback.h"
#include "support/blocks.h"
#include "support/failing_end.h"
#include "support/long_tests.h"
#include "support/swiglu.h"

namespace meshwork::atomic_test {
namespace {

constexpr int kSteps = 4, kFails = 2;  // steps before one fails

struct Case {
  std::string_view name, mesh;
  int64_t domains;
  bool zero = false;  // optimizer state in blocks (ZeRO stage 1)
  int workers = 1;
};

const Case kCases[] = {{"batch", "batch=2", 2},
                       {"batch_with_workers", "batch=4", 2, false, 3},
                       {"batch_of_three", "batch=3,model=2", 3},
                       {"model", "model=2,batch=2", 2},
                       {"model_of_four", "model=4,batch=1", 4},
                       {"zero", "batch=4,model=1", 4, true}};

absl::StatusOr<Session> SessionOf(const Case& of, Transport* transport, bool overlap, bool atomic = true) {
  return SmallSession(of.mesh, transport,
                      {.zero = of.zero, .overlap = overlap, .atomic = atomic, .workers = of.workers});
}

std::vector<std::unique_ptr<Transport>> Connected(int64_t domains) {
  return MakeLoopback(domains, {.deadline = std::chrono::seconds(20)});
}

void InEach(int64_t domains, const std::function<void(int64_t domain)>& play) {
  std::vector<std::thread> threads;
  for (int64_t d = 0; d < domains; ++d) threads.emplace_back([&play, d] { play(d); });
  for (std::thread& thread : threads) thread.join();
}

// The variables of an undisturbed run, by domain and by number of steps.
std::vector<std::vector<Blocks>> Undisturbed(const Case& of, bool overlap, bool atomic) {
  const auto ends = Connected(of.domains);
  std::vector<std::vector<Blocks>> all(static_cast<size_t>(of.domains));
  InEach(of.domains, [&](int64_t d) {
    absl::StatusOr<Session> session = SessionOf(of, ends[static_cast<size_t>(d)].get(), overlap, atomic);
    ASSERT_TRUE(session.ok()) << session.status();
    auto& blocks = all[static_cast<size_t>(d)];
    blocks.push_back(BlocksOf(session->State()));
    for (int step = 0; step < kSteps; ++step) {
      ASSERT_TRUE(session->Run(SmallFeeds(step)).ok());
      blocks.push_back(BlocksOf(session->State()));
      EXPECT_EQ(session->steps_done(), step + 1);
    }
  });
  return all;
}

// The state of a domain after a step that failed in some domain.
struct Left {
  int64_t steps = -1;
  Blocks blocks;
  bool can_undo = false;
  Blocks before;  // after Undo, if that can be done
  int64_t moments = 0;
};

// Step number kFails fails in domain `where` at moment `moment`. `late`: see FailingEnd.
std::vector<Left> Fail(const Case& of, bool overlap, int64_t where, int64_t moment,
                       const std::function<void(int64_t domain)>& ended = nullptr,
                       const std::function<void()>& late = nullptr) {
  const auto ends = Connected(of.domains);
  std::vector<Left> left(static_cast<size_t>(of.domains));
  std::barrier all_are_bound(of.domains);
  InEach(of.domains, [&](int64_t d) {
    FailingEnd end(*ends[static_cast<size_t>(d)]);
    absl::StatusOr<Session> session = SessionOf(of, &end, overlap);
    ASSERT_TRUE(session.ok()) << session.status();
    for (int step = 0; step < kFails; ++step) ASSERT_TRUE(session->Run(SmallFeeds(step)).ok());
    absl::StatusOr<BoundStep> bound = session->Bind(SmallFeeds(kFails));
    ASSERT_TRUE(bound.ok()) << bound.status();
    all_are_bound.arrive_and_wait();  // to be bound they talk to each other
    end.FailAt(d == where ? moment : -1, late);
    const absl::Status status = bound->Run();
    if (ended != nullptr) ended(d);
    Left& mine = left[static_cast<size_t>(d)];
    mine.moments = end.moments();
    EXPECT_EQ(status.ok(), session->steps_done() == kFails + 1);
    mine.steps = session->steps_done();
    mine.blocks = BlocksOf(session->State());
    mine.can_undo = session->record()->can_undo();
    EXPECT_EQ(session->Undo().ok(), mine.can_undo);
    EXPECT_EQ(session->steps_done(), mine.steps - (mine.can_undo ? 1 : 0));
    mine.before = BlocksOf(session->State());
  });
  return left;
}

// Runs the rest of the steps from the state in `left` after `steps` steps, over a new transport.
std::vector<Blocks> GoOn(const Case& of, bool overlap, const std::vector<Left>& left, int64_t steps) {
  const auto ends = Connected(of.domains);
  std::vector<Blocks> all(left.size());
  InEach(of.domains, [&](int64_t d) {
    const auto at = static_cast<size_t>(d);
    absl::StatusOr<Session> session = SessionOf(of, ends[at].get(), overlap);
    ASSERT_TRUE(session.ok()) << session.status();
    SetBlocks(left[at].steps == steps ? left[at].blocks : left[at].before, session->State());
    for (int64_t step = steps; step < kSteps; ++step)
      ASSERT_TRUE(session->Run(SmallFeeds(static_cast<int>(step))).ok());
    all[at] = BlocksOf(session->State());
  });
  return all;
}

class AtomicStepTest : public testing::TestWithParam<Case> {};

TEST_P(AtomicStepTest, TheNumbersAreThoseOfAStepInPlace) {
  for (bool overlap : {false, true})
    EXPECT_EQ(Undisturbed(GetParam(), overlap, true), Undisturbed(GetParam(), overlap, false));
}

TEST_P(AtomicStepTest, AStepThatFailsAnywhereChangesNothing) {
  const Case& of = GetParam();
  for (bool overlap : {false, true}) {
    const auto expected = Undisturbed(of, overlap, true);
    const int64_t moments = Fail(of, overlap, 0, -1)[0].moments;
    ASSERT_GE(moments, 4) << "the fence, and a collective";
    for (int64_t where = 0; where < of.domains; where += LongTests() ? 1 : of.domains - 1) {
      for (int64_t moment = LongTests() ? 0 : (overlap + where) % 3; moment < moments; moment += EverySo(3)) {
        SCOPED_TRACE(
            fmt::format("overlap={}, domain {} fails at moment {} of {}", overlap, where, moment, moments));
        const std::vector<Left> left = Fail(of, overlap, where, moment);
        EXPECT_EQ(left[static_cast<size_t>(where)].steps, kFails);
        int64_t common = kSteps;
        for (const Left& mine : left) common = std::min(common, mine.steps);
        ASSERT_EQ(common, kFails);
        for (size_t d = 0; d < left.size(); ++d) {
          ASSERT_LE(left[d].steps, kFails + 1);
          EXPECT_EQ(left[d].blocks, expected[d][static_cast<size_t>(left[d].steps)]) << "domain " << d;
          if (left[d].steps == kFails) continue;
          EXPECT_TRUE(left[d].can_undo) << "domain " << d;
          EXPECT_EQ(left[d].before, expected[d][kFails]) << "domain " << d;
        }
        if (HasFailure()) return;
        const std::vector<Blocks> ends = GoOn(of, overlap, left, common);
        for (size_t d = 0; d < ends.size(); ++d) EXPECT_EQ(ends[d], expected[d][kSteps]) << "domain " << d;
        if (HasFailure()) return;
      }
    }
  }
}

// The failure is at the last moment of the step, when the other domains need nothing more and have ended it.
TEST_P(AtomicStepTest, DomainsThatHaveEndedTheStepUndoIt) {
  const Case& of = GetParam();
  const auto expected = Undisturbed(of, true, true);
  const int64_t where = of.domains - 1;
  const int64_t moments = Fail(of, true, where, -1)[static_cast<size_t>(where)].moments;
  std::atomic<int64_t> ended = 0;
  const std::vector<Left> left = Fail(
      of, true, where, moments - 1, [&](int64_t) { ++ended; },
      [&] {
        while (ended < of.domains - 1) std::this_thread::yield();
      });
  for (size_t d = 0; d < left.size(); ++d) {
    const bool failed = static_cast<int64_t>(d) == where;
    EXPECT_EQ(left[d].steps, failed ? kFails : kFails + 1);
    EXPECT_EQ(left[d].blocks, expected[d][failed ? kFails : kFails + 1]);
    if (!failed) {
      EXPECT_EQ(left[d].before, expected[d][kFails]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, AtomicStepTest, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

// A domain has ended a step and begun the next one, which fails before all others have begun it. The values before
// the ended step are still there, because the others may not have ended it.
TEST(AtomicDomainsTest, TheValuesBeforeAStepStayUntilAllHaveBegunTheNext) {
  const Case of{"", "batch=2", 2};
  const auto expected = Undisturbed(of, true, true);
  const auto ends = Connected(2);
  std::atomic<bool> is_lost = false;
  InEach(2, [&](int64_t d) {
    Transport& end = *ends[static_cast<size_t>(d)];
    Session session = SessionOf(of, &end, true).value();
    for (int step = 0; step < kFails; ++step) ASSERT_TRUE(session.Run(SmallFeeds(step)).ok());
    BoundStep bound = session.Bind(SmallFeeds(kFails)).value();
    if (d == 0) {  // it does not come to the next step, which the other waits in
      while (!is_lost) std::this_thread::yield();
      return;
    }
    std::thread cut([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      end.Abort(absl::UnavailableError("domain 0 is lost"));
      is_lost = true;
    });
    EXPECT_EQ(bound.Run().code(), absl::StatusCode::kUnavailable);
    cut.join();
    EXPECT_EQ(session.steps_done(), kFails);
    EXPECT_EQ(BlocksOf(session.State()), expected[1][kFails]);
    ASSERT_TRUE(session.Undo().ok());
    EXPECT_EQ(BlocksOf(session.State()), expected[1][kFails - 1]);
    EXPECT_EQ(session.steps_done(), kFails - 1);
  });
}

// ---- Kernels that fail, in one domain.

constexpr float kBrittle = 77;

void RegisterBrittle() {
  static const bool is_registered = [] {
    OpRow row = SwigluRow("brittle");
    row.cpu = [](const KernelSpec& spec) {
      Kernel kernel = SwigluRow().cpu(spec);
      if (spec.results[0].local.dtype != F32) return kernel;
      kernel.run = [run = kernel.run](const KernelArgs& args) {
        for (int64_t i = args.begin; i < args.end; ++i)
          if (args.In<float>(1)[i] == kBrittle) throw std::bad_alloc();
        run(args);
      };
      return kernel;
    };
    return RegisterOp(row).ok();
  }();
  ASSERT_TRUE(is_registered);
}

// The kernel that fails runs after one variable is updated, and before the other is.
TEST(AtomicDomainsTest, AStepWhoseKernelFailsChangesNothing) {
  RegisterBrittle();
  constexpr std::string_view kProgram = R"(mesh [x=2]
func step(%a: f32[2] of f32[4] {x}, var %v: f32[2] of f32[4] {x}, var %w: f32[2] of f32[4] {x}) {
  %v1 = add %v, %a : f32[2] of f32[4] {x}
  %b = brittle %v, %a : f32[2] of f32[4] {x}
  %w1 = add %w, %b : f32[2] of f32[4] {x}
  update %v = %v1
  update %w = %w1
})";
  for (int workers : {1, 3}) {
    CpuBackend backend(workers);
    std::map<std::string, DTensor> state;
    const auto record = std::make_shared<StepRecord>();
    const auto step = Executor::Create(ParseProgram(kProgram), backend,
                                       {.poison_padding = true, .atomic = true, .record = record}, &state)
                          .value();
    const Tensor good = Tensor::From<float>({4}, {1, 2, 3, 4}),
                 bad = Tensor::From<float>({4}, {1, 2, 3, kBrittle});
    ASSERT_TRUE(step->Run({{"a", good}}, nullptr).ok());
    const Blocks before = BlocksOf(state);
    EXPECT_TRUE(record->can_undo());
    for (int tries = 0; tries < 2; ++tries) {
      EXPECT_EQ(step->Run({{"a", bad}}, nullptr).code(), absl::StatusCode::kResourceExhausted);
      EXPECT_EQ(BlocksOf(state), before);
      EXPECT_EQ(record->done(), 1);
      EXPECT_FALSE(record->can_undo()) << "it began to write where the old values were";
    }
    ASSERT_TRUE(step->Run({{"a", good}}, nullptr).ok());
    EXPECT_THAT(Unpack(state.at("v")).value().values<float>(), testing::ElementsAre(2, 4, 6, 8));
  }
}

}  // namespace
}  // namespace meshwork::atomic_test

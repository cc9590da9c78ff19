// Programs on several simulated GPUs of one process, each a domain, give the numbers of one device of a CPU, in every
// order of work that the driver and the other GPUs are free to choose.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
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

#include "cuda_backend/played_gpu.h"
#include "cuda_backend/played_session.h"
#include "meshwork.h"
#include "meshwork/base/status.h"
#include "meshwork/mesh/placement.h"
#include "meshwork/runtime/transport/loopback.h"
#include "support/cross_device_programs.h"
#include "support/in_domains.h"
#include "support/long_tests.h"
#include "support/program_trial.h"
#include "support/random_program.h"
#include "support/random_training.h"
#include "support/small_session.h"

namespace meshwork::gpus_test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The numbers of GPUs, from 2 to 4, among which the mesh can be divided.
std::vector<int64_t> CountsOf(const Mesh& mesh) {
  std::vector<int64_t> counts;
  for (const int64_t count : {4, 2, 3})
    if (Placement::Create(mesh, count).ok()) counts.push_back(count);
  return counts;
}

using Way = CudaBackendOptions::Way;

std::string TryOnGpus(const RandomProgram& random, const Expected& expected, int64_t num_gpus, uint64_t seed,
                      Way way, const ExecutorOptions& options) {
  PlayedGpu gpus(seed, {}, num_gpus);
  const Trial trial = TryOnDomains(
      random, expected, num_gpus,
      [&](int64_t domain) -> absl::StatusOr<std::unique_ptr<Backend>> {
        MESHWORK_ASSIGN_OR_RETURN(auto backend, gpus.MakeBackend(static_cast<int>(domain), {.way = way}));
        return backend;
      },
      options);
  EXPECT_THAT(gpus.cuda.TakeFindings(), IsEmpty());
  EXPECT_THAT(gpus.cuda.TakeLeaks(), IsEmpty());
  return trial.error();
}

// The host's compiler compiles each kernel, which takes a second.
void TryAllOnGpus(const std::function<RandomProgram(uint64_t seed)>& draw) {
  const uint64_t wanted = LongTests() ? 200 : 6;
  uint64_t tried = 0;
  for (uint64_t seed = 0; tried < wanted && seed < 20 * wanted; ++seed) {
    const RandomProgram random = draw(seed);
    const std::vector<int64_t> counts = CountsOf(random.graph.mesh());
    if (counts.empty()) continue;
    const Expected expected = ExpectedOf(random);
    if (!std::isfinite(expected.scale)) continue;
    const bool sums = tried % 3 == 2;
    const ExecutorOptions options{.share = tried % 4 != 3,
                                  .fuse = tried % 5 != 2,
                                  .atomic = tried % 2 == 1,
                                  .cross_device_ops = sums ? NcclAllReduce() : nullptr};
    const Way way = tried % 3 == 0 ? Way::kHost : Way::kNccl;
    ASSERT_EQ(TryOnGpus(random, expected, counts[tried % counts.size()], seed, way, options), "")
        << "seed " << seed << " way " << static_cast<int>(way);
    ++tried;
  }
  EXPECT_EQ(tried, wanted);
}

TEST(GpusTest, RandomProgramsGiveTheOneDeviceResult) {
  const RandomPrograms programs;
  TryAllOnGpus([&](uint64_t seed) { return programs.Draw(seed); });
}

TEST(GpusTest, LoopsAndBranchesGiveTheOneDeviceResult) {
  const RandomPrograms programs;
  TryAllOnGpus([&](uint64_t seed) { return programs.DrawLoops(seed); });
}

TEST(GpusTest, TrainingsGiveTheOneDeviceResult) {
  TryAllOnGpus([](uint64_t seed) { return DrawTraining(seed); });
}

// ---- Sessions.

constexpr Way kWays[] = {Way::kHost, Way::kNccl};

// Calls `play` for each GPU, on a thread of its own, with the domain's end of a transport and the GPU's backend.
using Play = std::function<void(Transport& end, const std::shared_ptr<Backend>& backend)>;
void OnGpus(PlayedGpu& gpus, int64_t count, const CudaBackendOptions& options, const Play& play) {
  InDomains(count, [&](Transport& end) {
    play(end, gpus.MakeBackend(static_cast<int>(end.domain()), options).value());
  });
}

// `sums`: ncclAllReduce computes the sums across GPUs.
SessionOptions OptionsFor(Transport& end, const std::shared_ptr<Backend>& backend, bool sums = false) {
  SessionOptions options{.backend = backend, .gather_outputs = true};
  options.executor.transport = &end;
  options.executor.poison_padding = true;
  if (sums) options.executor.cross_device_ops = NcclAllReduce();
  return options;
}

// Eight logical devices on 2 and on 4 GPUs. Several share a GPU, and their collectives are kernels; GPUs exchange once.
TEST(GpusTest, AMlpTrainsAsOnTheCpu) {
  const Graph graph = SmallMlp("batch=4,model=2");
  const MlpTraining expected = TrainMlp(OnCpu(graph));
  for (const int64_t count : {2, 4}) {
    for (const Way way : kWays) {
      SCOPED_TRACE(count);
      PlayedGpu gpus(static_cast<uint64_t>(count), {}, count);
      OnGpus(gpus, count, {.way = way}, [&](Transport& end, const std::shared_ptr<Backend>& backend) {
        SessionOptions options = OptionsFor(end, backend);
        options.executor.atomic = count == 2;
        absl::StatusOr<Session> session = Session::Create(graph, options);
        ASSERT_TRUE(session.ok()) << session.status();
        ExpectTrainsAs(*session, expected);
      });
      EXPECT_EQ(gpus.cuda.num_exchanges() > 0, way == Way::kNccl);
      ExpectClean(gpus);
    }
  }
}

// NCCL adds up the terms of several GPUs, in its own order. Each
// training runs with another seed, so that the simulated streams do their work at other times.
TEST(GpusTest, NcclAddsUpGradients) {
  const Graph graph = SmallMlp("batch=4,model=2");
  Session expected = OnCpu(graph);
  std::vector<absl::StatusOr<StepResult>> steps;
  for (int64_t step = 0; step < 4; ++step)
    steps.push_back(expected.Run(MlpRows(step == 2 ? 5 : kMlpRows, 3 * step)));
  const std::map<std::string, Tensor> state = ValuesOf(expected);
  for (const int64_t count : {2, 4}) {
    for (const bool atomic : {false, true}) {
      SCOPED_TRACE(count);
      PlayedGpu gpus(static_cast<uint64_t>(2 * count + (atomic ? 1 : 0)), {}, count);
      OnGpus(gpus, count, {}, [&](Transport& end, const std::shared_ptr<Backend>& backend) {
        SessionOptions options = OptionsFor(end, backend);
        options.executor.atomic = atomic;
        options.executor.cross_device_ops = NcclAllReduce();
        absl::StatusOr<Session> session = Session::Create(graph, options);
        ASSERT_TRUE(session.ok()) << session.status();
        for (int64_t step = 0; step < 4; ++step)
          ExpectNear(session->Run(MlpRows(step == 2 ? 5 : kMlpRows, 3 * step)),
                     steps[static_cast<size_t>(step)]);
        ExpectStateNear(*session, state);
      });
      EXPECT_GT(gpus.cuda.num_sums(), 0);
      ExpectClean(gpus);
    }
  }
}

// Every dtype and reduction, with two values of two instances on each GPU: whole numbers are exact in any order, and a
// maximum of reals, which is not given to NCCL, keeps its NaN.
TEST(GpusTest, NcclMakesTheReductionsThatItHas) {
  for (const std::string_view dtype : {"f32", "f64", "bf16", "i32", "i64"}) {
    for (const std::string_view op : {"sum", "prod", "max", "min"}) {
      const bool is_real = dtype == "f32" || dtype == "f64" || dtype == "bf16";
      const bool is_of_nccl = !is_real || op == "sum" || op == "prod";
      Program program = ParseProgram(fmt::format(R"(mesh [x=4, y=2]
func step(%a: {0}[1,3] of {0}[4,6] {{x,y}}, %b: {0}[1] of {0}[4] {{x}}) {{
  %p = reduce_{1} %a dims=[0] : {0}[3] of {0}[6] {{y | {1}:x}}
  %q = reduce_{1} %b dims=[0] : {0}[] {{ | {1}:x}}
  %s, %t = all_reduce %p, %q axes=(x) op={1} : {0}[3] of {0}[6] {{y}}, {0}[] {{}}
  return s=%s, t=%t
}})",
                                                 dtype, op));
      program.num_domains = 4;
      const DType type = program.body.value(program.body.arguments()[0].value).type.dtype;
      Tensor a = Ramp({F32, {4, 6}});
      const bool has_nan = is_real && op == "max";
      if (has_nan) a.mutable_values<float>()[8] = NAN;
      const Tensors feeds = {{"a", a.Cast(type)}, {"b", Ramp({F32, {4}}).Cast(type)}};
      Program alone = program;
      alone.num_domains = 1;
      CpuBackend cpu(1);
      const CrossDeviceRun expected = RunCrossDevice(alone, feeds, {}, cpu);
      PlayedGpu gpus(7, {}, 4);
      OnGpus(gpus, 4, {}, [&](Transport& end, const std::shared_ptr<Backend>& backend) {
        const ExecutorOptions options{
            .poison_padding = true, .transport = &end, .cross_device_ops = NcclAllReduce()};
        const CrossDeviceRun run = RunCrossDevice(program, feeds, options, *backend);
        EXPECT_EQ(run.error, expected.error);
        ExpectBitwiseEqual(run.outputs, expected.outputs);
      });
      EXPECT_EQ(gpus.cuda.num_sums() > 0, is_of_nccl) << dtype << " " << op;
      ExpectClean(gpus);
    }
  }
}

// On one GPU NCCL has nothing to do: it need not be installed, and the bits are the same as without it.
TEST(GpusTest, OnOneGpuNcclHasNothingToDo) {
  PlayedGpu gpu(8);
  const Graph graph = SmallMlp("batch=4,model=2");
  {
    Session plain = OnGpu(gpu, graph),
            by_nccl = OnGpu(gpu, graph, {.executor = {.cross_device_ops = NcclAllReduce()}});
    for (int64_t step = 0; step < 2; ++step) {
      ASSERT_TRUE(plain.Run(MlpRows(kMlpRows, step)).ok());
      ASSERT_TRUE(by_nccl.Run(MlpRows(kMlpRows, step)).ok());
    }
    ExpectSameState(by_nccl, ValuesOf(plain));
  }
  EXPECT_EQ(gpu.cuda.num_exchanges(), 0);
  ExpectClean(gpu);
}

// A step of a session on 2 GPUs is captured with its exchanges, and then only launched.
TEST(GpusTest, ExchangesAreInTheGraph) {
  for (const bool sums : {false, true}) {
    PlayedGpu gpus(5, {}, 2);
    std::atomic<int64_t> before = 0, behind = 0;
    OnGpus(gpus, 2, {.way = Way::kNccl}, [&](Transport& end, const std::shared_ptr<Backend>& backend) {
      Session session = Session::Create(SmallMlp("batch=2,model=2"), OptionsFor(end, backend, sums)).value();
      const auto meet = [&](std::string_view what) { ASSERT_TRUE(end.AllGather(what, "").ok()); };
      ASSERT_TRUE(session.Run(MlpRows(kMlpRows)).ok());
      meet("captured");
      before = gpus.cuda.num_exchanges();
      meet("counted");
      for (int step = 0; step < 3; ++step) ASSERT_TRUE(session.Run(MlpRows(kMlpRows)).ok());
      meet("launched");
      behind = gpus.cuda.num_exchanges();
    });
    EXPECT_GT(before, 0);
    EXPECT_EQ(before, behind);
    EXPECT_EQ(gpus.cuda.num_sums() > 0, sums);
    ExpectClean(gpus);
  }
}

// Each GPU prefetches its own batches, while the exchanges of a step are under way.
TEST(GpusTest, EachPrefetchesItsBatches) {
  const Pipeline data = BatchesOf(MlpRows(21), {.batch_size = kMlpRows, .shuffle_seed = 5}).value();
  for (const Way way : {Way::kNccl, Way::kHost}) {
    PlayedGpu gpus(5, {}, 2);  // takes all products: which ones it declines is open between threads
    OnGpus(gpus, 2, {.way = way}, [&](Transport& end, const std::shared_ptr<Backend>& backend) {
      std::vector<double> losses[2];
      for (const bool prefetches : {false, true}) {
        SessionOptions options = OptionsFor(end, backend);
        options.gather_outputs = true;
        Session session = Session::Create(SmallMlp("batch=2,model=2"), options).value();
        const absl::StatusOr<History> history = Fit(
            session, data,
            {.epochs = 2, .outputs = {"loss"}, .prefetch_to_device = prefetches, .log = [](std::string_view) {
             }});
        ASSERT_TRUE(history.ok()) << history.status();
        losses[prefetches] = history->Of("loss");
      }
      EXPECT_EQ(losses[0].size(), 2u);
      EXPECT_EQ(losses[0], losses[1]);
    });
    ExpectClean(gpus);
  }
}

// NCCL reports that another rank is lost, or that rank is late: the status names the collective; the GPUs stay usable.
TEST(GpusTest, APeerThatIsLostIsAStatus) {
  for (const auto& [is_told, sums] :
       {std::pair(true, false), std::pair(false, false), std::pair(true, true), std::pair(false, true)}) {
    PlayedGpu gpus(6, {}, 2);
    const CudaBackendOptions way{.way = Way::kNccl,
                                 .deadline = std::chrono::milliseconds(is_told ? 600'000 : 0)};
    OnGpus(gpus, 2, way, [&](Transport& end, const std::shared_ptr<Backend>& backend) {
      end.set_deadline(std::chrono::milliseconds(50));  // what a backend without one of its own takes
      absl::StatusOr<Session> session =
          Session::Create(SmallMlp("batch=2,model=2"), OptionsFor(end, backend, sums));
      ASSERT_TRUE(session.ok()) << session.status();
      // Bind has agreed on the step with the other domains, so Run does not use the transport.
      absl::StatusOr<BoundStep> step = session->Bind(MlpRows(kMlpRows));
      ASSERT_TRUE(step.ok()) << step.status();
      if (end.domain() == 1) {
        if (is_told) gpus.cuda.LoseRank(1);
        while (end.aborted().ok()) std::this_thread::yield();
        return;
      }
      const absl::Status status = step->Run();
      EXPECT_EQ(status.code(),
                is_told ? absl::StatusCode::kUnavailable : absl::StatusCode::kDeadlineExceeded);
      EXPECT_THAT(MessageOf(status), HasSubstr("small_session.h:"));
      EXPECT_THAT(MessageOf(status),
                  HasSubstr(is_told ? "remote process exited" : "domain 1 did not come within 50 ms"));
      EXPECT_EQ(step->Run(), status);
    });
    gpus.cuda.LoseRank(-1);
    OnGpus(gpus, 2, {.way = Way::kNccl}, [&](Transport& end, const std::shared_ptr<Backend>& backend) {
      Session session = Session::Create(SmallMlp("batch=2,model=2"), OptionsFor(end, backend, sums)).value();
      EXPECT_TRUE(session.Run(MlpRows(kMlpRows)).ok());
    });
    ExpectClean(gpus);
  }
}

// The loss of the second step in the domain of `end`.
absl::StatusOr<double> TrainTwoSteps(PlayedGpu& gpus, Way way, bool sums, Transport& end) {
  MESHWORK_ASSIGN_OR_RETURN(std::shared_ptr<Backend> backend,
                            gpus.MakeBackend(static_cast<int>(end.domain()), {.way = way}));
  MESHWORK_ASSIGN_OR_RETURN(Session session,
                            Session::Create(SmallMlp("batch=2,model=2"), OptionsFor(end, backend, sums)));
  MESHWORK_RETURN_IF_ERROR(session.Run(MlpRows(kMlpRows)).status());
  MESHWORK_ASSIGN_OR_RETURN(const StepResult step, session.Run(MlpRows(kMlpRows)));
  return step.scalar("loss");
}

// Whichever call of the driver or of NCCL fails: all domains end, with a status or with the right numbers; no leaks.
TEST(GpusTest, AnyCallMayFail) {
  PlayedGpu gpus(1, {}, 2);
  for (const auto& [way, sums] :
       {std::pair(Way::kHost, false), std::pair(Way::kNccl, false), std::pair(Way::kNccl, true)}) {
    double expected = 0;
    int failed = 0;
    for (int64_t nth = 0;; nth += nth == 0 ? 1 : EverySo(way == Way::kNccl ? 97 : 211)) {
      gpus.cuda.FailAnyCall(nth, CUDA_ERROR_INVALID_VALUE);  // nothing fails the first time
      const std::vector<std::unique_ptr<Transport>> ends = MakeLoopback(2);
      std::vector<absl::StatusOr<double>> losses(2);
      std::vector<std::thread> threads;
      for (size_t d = 0; d < 2; ++d)
        threads.emplace_back([&, d, way = way, sums = sums] {
          try {
            losses[d] = TrainTwoSteps(gpus, way, sums, *ends[d]);
          } catch (const std::bad_alloc&) {
            losses[d] = absl::ResourceExhaustedError("Memory::Allocate");
          }
          if (!losses[d].ok()) ends[d]->Abort(losses[d].status());
        });
      for (std::thread& thread : threads) thread.join();
      const std::string call = nth == 0 ? "none" : gpus.cuda.failed_call();
      if (nth == 0) expected = losses[0].value();
      if (call.empty()) break;
      for (const absl::StatusOr<double>& loss : losses) {
        if (loss.ok()) EXPECT_EQ(*loss, expected) << call << ", call " << nth;
        else ++failed;
      }
      EXPECT_THAT(gpus.cuda.TakeFindings(), IsEmpty()) << call << ", call " << nth;
      EXPECT_THAT(gpus.cuda.TakeLeaks(), IsEmpty()) << call << ", call " << nth;
    }
    EXPECT_GT(failed, 5);
  }
}

}  // namespace
}  // namespace meshwork::gpus_test

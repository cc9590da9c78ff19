// Messages about trainings that are saved and resumed: checkpoints that cannot be used or written, folders
// that are refused, and messages between processes between steps.
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "errors/errors.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "meshwork/base/log.h"
#include "meshwork/runtime/transport/loopback.h"
#include "meshwork/storage/checkpoint_folder.h"
#include "support/temp_dir.h"

namespace meshwork::resume_test {
namespace {

class ResumeErrors : public TempDirTest {
 protected:
  static Session Small(Transport* end = nullptr) {
    Graph g(Mesh::VirtualCpus("batch=2").value());
    Variable w = g.Var("w", Zeros({2, 3}), {"batch", UNSHARDED});
    g.Update(w, w + 1);
    SessionOptions options{.workers = 1, .own_cores = false};
    options.executor.transport = end;
    return Session::Create(g, options).value();
  }
  // The error of `play` in domain 0 of two.
  template <typename Play>
  static absl::Status InTwo(const Play& play) {
    std::vector<std::unique_ptr<Transport>> ends = MakeLoopback(2);
    absl::Status first;
    std::thread other([&] { play(*ends[1]).IgnoreError(); });
    first = play(*ends[0]);
    other.join();
    return first;
  }
  std::string Runs() const { return Path("runs"); }
  // The holder's name as in a lock.
  static std::string HostAndProcess() {
    char host[256] = {};
    gethostname(host, sizeof(host) - 1);
    return fmt::format("process {} on {}", getpid(), host);
  }
};

TEST_F(ResumeErrors, Restore) {
  Session session = Small();
  std::filesystem::create_directory(Path("empty"));
  ASSERT_EQ(MessageOf(session.Save(Path("good"), {.step = 1})), "");
  for (int64_t step : {1, 2}) ASSERT_EQ(MessageOf(session.Save(Runs(), {.step = step})), "");
  for (int64_t step : {1, 2})
    std::filesystem::remove(fmt::format("{}/{}/index.json", Runs(), CheckpointName(step)));
  auto in_two = [&](Transport& end) {
    Session here = Small(&end);
    return here.Restore(end.domain() == 0 ? Path("good") : Path("nowhere")).status();
  };
  auto skipped = [&] {
    std::string said;
    SetLogSink(
        [&](const LogLine& line) { said += fmt::format("{}{}", said.empty() ? "" : "\n", line.text); });
    session.Restore(Runs()).IgnoreError();
    SetLogSink(nullptr);
    return absl::UnknownError(said);
  };
  ExpectErrors("restore",
               {
                   MISTAKE(session.Restore(Path("nowhere"))),
                   MISTAKE(session.Restore(Path("empty"))),
                   MISTAKE(session.Restore(Runs())),
                   MISTAKE(InTwo(in_two)),
                   MISTAKE(skipped()),
               },
               {{dir(), "DIR"}});
}

TEST_F(ResumeErrors, CheckpointManager) {
  Session session = Small();
  ASSERT_EQ(MessageOf(session.Save(Runs(), {.step = 7})), "");
  auto open = [&](const CheckpointOptions& options) {
    Pulse pulse(nullptr);
    return CheckpointManager::Open(options, session, pulse).status();
  };
  auto differ = [&](Transport& end) {
    Session here = Small(&end);
    Pulse pulse(&end);
    const CheckpointOptions options{.dir = Path("b"), .seconds = end.domain() == 0 ? 600.0 : 60.0};
    return CheckpointManager::Open(options, here, pulse).status();
  };
  auto differ_more = [&](Transport& end) {
    Session here = Small(&end);
    Pulse pulse(&end);
    CheckpointOptions options{.dir = Path("b"), .steps = 1};
    if (end.domain() == 1)
      options = {.dir = Path("b"), .steps = 20, .best_metric = "loss", .background = false, .resume = true};
    return CheckpointManager::Open(options, here, pulse).status();
  };
  auto elsewhere = [&](Transport& end) {
    Session here = Small(&end);
    Pulse pulse(&end);
    return CheckpointManager::Open({.dir = end.domain() == 0 ? Path("e") : Path("f")}, here, pulse).status();
  };
  auto two_jobs = [&] {
    Pulse pulse(nullptr);
    const auto first = CheckpointManager::Open({.dir = Path("c")}, session, pulse).value();
    return open({.dir = Path("c")});
  };
  // The message of a training about a checkpoint that fails while the training goes on.
  auto reported = [&](int64_t before) {
    const std::string dir = Path(fmt::format("d{}", before));
    std::string said;
    Pulse pulse(nullptr);
    const auto checkpoints = CheckpointManager::Open({.dir = dir,
                                                      .steps = 1,
                                                      .background = false,
                                                      .report = [&](std::string_view line) { said = line; }},
                                                     session, pulse)
                                 .value();
    for (int64_t step = 1; step <= before + 1; ++step) {
      if (step > before) {
        std::filesystem::rename(dir, dir + "-aside");
        File(fmt::format("d{}", before), "in the way");
      }
      checkpoints->AfterStep(step, [&] { return CheckpointNote{.step = step}; }).IgnoreError();
    }
    // The name of the folder that is being written is random.
    const size_t begin = said.find("partial-");
    if (begin != std::string::npos) said.erase(begin + 8, said.find('/', begin) - begin - 8);
    return absl::UnknownError(said);
  };
  ExpectErrors("checkpoint_manager",
               {
                   MISTAKE(open({})),
                   MISTAKE(open({.dir = Path("a"), .keep = 0})),
                   MISTAKE(open({.dir = Path("a"), .steps = -1})),
                   MISTAKE(open({.dir = Path("a"), .seconds = 0})),
                   MISTAKE(open({.dir = Runs()})),
                   MISTAKE(InTwo(differ)),
                   MISTAKE(InTwo(differ_more)),
                   MISTAKE(InTwo(elsewhere)),
                   MISTAKE(two_jobs()),
                   MISTAKE(reported(0)),
                   MISTAKE(reported(2)),
               },
               {{dir(), "DIR"}, {HostAndProcess(), "process N on HOST"}});
}

TEST_F(ResumeErrors, Pulse) {
  auto parts = [](Transport& end) {
    Pulse pulse(&end, {.name = fmt::format("worker {} on host-a", end.domain())});
    auto add = [&](const std::string& name) {
      pulse.Add({name, [] { return ""; }, [](const std::vector<std::string>&) { return absl::OkStatus(); }});
    };
    add("checkpoints");
    if (end.domain() == 1) add("replicas");
    return pulse.AfterStep();
  };
  auto no_pulse = [](Transport& end) -> absl::Status {
    if (end.domain() == 1) return end.AllGather("the pulse", "a step of 12 rows").status();
    Pulse pulse(&end);
    return pulse.AfterStep();
  };
  auto slow = [](Transport& end) {
    double now = 0;
    std::string said;
    Pulse pulse(&end, {.name = fmt::format("worker {} on host-{}", end.domain(), end.domain()),
                       .clock = [&] { return now; },
                       .report = [&](std::string_view line) { said = line; }});
    for (int step = 0; step < 5; ++step) {
      now += end.domain() == 0 ? 1 : 3.5;
      if (absl::Status status = pulse.AfterStep(); !status.ok()) return status;
    }
    return absl::UnknownError(said);
  };
  ExpectErrors("pulse", {
                            MISTAKE(InTwo(parts)),
                            MISTAKE(InTwo(no_pulse)),
                            MISTAKE(InTwo(slow)),
                        });
}

}  // namespace
}  // namespace meshwork::resume_test

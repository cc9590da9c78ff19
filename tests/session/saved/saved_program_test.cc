// A saved program predicts what the session predicted that saved it, from its folder alone.
#include "meshwork/session/saved/saved_program.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "meshwork/base/io/file.h"
#include "meshwork/storage/checkpoint.h"
#include "support/forks.h"
#include "support/in_domains.h"
#include "support/long_tests.h"
#include "support/temp_dir.h"
#include "support/tensors.h"
#include "train/saved_training.h"

namespace meshwork::saved_program_test {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

Tensor Images(int64_t rows, int seed = 1) {
  Tensor x(Type{F64, {rows, 6}});
  Random random(static_cast<uint64_t>(seed));
  for (double& value : x.mutable_values<double>()) value = random.Uniform(-1, 1);
  return x;
}

SessionOptions OneWorker(Transport* transport = nullptr) {
  SessionOptions options{.workers = 1, .own_cores = false, .gather_outputs = true};
  options.executor.transport = transport;
  return options;
}

Session Trained(const std::string& mesh, Transport* transport = nullptr, int64_t steps = 3) {
  Session session = Session::Create(SavedTraining(mesh, /*predicts=*/true), OneWorker(transport)).value();
  TrainSteps(session, 0, steps);
  return session;
}

const SaveProgramOptions kFunctions = {.functions = {{"predict", {"logits"}}, {"embed", {"hidden"}}}};

Tensor LogitsOf(SavedProgram& program, int64_t rows) {
  const absl::StatusOr<StepResult> result = program.Predict({{"x", Images(rows)}});
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? result->Get("logits").value() : Tensor();
}

class SavedProgramTest : public TempDirTest {
 protected:
  std::string Save(const Session& session, const SaveProgramOptions& options = kFunctions) {
    const absl::StatusOr<std::string> path = SaveProgram(session, Path("digits"), options);
    EXPECT_TRUE(path.ok()) << path.status();
    return path.value_or("");
  }
  SavedProgram Load(LoadOptions options = {}) {
    options.session = OneWorker();
    absl::StatusOr<SavedProgram> program = SavedProgram::Load(Path("digits"), options);
    EXPECT_TRUE(program.ok()) << program.status();
    return *std::move(program);
  }
};

TEST_F(SavedProgramTest, PredictsTheSameBitsOnTheSavedMesh) {
  for (const char* mesh : {"batch=4", "batch=2,model=3", "batch=1"}) {
    SCOPED_TRACE(mesh);
    fs::remove_all(Path("digits"));
    Session session = Trained(mesh);
    EXPECT_EQ(Save(session), Path("digits/1"));
    SavedProgram program = Load();
    EXPECT_TRUE(program.runs_as_saved());
    for (const int64_t rows : {12, 5, 1, 30}) {
      const StepResult expected = session.Predict({{"x", Images(rows)}}, {"logits", "hidden"}).value();
      EXPECT_EQ(NumbersOf(LogitsOf(program, rows)), NumbersOf(expected.Get("logits").value())) << rows;
      EXPECT_EQ(NumbersOf(program.Predict({{"x", Images(rows)}}, "embed")->Get("hidden").value()),
                NumbersOf(expected.Get("hidden").value()));
    }
  }
}

TEST_F(SavedProgramTest, PredictsOnOtherMeshesAndInSeveralDomains) {
  Session session = Trained("batch=2,model=3");
  Save(session);
  const Tensor expected = session.Predict({{"x", Images(12)}}, {"logits"})->Get("logits").value();
  for (const char* mesh : {"batch=1", "batch=4", "batch=3,model=2", "rows=2"}) {
    SavedProgram program = Load({.mesh = Mesh::VirtualCpus(mesh).value()});
    EXPECT_FALSE(program.runs_as_saved());
    EXPECT_EQ(AllClose(LogitsOf(program, 12), expected, {.rtol = 1e-12, .atol = 1e-12}), absl::OkStatus())
        << mesh;
  }
  InDomains(2, [&](Transport& end) {
    absl::StatusOr<SavedProgram> program = SavedProgram::Load(Path("digits"), {.session = OneWorker(&end)});
    ASSERT_TRUE(program.ok()) << program.status();
    EXPECT_EQ(AllClose(LogitsOf(*program, 12), expected, {.rtol = 1e-12, .atol = 1e-12}), absl::OkStatus());
  });
}

// All or none; and no domain waits for another one.
TEST_F(SavedProgramTest, DomainsThatDifferAreRefused) {
  Save(Trained("batch=2,model=2"));
  fs::create_directory(Path("other"));
  fs::copy(Path("digits/1"), Path("other/1"), fs::copy_options::recursive);
  ASSERT_TRUE(SaveProgram(Trained("batch=2,model=2", nullptr, 7), Path("other"), kFunctions).ok());
  InDomains(2, [&](Transport& end) {
    const bool is_first = end.domain() == 0;
    const Session session = Trained("batch=2,model=2", &end);
    EXPECT_FALSE(SaveProgram(session, Path("digits"), is_first ? kFunctions : SaveProgramOptions()).ok());
    EXPECT_FALSE(SaveProgram(session, Path("digits"),
                             is_first ? kFunctions : SaveProgramOptions{.functions = {{"predict", {"none"}}}})
                     .ok());
    const LoadOptions options{.session = OneWorker(&end)};
    EXPECT_FALSE(SavedProgram::Load(Path(is_first ? "digits" : "other"), options).ok());
    EXPECT_FALSE(SavedProgram::Load(Path(is_first ? "digits" : "none"), options).ok());
    EXPECT_TRUE(SavedProgram::Load(Path("digits"), options).ok());
  });
  EXPECT_FALSE(fs::exists(Path("digits/2")));
}

TEST_F(SavedProgramTest, IsSavedBySeveralDomains) {
  InDomains(2, [&](Transport& end) {
    const Session session = Trained("batch=2,model=2", &end);
    const absl::StatusOr<std::string> path = SaveProgram(session, Path("digits"), kFunctions);
    ASSERT_TRUE(path.ok()) << path.status();
    EXPECT_EQ(*path, Path("digits/1"));
  });
  SavedProgram program = Load();
  EXPECT_TRUE(program.runs_as_saved());
  Session alone = Trained("batch=2,model=2");
  EXPECT_EQ(
      AllClose(LogitsOf(program, 12), alone.Predict({{"x", Images(12)}}, {"logits"})->Get("logits").value(),
               {.rtol = 1e-12, .atol = 1e-12}),
      absl::OkStatus());
}

// No Adam, no counter, no label, no loss; and a user's lines.
TEST_F(SavedProgramTest, HoldsWhatPredictionsNeed) {
  const std::string path = Save(Trained("batch=4"));
  SavedProgram program = Load();
  EXPECT_THAT(program.session().variable_names(), UnorderedElementsAre("w", "v"));
  ASSERT_EQ(program.functions().size(), 2u);
  EXPECT_EQ(program.functions()[1],
            (SavedFunction{"predict", {{"x", {F64, {12, 6}}, true}}, {{"logits", {F64, {12, 5}}, true}}}));
  const Checkpoint weights = Checkpoint::Open(path + "/weights").value();
  EXPECT_EQ(weights.index().step, 3);
  EXPECT_EQ(weights.index().variables.size(), 2u);
  EXPECT_THAT(std::string(program.session().graph().nodes()[0].location.file), HasSubstr("saved_training.h"));
  for (const auto& entry : fs::directory_iterator(path))
    EXPECT_THAT(entry.path().filename().string(), testing::AnyOf("program.json", "program.mw", "plan-0.json",
                                                                 "plan-1.json", "plan-2.json", "weights"));
}

TEST_F(SavedProgramTest, LoadsTheNewestVersionOrTheOneThatIsAsked) {
  Session first = Trained("batch=4", nullptr, 1), second = Trained("batch=4", nullptr, 5);
  const Tensor old = first.Predict({{"x", Images(12)}}, {"logits"})->Get("logits").value();
  const Tensor now = second.Predict({{"x", Images(12)}}, {"logits"})->Get("logits").value();
  EXPECT_EQ(Save(first), Path("digits/1"));
  SavedProgram early = Load();
  EXPECT_EQ(Save(second), Path("digits/2"));
  SavedProgram newest = Load(), asked = Load({.version = 1});
  EXPECT_EQ(newest.version(), 2);
  EXPECT_EQ(asked.version(), 1);
  EXPECT_EQ(NumbersOf(LogitsOf(newest, 12)), NumbersOf(now));
  EXPECT_EQ(NumbersOf(LogitsOf(asked, 12)), NumbersOf(old));
  EXPECT_EQ(NumbersOf(LogitsOf(early, 12)), NumbersOf(old));
  fs::create_directory(Path("digits/007"));  // no version
  EXPECT_EQ(Save(first), Path("digits/3"));
}

// The session is as it was.
TEST_F(SavedProgramTest, LeavesTheSessionAlone) {
  Session session = Trained("batch=4");
  const Tensor w = session.Get("w").value();
  Save(session);
  EXPECT_EQ(NumbersOf(session.Get("w").value()), NumbersOf(w));
  TrainSteps(session, 3, 4);
  EXPECT_EQ(session.steps_done(), 4);
}

// A weight that is cut by a part of an axis, so that the mesh is cut, too.
TEST_F(SavedProgramTest, SavesVariablesAsTheyLie) {
  Graph g(Mesh::Parse("batch=4").value());
  Value x = g.Input("x", F64, {12, 6}, {"batch", UNSHARDED});
  Variable w = g.Var("w", GlorotUniform({6, 5}, F64), {"batch:(1)2", UNSHARDED});
  g.Output("logits", MatMul(x, w));
  Session session = Session::Create(g, OneWorker()).value();
  Save(session, {});
  SavedProgram program = Load();
  EXPECT_TRUE(program.runs_as_saved());
  EXPECT_EQ(program.session().LayoutOf("w")->ToString(), session.LayoutOf("w")->ToString());
  for (const int64_t rows : {12, 7})
    EXPECT_EQ(NumbersOf(LogitsOf(program, rows)),
              NumbersOf(session.Predict({{"x", Images(rows)}}, {"logits"})->Get("logits").value()));
}

// What holds for one number of rows alone does so when it was saved, too, also in a loop's body; sizes that were given
// stay as they were given.
TEST_F(SavedProgramTest, KeepsWhatRowsMayChange) {
  struct Case {
    const char* name;
    std::function<Value(const Value& x)> build;
  };
  const std::vector<Case> cases = {
      {"fft along the batch", [](const Value& x) { return Fft(x, x, 0).re; }},
      {"fft within a row", [](const Value& x) { return Fft(x, x, 1).re; }},
      {"a size like the batch's", [](const Value& x) {
         const Value images = Reshape(x, {8, 2, 4, 1});
         return ReduceSum(Resize(images, {8, 8}, ResizeForm::kNearest), {1, 2, 3});
       }}};
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    fs::remove_all(Path("digits"));
    Graph g(Mesh::Parse("batch=2").value());
    Value x = g.Input("x", F64, {8, 8}, {UNSHARDED, UNSHARDED});
    g.Output("y", one.build(x));
    ASSERT_TRUE(g.status().ok()) << g.status();
    Session session = Session::Create(g, OneWorker()).value();
    Save(session, {});
    SavedProgram program = Load();
    for (const int64_t rows : {8, 4, 11}) {
      Tensor fed(Type{F64, {rows, 8}});
      for (int64_t i = 0; i < fed.num_elements(); ++i)
        fed.mutable_values<double>()[static_cast<size_t>(i)] = static_cast<double>(i * i % 13);
      const absl::StatusOr<StepResult> wanted = session.Predict({{"x", fed}}, {"y"});
      const absl::StatusOr<StepResult> got = program.Predict({{"x", fed}});
      ASSERT_EQ(got.ok(), wanted.ok()) << rows << ": " << got.status() << " instead of " << wanted.status();
      if (!wanted.ok()) continue;
      EXPECT_EQ(NumbersOf(got->Get("y").value()), NumbersOf(wanted->Get("y").value())) << rows;
    }
  }
}

TEST_F(SavedProgramTest, ManyThreadsPredict) {
  Save(Trained("batch=4"));
  SavedProgram program = Load();
  std::vector<Tensor> expected;
  for (int t = 0; t < 8; ++t)
    expected.push_back(program.Predict({{"x", Images(t + 1, t)}})->Get("logits").value());
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        const absl::StatusOr<StepResult> result = program.Predict({{"x", Images(t + 1, t)}});
        ASSERT_TRUE(result.ok()) << result.status();
        EXPECT_EQ(NumbersOf(result->Get("logits").value()), NumbersOf(expected[t]));
      }
    });
  for (std::thread& thread : threads) thread.join();
}

// However many rows come, few sizes of batches are compiled; the saved plan is that of the full one.
TEST_F(SavedProgramTest, AnyNumberOfRowsTakesFewPrograms) {
  Session session = Trained("batch=4");
  Save(session);
  SavedProgram program = Load();
  ASSERT_TRUE(program.runs_as_saved());
  const auto full = program.Find("predict")->inputs[0].type.shape[0];
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&] {
      for (int64_t rows = 1; rows <= full; ++rows) EXPECT_TRUE(program.Predict({{"x", Images(rows)}}).ok());
    });
  for (std::thread& thread : threads) thread.join();
  for (int64_t rows = 1; rows <= full; ++rows) {
    const Tensor wanted = session.Evaluate({{"x", Images(rows)}}, {"logits"})->Get("logits").value();
    const std::vector<double> got = NumbersOf(LogitsOf(program, rows)), want = NumbersOf(wanted);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-12) << rows;
  }
  int64_t sizes = 1;
  for (int64_t size = full; size > 1; size = (size + 3) / 4) ++sizes;
  EXPECT_EQ(program.session().kept_programs().made, 1 + sizes);
}

std::vector<fs::path> FilesIn(const std::string& path) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(path))
    if (entry.is_regular_file() && entry.path().filename() != "lock") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

// Each is refused, or predicts what it should.
TEST_F(SavedProgramTest, DamagedFoldersAreRefusedOrRight) {
  const std::string path = Save(Trained("batch=2,model=3"));
  SavedProgram whole = Load();
  const std::vector<double> expected = NumbersOf(LogitsOf(whole, 12));
  const std::vector<fs::path> files = FilesIn(path);
  ASSERT_GE(files.size(), 6u);
  std::mt19937 random(7);
  int refused = 0;
  for (int trial = 0; trial < 200; ++trial) {
    const fs::path& file = files[random() % files.size()];
    const std::string good = ReadFile(file.string()).value();
    std::string bad = good;
    std::string how;
    switch (random() % 4) {
      case 0: {
        const size_t at = random() % bad.size();
        bad[at] = static_cast<char>(bad[at] ^ (1 << random() % 8));
        how = fmt::format("bit flipped at {}", at);
        break;
      }
      case 1: bad.resize(random() % bad.size()), how = fmt::format("cut to {}", bad.size()); break;
      case 2: bad.insert(random() % bad.size(), "0"), how = "a byte more"; break;
      default: how = "removed";
    }
    SCOPED_TRACE(fmt::format("{}: {}", file.string(), how));
    if (how == "removed") fs::remove(file);
    else ASSERT_TRUE(WriteFileAtomically(file.string(), bad).ok());
    absl::StatusOr<SavedProgram> program = SavedProgram::Load(path, {.session = OneWorker()});
    if (!program.ok()) {
      ++refused;
      EXPECT_FALSE(program.status().message().empty());
    } else {
      EXPECT_EQ(NumbersOf(LogitsOf(*program, 12)), expected);
    }
    ASSERT_TRUE(WriteFileAtomically(file.string(), good).ok());
  }
  EXPECT_EQ(refused, 200);
}

// A writer that is killed at any moment leaves the versions before it, and no other that is loaded.
TEST_F(SavedProgramTest, AKilledWriterLeavesTheVersionsBefore) {
  if (!kMayFork) GTEST_SKIP() << "sanitizers do not fork with threads";
  Session session = Trained("batch=4");
  Save(session);
  SavedProgram first = Load();
  const std::vector<double> expected = NumbersOf(LogitsOf(first, 12));
  std::mt19937 random(11);
  int killed = 0;
  for (int trial = 0; trial < (LongTests() ? 100 : 30); ++trial) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);
      std::_Exit(SaveProgram(session, Path("digits"), kFunctions).ok() ? 0 : 1);
    }
    usleep(static_cast<useconds_t>(random() % 40000));
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0) << status;
    if (WIFSIGNALED(status)) ++killed;
    SavedProgram program = Load();
    EXPECT_EQ(NumbersOf(LogitsOf(program, 12)), expected);
  }
  EXPECT_GT(killed, 0);
  const std::string path = Save(session);
  for (const auto& entry : fs::directory_iterator(Path("digits")))
    EXPECT_THAT(entry.path().filename().string(), testing::Not(HasSubstr("partial-")));
  EXPECT_EQ(Load().path(), path);
}

}  // namespace
}  // namespace meshwork::saved_program_test

// Session::Save and Session::Restore: onto other meshes and numbers of domains, in all domains or in none.
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/storage/checkpoint.h"
#include "meshwork/storage/checkpoint_folder.h"
#include "support/temp_dir.h"
#include "train/saved_training.h"

namespace meshwork::session_checkpoints_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SessionCheckpointsTest : public TempDirTest {
 protected:
  // Trains `steps` steps, saves, and returns the variables.
  std::map<std::string, std::vector<double>> Save(const std::string& mesh, int64_t domains, int64_t steps,
                                                  bool shards_state = false) {
    std::map<std::string, std::vector<double>> values;
    InDomainsOf(domains, [&](Transport* end) {
      Session session = Session::Create(SavedTraining(mesh), SavedOptions(end, shards_state)).value();
      TrainSteps(session, 0, steps);
      const CheckpointNote note{.step = steps, .facts = {{"epoch", "2"}}, .metrics = {{"loss", 0.5}}};
      EXPECT_EQ(MessageOf(session.Save(Path("runs"), note)), "");
      std::map<std::string, std::vector<double>> here = ValuesOf(session);
      if (end == nullptr || end->domain() == 0) values = std::move(here);
    });
    return values;
  }
  std::string StepPath(int64_t step) const { return Path("runs/" + CheckpointName(step)); }
};

struct Place {
  std::string mesh;
  int64_t domains;
};

TEST_F(SessionCheckpointsTest, RestoresOntoAnyMesh) {
  for (const bool shards_state : {false, true}) {
    for (const Place& from : {Place{"batch=4,model=2", 1}, Place{"batch=4,model=2", 4}}) {
      std::filesystem::remove_all(Path("runs"));
      const auto expected = Save(from.mesh, from.domains, 3, shards_state);
      ASSERT_TRUE(expected.contains("adam/m/w"));
      ASSERT_TRUE(expected.contains("adam/step"));
      for (const Place& to : {Place{"batch=2,model=3", 1}, Place{"batch=8", 2}, Place{"batch=1", 1},
                              Place{"batch=3,model=2", 3}, Place{"batch=2,model=3", 2}}) {
        SCOPED_TRACE(
            fmt::format("{} in {} domains -> {} in {}", from.mesh, from.domains, to.mesh, to.domains));
        InDomainsOf(to.domains, [&](Transport* end) {
          Session session = Session::Create(SavedTraining(to.mesh), SavedOptions(end, shards_state)).value();
          const absl::StatusOr<CheckpointNote> note = session.Restore(Path("runs"));
          ASSERT_TRUE(note.ok()) << note.status();
          EXPECT_EQ(*note,
                    (CheckpointNote{.step = 3, .facts = {{"epoch", "2"}}, .metrics = {{"loss", 0.5}}}));
          EXPECT_EQ(ValuesOf(session), expected);
        });
      }
    }
  }
}

// A checkpoint has all that training needs: losses are those of a training without a stop, dropout included.
TEST_F(SessionCheckpointsTest, TrainingGoesOnAsIfThereHadBeenNoStop) {
  for (const Place& place : {Place{"batch=4,model=2", 1}, Place{"batch=3,model=2", 3}}) {
    std::filesystem::remove_all(Path("runs"));
    const auto expected = Save(place.mesh, place.domains, 7);
    std::filesystem::remove_all(Path("runs"));
    Save(place.mesh, place.domains, 4);
    InDomainsOf(place.domains, [&](Transport* end) {
      Session session = Session::Create(SavedTraining(place.mesh), SavedOptions(end)).value();
      TrainSteps(session, 0, 2);  // these steps are overwritten by Restore
      ASSERT_EQ(session.Restore(Path("runs")).value().step, 4);
      TrainSteps(session, 4, 7);
      EXPECT_EQ(ValuesOf(session), expected);
    });
  }
}

// A domain reads what it holds, and nothing twice.
TEST_F(SessionCheckpointsTest, ADomainReadsOnlyWhatItHolds) {
  Save("batch=4,model=2", 4, 1);
  for (const Place& place : {Place{"model=2,batch=4", 2}, Place{"model=3,batch=1", 3}, Place{"batch=6", 3}}) {
    SCOPED_TRACE(place.mesh);
    InDomainsOf(place.domains, [&](Transport* end) {
      Session session = Session::Create(SavedTraining(place.mesh), SavedOptions(end)).value();
      const std::map<std::string, DTensor> state = session.State();
      int64_t needed = 0;
      for (const auto& [name, tensor] : state)
        for (int64_t i = 0; i < tensor.instances().count(); ++i)
          needed += NumElements(tensor.block(i)) * DTypeSize(tensor.type().dtype);
      const Checkpoint saved = Checkpoint::Open(Path("runs")).value();
      ASSERT_EQ(MessageOf(saved.RestoreInto(state)), "");
      EXPECT_EQ(saved.bytes_read(), needed);
    });
  }
}

TEST_F(SessionCheckpointsTest, OlderCheckpointsStay) {
  for (int64_t step = 1; step <= 8; ++step) Save("batch=2", 1, step);
  EXPECT_EQ(ListCheckpoints(Path("runs")).value().size(), 8u);
  Session session = Session::Create(SavedTraining("batch=1"), SavedOptions(nullptr)).value();
  EXPECT_EQ(session.Restore(Path("runs")).value().step, 8);
  EXPECT_EQ(session.Restore(StepPath(5)).value().step, 5);
}

// ---- Errors of one domain are errors of all.

TEST_F(SessionCheckpointsTest, ADamagedCheckpointIsLeftOutInAllDomains) {
  const auto expected = Save("batch=2", 2, 1);
  Save("batch=2", 2, 2);
  {  // one bit of the second shard, which the hash alone tells
    std::fstream file(StepPath(2) + "/" + ShardName(1, 2), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-1, std::ios::end);
    const char last = static_cast<char>(file.get() ^ 1);
    file.seekp(-1, std::ios::end);
    file.put(last);
  }
  testing::internal::CaptureStderr();
  InDomainsOf(3, [&](Transport* end) {
    Session session = Session::Create(SavedTraining("batch=3"), SavedOptions(end)).value();
    ASSERT_EQ(session.Restore(Path("runs")).value().step, 1);
    EXPECT_EQ(ValuesOf(session), expected);
  });
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("domain 1: "));
  EXPECT_THAT(said,
              HasSubstr("the file is damaged. The checkpoint is not used; the one before it is tried.\n"));
  // Without `verify`, the damage is not found.
  Session session = Session::Create(SavedTraining("batch=3"), SavedOptions(nullptr)).value();
  EXPECT_EQ(session.Restore(Path("runs"), {.verify = false}).value().step, 2);
}

TEST_F(SessionCheckpointsTest, AnErrorLeavesTheVariablesAsTheyWere) {
  Save("batch=2", 1, 1);
  std::filesystem::remove(StepPath(1) + "/index.json");
  testing::internal::CaptureStderr();
  InDomainsOf(2, [&](Transport* end) {
    Session session = Session::Create(SavedTraining("batch=2"), SavedOptions(end)).value();
    TrainSteps(session, 0, 2);
    const auto before = ValuesOf(session);
    const absl::Status damaged = session.Restore(Path("runs")).status();
    EXPECT_THAT(MessageOf(damaged), HasSubstr(CheckpointName(1)));
    EXPECT_EQ(ValuesOf(session), before);
    TrainSteps(session, 2, 3);  // the transport can still be used
  });
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("The checkpoint is not used.\n"));
}

TEST_F(SessionCheckpointsTest, OneDomainWithoutTheFolderFailsAll) {
  Save("batch=2", 1, 1);
  std::vector<std::string> errors(2);
  InDomainsOf(2, [&](Transport* end) {
    Session session = Session::Create(SavedTraining("batch=2"), SavedOptions(end)).value();
    const auto before = ValuesOf(session);
    const std::string path = end->domain() == 0 ? Path("runs") : Path("elsewhere");
    errors[static_cast<size_t>(end->domain())] = MessageOf(session.Restore(path).status());
    EXPECT_EQ(ValuesOf(session), before);
  });
  EXPECT_EQ(errors[0], errors[1]);
  EXPECT_THAT(errors[0], HasSubstr("domain 1: " + Path("elsewhere")));
}

// Without this check, the first would wait until its deadline for the blocks of the second.
TEST_F(SessionCheckpointsTest, FoldersOfTheirOwnAreRefused) {
  std::vector<std::string> errors(2);
  InDomainsOf(2, [&](Transport* end) {
    Session session = Session::Create(SavedTraining("batch=2"), SavedOptions(end)).value();
    const std::string path = end->domain() == 0 ? Path("runs") : Path("elsewhere");
    errors[static_cast<size_t>(end->domain())] = MessageOf(session.Save(path, {.step = 1}));
    TrainSteps(session, 0, 1);  // training goes on
  });
  EXPECT_THAT(errors, testing::Each(HasSubstr("all processes must see one folder")));
}

TEST_F(SessionCheckpointsTest, AnotherModelIsRefusedInAllDomains) {
  Save("batch=2", 1, 1);
  std::vector<std::string> errors(2);
  InDomainsOf(2, [&](Transport* end) {
    Graph graph(Mesh::VirtualCpus("batch=2").value());
    Variable w = graph.Var("w", Zeros({6, 8}, F64), {UNSHARDED, UNSHARDED});
    graph.Update(w, w + 1);
    Session session = Session::Create(graph, SavedOptions(end)).value();
    errors[static_cast<size_t>(end->domain())] = MessageOf(session.Restore(Path("runs")).status());
    EXPECT_EQ(NumbersOf(session.Get("w").value())[0], 0);
  });
  EXPECT_EQ(errors[0], errors[1]);
  EXPECT_THAT(errors[0],
              HasSubstr("the checkpoint is of another model: \"w\" is f64[6,7] and must be f64[6,8]"));
}

TEST_F(SessionCheckpointsTest, SavingFailsInAllDomains) {
  File("runs", "a file is in the way");
  std::vector<std::string> errors(2);
  InDomainsOf(2, [&](Transport* end) {
    Session session = Session::Create(SavedTraining("batch=2"), SavedOptions(end)).value();
    errors[static_cast<size_t>(end->domain())] = MessageOf(session.Save(Path("runs"), {.step = 1}));
    TrainSteps(session, 0, 1);  // training goes on
  });
  EXPECT_THAT(errors, testing::Each(HasSubstr(Path("runs"))));
}

}  // namespace
}  // namespace meshwork::session_checkpoints_test

// Checkpoints written on one mesh and read on others.
#include "meshwork/storage/checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "gmock/gmock.h"
#include "storage/saved.h"
#include "support/temp_dir.h"

namespace meshwork::checkpoint_test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CheckpointTest : public TempDirTest {
 protected:
  void Save(const std::string& mesh, int64_t domains, const std::vector<SavedVariable>& variables,
            const CheckpointNote& note = {.step = 1}) {
    for (const absl::Status& status : SaveAll(Path("runs"), mesh, domains, variables, note))
      ASSERT_EQ(MessageOf(status), "");
  }
  std::string ShardPath(int64_t shard, int64_t of) const {
    return Path("runs/step-000000000001/" + ShardName(shard, of));
  }
};

// A variable more than SavedModel().
const std::vector<SavedVariable>& On4x2() {
  static const auto* const variables = [] {
    auto* const all = new std::vector<SavedVariable>(SavedModel());
    all->insert(all->begin() + 1, {"adam/v", {F32, {10, 7}}, "{b,a}"});
    return all;
  }();
  return *variables;
}

// The same variables with other layouts.
std::vector<SavedVariable> With(const std::map<std::string, std::string>& layouts) {
  std::vector<SavedVariable> variables = On4x2();
  for (SavedVariable& variable : variables) {
    if (const auto found = layouts.find(variable.name); found != layouts.end())
      variable.layout = found->second;
    else
      variable.layout = fmt::format("{{{}}}", variable.type.rank() == 0   ? ""
                                              : variable.type.rank() == 1 ? "_"
                                                                          : "_,_");
  }
  return variables;
}

TEST_F(CheckpointTest, IsReadOnAnyMeshAndNumberOfDomains) {
  struct Place {
    std::string mesh;
    int64_t domains;
    std::vector<SavedVariable> variables;
  };
  const std::vector<Place> places = {
      {"a=4,b=2", 1, On4x2()},
      {"a=4,b=2", 2, On4x2()},
      {"a=4,b=2", 4, On4x2()},
      {"a=2,b=3", 1,
       With({{"adam/m", "{b,a}"}, {"strided", "{8@a*3@b}"}, {"w", "{(a,b),_}"}, {"narrow", "{b}"}})},
      {"a=2,b=3", 2, With({{"adam/v", "{(b,a),_}"}, {"mask", "{a,b}"}, {"strided", "{2@a*12}"}})},
      {"a=3", 3, With({{"w", "{a,_}"}, {"adam/m", "{_,a}"}, {"strided", "{a}"}, {"bias", "{a}"}})},
      {"a=8", 2, With({{"w", "{a,_}"}, {"adam/m", "{_,a}"}, {"strided", "{3*8@a}"}, {"narrow", "{a}"}})},
      {"", 1, With({})}};
  for (const Place& saved : places) {
    std::filesystem::remove_all(Path("runs"));
    Save(saved.mesh, saved.domains, saved.variables);
    int64_t all_bytes = 0;
    for (const SavedVariable& variable : saved.variables) all_bytes += variable.type.bytes();
    const Checkpoint checkpoint = Checkpoint::Open(Path("runs")).value();
    EXPECT_EQ(MessageOf(checkpoint.Verify()), "");
    for (const Place& restored : places) {
      for (int64_t domain = 0; domain < restored.domains; ++domain) {
        for (bool share : {true, false}) {
          SCOPED_TRACE(fmt::format("{} of {} on {} of {}, domain {}", saved.mesh, saved.domains,
                                   restored.mesh, restored.domains, domain));
          const auto expected =
              StateOf(restored.mesh, restored.domains, domain, restored.variables, /*filled=*/true, share);
          const auto state =
              StateOf(restored.mesh, restored.domains, domain, restored.variables, /*filled=*/false, share);
          const Checkpoint opened = Checkpoint::Open(Path("runs")).value();
          ASSERT_EQ(MessageOf(opened.RestoreInto(state)), "");
          int64_t needed = 0;
          for (const auto& [name, tensor] : state) {
            EXPECT_EQ(BlocksOf(tensor), BlocksOf(expected.at(name))) << name;
            std::set<std::string> boxes;  // each block once
            for (int64_t i = 0; i < tensor.instances().count(); ++i)
              if (boxes.insert(BlockToString(tensor.block(i))).second)
                needed += NumElements(tensor.block(i)) * DTypeSize(tensor.type().dtype);
          }
          EXPECT_EQ(opened.bytes_read(), needed);
        }
      }
    }
    // Each byte was written once.
    int64_t written = 0;
    for (const auto& variable : checkpoint.index().variables)
      for (const CheckpointPiece& piece : variable.pieces)
        written += NumElements(piece.box) * DTypeSize(variable.type.dtype);
    EXPECT_EQ(written, all_bytes);
  }
}

TEST_F(CheckpointTest, DomainsWriteEquallyMuch) {
  std::vector<SavedVariable> variables;
  for (int i = 0; i < 20; ++i)
    variables.push_back(
        {fmt::format("w{}", i), {F32, {100 + 37 * i, 1 + 7 * i}}, i % 3 == 0 ? "{a,_}" : "{_,_}"});
  variables.push_back({"large", {F32, {1000, 1000}}, "{_,_}"});
  Save("a=4,b=2", 4, variables);
  const Checkpoint checkpoint = Checkpoint::Open(Path("runs")).value();
  int64_t most = 0, all = 0;
  for (const CheckpointShard& shard : checkpoint.index().shards) {
    most = std::max(most, shard.bytes);
    all += shard.bytes;
  }
  EXPECT_LT(most, all / 4 * 1.05);
}

TEST_F(CheckpointTest, ReadsWholeVariables) {
  Save("a=4,b=2", 2, On4x2());
  const Checkpoint checkpoint = Checkpoint::Open(Path("runs/step-000000000001")).value();
  int64_t first = 1;
  for (const SavedVariable& variable : On4x2()) {
    const Tensor tensor = checkpoint.Read(variable.name).value();
    EXPECT_EQ(tensor.type(), variable.type);
    EXPECT_EQ(
        std::memcmp(tensor.raw(), Numbered(variable.type, first).raw(), static_cast<size_t>(tensor.bytes())),
        0)
        << variable.name;
    first += 1000;
  }
  EXPECT_THAT(MessageOf(checkpoint.Read("adam/w").status()), HasSubstr("there is no variable \"adam/w\""));
}

// A changed byte of any file is found, also in the index.
TEST_F(CheckpointTest, DamageIsFound) {
  Save("a=2", 2, {{"w", {F32, {6, 2}}, "{a,_}"}});
  for (const std::string& path :
       {ShardPath(0, 2), ShardPath(1, 2), Path("runs/step-000000000001/index.json")}) {
    std::string bytes;
    {
      std::ifstream file(path, std::ios::binary);
      bytes.assign(std::istreambuf_iterator<char>(file), {});
    }
    const auto write = [&](const std::string& changed) {
      std::ofstream(path, std::ios::binary | std::ios::trunc) << changed;
    };
    const auto status = [&]() -> absl::Status {
      MESHWORK_ASSIGN_OR_RETURN(const Checkpoint checkpoint,
                                Checkpoint::Open(Path("runs/step-000000000001")));
      return checkpoint.Verify();
    };
    EXPECT_TRUE(status().ok());
    for (size_t at = 0; at < bytes.size(); ++at) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(changed[at] ^ 4);
      write(changed);
      EXPECT_FALSE(status().ok()) << path << " byte " << at;
    }
    for (size_t size = 0; size < bytes.size(); ++size) {
      write(bytes.substr(0, size));
      EXPECT_FALSE(status().ok()) << path << " cut to " << size;
    }
    write(bytes);
  }
}

TEST_F(CheckpointTest, AnotherModelIsRefusedWithAllDifferences) {
  Save("a=2", 1, {{"b", {F32, {3}}, "{_}"}, {"old", {I32, {2}}, "{_}"}, {"w", {F32, {6, 2}}, "{a,_}"}});
  const Checkpoint checkpoint = Checkpoint::Open(Path("runs")).value();
  const auto state =
      StateOf("a=2", 1, 0,
              {{"b", {F32, {4}}, "{_}"}, {"new", {I32, {2}}, "{_}"}, {"w", {F32, {6, 2}}, "{a,_}"}}, false);
  ExpectInvalid(
      checkpoint.RestoreInto(state), checkpoint.path(),
      "$: the checkpoint is of another model: \"b\" is f32[3] and must be f32[4]; \"new\" i32[2] is missing; "
      "\"old\" i32[2] is not expected. Build the model that was saved, or choose by RestoreOptions what is read.");
  EXPECT_THAT(BlocksOf(state.at("w")), Each(std::string(24, '\0')));  // nothing was read
}

// A reader that has opened a checkpoint reads that one, also if a job replaces or removes it.
TEST_F(CheckpointTest, IsReadAsItWasFound) {
  const std::vector<SavedVariable> small = {{"w", {F32, {6, 2}}, "{a,_}"}};
  Save("a=2", 1, small);
  const Checkpoint first = Checkpoint::Open(Path("runs")).value();
  Save("a=2", 1, {{"w", {F32, {6, 2}}, "{a,_}"}, {"v", {F32, {2}}, "{_}"}});
  EXPECT_EQ(Checkpoint::Open(Path("runs"))->index().variables.size(), 2u);
  EXPECT_EQ(MessageOf(first.Verify()), "");
  ASSERT_EQ(MessageOf(RemoveCheckpoint(Path("runs/step-000000000001"))), "");
  EXPECT_EQ(MessageOf(first.Verify()), "");
  EXPECT_EQ(std::memcmp(first.Read("w")->raw(), Numbered(small[0].type).raw(), 48), 0);
}

TEST_F(CheckpointTest, NamesMayDifferAndVariablesMayBeMissing) {
  Save("a=2", 1, {{"b", {F32, {3}}, "{_}"}, {"w", {F32, {6, 2}}, "{a,_}"}});
  const Checkpoint checkpoint = Checkpoint::Open(Path("runs")).value();
  const auto state = StateOf("a=2", 1, 0, {{"head", {F32, {3}}, "{_}"}, {"x", {F32, {5}}, "{a}"}}, false);
  EXPECT_FALSE(checkpoint.RestoreInto(state, {.names = {{"head", "b"}}}).ok());
  ASSERT_EQ(MessageOf(checkpoint.RestoreInto(state, {.names = {{"head", "b"}}, .partial = true})), "");
  EXPECT_EQ(std::memcmp(state.at("head").instance(0), Numbered({F32, {3}}).raw(), 12), 0);
  // A name that was given must be in the checkpoint.
  EXPECT_THAT(MessageOf(checkpoint.RestoreInto(state, {.names = {{"head", "c"}}, .partial = true})),
              HasSubstr("\"c\" f32[3] is missing"));
  EXPECT_THAT(MessageOf(checkpoint.RestoreInto(state, {.names = {{"haed", "b"}}, .partial = true})),
              HasSubstr("\"haed\" is to be read as \"b\" and is no variable"));
}

TEST_F(CheckpointTest, NarrowNumbersAreWidened) {
  Save("a=2", 1, {{"w", {F32, {3}}, "{_}"}});
  const auto wide = StateOf("a=2", 1, 0, {{"w", {F64, {3}}, "{a}"}}, false);
  const Checkpoint checkpoint = Checkpoint::Open(Path("runs")).value();
  ASSERT_EQ(MessageOf(checkpoint.RestoreInto(wide)), "");
  const Tensor narrow = Numbered({F32, {3}});
  for (int64_t i = 0; i < 3; ++i)
    EXPECT_EQ(Unpack(wide.at("w"))->values<double>()[static_cast<size_t>(i)],
              static_cast<double>(narrow.values<float>()[static_cast<size_t>(i)]));
  const auto narrower = StateOf("a=2", 1, 0, {{"w", {BF16, {3}}, "{a}"}}, false);
  EXPECT_THAT(MessageOf(checkpoint.RestoreInto(narrower)), HasSubstr("\"w\" is f32[3] and must be bf16[3]"));
}

}  // namespace
}  // namespace meshwork::checkpoint_test

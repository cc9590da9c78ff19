// Checkpoints of tensors that are read from elsewhere.
#include "meshwork/storage/checkpoint_copy.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "meshwork/base/io/file.h"
#include "meshwork/storage/checkpoint_folder.h"
#include "storage/saved.h"
#include "support/contents.h"
#include "support/safetensors_bytes.h"
#include "support/temp_dir.h"

namespace meshwork::checkpoint_copy_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CheckpointCopyTest : public TempDirTest {
 protected:
  // Variables of two dtypes: w in two pieces, one in each shard; the others whole; one without elements.
  static CheckpointIndex Index(int64_t step = 3) {
    CheckpointIndex index{
        .step = step, .mesh = "[a=2]", .facts = {{"epoch", "3"}}, .metrics = {{"loss", 0.25}}};
    index.variables = {{"b", {F64, {2}}, "{_}", {{1, {{0, 2}}}}},
                       {"e", {F32, {0}}, "{_}", {}},
                       {"w", {F32, {5, 3}}, "{a,_}", {{1, {{3, 2}, {0, 3}}}, {0, {{0, 3}, {0, 3}}}}}};
    return index;
  }
  // The box of Numbered(type).
  static absl::StatusOr<Tensor> ReadNumbered(const CheckpointVariable& variable, const Block& box) {
    return box[0].size == 0 ? Tensor::Zeros(variable.type)
                            : Numbered(variable.type).Rows(box[0].start, box[0].start + box[0].size);
  }
  std::vector<std::string> Names() const { return NamesIn(Path("runs")); }
};

TEST_F(CheckpointCopyTest, WritesWhatIsRead) {
  const std::string path = WriteCheckpoint(Path("runs"), Index(), 2, ReadNumbered).value();
  EXPECT_EQ(path, Path("runs/step-000000000003"));
  EXPECT_THAT(Names(), ElementsAre("lock", "step-000000000003"));
  const Checkpoint checkpoint = Checkpoint::Open(path).value();
  EXPECT_EQ(MessageOf(checkpoint.Verify()), "");
  EXPECT_EQ(checkpoint.index().shards.size(), 2u);
  CheckpointIndex index = checkpoint.index();
  index.shards.clear();
  EXPECT_NE(index.written, "");
  EXPECT_NE(index.version, "");
  index.written = index.version = "";
  EXPECT_EQ(index, Index());
  for (const CheckpointVariable& variable : Index().variables)
    EXPECT_EQ(RawBytes(checkpoint.Read(variable.name).value()), RawBytes(Numbered(variable.type)))
        << variable.name;
}

// The files are those of CheckpointWriter: readers see no difference.
TEST_F(CheckpointCopyTest, ACopyHasTheSameFiles) {
  const std::vector<SavedVariable> variables = {
      {"b", {I64, {3}}, "{_}"}, {"m", {BOOL, {4}}, "{a}"}, {"w", {F32, {6, 5}}, "{a,_}"}};
  for (const absl::Status& status : SaveAll(Path("saved"), "a=2", 2, variables))
    ASSERT_EQ(MessageOf(status), "");
  const Checkpoint saved = Checkpoint::Open(Path("saved")).value();
  const auto read = [&](const CheckpointVariable& variable, const Block& box) {
    return saved.Read(variable.name, box);
  };
  const std::string path = WriteCheckpoint(Path("runs"), saved.index(), 2, read).value();
  for (const CheckpointShard& shard : saved.index().shards)
    EXPECT_EQ(ReadFile(path + "/" + shard.file).value(), ReadFile(saved.path() + "/" + shard.file).value());
  EXPECT_EQ(Checkpoint::Open(path)->index().shards, saved.index().shards);
}

TEST_F(CheckpointCopyTest, ReadsEachPieceOnce) {
  std::vector<std::string> read;
  const auto note = [&](const CheckpointVariable& variable, const Block& box) {
    read.push_back(PieceName(variable, box));
    return ReadNumbered(variable, box);
  };
  ASSERT_TRUE(WriteCheckpoint(Path("runs"), Index(), 3, note).ok());
  EXPECT_THAT(read, ElementsAre("w [0:3,0:3]", "b", "w [3:5,0:3]"));
}

TEST_F(CheckpointCopyTest, ReplacesOnlyIfThatIsAskedFor) {
  ASSERT_TRUE(WriteCheckpoint(Path("runs"), Index(), 2, ReadNumbered).ok());
  const auto zeros = [](const CheckpointVariable& variable, const Block& box) {
    Type type{variable.type.dtype, {}};
    for (const Extent& extent : box) type.shape.push_back(extent.size);
    return Tensor::Zeros(type);
  };
  EXPECT_EQ(WriteCheckpoint(Path("runs"), Index(), 2, zeros).status().code(),
            absl::StatusCode::kAlreadyExists);
  const auto first_of_b = [&] {
    return Checkpoint::Open(Path("runs")).value().Read("b")->values<double>()[0];
  };
  EXPECT_NE(first_of_b(), 0);
  ASSERT_TRUE(WriteCheckpoint(Path("runs"), Index(), 2, zeros, {.replace = true}).ok());
  EXPECT_EQ(first_of_b(), 0);
  EXPECT_THAT(Names(), ElementsAre("lock", "step-000000000003"));
}

// Whatever fails, the folder keeps its contents.
TEST_F(CheckpointCopyTest, AWriteThatFailsLeavesNothing) {
  ASSERT_TRUE(WriteCheckpoint(Path("runs"), Index(), 2, ReadNumbered).ok());
  std::filesystem::create_directory(Path("runs/partial-killed-1"));
  int reads = 0;
  const auto failing = [&](const CheckpointVariable& variable, const Block& box) -> absl::StatusOr<Tensor> {
    if (++reads == 3) return absl::DataLossError("the third piece is damaged");
    return ReadNumbered(variable, box);
  };
  EXPECT_EQ(MessageOf(WriteCheckpoint(Path("runs"), Index(4), 2, failing).status()),
            "the third piece is damaged");
  EXPECT_THAT(Names(), ElementsAre("lock", "step-000000000003"));
  std::string checked;
  const auto check = [&](const Checkpoint& written) -> absl::Status {
    EXPECT_EQ(MessageOf(written.Verify()), "");
    EXPECT_EQ(RawBytes(written.Read("w").value()), RawBytes(Numbered({F32, {5, 3}})));
    checked = written.path();
    return absl::DataLossError("it is another one");
  };
  EXPECT_EQ(MessageOf(WriteCheckpoint(Path("runs"), Index(4), 2, ReadNumbered, {.check = check}).status()),
            "it is another one");
  EXPECT_THAT(checked, HasSubstr("/runs/partial-"));
  EXPECT_THAT(Names(), ElementsAre("lock", "step-000000000003"));
}

TEST_F(CheckpointCopyTest, BoxesAreReadAsTensors) {
  const Checkpoint checkpoint =
      Checkpoint::Open(WriteCheckpoint(Path("runs"), Index(), 2, ReadNumbered).value()).value();
  const Tensor whole = Numbered({F32, {5, 3}});
  for (int64_t begin = 0; begin <= 5; ++begin) {
    for (int64_t end = begin; end <= 5; ++end) {
      for (int64_t column = 0; column < 3; ++column) {
        const int64_t before = checkpoint.bytes_read();
        const Tensor box = checkpoint.Read("w", {{begin, end - begin}, {column, 1}}).value();
        ASSERT_EQ(box.type(), (Type{F32, {end - begin, 1}}));
        for (int64_t row = begin; row < end; ++row)
          EXPECT_EQ(box.values<float>()[static_cast<size_t>(row - begin)],
                    whole.values<float>()[static_cast<size_t>(row * 3 + column)]);
        EXPECT_EQ(checkpoint.bytes_read() - before, (end - begin) * 4);
      }
    }
  }
}

TEST_F(CheckpointCopyTest, VerifySaysHowMuchWasLookedAt) {
  const Checkpoint checkpoint =
      Checkpoint::Open(WriteCheckpoint(Path("runs"), Index(), 2, ReadNumbered).value()).value();
  for (int64_t part : {0, 1}) {
    int64_t bytes = 0;
    EXPECT_TRUE(checkpoint.Verify(part, 2, [&](int64_t more) { bytes += more; }).ok());
    EXPECT_EQ(bytes, checkpoint.index().shards[static_cast<size_t>(part)].bytes);
  }
}

}  // namespace
}  // namespace meshwork::checkpoint_copy_test

// The contents of an index, and which indexes are refused.
#include "meshwork/storage/checkpoint_index.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <random>

#include "gmock/gmock.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/tensor/box.h"
#include "meshwork/storage/checkpoint_folder.h"
#include "support/temp_dir.h"

namespace meshwork::checkpoint_index_test {
namespace {

using ::testing::HasSubstr;

CheckpointIndex IndexOf(const Type& type, const std::vector<Block>& boxes) {
  CheckpointIndex index{.step = 7, .version = "1.2.3", .mesh = "[a=2]", .written = "2026-11-24T10:52:29Z"};
  index.shards.push_back({"shard", 12, std::string(64, 'a')});
  index.variables.push_back({"w", type, "{_}", {}});
  for (const Block& box : boxes) index.variables[0].pieces.push_back({0, box});
  return index;
}

// Whether the index of a variable with these pieces is accepted.
bool IsRead(const Type& type, const std::vector<Block>& boxes) {
  const absl::StatusOr<CheckpointIndex> read =
      CheckpointIndexFromJson(ToJson(IndexOf(type, boxes)).value(), "index.json");
  if (!read.ok()) {
    EXPECT_THAT(MessageOf(read.status()), HasSubstr("pieces that cover"));
  }
  return read.ok();
}

// Whether each element is in exactly one of the boxes, by trying them all.
bool CoverOnceByCounting(const Type& type, const std::vector<Block>& boxes) {
  for (int64_t i = 0; i < type.num_elements(); ++i) {
    int64_t rest = i;
    Block element(type.shape.size());
    for (size_t d = type.shape.size(); d-- > 0; rest /= type.shape[d]) element[d] = {rest % type.shape[d], 1};
    if (std::count_if(boxes.begin(), boxes.end(),
                      [&](const Block& box) { return NumElements(Intersect(box, element)) == 1; }) != 1)
      return false;
  }
  return true;
}

TEST(CheckpointIndexTest, ComesBackAsItWasWritten) {
  CheckpointIndex index = IndexOf({F32, {4, 6}}, {{{0, 4}, {0, 2}}, {{0, 1}, {2, 4}}, {{1, 3}, {2, 4}}});
  index.facts = {{"epoch", "3"}, {"", "\n\"\\ \xc3\xa9"}};
  index.metrics = {{"loss", 0.1}, {"tiny", 5e-324}, {"large", 1.7976931348623157e308}};
  index.variables.push_back({"x", {BOOL, {}}, "{}", {{0, {}}}});
  index.variables.push_back({"y", {I64, {0, 3}}, "{_,_}", {}});
  EXPECT_EQ(CheckpointIndexFromJson(ToJson(index).value(), "f").value(), index);
}

// Format 1 is the same text without a hash at its end.
std::string InFormat1(std::string text) {
  text.replace(text.find("\"format\":2"), 10, "\"format\":1");
  return text.substr(0, text.rfind(",\"sha256\"")) + "}\n";
}

TEST(CheckpointIndexTest, OlderOnesHaveNoHashAndAreRead) {
  const CheckpointIndex index = IndexOf({F32, {4, 6}}, {{{0, 4}, {0, 6}}});
  const std::string text = ToJson(index).value();
  EXPECT_EQ(CheckpointIndexFromJson(InFormat1(text), "f").value(), index);
  // An index that claims the older format is still checked for its hash.
  std::string says_older = text;
  says_older.replace(text.find("\"format\":2"), 10, "\"format\":1");
  EXPECT_FALSE(CheckpointIndexFromJson(says_older, "f").ok());
}

// A digit, letter or space is added, removed or changed, also if the text stays valid JSON and a valid index.
TEST(CheckpointIndexTest, AnyChangeOfItsTextIsFound) {
  CheckpointIndex index = IndexOf({F32, {4, 6}}, {{{0, 4}, {0, 6}}});
  index.facts = {{"batch", "17"}, {"epoch", "3"}};
  index.metrics = {{"loss", 0.25}};
  const std::string text = ToJson(index).value();
  for (size_t at = 0; at < text.size(); ++at) {
    for (const char other : {'0', '7', 'x', ' ', '"', '\n', '}'}) {
      std::string changed = text, longer = text, shorter = text;
      changed[at] = other;
      EXPECT_EQ(CheckpointIndexFromJson(changed, "f").ok(), changed == text) << changed;
      EXPECT_FALSE(CheckpointIndexFromJson(longer.insert(at, 1, other), "f").ok()) << longer;
      EXPECT_FALSE(CheckpointIndexFromJson(shorter.erase(at, 1), "f").ok()) << shorter;
    }
  }
  EXPECT_FALSE(CheckpointIndexFromJson(text + " ", "f").ok());
}

// Random tilings are accepted. With one box moved, missing, doubled or of another size they are refused.
TEST(CheckpointIndexTest, PiecesCoverEachElementOnce) {
  std::mt19937_64 engine(1);
  const auto draw = [&](int64_t most) {
    return static_cast<int64_t>(engine() % static_cast<uint64_t>(most + 1));
  };
  int64_t refused = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    Type type{F32, {}};
    for (int64_t d = draw(3); d >= 0; --d) type.shape.push_back(1 + draw(4));
    std::vector<Block> boxes = {WholeBlock(type.shape)};
    for (int64_t cuts = draw(8); cuts > 0; --cuts) {
      const auto b = static_cast<size_t>(draw(std::ssize(boxes) - 1));
      const auto d = static_cast<size_t>(draw(std::ssize(type.shape) - 1));
      if (boxes[b][d].size < 2) continue;
      const int64_t first = 1 + draw(boxes[b][d].size - 2);
      boxes.push_back(boxes[b]);
      boxes.back()[d] = {boxes[b][d].start + first, boxes[b][d].size - first};
      boxes[b][d].size = first;
    }
    std::shuffle(boxes.begin(), boxes.end(), engine);
    ASSERT_TRUE(CoverOnceByCounting(type, boxes));
    EXPECT_TRUE(IsRead(type, boxes));
    const auto b = static_cast<size_t>(draw(std::ssize(boxes) - 1));
    switch (draw(3)) {
      case 0: boxes.erase(boxes.begin() + static_cast<int64_t>(b)); break;
      case 1: boxes.push_back(boxes[b]); break;
      case 2: boxes[b] = boxes[static_cast<size_t>(draw(std::ssize(boxes) - 1))]; break;
      default:
        for (size_t d = 0; d < type.shape.size(); ++d) {
          boxes[b][d].start = draw(type.shape[d] - 1);
          boxes[b][d].size = 1 + draw(type.shape[d] - boxes[b][d].start - 1);
        }
    }
    const bool is_cover = CoverOnceByCounting(type, boxes);
    refused += is_cover ? 0 : 1;
    EXPECT_EQ(IsRead(type, boxes), is_cover) << type.ToString();
  }
  EXPECT_GT(refused, 1000);
}

// Half of the pieces are rows, the other half columns: along each dim, most pieces lie side by side.
TEST(CheckpointIndexTest, ManyPiecesAreCheckedInOnePass) {
  constexpr int64_t kHalf = 20'000;
  std::vector<Block> boxes;
  for (int64_t i = 0; i < kHalf; ++i) {
    boxes.push_back({{i, 1}, {0, kHalf}});
    boxes.push_back({{0, kHalf}, {kHalf + i, 1}});
  }
  EXPECT_TRUE(IsRead({BOOL, {kHalf, 2 * kHalf}}, boxes));
  boxes.back()[1].start -= 1;
  EXPECT_FALSE(IsRead({BOOL, {kHalf, 2 * kHalf}}, boxes));
}

// Several tensors of the largest size: the sum of their sizes does not fit into 64 bits.
TEST(CheckpointIndexTest, SumsOfSizesDoNotOverflow) {
  const Type largest{F64, {int64_t{1} << 40}};
  EXPECT_TRUE(IsRead(largest, {{{0, int64_t{1} << 39}}, {{int64_t{1} << 39, int64_t{1} << 39}}}));
  EXPECT_FALSE(IsRead(largest, std::vector<Block>(1000, WholeBlock(largest.shape))));
  EXPECT_FALSE(IsRead({F32, {}}, {{}, {}}));
  EXPECT_FALSE(IsRead({F32, {}}, {}));
}

// ---- As a file.

using CheckpointIndexFileTest = TempDirTest;

TEST_F(CheckpointIndexFileTest, IsARegularFileThatIsNotTooLong) {
  ASSERT_EQ(mkfifo(Path("index.json").c_str(), 0600), 0);  // reading it would wait for ever
  ExpectInvalid(ReadCheckpointIndex(dir()).status(), Path("index.json"),
                "$: is not a regular file; directories, pipes and devices are not read here.");
  std::filesystem::remove(Path("index.json"));
  File("index.json", "{}");
  std::filesystem::resize_file(Path("index.json"),
                               uintmax_t{1} << 40);  // sparse: takes no disk space, but would fill the memory
  ExpectInvalid(ReadCheckpointIndex(dir()).status(), Path("index.json"),
                "$: has 1099511627776 bytes; an index has at most 268435456.");
}

}  // namespace
}  // namespace meshwork::checkpoint_index_test

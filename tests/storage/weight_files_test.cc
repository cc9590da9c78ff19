#include "meshwork/storage/weight_files.h"

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "meshwork/base/io/file.h"
#include "support/safetensors_bytes.h"
#include "support/temp_dir.h"

namespace meshwork::weight_files_test {
namespace {

using ::testing::ElementsAre;

Tensor Filled(float value, const Shape& shape) {
  Tensor tensor(Type{F32, shape});
  for (float& element : tensor.mutable_values<float>()) element = value;
  return tensor;
}

std::vector<std::string> NamesOf(const WeightFiles& weights) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : weights.tensors()) names.push_back(name);
  return names;
}

class WeightFilesTest : public TempDirTest {
 protected:
  void Write(const std::string& name, const std::vector<std::pair<std::string, Tensor>>& tensors) {
    std::filesystem::create_directories(std::filesystem::path(Path(name)).parent_path());
    EXPECT_EQ(MessageOf(WriteSafetensors(Path(name), tensors)), "");
  }
  // "a" and "b" in two files, and "c" in a folder below.
  void WriteShards() {
    Write("model-1.safetensors", {{"a", Filled(1, {2, 3})}});
    Write("model-2.safetensors", {{"b", Filled(2, {4})}});
    Write("more/model-3.safetensors", {{"c", Filled(3, {1})}});
    File("model.safetensors.index.json",
         R"({"metadata": {"total_size": 44, "more": [[{}]]}, "weight_map":
             {"b": "model-2.safetensors", "a": "model-1.safetensors", "c": "more/model-3.safetensors"}})");
  }
};

TEST_F(WeightFilesTest, AreOneFileOrItsFolder) {
  Write("model.safetensors", {{"w", Filled(1, {2, 3})}, {"b", Filled(2, {3})}});
  for (const std::string& path : {Path("model.safetensors"), dir()}) {
    const WeightFiles weights = WeightFiles::Open(path).value();
    EXPECT_EQ(weights.path(), Path("model.safetensors"));
    EXPECT_THAT(NamesOf(weights), ElementsAre("b", "w"));
    EXPECT_EQ(weights.Find("w")->entry->type.ToString(), "f32[2,3]");
    EXPECT_EQ(weights.Find("v"), nullptr);
  }
}

TEST_F(WeightFilesTest, AreFilesOfAnIndexOrItsFolder) {
  WriteShards();
  for (const std::string& path : {Path("model.safetensors.index.json"), dir()}) {
    const WeightFiles weights = WeightFiles::Open(path).value();
    EXPECT_EQ(weights.path(), Path("model.safetensors.index.json"));
    EXPECT_EQ(weights.files().size(), 3u);
    EXPECT_THAT(NamesOf(weights), ElementsAre("a", "b", "c"));
    EXPECT_EQ(weights.Find("c")->file->path(), Path("more/model-3.safetensors"));
  }
}

// As transformers does: an index beside it may be of other files.
TEST_F(WeightFilesTest, OneFileGoesBeforeAnIndex) {
  WriteShards();
  Write("model.safetensors", {{"w", Filled(1, {2, 3})}});
  EXPECT_THAT(NamesOf(WeightFiles::Open(dir()).value()), ElementsAre("w"));
}

TEST_F(WeightFilesTest, TensorsThatTheIndexDoesNotNameAreThereToo) {
  WriteShards();
  Write("model-2.safetensors", {{"b", Filled(2, {4})}, {"extra", Filled(2, {4})}});
  EXPECT_THAT(NamesOf(WeightFiles::Open(dir()).value()), ElementsAre("a", "b", "c", "extra"));
}

TEST_F(WeightFilesTest, CountBytesOfAllFilesAndGoOnAfterAMove) {
  WriteShards();
  WeightFiles opened = WeightFiles::Open(dir()).value();
  const WeightTensor a = *opened.Find("a"), b = *opened.Find("b");
  EXPECT_EQ(opened.bytes_read(), 0);
  const WeightFiles weights = std::move(opened);
  EXPECT_EQ(RawBytes(a.file->Read(*a.entry).value()), RawBytes(Filled(1, {2, 3})));
  EXPECT_EQ(RawBytes(b.file->Read(*b.entry).value()), RawBytes(Filled(2, {4})));
  EXPECT_EQ(weights.bytes_read(), 24 + 16);
}

// Links lead out of the folder in a cache of Hugging Face.
TEST_F(WeightFilesTest, FollowsLinks) {
  Write("blobs/1234", {{"a", Filled(1, {2})}});
  std::filesystem::create_directories(Path("snapshot"));
  std::filesystem::create_symlink("../blobs/1234", Path("snapshot/model-1.safetensors"));
  File("snapshot/model.safetensors.index.json", R"({"weight_map": {"a": "model-1.safetensors"}})");
  EXPECT_THAT(NamesOf(WeightFiles::Open(Path("snapshot")).value()), ElementsAre("a"));
}

// Whatever byte of the index is changed, or wherever it ends, Open returns.
TEST_F(WeightFilesTest, ADamagedIndexIsRefusedOrRead) {
  WriteShards();
  const std::string index = ReadFile(Path("model.safetensors.index.json")).value();
  int64_t refused = 0;
  for (size_t at = 0; at < index.size(); ++at) {
    for (const char changed : {'"', '/', '.', '\0', '{'}) {
      std::string damaged = index;
      damaged[at] = changed;
      File("model.safetensors.index.json", damaged);
      refused += WeightFiles::Open(dir()).ok() ? 0 : 1;
    }
    File("model.safetensors.index.json", index.substr(0, at));
    EXPECT_FALSE(WeightFiles::Open(dir()).ok()) << at;
  }
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace meshwork::weight_files_test

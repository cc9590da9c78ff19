// A libFuzzer target: any text, read as the index of a checkpoint, gives an error that names the place, or an index
// that is written and read back unchanged, and whose pieces cover each variable once.
//
// --prepare writes the initial corpus and a dictionary.
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/fuzzer.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/tensor/box.h"
#include "meshwork/storage/checkpoint_index.h"

namespace meshwork {
namespace {

constexpr std::string_view kPath = "index.json";

constexpr std::string_view kWords[] = {"format",  "meshwork", "step",      "mesh",   "written", "facts",
                                       "metrics", "shards",   "variables", "file",   "bytes",   "sha256",
                                       "name",    "type",     "layout",    "pieces", "shard",   "box"};
constexpr std::string_view kTypes[] = {"f32[4,3]", "f64[]", "bf16[0,2]", "i32[7]", "i64[2,2,2]", "bool[1]"};

// Checks each element, of variables that are small enough.
void CheckCover(const CheckpointVariable& variable) {
  constexpr int64_t kMost = 10000;
  int64_t in_pieces = 0;
  for (const CheckpointPiece& piece : variable.pieces) {
    if (Intersect(piece.box, WholeBlock(variable.type.shape)) != piece.box || NumElements(piece.box) == 0)
      Finding("a piece that is empty or lies outside", BlockToString(piece.box));
    in_pieces += NumElements(piece.box);
  }
  if (in_pieces != variable.type.num_elements()) Finding("pieces of another size", variable.name);
  if (in_pieces > kMost) return;
  std::set<int64_t> covered;
  for (const CheckpointPiece& piece : variable.pieces) {
    for (int64_t i = 0; i < NumElements(piece.box); ++i) {
      int64_t rest = i, flat = 0, stride = 1;
      for (size_t d = piece.box.size(); d-- > 0;) {
        flat += (piece.box[d].start + rest % piece.box[d].size) * stride;
        rest /= piece.box[d].size;
        stride *= variable.type.shape[d];
      }
      if (!covered.insert(flat).second) Finding("an element in two pieces", variable.name);
    }
  }
}

void CheckIndex(const CheckpointIndex& index) {
  std::set<std::string> names;
  for (const CheckpointVariable& variable : index.variables) {
    CheckCover(variable);
    if (!names.insert(variable.name).second) Finding("a name twice", variable.name);
    if (index.Find(variable.name) != &variable) Finding("a variable that is not found", variable.name);
    for (const CheckpointPiece& piece : variable.pieces)
      if (piece.shard < 0 || piece.shard >= std::ssize(index.shards))
        Finding("a shard that is not there", variable.name);
  }
  for (const CheckpointShard& shard : index.shards)
    if (shard.file.find('/') != std::string::npos) Finding("a file outside of the folder", shard.file);
}

CheckpointIndex Sample() {
  const std::string hash(64, 'a');
  CheckpointIndex index{.step = 100,
                        .version = "0.2.0",
                        .mesh = "[batch=4]",
                        .written = "2026-11-24T10:52:29Z",
                        .facts = {{"epoch", "3"}},
                        .metrics = {{"loss", 0.25}}};
  index.shards = {{"shard-0", 96, hash}, {"shard-1", 4096, hash}};
  index.variables = {
      {"empty", {F32, {0, 3}}, "{_,_}", {}},
      {"scalar", {I64, {}}, "{}", {{1, {}}}},
      {"w", {F32, {10, 7}}, "{batch,_}", {{0, {{0, 5}, {0, 7}}}, {1, {{5, 5}, {0, 7}}}}},
      {"x", {BF16, {2, 2}}, "{_,_}", {{0, {{0, 1}, {0, 1}}}, {0, {{1, 1}, {0, 1}}}, {1, {{0, 2}, {1, 1}}}}}};
  return index;
}

// In format 1, which has no hash: a hash would refuse every changed text.
std::string WithoutHash(const CheckpointIndex& index) {
  std::string text = ToJson(index).value();
  const std::string_view format = "\"format\":2";
  text.replace(text.find(format), format.size(), "\"format\":1");
  return text.substr(0, text.rfind(",\"sha256\"")) + "}\n";
}

}  // namespace

void Try(std::string_view text) {
  const absl::StatusOr<CheckpointIndex> index = CheckpointIndexFromJson(text, std::string(kPath));
  if (!index.ok()) {
    if (!MessageOf(index.status()).starts_with(kPath))
      Finding("an error that does not say where", MessageOf(index.status()));
    return;
  }
  CheckIndex(*index);
  const absl::StatusOr<std::string> written = ToJson(*index);
  if (!written.ok()) Finding("an index that is read and cannot be written", MessageOf(written.status()));
  const absl::StatusOr<CheckpointIndex> again = CheckpointIndexFromJson(*written, std::string(kPath));
  if (!again.ok() || *again != *index) Finding("an index reads back as another", *written);
}

void Prepare(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder / "samples");
  std::ofstream dictionary(folder / "words.dict");
  for (std::string_view word : kWords) dictionary << fmt::format("\"\\\"{}\\\":\"\n", word);
  for (std::string_view type : kTypes) dictionary << fmt::format("\"\\\"{}\\\"\"\n", type);
  dictionary << fmt::format("\"{}\"\n", std::string(64, 'a'));
  const CheckpointIndex sample = Sample();
  std::ofstream(folder / "samples" / "all.json") << WithoutHash(sample);
  std::ofstream(folder / "samples" / "hashed.json") << ToJson(sample).value();
  // Short indexes, in which a change is more likely to matter.
  for (const CheckpointVariable& variable : sample.variables) {
    CheckpointIndex one = sample;
    one.facts.clear();
    one.variables = {variable};
    std::ofstream(folder / "samples" / (variable.name + ".json")) << WithoutHash(one);
  }
  std::ofstream(folder / "samples" / "none.json") << WithoutHash(CheckpointIndex());
}

}  // namespace meshwork

// The index of a checkpoint: which variables it holds, in which files their elements lie, and when it was made.
//
// It is the file index.json in the checkpoint's folder, written last: a folder without it is no checkpoint.
//
//   {"format":2,"meshwork":"0.1.0","step":100,"mesh":"[batch=4]","written":"2026-11-24T10:52:29Z",
//    "facts":{"epoch":"3"},"metrics":{"loss":0.25},
//    "shards":[{"file":"shard-00000-of-00002.safetensors","bytes":4096,"sha256":"ba78…"},…],
//    "variables":[{"name":"w","type":"f32[10,7]","layout":"{batch,_}","pieces":[{"shard":0,"box":[[0,5],[0,7]]},…]},…],
//    "sha256":"9f2c…"}
//
// It ends with the SHA-256 of all its bytes before `,"sha256"`, so that any changed digit is found. Files of format
// 1, which is older, lack this hash; they are read without the check.
//
// A piece is a box of its variable: the begin and the end of each dim, the end excluded. In its shard it is a tensor of
// the box's shape, called PieceName. The pieces of a variable cover it, each element once.
//
// Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/ir/type.h"
#include "meshwork/layout/layout.h"
#include "meshwork/storage/hashed_file.h"

namespace meshwork {

using CheckpointShard = HashedFile;

struct CheckpointPiece {
  int64_t shard = 0;
  Block box;
  bool operator==(const CheckpointPiece&) const = default;
};

struct CheckpointVariable {
  std::string name;
  Type type;
  std::string layout;  // how it lay, as Layout::ToString writes it; for people
  std::vector<CheckpointPiece> pieces;
  bool operator==(const CheckpointVariable&) const = default;
};

// What a training saves besides its variables, such as its position in the data, by name.
using CheckpointFacts = std::map<std::string, std::string>;
using CheckpointMetrics = std::map<std::string, double>;

// The content of a checkpoint besides its variables.
struct CheckpointNote {
  int64_t step = 0;  // >= 0; orders the checkpoints of a folder
  CheckpointFacts facts = {};
  CheckpointMetrics metrics = {};
  bool operator==(const CheckpointNote&) const = default;
};

struct CheckpointIndex {
  static constexpr int64_t kFormat = 2;  // the format that is written; the newest that is read

  int64_t step = 0;
  std::string version, mesh, written;  // for people: meshwork's version; Mesh::ToString; the time, in UTC
  CheckpointFacts facts;
  CheckpointMetrics metrics;
  std::vector<CheckpointShard> shards;
  std::vector<CheckpointVariable> variables;  // by name

  // Null: there is no such variable.
  const CheckpointVariable* Find(std::string_view name) const;
  bool operator==(const CheckpointIndex&) const = default;
};

// Sets `version` to this library's, and `written` to the present time.
void Stamp(CheckpointIndex& index);

// The name of a piece's tensor in its shard: "w", or "w [0:5,0:7]" if it is a part of w.
std::string PieceName(const CheckpointVariable& variable, const Block& box);

// Error: a name or a fact is not UTF-8; a metric is infinite or no number.
absl::StatusOr<std::string> ToJson(const CheckpointIndex& index);
// Law: FromJson(ToJson(index)) == index. `path`: the file's name, for errors. Errors: the text is no JSON, or JSON of
// another form, with the place; a newer format; a hash that is missing or of another text (DATA_LOSS); a file outside
// of the folder; pieces that do not cover their variable once.
absl::StatusOr<CheckpointIndex> CheckpointIndexFromJson(std::string_view text, const std::string& path);

}  // namespace meshwork

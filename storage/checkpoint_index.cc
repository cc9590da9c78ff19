#include "meshwork/storage/checkpoint_index.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <random>
#include <set>
#include <utility>

#include "meshwork/base/json.h"
#include "meshwork/base/quote.h"
#include "meshwork/base/status.h"
#include "meshwork/base/version.h"
#include "meshwork/runtime/tensor/box.h"
#include "meshwork/storage/hashed_json.h"
#include "nlohmann/json.hpp"

namespace meshwork {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr int64_t kMostShards = 1 << 20;
constexpr int64_t kFormatWithoutHash = 1;

std::string NowInUtc() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

// ---- Writing ----

OrderedJson JsonOf(const Block& box) {
  OrderedJson dims = OrderedJson::array();
  for (const Extent& extent : box) dims.push_back({extent.start, extent.start + extent.size});
  return dims;
}

OrderedJson JsonOf(const CheckpointVariable& variable) {
  OrderedJson pieces = OrderedJson::array();
  for (const CheckpointPiece& piece : variable.pieces)
    pieces.push_back({{"shard", piece.shard}, {"box", JsonOf(piece.box)}});
  return {{"name", variable.name},
          {"type", variable.type.ToString()},
          {"layout", variable.layout},
          {"pieces", std::move(pieces)}};
}

// ---- Reading ----

// "f32[10,7]".
absl::StatusOr<Type> ReadType(const JsonReader& json) {
  MESHWORK_ASSIGN_OR_RETURN(const std::string text, json.String());
  constexpr std::string_view kWanted = "a type such as \"f32[10,7]\"";
  const size_t bracket = text.find('[');
  if (bracket == std::string::npos || text.back() != ']') return json.Expected(kWanted);
  const absl::StatusOr<DType> dtype = DTypeFromName(text.substr(0, bracket));
  if (!dtype.ok()) return json.Expected(kWanted);
  const absl::StatusOr<nlohmann::json> sizes = ParseJson(text.substr(bracket), "a shape");
  if (!sizes.ok() || !sizes->is_array() || sizes->size() > kMaxRank) return json.Expected(kWanted);
  Type type{*dtype, {}};
  for (const nlohmann::json& size : *sizes) {
    const absl::StatusOr<int64_t> value = JsonReader(size, "a shape").Integer();
    if (!value.ok()) return json.Expected(kWanted);
    type.shape.push_back(*value);
  }
  if (!CheckSize(type).ok() || type.ToString() != text) return json.Expected(kWanted);
  return type;
}

// A piece of a tensor of this shape.
absl::StatusOr<Block> ReadBox(const JsonReader& json, const Shape& shape) {
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<JsonReader> dims, json.Items());
  if (dims.size() != shape.size()) return json.Expected("a begin and an end for each dim");
  Block box;
  for (size_t d = 0; d < dims.size(); ++d) {
    MESHWORK_ASSIGN_OR_RETURN(const std::vector<JsonReader> ends, dims[d].Items());
    if (ends.size() != 2) return dims[d].Expected("a begin and an end");
    MESHWORK_ASSIGN_OR_RETURN(const int64_t begin, ends[0].Integer());
    MESHWORK_ASSIGN_OR_RETURN(const int64_t end, ends[1].Integer());
    if (begin < 0 || begin >= end || end > shape[d])
      return dims[d].Expected(fmt::format("a begin and an end within 0 and {}", shape[d]));
    box.push_back({begin, end - begin});
  }
  return box;
}

// Random values for the coordinates of each dim, modulo a prime, and products of them. Two different polynomials of
// at most 2^60 products of 8 such values are equal with a probability below 2^-57.
class DrawnNumbers {
 public:
  static constexpr uint64_t kPrime = (uint64_t{1} << 61) - 1;

  DrawnNumbers() : seed_((uint64_t{std::random_device()()} << 32) ^ std::random_device()()) {}

  // The product over the dims of a box of (value of its end - value of its begin).
  uint64_t Product(const Block& box) const {
    uint64_t product = 1;
    for (size_t d = 0; d < box.size(); ++d) {
      const uint64_t end = Draw(d, box[d].start + box[d].size), begin = Draw(d, box[d].start);
      product = Times(product, end + kPrime - begin);
    }
    return product;
  }

 private:
  static uint64_t Times(uint64_t a, uint64_t b) {
    return static_cast<uint64_t>(static_cast<unsigned __int128>(a) * b % kPrime);
  }
  // The value of coordinate `at` of a dim, by SplitMix64.
  uint64_t Draw(size_t dim, int64_t at) const {
    uint64_t x = seed_ + (static_cast<uint64_t>(at) * kMaxRank + dim + 1) * 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return (x ^ x >> 31) % kPrime;
  }

  const uint64_t seed_;
};

// Whether the pieces, which lie in the tensor, cover each element once. Takes time linear in the number of pieces, by
// testing the identity of two polynomials at a random point: each coordinate c of a dim has a variable x_c, and the
// polynomial of a box is the product over its dims of (x_end - x_begin). It is the sum of the polynomials of the
// box's elements, and those of different elements are linearly independent. So the polynomials of the pieces add up
// to that of the whole tensor if and only if each element is in exactly one piece.
bool CoverOnce(const Shape& shape, const std::vector<CheckpointPiece>& pieces) {
  const DrawnNumbers numbers;
  uint64_t sum = 0;
  for (const CheckpointPiece& piece : pieces) sum = (sum + numbers.Product(piece.box)) % DrawnNumbers::kPrime;
  return sum == numbers.Product(WholeBlock(shape));
}

absl::StatusOr<CheckpointVariable> ReadVariable(const JsonReader& json, int64_t num_shards) {
  MESHWORK_RETURN_IF_ERROR(json.ExpectKeys({"name", "type", "layout", "pieces"}));
  CheckpointVariable variable;
  MESHWORK_ASSIGN_OR_RETURN(const JsonReader name, json.Get("name"));
  MESHWORK_ASSIGN_OR_RETURN(variable.name, name.String());
  MESHWORK_ASSIGN_OR_RETURN(const JsonReader type, json.Get("type"));
  MESHWORK_ASSIGN_OR_RETURN(variable.type, ReadType(type));
  MESHWORK_ASSIGN_OR_RETURN(const JsonReader layout, json.Get("layout"));
  MESHWORK_ASSIGN_OR_RETURN(variable.layout, layout.String());
  MESHWORK_ASSIGN_OR_RETURN(const JsonReader pieces, json.Get("pieces"));
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<JsonReader> items, pieces.Items());
  for (const JsonReader& item : items) {
    MESHWORK_RETURN_IF_ERROR(item.ExpectKeys({"shard", "box"}));
    CheckpointPiece piece;
    MESHWORK_ASSIGN_OR_RETURN(const JsonReader shard, item.Get("shard"));
    MESHWORK_ASSIGN_OR_RETURN(piece.shard, shard.Integer());
    if (piece.shard < 0 || piece.shard >= num_shards)
      return shard.Expected(fmt::format("the number of a shard, below {}", num_shards));
    MESHWORK_ASSIGN_OR_RETURN(const JsonReader box, item.Get("box"));
    MESHWORK_ASSIGN_OR_RETURN(piece.box, ReadBox(box, variable.type.shape));
    variable.pieces.push_back(std::move(piece));
  }
  if (!CoverOnce(variable.type.shape, variable.pieces))
    return pieces.Expected(fmt::format("pieces that cover {} once", variable.type.ToString()));
  return variable;
}

// The format is read first, as a text of a newer library may have any form.
absl::StatusOr<int64_t> ReadFormat(const JsonReader& json, const std::string& path) {
  MESHWORK_ASSIGN_OR_RETURN(const JsonReader format, json.Get("format"));
  MESHWORK_ASSIGN_OR_RETURN(const int64_t number, format.Integer());
  if (number == CheckpointIndex::kFormat || number == kFormatWithoutHash) return number;
  if (number < CheckpointIndex::kFormat) return format.Expected("the number of a format, 1 or 2");
  const absl::StatusOr<std::string> version = json.StringOf("meshwork");
  return absl::UnimplementedError(fmt::format(
      "{}: the checkpoint has format {}, of meshwork {}; this is meshwork {}, which reads up to format {}.",
      path, number, version.ok() ? Printable(*version) : "unknown", MESHWORK_VERSION,
      CheckpointIndex::kFormat));
}

absl::StatusOr<CheckpointIndex> ReadIndex(const JsonReader& json, bool has_hash) {
  std::vector<std::string> keys = {"format", "meshwork", "step",   "mesh",     "written",
                                   "facts",  "metrics",  "shards", "variables"};
  if (has_hash) keys.emplace_back("sha256");
  MESHWORK_RETURN_IF_ERROR(json.ExpectKeys(keys));
  CheckpointIndex index;
  MESHWORK_ASSIGN_OR_RETURN(index.version, json.StringOf("meshwork"));
  MESHWORK_ASSIGN_OR_RETURN(index.mesh, json.StringOf("mesh"));
  MESHWORK_ASSIGN_OR_RETURN(index.written, json.StringOf("written"));
  MESHWORK_ASSIGN_OR_RETURN(const JsonReader step, json.Get("step"));
  MESHWORK_ASSIGN_OR_RETURN(index.step, step.Integer());
  if (index.step < 0) return step.Expected("a number of steps");
  MESHWORK_ASSIGN_OR_RETURN(const JsonReader facts, json.Get("facts"));
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<std::string> names, facts.Keys());
  for (const std::string& name : names) {
    MESHWORK_ASSIGN_OR_RETURN(index.facts[name], facts.StringOf(name));
  }
  MESHWORK_ASSIGN_OR_RETURN(const JsonReader metrics, json.Get("metrics"));
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<std::string> metric_names, metrics.Keys());
  for (const std::string& name : metric_names) {
    MESHWORK_ASSIGN_OR_RETURN(const JsonReader metric, metrics.Get(name));
    MESHWORK_ASSIGN_OR_RETURN(index.metrics[name], metric.Real());
  }
  MESHWORK_ASSIGN_OR_RETURN(const JsonReader shards, json.Get("shards"));
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<JsonReader> shard_items, shards.Items());
  if (std::ssize(shard_items) > kMostShards)
    return shards.Expected(fmt::format("a list of at most {} shards", kMostShards));
  std::set<std::string> files;
  for (const JsonReader& item : shard_items) {
    MESHWORK_ASSIGN_OR_RETURN(CheckpointShard shard, ReadHashedFile(item));
    if (!files.insert(shard.file).second) return item.Expected("a file that no other shard has");
    index.shards.push_back(std::move(shard));
  }
  MESHWORK_ASSIGN_OR_RETURN(const JsonReader variables, json.Get("variables"));
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<JsonReader> variable_items, variables.Items());
  for (const JsonReader& item : variable_items) {
    MESHWORK_ASSIGN_OR_RETURN(CheckpointVariable variable, ReadVariable(item, std::ssize(index.shards)));
    if (!index.variables.empty() && variable.name <= index.variables.back().name)
      return item.Expected("a variable whose name comes behind those before it");
    index.variables.push_back(std::move(variable));
  }
  return index;
}

}  // namespace

const CheckpointVariable* CheckpointIndex::Find(std::string_view name) const {
  const auto found =
      std::lower_bound(variables.begin(), variables.end(), name,
                       [](const CheckpointVariable& v, std::string_view wanted) { return v.name < wanted; });
  return found == variables.end() || found->name != name ? nullptr : &*found;
}

void Stamp(CheckpointIndex& index) {
  index.version = MESHWORK_VERSION;
  index.written = NowInUtc();
}

std::string PieceName(const CheckpointVariable& variable, const Block& box) {
  return box == WholeBlock(variable.type.shape) ? variable.name
                                                : fmt::format("{} {}", variable.name, BlockToString(box));
}

absl::StatusOr<std::string> ToJson(const CheckpointIndex& index) {
  OrderedJson json = {{"format", CheckpointIndex::kFormat},
                      {"meshwork", index.version},
                      {"step", index.step},
                      {"mesh", index.mesh},
                      {"written", index.written},
                      {"facts", OrderedJson::object()},
                      {"metrics", OrderedJson::object()},
                      {"shards", OrderedJson::array()},
                      {"variables", OrderedJson::array()}};
  for (const auto& [name, value] : index.facts) json["facts"][name] = value;
  for (const auto& [name, value] : index.metrics) {
    if (!std::isfinite(value))
      return InvalidArgument("Checkpoint: the metric {} is {}; it must be a finite number.", Quoted(name),
                             value);
    json["metrics"][name] = value;
  }
  for (const CheckpointShard& shard : index.shards) json["shards"].push_back(ToJson(shard));
  for (const CheckpointVariable& variable : index.variables) json["variables"].push_back(JsonOf(variable));
  try {
    return WithHash(json.dump());
  } catch (const OrderedJson::exception&) {
    return InvalidArgument(
        "Checkpoint: a name, a fact or a metric is not UTF-8; the index allows no other text.");
  }
}

absl::StatusOr<CheckpointIndex> CheckpointIndexFromJson(std::string_view text, const std::string& path) {
  MESHWORK_ASSIGN_OR_RETURN(const nlohmann::json json, ParseJson(text, path));
  const JsonReader reader(json, path);
  MESHWORK_ASSIGN_OR_RETURN(const int64_t format, ReadFormat(reader, path));
  const bool has_hash = format != kFormatWithoutHash;
  if (has_hash) MESHWORK_RETURN_IF_ERROR(CheckHash(text, path));
  return ReadIndex(reader, has_hash);
}

}  // namespace meshwork

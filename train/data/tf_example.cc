// tf.train.Example, read and written in the wire format of protocol buffers (protobuf.dev/programming-guides/encoding):
//
//   message Example   { Features features = 1; }
//   message Features  { map<string, Feature> feature = 1; }      // entries: string key = 1; Feature value = 2
//   message Feature   { oneof { BytesList bytes_list = 1; FloatList float_list = 2; Int64List int64_list = 3; } }
//   message BytesList { repeated bytes value = 1; }              // FloatList, Int64List: packed, as a rule
#include <bit>
#include <map>
#include <utility>

#include "meshwork/base/quote.h"
#include "meshwork/base/status.h"
#include "meshwork/base/suggest.h"
#include "meshwork/storage/wire_format.h"
#include "meshwork/train/data/pipeline_files.h"

namespace meshwork {
namespace {

using WireKind = WireField::Kind;
enum List : uint8_t { kNone = 0, kBytesList = 1, kFloatList = 2, kInt64List = 3 };
constexpr const char* kListNames[] = {"no list", "a bytes_list", "a float_list", "an int64_list"};

struct Feature {
  List list = kNone;
  std::vector<std::string_view> bytes;
  std::vector<float> floats;
  std::vector<int64_t> numbers;
};

// Adds the values of a list. False: it is none.
bool ReadList(std::string_view bytes, Feature& feature) {
  const WireKind kind = feature.list == kFloatList ? WireKind::kFixed32 : WireKind::kVarint;
  const auto add = [&](uint64_t bits) {
    if (feature.list == kFloatList)
      feature.floats.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    else feature.numbers.push_back(static_cast<int64_t>(bits));
  };
  for (WireReader message(bytes); !message.AtEnd();) {
    const absl::StatusOr<std::optional<WireField>> read = message.Next();
    if (!read.ok()) return false;
    const WireField& field = **read;
    if (field.number != 1) continue;
    if (feature.list == kBytesList) {
      if (field.kind != WireKind::kBytes) return false;
      feature.bytes.push_back(field.bytes);
    } else if (field.kind == kind) {
      add(field.number_bits);
    } else {
      if (field.kind != WireKind::kBytes) return false;
      for (WireReader packed(field.bytes); !packed.AtEnd();) {
        const std::optional<uint64_t> bits = packed.NextPacked(kind);
        if (!bits.has_value()) return false;
        add(*bits);
      }
    }
  }
  return true;
}

bool ReadFeature(std::string_view bytes, Feature& feature) {
  for (WireReader message(bytes); !message.AtEnd();) {
    const absl::StatusOr<std::optional<WireField>> read = message.Next();
    if (!read.ok()) return false;
    const WireField& field = **read;
    if (field.number > 3) continue;
    if (field.kind != WireKind::kBytes) return false;
    if (feature.list != static_cast<List>(field.number))
      feature = {static_cast<List>(field.number), {}, {}, {}};
    if (!ReadList(field.bytes, feature)) return false;
  }
  return true;
}

using FeatureBytes = std::map<std::string_view, std::string_view>;

// Adds an entry of the map. False: it is none.
bool ReadEntry(std::string_view bytes, FeatureBytes& features) {
  std::string_view key, value;
  for (WireReader pair(bytes); !pair.AtEnd();) {
    const absl::StatusOr<std::optional<WireField>> part = pair.Next();
    if (!part.ok() || ((*part)->number <= 2 && (*part)->kind != WireKind::kBytes)) return false;
    if ((*part)->number == 1) key = (*part)->bytes;
    if ((*part)->number == 2) value = (*part)->bytes;
  }
  features[key] = value;
  return true;
}

// The serialized features by name. Nothing: the bytes are no Example.
std::optional<FeatureBytes> FeaturesIn(std::string_view record) {
  FeatureBytes features;
  for (WireReader example(record); !example.AtEnd();) {
    const absl::StatusOr<std::optional<WireField>> list = example.Next();
    if (!list.ok()) return std::nullopt;
    if ((*list)->number != 1) continue;
    if ((*list)->kind != WireKind::kBytes) return std::nullopt;
    for (WireReader entries((*list)->bytes); !entries.AtEnd();) {
      const absl::StatusOr<std::optional<WireField>> entry = entries.Next();
      if (!entry.ok()) return std::nullopt;
      if ((*entry)->number != 1) continue;
      if ((*entry)->kind != WireKind::kBytes || !ReadEntry((*entry)->bytes, features)) return std::nullopt;
    }
  }
  return features;
}

template <typename T, typename Value>
absl::Status SetValues(const TfFeature& wanted, const std::vector<Value>& values, Example& example) {
  Tensor tensor(Type{wanted.dtype, wanted.shape});
  MESHWORK_RETURN_IF_ERROR(tensor.status());
  if (tensor.num_elements() != std::ssize(values))
    return InvalidArgument("has {}, and {} has {}; give the shape that it was written with.",
                           Count(std::ssize(values), "value"), tensor.type().ToString(),
                           tensor.num_elements());
  const auto to = tensor.mutable_values<T>();
  for (size_t i = 0; i < values.size(); ++i) {
    to[i] = static_cast<T>(values[i]);
    if (static_cast<Value>(to[i]) != values[i] && values[i] == values[i])
      return InvalidArgument("has the value {}, which is no {}; read it as i64.", values[i],
                             DTypeName(wanted.dtype));
  }
  example.Set(wanted.name, std::move(tensor));
  return absl::OkStatus();
}

absl::Status SetFeature(const TfFeature& wanted, std::string_view bytes, Example& example) {
  Feature feature;
  if (!ReadFeature(bytes, feature))
    return InvalidArgument("is damaged: it is no tf.train.Feature; write the file again.");
  const List list = wanted.is_text ? kBytesList : IsFloat(wanted.dtype) ? kFloatList : kInt64List;
  // A list without values need not say of which kind it is.
  if (feature.list != list && feature.list != kNone)
    return InvalidArgument("is {}, and {} is wanted; ask for another type.", kListNames[feature.list],
                           kListNames[list]);
  if (wanted.is_text) {
    if (feature.bytes.size() != 1)
      return InvalidArgument("has {}; a text is one.", Count(std::ssize(feature.bytes), "value"));
    example.SetText(wanted.name, std::string(feature.bytes[0]));
    return absl::OkStatus();
  }
  if (wanted.dtype == F32) return SetValues<float>(wanted, feature.floats, example);
  if (wanted.dtype == I32) return SetValues<int32_t>(wanted, feature.numbers, example);
  if (wanted.dtype == I64) return SetValues<int64_t>(wanted, feature.numbers, example);
  return InvalidArgument("is asked for as {}; it can be f32, i32, i64 or text.", DTypeName(wanted.dtype));
}

// Adds an entry of the map, of whose list `values` is the one field.
void AddFeature(std::string_view name, List list, const WireWriter& values, WireWriter& features) {
  WireWriter feature, entry;
  feature.Message(list, values);
  entry.Text(1, name).Message(2, feature);
  features.Message(1, entry);
}

// The tensor's elements as the one field of a list. Error: its type.
absl::StatusOr<WireWriter> ListOf(const Tensor& tensor) {
  WireWriter list;
  if (tensor.dtype() == F32) return std::move(list.Floats(1, tensor.values<float>()));
  if (tensor.dtype() == I64) return std::move(list.Ints(1, tensor.values<int64_t>()));
  if (tensor.dtype() == I32) {
    const auto values = tensor.values<int32_t>();
    return std::move(list.Ints(1, std::vector<int64_t>(values.begin(), values.end())));
  }
  return InvalidArgument("is {}; a tf.train.Example holds f32, i32, i64 and texts.",
                         tensor.type().ToString());
}

}  // namespace

absl::StatusOr<Example> ParseTfExample(std::string_view record, const std::vector<TfFeature>& features) {
  const std::optional<FeatureBytes> bytes = FeaturesIn(record);
  if (!bytes.has_value())
    return InvalidArgument(
        "ParseTfExample: the record is no serialized tf.train.Example; is it another message?");
  Example example;
  for (const TfFeature& wanted : features) {
    const auto found = bytes->find(wanted.name);
    if (found == bytes->end()) {
      std::vector<std::string> names;
      for (const auto& [name, feature] : *bytes) names.emplace_back(name);
      return InvalidArgument("ParseTfExample: there is no feature {}{}", Quoted(wanted.name),
                             DidYouMeanOneOf(wanted.name, names, "features"));
    }
    const absl::Status set = SetFeature(wanted, found->second, example);
    if (!set.ok()) return Annotate(set, fmt::format("ParseTfExample: feature {} ", Quoted(wanted.name)));
  }
  return example;
}

Pipeline::MapFunction TfExampleParser(std::vector<TfFeature> features) {
  return [features = std::move(features)](const Example& example) -> absl::StatusOr<Example> {
    MESHWORK_ASSIGN_OR_RETURN(const std::string_view record, example.GetText("record"));
    return ParseTfExample(record, features);
  };
}

absl::StatusOr<std::string> SerializeTfExample(const Example& example) {
  WireWriter features;
  for (const auto& [name, tensor] : example.columns()) {
    if (!tensor.valid())
      return Annotate(tensor.status(), fmt::format("SerializeTfExample: column {}: ", Quoted(name)));
    const absl::StatusOr<WireWriter> values = ListOf(tensor);
    if (!values.ok())
      return Annotate(values.status(), fmt::format("SerializeTfExample: column {} ", Quoted(name)));
    AddFeature(name, tensor.dtype() == F32 ? kFloatList : kInt64List, *values, features);
  }
  for (const auto& [name, text] : example.texts())
    AddFeature(name, kBytesList, WireWriter().Text(1, *text), features);
  return WireWriter().Message(1, features).bytes();
}

}  // namespace meshwork

#include "tools/cli/gguf_llama.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <utility>

#include "meshwork/base/quote.h"
#include "meshwork/base/status.h"
#include "nlohmann/json.hpp"
#include "tools/cli/gguf_metadata.h"

namespace meshwork::tools {
namespace {

constexpr double kDefaultRopeTheta = 10000;

using NamePair = std::pair<std::string_view, std::string_view>;

// Without ".weight" or ".bias".
constexpr NamePair kModelNames[] = {
    {"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}};
constexpr NamePair kLayerNames[] = {
    {"attn_norm", "input_layernorm"}, {"ffn_norm", "post_attention_layernorm"},
    {"attn_q", "self_attn.q_proj"},   {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},   {"attn_output", "self_attn.o_proj"},
    {"ffn_gate", "mlp.gate_proj"},    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"}};

// Of config.json, and of the metadata.
constexpr NamePair kSizes[] = {{"hidden_size", "llama.embedding_length"},
                               {"intermediate_size", "llama.feed_forward_length"},
                               {"num_hidden_layers", "llama.block_count"}};
constexpr NamePair kTokens[] = {{"bos_token_id", "tokenizer.ggml.bos_token_id"},
                                {"eos_token_id", "tokenizer.ggml.eos_token_id"}};

template <size_t n>
std::optional<std::string_view> Renamed(const NamePair (&names)[n], std::string_view name) {
  const auto found = std::find_if(names, names + n, [&](const NamePair& pair) { return pair.first == name; });
  if (found == names + n) return std::nullopt;
  return found->second;
}

// "blk.3.attn_q.weight" as {"3", "attn_q", ".weight"}; the layer is empty where the name has none.
struct NameParts {
  std::string_view layer, part, ending;
};

std::optional<NameParts> PartsOf(std::string_view name) {
  NameParts parts;
  for (const std::string_view ending : {".weight", ".bias"})
    if (name.ends_with(ending)) parts.ending = ending;
  if (parts.ending.empty()) return std::nullopt;
  parts.part = name.substr(0, name.size() - parts.ending.size());
  if (!name.starts_with("blk.")) return parts;
  const std::string_view rest = parts.part.substr(4);
  const size_t dot = rest.find('.');
  if (dot == std::string_view::npos || dot == 0) return std::nullopt;
  parts.layer = rest.substr(0, dot);
  parts.part = rest.substr(dot + 1);
  const bool is_number = std::all_of(parts.layer.begin(), parts.layer.end(),
                                     [](unsigned char c) { return std::isdigit(c) != 0; });
  // Two names of a layer would become one.
  if (!is_number || (parts.layer.size() > 1 && parts.layer[0] == '0')) return std::nullopt;
  return parts;
}

// The number of heads of q; or of k and v, fewer where several heads share them.
absl::StatusOr<int64_t> Heads(const GgufFile& file, bool of_keys) {
  constexpr std::string_view kKeys = "llama.attention.head_count_kv";
  if (of_keys && file.FindMetadata(kKeys) != nullptr) return WholeNumberAt(file, kKeys, 1);
  return WholeNumberAt(file, "llama.attention.head_count", 1);
}

absl::StatusOr<int64_t> HeadDim(const GgufFile& file, int64_t hidden, int64_t heads) {
  constexpr std::string_view kKey = "llama.attention.key_length";
  if (file.FindMetadata(kKey) != nullptr) return WholeNumberAt(file, kKey, 1);
  if (hidden % heads == 0) return hidden / heads;
  return InvalidArgument(
      "{}: llama.embedding_length is {} and llama.attention.head_count {}; without {}, the "
      "heads must divide the length.",
      file.path(), hidden, heads, kKey);
}

absl::StatusOr<int64_t> VocabSize(const GgufFile& file) {
  constexpr std::string_view kKey = "llama.vocab_size";
  const GgufEntry* const embeddings = file.Find("token_embd.weight");
  if (file.FindMetadata(kKey) != nullptr || embeddings == nullptr || embeddings->type.rank() == 0)
    return WholeNumberAt(file, kKey, 1);
  return embeddings->type.shape[0];
}

}  // namespace

bool IsLlama(const GgufFile& file) {
  const GgufValue* const value = file.FindMetadata("general.architecture");
  const auto* const name = value == nullptr ? nullptr : std::get_if<std::string>(value);
  return name != nullptr && *name == "llama";
}

std::optional<std::string> LlamaName(std::string_view gguf_name) {
  const std::optional<NameParts> parts = PartsOf(gguf_name);
  if (!parts.has_value()) return std::nullopt;
  if (parts->layer.empty()) {
    const auto name = Renamed(kModelNames, parts->part);
    if (!name.has_value()) return std::nullopt;
    return fmt::format("{}{}", *name, parts->ending);
  }
  const auto name = Renamed(kLayerNames, parts->part);
  if (!name.has_value()) return std::nullopt;
  return fmt::format("model.layers.{}.{}{}", parts->layer, *name, parts->ending);
}

absl::StatusOr<int64_t> HeadsToReorder(const GgufFile& file, const GgufEntry& entry) {
  const std::optional<NameParts> parts = PartsOf(entry.name);
  if (!parts.has_value() || parts->layer.empty() || (parts->part != "attn_q" && parts->part != "attn_k"))
    return 0;
  MESHWORK_ASSIGN_OR_RETURN(const int64_t heads, Heads(file, parts->part == "attn_k"));
  const Shape& shape = entry.type.shape;
  if (shape.empty() || shape[0] % heads != 0 || shape[0] / heads % 2 != 0) {
    return InvalidArgument("{}: tensor {} is {}; its rows must be pairs for each of {} heads.", file.path(),
                           Quoted(entry.name), entry.type.ToString(), heads);
  }
  return heads;
}

Tensor WithHalves(const Tensor& tensor, int64_t heads) {
  Tensor result(tensor.type());
  const int64_t rows = tensor.shape()[0], pairs = rows / heads / 2;
  if (tensor.bytes() == 0) return result;
  const auto row = static_cast<size_t>(tensor.bytes() / rows);
  const auto* from = static_cast<const std::byte*>(tensor.raw());
  auto* to = static_cast<std::byte*>(result.raw());
  for (int64_t head = 0; head < heads; ++head) {
    for (int64_t i = 0; i < pairs; ++i) {
      for (int64_t half = 0; half < 2; ++half, from += row)
        std::memcpy(to + static_cast<size_t>((2 * head + half) * pairs + i) * row, from, row);
    }
  }
  return result;
}

absl::StatusOr<nlohmann::ordered_json> LlamaConfig(const GgufFile& file) {
  if (const GgufValue* experts = file.FindMetadata("llama.expert_count");
      experts != nullptr && WholeNumber(*experts) != 0)
    return InvalidArgument("{}: llama.expert_count is not 0; mixtures of experts are not imported.",
                           file.path());
  nlohmann::ordered_json config = {{"model_type", "llama"}};
  for (const auto& [name, key] : kSizes) {
    MESHWORK_ASSIGN_OR_RETURN(config[std::string(name)], WholeNumberAt(file, key, 1));
  }
  MESHWORK_ASSIGN_OR_RETURN(const int64_t heads, Heads(file, /*of_keys=*/false));
  config["num_attention_heads"] = heads;
  MESHWORK_ASSIGN_OR_RETURN(config["num_key_value_heads"], Heads(file, /*of_keys=*/true));
  MESHWORK_ASSIGN_OR_RETURN(config["head_dim"], HeadDim(file, config["hidden_size"].get<int64_t>(), heads));
  MESHWORK_ASSIGN_OR_RETURN(config["rms_norm_eps"], RealAt(file, "llama.attention.layer_norm_rms_epsilon"));
  MESHWORK_ASSIGN_OR_RETURN(config["rope_theta"], RealAt(file, "llama.rope.freq_base", kDefaultRopeTheta));
  MESHWORK_ASSIGN_OR_RETURN(config["vocab_size"], VocabSize(file));
  MESHWORK_ASSIGN_OR_RETURN(config["max_position_embeddings"],
                            WholeNumberAt(file, "llama.context_length", 1));
  config["tie_word_embeddings"] = file.Find("output.weight") == nullptr;
  for (const auto& [name, key] : kTokens) {
    if (file.FindMetadata(key) == nullptr) continue;
    MESHWORK_ASSIGN_OR_RETURN(config[std::string(name)], WholeNumberAt(file, key));
  }
  return config;
}

}  // namespace meshwork::tools

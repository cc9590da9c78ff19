#include "examples/llama/llama_config.h"

#include "examples/llama/json_value.h"
#include "meshwork/base/status.h"

namespace meshwork {
namespace {

constexpr int64_t kMost = int64_t{1} << 31;

// The whole number of `key`, from 1 on. absent: where there is none; 0: it must be there.
absl::StatusOr<int64_t> SizeOf(const JsonValue& config, const std::string& key, int64_t absent = 0) {
  if (absent > 0 && !config.Has(key)) return absent;
  MESHWORK_ASSIGN_OR_RETURN(const JsonValue value, config.Get(key));
  MESHWORK_ASSIGN_OR_RETURN(const int64_t size, value.Integer());
  if (size < 1 || size > kMost) return value.Expected("a size from 1 on");
  return size;
}

// "rope_scaling": {"rope_type": "llama3", "factor": 32, …}
absl::Status ReadScaling(const JsonValue& scaling, RotaryScaling* to) {
  const std::string key = scaling.Has("rope_type") ? "rope_type" : "type";
  MESHWORK_ASSIGN_OR_RETURN(const std::string form, scaling.StringOf(key));
  if (form == "default") return absl::OkStatus();
  MESHWORK_ASSIGN_OR_RETURN(to->factor, scaling.RealOf("factor"));
  if (form == "linear") {
    to->form = RotaryScaling::Form::kLinear;
  } else if (form == "llama3") {
    to->form = RotaryScaling::Form::kLlama3;
    MESHWORK_ASSIGN_OR_RETURN(to->low_turns, scaling.RealOf("low_freq_factor"));
    MESHWORK_ASSIGN_OR_RETURN(to->high_turns, scaling.RealOf("high_freq_factor"));
    MESHWORK_ASSIGN_OR_RETURN(to->original_positions, SizeOf(scaling, "original_max_position_embeddings"));
  } else {
    MESHWORK_ASSIGN_OR_RETURN(const JsonValue value, scaling.Get(key));
    return value.Unsupported("default, linear or llama3");
  }
  return absl::OkStatus();
}

absl::Status ReadEnds(const JsonValue& config, std::vector<int32_t>* ends) {
  if (!config.Has("eos_token_id")) return absl::OkStatus();
  MESHWORK_ASSIGN_OR_RETURN(const JsonValue value, config.Get("eos_token_id"));
  std::vector<JsonValue> all = {value};
  if (value.IsList()) {
    MESHWORK_ASSIGN_OR_RETURN(all, value.Items());
  }
  for (const JsonValue& end : all) {
    MESHWORK_ASSIGN_OR_RETURN(const int64_t id, end.Integer());
    if (id < 0 || id >= kMost) return end.Expected("the number of a token");
    ends->push_back(static_cast<int32_t>(id));
  }
  return absl::OkStatus();
}

absl::Status ReadSizes(const JsonValue& config, LlamaConfig* to) {
  MESHWORK_ASSIGN_OR_RETURN(to->units, SizeOf(config, "hidden_size"));
  MESHWORK_ASSIGN_OR_RETURN(to->hidden, SizeOf(config, "intermediate_size"));
  MESHWORK_ASSIGN_OR_RETURN(to->layers, SizeOf(config, "num_hidden_layers"));
  MESHWORK_ASSIGN_OR_RETURN(to->vocabulary, SizeOf(config, "vocab_size"));
  MESHWORK_ASSIGN_OR_RETURN(to->heads, SizeOf(config, "num_attention_heads"));
  MESHWORK_ASSIGN_OR_RETURN(to->kv_heads, SizeOf(config, "num_key_value_heads", to->heads));
  if (to->heads % to->kv_heads != 0) {
    MESHWORK_ASSIGN_OR_RETURN(const JsonValue value, config.Get("num_key_value_heads"));
    return value.Expected("a divisor of num_attention_heads");
  }
  MESHWORK_ASSIGN_OR_RETURN(to->head,
                            SizeOf(config, "head_dim", std::max<int64_t>(to->units / to->heads, 1)));
  MESHWORK_ASSIGN_OR_RETURN(to->positions, SizeOf(config, "max_position_embeddings"));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LlamaConfig> LlamaConfig::Load(const std::string& path) {
  MESHWORK_ASSIGN_OR_RETURN(const nlohmann::json json, ReadJsonFile(path));
  const JsonValue config(json, path);
  LlamaConfig c;
  MESHWORK_ASSIGN_OR_RETURN(const std::string type, config.StringOf("model_type"));
  if (type != "llama" && type != "mistral" && type != "qwen2") {
    MESHWORK_ASSIGN_OR_RETURN(const JsonValue value, config.Get("model_type"));
    return value.Unsupported("llama, mistral or qwen2");
  }
  if (config.Has("hidden_act")) {
    MESHWORK_ASSIGN_OR_RETURN(const JsonValue value, config.Get("hidden_act"));
    MESHWORK_ASSIGN_OR_RETURN(const std::string act, value.String());
    if (act != "silu") return value.Unsupported("silu");
  }
  MESHWORK_RETURN_IF_ERROR(ReadSizes(config, &c));
  MESHWORK_ASSIGN_OR_RETURN(c.epsilon, config.RealOf("rms_norm_eps", 1e-6));
  MESHWORK_ASSIGN_OR_RETURN(c.rotary.base, config.RealOf("rope_theta", 10000));
  // Newer files have both in one object.
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!config.Has(key)) continue;
    MESHWORK_ASSIGN_OR_RETURN(const JsonValue rope, config.Get(key));
    MESHWORK_ASSIGN_OR_RETURN(c.rotary.base, rope.RealOf("rope_theta", c.rotary.base));
    MESHWORK_RETURN_IF_ERROR(ReadScaling(rope, &c.rotary.scaling));
  }
  for (const JsonValue& of :
       {config, config.Has("rope_parameters") ? *config.Get("rope_parameters") : config}) {
    MESHWORK_ASSIGN_OR_RETURN(const double turning, of.RealOf("partial_rotary_factor", 1));
    if (turning == 1) continue;
    MESHWORK_ASSIGN_OR_RETURN(const JsonValue value, of.Get("partial_rotary_factor"));
    return value.Unsupported("1");
  }
  if (type == "mistral" && config.Has("sliding_window")) {
    MESHWORK_ASSIGN_OR_RETURN(c.window, SizeOf(config, "sliding_window"));
    if (c.window >= c.positions) c.window = 0;
  }
  if (!config.IsOff("use_sliding_window")) {
    MESHWORK_ASSIGN_OR_RETURN(const JsonValue value, config.Get("use_sliding_window"));
    return value.Unsupported("false");
  }
  MESHWORK_ASSIGN_OR_RETURN(c.out_bias, config.BoolOf("attention_bias", false));
  c.bias = c.out_bias || type == "qwen2";
  if (!config.IsOff("mlp_bias")) {
    MESHWORK_ASSIGN_OR_RETURN(const JsonValue value, config.Get("mlp_bias"));
    return value.Unsupported("false");
  }
  MESHWORK_ASSIGN_OR_RETURN(c.tied, config.BoolOf("tie_word_embeddings", false));
  MESHWORK_RETURN_IF_ERROR(ReadEnds(config, &c.ends));
  return c;
}

}  // namespace meshwork

#include "examples/llama/adapters.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "examples/llama/json_value.h"
#include "examples/llama/llama.h"
#include "fmt/ranges.h"
#include "meshwork/base/io/file.h"
#include "meshwork/base/quote.h"
#include "meshwork/base/status.h"
#include "meshwork/session/save_restore.h"

namespace meshwork {
namespace {

constexpr const char* kConfig = "adapter_config.json";
constexpr const char* kWeights = "adapter_model.safetensors";
constexpr const char* kAdapters = "*.lora_[ab]";

std::string In(const std::string& dir, const char* file) {
  return (std::filesystem::path(dir) / file).string();
}

// Error: the adapters are none of those in low_rank.h.
absl::Status CheckKind(const JsonValue& config) {
  MESHWORK_ASSIGN_OR_RETURN(const JsonValue type, config.Get("peft_type"));
  MESHWORK_ASSIGN_OR_RETURN(const std::string name, type.String());
  if (name != "LORA") return type.Unsupported("\"LORA\"");
  for (const char* key : {"use_dora", "use_rslora", "fan_in_fan_out"}) {
    if (config.IsOff(key)) continue;
    MESHWORK_ASSIGN_OR_RETURN(const JsonValue value, config.Get(key));
    return value.Unsupported("false");
  }
  for (const char* key : {"rank_pattern", "alpha_pattern"}) {
    if (!config.Has(key)) continue;
    MESHWORK_ASSIGN_OR_RETURN(const JsonValue value, config.Get(key));
    MESHWORK_ASSIGN_OR_RETURN(const std::vector<std::string> keys, value.Keys());
    if (!keys.empty()) return value.Unsupported("empty");
  }
  for (const char* key : {"layers_to_transform", "exclude_modules", "modules_to_save", "layer_replication"}) {
    if (!config.Has(key)) continue;
    MESHWORK_ASSIGN_OR_RETURN(const JsonValue value, config.Get(key));
    return value.Unsupported("null");
  }
  if (config.Has("bias")) {
    MESHWORK_ASSIGN_OR_RETURN(const JsonValue bias, config.Get("bias"));
    MESHWORK_ASSIGN_OR_RETURN(const std::string which, bias.String());
    if (which != "none") return bias.Unsupported("\"none\"");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LlamaAdapters> LlamaAdapters::Load(const std::string& dir) {
  const std::string path = In(dir, kConfig);
  MESHWORK_ASSIGN_OR_RETURN(const nlohmann::json json, ReadJsonFile(path));
  const JsonValue config(json, path);
  MESHWORK_RETURN_IF_ERROR(CheckKind(config));
  LlamaAdapters adapters;
  MESHWORK_ASSIGN_OR_RETURN(const JsonValue rank, config.Get("r"));
  MESHWORK_ASSIGN_OR_RETURN(adapters.rank, rank.Integer());
  MESHWORK_ASSIGN_OR_RETURN(adapters.alpha, config.RealOf("lora_alpha"));
  MESHWORK_ASSIGN_OR_RETURN(const JsonValue modules, config.Get("target_modules"));
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<JsonValue> names, modules.Items());
  adapters.modules.clear();
  for (const JsonValue& name : names) {
    MESHWORK_ASSIGN_OR_RETURN(adapters.modules.emplace_back(), name.String());
  }
  return adapters;
}

absl::StatusOr<LowRankOptions> LowRankOptionsOf(const LlamaAdapters& adapters, const LlamaConfig& config) {
  LowRankOptions options{.rank = adapters.rank, .alpha = adapters.alpha};
  const std::vector<WeightRule> rules = LlamaWeights(config).rules;
  for (const std::string& module : adapters.modules) {
    const auto rule = std::find_if(rules.begin(), rules.end(), [&](const WeightRule& rule) {
      return rule.transpose && rule.tensor.ends_with(fmt::format(".{}.weight", module));
    });
    if (rule == rules.end())
      return InvalidArgument(
          "Adapters of {}; those of a Llama are of q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj and down_proj.",
          Quoted(module));
    options.patterns.push_back(rule->variable);
  }
  return options;
}

absl::Status LoadAdapters(Session& session, const std::string& dir, const LlamaConfig& config) {
  return LoadWeights(session, In(dir, kWeights),
                     {.rules = PeftRules(LlamaWeights(config).rules), .only = {kAdapters}})
      .status();
}

absl::Status SaveAdapters(const Session& session, const std::string& dir, const LlamaAdapters& adapters,
                          const LlamaConfig& config, const std::string& base) {
  const nlohmann::ordered_json json = {{"peft_type", "LORA"},
                                       {"task_type", "CAUSAL_LM"},
                                       {"base_model_name_or_path", base},
                                       {"r", adapters.rank},
                                       {"lora_alpha", adapters.alpha},
                                       {"lora_dropout", 0.0},
                                       {"bias", "none"},
                                       {"fan_in_fan_out", false},
                                       {"inference_mode", true},
                                       {"target_modules", adapters.modules}};
  MESHWORK_RETURN_IF_ERROR(SaveWeights(session, In(dir, kWeights),
                                       {.rules = PeftRules(LlamaWeights(config).rules), .only = {kAdapters}})
                               .status());
  const DomainState here = session.Here();
  return AllAgree(
      here.transport, kConfig,
      here.domain() > 0
          ? absl::OkStatus()
          : WriteFileAtomically(
                In(dir, kConfig),
                json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n"));
}

namespace {

// The files of a model besides its weights.
absl::Status CopyOtherFiles(const std::string& from, const std::string& to) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(from, error)) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_regular_file() || name.ends_with(".safetensors") ||
        name.ends_with(".safetensors.index.json") || name.ends_with(".bin") || name.ends_with(".gguf"))
      continue;
    MESHWORK_ASSIGN_OR_RETURN(const std::string text, ReadFile(entry.path().string()));
    MESHWORK_RETURN_IF_ERROR(WriteFileAtomically(In(to, name.c_str()), text));
  }
  return error ? InvalidArgument("{}: cannot be read: {}.", Quoted(from), error.message()) : absl::OkStatus();
}

}  // namespace

absl::Status SaveModel(const Session& session, const std::string& dir, const LlamaConfig& config,
                       const std::string& base) {
  MESHWORK_RETURN_IF_ERROR(
      SaveWeights(session, dir, {.rules = LlamaWeights(config).rules, .except = {kAdapters, "cache/*"}})
          .status());
  const DomainState here = session.Here();
  return AllAgree(here.transport, "the files of the model",
                  here.domain() > 0 ? absl::OkStatus() : CopyOtherFiles(base, dir));
}

}  // namespace meshwork

// Writes on a prompt by a Llama whose weights somebody published, or tunes it to a text. See --help.
#include <cstdlib>
#include <filesystem>
#include <future>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "examples/llama/adapters.h"
#include "examples/llama/finetune.h"
#include "examples/llama/llama_config.h"
#include "examples/llama/text_loss.h"
#include "examples/llama/tokenizer.h"
#include "examples/llama/write.h"
#include "examples/support/training_run.h"
#include "meshwork/base/flags.h"
#include "meshwork/base/io/file.h"
#include "meshwork/base/status.h"
#include "meshwork/train.h"

namespace meshwork {
namespace {

struct LlamaOptions {
  std::string model;
  RunOptions run{.mesh = "model=1"};
  WriteOptions write;
  Sampling sampling;
  int64_t context = 0;
  std::string temperature = "0", top_p = "1";
  std::string text, adapters, merged;  // --finetune, --adapters, --merge
  std::string measured;                // --perplexity
  FineTuneOptions tune;
  bool tunes_feed_forward = false;
  std::string help;  // its text, if it was asked for
};

absl::StatusOr<double> Number(const std::string& flag, const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0') return InvalidArgument("--{}={} is no number.", flag, text);
  return number;
}

void AddWritingFlags(FlagTable& flags, LlamaOptions& o) {
  flags.Texts("prompt", "what is written on; several are written on at a time", &o.write.prompts);
  flags.Switch("chat", "the prompt is a message, to be answered, in the form of ChatML", &o.write.is_chat);
  flags.Text("system", "with --chat: a message before it, which says how to answer", &o.write.system);
  flags.Int("tokens", "the most tokens that are written", &o.write.tokens, 1);
  flags.Int("context", "the longest text, in tokens; 0: 2048, or what the model has if that is less",
            &o.context, 0);
  flags.Text("temperature", "0: always the most likely token; else logits are divided by it", &o.temperature);
  flags.Int("top-k", "tokens are drawn among the k most likely ones; 0: all", &o.sampling.top_k, 0);
  flags.Text("top-p", "tokens are drawn among the most likely ones with this probability", &o.top_p);
  flags.Switch("stats", "says how long it took, to standard error", &o.write.stats);
}

void AddTextFlags(FlagTable& flags, LlamaOptions& o) {
  flags.Text("perplexity", "a file with a text: says how well the model predicts it, instead of writing",
             &o.measured);
  flags.Int("batch-size", "with --finetune and --perplexity: parts of the text at a time", &o.tune.text.batch,
            1);
  flags.Int("length", "tokens of each part", &o.tune.text.length, 1);
}

void AddTuningFlags(FlagTable& flags, LlamaOptions& o) {
  flags.Text("finetune", "a file with a text: trains low-rank adapters to write like it, instead of writing",
             &o.text);
  flags.Text(
      "adapters",
      "the folder of adapters, as PEFT has them: --finetune writes it, --prompt and --perplexity use it",
      &o.adapters);
  flags.Text("merge", "with --finetune: a folder for the model with the adapters in its weights", &o.merged);
  flags.Int("rank", "of the adapters", &o.tune.adapters.rank, 1);
  flags.Real("alpha", "the adapters' products count alpha / rank times", &o.tune.adapters.alpha, 0);
  flags.Switch("feed-forward", "adapters for the products of the feed-forward layers, too",
               &o.tunes_feed_forward);
  flags.Int("steps", "of --finetune", &o.tune.steps, 1);
  flags.Real("rate", "the learning rate of --finetune, by Adam", &o.tune.rate, 0);
}

absl::Status CheckOptions(const LlamaOptions& o) {
  if (o.model.empty()) return InvalidArgument("--model is missing; see --help.");
  const int tasks = static_cast<int>(!o.write.prompts.empty()) + static_cast<int>(!o.text.empty()) +
                    static_cast<int>(!o.measured.empty());
  if (tasks != 1)
    return InvalidArgument("give one of --prompt, --finetune and --perplexity, not {}; see --help.",
                           tasks == 0 ? "none" : "several");
  if (!o.text.empty() && o.adapters.empty() && o.merged.empty())
    return InvalidArgument(
        "--finetune without --adapters and --merge keeps nothing; name a folder by one of them.");
  if (o.text.empty() && !o.merged.empty()) return InvalidArgument("--merge without --finetune; give a text.");
  if (o.run.join.recover != "off")
    return InvalidArgument("--recover={}; nothing is kept to go on from, so a lost process ends the others.",
                           o.run.join.recover);
  return absl::OkStatus();
}

absl::StatusOr<LlamaOptions> ParseOptions(int argc, const char* const* argv) {
  LlamaOptions o;
  FlagTable flags(
      "llama",
      "Writes on a prompt by a Llama, Mistral or Qwen2 of Hugging Face, tunes it to a text, or measures it by one. The\n"
      "model is a folder with config.json, tokenizer.json and the weights. `meshwork import gguf` makes one of a GGUF\n"
      "file; with --keep-blocks its weights of 8 and 4 bits stay so, to write and to measure.");
  flags.Text("model", "the folder", &o.model);
  flags.Text("mesh", "named axes; \"model\" cuts the weights, \"batch\" the texts", &o.run.mesh);
  AddWritingFlags(flags, o);
  AddTuningFlags(flags, o);
  AddTextFlags(flags, o);
  flags.Int("seed", "of what is drawn: tokens, or adapters and the order of the texts", &o.run.seed, 0);
  flags.Int("workers", "threads; 0: one per core", &o.run.workers, 0, 1024);
  AddJoinFlags(flags, &o.run.join);
  MESHWORK_RETURN_IF_ERROR(flags.Parse(argc, argv));
  if (flags.help_asked()) {
    o.help = flags.Help();
    return o;
  }
  MESHWORK_RETURN_IF_ERROR(CheckOptions(o));
  MESHWORK_ASSIGN_OR_RETURN(o.sampling.temperature, Number("temperature", o.temperature));
  MESHWORK_ASSIGN_OR_RETURN(o.sampling.top_p, Number("top-p", o.top_p));
  o.sampling.seed = o.run.seed;
  if (o.tunes_feed_forward)
    for (const char* module : {"gate_proj", "up_proj", "down_proj"})
      o.tune.adapters.modules.emplace_back(module);
  return o;
}

// Hours of training are not to end with a folder that cannot be written, or with the loss of the model.
absl::Status CheckFolders(const LlamaOptions& o) {
  std::error_code ignored;
  if (!o.merged.empty() && std::filesystem::equivalent(o.model, o.merged, ignored))
    return InvalidArgument("--merge={} is the folder of the model; give another one.", o.merged);
  for (const std::string& folder : {o.adapters, o.merged}) {
    if (folder.empty() || !o.run.is_chief()) continue;
    MESHWORK_RETURN_IF_ERROR(MakeFolders(folder));
    MESHWORK_RETURN_IF_ERROR(CheckWritable(folder + "/config.json"));
  }
  return absl::OkStatus();
}

absl::Status Tune(const LlamaOptions& o, const LlamaConfig& config, const Tokenizer& tokenizer,
                  const Mesh& mesh, const SessionOptions& session) {
  MESHWORK_RETURN_IF_ERROR(CheckFolders(o));
  MESHWORK_ASSIGN_OR_RETURN(const std::string text, ReadFile(o.text));
  FineTuneOptions tune = o.tune;
  tune.session = session;
  tune.callbacks = {ProgressBar(), StopOnNan()};
  absl::StatusOr<FineTuned> tuned =
      FineTune(config, mesh, o.model, tokenizer.Encode(text, {.add_bos = true}), tune);
  if (!tuned.ok()) return Annotate(tuned.status(), fmt::format("{}: ", o.text));
  if (!o.adapters.empty()) {
    MESHWORK_RETURN_IF_ERROR(SaveAdapters(tuned->session, o.adapters, tune.adapters, config, o.model));
    fmt::print("adapters: {}\n", o.adapters);
  }
  if (o.merged.empty()) return absl::OkStatus();
  MESHWORK_RETURN_IF_ERROR(MergeLowRankAdapters(tuned->session, tuned->adapters));
  MESHWORK_RETURN_IF_ERROR(SaveModel(tuned->session, o.merged, config, o.model));
  fmt::print("merged: {}\n", o.merged);
  return absl::OkStatus();
}

absl::Status Measure(const LlamaOptions& o, const LlamaConfig& config, const Tokenizer& tokenizer,
                     const Mesh& mesh, const SessionOptions& session) {
  MESHWORK_ASSIGN_OR_RETURN(const std::string text, ReadFile(o.measured));
  const std::vector<int32_t> tokens = tokenizer.Encode(text, {.add_bos = true});
  const absl::StatusOr<Perplexity> perplexity = PerplexityOf(
      config, mesh, o.model, tokens, {.text = o.tune.text, .adapters = o.adapters, .session = session});
  if (!perplexity.ok()) return Annotate(perplexity.status(), fmt::format("{}: ", o.measured));
  if (o.run.is_chief()) fmt::print("perplexity: {:.4f}, tokens: {}\n", perplexity->value, perplexity->tokens);
  return absl::OkStatus();
}

absl::Status Main(const LlamaOptions& o) {
  MESHWORK_ASSIGN_OR_RETURN(const LlamaConfig config, LlamaConfig::Load(o.model + "/config.json"));
  MESHWORK_ASSIGN_OR_RETURN(const Mesh mesh, MeshOf(o.run));
  SessionOptions session{
      .workers = static_cast<int>(o.run.workers), .seed = o.run.seed, .gather_outputs = true};
  o.run.processes->Use(session);
  const auto load = [&] { return Tokenizer::Load(o.model + "/tokenizer.json"); };
  if (o.write.prompts.empty()) {
    MESHWORK_ASSIGN_OR_RETURN(const Tokenizer tokenizer, load());
    return o.text.empty() ? Measure(o, config, tokenizer, mesh, session)
                          : Tune(o, config, tokenizer, mesh, session);
  }
  WriteOptions write = o.write;
  write.stats = write.stats && o.run.is_chief();
  return Write(
      config, std::async(std::launch::async, load), mesh, o.model, write,
      {.context = o.context, .sampling = o.sampling, .adapters = o.adapters, .session = std::move(session)});
}

}  // namespace
}  // namespace meshwork

int main(int argc, char** argv) {
  using namespace meshwork;
  return RunMain("llama", [&]() -> absl::Status {
    MESHWORK_ASSIGN_OR_RETURN(LlamaOptions options, ParseOptions(argc, argv));
    if (!options.help.empty()) {
      fmt::print("{}", options.help);
      return absl::OkStatus();
    }
    if (!options.text.empty()) CatchStopSignals();
    return RunWithOthers(options.run, [&] { return Main(options); });
  });
}

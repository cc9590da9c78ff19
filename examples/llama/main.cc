// Writes on a prompt by a Llama whose weights somebody published. See --help.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "examples/llama/generator.h"
#include "examples/llama/llama_config.h"
#include "examples/llama/stream_decoder.h"
#include "examples/llama/tokenizer.h"
#include "meshwork/base/flags.h"
#include "meshwork/base/status.h"
#include "meshwork/train.h"

namespace meshwork {
namespace {

struct LlamaOptions {
  std::string model, mesh = "model=1", system;
  std::vector<std::string> prompts;
  int64_t tokens = 200, context = 0, top_k = 0, seed = 0, workers = 0;
  std::string temperature = "0", top_p = "1";
  bool chat = false, stats = false;
  bool help = false;
  std::string help_text;
};

absl::StatusOr<double> Number(const std::string& flag, const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0') return InvalidArgument("llama: --{}={} is no number.", flag, text);
  return number;
}

absl::StatusOr<LlamaOptions> ParseOptions(int argc, const char* const* argv) {
  LlamaOptions o;
  FlagTable flags(
      "llama",
      "Writes on a prompt by a Llama, Mistral or Qwen2 of Hugging Face: a folder with config.json,\n"
      "tokenizer.json and the weights. `meshwork import gguf` makes one of a GGUF file.");
  flags.Text("model", "the folder", &o.model);
  flags.Texts("prompt", "what is written on; several are written on at a time", &o.prompts);
  flags.Switch("chat", "the prompt is a message, to be answered, in the form of ChatML", &o.chat);
  flags.Text("system", "with --chat: a message before it, which says how to answer", &o.system);
  flags.Text("mesh", "named axes; \"model\" cuts the weights", &o.mesh);
  flags.Int("tokens", "the most tokens that are written", &o.tokens, 1);
  flags.Int("context", "the longest text, in tokens; 0: 2048, or what the model has if that is less",
            &o.context, 0);
  flags.Text("temperature", "0: always the most likely token; else logits are divided by it", &o.temperature);
  flags.Int("top-k", "tokens are drawn among the k most likely ones; 0: all", &o.top_k, 0);
  flags.Text("top-p", "tokens are drawn among the most likely ones with this probability", &o.top_p);
  flags.Int("seed", "of what is drawn", &o.seed, 0);
  flags.Int("workers", "threads; 0: one per core", &o.workers, 0, 1024);
  flags.Switch("stats", "says how long it took, to standard error", &o.stats);
  MESHWORK_RETURN_IF_ERROR(flags.Parse(argc, argv));
  o.help = flags.help_asked();
  o.help_text = flags.Help();
  if (o.help) return o;
  if (o.model.empty()) return InvalidArgument("llama: --model is missing; see --help.");
  if (o.prompts.empty()) return InvalidArgument("llama: --prompt is missing; see --help.");
  return o;
}

std::string AsChat(const LlamaOptions& o, const std::string& prompt) {
  const auto message = [](std::string_view who, std::string_view text) {
    return fmt::format("<|im_start|>{}\n{}<|im_end|>\n", who, text);
  };
  return (o.system.empty() ? "" : message("system", o.system)) + message("user", prompt) +
         "<|im_start|>assistant\n";
}

class Clock {
 public:
  // Seconds since the last call.
  double Lap() {
    const auto now = std::chrono::steady_clock::now();
    return std::chrono::duration<double>(now - std::exchange(last_, now)).count();
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// What is written on a prompt.
class Text {
 public:
  // is_shown: it is printed as it comes.
  Text(const Tokenizer& tokenizer, bool is_shown)
      : stream_(tokenizer, {.skip_special = true}), is_shown_(is_shown) {}

  void Add(int32_t token, const LlamaConfig& config) {
    is_over_ = std::count(config.ends.begin(), config.ends.end(), token) > 0;
    if (!is_over_) Put(stream_.Add(token));
  }
  void End() { is_over_ = true; }
  // A token said that it ends here, or End did.
  bool is_over() const { return is_over_; }
  // What was not printed.
  std::string Rest() {
    rest_ += stream_.Finish();
    return rest_;
  }

 private:
  void Put(const std::string& text) {
    if (!is_shown_) {
      rest_ += text;
      return;
    }
    fmt::print("{}", text);
    std::fflush(stdout);
  }

  StreamDecoder stream_;
  bool is_shown_, is_over_ = false;
  std::string rest_;
};

absl::Status Run(const LlamaOptions& o) {
  Clock clock;
  MESHWORK_ASSIGN_OR_RETURN(const LlamaConfig config, LlamaConfig::Load(o.model + "/config.json"));
  MESHWORK_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::Load(o.model + "/tokenizer.json"));
  MESHWORK_ASSIGN_OR_RETURN(const Mesh mesh, Mesh::VirtualCpus(o.mesh));
  MESHWORK_ASSIGN_OR_RETURN(const double temperature, Number("temperature", o.temperature));
  MESHWORK_ASSIGN_OR_RETURN(const double top_p, Number("top-p", o.top_p));
  GeneratorOptions options{
      .rows = std::ssize(o.prompts),
      .context = o.context,
      .sampling = {.temperature = temperature, .top_k = o.top_k, .top_p = top_p, .seed = o.seed}};
  options.session.workers = static_cast<int>(o.workers);
  MESHWORK_ASSIGN_OR_RETURN(Generator generator, Generator::Create(config, mesh, o.model, options));
  const double load = clock.Lap();
  std::vector<Text> texts;
  size_t read_tokens = 0;
  for (const std::string& prompt : o.prompts) {
    const std::vector<int32_t> tokens =
        tokenizer.Encode(o.chat ? AsChat(o, prompt) : prompt, {.add_bos = true});
    read_tokens += tokens.size();
    texts.emplace_back(tokenizer, /*is_shown=*/o.prompts.size() == 1);
    MESHWORK_ASSIGN_OR_RETURN(const int32_t token, generator.Begin(std::ssize(texts) - 1, tokens));
    texts.back().Add(token, config);
  }
  const double read = clock.Lap();
  int64_t written = std::ssize(texts), steps = 1;
  // Ends the texts that an end token, --tokens or the context ends. Whether any goes on.
  const auto any_goes_on = [&] {
    bool any = false;
    for (size_t row = 0; row < texts.size(); ++row) {
      const auto r = static_cast<int64_t>(row);
      if (!texts[row].is_over() && (steps >= o.tokens || generator.length(r) >= generator.context()))
        texts[row].End();
      if (texts[row].is_over()) generator.End(r);
      else any = true;
    }
    return any;
  };
  for (; any_goes_on(); ++steps) {
    MESHWORK_ASSIGN_OR_RETURN(const std::vector<int32_t> next, generator.Next());
    for (size_t row = 0; row < texts.size(); ++row) {
      if (texts[row].is_over()) continue;
      texts[row].Add(next[row], config);
      ++written;
    }
  }
  for (size_t row = 0; row < texts.size(); ++row) {
    if (texts.size() > 1) fmt::print("{}--- {}\n", row > 0 ? "\n" : "", o.prompts[row]);
    fmt::print("{}\n", texts[row].Rest());
  }
  if (o.stats) {
    const double write = clock.Lap();
    fmt::print(
        stderr,
        "loaded {:.1f} MiB in {:.2f} s; read {} tokens in {:.3f} s; wrote {} in {:.3f} s, {:.1f} per second\n",
        static_cast<double>(generator.loaded().bytes_read) / (1 << 20), load, read_tokens, read, written,
        write, static_cast<double>(written - std::ssize(texts)) / write);
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace meshwork

int main(int argc, char** argv) {
  using namespace meshwork;
  const absl::StatusOr<LlamaOptions> options = ParseOptions(argc, argv);
  if (!options.ok()) {
    fmt::print(stderr, "{}\n", MessageOf(options.status()));
    return 2;
  }
  if (options->help) {
    fmt::print("{}", options->help_text);
    return 0;
  }
  if (const absl::Status status = Run(*options); !status.ok()) {
    fmt::print(stderr, "llama: {}\n", MessageOf(status));
    return 1;
  }
  return 0;
}

#include "examples/llama/write.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string_view>
#include <utility>

#include "examples/llama/stream_decoder.h"
#include "fmt/format.h"
#include "meshwork/base/status.h"

namespace meshwork {
namespace {

std::string AsChat(const WriteOptions& o, const std::string& prompt) {
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

}  // namespace

absl::Status Write(const LlamaConfig& config, std::future<absl::StatusOr<Tokenizer>> loading,
                   const Mesh& mesh, const std::string& dir, const WriteOptions& o,
                   GeneratorOptions options) {
  Clock clock;
  options.rows = std::ssize(o.prompts);
  MESHWORK_ASSIGN_OR_RETURN(Generator generator, Generator::Create(config, mesh, dir, options));
  MESHWORK_ASSIGN_OR_RETURN(const Tokenizer tokenizer, loading.get());
  const double load = clock.Lap();
  std::vector<Text> texts;
  size_t read_tokens = 0;
  for (const std::string& prompt : o.prompts) {
    const std::vector<int32_t> tokens =
        tokenizer.Encode(o.is_chat ? AsChat(o, prompt) : prompt, {.add_bos = true});
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

}  // namespace meshwork

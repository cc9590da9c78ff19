#include "examples/llama/generator.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "examples/llama/adapters.h"
#include "examples/llama/llama.h"
#include "meshwork/base/status.h"

namespace meshwork {
namespace {

constexpr int64_t kContext = 2048;
constexpr double kLeastTemperature = 1e-3;  // logits stay finite
// The sizes of parts of prompts.
constexpr int64_t kParts[] = {16, 64, 256, 1024};

// logits: [b,vocabulary] -> i32[b]. step: i64[], another one for each draw.
Value Choose(const Value& logits, const Sampling& sampling, const Value& step) {
  if (sampling.temperature == 0) return Argmax(logits, 1);
  Value likely = logits / sampling.temperature;
  if (sampling.top_k > 0) likely = KeepTopK(likely, std::min(sampling.top_k, logits.shape()[1]));
  if (sampling.top_p < 1) likely = KeepTopP(likely, sampling.top_p);
  return RandomCategorical(likely, sampling.seed, /*stream=*/0, step);
}

// Caches are cut along "model" as the heads are, and by rows along "batch".
LayoutRules CachedLayouts(const LlamaConfig& config) {
  LayoutRules layouts = LlamaLayouts(config);
  layouts.layouts.push_back({"cache/*", {"batch", UNSHARDED, "model", UNSHARDED}});
  return layouts;
}

// The caches of all layers; the step is of `first_row` alone, if it is given.
AttentionCaches CachesOf(Graph& g, const LlamaConfig& config, const GeneratorOptions& options,
                         int64_t context, const Value& places, const Value& first_row = {}) {
  return AttentionCaches(g, "cache", config.layers,
                         {.rows = options.rows,
                          .context = context,
                          .kv_heads = config.kv_heads,
                          .head = config.head,
                          .first_row = first_row},
                         places);
}

// Of each row one token, which is put at its place in the cache -> the next one.
Graph WritingGraph(const LlamaConfig& config, const Mesh& mesh, const GeneratorOptions& options,
                   const std::optional<LowRankOptions>& adapters, int64_t context) {
  Graph g(mesh);
  g.name = "write";
  LayoutRules layouts = CachedLayouts(config);
  layouts.layouts.push_back({"tokens", {"batch", UNSHARDED}});
  layouts.layouts.push_back({"places", {"batch"}});
  g.SetLayouts(layouts);
  const Value tokens = g.Input("tokens", I32, {options.rows, 1}),
              places = g.Input("places", I32, {options.rows});
  const Value step = g.Input("step", I64, {});
  const Llama llama(g, config);
  AttentionCaches caches = CachesOf(g, config, options, context, places);
  const Value logits = Squeeze(llama.Logits(llama(tokens, caches.layers())), 1);
  g.Output("next", Choose(logits, options.sampling, step));
  caches.Update();
  if (adapters.has_value()) AddLowRankAdapters(g, *adapters);
  return g;
}

// The next `size` tokens of one row, of which the first `count` count -> the token behind them.
Graph ReadingGraph(const LlamaConfig& config, const Mesh& mesh, const GeneratorOptions& options,
                   const std::optional<LowRankOptions>& adapters, int64_t context, int64_t size) {
  Graph g(mesh);
  g.name = fmt::format("read{}", size);
  g.SetLayouts(CachedLayouts(config));
  const Value tokens = g.Input("part", I32, {1, size}), place = g.Input("place", I32, {1});
  const Value count = g.Input("count", I32, {1}), row = g.Input("row", I32, {1}),
              step = g.Input("step", I64, {});
  const Llama llama(g, config);
  AttentionCaches caches = CachesOf(g, config, options, context, place, options.rows == 1 ? Value() : row);
  const Value last = DynamicSlice(llama(tokens, caches.layers()), count - 1, {1}, {1});  // [1,1,units]
  g.Output("next", Choose(Squeeze(llama.Logits(last), 1), options.sampling, step));
  caches.Update();
  if (adapters.has_value()) AddLowRankAdapters(g, *adapters);
  return g;
}

absl::Status CheckOptions(const LlamaConfig& config, const GeneratorOptions& options) {
  const Sampling& s = options.sampling;
  if (options.rows < 1) return InvalidArgument("rows={} is below 1.", options.rows);
  if (options.context < 0 || options.context > config.positions)
    return InvalidArgument("context={}; the model was made for 1 to {} tokens.", options.context,
                           config.positions);
  if (s.temperature != 0 && !(s.temperature >= kLeastTemperature && std::isfinite(s.temperature)))
    return InvalidArgument("temperature={}; give 0, or a number from {} on.", s.temperature,
                           kLeastTemperature);
  if (s.top_k < 0) return InvalidArgument("top_k={} is below 0.", s.top_k);
  if (!(s.top_p > 0 && s.top_p <= 1)) return InvalidArgument("top_p={} is not in (0, 1].", s.top_p);
  return absl::OkStatus();
}

}  // namespace

Generator::Generator(const LlamaConfig& config, const Mesh& mesh, std::vector<QuantizeWeightsOptions> stored,
                     const GeneratorOptions& options, int64_t context, std::optional<LowRankOptions> adapters,
                     Session session, LoadedWeights loaded)
    : config_(config),
      mesh_(mesh),
      stored_(std::move(stored)),
      options_(options),
      context_(context),
      adapters_(std::move(adapters)),
      session_(std::move(session)),
      loaded_(std::move(loaded)),
      last_(static_cast<size_t>(options.rows), 0),
      lengths_(static_cast<size_t>(options.rows), 0),
      has_text_(static_cast<size_t>(options.rows), false) {}

absl::StatusOr<Generator> Generator::Create(const LlamaConfig& config, const Mesh& mesh,
                                            const std::string& dir, const GeneratorOptions& options) {
  MESHWORK_RETURN_IF_ERROR(CheckOptions(config, options));
  const int64_t context = options.context > 0 ? options.context : std::min(kContext, config.positions);
  std::optional<LowRankOptions> adapters;
  if (!options.adapters.empty()) {
    MESHWORK_ASSIGN_OR_RETURN(const LlamaAdapters kept, LlamaAdapters::Load(options.adapters));
    MESHWORK_ASSIGN_OR_RETURN(adapters, LowRankOptionsOf(kept, config));
  }
  const LoadWeightsOptions load = LlamaWeights(config);
  Graph graph = WritingGraph(config, mesh, options, adapters, context);
  MESHWORK_ASSIGN_OR_RETURN(auto stored, StoredInBlocks(graph, dir, load.rules));
  MESHWORK_ASSIGN_OR_RETURN(graph, InBlocks(std::move(graph), stored));
  MESHWORK_ASSIGN_OR_RETURN(Session session, Session::Create(graph, options.session));
  MESHWORK_ASSIGN_OR_RETURN(LoadedWeights loaded, LoadWeights(session, dir, load));
  if (adapters.has_value()) MESHWORK_RETURN_IF_ERROR(LoadAdapters(session, options.adapters, config));
  return Generator(config, mesh, std::move(stored), options, context, std::move(adapters), std::move(session),
                   std::move(loaded));
}

absl::StatusOr<Session*> Generator::Reader(int64_t size) {
  const auto found = readers_.find(size);
  if (found != readers_.end()) return &found->second;
  MESHWORK_ASSIGN_OR_RETURN(
      const Graph graph,
      InBlocks(ReadingGraph(config_, mesh_, options_, adapters_, context_, size), stored_));
  MESHWORK_ASSIGN_OR_RETURN(Session reader, session_.Share(graph));
  return &readers_.emplace(size, std::move(reader)).first->second;
}

absl::StatusOr<int32_t> Generator::Begin(int64_t row, std::span<const int32_t> prompt) {
  if (row < 0 || row >= options_.rows)
    return InvalidArgument("row {}; there are {} rows, from 0 on.", row, options_.rows);
  const int64_t size = std::ssize(prompt);
  if (size == 0)
    return InvalidArgument("A prompt without tokens; give one at least, such as the model's first one.");
  if (size >= context_)
    return InvalidArgument("A prompt of {} tokens; the context of {} holds at most {} and an answer.", size,
                           context_, context_ - 1);
  for (const int32_t token : prompt)
    if (token < 0 || token >= config_.vocabulary)
      return InvalidArgument("Token {}; the model has {} tokens, from 0 on.", token, config_.vocabulary);
  const auto r = static_cast<size_t>(row);
  End(row);
  for (int64_t begin = 0; begin < size;) {
    // The smallest part that holds the rest, or the largest part; none that goes beyond the context.
    int64_t part = kParts[0];
    for (const int64_t larger : kParts)
      if (part < size - begin && begin + larger <= context_) part = larger;
    part = std::min(part, context_ - begin);
    const int64_t count = std::min(part, size - begin);
    MESHWORK_ASSIGN_OR_RETURN(Session* const reader, Reader(part));
    std::vector<int32_t> tokens(static_cast<size_t>(part), 0);
    std::copy_n(prompt.begin() + begin, count, tokens.begin());
    const auto one = [](int64_t x) { return Tensor::From<int32_t>({1}, {static_cast<int32_t>(x)}); };
    MESHWORK_ASSIGN_OR_RETURN(const StepResult result,
                              reader->Run({{"part", Tensor::From<int32_t>({1, part}, tokens)},
                                           {"place", one(begin)},
                                           {"count", one(count)},
                                           {"row", one(row)},
                                           {"step", Tensor::From<int64_t>({}, {draws_++})}}));
    MESHWORK_ASSIGN_OR_RETURN(const Tensor next, result.Get("next"));
    last_[r] = next.values<int32_t>()[0];
    begin += count;
  }
  lengths_[r] = static_cast<int32_t>(size);
  has_text_[r] = true;
  return last_[r];
}

absl::StatusOr<std::vector<int32_t>> Generator::Next() {
  for (int64_t row = 0; row < options_.rows; ++row)
    if (has_text_[static_cast<size_t>(row)] && length(row) >= context_)
      return InvalidArgument("The text of row {} has {} tokens, as many as the context holds.", row,
                             context_);
  // A row without a text writes to its first place, which the next text begins with.
  const int64_t rows = options_.rows;
  MESHWORK_ASSIGN_OR_RETURN(const StepResult result,
                            session_.Run({{"tokens", Tensor::From<int32_t>({rows, 1}, last_)},
                                          {"places", Tensor::From<int32_t>({rows}, lengths_)},
                                          {"step", Tensor::From<int64_t>({}, {draws_++})}}));
  MESHWORK_ASSIGN_OR_RETURN(const Tensor next, result.Get("next"));
  for (size_t r = 0; r < last_.size(); ++r) {
    if (!has_text_[r]) continue;
    last_[r] = next.values<int32_t>()[r];
    ++lengths_[r];
  }
  return last_;
}

void Generator::End(int64_t row) {
  const auto r = static_cast<size_t>(row);
  has_text_[r] = false;
  last_[r] = lengths_[r] = 0;
}

}  // namespace meshwork

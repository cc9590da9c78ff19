#include "benchmarks/gpu_step/transformers.h"

#include <string>
#include <utility>

#include "benchmarks/gpu_step/training.h"

namespace meshwork {
namespace {

constexpr int64_t kClasses = 1000, kPatch = 16;
constexpr int32_t kNotMasked = -1;  // the label of a token that is not to be found

struct EncoderSizes {
  int64_t layers, dim, heads;
};

// The common part of encoders and decoders.
class Transformer {
 public:
  Transformer(Graph& graph, const EncoderSizes& sizes, const AttentionOptions& attention)
      : graph_(graph), sizes_(sizes), attention_(attention) {}

 protected:
  LayerNormalization Norm(const char* name) const {
    return LayerNormalization(graph_, name, {.epsilon = kEpsilon});
  }
  RmsNormalization RootNorm(const char* name) const {
    return RmsNormalization(graph_, name, {.epsilon = kEpsilon});
  }
  Value Project(const char* name, const Value& x, int64_t units, bool bias) const {
    return Dense(graph_, name, units, {.kernel_initializer = NormalRandom(0, 0.02), .bias = bias})(x);
  }

  // x: [b,s,dim] -> [b,s,dim].
  Value Attend(const Value& x, bool bias, bool rotary) const {
    const auto by_heads = [&](const char* name, bool turns) {
      const Value y = Reshape(Project(name, x, sizes_.dim, bias),
                              {x.shape()[0], x.shape()[1], sizes_.heads, sizes_.dim / sizes_.heads});
      return turns ? RotaryPositions(y) : y;
    };
    const Value y = Attention(by_heads("query", rotary), by_heads("key", rotary),
                              by_heads("value", /*turns=*/false), attention_);
    return Project("out", Reshape(y, x.shape()), sizes_.dim, bias);
  }

  // A variable of the graph, shared by all examples.
  Value Learned(const char* name, const Shape& shape, const Value& like) const {
    return Cast(graph_.Var(name, NormalRandom(shape, 0, 0.02)), like.dtype());
  }

  static constexpr double kEpsilon = 1e-5;
  Graph& graph_;
  const EncoderSizes sizes_;
  const AttentionOptions attention_;
};

class Decoder : Transformer {
 public:
  Decoder(Graph& graph, const EncoderSizes& sizes) : Transformer(graph, sizes, {.causal = true}) {}

  // tokens: [b,s] -> logits: [b,s,vocabulary].
  Value operator()(const Value& tokens, int64_t vocabulary) const {
    Value x = Embedding(graph_, "embedding", vocabulary, sizes_.dim)(tokens);
    for (int64_t layer = 0; layer < sizes_.layers; ++layer) {
      const NameScope scope(graph_, fmt::format("block{}", layer));
      x = x + Attend(RootNorm("norm1")(x), /*bias=*/false, /*rotary=*/true);
      x = x + Gated(RootNorm("norm2")(x));
    }
    return Project("head", RootNorm("norm")(x), vocabulary, /*bias=*/false);
  }

 private:
  Value Gated(const Value& x) const {
    const int64_t hidden = 8 * sizes_.dim / 3;
    const Value gate = Silu(Project("gate", x, hidden, false));
    return Project("down", gate * Project("up", x, hidden, false), sizes_.dim, false);
  }
};

class Encoder : Transformer {
 public:
  Encoder(Graph& graph, const EncoderSizes& sizes, const AttentionOptions& attention = {})
      : Transformer(graph, sizes, attention) {}

  // images: [b,h,w,3] -> logits: [b,1000].
  Value ClassesOf(const Value& images) const {
    const Conv2D patches(graph_, "patches", sizes_.dim, {kPatch, kPatch},
                         {.window = {.strides = {kPatch, kPatch}}});
    Value x = patches(images);
    const int64_t batch = x.shape()[0], count = x.shape()[1] * x.shape()[2];
    const Value token =
        BroadcastTo(Learned("class", {1, 1, sizes_.dim}, x), {batch, 1, sizes_.dim}, {0, 1, 2});
    x = Concat({token, Reshape(x, {batch, count, sizes_.dim})}, 1) +
        Learned("positions", {1, count + 1, sizes_.dim}, x);
    for (int64_t layer = 0; layer < sizes_.layers; ++layer) {
      const NameScope scope(graph_, fmt::format("block{}", layer));
      x = x + Attend(Norm("norm1")(x), /*bias=*/true, /*rotary=*/false);
      x = x + FeedForward(Norm("norm2")(x));
    }
    return Project("head", Norm("norm")(Squeeze(SliceDim(x, 1, 0, 1), 1)), kClasses, /*bias=*/true);
  }

  // tokens, segments: [b,s] -> logits: [b,s,vocabulary].
  Value TokensOf(const Value& tokens, const Value& segments, int64_t vocabulary) const {
    const Embedding embedding(graph_, "embedding", vocabulary, sizes_.dim);
    Value x = embedding(tokens);
    x = x + Learned("positions", {tokens.shape()[1], sizes_.dim}, x) +
        Embedding(graph_, "segments", 2, sizes_.dim)(segments);
    x = Norm("norm")(x);
    for (int64_t layer = 0; layer < sizes_.layers; ++layer) {
      const NameScope scope(graph_, fmt::format("block{}", layer));
      x = Norm("norm1")(x + Attend(x, /*bias=*/true, /*rotary=*/false));
      x = Norm("norm2")(x + FeedForward(x));
    }
    x = Norm("head_norm")(Gelu(Project("head", x, sizes_.dim, /*bias=*/true)));
    const Value logits =
        MatMul(x, Cast(embedding.table(), x.dtype()), /*transpose_a=*/false, /*transpose_b=*/true);
    return logits + Cast(graph_.Var("head_bias", Zeros({vocabulary})), x.dtype());
  }

 private:
  Value FeedForward(const Value& x) const {
    return Project("down", Gelu(Project("up", x, 4 * sizes_.dim, true)), sizes_.dim, true);
  }
};

EncoderSizes SizesOf(const GpuOptions& o) { return {o.gpt.layers, o.gpt.dim, o.gpt.heads}; }

nlohmann::ordered_json AboutOf(const GpuOptions& o, const char* model, int64_t batch,
                               nlohmann::ordered_json others) {
  nlohmann::ordered_json about = {{"model", model},   {"batch", batch},       {"layers", o.gpt.layers},
                                  {"dim", o.gpt.dim}, {"heads", o.gpt.heads}, {"precision", o.compute}};
  about.update(others);
  return about;
}

void Train(Graph& graph, const Value& loss, double learning_rate) {
  Adam({.learning_rate = learning_rate}).Minimize(loss);
  graph.Output("loss", loss);
}

Feeds TokenFeeds(Random& random, const Shape& shape, int64_t vocabulary) {
  return {{"tokens", RandomNumbers(random, shape, vocabulary)},
          {"targets", RandomNumbers(random, shape, vocabulary)}};
}

// After its length a sequence consists of padding.
Feeds BertFeeds(Random& random, int64_t batch, int64_t sequence, int64_t vocabulary, bool by_mask) {
  std::vector<int32_t> targets, lengths;
  std::vector<uint8_t> is_token;
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t least = (sequence + 1) / 2;
    const auto length =
        least + static_cast<int64_t>(random.Below(static_cast<uint64_t>(sequence - least + 1)));
    for (int64_t s = 0; s < sequence; ++s) {
      const auto token = static_cast<int32_t>(random.Below(static_cast<uint64_t>(vocabulary)));
      targets.push_back(s < length && random.Uniform() < 0.15 ? token : kNotMasked);
      is_token.push_back(s < length ? 1 : 0);
      lengths.push_back(static_cast<int32_t>(length));
    }
  }
  const Shape shape = {batch, sequence};
  Feeds feeds = {{"tokens", RandomNumbers(random, shape, vocabulary)},
                 {"segments", RandomNumbers(random, shape, 2)},
                 {"targets", Tensor::From<int32_t>(shape, targets)}};
  if (by_mask) feeds.insert({"mask", Tensor::From<uint8_t>(shape, is_token).Cast(BOOL)});
  else feeds.insert({"lengths", Tensor::From<int32_t>(shape, lengths)});
  return feeds;
}

}  // namespace

std::vector<GpuWorkPlan> GptPlans(const GpuOptions& o) {
  const int64_t batch = o.transformer.gpt_batch;
  const GptModel model = o.gpt;
  return TrainingPlans(
      o, {.name = fmt::format("gpt/{}", batch),
          .about = AboutOf(o, "gpt", batch, {{"sequence", model.sequence}, {"vocabulary", model.vocabulary}}),
          .precision = o.compute,
          .build = [=](Graph& graph) { BuildGpt(graph, model, batch, Adam({.learning_rate = 1e-3})); },
          .make_feeds =
              [=](Random& random) {
                return TokenFeeds(random, {batch, model.sequence}, model.vocabulary);
              }});
}

std::vector<GpuWorkPlan> LlamaPlans(const GpuOptions& o) {
  const int64_t batch = o.transformer.llama_batch, vocabulary = o.transformer.llama_vocabulary;
  const Shape shape = {batch, o.gpt.sequence};
  return TrainingPlans(
      o, {.name = fmt::format("llama/{}", batch),
          .about = AboutOf(o, "llama", batch, {{"sequence", o.gpt.sequence}, {"vocabulary", vocabulary}}),
          .precision = o.compute,
          .build =
              [=, sizes = SizesOf(o), compute = ComputeOf(o)](Graph& graph) {
                graph.SetPrecision({.compute = compute});
                const Value tokens = graph.Input("tokens", I32, shape),
                            targets = graph.Input("targets", I32, shape);
                Train(graph, SparseSoftmaxCrossEntropy(Decoder(graph, sizes)(tokens, vocabulary), targets),
                      1e-3);
              },
          .make_feeds = [=](Random& random) { return TokenFeeds(random, shape, vocabulary); }});
}

std::vector<GpuWorkPlan> VitPlans(const GpuOptions& o) {
  const int64_t batch = o.transformer.vit_batch, size = o.convolution.image;
  return TrainingPlans(
      o, {.name = fmt::format("vit/{}", batch),
          .about = AboutOf(o, "vit", batch, {{"image", size}}),
          .precision = o.compute,
          .build =
              [=, sizes = SizesOf(o), compute = ComputeOf(o)](Graph& graph) {
                graph.SetPrecision({.compute = compute});
                const Value images = graph.Input("images", F32, {batch, size, size, 3});
                const Value labels = graph.Input("labels", I32, {batch});
                Train(graph, SparseSoftmaxCrossEntropy(Encoder(graph, sizes).ClassesOf(images), labels),
                      1e-4);
              },
          .make_feeds =
              [=](Random& random) {
                return Feeds{{"images", RandomReals(random, {batch, size, size, 3})},
                             {"labels", RandomNumbers(random, {batch}, kClasses)}};
              }});
}

std::vector<GpuWorkPlan> BertPlans(const GpuOptions& o) {
  const int64_t batch = o.transformer.bert_batch, sequence = o.transformer.bert_sequence;
  const int64_t vocabulary = o.transformer.bert_vocabulary;
  const bool by_mask = o.padding == "mask";
  return TrainingPlans(
      o, {.name = fmt::format("bert/{}", batch),
          .about = AboutOf(o, "bert", batch, {{"sequence", sequence}, {"vocabulary", vocabulary}}),
          .precision = o.compute,
          .build =
              [=, sizes = SizesOf(o), compute = ComputeOf(o)](Graph& graph) {
                graph.SetPrecision({.compute = compute});
                const Shape shape = {batch, sequence};
                const auto input = [&](const char* name) { return graph.Input(name, I32, shape); };
                const Value tokens = input("tokens"), segments = input("segments"),
                            targets = input("targets");
                AttentionOptions attention;
                if (by_mask) attention.mask = ExpandDims(graph.Input("mask", BOOL, shape), {1, 2});
                else attention.seen = input("lengths");
                const Value logits = Encoder(graph, sizes, attention).TokensOf(tokens, segments, vocabulary);
                Train(graph, SparseSoftmaxCrossEntropy(logits, targets, {.ignore_label = kNotMasked}), 1e-4);
              },
          .make_feeds =
              [=](Random& random) { return BertFeeds(random, batch, sequence, vocabulary, by_mask); }});
}

}  // namespace meshwork

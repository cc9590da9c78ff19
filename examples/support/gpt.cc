#include "examples/support/gpt.h"

#include <cmath>

#include "fmt/format.h"
#include "meshwork/base/random.h"
#include "meshwork/base/status.h"

namespace meshwork {
namespace {

constexpr double kBalance = 0.01;  // the weight of the experts' balance in the loss
constexpr double kDeviation = 0.02;

class Gpt {
 public:
  Gpt(Graph& graph, const GptModel& model)
      : graph_(graph),
        model_(model),
        precision_{.compute = model.compute.value_or(model.dtype), .variables = model.dtype},
        batch_(AxisOrWhole("batch")),
        seq_(AxisOrWhole("seq")),
        axis_(AxisOrWhole("model")) {
    graph.SetPrecision(precision_);
  }

  // tokens: [b,s] -> [b,s,vocabulary].
  Value Logits(const Value& tokens) {
    const Embedding embedding(graph_, "embedding", model_.vocabulary, model_.dim,
                              {.layout = {axis_, UNSHARDED}});
    Value x = embedding(tokens);
    if (!model_.rotary) {
      const Variable positions =
          graph_.Var("positions", NormalRandom({model_.sequence, model_.dim}, 0, kDeviation, model_.dtype),
                     {seq_, UNSHARDED});
      x = x + InCompute(positions);
    }
    x = Placed(x);
    for (int64_t layer = 0; layer < model_.layers; ++layer) x = Block(x, fmt::format("block{}", layer));
    const Variable head =
        graph_.Var("head", GlorotUniform({model_.dim, model_.vocabulary}, model_.dtype), {UNSHARDED, axis_});
    return MatMul(Norm("norm")(x), InCompute(head));
  }

  Value Input(std::string_view name, int64_t batch) {
    return graph_.Input(name, I32, {batch, model_.sequence}, {batch_, seq_});
  }

  // The term that is added to the loss; invalid if there is none.
  const Value& balance() const { return balance_; }

 private:
  bool Has(const char* axis) const { return graph_.mesh().FindAxes(axis).ok(); }
  DimSpec AxisOrWhole(const char* axis) const { return Has(axis) ? DimSpec(axis) : DimSpec(UNSHARDED); }
  int64_t SizeOf(const char* axis) const {
    const auto found = graph_.mesh().FindAxes(axis);
    return found.ok() ? graph_.mesh().GroupSize(*found) : 1;
  }

  Value InCompute(const Value& x) const { return ToCompute(x, precision_); }

  LayerNormalization Norm(const std::string& name) { return LayerNormalization(graph_, name, model_.dim); }

  // Examples and positions shard the residuals.
  Value Placed(const Value& x) const { return WithLayout(x, {batch_, seq_, UNSHARDED}); }

  // For the two residuals of each block, whose sum grows with the number of blocks.
  LayerInitializer OutInitializer(int64_t inputs) const {
    return NormalRandom(
        0, std::sqrt(1.0 / static_cast<double>(inputs * 2 * std::max<int64_t>(model_.layers, 1))));
  }

  Value Block(const Value& x, const std::string& name) {
    MultiHeadAttentionOptions options{.causal = true,
                                      .rotary = model_.rotary ? std::optional(RotaryOptions()) : std::nullopt,
                                      .heads = axis_,
                                      .ring = model_.ring,
                                      .out_initializer = OutInitializer(model_.dim)};
    if (!model_.ring && Has("seq") && model_.heads % (SizeOf("model") * SizeOf("seq")) == 0) {
      std::vector<std::string> axes = {"seq"};
      if (Has("model")) axes.insert(axes.begin(), "model");
      options.attend_layout = {batch_, UNSHARDED, DimSpec(std::move(axes)), UNSHARDED};
    }
    const MultiHeadAttention attention(graph_, name + "/attention", model_.dim, model_.heads, options);
    const Value h = Placed(x + attention(Norm(name + "/norm1")(x)));
    const Value normed = Norm(name + "/norm2")(h);
    if (model_.experts > 0) return Placed(h + Experts(normed, name + "/experts"));
    const FeedForward network(graph_, name + "/mlp", model_.dim, 4 * model_.dim,
                              {.hidden = axis_, .out_initializer = OutInitializer(4 * model_.dim)});
    return Placed(h + network(normed));
  }

  // A mixture of experts; each example is a group. Tokens go to the devices of their experts and back. The
  // first relayout moves nothing, but its gradient brings the gradients of the tokens back, too.
  Value Experts(const Value& x, const std::string& name) {
    const int64_t e = model_.experts, hidden = 4 * model_.dim;
    const int64_t capacity = (2 * model_.sequence + e - 1) / e;
    const DimSpec experts = Has("expert") ? DimSpec("expert") : batch_;
    auto var = [&](const char* which, const Initializer& initializer, const LayoutSpec& layout) {
      return graph_.Var(fmt::format("{}/{}", name, which), initializer, layout);
    };
    const Variable gate = var("gate", GlorotUniform({model_.dim, e}, model_.dtype), {UNSHARDED, UNSHARDED});
    const LayoutSpec by_experts = {experts, UNSHARDED, UNSHARDED};
    const Variable in = var("in", GlorotUniform({e, model_.dim, hidden}, model_.dtype), by_experts);
    const Variable out = var("out", GlorotUniform({e, hidden, model_.dim}, model_.dtype), by_experts);
    // A choice in a narrow dtype would often be a tie.
    const Value shares = Softmax(MatMul(InDType(x, model_.dtype), gate));
    const Routing routing = RouteToExperts(shares, {.choices = 1, .capacity = capacity});
    balance_ = balance_.valid() ? balance_ + routing.balance : routing.balance;
    const LayoutSpec by_groups = {UNSHARDED, batch_, UNSHARDED, UNSHARDED};
    const LayoutSpec at_experts = {experts, UNSHARDED, UNSHARDED, UNSHARDED};
    const Value inputs =
        Relayout(Relayout(Einsum("gsec,gsm->egcm", {InCompute(routing.dispatch), x}), by_groups), at_experts);
    const Value h = Gelu(Einsum("egcm,emf->egcf", {inputs, InCompute(in)}), GeluForm::kTanh);
    const Value outputs = Relayout(Einsum("egcf,efm->egcm", {h, InCompute(out)}), by_groups);
    return Einsum("gsec,egcm->gsm", {InCompute(routing.combine), outputs});
  }

  Graph& graph_;
  const GptModel model_;
  const Precision precision_;
  const DimSpec batch_, seq_, axis_;
  Value balance_;
};

}  // namespace

void BuildGpt(Graph& graph, const GptModel& model, int64_t batch, const Optimizer& optimizer) {
  Gpt gpt(graph, model);
  const Value tokens = gpt.Input("tokens", batch), targets = gpt.Input("targets", batch);
  const Value logits = gpt.Logits(tokens);
  const Value loss = SparseSoftmaxCrossEntropy(logits, targets);
  optimizer.Minimize(gpt.balance().valid() ? loss + kBalance * gpt.balance() : loss);
  graph.Output("loss", loss);
}

void BuildGptSampler(Graph& graph, const GptModel& model) {
  Gpt gpt(graph, model);
  graph.Output("logits", gpt.Logits(gpt.Input("tokens", 1)));
}

std::vector<std::string> GptWeights(const Graph& graph) {
  std::vector<std::string> names;
  for (size_t i = 0; i < graph.arguments().size(); ++i) {
    const std::string& name = graph.argument_name(static_cast<int>(i));
    if (graph.arguments()[i].is_variable && !name.starts_with("adam")) names.push_back(name);
  }
  return names;
}

Tensor RandomTokens(const GptModel& model, int64_t batch, uint64_t stream) {
  Random random(/*seed=*/1, stream);
  std::vector<int32_t> tokens(static_cast<size_t>(batch * model.sequence));
  for (int32_t& token : tokens)
    token = static_cast<int32_t>(random.Below(static_cast<uint64_t>(model.vocabulary)));
  return Tensor::From<int32_t>({batch, model.sequence}, tokens);
}

}  // namespace meshwork

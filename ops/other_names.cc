#include "meshwork/ops/other_names.h"

#include <algorithm>

#include "fmt/ranges.h"
#include "meshwork/base/status.h"
#include "meshwork/base/suggest.h"
#include "meshwork/ir/registry.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/text.h"
#include "meshwork/ops/ops.h"

namespace meshwork {
namespace {

Value Input(Graph& graph, std::string_view name, const Shape& shape, DType dtype = F32) {
  return graph.Input(name, dtype, shape, LayoutSpec(shape.size(), DimSpec(UNSHARDED)));
}

// f32[4,6], and tensors that go with it.
Value X(Graph& graph) { return Input(graph, "x", {4, 6}); }
Value Row(Graph& graph, std::string_view name) { return Input(graph, name, {6}); }
Value Other(Graph& graph) { return Input(graph, "y", {4, 6}); }
Value LabelsInput(Graph& graph) { return Input(graph, "labels", {4}, I32); }
// In this order, which that of a call's arguments is not.
struct TwoValues {
  Value first, second;
};
TwoValues XAndOther(Graph& graph) { return TwoValues{X(graph), Other(graph)}; }
TwoValues XAndLabels(Graph& graph) { return TwoValues{X(graph), LabelsInput(graph)}; }
TwoValues ScaleAndOffset(Graph& graph) { return TwoValues{Row(graph, "scale"), Row(graph, "offset")}; }

Value Image(Graph& graph) { return Input(graph, "x", {2, 4, 4, 3}); }

}  // namespace

const std::vector<Composite>& Composites() {
  static const auto* const composites = new std::vector<Composite>{
      {"softmax", "Softmax(x, dim)", [](Graph& g) { return Softmax(X(g), 1); }},
      {"log_softmax", "LogSoftmax(x, dim)", [](Graph& g) { return LogSoftmax(X(g), 1); }},
      {"softmax_over", "SoftmaxOver(x, dims)",
       [](Graph& g) {
         return SoftmaxOver(X(g), {0, 1});
       }},
      {"log_sum_exp", "LogSumExp(x, dims)", [](Graph& g) { return LogSumExp(X(g), {1}); }},
      {"variance", "Variance(x, dims)", [](Graph& g) { return Variance(X(g), {1}); }},
      {"standard_deviation", "StandardDeviation(x, dims)",
       [](Graph& g) { return StandardDeviation(X(g), {1}); }},
      {"norm", "Norm(x, dims)", [](Graph& g) { return Norm(X(g), {1}); }},
      {"standardize", "Standardize(x, dims, epsilon)", [](Graph& g) { return Standardize(X(g), {1}, 1e-5); }},
      {"layer_norm", "LayerNorm(x, scale, offset)",
       [](Graph& g) {
         const Value x = X(g);
         const TwoValues p = ScaleAndOffset(g);
         return LayerNorm(x, p.first, p.second);
       }},
      {"rms_norm", "RmsNorm(x, scale)",
       [](Graph& g) {
         const Value x = X(g);
         return RmsNorm(x, Row(g, "scale"));
       }},
      {"group_norm", "GroupNorm(x, scale, offset, groups)",
       [](Graph& g) {
         const Value x = Image(g), scale = Input(g, "scale", {3});
         return GroupNorm(x, scale, Input(g, "offset", {3}), 3);
       }},
      {"batch_norm", "BatchNorm(x, scale, offset)",
       [](Graph& g) {
         const Value x = X(g);
         const TwoValues p = ScaleAndOffset(g);
         return BatchNorm(x, p.first, p.second).y;
       }},
      {"stateless_dropout", "StatelessDropout(x, rate, seed, stream)",
       [](Graph& g) { return StatelessDropout(X(g), 0.5, 0, 0); }},
      {"moving_average", "MovingAverage(average, value)",
       [](Graph& g) {
         const TwoValues p = XAndOther(g);
         return MovingAverage(p.first, p.second);
       }},
      {"einsum", "Einsum(\"ij,kj->ik\", {x, y})",
       [](Graph& g) {
         return Einsum("ij,kj->ik", {X(g), Other(g)});
       }},
      {"sparse_softmax_cross_entropy", "SparseSoftmaxCrossEntropy(logits, labels)",
       [](Graph& g) {
         const TwoValues p = XAndLabels(g);
         return SparseSoftmaxCrossEntropy(p.first, p.second);
       }},
      {"softmax_cross_entropy", "SoftmaxCrossEntropy(logits, labels)",
       [](Graph& g) {
         const TwoValues p = XAndOther(g);
         return SoftmaxCrossEntropy(p.first, p.second);
       }},
      {"binary_cross_entropy_with_logits", "BinaryCrossEntropyWithLogits(logits, labels)",
       [](Graph& g) {
         const TwoValues p = XAndOther(g);
         return BinaryCrossEntropyWithLogits(p.first, p.second);
       }},
      {"mean_squared_error", "MeanSquaredError(predictions, targets)",
       [](Graph& g) {
         const TwoValues p = XAndOther(g);
         return MeanSquaredError(p.first, p.second);
       }},
      {"mean_absolute_error", "MeanAbsoluteError(predictions, targets)",
       [](Graph& g) {
         const TwoValues p = XAndOther(g);
         return MeanAbsoluteError(p.first, p.second);
       }},
      {"huber_loss", "HuberLoss(predictions, targets)",
       [](Graph& g) {
         const TwoValues p = XAndOther(g);
         return HuberLoss(p.first, p.second);
       }},
      {"hinge_loss", "HingeLoss(scores, labels)",
       [](Graph& g) {
         const TwoValues p = XAndOther(g);
         return HingeLoss(p.first, p.second);
       }},
      {"log_cosh_loss", "LogCoshLoss(predictions, targets)",
       [](Graph& g) {
         const TwoValues p = XAndOther(g);
         return LogCoshLoss(p.first, p.second);
       }},
      {"poisson_loss", "PoissonLoss(log_predictions, targets)",
       [](Graph& g) {
         const TwoValues p = XAndOther(g);
         return PoissonLoss(p.first, p.second);
       }},
      {"cosine_distance", "CosineDistance(a, b)",
       [](Graph& g) {
         const TwoValues p = XAndOther(g);
         return CosineDistance(p.first, p.second);
       }},
      {"triplet_margin_loss", "TripletMarginLoss(anchors, positives, negatives, margin)",
       [](Graph& g) {
         const TwoValues p = XAndOther(g);
         return TripletMarginLoss(p.first, p.second, p.second, 1);
       }},
      {"count_invalid_labels", "CountInvalidLabels(logits, labels)",
       [](Graph& g) {
         const TwoValues p = XAndLabels(g);
         return CountInvalidLabels(p.first, p.second);
       }},
      {"correct_labels", "CorrectLabels(logits, labels)",
       [](Graph& g) {
         const TwoValues p = XAndLabels(g);
         return CorrectLabels(p.first, p.second);
       }},
      {"kl_divergence", "KlDivergence(log_predictions, targets)",
       [](Graph& g) {
         const TwoValues p = XAndOther(g);
         return KlDivergence(p.first, p.second);
       }},
      {"accuracy", "Accuracy(logits, labels)",
       [](Graph& g) {
         const TwoValues p = XAndLabels(g);
         return Accuracy(p.first, p.second);
       }},
      {"in_top_k", "InTopK(predictions, targets, k)",
       [](Graph& g) {
         const TwoValues p = XAndLabels(g);
         return InTopK(p.first, p.second, 2);
       }},
      {"flatten", "Flatten(x, dim)", [](Graph& g) { return Flatten(Image(g), 1); }},
      {"slice_dim", "SliceDim(x, dim, start, limit)", [](Graph& g) { return SliceDim(X(g), 1, 0, 2); }},
      {"stack", "Stack({x, y}, dim)",
       [](Graph& g) {
         return Stack({X(g), Other(g)}, 0);
       }},
      {"split", "Split(x, parts, dim)", [](Graph& g) { return Split(X(g), 2, 1)[0]; }},
      {"split_sizes", "SplitSizes(x, sizes, dim)",
       [](Graph& g) {
         return SplitSizes(X(g), {2, 4}, 1)[0];
       }},
      {"tile", "Tile(x, repeats)",
       [](Graph& g) {
         return Tile(X(g), {1, 2});
       }},
      {"repeat", "Repeat(x, count, dim)", [](Graph& g) { return Repeat(X(g), 2, 1); }},
      {"update_slice", "UpdateSlice(x, update, start)",
       [](Graph& g) {
         const Value x = X(g);
         return UpdateSlice(x, Input(g, "update", {2, 2}), {0, 0});
       }},
      {"segment_sum", "SegmentSum(x, segments, count)",
       [](Graph& g) {
         const TwoValues p = XAndLabels(g);
         return SegmentSum(p.first, p.second, 3);
       }},
      {"bincount", "Bincount(x, size)", [](Graph& g) { return Bincount(LabelsInput(g), 3); }},
      {"unique_counts", "UniqueCounts(x, size)",
       [](Graph& g) { return UniqueCounts(LabelsInput(g), 3).values; }},
      {"arg_sort", "ArgSort(x, dim)", [](Graph& g) { return ArgSort(X(g), 1); }},
      {"conv_transpose", "ConvTranspose(x, w)",
       [](Graph& g) {
         const Value x = Image(g);
         return ConvTranspose(x, Input(g, "w", {2, 2, 5, 3}));
       }},
      {"avg_pool", "AvgPool(x, window)",
       [](Graph& g) {
         return AvgPool(Image(g), {2, 2});
       }},
      {"resize", "Resize(x, sizes, form)",
       [](Graph& g) {
         return Resize(Image(g), {8, 8}, ResizeForm::kNearest);
       }},
      {"upsample", "Upsample(x, factors, form)",
       [](Graph& g) {
         return Upsample(Image(g), {2, 2});
       }},
      {"rotary_positions", "RotaryPositions(x)",
       [](Graph& g) {
         return RotaryPositions(Input(g, "x", {2, 4, 2, 6}));
       }},
      {"global_norm", "GlobalNorm({x, y})",
       [](Graph& g) {
         const std::vector<Value> tensors{X(g), Other(g)};
         return GlobalNorm(tensors);
       }},
      {"shuffle", "Shuffle(x, dim, seed, stream)", [](Graph& g) { return Shuffle(X(g), 0, 0, 0); }},
  };
  return *composites;
}

const std::vector<OtherName>& OtherNames() {
  static const auto* const names = new std::vector<OtherName>{
      {"dot", "matmul"},
      {"mm", "matmul"},
      {"bmm", "matmul"},
      {"gemm", "matmul"},
      {"dot_general", "matmul"},
      {"linear", "matmul"},
      {"dropout", "stateless_dropout"},
      {"permute", "transpose"},
      {"swapaxes", "transpose"},
      {"view", "reshape"},
      {"ravel", "flatten"},
      {"cat", "concat"},
      {"concatenate", "concat"},
      {"hstack", "concat"},
      {"vstack", "concat"},
      {"unsqueeze", "expand_dims"},
      {"expand", "broadcast_to"},
      {"broadcast", "broadcast_to"},
      {"broadcast_in_dim", "broadcast_to"},
      {"flip", "reverse"},
      {"sum", "reduce_sum"},
      {"mean", "reduce_mean"},
      {"average", "reduce_mean"},
      {"prod", "reduce_prod"},
      {"product", "reduce_prod"},
      {"max", "reduce_max"},
      {"amax", "reduce_max"},
      {"min", "reduce_min"},
      {"amin", "reduce_min"},
      {"all", "reduce_all"},
      {"any", "reduce_any"},
      {"arg_max", "argmax"},
      {"arg_min", "argmin"},
      {"var", "variance"},
      {"std", "standard_deviation"},
      {"logsumexp", "log_sum_exp"},
      {"where", "select"},
      {"clamp", "clip"},
      {"add_n", "add"},
      {"plus", "add"},
      {"subtract", "sub"},
      {"minus", "sub"},
      {"multiply", "mul"},
      {"times", "mul"},
      {"divide", "div"},
      {"negative", "neg"},
      {"negate", "neg"},
      {"power", "pow"},
      {"mod", "remainder"},
      {"fmod", "remainder"},
      {"rem", "remainder"},
      {"absolute", "abs"},
      {"logical_and", "and"},
      {"bitwise_and", "and"},
      {"logical_or", "or"},
      {"bitwise_or", "or"},
      {"logical_xor", "xor"},
      {"bitwise_xor", "xor"},
      {"logical_not", "not"},
      {"bitwise_not", "not"},
      {"eq", "equal"},
      {"ne", "not_equal"},
      {"lt", "less"},
      {"le", "less_equal"},
      {"gt", "greater"},
      {"ge", "greater_equal"},
      {"logistic", "sigmoid"},
      {"swish", "silu"},
      {"convert", "cast"},
      {"convert_element_type", "cast"},
      {"astype", "cast"},
      {"detach", "stop_gradient"},
      {"in_train_phase", "when_training"},
      {"full", "constant"},
      {"fill", "constant"},
      {"zeros", "constant"},
      {"ones", "constant"},
      {"arange", "iota"},
      {"range", "iota"},
      {"identity", "eye"},
      {"rand", "random_uniform"},
      {"randn", "random_normal"},
      {"uniform", "random_uniform"},
      {"normal", "random_normal"},
      {"randint", "random_int"},
      {"bernoulli", "random_bernoulli"},
      {"embedding", "gather"},
      {"embedding_lookup", "gather"},
      {"take", "gather"},
      {"index_select", "gather"},
      {"take_along_axis", "take_along_dim"},
      {"index_add", "scatter_add"},
      {"conv1d", "conv"},
      {"conv2d", "conv"},
      {"conv3d", "conv"},
      {"convolution", "conv"},
      {"maxpool", "max_pool"},
      {"max_pool2d", "max_pool"},
      {"avg_pool2d", "avg_pool"},
      {"average_pool", "avg_pool"},
      {"cross_entropy", "sparse_softmax_cross_entropy"},
      {"mse_loss", "mean_squared_error"},
      {"sdpa", "attention"},
      {"scaled_dot_product_attention", "attention"},
      {"layernorm", "layer_norm"},
      {"rmsnorm", "rms_norm"},
      {"batchnorm", "batch_norm"},
      {"argsort", "arg_sort"},
      {"topk", "top_k"},
      {"with_sharding_constraint", "relayout"},
      {"sharding_constraint", "relayout"},
      {"reshard", "relayout"},
      {"shard_map", "manual"},
      {"for", "scan"},
      {"fori_loop", "scan"},
      {"while_loop", "while"},
      {"cond", "if"},
  };
  return *names;
}

const Composite* FindComposite(std::string_view name) {
  for (const OtherName& other : OtherNames())
    if (other.name == name) name = other.ours;
  const std::vector<Composite>& all = Composites();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Composite& c) { return c.name == name; });
  return found == all.end() ? nullptr : &*found;
}

std::string Describe(const Composite& composite) {
  Graph graph{Mesh()};
  composite.example(graph);
  std::vector<std::string> arguments;
  const std::vector<std::string> names = ValueNames(graph);
  for (const Argument& argument : graph.arguments())
    arguments.push_back(
        fmt::format("{}: {}", names[argument.value], graph.value(argument.value).type.ToString()));
  std::string out = fmt::format("{}: no op of its own. In C++ {} (ops/ops.h) writes it; for {} that is\n",
                                composite.name, composite.call, fmt::join(arguments, ", "));
  for (size_t n = 0; n < graph.nodes().size(); ++n)
    out += fmt::format("  {}\n", PrintNode(graph, static_cast<int>(n)));
  return out;
}

std::string InsteadOfOp(std::string_view name, const std::vector<std::string>& ops) {
  if (const Composite* composite = FindComposite(name); composite != nullptr)
    return fmt::format("; in C++ {} writes it in terms of others, which \"meshwork ops --op {}\" shows.",
                       composite->call, composite->name);
  for (const OtherName& other : OtherNames())
    if (other.name == name) return fmt::format("; did you mean \"{}\"?", other.ours);
  std::vector<std::string> all = ops;
  for (const Composite& composite : Composites()) all.emplace_back(composite.name);
  const std::string hint = DidYouMean(name, all);
  return hint.empty() ? "." : hint;
}

}  // namespace meshwork

// DLRM (Naumov et al., arXiv 1906.00091) rates films: a table of embeddings for each feature that is one of many, cut
// by rows over "model"; a perceptron for the features that are measured; the products of all pairs; a perceptron over
// these. The task is that of Keras' example "Ranking with Deep Learning Recommendation Model"; the ratings are drawn.
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "examples/models/print_losses.h"

namespace mw = meshwork;
using mw::UNSHARDED;

const std::vector<std::pair<std::string, int64_t>> kTables = {
    {"film", 400}, {"user", 200}, {"gender", 2}, {"age", 7}, {"town", 100}, {"occupation", 21}};
constexpr int64_t kMeasured = 4, kUnits = 8, kBatch = 64;

// In [1, 5], by whether film and user fit, and a little by what is measured.
mw::Example Rating(int64_t i, mw::DType dtype) {
  std::mt19937_64 random(i);
  std::vector<int32_t> ids;
  for (const auto& [name, rows] : kTables) ids.push_back(static_cast<int32_t>(random() % rows));
  std::vector<double> measured;
  for (int k = 0; k < kMeasured; ++k) measured.push_back(static_cast<double>(random() % 1000) / 1000);
  const double rating = 3 + 1.5 * std::sin(ids[0]) * std::sin(ids[1]) + 0.5 * (measured[0] - measured[1]);
  return {{"ids", mw::Tensor::From<int32_t>({std::ssize(ids)}, ids)},
          {"measured", mw::Tensor::From<double>({kMeasured}, measured).Cast(dtype)},
          {"rating", mw::Tensor::From<double>({1}, {rating}).Cast(dtype)}};
}

mw::Sequential Perceptron(mw::Graph& graph, const std::string& name, const std::vector<int64_t>& units) {
  const mw::NameScope scope(graph, name);
  mw::Sequential layers;
  for (size_t i = 0; i < units.size(); ++i)
    layers.Add(mw::Dense(graph, fmt::format("dense{}", i + 1), units[i])).Add(mw::Relu);
  return layers;
}

mw::Value Dlrm(mw::Graph& graph, const mw::Value& ids, const mw::Value& measured) {
  std::vector<mw::Value> features = {Perceptron(graph, "bottom", {32, kUnits})(measured)};
  for (size_t i = 0; i < kTables.size(); ++i)
    features.push_back(mw::Embedding(graph, kTables[i].first, kTables[i].second,
                                     kUnits)(mw::Squeeze(mw::SliceDim(ids, 1, i, i + 1), 1)));
  std::vector<mw::Value> joined = {features[0]};
  for (size_t i = 0; i < features.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      joined.push_back(mw::ReduceSum(features[i] * features[j], 1, /*keep_dims=*/true));
  return mw::Dense(graph, "rating", 1)(Perceptron(graph, "top", {192, 192, 192})(mw::Concat(joined, 1)));
}

int main(int argc, char** argv) {
  const mw::ModelFlags flags(argc, argv, "dlrm", "Learns to rate films by DLRM.", 500);
  mw::Graph graph = flags.NewGraph({{"ids", {"batch", UNSHARDED}},
                                    {"measured", {"batch", UNSHARDED}},
                                    {"rating", {"batch", UNSHARDED}},
                                    {"*/table", {"model", UNSHARDED}},
                                    {"top/dense[13]/kernel", {UNSHARDED, "model"}},
                                    {"top/dense[13]/bias", {"model"}},
                                    {"top/dense2/kernel", {"model", UNSHARDED}}});
  const mw::Value ids = graph.Input("ids", mw::I32, {kBatch, std::ssize(kTables)});
  const mw::Value measured = graph.Input("measured", flags.dtype, {kBatch, kMeasured});
  const mw::Value rating = graph.Input("rating", flags.dtype, {kBatch, 1});
  const mw::Value predicted = Dlrm(graph, ids, measured);
  const mw::Value loss = mw::MeanSquaredError(predicted, rating);
  mw::AdamW({.learning_rate = 1e-2}).Minimize(loss);
  graph.Output("loss", loss);
  graph.Output("rmse", mw::RootMeanSquaredErrorMetric(graph, "rmse").Update(predicted, rating));
  fmt::print("{}", mw::Summary(graph));

  mw::Session session = mw::Session::Create(graph).value();
  const mw::Pipeline ratings =
      mw::Pipeline::FromFunction(10'000, [&](int64_t i) { return Rating(i, flags.dtype); });
  const mw::Pipeline train = ratings.Skip(2'000).Shuffle(8'000, /*seed=*/1).Batch(kBatch).Prefetch(2);
  mw::Fit(session, train, {.steps_per_epoch = flags.steps, .callbacks = {mw::PrintLosses(flags)}}).value();
  const mw::Metrics result =
      mw::Evaluate(session, ratings.Take(2'000).Batch(kBatch), {.outputs = {"rmse"}}).value();
  fmt::print("root mean square error of ratings that were not trained: {:.3f}\n", result.at("rmse"));
}

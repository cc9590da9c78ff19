#include "benchmarks/gpu_step/recurrent.h"

#include <string>

#include "benchmarks/gpu_step/training.h"

namespace meshwork {
namespace {

template <typename Layer>
std::vector<GpuWorkPlan> LanguageModel(const GpuOptions& o, const char* model) {
  const RecurrentSizes sizes = o.recurrent;
  return TrainingPlans(
      o, {.name = fmt::format("{}/{}", model, sizes.batch),
          .about = {{"model", model},
                    {"batch", sizes.batch},
                    {"steps", sizes.steps},
                    {"units", sizes.units},
                    {"vocabulary", sizes.vocabulary},
                    {"precision", o.precision}},
          .precision = o.precision,
          .build =
              [=](Graph& graph) {
                const Value tokens = graph.Input("tokens", I32, {sizes.batch, sizes.steps});
                const Value targets = graph.Input("targets", I32, {sizes.batch, sizes.steps});
                Value x = Embedding(graph, "embedding", sizes.vocabulary, sizes.units)(tokens);
                for (const char* layer : {"layer1", "layer2"})
                  x = Layer(graph, layer, sizes.units)(x).sequence;
                const Value loss =
                    SparseSoftmaxCrossEntropy(Dense(graph, "logits", sizes.vocabulary)(x), targets);
                Adam({.learning_rate = 1e-3}).Minimize(loss);
                graph.Output("loss", loss);
              },
          .make_feeds =
              [=](Random& random) {
                const Shape shape = {sizes.batch, sizes.steps};
                return Feeds{{"tokens", RandomNumbers(random, shape, sizes.vocabulary)},
                             {"targets", RandomNumbers(random, shape, sizes.vocabulary)}};
              }});
}

}  // namespace

std::vector<GpuWorkPlan> LstmPlans(const GpuOptions& o) { return LanguageModel<Lstm>(o, "lstm"); }
std::vector<GpuWorkPlan> GruPlans(const GpuOptions& o) { return LanguageModel<Gru>(o, "gru"); }
std::vector<GpuWorkPlan> BidirectionalLstmPlans(const GpuOptions& o) {
  return LanguageModel<Bidirectional<Lstm>>(o, "bilstm");
}

}  // namespace meshwork

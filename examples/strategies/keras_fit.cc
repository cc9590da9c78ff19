// "Use tf.distribute.Strategy with Keras Model.fit", of TensorFlow's guide "Distributed training": a linear model,
// trained and evaluated under any strategy. See --help.
#include "examples/strategies/flags.h"

namespace mw = meshwork;

int main(int argc, char** argv) {
  const mw::StrategyFlags flags(argc, argv, "keras_fit", "Fits a linear model to ones, under a strategy.");
  return flags.Main([&](const mw::Strategy& strategy) -> absl::Status {
    mw::Graph graph = mw::NewGraph();
    const mw::Value x = graph.Input("x", flags.dtype, {10, 1}), y = graph.Input("y", flags.dtype, {10, 1});
    const mw::Value loss =
        mw::MeanSquaredError(mw::Dense(graph, "dense", 1, 1, {.dtype = flags.dtype})(x), y);
    mw::Sgd({}).Minimize(loss);
    graph.Output("loss", loss);
    MESHWORK_ASSIGN_OR_RETURN(mw::Session session, mw::NewSession(graph));

    const mw::Tensor ones = mw::Tensor::Full({flags.dtype, {100, 1}}, 1);
    MESHWORK_ASSIGN_OR_RETURN(const mw::Pipeline data,
                              mw::BatchesOf({{"x", ones}, {"y", ones}}, {.batch_size = 10}));
    MESHWORK_ASSIGN_OR_RETURN(const mw::History history, mw::Fit(session, data, {.epochs = flags.epochs}));
    MESHWORK_ASSIGN_OR_RETURN(const mw::Metrics result, mw::Evaluate(session, data));
    if (!strategy.is_chief()) return absl::OkStatus();
    for (const double epoch : history.Of("loss")) fmt::print("loss {:.{}g}\n", epoch, flags.digits);
    fmt::print("evaluated: loss {:.{}g}\n", result.at("loss"), flags.digits);
    return absl::OkStatus();
  });
}

#include "examples/mlp_mnist/report.h"

#include <sys/resource.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/status.h"
#include "examples/mlp_mnist/weights.h"
#include "train/file.h"
#include "train/plot.h"

namespace meshwork {
namespace {

double Median(std::vector<double> values) {
  auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// One of the measures as a panel of the plot.
Panel PanelOf(std::string title, const TrainLog& log, double (*measure)(const Measures&)) {
  Series test{.name = "test", .style = LineStyle::kMarked, .paint = 1};
  if (log.before.has_value()) test.points.push_back({0, measure(*log.before)});
  for (const TrainLog::Epoch& epoch : log.epochs)
    test.points.push_back({static_cast<double>(epoch.steps), measure(epoch.test)});
  Series train{.name = "train", .paint = 0};
  for (size_t s = 0; s < log.steps.size(); ++s)
    train.points.push_back({static_cast<double>(s + 1), measure(log.steps[s])});

  // Batches differ; their mean shows where it goes.
  const int64_t window = std::ssize(log.steps) / 20;
  if (window <= 1) return {std::move(title), {std::move(train), std::move(test)}};
  Series mean{.name = fmt::format("mean of {} steps", window),
              .points = MovingMean(train.points, window),
              .paint = train.paint};
  train.style = LineStyle::kFaint;
  return {std::move(title), {std::move(train), std::move(mean), std::move(test)}};
}

}  // namespace

absl::Status WriteJson(const Session& session, const Data& data, const MlpOptions& options,
                       const TrainLog& log) {
  const Mesh& mesh = session.program().body.mesh();
  nlohmann::ordered_json json;
  json["data"] = data.source;
  json["mesh"] = mesh.ToString();
  json["devices"] = mesh.num_devices();
  ASSIGN_OR_RETURN(const int64_t parameters, CountParameters(session));
  json["parameters"] = parameters;
  json["startup_seconds"] = nullptr;  // where there was no step
  if (log.startup_seconds.has_value()) json["startup_seconds"] = *log.startup_seconds;
  json["step_ms"] = nullptr;  // where there was no full batch
  if (!log.step_seconds.empty()) json["step_ms"] = Median(log.step_seconds) * 1e3;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  json["peak_rss_mb"] = static_cast<double>(usage.ru_maxrss) / 1024;
  json["collectives"] = nlohmann::ordered_json::array();
  for (const CollectiveSummary& c : SummarizeCollectives(session.program().body))
    json["collectives"].push_back(
        {{"type", c.type}, {"axes", c.axes}, {"count", c.count}, {"bytes", c.bytes}});
  if (log.before.has_value())
    json["before"] = {{"test_loss", log.before->loss}, {"test_accuracy", log.before->accuracy}};
  json["epochs"] = nlohmann::ordered_json::array();
  for (const TrainLog::Epoch& epoch : log.epochs)
    json["epochs"].push_back({{"train_loss", epoch.train.loss},
                              {"train_accuracy", epoch.train.accuracy},
                              {"test_loss", epoch.test.loss},
                              {"test_accuracy", epoch.test.accuracy},
                              {"seconds", epoch.seconds}});
  if (options.steps > 0)
    for (const Measures& step : log.steps) json["step_losses"].push_back(step.loss);
  return WriteFileAtomically(options.json, json.dump(2) + "\n");
}

absl::Status WritePlot(const Session& session, const Data& data, const MlpOptions& options,
                       const TrainLog& log) {
  LineChart chart{.title = fmt::format("MLP on {}", data.source == "mnist" ? "MNIST" : "synthetic digits"),
                  .note = fmt::format("{}, mesh {}, batches of {}", options.optimizer,
                                      session.program().body.mesh().ToString(), options.batch_size),
                  .x_label = "step"};
  chart.panels.push_back(PanelOf("Loss", log, [](const Measures& m) { return m.loss; }));
  chart.panels.back().log = true;
  chart.panels.push_back(PanelOf("Accuracy, %", log, [](const Measures& m) { return 100 * m.accuracy; }));
  return WriteFileAtomically(options.plot, chart.ToSvg());
}

}  // namespace meshwork

#include "examples/support/digits_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "examples/support/digits_weights.h"
#include "meshwork/base/io/file.h"
#include "meshwork/base/status.h"
#include "meshwork/train/log/plot.h"

namespace meshwork {
namespace {

// One of the measures as a panel of the plot.
Panel PanelOf(std::string title, const TrainLog& log, double (*measure)(const Measures&)) {
  Series test{.name = "test", .style = LineStyle::kMarked, .paint = 1};
  if (log.before.has_value()) test.points.push_back({0, measure(*log.before)});
  for (const TrainLog::Epoch& epoch : log.epochs)
    test.points.push_back({static_cast<double>(epoch.steps), measure(epoch.test)});
  Series train{.name = "train", .paint = 0};
  for (const Measures& step : log.steps)
    train.points.push_back(
        {static_cast<double>(log.steps_before + std::ssize(train.points) + 1), measure(step)});

  // Batches differ; the moving mean shows the trend.
  Panel panel{std::move(title), WithMovingMean(std::move(train))};
  panel.series.push_back(std::move(test));
  return panel;
}

}  // namespace

absl::Status WriteJson(const DigitsModel& model, const Session& session, const Data& data,
                       const DigitsOptions& options, const TrainLog& log) {
  const int64_t parameters = CountParameters(model, session.program().body);
  nlohmann::ordered_json json = {{"data", data.source}};
  json.update(DescribeRun(session, parameters, log.startup_seconds, log.step_seconds));
  if (log.before.has_value())
    json["before"] = {{"test_loss", log.before->loss}, {"test_accuracy", log.before->accuracy}};
  json["epochs"] = nlohmann::ordered_json::array();
  for (const TrainLog::Epoch& epoch : log.epochs)
    json["epochs"].push_back({{"epoch", epoch.number + 1},
                              {"train_loss", epoch.train.loss},
                              {"train_accuracy", epoch.train.accuracy},
                              {"test_loss", epoch.test.loss},
                              {"test_accuracy", epoch.test.accuracy},
                              {"seconds", epoch.seconds}});
  if (options.steps > 0) {
    json["first_step"] = log.steps_before + 1;
    json["step_losses"] = nlohmann::ordered_json::array();
    for (const Measures& step : log.steps) json["step_losses"].push_back(step.loss);
  }
  return WriteFileAtomically(options.run.json, json.dump(2) + "\n");
}

absl::Status WritePlot(const DigitsModel& model, const Session& session, const Data& data,
                       const DigitsOptions& options, const TrainLog& log) {
  LineChart chart{
      .title = fmt::format("{} on {}", model.title, data.source == "mnist" ? "MNIST" : "synthetic digits"),
      .note = fmt::format("{}, mesh {}, batches of {}", options.optimizer,
                          session.program().body.mesh().ToString(), options.batch_size),
      .x_label = "step"};
  chart.panels.push_back(PanelOf("Loss", log, [](const Measures& m) { return m.loss; }));
  chart.panels.back().log = true;
  chart.panels.push_back(PanelOf("Accuracy, %", log, [](const Measures& m) { return 100 * m.accuracy; }));
  return WriteFileAtomically(options.run.plot, chart.ToSvg());
}

}  // namespace meshwork

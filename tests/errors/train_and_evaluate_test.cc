// What TrainAndEvaluate refuses.
#include "meshwork/train/fit/train_and_evaluate.h"

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "errors/errors.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "meshwork/storage/checkpoint_writer.h"
#include "meshwork/train/fit/data_position.h"
#include "meshwork/train/fit/evaluator.h"
#include "meshwork/train/fit/training_loop.h"
#include "support/environment.h"
#include "support/in_domains.h"
#include "support/temp_dir.h"

namespace meshwork::train_and_evaluate_test {
namespace {

Dataset ExamplesOf(int64_t n) { return Dataset::Create({{"x", Tensor::Zeros({F64, {n, 2}})}}).value(); }

Feeds Feed(const Batch& batch) { return {{"x", batch["x"]}}; }

Graph Linear(Mode mode, const std::string& weight = "w", double rate = 0.1,
             const std::string& mesh = "batch=1") {
  Graph g(Mesh::VirtualCpus(mesh).value());
  Value x = g.Input("x", F64, {4, 2}, {"batch", UNSHARDED});
  Value loss = ReduceSum(MatMul(x, g.Var(weight, Filled(1, {2, 1}, F64), {UNSHARDED, UNSHARDED})), {0, 1});
  if (mode == Mode::kTrain) Sgd({.learning_rate = rate}).Minimize(loss);
  g.Output("loss", loss);
  return g;
}

Graph WithoutLoss(Mode) {
  Graph g(Mesh::VirtualCpus("batch=1").value());
  g.Output("los", g.Input("x", F64, {4, 2}, {"batch", UNSHARDED}));
  return g;
}
Graph LossInRows(Mode) {
  Graph g(Mesh::VirtualCpus("batch=1").value());
  g.Output("loss", g.Input("x", F64, {4, 2}, {"batch", UNSHARDED}));
  return g;
}

class TrainAndEvaluateErrors : public TempDirTest {};

TEST_F(TrainAndEvaluateErrors, Arguments) {
  const InputSpec input{ExamplesOf(6), {.batch_size = 4}, Feed};
  const auto model = [](Mode mode) { return Linear(mode); };
  const auto run = [&](const ModelFn& built, TrainSpec train, EvalSpec eval, RunConfig config) {
    config.session.workers = 1;
    return TrainAndEvaluate(built, train, eval, config, Processes());
  };
  const TrainSpec train{input, 3};
  const EvalSpec eval{input};
  const RunConfig config{.model_dir = Path("run")};
  const std::string dir = Path("run");
  const auto infinite = [](const Batch& batch) -> Feeds {
    return {{"x", Tensor::From<double>({batch.rows(), 2},
                                       std::vector<double>(static_cast<size_t>(2 * batch.rows()), 1e308))}};
  };
  const Dataset unloaded =
      Dataset::FromParts({{6, [] { return absl::NotFoundError("digits-0: there is no such file."); }}})
          .value();
  const auto other_weight = [](Mode mode) { return Linear(mode, mode == Mode::kTrain ? "w" : "v"); };
  const auto other_shape = [](Mode mode) {
    if (mode == Mode::kTrain) return Linear(mode);
    Graph g(Mesh::VirtualCpus("batch=1").value());
    Value x = g.Input("x", F64, {4, 2}, {"batch", UNSHARDED});
    g.Output("loss",
             ReduceSum(MatMul(x, g.Var("w", Filled(1, {2, 3}, F64), {UNSHARDED, UNSHARDED})), {0, 1}));
    return g;
  };
  ExpectErrors("train_and_evaluate",
               {
                   MISTAKE(run(nullptr, train, eval, config)),
                   MISTAKE(run(model, train, eval, {})),
                   MISTAKE(run(model, train, eval, {.model_dir = dir, .save_checkpoints_secs = 0})),
                   MISTAKE(run(model, train, eval, {.model_dir = dir, .save_checkpoints_steps = -1})),
                   MISTAKE(run(model, train, eval, {.model_dir = dir, .keep_checkpoint_max = 0})),
                   MISTAKE(run(model, train, eval, {.model_dir = dir, .log_step_count_steps = 0})),
                   MISTAKE(run(model, train, eval, {.model_dir = dir, .evaluator_patience_secs = 0})),
                   MISTAKE(run(model, {input, 0}, eval, config)),
                   MISTAKE(run(model, {{Dataset(), {}, Feed}, 3}, eval, config)),
                   MISTAKE(run(model, {{ExamplesOf(6), {}, nullptr}, 3}, eval, config)),
                   MISTAKE(run(model, {{ExamplesOf(6), {.batch_size = 0}, Feed}, 3}, eval, config)),
                   MISTAKE(run(model, train, {input, -1}, config)),
                   MISTAKE(run(model, train, {input, 0, "a/b"}, config)),
                   MISTAKE(run(model, train, {.input = input, .throttle_secs = -1}, config)),
                   MISTAKE(run(model, train, {{Dataset(), {}, Feed}}, config)),
                   MISTAKE(run(WithoutLoss, train, eval, config)),
                   MISTAKE(run(LossInRows, train, eval, config)),
                   MISTAKE(run(other_weight, train, eval, config)),
                   MISTAKE(run(other_shape, train, eval, config)),
                   MISTAKE(run(model, {{ExamplesOf(6), {.batch_size = 4}, infinite}, 3}, eval, config)),
                   MISTAKE(run(model, {{unloaded, {.batch_size = 4}, Feed}, 3}, eval, config)),
               },
               {{dir, "DIR"}});
}

// The error of process 1 of two, whose specs differ from those of process 0.
TEST_F(TrainAndEvaluateErrors, Processes) {
  const Dataset ones = Dataset::Create({{"x", Tensor::Full({F64, {6, 2}}, 1)}}).value();
  const InputSpec input{ExamplesOf(6), {.batch_size = 4, .shuffle_seed = 7}, Feed};
  const auto train = [&](const TrainSpec& second, const EvalSpec& second_eval) {
    std::vector<absl::Status> said(2);
    InDomains(2, [&](Transport& end) {
      RunConfig config{.model_dir = Path("run"), .session = {.workers = 1, .own_cores = false}};
      config.log = [](std::string_view) {};
      config.seconds = [] { return 0.0; };
      config.session.executor.transport = &end;
      const TrainSpec first{input, 3};
      const EvalSpec first_eval{input};
      const bool is_first = end.domain() == 0;
      said[static_cast<size_t>(end.domain())] =
          TrainWithCheckpoints([](Mode mode) { return Linear(mode, "w", 0.1, "batch=2"); },
                               is_first ? first : second, is_first ? &first_eval : &second_eval, config)
              .status();
    });
    EXPECT_EQ(said[0], said[1]);
    return said[1];
  };
  const InputSpec other_seed{ExamplesOf(6), {.batch_size = 4, .shuffle_seed = 8}, Feed};
  const InputSpec other_size{ExamplesOf(5), {.batch_size = 4, .shuffle_seed = 7}, Feed};
  const InputSpec other_examples{ones, {.batch_size = 4, .shuffle_seed = 7}, Feed};
  ExpectErrors("train_and_evaluate_processes", {
                                                   MISTAKE(train({input, 4}, {input})),
                                                   MISTAKE(train({other_seed, 3}, {input})),
                                                   MISTAKE(train({other_size, 3}, {input})),
                                                   MISTAKE(train({input, 3}, {other_examples})),
                                               });
}

TEST_F(TrainAndEvaluateErrors, Evaluators) {
  const InputSpec input{ExamplesOf(6), {.batch_size = 4}, Feed};
  const auto evaluator = [&](EvaluateIn evaluate_in) {
    const Processes alone =
        Processes::Join(
            {.may_evaluate = true},
            EnvironmentOf({{"TF_CONFIG", R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "evaluator",
                                       "index": 0}})"}}))
            .value();
    return TrainAndEvaluate([](Mode mode) { return Linear(mode); }, {input, 3}, {input},
                            {.model_dir = Path("run"),
                             .evaluate_in = evaluate_in,
                             .evaluator_patience_secs = 0.01,
                             .session = {.workers = 1},
                             .log = [](std::string_view) {}},
                            alone);
  };
  const auto train = [&](int64_t steps) {
    return TrainAndEvaluate(
        [](Mode mode) { return Linear(mode); }, {input, steps}, {input},
        {.model_dir = Path("run"), .session = {.workers = 1}, .log = [](std::string_view) {}}, Processes());
  };
  const auto of_another_model = [&] {
    RunConfig config{.model_dir = Path("run"), .session = {.workers = 1}};
    config.log = [](std::string_view) {};
    config.seconds = [] { return 0.0; };
    return EvaluateCheckpoints([](Mode mode) { return Linear(mode, "v"); }, 1, {input}, config);
  };
  ExpectErrors("train_and_evaluate_evaluator",
               {
                   MISTAKE(evaluator(EvaluateIn::kTraining)),
                   MISTAKE(evaluator(EvaluateIn::kAuto)),
                   {"train(2); evaluator(EvaluateIn::kAuto)",
                    [&]() -> Refusal {
                      EXPECT_TRUE(train(2).ok());
                      return evaluator(EvaluateIn::kAuto);
                    }},
                   MISTAKE(of_another_model()),
               },
               {{Path("run"), "DIR"}});
}

// Lines of the log that warn the user.
TEST_F(TrainAndEvaluateErrors, Log) {
  const InputSpec input{ExamplesOf(6), {.batch_size = 4}, Feed};
  const EvalSpec eval{input};
  std::string lines;
  RunConfig config{.model_dir = Path("run"), .save_checkpoints_steps = 2, .session = {.workers = 1}};
  config.seconds = [] { return 0.0; };
  config.log = [&](std::string_view line) { lines += fmt::format("{}{}", lines.empty() ? "" : "\n", line); };
  bool stops = false;
  config.stop = [&] { return stops; };
  const auto logged = [&](const absl::StatusOr<Evaluation>& result) -> Refusal {
    EXPECT_TRUE(result.ok()) << result.status();
    return absl::InvalidArgumentError(std::exchange(lines, ""));
  };
  const auto train = [&](int64_t steps) {
    return TrainWithCheckpoints([](Mode mode) { return Linear(mode); }, {input, steps}, &eval, config,
                                {"worker 0"});
  };
  const auto evaluate = [&](const std::string& weight) {
    return EvaluateCheckpoints([=](Mode mode) { return Linear(mode, weight); }, 9, eval, config);
  };
  ExpectErrors("train_and_evaluate_log",
               {
                   MISTAKE(logged(train(3))),
                   {"stopped",
                    [&]() -> Refusal {
                      stops = true;
                      return logged(train(7));
                    }},
                   {"an evaluator is stopped", [&]() -> Refusal { return logged(evaluate("w")); }},
                   {"a checkpoint of another model",
                    [&]() -> Refusal {
                      stops = false;
                      config.log = [&](std::string_view line) {
                        if (!stops) lines = line;
                        stops = true;
                      };
                      return logged(evaluate("v"));
                    }},
                   {"a batch that cannot be fed, before and after the first checkpoint",
                    [&]() -> Refusal {
                      stops = false;
                      config.model_dir = Path("failing");
                      config.log = [&](std::string_view line) {
                        if (line.find("it has failed") != std::string_view::npos)
                          lines += fmt::format("{}{}", lines.empty() ? "" : "\n", line);
                      };
                      for (const int64_t good : {1, 3}) {
                        InputSpec failing = input;
                        int64_t fed = 0;  // of all epochs, each of which has a copy of the function
                        failing.feeds = [&](const Batch& batch) {
                          return ++fed > good ? Feeds() : Feed(batch);
                        };
                        EXPECT_FALSE(TrainWithCheckpoints([](Mode mode) { return Linear(mode); },
                                                          {failing, 7}, &eval, config, {"worker 0"})
                                         .ok());
                      }
                      return absl::InvalidArgumentError(std::exchange(lines, ""));
                    }},
                   {"results that cannot be written",
                    [&]() -> Refusal {
                      stops = false;
                      config.model_dir = Path("other");
                      config.log = [&](std::string_view line) {
                        if (line.find("not saved") != std::string_view::npos) lines = line;
                      };
                      std::filesystem::create_directory(Path("other"));
                      File("other/eval", "a file where a folder should be");
                      return logged(train(2));
                    }},
               },
               {{Path("run"), "DIR"}, {Path("other"), "DIR"}, {Path("failing"), "DIR"}});
}

TEST_F(TrainAndEvaluateErrors, Positions) {
  const InputSpec input{ExamplesOf(6), {.batch_size = 4, .shuffle_seed = 7}, Feed};
  const CheckpointFacts facts = FactsOf({1, 1}, input);
  const auto with = [&](const std::string& name, const std::string& value) {
    CheckpointFacts changed = facts;
    changed[name] = value;
    return PositionIn(changed, input);
  };
  ExpectErrors("train_and_evaluate_position", {
                                                  MISTAKE(PositionIn({}, input)),
                                                  MISTAKE(with("batch", "-1")),
                                                  MISTAKE(with("epoch", "one")),
                                                  MISTAKE(with("batch_size", "99999999999")),
                                                  MISTAKE(with("shuffle_seed", "none")),
                                                  MISTAKE(with("examples", "7")),
                                              });
}

}  // namespace
}  // namespace meshwork::train_and_evaluate_test

// Mistakes that Fit, its callbacks and FindFirstNan refuse. DIR stands for a directory of this run.
#include "meshwork/train/fit/fit.h"

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "errors/errors.h"
#include "gtest/gtest.h"
#include "meshwork/train/fit/epoch_callbacks.h"
#include "meshwork/train/fit/find_nan.h"
#include "meshwork/train/fit/prefetch_to_device.h"
#include "meshwork/train/optim/averages_as_weights.h"
#include "support/in_domains.h"
#include "support/temp_dir.h"
#include "train/fit_programs.h"

namespace meshwork::fit_test {
namespace {

class FitErrors : public TempDirTest {
 protected:
  // A Fit of one step for each number, on a session of its own.
  static absl::Status Train(const std::vector<CallbackPtr>& callbacks,
                            const std::vector<double>& losses = {1, 2}, FitOptions options = {}) {
    Session session = Session::Create(Echo()).value();
    options.epochs = static_cast<int64_t>(losses.size());
    options.steps_per_epoch = 1;
    options.callbacks = callbacks;
    options.log = [](std::string_view) {};
    return Fit(session, Losses(losses), options).status();
  }
};

Pipeline Batches(const std::string& name) {
  return BatchesOf({{name, Tensor::From<double>({3}, {1, 2, 3})}}, {.batch_size = 1}).value();
}

TEST_F(FitErrors, OptionsAndData) {
  Session session = Session::Create(Classifier("batch=2", 5)).value(), echo = Session::Create(Echo()).value();
  const Pipeline data = ExampleBatches(5), endless = data.Repeat();
  Graph silent_graph(Mesh::VirtualCpus("batch=1").value());
  silent_graph.Output("y", silent_graph.Input("x", F64, {1}, {UNSHARDED}));
  Session silent = Session::Create(silent_graph).value();
  const FeedFunction no_feeds = [](const Example&) -> absl::StatusOr<Feeds> {
    return absl::InvalidArgumentError("Tokens: no text.");
  };
  ExpectErrors(
      "fit",
      {
          MISTAKE(Fit(session, data, {.epochs = -1})),
          MISTAKE(Fit(session, data, {.epochs = 3, .initial_epoch = 4})),
          MISTAKE(Fit(session, data, {.steps_per_epoch = -2})),
          MISTAKE(Fit(session, data, {.validation_data = data, .validation_every = 0})),
          MISTAKE(Fit(session, data, {.validation_data = data, .validation_steps = -1})),
          MISTAKE(Fit(session, data, {.validation_data = data, .validation_averages = "ema"})),
          MISTAKE(Fit(session, data, {.callbacks = {ProgressBar(), nullptr}})),
          MISTAKE(Fit(session, endless)),
          MISTAKE(Fit(session, data, {.validation_data = endless})),
          MISTAKE(Fit(session, Pipeline())),
          MISTAKE(Fit(session, data.Filter([](const Example&) { return false; }))),
          MISTAKE(Fit(session, data.Filter([](const Example&) { return false; }), {.steps_per_epoch = 3})),
          MISTAKE(Fit(session, data.Batch(0))),
          MISTAKE(Fit(session, data, {.outputs = {"los"}})),
          MISTAKE(Fit(session, data, {.outputs = {"logits"}})),
          MISTAKE(Fit(echo, Batches("y"))),
          MISTAKE(Fit(echo, Batches("x"), {.feeds = no_feeds})),
          MISTAKE(Fit(silent, Batches("x"), {.validation_data = Batches("x")})),
          MISTAKE(Evaluate(session, endless)),
          MISTAKE(Evaluate(session, data.Take(0))),
          MISTAKE(Evaluate(session, data, {.outputs = {"acuracy"}})),
          MISTAKE(Evaluate(session, data, {.averages = "slow"})),
          MISTAKE(AveragesAsWeights::Begin(session)),
          MISTAKE(Evaluate(echo, Batches("y"))),
          MISTAKE(Predict(session, endless)),
          MISTAKE(Predict(session, data, {.outputs = {"logit"}})),
          MISTAKE(Predict(session, data)),
          MISTAKE(BatchesOf({})),
          MISTAKE(BatchesOf(Examples(4), {.batch_size = 0})),
          MISTAKE(data.Begin("", -1)),
      });
}

TEST_F(FitErrors, Callbacks) {
  SessionOptions atomic;
  atomic.executor.atomic = true;
  const auto nan = [&](bool find_op, double loss) -> absl::Status {
    Session session = Session::Create(Echo(), atomic).value();
    return Fit(session, Losses({loss}), {.callbacks = {StopOnNan({.find_op = find_op})}}).status();
  };
  const auto validated = [&](const CallbackPtr& callback) {
    return Train({callback}, {1, 2}, {.validation_data = Losses({1})});
  };
  ExpectErrors("fit_callbacks",
               {
                   MISTAKE(Train({EarlyStopping()})),
                   MISTAKE(Train({EarlyStopping({.monitor = "los"})})),
                   MISTAKE(validated(EarlyStopping({.monitor = "val_los"}))),
                   MISTAKE(Train({EarlyStopping({.monitor = "loss", .patience = 0})})),
                   MISTAKE(Train({EarlyStopping({.monitor = "loss", .min_delta = -1})})),
                   MISTAKE(Train({ReduceOnPlateau({.monitor = "loss", .factor = 2})})),
                   MISTAKE(Train({ReduceOnPlateau({.rate = "rat", .monitor = "loss"})})),
                   MISTAKE(Train({ReduceOnPlateau({.rate = "seen", .monitor = "loss"})})),
                   MISTAKE(Train({StopOnNan({.output = "lost"})})),
                   MISTAKE(Train({StopOnNan({.find_op = true})})),
                   MISTAKE(nan(false, NAN)),
                   MISTAKE(nan(true, NAN)),
                   MISTAKE(nan(true, INFINITY)),
                   MISTAKE(Train({BestCheckpoint({.dir = "", .monitor = "loss"})})),
                   MISTAKE(Train({LastCheckpoint({.dir = "x", .keep = 0})})),
                   MISTAKE(Train({LastCheckpoint({.dir = ""})})),
                   MISTAKE(Train({BackupAndResume({})})),
                   MISTAKE(Train({TensorBoardLog(dir(), {.every_steps = -1})})),
                   MISTAKE(Train({TensorBoardLog(dir(), {.variables = {"sen"}})})),
                   MISTAKE(Train({TensorBoardLog("/dev/null/log")})),
                   MISTAKE(Train({CsvLog("/dev/null/log/a.csv")})),
               },
               {{dir(), "DIR"}});
}

TEST_F(FitErrors, Backups) {
  // A training with these callbacks, then another one in the same folder.
  const auto after = [&](const std::function<void(CheckpointNote & note)>& change, FitOptions options,
                         const Pipeline& data, const std::vector<CallbackPtr>& first,
                         std::vector<CallbackPtr> then) -> absl::Status {
    const std::string folder = Path("backup");
    std::filesystem::remove_all(folder);
    Session session = Session::Create(Echo()).value();
    FitOptions begun{.epochs = 2, .callbacks = first, .log = [](std::string_view) {}};
    begun.callbacks.push_back(BackupAndResume({.dir = folder}));
    begun.stop = [&] { return session.steps_done() == 2; };
    MESHWORK_RETURN_IF_ERROR(Fit(session, Losses({1, 2, 3}), begun).status());
    CheckpointNote note = session.Restore(folder).value();
    change(note);
    MESHWORK_RETURN_IF_ERROR(session.Save(folder, note));
    options.log = begun.log;
    options.callbacks = std::move(then);
    options.callbacks.push_back(BackupAndResume({.dir = folder}));
    return Fit(session, data, options).status();
  };
  const auto damaged = [&](const std::string& fact, const std::string& text) {
    const auto change = [&](CheckpointNote& note) { note.facts[fact] = text; };
    return after(change, {}, Losses({1, 2, 3}), {}, {});
  };
  const auto callback = [&](const CallbackPtr& first, const CallbackPtr& then) {
    return after([](CheckpointNote&) {}, {}, Losses({1, 2, 3}), {first}, {then});
  };
  const auto as_it_is = [](CheckpointNote&) {};
  const CallbackPtr nothing = Lambdas({}), stop = EarlyStopping({.monitor = "loss"});
  ExpectErrors(
      "fit_backups",
      {
          {"another steps_per_epoch",
           [&] {
             return after(as_it_is, {.steps_per_epoch = 2}, Losses({1, 2, 3}), {}, {});
           }},
          {"other data",
           [&] {
             return after(as_it_is, {}, Losses({1, 2, 3, 4}), {}, {});
           }},
          {"more callbacks",
           [&] {
             return after(as_it_is, {}, Losses({1, 2, 3}), {}, {nothing});
           }},
          MISTAKE(callback(nothing, stop)),
          MISTAKE(callback(nothing, ReduceOnPlateau({.monitor = "loss"}))),
          MISTAKE(callback(nothing, BestCheckpoint({.dir = Path("best"), .monitor = "loss"}))),
          MISTAKE(damaged("fit/epoch", "three")),
          MISTAKE(damaged("fit/means", "1")),
          MISTAKE(damaged("fit/means", "1;loss=x;")),
          MISTAKE(damaged("fit/history", "{}")),
          MISTAKE(
              damaged("fit/history", "{\"epochs\":[[0,1,1,1,\"0\",\"loss\"]],\"steps\":1,\"stopped\":\"\"}")),
          {"no backup",
           [&] {
             return after([](CheckpointNote& note) { note.facts.clear(); }, {}, Losses({1, 2, 3}), {}, {});
           }},
      },
      {{dir(), "DIR"}});
}

// The lines that callbacks log without an error, joined.
TEST_F(FitErrors, Lines) {
  std::string said;
  const auto train = [&](std::vector<CallbackPtr> callbacks, const std::vector<double>& losses, int64_t stop,
                         bool backs_up) -> absl::Status {
    Session session = Session::Create(Echo()).value();
    FitOptions options = EpochOfOne(losses);
    options.callbacks = std::move(callbacks);
    if (backs_up) options.callbacks.push_back(BackupAndResume({.dir = Path("backup")}));
    options.stop = [&, stop] { return session.steps_done() == stop; };
    said.clear();
    options.log = [&](std::string_view line) { said += fmt::format("{}{}", said.empty() ? "" : "\n", line); };
    const absl::Status status = Fit(session, Losses(losses), options).status();
    return status.ok() ? absl::InvalidArgumentError(said) : status;
  };
  // The last line of a Fit that fails in its third step.
  const auto fails = [&](std::vector<CallbackPtr> callbacks) {
    callbacks.push_back(Lambdas({.on_step_end = [](FitState& state) {
      return state.steps() == 3 ? absl::AbortedError("lost") : absl::OkStatus();
    }}));
    train(std::move(callbacks), {1, 2, 3}, -1, false).IgnoreError();
    return absl::AbortedError(said.substr(said.rfind('\n') + 1));
  };
  const auto stop_early = [] {
    return EarlyStopping({.monitor = "loss", .patience = 2, .restore_best = true});
  };
  const CallbackPtr lose_folder = Lambdas({.on_epoch_begin = [&](FitState&) {
    std::filesystem::remove_all(Path("csv"));
    return absl::OkStatus();
  }});
  const CallbackPtr mend = Lambdas({.on_step_end = [](FitState& state) {
    Tensor x = state.feeds().at("x");
    x.mutable_values<double>()[0] = 1;
    return absl::OkStatus();
  }});
  const auto mended = [&] {
    SessionOptions atomic;
    atomic.executor.atomic = true;
    Session session = Session::Create(Echo(), atomic).value();
    return Fit(session, Losses({NAN}), {.callbacks = {mend, StopOnNan({.find_op = true})}}).status();
  };
  ExpectErrors("fit_lines",
               {
                   MISTAKE(train({ReduceOnPlateau({.monitor = "loss", .patience = 1})}, {1, 2}, -1, false)),
                   {"interrupted",
                    [&] {
                      return train({stop_early()}, {1, 2, 3}, 2, true);
                    }},
                   {"goes on",
                    [&] {
                      return train({stop_early()}, {1, 2, 3}, -1, true);
                    }},
                   MISTAKE(fails({})),
                   MISTAKE(fails({LastCheckpoint({.dir = Path("last")})})),
                   MISTAKE(fails({BackupAndResume({.dir = Path("steps"), .steps = 1})})),
                   MISTAKE(train({CsvLog(Path("csv/log.csv")), lose_folder}, {1}, -1, false)),
                   MISTAKE(mended()),
               },
               {{dir(), "DIR"}});
}

// Callbacks and options that the Fit of parameter servers refuses.
TEST_F(FitErrors, ServedCallbacks) {
  const auto begin = [](std::vector<CallbackPtr> callbacks) {
    return EpochCallbacks(nullptr, {.callbacks = std::move(callbacks)}).BeginTraining();
  };
  const auto nothing = [](FitState&) { return absl::OkStatus(); };
  ExpectErrors("fit_served", {
                                 MISTAKE(begin({nullptr})),
                                 MISTAKE(begin({ProgressBar()})),
                                 MISTAKE(begin({StopOnNan()})),
                                 MISTAKE(begin({ReduceOnPlateau()})),
                                 MISTAKE(begin({BackupAndResume({.dir = Path("backup")})})),
                                 MISTAKE(begin({EarlyStopping({.restore_best = true})})),
                                 MISTAKE(begin({TensorBoardLog(Path("board"), {.every_steps = 1})})),
                                 MISTAKE(begin({Lambdas({.on_step_end = nothing})})),
                             });
}

// The error in process 1 of two. `is_first`: in process 0.
absl::Status InTwo(const std::function<absl::Status(Session& session, bool is_first)>& call) {
  std::vector<absl::Status> said(2);
  InDomains(2, [&](Transport& end) {
    SessionOptions options{.workers = 1, .own_cores = false, .gather_outputs = true};
    options.executor.transport = &end;
    Session session = Session::Create(Classifier("batch=2", 4), options).value();
    said[static_cast<size_t>(end.domain())] = call(session, end.domain() == 0);
  });
  EXPECT_FALSE(said[0].ok());
  return said[1];
}

// Processes whose data, options or calls differ.
TEST_F(FitErrors, Processes) {
  const Pipeline eight = BatchesOf(Examples(8), {.batch_size = 4}).value();
  const auto share_of = [](const Pipeline& own) {
    return own.Map([](Example share) { return share; }, {.from_shares = true});
  };
  const Pipeline empty = share_of(eight.Filter([](const Example&) { return false; }));
  const auto unknown = [&](int64_t batches) {
    return share_of(eight.Take(batches).Filter([](const Example&) { return true; }));
  };
  const auto fit = [](const Pipeline& first, const Pipeline& second, const FitOptions& options = {}) {
    return InTwo([&](Session& session, bool is_first) {
      return Fit(session, is_first ? first : second, options).status();
    });
  };
  const auto evaluate = [](const Pipeline& first, const Pipeline& second) {
    return InTwo([&](Session& session, bool is_first) {
      return Evaluate(session, is_first ? first : second).status();
    });
  };
  const auto predict = [](const Pipeline& first, const Pipeline& second) {
    return InTwo([&](Session& session, bool is_first) {
      return Predict(session, is_first ? first : second, {.outputs = {"logits"}}).status();
    });
  };
  const auto share = [&](int64_t rows) {
    return share_of(BatchesOf(Examples(rows), {.batch_size = 4}).value());
  };
  const auto epochs = [&] {
    return InTwo([&](Session& session, bool is_first) {
      return Fit(session, eight, {.epochs = is_first ? 1 : 2}).status();
    });
  };
  const auto fit_and_evaluate = [&] {
    return InTwo([&](Session& session, bool is_first) {
      return is_first ? Fit(session, eight).status() : Evaluate(session, eight).status();
    });
  };
  const auto outputs = [&] {
    return InTwo([&](Session& session, bool is_first) {
      return Predict(session, eight, {.outputs = {is_first ? "logits" : "loss"}}).status();
    });
  };
  ExpectErrors("fit_processes", {
                                    MISTAKE(fit(eight, eight.Shuffle(2, 7))),
                                    MISTAKE(fit(share(8), share(4))),
                                    MISTAKE(fit(unknown(2), unknown(1))),
                                    MISTAKE(fit(unknown(2), empty, {.steps_per_epoch = 3})),
                                    MISTAKE(fit(share(8), share(4), {.epochs = 2, .steps_per_epoch = 2})),
                                    MISTAKE(fit(eight, eight, {.validation_data = empty})),
                                    MISTAKE(fit(eight, eight.Take(0), {.steps_per_epoch = 3})),
                                    MISTAKE(epochs()),
                                    MISTAKE(evaluate(unknown(1), unknown(2))),
                                    MISTAKE(evaluate(share(8), share(6))),
                                    MISTAKE(predict(empty, empty)),
                                    MISTAKE(predict(unknown(1), empty)),
                                    MISTAKE(outputs()),
                                    MISTAKE(fit_and_evaluate()),
                                });
}

TEST_F(FitErrors, FindingNan) {
  Session session = Session::Create(Classifier("batch=2", 5)).value();
  const auto in_domains = [] {
    absl::Status found;
    InDomains(2, [&](Transport& end) {
      SessionOptions options{.workers = 1, .gather_outputs = true};
      options.executor.transport = &end;
      Session part = Session::Create(Classifier("batch=2", 4), options).value();
      const absl::Status status = FindFirstNan(part, Examples(4)).status();
      if (end.domain() == 0) found = status;
    });
    return found;
  };
  const auto found = [] {
    Graph g(Mesh::VirtualCpus("batch=2").value());
    Value x = g.Input("x", F64, {2}, {"batch"});
    g.Output("y", Log({x, CallSite{"model.cc", 41}}));
    Session logs = Session::Create(g).value();
    const NanOrigin origin = FindFirstNan(logs, {{"x", Tensor::From<double>({2}, {1, -1})}})->value();
    return absl::InvalidArgumentError(origin.message);
  };
  Feeds wrong = Examples(5);
  wrong["x"] = Tensor::From<double>({2}, {1});
  Feeds short_one = Examples(5);
  short_one["y"] = Examples(4).at("y");
  ExpectErrors("find_nan", {
                               MISTAKE(FindFirstNan(session, {})),
                               MISTAKE(FindFirstNan(session, wrong)),
                               MISTAKE(FindFirstNan(session, short_one)),
                               MISTAKE(in_domains()),
                               MISTAKE(found()),
                           });
}

TEST_F(FitErrors, Prefetch) {
  const Session session = Session::Create(Echo()).value();
  const auto ahead = PrefetchToDevice::Create(session, /*prefetches=*/true).value();
  const auto next = [&](PrefetchToDevice::Source source) {
    ahead->Start(std::move(source));
    return ahead->Next().status();
  };
  ExpectErrors(
      "prefetch",
      {
          MISTAKE(ahead->Next()),
          MISTAKE(next([]() -> absl::StatusOr<std::optional<NextFeeds>> { throw std::bad_alloc(); })),
      });
}

}  // namespace
}  // namespace meshwork::fit_test

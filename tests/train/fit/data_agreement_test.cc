// Processes whose data differ: all end with the same error, or all take the same steps. Each process is a domain, on a
// thread of its own. Results are compared with those of one device that has the data of all.
#include "meshwork/train/fit/data_agreement.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fmt/ranges.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "support/counted_end.h"
#include "support/in_domains.h"
#include "support/temp_dir.h"
#include "support/tensors.h"

namespace meshwork::data_agreement_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr int64_t kShare = 2;  // examples of a batch in each process

// x: f64[n,1] -> "loss", "row" = 2 x; w is trained.
Graph Scale(int64_t processes) {
  Graph g(Mesh::VirtualCpus(fmt::format("batch={}", processes)).value());
  const Value x = g.Input("x", F64, {kShare * processes, 1}, {"batch", UNSHARDED});
  const Variable w = g.Var("w", Filled(0.5, {}, F64), {});
  const Value loss = ReduceMean(Square(x * w - 1.0));
  Sgd({.learning_rate = 0.01}).Minimize(loss);
  g.Output("loss", loss);
  g.Output("row", x * 2.0);
  return g;
}

// The rows that process p reads for batch i: two rows that no other batch has.
Tensor ShareOf(int64_t p, int64_t i) {
  const double first = 0.01 * static_cast<double>(100 * i + 10 * p);
  return Tensor::From<double>({kShare, 1}, {first, first + 0.01});
}
Tensor BatchOf(int64_t processes, int64_t i) {
  std::vector<Tensor> shares;
  for (int64_t p = 0; p < processes; ++p) shares.push_back(ShareOf(p, i));
  return Tensor::Concat(shares, 0);
}
// `batches` batches, of which process p reads its share. `is_known`: the number is known before the batches are made.
Pipeline Shares(int64_t p, int64_t processes, int64_t batches, bool is_known) {
  Pipeline shares = Pipeline::FromFunction(batches, [p](int64_t i) { return Example{{"x", ShareOf(p, i)}}; });
  if (!is_known) shares = shares.Filter([](const Example&) { return true; });
  return WholeBatchesOf(shares, {.input_pipeline_id = p, .num_input_pipelines = processes});
}
Pipeline Whole(int64_t processes, int64_t batches) {
  return Pipeline::FromFunction(batches, [processes](int64_t i) {
    return Example{{"x", BatchOf(processes, i)}};
  });
}

// 0, 0.01, 0.02, …: f64[n,1].
Tensor Ascending(int64_t n) {
  std::vector<double> numbers;
  for (int64_t i = 0; i < n; ++i) numbers.push_back(0.01 * static_cast<double>(i));
  return Tensor::From<double>({n, 1}, numbers);
}

// Calls play(p, end) for each process p, on a thread of its own.
void InProcesses(int64_t processes, const std::function<void(int64_t p, Transport& end)>& play) {
  InDomains(processes, [&](Transport& end) { play(end.domain(), end); });
}

Session Make(int64_t processes, Transport* end) {
  SessionOptions options{.workers = 1, .own_cores = false, .gather_outputs = true};
  options.executor.transport = end;
  return Session::Create(Scale(processes), std::move(options)).value();
}

FitOptions Quietly(FitOptions options) {
  options.log = [](std::string_view) {};
  return options;
}

// A number for each thing that is done to the data, such as the loss of each epoch.
using Numbers = std::vector<double>;
using Do = std::function<absl::StatusOr<Numbers>(Session& session, const Pipeline& data)>;

absl::StatusOr<Numbers> FitOnce(Session& session, const Pipeline& data, FitOptions options) {
  const absl::Status set = session.Set("w", Tensor::Full({F64, {}}, 0.5));
  if (!set.ok()) return set;
  const absl::StatusOr<History> history = Fit(session, data, Quietly(std::move(options)));
  if (!history.ok()) return history.status();
  Numbers numbers = history->Of("loss");
  numbers.push_back(static_cast<double>(history->steps));
  numbers.push_back(session.Get("w")->Scalar().value());
  return numbers;
}
const Do kFit = [](Session& session, const Pipeline& data) { return FitOnce(session, data, {.epochs = 2}); };
const Do kEvaluate = [](Session& session, const Pipeline& data) -> absl::StatusOr<Numbers> {
  const absl::StatusOr<Metrics> metrics = Evaluate(session, data, {.outputs = {"loss"}});
  if (!metrics.ok()) return metrics.status();
  return Numbers{metrics->at("loss")};
};
const Do kPredict = [](Session& session, const Pipeline& data) -> absl::StatusOr<Numbers> {
  const absl::StatusOr<StepResult> result = Predict(session, data, {.outputs = {"row"}});
  if (!result.ok()) return result.status();
  return NumbersOf(result->Get("row").value());
};

void ExpectNear(const absl::StatusOr<Numbers>& found, const absl::StatusOr<Numbers>& expected) {
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_TRUE(expected.ok()) << expected.status();
  ASSERT_EQ(found->size(), expected->size());
  for (size_t i = 0; i < found->size(); ++i) EXPECT_NEAR((*found)[i], (*expected)[i], 1e-12) << i;
}

// All processes must return one error, which names a process that differs.
void ExpectOneError(const std::vector<absl::StatusOr<Numbers>>& results, const std::string& named) {
  for (const absl::StatusOr<Numbers>& result : results) {
    EXPECT_EQ(result.status(), results[0].status());
    EXPECT_THAT(std::string(MessageOf(result.status())), HasSubstr(named));
  }
}

// All combinations of data lengths from 0 to 5, one length per process.
std::vector<std::vector<int64_t>> AllLengths(int64_t processes) {
  std::vector<std::vector<int64_t>> all = {{}};
  for (int64_t p = 0; p < processes; ++p) {
    std::vector<std::vector<int64_t>> longer;
    for (const std::vector<int64_t>& lengths : all)
      for (int64_t length = 0; length <= 5; ++length) {
        longer.push_back(lengths);
        longer.back().push_back(length);
      }
    all = std::move(longer);
  }
  return all;
}

std::string ProcessesWith(const std::vector<int64_t>& lengths, int64_t length) {
  std::vector<size_t> who;
  for (size_t p = 0; p < lengths.size(); ++p)
    if (lengths[p] == length) who.push_back(p);
  return fmt::format("process{} {}: ", who.size() == 1 ? "" : "es", fmt::join(who, ", "));
}

TEST(DataAgreementTest, SharesOfAllLengthsAreOneWalkOrOneError) {
  const std::vector<Do> all_done = {kFit, kEvaluate, kPredict};
  for (const int64_t processes : {1, 2, 3}) {
    Session alone = Make(processes, nullptr);
    const std::vector<std::vector<int64_t>> all = AllLengths(processes);
    const size_t cases = all.size() * all_done.size() * 2;
    std::vector<std::vector<absl::StatusOr<Numbers>>> results(
        cases, std::vector<absl::StatusOr<Numbers>>(static_cast<size_t>(processes)));
    InProcesses(processes, [&](int64_t p, Transport& end) {
      Session session = Make(processes, processes == 1 ? nullptr : &end);
      size_t at = 0;
      for (const bool is_known : {true, false})
        for (const Do& act : all_done)
          for (const std::vector<int64_t>& lengths : all)
            results[at++][static_cast<size_t>(p)] =
                act(session, Shares(p, processes, lengths[static_cast<size_t>(p)], is_known));
    });
    size_t at = 0;
    for (const bool is_known : {true, false})
      for (size_t act = 0; act < all_done.size(); ++act)
        for (const std::vector<int64_t>& lengths : all) {
          SCOPED_TRACE(fmt::format("known {}, act {}, {} batches", is_known, act, fmt::join(lengths, " ")));
          const auto [least, most] = std::minmax_element(lengths.begin(), lengths.end());
          if (*least < *most) {
            ExpectOneError(results[at], ProcessesWith(lengths, *least));
            EXPECT_THAT(std::string(MessageOf(results[at][0].status())), HasSubstr("equal shares"));
          } else if (*least == 0) {
            ExpectOneError(results[at], "gave no batch");
          } else {
            for (const absl::StatusOr<Numbers>& result : results[at])
              ExpectNear(result, all_done[act](alone, Whole(processes, *least)));
          }
          ++at;
        }
  }
}

// An epoch of a given number of steps continues at the beginning of the data when they end.
TEST(DataAgreementTest, StepsPerEpochTakeTheSameWalks) {
  const FitOptions options{.epochs = 3, .steps_per_epoch = 3};
  std::vector<std::vector<absl::StatusOr<Numbers>>> once(36, std::vector<absl::StatusOr<Numbers>>(2)),
      repeated = once;
  InProcesses(2, [&](int64_t p, Transport& end) {
    Session session = Make(2, &end);
    size_t at = 0;
    for (const std::vector<int64_t>& lengths : AllLengths(2)) {
      const Pipeline data = Shares(p, 2, lengths[static_cast<size_t>(p)], at % 2 == 0);
      once[at][static_cast<size_t>(p)] = FitOnce(session, data, options);
      repeated[at++][static_cast<size_t>(p)] = FitOnce(session, data.Repeat(), options);
    }
  });
  Session alone = Make(2, nullptr);
  size_t at = 0;
  for (const std::vector<int64_t>& lengths : AllLengths(2)) {
    SCOPED_TRACE(fmt::format("{} batches", fmt::join(lengths, " ")));
    const auto [least, most] = std::minmax_element(lengths.begin(), lengths.end());
    if (*most == 0) {
      ExpectOneError(once[at], "gave no batch");
    } else if (*least < std::min<int64_t>(*most, 9)) {
      ExpectOneError(once[at], ProcessesWith(lengths, *least));
    } else {
      for (const absl::StatusOr<Numbers>& result : once[at])
        ExpectNear(result, FitOnce(alone, Whole(2, *most), options));
    }
    if (*least > 0) {
      // Each process starts again at the beginning of its own data when they end.
      const Pipeline both = Pipeline::FromFunction({}, [lengths](int64_t i) {
        return Example{{"x", Tensor::Concat({ShareOf(0, i % lengths[0]), ShareOf(1, i % lengths[1])}, 0)}};
      });
      for (const absl::StatusOr<Numbers>& result : repeated[at])
        ExpectNear(result, FitOnce(alone, both, options));
    } else if (*most > 0) {
      ExpectOneError(repeated[at], ProcessesWith(lengths, 0));
    }
    ++at;
  }
}

TEST(DataAgreementTest, ValidationDataOfOtherLengthsAreAnError) {
  for (const bool is_known : {true, false})
    InProcesses(2, [&](int64_t p, Transport& end) {
      Session session = Make(2, &end);
      FitOptions options{.validation_data = Shares(p, 2, p == 0 ? 2 : 1, is_known)};
      const absl::Status status = Fit(session, Shares(p, 2, 3, true), Quietly(options)).status();
      EXPECT_THAT(std::string(MessageOf(status)), AllOf(HasSubstr("process 1: "), HasSubstr("validation")));
      options.validation_steps = 1;
      Session again = Make(2, &end);
      EXPECT_EQ(Fit(again, Shares(p, 2, 3, true), Quietly(options)).status(), absl::OkStatus());
    });
}

// A case in which two processes describe their data differently.
struct Described {
  std::string name, said;  // text in the message; empty: the difference is allowed
  std::function<Pipeline(int64_t p)> data;
};

std::vector<Described> AllDescribed(const std::string& dir) {
  const auto rows = [](int64_t n, double first) {
    return Dataset::Create({{"x", Ascending(n)}, {"y", Tensor::Full({F64, {n, 1}}, first)}}).value();
  };
  const auto from = [=](int64_t n, double first) { return Pipeline::From(rows(n, first)); };
  const auto lines = [dir](const std::string& name) {
    return TextLines({fmt::format("{}/{}.txt", dir, name)})
        .Map([](const Example&) {
          return Example{{"x", Tensor::Zeros({F64, {1}})}};
        })
        .Batch(4);
  };
  const auto parts = [](int64_t first) {
    return Dataset::FromParts(
               {{4,
                 [first] {
                   return Columns{{"x", Tensor::Full({F64, {4, 1}}, static_cast<double>(first))}};
                 }},
                {4,
                 [] {
                   return Columns{{"x", Tensor::Zeros({F64, {4, 1}})}};
                 }}})
        .value();
  };
  return {
      {"the same", "", [=](int64_t) { return from(8, 0).Shuffle(8, 7).Batch(4); }},
      {"seeds", "seed 8",
       [=](int64_t p) { return from(8, 0).Shuffle(8, 7 + static_cast<uint64_t>(p)).Batch(4); }},
      {"buffers", "shuffle(5, ", [=](int64_t p) { return from(8, 0).Shuffle(4 + p, 7).Batch(4); }},
      {"examples", "contents", [=](int64_t p) { return from(8, static_cast<double>(p)).Batch(4); }},
      {"sizes", "dataset(12", [=](int64_t p) { return from(8 + 4 * p, 0).Batch(4); }},
      {"views", "dataset(4", [=](int64_t p) { return Pipeline::From(rows(8, 0).Take(8 - 4 * p)).Batch(4); }},
      {"batches", "batch(3)", [=](int64_t p) { return from(8, 0).Batch(4 - p); }},
      {"remainders", "drop_remainder",
       [=](int64_t p) { return from(8, 0).Batch(4, {.drop_remainder = p == 1}); }},
      {"stages", "skip(4)",
       [=](int64_t p) { return p == 0 ? from(8, 0).Batch(4) : from(12, 0).Skip(4).Batch(4); }},
      {"functions", "map",
       [=](int64_t p) {
         return p == 0 ? from(8, 0).Batch(4) : from(8, 0).Map([](Example e) { return e; }).Batch(4);
       }},
      {"inputs of Zip", "zip(",
       [=](int64_t p) {
         return Pipeline::Zip({from(8, 0), Pipeline::Range(8 + p)}).Batch(4);
       }},
      {"inputs of Interleave", "contents",
       [=](int64_t p) {
         return Pipeline::Interleave({from(4, 0), from(4, static_cast<double>(p))}).Batch(4);
       }},
      {"names of files", "names", [=](int64_t p) { return lines(p == 0 ? "a" : "b"); }},
      {"folders of files", "", [=](int64_t p) { return lines(fmt::format("{}/c", p)); }},
      {"threads", "",
       [=](int64_t p) {
         return from(8, 0)
             .Map([](Example e) { return e; }, {.threads = static_cast<int>(p)})
             .Batch(4)
             .Prefetch(1 + p);
       }},
      {"parts that are not loaded", "", [=](int64_t p) { return Pipeline::From(parts(p)).Batch(4); }},
      {"Shard by process", "", [=](int64_t p) { return from(16, 0).Shard(p, 2).Batch(4); }},
      {"numbers of shards", "shard(of 3)",
       [=](int64_t p) { return from(24, 0).Shard(0, 2 + p).Take(8).Batch(4); }},
      {"shares", "",
       [=](int64_t p) {
         const Pipeline share = p == 0 ? from(4, 0).Batch(2) : from(5, 1).Shuffle(2, 3).Take(4).Batch(2);
         return WholeBatchesOf(share, {.input_pipeline_id = p, .num_input_pipelines = 2});
       }},
  };
}

class DescriptionsTest : public TempDirTest {};

TEST_F(DescriptionsTest, WhatDiffersIsNamedUnlessItDiffersByDesign) {
  for (const char* folder : {"0", "1"}) std::filesystem::create_directories(Path(folder));
  for (const char* name : {"a.txt", "b.txt", "0/c.txt", "1/c.txt"}) File(name, "1\n2\n3\n4\n");
  InProcesses(2, [&](int64_t p, Transport& end) {
    Session session = Make(2, &end);
    for (const Described& described : AllDescribed(dir())) {
      SCOPED_TRACE(described.name);
      const FeedFunction feeds = [](const Example& batch) -> absl::StatusOr<Feeds> {
        return Feeds{{"x", batch["x"]}};
      };
      const Pipeline data = described.data(p);
      ASSERT_TRUE(data.status().ok()) << data.status();
      const std::vector<absl::Status> all = {
          Fit(session, data, Quietly({.feeds = feeds})).status(),
          Fit(session, Whole(2, 2), Quietly({.validation_data = data, .feeds = feeds})).status(),
          Evaluate(session, data, {.outputs = {"loss"}, .feeds = feeds}).status(),
          Predict(session, data, {.outputs = {"row"}, .feeds = feeds}).status()};
      for (const absl::Status& status : all) {
        if (described.said.empty()) EXPECT_EQ(status, absl::OkStatus());
        else
          EXPECT_THAT(std::string(MessageOf(status)),
                      AllOf(HasSubstr("process 1: "), HasSubstr(described.said)));
      }
    }
  });
}

TEST(DataAgreementTest, OptionsOfOneProcessAreNamed) {
  InProcesses(2, [&](int64_t p, Transport& end) {
    Session session = Make(2, &end);
    const Pipeline data = Whole(2, 2);
    const auto fit = [&](const FitOptions& options) {
      return std::string(MessageOf(Fit(session, data, Quietly(options)).status()));
    };
    EXPECT_THAT(fit({.epochs = 2 + p}),
                HasSubstr("processes differ in their number of epochs. process 0: 2; process 1: 3."));
    EXPECT_THAT(fit({.steps_per_epoch = 1 + p}), HasSubstr("steps_per_epoch"));
    EXPECT_THAT(fit({.epochs = 2, .initial_epoch = p}), HasSubstr("initial_epoch"));
    EXPECT_THAT(fit({.validation_data = data, .validation_every = 1 + p}), HasSubstr("validation_every"));
    EXPECT_THAT(fit({.validation_data = data, .validation_steps = 1 + p}), HasSubstr("validation_steps"));
    EXPECT_THAT(fit({.validation_data = p == 0 ? std::optional(data) : std::nullopt}),
                HasSubstr("validation data"));
    EXPECT_THAT(
        std::string(MessageOf(Evaluate(session, data, {.outputs = {"loss"}, .steps = 1 + p}).status())),
        HasSubstr("differ in their steps. process 0: 1; process 1: 2."));
    EXPECT_EQ(fit({.epochs = 2}), "") << "the session can be used after all of them";
  });
}

// One process feeds batches of another size.
TEST(DataAgreementTest, BatchesOfOtherSizesAreNamed) {
  InProcesses(2, [&](int64_t p, Transport& end) {
    Session session = Make(2, &end);
    const FeedFunction feeds = [p](const Example& batch) -> absl::StatusOr<Feeds> {
      return Feeds{{"x", batch["x"].Rows(0, 4 - p)}};
    };
    for (const absl::Status& status :
         {Fit(session, Whole(2, 2), Quietly({.feeds = feeds})).status(),
          Evaluate(session, Whole(2, 2), {.outputs = {"loss"}, .feeds = feeds}).status(),
          Predict(session, Whole(2, 2), {.outputs = {"row"}, .feeds = feeds}).status()})
      EXPECT_THAT(
          std::string(MessageOf(status)),
          AllOf(HasSubstr("process 0: "), HasSubstr("4 examples; process 1: "), HasSubstr("3 examples")));
  });
}

// More rows than the program takes are predicted in parts.
TEST(DataAgreementTest, PredictsInPartsInAllProcesses) {
  const auto data = [](int64_t rows) {
    return BatchesOf({{"x", Ascending(rows)}}, {.batch_size = rows}).value();
  };
  InProcesses(2, [&](int64_t p, Transport& end) {
    Session session = Make(2, &end), alone = Make(2, nullptr);
    ExpectNear(kPredict(session, data(11)), kPredict(alone, data(11)));
    const FeedFunction more = [p](const Example& batch) -> absl::StatusOr<Feeds> {
      return Feeds{{"x", batch["x"].Rows(0, 11 - 5 * p)}};
    };
    EXPECT_THAT(
        std::string(MessageOf(Predict(session, data(11), {.outputs = {"row"}, .feeds = more}).status())),
        HasSubstr("process 1: batch 1, 6 examples"));
  });
}

// ---- Stop.

// When a process asks to stop: before the first epoch, or in epoch 2. An epoch has three steps.
enum class When { kTrainBegin, kEpochBegin, kStepEnd, kLastStepEnd, kEpochEnd };
constexpr When kAllTimes[] = {When::kTrainBegin, When::kEpochBegin, When::kStepEnd, When::kLastStepEnd,
                              When::kEpochEnd};

// Asks to stop in process p, if it is one of `who`.
CallbackPtr StopIn(const std::vector<int64_t>& who, int64_t p, When when) {
  const bool asks = std::find(who.begin(), who.end(), p) != who.end();
  const std::string why = who.size() == 1 ? fmt::format("{} has\nenough", p) : "enough";
  const auto stop_if = [=](FitState& state, bool is_time) {
    if (asks && is_time) state.Stop(why);
    return absl::OkStatus();
  };
  return Lambdas(
      {.on_train_begin = [=](FitState& state) { return stop_if(state, when == When::kTrainBegin); },
       .on_epoch_begin =
           [=](FitState& state) { return stop_if(state, when == When::kEpochBegin && state.epoch() == 1); },
       .on_step_end =
           [=](FitState& state) {
             return stop_if(state, (when == When::kStepEnd && state.steps() == 5) ||
                                       (when == When::kLastStepEnd && state.steps() == 6));
           },
       .on_epoch_end =
           [=](FitState& state) { return stop_if(state, when == When::kEpochEnd && state.epoch() == 1); }});
}

// The history of a training with the callback `stops`.
History StoppedFit(Session& session, const Pipeline& data, const CallbackPtr& stops, bool prefetch) {
  return Fit(session, data, Quietly({.epochs = 4, .callbacks = {stops}, .prefetch_to_device = prefetch}))
      .value();
}

TEST(StopTest, OfOneProcessStopsAllAfterTheSameStep) {
  for (const When when : kAllTimes)
    for (const bool prefetch : {false, true})
      for (const bool is_known : {true, false}) {
        SCOPED_TRACE(
            fmt::format("when {}, prefetch {}, known {}", static_cast<int>(when), prefetch, is_known));
        Session alone = Make(3, nullptr);
        Pipeline all = Whole(3, 3);
        if (!is_known) all = all.Filter([](const Example&) { return true; });
        const History expected = StoppedFit(alone, all, StopIn({0}, 0, when), prefetch);
        const double w = alone.Get("w")->Scalar().value();
        InProcesses(3, [&](int64_t p, Transport& end) {
          for (const std::vector<int64_t>& who : {std::vector<int64_t>{0}, {1}, {2}, {0, 1, 2}}) {
            Session session = Make(3, &end);
            const History history =
                StoppedFit(session, Shares(p, 3, 3, is_known), StopIn(who, p, when), prefetch);
            EXPECT_EQ(history.stopped,
                      who.size() == 3 ? "enough" : fmt::format("process {}: {} has enough", who[0], who[0]));
            EXPECT_EQ(history.steps, expected.steps);
            EXPECT_EQ(history.epochs.size(), expected.epochs.size());
            EXPECT_NEAR(session.Get("w")->Scalar().value(), w, 1e-12);
          }
        });
      }
}

// The batch with which a training would go on from this note.
std::vector<double> NextBatch(const Pipeline& data, const CheckpointNote& note) {
  const int64_t walk = std::stoll(note.facts.at("fit/walk"));
  std::optional<Example> next = data.Begin(note.facts.at("fit/position"), walk)->Next().value();
  if (!next.has_value()) next = data.Begin("", walk + 1)->Next().value();
  return NumbersOf((*next)["x"]);
}

// One that was fetched when another process stopped is not lost.
TEST(StopTest, LosesNoBatch) {
  const Pipeline data = BatchesOf({{"x", Ascending(14)}}, {.batch_size = 4, .shuffle_seed = 5}).value();
  const auto stopped = [&](Session& session, const FitOptions& options, int64_t after, bool asks) {
    CheckpointNote note;
    FitOptions stopping = options;
    stopping.callbacks = {Lambdas({.on_step_end =
                                       [&](FitState& state) {
                                         if (asks && state.steps() == after) state.Stop("");
                                         return absl::OkStatus();
                                       },
                                   .on_train_end =
                                       [&](FitState& state) {
                                         note = state.Note().value();
                                         return absl::OkStatus();
                                       }})};
    EXPECT_EQ(Fit(session, data, stopping)->steps, after);
    return note;
  };
  for (const int64_t steps_per_epoch : {0, 3})
    for (const bool prefetch : {false, true})
      for (int64_t after = 1; after < 12; ++after) {
        SCOPED_TRACE(
            fmt::format("{} steps per epoch, prefetch {}, after {}", steps_per_epoch, prefetch, after));
        const FitOptions options =
            Quietly({.epochs = 4, .steps_per_epoch = steps_per_epoch, .prefetch_to_device = prefetch});
        Session alone = Make(2, nullptr);
        const CheckpointNote expected = stopped(alone, options, after, true);
        InProcesses(2, [&](int64_t p, Transport& end) {
          Session session = Make(2, &end);
          const CheckpointNote note = stopped(session, options, after, p == 1);
          EXPECT_EQ(NextBatch(data, note), NextBatch(data, expected));
          for (const char* const fact : {"fit/epoch", "fit/epoch_steps"})
            EXPECT_EQ(note.facts.at(fact), expected.facts.at(fact)) << fact;
        });
      }
}

// ---- What it costs.

TEST(DataAgreementTest, AStepExchangesOneText) {
  std::vector<int64_t> texts;
  for (const int64_t batches : {1, 5, 9})
    InProcesses(2, [&](int64_t p, Transport& end) {
      CountedEnd counted(end);
      Session session = Make(2, &counted);
      const Pipeline data = Whole(2, batches);
      ASSERT_TRUE(Evaluate(session, data, {.outputs = {"loss"}}).ok());  // compiles it
      const int64_t before = counted.texts();
      ASSERT_TRUE(Evaluate(session, data, {.outputs = {"loss"}}).ok());
      if (p == 0) texts.push_back(counted.texts() - before);
    });
  ASSERT_THAT(texts, SizeIs(3));
  EXPECT_EQ(texts, (std::vector<int64_t>{3, 7, 11})) << "one for the beginning, one for the end";
}

}  // namespace
}  // namespace meshwork::data_agreement_test

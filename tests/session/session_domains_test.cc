// Sessions on several domains of this process, compared with one session that has all devices.
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "runtime/plan/programs.h"
#include "support/counted_end.h"
#include "support/in_domains.h"
#include "support/tensors.h"

namespace meshwork::session_domains_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

constexpr int64_t kBatch = 12;

// x: f64[b,6], y: i32[b] -> loss, logits: f64[b,4]. The hidden layer lies over `model`.
struct Losses {
  Value loss, logits;
};
Losses AddNetwork(Graph& g, int64_t batch = kBatch, const DimSpec& rows = "batch") {
  Value x = g.Input("x", F64, {batch, 6}, {rows, UNSHARDED});
  Value y = g.Input("y", I32, {batch}, {rows});
  Variable w = g.Var("w", GlorotUniform({6, 7}, F64), {UNSHARDED, "model"});
  Variable v = g.Var("v", GlorotUniform({7, 4}, F64), {"model", UNSHARDED});
  Value logits = MatMul(Relu(MatMul(x, w)), v);
  Value loss = SparseSoftmaxCrossEntropy(logits, y);
  Adam({.learning_rate = 0.05}).Minimize(loss);
  return {loss, logits};
}

// `is_split` leaves the logits in blocks.
Graph Network(const std::string& mesh, bool is_split = false) {
  Graph g(Mesh::VirtualCpus(mesh).value());
  const Losses trained = AddNetwork(g);
  g.Output("loss", trained.loss);
  g.Output("logits", Relayout(trained.logits,
                              is_split ? LayoutSpec{"batch", UNSHARDED} : LayoutSpec{UNSHARDED, UNSHARDED}));
  return g;
}

Feeds NetworkFeeds(int64_t rows) {
  static const Tensor x = Rough(Type{F64, {kBatch, 6}});
  static const Tensor y = Tensor::From<int32_t>({kBatch}, {0, 3, 1, 2, 2, 0, 1, 3, 3, 0, 2, 1});
  return {{"x", x.Rows(0, rows)}, {"y", y.Rows(0, rows)}};
}

SessionOptions OnTransport(Transport* transport) {
  SessionOptions options{.workers = 1, .own_cores = false};
  options.executor.poison_padding = options.executor.check_replicas = true;
  options.executor.transport = transport;
  return options;
}

// Losses and outputs of a few steps (whole and short batches, with and without updates), then the variables.
std::vector<double> Train(Session& session) {
  std::vector<double> numbers;
  auto append = [&](const Tensor& tensor) {
    for (double number : NumbersOf(tensor)) numbers.push_back(number);
  };
  for (int64_t rows : {kBatch, int64_t{5}, kBatch, int64_t{1}, int64_t{5}, kBatch}) {
    const absl::StatusOr<StepResult> step = session.Run(NetworkFeeds(rows));
    EXPECT_TRUE(step.ok()) << step.status();
    const absl::StatusOr<StepResult> evaluated = session.Evaluate(NetworkFeeds(rows));
    EXPECT_TRUE(evaluated.ok()) << evaluated.status();
    if (!step.ok() || !evaluated.ok()) return numbers;
    for (const StepResult* result : {&*step, &*evaluated})
      for (const auto& [name, tensor] : result->outputs()) append(tensor);
  }
  for (const std::string& name : session.variable_names()) {
    const absl::StatusOr<Tensor> value = session.Get(name);
    EXPECT_TRUE(value.ok()) << name << ": " << value.status();
    if (value.ok()) append(*value);
  }
  return numbers;
}

TEST(SessionDomainsTest, TrainsAsOneSessionDoes) {
  for (const std::string mesh :
       {"batch=4,model=2", "batch=2,model=2", "model=4,batch=1", "batch=6,model=1", "batch=3,model=2"}) {
    Session whole = Session::Create(Network(mesh), OnTransport(nullptr)).value();
    const std::vector<double> expected = Train(whole);
    ASSERT_GT(expected.size(), 100u);
    for (int64_t domains : {2, 3, 4, 6}) {
      if (!Placement::Create(whole.program().body.mesh(), domains).ok()) continue;
      InDomains(domains, [&](Transport& end) {
        absl::StatusOr<Session> session = Session::Create(Network(mesh), OnTransport(&end));
        ASSERT_TRUE(session.ok()) << session.status();
        const std::vector<double> found = Train(*session);
        ASSERT_EQ(found.size(), expected.size());
        for (size_t i = 0; i < found.size(); ++i)
          ASSERT_NEAR(found[i], expected[i], 1e-9)
              << mesh << ", domain " << end.domain() << " of " << domains << ", number " << i;
      });
    }
  }
}

// Loss and weights of a program for `batch` rows that are sharded as `rows` says.
Graph LossOnly(const std::string& mesh, int64_t batch, const DimSpec& rows = "batch") {
  Graph g(Mesh::VirtualCpus(mesh).value());
  g.Output("loss", AddNetwork(g, batch, rows).loss);
  return g;
}

TEST(SessionDomainsTest, KnowsTheRowsThatItReads) {
  struct Case {
    std::string mesh;
    int64_t batch, rows;
    std::vector<RowRange> here;  // by domain
  };
  const Case cases[] = {
      {"batch=4,model=2", 128, 128, {{0, 64}, {64, 128}}},
      {"batch=4,model=2", 128, 127, {{0, 64}, {64, 127}}},
      {"batch=4,model=2", 127, 127, {{0, 64}, {64, 127}}},
      {"batch=4,model=2", 128, 9, {{0, 6}, {6, 9}}},
      {"batch=4,model=2", 128, 2, {{0, 2}, {}}},
      {"batch=4,model=2", 128, 1, {{0, 1}, {}}},
      {"batch=4,model=2", 128, 128, {{0, 32}, {32, 64}, {64, 96}, {96, 128}}},
      {"batch=4,model=2", 128, 5, {{0, 2}, {2, 4}, {4, 5}, {}}},
      {"batch=3,model=1", 128, 128, {{0, 43}, {43, 86}, {86, 128}}},
      {"batch=2,model=4", 128, 128, {{0, 64}, {0, 64}, {64, 128}, {64, 128}}},
      {"model=2,batch=2", 128, 128, {{0, 128}, {0, 128}}},
      {"model=2,batch=2", 128, 7, {{0, 7}, {0, 7}}},
      {"batch=4,model=1", 128, 128, {{0, 128}}},
      // Numbers of rows that no batch has.
      {"batch=4,model=2", 128, 129, {{0, 129}, {0, 129}}},
      {"batch=4,model=2", 128, 0, {{}, {}}},
      {"batch=4,model=2", 128, INT64_MIN, {{}, {}}},
      {"batch=4,model=2", 128, INT64_MAX, {{0, INT64_MAX}, {0, INT64_MAX}}},
  };
  for (const Case& c : cases) {
    InDomains(std::ssize(c.here), [&](Transport& end) {
      const Session session = Session::Create(LossOnly(c.mesh, c.batch), OnTransport(&end)).value();
      EXPECT_EQ(session.RowsHere(c.rows), c.here[static_cast<size_t>(end.domain())])
          << c.rows << " rows on " << c.mesh << ", domain " << end.domain() << " of " << c.here.size();
    });
  }
}

TEST(SessionDomainsTest, KnowsAllRowsWhereItCannotKnowFewer) {
  InDomains(2, [](Transport& end) {
    const auto rows_here = [&](const DimSpec& dim, int64_t rows) {
      return Session::Create(LossOnly("batch=2,model=1", kBatch, dim), OnTransport(&end))
          .value()
          .RowsHere(rows);
    };
    EXPECT_EQ(rows_here(OPEN, kBatch), (RowRange{0, kBatch}));
    EXPECT_EQ(rows_here(UNSHARDED, kBatch), (RowRange{0, kBatch}));
    // Rows 0 to 2 and 6 to 8, rows 3 to 5 and 9 to 11; another number of rows does not have such a layout.
    const DimSpec strided = DimSpec::Factors({{2}, {6, {"batch"}}});
    EXPECT_EQ(rows_here(strided, kBatch), end.domain() == 0 ? (RowRange{0, 9}) : (RowRange{3, 12}));
    EXPECT_EQ(rows_here(strided, 5), (RowRange{0, 5}));
    // An input that is whole beside one that is sharded.
    Graph g(Mesh::VirtualCpus("batch=2").value());
    Value x = g.Input("x", F64, {kBatch}, {"batch"}), scale = g.Input("scale", F64, {kBatch}, {UNSHARDED});
    g.Output("sum", ReduceSum(x * scale, {0}));
    EXPECT_EQ(Session::Create(g, OnTransport(&end)).value().RowsHere(kBatch), (RowRange{0, kBatch}));
  });
}

// Rows 0 to n - 1 of 128 examples. Rows outside of `wanted` are NaN, and labels that do not exist.
Feeds FeedsWithout(int64_t n, const RowRange& wanted) {
  static const Tensor all = Rough(Type{F64, {128, 6}});
  Tensor x(Type{F64, {n, 6}}), y(Type{I32, {n}});
  for (int64_t row = 0; row < n; ++row) {
    const bool is_wanted = wanted.begin <= row && row < wanted.end;
    for (int64_t i = 6 * row; i < 6 * (row + 1); ++i)
      x.mutable_values<double>()[i] = is_wanted ? all.values<double>()[i] : NAN;
    y.mutable_values<int32_t>()[row] = is_wanted ? static_cast<int32_t>(row * 7 % 4) : INT32_MIN;
  }
  return {{"x", x}, {"y", y}};
}

TEST(SessionDomainsTest, ReadsNoOtherRows) {
  struct Case {
    std::string mesh;
    DimSpec rows;
  };
  const Case cases[] = {{"batch=4,model=2", "batch"},   {"batch=2,model=4", "batch"},
                        {"model=2,batch=2", "batch"},   {"batch=4,model=2", OPEN},
                        {"batch=4,model=2", UNSHARDED}, {"batch=2,model=2", {"batch", "model"}},
                        {"batch=6,model=1", "batch"}};
  for (const Case& c : cases) {
    for (int64_t batch : {127, 128}) {
      const Graph graph = LossOnly(c.mesh, batch, c.rows);
      // Losses and weights after some steps, with whole batches and short ones.
      const auto train = [&](Session& session, bool is_whole) {
        std::vector<double> numbers;
        for (int64_t n : {batch, int64_t{5}, int64_t{1}, batch - 1, batch}) {
          const Feeds feeds = FeedsWithout(n, is_whole ? RowRange{0, n} : session.RowsHere(n));
          numbers.push_back(session.Evaluate(feeds)->scalar("loss").value());
          numbers.push_back(session.Run(feeds)->scalar("loss").value());
        }
        for (const std::string& name : session.variable_names())
          for (double number : NumbersOf(session.Get(name).value())) numbers.push_back(number);
        return numbers;
      };
      for (int64_t domains : {2, 3, 4}) {
        if (!Placement::Create(graph.mesh(), domains).ok()) continue;
        InDomains(domains, [&](Transport& end) {
          Session whole = Session::Create(graph, OnTransport(&end)).value();
          const std::vector<double> expected = train(whole, /*is_whole=*/true);
          Session session = Session::Create(graph, OnTransport(&end)).value();
          EXPECT_EQ(train(session, /*is_whole=*/false), expected)
              << c.mesh << ", batch " << batch << ", domain " << end.domain() << " of " << domains;
          EXPECT_TRUE(std::isfinite(expected[0]));
        });
      }
    }
  }
}

// Datasets in parts, shuffled by lanes: every domain has its own dataset and loads only the parts that it reads. The
// losses are those of one session that reads everything.
TEST(SessionDomainsTest, TrainsOnPartsAsOneSessionDoes) {
  static constexpr int64_t kParts = 8, kExamples = 11, kLanesBatch = 24;
  const std::string mesh = "batch=4,model=2";
  const auto train = [&](Session& session, std::vector<std::atomic<int>>& loads) {
    std::vector<Dataset::Part> parts;
    for (int64_t p = 0; p < kParts; ++p) {
      parts.push_back({kExamples, [&loads, p]() -> absl::StatusOr<Columns> {
                         ++loads[static_cast<size_t>(p)];
                         const Feeds all = FeedsWithout(128, {0, 128});
                         return Columns{{"x", all.at("x").Rows(p * kExamples, (p + 1) * kExamples)},
                                        {"y", all.at("y").Rows(p * kExamples, (p + 1) * kExamples)}};
                       }});
    }
    const Dataset examples = Dataset::FromParts(std::move(parts)).value();
    BatchesOptions options{.batch_size = kLanesBatch, .shuffle_seed = 7, .lanes = kParts};
    options.rows = [&](int64_t rows) { return session.RowsHere(rows); };
    std::vector<double> losses;
    for (; options.epoch < 3; ++options.epoch)
      for (const Batch& b : examples.Batches(options))
        losses.push_back(session.Run({{"x", b["x"]}, {"y", b["y"]}})->scalar("loss").value());
    return losses;
  };
  std::vector<std::atomic<int>> all_loads(kParts);
  Session alone = Session::Create(LossOnly(mesh, kLanesBatch), OnTransport(nullptr)).value();
  const std::vector<double> expected = train(alone, all_loads);
  ASSERT_EQ(expected.size(), 3u * 4u);  // 88 examples: three batches of 24, one of 16
  for (int64_t domains : {2, 4}) {
    InDomains(domains, [&](Transport& end) {
      Session session = Session::Create(LossOnly(mesh, kLanesBatch), OnTransport(&end)).value();
      std::vector<std::atomic<int>> loads(kParts);
      const std::vector<double> losses = train(session, loads);
      ASSERT_EQ(losses.size(), expected.size());
      for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], 1e-9) << "step " << i;
      for (int64_t p = 0; p < kParts; ++p)
        EXPECT_EQ(loads[static_cast<size_t>(p)], p * domains / kParts == end.domain() ? 1 : 0)
            << "part " << p << ", domain " << end.domain() << " of " << domains;
    });
  }
}

TEST(SessionDomainsTest, AVariableIsSetFromItsWhole) {
  InDomains(2, [](Transport& end) {
    Session session = Session::Create(Network("model=2,batch=2"), OnTransport(&end)).value();
    const Tensor value = Rough(Type{F64, {6, 7}});
    ASSERT_TRUE(session.Set("w", value).ok());
    EXPECT_EQ(NumbersOf(session.Get("w").value()), NumbersOf(value));
    EXPECT_EQ(NumbersOf(session.Get("w").value()), NumbersOf(value)) << "the program is kept";
  });
}

// The bytes that cross in a step, counted by hand: gradients if the axis between domains is batch, activations if it is
// model. A block that several devices of a domain hold crosses once.
TEST(SessionDomainsTest, SendsNoMoreThanItMust) {
  struct Crossing {
    std::string mesh;
    int64_t bytes;
  };
  // By batch: the gradients of 6·7 + 7·4 weights and the loss; with model=2 the 7 units are padded to 8. By
  // model: the logits.
  const Crossing crossings[] = {{"batch=4,model=1", 8 * (6 * 7 + 7 * 4 + 1)},
                                {"batch=2,model=2", 8 * (6 * 8 + 8 * 4 + 1)},
                                {"model=2,batch=2", 8 * kBatch * 4}};
  for (const Crossing& crossing : crossings) {
    InDomains(2, [&](Transport& end) {
      CountedEnd counted(end);
      Graph g(Mesh::VirtualCpus(crossing.mesh).value());
      g.Output("loss", AddNetwork(g).loss);
      Session session = Session::Create(g, OnTransport(&counted)).value();
      const int64_t before = counted.bytes();
      ASSERT_TRUE(session.Run(NetworkFeeds(kBatch)).ok());
      EXPECT_EQ(counted.bytes() - before, crossing.bytes) << crossing.mesh << ", domain " << end.domain();
    });
  }
}

// A sum over four domains: each sends three quarters of its term to the domains that add those quarters up, and the sum
// of its own quarter to three domains. In one round it would send three terms.
TEST(SessionDomainsTest, SumsOverManyDomainsCrossInParts) {
  std::atomic<int64_t> bytes = 0;
  InDomains(4, [&](Transport& end) {
    CountedEnd counted(end);
    Graph g(Mesh::VirtualCpus("batch=4,model=1").value());
    g.Output("loss", AddNetwork(g).loss);
    Session session = Session::Create(g, OnTransport(&counted)).value();
    const int64_t before = counted.bytes();
    ASSERT_TRUE(session.Run(NetworkFeeds(kBatch)).ok());
    bytes += counted.bytes() - before;
  });
  EXPECT_EQ(bytes, 4 * 8 * (6 * 7 + 7 * 4 + 1) * 3 / 2);
}

TEST(SessionDomainsTest, WhatCrossesBesideComputeChangesNoBit) {
  for (int64_t domains : {2, 4}) {
    for (const char* mesh : {"batch=4,model=1", "batch=2,model=2", "model=4,batch=2"}) {
      InDomains(domains, [&](Transport& end) {
        SessionOptions beside = OnTransport(&end), waiting = beside;
        waiting.executor.overlap = false;
        Session a = Session::Create(Network(mesh), beside).value();
        Session b = Session::Create(Network(mesh), waiting).value();
        for (int step = 0; step < 3; ++step) {
          const StepResult of_a = a.Run(NetworkFeeds(kBatch)).value(),
                           of_b = b.Run(NetworkFeeds(kBatch)).value();
          EXPECT_EQ(NumbersOf(of_a.outputs().at("logits")), NumbersOf(of_b.outputs().at("logits")));
        }
        for (const std::string& name : a.variable_names())
          EXPECT_EQ(NumbersOf(a.Get(name).value()), NumbersOf(b.Get(name).value())) << mesh << " " << name;
      });
    }
  }
}

// Domain 1 is given another batch than the others, or one that does not fit: no domain makes the step, and
// all go on.
TEST(SessionDomainsTest, AllMakeAStepOrNone) {
  Session whole = Session::Create(Network("batch=6,model=1"), OnTransport(nullptr)).value();
  const std::vector<double> expected = Train(whole);
  InDomains(3, [&](Transport& end) {
    Session session = Session::Create(Network("batch=6,model=1"), OnTransport(&end)).value();
    const bool is_other = end.domain() == 1;
    for (int64_t rows : {int64_t{5}, int64_t{1}}) {
      const absl::Status differ = session.Run(NetworkFeeds(is_other ? rows : kBatch)).status();
      EXPECT_EQ(differ.code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(MessageOf(differ),
                  AllOf(HasSubstr("domains 0, 2: the step a step of 12 rows"),
                        HasSubstr(fmt::format("domain 1: the step a step of {} row", rows))));
    }
    Feeds feeds = NetworkFeeds(kBatch);
    if (is_other) feeds.erase("y");
    const absl::Status missing = session.Run(feeds).status();
    EXPECT_THAT(MessageOf(missing), HasSubstr("Run: feed \"y\" is missing"));
    EXPECT_EQ(MessageOf(missing).starts_with("Transport: domain 1 failed: "), !is_other) << missing;
    const absl::Status which = (is_other ? session.Evaluate(feeds) : session.Run(feeds)).status();
    EXPECT_FALSE(which.ok());
    EXPECT_EQ(Train(session).size(), expected.size());
  });
}

TEST(SessionDomainsTest, OutputsInSeveralDomainsAreNamed) {
  InDomains(2, [](Transport& end) {
    const absl::Status refused =
        Session::Create(Network("batch=4,model=1", true), OnTransport(&end)).status();
    EXPECT_THAT(MessageOf(refused), HasSubstr("output \"logits\""));
    SessionOptions options = OnTransport(&end);
    options.executor.distributed = {"logits", "x"};
    Session session = Session::Create(Network("batch=4,model=1", true), options).value();
    Feeds feeds = NetworkFeeds(kBatch);
    DTensor x = session.NewFeed("x").value();
    ASSERT_TRUE(Pack(feeds.at("x"), x).ok());
    BoundStep step = session.Bind({.feeds = {{"y", feeds.at("y")}}, .distributed_feeds = {{"x", x}}}).value();
    ASSERT_TRUE(step.Run().ok());
    const DTensor& logits = step.distributed_outputs().at("logits");
    EXPECT_EQ(logits.type(), (Type{F64, {kBatch, 4}}));
    EXPECT_EQ(logits.instances().count(), 2) << "half of four blocks";
    EXPECT_GT(step.outputs().at("loss").Scalar().value(), 0);
  });
}

TEST(SessionDomainsTest, OutputsInSeveralDomainsAreGathered) {
  Session whole = Session::Create(Network("batch=4,model=1", true), OnTransport(nullptr)).value();
  const std::vector<double> expected = Train(whole);
  InDomains(2, [&](Transport& end) {
    SessionOptions options = OnTransport(&end);
    options.gather_outputs = true;
    Session session = Session::Create(Network("batch=4,model=1", true), options).value();
    const std::vector<double> found = Train(session);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-9) << "number " << i;
    // Distributed outputs are not gathered.
    options.executor.distributed = {"logits"};
    session = Session::Create(Network("batch=4,model=1", true), options).value();
    const StepResult step = session.Run(NetworkFeeds(kBatch)).value();
    EXPECT_FALSE(step.outputs().contains("logits"));
    EXPECT_EQ(step.distributed_outputs().at("logits").instances().count(), 2);
  });
}

// Whatever the layout of an output, each domain gets all of it.
TEST(SessionDomainsTest, OutputsThatLieStridedAreGathered) {
  for (const std::string layout : {"{2*2@x,_}", "{_,3@x*2}", "{2@y*2,3@x*2}", "{x,3@y*2}"}) {
    SCOPED_TRACE(layout);
    const Graph graph =
        ParseGraph("mesh [x=2, y=2]\nfunc f(var %a: f32[4,6] " + layout + ", %b: f32[4,6] " + layout +
                   ") {\n  %c = add %a, %b : f32[4,6] " + layout + "\n  return c=%c\n}")
            .value();
    std::vector<float> numbers(24);
    std::iota(numbers.begin(), numbers.end(), 1.0f);
    InDomains(2, [&](Transport& end) {
      SessionOptions options = OnTransport(&end);
      options.gather_outputs = true;
      Session session = Session::Create(graph, options).value();
      const StepResult step = session.Run({{"b", Tensor::From<float>({4, 6}, numbers)}}).value();
      EXPECT_THAT(step.outputs().at("c").values<float>(), ElementsAreArray(numbers));
    });
  }
}

// The sums of all devices are added in one order, and each device's rows by kernels of their own.
TEST(SessionDomainsTest, DeterministicSessionsGiveTheSameBitsOnAnyNumberOfDomains) {
  for (const std::string mesh : {"batch=8,model=1", "batch=4,model=2", "batch=2,model=4"}) {
    auto options = [](Transport* end) {
      SessionOptions deterministic = OnTransport(end);
      deterministic.compile.deterministic = deterministic.gather_outputs = true;
      return deterministic;
    };
    Session whole = Session::Create(Network(mesh, true), options(nullptr)).value();
    const std::vector<double> expected = Train(whole);
    for (int64_t domains : {2, 4}) {
      InDomains(domains, [&](Transport& end) {
        Session session = Session::Create(Network(mesh, true), options(&end)).value();
        EXPECT_EQ(Train(session), expected) << mesh << ", domain " << end.domain() << " of " << domains;
      });
    }
  }
}

// Only domain 1 asks for devices that do not exist.
TEST(SessionDomainsTest, DevicesAreRefusedByAll) {
  InDomains(2, [](Transport& end) {
    SessionOptions options = OnTransport(&end);
    if (end.domain() == 1) options.devices = "gpu";
    const absl::Status status = Session::Create(Network("batch=4,model=2"), options).status();
    EXPECT_THAT(MessageOf(status),
                HasSubstr("Devices: \"gpu\" is none of cpu, cuda, cuda:N, cuda:N-M, pjrt:PATH and tpu"));
    // The transport can still be used.
    EXPECT_TRUE(Session::Create(Network("batch=4,model=2"), OnTransport(&end)).ok());
  });
}

// If one domain's initializers differ from the others', no domain gets a session.
TEST(SessionDomainsTest, OtherProgramsAreRefusedByAll) {
  InDomains(2, [](Transport& end) {
    SessionOptions options = OnTransport(&end);
    options.seed = end.domain();
    const absl::Status status = Session::Create(Network("batch=4,model=1"), options).status();
    EXPECT_THAT(MessageOf(status), AllOf(HasSubstr("Transport: the domains differ: domain 0: the program "),
                                         HasSubstr("seed=0"), HasSubstr("seed=1")));
    const absl::Status meshes =
        Session::Create(Network(end.domain() == 0 ? "batch=4,model=1" : "batch=2,model=2"), OnTransport(&end))
            .status();
    EXPECT_EQ(MessageOf(meshes),
              "Transport: the domains differ: domain 0: the mesh [batch=4, model=1]; domain 1: the mesh "
              "[batch=2, model=2].");
    // The transport can still be used.
    options.seed = 3;
    EXPECT_TRUE(Session::Create(Network("batch=4,model=1"), options).ok());
  });
}

}  // namespace
}  // namespace meshwork::session_domains_test

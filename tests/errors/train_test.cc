// What sessions, layers and optimizers refuse.
#include <cmath>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "errors/errors.h"
#include "gtest/gtest.h"
#include "meshwork/ops/control/control_flow.h"
#include "meshwork/ops/ops.h"
#include "meshwork/session/session.h"
#include "meshwork/session/session_backend.h"
#include "meshwork/train/cluster/on_gpus.h"
#include "meshwork/train/data/digits.h"
#include "meshwork/train/nn/conv_layers.h"
#include "meshwork/train/nn/initializers.h"
#include "meshwork/train/nn/layers.h"
#include "meshwork/train/nn/metrics.h"
#include "meshwork/train/nn/norm_layers.h"
#include "meshwork/train/nn/recurrent_layers.h"
#include "meshwork/train/nn/transformer_layers.h"
#include "meshwork/train/optim/averages.h"
#include "meshwork/train/optim/optimizers.h"
#include "runtime/plan/programs.h"
#include "support/in_domains.h"

namespace meshwork::train_test {
namespace {

// A linear classifier: x: f64[6,3], y: i32[6] -> loss, logits: f64[6,4].
Graph Classifier(std::string_view mesh) {
  Graph g(Mesh::VirtualCpus(mesh).value());
  Value x = g.Input("images", F64, {6, 3}, {"batch", UNSHARDED});
  Value y = g.Input("labels", I32, {6}, {"batch"});
  Dense dense(g, "dense", 3, 4, {.dtype = F64});
  Value logits = dense(x);
  Value loss = SparseSoftmaxCrossEntropy(logits, y);
  Sgd({.learning_rate = 0.5}).Minimize(loss);
  g.Output("loss", loss);
  g.Output("logits", logits);
  return g;
}

Feeds Examples(int64_t rows) {
  return {{"images", Ramp({F64, {rows, 3}})}, {"labels", Tensor::Zeros({I32, {rows}})}};
}

TEST(TrainErrors, Feeds) {
  Session session = Session::Create(Classifier("batch=2")).value();
  auto run = [&](const Feeds& changes, int64_t rows = 6) {
    Feeds feeds = Examples(rows);
    for (const auto& [name, tensor] : changes) feeds[name] = tensor;
    return session.Run(feeds);
  };
  const Tensor images = Ramp({F64, {6, 3}}), labels = Tensor::Zeros({I32, {6}});
  ExpectErrors("session_run",
               {
                   MISTAKE(session.Run({})),
                   MISTAKE(session.Run({{"images", images}})),
                   MISTAKE(session.Run({{"images", images}, {"lables", labels}})),
                   MISTAKE(session.Run({{"images", images}, {"labels", labels}, {"y", labels}})),
                   MISTAKE(session.Bind({{"image", images}, {"labels", labels}})),
                   MISTAKE(session.Evaluate({{"images", images}})),
                   MISTAKE(run({{"dense/kernel", images}})),
                   MISTAKE(run({{"images", Tensor()}})),
                   MISTAKE(run({{"images", images.Rows(0, 4)}})),
                   MISTAKE(run({{"labels", labels.Rows(0, 5)}})),
                   MISTAKE(run({{"images", Tensor::Zeros({F64, {}})}})),
                   MISTAKE(run({{"images", Tensor::Zeros({F64, {6, 2}})}})),
                   MISTAKE(run({{"images", Tensor::Zeros({F64, {4, 2}})}, {"labels", labels.Rows(0, 4)}})),
                   MISTAKE(run({{"images", Tensor::Zeros({F32, {6, 3}})}})),
                   MISTAKE(run({}, 7)),
                   MISTAKE(run({}, 0)),
               });
}

TEST(TrainErrors, OutputsAndVariables) {
  Session session = Session::Create(Classifier("batch=2")).value();
  const StepResult result = session.Run(Examples(6)).value();
  Graph reads_nothing{Mesh()};
  reads_nothing.Output("one", Constant(reads_nothing, 1, {}));
  const Session bare = Session::Create(reads_nothing).value();
  Graph keeps_all{Mesh()};
  keeps_all.Var("w", Zeros({2}), {UNSHARDED});
  Session silent = Session::Create(keeps_all).value();
  Session other = Session::Create(reads_nothing).value();
  const Session moved = std::move(other);
  ExpectErrors("session", {
                              MISTAKE(result.scalar("los")),
                              MISTAKE(result.Get("gradient")),
                              MISTAKE(result.scalar("logits")),
                              MISTAKE(silent.Run({})->Get("loss")),
                              MISTAKE(session.Get("dense/kernl")),
                              MISTAKE(session.Get("weights")),
                              MISTAKE(session.Get("")),
                              MISTAKE(bare.Get("weights")),
                              MISTAKE(session.Set("dense/biass", Tensor::Zeros({F64, {4}}))),
                              MISTAKE(session.Set("dense/bias", Tensor::Zeros({F64, {4, 1}}))),
                              MISTAKE(session.Set("dense/bias", Tensor::Zeros({F32, {4}}))),
                              MISTAKE(session.Set("dense/bias", Tensor())),
                              MISTAKE(other.Run({})),
                          });
}

TEST(TrainErrors, Sessions) {
  auto create = [](std::string_view text) { return Session::Create(ParseGraph(text, "p.mw").value()); };
  Session tied = create(
                     "mesh [] func step(%x: f32[6,3], var %table: f32[6,3]) { %0 = mul %x, %table\n"
                     "  return y=%0 }")
                     .value();
  auto of_mistakes = [](CallSite loc = CallSite::Current()) {
    Graph g(Mesh::VirtualCpus("batch=2").value());
    g.Input("x", F32, {6, 3}, {"bach", UNSHARDED}, loc);
    Value z = g.Input("z", F32, {6, 3}, {"batch", UNSHARDED});
    MatMul(Operand(z, loc), z);
    return Session::Create(g);
  };
  auto initialized = [](Initializer initializer, CallSite loc = CallSite::Current()) {
    Graph g(Mesh::VirtualCpus("model=2").value());
    g.Var("w", std::move(initializer), {UNSHARDED, UNSHARDED}, loc);
    return Session::Create(g);
  };
  auto of_another_type = [](Graph& g, const Type&, int64_t, int64_t) {
    return Constant(g, 1, {F64, {2, 2}});
  };
  Graph elsewhere{Mesh()};
  const Value foreign = Constant(elsewhere, 1, {F32, {2, 2}});
  auto built = [&](const Value& value) {
    return Initializer{{F32, {2, 2}}, [value](Graph&, const Type&, int64_t, int64_t) { return value; }};
  };
  Session predicting = create(
                           "mesh [] func step(%x: f32[4,3]) { %0 = add %x, %x %1 = reduce_sum %0 dims=[0,1]\n"
                           "  return y=%0, sum=%1 }")
                           .value();
  auto predict = [&](const std::vector<std::string>& outputs) {
    return predicting.Predict({{"x", Ramp({F32, {5, 3}})}}, outputs);
  };
  ExpectErrors("session_predict", {
                                      MISTAKE(predict({"Y"})),
                                      MISTAKE(predict({})),
                                      MISTAKE(predict({"y", "sum"})),
                                      MISTAKE(tied.Predict({{"x", Ramp({F32, {7, 3}})}})),
                                  });
  ExpectErrors("session_create", {
                                     MISTAKE(of_mistakes()),
                                     MISTAKE(Session::Create(Graph(Mesh()))),
                                     MISTAKE(create("mesh [] func f(%x: f32[2]) { %0 = exp %x }")),
                                     MISTAKE(Session::Create(Classifier("batch=1000000"))),
                                     MISTAKE(Session::Create(Classifier("batch=2"), {.workers = -1})),
                                     MISTAKE(Session::Create(Classifier("batch=2"), {.workers = 1000000000})),
                                     MISTAKE(Session::Create(Classifier("batch=2"), {.max_programs = 0})),
                                     MISTAKE(tied.Run({{"x", Ramp({F32, {4, 3}})}})),
                                     MISTAKE(initialized(GlorotUniform({2, 2}, I32))),
                                     MISTAKE(initialized(built(foreign))),
                                     MISTAKE(initialized(built(Value()))),
                                     MISTAKE(initialized(Initializer{{F32, {2, 2}}, of_another_type})),
                                 });
}

TEST(TrainErrors, Devices) {
  // The error of domain 0 if the domains compute on these devices.
  auto of_domains = [](const std::vector<std::string>& devices) {
    std::vector<absl::Status> statuses(devices.size());
    InDomains(std::ssize(devices), [&](Transport& end) {
      const auto d = static_cast<size_t>(end.domain());
      statuses[d] =
          MakeBackend({.devices = devices[d], .workers = 1, .executor = {.transport = &end}}).status();
    });
    return statuses[0];
  };
  // No machine has that GPU; why depends on the machine.
  auto without_gpu = [&] {
    std::string said(MessageOf(of_domains({"cuda:999", "cuda:999"})));
    const std::string why(MessageOf(MakeBackend({.devices = "cuda:999"}).status()));
    if (const size_t at = said.find(why); at != std::string::npos) said.replace(at, why.size(), "<why>");
    return absl::InvalidArgumentError(said);
  };
  // Within a cluster of two processes.
  auto of_a_cluster = [] {
    const std::string file = testing::TempDir() + "meshwork-errors-cluster.json";
    std::ofstream(file) << R"({"cluster": {"worker": ["127.0.0.1:1", "127.0.0.1:2"]},)"
                        << R"( "task": {"type": "worker", "index": 1}})";
    return OnEachGpu("cuda:0-3", {.cluster = file},
                     [](const Processes&, const std::string&) { return absl::OkStatus(); });
  };
  ExpectErrors("devices", {
                              MISTAKE(CheckDevices("")),
                              MISTAKE(CheckDevices("gpu")),
                              MISTAKE(CheckDevices("CUDA")),
                              MISTAKE(CheckDevices("cpu:2")),
                              MISTAKE(CheckDevices("cuda:")),
                              MISTAKE(CheckDevices("cuda:one")),
                              MISTAKE(CheckDevices("cuda:-1")),
                              MISTAKE(CheckDevices("cuda:4294967296")),
                              MISTAKE(CheckDevices("cuda:3-0")),
                              MISTAKE(CheckDevices("cuda:0,")),
                              MISTAKE(CheckDevices("cuda:0-3,2")),
                              MISTAKE(Session::Create(Classifier("batch=2"), {.devices = "cuda:0,cuda:1"})),
                              MISTAKE(of_domains({"cpu", "cuda:0"})),
                              MISTAKE(of_domains({"cpu", "gpu"})),
                              MISTAKE(without_gpu()),
                              MISTAKE(of_a_cluster()),
                          });
}

TEST(TrainErrors, Digits) {
  auto digits = [](int64_t train, int64_t test, DType dtype) {
    return SyntheticDigits(train, test, 0, dtype);
  };
  ExpectErrors("digits", {MISTAKE(digits(-1, 0, F32)), MISTAKE(digits(1, 1, BF16))});
}

TEST(TrainErrors, Layers) {
  auto input = [](Graph& g, const Shape& shape, CallSite loc = CallSite::Current()) {
    return g.Input("x", F32, shape, LayoutSpec(shape.size(), UNSHARDED), loc);
  };
  // A layer of 3 heads with 2 rows of 3 steps, and a cache.
  auto cached = [&](Graph& g, const Shape& keys, const Shape& places, const Value& memory,
                    CallSite loc = CallSite::Current()) {
    const Value kept = Constant(g, 0, {F32, keys});
    AttentionCache cache{kept, kept, Constant(g, 0, {I32, places})};
    MultiHeadAttention(g, "attention", 6, 3)(input(g, {2, 3, 6}, loc), {.memory = memory, .cache = &cache},
                                             loc);
  };
  ExpectErrors("layers", {
    GRAPH_MISTAKE(Dense(g, "dense", 5, 3)(input(g, {3, 2}))),
        GRAPH_MISTAKE(Dense(g, "dense", 5, 3); Dense(g, "dense", 5, 3)), GRAPH_MISTAKE(Dense(g, "", 5, 3)),
        GRAPH_MISTAKE(Dense(g, "dense", -5, 3)),
        GRAPH_MISTAKE(Dense(g, "dense", 2, 3, {.kernel_layout = {UNSHARDED, "modle"}})),
        GRAPH_MISTAKE(Dense(g, "dense", 2, 3, {.kernel_initializer = Zeros({3, 2})})(input(g, {3, 2}))),
        GRAPH_MISTAKE(LayerNormalization(g, "norm", 3)(input(g, {2, 4}))),
        GRAPH_MISTAKE(Dense(g, "dense", 2, 3)(Value()); g.Output("y", Value())),
        GRAPH_MISTAKE(Embedding(g, "embedding", 5, 3)(input(g, {2}))),
        GRAPH_MISTAKE(Lstm(g, "l", 4, 3)(input(g, {2, 5, 4}), {}, {.lengths = Iota(g, {I32, {3}}, 0)})),
        GRAPH_MISTAKE(Gru(g, "l", 4, 3)(input(g, {2, 5, 4}), {}, {.lengths = Constant(g, 1.5, {F32, {2}})})),
        GRAPH_MISTAKE(
            SimpleRnn(g, "l", 4, 3)(input(g, {2, 5, 4}), {}, {.mask = Constant(g, 1, {BOOL, {2}})})),
        GRAPH_MISTAKE(Bidirectional<Lstm>(g, "l", 4, 3)(
            input(g, {2, 5, 4}),
            {.lengths = Constant(g, 1, {I32, {2}}), .mask = Constant(g, 1, {BOOL, {2, 5}})})),
        GRAPH_MISTAKE(RmsNormalization(g, "norm", 3)(input(g, {2, 4}))),
        GRAPH_MISTAKE(MultiHeadAttention(g, "attention", 6, 4)(input(g, {2, 3, 6}))),
        GRAPH_MISTAKE(MultiHeadAttention(g, "attention", 6, 2)(input(g, {3, 6}))),
        GRAPH_MISTAKE(
            MultiHeadAttention(g, "attention", 6, 2, {.rotary = RotaryOptions()})(input(g, {2, 3, 6}))),
        GRAPH_MISTAKE(MultiHeadAttention(g, "attention", 6, 3, {.kv_heads = 2})(input(g, {2, 3, 6}))),
        GRAPH_MISTAKE(MultiHeadAttention(g, "attention", 6, 3, {.head = -1})(input(g, {2, 3, 6}))),
        GRAPH_MISTAKE(MultiHeadAttention(g, "attention", 6, 3)(input(g, {2, 3, 6}),
                                                               {.memory = Constant(g, 0, {F32, {2, 6}})})),
        GRAPH_MISTAKE(cached(g, {2, 5, 3, 2}, {2}, Constant(g, 0, {F32, {2, 3, 6}}))),
        GRAPH_MISTAKE(MultiHeadAttention(g, "attention", 6, 3, {.rotary = RotaryOptions()})(
            input(g, {2, 3, 6}), {.memory = Constant(g, 0, {F32, {2, 5, 6}})})),
        GRAPH_MISTAKE(cached(g, {2, 5, 3, 2}, {3}, {})), GRAPH_MISTAKE(cached(g, {2, 2, 3, 2}, {2}, {})),
        GRAPH_MISTAKE(cached(g, {2, 5, 2, 2}, {2}, {})),
        GRAPH_MISTAKE(FeedForward(g, "mlp", 6, 24)(input(g, {2, 3, 5}))),
        GRAPH_MISTAKE(BatchNormalization(g, "norm", 3)(input(g, {2, 4}))),
        GRAPH_MISTAKE(BatchNormalization(g, "norm", 3, {.momentum = 1})(input(g, {2, 3}))),
        GRAPH_MISTAKE(BatchNormalization(g, "norm", 3, {.epsilon = -1})(input(g, {2, 3}))),
        GRAPH_MISTAKE(GroupNormalization(g, "norm", 4, 3)(input(g, {2, 5, 4}))),
        GRAPH_MISTAKE(Dropout(g, "dropout", 1)(input(g, {2, 4}))),
        GRAPH_MISTAKE(Dropout(g, "dropout", 0.5, {.whole_dims = {1, 2}})(input(g, {2, 4}))),
        GRAPH_MISTAKE(g.Var("dropout/step", Zeros({2}), {UNSHARDED});
                      Dropout(g, "dropout", 0.5)(input(g, {2, 4}))),
        GRAPH_MISTAKE(g.Input("dropout/step", I64, {}, {}); Dropout(g, "dropout", 0.5)(input(g, {2, 4}))),
        GRAPH_MISTAKE(Conv1D(g, "conv", 3, 4, {3, 3})(input(g, {2, 6, 3}))),
        GRAPH_MISTAKE(Conv3DTranspose(g, "up", 3, 4, {3})(input(g, {2, 6, 6, 6, 3}))),
        GRAPH_MISTAKE(DepthwiseConv2D(g, "conv", 3, {3, 3})(input(g, {2, 6, 6, 4}))),
        GRAPH_MISTAKE(SeparableConv2D(g, "conv", 8, {3})(input(g, {2, 6, 6, 4}))),
        GRAPH_MISTAKE(Dense dense(g, "dense", 3); dense(input(g, {2, 4}));
                      dense(Constant(g, 0, {F32, {2, 5}}))),
        GRAPH_MISTAKE(Lstm(g, "lstm", 4)(input(g, {2, 3}))), GRAPH_MISTAKE(GlobalAvgPool(input(g, {2, 4}))),
        GRAPH_MISTAKE(GlobalMaxPool(input(g, {2, 4}))),
        GRAPH_MISTAKE(SimpleRnn(g, "rnn", 3, 4)(input(g, {2, 3}))),
        GRAPH_MISTAKE(Lstm(g, "lstm", 3, 4)(input(g, {2, 5, 4}))),
        GRAPH_MISTAKE(Gru(g, "gru", 3, 4)(input(g, {2, 5, 3}), Constant(g, 0, {F32, {4, 2}}))),
        GRAPH_MISTAKE(Gru(g, "gru", 3, 4, {.kernel_initializer = Zeros({3, 12})})(input(g, {2, 5, 3}))),
        GRAPH_MISTAKE(Lstm(g, "lstm", 3, 4, {.units = "modle"})(input(g, {2, 5, 3}))),
  });
}

// sum(w²) of w: f32[3].
Value Parabola(Graph& g) { return ReduceSum(Square(g.Var("w", Filled(1, {3}), {UNSHARDED})), {0}); }

TEST(TrainErrors, Optimizers) {
  auto without = [](Graph& g) { return ReduceSum(g.Input("x", F32, {3}, {UNSHARDED}), {0}); };
  const UpdateRule forgetful{.name = "Mine", .slots = {{"m"}}, .formula = [](const UpdateRule::Operands& x) {
                               return std::vector<Value>{x.weight};
                             }};
  ExpectErrors("optimizers", {
    GRAPH_MISTAKE(Sgd({.learning_rate = NAN}).Minimize(Parabola(g))),
        GRAPH_MISTAKE(Sgd({.learning_rate = -1}).Minimize(Parabola(g))),
        GRAPH_MISTAKE(Sgd({.clip_norm = 0}).Minimize(Parabola(g))),
        GRAPH_MISTAKE(Sgd({.clip_norm = HUGE_VAL}).Minimize(Parabola(g))),
        GRAPH_MISTAKE(Momentum({.learning_rate = HUGE_VAL}).Minimize(Parabola(g))),
        GRAPH_MISTAKE(Momentum({.momentum = 1}).Minimize(Parabola(g))),
        GRAPH_MISTAKE(Nesterov({.momentum = -0.5}).Minimize(Parabola(g))),
        GRAPH_MISTAKE(Adagrad({.initial_accumulator = -1}).Minimize(Parabola(g))),
        GRAPH_MISTAKE(Adagrad({.epsilon = -1}).Minimize(Parabola(g))),
        GRAPH_MISTAKE(RmsProp({.rho = NAN}).Minimize(Parabola(g))),
        GRAPH_MISTAKE(RmsProp({.momentum = 2}).Minimize(Parabola(g))),
        GRAPH_MISTAKE(RmsProp({.epsilon = NAN}).Minimize(Parabola(g))),
        GRAPH_MISTAKE(Adam({.beta1 = 1}).Minimize(Parabola(g))),
        GRAPH_MISTAKE(Adam({.beta2 = -0.1, .epsilon = -1}).Minimize(Parabola(g))),
        GRAPH_MISTAKE(AdamW({.weight_decay = -1}).Minimize(Parabola(g))),
        GRAPH_MISTAKE(Lamb({.learning_rate = INFINITY}).Minimize(Parabola(g))),
        GRAPH_MISTAKE(Lamb({.beta2 = 1}).Minimize(Parabola(g))),
        GRAPH_MISTAKE(Lamb({.weight_decay = -1}).Minimize(Parabola(g))),
        GRAPH_MISTAKE(Lamb({.lazy = true}).Minimize(Parabola(g))),
        GRAPH_MISTAKE(Sgd({}).Minimize(without(g))), GRAPH_MISTAKE(Adam({}).Minimize(without(g))),
        GRAPH_MISTAKE(Sgd({}).Minimize(g.Var("w", Zeros({3}), {UNSHARDED}))),
        GRAPH_MISTAKE(Value loss = Parabola(g); Sgd({}).Minimize(loss); Sgd({}).Minimize(loss)),
        GRAPH_MISTAKE(Value loss = Parabola(g); Adam({}).Minimize(loss); Adam({}).Minimize(loss)),
        GRAPH_MISTAKE(Adam({}).Minimize(StopGradient(Parabola(g)))),
        GRAPH_MISTAKE(Value loss = Parabola(g); Variable w = g.variables()[0]; Sgd({}).Minimize(loss);
                      g.Update(w, w)),
        GRAPH_MISTAKE(Adam({}).Minimize(g.Input("x y", F32, {}, {}))),
        GRAPH_MISTAKE(Optimizer(forgetful).Minimize(Parabola(g))),
        GRAPH_MISTAKE(Value loss = Parabola(g);
                      Sgd({}).Minimize(loss, {g.Input("x", F32, {3}, {UNSHARDED})})),
        GRAPH_MISTAKE(Value loss = Parabola(g);
                      Sgd({}).Minimize(loss, {g.Var("v", Zeros({3}), {UNSHARDED})})),
        GRAPH_MISTAKE(VariableGradients(without(g))),
        GRAPH_MISTAKE(Sgd({.learning_rate = g.Input("rate", I32, {}, {})}).Minimize(Parabola(g))),
        GRAPH_MISTAKE(Sgd({.learning_rate = g.Input("rate", F32, {2}, {UNSHARDED})}).Minimize(Parabola(g))),
        GRAPH_MISTAKE(Sgd({.weight_decay = -0.1}).Minimize(Parabola(g))),
        GRAPH_MISTAKE(Sgd({.name = "my sgd"}).Minimize(Parabola(g))),
        GRAPH_MISTAKE(Sgd({.groups = {{.pattern = "*/bias"}}}).Minimize(Parabola(g))),
        GRAPH_MISTAKE(Sgd({.groups = {{.pattern = "w", .learning_rate = -1}}}).Minimize(Parabola(g))),
        GRAPH_MISTAKE(Sgd({.groups = {{.pattern = "w", .clip_norm = 0}}}).Minimize(Parabola(g))),
        GRAPH_MISTAKE(Adam({.groups = {{.pattern = "w", .weight_decay = 0.1}}}).Minimize(Parabola(g))),
        GRAPH_MISTAKE(std::vector<VariableGradient> all = VariableGradients(Parabola(g));
                      Sgd({}).ApplyGradients({all[0], all[0]})),
        GRAPH_MISTAKE(std::vector<VariableGradient> all = VariableGradients(Parabola(g));
                      all[0].gradient = ReduceSum(all[0].gradient, {0}); Sgd({}).ApplyGradients(all)),
        GRAPH_MISTAKE(
            Graph other(g.mesh()); std::vector<VariableGradient> all = VariableGradients(Parabola(g));
            all[0].gradient = VariableGradients(Parabola(other))[0].gradient; Sgd({}).ApplyGradients(all)),
  });
}

TEST(TrainErrors, Rates) {
  auto with = [](const Rate& rate, Graph& g, CallSite loc) {
    Sgd({.learning_rate = rate}).Minimize(Parabola(g), loc);
  };
  auto use = [&](const Rate& rate) {
    return [&with, rate](Graph& g, CallSite loc = CallSite::Current()) { with(rate, g, loc); };
  };
  ExpectErrors("rates", {
                            GRAPH_MISTAKE(use(PiecewiseConstant({3, 2}, {1, 2, 3}))(g)),
                            GRAPH_MISTAKE(use(PiecewiseConstant({3}, {1, 2, 3}))(g)),
                            GRAPH_MISTAKE(use(PiecewiseConstant({3}, {1, -2}))(g)),
                            GRAPH_MISTAKE(use(ExponentialDecay({.factor = 0}))(g)),
                            GRAPH_MISTAKE(use(InverseTimeDecay({.steps = 0}))(g)),
                            GRAPH_MISTAKE(use(PolynomialDecay({.initial = -1}))(g)),
                            GRAPH_MISTAKE(use(CosineDecay({.initial = NAN}))(g)),
                            GRAPH_MISTAKE(use(CosineRestarts({.longer = 0.5}))(g)),
                            GRAPH_MISTAKE(use(Warmup(0, 0.1))(g)),
                            GRAPH_MISTAKE(use(Warmup(10, CosineDecay({.steps = -1})))(g)),
                            GRAPH_MISTAKE(use(OneCycle({.steps = 3}))(g)),
                            GRAPH_MISTAKE(use(JoinSchedules({5}, {0.1}))(g)),
                            MISTAKE(RateAt(CosineDecay({.steps = 0}), 1).status()),
                            GRAPH_MISTAKE(g.RecordError(
                                std::string(MessageOf(RateAt(g.Input("rate", F32, {}, {}), 1).status())))),
                        });
}

TEST(TrainErrors, Averages) {
  auto trained = [](Graph& g) {
    const Value loss = Parabola(g);
    Sgd({}).Minimize(loss);
    return g.variables()[0];
  };
  ExpectErrors("averages", {
    GRAPH_MISTAKE(AverageWeights(g)), GRAPH_MISTAKE(trained(g); AverageWeights(g, {.decay = 1})),
        GRAPH_MISTAKE(trained(g); AverageWeights(g, {.name = ""})),
        GRAPH_MISTAKE(AverageWeights({g.Var("w", Zeros({3}), {UNSHARDED})})),
        GRAPH_MISTAKE(AverageWeights({g.Var("count", Zeros({}, I64), {})})),
        GRAPH_MISTAKE(Graph other(g.mesh()); const Variable w = trained(g), v = trained(other);
                      AverageWeights({w, v})),
  });
}

// Functions that change a variable, in the body of a scan.
TEST(TrainErrors, InBodies) {
  const auto in_scan = [](Graph& g, const std::function<Value(const Value&)>& use,
                          CallSite loc = CallSite::Current()) {
    Scan(
        g, {g.Input("x", F32, {2, 3}, {UNSHARDED, UNSHARDED})}, {},
        [&](Graph&, const std::vector<Value>& carries, const std::vector<Value>&) -> ScanStep {
          use(carries[0]);
          return {carries};
        },
        {.length = 2}, loc);
  };
  ExpectErrors("in_bodies", {
    GRAPH_MISTAKE(BatchNormalization norm(g, "block/norm", 3);
                  in_scan(g, [&](const Value& x) { return norm(x); })),
        GRAPH_MISTAKE(BatchNormalization norm(g, "norm");
                      in_scan(g, [&](const Value& x) { return norm(x); })),
        GRAPH_MISTAKE(MeanMetric mean(g, "mean"); in_scan(g, [&](const Value& x) { return mean.Update(x); })),
        GRAPH_MISTAKE(Dense dense(g, "dense", 3, 1); in_scan(g,
                                                             [&](const Value& x) {
                                                               const Value loss = ReduceMean(dense(x));
                                                               Sgd({}).Minimize(loss);
                                                               return loss;
                                                             })),
        // One message only: the averages are of weights that the failed Minimize would have updated.
        GRAPH_MISTAKE(Sgd({}).Minimize(
            ReduceMean(Dense(g, "dense", 4, 1)(g.Input("x", F32, {2, 3}, {UNSHARDED, UNSHARDED}))));
                      AverageWeights(g)),
  });
}

TEST(TrainErrors, Metrics) {
  int names = 0;
  const auto in = [&](Graph& g, DType dtype, const Shape& shape) {
    return g.Input(fmt::format("x{}", names++), dtype, shape, LayoutSpec(shape.size(), UNSHARDED));
  };
  // Logits of six rows; the default labels have four.
  const auto logits = [&](Graph& g) { return in(g, F32, {6, 4}); };
  Graph program{Mesh()};
  const Value x = program.Input("x", F32, {2}, {UNSHARDED});
  program.Output("loss", MeanMetric(program, "loss").Update(x));
  program.Output("accuracy", MeanMetric(program, "accuracy").Update(x));
  program.Output(kInvalidLabels, Constant(program, 2, {I64, {}}));
  Session session = Session::Create(program).value();
  const StepResult bad = session.Run({{"x", Tensor::Zeros({F32, {2}})}}).value();
  const std::vector<std::string> typo = {"loss", "acuracy"}, other = {"perplexity"};
  ExpectErrors("metrics", {
    GRAPH_MISTAKE(AccuracyMetric(g, "a").Update(logits(g), in(g, I32, {4}))),
        GRAPH_MISTAKE(AccuracyMetric(g, "a").Update(logits(g), in(g, F32, {6}))),
        GRAPH_MISTAKE(
            AccuracyMetric(g, "a").Update(logits(g), in(g, I32, {6}), {.weights = in(g, F32, {4})})),
        GRAPH_MISTAKE(TopKAccuracyMetric(g, "a", 0).Update(logits(g), in(g, I32, {6}))),
        GRAPH_MISTAKE(TopKAccuracyMetric(g, "a").Update(logits(g), in(g, I32, {6, 4}))),
        GRAPH_MISTAKE(PerplexityMetric(g, "a").Update(in(g, I32, {6, 4}), in(g, I32, {6}))),
        GRAPH_MISTAKE(ConfusionMatrixMetric(g, "a", 4).Update(logits(g), in(g, I32, {5}))),
        GRAPH_MISTAKE(ConfusionMatrixMetric(g, "a", 5).Update(logits(g), in(g, I32, {6}))),
        GRAPH_MISTAKE(ConfusionMatrixMetric(g, "a", -1)),
        GRAPH_MISTAKE(MeanMetric(g, "a").Update(in(g, F32, {6}), {.weights = in(g, I32, {6})})),
        GRAPH_MISTAKE(MeanMetric(g, "a b")), GRAPH_MISTAKE(MeanMetric(g, "a"); AccuracyMetric(g, "a")),
        GRAPH_MISTAKE(MeanMetric m(g, "a"); m.Update(in(g, F32, {6})); m.Update(in(g, F32, {6}))),
        GRAPH_MISTAKE(MeanMetric m(g, "a"); g.Output("y", m.result())),
        GRAPH_MISTAKE(Adam({}).Minimize(MeanMetric(g, "a").Update(g.Var("w", Zeros({3}), {UNSHARDED})))),
        GRAPH_MISTAKE(BinaryAccuracyMetric(g, "a").Update(in(g, F32, {6}), in(g, I32, {6, 1}))),
        GRAPH_MISTAKE(PrecisionMetric(g, "a").Update(in(g, I32, {6}), in(g, I32, {6}))),
        GRAPH_MISTAKE(
            RecallMetric(g, "a").Update(in(g, F32, {6}), in(g, I32, {6}), {.weights = in(g, F32, {5})})),
        GRAPH_MISTAKE(CountBinary(in(g, F32, {6}), in(g, I32, {6}), in(g, F64, {2, 2}))),
        GRAPH_MISTAKE(CountBinary(in(g, F32, {6}), in(g, I32, {6}), in(g, F32, {2}))),
        GRAPH_MISTAKE(AucMetric(g, "a", 1).Update(in(g, F32, {6}), in(g, I32, {6}))),
        GRAPH_MISTAKE(AucMetric(g, "a").Update(in(g, I32, {6}), in(g, I32, {6}))),
        GRAPH_MISTAKE(MeanAbsoluteErrorMetric(g, "a").Update(in(g, F32, {6}), in(g, F64, {6}))),
        GRAPH_MISTAKE(MeanSquaredErrorMetric(g, "a").Update(in(g, F32, {6}), in(g, F32, {6, 1}))),
        GRAPH_MISTAKE(RootMeanSquaredErrorMetric(g, "a").Update(in(g, I32, {6}), in(g, I32, {6}))),
        MISTAKE(ResetMetrics(session, typo)), MISTAKE(ResetMetrics(session, other)),
        MISTAKE(CheckLabels(bad)), MISTAKE(CheckLabels(StepResult({}))),
  });
}

}  // namespace
}  // namespace meshwork::train_test

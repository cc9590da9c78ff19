// What sessions, layers and optimizers refuse.
#include <cmath>

#include "errors/errors.h"
#include "gtest/gtest.h"
#include "meshwork/ops/ops.h"
#include "meshwork/train/digits.h"
#include "meshwork/train/initializers.h"
#include "meshwork/train/layers.h"
#include "meshwork/train/optimizers.h"
#include "meshwork/train/session.h"
#include "meshwork/train/transformer_layers.h"
#include "runtime/programs.h"

namespace meshwork {
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
  ExpectErrors("session_create", {
                                     MISTAKE(of_mistakes()),
                                     MISTAKE(Session::Create(Graph(Mesh()))),
                                     MISTAKE(create("mesh [] func f(%x: f32[2]) { %0 = exp %x }")),
                                     MISTAKE(Session::Create(Classifier("batch=1000000"))),
                                     MISTAKE(Session::Create(Classifier("batch=2"), {.workers = -1})),
                                     MISTAKE(Session::Create(Classifier("batch=2"), {.workers = 1000000000})),
                                     MISTAKE(tied.Run({{"x", Ramp({F32, {4, 3}})}})),
                                     MISTAKE(initialized(GlorotUniform({2, 2}, I32))),
                                     MISTAKE(initialized(built(foreign))),
                                     MISTAKE(initialized(built(Value()))),
                                     MISTAKE(initialized(Initializer{{F32, {2, 2}}, of_another_type})),
                                 });
}

TEST(TrainErrors, Digits) {
  auto digits = [](int64_t train, int64_t test, DType dtype) -> absl::Status {
    try {
      SyntheticDigits(train, test, 0, dtype);
    } catch (const absl::BadStatusOrAccess& error) {
      return error.status();
    }
    return absl::OkStatus();
  };
  ExpectErrors("digits", {MISTAKE(digits(-1, 0, F32)), MISTAKE(digits(1, 1, BF16))});
}

TEST(TrainErrors, Layers) {
  auto input = [](Graph& g, const Shape& shape, CallSite loc = CallSite::Current()) {
    return g.Input("x", F32, shape, LayoutSpec(shape.size(), UNSHARDED), loc);
  };
  ExpectErrors("layers", {
    GRAPH_MISTAKE(Dense(g, "dense", 5, 3)(input(g, {3, 2}))),
        GRAPH_MISTAKE(Dense(g, "dense", 5, 3); Dense(g, "dense", 5, 3)), GRAPH_MISTAKE(Dense(g, "", 5, 3)),
        GRAPH_MISTAKE(Dense(g, "dense", -5, 3)),
        GRAPH_MISTAKE(Dense(g, "dense", 2, 3, {.kernel_layout = {UNSHARDED, "modle"}})),
        GRAPH_MISTAKE(Dense(g, "dense", 2, 3, {.kernel_initializer = Zeros({3, 2})})(input(g, {3, 2}))),
        GRAPH_MISTAKE(LayerNormLayer(g, "norm", 3)(input(g, {2, 4}))),
        GRAPH_MISTAKE(Dense(g, "dense", 2, 3)(Value()); g.Output("y", Value())),
        GRAPH_MISTAKE(Embedding(g, "embedding", 5, 3)(input(g, {2}))),
        GRAPH_MISTAKE(RmsNormLayer(g, "norm", 3)(input(g, {2, 4}))),
        GRAPH_MISTAKE(MultiHeadAttention(g, "attention", 6, 4)(input(g, {2, 3, 6}))),
        GRAPH_MISTAKE(MultiHeadAttention(g, "attention", 6, 2)(input(g, {3, 6}))),
        GRAPH_MISTAKE(MultiHeadAttention(g, "attention", 6, 2, {.rotary = true})(input(g, {2, 3, 6}))),
        GRAPH_MISTAKE(FeedForward(g, "mlp", 6, 24)(input(g, {2, 3, 5}))),
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
        GRAPH_MISTAKE(Sgd({}).Minimize(without(g))), GRAPH_MISTAKE(Adam({}).Minimize(without(g))),
        GRAPH_MISTAKE(Sgd({}).Minimize(g.Var("w", Zeros({3}), {UNSHARDED}))),
        GRAPH_MISTAKE(Value loss = Parabola(g); Sgd({}).Minimize(loss); Sgd({}).Minimize(loss)),
        GRAPH_MISTAKE(Value loss = Parabola(g); Adam({}).Minimize(loss); Adam({}).Minimize(loss)),
        GRAPH_MISTAKE(Adam({}).Minimize(StopGradient(Parabola(g)))),
        GRAPH_MISTAKE(Value loss = Parabola(g); Variable w = g.variables()[0]; Sgd({}).Minimize(loss);
                      g.Update(w, w)),
        GRAPH_MISTAKE(Adam({}).Minimize(g.Input("x y", F32, {}, {}))),
        GRAPH_MISTAKE(Optimizer(forgetful).Minimize(Parabola(g))),
  });
}

}  // namespace
}  // namespace meshwork

// Recurrent layers over rows of different lengths, and ReverseSequence, against loops in double precision.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "meshwork/base/random.h"
#include "support/tensors.h"
#include "train/classifier.h"

namespace meshwork::recurrent_lengths_test {
namespace {

using Numbers = std::vector<double>;

constexpr int64_t kRows = 6, kSteps = 6, kInputs = 3, kUnits = 4;  // as many steps as rows
constexpr const char* kMeshes[] = {"batch=1", "batch=2", "model=2", "batch=3,model=2", "batch=4,model=2"};

// ---- The reference.

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

struct Weights {
  Numbers kernel, recurrent, bias,
      recurrent_bias;  // [inputs,gates,units], [units,gates,units], [gates,units], [units]
};

// The states of one row, [units] each: for Lstm, the state and the cell.
using State = std::vector<Numbers>;
using StepOf = std::function<State(const Weights& w, const double* x, const State& state)>;

// x · kernel + bias of one gate, and state · recurrent.
Numbers OfInput(const Weights& w, int64_t gates, int64_t gate, const double* x) {
  Numbers z(kUnits);
  for (int64_t u = 0; u < kUnits; ++u) {
    z[u] = w.bias[gate * kUnits + u];
    for (int64_t i = 0; i < kInputs; ++i) z[u] += x[i] * w.kernel[(i * gates + gate) * kUnits + u];
  }
  return z;
}
Numbers OfState(const Weights& w, int64_t gates, int64_t gate, const Numbers& state) {
  Numbers z(kUnits, 0);
  for (int64_t u = 0; u < kUnits; ++u)
    for (int64_t k = 0; k < kUnits; ++k) z[u] += state[k] * w.recurrent[(k * gates + gate) * kUnits + u];
  return z;
}

State RnnStep(const Weights& w, const double* x, const State& state) {
  Numbers z = OfInput(w, 1, 0, x), of_state = OfState(w, 1, 0, state[0]);
  for (int64_t u = 0; u < kUnits; ++u) z[u] = std::tanh(z[u] + of_state[u]);
  return {z};
}

State LstmStep(const Weights& w, const double* x, const State& state) {
  State gates, next(2, Numbers(kUnits));
  for (int64_t gate = 0; gate < 4; ++gate) {
    gates.push_back(OfInput(w, 4, gate, x));
    const Numbers of_state = OfState(w, 4, gate, state[0]);
    for (int64_t u = 0; u < kUnits; ++u) gates.back()[u] += of_state[u];
  }
  for (int64_t u = 0; u < kUnits; ++u) {
    next[1][u] = Sigmoid(gates[1][u]) * state[1][u] + Sigmoid(gates[0][u]) * std::tanh(gates[2][u]);
    next[0][u] = Sigmoid(gates[3][u]) * std::tanh(next[1][u]);
  }
  return next;
}

State GruStep(const Weights& w, const double* x, const State& state) {
  const Numbers z = OfInput(w, 3, 0, x), r = OfInput(w, 3, 1, x), h = OfInput(w, 3, 2, x);
  const Numbers zs = OfState(w, 3, 0, state[0]), rs = OfState(w, 3, 1, state[0]),
                hs = OfState(w, 3, 2, state[0]);
  Numbers next(kUnits);
  for (int64_t u = 0; u < kUnits; ++u) {
    const double keep = Sigmoid(z[u] + zs[u]), reset = Sigmoid(r[u] + rs[u]);
    next[u] = keep * state[0][u] + (1 - keep) * std::tanh(h[u] + reset * (hs[u] + w.recurrent_bias[u]));
  }
  return {next};
}

struct Case {
  bool reverse = false, zero_output = false, has_initial = false;
  std::vector<std::vector<bool>> real;  // [b][t]
};

// The sequence [b,t,units], then the last states [b,units].
struct Result {
  Numbers sequence;
  std::vector<Numbers> states;
};

Result Reference(const StepOf& step, size_t states, const Weights& w, const Numbers& x,
                 const Numbers& initial, const Case& c) {
  const auto rows = static_cast<int64_t>(c.real.size());
  Result result{Numbers(rows * kSteps * kUnits), std::vector<Numbers>(states)};
  for (int64_t b = 0; b < rows; ++b) {
    State state(states, Numbers(kUnits, 0));
    if (c.has_initial)
      for (Numbers& one : state) std::copy_n(initial.begin() + b * kUnits, kUnits, one.begin());
    for (int64_t i = 0; i < kSteps; ++i) {
      const int64_t t = c.reverse ? kSteps - 1 - i : i;
      const bool is_real = c.real[b][t];
      if (is_real) state = step(w, &x[(b * kSteps + t) * kInputs], state);
      for (int64_t u = 0; u < kUnits; ++u)
        result.sequence[(b * kSteps + t) * kUnits + u] = is_real || !c.zero_output ? state[0][u] : 0;
    }
    for (size_t s = 0; s < states; ++s)
      result.states[s].insert(result.states[s].end(), state[s].begin(), state[s].end());
  }
  return result;
}

// ---- The layers.

struct Called {
  Value sequence;
  std::vector<Value> states;
};

struct Kind {
  const char* name;
  size_t states;
  StepOf step;
  std::function<Called(Graph&, const Value& x, const Value& initial, const RecurrentOptions&,
                       const RealSteps&)>
      call;
};

const std::vector<Kind>& Kinds() {
  static const auto* const kinds = new std::vector<Kind>{
      {"rnn", 1, RnnStep,
       [](Graph& g, const Value& x, const Value& initial, const RecurrentOptions& o, const RealSteps& steps) {
         const RecurrentResult r = SimpleRnn(g, "l", kInputs, kUnits, o)(x, initial, steps);
         return Called{r.sequence, {r.state}};
       }},
      {"lstm", 2, LstmStep,
       [](Graph& g, const Value& x, const Value& initial, const RecurrentOptions& o, const RealSteps& steps) {
         const LstmResult r = Lstm(g, "l", kInputs, kUnits, o)(x, {initial, initial}, steps);
         return Called{r.sequence, {r.state, r.cell}};
       }},
      {"gru", 1, GruStep,
       [](Graph& g, const Value& x, const Value& initial, const RecurrentOptions& o, const RealSteps& steps) {
         const RecurrentResult r = Gru(g, "l", kInputs, kUnits, o)(x, initial, steps);
         return Called{r.sequence, {r.state}};
       }},
  };
  return *kinds;
}

// The loss that both sides differentiate: each number of the results times 1, 2, 3, 1, ….
double LossOf(const Result& result) {
  double loss = 0;
  const auto add = [&](const Numbers& numbers) {
    for (size_t i = 0; i < numbers.size(); ++i) loss += numbers[i] * static_cast<double>(1 + i % 3);
  };
  add(result.sequence);
  for (const Numbers& state : result.states) add(state);
  return loss;
}
Value Weighed(const Value& x) {
  const Value flat = Reshape(x, {-1});
  const Value place = Iota(*x.graph(), {I64, flat.shape()}, 0);
  return ReduceSum(flat * (Cast(Remainder(place, 3.0), x.dtype()) + 1.0));
}

Graph LayerProgram(const std::string& mesh, const Kind& kind, const Case& c, bool by_lengths,
                   DType compute = F64) {
  Graph g(Mesh::VirtualCpus(mesh).value());
  const DimSpec batch = AxisOrWhole(g.mesh(), "batch"), model = AxisOrWhole(g.mesh(), "model");
  const DType dtype = compute == F64 ? F64 : F32;
  const Value x = g.Input("x", dtype, {kRows, kSteps, kInputs}, {batch, UNSHARDED, UNSHARDED});
  const Value initial =
      c.has_initial ? g.Input("initial", dtype, {kRows, kUnits}, {batch, UNSHARDED}) : Value();
  RealSteps steps{.zero_output = c.zero_output};
  if (by_lengths) steps.lengths = g.Input("lengths", I32, {kRows}, {batch});
  else steps.mask = g.Input("mask", BOOL, {kRows, kSteps}, {batch, UNSHARDED});
  const RecurrentOptions options{.reverse = c.reverse,
                                 .units = model,
                                 .dtype = dtype,
                                 .compute = compute,
                                 .bias_initializer = GlorotUniform()};
  const Called called =
      kind.call(g, x, initial.valid() && compute != dtype ? Cast(initial, compute) : initial, options, steps);
  g.Output("sequence", Cast(called.sequence, dtype));
  Value loss = Weighed(Cast(called.sequence, dtype));
  for (size_t s = 0; s < called.states.size(); ++s) {
    g.Output(fmt::format("state{}", s), Cast(called.states[s], dtype));
    loss = loss + Weighed(Cast(called.states[s], dtype));
  }
  std::vector<Value> by = {x};
  for (const Argument& argument : g.arguments())
    if (argument.is_variable) by.emplace_back(&g, argument.value);
  const std::vector<Value> gradients = Gradients(loss, by);
  for (size_t i = 0; i < by.size(); ++i)
    g.Output("gradient/" + g.value(by[i].id()).name.substr(by[i].id() == x.id() ? 0 : 2), gradients[i]);
  EXPECT_TRUE(g.status().ok()) << g.status();
  return g;
}

Weights WeightsOf(const Session& session) {
  const auto numbers = [&](const char* name) {
    const absl::StatusOr<Tensor> tensor = session.Get(name);
    return tensor.ok() ? NumbersOf(*tensor) : Numbers();
  };
  return {numbers("l/kernel"), numbers("l/recurrent"), numbers("l/bias"), numbers("l/recurrent_bias")};
}

void ExpectAllNear(const Numbers& got, const Numbers& want, double tolerance, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], tolerance) << what << " " << i;
}

// Compares the gradient by every third number with central differences of the reference.
void ExpectGradient(const Numbers& got, Numbers& x, const std::function<double()>& loss,
                    const std::string& what) {
  ASSERT_EQ(got.size(), x.size()) << what;
  for (size_t i = 0; i < x.size(); i += 3) {
    const double at = x[i], h = 1e-5;
    x[i] = at + h;
    const double above = loss();
    x[i] = at - h;
    const double below = loss();
    x[i] = at;
    ASSERT_NEAR(got[i], (above - below) / (2 * h), 1e-7) << what << " " << i;
  }
}

std::vector<std::vector<bool>> RealUpTo(const std::vector<int32_t>& lengths) {
  std::vector<std::vector<bool>> real;
  for (int32_t length : lengths) {
    real.emplace_back();
    for (int64_t t = 0; t < kSteps; ++t) real.back().push_back(t < length);
  }
  return real;
}

Feeds FeedsOf(const Case& c, const std::vector<int32_t>& lengths, DType dtype) {
  const auto rows = static_cast<int64_t>(c.real.size());
  Feeds feeds = {{"x", Rough(Type{F64, {kRows, kSteps, kInputs}}).Rows(0, rows).Cast(dtype)}};
  if (c.has_initial) feeds.insert({"initial", Rough(Type{F64, {kRows, kUnits}}).Rows(0, rows).Cast(dtype)});
  if (lengths.empty()) {
    Tensor mask(Type{BOOL, {rows, kSteps}});
    for (int64_t b = 0; b < rows; ++b)
      for (int64_t t = 0; t < kSteps; ++t) mask.mutable_values<bool>()[b * kSteps + t] = c.real[b][t];
    feeds.insert({"mask", mask});
  } else {
    feeds.insert({"lengths", Tensor::From<int32_t>({rows}, lengths)});
  }
  return feeds;
}

// `lengths`: empty if the mask says what is real.
void ExpectReference(const std::string& mesh, const Kind& kind, const Case& c,
                     const std::vector<int32_t>& lengths) {
  Session session = Session::Create(LayerProgram(mesh, kind, c, !lengths.empty())).value();
  const Feeds feeds = FeedsOf(c, lengths, F64);
  Weights w = WeightsOf(session);
  Numbers x = NumbersOf(feeds.at("x")), initial = c.has_initial ? NumbersOf(feeds.at("initial")) : Numbers();
  const auto reference = [&] { return Reference(kind.step, kind.states, w, x, initial, c); };
  const StepResult got = session.Run(feeds).value();
  const Result want = reference();
  ExpectAllNear(NumbersOf(got.Get("sequence").value()), want.sequence, 1e-12, "sequence");
  for (size_t s = 0; s < kind.states; ++s)
    ExpectAllNear(NumbersOf(got.Get(fmt::format("state{}", s)).value()), want.states[s], 1e-12, "state");
  const auto loss = [&] { return LossOf(reference()); };
  const auto gradient = [&](const char* name) {
    return NumbersOf(got.Get(std::string("gradient/") + name).value());
  };
  ExpectGradient(gradient("x"), x, loss, "x");
  ExpectGradient(gradient("kernel"), w.kernel, loss, "kernel");
  ExpectGradient(gradient("recurrent"), w.recurrent, loss, "recurrent");
  ExpectGradient(gradient("bias"), w.bias, loss, "bias");
}

TEST(RecurrentLengthsTest, RowsEndAtTheirLengths) {
  Random random(3);
  for (const Kind& kind : Kinds()) {
    for (const char* mesh : kMeshes) {
      for (int trial = 0; trial < 3; ++trial) {
        std::vector<int32_t> lengths;
        for (int64_t b = 0; b < (trial == 1 ? 4 : kRows); ++b)
          lengths.push_back(static_cast<int32_t>(random.Below(kSteps + 3)) - 1);  // below 0 and above t, too
        const Case c{random.Below(2) == 1, random.Below(2) == 1, random.Below(2) == 1, RealUpTo(lengths)};
        SCOPED_TRACE(fmt::format("{} on {} lengths {} reverse {} zero {} initial {}", kind.name, mesh,
                                 fmt::join(lengths, ","), c.reverse, c.zero_output, c.has_initial));
        ExpectReference(mesh, kind, c, lengths);
      }
    }
  }
}

TEST(RecurrentLengthsTest, AMaskMayHaveHoles) {
  Random random(5);
  for (const Kind& kind : Kinds()) {
    for (const char* mesh : kMeshes) {
      for (int trial = 0; trial < 2; ++trial) {
        Case c{trial == 0, random.Below(2) == 1, random.Below(2) == 1, {}};
        for (int64_t b = 0; b < (trial == 1 ? 5 : kRows); ++b) {
          c.real.emplace_back();
          for (int64_t t = 0; t < kSteps; ++t) c.real.back().push_back(random.Below(2) == 1);
        }
        SCOPED_TRACE(fmt::format("{} on {} trial {}", kind.name, mesh, trial));
        ExpectReference(mesh, kind, c, {});
      }
    }
  }
}

TEST(RecurrentLengthsTest, InBf16TheyAreAsFarOffAsBf16) {
  const std::vector<int32_t> lengths = {6, 1, 0, 3, 5, 2};
  for (const Kind& kind : Kinds()) {
    for (bool reverse : {false, true}) {
      SCOPED_TRACE(fmt::format("{} {}", kind.name, reverse));
      const Case c{reverse, true, false, RealUpTo(lengths)};
      Session session = Session::Create(LayerProgram("batch=2", kind, c, true, BF16)).value();
      const Feeds feeds = FeedsOf(c, lengths, F32);
      const Weights w = WeightsOf(session);
      const Result want = Reference(kind.step, kind.states, w, NumbersOf(feeds.at("x")), {}, c);
      const StepResult got = session.Run(feeds).value();
      ExpectAllNear(NumbersOf(got.Get("sequence").value()), want.sequence, 0.03, "sequence");
      for (size_t s = 0; s < kind.states; ++s)
        ExpectAllNear(NumbersOf(got.Get(fmt::format("state{}", s)).value()), want.states[s], 0.03, "state");
    }
  }
}

// Values in padding change no result, not even NaN.
TEST(RecurrentLengthsTest, PaddingIsNotRead) {
  const std::vector<int32_t> lengths = {6, 1, 0, 3, 5, 2};
  for (const Kind& kind : Kinds()) {
    const Case c{false, true, false, RealUpTo(lengths)};
    Session session = Session::Create(LayerProgram("batch=2", kind, c, true)).value();
    Feeds feeds = FeedsOf(c, lengths, F64);
    const std::vector<std::string> outputs = {"sequence", "state0"};
    const StepResult want = session.Evaluate(feeds, outputs).value();
    for (int64_t b = 0; b < kRows; ++b)
      for (int64_t i = lengths[b] * kInputs; i < kSteps * kInputs; ++i)
        feeds.at("x").mutable_values<double>()[b * kSteps * kInputs + i] = std::nan("");
    const StepResult got = session.Evaluate(feeds, outputs).value();
    for (const std::string& output : outputs)
      EXPECT_EQ(NumbersOf(got.Get(output).value()), NumbersOf(want.Get(output).value())) << kind.name;
  }
}

// The backward layer starts at each row's last real step. A layer between two calls of ReverseSequence does the same.
TEST(RecurrentLengthsTest, BidirectionalGoesBackWithinEachRow) {
  for (const char* mesh : kMeshes) {
    SCOPED_TRACE(mesh);
    Graph g(Mesh::VirtualCpus(mesh).value());
    const DimSpec batch = AxisOrWhole(g.mesh(), "batch"), model = AxisOrWhole(g.mesh(), "model");
    const Value x = g.Input("x", F64, {kRows, kSteps, kInputs}, {batch, UNSHARDED, UNSHARDED});
    const Value lengths = g.Input("lengths", I64, {kRows}, {batch});
    const Bidirectional<Lstm> both(g, "l", kInputs, kUnits, {.units = model, .dtype = F64});
    const RealSteps steps{.lengths = lengths, .zero_output = true};
    const auto h = both(x, steps);
    const LstmResult forward = both.forward()(x, {}, steps);
    // A layer of the same variables that goes forward over reversed rows.
    const Lstm again(g, "again", kInputs, kUnits, {.units = model, .dtype = F64});
    const LstmResult back = again(ReverseSequence(x, lengths), {}, steps);
    g.Output("sequence", h.sequence);
    g.Output("state", h.state);
    g.Output("want_sequence", Concat({forward.sequence, ReverseSequence(back.sequence, lengths)}, -1));
    g.Output("want_state", Concat({forward.state, back.state}, -1));
    Session session = Session::Create(g).value();
    for (const char* name : {"kernel", "recurrent", "bias"})
      ASSERT_TRUE(
          session.Set(std::string("again/") + name, session.Get(std::string("l/backward/") + name).value())
              .ok());
    for (int64_t rows : {kRows, int64_t{4}}) {
      const StepResult r =
          session
              .Run({{"x", Rough(Type{F64, {kRows, kSteps, kInputs}}).Rows(0, rows)},
                    {"lengths", Tensor::From<int64_t>({kRows}, {6, 0, 3, 1, 5, 2}).Rows(0, rows)}})
              .value();
      ExpectNear(r.Get("sequence").value(), r.Get("want_sequence").value());
      ExpectNear(r.Get("state").value(), r.Get("want_state").value());
    }
  }
}

// ---- ReverseSequence.

struct Reversed {
  Shape shape;
  int64_t seq_dim, batch_dim;
};

Numbers ReverseRows(const Numbers& x, const Reversed& c, const std::vector<int32_t>& lengths) {
  Numbers y(x.size());
  const auto rank = static_cast<int64_t>(c.shape.size());
  const int64_t seq = (c.seq_dim + rank) % rank, batch = (c.batch_dim + rank) % rank;
  for (size_t i = 0; i < x.size(); ++i) {
    std::vector<int64_t> place(c.shape.size());
    auto rest = static_cast<int64_t>(i);
    for (int64_t d = rank - 1; d >= 0; --d) {
      place[d] = rest % c.shape[d];
      rest /= c.shape[d];
    }
    const int64_t length = std::min<int64_t>(lengths[place[batch]], c.shape[seq]);
    if (place[seq] < length) place[seq] = length - 1 - place[seq];
    int64_t from = 0;
    for (int64_t d = 0; d < rank; ++d) from = from * c.shape[d] + place[d];
    y[i] = x[from];
  }
  return y;
}

TEST(ReverseSequenceTest, ReversesEachRowUpToItsLength) {
  const std::vector<Reversed> cases = {{{6, 6, 3}, 1, 0},  {{6, 5}, 1, 0},       {{5, 6}, 0, 1},
                                       {{5, 6, 2}, 0, 1},  {{2, 6, 3, 4}, 2, 1}, {{4, 2, 6}, 0, -1},
                                       {{6, 2, 3}, -1, 0}, {{6, 0, 3}, 1, 0},    {{6, 1}, 1, 0}};
  Random random(7);
  for (const Reversed& c : cases) {
    const auto rank = static_cast<int64_t>(c.shape.size());
    const int64_t batch_dim = (c.batch_dim + rank) % rank, rows = c.shape[batch_dim];
    for (const char* mesh : {"batch=1", "batch=2", "batch=4"}) {
      std::vector<int32_t> lengths;
      for (int64_t b = 0; b < rows; ++b) lengths.push_back(static_cast<int32_t>(random.Below(9)) - 1);
      SCOPED_TRACE(fmt::format("{} seq {} batch {} on {} lengths {}", ShapeToString(c.shape), c.seq_dim,
                               c.batch_dim, mesh, fmt::join(lengths, ",")));
      Graph g(Mesh::VirtualCpus(mesh).value());
      LayoutSpec layout(c.shape.size(), UNSHARDED);
      layout[batch_dim] = "batch";
      const Value x = g.Input("x", F64, c.shape, layout), n = g.Input("n", I32, {rows}, {"batch"});
      const Value y = ReverseSequence(x, n, c.seq_dim, c.batch_dim), f = g.Input("f", F64, c.shape, layout);
      g.Output("y", y);
      g.Output("gradient", Gradients(ReduceSum(y * f), {x})[0]);
      g.Output("twice", ReverseSequence(y, n, c.seq_dim, c.batch_dim));
      ASSERT_TRUE(g.status().ok()) << g.status();
      const Program program = Compile(g).value();
      for (const Node& node : program.body.nodes())
        EXPECT_NE(node.row->kind, OpKind::kCollective) << node.row->name;
      Session session = Session::Create(g).value();
      const Tensor fed = Rough(Type{F64, c.shape});
      Tensor factors(Type{F64, c.shape});
      for (int64_t i = 0; i < factors.num_elements(); ++i)
        factors.mutable_values<double>()[i] = static_cast<double>(i * i % 17);
      const StepResult r =
          session.Run({{"x", fed}, {"n", Tensor::From<int32_t>({rows}, lengths)}, {"f", factors}}).value();
      EXPECT_EQ(NumbersOf(r.Get("y").value()), ReverseRows(NumbersOf(fed), c, lengths));
      EXPECT_EQ(NumbersOf(r.Get("twice").value()), NumbersOf(fed));
      // The transpose of a permutation that is its own inverse is itself.
      EXPECT_EQ(NumbersOf(r.Get("gradient").value()), ReverseRows(NumbersOf(factors), c, lengths));
    }
  }
}

}  // namespace
}  // namespace meshwork::recurrent_lengths_test

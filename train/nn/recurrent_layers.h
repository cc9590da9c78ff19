// Recurrent layers over sequences x: [b, t, inputs]; the steps are a Scan (ops/control/control_flow.h).
// train/nn/layers.h says what holds for all layers.
//
//   Lstm lstm(g, "lstm", 64, 128, {.units = "model"});
//   const LstmResult h = lstm(x);        // x: [b, t, 64]
//   Value logits = dense(h.state);       // of the last step, [b, 128]; h.sequence: [b, t, 128] of all
//
// A step computes x[t] · kernel + bias (for all steps at once, before the loop), and, in the loop, state · recurrent
// and the gates. Kernels have a dim of gates, so that units can be sharded and every device has all gates of its own
// units: "name/kernel": [inputs, gates, units], "name/recurrent": [units, gates, units], "name/bias": [gates, units].
// The elements are in the order of Keras' [inputs, gates · units], with Keras' order of gates; reshape such weights.
//
// Bidirectional is two of these, one of them from the last step to the first.
//
// Rows of different lengths are padded, and RealSteps says which steps are no padding:
//
//   lstm(x, {}, {.lengths = n})          // n: integers [b]; h.state is that after step n - 1 of each row
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/train/nn/initializers.h"
#include "meshwork/train/nn/layer_variables.h"
#include "meshwork/train/nn/precision.h"

namespace meshwork {

struct RecurrentOptions {
  bool bias = true;
  bool reverse = false;    // from the last position to the first; y[t] is still beside x[t]
  bool recompute = false;  // ScanOptions::recompute: less memory for gradients, more work
  // Lstm: whether the forget gate's bias starts at 1 (Jozefowicz et al., ICML 2015).
  bool unit_forget_bias = true;
  // Gru: whether the reset gate acts on state · recurrent (Keras' default, PyTorch, cuDNN), or on the state itself.
  bool reset_after = true;
  // Shardings: of the units, in all variables and in the state; of the kernel's inputs; of the recurrent kernel's rows,
  // which the state is multiplied with.
  DimSpec units = UNSHARDED, inputs = UNSHARDED, recurrent_rows = UNSHARDED;
  std::optional<DType> dtype = {}, compute = {};
  Gathering gather = Gathering::kWithinBudget;
  // They make all gates as one matrix, [inputs, gates · units] and [units, gates · units], as in Keras; but an
  // Initializer has type [inputs, gates, units] or [units, gates, units].
  LayerInitializer kernel_initializer = GlorotUniform(), recurrent_initializer = Orthogonal();
  LayerInitializer bias_initializer = Zeros();  // of the gates that do not start at 1
};

// The steps of x: [b, t, inputs] that are real; all if nothing is given. Other steps do not change the state: there the
// sequence repeats the state of the last real step, or the initial state (Keras on JAX; on TensorFlow Keras has 0
// before the first real step). A layer that goes from the last position to the first goes through each row backwards
// within its length. The contents of padding do not matter for values; for gradients they must be finite.
//
// Errors (recorded): lengths and a mask; lengths that are no whole numbers [b]; a mask that is no bool [b,t].
struct RealSteps {
  Value lengths = {};  // how many steps of each row are real, the first ones; clamped to 0 to t
  Value mask = {};     // true at the real steps, wherever they are
  bool zero_output =
      false;  // the sequence is 0 at other steps (Keras' zero_output_for_mask; PyTorch's padded sequences)
};

struct RecurrentResult {
  Value sequence;  // the state after each step, [b, t, units]
  Value state;     // after the last step, [b, units]
};

namespace internal {

enum class RecurrentKind : uint8_t { kSimple, kLstm, kGru };

struct RecurrentVariables {
  Variable kernel, recurrent, bias, recurrent_bias;
  bool is_complete = false;  // otherwise a mistake has been recorded
};

// The base of recurrent layers.
class RecurrentBase {
 public:
  const Variable& kernel() const { return variables_.Now().kernel; }
  const Variable& recurrent() const { return variables_.Now().recurrent; }
  const Variable& bias() const { return variables_.Now().bias; }

 protected:
  const Variable& recurrent_bias() const { return variables_.Now().recurrent_bias; }

  using Values = std::vector<Value>;
  // The body of the loop. Makes the next states of the states, of x · kernel + bias for each gate, all [b, units], and
  // of the recurrent kernels, [units, units].
  using Step = std::function<Values(const Values& states, const Values& inputs, const Values& recurrent)>;

  RecurrentBase(RecurrentKind kind, std::optional<int64_t> inputs, Graph& graph, const std::string& name,
                int64_t units, const RecurrentOptions& options, CallSite loc);
  // The sequence of the first state, [b, t, units], then the states after the last step. Invalid values after a
  // mistake.
  Values Run(const Value& x, Values initial, const RealSteps& steps, CallSite loc, const Step& step) const;

  RecurrentOptions options_;
  Precision precision_;

 private:
  bool Check(const Value& x, int64_t inputs, Values& states, CallSite loc) const;
  bool CheckSteps(const Value& x, const RealSteps& steps, CallSite loc) const;

  RecurrentKind kind_;
  int64_t units_;
  LayerVariables<RecurrentVariables> variables_;
};

template <RecurrentKind kKind>
class RecurrentLayer : public RecurrentBase {
 public:
  RecurrentLayer(Graph& graph, const std::string& name, int64_t inputs, int64_t units,
                 const RecurrentOptions& options = {}, CallSite loc = CallSite::Current())
      : RecurrentBase(kKind, inputs, graph, name, units, options, loc) {}
  RecurrentLayer(Graph& graph, const std::string& name, int64_t units, const RecurrentOptions& options = {},
                 CallSite loc = CallSite::Current())
      : RecurrentBase(kKind, std::nullopt, graph, name, units, options, loc) {}
};

}  // namespace internal

// state = tanh(x · kernel + state · recurrent + bias) (Elman, Cognitive Science 14, 1990). One gate.
//
// `initial`: [b, units], zeros if it is not given. Errors (recorded), as of all layers here: an x that is not
// [b, t, inputs], an initial state or an initializer that does not fit.
class SimpleRnn : public internal::RecurrentLayer<internal::RecurrentKind::kSimple> {
 public:
  using RecurrentLayer::RecurrentLayer;
  RecurrentResult operator()(const Value& x, const Value& initial = {}, const RealSteps& steps = {},
                             CallSite loc = CallSite::Current()) const;
};

struct LstmState {
  Value state = {}, cell = {};  // [b, units]
};

struct LstmResult {
  Value sequence;     // the state after each step, [b, t, units]
  Value state, cell;  // after the last step, [b, units]
};

// Gates i, f, c, o, each z = x · kernel + state · recurrent + bias (Hochreiter and Schmidhuber, 1997; Gers et al.,
// 2000):
//
//   cell = sigmoid(z_f) · cell + sigmoid(z_i) · tanh(z_c)
//   state = sigmoid(z_o) · tanh(cell)
//
// PyTorch has the same gates in the same order. Its kernels are transposed, and it has two biases, to be added up.
class Lstm : public internal::RecurrentLayer<internal::RecurrentKind::kLstm> {
 public:
  using RecurrentLayer::RecurrentLayer;
  LstmResult operator()(const Value& x, const LstmState& initial = {}, const RealSteps& steps = {},
                        CallSite loc = CallSite::Current()) const;
};

// Gates z, r, h (Cho et al., arXiv 1406.1078):
//
//   z, r = sigmoid(x · kernel + state · recurrent + bias)
//   h = tanh(x · kernel + bias + r · (state · recurrent + recurrent_bias))    with reset_after
//   h = tanh(x · kernel + bias + (r · state) · recurrent)                     without
//   state = z · state + (1 - z) · h
//
// "name/recurrent_bias", [units], is there with reset_after and a bias. Keras and PyTorch have recurrent biases of z
// and r too; add them to the bias. PyTorch's order is r, z, h.
class Gru : public internal::RecurrentLayer<internal::RecurrentKind::kGru> {
 public:
  using RecurrentBase::recurrent_bias;  // invalid without a bias, or without reset_after
  using RecurrentLayer::RecurrentLayer;
  RecurrentResult operator()(const Value& x, const Value& initial = {}, const RealSteps& steps = {},
                             CallSite loc = CallSite::Current()) const;
};

// How the results of two directions are merged: into [.., 2 · units], or [.., units].
enum class Merge : uint8_t { kConcat, kSum, kMul, kAverage };

namespace internal {

Value Merged(Merge merge, const Value& forward, const Value& backward, CallSite loc);

}  // namespace internal

template <typename Result>
struct BidirectionalResult {
  Value sequence;            // both directions' states at each position, merged
  Value state;               // both directions' last states, merged
  Result forward, backward;  // of each direction
};

// Two layers over the same x, the second from the last step to the first, as Keras' Bidirectional and PyTorch's
// bidirectional=True. Variables "name/forward/…" and "name/backward/…".
//
//   const Bidirectional<Lstm> lstm(g, "lstm", 128, {.units = "model"});
//   Value h = lstm(x).sequence;                                        // [b, t, inputs] -> [b, t, 256]
template <typename Layer>
class Bidirectional {
 public:
  Bidirectional(Graph& graph, const std::string& name, int64_t inputs, int64_t units,
                const RecurrentOptions& options = {}, Merge merge = Merge::kConcat,
                CallSite loc = CallSite::Current())
      : forward_(graph, name + "/forward", inputs, units, options, loc),
        backward_(graph, name + "/backward", inputs, units, Reversed(options), loc),
        merge_(merge) {}
  Bidirectional(Graph& graph, const std::string& name, int64_t units, const RecurrentOptions& options = {},
                Merge merge = Merge::kConcat, CallSite loc = CallSite::Current())
      : forward_(graph, name + "/forward", units, options, loc),
        backward_(graph, name + "/backward", units, Reversed(options), loc),
        merge_(merge) {}

  auto operator()(const Value& x, const RealSteps& steps = {}, CallSite loc = CallSite::Current()) const {
    const auto forward = forward_(x, {}, steps, loc);
    using Result = BidirectionalResult<std::decay_t<decltype(forward)>>;
    if (!forward.sequence.valid()) return Result();  // its mistake is recorded once
    const auto backward = backward_(x, {}, steps, loc);
    return Result{internal::Merged(merge_, forward.sequence, backward.sequence, loc),
                  internal::Merged(merge_, forward.state, backward.state, loc), forward, backward};
  }

  const Layer& forward() const { return forward_; }
  const Layer& backward() const { return backward_; }

 private:
  static RecurrentOptions Reversed(RecurrentOptions options) {
    options.reverse = !options.reverse;
    return options;
  }

  Layer forward_, backward_;
  Merge merge_;
};

}  // namespace meshwork

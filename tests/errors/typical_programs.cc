// Typical mistakes: regions, sessions and feeds; and what users of other libraries bring along.
#include <future>

#include "errors/typical.h"
#include "support/calling_op.h"

namespace meshwork {

namespace {

Value Eight(Attempt& a) { return a.g.Input("x", F32, {8}, {"batch"}); }

// A linear classifier of x: f32[8,4] with labels, trained.
Attempt Classifier() {
  Attempt a;
  const Value labels = a.g.Input("labels", I32, {8}, {"batch"});
  const Value loss = SparseSoftmaxCrossEntropy(Dense(a.g, "dense", 4, 3)(a.Images()), labels);
  Sgd({}).Minimize(loss);
  a.g.Output("loss", loss);
  return a;
}
Feeds Examples(DType images = F32, DType labels = I32, int64_t rows = 8) {
  return {{"x", Tensor::Zeros({images, {rows, 4}})}, {"labels", Tensor::Zeros({labels, {rows}})}};
}

}  // namespace

std::vector<TypicalMistake> ProgramMistakes() {
  return {
      {"less memory than the program needs",
       [] {
         Attempt a;
         a.g.Output("o", Eight(a));
         return a.Say({.compile = {.memory_budget = 4}});
       }},
      {"a collective outside of a region",
       [] {
         Attempt a;
         a.g.Output("o", manual::AllReduce(Eight(a), {"batch"}));
         return a.Say();
       }},
      {"a region that forgets to reduce",
       [] {
         Attempt a;
         const auto body = [](Graph&, const auto& b) -> std::vector<Value> { return {ReduceSum(b[0], {0})}; };
         a.g.Output("o", manual::Region(a.g, {Eight(a)}, {{"batch"}}, {{}}, body)[0]);
         return a.Say();
       }},
      {"a region whose axis does not divide",
       [] {
         Attempt a;
         const Value x = a.g.Input("x", F32, {9}, {"batch"});
         const auto body = [](Graph&, const auto& b) -> std::vector<Value> { return {b[0] * 2.0}; };
         a.g.Output("o", manual::Region(a.g, {x}, {{"batch"}}, {{"batch"}}, body)[0]);
         return a.Say();
       }},
      {"one session, used by two threads at the same time",
       [] {
         Graph g{Mesh()};
         g.Output("o", Calling(g.Input("x", F32, {})));
         Session s = Session::Create(g, {.workers = 1}).value();
         std::string told;
         CalledByTheNextStep() = [&] {
           told = std::async(std::launch::async, [&] { return Say(s.Run({}).status()); }).get();
         };
         const absl::Status first = s.Run({{"x", Tensor::Zeros({F32, {}})}}).status();
         return first.ok() ? told : "the first: " + Say(first);
       }},
      {"an output that reads a variable of the same name after its update",
       [] {
         Attempt a;
         const Variable w = a.g.Var("w", Filled(2, {4}), {UNSHARDED});
         a.g.Update(w, w * 3.0);
         a.g.Output("w", w);
         Session s = Session::Create(a.g, {.workers = 1}).value();
         const double read = s.Run({})->Get("w")->values<float>()[0];
         return fmt::format("fine: the step reads {}, and w is {} after it", read,
                            s.Get("w")->values<float>()[0]);
       }},
      {"an empty program",
       [] {
         Attempt a;
         return a.Say();
       }},
      {"sizes of the batch written as numbers, and a short batch",
       [] {
         Attempt a;
         const Value x = a.Images();
         a.g.Output("r", Concat({Reshape(x, {16, 2}), Constant(a.g, 0, {F32, {16, 2}})}, 1));
         return a.SayOfRun({{"x", Tensor::Zeros({F32, {3, 4}})}});
       }},
      {"a constant as long as the batch",
       [] {
         Attempt a;
         a.g.Output("s", Constant(a.g, 0, {F32, {8, 4}}) + a.Images());
         return a.SayOfRun({{"x", Tensor::Zeros({F32, {3, 4}})}});
       }},
  };
}

std::vector<TypicalMistake> ForeignMistakes() {
  return {
      {"one-hot labels where class indices are asked",
       [] {
         Attempt a;
         const Value labels = a.g.Input("labels", F32, {8, 4}, {"batch", UNSHARDED});
         a.g.Output("loss", SparseSoftmaxCrossEntropy(a.Images(), labels));
         return a.Say();
       }},
      {"NumPy's f64 fed to an f32 input", [] { return Classifier().SayOfRun(Examples(F64)); }},
      {"PyTorch's i64 labels fed to an i32 input", [] { return Classifier().SayOfRun(Examples(F32, I64)); }},
      {"one example fed without its batch dim",
       [] {
         Attempt a;
         a.g.Output("o", a.Images() * 2.0);
         return a.SayOfRun({{"x", Tensor::Zeros({F32, {4}})}});
       }},
      {"the name of an output misspelled",
       [] {
         Attempt a = Classifier();
         Session s = Session::Create(a.g, {.workers = 1}).value();
         return Say(s.Run(Examples())->scalar("los").status());
       }},
      {"a variable as PyTorch names it",
       [] {
         Attempt a = Classifier();
         return Say(Session::Create(a.g, {.workers = 1})->Get("dense.weight").status());
       }},
      {"a dropout of everything",
       [] {
         Attempt a;
         a.g.Output("y", meshwork::StatelessDropout(a.Images(), 1.0, 0, 0));
         return a.Say();
       }},
      {"a Python axis beyond the rank",
       [] {
         Attempt a;
         a.g.Output("y", Softmax(ReduceSum(a.Images(), -3)));
         return a.Say();
       }},
      {"gray images without a dim of channels",
       [] {
         Attempt a;
         const Value x = a.g.Input("x", F32, {8, 28, 28}, {"batch", UNSHARDED, UNSHARDED});
         a.g.Output("y", Conv2D(a.g, "c", 1, 32, {3, 3})(x));
         return a.Say();
       }},
      {"weights as PyTorch stores them, [out, in]",
       [] {
         Attempt a;
         a.g.Output("y", MatMul(a.Images(), a.g.Var("w", Zeros({3, 4}), {UNSHARDED, UNSHARDED})));
         return a.Say();
       }},
      {"two sizes of -1",
       [] {
         Attempt a;
         a.g.Output("y", Reshape(a.Images(), {-1, -1, 2}));
         return a.Say();
       }},
      {"an index beyond the end",
       [] {
         Attempt a;
         a.g.Output("y", a.Images()[8]);
         return a.Say();
       }},
      {"a permutation of images for flat ones",
       [] {
         Attempt a;
         a.g.Output("y", Transpose(a.Images(), {0, 3, 1, 2}));
         return a.Say();
       }},
      {"a schedule of no steps",
       [] {
         Attempt a;
         const Value loss = ReduceSum(Dense(a.g, "d", 4, 3)(a.Images()));
         Adam({.learning_rate = CosineDecay({.initial = 0.1, .steps = 0})}).Minimize(loss);
         return a.Say();
       }},
      {"more rows than the program was written for",
       [] { return Classifier().SayOfRun(Examples(F32, I32, 64)); }},
      {"batches of no rows",
       [] {
         const Dataset data = Dataset::Create({{"x", Tensor::Zeros({F32, {8, 4}})}}).value();
         std::string told = "fine: no batch";
         try {
           for (const Batch& batch : data.Batches({.batch_size = 0})) told = fmt::format("{}", batch.rows());
         } catch (const absl::BadStatusOrAccess& error) {
           told = Say(error.status());
         }
         return told;
       }},
  };
}

}  // namespace meshwork

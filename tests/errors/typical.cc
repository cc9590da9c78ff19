// Typical mistakes: declarations.
#include "errors/typical.h"

#include <cmath>

namespace meshwork {

std::string Say(const absl::Status& status) {
  return status.ok() ? "fine: OK" : std::string(MessageOf(status));
}

std::string Attempt::Say(const SessionOptions& options) {
  SessionOptions few = options;
  if (few.workers == 0) few.workers = 1;
  return meshwork::Say(Session::Create(g, few).status());
}

std::string Attempt::SayOfRun(const Feeds& feeds) {
  absl::StatusOr<Session> session = Session::Create(g, {.workers = 1});
  return meshwork::Say(session.ok() ? session->Run(feeds).status() : session.status());
}

std::vector<TypicalMistake> DeclarationMistakes() {
  return {
      {"a layout with fewer entries than dims",
       [] {
         Attempt a;
         a.g.Input("x", F32, {8, 4}, {"batch"});
         return a.Say();
       }},
      {"an axis misspelled",
       [] {
         Attempt a;
         a.g.Var("w", Zeros({8, 4}), {"bacth", UNSHARDED});
         return a.Say();
       }},
      {"one axis for two dims",
       [] {
         Attempt a;
         a.g.Var("w", Zeros({8, 4}), {"batch", "batch"});
         return a.Say();
       }},
      {"an axis that the mesh lacks",
       [] {
         Graph g(Mesh::VirtualCpus("batch=8").value());
         g.Var("w", Zeros({8, 4}), {UNSHARDED, "model"});
         return Say(g.status());
       }},
      {"two axes for one dim",
       [] {
         Attempt a;
         a.g.Output("o", a.g.Var("w", Zeros({8}), {{"batch", "model"}}) * 1.0);
         return a.Say();
       }},
      {"no output",
       [] {
         Attempt a;
         Relu(a.Images());
         return a.Say();
       }},
      {"two updates of a variable",
       [] {
         Attempt a;
         const Variable w = a.g.Var("w", Zeros({4}), {UNSHARDED});
         a.g.Update(w, w + 1.0);
         a.g.Update(w, w + 2.0);
         Sgd({}).Minimize(ReduceSum(w * w));
         return a.Say();
       }},
      {"an update of another dtype",
       [] {
         Attempt a;
         const Variable w = a.g.Var("w", Zeros({4}), {UNSHARDED});
         a.g.Update(w, Cast(w, F64));
         return a.Say();
       }},
      {"a reshape to another number of elements",
       [] {
         Attempt a;
         a.g.Output("y", Reshape(a.Images(), {5, 7}));
         return a.Say();
       }},
      {"a size of -1",
       [] {
         Attempt a;
         return "fine: " + Reshape(a.Images(), {-1, 2}).type().ToString();
       }},
      {"a sum of two dtypes",
       [] {
         Attempt a;
         const Value y = a.g.Input("y", I32, {8}, {"batch"});
         a.g.Output("z", a.g.Input("x", F32, {8}, {"batch"}) + y);
         return a.Say();
       }},
      {"the mean of whole numbers",
       [] {
         Attempt a;
         a.g.Output("z", ReduceMean(a.g.Input("y", I32, {8}, {"batch"}), {0}));
         return a.Say();
       }},
      {"a negative dim",
       [] {
         Attempt a;
         return "fine: " + ReduceSum(a.Images(), {-1}).type().ToString();
       }},
      {"a dim beyond the last",
       [] {
         Attempt a;
         a.g.Output("z", ReduceSum(a.Images(), {2}));
         return a.Say();
       }},
      {"labels in a column",
       [] {
         Attempt a;
         const Value labels = a.g.Input("labels", I32, {8, 1}, {"batch", UNSHARDED});
         a.g.Output("z", SparseSoftmaxCrossEntropy(a.Images(), labels));
         return a.Say();
       }},
      {"labels that are real numbers",
       [] {
         Attempt a;
         const Value labels = a.g.Input("labels", F32, {8}, {"batch"});
         a.g.Output("z", SparseSoftmaxCrossEntropy(a.Images(), labels));
         return a.Say();
       }},
      {"a loss that is no scalar",
       [] {
         Attempt a;
         Adam({}).Minimize(Dense(a.g, "d", 4, 3)(a.Images()));
         return a.Say();
       }},
      {"a loss without variables",
       [] {
         Attempt a;
         Adam({}).Minimize(ReduceSum(a.Images()));
         return a.Say();
       }},
      {"options that are NaN, or beyond their range",
       [] {
         Attempt a;
         Adam({.learning_rate = NAN, .beta1 = 2}).Minimize(ReduceSum(Dense(a.g, "d", 4, 3)(a.Images())));
         return a.Say();
       }},
      {"a negative learning rate",
       [] {
         Attempt a;
         Adam({.learning_rate = -1}).Minimize(ReduceSum(Dense(a.g, "d", 4, 3)(a.Images())));
         return a.Say();
       }},
      {"two layers of one name",
       [] {
         Attempt a;
         const Dense first(a.g, "d", 4, 3), second(a.g, "d", 4, 3);
         return a.Say();
       }},
      {"names that are none",
       [] {
         Attempt a;
         a.g.Input("my input", F32, {8}, {"batch"});
         a.g.Input("", F32, {8}, {"batch"});
         a.g.Input("1x", F32, {8}, {"batch"});
         return a.Say();
       }},
      {"two outputs of one name",
       [] {
         Attempt a;
         const Value x = a.Images();
         a.g.Output("y", x);
         a.g.Output("y", x);
         return a.Say();
       }},
  };
}

}  // namespace meshwork

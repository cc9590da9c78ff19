// Typical mistakes: operands of ops, handles, loops.
#include <utility>

#include "errors/typical.h"

namespace meshwork {

namespace {

const LayoutSpec kWhole4 = {UNSHARDED, UNSHARDED, UNSHARDED, UNSHARDED};

Value Vector(Attempt& a, std::string_view name = "x", DType dtype = F32) {
  return a.g.Input(name, dtype, {8}, {"batch"});
}

}  // namespace

std::vector<TypicalMistake> OpMistakes() {
  return {
      {"operands of two graphs",
       [] {
         Attempt a, b;
         a.g.Output("z", Vector(a) + Vector(b, "y"));
         return a.Say();
       }},
      {"a graph that was moved, and its values",
       [] {
         Attempt a;
         const Value x = Vector(a);
         Graph moved = std::move(a.g);
         moved.Output("z", x * 2.0);
         return Say(moved.status()) + "; of the old one: " + Say(a.g.status());
       }},
      {"a graph returned from a function, and its values",
       [] {
         const auto build = [] {
           Attempt a;
           const Value x = Vector(a);
           return std::pair(std::move(a.g), x);
         };
         auto [g, x] = build();
         g.Output("z", Relu(x));
         return Say(g.status());
       }},
      {"a value of a graph that is gone",
       [] {
         Attempt a;
         Value x;
         {
           Attempt gone;
           x = Vector(gone);
         }
         a.g.Output("y", x + 1.0);
         return a.Say();
       }},
      {"a value that was never set",
       [] {
         Attempt a;
         a.g.Output("y", Relu(Value()) + 1.0);
         return a.Say();
       }},
      {"an op on two numbers",
       [] {
         Attempt a;
         a.g.Output("y", Maximum(1.0, 2.0));
         return a.Say();
       }},
      {"flat images in a convolution",
       [] {
         Attempt a;
         const Value x = a.g.Input("x", F32, {8, 784}, {"batch", UNSHARDED});
         a.g.Output("y", Conv2D(a.g, "c", 1, 32, {3, 3})(x));
         return a.Say();
       }},
      {"images with channels first",
       [] {
         Attempt a;
         const Value x = a.g.Input("x", F32, {8, 3, 28, 28}, {"batch", UNSHARDED, UNSHARDED, UNSHARDED});
         a.g.Output("y", Conv2D(a.g, "c", 3, 32, {3, 3})(x));
         return a.Say();
       }},
      {"shapes that do not broadcast",
       [] {
         Attempt a;
         a.g.Output("z", a.Images() * Vector(a, "y"));
         return a.Say();
       }},
      {"a layer for other inputs",
       [] {
         Attempt a;
         a.g.Output("y", Dense(a.g, "d", 5, 3)(a.Images()));
         return a.Say();
       }},
      {"two layouts for a value",
       [] {
         Attempt a;
         const Value y = WithLayout(Relu(a.Images()), {"batch", UNSHARDED});
         a.g.Output("y", WithLayout(y, {UNSHARDED, "model"}));
         return a.Say();
       }},
      {"another layout for an input",
       [] {
         Attempt a;
         a.g.Output("y", WithLayout(a.Images(), {UNSHARDED, UNSHARDED}));
         return a.Say();
       }},
      {"an update of an input",
       [] {
         Attempt a;
         const Value x = a.Images();
         a.g.Update(Variable(&a.g, x.id()), x);
         return a.Say();
       }},
      {"a value that leaks from the body of a scan",
       [] {
         Attempt a;
         const Value x = a.g.Input("x", F32, {5, 8}, {UNSHARDED, "batch"});
         Value leak;
         Scan(a.g, {}, {x}, [&](Graph&, const auto&, const auto& s) {
           leak = s[0] * 2.0;
           return ScanStep{.stacked = {leak}};
         });
         a.g.Output("y", leak);
         return a.Say();
       }},
      {"a carry that changes its shape",
       [] {
         Attempt a;
         const Value x = a.g.Input("x", F32, {5, 8}, {UNSHARDED, "batch"});
         Scan(a.g, {Constant(a.g, 0, {F32, {}})}, {x},
              [&](Graph&, const auto& c, const auto& s) { return ScanStep{.carries = {c[0] + s[0]}}; });
         return a.Say();
       }},
      {"a body that returns no carry",
       [] {
         Attempt a;
         const Value x = a.g.Input("x", F32, {5, 8}, {UNSHARDED, "batch"});
         const ScanResult r = Scan(a.g, {Constant(a.g, 0, {F32, {8}})}, {x},
                                   [&](Graph&, const auto&, const auto&) { return ScanStep{}; });
         a.g.Output("y", r.carries[0]);
         return a.Say();
       }},
      {"the gradient of a while loop",
       [] {
         Attempt a;
         const Variable w = a.g.Var("w", Filled(1, {8}), {"batch"});
         const Value r = While(
             a.g, {w * 2.0}, [](Graph&, const auto& c) { return ReduceSum(c[0]) > 0.1; },
             [](Graph&, const auto& c) { return std::vector<Value>{c[0] * 0.5}; })[0];
         Adam({}).Minimize(ReduceSum(r));
         return a.Say();
       }},
      {"branches of different types",
       [] {
         Attempt a;
         const Value x = Vector(a);
         const auto r = If(
             ReduceSum(x) > 0.0, [&](Graph&) { return std::vector<Value>{x}; },
             [&](Graph&) { return std::vector<Value>{ReduceSum(x)}; });
         a.g.Output("y", r[0]);
         return a.Say();
       }},
      {"more devices than a process runs",
       [] {
         Graph g(Mesh::VirtualCpus("a=8192").value());
         g.Output("y", g.Input("x", F32, {8}, {"a"}) * 2.0);
         return Say(Session::Create(g, {.workers = 1}).status());
       }},
      {"fewer workers than none, and more than any machine has",
       [] {
         Attempt a;
         a.g.Output("y", Vector(a) * 2.0);
         return a.Say({.workers = -3}) + "\n" + a.Say({.workers = 100000});
       }},
      {"numbers that a dtype lacks",
       [] {
         Attempt a;
         const Value x = Vector(a, "x", I32);
         a.g.Output("y", x * 1e20);
         a.g.Output("z", x + 0.5);
         return a.Say();
       }},
      {"a variable of two terabytes",
       [] {
         Attempt a;
         a.g.Var("w", Zeros({1LL << 20, 1LL << 21}), {UNSHARDED, UNSHARDED});
         return a.Say();
       }},
      {"a size that is to be found out",
       [] {
         Attempt a;
         a.g.Input("x", F32, {-1, 4}, {"batch", UNSHARDED});
         return a.Say();
       }},
      {"meshes that are none",
       [] {
         std::string all;
         for (const char* mesh : {"batch", "batch=0", "batch=4;model=2", "batch=4,batch=2", "2x4", "batch=-1",
                                  "batch=4,,model=2", "batch=four"})
           all += (all.empty() ? "" : "\n") + Say(Mesh::Parse(mesh).status());
         return all;
       }},
      {"an embedding of real numbers",
       [] {
         Attempt a;
         a.g.Output("y", Embedding(a.g, "e", 10, 4)(Vector(a)));
         return a.Say();
       }},
      {"tensors that do not fit together, and none",
       [] {
         Attempt a;
         const Value y = a.g.Input("y", F32, {7, 3}, {"batch", UNSHARDED});
         a.g.Output("z", Concat({a.Images(), y}, 1));
         Attempt b;
         b.g.Output("q", Concat({}, 0));
         return a.Say() + "\n" + b.Say();
       }},
      {"a dropout of more than everything, and one whose step is no number",
       [] {
         Attempt a;
         const Value x = a.Images();
         a.g.Output("y", meshwork::StatelessDropout(x, 1.5, 0, 0));
         a.g.Output("z", meshwork::StatelessDropout(x, 0.5, 0, 0, x));
         return a.Say();
       }},
      {"an input that nothing reads, not fed",
       [] {
         Attempt a;
         Vector(a);
         a.g.Output("o", Vector(a, "y") * 1.0);
         return a.SayOfRun({{"y", Tensor::Zeros({F32, {8}})}});
       }},
      {"a variable that nothing reads",
       [] {
         Attempt a;
         a.g.Var("w", Zeros({8}), {"batch"});
         a.g.Output("o", Vector(a));
         return a.Say();
       }},
      {"a condition that is no bool",
       [] {
         Attempt a;
         const Value x = Vector(a);
         a.g.Output("o", Select(x, x, x));
         return a.Say();
       }},
      {"heads of queries and keys that differ",
       [] {
         Attempt a;
         const Value q = a.g.Input("q", F32, {2, 6, 4, 8}, kWhole4);
         const Value k = a.g.Input("k", F32, {2, 5, 3, 8}, kWhole4);
         a.g.Output("o", Attention(q, k, k));
         return a.Say();
       }},
      {"equations that the operands do not fit",
       [] {
         Attempt a;
         const Value x = a.Images();
         a.g.Output("a", Einsum("ij,jk->ik", {x, x}));
         a.g.Output("b", Einsum("ij->k", {x}));
         a.g.Output("c", Einsum("ij,jk->ik", {x}));
         return a.Say();
       }},
  };
}

}  // namespace meshwork

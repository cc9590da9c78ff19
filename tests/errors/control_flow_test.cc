// What loops and branches refuse, built and read.
#include "meshwork/ops/control/control_flow.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "errors/errors.h"
#include "errors/in.h"
#include "gtest/gtest.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/ir/text.h"
#include "meshwork/ops/ops.h"
#include "meshwork/train/optim/microbatches.h"
#include "meshwork/verify/verify.h"

namespace meshwork::control_flow_test {
namespace {

using Values = std::vector<Value>;

ScanStep Same(Graph&, const Values& c, const Values&) { return {c}; }
Value Go(Graph&, const Values& c) { return Less(c[0], 3.0); }
Values More(Graph&, const Values& c) { return {c[0] + 1.0}; }

// Bodies nested to this depth; the innermost adds 1.
Value Nested(Graph& g, const Value& x, int depth) {
  if (depth == 0) return x + 1.0;
  return Scan(g, {x}, {},
              [depth](Graph& body, const Values& c, const Values&) -> ScanStep {
                return {{Nested(body, c[0], depth - 1)}};
              },
              {.length = 1})
      .carries[0];
}
Value NestedIf(Graph& g, const Value& x, int depth) {
  if (depth == 0) return x + 1.0;
  const auto branch = [&](Graph& body) -> Values { return {NestedIf(body, x, depth - 1)}; };
  const auto otherwise = [&](Graph&) -> Values { return {x}; };
  return If(Less(Constant(g, 1, {F32, {}}), x), branch, otherwise)[0];
}
Value NestedWhile(Graph& g, const Value& x, int depth) {
  if (depth == 0) return x + 1.0;
  const auto body = [depth](Graph& inner, const Values& c) -> Values {
    return {NestedWhile(inner, c[0], depth - 1)};
  };
  return While(g, {x}, Go, body)[0];
}

TEST(ControlFlowErrors, Nesting) {
  ExpectErrors("control_nesting", {
                                      GRAPH_MISTAKE(Nested(g, In(g, F32, {}), 101)),
                                      GRAPH_MISTAKE(NestedIf(g, In(g, F32, {}), 101)),
                                      GRAPH_MISTAKE(NestedWhile(g, In(g, F32, {}), 101)),
                                  });
}

TEST(ControlFlowErrors, Scans) {
  ExpectErrors(
      "control_scan",
      {
          GRAPH_MISTAKE(Scan(g, {In(g, F32, {})}, {}, Same)),
          GRAPH_MISTAKE(Scan(g, {In(g, F32, {})}, {}, Same, {.length = -3})),
          GRAPH_MISTAKE(Scan(g, {}, {In(g, F32, {4}), In(g, F32, {5})}, Same)),
          GRAPH_MISTAKE(Scan(g, {}, {In(g, F32, {4, 2})}, Same, {.length = 5})),
          GRAPH_MISTAKE(Scan(g, {}, {In(g, F32, {})}, Same)),
          GRAPH_MISTAKE(Scan(g, {Value()}, {}, Same, {.length = 2})),
          GRAPH_MISTAKE(Scan(
              g, {In(g, F32, {4})}, {},
              [](Graph&, const Values& c, const Values&) -> ScanStep { return {{ReduceSum(c[0], {0})}}; },
              {.length = 2})),
          GRAPH_MISTAKE(Scan(g, {In(g, F32, {4}), In(g, F32, {})}, {},
                             [](Graph&, const Values& c, const Values&) -> ScanStep { return {{c[0]}}; },
                             {.length = 2})),
          GRAPH_MISTAKE(Scan(g, {In(g, F32, {4})}, {},
                             [](Graph&, const Values&, const Values&) -> ScanStep { return {{Value()}}; },
                             {.length = 2})),
          GRAPH_MISTAKE(
              Scan(g, {In(g, F32, {4, 6})}, {},
                   [](Graph&, const Values& c, const Values&) -> ScanStep { return {{MatMul(c[0], c[0])}}; },
                   {.length = 2})),
          GRAPH_MISTAKE(Scan(g, {In(g, BOOL, {4})}, {},
                             [](Graph&, const Values& c, const Values&) -> ScanStep {
                               return {c, {}, {c[0]}};
                             },
                             {.length = 2})),
          GRAPH_MISTAKE({
            Value kept;
            Scan(g, {In(g, F32, {4})}, {},
                 [&](Graph&, const Values& c, const Values&) -> ScanStep {
                   kept = Exp(c[0]);
                   return {{kept}};
                 },
                 {.length = 2});
            Exp(kept);
          }),
          GRAPH_MISTAKE({
            static Graph other{Mesh()};
            const Value foreign = In(other, F32, {4});
            Scan(g, {foreign}, {}, Same, {.length = 2});
          }),
          GRAPH_MISTAKE({
            static Graph other{Mesh()};
            const Value foreign = In(other, F32, {4});
            Scan(g, {In(g, F32, {4})}, {},
                 [&](Graph&, const Values&, const Values&) -> ScanStep { return {{foreign}}; },
                 {.length = 2});
          }),
          GRAPH_MISTAKE(g.Add("scan", Values{In(g, F32, {4})}, {{"length", int64_t{2}}}, {"model.cc", 7})),
          GRAPH_MISTAKE(
              MeanOverMicrobatches(0, {In(g, F32, {8, 4})}, [](const Values& part) { return part[0]; })),
          GRAPH_MISTAKE(
              MeanOverMicrobatches(3, {In(g, F32, {8, 4})}, [](const Values& part) { return part[0]; })),
          GRAPH_MISTAKE(
              MeanOverMicrobatches(2, {In(g, F32, {8, 4})}, [](const Values& part) { return part[0]; })),
      });
}

TEST(ControlFlowErrors, MeansOfPartsOfABatch) {
  const auto in_parts = [](Graph& g, const std::function<Value(const Values& part)>& loss) {
    MeanOverMicrobatches(2, {In(g, F32, {8, 4}), In(g, I32, {8})}, loss, {"model.cc", 7});
  };
  const auto ignoring = [](const Values& part) {
    return SparseSoftmaxCrossEntropy(Operand(part[0], CallSite("model.cc", 4)), part[1],
                                     {.ignore_label = -1});
  };
  ExpectErrors(
      "control_parts",
      {
          GRAPH_MISTAKE(in_parts(
              g, [&](const Values& part) { return Sqrt(Operand(ignoring(part), CallSite("model.cc", 5))); })),
          GRAPH_MISTAKE(in_parts(g,
                                 [&](const Values& part) {
                                   const Value loss = ignoring(part);
                                   return Mul(Operand(loss, CallSite("model.cc", 5)), loss);
                                 })),
          GRAPH_MISTAKE(in_parts(g,
                                 [&](const Values& part) {
                                   const Value mask = Cast(Greater(part[1], 0.0), F32);
                                   const Value losses = ReduceMean(Square(part[0]), {1});
                                   return Add(Div(Operand(ReduceSum(losses * mask), CallSite("model.cc", 5)),
                                                  ReduceSum(mask)),
                                              1.0);
                                 })),
          GRAPH_MISTAKE(in_parts(
              g,
              [&](const Values& part) {
                const Value noise = RandomUniform(*part[0].graph(), {F32, {4}}, 1, 2, 0, 1);
                return MeanSquaredError(ReduceMean(part[0], {1}), noise, {.weights = Greater(noise, 0.5)});
              })),
          GRAPH_MISTAKE(in_parts(g,
                                 [&](const Values& part) {
                                   return Scan(*part[0].graph(), {}, {part[0], part[1]},
                                               [&](Graph&, const Values&, const Values& row) -> ScanStep {
                                                 return {{}, {}, {ignoring(row)}};
                                               },
                                               {}, {"model.cc", 6})
                                       .sums[0];
                                 })),
      });
}

TEST(ControlFlowErrors, WhilesAndIfs) {
  ExpectErrors(
      "control_while_if",
      {
          GRAPH_MISTAKE(While(g, {In(g, F32, {4})}, Go, More)),
          GRAPH_MISTAKE(While(
              g, {In(g, F32, {})}, [](Graph&, const Values& c) { return c[0]; }, More)),
          GRAPH_MISTAKE(While(g, {In(g, F32, {})}, Go, [](Graph&, const Values&) { return Values{}; })),
          GRAPH_MISTAKE(While(g, {In(g, F32, {})}, Go,
                              [](Graph&, const Values& c) { return Values{Less(c[0], 1.0)}; })),
          GRAPH_MISTAKE({
            const Value x = In(g, F32, {});
            Gradients(While(g, {x}, Go, More)[0], Values{x});
          }),
          GRAPH_MISTAKE({
            const Value x = In(g, F32, {});
            const ScanResult r = Scan(g, {x}, {},
                                      [](Graph& body, const Values& c, const Values&) -> ScanStep {
                                        return {While(body, c, Go, More)};
                                      },
                                      {.length = 2});
            Gradients(r.carries[0], Values{x});
          }),
          GRAPH_MISTAKE(If(
              In(g, F32, {}), [&](Graph&) { return Values{}; }, [&](Graph&) { return Values{}; })),
          GRAPH_MISTAKE({
            const Value x = In(g, F32, {4});
            If(
                Greater(x, 0.0), [&](Graph&) { return Values{Exp(x)}; }, [&](Graph&) { return Values{x}; });
          }),
          GRAPH_MISTAKE({
            const Value x = In(g, F32, {4}), p = In(g, BOOL, {});
            If(
                p, [&](Graph&) { return Values{Exp(x)}; },
                [&](Graph&) {
                  return Values{x, x};
                });
          }),
          GRAPH_MISTAKE({
            const Value x = In(g, F32, {4}), p = In(g, BOOL, {});
            If(
                p, [&](Graph&) { return Values{x}; }, [&](Graph&) { return Values{}; });
          }),
          GRAPH_MISTAKE({
            const Value x = In(g, F32, {4}), y = In(g, F32, {5}), p = In(g, BOOL, {});
            If(
                p, [&](Graph&) { return Values{x + y}; }, [&](Graph&) { return Values{x}; });
          }),
      });
}

std::string Scanned(const std::string& node) {
  return "mesh [x=2]\nfunc f(%a: f32[4] {x}, %b: f32[3,4], %s: f32[], %p: bool[]) {\n  " + node + "\n}";
}

void ExpectTextErrors(std::string_view area, const std::vector<std::string>& nodes) {
  std::vector<Mistake> mistakes;
  for (const std::string& node : nodes)
    mistakes.push_back({node, [=] { return ParseGraph(Scanned(node), "p.mw"); }});
  ExpectErrors(area, mistakes);
}

TEST(ControlFlowErrors, Texts) {
  ExpectTextErrors(
      "control_text",
      {
          "%r = scan %a length=3",
          "%r = scan %a length=3 (var %c: f32[4]) {\n    update %c = %a\n  }",
          "%r = scan %a length=-1 (var %c: f32[4]) {\n  }",
          "%r = scan %a (var %c: f32[4]) {\n  }",
          "%r = scan %a length=3 (var %c: f32[5]) {\n  }",
          "%r = scan %a length=3 (%c: f32[4]) {\n  }",
          "%r = scan %a, %b length=3 (%c: f32[4], var %d: f32[3,4]) {\n  }",
          "%r = scan %a length=3 (var %c: f32[4], %d: f32[4]) {\n  }",
          "%r = scan %a length=3 slices=1 (var %c: f32[4]) {\n  }",
          "%r = scan %b length=3 slices=1 (%c: f32[3]) {\n    return %c\n  }",
          "%r = scan %b length=4 slices=1 (%c: f32[4]) {\n    return %c\n  }",
          "%r = scan %s length=3 slices=1 (%c: f32[]) {\n    return %c\n  }",
          "%r = scan %b length=3 slices=1 sums=2 (%c: f32[4]) {\n    return %c\n  }",
          "%r = scan %p length=3 sums=1 (%c: bool[]) {\n    return %c\n  }",
          "%q = cast %s dtype=i8\n  %r = scan %q length=3 sums=1 (%c: i8[]) {\n    return %c\n  }",
          "%r, %q = scan %a length=3 (var %c: f32[4]) {\n  }",
          "%r = scan %a length=3 (var %c: f32[4]) {\n  } : f32[5]",
          "%r = while %a (var %c: f32[4]) {\n  }",
          "%r = while %a (var %c: f32[4]) {\n    return %c\n  }",
          "%r = if %a (%c: f32[4]) {\n    return %c\n  }",
          "%r = if %a (%c: f32[4]) {\n    return %c\n  } else (%c: f32[4]) {\n    return %c\n  }",
          "%r = if %p, %a (%c: f32[4]) {\n    return %c\n  } else (%c: f32[5]) {\n    return %c\n  }",
          "%r = if %p, %a, %s (%c: f32[4], %d: f32[]) {\n    return %c\n  } else (%c: f32[4], %d: f32[]) {\n "
          "   "
          "return %d\n  }",
          "%r = if %p, %a (var %c: f32[4]) {\n    return %c\n  } else (%c: f32[4]) {\n    return %c\n  }",
          "%r = if (%c: f32[4]) {\n    return %c\n  } else (%c: f32[4]) {\n    return %c\n  }",
      });
}

// In local programs, values of bodies must have the layouts of the values outside.
TEST(ControlFlowErrors, LocalTexts) {
  const auto local = [](const std::string& operand, const std::string& argument, const std::string& next,
                        const std::string& result) {
    return "mesh [x=2]\nfunc f(%a: " + operand + ") {\n  %r = scan %a length=3 (var %c: " + argument +
           ") {\n    " + next + "\n  } : " + result + "\n  return %r\n}";
  };
  const std::string block = "f32[2] of f32[4] {x}", whole = "f32[4] {_}",
                    half = "f32[2] of f32[4] {x | sum:x}";
  const std::string owed = "f32[4] {_ | max:x}", sum = "f32[4] {_ | sum:x}";
  std::vector<Mistake> mistakes;
  for (const std::string& text :
       {local(block, "f32[2] of f32[2] {_}", "update %c = %c", block),
        local(block, block, "update %c = %c", "f32[2] of f32[3] {x}"),
        local(block, block,
              "%n = all_gather %c axes=(x) dim=0 : f32[4] {_}\n    %m = slice %n start=[0] limit=[2] : "
              "f32[2] {_}\n    update %c = %m",
              block),
        local(owed + ", %z: " + block, owed, "update %c = %c", owed),
        local(whole + ", %z: " + block, sum, "update %c = %c", sum),
        local(block, block, "%n = all_reduce %c axes=(x) op=sum : f32[2] of f32[4] {x}\n    update %c = %n",
              block)})
    mistakes.push_back({text, [text] { return ParseGraph(text, "p.mw"); }});
  mistakes.push_back(
      {"a predicate that is owed", [] {
         return ParseGraph(
             "mesh [x=2]\nfunc f(%a: f32[2] of f32[4] {x}, %b: f32[]) {\n  %r = while %b, %a (var %c: "
             "f32[], %d: f32[2] of f32[4] {x}) {\n    %t = reduce_max %d dims=[0] : f32[] {| max:x}\n "
             "   %k = constant value=1 shape=[] : f32[]\n    %g = less %t, %k : bool[] {| and:x}\n    "
             "return %g\n  } : f32[]\n}",
             "p.mw");
       }});
  ExpectErrors("control_local", mistakes);
}

// Errors of Verify about bodies.
TEST(ControlFlowErrors, Verify) {
  const std::string global =
      "mesh [x=2]\nfunc f(%a: f32[4,6], %b: f32[3,4,6] {_,x,_}) {\n  %r, %s = scan %a, %b length=3 "
      "slices=1 "
      "sums=1 (var %c: f32[4,6], %d: f32[4,6]) {\n    %e = mul %c, %c\n    %g = reduce_sum %d dims=[0]\n    "
      "update "
      "%c = %e\n    return %g\n  }\n  return %r, %s\n}";
  const auto program = [](const std::string& slices, const std::string& body, const std::string& sum,
                          const std::string& after) {
    return "mesh [x=2]\nfunc f(%a: f32[4,6] {_,_}, %b: f32[3,2,6] of f32[3,4,6] {_,x,_}) {\n  %r, %s = "
           "scan " +
           slices + " (var %c: f32[4,6] {_,_}, %d: f32[2,6] of f32[4,6] {x,_}) {\n" + body +
           "  } : f32[4,6] {_,_}, " + sum + "\n" + after + "}";
  };
  const std::string right =
      "    %e = mul %c, %c : f32[4,6] {_,_}\n    %g = reduce_sum %d dims=[0] : f32[6] {_ | "
      "sum:x}\n    update %c = %e\n    return %g\n";
  const std::string reduce = "  %t = all_reduce %s axes=(x) op=sum : f32[6] {_}\n  return %r, %t\n";
  const std::string owed = "f32[6] {_ | sum:x}", usual = "%a, %b length=3 slices=1 sums=1";
  ASSERT_TRUE(
      Verify(ParseGraph(global).value(), ParseGraph(program(usual, right, owed, reduce)).value()).ok());
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string body = right;
    body.replace(body.find(from), from.size(), to);
    return body;
  };
  std::vector<Mistake> mistakes;
  const std::vector<std::pair<std::string, std::string>> programs = {
      {"the sum is not reduced", program(usual, right, owed, "  return %r, %s\n")},
      {"another op", program(usual, with("mul %c, %c", "add %c, %c"), owed, reduce)},
      {"the carry stays", program(usual, with("update %c = %e", "update %c = %c"), owed, reduce)},
      {"no update", program(usual, with("    update %c = %e\n", ""), owed, reduce)},
      {"another length of the loop, of its slices the first",
       "mesh [x=2]\nfunc f(%a: f32[4,6] {_,_}, %b: f32[3,2,6] of f32[3,4,6] {_,x,_}) {\n  return %a, %a\n}"},
      {"the other way", program(usual + " reverse=true", right, owed, reduce)},
  };
  for (const auto& [what, text] : programs)
    mistakes.push_back({what, [=, text = text] {
                          return Verify(ParseGraph(global).value(), ParseGraph(text, "p.mw").value());
                        }});
  // Mistakes that a text cannot express.
  const auto changed = [=](const std::function<void(Graph&)>& change) {
    Graph local = ParseGraph(program(usual, right, owed, reduce)).value();
    change(local);
    return Verify(ParseGraph(global).value(), local);
  };
  mistakes.push_back({"the result is whole", [=] {
                        return changed([](Graph& g) {
                          ValueInfo& sum = g.mutable_value(g.nodes()[0].results[1]);
                          sum.layout = sum.layout->WithoutPartials();
                        });
                      }});
  mistakes.push_back({"the operand lies otherwise", [=] {
                        return changed([](Graph& g) {
                          Graph body = *g.nodes()[0].regions[0];
                          ValueInfo& slice = body.mutable_value(body.arguments()[1].value);
                          slice.layout = Layout(g.mesh(), {{}, {}});
                          slice.type = slice.global;
                          g.mutable_node(0).regions[0] = std::make_shared<const Graph>(std::move(body));
                        });
                      }});
  mistakes.push_back({"the first value of the carry lies otherwise", [=] {
                        return changed([](Graph& g) {
                          ValueInfo& initial = g.mutable_value(g.arguments()[0].value);
                          initial.layout = Layout(g.mesh(), {{0}, {}});
                          initial.type.shape = {2, 6};
                        });
                      }});
  const std::string branches =
      "(%c: f32[4] {_}) {\n    return %c\n  } else (%c: f32[4] {_}) {\n    %n = neg %c : f32[4] {_}\n    "
      "return "
      "%n\n  } : f32[4] {_}\n  return %r\n}";
  mistakes.push_back({"the predicate is owed", [=] {
                        const Graph chooses =
                            ParseGraph(
                                "mesh [x=2]\nfunc f(%a: bool[4] {x}, %b: f32[4] {_}) {\n  %p = reduce_all %a "
                                "dims=[0]\n  %r = if %p, %b " +
                                branches)
                                .value();
                        Graph local =
                            ParseGraph(
                                "mesh [x=2]\nfunc f(%a: bool[2] of bool[4] {x}, %b: f32[4] {_}) {\n  %p = "
                                "reduce_all %a dims=[0] : bool[] {}\n  %r = if %p, %b " +
                                branches)
                                .value();
                        ValueInfo& predicate = local.mutable_value(local.nodes()[0].results[0]);
                        predicate.layout = predicate.layout->WithPartials({{0, ReduceOp::kAnd}});
                        return Verify(chooses, local);
                      }});
  mistakes.push_back({"the sum is part of another type", [=] {
                        return changed([](Graph& g) {
                          g.mutable_value(g.nodes()[0].results[1]).global.dtype = F64;
                          g.mutable_value(g.nodes()[0].results[1]).type.dtype = F64;
                        });
                      }});
  ExpectErrors("control_verify", mistakes);
}

}  // namespace
}  // namespace meshwork::control_flow_test

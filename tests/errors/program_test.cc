// What is refused of whole programs: by Rebatch and Compile, and by the executor of local programs that no
// parser has seen.
#include <cstring>
#include <functional>

#include "errors/errors.h"
#include "gtest/gtest.h"
#include "meshwork/ir/name_scope.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/text.h"
#include "meshwork/ops/control/independent_rows.h"
#include "meshwork/ops/control/rebatch.h"
#include "meshwork/ops/ops.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/runtime/cpu/cpu_memory.h"
#include "meshwork/runtime/cpu/placement.h"
#include "meshwork/runtime/cpu/schedule.h"
#include "meshwork/runtime/exec/binding.h"
#include "meshwork/runtime/exec/replicas.h"
#include "meshwork/runtime/plan/local_program.h"
#include "meshwork/runtime/tensor/dlpack.h"
#include "meshwork/runtime/tensor/dlpack_abi.h"
#include "meshwork/runtime/tensor/tensor_compare.h"
#include "meshwork/spmd/auto/auto_layouts.h"
#include "meshwork/spmd/compile.h"
#include "runtime/plan/programs.h"

namespace meshwork::program_test {
namespace {

Graph Parse(std::string_view text) { return ParseGraph(text, "step.mw").value(); }

TEST(ProgramErrors, FindLayouts) {
  const auto find = [](std::string_view text, const CompileOptions& options = {},
                       const FindLayoutsOptions& find_options = {}) {
    return FindLayouts(Parse(text), options, find_options).status();
  };
  constexpr std::string_view kProduct =
      "mesh [x=2] func f(%a: f32[8,4], var %w: f32[4,6]) { %h = matmul %a, %w return h=%h }";
  const Topology other = Topology::Create(Mesh::Parse("y=2").value(),
                                          {{.axis = "y", .link = {.bandwidth = 1e9, .latency = 1e-6}}})
                             .value();
  ExpectErrors("find_layouts", {
                                   MISTAKE(find(kProduct, {}, {.most = 0})),
                                   MISTAKE(find(kProduct, {}, {.most_tried = -1})),
                                   MISTAKE(find(kProduct, {.memory_budget = 100})),
                                   MISTAKE(find(kProduct, {.topology = other})),
                               });
}

TEST(ProgramErrors, Rebatch) {
  auto rebatch = [](std::string_view text, int64_t from = 8, int64_t to = 4) {
    return Rebatch(ParseGraph(text, "p.mw").value(), from, to);
  };
  // The Fourier transform along the batch: its roots of unity are those of this size.
  const auto along_batch = [] {
    Graph g{Mesh()};
    const Value x = g.Input("x", F32, {8, 3}, {UNSHARDED, UNSHARDED});
    g.Output("y", Fft(x, x, 0).re);
    return Rebatch(g, 8, 4).status();
  };
  ExpectErrors(
      "rebatch",
      {
          MISTAKE(along_batch()),
          MISTAKE(rebatch("mesh [] func f(%a: f32[0,3]) {}", 0, 4)),
          MISTAKE(rebatch("mesh [] func f(%a: f32[0,3]) {}", 4, -1)),
          MISTAKE(rebatch("mesh [] func f(%a: f32[8], var %last: f32[8]) { update %last = %a }")),
          MISTAKE(rebatch("mesh [] func f(%a: f32[8,3], var %seen: f32[5,8]) { %0 = matmul %seen, %a }")),
          MISTAKE(rebatch("mesh [] func f(%a: f32[8,3]) { %0 = slice %a start=[1,0] limit=[8,3] }")),
          MISTAKE(rebatch("mesh [] func f(%a: f32[8,3]) { %0 = slice %a start=[5,0] limit=[6,3] }")),
          MISTAKE(rebatch("mesh [] func f(%a: f32[8,3]) { %0 = slice %a start=[7,0] limit=[8,3] }", 8, 12)),
          MISTAKE(rebatch("mesh [] func f(%a: f32[8,3]) {\n"
                          "  %0 = concat %a, %a dim=0\n"
                          "  %1 = slice %0 start=[0,0] limit=[8,3] }",
                          8, 12)),
          MISTAKE(rebatch("mesh [] func f(%a: f32[8,3]) { %0 = reshape %a shape=[2,12] }", 8, 3)),
          MISTAKE(rebatch("mesh [] func f(%a: f32[8,3], %b: f32[4]) {\n"
                          "  %0 = reshape %b shape=[4,1] %1 = reshape %a shape=[4,6] %2 = add %0, %1 }",
                          8, 3)),
          MISTAKE(rebatch("mesh [] func f(%a: f32[8,3], %b: f32[12,3]) {\n"
                          "  %0 = pad %a low=[4,0] high=[0,0] %1 = add %0, %b }")),
          MISTAKE(rebatch(
              "mesh [] func f(%a: f32[8,3]) { %0 = iota shape=[8,3] dim=0 %1 = concat %0, %a dim=0 }")),
          MISTAKE(rebatch("mesh [] func f(%a: i32[8,3]) { %0 = one_hot %a depth=8 }")),
          MISTAKE(rebatch("mesh [] func f(%a: f32[8]) { %0 = constant value=1 shape=[8] }")),
          MISTAKE(rebatch("mesh [x=2] func f(%a: f32[8] {4@x*2}) { %0 = exp %a }")),
          MISTAKE(rebatch("mesh [x=2] func f(%a: f32[8] {_}) {\n"
                          "  %0 = shard_slice %a axes=(x) dim=0 : f32[4] of f32[8] {x} }")),
          MISTAKE(rebatch("mesh [] func f(%a: f32[8,3], %c: f32[3]) {\n"
                          "  %r = scan %c, %a length=8 slices=1 (var %s: f32[3], %x: f32[3]) {\n"
                          "    %t = add %s, %x update %s = %t } }")),
          MISTAKE(rebatch("mesh [] func f(%a: f32[8,3], %c: f32[3]) {\n"
                          "  %r, %y = scan %c length=8 (var %s: f32[3]) {\n"
                          "    %t = tanh %s update %s = %t return %t }\n"
                          "  %z = add %y, %a }")),
          MISTAKE(rebatch(
              "mesh [] func f(%a: f32[8,8], %c: f32[3]) {\n"
              "  %r = scan %c, %a length=2 (var %s: f32[3], %x: f32[8,8]) {\n"
              "    %u = slice %x start=[0,0] limit=[3,1] %t = reshape %u shape=[3] update %s = %t } }")),
          MISTAKE(rebatch("mesh [x=2] func f(%a: f32[8]) { %0 = exp %a : f32[8] {4@x*2} }")),
      });
}

TEST(ProgramErrors, IndependentRows) {
  const auto rows = [](std::string_view text) { return IndependentRows(Parse(text), 8); };
  ExpectErrors(
      "independent_rows",
      {
          MISTAKE(rows(
              "mesh [] func f(%a: f32[8,3]) { %0 = reduce_sum %a dims=[0] %1 = add %a, %0 return y=%1 }")),
          MISTAKE(rows("mesh [] func f(%a: f32[8,3]) { %0 = transpose %a permutation=[1,0] return y=%0 }")),
          MISTAKE(rows("mesh [] func f(%a: f32[8,2], %b: f32[16]) {\n"
                       "  %0 = reshape %b shape=[8,2] %1 = add %a, %0 return y=%1 }")),
          MISTAKE(
              rows("mesh [] func f(%a: f32[8,3]) { %0 = reshape %a shape=[4,6] %1 = exp %0 return y=%1 }")),
      });
}

TEST(ProgramErrors, Compile) {
  auto compile = [](std::string_view text) { return Compile(Parse(text)); };
  const Topology other =
      Topology::Create(Mesh::Parse("x=2,y=2").value(), {{"x", {1e9, 1e-5}}, {"y", {1e9, 1e-5}}}).value();
  ExpectErrors(
      "compile",
      {
          MISTAKE(compile("mesh [x=2] func f(%a: f32[2] of f32[4] {x}) { return y=%a }")),
          MISTAKE(compile("mesh [x=2] func f(%a: f32[4] {_}) {\n"
                          "  %0 = shard_slice %a axes=(x) dim=0 : f32[2] of f32[4] {x} }")),
          MISTAKE(compile("mesh [x=2] func f(%a: f32[4] {_ | sum:x}) { %0 = tanh %a return y=%0 }")),
          MISTAKE(Compile(Parse("mesh [x=2] func f(%a: f32[4]) { return y=%a }"), {.topology = other})),
          MISTAKE(
              Compile(Parse("mesh [x=2] func f(%a: f32[4]) { return y=%a }"), {.replication_budget = -1})),
          MISTAKE(Compile(Parse("mesh [x=2] func f(%a: f32[4]) { return y=%a }"), {.num_domains = 3})),
          MISTAKE(Compile(Parse("mesh [x=4, y=2] func f(%a: f32[4]) { return y=%a }"), {.topology = other})),
          MISTAKE(compile("mesh [x=2] func f(%a: f32[4]) { %0 = relayout %a {_ | sum:x} return y=%0 }")),
      });
}

TEST(ProgramErrors, CompileWithinAMemoryBudget) {
  auto compile = [](std::string_view text, int64_t budget) {
    return Compile(Parse(text), {.memory_budget = budget});
  };
  constexpr std::string_view kProduct =
      "mesh [batch=2, model=4]\n"
      "func step(%x: f32[64,100] {batch,_}, var %w: f32[100,80] {_,model}) {\n"
      "  %y = matmul %x, %w : f32[64,80]\n"
      "  %0 = mul %w, %w\n"
      "  update %w = %0\n"
      "  return y=%y }";
  ExpectErrors(
      "compile_memory",
      {
          MISTAKE(compile(kProduct, -1)),
          MISTAKE(compile(kProduct, 20000)),
          MISTAKE(compile("mesh [x=2] func f(var %w: f32[8] {x}) { %0 = neg %w return y=%0 }", 31)),
          MISTAKE(compile("mesh [] func f(var %v: f32[8], var %w: f32[8]) { update %v = %w update %w = %v }",
                          100)),
      });
}

TEST(ProgramErrors, Replication) {
  auto compile = [](std::string_view text) { return Compile(Parse(text)); };
  const CompileOptions small{.replication_budget = 64};
  ExpectErrors("replication",
               {
                   {"the weight of a layer is cut as the batch is",
                    [&] {
                      return compile(
                          "mesh [x=8]\n"
                          "func f(%x: f32[4096,1024] {x,_},\n"
                          "       var %w: f32[1024,1024] {x,_}) {\n"
                          "  %y = matmul %x, %w\n"
                          "  return y=%y }");
                    }},
                   {"rows and columns of weights on one axis, far from where they are declared",
                    [&] {
                      return compile(
                          "mesh [x=4]\n"
                          "func f(var %x: f32[1024,1024] {x,_},\n"
                          "       var %w: f32[1024,1024] {_,x}) {\n"
                          "  %h = exp %x\n"
                          "  %v = neg %w\n"
                          "  %y = matmul %h, %v\n"
                          "  return y=%y }");
                    }},
                   {"an op that works along a dim",
                    [&] {
                      return compile(
                          "mesh [x=8]\n"
                          "func f(%x: f32[1048576] {x}) {\n"
                          "  %0 = exp %x\n"
                          "  %1, %2 = sort %0 dim=0\n"
                          "  return y=%1 }");
                    }},
                   {"a variable that nobody has laid out",
                    [&] {
                      return compile(
                          "mesh [x=4]\n"
                          "func f(%x: f32[1024,1024] {x,_}, var %w: f32[1024,1024]) {\n"
                          "  update %w = %x }");
                    }},
                   {"two gathers",
                    [&] {
                      return compile(
                          "mesh [x=8]\n"
                          "func f(%x: f32[1048576] {x}, %z: f32[2097152] {x}) {\n"
                          "  %0, %2 = sort %x dim=0\n"
                          "  %1, %3 = sort %z dim=0\n"
                          "  return a=%0, b=%1 }");
                    }},
                   {"what a loop carries, of which no copy can be moved",
                    [&] {
                      return Compile(Parse("mesh [x=4]\n"
                                           "func f(var %a: f32[12,12] {x,_}) {\n"
                                           "  %s = scan %a length=3 (var %h: f32[12,12] {_,_}) {\n"
                                           "    %m = mul %h, %h : f32[12,12]\n"
                                           "    update %h = %m\n"
                                           "  } : f32[12,12] {_,x}\n"
                                           "  return y=%s }"),
                                     small);
                    }},
                   {"a vector, which has no other dim",
                    [&] {
                      return Compile(
                          Parse("mesh [x=8] func f(%x: f32[32] {x}) { %0, %1 = sort %x dim=0 return %0 }"),
                          small);
                    }},
               });
}

// The user has no name for such a value, and no handle.
TEST(ProgramErrors, ReplicationWithinALayer) {
  const auto within_layer = [] {
    Graph g(Mesh::Parse("x=4").value());
    const Value x = g.Input("x", F32, {32}, {"x"});
    const NameScope layer(g, "norm");
    g.Output("y", Sort(Exp(x), 0).values);
    return Compile(g, {.replication_budget = 64}).status();
  };
  ExpectErrors("replication_layer", {MISTAKE(within_layer())});
}

// ---- Local programs.

// The error of the good program after `change`.
template <typename F>
absl::Status Check(F&& change) {
  Graph graph = Parse(kLocalProgram);
  change(graph);
  MESHWORK_RETURN_IF_ERROR(CheckLocalProgram(graph));
  return CheckKernels(graph, CpuBackend(1));
}

TEST(ProgramErrors, LocalPrograms) {
  auto check = [](std::string_view text) { return CheckLocalProgram(Parse(text)); };
  static const OpRow no_kernel = {.name = "dream"};
  ExpectErrors(
      "local_program",
      {
          MISTAKE(CheckLocalProgram(Graph(Mesh::Parse("a=128,b=64").value()))),
          MISTAKE(CheckLocalProgram(Graph(Mesh::Parse("a=256,b=64").value()), 2)),
          MISTAKE(check("mesh [x=2]\nfunc step(%a: f32[4] {x}) {\n  %b = neg %a\n  return %b\n}")),
          MISTAKE(check("mesh [x=2]\nfunc step(%a: f32[4] {_}) {\n  %0 = neg %a\n  return %0\n}")),
          MISTAKE(check("mesh [x=2]\nfunc step(%a: f32[4]) {}")),
          MISTAKE(check("mesh [x=2]\nfunc step(%a: f32[4] {_}) {\n  %b = relayout %a {_} : f32[4] {_}\n}")),
          MISTAKE(check("mesh [x=2]\nfunc step(%a: f32[4] of f32[4] {_ | sum:x}) { }")),
          MISTAKE(check("mesh [x=2]\nfunc step(var %a: f32[4] of f32[4] {_ | sum:x}) { }")),
          {"a block of another shape",
           [] {
             return Check([](Graph& g) { g.mutable_value(g.nodes()[0].results[0]).type.shape[0] = 3; });
           }},
          {"a reduction that the dtype has not",
           [] {
             return Check([](Graph& g) {
               ValueInfo& sum = g.mutable_value(g.nodes()[1].results[0]);
               sum.layout = sum.layout->WithPartials({{0, ReduceOp::kAnd}});
             });
           }},
          {"an op without a kernel",
           [] { return Check([](Graph& g) { g.mutable_node(1).row = &no_kernel; }); }},
          {"an output that is partial",
           [] { return Check([](Graph& g) {
                  g.AddOutput({"p", g.nodes()[1].results[0]});
                }); }},
          {"two updates of a variable",
           [] { return Check([](Graph& g) {
                  g.AddUpdate({1, g.arguments()[0].value});
                }); }},
          {"an update of an input",
           [] { return Check([](Graph& g) {
                  g.AddUpdate({0, g.arguments()[1].value});
                }); }},
          {"an update of another layout",
           [] {
             return Check([](Graph& g) {
               ValueInfo info = g.value(0);
               info.name = "z";
               info.layout = Layout::Parse(g.mesh(), "{_,x}").value();
               info.type.shape = {4, 2};
               g.AddArgument(info, true);
               g.AddUpdate({2, g.nodes()[0].results[0]});
             });
           }},
          {"two outputs of one name",
           [] { return Check([](Graph& g) {
                  g.AddOutput({"n", g.arguments()[0].value});
                }); }},
          {"an output called by the position of another",
           [] { return Check([](Graph& g) {
                  g.AddOutput({"3", 0}), g.AddOutput({"", 0});
                }); }},
      });
}

// One collective on x: i32[4,4], from one layout to another.
absl::Status Prepare(std::string_view op, Attrs attrs, std::string_view from, std::string_view to,
                     const Type& result = {I32, {4, 4}}) {
  const Mesh mesh = Mesh::Parse("x=2,y=2").value();
  auto info = [&](const Type& type, std::string_view layout_text) {
    const Layout layout = Layout::Parse(mesh, layout_text).value();
    return ValueInfo{.type = {type.dtype, layout.LocalShape(type.shape)}, .global = type, .layout = layout};
  };
  Program program{.body = Graph(mesh)};
  const ValueId x = program.body.AddArgument(info({I32, {4, 4}}, from), false);
  Node node{.row = &GetOp(op), .attrs = std::move(attrs), .location = {"step.mw", 7}};
  node.operands = {x};
  program.body.AddNode(node, {info(result, to)});
  CpuBackend backend(1);
  std::map<std::string, DTensor> state;
  const absl::Status status = Executor::Create(program, backend, {}, &state).status();
  EXPECT_TRUE(state.empty());
  return status;
}

TEST(ProgramErrors, Collectives) {
  const Attrs gather = {{"axes", AxisList{0}}, {"dim", int64_t{0}}};
  const Attrs reduce = {{"axes", AxisList{0}}, {"op", ReduceOp::kSum}};
  const Attrs scatter = {{"axes", AxisList{0}}, {"dim", int64_t{0}}, {"op", ReduceOp::kSum}};
  ExpectErrors("collectives", {
                                  MISTAKE(Prepare("all_gather", gather, "{(x,y),_}", "{_,_}")),
                                  MISTAKE(Prepare("collective_permute", {}, "{x,_}", "{_,x}")),
                                  MISTAKE(Prepare("collective_permute", {}, "{x,_}", "{x,_ | sum:y}")),
                                  MISTAKE(Prepare("collective_permute", {}, "{x,_}", "{x,_}", {I32, {4, 5}})),
                                  MISTAKE(Prepare("all_to_all_v", {}, "{x,_}", "{_,y}", {I32, {4, 5}})),
                                  MISTAKE(Prepare("all_to_all_v", {}, "{x,_}", "{_,x | sum:y}")),
                                  MISTAKE(Prepare("all_reduce", reduce, "{x,_}", "{x,_}")),
                                  MISTAKE(Prepare("all_reduce", reduce, "{y,_}", "{_,y}")),
                                  MISTAKE(Prepare("reduce_scatter", scatter, "{x,_}", "{x,_}")),
                              });
}

// ---- Binding: twice = 2 a.

TEST(ProgramErrors, FeedsAndOutputs) {
  const Program program = ParseProgram(R"(mesh [x=2]
func step(%image: f32[2] of f32[3] {x}, var %n: f32[] {}) {
  %twice = add %image, %image : f32[2] of f32[3] {x}
  %n1 = add %n, %n : f32[] of f32[] {}
  update %n = %n1
  return twice=%twice, total=%n1, again=%twice
})");
  const Program silent = ParseProgram("mesh [x=2]\nfunc quiet() {}");
  CpuBackend backend(1);
  std::map<std::string, DTensor> state;
  const Tensor image = Ramp({F32, {3}}), both = Ramp({F32, {4}}), out({F32, {3}});
  auto bind = [&](const Tensors& feeds, const Tensors& outputs = {}) {
    return Executor::Create(program, backend, {}, &state).value()->Bind(feeds, outputs);
  };
  ExpectErrors(
      "binding",
      {
          MISTAKE(bind({})),
          MISTAKE(bind({{"imgae", image}})),
          MISTAKE(bind({{"Image", image}})),
          MISTAKE(bind({{"image", image}, {"weights", image}})),
          MISTAKE(bind({{"image", image}, {"n", image}})),
          MISTAKE(bind({{"image", image}, {"", image}})),
          MISTAKE(bind({{"image", Tensor()}})),
          MISTAKE(bind({{"image", Ramp({F32, {5}})}})),
          MISTAKE(bind({{"image", Ramp({F64, {3}})}})),
          MISTAKE(bind({{"image", image}}, {{"twise", out}})),
          MISTAKE(bind({{"image", image}}, {{"loss", out}})),
          MISTAKE(bind({{"image", image}}, {{"total", out}})),
          MISTAKE(bind({{"image", image}}, {{"total", Tensor()}})),
          MISTAKE(bind({{"image", image}}, {{"twice", image}})),
          MISTAKE(bind({{"image", both.Rows(0, 3)}}, {{"twice", both.Rows(1, 4)}})),
          MISTAKE(bind({{"image", image}}, {{"twice", both.Rows(0, 3)}, {"again", both.Rows(1, 4)}})),
          MISTAKE(Executor::Create(silent, backend, {}, &state).value()->Bind({}, {{"loss", out}})),
          MISTAKE(Executor::Create(silent, backend, {}, &state).value()->Bind({{"x", out}}, {})),
      });
  DTensor packed(CpuMemory(), {F32, {3, 2}}, Layout::Parse(Mesh::Parse("x=2").value(), "{x,_}").value());
  DTensor scalar(CpuMemory(), {F32, {}}, Layout::Replicated(Mesh(), 0));
  ExpectErrors("pack", {
                           MISTAKE(Pack(Ramp({F32, {2, 3}}), packed)),
                           MISTAKE(Pack(Ramp({F64, {3, 2}}), packed)),
                           MISTAKE(Pack(Tensor(), scalar)),
                           MISTAKE(Ramp({F32, {2, 3}}).Scalar()),
                           MISTAKE(Tensor({I32, {0}}).Scalar()),
                           MISTAKE(Tensor().Scalar()),
                       });
  const Tensor six = Ramp({F32, {2, 3}});
  auto over = [](uintptr_t address) {
    return Tensor({F32, {2}}, std::shared_ptr<void>(reinterpret_cast<void*>(address), [](void*) {}));
  };
  ExpectErrors("tensors", {
                              MISTAKE(Tensor().status()),
                              MISTAKE(Tensor::From<float>({2, 3}, {1, 2}).status()),
                              MISTAKE(Tensor::From<float>({-2}, {1, 2}).status()),
                              MISTAKE(Tensor({F32, {1 << 20, 1 << 21}}).status()),
                              MISTAKE(over(0).status()),
                              MISTAKE(over(0x1002).status()),
                              MISTAKE(six.Rows(1, 3).status()),
                              MISTAKE(six.Reshaped({6}).Rows(-1, 1).status()),
                              MISTAKE(Ramp({F32, {}}).Rows(0, 1).status()),
                              MISTAKE(six.Reshaped({3, 3}).status()),
                              MISTAKE(six.TryValues<int32_t>()),
                              MISTAKE(six.Rows(1, 3).TryValues<float>()),
                              MISTAKE(Tensor::From<float>({2, 3}, std::span<const float>()).status()),
                              MISTAKE(Tensor::FromMemory({F32, {2}}, nullptr).status()),
                              MISTAKE(Tensor::FromMemory({BOOL, {3}}, "\0\1\2").status()),
                              MISTAKE(Tensor::FromStrided(six.values<float>().data(), {2, 3}, {1}).status()),
                              MISTAKE(Tensor::Arange(F32, 0, 1, 0).status()),
                              MISTAKE(Tensor::Arange(F32, 0, 1e30).status()),
                              MISTAKE(six.At({2, 0})),
                              MISTAKE(six.At({0, -4})),
                              MISTAKE(six.At({0})),
                              MISTAKE(six.At<int32_t>({0, 0})),
                              MISTAKE(six[5].status()),
                              MISTAKE(six[0][0][0].status()),
                              MISTAKE(Ramp({F32, {2, 0}})[1][0].status()),
                              MISTAKE(six.Sliced({{}, {}, {1, 2}}).status()),
                              MISTAKE(six.Sliced({{.step = 0}}).status()),
                              MISTAKE(six.Transposed({0, 0}).status()),
                              MISTAKE(six.Transposed({0, 2}).status()),
                              MISTAKE(Tensor::Concat({}, 0).status()),
                              MISTAKE(Tensor::Concat({six, six}, 2).status()),
                              MISTAKE(Tensor::Concat({six, six.Transposed()}, 0).status()),
                              MISTAKE(Tensor::Concat({six, six.Cast(F64)}, 0).status()),
                              MISTAKE(Tensor::Concat({Tensor(1), Tensor(2)}, 0).status()),
                              MISTAKE(Tensor::Stack({}).status()),
                              MISTAKE(Tensor::Stack({six, six}, 3).status()),
                              MISTAKE(Tensor::Stack({six, six[0]}).status()),
                              MISTAKE(six.Rows(1, 3).Cast(F64).Transposed()[0].status()),
                              MISTAKE(AllClose(six, six.Transposed())),
                              MISTAKE(AllClose(six, Tensor::Full({F32, {2, 3}}, 3))),
                              MISTAKE(AllEqual(six, Tensor::Full({F32, {2, 3}}, 3))),
                              MISTAKE(AllEqual(six, Tensor())),
                              MISTAKE(AllEqual(six.Rows(1, 3), six)),
                          });
}

// Tensors that other libraries hand over, each wrong in one way.
TEST(ProgramErrors, ForeignTensors) {
  float data[6] = {};
  const auto foreign = [&](const std::function<void(dlpack::TensorView&)>& change) -> absl::Status {
    int64_t shape[] = {2, 3};
    dlpack::ManagedTensor managed = {.dl_tensor = {.data = data,
                                                   .device = {dlpack::kCpu, 0},
                                                   .ndim = 2,
                                                   .dtype = {dlpack::kFloat, 32, 1},
                                                   .shape = shape}};
    change(managed.dl_tensor);
    return FromDlpack(reinterpret_cast<DLManagedTensor*>(&managed)).status();
  };
  ExpectErrors("dlpack", {
                             MISTAKE(FromDlpack(nullptr)),
                             MISTAKE(foreign([](auto& x) {
                               x.device = {2, 1};
                             })),
                             MISTAKE(foreign([](auto& x) { x.ndim = -1; })),
                             MISTAKE(foreign([](auto& x) { x.shape = nullptr; })),
                             MISTAKE(foreign([](auto& x) {
                               x.dtype = {dlpack::kUInt, 16, 1};
                             })),
                             MISTAKE(foreign([](auto& x) {
                               x.dtype = {dlpack::kFloat, 32, 4};
                             })),
                             MISTAKE(foreign([](auto& x) {
                               x.dtype = {17, 6, 1};
                             })),
                             MISTAKE(foreign([](auto& x) { x.shape[1] = -3; })),
                             MISTAKE(foreign([](auto& x) { x.data = nullptr; })),
                             MISTAKE(foreign([&](auto& x) {
                               std::memset(data, 2, sizeof(data));
                               x.dtype = {dlpack::kBool, 8, 1};
                             })),
                             MISTAKE(ToDlpack(Tensor())),
                         });
}

TEST(ProgramErrors, StateOfAnotherProgram) {
  CpuBackend backend(1);
  std::map<std::string, DTensor> state;
  auto create = [&](std::string_view layout) {
    return Executor::Create(ParseProgram(fmt::format("mesh [x=2]\nfunc f(var %w: f32[{}] of f32[4] {}) {{}}",
                                                     layout == "{x}" ? 2 : 4, layout)),
                            backend, {}, &state);
  };
  ASSERT_TRUE(create("{x}").ok());
  ExpectErrors("state", {MISTAKE(create("{_}"))});
}

// ---- Replicas that differ: the layout claims the sum over all rows, but a device has the sum over its
// rows.

TEST(ProgramErrors, Replicas) {
  auto run = [](std::string_view text) {
    CpuBackend backend(2);
    std::map<std::string, DTensor> state;
    auto executor = Executor::Create(ParseProgram(text), backend, {.check_replicas = true}, &state).value();
    Tensors outputs;
    return executor->Run({{"a", Ramp({F32, {4, 2}})}}, &outputs);
  };
  DTensor tensor(CpuMemory(), {F32, {3}}, Layout::Parse(Mesh::Parse("x=2").value(), "{_}").value(),
                 /*share=*/false);
  reinterpret_cast<float*>(tensor.instance(1))[1] = 2.5;
  Difference truths{0};
  truths.first[0] = std::byte{1}, truths.second[0] = std::byte{3};
  ExpectErrors("replicas",
               {
                   MISTAKE(run("mesh [x=2] func step(%a: f32[2,2] of f32[4,2] {x,_}) {\n"
                               "  %s = reduce_sum %a dims=[0] : f32[2] of f32[2] {_}\n  return s=%s }")),
                   MISTAKE(run("mesh [x=2] func step(%a: f32[2,2] of f32[4,2] {x,_}, var %w: f32[2] {_}) {\n"
                               "  %s = reduce_sum %a dims=[0] : f32[2] of f32[2] {_}\n  update %w = %s }")),
                   MISTAKE(Unpack(tensor, /*check_replicas=*/true)),
                   MISTAKE(DifferenceError("It", {BOOL, {}},
                                           Layout::Replicated(Mesh::Parse("x=2").value(), 0), 0, 1, truths)),
               });
}

// ---- Schedules that only a bug can break: CheckSchedule detects it.

TEST(ProgramErrors, Schedules) {
  StepPlan plan = BuildStepPlan(std::make_shared<const Graph>(Parse(R"(mesh [x=2]
func step(%x: f32[2] of f32[4] {x}) {
  %a = neg %x : f32[2] of f32[4] {x}
  %b = exp %a : f32[2] of f32[4] {x}
  %c = add %a, %b : f32[2] of f32[4] {x}
  %g = all_gather %c axes=(x) dim=0 : f32[4] of f32[4] {_}
  return y=%g
})")),
                                std::vector<InstanceMap>(1), {.coalesce = false})
                      .value();
  const Schedule good = MakeSchedule(std::move(plan), /*workers=*/2, /*fuse=*/false);
  ASSERT_TRUE(CheckSchedule(good).ok());
  auto check = [&](auto&& damage) {
    Schedule bad = good;
    damage(bad);
    return CheckSchedule(bad);
  };
  // The private storages of worker 0.
  std::vector<size_t> mine;
  for (size_t b = 0; b < good.storages.size(); ++b)
    if (good.storages[b].place.kind == Place::Kind::kPrivate && good.storages[b].place.index == 0)
      mine.push_back(b);
  ASSERT_FALSE(mine.empty());
  auto overlap = [&] {
    for (const auto& a : good.storages) {
      for (const auto& b : good.storages) {
        const bool is_shared = a.place.kind == Place::Kind::kShared && b.place.kind == Place::Kind::kShared;
        if (!is_shared || a.place.offset == b.place.offset) continue;
        const absl::Status status =
            check([&](Schedule& s) { s.storages[&a - good.storages.data()].place = b.place; });
        if (MessageOf(status).find("overlap") != std::string_view::npos) return status;
      }
    }
    return absl::OkStatus();
  };
  ExpectErrors(
      "schedule",
      {
          {"no barriers",
           [&] {
             return check([](Schedule& s) {
               for (Instruction& i : s.instructions) i.barrier = false;
             });
           }},
          {"two storages in one place, while both are in use", overlap},
          {"a storage without a place",
           [&] { return check([&](Schedule& s) { s.storages[mine[0]].place = {}; }); }},
          {"a private storage of the other worker",
           [&] { return check([&](Schedule& s) { s.storages[mine[0]].place.index = 1; }); }},
          {"a storage beyond the end",
           [&] {
             return check([&](Schedule& s) { s.storages[mine[0]].place.offset = s.private_bytes[0]; });
           }},
      });
}

TEST(ProgramErrors, SchedulesOfSeveralDomains) {
  const Graph program = Parse(R"(mesh [x=2]
func step(%x: f32[2] of f32[4] {x}, %u: f32[4] of f32[4] {_}) {
  %a = neg %x : f32[2] of f32[4] {x}
  %b = exp %u : f32[4] of f32[4] {_}
  %g = all_gather %a axes=(x) dim=0 : f32[4] of f32[4] {_}
  %c = add %b, %g : f32[4] of f32[4] {_}
  return y=%c
})");
  const Domain domain(Placement::Create(program.mesh(), 2).value(), 0);
  const Schedule good =
      MakeSchedule(BuildStepPlan(std::make_shared<const Graph>(program), std::vector<InstanceMap>(2),
                                 {.domain = domain, .bytes_under_way = 100, .coalesce = false})
                       .value(),
                   /*workers=*/1, /*fuse=*/false);
  ASSERT_TRUE(CheckSchedule(good).ok());
  const auto find = [](std::vector<Instruction>& all, Instruction::Kind kind) {
    return std::find_if(all.begin(), all.end(), [&](const Instruction& i) { return i.kind == kind; });
  };
  auto check = [&](auto&& damage) {
    Schedule bad = good;
    auto start = find(bad.instructions, Instruction::Kind::kStart),
         wait = find(bad.instructions, Instruction::Kind::kWait);
    damage(bad.instructions, start, wait);
    return CheckSchedule(bad);
  };
  using All = std::vector<Instruction>&;
  using At = std::vector<Instruction>::iterator;
  ExpectErrors(
      "schedule_domains",
      {
          {"no start", [&] { return check([](All all, At start, At) { all.erase(start); }); }},
          {"no wait", [&] { return check([](All all, At start, At) { all.erase(start + 1, all.end()); }); }},
          {"what is received read before the wait",
           [&] { return check([](All, At, At wait) { std::iter_swap(wait, wait + 1); }); }},
          {"what is sent written while it is under way",
           [&] { return check([](All, At start, At) { std::iter_swap(start - 1, start); }); }},
      });
}

}  // namespace
}  // namespace meshwork::program_test

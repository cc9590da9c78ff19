// Programs in text. A mistake is named by its own lines.
#include "meshwork/ir/text.h"

#include <string>
#include <tuple>
#include <vector>

#include "errors/errors.h"
#include "gtest/gtest.h"

namespace meshwork::text_test {
namespace {

void ExpectTextErrors(std::string_view area, const std::vector<std::string>& texts,
                      const std::string& before = "", const std::string& after = "") {
  std::vector<Mistake> mistakes;
  for (const std::string& text : texts)
    mistakes.push_back(
        {text.empty() ? "nothing" : text, [=] { return ParseGraph(before + text + after, "p.mw"); }});
  ExpectErrors(area, mistakes);
}

TEST(TextErrors, Frame) {
  ExpectTextErrors(
      "text_frame",
      {"", "func f() {}", "mehs [x=2]\nfunc f() {}", "mesh x=2", "mesh [x=2\nfunc f() {}",
       "mesh [a=2, a=3]\nfunc f() {}", "mesh [a=2,]\nfunc f() {}", "mesh [a=2]\nfun f() {}",
       "mesh [a=2]\nfunction f() {}", "mesh [a=2]\nfunc (%x: f32[]) {}", "mesh [a=2]\nfunc f{}",
       "mesh []\nfunc f(%x: f32[]) %0 = neg %x }", "mesh []\nfunc f() {\n", "mesh []\nfunc f() {\n  foo\n}",
       "mesh []\nfunc f(%x: f32[]) {\n  retrun %x\n}", "mesh []\nfunc f(%x: f32[]) {\n  ?\n}",
       "mesh []\nfunc f() {\n} junk", "mesh []\nfunc f(%x: f32[]) {\n  return %x\n  %0 = neg %x\n}",
       "mesh []\nfunc f(%x: f32[]) {\n  return %x\n  return %x\n}"});
}

TEST(TextErrors, Arguments) {
  ExpectTextErrors("text_arguments",
                   {
                       "x: f32[4]",
                       "%: f32[4]",
                       "% x: f32[4]",
                       "%// a comment\nx: f32[4]",
                       "%1x: f32[4]",
                       "%x f32[4]",
                       "%x: [4]",
                       "%x: f32[4] {MATCH}",
                       "%x: f33[4]",
                       "%x: f23[4]",
                       "%x: F32[4]",
                       "%x: bfloat16[4]",
                       "%x: float[4]",
                       "%x: f32, %y: f32[]",
                       "%x: f32[4,]",
                       "%x: f32[4 6]",
                       "%x: f32[4.5]",
                       "%x: f32[4,-1]",
                       "%x: f32[1048576,1048577]",
                       "%x: f32[9223372036854775808]",
                       "%x: f32[4] {bacth}",
                       "%x: f32[4] {expert}",
                       "%x: f32[4,4] {batch,batch}",
                       "%x: f32[4] {batch;}",
                       "%x: f32[4] {batch,_}",
                       "%x: f32[2] of f32[4]",
                       "%x: f32[4], %x: f32[4]",
                       "%0: f32[4]",
                       "%x: f32[4]; %y: f32[4]",
                       "%x: f32[4], ",
                       "%x: f32[4] {batch) {}\n",
                       "%x: f32[4] {batch} gather=on_use",
                       "%x: f32[4] {batch} gather=alowed",
                       "%x: f32[4] {batch} gather",
                       "var %x: f32[4] gather=allowed {batch}",
                       "%x: f32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]",
                   },
                   "mesh [batch=2]\nfunc f(", ") {}\n");
}

TEST(TextErrors, Nodes) {
  ExpectTextErrors("text_nodes",
                   {
                       "%0 neg %x",
                       "%0, neg %x",
                       "%0 = : f32[4]",
                       "%0 = matmull %x, %x",
                       "%0 = ReduceSum %x dims=[0]",
                       "%0 = fft %x",
                       "%0 = neg %bais",
                       "%0 = neg %gain",
                       "%0 = neg %0",
                       "%0 = add %x, 4",
                       "%x = neg %x",
                       "%0 = neg %x\n  %0 = neg %x",
                       "%0, %1, %0 = adam_update %w, %w, %w, %w, %t learning_rate=1",
                       "%0, %1 = neg %x",
                       "%0 = neg %x : f32[4], f32[4]",
                       "%0 = adam_update %w, %w, %w, %w, %t learning_rate=1",
                       "%0 = neg %x : f32[5]",
                       "%0 = neg %x : f64[4]",
                       "%0 = neg %x : f33[4]",
                       "%0 = neg %x : f32[4] {bacth}",
                       "%0 = neg %x : f32[4] {MATCH}",
                       "%0 = neg",
                       "%0 = neg %x, %x",
                       "%0 = matmul %x, %w",
                       "%0 = reduce_sum %x",
                       // A comma is missing.
                       "%0 = add %x %w",
                       "%0 = add %x\n    %w",
                       "%0 = add %x %w, %bias",
                       "%0 = concat %x, %w %bias dim=0",
                       // Names from other systems; names that only C++ has.
                       "%0 = dot %x, %w",
                       "%0 = ReLU %x",
                       "%0 = softmax %x dim=0",
                       "%0 = layernorm %x",
                       "%0 = log_softmx %x",
                   },
                   "mesh [batch=2]\nfunc f(%x: f32[4], var %w: f32[4], %t: i64[], %bias: f32[4]) {\n  ",
                   "\n}\n");
}

TEST(TextErrors, Attributes) {
  ExpectTextErrors("text_attributes",
                   {
                       "reduce_sum %x dim=[0]",
                       "neg %x slope=1",
                       "neg %x slope",
                       "reduce_sum %x dims=[0] dims=[0]",
                       "reduce_sum %x dims=0",
                       "reduce_sum %x dims=[0}",
                       "reduce_sum %x dims=[0] keep_dims=yes",
                       "reduce_sum %x dims=[0] keep_dims=ture",
                       "argmax %x dim=x",
                       "argmax %x dim=-9223372036854775809",
                       "constant shape=[] value=abc",
                       "constant shape=[] value=1e999",
                       "cast %x dtype=[",
                       "cast %x dtype=f23",
                       "cast %x dtype=float",
                       "relayout %x {bacth}",
                       "relayout %x {batch} {_}",
                       "relayout %x layout={batch} {_}",
                       "relayout %x layout=3",
                       "neg %x {batch}",
                       "all_reduce %x axes=batch op=sum",
                       "all_reduce %x axes=() op=sum",
                       "all_reduce %x axes=(bacth) op=sum",
                       "all_reduce %x axes=(bacth:(2)2) op=sum",
                       "all_reduce %x axes=(batch,batch) op=sum",
                       "all_reduce %x axes=(batch op=sum",
                       "all_reduce %x axes=(batch) op=smu",
                       "all_reduce %x axes=(batch) op=mean",
                       "all_reduce %x axes=(batch) op=(",
                       // Numbers that are no sizes.
                       "expand_dims %x dims=[1,3]",
                       "expand_dims %x dims=[-1]",
                       "expand_dims %x dims=[9223372036854775807]",
                       "expand_dims %x dims=[0,0]",
                       "dimension_size %x dims=[0] dtype=bool",
                       "dimension_size %big dims=[0] dtype=i32",
                       "custom_gradient %x, %x, %x",
                       "custom_gradient %x, %big, %x, %x",
                       "device_all_gather %x axes=(batch) dim=0 count=4611686018427387904",
                       "device_shift %x axes=(batch) by=-9223372036854775808 count=2",
                       "device_all_to_all %x axes=(batch) from=0 to=1 count=-1",
                       "scan %x length=2 slices=4294967296 (%h: f32[]) {\n  return %h\n  }",
                       "scan %x length=2 sums=-9223372036854775808 (var %h: f32[4]) {\n  return %h\n  }",
                       "scan %x length=2 sums=-2147483648 (var %h: f32[4]) {\n  return %h\n  }",
                   },
                   "mesh [batch=2]\nfunc f(%x: f32[4], %big: f32[4294967296]) {\n  %0 = ", "\n}\n");
}

// Operands of a wrong dtype, which may be a default that nobody wrote.
TEST(TextErrors, DTypesThatNobodyWrote) {
  ExpectTextErrors("text_dtypes",
                   {
                       "%c = constant value=1 shape=[]\n  %0 = add %x, %c",
                       "%c = iota dim=0 shape=[4]\n  %0 = mul %c, %x",
                       "%c = constant value=1 shape=[] dtype=f32\n  %0 = add %x, %c",
                       "%c = constant value=1 shape=[] dtype=i32\n  %0 = add %x, %c",
                       "%c = constant value=1 shape=[5]\n  %0 = add %y, %c",
                   },
                   "mesh []\nfunc f(%x: f64[4], %y: f32[4]) {\n  ", "\n}\n");
}

// Bodies in bodies, of every op that has one.
TEST(TextErrors, Nesting) {
  const auto nested = [](int depth, const std::string& op, const std::string& end) {
    std::string text = "mesh []\nfunc f(%c: f32[], %go: bool[]) {\n";
    for (int i = 0; i < depth; ++i) text += op + "\n";
    return text + end;
  };
  const std::string scan = "%p = scan %c, %go length=1 (var %c: f32[], %go: bool[]) {";
  const std::string loop = "%p = while %c, %go (var %c: f32[], %go: bool[]) {";
  const std::string branch = "%p = if %go, %c, %go (%c: f32[], %go: bool[]) {";
  std::vector<Mistake> mistakes;
  for (const auto& [name, depth, op] : {std::tuple("101 scans", 101, scan),
                                        {"101 whiles", 101, loop},
                                        {"101 branches", 101, branch},
                                        {"20000 scans", 20000, scan}})
    mistakes.push_back({name, [text = nested(depth, op, "")] { return ParseGraph(text, "p.mw"); }});
  ExpectErrors("text_nesting", mistakes);
}

// Attributes that builders do not make.
TEST(TextErrors, Convolution) {
  ExpectTextErrors("text_convolution",
                   {
                       "%0 = conv_input_grad %y, %w shape=[2,5,3]",
                       "%0 = conv_input_grad %y, %w shape=[3,6,3]",
                       "%0 = conv_input_grad %y, %w shape=[2,6,3] windowed=[1]",
                       "%0 = conv_input_grad %y, %w shape=[2,8,3] windowed=[0]",
                       "%0 = conv_filter_grad %y, %y shape=[2,4,4]",
                       "%0 = conv_filter_grad %y, %y shape=[2,4]",
                       "%0 = max_pool_grad %y, %y shape=[2,5,4] window=[2]",
                       "%0 = max_pool_grad %y, %i shape=[2,5,3] window=[2]",
                       "%0 = max_pool_grad %y, %i shape=[2,4,4] window=[2]",
                       "%0 = max_pool_at %y, %i window=[2]",
                       "%0 = sum_pool %y",
                       "%0 = sum_pool %y window=[2] low=[-3]",
                       "%0 = conv %y, %w low=[0] high=[-2]",
                       "%0 = conv %y, %w low=[-9223372036854775808]",
                   },
                   "mesh []\nfunc f(%y: f32[2,4,4], %w: f32[3,3,4], %i: i32[2,4,4]) {\n  ", "\n}\n");
}

TEST(TextErrors, UpdatesAndReturns) {
  ExpectTextErrors("text_updates",
                   {
                       "update %x = %w",
                       "%0 = neg %x\n  update %0 = %x",
                       "update %w = %t",
                       "update %w = %x\n  update %w = %x",
                       "update %w %x",
                       "update %w = %weigth",
                       "update w = %x",
                       "updaet %w = %x",
                       "return =%x",
                       "return 1st=%x",
                       "return y %x",
                       "return %loss",
                       "return y=%x, y=%x",
                   },
                   "mesh [x=2]\nfunc f(%x: f32[4], var %w: f32[4], %t: i64[], %weight: f32[]) {\n  ",
                   "\n}\n");
}

// ---- Local programs.

TEST(TextErrors, LocalPrograms) {
  ExpectTextErrors(
      "text_local",
      {
          "%0 = all_reduce %p axes=(x) op=sum",
          "%0 = matmul %h : f32[2,2] of f32[4,2] {x,_}",
          "%0 = all_gather %h, %h axes=(x) dim=0 : f32[4,6] {_,_}",
          "update %v = %h",
          "%0 = all_gather %h dim=0 : f32[4,6] {_,_}",
          "%0 = all_reduce %p, %p axes=(x) op=sum : f32[4,6] {_,_}",
          "%0 = neg %h",
          // Types, blocks, layouts.
          "%0 = neg %h : f32[3,6] of f32[4,6] {x,_}",
          "%0 = neg %h : f32[2,6] of f64[4,6] {x,_}",
          "%0 = neg %h : f32[2,6] of f32[4] {x,_}",
          "%0 = neg %h : f32[2,6] {x,_}",
          "%0 = neg %h : f32[4,6] of f32[4,6] {?,_}",
          "%0 = reduce_sum %h dims=[1] : f32[1] of f32[2] {x}",
          "%0 = relayout %h {_,_} : f32[2,6] of f32[4,6] {x,_}",
          "update %v = %p",
          // Reductions of values that they cannot combine.
          "%0 = all_reduce %p axes=(x) op=and : f32[4,6] {_,_}",
          "%0 = all_reduce %b axes=(x) op=max : bool[4] {_}",
          "%0 = reduce_scatter %b axes=(x) dim=0 op=sum : bool[2] of bool[4] {x}",
          "%0 = reduce_scatter %p axes=(x) dim=0 op=or : f32[2,6] of f32[4,6] {x,_}",
          "%0 = mask_padding %h dims=[0] op=and : f32[2,6] of f32[4,6] {x,_}",
          "%0 = mask_padding %b dims=[0] op=prod : bool[4] {_ | or:x}",
          "%0 = reduce_sum %h dims=[0] : f32[6] {_ | or:x}",
          "%0 = reduce_any %b dims=[0] : bool[] {| max:x}",
          // Collectives.
          "%0 = all_reduce %h axes=(x) op=sum : f32[2,6] of f32[4,6] {x,_}",
          "%0 = all_reduce %b axes=(x) op=and : bool[4] {_}",
          "%0 = all_reduce %p axes=(x) op=max : f32[4,6] {_,_}",
          "%0 = all_reduce %p axes=(x) op=sum : f32[4,6] {_,_ | sum:x}",
          "%0 = all_gather %h axes=(x) dim=1 : f32[4,6] {_,_}",
          "%0 = all_gather %h axes=(x) dim=2 : f32[4,6] {_,_}",
          "%0 = all_gather %h axes=(x) dim=0 : f32[8,6] {_,_}",
          "%0 = shard_slice %h axes=(x) dim=1 : f32[2,3] of f32[4,6] {_,x}",
          "%0 = shard_slice %h axes=(x) dim=1 : f32[4,3] of f32[4,6] {_,x}",
          "%0 = shard_slice %h axes=(y) dim=-1 : f32[2,2] of f32[4,6] {x,y}",
          "%0 = reduce_scatter %p axes=(x) dim=3 op=sum : f32[2,6] of f32[4,6] {x,_}",
          "%0 = all_to_all %h axes=(y) from=0 to=1 : f32[4,2] of f32[4,6] {_,y}",
          "%0 = mask_padding %h dims=[2] op=sum : f32[2,6] of f32[4,6] {x,_}",
          "%0 = keep_first %h axes=(x) : f32[2,6] of f32[4,6] {x,_}",
          "%0 = keep_first %p axes=(x) : f32[4,6] {_,_ | sum:x}",
          "%0 = keep_first %v axes=(y,y) : f32[4,6] {_,_ | sum:y}",
          "%0 = keep_first %b axes=(y) : bool[4] {_ | or:x}",
          "%0 = keep_first %m axes=(y) : f32[4] {_ | max:x}",
          "%0 = collective_permute %h : f32[4,3] of f32[4,6] {_,x}",
          "%0 = collective_permute %h : f32[2,6] of f32[4,6] {y,_}",
          "%0 = all_to_all_v %h : f32[4,2] of f32[4,6] {_,y | sum:z}",
          "%0 = all_to_all_v %h : f32[4,3] of f32[4,7] {_,x}",
          // Strided dims and parts of axes.
          "%0 = all_to_all_v %s : f32[8] of f32[16] {x}",
          "%0 = collective_permute %s : f32[8] of f32[16] {4*4@x}",
          "%0 = all_gather %s axes=(x) dim=0 : f32[16] {_}",
          "%0 = iota dim=0 shape=[8] : f32[8] of f32[16] {4@x*4}",
          "%0 = shard_slice %n axes=(z:(2)2) dim=0 : f32[2] of f32[5] {z}",
      },
      "mesh [x=2, y=3, z=2*2]\nfunc f(%h: f32[2,6] of f32[4,6] {x,_}, %p: f32[4,6] {_,_ | sum:x}, %b: "
      "bool[4] "
      "{_ | or:x}, %m: f32[4] {_ | max:x},\n%s: f32[8] of f32[16] {4@x*4}, %n: f32[3] of f32[5] {z:(1)2}, "
      "var %v: f32[4,6]) {\n  ",
      "\n}\n");
}

}  // namespace
}  // namespace meshwork::text_test

// Sums of bf16 over devices are rounded once: they are as near to the sum in double as those of one device,
// and the same where f32 holds them. Inputs are small whole numbers over 8, so that f32 sums are exact.
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/program.h"
#include "meshwork/ir/text.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/runtime/exec/executor.h"
#include "meshwork/spmd/compile.h"
#include "meshwork/verify/certificate.h"
#include "meshwork/verify/verify.h"
#include "support/for_each_node.h"
#include "support/interpreter.h"
#include "support/tensors.h"

namespace meshwork::bf16_sums_test {
namespace {

struct SummingProgram {
  std::string_view name;
  std::string_view text;
  bool rounds_between = false;  // one device rounds the parts of a pending sum; devices do not
};

// Programs in bf16; each has a pending sum.
constexpr SummingProgram kPrograms[] = {
    {"reduce_sum",
     R"(func f(%a: bf16[64,4] {(x,y),_}) { %s = reduce_sum %a dims=[0] : bf16[4] {_} return s=%s })"},
    {"reduce_sum_in_blocks",
     R"(func f(%a: bf16[64,8] {(x,y),_}) { %s = reduce_sum %a dims=[0] : bf16[8] {y} return s=%s })"},
    {"uneven",
     R"(func f(%a: bf16[61,4] {(x,y),_}) { %s = reduce_sum %a dims=[0] : bf16[4] {_} return s=%s })"},
    {"reduce_mean",
     R"(func f(%a: bf16[64,4] {(x,y),_}) { %s = reduce_mean %a dims=[0] : bf16[4] {_} return s=%s })"},
    {"matmul",
     R"(func f(%a: bf16[6,64] {_,x}, %b: bf16[64,8] {x,_}) { %c = matmul %a, %b : bf16[6,8] {_,_} return c=%c })"},
    {"scattered",
     R"(func f(%a: bf16[6,64] {_,x}, %b: bf16[64,8] {x,_}) { %c = matmul %a, %b : bf16[6,8] {_,x} return c=%c })"},
    {"both_axes",
     R"(func f(%a: bf16[6,64] {_,(x,y)}, %b: bf16[64,8] {(x,y),_}) { %c = matmul %a, %b : bf16[6,8] {y,x} return c=%c })"},
    {"batch",
     R"(func f(%a: bf16[16,6,5] {x,_,_}, %b: bf16[16,5,8] {x,_,_}) { %c = matmul %a, %b sum_batch=true : bf16[6,8] {_,_} return c=%c })"},
    {"conv", R"(func f(%a: bf16[2,8,8,16] {_,_,_,x}, %w: bf16[3,3,16,4] {_,_,x,_}) {
       %c = conv %a, %w low=[1,1] high=[1,1] : bf16[2,8,8,4] {_,_,_,_} return c=%c })"},
    {"filter_grad", R"(func f(%a: bf16[8,6,6,3] {x,_,_,_}, %g: bf16[8,6,6,4] {x,_,_,_}) {
       %c = conv_filter_grad %a, %g shape=[3,3,3,4] low=[1,1] high=[1,1] : bf16[3,3,3,4] {_,_,_,_}
       return c=%c })"},
    {"scatter_add", R"(func f(%u: bf16[64,4] {x,_}) { %i = iota dim=0 dtype=i32 shape=[64] : i32[64] {x}
       %three = constant value=3 dtype=i32 shape=[] %j = remainder %i, %three
       %s = scatter_add %u, %j shape=[3,4] dim=0 : bf16[3,4] {_,_} return s=%s })"},
    {"gather_and_sum", R"(func f(%t: bf16[64,4] {x,_}, %a: bf16[6,64] {_,x}, %b: bf16[64,4] {x,_}) {
       %i = iota dim=0 dtype=i32 shape=[6] %g = gather %t, %i dim=0 %m = matmul %a, %b
       %s = add %g, %m : bf16[6,4] {_,_} return s=%s })",
     true},
    {"two_products", R"(func f(%a: bf16[6,64] {_,x}, %b: bf16[64,8] {x,_}, %c: bf16[64,8] {x,_}) {
       %p = matmul %a, %b %q = matmul %a, %c %s = sub %p, %q : bf16[6,8] {_,_} return s=%s })",
     true},
    {"scaled", R"(func f(%a: bf16[6,64] {_,x}, %b: bf16[64,8] {x,_}, %k: bf16[] {}) {
       %p = matmul %a, %b %q = mul %p, %k %t = transpose %q permutation=[1,0] : bf16[8,6] {_,_} return t=%t })",
     true},
    {"read_in_f32",
     R"(func f(%a: bf16[6,64] {_,x}, %b: bf16[64,8] {x,_}, %c: f32[6,64] {_,x}, %d: f32[64,8] {x,_}) {
       %p = matmul %a, %b %w = cast %p dtype=f32 %q = matmul %c, %d %s = add %w, %q : f32[6,8] {_,_}
       return s=%s })",
     true},
    {"loop", R"(func f(%a: bf16[3,6,64] {_,_,x}, %b: bf16[64,8] {x,_}) {
       %s = scan %a, %b length=3 slices=1 sums=1 (%u: bf16[6,64], %w: bf16[64,8]) {
         %c = matmul %u, %w return %c
       }
       return s=%s })",
     true},
    {"loop_of_lookups", R"(func f(%t: bf16[64,4] {x,_}) {
       %i = iota dim=0 dtype=i32 shape=[8,6] %eight = constant value=8 dtype=i32 shape=[] %j = mul %i, %eight
       %s = scan %j, %t length=8 slices=1 sums=1 (%k: i32[6], %w: bf16[64,4]) {
         %g = gather %w, %k dim=0 return %g
       }
       return s=%s })",
     true},
};

// Small numbers over 8.
std::map<std::string, std::vector<double>> FeedsOf(const Graph& graph) {
  std::map<std::string, std::vector<double>> feeds;
  uint64_t state = 1;
  for (const Argument& argument : graph.arguments()) {
    const ValueInfo& info = graph.value(argument.value);
    for (int64_t i = 0; i < info.type.num_elements(); ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      feeds[info.name].push_back((static_cast<double>(state >> 33 & 31) - 15.5) / 8);
    }
  }
  return feeds;
}

std::vector<double> OutputOf(const Graph& graph, const Program& program, bool share) {
  CpuBackend backend(2);
  std::map<std::string, DTensor> state;
  ExecutorOptions options{.poison_padding = true, .check_replicas = true};
  options.share = share;
  const std::unique_ptr<Executor> executor = Executor::Create(program, backend, options, &state).value();
  std::map<std::string, Tensor> feeds, outputs;
  for (const auto& [name, numbers] : FeedsOf(graph)) {
    const Type& type = graph.value(graph.arguments()[graph.FindArgument(name)].value).type;
    feeds.emplace(name, ToTensor(HostTensor(type, numbers)));
  }
  EXPECT_TRUE(executor->Run(feeds, &outputs).ok());
  return NumbersOf(outputs.begin()->second);
}

Graph Parse(std::string_view mesh, std::string_view text) {
  return ParseGraph(fmt::format("mesh {}\n{}", mesh, text)).value();
}

// The same program in f64, on one device.
std::vector<double> InDouble(std::string text) {
  for (std::string_view dtype : {"bf16", "f32"})
    for (size_t at = text.find(dtype); at != std::string::npos; at = text.find(dtype, at))
      text.replace(at, dtype.size(), "f64");
  const Graph graph = Parse("[x=1, y=1]", text);
  return Interpret(graph, FeedsOf(graph)).outputs.begin()->second.Numbers();
}

// Half of the distance between neighbours at x: of bf16, with 8 bits, or of f32, with 24.
double HalfUlp(double x, DType dtype) {
  int exponent = 0;
  std::frexp(x, &exponent);
  return std::ldexp(1, exponent - (dtype == BF16 ? 9 : 25));
}

// The bytes per dtype that all_reduce and reduce_scatter nodes reduce over devices.
std::map<DType, int64_t> ReducedBytes(const Graph& local) {
  std::map<DType, int64_t> bytes;
  ForEachNode(local, [&](const Graph& graph, const Node& node) {
    if (node.row->name != "all_reduce" && node.row->name != "reduce_scatter") return;
    for (ValueId id : node.operands) bytes[graph.value(id).type.dtype] += graph.value(id).type.bytes();
  });
  return bytes;
}

constexpr std::string_view kSumMeshes[] = {"[x=2, y=1]", "[x=4, y=2]", "[x=3, y=2]", "[x=8, y=1]"};

TEST(Bf16SumsTest, AreRoundedOnceOnEveryMesh) {
  for (const SummingProgram& summing : kPrograms) {
    const Graph one = Parse("[x=1, y=1]", summing.text);
    const HostTensor alone = Interpret(one, FeedsOf(one)).outputs.begin()->second;
    const std::vector<double> exact = InDouble(std::string(summing.text)), on_one = alone.Numbers();
    for (std::string_view mesh : kSumMeshes) {
      SCOPED_TRACE(fmt::format("{} on {}", summing.name, mesh));
      const Graph graph = Parse(mesh, summing.text);
      const absl::StatusOr<Program> program = Compile(graph);
      ASSERT_TRUE(program.ok()) << program.status();
      for (const auto& [dtype, bytes] : ReducedBytes(program->body)) EXPECT_EQ(dtype, F32) << bytes;
      EXPECT_FALSE(ReducedBytes(program->body).empty()) << PrintGraph(program->body);
      for (bool share : {false, true}) {
        const std::vector<double> found = OutputOf(graph, *program, share);
        ASSERT_EQ(found.size(), exact.size());
        for (size_t i = 0; i < found.size(); ++i) {
          EXPECT_LE(std::abs(found[i] - exact[i]), HalfUlp(exact[i], alone.type().dtype)) << i;
          if (!summing.rounds_between) {
            EXPECT_EQ(found[i], on_one[i]) << i;
          }
        }
      }
    }
  }
}

// On request half of the bytes are sent, and the result is off by no more than one rounding per
// device.
TEST(Bf16SumsTest, AreSentInBf16OnRequest) {
  for (const SummingProgram& summing : kPrograms) {
    SCOPED_TRACE(summing.name);
    const Graph graph = Parse("[x=4, y=2]", summing.text);
    const Program wide = Compile(graph).value();
    const absl::StatusOr<Program> narrow = Compile(graph, {.narrow_sums = true});
    ASSERT_TRUE(narrow.ok()) << narrow.status();
    // A program that rounds terms is another program.
    EXPECT_FALSE(Verify(graph, narrow->body).ok()) << PrintGraph(narrow->body);
    const absl::StatusOr<Proof> proof = Verify(graph, narrow->body, {.narrow_sums = true});
    ASSERT_TRUE(proof.ok()) << proof.status();
    const Certificate certificate = MakeCertificate(graph, narrow->body, *proof);
    const absl::StatusOr<Certificate> read = CertificateFromJson(CertificateToJson(certificate));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, certificate);
    EXPECT_EQ(MessageOf(CheckCertificate(graph, *read)), "");
    if (graph.value(graph.outputs()[0].value).type.dtype == BF16) {
      EXPECT_EQ(2 * ReducedBytes(narrow->body)[BF16], ReducedBytes(wide.body)[F32]);
    }
    const std::vector<double> exact = InDouble(std::string(summing.text)),
                              found = OutputOf(graph, *narrow, /*share=*/true);
    for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], exact[i], 0.5) << i;
  }
}

// A lookup in a sharded table gives a number of one device: nothing is added, and bf16 is sent.
TEST(Bf16SumsTest, WhatIsPickedIsSentAsItIs) {
  const Graph graph = Parse("[x=4, y=2]", R"(func f(%t: bf16[64,4] {x,_}, %i: i32[6] {_}) {
    %g = gather %t, %i dim=0 %r = reshape %g shape=[3,8] : bf16[3,8] {_,_} return r=%r })");
  const Program program = Compile(graph).value();
  const std::map<DType, int64_t> bytes = ReducedBytes(program.body);
  ASSERT_EQ(bytes.size(), 1u) << PrintGraph(program.body);
  EXPECT_EQ(bytes.begin()->first, BF16);
  EXPECT_EQ(bytes.begin()->second, 6 * 4 * 2);
}

}  // namespace
}  // namespace meshwork::bf16_sums_test

// What is refused of quantised matrices: products with them, numbers to round, blocks in files, weights of a program.
#include "meshwork/runtime/tensor/quantized.h"

#include <cmath>
#include <string>
#include <vector>

#include "errors/errors.h"
#include "errors/in.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "meshwork/session/quantize_weights.h"
#include "meshwork/storage/gguf_file.h"
#include "support/gguf_bytes.h"
#include "support/temp_dir.h"

namespace meshwork::quantized_errors {
namespace {

TEST(QuantizedErrors, Products) {
  const auto multiply = [](Graph& g, const Type& x, const Type& q, const Type& scale, const Value& zero = {},
                           CallSite loc = CallSite::Current()) {
    return MatMulQ({In(g, x.dtype, x.shape), loc}, In(g, q.dtype, q.shape), In(g, scale.dtype, scale.shape),
                   zero);
  };
  const auto add = [](Graph& g, const Type& x, const Type& q, const Type& scale) {
    return g.Add("matmul_q",
                 {{In(g, x.dtype, x.shape), In(g, q.dtype, q.shape), In(g, scale.dtype, scale.shape)}}, {},
                 {});
  };
  const auto dequantize = [](Graph& g, const Type& q, const Type& scale, const Value& zero = {},
                             CallSite loc = CallSite::Current()) {
    return DequantizeMatrix({In(g, q.dtype, q.shape), loc}, In(g, scale.dtype, scale.shape), zero);
  };
  const Type x{F32, {4, 96}}, q{I8, {6, 3, 32}}, q4{U8, {6, 3, 16}}, scale{F16, {6, 3}};
  ExpectErrors("ops_quantized", {
                                    GRAPH_MISTAKE(multiply(g, {F32, {96}}, q, scale)),
                                    GRAPH_MISTAKE(multiply(g, {F32, {4, 64}}, q, scale)),
                                    GRAPH_MISTAKE(multiply(g, x, {I8, {2, 6, 3, 32}}, {F16, {2, 6, 3}})),
                                    GRAPH_MISTAKE(multiply(g, {I32, {4, 96}}, q, scale)),
                                    GRAPH_MISTAKE(multiply(g, x, {I32, {6, 3, 32}}, scale)),
                                    GRAPH_MISTAKE(multiply(g, x, {I8, {6, 3, 16}}, scale)),
                                    GRAPH_MISTAKE(multiply(g, x, {U8, {6, 3, 32}}, scale)),
                                    GRAPH_MISTAKE(multiply(g, x, q, {F32, {6, 3}})),
                                    GRAPH_MISTAKE(multiply(g, x, q, {F16, {6}})),
                                    GRAPH_MISTAKE(multiply(g, x, q4, scale, In(g, F16, {6, 4}))),
                                    GRAPH_MISTAKE(add(g, {F32, {4, 96}}, q, scale)),
                                    GRAPH_MISTAKE(add(g, {F32, {4, 2, 32}}, q, scale)),
                                    GRAPH_MISTAKE(add(g, {F32, {4, 3, 32}}, {I8, {3, 32}}, {F16, {3}})),
                                    GRAPH_MISTAKE(dequantize(g, {I8, {32}}, {F16, {}})),
                                    GRAPH_MISTAKE(dequantize(g, {F16, {3, 32}}, {F16, {3}})),
                                    GRAPH_MISTAKE(dequantize(g, q, {F16, {3, 6}})),
                                    GRAPH_MISTAKE(dequantize(g, q, scale, In(g, F32, {6, 3}))),
                                });
}

TEST(QuantizedErrors, Numbers) {
  const auto filled = [](float number) { return Tensor::Full({F32, {2, 64}}, number); };
  Tensor far = filled(0);
  far.mutable_values<float>()[40] = 1e7f;
  ExpectErrors("quantize_matrix", {
                                      MISTAKE(QuantizeMatrix(Tensor())),
                                      MISTAKE(QuantizeMatrix(filled(1), {.bits = 5})),
                                      MISTAKE(QuantizeMatrix(filled(1).Cast(I32))),
                                      MISTAKE(QuantizeMatrix(Tensor(1.0f))),
                                      MISTAKE(QuantizeMatrix(Tensor::Zeros({F32, {2, 48}}))),
                                      MISTAKE(QuantizeMatrix(filled(NAN))),
                                      MISTAKE(QuantizeMatrix(filled(INFINITY), {.bits = 4})),
                                      MISTAKE(QuantizeMatrix(far)),
                                      MISTAKE(QuantizeMatrix(filled(-1e5f), {.bits = 4})),
                                  });
}

using QuantizedFileErrors = TempDirTest;

TEST_F(QuantizedFileErrors, Blocks) {
  // d is 2^14, -8 d is -2^17.
  const std::string far = std::string("\x00\x74", 2) + std::string(16, '\1');
  File("f",
       EncodeGguf(
           {}, {{.name = "far", .shape = {1, 32}, .type = GgmlType::kQ4_0, .data = far},
                {.name = "floats", .shape = {1}, .data = NumberBytes(1.0f)},
                {.name = "later", .shape = {1, 256}, .type = GgmlType{14}, .data = std::string(210, '\1')}}));
  const GgufFile file = GgufFile::Open(Path("f")).value();
  ExpectErrors("gguf_blocks",
               {
                   MISTAKE(file.ReadBlocks(*file.Find("far"))),
                   MISTAKE(file.ReadBlocks(*file.Find("floats"))),
                   MISTAKE(file.ReadBlocks(*file.Find("later"))),
               },
               {{dir(), "DIR"}});
}

// An operand whose line does not move as this file changes.
Operand At(const Value& x) { return {x, CallSite("model.cc", 4)}; }

// x: [4,64] times w, as it is asked for.
Graph ProductWith(const Shape& w, const LayoutSpec& layout = {UNSHARDED, UNSHARDED}) {
  Graph g(Mesh::Parse("batch=2,model=4").value());
  g.Output("y", MatMul(g.Input("x", F32, {4, w[0]}), g.Var("w", Zeros(w), layout)));
  return g;
}

TEST_F(QuantizedFileErrors, Weights) {
  const SessionOptions one = {.workers = 1, .own_cores = false};
  const auto quantize = [](const Graph& graph, const std::string& weight = "w", int bits = 8) {
    return QuantizeWeights(graph, {.weights = {weight}, .bits = bits});
  };
  const auto with = [&](auto&& read) {
    Graph g(Mesh::Parse("batch=2,model=4").value());
    const Variable w = g.Var("w", Zeros({64, 64}));
    const Value x = g.Input("x", F32, {4, 64});
    read(g, x, w);
    return quantize(g);
  };
  ExpectErrors(
      "quantize_weights",
      {
          {"bits",
           [&] {
             return quantize(ProductWith({64, 8}), "w", 5);
           }},
          {"a misspelt name",
           [&] {
             return quantize(ProductWith({64, 8}), "v");
           }},
          {"a pattern that fits nothing",
           [&] {
             return quantize(ProductWith({64, 8}), "*/kernel");
           }},
          {"k is no multiple of 32",
           [&] {
             return quantize(ProductWith({48, 8}));
           }},
          {"an axis that does not divide the blocks",
           [&] {
             return quantize(ProductWith({96, 8}, {"model", UNSHARDED}));
           }},
          {"a strided cut of k",
           [&] {
             return quantize(ProductWith({64, 8}, {DimSpec::Factors({{2, {}}, {32, {"model"}}}), UNSHARDED}));
           }},
          {"another op",
           [&] {
             return with(
                 [](Graph& g, const Value& x, const Value& w) { g.Output("y", MatMul(x, Mul(At(w), 2.0))); });
           }},
          {"a left operand",
           [&] {
             return with([](Graph& g, const Value& x, const Value& w) {
               g.Output("y", MatMul(At(w), Transpose(x, {1, 0})));
             });
           }},
          {"columns that are looked up",
           [&] {
             return with([](Graph& g, const Value&, const Value& w) {
               g.Output("y", Gather(At(w), g.Input("i", I32, {2}), 1));
             });
           }},
          {"both ways",
           [&] {
             return with([](Graph& g, const Value& x, const Value& w) {
               g.Output("y", MatMul(At(MatMul(x, w)), w, false, /*transpose_b=*/true));
             });
           }},
          {"an output",
           [&] {
             return with([](Graph& g, const Value& x, const Value& w) {
               g.Output("y", MatMul(x, w));
               g.Output("w", w);
             });
           }},
          {"an update",
           [&] {
             return with([](Graph& g, const Value& x, const Variable& w) {
               const Value y = MatMul(x, w);
               g.Output("y", y);
               g.Update(w, MatMul(w, MatMul(x, y, true)));
             });
           }},
          {"nothing reads it",
           [&] { return with([](Graph& g, const Value& x, const Value&) { g.Output("y", x); }); }},
          {"a name that is there",
           [&] {
             return with([](Graph& g, const Value& x, const Value& w) {
               g.Var("w.q", Zeros({2}));
               g.Output("y", MatMul(x, w));
             });
           }},
          {"no matrix",
           [&] {
             Graph g(Mesh::Parse("batch=2,model=4").value());
             g.Output("y", g.Input("x", F32, {64}) * g.Var("w", Zeros({64})));
             return quantize(g);
           }},
          {"a rule with more * than its variable",
           [&] {
             return StoredInBlocks(ProductWith({64, 8}), dir(), {{.variable = "w", .tensor = "model.*"}});
           }},
          {"a part of a tensor in blocks",
           [&] {
             const std::string path = Path("model.safetensors");
             EXPECT_EQ(WriteSafetensors(path, {{"qkv.q", Tensor::Full({I8, {24, 2, 32}}, 1)}}),
                       absl::OkStatus());
             return StoredInBlocks(
                 ProductWith({64, 8}), path,
                 {{.variable = "w", .tensor = "qkv", .transpose = true, .rows = Extent{0, 8}}});
           }},
          {"numbers beyond f16",
           [&] {
             Session far = Session::Create(ProductWith({64, 8}), one).value();
             EXPECT_EQ(far.Set("w", Tensor::Full({F32, {64, 8}}, 1e8)), absl::OkStatus());
             return QuantizeSession(far, {.weights = {"w"}}, one);
           }},
      },
      {{dir(), "DIR"}});
}

}  // namespace
}  // namespace meshwork::quantized_errors

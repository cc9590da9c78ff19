// Kernels compiled ahead of time: a session on a GPU of the same architecture finds the code of all its kernels.
#include "meshwork/runtime/cuda/code_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "meshwork.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/cuda/cuda_backend.h"
#include "meshwork/runtime/cuda/cuda_context.h"
#include "support/simulated_cuda.h"
#include "support/small_session.h"
#include "support/temp_dir.h"

namespace meshwork::code_backend_test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Kernels that do nothing: these tests do not read results.
class IdleCompiler : public SimulatedCompiler {
 public:
  absl::StatusOr<std::unique_ptr<SimulatedKernels>> Compile(const std::string&) override {
    ++compiled;
    return std::make_unique<Idle>();
  }
  int64_t compiled = 0;

 private:
  class Idle : public SimulatedKernels {
    absl::Status Launch(const std::string&, Dim3, Dim3, size_t, void**) override { return absl::OkStatus(); }
  };
};

// A transformer of one layer, whose rows, attention and updates are kernels of all kinds.
Graph SmallTransformer() {
  Graph g(Mesh::VirtualCpus("batch=2,model=2").value());
  const Value tokens = g.Input("tokens", I32, {4, 8}, {"batch", UNSHARDED});
  const Value targets = g.Input("targets", I32, {4, 8}, {"batch", UNSHARDED});
  Value x = Embedding(g, "embedding", 32, 16)(tokens);
  x = x + MultiHeadAttention(g, "attention", 16, 2,
                             {.causal = true, .heads = "model"})(LayerNormalization(g, "norm", 16)(x));
  const Value loss = SparseSoftmaxCrossEntropy(Dense(g, "head", 16, 32)(x), targets);
  Adam({.learning_rate = 1e-3}).Minimize(loss);
  g.Output("loss", loss);
  return g;
}

class CodeBackendTest : public TempDirTest {
 protected:
  static SimulatedCudaOptions Options(IdleCompiler& compiler, int64_t way) {
    return {.compiler = &compiler, .has_cublas = way > 0, .declined_products = way > 1 ? 2 : 0};
  }
  // The table of functions of a machine that keeps compiled code in the folder of this test.
  std::shared_ptr<const CudaApi> ApiOf(const SimulatedCuda& cuda) const {
    CudaApi api = cuda.api();
    api.code_folder = dir() + "/codes";
    api.compile_threads = 3;
    return std::make_shared<const CudaApi>(std::move(api));
  }
};

// Without cuBLASLt, and with one that takes all or only some of the products.
TEST_F(CodeBackendTest, ARunCompilesNothing) {
  for (const bool fuse : {true, false})
    for (const Graph& graph : {SmallMlp(), SmallTransformer()})
      for (int64_t way = 0; way < 3; ++way) {
        IdleCompiler compiler;
        SimulatedCuda cuda(Options(compiler, way));
        const std::shared_ptr<const CudaApi> api = ApiOf(cuda);
        std::filesystem::remove_all(api->code_folder);
        const std::shared_ptr<CodeBackend> codes = CodeBackend::Create(api, 90);
        const absl::Status ahead =
            Session::Create(graph, {.backend = codes, .executor = {.fuse = fuse}}).status();
        ASSERT_TRUE(ahead.ok()) << ahead;
        EXPECT_GT(codes->counts().kernels, 5);
        EXPECT_EQ(codes->counts().compiled, compiler.compiled);
        const int64_t compiled = compiler.compiled;

        const std::shared_ptr<CudaBackend> gpu =
            CudaBackend::Create(CudaContext::Create(*api, 0).value()).value();
        absl::StatusOr<Session> session =
            Session::Create(graph, {.backend = gpu, .executor = {.fuse = fuse}});
        ASSERT_TRUE(session.ok()) << session.status();
        EXPECT_EQ(compiler.compiled, compiled) << way;
        EXPECT_THAT(cuda.TakeFindings(), IsEmpty());
      }
}

TEST_F(CodeBackendTest, WhatIsThereIsNotCompiledAgain) {
  IdleCompiler compiler;
  SimulatedCuda cuda(Options(compiler, 1));
  const auto compile = [&](const Graph& graph, int architecture) {
    const std::shared_ptr<CodeBackend> codes = CodeBackend::Create(ApiOf(cuda), architecture);
    EXPECT_TRUE(Session::Create(graph, {.backend = codes}).ok());
    return codes->counts();
  };
  const CodeBackend::Counts first = compile(SmallMlp(), 90), again = compile(SmallMlp(), 90);
  EXPECT_GT(first.compiled, 0);
  EXPECT_EQ(again.kernels, first.kernels);
  EXPECT_EQ(again.compiled, 0);
  EXPECT_EQ(compile(SmallMlp(), 80).compiled, first.compiled);
  const CodeBackend::Counts other = compile(SmallTransformer(), 90);
  EXPECT_GT(other.compiled, 0);
  EXPECT_LT(other.compiled, other.kernels);
}

// The steps of a CodeBackend compute nothing.
TEST_F(CodeBackendTest, ItsVariablesCannotBeRead) {
  IdleCompiler compiler;
  SimulatedCuda cuda(Options(compiler, 1));
  Session session = Session::Create(SmallMlp(), {.backend = CodeBackend::Create(ApiOf(cuda), 90)}).value();
  const absl::Status status = session.Get("first/kernel").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("it compiles kernels and runs none"));
}

TEST_F(CodeBackendTest, SaysWhatDoesNotCompile) {
  SimulatedCuda cuda;  // without a compiler
  const absl::Status status =
      Session::Create(SmallMlp(), {.backend = CodeBackend::Create(ApiOf(cuda), 90)}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr(".cu does not compile for sm_90"));
}

TEST(ArchitectureTest, IsReadFromItsName) {
  EXPECT_EQ(ParseArchitecture("sm_90").value(), 90);
  EXPECT_EQ(ParseArchitecture("sm_120").value(), 120);
  for (const char* text : {"", "90", "sm_", "sm_9", "sm_90a", "sm_-90", "compute_90", "sm_99999999999"}) {
    const absl::Status status = ParseArchitecture(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(status.message(), HasSubstr(fmt::format("\"{}\"", text)));
  }
}

// For an unknown architecture, kernels ask for no more shared memory than every GPU has.
TEST(ArchitectureTest, HasSharedMemory) {
  EXPECT_EQ(MostSharedBytes(90), 232448);
  EXPECT_EQ(MostSharedBytes(80), 166912);
  EXPECT_EQ(MostSharedBytes(89), 101376);
  EXPECT_EQ(MostSharedBytes(999), 49152);
}

}  // namespace
}  // namespace meshwork::code_backend_test

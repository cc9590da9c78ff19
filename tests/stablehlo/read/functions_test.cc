// Small functions as JAX lowers them (tests/stablehlo/from_jax/make_functions.py): what they compute here, beside what JAX recorded; on
// one device, and with their arguments in blocks.
//
// They are those of tests/stablehlo/from_jax/functions, or of the folder MESHWORK_JAX_FUNCTIONS.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "meshwork/base/io/file.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/tensor/tensor_compare.h"
#include "meshwork/session/session.h"
#include "meshwork/stablehlo/read/read_stablehlo.h"
#include "meshwork/storage/npy.h"

namespace meshwork::read_functions_test {
namespace {

std::string Folder() {
  const char* const folder = std::getenv("MESHWORK_JAX_FUNCTIONS");
  return folder == nullptr ? fmt::format("{}/stablehlo/from_jax/functions", MESHWORK_TEST_DIR) : folder;
}

// The paths without the end ".mlir".
std::vector<std::string> Functions() {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(Folder()))
    if (entry.path().extension() == ".mlir")
      paths.push_back(entry.path().parent_path() / entry.path().stem());
  std::sort(paths.begin(), paths.end());
  return paths;
}

absl::Status TryFunction(const std::string& path, const ReadStableHloOptions& options) {
  MESHWORK_ASSIGN_OR_RETURN(const std::string text, ReadFile(path + ".mlir"));
  MESHWORK_ASSIGN_OR_RETURN(const auto arrays, ReadNpz(path + ".npz"));
  std::map<std::string, Tensor> recorded(arrays.begin(), arrays.end());
  MESHWORK_ASSIGN_OR_RETURN(const Graph graph, ReadStableHlo(text, options));
  MESHWORK_ASSIGN_OR_RETURN(Session session, Session::Create(graph));
  Feeds feeds;
  for (size_t a = 0; a < graph.arguments().size(); ++a) {
    const Tensor& tensor = recorded.at(fmt::format("a{}", a));
    const DType dtype = graph.value(graph.arguments()[a].value).type.dtype;
    feeds.emplace(graph.argument_name(static_cast<int>(a)),
                  tensor.dtype() == dtype ? tensor : tensor.Cast(dtype));
  }
  MESHWORK_ASSIGN_OR_RETURN(const StepResult step, session.Run(feeds));
  for (size_t r = 0; r < graph.outputs().size(); ++r) {
    MESHWORK_ASSIGN_OR_RETURN(const Tensor seen, step.Get(graph.outputs()[r].name));
    const Tensor& expected = recorded.at(fmt::format("r{}", r));
    double largest = 1;  // rounding is that of the terms of sums
    const Tensor numbers = expected.Cast(F64);
    for (const double number : numbers.values<double>())
      if (std::isfinite(number)) largest = std::max(largest, std::abs(number));
    const bool is_narrow = seen.dtype() == BF16 || seen.dtype() == F16;
    const absl::Status close = AllClose(
        seen, expected,
        {.rtol = is_narrow ? 1e-2 : 1e-5, .atol = (is_narrow ? 1e-3 : 1e-6) * largest, .equal_nan = true});
    MESHWORK_RETURN_IF_ERROR(Annotate(close, fmt::format("result {}: ", r)));
  }
  return absl::OkStatus();
}

void TryAll(const ReadStableHloOptions& options) {
  const std::vector<std::string> functions = Functions();
  ASSERT_FALSE(functions.empty()) << Folder();
  for (const std::string& path : functions) EXPECT_EQ(TryFunction(path, options), absl::OkStatus()) << path;
}

TEST(ReadFunctionsTest, OnOneDevice) { TryAll({}); }

TEST(ReadFunctionsTest, WithArgumentsInBlocks) {
  TryAll({.mesh = Mesh::Parse("batch=2,model=2").value(), .layouts = {.open = true, .batch = {"batch"}}});
}

}  // namespace
}  // namespace meshwork::read_functions_test

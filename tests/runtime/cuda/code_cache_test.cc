#include "meshwork/runtime/cuda/code_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "meshwork/base/status.h"
#include "support/environment.h"
#include "support/temp_dir.h"

#ifdef MESHWORK_HAVE_CUDA
#include "runtime/cuda/gpu_fixture.h"
#endif

namespace meshwork::code_cache_test {
namespace {

class CodeCacheTest : public TempDirTest {};

TEST_F(CodeCacheTest, TheEnvironmentNamesTheFolder) {
  EXPECT_EQ(CodeFolder(EnvironmentOf({})), "");
  EXPECT_EQ(CodeFolder(EnvironmentOf({{"HOME", "/h"}})), "/h/.cache/meshwork/cuda");
  EXPECT_EQ(CodeFolder(EnvironmentOf({{"HOME", "/h"}, {"XDG_CACHE_HOME", "/x"}})), "/x/meshwork/cuda");
  EXPECT_EQ(
      CodeFolder(EnvironmentOf({{"HOME", "/h"}, {"XDG_CACHE_HOME", "/x"}, {"MESHWORK_CUDA_CACHE", "/c"}})),
      "/c");
  EXPECT_EQ(CodeFolder(EnvironmentOf({{"HOME", "/h"}, {"MESHWORK_CUDA_CACHE", "off"}})), "");
  EXPECT_EQ(CodeFolder(EnvironmentOf({{"HOME", "/h"}, {"XDG_CACHE_HOME", ""}, {"MESHWORK_CUDA_CACHE", ""}})),
            "/h/.cache/meshwork/cuda");
}

TEST_F(CodeCacheTest, EachOriginHasAPathOfItsOwn) {
  const std::vector<std::string> none, one = {"-a -b"}, two = {"-a", "-b"}, others = {"-b", "-a"};
  std::set<std::string> paths;
  int origins = 0;
  for (int version : {12090, 13000})
    for (int architecture : {80, 90})
      for (const auto* options : {&none, &one, &two, &others})
        for (const char* source : {"", "// a", "2 -b\n// a"})
          for (const char* build : {"", "65be"}) {
            paths.insert(CodePath("/c", {version, architecture, *options, source, build}));
            ++origins;
          }
  EXPECT_EQ(std::ssize(paths), origins);
  EXPECT_THAT(*paths.begin(), testing::MatchesRegex("/c/[0-9a-f]+\\.code"));
}

TEST_F(CodeCacheTest, KeepsAnyBytes) {
  const std::string code("\0code\n\xff\0", 8), path = Path("a/b/x.code");
  EXPECT_EQ(ReadCode(path), std::nullopt);
  KeepCode(path, code);
  EXPECT_EQ(ReadCode(path), code);
  KeepCode(path, "other");
  EXPECT_EQ(ReadCode(path), "other");
  EXPECT_EQ(ReadCode(Path("a")), std::nullopt);  // a folder
}

TEST_F(CodeCacheTest, AFileThatIsDamagedIsAsNone) {
  const std::string path = Path("x.code");
  KeepCode(path, "the code");
  std::ifstream file(path, std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  ASSERT_EQ(whole.size(), 64u + 8u);
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] ^= 1;
    EXPECT_EQ(ReadCode(File("x.code", damaged)), std::nullopt) << i;
    EXPECT_EQ(ReadCode(File("x.code", whole.substr(0, i))), std::nullopt) << i;
  }
  EXPECT_EQ(ReadCode(File("x.code", whole + "+")), std::nullopt);
  EXPECT_EQ(ReadCode(File("x.code", whole)), "the code");
}

TEST_F(CodeCacheTest, AFolderThatCannotBeMadeIsNoError) {
  const std::string path = File("file", "text") + "/x.code";
  KeepCode(path, "code");
  EXPECT_EQ(ReadCode(path), std::nullopt);
  EXPECT_EQ(NumFiles(), 1);
}

#ifdef MESHWORK_HAVE_CUDA

const CudaSource kSource{"add.cu", "// add", {"--std=c++17"}};

class CompileOnceTest : public TempDirTest {
 protected:
  CompileOnceTest() : cuda_({.compiler = &compiler_}), api_(cuda_.api()) {
    api_.code_folder = dir() + "/cuda";
  }

  // Compiles; `asked` tells whether NVRTC was called. Returns "" if nothing could be compiled.
  std::string Compile(const CudaSource& source, bool& asked, int architecture = 90) {
    cuda_.FailCall("nvrtcCreateProgram", 1);
    absl::StatusOr<std::string> code = CompileCuda(api_, architecture, source);
    asked = !cuda_.failed_call().empty();
    if (asked) code = CompileCuda(api_, architecture, source);
    EXPECT_TRUE(code.ok()) << code.status();
    return code.value_or("");
  }
  std::filesystem::path TheFile() const {
    const std::filesystem::directory_iterator files(api_.code_folder);
    EXPECT_EQ(std::distance(begin(files), end(files)), 1);
    return *std::filesystem::directory_iterator(api_.code_folder);
  }

  FunctionCompiler compiler_{GpuFunctions()};
  SimulatedCuda cuda_;
  CudaApi api_;
};

TEST_F(CompileOnceTest, TheSecondTimeNvrtcIsNotCalled) {
  bool asked = false;
  const std::string code = Compile(kSource, asked);
  EXPECT_TRUE(asked);
  cuda_.FailAnyCall(1);
  EXPECT_EQ(CompileCuda(api_, 90, kSource).value(), code);
  EXPECT_EQ(cuda_.failed_call(), "");
  CudaSource renamed = kSource;
  renamed.name = "of_another_step.cu";
  EXPECT_EQ(CompileCuda(api_, 90, renamed).value(), code);
  EXPECT_EQ(cuda_.failed_call(), "");
}

TEST_F(CompileOnceTest, WhatDiffersIsCompiled) {
  bool asked = false;
  Compile(kSource, asked);
  Compile(kSource, asked, 80);
  EXPECT_TRUE(asked);
  CudaSource other = kSource;
  other.options.emplace_back("--fmad=false");
  Compile(other, asked);
  EXPECT_TRUE(asked);
  other = kSource;
  other.text += "\n";
  Compile(other, asked);
  EXPECT_TRUE(asked);
  api_.nvrtc_version = 12090;
  Compile(kSource, asked);
  EXPECT_TRUE(asked);
  api_.nvrtc_build = "65be0db3";
  Compile(kSource, asked);
  EXPECT_TRUE(asked);
  Compile(kSource, asked);
  EXPECT_FALSE(asked);
}

TEST_F(CompileOnceTest, WhatIsDamagedIsCompiledAgain) {
  bool asked = false;
  Compile(kSource, asked);
  std::filesystem::resize_file(TheFile(), 70);
  Compile(kSource, asked);
  EXPECT_TRUE(asked);
  Compile(kSource, asked);
  EXPECT_FALSE(asked);
}

TEST_F(CompileOnceTest, WithoutAFolderItIsCompiledEachTime) {
  for (const std::string& folder : {std::string(), File("file", "text") + "/cuda"}) {
    api_.code_folder = folder;
    for (int time = 0; time < 2; ++time) {
      bool asked = false;
      Compile(kSource, asked);
      EXPECT_TRUE(asked) << folder;
    }
  }
  EXPECT_EQ(NumFiles(), 1);
}

TEST_F(CompileOnceTest, WhatDoesNotCompileIsNotKept) {
  EXPECT_FALSE(CompileCuda(api_, 90, {"a.cu", "", {"no option"}}).ok());
  EXPECT_EQ(NumFiles(), 0);
}

// Function tables of tests do not write into the home directory.
TEST_F(CompileOnceTest, OtherTablesKeepNothing) {
  EXPECT_EQ(cuda_.api().code_folder, "");
  EXPECT_EQ(LoadCudaApi(cuda_.loader())->code_folder, "");
}

#endif  // MESHWORK_HAVE_CUDA

}  // namespace
}  // namespace meshwork::code_cache_test

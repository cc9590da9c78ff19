// Kernels of a simulated GPU that are C++ functions, by name. They are called once per launch.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "support/simulated_compiler.h"

namespace meshwork {

struct SimulatedLaunch {
  Dim3 grid, block;
  size_t shared_bytes = 0;
  void** args = nullptr;

  template <typename T>
  T Argument(int i) const {
    return *static_cast<const T*>(args[i]);
  }
};
using SimulatedFunctions = std::map<std::string, std::function<absl::Status(const SimulatedLaunch&)>>;

// Every source has the same kernels; one with "#error" does not compile.
class FunctionCompiler : public SimulatedCompiler {
 public:
  explicit FunctionCompiler(SimulatedFunctions functions) : functions_(std::move(functions)) {}

  absl::StatusOr<std::unique_ptr<SimulatedKernels>> Compile(const std::string& source) override {
    if (source.find("#error") != std::string::npos)
      return absl::InvalidArgumentError(
          "kernel.cu(2): error: #error directive\n1 error detected in the compilation.");
    return std::make_unique<Kernels>(functions_);
  }

 private:
  class Kernels : public SimulatedKernels {
   public:
    explicit Kernels(const SimulatedFunctions& functions) : functions_(functions) {}
    bool Has(const std::string& name) const override { return functions_.contains(name); }
    absl::Status Launch(const std::string& name, Dim3 grid, Dim3 block, size_t shared_bytes,
                        void** args) override {
      return functions_.at(name)({.grid = grid, .block = block, .shared_bytes = shared_bytes, .args = args});
    }

   private:
    const SimulatedFunctions functions_;
  };

  const SimulatedFunctions functions_;
};

}  // namespace meshwork

// A program that predicts by a saved program, and links no room for training: use_saved FOLDER FUNCTION [MESH].
// Feeds Patterned and prints whether it runs as saved, and the first number of each output.
#include <cstdio>
#include <string>

#include "fmt/format.h"
#include "meshwork/base/status.h"
#include "meshwork/session/saved/saved_program.h"
#include "session/saved/patterned.h"

namespace meshwork {
namespace {

absl::Status Use(const std::string& folder, const std::string& function, const char* mesh) {
  LoadOptions options{.session = {.workers = 1, .own_cores = false}};
  if (mesh != nullptr) {
    MESHWORK_ASSIGN_OR_RETURN(options.mesh, Mesh::Parse(mesh));
  }
  MESHWORK_ASSIGN_OR_RETURN(SavedProgram program, SavedProgram::Load(folder, options));
  fmt::print("as_saved {}\n", program.runs_as_saved() ? 1 : 0);
  for (const SavedFunction& known : program.functions()) {
    if (known.name != function) continue;
    Feeds feeds;
    for (const SavedTensor& input : known.inputs) feeds.emplace(input.name, Patterned(input.type));
    MESHWORK_ASSIGN_OR_RETURN(const StepResult result, program.Predict(feeds, function));
    for (const SavedTensor& output : known.outputs) {
      MESHWORK_ASSIGN_OR_RETURN(const Tensor tensor, result.Get(output.name));
      const Tensor first = tensor.Reshaped({tensor.num_elements()}).Rows(0, 1);
      fmt::print("{} {}\n", output.name, DispatchAny(first.dtype(), [&](auto zero) {
                   return static_cast<double>(first.values<decltype(zero)>()[0]);
                 }));
    }
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace meshwork

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const absl::Status status = meshwork::Use(argv[1], argv[2], argc > 3 ? argv[3] : nullptr);
  if (!status.ok()) fmt::print(stderr, "{}\n", meshwork::MessageOf(status));
  return status.ok() ? 0 : 1;
}

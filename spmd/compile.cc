#include "meshwork/spmd/compile.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "meshwork/base/check_border.h"
#include "meshwork/base/log.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/text.h"
#include "meshwork/mesh/placement.h"
#include "meshwork/spmd/passes.h"
#include "meshwork/spmd/shard_weight_update.h"
#include "meshwork/verify/check_global.h"
#include "meshwork/verify/verify.h"

namespace meshwork {

namespace {

absl::Status CheckOptions(const Graph& global, const CompileOptions& options) {
  if (options.memory_budget < 0)
    return InvalidArgument("Compile: memory_budget={}; give bytes per device, or 0 for no limit.",
                           options.memory_budget);
  if (options.replication_budget < 0)
    return InvalidArgument("Compile: replication_budget={}; give bytes, 0 to gather nothing unasked.",
                           options.replication_budget);
  if (absl::Status status = Placement::Create(global.mesh(), options.num_domains).status(); !status.ok())
    return Annotate(status, "Compile: ");
  return absl::OkStatus();
}

absl::Status Verified(const Graph& global, const CompileOptions& options, Program& program) {
  const Graph* asked = &global;
  std::optional<Graph> with_state;
  if (!program.sharded_state.empty()) asked = &with_state.emplace(WithShardedState(global, program));
  const auto start = std::chrono::steady_clock::now();
  absl::Status status = Verify(*asked, program.body, {.narrow_sums = options.narrow_sums}).status();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  program.verify_seconds = seconds.count();
  return status;
}

// One run of the passes, and the proof of what they made.
struct Attempt {
  Passed passed;
  bool is_wrong = false;       // it does not verify, or a CHECK failed; passed.status then says why
  bool is_broken_off = false;  // a CHECK failed

  bool ok() const { return passed.status.ok(); }
};

Attempt Try(const Graph& global, const CompileOptions& options, const PassControl& control) {
  Attempt attempt{{.program = {.body = Graph(global.mesh())}}};
  const CheckBorder border;
  try {
    attempt.passed = RunPasses(global, options, control);
    if (!attempt.ok() || !options.verify) return attempt;
    attempt.passed.status = Verified(global, options, attempt.passed.program);
    attempt.is_wrong = !attempt.ok();
  } catch (const CheckFailure& failure) {
    attempt.passed.status = absl::InternalError(failure.what());
    attempt.is_wrong = attempt.is_broken_off = true;
  }
  return attempt;
}

// Writes the program to a file for temporary files, and says so; "" if that cannot be done.
std::string SaveProgram(const Graph& global) {
  std::error_code error;
  std::string path = (std::filesystem::temp_directory_path(error) / "meshwork-bug-XXXXXX.mw").string();
  const int file = error ? -1 : mkstemps(path.data(), /*suffix=*/3);
  if (file < 0) return "";
  const std::string text = PrintGraph(global);
  const bool is_written = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(file);
  return is_written ? fmt::format(" The program is in {}.", path) : "";
}

bool Refuses(WrongPass wrong_pass) {
  if (wrong_pass != WrongPass::kByEnvironment) return wrong_pass == WrongPass::kRefuse;
  if (const char* strict = std::getenv("MESHWORK_STRICT"); strict != nullptr && *strict != '\0')
    return std::string_view(strict) != "0";
#ifdef NDEBUG
  return false;
#else
  return true;
#endif
}

// A smallest set of passes without which the program verifies: with any one of them it does not. All optional passes
// are tried, because a pass that changed nothing may do so once another pass is left out. The pass that the memory
// budget needs stays if possible. Empty if the program does not verify even without all optional passes.
std::vector<std::string> ToLeaveOut(const Graph& global, const CompileOptions& options,
                                    const PassControl& control, const Attempt& wrong) {
  CompileOptions quiet = options;
  quiet.dump = nullptr;
  auto verifies = [&](std::span<const std::string> passes) {
    PassControl without = control;
    without.left_out.insert(without.left_out.end(), passes.begin(), passes.end());
    return Try(global, quiet, without).ok();
  };
  for (const std::string& pass : wrong.passed.optional)
    if (verifies({&pass, 1})) return {pass};
  std::vector<std::string> passes = OptionalPasses();
  std::erase(passes, "fit_memory");
  if (!verifies(passes)) {
    passes = OptionalPasses();
    if (!verifies(passes)) return {};
  }
  for (const std::string& pass : std::vector<std::string>(passes)) {
    std::vector<std::string> fewer = passes;
    std::erase(fewer, pass);
    if (!fewer.empty() && verifies(fewer)) passes = std::move(fewer);
  }
  return passes;
}

void Warn(const CompileOptions& options, const Program& program) {
  const std::string line = LeftOutWarning(program.body.name, program.left_out);
  if (options.warn) options.warn(line);
  else LogText(LogLevel::kWarning, line);
}

absl::StatusOr<Program> TryCompile(const Graph& global, const CompileOptions& options,
                                   const PassControl& control) {
  MESHWORK_RETURN_IF_ERROR(global.status());
  if (absl::Status status = CheckGlobal(global); !status.ok()) return Annotate(status, "Compile: ");
  MESHWORK_RETURN_IF_ERROR(CheckOptions(global, options));
  if (absl::Status status = options.topology.CheckDescribes(global.mesh()); !status.ok())
    return Annotate(status, "Compile: ");
  Attempt attempt = Try(global, options, control);
  if (attempt.ok()) return std::move(attempt.passed.program);
  if (!attempt.is_wrong) return attempt.passed.status;
  const std::string error(MessageOf(attempt.passed.status));
  std::vector<std::string> left_out;
  if (!Refuses(options.wrong_pass)) left_out = ToLeaveOut(global, options, control, attempt);
  if (left_out.empty())
    return absl::InternalError(
        attempt.is_broken_off
            ? fmt::format("Compile: meshwork bug, please report it: {}.{}", error, SaveProgram(global))
            : fmt::format("Compile made a wrong program; please report it. {}{}", error,
                          SaveProgram(global)));
  PassControl without = control;
  without.left_out.insert(without.left_out.end(), left_out.begin(), left_out.end());
  attempt = Try(global, options, without);
  MESHWORK_CHECK(attempt.ok(), "a compile that gave another program the second time");
  for (std::string& pass : left_out) attempt.passed.program.left_out.push_back({std::move(pass), error});
  Warn(options, attempt.passed.program);
  return std::move(attempt.passed.program);
}

}  // namespace

absl::StatusOr<Program> CompileWith(const Graph& global, const CompileOptions& options,
                                    const PassControl& control) {
  return CatchChecks("Compile", [&] { return TryCompile(global, options, control); });
}

absl::StatusOr<Program> Compile(const Graph& global, const CompileOptions& options) {
  return CompileWith(global, options, {});
}

}  // namespace meshwork

// meshwork checkpoint diff.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <set>
#include <string>
#include <utility>

#include "meshwork/base/quote.h"
#include "meshwork/base/status.h"
#include "tools/cli/checkpoint_commands.h"
#include "tools/cli/program_file.h"
#include "tools/cli/progress_line.h"
#include "tools/cli/tensor_difference.h"
#include "tools/cli/tensor_source.h"

namespace meshwork::tools {
namespace {

// Facts or metrics that are not the same in both.
template <typename Map>
std::string DifferentNotes(std::string_view what, const Map& a, const Map& b) {
  std::set<std::string> names;
  for (const Map* map : {&a, &b})
    for (const auto& [name, value] : *map) names.insert(name);
  std::string out;
  for (const std::string& name : names) {
    const auto show = [&](const Map& map) {
      const auto found = map.find(name);
      return found == map.end() ? std::string("none") : Printable(fmt::format("{}", found->second));
    };
    if (show(a) != show(b)) out += fmt::format("{} {}: {} and {}\n", what, Printable(name), show(a), show(b));
  }
  return out;
}

std::string DifferentNotes(const TensorSource& a, const TensorSource& b) {
  if (a.checkpoint() == nullptr || b.checkpoint() == nullptr) return "";
  const CheckpointIndex &left = a.checkpoint()->index(), &right = b.checkpoint()->index();
  return (left.step == right.step ? "" : fmt::format("step: {} and {}\n", left.step, right.step)) +
         DifferentNotes("fact", left.facts, right.facts) +
         DifferentNotes("metric", left.metrics, right.metrics);
}

std::string OnlyIn(const TensorSource& source, const TensorSource& other) {
  std::string out;
  for (const auto& [name, type] : source.types())
    if (!other.types().contains(name))
      out += fmt::format("only in {}: {} {}\n", source.path(), Printable(name), type.ToString());
  return out;
}

// Prints what differs; returns the number of variables that are not the same in both.
absl::StatusOr<int64_t> PrintDifferences(const TensorSource& a, const TensorSource& b) {
  fmt::print("{}{}{}", DifferentNotes(a, b), OnlyIn(a, b), OnlyIn(b, a));
  int64_t bytes = 0, common = 0, same = 0;
  for (const auto& [name, type] : a.types()) bytes += type.bytes();
  ProgressLine progress("comparing", bytes);
  for (const auto& [name, type] : a.types()) {
    const auto other = b.types().find(name);
    if (other == b.types().end()) continue;
    ++common;
    if (type != other->second) {
      fmt::print("{}: {} and {}\n", Printable(name), type.ToString(), other->second.ToString());
      continue;
    }
    MESHWORK_ASSIGN_OR_RETURN(const TensorDifference difference, Difference(a, b, name, progress));
    if (difference.elements == 0) ++same;
    else fmt::print("{}: {}: {}\n", Printable(name), type.ToString(), Describe(difference, type));
  }
  const int64_t all = std::ssize(a.types()) + std::ssize(b.types()) - common;
  fmt::print("{} of {} the same\n", same, Count(all, "variable"));
  return all - same;
}

// FAILED_PRECONDITION: they differ.
absl::Status Compare(const std::string& first, const std::string& second) {
  MESHWORK_ASSIGN_OR_RETURN(const TensorSource a, TensorSource::Open(first));
  MESHWORK_ASSIGN_OR_RETURN(const TensorSource b, TensorSource::Open(second));
  const absl::StatusOr<int64_t> different = PrintDifferences(a, b);
  if (!different.ok()) return BadInput(different.status());
  if (std::fflush(stdout) != 0) return InvalidArgument("standard output: {}.", std::strerror(errno));
  if (*different == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format("{} and {} differ.", a.path(), b.path()));
}

}  // namespace

absl::Status DiffCheckpoints(Arguments args) {
  std::string a, b;
  FlagTable flags(
      "meshwork checkpoint diff",
      "Compares the variables of two checkpoints, bit by bit: names that only one of them has; types that\n"
      "differ; and how many elements of a variable differ, and by how much at most. Neither is read as a\n"
      "whole. Step, facts and metrics are compared and do not count. Each may also be a safetensors file,\n"
      "as meshwork checkpoint convert writes it.\n\n"
      "Exit code 0: the variables are the same. 1: they are not. 2: they could not be compared.");
  flags.Positional("A", kCheckpointHelp, &a);
  flags.Positional("B", "what A is compared with", &b);
  if (const auto done = Parse(flags, args)) return *done;
  return Compare(a, b);
}

}  // namespace meshwork::tools

// A libFuzzer target: any text, read as TF_CONFIG or as a cluster's file, gives an error or a cluster whose
// processes agree on each process's role.
//
// --prepare writes the initial corpus.
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

#include "fuzz/fuzzer.h"
#include "meshwork/base/status.h"
#include "meshwork/mesh/cluster.h"
#include "meshwork/mesh/placement.h"

namespace meshwork {
namespace {

constexpr std::string_view kSamples[] = {
    R"({"cluster": {"chief": ["a:1"], "worker": ["b:1", "[::1]:65535"], "ps": ["c:2"]},
        "task": {"type": "worker", "index": 1, "trial": ""}, "environment": "cloud"})",
    R"({"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "evaluator", "index": 0}})",
    R"({"cluster": {"worker": ["a:1", "b:1"], "evaluator": ["c:1"]}})"};

void Check(const absl::StatusOr<Cluster>& cluster, std::string_view name, std::string_view text) {
  if (!cluster.ok()) {
    if (!MessageOf(cluster.status()).starts_with(name))
      Finding("an error that does not say where", MessageOf(cluster.status()));
    return;
  }
  const Task own = cluster->task();
  if (cluster->num_processes() < 1 || own.index < 0 || own.index >= cluster->count(own.role))
    Finding("a task that is not in the cluster", text);
  const bool holds = own.role == Role::kChief || own.role == Role::kWorker;
  if (holds != (cluster->process() >= 0)) Finding("a role and a process that disagree", text);
  for (int64_t p = 0; p < cluster->num_processes(); ++p) {
    if (cluster->AddressOf(cluster->TaskOf(p)).empty()) Finding("a process that nobody can reach", text);
    if ((p == cluster->process()) != (cluster->TaskOf(p) == own)) Finding("two processes that are one", text);
  }
  const absl::StatusOr<Placement> placement = Placement::Create(Mesh::Parse("x=12").value(), *cluster);
  if (placement.ok() && placement->num_domains() != cluster->num_processes())
    Finding("a process without a domain", text);
}

}  // namespace

void Try(std::string_view text) {
  Check(Cluster::FromTfConfig(text), "TF_CONFIG", text);
  // The first line is MESHWORK_TASK, the rest is the file.
  const size_t end = text.find('\n');
  if (end == std::string_view::npos) return;
  const auto environment = [task = std::string(text.substr(0, end))](const std::string&) {
    return std::optional<std::string>(task);
  };
  const absl::StatusOr<Cluster> cluster = Cluster::FromFile(text.substr(end + 1), "file", environment);
  Check(cluster, MessageOf(cluster.status()).starts_with("MESHWORK_TASK") ? "MESHWORK_TASK" : "file", text);
}

void Prepare(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder / "samples");
  int count = 0;
  for (std::string_view sample : kSamples)
    for (std::string_view task : {"", "worker:1\n"})
      std::ofstream(folder / "samples" / fmt::format("{}.json", count++)) << task << sample;
}

}  // namespace meshwork

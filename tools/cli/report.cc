// meshwork report.
#include <filesystem>
#include <string>
#include <vector>

#include "meshwork/base/io/file.h"
#include "meshwork/base/status.h"
#include "meshwork/tools/report/html_report.h"
#include "meshwork/tools/simulate/process.h"
#include "tools/cli/commands.h"
#include "tools/cli/program_file.h"

namespace meshwork::tools {
namespace {

// "step.html" for "programs/step.mw"; for standard input, by the name of the program.
std::string PageOf(const std::string& file, const Graph& global) {
  return (file == "-" ? global.name : std::filesystem::path(file).stem().string()) + ".html";
}

}  // namespace

absl::Status Report(Arguments args) {
  std::string topology, machine, output;
  ProgramChoice choice;
  HtmlReportOptions options;
  FlagTable flags(
      "meshwork report",
      "Writes a page for a browser, one HTML file that needs no network: the program as a graph, coloured\n"
      "by layouts, every collective and why it is there, when what runs, what a device holds, and which\n"
      "layouts would be cheaper. A click on a collective shows its line, the rule that needs it and the\n"
      "cheapest change that avoids it.");
  AddProgram(flags, choice);
  AddCompile(flags, options.compile, topology);
  flags.Text("machine", "a JSON file: how fast a device computes (docs/tools.md); the time line is by it",
             &machine);
  flags.Int("alternatives", "so many cheaper layouts are looked for, which takes some more compiles; 0: none",
            &options.alternatives, /*at_least=*/0, /*at_most=*/64);
  flags.Text("output", "the page; - is standard output; empty: FILE's name with .html, in this folder",
             &output);
  if (const auto done = Parse(flags, args)) return *done;
  const std::vector<GivenFile> inputs = {
      {"FILE", choice.file}, {"--machine", machine}, {"--topology", topology}};
  MESHWORK_RETURN_IF_ERROR(CheckFiles(inputs, {}));
  MESHWORK_ASSIGN_OR_RETURN(const Graph global, ReadProgram(choice));
  MESHWORK_ASSIGN_OR_RETURN(options.compile.topology, ReadTopology(global.mesh(), topology));
  MESHWORK_ASSIGN_OR_RETURN(options.machine, ReadMachine(machine));
  if (options.machine.workers > 0)
    return InvalidArgument(
        "--machine: {} is a process, whose {} do the work of all its devices; meshwork simulate knows its times. Here, "
        "name a machine without \"workers\".",
        NameOf(machine), Count(options.machine.workers, "worker"));
  const std::string page = output.empty() ? PageOf(choice.file, global) : output;
  MESHWORK_RETURN_IF_ERROR(CheckFiles(inputs, {{"--output", page, "report.html"}}));
  if (page != "-") MESHWORK_RETURN_IF_ERROR(BadInput(Annotate(CheckWritable(page), "--output: ")));
  MESHWORK_ASSIGN_OR_RETURN(const Program program, CompileWithin(global, options.compile));
  options.machine.topology = options.compile.topology;
  MESHWORK_RETURN_IF_ERROR(SimulateOn(program, options.machine).status());  // its times must be finite
  const std::string html = HtmlReport(global, program, options);
  if (page == "-") {
    fmt::print("{}", html);
    return absl::OkStatus();
  }
  MESHWORK_RETURN_IF_ERROR(WriteFileAtomically(page, html));
  fmt::print("wrote {}\n", page);
  return absl::OkStatus();
}

}  // namespace meshwork::tools

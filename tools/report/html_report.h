// A page that shows the result of a compile: the program as a graph, coloured by layouts; every collective and why it
// is there; the time line; the memory of a device; layouts that would be cheaper.
//
//   MESHWORK_ASSIGN_OR_RETURN(const Program program, Compile(graph, {.topology = topology}));
//   MESHWORK_RETURN_IF_ERROR(WriteFileAtomically(
//       "step.html", HtmlReport(graph, program, {.compile = {.topology = topology}})));
//
// The page is one HTML file, which needs no network: a browser opens it from a disk or from an attachment of a mail. A
// click on a collective – in the graph, in the table or on the time line – says which line needs it, by which rule and
// why, and which change of one layout would avoid it or make it cheaper. The page can be used by keyboard alone, and is
// dark or light as the reader's system is.
//
// Times are Simulate's (tools/simulate/simulate.h). With the assumed topology (mesh/topology.h) they compare programs
// and predict nothing; the page says so.
//
// Thread-safe: a pure function. The same arguments give the same bytes.
#pragma once

#include <cstdint>
#include <string>

#include "meshwork/ir/graph.h"
#include "meshwork/ir/program.h"
#include "meshwork/spmd/compile.h"
#include "meshwork/tools/simulate/machine.h"

namespace meshwork {

struct HtmlReportOptions {
  // The options with which the program was compiled.
  CompileOptions compile = {};
  // The speed of a device, for the time line. The links are compile.topology's; `workers` is ignored.
  Machine machine = {};
  // The most cheaper layouts that are shown. The search takes a compile for each of them, and for some that turn out
  // not to be cheaper (spmd/auto/cheaper_layouts.h). 0: no search.
  int64_t alternatives = 16;
};

// The page. REQUIRES: `program` is the result of Compile(global, options.compile).
std::string HtmlReport(const Graph& global, const Program& program, const HtmlReportOptions& options = {});

// The data of the page, as one JSON object.
std::string ReportJson(const Graph& global, const Program& program, const HtmlReportOptions& options = {});

}  // namespace meshwork

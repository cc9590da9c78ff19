// The text of a program says all there is to say: Parse(Print(g)) == g, and is canonical: Print(Parse(Print(g))) ==
// Print(g).
//
// support/read_back.cc and support/read_back_compile.cc check this for every program that any test parses,
// prints, checks with Graph::status or compiles, and for the result of each pass of that compile.
#pragma once

#include <string>

#include "meshwork/ir/graph.h"

namespace meshwork {

// The difference after `graph` is printed and read again, or "".
std::string ReadBackError(const Graph& graph);

// Fails the running test if `graph`, described by `what`, does not read back. Does nothing while a check is
// already running.
void ExpectReadsBack(const std::string& what, const Graph& graph);

}  // namespace meshwork

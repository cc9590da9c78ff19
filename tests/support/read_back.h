// The text of a program says all there is to say: Parse(Print(g)) == g, and is canonical: Print(Parse(Print(g))) == Print(g).
//
// support/read_back.cc and support/read_back_compile.cc check it, unasked, for every program that any test
// parses, prints, checks with Graph::status or compiles, and for what each pass of that compile makes of it.
#pragma once

#include <string>

#include "meshwork/ir/graph.h"

namespace meshwork {

// What is lost when `graph` is printed and read again, or "".
std::string ReadBackError(const Graph& graph);

// Fails the running test if `graph`, which is `what`, does not read back. Silent while it is checking
// already.
void ExpectReadsBack(const std::string& what, const Graph& graph);

}  // namespace meshwork

// Random global programs with hostile texts, to test what reads, compiles, proves and runs
// programs.
//   HostileProgram program = DrawHostile(/*seed=*/7);   // the same on every machine
//   ParseGraph(program.text)                            // reads, but may be refused by all that follows
//
// Statements are made from the rows: operands and attributes as samples have them, of which one or several
// are changed: dims that are out of range, repeated or negative, the ends of int64, other lengths, dtypes and
// layouts, NaN; tensors without elements, and far too large ones. A statement that the parser refuses is left
// out of the program, so that those behind it are tried, too. Loops, branches and manual regions have bodies
// of such statements.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace meshwork {

struct HostileProgram {
  std::string text;
  bool ends = true;  // no while of it may run for ever
};

// `trying` gets every text before it is parsed.
using Trying = std::function<void(const std::string& text)>;
HostileProgram DrawHostile(uint64_t seed, const Trying& trying = nullptr);

// The text of a local program with some of its numbers, names, layouts and lines changed.
std::string DrawHostileLocal(const std::string& text, uint64_t seed);

// Says what the library does wrong with the text, which need not be valid, or "": every error must blame the
// user and name the place; a program that is accepted must compile, be proven, and run, if it is small, without
// a crash. A crash ends the process. Also tries gradients, other batch sizes and changed local programs.
std::string TryHostile(const HostileProgram& program, uint64_t seed, const Trying& trying = nullptr);

}  // namespace meshwork

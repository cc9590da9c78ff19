// Random texts of global programs that mean no good, for what reads, compiles, proves and runs programs.
//
//   HostileProgram program = DrawHostile(/*seed=*/7);   // the same on every machine
//   ParseGraph(program.text)                            // reads, but may be refused by all that follows
//
// Statements are made from the rows: operands and attributes as samples have them, then one or several
// changed: dims that are out of range, stand twice or are negative, the ends of int64, other lengths, dtypes,
// layouts, NaN; tensors without elements, and ones far too large. A statement that the parser refuses is left
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

// `trying` is told of every text before it is parsed.
using Trying = std::function<void(const std::string& text)>;
HostileProgram DrawHostile(uint64_t seed, const Trying& trying = nullptr);

// The text of a local program with some of its numbers, names, layouts and lines changed.
std::string DrawHostileLocal(const std::string& text, uint64_t seed);

// What is wrong with how the text, which needs not read, is handled, or "": every error must be the user's
// and say where it is; what is accepted must compile, prove, and run, if it is small, without a crash. A
// crash ends the process. Tries gradients, other batch sizes and changed local programs, too.
std::string TryHostile(const HostileProgram& program, uint64_t seed, const Trying& trying = nullptr);

}  // namespace meshwork

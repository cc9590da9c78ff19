// How messages show texts that others have written: names in files, fields of tables, what other processes say. Such a
// text may hold anything: an escape sequence would colour or move what a terminal shows, and a line end would begin a
// line that looks like one of ours.
//
//   InvalidArgument("{}: tensor {} is f32[3].", path, Quoted(name));     // x.st: tensor "w" is f32[3].
//   Quoted("a\x1b[31m\nok")                                              // "a\u001b[31m\nok", on one line
//
// Pure functions; thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace meshwork {

// The text in quotes, on one line. As it is, if it is UTF-8 without control characters; else as JSON writes it, with
// bytes that are no UTF-8 as \ufffd. Cut, with "..." in front of the last quote, if that takes more than 200 bytes.
std::string Quoted(std::string_view text);
// The text as it is, if it is UTF-8 without control characters and not empty; else Quoted.
std::string Printable(std::string_view text);
// A message of several lines. Line ends and tabs stay; other control characters are written as \u001b. Bytes that are
// no UTF-8 become \ufffd.
std::string PrintableLines(std::string_view message);

}  // namespace meshwork

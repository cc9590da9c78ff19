// The pages of the documentation and their fenced blocks.
//
// What stands behind the opening fence says what a block is and how a test checks it:
//
//   cpp FILE           a piece of the program or header FILE of this page: pieces of one file follow each other
//   cpp                statements; those of a page follow each other in one function
//   cpp values         the same; what stands behind `// ` at the end of a statement is its value
//   cpp from PATH      lines of a file of the repository, word by word; so are any language's
//                      `LANGUAGE from PATH`
//   text               what the program or the statements above print
//   text about         the same; numbers with a point may be 2 % off
//   text like          some of its lines, in any order, whose numbers may be any
//   mw                 a program in text form
//   mw compiled        what each device runs of the last `mw` program
//   mw after PASS      the last `mw` program after this pass of the compiler
//   mw-error           a program in text form, a line "----", and the error of reading or compiling it
//   layout             lines of layouts and what devices hold, plans between layouts, JSON forms (layouts.cc)
//   placement          "batch=4,model=2 on 2 processes", and a drawing of the devices that each process holds
//   ebnf               the grammar of the text form (grammar_test.cc)
//   tree               files and folders of the repository
//   console            commands after "$ ", and what they print (tools/cli/tools_page_test.cc)
//   sh                 commands (commands.h)
//   python             a program of another library, beside one of ours; Python can read it
//   cmake              lines of the projects in tests/install, but for the names of their targets
//
// In `text` a line "…" stands for any number of lines; in `text like` one may end so, too. Statements that a
// page needs and does not show stand in a comment that begins with a line "<!--cpp" and ends with a line
// "-->".
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "support/contents.h"

namespace meshwork::docs {

struct FencedBlock {
  std::string page;                // "docs/tour.md"
  int index = 0;                   // among the page's fenced blocks; -1 for a hidden one
  int line = 0;                    // of the first line of `text`, from 1
  size_t indent = 0;               // of its fence; the text is without it
  std::string language;            // "cpp"; empty where the fence says nothing
  std::vector<std::string> words;  // what follows the language
  std::string text;                // whole lines
  bool hidden = false;

  bool Is(std::string_view lang, std::string_view word = "") const {
    return language == lang && (words.empty() ? word.empty() : words[0] == word);
  }
  // The file that `cpp FILE` names, or "".
  std::string File() const;
  bool IsStatements() const { return Is("cpp") || Is("cpp", "values"); }
};

// `path` is relative to `root`. Exits with a message where the page cannot be read or a block has no end.
std::vector<FencedBlock> ReadBlocks(const std::filesystem::path& root, const std::string& path);

// How far a line that opens or closes a block is indented; npos for other lines.
size_t FenceIndent(std::string_view line);

// The lines of a text, without their ends.
std::vector<std::string> Lines(std::string_view text);

}  // namespace meshwork::docs

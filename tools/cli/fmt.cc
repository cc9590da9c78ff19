// meshwork fmt.
#include <string>
#include <string_view>

#include "meshwork/base/io/file.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/text.h"
#include "tools/cli/commands.h"
#include "tools/cli/program_file.h"

namespace meshwork::tools {
namespace {

struct Stripped {
  std::string text;  // without comments, the space before them, and lines that hold nothing else
  int comments = 0;
};

Stripped WithoutComments(std::string_view text) {
  Stripped stripped;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end);
    const size_t comment = line.find("//");  // no name holds one
    if (comment == std::string_view::npos) {
      stripped.text += line;
      continue;
    }
    ++stripped.comments;
    const size_t last = line.substr(0, comment).find_last_not_of(" \t");
    if (last == std::string_view::npos) continue;
    stripped.text += line.substr(0, last + 1);
    if (line.ends_with('\n')) stripped.text += '\n';
  }
  return stripped;
}

std::string Comments(int count) { return count == 1 ? "1 comment" : fmt::format("{} comments", count); }

}  // namespace

absl::Status Format(Arguments args) {
  std::string file;
  bool check = false, in_place = false;
  FlagTable flags(
      "meshwork fmt",
      "Prints a program in its canonical form: one line for each argument, op, update and the outputs,\n"
      "all types written out, values without a name numbered anew.\n\n"
      "The canonical form has no comments. A text that is canonical but for its comments is left as it\n"
      "is; where there is more to change, comments are left out of what is printed, which is said, and\n"
      "--in-place refuses to.");
  flags.Positional("FILE", kFileHelp, &file);
  flags.Switch("check", "prints nothing; exit code 1 if the text is not canonical", &check);
  flags.Switch("in-place", "writes the file instead of printing", &in_place);
  if (const auto done = Parse(flags, args)) return *done;
  if (check && in_place) return InvalidArgument("--check changes nothing; leave it or --in-place out.");
  if (in_place && file == "-") return InvalidArgument("--in-place needs a file; standard input is none.");
  MESHWORK_ASSIGN_OR_RETURN(const std::string text, ReadText(file));
  MESHWORK_ASSIGN_OR_RETURN(const Graph graph, ParseGraph(text, NameOf(file)));
  const std::string canonical = PrintGraph(graph);
  const Stripped stripped = WithoutComments(text);
  const bool is_canonical = stripped.text == canonical;
  if (check) {
    if (is_canonical) return absl::OkStatus();
    return absl::FailedPreconditionError(fmt::format("{} is not in its canonical form.", NameOf(file)));
  }
  if (in_place) {
    if (is_canonical) return absl::OkStatus();
    if (stripped.comments > 0)
      return InvalidArgument("{} would lose {}; take them out, or print the text and keep both.", file,
                             Comments(stripped.comments));
    return WriteFileAtomically(file, canonical);
  }
  if (!is_canonical && stripped.comments > 0)
    fmt::print(stderr, "meshwork fmt: {} in {} left out.\n", Comments(stripped.comments), NameOf(file));
  fmt::print("{}", is_canonical ? text : canonical);
  return absl::OkStatus();
}

}  // namespace meshwork::tools

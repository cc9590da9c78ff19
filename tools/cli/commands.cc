#include "tools/cli/commands.h"

#include <algorithm>
#include <string>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/base/suggest.h"

namespace meshwork::tools {
namespace {

std::string Help(const CommandTable& table) {
  std::string out = fmt::format("{}\n\nUsage: {} COMMAND …\n\n", table.about, table.program);
  for (const Command& command : table.commands)
    out += fmt::format("  {:<10} {}\n", command.name, command.summary);
  return out + fmt::format("\n{}", table.end);
}

}  // namespace

absl::Status RunOneOf(const CommandTable& table, Arguments args) {
  if (args.argc < 2) return InvalidArgument("{}: a command is missing. See --help.", table.program);
  const std::string name = args.argv[1];
  if (name == "--help" || name == "-h" || name == "help") {
    fmt::print("{}", Help(table));
    return absl::OkStatus();
  }
  const auto command = std::find_if(table.commands.begin(), table.commands.end(),
                                    [&](const Command& c) { return c.name == name; });
  if (command != table.commands.end()) {
    const absl::Status status = command->run({args.argc - 1, args.argv + 1});
    return command->is_table ? status : Annotate(status, fmt::format("{} {}: ", table.program, name));
  }
  std::vector<std::string> names;
  for (const Command& known : table.commands) names.emplace_back(known.name);
  const std::string hint = DidYouMean(name, names);
  return InvalidArgument("{}: there is no command \"{}\"{} See --help.", table.program, name,
                         hint.empty() ? "." : hint);
}

std::optional<absl::Status> Parse(FlagTable& flags, Arguments args) {
  if (absl::Status status = flags.Parse(args.argc, args.argv); !status.ok()) return status;
  if (!flags.help_asked()) return std::nullopt;
  fmt::print("{}", flags.Help());
  return absl::OkStatus();
}

}  // namespace meshwork::tools

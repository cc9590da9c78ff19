// meshwork import.
#include "tools/cli/import_commands.h"

namespace meshwork::tools {
namespace {

constexpr Command kImportCommands[] = {
    {"gguf", "make a folder of a GGUF file, as llama.cpp has them", ImportGguf},
    {"stablehlo", "make a program of a function that JAX has lowered", ImportStableHlo},
};

constexpr CommandTable kImportTable = {.program = "meshwork import",
                                       .about = "Makes models of other programs usable here.",
                                       .commands = kImportCommands,
                                       .end = "meshwork import COMMAND --help says more.\n"};

}  // namespace

absl::Status Import(Arguments args) { return RunOneOf(kImportTable, args); }

}  // namespace meshwork::tools

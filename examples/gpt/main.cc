// Trains a small transformer on the bytes of a text, on a mesh of virtual devices, and lets it write. See
// --help.
#include "examples/support/gpt_program.h"

int main(int argc, char** argv) {
  return meshwork::RunGptProgram(
      {.name = "gpt",
       .about =
           "Trains a decoder-only transformer on the bytes of a text, sharded over virtual devices, and\n"
           "prints what it writes."},
      argc, argv);
}

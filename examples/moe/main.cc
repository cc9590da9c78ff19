// The transformer of examples/gpt with a mixture of experts in each layer, two on each device along "batch":
// bytes go to the devices that have their experts, and come back, by an all-to-all each. See --help.
#include "examples/support/gpt_program.h"

int main(int argc, char** argv) {
  return meshwork::RunGptProgram({.name = "moe",
                                  .about = "Trains a transformer with a mixture of experts in each layer on "
                                           "the bytes of a text, sharded over\n"
                                           "virtual CPU devices, and prints what it writes.",
                                  .experts_per_device = 2},
                                 argc, argv);
}

// The transformer of examples/gpt with a mixture of experts in each layer, two experts on each device along
// "batch". One all-to-all brings each token to the device of its expert, another brings it back. See --help.
#include "examples/support/gpt_program.h"

int main(int argc, char** argv) {
  return meshwork::RunGptProgram({.name = "moe",
                                  .about = "Trains a transformer with a mixture of experts in each layer on "
                                           "the bytes of a text, sharded over\n"
                                           "virtual devices, and prints what it writes.",
                                  .experts_per_device = 2},
                                 argc, argv);
}

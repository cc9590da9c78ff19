// Trains an MLP on handwritten digits on a mesh of virtual devices. See --help.
#include "examples/support/digits.h"
#include "examples/support/mlp.h"

int main(int argc, char** argv) {
  const meshwork::DigitsModel model{
      .program = "mlp_mnist",
      .about = "Trains a 784-700-500-10 perceptron (ReLU) on MNIST, sharded over virtual devices.",
      .title = "MLP",
      .mesh_help =
          "named axes; \"batch\" shards the examples, \"model\" the first kernel by columns and the\n"
          "                     second by rows; others hold copies",
      .build = meshwork::BuildMlp,
      .weights = meshwork::MlpWeights()};
  return meshwork::RunDigits(model, argc, argv);
}

// Trains a convolutional network on handwritten digits on a mesh of virtual devices. See --help.
#include "examples/support/cnn.h"
#include "examples/support/digits.h"

int main(int argc, char** argv) {
  const meshwork::DigitsModel model{
      .program = "cnn_mnist",
      .about =
          "Trains a small convolutional network on MNIST, sharded over virtual devices: 32 filters of\n"
          "3x3, ReLU, max-pool, 64 units, ReLU, 10 units.",
      .title = "CNN",
      .mesh_help =
          "named axes; \"batch\" shards the examples, \"height\" the rows of each image; others hold\n"
          "                     copies",
      .optimizer = "sgd",
      .learning_rate = 0.1,
      .image = {28, 28, 1},
      .build = meshwork::BuildCnn,
      .weights = meshwork::CnnWeights()};
  return meshwork::RunDigits(model, argc, argv);
}

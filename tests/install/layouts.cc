// A program that needs meshwork's layouts and nothing else of it.
#include "fmt/format.h"
#include "meshwork/layout/layout.h"
#include "meshwork/mesh/mesh.h"

int main() {
  const meshwork::Mesh mesh = meshwork::Mesh::VirtualCpus("batch=4,model=2").value();
  const meshwork::Layout layout = meshwork::Layout::Create(mesh, {"batch", meshwork::UNSHARDED}).value();
  fmt::print("{} cuts [10,7] into blocks of {}\n", layout.ToString(),
             meshwork::ShapeToString(layout.LocalShape({10, 7})));
}

#include "examples/support/digits_data.h"

#include <cstdlib>

#include "meshwork/base/status.h"

namespace meshwork {

absl::StatusOr<Data> LoadData(const DataOptions& options, DType dtype) {
  std::string dir = options.dir;
  if (const char* variable = std::getenv("MNIST_DIR"); dir.empty() && variable != nullptr) dir = variable;
  Data data{dir.empty() || dir == "synthetic" ? "synthetic" : "mnist", {}};
  if (data.source == "synthetic") {
    if (options.is_chief)
      fmt::print(
          stderr,
          "*** These are NOT the MNIST digits: training on synthetic ones from the built-in generator.\n"
          "*** For MNIST give --data-dir or MNIST_DIR, or run ./dev mnist.\n");
    MESHWORK_ASSIGN_OR_RETURN(data.digits, SyntheticDigits(options.train_examples, options.test_examples,
                                                           static_cast<uint64_t>(options.seed), dtype));
  } else {
    MESHWORK_ASSIGN_OR_RETURN(data.digits,
                              LoadMnist(dir, dtype, {options.train_examples, options.test_examples}));
  }
  if (data.digits.train.size() == 0 || data.digits.test.size() == 0)
    return InvalidArgument("{}: there are {} training and {} test images; at least one of each is needed.",
                           dir, data.digits.train.size(), data.digits.test.size());
  return data;
}

}  // namespace meshwork

// The losses that a program prints.
#pragma once

#include <regex>
#include <string>
#include <vector>

namespace meshwork {

// All numbers behind "loss", in their order.
inline std::vector<double> LossesIn(const std::string& printed) {
  static const auto* const loss = new std::regex("loss ([-+.e0-9]+)");
  std::vector<double> losses;
  for (std::sregex_iterator it(printed.begin(), printed.end(), *loss), end; it != end; ++it)
    losses.push_back(std::stod((*it)[1]));
  return losses;
}

}  // namespace meshwork

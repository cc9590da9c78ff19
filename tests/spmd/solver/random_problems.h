// Random sums of cost tables, and the least cost by trying all assignments.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "meshwork/spmd/solver/min_sum.h"

namespace meshwork {

constexpr double kInf = std::numeric_limits<double>::infinity();

struct RandomProblemOptions {
  int max_variables = 7;
  int max_states = 4;
  int max_tables = 9;
  int max_rank = 4;
};

// All tables of a problem have one kind of cost: numbers of many magnitudes, or a few numbers that make ties.
inline MinSum RandomProblem(std::mt19937& random, const RandomProblemOptions& options) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  MinSum problem;
  const int num_variables = 1 + below(options.max_variables);
  for (int v = 0; v < num_variables; ++v) problem.AddVariable(1 + below(options.max_states));
  const bool has_ties = below(2) == 0;
  const int forbids = below(3) == 0 ? 2 + below(6) : 0;  // one of so many; 0: none
  for (int left = below(options.max_tables + 1); left > 0; --left) {
    std::vector<int> variables(num_variables);
    std::iota(variables.begin(), variables.end(), 0);
    std::shuffle(variables.begin(), variables.end(), random);
    variables.resize(std::min(num_variables, below(options.max_rank + 1)));
    size_t size = 1;
    for (int v : variables) size *= static_cast<size_t>(problem.states(v));
    std::vector<double> costs(size);
    for (double& cost : costs) {
      cost = has_ties ? below(3) : std::exp(std::uniform_real_distribution<double>(-20, 6)(random));
      if (forbids > 0 && below(forbids) == 0) cost = kInf;
    }
    problem.AddTable(std::move(variables), std::move(costs));
  }
  return problem;
}

// By trying all assignments.
inline double LeastCost(const MinSum& problem) {
  std::vector<int> assignment(problem.num_variables(), 0);
  double least = kInf;
  while (true) {
    least = std::min(least, problem.CostOf(assignment));
    int v = 0;
    while (v < problem.num_variables() && ++assignment[v] == problem.states(v)) assignment[v++] = 0;
    if (v == problem.num_variables()) return least;
  }
}

struct RandomChainOptions {
  int length = 0;
  int states = 0;
  int width = 1;  // how many variables back a table reaches
  unsigned seed = 0;
};

// Tables of two variables between each variable and the `width` ones before it, and of each single variable.
inline MinSum RandomChain(const RandomChainOptions& options) {
  std::mt19937 random(options.seed);
  std::uniform_real_distribution<double> cost(0, 1);
  MinSum problem;
  for (int v = 0; v < options.length; ++v) {
    problem.AddVariable(options.states);
    for (int back = 0; back <= std::min(options.width, v); ++back) {
      std::vector<double> costs(back == 0 ? options.states : options.states * options.states);
      for (double& entry : costs) entry = cost(random);
      problem.AddTable(back == 0 ? std::vector{v} : std::vector{v - back, v}, std::move(costs));
    }
  }
  return problem;
}

// rows x columns variables, with tables of two neighbours and of single variables.
inline MinSum RandomGrid(int rows, int columns, int states, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> cost(0, 1);
  MinSum problem;
  for (int i = 0; i < rows * columns; ++i) problem.AddVariable(states);
  const auto add = [&](std::vector<int> variables) {
    std::vector<double> costs(variables.size() == 1 ? states : states * states);
    for (double& entry : costs) entry = cost(random);
    problem.AddTable(std::move(variables), std::move(costs));
  };
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < columns; ++c) {
      const int at = r * columns + c;
      add({at});
      if (c + 1 < columns) add({at, at + 1});
      if (r + 1 < rows) add({at, at + columns});
    }
  }
  return problem;
}

// States at random.
inline std::vector<int> RandomAssignment(std::mt19937& random, const MinSum& problem) {
  std::vector<int> assignment;
  for (int states : problem.states())
    assignment.push_back(static_cast<int>(random() % static_cast<unsigned>(states)));
  return assignment;
}

}  // namespace meshwork

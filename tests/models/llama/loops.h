// A Llama by loops over doubles, as the reference of tests.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "examples/llama/llama_config.h"
#include "fmt/format.h"
#include "models/llama/small_model.h"

namespace meshwork::llama_test {

// y[o] = sum_i w[o,i] x[i]
inline Doubles Times(const Doubles& w, const Doubles& x) {
  Doubles y(w.size() / x.size(), 0.0);
  for (size_t o = 0; o < y.size(); ++o)
    for (size_t i = 0; i < x.size(); ++i) y[o] += w[o * x.size() + i] * x[i];
  return y;
}

inline Doubles Normed(const Doubles& x, const Doubles& scale, double epsilon) {
  double sum = 0;
  for (double v : x) sum += v * v;
  Doubles y;
  for (size_t i = 0; i < x.size(); ++i)
    y.push_back(x[i] * scale[i] / std::sqrt(sum / static_cast<double>(x.size()) + epsilon));
  return y;
}

// The heads of x at position p, turned: dims i and i + d/2 by p · base^(-2i/d).
inline void Turn(Doubles& x, size_t d, double base, size_t p) {
  for (size_t head = 0; head < x.size(); head += d)
    for (size_t i = 0; i < d / 2; ++i) {
      const double angle =
          static_cast<double>(p) * std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(d));
      const double a = x[head + i], b = x[head + i + d / 2];
      x[head + i] = a * std::cos(angle) - b * std::sin(angle);
      x[head + i + d / 2] = b * std::cos(angle) + a * std::sin(angle);
    }
}

// The logits behind each token of a text, as Hugging Face's modeling_llama.py says.
inline std::vector<Doubles> LogitsOf(const LlamaConfig& c, const Weights& w,
                                     const std::vector<int32_t>& tokens) {
  const auto d = static_cast<size_t>(c.head), units = static_cast<size_t>(c.units);
  const auto group = static_cast<size_t>(c.heads / c.kv_heads);
  std::vector<Doubles> x;
  for (int32_t token : tokens) {
    const auto row = w["model.embed_tokens.weight"].begin() + static_cast<int64_t>(token) * c.units;
    x.emplace_back(row, row + c.units);
  }
  for (int64_t layer = 0; layer < c.layers; ++layer) {
    const std::string of = fmt::format("model.layers.{}.", layer);
    const auto projected = [&](const std::string& name, const Doubles& h) {
      Doubles y = Times(w[fmt::format("{}self_attn.{}_proj.weight", of, name)], h);
      const auto bias = w.tensors.find(fmt::format("{}self_attn.{}_proj.bias", of, name));
      if (bias != w.tensors.end())
        for (size_t i = 0; i < y.size(); ++i) y[i] += bias->second.second[i];
      return y;
    };
    std::vector<Doubles> q, k, v;
    for (size_t p = 0; p < x.size(); ++p) {
      const Doubles h = Normed(x[p], w[of + "input_layernorm.weight"], c.epsilon);
      q.push_back(projected("q", h));
      k.push_back(projected("k", h));
      v.push_back(projected("v", h));
      Turn(q.back(), d, c.rotary.base, p);
      Turn(k.back(), d, c.rotary.base, p);
    }
    for (size_t p = 0; p < x.size(); ++p) {
      Doubles attended(q[p].size(), 0.0);
      for (size_t head = 0; head < static_cast<size_t>(c.heads); ++head) {
        const size_t at = head * d, of_keys = head / group * d;
        const size_t first = c.window == 0 || p + 1 < static_cast<size_t>(c.window)
                                 ? 0
                                 : p + 1 - static_cast<size_t>(c.window);
        Doubles share;
        double total = 0;
        for (size_t t = first; t <= p; ++t) {
          double score = 0;
          for (size_t i = 0; i < d; ++i) score += q[p][at + i] * k[t][of_keys + i];
          total += share.emplace_back(std::exp(score / std::sqrt(static_cast<double>(d))));
        }
        for (size_t t = first; t <= p; ++t)
          for (size_t i = 0; i < d; ++i) attended[at + i] += share[t - first] / total * v[t][of_keys + i];
      }
      const Doubles y = projected("o", attended);
      for (size_t i = 0; i < units; ++i) x[p][i] += y[i];
    }
    for (Doubles& row : x) {
      const Doubles h = Normed(row, w[of + "post_attention_layernorm.weight"], c.epsilon);
      Doubles gate = Times(w[of + "mlp.gate_proj.weight"], h), up = Times(w[of + "mlp.up_proj.weight"], h);
      for (size_t i = 0; i < gate.size(); ++i) gate[i] *= up[i] / (1 + std::exp(-gate[i]));
      const Doubles y = Times(w[of + "mlp.down_proj.weight"], gate);
      for (size_t i = 0; i < units; ++i) row[i] += y[i];
    }
  }
  std::vector<Doubles> logits;
  for (const Doubles& row : x)
    logits.push_back(Times(w[c.tied ? "model.embed_tokens.weight" : "lm_head.weight"],
                           Normed(row, w["model.norm.weight"], c.epsilon)));
  return logits;
}

inline int32_t ArgmaxOf(const Doubles& x) {
  return static_cast<int32_t>(std::max_element(x.begin(), x.end()) - x.begin());
}

}  // namespace meshwork::llama_test

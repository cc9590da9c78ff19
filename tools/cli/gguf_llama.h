// Models of the architecture "llama" in GGUF files, as Hugging Face has them.
//
//   LlamaName("blk.3.attn_q.weight")   // "model.layers.3.self_attn.q_proj.weight"
//
// The files differ in more than names. Rotary positions turn pairs of rows of the projections q and k. In GGUF, a pair
// are rows 2i and 2i + 1 of a head; Hugging Face has them at rows i and i + d/2, where d is the size of a head.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "meshwork/runtime/tensor/tensor.h"
#include "meshwork/storage/gguf_file.h"
#include "nlohmann/json_fwd.hpp"

namespace meshwork::tools {

bool IsLlama(const GgufFile& file);

// Nothing: Hugging Face's Llama has no such tensor.
std::optional<std::string> LlamaName(std::string_view gguf_name);

// How many heads the rows of a tensor are, if it is a projection whose rows are in GGUF's order; 0 for others.
// Errors: the metadata does not say; the rows are not pairs for so many heads.
absl::StatusOr<int64_t> HeadsToReorder(const GgufFile& file, const GgufEntry& entry);
// Brings the rows of each head from GGUF's order into Hugging Face's. REQUIRES: the tensor has dims, and 2 * heads
// divides its rows.
Tensor WithHalves(const Tensor& tensor, int64_t heads);

// The model's config.json. Errors: the metadata lacks something, or says something that no model can be; a mixture of
// experts.
absl::StatusOr<nlohmann::ordered_json> LlamaConfig(const GgufFile& file);

}  // namespace meshwork::tools

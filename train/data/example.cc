#include "meshwork/train/data/example.h"

#include <algorithm>

#include "meshwork/base/quote.h"
#include "meshwork/base/status.h"
#include "meshwork/base/suggest.h"

namespace meshwork {
namespace {

// The place of a name in a list of pairs, or the end.
template <typename List>
auto Find(List& list, std::string_view name) {
  return std::find_if(list.begin(), list.end(), [&](const auto& pair) { return pair.first == name; });
}

}  // namespace

const Tensor& Example::operator[](std::string_view name) const {
  static const Tensor* const missing = new Tensor();
  const Tensor* tensor = internal::FindColumn(columns_, name);
  return tensor != nullptr ? *tensor : *missing;
}

absl::StatusOr<Tensor> Example::Get(std::string_view name) const {
  return internal::GetColumn(columns_, name, "Example");
}

void Example::Set(std::string_view name, Tensor tensor) {
  if (const auto found = Find(columns_, name); found != columns_.end()) found->second = std::move(tensor);
  else columns_.emplace_back(name, std::move(tensor));
}

std::string_view Example::text(std::string_view name) const {
  const auto found = Find(texts_, name);
  return found != texts_.end() ? std::string_view(*found->second) : std::string_view();
}

absl::StatusOr<std::string_view> Example::GetText(std::string_view name) const {
  if (const auto found = Find(texts_, name); found != texts_.end()) return std::string_view(*found->second);
  std::vector<std::string> names;
  for (const NamedText& text : texts_) names.push_back(text.first);
  return absl::NotFoundError(
      fmt::format("Example: there is no text {}{}", Quoted(name), DidYouMeanOneOf(name, names, "texts")));
}

void Example::SetText(std::string_view name, std::string text) {
  auto shared = std::make_shared<const std::string>(std::move(text));
  if (const auto found = Find(texts_, name); found != texts_.end()) found->second = std::move(shared);
  else texts_.emplace_back(name, std::move(shared));
}

bool Example::Has(std::string_view name) const {
  return Find(columns_, name) != columns_.end() || Find(texts_, name) != texts_.end();
}

void Example::Remove(std::string_view name) {
  if (const auto found = Find(columns_, name); found != columns_.end()) columns_.erase(found);
  if (const auto found = Find(texts_, name); found != texts_.end()) texts_.erase(found);
}

}  // namespace meshwork

#include "examples/support/text.h"

#include <cctype>
#include <iterator>
#include <string_view>

#include "meshwork/base/random.h"

namespace meshwork {
namespace {

constexpr std::string_view kPeople[] = {"baker",   "sailor", "miller",  "teacher", "gardener",
                                        "painter", "doctor", "captain", "weaver",  "shepherd"};
constexpr std::string_view kThings[] = {"a lamp", "a loaf", "an apple", "a letter", "a boat",
                                        "a coat", "a bell", "a basket", "a map",    "a kettle"};
constexpr std::string_view kDeeds[] = {"found", "carried", "bought", "mended",
                                       "lost",  "painted", "hid",    "sold"};
constexpr std::string_view kPlaces[] = {"by the river",    "in the market", "on the hill",
                                        "behind the mill", "at the gate",   "under the bridge",
                                        "near the harbour"};
constexpr std::string_view kTimes[] = {"in the morning", "at noon", "before the rain", "after supper",
                                       "at night"};
constexpr std::string_view kMoods[] = {"glad", "tired", "proud", "quiet", "hungry", "late"};

class Writer {
 public:
  explicit Writer(uint64_t seed) : random_(seed) {}

  std::string Paragraph() {
    who_ = Pick(kPeople);
    std::string text;
    for (uint64_t sentences = 3 + random_.Below(4); sentences > 0; --sentences) text += Sentence() + " ";
    text.back() = '\n';
    return text + "\n";
  }

 private:
  template <size_t n>
  std::string Pick(const std::string_view (&words)[n]) {
    return std::string(words[random_.Below(n)]);
  }

  std::string Sentence() {
    std::string text;
    switch (random_.Below(5)) {
      case 0: text = Pick(kTimes) + " the " + who_ + " " + Pick(kDeeds) + " " + Pick(kThings) + "."; break;
      case 1:
        text = "the " + who_ + " " + Pick(kDeeds) + " " + Pick(kThings) + " " + Pick(kPlaces) + ".";
        break;
      case 2: text = "the " + who_ + " was " + Pick(kMoods) + " " + Pick(kTimes) + "."; break;
      case 3: text = "\"who " + Pick(kDeeds) + " " + Pick(kThings) + "?\" asked the " + who_ + "."; break;
      default:
        text =
            Pick(kPlaces) + " the " + who_ + " met the " + Pick(kPeople) + " and was " + Pick(kMoods) + ".";
        break;
    }
    char& first = text[text[0] == '"' ? 1 : 0];
    first = static_cast<char>(std::toupper(static_cast<unsigned char>(first)));
    return text;
  }

  Random random_;
  std::string who_;
};

}  // namespace

std::string SyntheticText(int64_t bytes, uint64_t seed) {
  Writer writer(seed);
  std::string text;
  while (static_cast<int64_t>(text.size()) < bytes) text += writer.Paragraph();
  text.resize(static_cast<size_t>(bytes));
  return text;
}

}  // namespace meshwork

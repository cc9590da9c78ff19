#include "meshwork/runtime/cuda/build_id.h"

#include <elf.h>
#include <link.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "fmt/format.h"

namespace meshwork {
namespace {

struct Search {
  uintptr_t address;
  std::string id;
};

// The build ID among ELF notes. These follow each other in memory: a head, a name and a description, each padded to a
// multiple of 4 bytes.
std::string IdAmong(std::span<const std::byte> notes) {
  const auto padded = [](size_t bytes) { return (bytes + 3) / 4 * 4; };
  while (notes.size() >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) head;
    std::memcpy(&head, notes.data(), sizeof(head));
    const size_t name = sizeof(head), text = name + padded(head.n_namesz), end = text + padded(head.n_descsz);
    if (end > notes.size()) return "";
    const std::string_view owner(reinterpret_cast<const char*>(notes.data()) + name, head.n_namesz);
    if (head.n_type == NT_GNU_BUILD_ID && owner == std::string_view("GNU\0", 4)) {
      std::string id;
      for (const std::byte byte : notes.subspan(text, head.n_descsz))
        id += fmt::format("{:02x}", static_cast<unsigned>(byte));
      return id;
    }
    notes = notes.subspan(end);
  }
  return "";
}

// Called for each loaded object, until one returns another number than 0.
int Visit(dl_phdr_info* object, size_t, void* data) {
  auto& search = *static_cast<Search*>(data);
  const std::span<const ElfW(Phdr)> segments(object->dlpi_phdr, object->dlpi_phnum);
  bool holds = false;
  for (const ElfW(Phdr) & segment : segments)
    holds |=
        segment.p_type == PT_LOAD && search.address - object->dlpi_addr - segment.p_vaddr < segment.p_memsz;
  if (!holds) return 0;
  for (const ElfW(Phdr) & segment : segments)
    if (segment.p_type == PT_NOTE && search.id.empty())
      search.id =
          IdAmong({reinterpret_cast<const std::byte*>(object->dlpi_addr + segment.p_vaddr), segment.p_memsz});
  return 1;
}

}  // namespace

std::string BuildIdOf(const void* address) {
  Search search{reinterpret_cast<uintptr_t>(address), ""};
  dl_iterate_phdr(Visit, &search);
  return search.id;
}

}  // namespace meshwork

#include "cuda_emulator/symbols.h"

#include <cxxabi.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cuda_emulator/device.h"

namespace cuda_emulator {
namespace {

/// The symbols of /proc/self/exe, where they were loaded.
struct Table {
  const ElfW(Sym) * begin = nullptr;
  const ElfW(Sym) * end = nullptr;
  const char* names = nullptr;
  const ElfW(Shdr) * sections = nullptr;
  std::size_t section_count = 0;
  std::uintptr_t base = 0;
};

/// A page of the file stays mapped: names are read from it for as long as the program runs.
Table read_table() {
  Table table;
  const int file = ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  struct stat status {};
  if (file < 0 || ::fstat(file, &status) != 0) return table;
  const auto size = static_cast<std::size_t>(status.st_size);
  const void* const mapped = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
  ::close(file);
  if (mapped == MAP_FAILED) return table;
  const auto* const bytes = static_cast<const char*>(mapped);
  const auto* const header = static_cast<const ElfW(Ehdr)*>(mapped);
  const auto* const sections = reinterpret_cast<const ElfW(Shdr)*>(bytes + header->e_shoff);
  table.sections = sections;
  table.section_count = header->e_shnum;
  for (const auto* section = sections; section < sections + header->e_shnum; ++section) {
    if (section->sh_type != SHT_SYMTAB) continue;
    table.begin = reinterpret_cast<const ElfW(Sym)*>(bytes + section->sh_offset);
    table.end = table.begin + section->sh_size / sizeof(ElfW(Sym));
    table.names = bytes + sections[section->sh_link].sh_offset;
  }
  // The first object is the program itself.
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* base) {
        *static_cast<std::uintptr_t*>(base) = info->dlpi_addr;
        return 1;
      },
      &table.base);
  return table;
}

const Table& table() {
  static const Table it = read_table();
  return it;
}

/// Shared arrays have no initial value. What does may lie at such an address by chance, and must not be written to.
bool starts_uninitialised(const ElfW(Sym) & symbol) {
  return symbol.st_shndx < table().section_count && table().sections[symbol.st_shndx].sh_type == SHT_NOBITS;
}

}  // namespace

const std::vector<SharedArray>& shared_arrays() {
  static const std::vector<SharedArray>& it = *[] {
    auto* const arrays = new std::vector<SharedArray>;
    for (const auto* symbol = table().begin; symbol < table().end; ++symbol) {
      const char* const name = table().names + symbol->st_name;
      const bool local_static = std::strncmp(name, "_ZZ", 3) == 0 && ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT;
      if (!local_static || !starts_uninitialised(*symbol) || symbol->st_value % detail::kSharedAlignment != 0) continue;
      arrays->push_back({reinterpret_cast<unsigned char*>(table().base + symbol->st_value), symbol->st_size, name});
    }
    return arrays;
  }();
  return it;
}

std::string symbol_of(const void* function) {
  const auto value = reinterpret_cast<std::uintptr_t>(function) - table().base;
  for (const auto* symbol = table().begin; symbol < table().end; ++symbol) {
    if (symbol->st_value == value && ELF64_ST_TYPE(symbol->st_info) == STT_FUNC) {
      return table().names + symbol->st_name;
    }
  }
  return {};
}

std::string name_of(const void* function) {
  const std::string symbol = symbol_of(function);
  char* const plain = abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, nullptr);
  std::string name = plain != nullptr ? plain : symbol;
  std::free(plain);
  if (name.empty()) {
    char address[32];
    std::snprintf(address, sizeof address, "%p", function);
    name = address;
  }
  return name;
}

}  // namespace cuda_emulator

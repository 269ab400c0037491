#include "tendril/autograd/detail/backtrace.h"

#if __has_include(<execinfo.h>) && __has_include(<elf.h>) && __has_include(<link.h>)

#include <cxxabi.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <sstream>
#include <string_view>

namespace tendril::autograd::detail {

namespace {

constexpr int kDeepest = 48;
constexpr std::size_t kLongestName = 200;

struct Place {
  std::string file;
  uintptr_t offset = 0;
};

Place place_of(const void* address) {
  struct Search {
    uintptr_t wanted;
    Place found;
  } search{reinterpret_cast<uintptr_t>(address), {}};
  dl_iterate_phdr(
      [](dl_phdr_info* object, std::size_t, void* data) {
        auto& it = *static_cast<Search*>(data);
        for (int i = 0; i < object->dlpi_phnum; ++i) {
          const ElfW(Phdr)& part = object->dlpi_phdr[i];
          const uintptr_t start = object->dlpi_addr + part.p_vaddr;
          if (part.p_type != PT_LOAD || it.wanted < start || it.wanted >= start + part.p_memsz) continue;
          it.found = {object->dlpi_name && *object->dlpi_name ? object->dlpi_name : "/proc/self/exe",
                      it.wanted - object->dlpi_addr};
          return 1;
        }
        return 0;
      },
      &search);
  return search.found;
}

/// An ELF file, mapped. What is out of its bounds is not there.
class ElfFile {
 public:
  explicit ElfFile(const std::string& path) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat info {};
    if (file >= 0 && fstat(file, &info) == 0 && info.st_size > 0) {
      size_ = static_cast<std::size_t>(info.st_size);
      void* const mapped = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
      if (mapped != MAP_FAILED) data_ = static_cast<const char*>(mapped);
    }
    if (file >= 0) close(file);
  }
  ~ElfFile() {
    if (data_) munmap(const_cast<char*>(data_), size_);
  }
  ElfFile(const ElfFile&) = delete;
  ElfFile& operator=(const ElfFile&) = delete;

  /// The mangled name of the function that the offset is in, or "".
  std::string_view function_at(uintptr_t offset) const {
    const auto* header = at<ElfW(Ehdr)>(0, 1);
    if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return {};
    const auto* sections = at<ElfW(Shdr)>(header->e_shoff, header->e_shnum);
    if (!sections) return {};
    for (unsigned i = 0; i < header->e_shnum; ++i) {
      const ElfW(Shdr)& table = sections[i];
      if ((table.sh_type != SHT_SYMTAB && table.sh_type != SHT_DYNSYM) || table.sh_link >= header->e_shnum) continue;
      const std::size_t count = table.sh_size / sizeof(ElfW(Sym));
      const auto* symbols = at<ElfW(Sym)>(table.sh_offset, count);
      const ElfW(Shdr)& names = sections[table.sh_link];
      const char* text = at<char>(names.sh_offset, names.sh_size);
      if (!symbols || !text) continue;
      for (std::size_t s = 0; s < count; ++s) {
        const ElfW(Sym)& symbol = symbols[s];
        if ((symbol.st_info & 0xf) != STT_FUNC || symbol.st_name >= names.sh_size) continue;
        if (offset < symbol.st_value || offset >= symbol.st_value + symbol.st_size) continue;
        return {text + symbol.st_name, strnlen(text + symbol.st_name, names.sh_size - symbol.st_name)};
      }
    }
    return {};
  }

 private:
  template <class T>
  const T* at(std::size_t offset, std::size_t count) const {
    if (!data_ || offset > size_ || count > (size_ - offset) / sizeof(T) || offset % alignof(T) != 0) return nullptr;
    return reinterpret_cast<const T*>(data_ + offset);
  }

  const char* data_ = nullptr;
  std::size_t size_ = 0;
};

std::string demangled(std::string_view mangled) {
  const std::string text(mangled);
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(abi::__cxa_demangle(text.c_str(), nullptr, nullptr, &status),
                                                    std::free);
  std::string result = status == 0 ? name.get() : text;
  if (result.size() > kLongestName) {
    result.resize(kLongestName);
    result += "...";
  }
  return result;
}

/// What every recording goes through, and says nothing about where it was.
bool is_recording(std::string_view name) {
  for (const std::string_view inner : {"tendril::autograd::", "tendril::(anonymous namespace)::", "tendril::Ref<"}) {
    if (name.find(inner) != std::string_view::npos && name.find("tendril::") == name.find(inner)) return true;
  }
  return false;
}

}  // namespace

std::vector<void*> backtrace() {
  void* addresses[kDeepest];
  const int count = ::backtrace(addresses, kDeepest);
  return std::vector<void*>(addresses, addresses + count);
}

std::string describe(std::span<void* const> backtrace) {
  std::vector<std::string> lines;
  // The first line of those who called what records; a sanitizer's own function may stand before that.
  std::size_t outside = 0;
  bool recording = false;
  std::string opened;
  std::unique_ptr<ElfFile> file;
  for (void* const returns_to : backtrace) {
    const void* const call = static_cast<const char*>(returns_to) - 1;
    const Place place = place_of(call);
    if (place.file != opened) {
      file = std::make_unique<ElfFile>(place.file);
      opened = place.file;
    }
    const std::string name = file ? demangled(file->function_at(place.offset)) : "";
    const bool records = is_recording(name);
    if (recording && !records && outside == 0) outside = lines.size();
    recording = recording || records;
    char path[4096];
    const ssize_t length = place.file == "/proc/self/exe" ? readlink("/proc/self/exe", path, sizeof(path)) : -1;
    std::ostringstream out;
    out << "  " << (name.empty() ? "?" : name) << " ("
        << (length > 0 ? std::string(path, static_cast<std::size_t>(length)) : place.file) << "+0x" << std::hex
        << place.offset << ")\n";
    lines.push_back(out.str());
    if (name == "main") break;
  }
  return std::accumulate(lines.begin() + static_cast<std::ptrdiff_t>(outside), lines.end(), std::string());
}

}  // namespace tendril::autograd::detail

#else

namespace tendril::autograd::detail {
std::vector<void*> backtrace() { return {}; }
std::string describe(std::span<void* const>) { return {}; }
}  // namespace tendril::autograd::detail

#endif

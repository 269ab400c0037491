#include "tendril/rpc/wire/type_name.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>

namespace tendril::rpc {
namespace {

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

/// Removes every ", std::allocator<...>" and the spaces that follow it.
void drop_allocators(std::string& text) {
  static const std::string marker = ", std::allocator<";
  for (std::size_t at = text.find(marker); at != std::string::npos; at = text.find(marker, at)) {
    std::size_t end = at + marker.size();
    for (int depth = 1; depth > 0 && end < text.size(); ++end) depth += (text[end] == '<') - (text[end] == '>');
    while (end < text.size() && text[end] == ' ') ++end;
    text.erase(at, end - at);
  }
}

}  // namespace

std::string type_name(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> demangled(abi::__cxa_demangle(type.name(), nullptr, nullptr, &status),
                                                         std::free);
  std::string name = status == 0 ? demangled.get() : type.name();
  replace_all(name, "std::__cxx11::", "std::");
  replace_all(name, "std::basic_string<char, std::char_traits<char>, std::allocator<char> >", "std::string");
  drop_allocators(name);
  replace_all(name, " >", ">");
  return name;
}

}  // namespace tendril::rpc

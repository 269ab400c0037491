#include "tendril/rpc/call/function.h"

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <shared_mutex>
#include <sstream>
#include <unordered_map>
#include <utility>

#include "tendril/rpc/call/type_name.h"
#include "tendril/rpc/error.h"

namespace tendril::rpc {
namespace {

class Registry final : public FunctionTable {
 public:
  const ServedFunction* find(uint64_t id) const noexcept override {
    const std::shared_lock lock(mutex_);
    const auto found = entries_.find(id);
    return found == entries_.end() ? nullptr : &found->second->served;
  }

  void add(const detail::FunctionEntry& entry) {
    const std::unique_lock lock(mutex_);
    const auto [at, inserted] = entries_.emplace(entry.id, &entry);
    if (inserted || at->second->signature == entry.signature) return;
    std::fprintf(stderr, "tendril: two remote functions have the same id %016llx, rename one of them:\n  %s\n  %s\n",
                 static_cast<unsigned long long>(entry.id), at->second->signature.c_str(), entry.signature.c_str());
    std::abort();
  }

 private:
  mutable std::shared_mutex mutex_;
  std::unordered_map<uint64_t, const detail::FunctionEntry*> entries_;
};

Registry& registry() {
  static auto* instance = new Registry();  // never destroyed: handlers may still run while the program ends
  return *instance;
}

/// FNV-1a, then a finaliser (MurmurHash3's), so that the high bits depend on everything too.
uint64_t hash(std::string_view text) noexcept {
  uint64_t h = 0xCBF29CE484222325u;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  h = (h ^ (h >> 33)) * 0xFF51AFD7ED558CCDu;
  h = (h ^ (h >> 33)) * 0xC4CEB9FE1A85EC53u;
  return h ^ (h >> 33);
}

/// Whether the mangled name holds a function with internal linkage: in the Itanium ABI "L_Z" starts a function as a
/// template argument, and an L before its own name ("L_ZL3fun", or nested "L_ZN5spaceL3funE") marks it as static.
bool has_internal_linkage(std::string_view mangled) noexcept {
  if (mangled.find("_GLOBAL__N_") != mangled.npos) return true;
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  for (std::size_t at = mangled.find("L_Z"); at != mangled.npos; at = mangled.find("L_Z", at + 3)) {
    std::size_t i = at + 3;
    if (i < mangled.size() && mangled[i] == 'N') ++i;
    while (i < mangled.size()) {
      if (mangled[i] == 'L') return true;
      std::size_t length = 0;
      for (; i < mangled.size() && is_digit(mangled[i]); ++i) {
        length = 10 * length + static_cast<std::size_t>(mangled[i] - '0');
      }
      if (length == 0) break;  // no further plain name
      i += length;
    }
  }
  return false;
}

struct Names {
  std::string function, remedy;
};

/// "FreeFunction<&train>" -> "train" and "rpc::serve<&train>()"; "Constructor<Observer, int>" -> "Observer's
/// constructor" and "rpc::serve_constructor<Observer, int>()".
Names names_of(const std::type_info& callable) {
  const std::string name = type_name(callable);
  const std::size_t open = name.find('<'), close = name.rfind('>');
  if (open == name.npos || close == name.npos || close < open) return {name, "rpc::serve"};
  const std::string kind = name.substr(0, open);
  const std::string inside = name.substr(open + 1, close - open - 1);
  if (kind.ends_with("Fetch")) return {"RRef<" + inside + ">::to_here", "rpc::serve_to_here<" + inside + ">()"};

  std::size_t first_end = 0;  // of the first template argument
  for (int depth = 0; first_end < inside.size() && (inside[first_end] != ',' || depth > 0); ++first_end) {
    depth += (inside[first_end] == '<') - (inside[first_end] == '>');
  }
  const std::string first = inside.substr(0, first_end);
  if (kind.ends_with("Constructor")) return {first + "'s constructor", "rpc::serve_constructor<" + inside + ">()"};

  const bool method = kind.ends_with("Method");
  std::string function = inside;
  const std::size_t start = method ? inside.find(", &") : inside.find('&');
  if (start != inside.npos) function.erase(0, inside.find('&', start) + 1);
  if (function.starts_with('(') && function.ends_with(')')) function = function.substr(1, function.size() - 2);
  // A method that T inherits is served for T.
  const std::string of = method && !function.starts_with(first + "::") ? ", " + first : "";
  return {function,
          (kind.find("Creating") != kind.npos ? "rpc::serve_remote<&" : "rpc::serve<&") + function + of + ">()"};
}

}  // namespace

FunctionTable& served_functions() { return registry(); }

std::string describe_unserved(const ServedFunction& function) {
  return "it does not serve " + function.name + ": its program neither calls it nor says " + function.remedy;
}

std::string describe_unserved(FunctionId id) {
  return "it does not serve " + name_of_function(id) +
         ": its program neither calls it nor says rpc::serve, serve_remote, serve_constructor or serve_to_here";
}

std::string name_of_function(FunctionId id) {
  if (const ServedFunction* function = registry().find(id)) return function->name;
  std::ostringstream out;
  out << "function 0x" << std::hex << id;
  return out.str();
}

namespace detail {

FunctionEntry::FunctionEntry(const std::type_info& callable, const std::type_info& wire, void (*invoke)(InboundCall&),
                             bool may_park)
    : signature(std::string(callable.name()) + ' ' + wire.name()),
      id(hash(signature)),
      internal(has_internal_linkage(callable.name())) {
  Names names = names_of(callable);
  served.name = std::move(names.function);
  served.remedy = std::move(names.remedy);
  served.invoke = invoke;
  served.may_park = may_park;
}

bool register_function(const FunctionEntry& entry) {
  if (!entry.internal) registry().add(entry);
  return true;
}

void check_callable(const FunctionEntry& entry) {
  TENDRIL_CHECK_AS(UsageError, !entry.internal, entry.served.name,
                   " cannot be called remotely: it, or a type in its signature, is static or in an unnamed namespace, "
                   "so its name is not the same in every program");
}

}  // namespace detail
}  // namespace tendril::rpc

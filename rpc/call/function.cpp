#include "tendril/rpc/call/function.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <sstream>
#include <utility>
#include <vector>

#include "tendril/rpc/error.h"
#include "tendril/rpc/system/mutex.h"
#include "tendril/rpc/wire/type_name.h"

namespace tendril::rpc {
namespace {

using Entry = detail::FunctionEntry;

/// A hash table of functions by ID that is read without a lock: a place is filled once and then never changes. It uses
/// open addressing, and the ID is the hash.
class Places {
 public:
  explicit Places(std::size_t size) : places_(size) {}  // `size` is a power of two
  std::size_t size() const noexcept { return places_.size(); }
  const Entry* find(uint64_t id) const noexcept { return places_[place_of(id)].load(std::memory_order_acquire); }
  void add(const Entry& entry) noexcept { places_[place_of(entry.id)].store(&entry, std::memory_order_release); }
  void add_all_of(const Places& others) noexcept {
    for (const Place& place : others.places_) {
      if (const Entry* const entry = place.load(std::memory_order_relaxed)) add(*entry);
    }
  }

 private:
  using Place = std::atomic<const Entry*>;
  /// Returns the place of this ID, or the empty place where it would be added.
  std::size_t place_of(uint64_t id) const noexcept {
    std::size_t i = id & (places_.size() - 1);
    for (const Entry* entry; (entry = places_[i].load(std::memory_order_acquire)) && entry->id != id;) {
      i = (i + 1) & (places_.size() - 1);
    }
    return i;
  }
  std::vector<Place> places_;
};

/// All registered functions. Every request looks one up, without a lock. Tables that have been replaced by larger ones
/// are kept, because threads may still be reading them.
class Registry final : public FunctionTable {
 public:
  Registry() { grow(kLeast); }
  const ServedFunction* find(uint64_t id) const noexcept override {
    const Entry* const entry = places_.load(std::memory_order_acquire)->find(id);
    return entry ? &entry->served : nullptr;
  }

  void add(const Entry& entry) {
    const std::lock_guard lock(mutex_);
    if (const Entry* const same = all_.back()->find(entry.id)) {
      if (same->signature == entry.signature) return;
      std::fprintf(stderr, "tendril: two remote functions have the same id %016llx, rename one of them:\n  %s\n  %s\n",
                   static_cast<unsigned long long>(entry.id), same->signature.c_str(), entry.signature.c_str());
      std::abort();
    }
    if (2 * (size_ + 1) > all_.back()->size()) grow(2 * all_.back()->size());
    all_.back()->add(entry);
    ++size_;
  }

 private:
  static constexpr std::size_t kLeast = 64;

  void grow(std::size_t size) {
    auto larger = std::make_unique<Places>(size);
    if (!all_.empty()) larger->add_all_of(*all_.back());
    all_.push_back(std::move(larger));
    places_.store(all_.back().get(), std::memory_order_release);
  }

  detail::Mutex mutex_;  // held while a function is added
  std::vector<std::unique_ptr<Places>> all_;
  std::size_t size_ = 0;
  std::atomic<const Places*> places_{nullptr};
};

Registry& registry() {
  static auto* instance = new Registry();  // never destroyed: handlers may still run while the program exits
  return *instance;
}

/// FNV-1a followed by MurmurHash3's finaliser, so that the high bits depend on the whole text, too.
uint64_t hash(std::string_view text) noexcept {
  uint64_t h = 0xCBF29CE484222325u;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  h = (h ^ (h >> 33)) * 0xFF51AFD7ED558CCDu;
  h = (h ^ (h >> 33)) * 0xC4CEB9FE1A85EC53u;
  return h ^ (h >> 33);
}

/// Returns whether the mangled name contains a function with internal linkage. In the Itanium ABI, "L_Z" starts a
/// function that is a template argument, and an L before its own name ("L_ZL3fun", or nested "L_ZN5spaceL3funE") marks
/// it as static.
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

  std::size_t first_end = 0;  // where the first template argument ends
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
  // If T inherits the method, rpc::serve must also name T.
  const std::string of = method && !function.starts_with(first + "::") ? ", " + first : "";
  return {function,
          (kind.find("Creating") != kind.npos ? "rpc::serve_remote<&" : "rpc::serve<&") + function + of + ">()"};
}

}  // namespace

FunctionTable& served_functions() { return registry(); }

std::string describe_unserved(const ServedFunction& function) {
  return "it does not serve " + function.name + ": its program neither calls it nor registers it with " +
         function.remedy;
}

std::string describe_unserved(FunctionId id) {
  return "it does not serve " + name_of_function(id) +
         ": its program neither calls it nor registers it with rpc::serve, serve_remote, serve_constructor or "
         "serve_to_here";
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

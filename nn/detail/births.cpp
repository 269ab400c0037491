#include "tendril/nn/detail/births.h"

#include <map>
#include <mutex>

namespace tendril::nn::detail {
namespace {

struct Unregistered {
  Module* module;
  std::thread::id thread;
};

struct Births {
  std::mutex mutex;
  std::map<uint64_t, Unregistered> unregistered;
  uint64_t latest = 0;
};

/// Never destroyed: modules in static objects may go later.
Births& births() {
  static auto& all = *new Births;
  return all;
}

/// Takes the last of the names that "::" joins off `text`, and gives it without template arguments.
std::string_view take_last_name(std::string_view& text) {
  int depth = 0;
  std::size_t start = text.size();
  for (; start > 0; --start) {
    const char c = text[start - 1];
    if (c == '>') ++depth;
    if (c == '<') --depth;
    if ((c == ':' || c == ' ') && depth == 0) break;
  }
  const std::string_view name = text.substr(start);
  text = text.substr(0, start > 1 && text[start - 1] == ':' ? start - 2 : 0);
  return name.substr(0, name.find('<'));
}

}  // namespace

Birth born(Module& module) {
  Births& all = births();
  const std::lock_guard lock(all.mutex);
  const Birth birth{all.latest + 1, std::this_thread::get_id()};
  all.unregistered.emplace_hint(all.unregistered.end(), birth.number, Unregistered{&module, birth.thread});
  all.latest = birth.number;
  return birth;
}

uint64_t latest_birth() {
  Births& all = births();
  const std::lock_guard lock(all.mutex);
  return all.latest;
}

void belongs_elsewhere(const Birth& birth) {
  Births& all = births();
  const std::lock_guard lock(all.mutex);
  all.unregistered.erase(birth.number);
}

Module* forgotten_since(const Birth& birth, uint64_t last) {
  Births& all = births();
  const std::lock_guard lock(all.mutex);
  for (auto it = all.unregistered.upper_bound(birth.number); it != all.unregistered.end() && it->first <= last; ++it) {
    if (it->second.thread == birth.thread) return it->second.module;
  }
  return nullptr;
}

bool is_constructor(std::string_view text) {
  text = text.substr(0, text.find(" ["));  // "[with T = int]"
  if (!text.ends_with(')')) return false;
  int depth = 0;
  std::size_t start = text.size();
  do {  // back to where the parameters begin
    const char c = text[--start];
    if (c == ')') ++depth;
    if (c == '(') --depth;
  } while (depth > 0 && start > 0);
  text = text.substr(0, start);
  const std::string_view function = take_last_name(text), type = take_last_name(text);
  return !function.empty() && function == type;
}

}  // namespace tendril::nn::detail

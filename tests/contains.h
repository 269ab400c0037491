#pragma once

#include <ostream>
#include <string>

namespace tendril::test {

/// Whether a part is in a text: a bool of which a failed BOOST_TEST prints the text.
class Found {
 public:
  Found(const std::string& text, const std::string& part)
      : found_(text.find(part) != text.npos), said_("'" + part + "' in: " + text) {}

  operator bool() const { return found_; }
  friend std::ostream& operator<<(std::ostream& out, const Found& found) { return out << found.said_; }

 private:
  bool found_;
  std::string said_;
};

inline Found contains(const std::string& text, const std::string& part) { return {text, part}; }

}  // namespace tendril::test

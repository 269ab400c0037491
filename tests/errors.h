#pragma once

#include <exception>
#include <iostream>
#include <string>
#include <vector>

namespace tendril::testing {

/// For BOOST_CHECK_EXCEPTION: the message has each of the parts. `says("step", "float32")`
template <class... Parts>
auto says(const Parts&... wanted) {
  return [parts = std::vector<std::string>{std::string(wanted)...}](const std::exception& error) {
    const std::string message = error.what();
    for (const std::string& part : parts) {
      if (message.find(part) != std::string::npos) continue;
      std::cerr << "the message is '" << message << "', which lacks '" << part << "'\n";
      return false;
    }
    return true;
  };
}

}  // namespace tendril::testing

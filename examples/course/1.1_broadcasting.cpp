// Task 1.1: the broadcast sizes of two operands. dims.cpp, broadcast_shapes.
#include <tendril/tensor/dims.h>
#include <tendril/tensor/error.h>

#include "course.h"

using course::check;
using tendril::broadcast_shapes;
using tendril::Dims;

int main() {
  const auto gives = [](const Dims& a, const Dims& b, const Dims& expected) {
    std::ostringstream name;
    name << a << " and " << b << " give " << expected;
    check(name.str(), [&] { return course::same(broadcast_shapes(a, b, "add"), expected); });
  };
  gives({2, 3}, {2, 3}, {2, 3});
  gives({2, 3}, {1, 3}, {2, 3});
  gives({2, 1}, {1, 3}, {2, 3});
  gives({2, 3}, {3}, {2, 3});  // sizes are compared from the last one; a missing size counts as 1
  gives({}, {4, 1, 2}, {4, 1, 2});
  gives({0}, {1}, {0});  // a size of 1 becomes the other size, even if that is 0
  gives({5, 1, 0}, {3, 1}, {5, 3, 0});
  const auto refuses = [](const Dims& a, const Dims& b, const char* sizes, const char* dimension) {
    std::ostringstream name;
    name << a << " and " << b << " are rejected, and the error names the sizes";
    check(name.str(), [&]() -> std::string {
      try {
        broadcast_shapes(a, b, "add");
      } catch (const tendril::ShapeError& error) {
        const std::string text = error.what();
        if (text.find("add") != text.npos && text.find(sizes) != text.npos && text.find(dimension) != text.npos)
          return "";
        return "expected a message with the operation, \"" + std::string(sizes) + "\" and \"" + dimension +
               "\": " + text;
      }
      return "expected a ShapeError";
    });
  };
  refuses({2, 3}, {2, 4}, "3 and 4", "dimension 1");
  refuses({2, 3}, {2}, "3 and 2", "dimension 1");
  refuses({0, 3}, {2, 3}, "0 and 2", "dimension 0");
  return course::result();
}

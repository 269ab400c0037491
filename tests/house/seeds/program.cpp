// A program without Boost.Test that draws a number.
#include "tests/seed.h"

int main() {
  std::cout << "drawn: " << tendril::testing::test_seed() << '\n';
  tendril::testing::print_seed();
}

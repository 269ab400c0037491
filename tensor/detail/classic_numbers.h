#pragma once

#include <clocale>

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

/// A program may set a locale, as graphical ones do: printf then writes 1,5 in Germany, and strtod reads only that.
namespace tendril::detail {

/// While it lives, this thread's C functions write and read numbers as in C. Other threads notice nothing.
class ClassicNumbers {
 public:
  ClassicNumbers() noexcept : before_(::uselocale(classic())) {}
  ~ClassicNumbers() { ::uselocale(before_); }
  ClassicNumbers(const ClassicNumbers&) = delete;
  ClassicNumbers& operator=(const ClassicNumbers&) = delete;

 private:
  static locale_t classic() noexcept {
    static const locale_t made = ::newlocale(LC_ALL_MASK, "C", nullptr);
    return made;
  }

  locale_t before_;
};

}  // namespace tendril::detail

TENDRIL_API_END
